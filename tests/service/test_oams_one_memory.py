"""One memory: whatever standard writes, changes or forgets it, all of them tell the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import Conflict, GrainError, MemoryNotFound
from memoranda.model.instant import format_instant
from memoranda.model.memory import NATIVE_KEY
from memoranda.service.exchange.importing import number_items
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms import signature as oms_signature
from memoranda.standards.ump import signature
from tests.service.oams_verbs import Memory, Oams, namespace, opened, said_by
from tests.service.test_one_memory import FORMS, RECORDS, delivered, remembered
from tests.service.world import World
from tests.standards.oms.strategies import STORABLE
from tests.storage.contract import everything

MINUTE = 60_000
SPACES = ("", "p")
KINDS = ("semantic", "episodic", "procedural", "working", "identity")


# --- random histories ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Told:
    """A memory as the model knows it: what it says now, and what it must keep."""

    space: str
    text: str
    key: str = ""
    created_at: str = ""
    source_id: str | None = None


class Model:
    """A store, and beside it what every standard must show."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.there: list[Told] = []
        self.natives: dict[int, bytes] = {}
        self._count = 0

    # --- what is done ------------------------------------------------------------------------------------

    def step(self, op: str, which: int, space: str) -> None:
        self._count += 1
        text = f"{op} number{self._count}"
        if op in _NEW:
            told = Told(space, text)
            _NEW[op](self, told)
            self.there.append(told)
        elif self.there:
            told = self.there[which % len(self.there)]
            _CHANGES[op](self, told, text)

    def oams(self, space: str) -> Oams:
        return Oams(self.world, namespace(self.world.owner.default_tenant, space))

    def store_new(self, told: Told) -> None:
        told.source_id = f"source {self._count}" if self._count % 2 else None
        fields: dict[str, Any] = {"source_id": told.source_id} if told.source_id else {}
        fields["metadata"] = {"memoranda:kind": KINDS[self._count % 5], "own": self._count}
        stored = self.oams(told.space).store(f"key {self._count}", told.text, tags=["Tag"], **fields)
        assert stored.result == "created"

    def remember(self, told: Told) -> None:
        scope = {"project": told.space} if told.space else {}
        self.world.remember(told.text, scope=scope, kind=KINDS[self._count % 5])

    def put(self, told: Told) -> None:
        self.world.put(object=told.text, namespace=told.space or "shared")
        told.text = f"ada likes {told.text}"

    def add(self, told: Told) -> None:
        asked = f'ADD belief SET subject = "ada" SET relation = "likes" SET object = "{told.text}" REASON "she said so"'
        self.world.service.cal.run(self.world.owner, asked, namespace=told.space or "shared", approve=True)
        told.text = f"ada likes {told.text}"

    def store(self, told: Told, text: str) -> None:
        assert self.oams(told.space).store(told.key, text).result == "updated"
        told.text, told.source_id = text, None

    def put_back(self, told: Told, text: str) -> None:
        """What a client does: get, change, put; and before that, put what it got."""
        oams = self.oams(told.space)
        shown = oams.get(told.key)
        assert oams.put(shown).result == "unchanged"
        assert oams.put({**shown, "value": text, "tags": ["changed"]}).result == "updated"
        told.text = text

    def revise(self, told: Told, text: str) -> None:
        self.world.revise(self.record_of(told)["id"], body={"text": text})
        told.text = text

    def supersede(self, told: Told, text: str) -> None:
        (old,) = [each.address for each in self.grains(told.space) if said_by(each.grain) == told.text]
        self.world.supersede(old, object=text, namespace=told.space or "shared")
        told.text = f"ada likes {text}"

    def forget(self, told: Told, _: str) -> None:
        self.oams(told.space).forget(told.key)
        self.there.remove(told)
        with pytest.raises(MemoryNotFound):
            self.oams(told.space).forget(told.key)

    def forget_record(self, told: Told, _: str) -> None:
        self.world.forget(self.record_of(told)["id"], reason="asked", hard=self._count % 2 == 0)
        self.there.remove(told)

    def expect_nothing(self, told: Told, _: str) -> None:
        """Telling it again changes nothing."""
        oams = self.oams(told.space)
        lines = [(raw, memory) for raw, memory in oams.verbs.export(oams.access) if memory["value"] == told.text]
        assert oams.take_in(lines).unchanged == 1

    # --- what is seen ------------------------------------------------------------------------------------

    def record_of(self, told: Told) -> Any:
        (found,) = [record for record in self.records(told.space) if record["body"]["text"] == told.text]
        return found

    def records(self, space: str) -> list[Any]:
        found, _ = self.world.service.list_records(self.world.owner, limit=200)
        return [record for record in found if record["scope"].get("project", "") == space]

    def grains(self, space: str) -> list[Any]:
        return self.world.grains(space=space)

    def check(self) -> None:
        for space in SPACES:
            expected = Counter(told.text for told in self.there if told.space == space)
            assert Counter(record["body"]["text"] for record in self.records(space)) == expected
            assert Counter(said_by(each.grain) for each in self.grains(space)) == expected
            if any(told.space == space for told in self.there):
                self.check_namespace(space, expected)
        self.check_natives()

    def check_namespace(self, space: str, expected: Counter[str]) -> None:
        oams = self.oams(space)
        listed = oams.listed(limit=3)
        assert Counter(memory["value"] for memory in listed) == expected
        assert Counter(memory["value"] for memory in oams.recall("number", k=100)) <= expected
        assert len({memory["key"] for memory in listed}) == len(listed)
        times = [memory["updated_at"] for memory in listed]
        assert times == sorted(times, reverse=True)
        for memory in listed:
            assert oams.get(memory["key"]) == memory
            assert memory["created_at"] <= memory["updated_at"]
            (told,) = [each for each in self.there if each.space == space and each.text == memory["value"]]
            if not told.key:
                told.key, told.created_at = memory["key"], memory["created_at"]
            assert (memory["key"], memory["created_at"]) == (told.key, told.created_at)
            assert told.source_id is None or memory["source_id"] == told.source_id

    def check_natives(self) -> None:
        """Documents are only ever added."""
        with self.world.engine.open_snapshot(self.world.owner.default_tenant) as snapshot:
            kept = {each.version_id: each for each in everything(snapshot)}
        for version_id, native in self.natives.items():
            version = kept.get(version_id)
            assert version is None or version.state.erased or version.document.native == native
        self.natives |= {each.version_id: each.document.native for each in kept.values() if not each.state.erased}


