"""Which versions are not live is kept up to date without reading all of them again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoranda.storage.engine.caches import SearchCache
from tests.service.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.service.close()


def closed(world: World, memory: SearchCache) -> list[list[int]]:
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        found = memory.closed_versions(snapshot._connection, snapshot._tenant_id, snapshot._closing_seq)  # type: ignore[attr-defined]
        return [[int(each) for each in row] for row in found]


ACTS = st.lists(st.tuples(st.sampled_from(["remember", "revise", "forget", "erase"]), st.integers(0, 9)), max_size=12)


@settings(max_examples=25, deadline=None)
@example([("forget", 0), ("forget", 0), ("revise", 0), ("revise", 0), ("revise", 0)])
@given(ACTS)
def test_what_is_known_and_what_changed_is_what_is_read_anew(acts: list[tuple[str, int]]) -> None:
    world = World()
    kept = [world.remember(f"note {number}") for number in range(3)]
    memory = SearchCache()
    try:
        for place, (act, number) in enumerate(acts):
            name = kept[number % len(kept)]
            if act == "remember":
                kept.append(world.remember(f"more {place}"))
            elif act == "revise":
                kept.append(world.revise(name, body={"text": f"revised {place}"}))
                kept.remove(name)
            else:
                world.forget(name, hard=act == "erase")
                kept.remove(name)
                kept.append(world.remember(f"another {place}"))
            assert closed(world, memory) == closed(world, SearchCache())
    finally:
        world.service.close()


def test_writing_alone_reads_nothing_again(world: World) -> None:
    world.forget(world.remember("one"))
    memory = SearchCache()
    assert closed(world, memory) != []
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        before = snapshot._closing_seq  # type: ignore[attr-defined]
    world.remember("two")
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        assert snapshot._closing_seq == before  # type: ignore[attr-defined]
