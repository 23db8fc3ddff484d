"""How much a tenant may keep and do.

What an owner asks for beyond what the server does: compliance presets, and less room.

They are kept in the row of the tenant that every read and every unit of work begins with, so they hold in every
process at once. An owner's own only ever add to the server's: no preset is lifted, and no limit is raised.

Something scarce that strangers share: whoever has most of it is the first to lose some.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from memoranda.errors import InvalidInput, QuotaExceeded
from memoranda.model.instant import Instant

if TYPE_CHECKING:
    from memoranda.service.core.access import Access
    from memoranda.service.core.context import Context
    from memoranda.storage.engine.contract import Unit

WINDOW_MS: Final = 60_000
# Room comes only when somebody forgets something: there is no use in asking every second.
_FULL_RETRY_SECONDS: Final = 3600.0


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Through every standard together, for it is one store; 0 means as much as it likes."""

    memories: int = 0
    bytes: int = 0
    writes_per_minute: int = 0
    runs_per_minute: int = 0
    schedules: int = 0

    def count_write(self, unit: Unit, now: Instant) -> None:
        """Count a write. Raises QuotaExceeded, which says when the next one is let in."""
        if self.writes_per_minute:
            _take_rate(unit, "writes", self.writes_per_minute, now)

    def count_run(self, unit: Unit, now: Instant) -> None:
        """Count a run that somebody begins. Raises QuotaExceeded."""
        if self.runs_per_minute:
            _take_rate(unit, "runs", self.runs_per_minute, now)

    def check_schedules(self, schedules: Collection[str], name: str) -> None:
        """Raise QuotaExceeded if nothing more may be done by itself, again and again."""
        if self.schedules and name not in schedules and len(schedules) >= self.schedules:
            raise QuotaExceeded(
                f"{self.schedules} schedules are the most", retry_after_seconds=_FULL_RETRY_SECONDS
            )

    def check_room(self, unit: Unit, *, is_new: bool, size: int) -> None:
        """Raise QuotaExceeded if there is no room for one more."""
        if not self.memories and not self.bytes:
            return
        live, used = unit.measure_usage()
        if is_new and self.memories and live >= self.memories:
            raise QuotaExceeded(
                f"there are {live} memories, and {self.memories} is the most",
                retry_after_seconds=_FULL_RETRY_SECONDS,
            )
        if self.bytes and used + size > self.bytes:
            raise QuotaExceeded(
                f"{self.bytes} bytes is the most, and {used} are used",
                retry_after_seconds=_FULL_RETRY_SECONDS,
            )

    def check_bytes(self, unit: Unit) -> None:
        """Raise QuotaExceeded if there is no room for what this unit put down beside memories: files, logs, items."""
        if self.bytes and (used := unit.measure_usage()[1]) > self.bytes:
            raise QuotaExceeded(
                f"{self.bytes} bytes is the most, and {used} would be used",
                retry_after_seconds=_FULL_RETRY_SECONDS,
            )


def _take_rate(unit: Unit, action: str, limit: int, now: Instant) -> None:
    if not unit.consume_rate(action, now=now, window_ms=WINDOW_MS, limit=limit):
        opens = unit.find_rate_reset(action, now=now, window_ms=WINDOW_MS, limit=limit)
        raise QuotaExceeded(
            f"more than {limit} {action} a minute; try again later",
            retry_after_seconds=(opens - now) / 1000,
        )


# What there is; compliance.py says what each asks for.
PRESETS: Final = ("gdpr", "ccpa", "hipaa")
MAX_LIMIT: Final = 1 << 53


class OwnRules(msgspec.Struct, frozen=True, kw_only=True):
    """0 means no limit of one's own."""

    presets: tuple[str, ...] = ()
    memories: int = 0
    bytes: int = 0
    writes_per_minute: int = 0

    def __post_init__(self) -> None:
        if unknown := next((preset for preset in self.presets if preset not in PRESETS), None):
            raise InvalidInput(
                f"there is no preset {unknown[:40]!a}; there are {', '.join(PRESETS)}"
            )
        for name in ("memories", "bytes", "writes_per_minute"):
            if not 0 <= getattr(self, name) <= MAX_LIMIT:
                raise InvalidInput(f"{name} must be a whole number from 0 to {MAX_LIMIT}")


