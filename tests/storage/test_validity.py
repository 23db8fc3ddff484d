"""The word index knows when memories are valid: the others are neither weighed nor looked up in the database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memoranda.model.instant import DAY_MS, Instant, format_instant
from memoranda.retrieval.analysis import ANALYSIS
from memoranda.retrieval.segment import VALIDITY_ANALYSIS
from memoranda.service.verify import reindex, verify_all
from memoranda.storage.engine.caches import SearchCache
from memoranda.storage.engine.database import Connection
from memoranda.storage.index.search import Search
from memoranda.storage.index.word_index import SegmentKey, WordIndex
from tests.service.world import World

# The days from the start of the world on which a memory begins and ends to be true; None: no end.
PERIODS = ((-30, -20), (-30, 10), (-1, None), (5, 20), (10, None), (-30, 0), (0, 1))


@pytest.fixture
def world() -> Iterator[World]:
    opened = World()
    for number, (start, end) in enumerate(PERIODS):
        time = {"valid_from": moment(opened, start)}
        if end is not None:
            time["valid_to"] = moment(opened, end)
        opened.remember(f"apple number{number}", time=time)
    yield opened
    opened.service.close()


def moment(world: World, days: int) -> str:
    return format_instant(Instant(world.now + days * DAY_MS))


def found_at(world: World, days: int) -> set[int]:
    texts = world.texts("apple", filter={"valid_at": moment(world, days)}, limit=50)
    return {int(text.removeprefix("apple number")) for text in texts}


def true_at(days: int) -> set[int]:
    return {number for number, (start, end) in enumerate(PERIODS) if start <= days and (end is None or days < end)}


DAYS = (-31, -30, -25, -20, -1, 0, 1, 5, 9, 10, 19, 20, 400)


def tenant_of(world: World) -> int:
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        number: int = snapshot._tenant_id  # type: ignore[attr-defined]
        return number


def in_earlier_form(world: World) -> None:
    """Write all segments as one, in the form of an earlier version."""
    tenant_id = tenant_of(world)

    def work(connection: Connection) -> None:
        index = WordIndex(connection, tenant_id, SearchCache().segments)
        keys = index.segment_keys()
        whole = index.read_merged(keys)
        index.remove(keys)
        index.add(whole, keys[-1].edition + 1, VALIDITY_ANALYSIS - 1)

    world.engine._database.write(work)


def merge_all(world: World) -> None:
    """Merge all segments, those of an earlier version with new ones."""
    tenant_id = tenant_of(world)

    def work(connection: Connection) -> None:
        index = WordIndex(connection, tenant_id, SearchCache().segments)
        keys = index.segment_keys()
        index.replace(keys, index.read_merged(keys))

    world.engine._database.write(work)


def keys_of(world: World) -> list[SegmentKey]:
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        connection = snapshot._connection  # type: ignore[attr-defined]
        return WordIndex(connection, tenant_of(world), SearchCache().segments).segment_keys()


@pytest.mark.parametrize("form", ["now", "earlier", "both"])
def test_what_is_true_at_a_time_is_found_and_nothing_else(world: World, form: str) -> None:
    if form != "now":
        in_earlier_form(world)
    if form == "both":
        world.remember("apple number100", time={"valid_from": moment(world, -2), "valid_to": moment(world, -1)})
        merge_all(world)
        assert {key.analysis for key in keys_of(world)} == {VALIDITY_ANALYSIS - 1}
        assert 100 in found_at(world, -2)
    for days in DAYS:
        assert found_at(world, days) - {100} == true_at(days), days


def test_an_index_in_the_earlier_form_is_rebuilt(world: World) -> None:
    in_earlier_form(world)
    reindex(world.context, outdated=True)
    assert {key.analysis for key in keys_of(world)} == {ANALYSIS}
    report = verify_all(world.context, world.owner)
    assert (report.index, report.outdated) == ((), ())
    for days in DAYS:
        assert found_at(world, days) == true_at(days), days


def test_the_time_of_the_world_moves_on_and_views_with_it(world: World) -> None:
    for days in range(12):
        assert {int(text.removeprefix("apple number")) for text in world.texts("apple", limit=50)} == true_at(days)
        world.advance(DAY_MS)


def test_no_memory_that_is_not_true_is_looked_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[int] = []
    check = Search._passing

    def counting(search: Search, version_ids: list[int]) -> dict[int, str]:
        looked_up.extend(version_ids)
        return check(search, version_ids)

    monkeypatch.setattr(Search, "_passing", counting)
    for number in range(60):
        world.remember(f"apple past{number}", time={"valid_from": moment(world, -9), "valid_to": moment(world, -1)})
    assert found_at(world, 0) == true_at(0)
    assert len(set(looked_up)) <= len(true_at(0))


def test_a_memory_that_was_revised_is_found_as_it_was_then(world: World) -> None:
    world.advance(2 * DAY_MS)
    name = world.remember("pear one")
    world.advance(DAY_MS)
    revised = world.revise(name, body={"text": "pear two"})
    at = format_instant(Instant(world.now - DAY_MS // 2))
    assert world.texts("pear", filter={"valid_at": at}) == ["pear one"]
    assert world.texts("pear") == ["pear two"]
    world.forget(revised)
    assert world.texts("pear") == []