_NEW: dict[str, Callable[[Model, Told], None]] = {
    "STORE": Model.store_new,
    "remember": Model.remember,
    "put": Model.put,
    "ADD": Model.add,
}
_CHANGES: dict[str, Callable[[Model, Told, str], None]] = {
    "STORE over": Model.store,
    "put back": Model.put_back,
    "revise": Model.revise,
    "supersede": Model.supersede,
    "FORGET": Model.forget,
    "forget": Model.forget_record,
    "import": Model.expect_nothing,
}
STEPS = st.tuples(
    st.sampled_from([*_NEW, *_CHANGES]), st.integers(0, 9), st.sampled_from(SPACES), st.sampled_from([0, 1, MINUTE])
)
OPENING = [("STORE", 0, "", 1), ("remember", 0, "p", 1), ("put", 0, "", 0), ("STORE", 0, "p", 0)]


@pytest.mark.requirement("OAMS-1-more-capabilities")
@settings(max_examples=25)
@given(steps=st.lists(STEPS, min_size=4, max_size=14))
@example(
    steps=[(op, 0, "", 0) for op in ("revise", "STORE over", "supersede", "put back", "import", "revise", "FORGET")]
)
@example(steps=[(op, 1, "", 0) for op in ("STORE over", "revise", "STORE over", "import", "forget")])
@example(steps=[(op, 2, "", 1) for op in ("put back", "supersede", "put back", "revise", "put back", "FORGET")])
def test_every_standard_tells_the_same_after_every_step(steps: list[tuple[str, int, str, int]]) -> None:
    with opened() as world:
        model = Model(world)
        adds = 0
        for op, which, space, pause in [*OPENING, *steps]:
            adds += op == "ADD"
            if adds > 15 and op == "ADD":
                continue  # a quota of CAL's own
            world.advance(pause)
            model.step(op, which, space)
            model.check()
        for space in SPACES:
            asked = world.service.cal.run(world.owner, "RECALL LIMIT 100", namespace=space or "shared")
            texts = Counter(told.text for told in model.there if told.space == space)
            assert len(asked["results"]) == texts.total()
        assert world.service.verify(world.owner).ok
        with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
            assert snapshot.measure_usage()[0] == len(model.there)


