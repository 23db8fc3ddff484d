"""Something scarce that strangers share: whoever has most of it is the first to lose some."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Shares(Generic[T]):
    """What is held, by whom, and how much of it. Not thread-safe.

    Taking from whoever holds most means that nobody is crowded out by another who takes all there is.
    """

    def __init__(self) -> None:
        self.total = 0
        # Of each holder what it holds, the oldest first, with its weight; and who holds what.
        self._held: dict[Hashable, dict[T, int]] = {}
        self._sums: dict[Hashable, int] = {}
        self._holders: dict[T, Hashable] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def put(self, item: T, holder: Hashable, weight: int = 1) -> None:
        """Note that somebody holds it, or holds it anew."""
        self.remove(item)
        self._holders[item] = holder
        self._held.setdefault(holder, {})[item] = weight
        self._sums[holder] = self._sums.get(holder, 0) + weight
        self.total += weight

    def remove(self, item: T) -> None:
        """Note that nobody holds it any more."""
        if item not in self._holders:
            return
        holder = self._holders.pop(item)
        weight = self._held[holder].pop(item)
        self.total -= weight
        self._sums[holder] -= weight
        if not self._held[holder]:
            del self._held[holder], self._sums[holder]

    def of(self, holder: Hashable) -> int:
        """How much somebody holds."""
        return self._sums.get(holder, 0)

    def oldest_of(self, holder: Hashable) -> T | None:
        """What somebody has held for longest."""
        return next(iter(self._held.get(holder, ())), None)

    def take(self, may_go: Callable[[T], bool] = lambda _: True) -> T | None:
        """Take away the oldest that may go, of whoever holds most; None if none may."""
        for holder in sorted(self._sums, key=self._sums.__getitem__, reverse=True):
            for item in self._held[holder]:
                if may_go(item):
                    self.remove(item)
                    return item
        return None
