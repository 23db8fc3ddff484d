"""The word index in the store: few segments however much is written, and nothing left of what was erased."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from memoranda.errors import StoreCorrupt
from memoranda.retrieval import segment
from memoranda.retrieval.entry import IndexedText, IndexEntry
from memoranda.storage.engine.caches import SearchCache
from memoranda.storage.engine.database import Connection
from memoranda.storage.index import segment_reader, word_index
from memoranda.storage.index.word_index import MERGE_FAN_IN, SMALL_SEGMENT_DOCS, SegmentCache, SegmentKey, WordIndex
from tests.service.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.service.close()


def names(world: World) -> list[SegmentKey]:
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        index = WordIndex(snapshot._connection, snapshot._tenant_id, SearchCache().segments)  # type: ignore[attr-defined]
        return index.segment_keys()


def test_many_writes_leave_few_segments_and_every_word_is_found(world: World) -> None:
    for number in range(3 * MERGE_FAN_IN + 5):
        world.remember(f"apple word{number}", kind="episodic")
    found = names(world)
    assert sum(each.docs for each in found) == 3 * MERGE_FAN_IN + 5
    assert len(found) == 3 + 5
    for number in (0, MERGE_FAN_IN - 1, MERGE_FAN_IN, 3 * MERGE_FAN_IN + 4):
        assert world.texts(f"word{number}") == [f"apple word{number}"]


def test_large_segments_are_merged_outside_the_writers_turn(world: World) -> None:
    world.remember("so that the tenant is there")
    engine, segments = world.engine, SearchCache().segments
    with engine.open_snapshot(world.owner.default_tenant) as snapshot:
        tenant_id = snapshot._tenant_id  # type: ignore[attr-defined]

    def entry(number: int) -> IndexEntry:
        return IndexEntry(version_id=1_000 + number, space=1, text=IndexedText({7: 1, 1_000 + number: 1}, 2))

    def write(start: int, connection: Connection) -> None:
        entries = [entry(number) for number in range(start, start + 500)]
        WordIndex(connection, tenant_id, segments).add_entries(entries)

    for start in range(0, MERGE_FAN_IN * 500, 500):
        engine._database.write(partial(write, start))
    # Too large for a unit of work.
    assert engine._database.write(lambda c: WordIndex(c, tenant_id, segments).merge_overdue(limit=SMALL_SEGMENT_DOCS))
    engine._untidy.add(tenant_id)
    engine.merge_large_segments()
    assert [each.docs for each in names(world)] == [MERGE_FAN_IN * 500 + 1]
    with engine.open_snapshot(world.owner.default_tenant) as snapshot:
        (found,) = WordIndex(snapshot._connection, tenant_id, segments).segments()  # type: ignore[attr-defined]
        everywhere, once = found.find(7), found.find(1_000 + 4_321)
        assert everywhere is not None
        assert once is not None
        assert len(everywhere[0]) == MERGE_FAN_IN * 500
        places, counts = once
        assert (found.columns.versions[places].tolist(), counts.tolist()) == ([5_321], [1])
        assert found.find(5) is found.find(999_999) is None


def test_what_is_erased_leaves_its_segment(world: World) -> None:
    kept = [world.remember(f"apple word{number}", kind="episodic") for number in range(MERGE_FAN_IN + 2)]
    total = sum(each.docs for each in names(world))
    for name in (kept[0], kept[MERGE_FAN_IN // 2], kept[-1]):
        world.forget(name, hard=True)
    assert sum(each.docs for each in names(world)) == total - 3
    assert world.texts("word0") == []
    assert world.texts("word1") == ["apple word1"]
    assert SMALL_SEGMENT_DOCS > MERGE_FAN_IN


def test_reading_after_every_write_keeps_one_copy_of_what_was_read(world: World) -> None:
    for number in range(2 * MERGE_FAN_IN):
        world.remember(f"apple word{number}", kind="episodic")
        assert world.texts(f"word{number}") == [f"apple word{number}"]
    cache = world.engine._memory.segments
    assert len(cache._entries) <= 3
    assert cache._size == sum(size for _, size in cache._entries.values())


def test_a_segment_of_the_largest_size_is_not_made_larger(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_index, "LARGEST_SEGMENT_DOCS", MERGE_FAN_IN)
    for number in range(2 * MERGE_FAN_IN * MERGE_FAN_IN):
        world.remember(f"apple word{number}", kind="episodic")
    assert {each.docs for each in names(world)} == {MERGE_FAN_IN}


@pytest.mark.parametrize("value", ["x'00'", "substr(data, 1, length(data) - 3)"])
def test_a_damaged_word_index_is_said_to_be_damaged(world: World, value: str) -> None:
    world.remember("green tea")
    world.engine._database.write(lambda connection: connection.select(f"UPDATE segment SET data = {value}", {}))
    with pytest.raises(StoreCorrupt, match="word index"):
        world.texts("tea")


def test_neighbours_are_found_across_segments(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever segments two turns of a session are in, the same is found in the same order with the same scores."""

    def found() -> list[tuple[str, float]]:
        asked = world.recall("lighthouse keeper", scope={"project": "talk"}, limit=50)
        return [(each.record["body"]["text"], each.score) for each in asked]

    def turn(number: int) -> None:
        text = (
            "the keeper nods"
            if number % 7 == 3
            else f"lighthouse number {number}"
            if number % 7 == 4
            else f"word {number}"
        )
        at = f"2026-03-01T10:{number // 60:02}:{number % 60:02}Z"
        times = {"created": at, "observed": at, "valid_from": at}
        scope = {"project": "talk", "session": f"s{number // 20}"}
        world.remember(text, kind="episodic", scope=scope, time=times)

    # As if each were a large one, with its parts in rows of their own.
    monkeypatch.setattr(word_index, "_ENCODED_PLAINLY", 0)
    monkeypatch.setattr(word_index, "_INLINE_BYTES", 0)
    for number in range(60):
        turn(number)
    whole = found()
    assert len(whole) > 10
    # The same segments, of which all that have more than so many are large now.
    for size in (1, 4, 16):
        monkeypatch.setattr(segment_reader, "SMALL_SEGMENT_DOCS", size)
        world.engine._memory.segments = SegmentCache()
        assert found() == whole