# --- one thing at a time -------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-one-memory")
def test_a_memory_revised_through_ump_keeps_its_key_its_creation_and_its_source(world: World) -> None:
    oams = Oams(world)
    stored = oams.store(
        "k", "tea", source_id="https://example.com/a", tags=["Drink"], created_at="2020-01-01T00:00:00Z"
    )
    world.advance(MINUTE)
    (found,) = world.recall("tea")
    world.revise(found.record["id"], body={"text": "coffee"})
    (memory,) = oams.listed()
    assert {name: memory[name] for name in ("key", "created_at", "source_id", "value")} == {
        "key": "k",
        "created_at": "2020-01-01T00:00:00Z",
        "source_id": "https://example.com/a",
        "value": "coffee",
    }
    assert memory["tags"] == ["drink"]
    assert memory["updated_at"] == format_instant(world.now)
    assert oams.get("k") == memory
    assert oams.keys("coffee", tags=["drink"]) == ["k"]
    # Who saw the first version does not write over the second unawares.
    with pytest.raises(Conflict):
        oams.store("k", "milk", if_match=stored.etag)
    world.advance(MINUTE)
    again = oams.store("k", "milk", if_match=oams.shown("k").etag).memory
    assert (again["created_at"], "source_id" in again) == ("2020-01-01T00:00:00Z", False)
    # All of it is one history.
    names = [item["record"]["id"] for item in world.service.history(world.owner, found.record["id"])]  # type: ignore[index]
    assert len(names) == 3
    for older, newer in pairwise(names):
        assert world.get(older)["superseded_by"][0] == newer
        assert world.as_grain(older).index.superseded_by == world.as_grain(newer).address
    with pytest.raises(Conflict, match=names[1]):
        world.revise(names[0], body={"text": "too late"})
    for instant, text in ((0, "milk"), (MINUTE, "coffee"), (2 * MINUTE, "tea")):
        at = format_instant(world.now - instant)
        assert world.texts("tea coffee milk", filter={"valid_at": at}) == [text]
        assert world.texts("tea coffee milk", filter={"known_at": at}) == [text]


@pytest.mark.requirement("OAMS-OURS-one-memory")
def test_what_is_closed_through_oams_is_closed_for_ump_at_once(world: World) -> None:
    oams, name = Oams(world), world.remember("tea")
    oams.store(name, "coffee")
    oams.store("k", "one")
    oams.store("k", "two")
    current = {record["body"]["text"] for record in world.service.export(world.owner, history=False)}
    assert current == {"coffee", "two"}
    assert len(world.get(name)["superseded_by"]) == 1
    events = world.service.changes(world.owner, {}, 0).events
    assert sorted(bool(event.record["superseded_by"]) for event in events) == [False, False, True, True]


