"""How ASSEMBLE shares its budget among its sources (section 8.2).

Weights fall with priority; what a source does not need goes to the others; what one grain is too large for goes to the
next. All in whole units, with exact fractions, so that the same input always gives the same shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import msgspec

DEFAULT_TOKENS: Final = 4000
# By rank of priority, for one to four sources, in hundredths.
_WEIGHTS: Final = ((100,), (65, 35), (50, 30, 20), (40, 28, 20, 12))


def weights(count: int) -> tuple[Fraction, ...]:
    """The share of each of so many sources, the highest priority first; they add up to one."""
    parts = _weight_parts(count)
    total = sum(parts)
    return tuple(Fraction(part, total) for part in parts)


def _weight_parts(count: int) -> tuple[int, ...]:
    if 1 <= count <= len(_WEIGHTS):
        return _WEIGHTS[count - 1]
    # More sources go on falling as the row of four does: by 7/10 each.
    return tuple(7**rank * 10 ** (count - 1 - rank) for rank in range(count))


def allocate(total: int, demands: Sequence[int]) -> tuple[int, ...]:
    """Water filling: a source gets what it needs if its share holds it, and the rest is shared again."""
    # Shares that add up to all of the total cannot all be too small for demands that do not.
    if sum(demands) <= total:
        return tuple(demands)
    parts = _weight_parts(len(demands))
    allocations = dict.fromkeys(range(len(demands)), 0)
    pool, still_open = total, list(allocations)
    while still_open:
        open_parts = sum(parts[rank] for rank in still_open)
        shares = {rank: pool * parts[rank] // open_parts for rank in still_open}
        filled = [rank for rank in still_open if demands[rank] <= shares[rank]]
        if not filled:
            # What rounding left goes to the highest priority.
            shares[still_open[0]] += pool - sum(shares.values())
            allocations |= shares
            break
        for rank in filled:
            allocations[rank] = demands[rank]
            pool -= demands[rank]
        still_open = [rank for rank in still_open if rank not in filled]
    return tuple(allocations.values())


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen of each source, by place in its results, and what that costs in all."""

    chosen: tuple[tuple[int, ...], ...]
    allocations: tuple[int, ...]
    used: int


def select(total: int, costs: Sequence[Sequence[int]]) -> Selection:
    """Choose grains by their costs, source by source in order of priority; never more than the total.

    A grain that does not fit is skipped, not the end of its source; what is left over in the end is offered to the
    skipped ones.
    """
    allocations = allocate(total, [sum(source) for source in costs])
    chosen: list[set[int]] = []
    remaining = total
    for source, room in zip(costs, allocations, strict=True):
        indexes = _pick_fitting(source, room, set())
        chosen.append(indexes)
        remaining -= sum(source[index] for index in indexes)
    for source, indexes in zip(costs, chosen, strict=True):
        extra = _pick_fitting(source, remaining, indexes)
        remaining -= sum(source[index] for index in extra)
        indexes |= extra
    return Selection(
        chosen=tuple(tuple(sorted(indexes)) for indexes in chosen), allocations=allocations, used=total - remaining
    )


def _pick_fitting(costs: Sequence[int], room: int, excluded: set[int]) -> set[int]:
    fitting = set()
    for index, cost in enumerate(costs):
        if index not in excluded and cost <= room:
            fitting.add(index)
            room -= cost
    return fitting
