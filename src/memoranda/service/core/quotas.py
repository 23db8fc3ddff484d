"""How much a tenant may keep and do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from memoranda.errors import QuotaExceeded
from memoranda.model.instant import Instant
from memoranda.storage.engine.contract import Unit

WINDOW_MS: Final = 60_000
# Room comes only when somebody forgets something: there is no use in asking every second.
_FULL: Final = 3600.0


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Through every standard together, for it is one store; 0 means as much as it likes."""

    memories: int = 0
    bytes: int = 0
    writes_per_minute: int = 0
    runs_per_minute: int = 0
    schedules: int = 0

    def spend(self, unit: Unit, now: Instant) -> None:
        """Count a write. Raises QuotaExceeded, which says when the next one is let in."""
        if self.writes_per_minute:
            _count(unit, "writes", self.writes_per_minute, now)

    def spend_run(self, unit: Unit, now: Instant) -> None:
        """Count a run that somebody begins. Raises QuotaExceeded."""
        if self.runs_per_minute:
            _count(unit, "runs", self.runs_per_minute, now)

    def check_schedules(self, there: Collection[str], name: str) -> None:
        """Raise QuotaExceeded if nothing more may be done by itself, again and again."""
        if self.schedules and name not in there and len(there) >= self.schedules:
            raise QuotaExceeded(
                f"{self.schedules} schedules are the most", retry_after_seconds=_FULL
            )

    def check_room(self, unit: Unit, *, is_new: bool, size: int) -> None:
        """Raise QuotaExceeded if there is no room for one more."""
        if not self.memories and not self.bytes:
            return
        live, used = unit.usage()
        if is_new and self.memories and live >= self.memories:
            raise QuotaExceeded(
                f"there are {live} memories, and {self.memories} is the most",
                retry_after_seconds=_FULL,
            )
        if self.bytes and used + size > self.bytes:
            raise QuotaExceeded(
                f"{self.bytes} bytes is the most, and {used} are used", retry_after_seconds=_FULL
            )

    def check_kept(self, unit: Unit) -> None:
        """Raise QuotaExceeded if there is no room for what this unit put down beside memories: files, logs, items."""
        if self.bytes and (used := unit.usage()[1]) > self.bytes:
            raise QuotaExceeded(
                f"{self.bytes} bytes is the most, and {used} would be used",
                retry_after_seconds=_FULL,
            )


def _count(unit: Unit, what: str, limit: int, now: Instant) -> None:
    if not unit.take_rate(what, now=now, window_ms=WINDOW_MS, limit=limit):
        opens = unit.rate_opens(what, now=now, window_ms=WINDOW_MS, limit=limit)
        raise QuotaExceeded(
            f"more than {limit} {what} a minute; try again later",
            retry_after_seconds=(opens - now) / 1000,
        )