@pytest.mark.requirement("OAMS-OURS-one-memory")
def test_a_record_that_is_told_again_keeps_its_key(world: World) -> None:
    oams, name = Oams(world), world.remember("tea")
    world.advance(MINUTE)
    assert world.remember("tea") == name
    assert oams.listed_keys() == [name]
    assert oams.get(name)["value"] == "tea"
    oams.store(name, "coffee")
    assert oams.listed_keys() == [name]
    oams.forget(name)
    assert oams.listed() == []


@pytest.mark.requirement("OURS-one-line")
def test_a_memory_whose_first_version_is_erased_keeps_its_key_and_its_entry_id(world: World) -> None:
    oams, name = Oams(world), world.remember("tea")
    world.revise(name, body={"text": "coffee"})
    world.forget(name, hard=True, reason="asked")
    assert oams.listed_keys() == [name]
    assert oams.get(name)["value"] == "coffee"
    entry = world.service.openwop.get_entry(world.owner, "default", name)
    assert entry is not None
    assert (entry["id"], entry["content"]) == (name, "coffee")
    oams.store(name, "water")
    assert [memory["value"] for memory in oams.listed()] == ["water"]
    oams.forget(name)
    assert oams.listed() == []


@pytest.mark.requirement("OAMS-OURS-one-memory")
def test_a_memory_that_a_grain_takes_to_another_namespace_is_there_and_not_here(world: World) -> None:
    tenant = world.owner.default_tenant
    here, there = Oams(world), Oams(world, namespace(tenant, "p"))
    here.store("k", "tea")
    there.store("k", "another k")
    (old,) = [each.address for each in world.grains(space="")]
    moved = world.supersede(old, object="coffee", namespace="p")
    assert here.listed() == []
    with pytest.raises(MemoryNotFound):
        here.get("k")
    assert set(there.listed_keys()) == {"k", moved}
    assert there.get(moved)["value"] == "ada likes coffee"
    assert there.get("k")["value"] == "another k"
    assert here.store("k", "tea again").result == "created"
    there.forget(moved)
    assert (there.listed_keys(), here.listed_keys()) == (["k"], ["k"])


def test_forgetting_an_old_version_through_ump_leaves_the_new_one(world: World) -> None:
    oams = Oams(world)
    oams.store("k", "one")
    (found,) = world.recall("one")
    world.get(found.record["id"])
    world.advance(MINUTE)
    oams.store("k", "two")
    for hard in (False, True):
        world.forget(found.record["id"], hard=hard, reason="asked")
        assert oams.get("k")["value"] == "two"
        assert world.texts("one two") == ["two"]


@pytest.mark.requirement("OAMS-OURS-one-memory")
def test_forgetting_through_oams_takes_all_that_the_memory_ever_said(world: World) -> None:
    oams = Oams(world)
    oams.store("k", "tea one")
    start = format_instant(world.now)
    world.advance(MINUTE)
    world.revise(world.recall("tea")[0].record["id"], body={"text": "tea two"})
    world.advance(MINUTE)
    oams.forget("k")
    assert world.texts("tea") == world.texts("tea", filter={"valid_at": start}) == []
    assert world.texts("tea", filter={"known_at": start}) == []


def test_a_public_memory_can_be_fetched_by_whoever_found_it(world: World) -> None:
    owner, other = world.key("did:example:ada"), world.key("did:example:bob")
    oams = Oams(world, access=owner)
    oams.store("k", "for everyone", metadata={"memoranda:visibility": "public"})
    (found,) = world.recall("everyone", access=other, scope={"owner": "did:example:ada"})
    assert world.get(found.record["id"], access=other)["body"]["text"] == "for everyone"


