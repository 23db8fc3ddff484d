"""The clock of erasures: it does not follow a sudden jump forward of the system's clock.

An erasure cannot be undone, and a clock that is wrong for some minutes must not cause one. So the system's clock is
compared with the time since the machine started, which nobody can set, and which goes on while the machine sleeps.
While the system's clock is further ahead than that, erasures go by the time since the start; after GRACE_MS of the same
difference the clock is believed. Nothing is shown longer for it: every read hides what is past its end by the system's
clock.

The evidence is stored for each start of each machine, so that a restart of the program, another process and another
server know it. Between two starts of a machine there is no proof of the time that went by: up to UNPROVEN_MS are
believed at once, and more after the grace period.

Example: a machine's clock is set ahead by a year for ten minutes. Reads hide what seems expired, but nothing is erased,
because the uptime proves that no year went by. When the clock is right again, everything is visible as before. If the
difference lasts an hour, it is believed, since otherwise a machine that really had a wrong clock before would never
erase.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from memoranda.model.instant import Instant
from memoranda.storage.engine.contract import Engine

_R = TypeVar("_R")

# Milliseconds that a difference must last until the clock is believed.
GRACE_MS: Final = 3_600_000
# The time between two starts of a machine, or two servers, that is believed without a proof.
UNPROVEN_MS: Final = 2 * 3_600_000
# If a machine starts again and again, its clock is believed if it went on for a day since the difference was noticed.
RESTARTED_MS: Final = 86_400_000
# A clock may differ by this, and by a hundredth of the time that passed: it is corrected from time to time.
TOLERANCE_MS: Final = 60_000
# The evidence is written this often, and whenever a difference begins or ends.
_WRITTEN_MS: Final = 3_600_000
# Starts of machines whose evidence is kept.
_STARTS_KEPT: Final = 8
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Uptime(NamedTuple):
    """A start of a machine, and the milliseconds since then."""

    start: str
    ms: int


class Difference(msgspec.Struct, frozen=True):
    """A jump forward that is not believed yet: when it was noticed, by the system's clock and by the uptime, and its
    length.
    """

    noticed: int
    uptime_ms: int
    ahead_ms: int


class Evidence(msgspec.Struct, frozen=True):
    """The believed time at a moment of one start of a machine."""

    believed: int
    uptime_ms: int
    difference: Difference | None = None


class ClockDoubt(NamedTuple):
    """A clock that is not believed: the believed time, by how much the clock is ahead, and until when it is doubted."""

    believed: Instant
    ahead_ms: int
    until: Instant


class RetentionClock:
    """The time by which erasures are due. Several threads and processes may use it."""

    def __init__(
        self,
        system_clock: Callable[[], Instant],
        uptime: Callable[[], Uptime],
        engine: Engine,
        last_recorded: Instant,
    ) -> None:
        """Prepare the clock. `last_recorded`, the time of the newest write, is the evidence of a store without any."""
        self._clock, self._uptime, self._engine = system_clock, uptime, engine
        self._last_recorded = last_recorded
        self._lock = threading.Lock()

    def __call__(self) -> Instant:
        """Return the believed time, and store the evidence if it is due."""
        return self._observe(self._believe)

    def doubt(self) -> ClockDoubt | None:
        """Return by how much the clock is not believed; None if it is.

        `memoranda doctor` and the console show it.
        """
        return self._observe(self._describe)

    def _observe(self, report: Callable[[Evidence, Instant], _R]) -> _R:
        with self._lock:
            now, uptime = self._clock(), self._uptime()
            by_start = self._load()
            before = by_start.get(uptime.start)
            evidence = before or self._first_evidence(by_start, now, uptime.ms)
            evidence = _follow(evidence, now, uptime.ms)
            if self._must_store(before, evidence):
                self._store(by_start, uptime.start, evidence)
            return report(evidence, now)

    def _believe(self, evidence: Evidence, _: Instant) -> Instant:
        return Instant(evidence.believed)

    def _describe(self, evidence: Evidence, now: Instant) -> ClockDoubt | None:
        if evidence.difference is None:
            return None
        remaining_ms = GRACE_MS - (evidence.uptime_ms - evidence.difference.uptime_ms)
        ahead = now - evidence.believed
        return ClockDoubt(Instant(evidence.believed), ahead, Instant(now + max(0, remaining_ms)))

    def _first_evidence(
        self, by_start: Mapping[str, Evidence], now: Instant, uptime_ms: int
    ) -> Evidence:
        """Return the evidence at the first look since this start of the machine."""
        last = max(by_start.values(), key=lambda evidence: evidence.believed, default=None)
        believed = self._last_recorded if last is None else last.believed
        if not believed or now - believed <= UNPROVEN_MS:
            return Evidence(now, uptime_ms)
        difference = None if last is None else last.difference
        if difference is not None and now - difference.noticed >= RESTARTED_MS:
            return Evidence(now, uptime_ms)
        noticed = now if difference is None else min(now, difference.noticed)
        return Evidence(believed, uptime_ms, Difference(noticed, uptime_ms, now - believed))

    def _must_store(self, before: Evidence | None, evidence: Evidence) -> bool:
        """Return True if evidence should replace that from before."""
        if self._engine.is_read_only:
            return False
        if before is None:
            return True
        if (before.difference is None) != (evidence.difference is None):
            return True
        return evidence.uptime_ms - before.uptime_ms >= _WRITTEN_MS

    def _load(self) -> dict[str, Evidence]:
        data = self._engine.system.load_clock_evidence()
        try:
            return {} if data is None else msgspec.json.decode(data, type=dict[str, Evidence])
        except (msgspec.DecodeError, msgspec.ValidationError):
            return {}

    def _store(self, by_start: Mapping[str, Evidence], start: str, evidence: Evidence) -> None:
        newest_first = sorted(by_start.items(), key=lambda item: -item[1].believed)
        other_starts = [item for item in newest_first if item[0] != start][: _STARTS_KEPT - 1]
        data = msgspec.json.encode(dict([(start, evidence), *other_starts]))
        self._engine.system.store_clock_evidence(data)


def _follow(before: Evidence, now: Instant, uptime_ms: int) -> Evidence:
    """Return the evidence at a later moment of the same start of a machine."""
    passed = max(0, uptime_ms - before.uptime_ms)
    tolerance = TOLERANCE_MS + passed // 100
    if now <= before.believed + passed + tolerance:
        # Also if the clock was set back: then less is due.
        return Evidence(now, uptime_ms)
    believed, difference = before.believed + passed, before.difference
    ahead = now - believed
    if difference is None or ahead > difference.ahead_ms + tolerance:
        # Another jump forward has a grace period of its own.
        return Evidence(believed, uptime_ms, Difference(now, uptime_ms, ahead))
    if uptime_ms - difference.uptime_ms >= GRACE_MS:
        return Evidence(now, uptime_ms)
    return Evidence(believed, uptime_ms, difference)


def read_uptime() -> Uptime:
    """Return the start of this machine and the time since then, with the time that it slept.

    Where the system does not name its starts, every process counts as one.
    """
    # CLOCK_BOOTTIME is Linux's; elsewhere the monotonic clock comes nearest.
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return Uptime(_name_of_start(), time.clock_gettime_ns(clock) // 1_000_000)


_names_of_starts: list[str] = []


def _name_of_start() -> str:
    if not _names_of_starts:
        try:
            _names_of_starts.append(_BOOT_ID.read_text().strip())
        except OSError:
            _names_of_starts.append(uuid.uuid4().hex)
    return _names_of_starts[0]
