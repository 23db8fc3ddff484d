"""A clock that is set back or forth keeps the order in which things were written, through every standard."""

from __future__ import annotations

from pathlib import Path

import pytest

import memoranda.opening
from memoranda.app import Memoranda
from memoranda.model.instant import DAY_MS, Instant
from memoranda.standards.openwop.entry import Draft, ListOptions

NOON = Instant(1_790_000_000_000)
HOUR_MS = 3_600_000


class Clock:
    """What the system says."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> Instant:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(memoranda.opening, "system_clock", clock)
    return clock


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_what_is_written_after_the_clock_went_back_is_listed_after_what_was_written_before(
    clock: Clock, tmp_path: Path, restarted: bool
) -> None:
    written = []
    memory = Memoranda.open(tmp_path)
    for number, jump in enumerate((0, HOUR_MS, -3 * HOUR_MS, 0, -20 * HOUR_MS, 5 * HOUR_MS)):
        clock.now = Instant(clock.now + jump)
        if restarted:
            memory.close()
            memory = Memoranda.open(tmp_path)
        memory.openwop.put_entries("order", [Draft(content=f"note {number}")])
        written.append(f"note {number}")
    listed = [entry["content"] for entry in memory.openwop.list_entries("order", ListOptions())]
    assert listed == written[::-1]
    first = memory.remember("first wording")
    clock.now = Instant(clock.now - 2 * HOUR_MS)
    second = memory.revise(first.id, "second wording")
    assert memory.get(first.id).record["superseded_by"] == [second.id]
    assert memory.recall("wording")[0].record["body"]["text"] == "second wording"
    assert memory.service.verify_store().ok
    memory.close()


def test_a_clock_that_was_wrong_by_days_is_believed_when_it_is_right_again(clock: Clock, tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as memory:
        clock.now = Instant(NOON + 400 * DAY_MS)
        memory.remember("from the future")
        clock.now = NOON
        # Nothing ends a year too early.
        assert memory.service.context.clock() == NOON
