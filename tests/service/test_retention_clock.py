"""Erasures follow no sudden jump of the clock: in one process, after a restart, in another process, on another node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.service.core.context import Context
from memoranda.service.core.retention_clock import (
    GRACE_MS,
    RESTARTED_MS,
    TOLERANCE_MS,
    UNPROVEN_MS,
    RetentionClock,
    Uptime,
    read_uptime,
)
from memoranda.service.core.upkeep import purge
from tests.service.world import World

DAY_MS = 86_400_000
BEGIN = 1_800_000_000_000


@dataclass
class Machine:
    """A machine with a clock that can be set, and a time since its start that cannot."""

    now: int = BEGIN
    up: int = 5_000_000
    start: str = "first start"

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.up += ms

    def restart(self, name: str, *, off_ms: int = 0) -> None:
        self.now += off_ms
        self.up, self.start = 30_000, name

    def clock(self, world: World, last: int = BEGIN) -> RetentionClock:
        """The clock of one process on this machine."""
        return RetentionClock(
            lambda: Instant(self.now),
            lambda: Uptime(self.start, self.up),
            world.service.context.engine,
            Instant(last),
        )


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_time_that_goes_by_is_believed(world: World, machine: Machine) -> None:
    clock = machine.clock(world)
    for passed in (0, 1_000, GRACE_MS, 30 * DAY_MS):
        machine.pass_time(passed)
        assert (clock(), clock.doubt()) == (machine.now, None)
    # Corrections of a clock that runs a little wrong.
    machine.now += TOLERANCE_MS
    assert clock() == machine.now
    machine.pass_time(DAY_MS)
    machine.now += DAY_MS // 100
    assert clock() == machine.now


def test_a_jump_forward_is_not_followed_until_it_has_lasted(world: World, machine: Machine) -> None:
    clock = machine.clock(world)
    clock()
    machine.now += DAY_MS
    assert clock() == BEGIN
    machine.pass_time(GRACE_MS - 1_000)
    assert clock() == BEGIN + GRACE_MS - 1_000
    doubt = clock.doubt()
    assert doubt is not None
    assert (doubt.ahead_ms, doubt.until) == (DAY_MS, machine.now + 1_000)
    machine.pass_time(1_000)
    assert (clock(), clock.doubt()) == (machine.now, None)


def test_a_jump_forward_and_back_leaves_nothing_behind(world: World, machine: Machine) -> None:
    clock = machine.clock(world)
    clock()
    machine.now += DAY_MS
    clock()
    machine.pass_time(60_000)
    machine.now -= DAY_MS
    assert (clock(), clock.doubt()) == (BEGIN + 60_000, None)
    # The next jump has a grace period of its own.
    machine.pass_time(GRACE_MS)
    clock()
    machine.now += DAY_MS
    assert clock() == machine.now - DAY_MS


def test_a_second_jump_has_a_grace_period_of_its_own(world: World, machine: Machine) -> None:
    clock = machine.clock(world)
    clock()
    machine.now += DAY_MS
    clock()
    machine.pass_time(GRACE_MS - 1_000)
    machine.now += 365 * DAY_MS
    clock()
    machine.pass_time(2_000)
    assert clock() == BEGIN + GRACE_MS + 1_000
    machine.pass_time(GRACE_MS)
    assert clock() == machine.now


def test_a_clock_that_was_set_back_is_followed(world: World, machine: Machine) -> None:
    clock = machine.clock(world)
    clock()
    machine.now -= 10 * DAY_MS
    assert (clock(), clock.doubt()) == (machine.now, None)


def test_another_process_and_a_restarted_one_know_of_the_jump(world: World, machine: Machine) -> None:
    machine.clock(world)()
    machine.now += DAY_MS
    machine.clock(world)()
    machine.pass_time(GRACE_MS // 2)
    assert machine.clock(world)() == BEGIN + GRACE_MS // 2
    machine.pass_time(GRACE_MS // 2)
    # The grace period began with the first process.
    assert machine.clock(world)() == machine.now


def test_a_machine_that_was_off_for_long_is_believed_after_the_grace_period(world: World, machine: Machine) -> None:
    machine.clock(world)()
    machine.restart("second start", off_ms=UNPROVEN_MS)
    assert machine.clock(world)() == machine.now
    machine.restart("third start", off_ms=3 * DAY_MS)
    clock = machine.clock(world)
    assert clock() == machine.now - 3 * DAY_MS
    machine.pass_time(GRACE_MS)
    assert clock() == machine.now


def test_a_machine_that_never_runs_for_the_grace_period_is_believed_after_a_day(world: World, machine: Machine) -> None:
    machine.clock(world)()
    machine.restart("second", off_ms=2 * DAY_MS)
    assert machine.clock(world)() < machine.now - DAY_MS
    machine.restart("third", off_ms=RESTARTED_MS // 2)
    assert machine.clock(world)() < machine.now - DAY_MS
    machine.restart("fourth", off_ms=RESTARTED_MS // 2)
    assert machine.clock(world)() == machine.now


def test_another_node_with_a_wrong_clock_erases_nothing_and_harms_no_other(world: World, machine: Machine) -> None:
    right = machine.clock(world)
    right()
    other = Machine(now=BEGIN + 40 * DAY_MS, up=99_000_000, start="another machine")
    wrong = other.clock(world)
    assert wrong() == BEGIN
    for each in (machine, other):
        each.pass_time(60_000)
    assert (right(), wrong()) == (machine.now, BEGIN + 60_000)


def test_a_store_without_evidence_goes_by_its_newest_write(world: World, machine: Machine) -> None:
    assert machine.clock(world, last=BEGIN - 30 * DAY_MS)() == BEGIN - 30 * DAY_MS


def test_evidence_that_cannot_be_read_is_replaced(world: World, machine: Machine) -> None:
    world.service.context.engine.system.store_clock_evidence(b"\xff{")
    assert machine.clock(world)() == machine.now


def test_the_evidence_of_few_starts_is_kept(world: World, machine: Machine) -> None:
    for number in range(30):
        machine.restart(f"start {number}")
        machine.clock(world)()
    stored = world.service.context.engine.system.load_clock_evidence()
    assert stored is not None
    assert stored.count(b"start ") == 8
    assert b"start 29" in stored


def test_the_time_since_the_start_goes_on() -> None:
    first, second = read_uptime(), read_uptime()
    assert first.start == second.start != ""
    assert 0 < first.ms <= second.ms


@pytest.mark.requirement("OURS-retention-clock")
def test_a_jump_of_a_day_and_back_erases_nothing(world: World, machine: Machine) -> None:
    context: Context = world.service.context
    machine.now = world.now
    retention = machine.clock(world)
    jumping = replace(context, clock=lambda: Instant(machine.now), retention_clock=retention)
    purge(jumping)
    name = world.remember("gone within an hour", consent={"retention": "PT1H"})
    for jump in (DAY_MS, -DAY_MS):
        machine.now += jump
        assert purge(jumping) == 0
    assert world.service.get(world.owner, name)["body"]["text"] == "gone within an hour"
    # In its time it is erased.
    machine.pass_time(GRACE_MS + 1_000)
    assert purge(jumping) == 1


def test_doctor_says_that_erasures_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import memoranda.opening
    from memoranda.cli.doctor import _find_clock_doubt
    from memoranda.settings import load_settings

    settings = load_settings({"MEMORANDA_EMBEDDER": "off"}, home=tmp_path)
    service = memoranda.opening.open_service(settings)
    try:
        assert _find_clock_doubt(service) is None
        now = memoranda.opening.system_clock()
        monkeypatch.setattr(memoranda.opening, "system_clock", lambda: Instant(now + DAY_MS))
        finding = _find_clock_doubt(service)
        assert finding is not None
        assert not finding.ok
        assert "24.0 hours forward" in finding.seen
    finally:
        service.close()
