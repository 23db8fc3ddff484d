"""Vectors that PostgreSQL compares itself, in clear (vector_search = pgvector): what is found is the same, they are
gone with what they are of, whoever erases it, and they are there only while they are wanted.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
import pytest

from memoranda.backup import move_store
from memoranda.embedding.catalogue import EMBEDDER, load_embedder
from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput, StoreUnavailable
from memoranda.keys import MasterKeyFile
from memoranda.model.instant import Instant
from memoranda.opening import open_service
from memoranda.retrieval import vectors
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.settings import load_settings
from memoranda.storage.crypto.cipher import RingCipher
from memoranda.storage.engine.caches import Age
from memoranda.storage.postgres import pgvector
from memoranda.storage.postgres.database import PostgresDatabase
from memoranda.storage.postgres.keys import PostgresKeyRing
from memoranda.stores import open_database, settle_vectors
from tests.commands import command
from tests.embedders import LETTERS, SIZE, WORDS_ALONE, letters
from tests.postgres import server
from tests.service.world import World
from tests.waiting import until

pytestmark = pytest.mark.pgvector
# How far apart a score is that the database has a part in: the same numbers, added up in another order.
SCORES_APART: Final = 1e-5
NOTES: Final = tuple(
    f"{who} {what}"
    for who in ("Ada", "Bob", "the harbour office", "the crane", "our build")
    for what in (
        "likes green tea",
        "opens at nine",
        "broke on Thursday",
        "is painted blue",
        "needs two keys",
        "is late",
    )
)
QUESTIONS: Final = (
    "who drinks something warm",
    "what colour is it",
    "when does work begin",
    "what is broken",
    "tea",
    "keys",
)


@pytest.fixture
def address() -> Iterator[str]:
    with server().database() as found:
        server().add_pgvector(_name(found))
        yield found


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _name(address: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(address)["dbname"])


def _node(
    opened: ExitStack,
    address: str,
    *,
    is_clear: bool = True,
    meaning: SemanticSearch | None = None,
    home: Path | None = None,
) -> World:
    """One of several machines; with its data directory, one that encrypts everything."""
    cipher = home and RingCipher(PostgresKeyRing(address), MasterKeyFile(home / "master.key"), "all")
    database = PostgresDatabase(address, has_clear_vectors=is_clear)
    world = World(database=database, meaning=meaning or letters(), cipher=cipher or None)
    opened.callback(world.service.close)
    return world


def _work_off(world: World) -> None:
    while world.service.embedding.step():
        pass


def _ask(address: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server().address(_name(address), None), autocommit=True) as raw:
        done = raw.execute(sql)
        return [] if done.description is None else done.fetchall()


def _count(address: str) -> int:
    return int(_ask(address, "SELECT count(*) FROM clear_vector")[0][0])


def _answers(world: World, question: str, **more: Any) -> list[tuple[str, float]]:
    return [(each.record["body"]["text"], each.score) for each in world.recall(question, limit=20, **more)]


def _same(one: World, other: World, **more: Any) -> None:
    for question in QUESTIONS:
        here, there = _answers(one, question, **more), _answers(other, question, **more)
        assert [text for text, _ in here] == [text for text, _ in there], question
        assert all(abs(a - b) <= SCORES_APART for (_, a), (_, b) in zip(here, there, strict=True)), question


def _is_asked(world: World) -> bool:
    """Whether this process keeps no numbers, but only where they stand."""
    kept = world.engine._memory.vectors._entries
    return bool(kept) and all(type(known) is vectors.VectorPositions for _, known in kept.values())


# --- the same is found ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "meaning", [letters(), SemanticSearch(EMBEDDER.model, load_embedder)], ids=["letters", "model"]
)
def test_the_same_is_found_in_the_same_order_as_in_process(
    address: str, opened: ExitStack, meaning: SemanticSearch
) -> None:
    clear, other = (_node(opened, address, is_clear=each, meaning=meaning) for each in (True, False))
    for number, text in enumerate(NOTES):
        scope = {"project": f"p{number % 3}", "session": f"s{number % 4}"} if number % 5 else {}
        clear.remember(text, kind="semantic" if number % 2 else "procedural", scope=scope)
        clear.now = Instant(clear.now + 1)
    _work_off(clear)
    assert _count(address) == len(NOTES)
    other.now = clear.now
    _same(clear, other)
    _same(clear, other, scope={"project": "p1"})
    _same(clear, other, filter={"kind": ["procedural"]})
    assert _is_asked(clear)
    assert not _is_asked(other)


def test_of_many_the_nearest_are_those_that_are_nearest_of_what_may_be_seen(
    address: str, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "NEAREST_BY_SIGNS", 4)
    here, there = (_node(opened, address, is_clear=each) for each in (True, False))
    for text in NOTES:
        here.remember(text)
    _work_off(here)
    rows = _ask(address, "SELECT version_id FROM version ORDER BY version_id")
    everything = np.array([number for (number,) in rows], np.int64)
    for question in QUESTIONS:
        vector = LETTERS.of_question(question)
        # Of all, of most, of few.
        for shown in (slice(None), slice(1, None), slice(0, 30, 5)):
            mask = np.zeros(len(everything), np.bool_)
            mask[shown] = True
            with _vectors(there) as held:
                standing = held.lookup(everything, mask)
                none = np.zeros(len(standing.vector_rows), np.bool_)
                own, _ = held.cosines(np.stack((vector, vector)), standing.vector_rows, none)
            with _vectors(here) as clear:
                (found,) = clear.nearest(vector, [clear.lookup(everything, mask)])
            near = np.isin(standing.rows, found.rows)
            assert np.count_nonzero(near) == 4
            assert own[0][near].min() >= own[0][~near].max() - SCORES_APART, question


@contextmanager
def _vectors(world: World) -> Iterator[Any]:
    """All vectors of the owner, wherever they are compared."""
    tenant = world.owner.default_tenant
    with world.engine._database.open_snapshot(tenant) as connection:
        whose = (connection, tenant, connection.memo[tenant][0])
        yield world.engine._memory.vectors.matrix(*whose, LETTERS.model, SIZE, Age(0, 0), world.engine._cipher)


def test_a_node_follows_what_another_writes_and_erases(address: str, opened: ExitStack) -> None:
    here, there = (_node(opened, address) for _ in range(2))
    first = here.remember("the kettle is blue")
    _work_off(here)
    assert _answers(there, "the blue kettle")
    here.remember("the kettle is red")
    _work_off(here)
    assert len(_answers(there, "the kettle")) == 2
    here.forget(first, hard=True)
    assert [text for text, _ in _answers(there, "the kettle")] == ["the kettle is red"]
    assert _is_asked(there)


# --- gone with what they are of ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_clear", [True, False], ids=["told", "not told"])
def test_what_is_erased_is_erased_there_by_whichever_node(address: str, opened: ExitStack, is_clear: bool) -> None:
    clear = _node(opened, address)
    first, second = (clear.remember(text, scope={"session": "s"}) for text in ("the kettle is blue", "so is the cup"))
    clear.now = Instant(clear.now + 1)
    third = clear.remember("and the pot", scope={"session": "s"})
    _work_off(clear)
    ((begins,),) = _ask(address, "SELECT count(*) FROM clear_vector WHERE context_id > 0 AND second IS NOT NULL")
    assert (_count(address), begins) == (3, 2)
    node = _node(opened, address, is_clear=is_clear)
    node.forget(second, hard=True)
    # What was said before is in the vector of the next one, too.
    left = _ask(address, "SELECT context_id, second IS NULL FROM clear_vector ORDER BY place")
    assert left[-1] == (-1, True)
    node.forget(first, hard=True)
    node.forget(third, hard=True)
    assert _count(address) == 0


def test_what_another_erases_at_the_same_moment_is_not_copied(address: str, opened: ExitStack) -> None:
    before = _node(opened, address, is_clear=False)
    before.remember("the kettle is blue")
    _work_off(before)
    clear = _node(opened, address)
    with psycopg.connect(server().address(_name(address), None)) as eraser:
        eraser.execute("UPDATE vector SET version_id = 0, data = ''::bytea")
        copying = threading.Thread(target=lambda: _work_off(clear))
        copying.start()
        until(lambda: _ask(address, _WAITING) == [(1,)], "it waits for whoever erases")
        eraser.commit()
        copying.join()
    assert _count(address) == 0


_WAITING: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def test_a_key_that_is_destroyed_takes_them_along(address: str, opened: ExitStack, tmp_path: Path) -> None:
    clear = _node(opened, address, home=tmp_path)
    for user in ("did:key:ada", "did:key:bob"):
        clear.remember(f"{user} likes tea", scope={"user": user})
    _work_off(clear)
    keys = _ask(address, "SELECT key_id FROM clear_vector ORDER BY place")
    assert len(set(keys)) == 2
    ((holder,),) = _ask(address, f"SELECT holder FROM data_key WHERE key_id = '{keys[0][0]}'")
    with closing(PostgresKeyRing(address)) as ring:
        assert ring.destroy(holder)
    assert _ask(address, "SELECT key_id FROM clear_vector") == keys[1:]
    # Nor is it copied from what cannot be opened any more.
    _ask(address, "TRUNCATE clear_vector; UPDATE clear_progress SET place = 0, filled = 0 WHERE model_id > 0")
    again = _node(opened, address, home=tmp_path)
    _work_off(again)
    assert _ask(address, "SELECT key_id FROM clear_vector") == keys[1:]


def test_a_model_that_is_dropped_takes_them_along(address: str, opened: ExitStack) -> None:
    clear = _node(opened, address)
    clear.remember("the kettle is blue")
    _work_off(clear)
    while clear.engine.vectors.delete_model(LETTERS.model, 10):
        pass
    assert _count(address) == 0
    assert _ask(address, "SELECT model_id FROM clear_progress") == [(0,)]


def test_they_are_neither_moved_nor_backed_up(address: str, opened: ExitStack, tmp_path: Path) -> None:
    clear = _node(opened, address)
    clear.remember("the kettle is blue")
    _work_off(clear)
    move_store(address, f"sqlite:///{tmp_path / 'moved.db'}")
    with closing(sqlite3.connect(tmp_path / "moved.db")) as moved:
        tables = {name for (name,) in moved.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert moved.execute("SELECT count(*) FROM vector").fetchall() == [(1,)]
    assert not [name for name in tables if name.startswith("clear_")]


# --- whose they are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_superuser", [False, True])
def test_a_query_that_names_no_tenant_gets_none_of_them(address: str, opened: ExitStack, is_superuser: bool) -> None:
    who = server().address(_name(address), None) if is_superuser else address
    clear = _node(opened, who)
    clear.remember("the kettle is blue")
    _work_off(clear)
    assert _answers(clear, "the blue kettle")
    assert _is_asked(clear)
    own = clear.owner.default_tenant
    for tenant, expected in ((own, 1), ("another", 0)):
        with clear.engine._database.open_snapshot(tenant) as connection:
            assert connection.select("SELECT count(*) FROM clear_vector", ()) == [(expected,)]
    with psycopg.connect(who) as raw:
        if is_superuser:
            raw.execute("SET ROLE memoranda_bound")
        assert raw.execute("SELECT count(*) FROM clear_vector").fetchone() == (0,)
    first = "SELECT pg_get_indexdef('clear_vector_pkey'::regclass, 1, true)"
    assert _ask(address, first) == [("tenant_id",)]


# --- on, off, and where it cannot be had ---------------------------------------------------------------------


def test_a_store_that_has_vectors_is_filled_from_where_it_was_interrupted(
    address: str, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _node(opened, address, is_clear=False)
    for text in NOTES:
        before.remember(text)
    _work_off(before)
    monkeypatch.setattr(pgvector, "COPIED_LIMIT", 7)
    for copied in (7, 14):
        with closing(PostgresDatabase(address, has_clear_vectors=True)) as database:
            world = World(database=database, meaning=letters())
            assert world.service.embedding.step()
            assert _count(address) == copied
            # Until all are there, those that are encrypted are compared.
            _same(world, before)
            assert not _is_asked(world)
    clear = _node(opened, address)
    _work_off(clear)
    assert _count(address) == len(NOTES)
    _same(clear, before)
    assert _is_asked(clear)


def test_they_are_removed_by_a_server_that_does_not_want_them(address: str, opened: ExitStack, tmp_path: Path) -> None:
    clear, other = (_node(opened, address, is_clear=each) for each in (True, False))
    for text in NOTES:
        clear.remember(text)
    _work_off(clear)
    wanted = load_settings(WORDS_ALONE, home=tmp_path, store=address, vector_search="pgvector")
    assert not settle_vectors(wanted)
    _same(clear, other)
    unwanted = load_settings(WORDS_ALONE, home=tmp_path, store=address)
    assert settle_vectors(unwanted)
    assert not settle_vectors(unwanted)
    # One that was started before goes on without them, and makes no new ones.
    clear.remember("the kettle is blue")
    _work_off(clear)
    assert _count(address) == 0
    _same(clear, other)
    with closing(open_database(wanted)):
        pass
    _work_off(clear)
    assert _count(address) == len(NOTES) + 1


def test_whoever_removes_the_tables_as_the_page_says_can_erase_and_begin_anew(address: str, opened: ExitStack) -> None:
    with ExitStack() as before:
        clear = _node(before, address)
        first, second = clear.remember("the kettle is blue"), clear.remember("the kettle is red")
        _work_off(clear)
    page = (Path(__file__).parents[2] / "docs" / "howto" / "postgresql.md").read_text()
    (dropping,) = re.findall(r"```sql\n(DROP [^`]*clear_vector[^`]*)```", page)
    _ask(address, dropping)
    left = _node(opened, address, is_clear=False)
    left.forget(first, hard=True)
    assert [text for text, _ in _answers(left, "the kettle")] == ["the kettle is red"]
    again = _node(opened, address)
    _work_off(again)
    assert _count(address) == 1
    again.forget(second, hard=True)
    assert _count(address) == 0


def test_a_server_that_reads_a_standby_leaves_them_to_the_others(
    address: str, opened: ExitStack, tmp_path: Path
) -> None:
    clear = _node(opened, address)
    clear.remember("the kettle is blue")
    _work_off(clear)
    clear.service.close()
    _ask(address, f"ALTER DATABASE {_name(address)} SET default_transaction_read_only = on")
    try:
        reading = f"{address}&target_session_attrs=any"
        assert not settle_vectors(load_settings(WORDS_ALONE, home=tmp_path, store=reading))
        for is_clear in (True, False):
            there = _node(opened, reading, is_clear=is_clear)
            assert _answers(there, "the blue kettle")
            assert _is_asked(there) == is_clear
    finally:
        _ask(address, f"BEGIN READ WRITE; ALTER DATABASE {_name(address)} RESET ALL; COMMIT")
    assert _count(address) == 1


def test_doctor_tells_of_them(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def findings() -> dict[str, dict[str, Any]]:
        done = command("--data", str(tmp_path), "--store", address, "--json", "doctor")
        return {each["what"]: each for each in parse(done.out)["findings"]}

    monkeypatch.setenv("MEMORANDA_VECTOR_SEARCH", "pgvector")
    settings = load_settings({**WORDS_ALONE, "MEMORANDA_VECTOR_SEARCH": "pgvector"}, home=tmp_path, store=address)
    with closing(open_service(settings, embedder=LETTERS)) as service:
        me = service.gate.local()
        provenance = {"actor": me.default_tenant, "actor_kind": "user", "method": "test"}
        draft = {"kind": "semantic", "body": {"text": "tea"}, "scope": {"owner": me.default_tenant}}
        service.remember(me, {**draft, "provenance": provenance})
        while service.embedding.step():
            pass
    found = findings()["unencrypted vectors"]
    assert found["ok"]
    assert found["seen"].startswith("1 of 1 for pgvector 0.")
    _ask(address, "UPDATE clear_vector SET version_id = 99")
    assert findings()["unencrypted vectors"]["seen"] == "1 belong to deleted memories"
    monkeypatch.delenv("MEMORANDA_VECTOR_SEARCH")
    found = findings()["unencrypted vectors"]
    assert not found["ok"]
    assert "though vector_search is process" in found["seen"]


def test_where_it_cannot_be_had_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_VECTOR_SEARCH", "pgvector")
    bare = server().scratch()
    # As on a server on which nobody has installed it.
    _ask(server().address(bare), f"ALTER DATABASE {bare} SET extension_control_path = '/nowhere'")
    with pytest.raises(StoreUnavailable, match=r"has no pgvector: install 0\.7 or later"):
        PostgresDatabase(server().address(bare), has_clear_vectors=True)
    done = command("--data", str(tmp_path), "--store", server().address(bare), "--json", "doctor")
    (found,) = [each for each in parse(done.out)["findings"] if each["what"] == "store"]
    assert not found["ok"]
    assert "install 0.7 or later" in found["seen"]
    _ask(server().address(bare), f"ALTER DATABASE {bare} RESET extension_control_path")
    with pytest.raises(StoreUnavailable, match="let one call `CREATE SCHEMA IF NOT EXISTS pgvector"):
        PostgresDatabase(server().address(bare), has_clear_vectors=True)
    # A superuser is not asked to be one.
    PostgresDatabase(server().address(bare, None), has_clear_vectors=True).close()
    with pytest.raises(InvalidInput, match="only a store on PostgreSQL"):
        open_database(load_settings({"MEMORANDA_VECTOR_SEARCH": "pgvector"}, home=tmp_path))


def test_a_store_is_not_made_where_pgvector_has_the_name_of_a_table(opened: ExitStack) -> None:
    address = server().address(server().scratch())
    _ask(address, "CREATE EXTENSION vector")
    with pytest.raises(StoreUnavailable, match="ALTER EXTENSION vector SET SCHEMA"):
        PostgresDatabase(address)
    _ask(address, "CREATE SCHEMA elsewhere; GRANT USAGE ON SCHEMA elsewhere TO PUBLIC")
    _ask(address, "ALTER EXTENSION vector SET SCHEMA elsewhere")
    clear = _node(opened, address)
    clear.remember("the kettle is blue")
    _work_off(clear)
    assert _answers(clear, "the blue kettle")
    assert _is_asked(clear)
