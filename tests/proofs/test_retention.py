"""Retention is kept on time (UMP §2.7), by whoever runs, and by the clock alone when nobody does."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.app import Memoranda
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.opening import system_clock
from memoranda.service.core.upkeep import IDLE_SECONDS
from memoranda.standards.ump.rules import retention_end
from tests.proofs.store import processes
from tests.proofs.writers import TENANTS, keep_up
from tests.service.world import World
from tests.waiting import HANG_SECONDS, until

# Long enough for a slow machine to remember the same text twice before it ends.
RETENTION_MS = 4_000
RETENTION = {"retention": "PT4S"}


def _types(memory: Memoranda) -> list[str]:
    return [event.type for event in memory.service.changes(memory.access, {}, 0).events]


def test_an_expiry_is_announced_on_time_by_another_process_though_nobody_reads(tmp_path: Path) -> None:
    context = processes()
    ready, release = context.Event(), context.Event()
    keeper = context.Process(target=keep_up, args=(tmp_path, ready, release))
    keeper.start()
    try:
        assert ready.wait(HANG_SECONDS)
        with Memoranda.open(tmp_path, owner=TENANTS[0]) as memory:
            name = memory.remember("gone in seconds", retention=RETENTION["retention"]).id
            memory.remember("gone in seconds", retention=RETENTION["retention"])
            memory.remember("here to stay")
            due = retention_end(memory.get(name).record)
            assert due is not None
            until(lambda: "tombstoned" in _types(memory), "the expiry is announced")
            page = memory.service.changes(memory.access, {}, 0)
            (event,) = [each for each in page.events if each.type == "tombstoned"]
            assert event.id == name
            assert event.record["lifecycle"]["status"] == "tombstoned"
            assert parse_instant(event.record["time"]["valid_to"]) == due
            (audited,) = memory.service.audit(memory.access, {"op": "expire"})
            # Never early. The keeper looks at least every second, also for what others wrote; how late it is beyond
            # that is the machine's doing.
            assert parse_instant(audited["ts"]) >= due
            assert IDLE_SECONDS <= 1
            assert [found.record["body"]["text"] for found in memory.recall("seconds stay")] == ["here to stay"]
    finally:
        release.set()
        keeper.join(HANG_SECONDS)
        assert keeper.exitcode == 0
        keeper.close()


def test_what_has_expired_is_never_recalled_even_without_upkeep() -> None:
    world = World()
    name = world.remember("gone in seconds", consent=RETENTION)
    due = retention_end(world.get(name))
    assert due is not None
    for before_ms in (RETENTION_MS, 1_000, 1):
        world.now = Instant(due - before_ms)
        assert world.texts("gone seconds") == ["gone in seconds"]
    for after_ms in (0, 1, 50, 1_000, 10**9):
        world.now = Instant(due + after_ms)
        assert world.recall("gone seconds") == []
    assert world.recall("gone seconds", filter={"known_at": "2099-01-01T00:00:00Z"}) == []
    assert world.get(name)["lifecycle"]["status"] == "tombstoned"
    # Nobody swept, so nothing was announced; the next sweep does it, once.
    assert world.events() == [("created", name)]
    assert (world.service.purge(), world.service.purge()) == (1, 0)
    assert [each for each, _ in world.events()] == ["created", "tombstoned"]
    world.service.close()


@pytest.mark.parametrize("hard", [False, True])
def test_what_was_forgotten_before_does_not_expire_again(hard: bool) -> None:
    world = World()
    name = world.remember("told twice", consent={"retention": "PT0S"})
    kept = world.remember("told", consent=RETENTION)
    assert world.remember("told", consent=RETENTION) == kept
    world.forget(kept, hard=hard)
    world.advance(RETENTION_MS + 1)
    world.service.purge()
    assert [each for each, _ in world.events()] == ["created", "created", "merged", "tombstoned", "tombstoned"]
    assert world.events()[-1][1] == name
    assert world.recall("told") == []
    world.service.close()


def test_what_was_forgotten_is_not_recalled_as_known_before_it_was_told_again(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as memory:
        name = memory.remember("told twice").id
        first = system_clock()
        until(lambda: system_clock() > first, "time passes")
        assert memory.remember("told twice").result == "merged"
        known = format_instant(first)
        assert len(memory.recall("told", known_at=known)) == 1
        memory.forget(name)
        assert memory.recall("told", known_at=known) == []
