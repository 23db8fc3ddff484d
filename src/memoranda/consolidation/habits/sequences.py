"""Mining of sequences that several lists have in common, such as tools that several runs used in the same order.

At least two lists must contain a sequence without interruption; in the others, one foreign item may stand between two
items. Items in too few lists are dropped first, and an immediate repetition counts once. A shorter sequence is dropped
if at least half of its lists also contain a longer one that covers it. A sequence that is a loop is cut to one period.

To test a sequence with gaps quickly, the positions of each item in a list are kept as the bits of an integer.

The result is limited and deterministic, and the work is limited by ITEMS_LIMIT and by the number of runs, so a strange
log cannot make it run for minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

# Items of one list; the rest of a longer list, such as a batch job, is ignored.
ITEMS_LIMIT: Final = 40
# Candidates (sequences in too few lists without gaps) that are searched for with gaps.
_CANDIDATES_LIMIT: Final = 100
_SHOWN_UNINTERRUPTED: Final = 2
# Sequences examined per result, because some are loops or parts of others.
_RANKED_A_RESULT: Final = 8

# Start indices of a sequence by the name of the list; and the positions of items in a list, as bits.
_Positions = dict[str, list[int]]
_PositionBits = dict[str, int]


class Repeat(msgspec.Struct, frozen=True):
    """A sequence, and the sorted names of the lists that contain it."""

    items: tuple[str, ...]
    lists: tuple[str, ...]


def find_repeats(
    lists: Mapping[str, Sequence[str]], *, least: int, length: int, limit: int
) -> list[Repeat]:
    """Return the sequences of at least `length` items in at least `least` lists, at most `limit`.

    The first are those with the largest product of lists and items.

    `lists` maps the name of a run to its items in order. Of equally good sequences the longer one comes first.
    """
    trimmed = _drop_noise(lists, least)
    grams = _find_grams(trimmed)
    position_bits = {name: _position_bits(items) for name, items in trimmed.items()}
    lists_by_items = {
        items: frozenset(places)
        if len(places) >= least
        else _find_lists_with(items, places, position_bits)
        for items, places in _select_candidates(grams, length, least)
    }
    frequent = {items: names for items, names in lists_by_items.items() if len(names) >= least}
    by_items: dict[tuple[str, ...], Repeat] = {}
    for items in _sort_by_weight(frequent, _drop_covered(frequent))[: _RANKED_A_RESULT * limit]:
        once = _shorten_loop(items)
        if len(once) >= length and once not in by_items:
            by_items[once] = Repeat(once, tuple(sorted(_find_lists_with(once, (), position_bits))))
    by_lists = {items: repeat.lists for items, repeat in by_items.items()}
    return _drop_parts([by_items[items] for items in _sort_by_weight(by_lists, by_items)])[:limit]


def _sort_by_weight(
    lists: Mapping[tuple[str, ...], Collection[str]], some: Iterable[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    return sorted(some, key=lambda items: (-len(lists[items]) * len(items), -len(items), items))


def _position_bits(items: Sequence[str]) -> _PositionBits:
    """Return for each item its positions as bits."""
    bits: _PositionBits = defaultdict(int)
    for position, item in enumerate(items):
        bits[item] |= 1 << position
    return bits


def _contains_in_order(position_bits: _PositionBits, sequence: Sequence[str]) -> bool:
    """Return True if a list contains the items in this order, with at most one other item between any two."""
    # Bits of the positions at which the items up to now may end.
    ends = position_bits.get(sequence[0], 0)
    for item in sequence[1:]:
        ends = (ends << 1 | ends << 2) & position_bits.get(item, 0)
    return ends != 0


def _drop_noise(lists: Mapping[str, Sequence[str]], least: int) -> dict[str, list[str]]:
    """Return the lists without rare items and immediate repetitions, cut to the limit."""
    list_counts: dict[str, int] = defaultdict(int)
    for items in lists.values():
        for item in set(items):
            list_counts[item] += 1
    trimmed = {}
    for name, items in lists.items():
        frequent = [item for item in items if list_counts[item] >= least]
        frequent = [
            item for index, item in enumerate(frequent) if index == 0 or frequent[index - 1] != item
        ]
        trimmed[name] = frequent[:ITEMS_LIMIT]
    return trimmed


def _find_grams(lists: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], _Positions]:
    """Return all sequences that at least two lists contain without interruption, with their start indices.

    Like the Apriori algorithm, it extends the sequences of one length by one item at a time.
    """
    level: dict[tuple[str, ...], _Positions] = {}
    for name, items in sorted(lists.items()):
        for position, item in enumerate(items):
            level.setdefault((item,), {}).setdefault(name, []).append(position)
    grams: dict[tuple[str, ...], _Positions] = {}
    while level:
        level = {
            items: places for items, places in level.items() if len(places) >= _SHOWN_UNINTERRUPTED
        }
        grams.update(level)
        longer: dict[tuple[str, ...], _Positions] = {}
        for items, places in level.items():
            for name, starts in places.items():
                list_items = lists[name]
                for start in starts:
                    if start + len(items) < len(list_items):
                        grown = (*items, list_items[start + len(items)])
                        longer.setdefault(grown, {}).setdefault(name, []).append(start)
        level = longer
    return grams


def _select_candidates(
    grams: Mapping[tuple[str, ...], _Positions], length: int, least: int
) -> Iterable[tuple[tuple[str, ...], _Positions]]:
    """Return the sequences that are long enough; of those with too few lists only the longest."""
    rare = sorted(
        (items for items, places in grams.items() if len(places) < least),
        key=lambda items: (-len(items), items),
    )
    selected_ids = set(rare[:_CANDIDATES_LIMIT])
    return [
        (items, places)
        for items, places in grams.items()
        if len(items) >= length and (len(places) >= least or items in selected_ids)
    ]


def _find_lists_with(
    items: tuple[str, ...], places: Collection[str], position_bits: Mapping[str, _PositionBits]
) -> frozenset[str]:
    """Return the names of the lists that contain the items, with or without gaps."""
    return frozenset(
        name
        for name, bits in position_bits.items()
        if name in places or _contains_in_order(bits, items)
    )


def _drop_covered(frequent: Mapping[tuple[str, ...], frozenset[str]]) -> list[tuple[str, ...]]:
    """Return the sequences that no longer one covers.

    All parts of a frequent sequence are frequent, so only sequences with one more item need to be checked.
    """
    covered: set[tuple[str, ...]] = set()
    for items, names in frequent.items():
        for part in (items[1:], items[:-1]):
            if part in frequent and 2 * len(names) >= len(frequent[part]):
                covered.add(part)
    return sorted(items for items in frequent if items not in covered)


def _shorten_loop(items: tuple[str, ...]) -> tuple[str, ...]:
    """Return one period of a sequence that repeats itself, or the sequence."""
    for period in range(1, len(items) // 2 + 1):
        if all(items[index] == items[index % period] for index in range(len(items))):
            return items[:period]
    return items


def _drop_parts(ranked: Sequence[Repeat]) -> list[Repeat]:
    """Drop the sequences that a longer one contains with gaps, if half of their lists contain the longer one."""
    remaining = []
    for candidate in ranked:
        is_part = any(
            len(other.items) > len(candidate.items)
            and 2 * len(other.lists) >= len(candidate.lists)
            and _contains_in_order(_position_bits(other.items), candidate.items)
            for other in ranked
        )
        if not is_part:
            remaining.append(candidate)
    return remaining
