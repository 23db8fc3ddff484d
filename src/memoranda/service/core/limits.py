"""Limits: the server's quotas, the rules that an owner adds, and fair shares of scarce resources.

`Quotas` limit what each tenant may store and do, over all standards together. An owner's `OwnRules` can only tighten
them and add compliance presets: no preset is lifted, and no limit is raised. They are stored in the tenant's row, with
which every read and every unit of work begins, so they hold in all processes at once.

`FairShares` divides a resource among strangers, such as connections or memory: the holder of the largest share loses
first.

Three sources of a limit: the server's settings (`Quotas`), what the operator granted one tenant in its place
(`QuotaGrant`), and what the owner set (`OwnRules`), which can only make it smaller. `tighten_quotas` combines them.
Every write passes `NewVersion.append`, which checks them in the same unit of work, so two processes cannot exceed a
limit together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from memoranda.errors import InvalidInput, QuotaExceeded
from memoranda.model.instant import DAY_MS, Instant

if TYPE_CHECKING:
    from memoranda.model.memory import AuditEntry
    from memoranda.service.core.access import Access
    from memoranda.service.core.context import Context
    from memoranda.storage.engine.contract import Unit

# Milliseconds in which writes and runs are counted.
WINDOW_MS: Final = 60_000
# Seconds after which a full owner may retry. Room appears only when something is deleted, so retrying soon is useless.
_FULL_RETRY_SECONDS: Final = 3600.0


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a tenant over all standards together; 0 means unlimited."""

    memories: int = 0
    bytes: int = 0
    writes_per_minute: int = 0
    runs_per_minute: int = 0
    schedules: int = 0

    def count_write(self, unit: Unit, now: Instant) -> None:
        """Count a write. Raises QuotaExceeded with the time until the next one is admitted.

        Counted in the store, over a sliding minute.
        """
        if self.writes_per_minute:
            _take_rate(unit, "writes", self.writes_per_minute, now)

    def count_run(self, unit: Unit, now: Instant) -> None:
        """Count the start of a run. Raises QuotaExceeded."""
        if self.runs_per_minute:
            _take_rate(unit, "runs", self.runs_per_minute, now)

    def check_schedules(self, schedules: Collection[str], name: str) -> None:
        """Raise QuotaExceeded if one more schedule would exceed the limit."""
        if self.schedules and name not in schedules and len(schedules) >= self.schedules:
            raise QuotaExceeded(
                f"{self.schedules} schedules are the most", retry_after_seconds=_FULL_RETRY_SECONDS
            )

    def check_room(self, unit: Unit, *, is_new: bool, size: int) -> None:
        """Raise QuotaExceeded if a document of `size` bytes does not fit; a new memory also counts as one.

        Room for a new version of an existing memory is checked in bytes only.
        """
        if not self.memories and not self.bytes:
            return
        live, used_bytes = unit.measure_usage()
        if is_new and self.memories and live >= self.memories:
            raise QuotaExceeded(
                f"there are {live} memories, and {self.memories} is the most",
                retry_after_seconds=_FULL_RETRY_SECONDS,
            )
        if self.bytes and used_bytes + size > self.bytes:
            raise QuotaExceeded(
                f"{self.bytes} bytes is the most, and {used_bytes} are used",
                retry_after_seconds=_FULL_RETRY_SECONDS,
            )

    def check_bytes(self, unit: Unit) -> None:
        """Raise QuotaExceeded if a unit of work stored too many bytes outside memories: files, logs, items."""
        if self.bytes and (used_bytes := unit.measure_usage()[1]) > self.bytes:
            raise QuotaExceeded(
                f"{self.bytes} bytes is the most, and {used_bytes} would be used",
                retry_after_seconds=_FULL_RETRY_SECONDS,
            )