def test_tags_of_every_standard_are_found_in_any_spelling(world: World) -> None:
    oams = Oams(world)
    oams.store("k", "tea one", tags=["Hot"])
    name = world.remember("tea two", relations=[{"type": "about", "target": "tag:Hot"}])
    address = world.put(object="tea three", structural_tags=["Hot"])
    expected = {"k", name, address}
    assert set(oams.listed_keys(tags=["HOT"])) == set(oams.keys("tea", tags=["hot"])) == expected
    assert all(memory["tags"] == ["hot"] for memory in oams.listed())
    # CAL tells apart what is spelt differently.
    for tag, count in (("Hot", 2), ("hot", 1)):
        answer = world.service.cal.run(world.owner, f'RECALL WHERE tags INCLUDE ["{tag}"]')
        assert len(answer["results"]) == count


# --- there and back ------------------------------------------------------------------------------------------


@contextmanager
def carried(world: World) -> Iterator[World]:
    """Another store of the same owner, which got everything as lines."""
    lines = [(raw, memory) for raw, memory in world.service.oams.export(world.owner)]
    assert [parse(raw, max_bytes=8_000_000) for raw, _ in lines] == [memory for _, memory in lines]
    with opened() as there:
        report = Oams(there).take_in(list(lines))
        assert (report.created, report.refused) == (len(lines), 0)
        assert Oams(there).exported() == [raw for raw, _ in lines]
        yield there


EACH = settings(max_examples=25)


@pytest.mark.requirement("OAMS-OURS-restored")
@EACH
@given(draft=RECORDS, is_revised=st.booleans())
def test_a_record_that_travels_as_a_line_is_that_record_again(draft: dict[str, Any], is_revised: bool) -> None:
    with opened() as world:
        name = remembered(world, draft)
        if is_revised:
            name = world.revise(name, body={"text": "another text"})
        native = world.named("ump", name).document.native
        with carried(world) as there:
            record = there.get(name)
            assert dump(record) == native
            assert signature.verify(record)
            assert there.as_grain(name).delivery == world.as_grain(name).delivery
            project = record["scope"].get("project", "")
            listed = Oams(there, namespace(there.owner.default_tenant, project)).listed()
            assert listed == Oams(world, namespace(world.owner.default_tenant, project)).listed()
            # The same record through UMP is no news, and what happens to it reaches the line.
            assert there.service.remember(there.owner, record).result == "merged"
            there.revise(name, body={"text": "revised there"})
            assert [memory["value"] for _, memory in there.service.oams.export(there.owner)] == ["revised there"]
            assert there.service.verify(there.owner).ok


@pytest.mark.requirement("OAMS-OURS-restored")
@EACH
@given(fields=STORABLE, form=FORMS)
def test_a_grain_that_travels_as_a_line_is_that_grain_again(fields: dict[str, Any], form: str) -> None:
    with opened() as world:
        delivery = delivered(fields, form)
        address = world.service.grains.put(world.owner, delivery).address
        with carried(world) as there:
            found = there.grain(address)
            assert (found.delivery, found.is_native) == (delivery, True)
            codec.decode(oms_signature.blob_of(found.delivery), address=address, profile=oms.VIEWS)
            assert [each.delivery for each in there.grains()] == [delivery]
            assert there.as_record(address)["body"]["text"] == world.as_record(address)["body"]["text"]
            assert there.service.grains.put(there.owner, delivery).result == "exists"
            try:
                there.supersede(address, object="something else")
            except GrainError:
                return  # its policy came with it
            assert shown_of(there, "ada likes something else")


def test_a_record_of_another_owner_is_taken_in_only_by_adopting_it(world: World) -> None:
    name = world.remember("tea")
    lines = [(raw, memory) for raw, memory in world.service.oams.export(world.owner)]
    other = world.key("did:example:other")
    claimed = Oams(world, lines[0][1]["namespace"], access=other)
    (refusal,) = claimed.take_in(list(lines)).refusals
    assert refusal.code == "forbidden_scope"
    assert refusal.message.startswith(f"{lines[0][1]['namespace']} is under the owner hash of another tenant; adopt it")
    items = number_items("oams", [memory for _, memory in lines])
    assert world.service.import_items(other, items, adopt=True).created == 1
    (record,) = world.service.export(other)
    # A record keeps its name, whichever form it came in.
    assert record["id"] == name
    assert (record["body"]["text"], record["scope"]["owner"]) == ("tea", "did:example:other")
    assert world.get(name)["scope"]["owner"] == world.owner.default_tenant


