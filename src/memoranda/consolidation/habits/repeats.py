"""Sequences that several lists have in common, such as the tools that several runs used in the same order.

A sequence is found when enough lists show it; at least two of them uninterrupted, the others with at most one item in
between any two. Items that too few lists have are noise and are passed over, and an item repeated at once counts once.
Of overlapping finds the longer stands for the shorter when at least half of the lists that have the shorter have it
too. A sequence that only repeats itself is given once around.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

# A longer list is a batch job; what follows is not read.
ITEMS_LIMIT: Final = 40
# How many sequences that only two lists show are looked for in the others.
_CANDIDATES_LIMIT: Final = 100
_SHOWN_UNINTERRUPTED: Final = 2
# How many are weighed for each that is given: some are loops, or parts of others.
_RANKED_A_RESULT: Final = 8

# Names of lists, and where in the list a sequence begins.
_Places = dict[str, list[int]]
_Marks = dict[str, int]


class Repeat(msgspec.Struct, frozen=True):
    """A sequence, and the names of the lists that have it, in order."""

    items: tuple[str, ...]
    lists: tuple[str, ...]


def repeats(
    lists: Mapping[str, Sequence[str]], *, least: int, length: int, limit: int
) -> list[Repeat]:
    """The sequences of at least so many items that at least so many lists have, the weightiest first."""
    trimmed = _without_noise(lists, least)
    grams = _grams(trimmed)
    marks = {name: _marks(items) for name, items in trimmed.items()}
    counted = {
        items: frozenset(places) if len(places) >= least else _lists_with(items, places, marks)
        for items, places in _candidates(grams, length, least)
    }
    frequent = {items: names for items, names in counted.items() if len(names) >= least}
    found: dict[tuple[str, ...], Repeat] = {}
    for items in _weightiest(frequent, _standing(frequent))[: _RANKED_A_RESULT * limit]:
        once = _once_around(items)
        if len(once) >= length and once not in found:
            found[once] = Repeat(once, tuple(sorted(_lists_with(once, (), marks))))
    by_lists = {items: repeat.lists for items, repeat in found.items()}
    return _without_parts([found[items] for items in _weightiest(by_lists, found)])[:limit]


def _weightiest(
    lists: Mapping[tuple[str, ...], Collection[str]], some: Iterable[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    return sorted(some, key=lambda items: (-len(lists[items]) * len(items), -len(items), items))


def _marks(items: Sequence[str]) -> _Marks:
    """For each item the places where it lies, as bits."""
    found: _Marks = defaultdict(int)
    for place, item in enumerate(items):
        found[item] |= 1 << place
    return found


def _has_in_order(marks: _Marks, wanted: Sequence[str]) -> bool:
    """Whether the items are there in that order, with at most one other between any two."""
    # Bits where the part wanted so far may end.
    ends = marks.get(wanted[0], 0)
    for want in wanted[1:]:
        ends = (ends << 1 | ends << 2) & marks.get(want, 0)
    return ends != 0


def _without_noise(lists: Mapping[str, Sequence[str]], least: int) -> dict[str, list[str]]:
    having: dict[str, int] = defaultdict(int)
    for items in lists.values():
        for item in set(items):
            having[item] += 1
    kept = {}
    for name, items in lists.items():
        known = [item for item in items if having[item] >= least]
        known = [item for place, item in enumerate(known) if place == 0 or known[place - 1] != item]
        kept[name] = known[:ITEMS_LIMIT]
    return kept


def _grams(lists: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], _Places]:
    """Every sequence that at least two lists show uninterrupted, level by level of length."""
    level: dict[tuple[str, ...], _Places] = {}
    for name, items in sorted(lists.items()):
        for place, item in enumerate(items):
            level.setdefault((item,), {}).setdefault(name, []).append(place)
    found: dict[tuple[str, ...], _Places] = {}
    while level:
        level = {
            items: places for items, places in level.items() if len(places) >= _SHOWN_UNINTERRUPTED
        }
        found.update(level)
        longer: dict[tuple[str, ...], _Places] = {}
        for items, places in level.items():
            for name, starts in places.items():
                whole = lists[name]
                for start in starts:
                    if start + len(items) < len(whole):
                        grown = (*items, whole[start + len(items)])
                        longer.setdefault(grown, {}).setdefault(name, []).append(start)
        level = longer
    return found


def _candidates(
    grams: Mapping[tuple[str, ...], _Places], length: int, least: int
) -> Iterable[tuple[tuple[str, ...], _Places]]:
    """Those long enough; of those that too few show uninterrupted, the longest."""
    rare = sorted(
        (items for items, places in grams.items() if len(places) < least),
        key=lambda items: (-len(items), items),
    )
    taken = set(rare[:_CANDIDATES_LIMIT])
    return [
        (items, places)
        for items, places in grams.items()
        if len(items) >= length and (len(places) >= least or items in taken)
    ]


def _lists_with(
    items: tuple[str, ...], places: Collection[str], marks: Mapping[str, _Marks]
) -> frozenset[str]:
    """The lists known to have the items, and those that have them with others in between."""
    return frozenset(
        name for name, marked in marks.items() if name in places or _has_in_order(marked, items)
    )


def _standing(frequent: Mapping[tuple[str, ...], frozenset[str]]) -> list[tuple[str, ...]]:
    """Those for which no longer one stands. What is frequent is so in all its parts: one item more is enough to ask."""
    covered: set[tuple[str, ...]] = set()
    for items, names in frequent.items():
        for part in (items[1:], items[:-1]):
            if part in frequent and 2 * len(names) >= len(frequent[part]):
                covered.add(part)
    return sorted(items for items in frequent if items not in covered)


def _once_around(items: tuple[str, ...]) -> tuple[str, ...]:
    for period in range(1, len(items) // 2 + 1):
        if all(items[place] == items[place % period] for place in range(len(items))):
            return items[:period]
    return items


def _without_parts(ranked: Sequence[Repeat]) -> list[Repeat]:
    """Without those that lie, with gaps, in a longer one that half of their lists have too."""
    kept = []
    for found in ranked:
        is_part = any(
            len(other.items) > len(found.items)
            and 2 * len(other.lists) >= len(found.lists)
            and _has_in_order(_marks(other.items), found.items)
            for other in ranked
        )
        if not is_part:
            kept.append(found)
    return kept