class KeyQuotas(Quotas, frozen=True, kw_only=True):
    """The limits of a tenant, with those of the API key that the caller uses."""

    key_id: str
    writes_per_day: int

    def count_write(self, unit: Unit, now: Instant) -> None:
        """Count a write of the tenant and of the key. Raises QuotaExceeded."""
        super().count_write(unit, now)
        action, limit = f"key {self.key_id}", self.writes_per_day
        if not unit.consume_rate(action, now=now, window_ms=DAY_MS, limit=limit):
            opens = unit.find_rate_reset(action, now=now, window_ms=DAY_MS, limit=limit)
            raise QuotaExceeded(
                f"this API key may write {limit} memories a day",
                retry_after_seconds=(opens - now) / 1000,
            )


def _take_rate(unit: Unit, action: str, limit: int, now: Instant) -> None:
    """Count an action of the current minute. Raises QuotaExceeded if the limit is reached."""
    if not unit.consume_rate(action, now=now, window_ms=WINDOW_MS, limit=limit):
        opens = unit.find_rate_reset(action, now=now, window_ms=WINDOW_MS, limit=limit)
        raise QuotaExceeded(
            f"more than {limit} {action} a minute; try again later",
            retry_after_seconds=(opens - now) / 1000,
        )


# The presets; compliance.py describes what each demands.
PRESETS: Final = ("gdpr", "ccpa", "hipaa")
# Largest limit that an owner may set, in memories, bytes or writes: exact in every JSON parser.
MAX_LIMIT: Final = 1 << 53


class OwnRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that an owner adds to the server's; 0 means no limit of its own."""

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


class QuotaGrant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits that the operator gave one tenant in place of the server's. None: the server's; 0: no limit."""

    memories: int | None = None
    bytes: int | None = None
    writes_per_minute: int | None = None
    runs_per_minute: int | None = None
    schedules: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 <= (getattr(self, name) or 0) <= MAX_LIMIT:
                raise InvalidInput(f"{name} must be a whole number from 0 to {MAX_LIMIT}")


NO_GRANT: Final = QuotaGrant()


class _StoredGrant(msgspec.Struct, frozen=True):
    """The part of the stored rules that the operator sets. The owner's part is decoded as `OwnRules`."""

    granted: QuotaGrant = NO_GRANT


@lru_cache(maxsize=1_024)
def parse_grant(encoded: bytes) -> QuotaGrant:
    """Return the grant in the rules as stored."""
    return msgspec.json.decode(encoded, type=_StoredGrant).granted if encoded else NO_GRANT


def _encode_rules(rules: OwnRules, grant: QuotaGrant) -> bytes:
    """Return the rules of an owner and the operator's grant as stored; empty if there are none."""
    if rules == NO_RULES and grant == NO_GRANT:
        return b""
    granted = {} if grant == NO_GRANT else {"granted": msgspec.to_builtins(grant)}
    return msgspec.json.encode({**msgspec.to_builtins(rules), **granted})


@lru_cache(maxsize=1_024)
def parse_rules(document: bytes) -> OwnRules:
    """Return the rules as stored; empty bytes mean no rules."""
    return msgspec.json.decode(document, type=OwnRules) if document else NO_RULES


@lru_cache(maxsize=1_024)
def tighten_quotas(quotas: Quotas, stored_rules: bytes) -> Quotas:
    """Return the quotas of a tenant: the server's or granted ones, with the owner's limits where they are smaller."""
    rules, quotas = parse_rules(stored_rules), apply_grant(quotas, parse_grant(stored_rules))
    return msgspec.structs.replace(
        quotas,
        memories=_smaller_limit(quotas.memories, rules.memories),
        bytes=_smaller_limit(quotas.bytes, rules.bytes),
        writes_per_minute=_smaller_limit(quotas.writes_per_minute, rules.writes_per_minute),
    )


def apply_grant(quotas: Quotas, grant: QuotaGrant) -> Quotas:
    """Return quotas with the limits of a grant in place of those that it names."""
    granted = {
        name: value for name, value in msgspec.structs.asdict(grant).items() if value is not None
    }
    return msgspec.structs.replace(quotas, **granted) if granted else quotas


