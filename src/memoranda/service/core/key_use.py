"""The use of API keys: when each was last used, how often it may be used, and which of them end soon.

Uses are collected in memory and stored every half minute, so that no request waits for a write. A limit of requests
holds in each server process on its own, like the server's `rate_limit`; a limit of writes is counted in the store and
holds in all of them together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from memoranda.errors import RateLimited
from memoranda.model.instant import DAY_MS, Instant
from memoranda.storage.engine.contract import ApiKey, System

# Seconds between two records of uses.
RECORD_SECONDS: Final = 30.0
# The part of a minute's requests that a key may send at once after a pause.
_BURST_SHARE: Final = 6
# Milliseconds before the end of a key in which it counts as expiring, and after it in which it is still reported.
EXPIRY_WARNING_MS: Final = 14 * DAY_MS


class KeyUses:
    """The uses of API keys in this process. Thread-safe.

    The bucket of a key holds a sixth of a minute's requests and refills evenly. State is lost at a restart, which
    favours the client.
    """

    def __init__(self, system: System, seconds: Callable[[], float] = time.monotonic) -> None:
        self._system, self._seconds = system, seconds
        self._lock = threading.Lock()
        self._recorded_at = seconds()
        # Uses that are not stored yet, by key.
        self._uses: dict[str, Instant] = {}
        # Requests that a limited key may still send, and the second at which they were counted.
        self._allowances: dict[str, tuple[float, float]] = {}

    def admit(self, key: ApiKey, now: Instant) -> None:
        """Count a request with a key. Raises RateLimited if its limit of requests is reached."""
        self.note(key, now)
        per_minute = key.limits.requests_per_minute
        if per_minute:
            self._take(key.key_id, per_minute)

    def note(self, key: ApiKey, now: Instant) -> None:
        """Note that a key is used, which counts for no limit: a person in a browser opens few pages."""
        self._uses[key.key_id] = now

    def _take(self, key_id: str, per_minute: int) -> None:
        rate, burst = per_minute / 60, max(1.0, per_minute / _BURST_SHARE)
        with self._lock:
            second = self._seconds()
            allowance, since = self._allowances.get(key_id, (burst, second))
            allowance = min(burst, allowance + (second - since) * rate)
            is_admitted = allowance >= 1
            self._allowances[key_id] = (allowance - is_admitted, second)
        if not is_admitted:
            raise RateLimited(
                f"this API key may send {per_minute} requests per minute",
                retry_after_seconds=(1 - allowance) / rate,
            )

    def last_use(self, key: ApiKey) -> Instant | None:
        """Return when a key was last used, here or in any process that recorded it."""
        return max(
            (use for use in (key.last_use, self._uses.get(key.key_id)) if use is not None),
            default=None,
        )

    def record(self, *, is_closing: bool = False) -> None:
        """Store the uses since the last record, if that was a while ago. Raises StoreUnavailable."""
        second = self._seconds()
        if not self._uses or not (is_closing or second - self._recorded_at >= RECORD_SECONDS):
            return
        uses, self._uses, self._recorded_at = self._uses, {}, second
        self._system.record_key_uses(uses)


class ExpiringKey(NamedTuple):
    """An API key that ends soon or has just ended, and has no successor."""

    key: ApiKey
    expires: Instant

    def describe(self, now: Instant) -> str:
        """Return a phrase such as "ci (m6iyij6j4e6wk) expires in 3 days"."""
        days = abs(self.expires - now) // DAY_MS
        length = "less than a day" if not days else "1 day" if days == 1 else f"{days} days"
        end = f"expired {length} ago" if self.expires <= now else f"expires in {length}"
        return f"{self.key.name} ({self.key.key_id}) {end}"


def find_expiring(keys: Iterable[ApiKey], now: Instant) -> list[ExpiringKey]:
    """Return the keys that expire soon or expired recently, soonest first, without those that were replaced."""
    keys = list(keys)
    replaced = {key.replaces for key in keys if key.is_open(now)}
    return sorted(
        (
            ExpiringKey(key, key.expires)
            for key in keys
            if key.expires is not None
            and key.revoked is None
            and key.key_id not in replaced
            and abs(key.expires - now) <= EXPIRY_WARNING_MS
        ),
        key=lambda expiring: (expiring.expires, expiring.key.key_id),
    )
