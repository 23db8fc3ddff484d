"""What passes made from a memory forgets with it, through every way to forget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from memoranda.service.oams.memories import find_head, locate_namespace
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.openwop.entry import Draft
from tests.matrix.doors import DAY, READS, SPACE, House, told

SECRET: Final = "Alice lives in Zanzibar Street 7."
OTHERS: Final = ("Bob lives in Harbour Lane 3.", "The office opens at nine.", "Lunch is at noon on Fridays.")

Forget = Callable[[House, str], object]


def names_of(house: House, entry_id: str) -> Mapping[str, str]:
    return house.names(house.named("openwop", entry_id))


FORGETS: Final[Mapping[str, Forget]] = {
    "by subject": lambda house, name: house.service.openwop.forget(house.owner, SPACE, "alice"),
    "ump soft": lambda house, name: house.forget(names_of(house, name)["ump"]),
    "ump hard": lambda house, name: house.forget(names_of(house, name)["ump"], hard=True, reason="asked"),
    "oms erase": lambda house, name: house.service.grains.erase(
        house.owner, names_of(house, name)["oms"], reason="asked"
    ),
}


def said(house: House) -> list[str]:
    """What the ref says now, all of it."""
    return [entry["content"] for entry in house.service.openwop.list_entries(house.owner, SPACE)]


def fill(house: House) -> str:
    secret = house.service.openwop.put_entry(house.owner, SPACE, Draft(content=SECRET, tags=("subject:alice",)))
    for text in OTHERS:
        house.advance(1000)
        house.service.openwop.put_entry(house.owner, SPACE, Draft(content=text))
    house.advance(1000)
    return secret["id"]


@pytest.mark.requirement("OURS-derived-memory-forgets")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("way", FORGETS)
def test_a_compaction_is_taken_apart_when_a_source_is_forgotten(house: House, way: str, times: int) -> None:
    name = fill(house)
    for _ in range(times):
        made = house.service.openwop.compact(house.owner, SPACE)
        house.advance(1000)
    assert "Zanzibar" in " ".join(said(house))
    result = FORGETS[way](house, name)
    assert result == 1 or way != "by subject"
    assert sorted(said(house)) == sorted(OTHERS)
    names = {"oams": made.entry["id"], "openwop": made.entry["id"], "ump": "urn:ump:x", "oms": "0" * 64}
    assert not any("Zanzibar" in told(house, read, names, "zanzibar") for read in READS if read != "ump feed")


@pytest.mark.requirement("OURS-derived-memory-forgets")
@pytest.mark.parametrize("way", FORGETS)
def test_what_a_hold_kept_goes_when_that_is_lifted(house: House, way: str) -> None:
    name = fill(house)
    made = house.service.openwop.compact(house.owner, SPACE)
    address = names_of(house, made.entry["id"])["oms"]
    house.service.grains.set_hold(house.owner, address, held=True, reason="court")
    house.advance(1000)
    FORGETS[way](house, name)
    assert "Zanzibar" in " ".join(said(house))
    house.service.grains.set_hold(house.owner, address, held=False, reason="settled")
    assert sorted(said(house)) == sorted(OTHERS)
    names = {"oams": made.entry["id"], "openwop": made.entry["id"], "ump": "urn:ump:x", "oms": address}
    assert not any("Zanzibar" in told(house, read, names, "zanzibar") for read in READS if read != "ump feed")
    # Lifting it once more takes nothing else.
    house.service.grains.set_hold(house.owner, names_of(house, house.head(OTHERS[0]).document.name)["oms"], held=False)
    assert sorted(said(house)) == sorted(OTHERS)


@pytest.mark.requirement("OURS-derived-memory-forgets")
@pytest.mark.parametrize("way", FORGETS)
def test_an_archive_goes_with_what_it_was_distilled_from(house: House, way: str) -> None:
    name = fill(house)
    made = house.service.openwop.distill(house.owner, SPACE, token_budget=8000)
    assert "Zanzibar" in made.entry["content"]
    FORGETS[way](house, name)
    assert sorted(said(house)) == sorted(OTHERS)
    house.service.openwop.distill(house.owner, SPACE, token_budget=8000)
    assert "Zanzibar" not in " ".join(said(house))


@pytest.mark.requirement("OURS-derived-memory-forgets")
@pytest.mark.parametrize("strategy", ["compress", "synthesize"])
@pytest.mark.parametrize("way", [*FORGETS, "oams"])
def test_a_dream_goes_with_what_it_was_made_from(house: House, way: str, strategy: str) -> None:
    house.oams.store("a", SECRET, tags=["subject:alice"])
    house.advance(1000)
    house.oams.store("b", f"{SECRET} She moved in May.", tags=["subject:alice"])
    house.advance(1000)
    house.oams.store("c", OTHERS[0])
    place = parse_namespace(house.oams.namespace)
    run = house.service.oams.consolidate(house.owner, place, strategy, is_dry=False)
    made: list[Memory] = [each.memory for each in run.outputs if "Zanzibar" in each.memory["value"]]
    assert made
    for key in ("a", "b"):
        forget(house, way, key)
    assert [memory["key"] for memory in house.oams.listed() if "Zanzibar" in memory["value"]] == []


def forget(house: House, way: str, key: str) -> None:
    place = locate_namespace(house.owner, parse_namespace(house.oams.namespace))
    with house.engine.open_snapshot(house.tenant) as snapshot:
        version = find_head(house.context, snapshot, place, key)
    if way == "oams" or version is None:
        # One of several about a subject is gone with the first.
        assert (version is None) == (way == "by subject" and key == "b")
        if version is not None:
            house.oams.forget(key)
    elif way == "by subject":
        assert house.service.openwop.forget(house.owner, SPACE, "alice") == 2
    elif way == "oms erase":
        house.service.grains.erase(house.owner, house.names(version)["oms"], reason="asked")
    else:
        house.forget(house.names(version)["ump"], hard=way == "ump hard", reason="asked")


@pytest.mark.requirement("OURS-derived-memory-forgets")
def test_what_is_made_from_what_ends_goes_with_it(house: House) -> None:
    house.oams.store("a", SECRET)
    house.remember(f"{SECRET} She moved in May.", scope={"project": SPACE}, consent={"retention": "P2D"})
    place = parse_namespace(house.oams.namespace)
    house.service.oams.consolidate(house.owner, place, "synthesize", is_dry=False)
    assert any(key.startswith("dream-") for key in house.oams.listed_keys())
    house.advance(2 * DAY)
    house.service.purge()
    assert house.oams.listed_keys() == ["a"]


@pytest.mark.requirement("OURS-derived-memory-forgets")
def test_what_a_person_made_of_it_stays(house: House) -> None:
    name = fill(house)
    house.service.openwop.compact(house.owner, SPACE)
    note = house.remember("A note of mine.", relations=[{"type": "derived_from", "target": name}])
    house.forget(names_of(house, name)["ump"], hard=True, reason="asked")
    assert house.get(note)["body"]["text"] == "A note of mine."


@pytest.mark.requirement("OURS-derived-memory-forgets")
def test_erasing_a_user_takes_what_was_made_from_the_memories_of_that_user(house: House) -> None:
    for text in (SECRET, f"{SECRET} She moved in May."):
        house.remember(text, scope={"project": SPACE, "user": "alice"})
        house.advance(1000)
    place = parse_namespace(house.oams.namespace)
    house.service.oams.consolidate(house.owner, place, "synthesize", is_dry=False)
    assert any(key.startswith("dream-") for key in house.oams.listed_keys())
    house.service.grains.erase_user(house.owner, "alice", reason="asked")
    assert house.oams.listed() == []
