"""Token buckets: how often something may happen, per key, in bounded memory. Not thread-safe."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

# A bucket is about 200 bytes; so many cover every caller of a busy second and stay below a few MiB.
BUCKETS_LIMIT = 10_000


class TokenBuckets:
    """Each key may act `rate` times a second on average, and `burst` times at once."""

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
        # key -> (tokens left, at that time), least recently used first
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._buckets

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable) -> float:
        """Take one token: 0 if there was one, else the seconds until there is."""
        tokens, now = self._level(key)
        if tokens < 1.0:
            return (1.0 - tokens) / self._rate
        self._buckets[key] = (tokens - 1.0, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._capacity:
            # The one unused for longest is the fullest; forgetting it gives away next to nothing.
            self._buckets.popitem(last=False)
        return 0.0

    def forget(self, key: Hashable) -> None:
        self._buckets.pop(key, None)

    def _level(self, key: Hashable) -> tuple[float, float]:
        now = self._clock()
        tokens, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, tokens + (now - since) * self._rate), now
