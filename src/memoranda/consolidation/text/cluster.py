"""Groups from pairs: what is alike belongs together, in an order that never depends on chance."""

from __future__ import annotations

from collections.abc import Iterable


class Groups:
    """Disjoint sets of places: union-find with the smallest place as the root."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))
        self._size = [1] * count

    def root(self, place: int) -> int:
        parent = self._parent
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    def join(self, first: int, second: int, *, largest: int | None = None) -> bool:
        """Put two places into one group, unless it would have more than the largest number of places."""
        first, second = sorted((self.root(first), self.root(second)))
        if first == second:
            return True
        size = self._size[first] + self._size[second]
        if largest is not None and size > largest:
            return False
        self._parent[second] = first
        self._size[first] = size
        return True

    def all(self) -> list[tuple[int, ...]]:
        """Every group, its places ascending, by the first place of each."""
        found: dict[int, list[int]] = {}
        for place in range(len(self._parent)):
            found.setdefault(self.root(place), []).append(place)
        return [tuple(places) for places in found.values()]


def clusters(
    count: int, pairs: Iterable[tuple[int, int]], *, largest: int | None = None
) -> list[tuple[int, ...]]:
    """Groups of two and more, joined in the order of the pairs: give the strongest pairs first."""
    groups = Groups(count)
    for first, second in pairs:
        groups.join(first, second, largest=largest)
    return [group for group in groups.all() if len(group) > 1]