def test_what_was_forgotten_and_is_brought_again_is_one_memory_for_every_standard(world: World) -> None:
    oams = Oams(world)
    oams.store("k", "tea")
    lines = [(raw, memory) for raw, memory in oams.verbs.export(oams.access)]
    name, address = world.recall("tea")[0].record["id"], world.grains()[0].address
    assert world.get(name)["body"]["text"] == "tea"
    oams.forget("k")
    assert oams.take_in(lines).forgotten == 1
    assert oams.take_in(lines, restore=True).created == 1
    # The very same bytes, so the very same names: they stand for what is there.
    assert [each.address for each in world.grains()] == [address]
    assert world.get(name)["lifecycle"]["status"] == "active"
    second = world.revise(name, body={"text": "coffee"})
    assert oams.get("k")["value"] == "coffee"
    assert world.as_grain(name).index.superseded_by == world.as_grain(second).address
    world.supersede(world.as_grain(second).address, object="milk")
    assert oams.get("k")["value"] == "ada likes milk"
    oams.forget("k")
    assert oams.listed() == []


def test_an_export_does_not_keep_the_store_from_being_written(world: World) -> None:
    oams = Oams(world)
    oams.batch([oams.memory(f"k{number}") for number in range(3)])
    for _, memory in oams.verbs.export(oams.access):
        oams.store(memory["key"], "changed while it is read")
    assert {memory["value"] for memory in oams.listed()} == {"changed while it is read"}


def shown_of(world: World, text: str) -> Memory:
    (found,) = [memory for memory in Oams(world).listed() if memory["value"] == text]
    return found


@pytest.mark.requirement("OAMS-OURS-restored")
def test_a_view_that_says_something_else_is_not_its_original_any_more(world: World) -> None:
    world.remember("tea")
    memory = shown_of(world, "tea")
    for changes in ({"value": "coffee"}, {"tags": ["new"]}, {"namespace": namespace(world.owner.default_tenant, "p")}):
        with opened() as there:
            changed = {**memory, **changes}
            Oams(there).take_in([(dump(changed), changed)])
            (record,) = there.service.export(there.owner)
            assert record["id"] != memory["key"]
            assert record["body"]["text"] == changed["value"]
            assert there.service.remember(there.owner, world.get(memory["key"])).result == "created"


def test_a_new_version_leaves_the_original_behind(world: World) -> None:
    name = world.remember("a secret word")
    oams = Oams(world)
    memory = oams.get(name)
    assert NATIVE_KEY in memory["metadata"]
    oams.put({**memory, "value": "nothing of it"})
    assert NATIVE_KEY not in oams.get(name).get("metadata", {})
    # Storing the old view again is storing its words, not raising the record.
    oams.put(memory)
    assert oams.get(name)["value"] == "a secret word"
    (current,) = world.service.list_records(world.owner, limit=9)[0]
    assert current["id"] != name
    assert world.get(current["id"])["body"]["text"] == "a secret word"
    world.forget(current["id"], reason="asked")
    assert oams.listed() == []
    assert world.texts("secret") == []


def test_the_view_of_a_forgotten_record_is_a_new_memory(world: World) -> None:
    name = world.remember("tea")
    oams = Oams(world)
    memory = oams.get(name)
    oams.forget(name)
    assert oams.put(memory).result == "created"
    assert oams.put(memory).result == "unchanged"
    assert world.get(name)["lifecycle"]["status"] == "tombstoned"
    (record,) = world.service.list_records(world.owner, limit=9)[0]
    assert record["id"] != name
    world.forget(record["id"])
    assert oams.listed() == []