NO_RULES: Final = OwnRules()


@lru_cache(maxsize=1_024)
def parse_rules(stored: bytes) -> OwnRules:
    """The rules as they are kept; none, where there are none."""
    return msgspec.json.decode(stored, type=OwnRules) if stored else NO_RULES


@lru_cache(maxsize=1_024)
def tighten_quotas(quotas: Quotas, stored_rules: bytes) -> Quotas:
    """The server's quotas, and an owner's own where they are less."""
    own = parse_rules(stored_rules)
    return msgspec.structs.replace(
        quotas,
        memories=_smaller_limit(quotas.memories, own.memories),
        bytes=_smaller_limit(quotas.bytes, own.bytes),
        writes_per_minute=_smaller_limit(quotas.writes_per_minute, own.writes_per_minute),
    )


def _smaller_limit(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other


def read_rules(context: Context, access: Access) -> OwnRules:
    """What the caller's owner asked for."""
    with context.engine.read(access.default_tenant) as snapshot:
        return parse_rules(snapshot.rules)


def set_rules(context: Context, access: Access, rules: OwnRules) -> None:
    """Ask for something else from now on; what is there already stays as it is."""
    # The one that has the function of the same name there: nothing else of it is needed here.
    from memoranda.service.core.context import audit_entry

    now, tenant = context.clock(), access.default_tenant
    fields = msgspec.to_builtins(rules)
    entry = audit_entry(access, "rules", now=now, scope={"owner": tenant}, result="ok", meta=fields)

    def work(unit: Unit) -> None:
        unit.set_rules(b"" if rules == NO_RULES else msgspec.json.encode(rules))
        unit.record_audit(entry)

    context.engine.write(tenant, work)
    context.drop_cached_rules(tenant)


T = TypeVar("T", bound=Hashable)


class FairShares(Generic[T]):
    """What is held, by whom, and how much of it. Not thread-safe.

    Taking from whoever holds most means that nobody is crowded out by another who takes all there is.
    """

    def __init__(self) -> None:
        self.total = 0
        # Of each holder what it holds, the oldest first, with its weight; and who holds what.
        self._items_of: dict[Hashable, dict[T, int]] = {}
        self._weights: dict[Hashable, int] = {}
        self._holders: dict[T, Hashable] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def put(self, item: T, holder: Hashable, weight: int = 1) -> None:
        """Note that somebody holds it, or holds it anew."""
        self.remove(item)
        self._holders[item] = holder
        self._items_of.setdefault(holder, {})[item] = weight
        self._weights[holder] = self._weights.get(holder, 0) + weight
        self.total += weight

    def remove(self, item: T) -> None:
        """Note that nobody holds it any more."""
        if item not in self._holders:
            return
        holder = self._holders.pop(item)
        weight = self._items_of[holder].pop(item)
        self.total -= weight
        self._weights[holder] -= weight
        if not self._items_of[holder]:
            del self._items_of[holder], self._weights[holder]

    def weight_of(self, holder: Hashable) -> int:
        """How much somebody holds."""
        return self._weights.get(holder, 0)

    def oldest_of(self, holder: Hashable) -> T | None:
        """What somebody has held for longest."""
        return next(iter(self._items_of.get(holder, ())), None)

    def evict(self, may_evict: Callable[[T], bool] = lambda _: True) -> T | None:
        """Take away the oldest that may go, of whoever holds most; None if none may."""
        for holder in sorted(self._weights, key=self._weights.__getitem__, reverse=True):
            for item in self._items_of[holder]:
                if may_evict(item):
                    self.remove(item)
                    return item
        return None
