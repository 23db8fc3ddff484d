"""Retention is kept on time (UMP §2.7), by whoever runs, and by the clock alone when nobody does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from memoranda.app import Memoranda, system_clock
from memoranda.model.instant import format_instant, parse_instant
from memoranda.standards.ump.rules import retention_end
from tests.proofs.store import DEADLINE_SECONDS, processes, until
from tests.proofs.writers import TENANTS, keep_up

RETENTION = {"retention": "PT1S"}


def _types(memory: Memoranda) -> list[str]:
    return [event.type for event in memory.service.changes(memory.access, {}, 0).events]


def test_an_expiry_is_announced_on_time_by_another_process_though_nobody_reads(tmp_path: Path) -> None:
    context = processes()
    ready, release = context.Event(), context.Event()
    keeper = context.Process(target=keep_up, args=(tmp_path, ready, release))
    keeper.start()
    try:
        assert ready.wait(DEADLINE_SECONDS)
        with Memoranda.open(tmp_path, owner=TENANTS[0]) as memory:
            name = memory.remember("gone in a second", consent=RETENTION).id
            memory.remember("gone in a second", consent=RETENTION)
            memory.remember("here to stay")
            due = retention_end(memory.get(name))
            assert due is not None
            until(lambda: "tombstoned" in _types(memory), "the expiry is announced")
            page = memory.service.changes(memory.access, {}, 0)
            (event,) = [each for each in page.events if each.type == "tombstoned"]
            assert event.id == name
            assert event.record["lifecycle"]["status"] == "tombstoned"
            assert parse_instant(event.record["time"]["valid_to"]) == due
            (audited,) = memory.service.audit(memory.access, {"op": "expire"})
            late_ms = parse_instant(audited["ts"]) - due
            # The keeper looks at least every second, also for what others wrote.
            assert 0 <= late_ms < 5_000
            assert [found.record["body"]["text"] for found in memory.recall("second stay")] == ["here to stay"]
    finally:
        release.set()
        keeper.join(DEADLINE_SECONDS)
        assert keeper.exitcode == 0
        keeper.close()


def test_what_has_expired_is_never_recalled_even_without_upkeep(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as memory:
        name = memory.remember("gone in a second", consent=RETENTION).id
        due = retention_end(memory.get(name))
        assert due is not None
        answers = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (asked := system_clock()) < due + 50:
            assert time.monotonic() < deadline
            answers.append((asked, [found.record["id"] for found in memory.recall("gone second")]))
        assert answers[0][1] == [name]
        assert [found for asked, found in answers if asked >= due and found] == []
        assert memory.recall("gone second", known_at="2099-01-01T00:00:00Z") == []
        assert memory.get(name)["lifecycle"]["status"] == "tombstoned"
        # Nobody swept, so nothing was announced; the next sweep does it, once.
        assert _types(memory) == ["created"]
        assert (memory.service.sweep(), memory.service.sweep()) == (1, 0)
        assert _types(memory) == ["created", "tombstoned"]


@pytest.mark.parametrize("hard", [False, True])
def test_what_was_forgotten_before_does_not_expire_again(tmp_path: Path, hard: bool) -> None:
    with Memoranda.open(tmp_path) as memory:
        name = memory.remember("told twice", consent={"retention": "PT0S"}).id
        kept = memory.remember("told", consent=RETENTION).id
        assert memory.remember("told", consent=RETENTION).result == "merged"
        memory.forget(kept, hard=hard)
        due = retention_end(memory.get(name))
        assert due is not None
        until(lambda: system_clock() > due + 1_000, "both are past their retention")
        memory.service.sweep()
        assert _types(memory) == ["created", "created", "merged", "tombstoned", "tombstoned"]
        assert memory.recall("told") == []


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
