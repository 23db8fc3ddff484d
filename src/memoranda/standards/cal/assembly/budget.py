"""Sharing of the budget of ASSEMBLE among its sources (section 8.2).

Weights fall with priority. A share that a source does not need goes to the other sources, and the room in which one
grain does not fit is offered to the next grain. All amounts are whole units and all weights exact fractions, so the
same input always gives the same shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import msgspec

# Tokens of an ASSEMBLE without BUDGET.
DEFAULT_TOKENS: Final = 4000
# Percent by rank of priority, for one to four sources.
_WEIGHTS: Final = ((100,), (65, 35), (50, 30, 20), (40, 28, 20, 12))


def weights(count: int) -> tuple[Fraction, ...]:
    """Return the shares for a number of sources, highest priority first. They add up to one."""
    parts = _weight_parts(count)
    total = sum(parts)
    return tuple(Fraction(part, total) for part in parts)


def _weight_parts(count: int) -> tuple[int, ...]:
    """Return the shares as whole numbers of a common unit."""
    if 1 <= count <= len(_WEIGHTS):
        return _WEIGHTS[count - 1]
    # For more than four sources, each share is 7/10 of the previous one, as in the row for four.
    return tuple(7**rank * 10 ** (count - 1 - rank) for rank in range(count))


def allocate(total: int, demands: Sequence[int]) -> tuple[int, ...]:
    """Return the units that each source gets, by water filling.

    A source whose share covers its demand gets its demand; the remainder is shared among the other sources again.
    """
    # If all demands fit, each source gets its demand, whatever the weights are.
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
            # The units lost by rounding down go to the highest priority.
            shares[still_open[0]] += pool - sum(shares.values())
            allocations |= shares
            break
        for rank in filled:
            allocations[rank] = demands[rank]
            pool -= demands[rank]
        still_open = [rank for rank in still_open if rank not in filled]
    return tuple(allocations.values())


class PackedSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The selected grains of each source, as indexes in its results, and the units that they take in all."""

    chosen: tuple[tuple[int, ...], ...]
    allocations: tuple[int, ...]
    used: int


def select(total: int, costs: Sequence[Sequence[int]]) -> PackedSelection:
    """Select grains by cost, source by source in order of priority; never more than the total.

    A grain that does not fit is skipped, and smaller ones after it may still fit. The units that remain in the end are
    offered to the skipped grains.
    """
    allocations = allocate(total, [sum(source) for source in costs])
    chosen_sets: list[set[int]] = []
    remaining = total
    for source, room in zip(costs, allocations, strict=True):
        indexes = _pick_fitting(source, room, set())
        chosen_sets.append(indexes)
        remaining -= sum(source[index] for index in indexes)
    for source, indexes in zip(costs, chosen_sets, strict=True):
        extra = _pick_fitting(source, remaining, indexes)
        remaining -= sum(source[index] for index in extra)
        indexes |= extra
    return PackedSelection(
        chosen=tuple(tuple(sorted(indexes)) for indexes in chosen_sets),
        allocations=allocations,
        used=total - remaining,
    )


def _pick_fitting(costs: Sequence[int], room: int, excluded: set[int]) -> set[int]:
    """Return the indexes of the costs that fit into the room, first come first served, without the excluded ones."""
    fitting = set()
    for index, cost in enumerate(costs):
        if index not in excluded and cost <= room:
            fitting.add(index)
            room -= cost
    return fitting
