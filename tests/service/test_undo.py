"""Undo and redo: one action is one undo, a second undo goes one step further back, and a redo takes an undo back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from memoranda.errors import Conflict, NotFound
from memoranda.model.selection import Selection
from memoranda.service.exchange.importing import number_items
from memoranda.standards.openwop.entry import Draft
from tests.matrix.doors import REVISES, SPACE, WRITES, House, key


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.service.close()


def stated(house: House) -> list[str]:
    """Every current text, in order."""
    records = house.service.list_records(house.owner, limit=500)[0]
    # The view of a grain has its subject and relation in front.
    return sorted(record["body"]["text"].removeprefix("house says ") for record in records)


def undo(house: House) -> Any:
    house.advance(1000)
    return house.service.undo_last(house.owner)


def redo(house: House) -> Any:
    house.advance(1000)
    return house.service.redo_last(house.owner)


def history(house: House, text: str) -> list[str]:
    entries = house.service.history(house.owner, house.names(house.head(text))["ump"])
    return [entry["record"]["body"]["text"] for entry in entries]  # type: ignore[index]


FORGETS: Final[Mapping[str, Callable[[House, Mapping[str, str]], object]]] = {
    "ump": lambda house, names: house.forget(names["ump"]),
    "oams": lambda house, names: house.oams.forget(names["oams"]),
    "openwop": lambda house, names: house.service.openwop.delete_entry(house.owner, SPACE, names["openwop"]),
}


@pytest.mark.requirement("OURS-undo-is-a-stack")
@pytest.mark.parametrize("forget", FORGETS)
@pytest.mark.parametrize("by", REVISES)
@pytest.mark.parametrize("way", ["ump remember", "oams store", "oms put", "openwop put", "cal add"])
def test_each_undo_goes_one_step_further_back_and_each_redo_one_forward(
    house: House, way: str, by: str, forget: str
) -> None:
    steps = [stated(house)]
    WRITES[way](house, "one")
    first = house.names(house.head("one"))
    steps.append(stated(house))
    for prior, text in (("one", "two"), ("two", "three")):
        house.advance(1000)
        REVISES[by](house, house.names(house.head(prior)), text)
        steps.append(stated(house))
    house.advance(1000)
    FORGETS[forget](house, {**first, "ump": house.names(house.head("three"))["ump"]})
    steps.append(stated(house))
    assert steps == [[], ["one"], ["two"], ["three"], []]
    for expected in steps[-2::-1]:
        undone = undo(house)
        assert stated(house) == expected
        assert undone.text.removeprefix("house says ") == (expected[0] if expected else "")
        assert (f'"{undone.text}"' in undone.summary) == bool(expected)
    with pytest.raises(NotFound):
        undo(house)
    for expected in steps[1:]:
        redo(house)
        assert stated(house) == expected
    with pytest.raises(NotFound):
        redo(house)
    undo(house)
    assert stated(house) == ["three"]


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_a_memory_that_was_forgotten_comes_back_with_its_versions_and_names(house: House) -> None:
    house.oams.store("k", "one")
    house.advance(1000)
    house.oams.store("k", "two")
    names = house.names(house.head("two"))
    before = house.service.history(house.owner, names["ump"])
    house.advance(1000)
    house.oams.forget("k")
    undo(house)
    assert house.oams.get("k")["value"] == "two"
    assert house.grain(names["oms"]).document()["address"] == names["oms"]
    assert house.service.history(house.owner, names["ump"]) == before
    assert house.service.openwop.get_entry(house.owner, SPACE, "k") is not None
    assert house.texts("two") == ["two"]


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_a_key_that_was_used_again_names_the_restored_memory(house: House) -> None:
    house.oams.store("k", "one")
    house.oams.forget("k")
    house.advance(1000)
    house.oams.store("k", "two")
    undo(house)
    undo(house)
    assert house.oams.get("k")["value"] == "one"
    redo(house)
    redo(house)
    assert house.oams.get("k")["value"] == "two"


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_an_undone_change_cannot_be_redone_after_another_one(house: House) -> None:
    house.remember("one")
    house.remember("two")
    undo(house)
    house.remember("three")
    with pytest.raises(NotFound, match="written since"):
        redo(house)
    undo(house)
    assert stated(house) == ["one"]
    redo(house)
    assert stated(house) == ["one", "three"]
    with pytest.raises(NotFound):
        redo(house)
    undo(house)
    undo(house)
    assert stated(house) == []


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_a_bulk_forget_is_one_action(house: House) -> None:
    names = [house.remember(f"note {number}") for number in range(5)]
    house.advance(1000)
    done = house.service.forget_many(house.owner, [*names, "urn:ump:unknown"])
    assert (len(done.forgotten), len(done.errors)) == (5, 1)
    assert stated(house) == []
    undone = undo(house)
    assert (undone.memories, undone.summary) == (5, "5 memories restored")
    assert len(stated(house)) == 5
    redo(house)
    assert stated(house) == []
    undo(house)
    undo(house)
    assert len(stated(house)) == 4


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_a_batch_of_one_unit_is_one_action(house: House) -> None:
    house.oams.store("0", "before")
    house.oams.batch([house.oams.memory(str(number), f"note {number}") for number in range(4)])
    undo(house)
    assert stated(house) == ["before"]
    redo(house)
    assert len(stated(house)) == 4
    assert "before" not in stated(house)


@pytest.mark.requirement("OURS-undo-is-a-stack")
@pytest.mark.parametrize("label", ["notes.md", None])
def test_an_import_is_one_action(house: House, label: str | None) -> None:
    first = house.remember("before")
    items = [house.draft(f"note {number}", scope={"project": SPACE}) for number in range(700 if label else 3)]
    report = house.service.import_items(house.owner, number_items("ump", items), label=label)
    assert report.created == len(items)
    undone = undo(house)
    assert undone.memories == len(items)
    assert stated(house) == ["before"]
    assert [imported["what"] for imported in house.service.imports(house.owner)] == []
    undo(house)
    assert stated(house) == []
    assert house.get(first)["lifecycle"]["status"] == "tombstoned"
    redo(house)
    redo(house)
    assert house.service.stats(house.owner).memories == len(items) + 1


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_what_a_forget_takes_along_comes_back_with_it(house: House) -> None:
    for text in ("the zanzibar meeting is on friday", "the zanzibar meeting is in room two"):
        house.service.openwop.put_entry(house.owner, SPACE, Draft(content=text, tags=("zanzibar",)))
    before = stated(house)
    made = house.service.openwop.distill(house.owner, SPACE, token_budget=8000)
    assert made.entry["id"]
    after = stated(house)
    assert after != before
    house.advance(1000)
    house.forget(written(house, "room two"))
    assert stated(house) != after
    undo(house)
    assert stated(house) == after


def written(house: House, text: str) -> str:
    """The id of the memory that somebody wrote with this text."""
    with house.engine.open_snapshot(house.tenant) as snapshot:
        found = [
            each.version_id
            for each in snapshot.load_page(Selection(status_filter="unforgotten"), limit=50, now=house.now)
        ]
        versions = [each for each in snapshot.load_versions(found) if text.encode() in each.document.native]
        return str(snapshot.load_names(versions[0].version_id)["ump"])


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_a_compaction_is_undone_as_one(house: House) -> None:
    for number in range(6):
        house.service.openwop.put_entry(house.owner, SPACE, Draft(content=f"zanzibar {number}", tags=("t",)))
        house.advance(1000)
    before = stated(house)
    house.service.openwop.compact(house.owner, SPACE)
    assert stated(house) != before
    undo(house)
    assert stated(house) == before


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_making_a_memory_private_is_undone(house: House) -> None:
    house.remember("one", scope={"project": SPACE, "visibility": "shared"})
    names = house.names(house.head("one"))
    house.advance(1000)
    house.oams.store(names["oams"], "two")
    assert house.get(house.names(house.head("two"))["ump"])["scope"]["visibility"] == "private"
    undo(house)
    assert house.get(house.names(house.head("one"))["ump"])["scope"]["visibility"] == "shared"


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_a_merge_is_undone(house: House) -> None:
    name = house.remember("one", lifecycle={"confidence": 0.6})
    house.advance(1000)
    assert house.service.remember(house.owner, house.draft("one")).result == "merged"
    undo(house)
    (record,) = house.service.list_records(house.owner)[0]
    assert record["lifecycle"]["confidence"] == 0.6
    undo(house)
    assert stated(house) == []
    assert house.get(name)["lifecycle"]["status"] == "tombstoned"


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_an_erasure_is_not_undone_and_the_end_of_a_retention_is_passed_over(house: House) -> None:
    house.remember("one")
    house.remember("ends", consent={"retention": "PT1S"})
    house.advance(2000)
    assert house.service.purge() == 1
    undo(house)
    assert stated(house) == []
    house.forget(house.remember("two"), hard=True, reason="asked")
    with pytest.raises(Conflict, match="erased"):
        undo(house)


@pytest.mark.requirement("OURS-undo-is-a-stack")
@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("is_purged", [False, True])
def test_an_undo_passes_over_a_memory_whose_retention_is_over(house: House, is_purged: bool, is_held: bool) -> None:
    house.remember("stays")
    ends = house.remember("ends")
    ends = house.revise(ends, body={"text": "ends soon"}, consent={"retention": "PT2S"})
    if is_held:
        house.service.grains.set_hold(house.owner, house.as_grain(ends).address, held=True)
    house.advance(2000)
    if is_purged:
        house.service.purge()
    assert undo(house).change == "created"
    assert stated(house) == []


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_a_verdict_is_taken_back(house: House) -> None:
    address = house.put(object="zanzibar")
    house.advance(1000)
    house.service.grains.set_verification(house.owner, address, "retracted")
    assert stated(house) == []
    undo(house)
    assert len(stated(house)) == 1


@pytest.mark.requirement("OURS-undo-is-a-stack")
def test_counts_and_indexes_are_right_after_an_undo(house: House) -> None:
    for number in range(3):
        house.oams.store(key(str(number)), f"zanzibar {number}")
    house.oams.forget(key("1"))
    undo(house)
    assert house.service.stats(house.owner).memories == 3
    with house.engine.open_snapshot(house.tenant) as snapshot:
        assert snapshot.measure_usage()[0] == 3
    assert len(house.texts("zanzibar")) == 3
    assert house.service.verify(house.owner).ok
