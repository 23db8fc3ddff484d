"""Whoever sees only a part, or only writes: no verb of any standard tells them of the rest, and none changes it.

Verbs that belong to an owner as a whole refuse these callers by their table. Every other verb is asked here, about each
memory by its own names, so that a new one has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from memoranda.encoding.shapes import parse_value
from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.selection import Selection
from memoranda.service.cal.cal import Cal
from memoranda.service.core.access import ALL_VERBS, Access
from memoranda.service.core.verbs import Verb
from memoranda.service.exchange.importing import number_items
from memoranda.service.oams.oams import Oams
from memoranda.service.oms.oms import Grains
from memoranda.service.openwop.openwop import Openwop
from memoranda.service.ump.ump import Ump
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oams.requests import DreamRequest, ListRequest
from memoranda.standards.oams.requests import RecallRequest as OamsRecallRequest
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump.requests import (
    AuditRequest,
    FeedbackRequest,
    ForgetRequest,
    RecallRequest,
    RehydrateRequest,
    ReviseRequest,
)
from tests.matrix.doors import SPACE, WRITES, House, texts
from tests.service.world import PEER, grain

WORD = "zanzibar"
TABLES: Mapping[str, type] = {"ump": Ump, "oams": Oams, "grains": Grains, "cal": Cal, "openwop": Openwop}
Names = Mapping[str, str]
# A verb asked by somebody about one memory.
Call = Callable[[House, Access, Names], object]
RECENT = "RECALL RECENT 50"

_GRANTED = ("read", "write", "derive", "export")
CALLERS: Mapping[str, Callable[[House], Access]] = {
    "for one agent": lambda house: house.token(*_GRANTED, agent="a1"),
    "for what is public": lambda house: house.token(*_GRANTED, visibility="public"),
    "for another project": lambda house: house.token(*_GRANTED, project="elsewhere"),
    "a peer": lambda house: house.token(*_GRANTED, audience=PEER.did),
    "another owner": lambda house: house.key("did:web:stranger.example", *ALL_VERBS),
}
# Whom a table lets write, and not read.
BLIND: Mapping[str, Callable[[House], Access]] = {
    "who only writes": lambda house: house.token("write"),
    "who only derives": lambda house: house.token("derive"),
}


def _claimed(house: House) -> dict[str, str]:
    return {"owner": house.tenant, "project": SPACE}


def _grain(house: House) -> dict[str, Any]:
    return grain(house.now, subject="house", relation="says", object="x", namespace=SPACE)


UMP: Mapping[str, Call] = {
    "remember": lambda house, who, names: house.service.remember(who, house.draft("x", scope=_claimed(house))),
    "with_defaults": lambda house, who, names: house.service.with_defaults(who, {"body": {"text": "x"}}, method="test"),
    "recall": lambda house, who, names: house.service.recall(who, RecallRequest.parse({"query": WORD})),
    "recall_bare": lambda house, who, names: house.service.recall_bare(
        who, RecallRequest.parse({"query": WORD, "scope": _claimed(house)})
    ),
    "for_prompt": lambda house, who, names: house.service.for_prompt(who, RehydrateRequest.parse({"query": WORD})),
    "framed": lambda house, who, names: house.service.framed(who, []),
    "get": lambda house, who, names: house.service.get(who, names["ump"]),
    "history": lambda house, who, names: house.service.history(who, names["ump"]),
    "history_page": lambda house, who, names: house.service.history_page(who, names["ump"]),
    "list_records": lambda house, who, names: house.service.list_records(who, project=SPACE),
    "short_ids": lambda house, who, names: house.service.short_ids(who, [names["ump"]]),
    "seen_as": lambda house, who, names: house.service.seen_as(who, names["ump"]),
    "origins": lambda house, who, names: house.service.origins(who, names["ump"]),
    "similar": lambda house, who, names: house.service.similar(who, names["ump"]),
    "revise": lambda house, who, names: house.service.revise(
        who, ReviseRequest.parse({"id": names["ump"], "patch": {"body": {"text": "x"}}})
    ),
    "change": lambda house, who, names: house.service.change(who, names["ump"], "x"),
    "stats": lambda house, who, names: house.service.stats(who),
    "projects": lambda house, who, names: house.service.projects(who),
    "elsewhere": lambda house, who, names: house.service.elsewhere(
        who, RecallRequest.parse({"query": WORD, "scope": {"project": "nowhere"}})
    ),
    "forget": lambda house, who, names: house.service.forget(who, ForgetRequest.parse({"id": names["ump"]})),
    "forget_many": lambda house, who, names: house.service.forget_many(who, [names["ump"]]),
    "feedback": lambda house, who, names: house.service.feedback(
        who, FeedbackRequest.parse({"id": names["ump"], "outcome": "followed"})
    ),
    "allow_orders": lambda house, who, names: house.service.allow_orders(who, names["ump"]),
    "redact": lambda house, who, names: house.service.redact(who, names["ump"]),
    "feed_end": lambda house, who, names: house.service.feed_end(who, _claimed(house)),
    "changes": lambda house, who, names: house.service.changes(who, _claimed(house), 0),
    "audit": lambda house, who, names: house.service.audit(who, AuditRequest.parse({})),
    "audit_verify": lambda house, who, names: house.service.audit_verify(who, owner=house.tenant),
    "audit_prune": lambda house, who, names: house.service.audit_prune(who, Instant(house.now + 1), owner=house.tenant),
    "export": lambda house, who, names: list(house.service.export(who, owner=house.tenant)),
    "export_page": lambda house, who, names: house.service.export_page(who, owner=house.tenant),
    "import_items": lambda house, who, names: house.service.import_items(
        who, number_items("ump", [house.draft("x", scope=_claimed(house))])
    ),
    "import_part": lambda house, who, names: house.service.import_part(
        who, number_items("ump", [house.draft("x", scope=_claimed(house))]), label=None
    ),
    "verify": lambda house, who, names: house.service.verify(who, owner=house.tenant),
}
OAMS: Mapping[str, Call] = {
    "store": lambda house, who, names: house.service.oams.store(who, house.oams.memory(names["oams"], "x")),
    "batch_store": lambda house, who, names: house.service.oams.batch_store(
        who, [house.oams.memory(names["oams"], "x")]
    ),
    "recall": lambda house, who, names: house.service.oams.recall(
        who, OamsRecallRequest.parse({"namespace": house.oams.namespace, "query": WORD})
    ),
    "list_memories": lambda house, who, names: house.service.oams.list_memories(
        who, ListRequest.parse({"namespace": house.oams.namespace})
    ),
    "get": lambda house, who, names: house.service.oams.get(who, parse_namespace(house.oams.namespace), names["oams"]),
    "forget": lambda house, who, names: house.service.oams.forget(
        who, parse_namespace(house.oams.namespace), names["oams"]
    ),
    "namespace": lambda house, who, names: house.service.oams.namespace(who, house.oams.namespace),
    "namespaces": lambda house, who, names: house.service.oams.namespaces(who),
    "export": lambda house, who, names: list(house.service.oams.export(who)),
    "export_page": lambda house, who, names: house.service.oams.export_page(who, parse_namespace(house.oams.namespace)),
    "consolidate": lambda house, who, names: house.service.oams.consolidate(
        who, parse_namespace(house.oams.namespace), "synthesize", is_dry=True
    ),
    "refuse": lambda house, who, names: house.service.oams.refuse(
        who, parse_namespace(house.oams.namespace), "synthesize", [names["oams"]]
    ),
    "dream": lambda house, who, names: house.service.oams.dream(
        who, DreamRequest.parse({"namespace": house.oams.namespace, "strategy": "synthesize"})
    ),
    "dream_runs": lambda house, who, names: house.service.oams.dream_runs(who),
    "undo": lambda house, who, names: house.service.oams.undo(who, "dream-1"),
}
GRAINS: Mapping[str, Call] = {
    "put": lambda house, who, names: house.service.grains.put(who, _grain(house), owner=house.tenant),
    "get": lambda house, who, names: house.service.grains.get(who, names["oms"]),
    "release": lambda house, who, names: house.service.grains.release(who, names["oms"]),
    "exists": lambda house, who, names: house.service.grains.exists(who, names["oms"]),
    "listing": lambda house, who, names: house.service.grains.listing(who, Selection(space=SPACE), owner=house.tenant),
    "search": lambda house, who, names: house.service.grains.search(
        who, WORD, owner=house.tenant, where=Selection(space=SPACE)
    ),
    "find": lambda house, who, names: house.service.grains.find(
        who, parse_value({"text": WORD, "namespace": SPACE}, FindRequest), owner=house.tenant
    ),
    "with_defaults": lambda house, who, names: house.service.grains.with_defaults(who, {"type": "belief"}),
    "supersede": lambda house, who, names: house.service.grains.supersede(
        who, names["oms"], _grain(house), justification="asked"
    ),
    "set_verification": lambda house, who, names: house.service.grains.set_verification(
        who, names["oms"], "contested", reason="asked"
    ),
    "set_hold": lambda house, who, names: house.service.grains.set_hold(who, names["oms"], held=True, reason="asked"),
    "erase": lambda house, who, names: house.service.grains.erase(who, names["oms"], reason="asked"),
    "erase_user": lambda house, who, names: house.service.grains.erase_user(
        who, "bo", reason="asked", owner=house.tenant
    ),
    "consent": lambda house, who, names: house.service.grains.consent(
        who, subject="did:web:bo.example", grantee=PEER.did
    ),
    "export": lambda house, who, names: list(house.service.grains.export(who, owner=house.tenant)),
    "export_page": lambda house, who, names: house.service.grains.export_page(who, owner=house.tenant),
}
CAL: Mapping[str, Call] = {
    "run": lambda house, who, names: [
        house.cal(RECENT, access=who),
        house.cal('SUPERSEDE $old SET object = "x" REASON "asked"', access=who, old=f"sha256:{names['oms']}"),
    ],
    "prepare": lambda house, who, names: house.service.cal.prepare(who, RECENT, namespace=SPACE),
    "execute": lambda house, who, names: house.service.cal.execute(who, "not-a-token", owner=house.tenant),
    "stream": lambda house, who, names: list(house.service.cal.stream(who, RECENT, namespace=SPACE)),
    "issue": lambda house, who, names: house.service.cal.issue(who, namespace=SPACE),
    "remove_template": lambda house, who, names: house.service.cal.remove_template(who, "none", namespace=SPACE),
}
OPENWOP: Mapping[str, Call] = {
    "claim": lambda house, who, names: house.service.openwop.claim(who, "put", "key", "digest"),
    "list_entries": lambda house, who, names: house.service.openwop.list_entries(who, SPACE),
    "get_entry": lambda house, who, names: house.service.openwop.get_entry(who, SPACE, names["openwop"]),
    "put_entry": lambda house, who, names: house.service.openwop.put_entry(
        who, SPACE, Draft(content="x"), entry_id=names["openwop"]
    ),
    "put_entries": lambda house, who, names: house.service.openwop.put_entries(who, SPACE, [Draft(content="x")]),
    "delete_entry": lambda house, who, names: house.service.openwop.delete_entry(who, SPACE, names["openwop"]),
    "forget": lambda house, who, names: house.service.openwop.forget(who, SPACE, WORD),
    "memory_of": lambda house, who, names: house.service.openwop.memory_of(who, "run_none"),
    "compact": lambda house, who, names: house.service.openwop.compact(who, SPACE),
    "distill": lambda house, who, names: house.service.openwop.distill(who, SPACE),
    "consolidate": lambda house, who, names: house.service.openwop.consolidate(who, SPACE),
    "infer_commitments": lambda house, who, names: house.service.openwop.infer_commitments(who, SPACE),
}
CALLS: Mapping[str, Mapping[str, Call]] = {"ump": UMP, "oams": OAMS, "grains": GRAINS, "cal": CAL, "openwop": OPENWOP}
# Takes what `claim` has given.
NOT_BY_ITSELF = {"openwop.settle"}


@pytest.mark.requirement("OURS-a-part-tells-nothing-of-the-rest")
def test_every_verb_that_can_be_granted_in_part_is_asked() -> None:
    asked = {f"{table}.{name}" for table, calls in CALLS.items() for name in calls} | NOT_BY_ITSELF
    there = {
        f"{table}.{name}"
        for table, verbs in TABLES.items()
        for name, verb in vars(verbs).items()
        if isinstance(verb, Verb) and not verb.owner_wide
    }
    assert asked == there


@pytest.fixture
def full(house: House) -> House:
    for number, write in enumerate(WRITES.values()):
        write(house, f"{WORD} is said for the {number}. time; remind me every day at 8:00 of it")
    house.remember(f"{WORD} is where bo lives", scope={"project": SPACE, "user": "bo"})
    return house


def _names(house: House) -> list[Names]:
    with house.engine.open_snapshot(house.tenant) as snapshot:
        found = [each.version_id for each in snapshot.load_page(Selection(), limit=500, now=house.now)]
        versions = snapshot.load_versions(found)
    return [house.names(version) for version in versions]


def _memories(house: House) -> list[tuple[int, str]]:
    """All that the owner has, and what is known about each."""
    with house.engine.open_snapshot(house.tenant) as snapshot:
        found = [
            each.version_id for each in snapshot.load_page(Selection(status_filter="all"), limit=500, now=house.now)
        ]
        return [(each.version_id, repr(each.state)) for each in snapshot.load_versions(found)]


def _all_texts(value: object) -> Iterator[str]:
    """All texts inside an answer, whatever it is made of."""
    if isinstance(value, msgspec.Struct):
        yield from _all_texts([getattr(value, name) for name in value.__struct_fields__])
    elif isinstance(value, str | bytes | Mapping):
        yield from texts(value)
    elif isinstance(value, Iterable):
        for inner in value:
            yield from _all_texts(inner)
    elif hasattr(value, "__dict__"):
        yield from _all_texts(list(vars(value).values()))


def _told(call: Call, house: House, who: Access, names: Names) -> str:
    try:
        return " ".join(_all_texts(call(house, who, names)))
    except MemorandaError as error:
        return str(error)


@pytest.mark.requirement("OURS-a-part-tells-nothing-of-the-rest")
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("caller", CALLERS)
def test_who_sees_only_a_part_is_told_and_changes_nothing_of_the_rest(full: House, caller: str, table: str) -> None:
    who, names, before = CALLERS[caller](full), _names(full), _memories(full)
    assert len(names) == len(WRITES) + 1
    for name, call in CALLS[table].items():
        for each in names:
            assert WORD not in _told(call, full, who, each), name
        # A peer may bring something of its own into what is shared.
        assert _memories(full)[: len(before)] == before, name


@pytest.mark.requirement("OURS-a-part-tells-nothing-of-the-rest")
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("caller", BLIND)
def test_who_may_not_read_is_told_nothing_by_what_they_may_do(full: House, caller: str, table: str) -> None:
    who, names = BLIND[caller](full), _names(full)
    for name, call in CALLS[table].items():
        for each in names:
            assert WORD not in _told(call, full, who, each), name