def _smaller_limit(one: int, other: int) -> int:
    """Return the smaller of two limits, of which 0 means none."""
    return min(one, other) if one and other else one or other


def read_rules(context: Context, access: Access) -> OwnRules:
    """Return the rules set by the caller's owner."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return parse_rules(snapshot.rules)


def set_rules(context: Context, access: Access, rules: OwnRules) -> None:
    """Replace the rules of the caller's owner. Memories that are stored already stay as they are.

    Raising a limit above the server's has no effect, and no error: the smaller one counts.
    """
    # Imported here because context.py imports this module.
    from memoranda.service.core.context import audit_entry

    now, tenant = context.clock(), access.default_tenant
    fields = msgspec.to_builtins(rules)
    entry = audit_entry(access, "rules", now=now, scope={"owner": tenant}, result="ok", meta=fields)

    def work(unit: Unit) -> None:
        unit.set_rules(_encode_rules(rules, parse_grant(unit.rules)))
        unit.record_audit(entry)

    context.engine.write(tenant, work)
    context.drop_cached_rules(tenant)


def set_grant(context: Context, tenant: str, grant: QuotaGrant, entry: AuditEntry) -> None:
    """Store the limits that the operator gives a tenant, with an entry of its audit log."""

    def work(unit: Unit) -> None:
        unit.set_rules(_encode_rules(parse_rules(unit.rules), grant))
        unit.record_audit(entry)

    context.engine.write(tenant, work)
    context.drop_cached_rules(tenant)


def server_quotas(context: Context, tenant: str) -> Quotas:
    """Return the limits that the server sets for a tenant: its quotas, with those that the operator granted."""
    with context.engine.open_snapshot(tenant) as snapshot:
        return apply_grant(context.quotas, parse_grant(snapshot.rules))


T = TypeVar("T", bound=Hashable)


class FairShares(Generic[T]):
    """The items that holders use, with a weight each. Not thread-safe.

    Evicting from the holder with the largest share means that nobody is crowded out by a greedy one.

    Example: with 100 connections for all, a client with 80 loses its oldest when another one connects. All operations
    take constant time, apart from `evict`, which sorts the holders.
    """

    def __init__(self) -> None:
        self.total = 0
        # The items of each holder, oldest first, with their weights; the sum of weights by holder; the holder of each
        # item.
        self._items_of: dict[Hashable, dict[T, int]] = {}
        self._weights: dict[Hashable, int] = {}
        self._holders: dict[T, Hashable] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def put(self, item: T, holder: Hashable, weight: int = 1) -> None:
        """Add an item to a holder's share, as its newest."""
        self.remove(item)
        self._holders[item] = holder
        self._items_of.setdefault(holder, {})[item] = weight
        self._weights[holder] = self._weights.get(holder, 0) + weight
        self.total += weight

    def remove(self, item: T) -> None:
        """Remove an item from its holder's share, if it is there."""
        if item not in self._holders:
            return
        holder = self._holders.pop(item)
        weight = self._items_of[holder].pop(item)
        self.total -= weight
        self._weights[holder] -= weight
        if not self._items_of[holder]:
            del self._items_of[holder], self._weights[holder]

    def weight_of(self, holder: Hashable) -> int:
        """Return the total weight of a holder's items."""
        return self._weights.get(holder, 0)

    def oldest_of(self, holder: Hashable) -> T | None:
        """Return a holder's oldest item; None without one."""
        return next(iter(self._items_of.get(holder, ())), None)

    def evict(self, may_evict: Callable[[T], bool] = lambda _: True) -> T | None:
        """Remove and return the oldest item that may be evicted, of the holder with the largest share; None if there is
        none.
        """
        for holder in sorted(self._weights, key=self._weights.__getitem__, reverse=True):
            for item in self._items_of[holder]:
                if may_evict(item):
                    self.remove(item)
                    return item
        return None
