"""Weights, water filling, and which grains fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.standards.cal.assembly import budget

COSTS = st.lists(st.lists(st.integers(0, 200), max_size=8), min_size=1, max_size=8)


@pytest.mark.requirement("CAL-8.2-weights")
def test_weights_fall_with_priority() -> None:
    rows = {count: [round(float(weight), 4) for weight in budget.weights(count)] for count in range(1, 9)}
    assert rows[1] == [1.0]
    assert rows[2] == [0.65, 0.35]
    assert rows[3] == [0.5, 0.3, 0.2]
    assert rows[4] == [0.4, 0.28, 0.2, 0.12]
    assert rows[5] == [0.3606, 0.2524, 0.1767, 0.1237, 0.0866]
    assert rows[8] == [0.3184, 0.2228, 0.156, 0.1092, 0.0764, 0.0535, 0.0375, 0.0262]
    assert all(sum(budget.weights(count)) == 1 for count in range(1, 9))


@pytest.mark.requirement("CAL-8.2-surplus")
@pytest.mark.parametrize(
    ("total", "demands", "shares"),
    [
        (2000, (900, 300, 2000, 100), (900, 300, 700, 100)),
        (4000, (500, 3000, 800, 200, 1500), (500, 1862, 800, 200, 638)),
        (1000, (2000, 2000), (650, 350)),
        (10, (3, 100, 100), (3, 5, 2)),
        (100, (0, 0), (0, 0)),
        (0, (5, 5), (0, 0)),
    ],
)
def test_what_a_source_does_not_need_goes_to_the_others(
    total: int, demands: tuple[int, ...], shares: tuple[int, ...]
) -> None:
    assert budget.allocate(total, demands) == shares


def test_a_grain_that_does_not_fit_is_skipped_and_the_rest_offered_again() -> None:
    filling = budget.select(100, [[30, 30, 60], [20, 5], [10, 10, 10]])
    assert filling.allocations == (54, 25, 21)
    assert filling.chosen == ((0,), (0, 1), (0, 1, 2))
    assert filling.used == 85


@given(total=st.integers(0, 1000), costs=COSTS)
def test_the_budget_is_never_exceeded_and_never_wasted(total: int, costs: list[list[int]]) -> None:
    filling = budget.select(total, costs)
    spent = sum(source[place] for source, taken in zip(costs, filling.chosen, strict=True) for place in taken)
    assert spent == filling.used <= total
    assert sum(filling.allocations) <= total
    needed = sum(map(sum, costs))
    assert sum(filling.allocations) == min(total, needed)
    left_out = [
        cost
        for source, taken in zip(costs, filling.chosen, strict=True)
        for place, cost in enumerate(source)
        if place not in taken
    ]
    assert all(cost > total - spent for cost in left_out)
