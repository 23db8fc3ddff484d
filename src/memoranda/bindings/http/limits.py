"""Limits of work: token buckets for rates, and slots for full scans.

A full scan reads everything that an owner has. The routes and the console share a few slots for them, so that other
threads of the process stay free for short requests.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from memoranda.bindings.http.call import HttpCall, Serve
from memoranda.errors import RateLimited
from memoranda.service.service import Service

# Entries of one set of buckets. An entry takes about 200 bytes: all callers of a busy second fit into a few MiB.
BUCKETS_LIMIT = 10_000
# Full scans that run at a time in this process.
SCANS_LIMIT: Final = 2
SCAN_SLOTS: Final = threading.BoundedSemaphore(SCANS_LIMIT)
SCANS_BUSY: Final = "too many full scans are running; try again"
# Seconds after which a refused client may try again; most scans take less.
SCAN_RETRY_SECONDS: Final = 5.0


class TokenBuckets:
    """A bucket for each key: `rate` actions per second on average, and `burst` at once. Not thread-safe."""

    def __init__(
        self,
        *,
        rate: float,
        burst: float,
        clock: Callable[[], float],
        capacity: int = BUCKETS_LIMIT,
    ) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._clock = clock
        self._capacity = capacity
        # Key -> (remaining tokens, time of that count), least recently used first.
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._buckets

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable) -> float:
        """Take one token and return 0; if there is none, return the seconds until there is.

        The bucket used longest ago is dropped if there are too many keys; its holder then starts with a full one, which
        is harmless.
        """
        tokens, now = self._level(key)
        if tokens < 1.0:
            return (1.0 - tokens) / self._rate
        self._buckets[key] = (tokens - 1.0, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._capacity:
            # The least recently used bucket is nearly full, so dropping it gives away next to nothing.
            self._buckets.popitem(last=False)
        return 0.0

    def forget(self, key: Hashable) -> None:
        """Drop the bucket of a key, if there is one."""
        self._buckets.pop(key, None)

    def _level(self, key: Hashable) -> tuple[float, float]:
        """Return the tokens in a bucket now, and the time."""
        now = self._clock()
        tokens, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, tokens + (now - since) * self._rate), now


class ScanSlot:
    """One slot for a full scan. It is free again when the answer is ready, or when the work begun by it has ended."""

    def __init__(self, slots: threading.BoundedSemaphore | None) -> None:
        """Take the pool of slots; None if the request is no full scan and needs none."""
        self._slots, self._unreleased, self._is_handed_over = slots, slots, False
        self._is_acquired = slots is None
        self._lock = threading.Lock()

    def take(self, busy: str = SCANS_BUSY) -> None:
        """Take a slot. Raises RateLimited with this message if none is free."""
        if self._is_acquired:
            return
        if self._slots is not None and not self._slots.acquire(blocking=False):
            raise RateLimited(busy, retry_after_seconds=SCAN_RETRY_SECONDS)
        self._is_acquired = True

    def hand_over(self) -> None:
        """Leave the release to the work that was begun."""
        self._is_handed_over = True

    def finish(self) -> bool:
        """End the request, and release the slot unless it was handed over. Return True if it was not."""
        if not self._is_handed_over:
            self.release()
        return not self._is_handed_over

    def release(self) -> None:
        """Free the slot. Further calls change nothing."""
        with self._lock:
            slots = None
            if self._is_acquired:
                slots, self._unreleased = self._unreleased, None
        if slots is not None:
            slots.release()


def with_scan_slot(serve: Serve) -> Serve:
    """Return the function with a scan slot around each call. It raises RateLimited if no slot is free.

    Used for exports, verification and other requests that read everything.
    """

    def serve_in_slot(service: Service, call: HttpCall, request: object) -> object:
        slot = ScanSlot(SCAN_SLOTS)
        slot.take()
        try:
            return serve(service, call, request)
        finally:
            slot.finish()

    return serve_in_slot
