"""The days that questions of a measured conversation name move with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from bench.retrieval.calendar import moved_dates

SAID = [datetime(2022, 5, 25, 9, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("asked", "later"),
    [
        ("What did she buy on 25 May, 2022?", "What did she buy on 4 June, 2022?"),
        ("What did she buy on May 25, 2022?", "What did she buy on June 4, 2022?"),
        ("Who came on 25th May?", "Who came on 4 June?"),
        ("Where was he in May 2022?", "Where was he in June 2022?"),
        ("Where was he in April 2022?", "Where was he in April 2022?"),
        ("Who moved in 2022?", "Who moved in 2022?"),
        ("What may she march for?", "What may she march for?"),
    ],
)
def test_a_day_a_month_and_a_year_are_so_much_later(asked: str, later: str) -> None:
    assert moved_dates(asked, timedelta(days=10), SAID) == later
