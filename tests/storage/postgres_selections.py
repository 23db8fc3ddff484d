"""The SQL that selections become: recorded as it is sent, and explained with statistics of many owners.

Every filter in every order, with all that a page, a count, groups and a search ask for, as a store of that size is read
and as if it were one of millions (`Paging.limits`). Run by `make test-postgres`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from memoranda.model.instant import Instant
from memoranda.model.selection import (
    UPDATED,
    WRITTEN,
    Compares,
    InGroup,
    IsAmong,
    IsNoneOf,
    IsOneOf,
    KeywordQuery,
    Lacks,
    Order,
    Selection,
    Test,
    VisibleToRun,
)
from memoranda.retrieval import vectors
from memoranda.storage.engine.database import Params, Row, load_queries
from memoranda.storage.engine.paging import Paging, PagingLimits
from memoranda.storage.postgres.server import PostgresConnection
from tests.embedders import letters
from tests.postgres import server
from tests.service.world import World
from tests.storage.postgres_catalogue import Filled, Planner

# Every way is taken over a few rows.
FAR: Final = PagingLimits((1, 2), 1, 0, 2, 4, 0)
FILTERS: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "a standing": {"status_filter": "unforgotten"},
    "all that was": {"status_filter": "all"},
    "in force": {"in_force": True},
    "another time": {"at": Instant(1_780_000_000_000)},
    "both times": {"at": Instant(1_780_000_000_000), "known_at": Instant(1_780_000_000_000)},
    "statuses": {"statuses": ("active", "candidate")},
    "kinds": {"kinds": ("semantic", "episodic")},
    "visibilities": {"visibilities": ("private",)},
    "a space": {"space": "shop"},
    "a space or none": {"space": "shop", "or_no_space": True},
    "a user": {"user": "ada"},
    "an agent": {"agent": "bot"},
    "a session": {"session": "s1"},
    "a standard": {"standard": "oms"},
    "tags": {"tags": ("port", "heavy")},
    "since": {"since": Instant(1), "until": Instant(1 << 50)},
    "exportable": {"exportable": True},
    "redacted": {"redacted": True},
    "whole": {"redacted": False},
}
OF_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "fields": {},
    "a form": {"form": "belief"},
    "a subject": {"subject": "ada"},
    "a relation": {"relation": "likes"},
    "an object": {"object": "tea"},
    "a triple": {"subject": "ada", "relation": "likes", "object": "tea"},
    "current fields": {"status_filter": "current"},
    "a subject in a session": {"subject": "ada", "session": "s1"},
}
TESTS: Final[dict[str, Test]] = {
    "one of": IsOneOf(name="subject", texts=("ada", "bob")),
    "one of, or missing": IsOneOf(name="subject", texts=("ada",), or_missing=True),
    "none of": IsNoneOf(name="object", texts=("tea",)),
    "one of a facet": IsOneOf(name="source_type", texts=("llm",)),
    "one of a facet, or missing": IsOneOf(name="source_type", texts=("llm",), or_missing=True),
    "none of a facet": IsNoneOf(name="source_type", texts=("llm",)),
    "one of several of a facet": IsOneOf(name="source_type", texts=("llm", "user")),
    "a verification": IsOneOf(name="verification", texts=("verified",)),
    "users": IsOneOf(name="user", texts=("ada", "bob")),
    "a confidence": Compares(name="confidence", operator=">=", number=0.5),
    "another confidence": Compares(name="confidence", operator="!=", number=0.5),
    "a time": Compares(name="at", operator="<", number=1e15),
    "a measure": Compares(name="priority", operator=">", number=1),
    "no importance": Lacks(name="importance"),
    "a group": InGroup(name="relation", key=b"k"),
    "no group": InGroup(name="session", key=None),
    "some": IsAmong(version_ids=(1, 2, 3)),
    "some or a verification": IsAmong(version_ids=(1, 2), or_verification="verified"),
    "all but some": IsAmong(version_ids=(1, 2), negated=True),
    "a run": VisibleToRun(run_id="r", version_seq=9),
}
BY_FIELD: Final = tuple(
    Order(by=by, descending=descending)
    for by in ("address", "at", "confidence", "importance")
    for descending in (False, True)
)


# How near everything is, how near some are, and what is nearest of much.
NEAR: Final = ("clear_cosines", "clear_cosines_of", "clear_nearest")


def selections() -> Iterator[tuple[str, Selection]]:
    for name, parts in FILTERS.items():
        yield name, Selection(**parts)
    fields: dict[str, Any] = {"has_fields": True, "space": ""}
    for name, parts in OF_FIELDS.items():
        yield name, Selection(**{**fields, **parts})
    for name, test in TESTS.items():
        yield f"{name} here", Selection(**fields, tests=(test,))
        yield f"{name} anywhere", Selection(has_fields=True, tests=(test,))


@pytest.fixture(scope="module")
def sent() -> dict[str, str]:
    """Each SQL that is sent, with the name of the selection that sends it first.

    The selections are listed, counted, grouped, and searched by keywords and by vectors, which pgvector compares where
    the server has it.
    """
    world = World(database=server().store(None, has_clear_vectors=server().offers_pgvector()), meaning=letters())
    for number in range(12):
        world.put(object=f"tea {number}", structural_tags=["port", "heavy"], user_id="ada", session_id="s1")
        world.remember(f"the crane lifts {number} tons", scope={"project": "shop", "user": "ada", "session": "s1"})
    while world.service.embedding.step() or world.service.embedding.progress().is_behind:
        pass
    # A model belongs to no owner.
    known = {*load_queries("postgres").values(), load_queries("pgvector")["clear_model"]}
    names: dict[str, str] = {}
    select_usually, usual_limits = PostgresConnection.select, Paging.limits
    current = [""]

    def select(self: PostgresConnection, sql: str, params: Params) -> list[Row]:
        # A notification reads no table.
        if sql not in known and "FROM" in sql:
            names.setdefault(sql, current[0])
        return select_usually(self, sql, params)

    PostgresConnection.select = select  # type: ignore[method-assign]
    limits = vectors.EXACT_LIMIT, vectors.NEAREST_BY_SIGNS
    try:
        for Paging.limits in (usual_limits, FAR):
            vectors.EXACT_LIMIT, vectors.NEAREST_BY_SIGNS = (4, 4) if Paging.limits is FAR else limits  # type: ignore[misc]
            with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
                for current[0], selection in selections():
                    orders = (WRITTEN, UPDATED, *(BY_FIELD if selection.has_fields else ()))
                    for order in orders:
                        snapshot.load_counted_page(selection, order, limit=2, now=world.now)
                        after = (world.now, 9) if order in (WRITTEN, UPDATED) else None
                        snapshot.load_page(selection, order, limit=2, now=world.now, after=after)
                    snapshot.count(selection, now=world.now)
                    for by in ("form", "subject", "relation", "session", "verification"):
                        snapshot.count_groups(selection, by, now=world.now)
                    snapshot.match(selection, (KeywordQuery(text="crane tea"),), limit=3, now=world.now)
                    snapshot.match(selection, (KeywordQuery(text="tea"),), limit=3, now=world.now, count_all=True)
                    retrievers = world.context.semantic_search.create_retriever_queries(
                        KeywordQuery(text="what is lifted")
                    )
                    for is_whole in (False, True):
                        snapshot.match(selection, retrievers, limit=3, now=world.now, count_all=is_whole)
    finally:
        PostgresConnection.select, Paging.limits = select_usually, usual_limits  # type: ignore[method-assign]
        vectors.EXACT_LIMIT, vectors.NEAREST_BY_SIGNS = limits  # type: ignore[misc]
    world.service.close()
    return names


@pytest.fixture(scope="module")
def filled() -> Filled:
    name, is_clear = server().scratch(), server().offers_pgvector()
    if is_clear:
        server().add_pgvector(name)
    return Filled(server().address(name), server().address(name, None), is_clear=is_clear)


@pytest.fixture(scope="module")
def plans(filled: Filled, sent: dict[str, str]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """The name of each selection, its SQL, and the nodes of its plan."""
    with closing(Planner(filled.address, "search_path = public, pgvector")) as planner:
        return [(name, sql, planner.nodes(sql)) for sql, name in sent.items()]


def test_every_selection_is_sent_and_they_are_many(sent: dict[str, str]) -> None:
    # One that several selections send is named after the first.
    assert len(sent) > 1_000
    assert all("tenant_id" in sql for sql in sent)


@pytest.mark.pgvector
def test_every_question_about_vectors_in_clear_is_sent(sent: dict[str, str]) -> None:
    queries = load_queries("pgvector")
    assert {name for name in ("clear_after", *NEAR) if queries[name] not in sent} == set()


def test_no_selection_reads_a_table_of_owners_from_end_to_end(
    plans: list[tuple[str, str, list[dict[str, Any]]]], filled: Filled
) -> None:
    read = [
        (name, sql)
        for name, sql, nodes in plans
        for node in nodes
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in filled.owned
    ]
    assert read == []


def test_every_index_that_a_selection_reads_is_read_for_one_owner(
    plans: list[tuple[str, str, list[dict[str, Any]]]],
) -> None:
    read = [
        (name, node["Index Name"], sql)
        for name, sql, nodes in plans
        for node in nodes
        # By its number a version is found alone, whosever it is.
        if "Index" in node["Node Type"]
        and not re.search(r"\btenant_id = |^\(version_id = ", str(node.get("Index Cond", "")))
    ]
    assert read == []
