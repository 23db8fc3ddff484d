"""Clusters built from pairs of similar items, in a deterministic order."""

from __future__ import annotations

from collections.abc import Iterable


class DisjointSets:
    """Disjoint sets of indices: union-find with the smallest index as the root."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))
        self._size = [1] * count

    def find_root(self, index: int) -> int:
        """Return the smallest index of a group, and shorten the path to it."""
        parent = self._parent
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    def join(self, first: int, second: int, *, largest: int | None = None) -> bool:
        """Join the groups of two indices; return False if the group would have more than `largest` members."""
        first, second = sorted((self.find_root(first), self.find_root(second)))
        if first == second:
            return True
        size = self._size[first] + self._size[second]
        if largest is not None and size > largest:
            return False
        self._parent[second] = first
        self._size[first] = size
        return True

    def list_groups(self) -> list[tuple[int, ...]]:
        """Return all groups, ordered by their first index."""
        groups: dict[int, list[int]] = {}
        for index in range(len(self._parent)):
            groups.setdefault(self.find_root(index), []).append(index)
        return [tuple(members) for members in groups.values()]


def cluster_pairs(
    count: int, pairs: Iterable[tuple[int, int]], *, largest: int | None = None
) -> list[tuple[int, ...]]:
    """Return the groups with at least two members. Pairs are joined in their order, so pass the strongest first."""
    groups = DisjointSets(count)
    for first, second in pairs:
        groups.join(first, second, largest=largest)
    return [group for group in groups.list_groups() if len(group) > 1]
