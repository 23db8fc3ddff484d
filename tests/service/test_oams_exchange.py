"""Lines in and out: what leaves comes back as it was, byte for byte, and an import says what it did."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoranda.encoding.json_text import dump, dump_pretty, parse
from memoranda.model.instant import format_instant
from memoranda.service.core.limits import Quotas
from memoranda.service.exchange.importing import BATCH_LIMIT, Item, number_items
from memoranda.standards.oams.memory import MAX_VALUE_BYTES
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.storage.sqlite.database import SqliteConnection
from tests.service.oams_verbs import Memory, Oams, namespace
from tests.service.world import World
from tests.standards.oams.strategies import memories

MINUTE = 60_000
MEMORIES = st.lists(memories(), max_size=6, unique_by=lambda memory: (memory["namespace"], memory["key"]))
# The same thing said in other bytes: a line keeps them.
WRITERS = st.sampled_from([dump, lambda value: b"  " + dump(value) + b" ", lambda value: _escaped(value)])
FRESH = settings(max_examples=60)


def _escaped(value: Any) -> bytes:
    text = dump_pretty(value).replace("\n", " ")
    return "".join(char if char.isascii() else _escape(char) for char in text).encode()


def _escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2], 'big'):04x}" for i in range(0, len(units), 2))


def taken_in(lines: list[bytes], world: World | None = None) -> tuple[World, Any]:
    there = world or World()
    return there, Oams(there).take_in([(line, parse(line, max_bytes=8 * MAX_VALUE_BYTES)) for line in lines])


def everything(world: World) -> dict[tuple[str, str], Memory]:
    """All memories through the operations."""
    found = {}
    for name in world.service.oams.namespaces(world.owner):
        for memory in Oams(world, name).listed():
            found[memory["namespace"], memory["key"]] = memory
            assert Oams(world, name).get(memory["key"]) == memory
    return found


# An integer of more than 64 bits, which fast readers take for a double.
WIDE = (
    '{"key":"k","namespace":"a:b","value":"","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z",'
)


@pytest.mark.requirement("OAMS-OURS-round-trip")
@FRESH
@example(given=[parse(WIDE + '"x":[-37882019469533905000]}')], writers=[dump])
@given(given=MEMORIES, writers=st.lists(WRITERS, min_size=6, max_size=6))
def test_an_export_of_an_import_is_the_original_byte_for_byte(given: list[Memory], writers: list[Any]) -> None:
    lines = [writer(memory) for writer, memory in zip(writers, given, strict=False)]
    world, report = taken_in(lines)
    again: World | None = None
    try:
        assert (report.created, report.updated, report.unchanged, report.refused) == (len(given), 0, 0, 0)
        exported = Oams(world).exported()
        assert sorted(exported) == sorted(lines)
        # Wiped, and taken in again.
        again, report = taken_in(exported)
        assert report.created == len(given)
        assert everything(again) == everything(world)
        assert sorted(Oams(again).exported()) == sorted(lines)
        # Taken in once more, it is no news, in any order.
        events = again.events()
        _, report = taken_in(exported[::-1], again)
        assert (report.created, report.updated, report.unchanged) == (0, 0, len(given))
        assert again.events() == events
        assert again.service.verify(again.owner).ok
    finally:
        world.service.close()
        if again is not None:
            again.service.close()


@pytest.mark.requirement("OAMS-OURS-round-trip")
@settings(max_examples=30)
@given(memory=memories(complete=False))
def test_what_is_stored_leaves_and_comes_back_the_same(memory: Memory) -> None:
    world, there = World(), World()
    try:
        Oams(world).put(memory)
        lines = Oams(world).exported()
        taken_in(lines, there)
        assert everything(there) == everything(world)
        assert Oams(there).exported() == lines
        # Every view of it can be made, and what they say it is said by.
        (record,) = world.service.export(world.owner)
        assert record["body"]["text"] == (memory["value"] or memory["key"])
        assert len(world.grains()) == len(list(world.service.grains.export(world.owner))) == 1
    finally:
        world.service.close()
        there.service.close()


@pytest.mark.requirement("OAMS-OURS-round-trip")
@pytest.mark.parametrize(
    "value", ["", "x" * MAX_VALUE_BYTES, "\x00" * 60_000, "👩‍👩‍👧" * 50_000, "é" * (MAX_VALUE_BYTES // 2)]
)
def test_empty_and_huge_values_survive(value: str) -> None:
    world = World()
    there: World | None = None
    try:
        oams = Oams(world)
        oams.store("k", value)
        lines = oams.exported()
        there, report = taken_in(lines)
        assert report.created == 1
        assert Oams(there).get("k") == oams.get("k")
        assert Oams(there).exported() == lines
        assert len(world.grains()) == 1
        assert world.service.list_records(world.owner, limit=5)[0][0]["body"]["text"]
    finally:
        world.service.close()
        if there is not None:
            there.service.close()


@pytest.fixture
def oams(world: World) -> Oams:
    return Oams(world)


@pytest.mark.requirement("OAMS-OURS-import-report")
def test_an_import_says_what_became_of_each_line(oams: Oams) -> None:
    oams.store("same", "one")
    oams.store("changed", "one")
    oams.world.advance(MINUTE)
    report = oams.take_in(
        [
            (None, oams.complete("same", "one")),
            (None, oams.complete("changed", "two")),
            (None, oams.complete("new", "one", mood="odd", metadata={"dream_strategy": "unheard-of"})),
            (None, oams.complete("", "no key")),
            (None, {**oams.complete("n"), "namespace": "x:"}),
            (None, oams.memory("without times")),
            (None, {**oams.complete("n"), "value": 3}),
        ]
    )
    assert (report.created, report.updated, report.unchanged, report.refused) == (1, 1, 1, 4)
    assert [refusal.number for refusal in report.refusals] == [4, 5, 6, 7]
    assert [refusal.id for refusal in report.refusals] == ["", "n", "without times", "n"]
    assert all(refusal.code == "invalid_record" and refusal.message for refusal in report.refusals)
    assert report.warned == len(report.warnings) == 3
    assert all(warning.startswith("line 3: ") for warning in report.warnings)
    assert oams.get("changed")["value"] == "two"


@pytest.mark.requirement("OAMS-OURS-import-report")
def test_an_older_line_does_not_undo_a_newer_version(oams: Oams) -> None:
    world = oams.world
    oams.store("k", "old")
    oams.store("revised", "old too")
    oams.store("superseded", "old three")
    lines = oams.exported()
    world.advance(MINUTE)
    oams.store("k", "new")
    names = {found.record["body"]["text"]: found.record["id"] for found in world.recall("old")}
    world.revise(names["old too"], body={"text": "new too"})
    old = next(each.address for each in world.grains() if each.grain.fields.get("object") == "old three")
    # A grain may say that it is as old as it likes.
    world.supersede(old, object="new three", created_at=world.now - 10 * MINUTE)
    _, report = taken_in(lines, world)
    assert (report.unchanged, report.updated, report.created) == (3, 0, 0)
    assert {memory["value"] for memory in oams.listed()} == {"new", "new too", "ada likes new three"}
    # A line that is newer than what is here is taken.
    world.advance(MINUTE)
    memory = oams.complete("revised", "newest")
    assert oams.take_in([(dump(memory), memory)]).updated == 1
    assert oams.get("revised")["value"] == "newest"


def test_a_later_line_with_the_same_key_is_the_next_version(oams: Oams) -> None:
    first, second = oams.complete("k", "one"), oams.complete("k", "two")
    second["updated_at"] = format_instant(oams.world.now + 1)
    report = oams.take_in([(dump(first), first), (dump(second), second)])
    assert (report.created, report.updated) == (1, 1)
    assert oams.exported() == [dump(second)]


def test_a_line_with_a_score_is_kept_without_it(oams: Oams) -> None:
    memory = oams.complete("k", "tea", metadata={"score": 0.5, "n": 1})
    oams.take_in([(dump(memory), memory)])
    assert oams.get("k")["metadata"] == {"n": 1}
    assert b"score" not in oams.exported()[0]


def test_a_line_over_the_quota_is_refused_and_the_rest_go_on() -> None:
    world = World(quotas=Quotas(memories=2))
    try:
        oams = Oams(world)
        report = oams.take_in([(None, oams.complete(f"k{number}")) for number in range(4)])
        assert (report.created, report.refused, report.refusals[0].code) == (2, 2, "rate_limited")
        assert set(oams.listed_keys()) == {"k0", "k1"}
    finally:
        world.service.close()


def test_many_lines_are_taken_in_in_batches_with_progress(oams: Oams) -> None:
    told: list[int] = []
    lines = number_items("oams", (oams.complete(f"k{n}", f"tea {n}") for n in range(1, 2_502)))
    report = oams.world.service.import_items(oams.access, lines, progress=told.append)
    assert report.created == 2_501
    assert told == [*range(BATCH_LIMIT, 2_501, BATCH_LIMIT), 2_501]
    assert len(oams.exported()) == 2_501


def test_what_is_new_is_asked_for_once_not_line_by_line(oams: Oams, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    rows = SqliteConnection.query

    def counted(self: SqliteConnection, name: str, *rest: Any) -> Any:
        asked.append(name)
        return rows(self, name, *rest)

    monkeypatch.setattr(SqliteConnection, "query", counted)
    lines = [(None, oams.complete(f"k{n}", f"tea {n}")) for n in range(200)]
    assert oams.take_in(lines).created == 200
    assert len(asked) < 20


def test_an_export_can_be_of_some_namespaces(world: World) -> None:
    tenant = world.owner.default_tenant
    names = [namespace(tenant, "home"), namespace(tenant, "work"), "user-x123ab:personal"]
    for name in names:
        Oams(world, name).store("k", name)
    world.remember("a record", scope={"project": "home"})
    oams = Oams(world)
    assert len(oams.exported()) == 4
    chosen = [parse_namespace(name) for name in names[:1]]
    assert {memory["value"] for _, memory in oams.verbs.export(world.owner, namespaces=chosen)} == {
        names[0],
        "a record",
    }
    assert oams.exported(namespaces=[parse_namespace(namespace(tenant, "nowhere"))]) == []


def test_nothing_that_was_forgotten_or_superseded_leaves(oams: Oams) -> None:
    world = oams.world
    oams.store("k", "one")
    oams.store("k", "two")
    oams.store("gone", "three")
    oams.forget("gone")
    name = world.remember("four")
    world.revise(name, body={"text": "five"})
    assert {memory["value"] for _, memory in oams.verbs.export(oams.access)} == {"two", "five"}


def test_an_export_that_states_inherited_restrictions_changes_nothing_where_it_came_from(oams: Oams) -> None:
    """The end that a revision through UMP set binds the next version, which does not state it itself."""
    world = oams.world
    oams.store("k", "one", metadata={"memoranda:visibility": "shared"})
    records, _ = world.service.list_records(world.owner)
    name = next(record["id"] for record in records if record["body"]["text"] == "one")
    revised = world.revise(name, consent={"retention": "P1D"})
    world.advance(1)
    oams.store("k", "two")
    before = world.service.history(world.owner, revised)
    raw = next(line for line in oams.exported() if parse(line)["key"] == "k")
    memory: Any = parse(raw)
    assert "memoranda:expires_at" in memory["metadata"]
    report = world.service.import_items(world.owner, [Item(form="oams", value=memory, raw=raw, where="1", number=1)])
    assert (report.unchanged, report.updated, report.created) == (1, 0, 0)
    assert world.service.history(world.owner, revised) == before
    # Nothing changes either if it is put alone or in a batch.
    assert oams.put(memory).result == "unchanged"
    assert [result.result for result in oams.batch([memory])] == ["unchanged"]
    # A longer life is another memory, and bound all the same.
    assert oams.put({**memory, "metadata": {"memoranda:expires_at": "2099-01-01T00:00:00.000Z"}}).result == "updated"