def test_a_long_session_whose_turns_came_in_any_order_is_searched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written last may have been said first, in a segment that is cut through the session."""
    monkeypatch.setattr(word_index, "_ENCODED_PLAINLY", 0)
    monkeypatch.setattr(word_index, "_INLINE_BYTES", 0)
    monkeypatch.setattr(segment, "CUT_LIMIT", 2)
    for number in range(40):
        at = f"2026-03-01T10:00:{(number * 7) % 40:02}Z"
        times = {"created": at, "observed": at, "valid_from": at}
        world.remember(f"lighthouse {number}", kind="episodic", scope={"session": "one"}, time=times)
    for size in (1, 4, 16):
        monkeypatch.setattr(segment_reader, "SMALL_SEGMENT_DOCS", size)
        world.engine._memory.segments = SegmentCache()
        assert len(world.recall("lighthouse", limit=50)) == 40


def test_of_an_index_that_is_written_to_only_the_last_state_is_kept(world: World) -> None:
    kept = world.engine._memory.segments._entries
    counts = []
    for number in range(3 * MERGE_FAN_IN):
        world.remember(f"tea {number}")
        assert world.recall("tea")
        counts.append(len(kept))
    assert max(counts) == counts[0]


def test_a_write_leaves_what_was_found_out_of_settled_segments(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where nothing is written for a while all segments are one, in which the same is found."""
    # As if each were a large one, with its parts in rows of their own.
    monkeypatch.setattr(word_index, "_ENCODED_PLAINLY", 0)
    monkeypatch.setattr(word_index, "_INLINE_BYTES", 0)
    monkeypatch.setattr(segment_reader, "SMALL_SEGMENT_DOCS", MERGE_FAN_IN)
    monkeypatch.setattr(segment_reader, "_QUERIES_BEFORE_JOIN", 4)

    def write(number: int) -> None:
        world.remember(f"apple word{number}", kind="episodic", scope={"session": f"s{number // 2}"})

    def segments() -> list[int]:
        with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
            index = WordIndex(snapshot._connection, snapshot._tenant_id, world.engine._memory.segments)  # type: ignore[attr-defined]
            return [id(each.columns) for each in index.segments()]

    for number in range(2 * MERGE_FAN_IN + 4):
        write(number)
    first, second = segments()
    write(100)
    assert segments()[0] == first
    assert segments()[1] != second
    found = [each.record["id"] for each in world.recall("apple word3 word35", limit=50)]
    assert len(found) == 2 * MERGE_FAN_IN + 5
    for _ in range(3):
        segments()
    assert len(segments()) == 1
    assert [each.record["id"] for each in world.recall("apple word3 word35", limit=50)] == found
    write(101)
    assert len(segments()) == 2
    assert len(world.recall("apple", limit=50)) == 2 * MERGE_FAN_IN + 6
