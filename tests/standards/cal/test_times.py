"""Time expressions, with the clock at 2026-03-03T12:00:00Z, a Tuesday."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.instant import EARLIEST, format_instant, parse_instant
from memoranda.standards.cal.language import times

NOW = parse_instant("2026-03-03T12:00:00Z")


@pytest.mark.requirement("CAL-6-times")
@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("now", "2026-03-03T12:00"),
        ("today", "2026-03-03T00:00"),
        ("Yesterday", "2026-03-02T00:00"),
        ("last week", "2026-02-24T12:00"),
        ("last 7 days", "2026-02-24T12:00"),
        ("past 7 days", "2026-02-24T12:00"),
        ("LAST  90  DAYS", "2025-12-03T12:00"),
        ("last month", "2026-02-03T12:00"),
        ("previous year", "2025-03-03T12:00"),
        ("3 days ago", "2026-02-28T12:00"),
        ("1 hour ago", "2026-03-03T11:00"),
        ("last 90 minutes", "2026-03-03T10:30"),
        ("this hour", "2026-03-03T12:00"),
        ("this day", "2026-03-03T00:00"),
        ("this week", "2026-03-02T00:00"),
        ("this month", "2026-03-01T00:00"),
        ("this year", "2026-01-01T00:00"),
        ("last monday", "2026-03-02T00:00"),
        ("tuesday", "2026-02-24T00:00"),
        ("wednesday", "2026-02-25T00:00"),
        ("2026", "2026-01-01T00:00"),
        ("2026-02", "2026-02-01T00:00"),
        ("2026-02-10", "2026-02-10T00:00"),
        ("2026-02-10T10:20:00Z", "2026-02-10T10:20"),
        ("2026-02-10T10:20:00", "2026-02-10T10:20"),
        ("2026-02-10T10:20:00+02:00", "2026-02-10T08:20"),
        ("1709251200", "2024-03-01T00:00"),
        ("1709251200000", "2024-03-01T00:00"),
    ],
)
def test_an_expression_starts_when_it_says(text: str, start: str) -> None:
    assert times.first_ms(text, NOW) == parse_instant(f"{start}:00Z")
    assert times.is_time_expression(text)


@pytest.mark.parametrize(
    "text",
    ["", "soon", "whenever", "last", "last days 7", "7 days", "ago", "next week", "2026-13", "2026-02-30", "12345678",
     "2026-02-10T25:00:00Z", "123456789012345", "last -1 days", "0000", "١٢٣٤", "last 9999999 days"],
)  # fmt: skip
def test_anything_else_is_none(text: str) -> None:
    assert times.first_ms(text, NOW) is None
    assert not times.is_time_expression(text)


def test_months_are_by_the_calendar_and_end_early_if_they_must() -> None:
    end_of_march = parse_instant("2026-03-31T06:00:00Z")
    assert format_instant(times.first_ms("last month", end_of_march) or 0) == "2026-02-28T06:00:00.000Z"
    leap_day = parse_instant("2024-02-29T06:00:00Z")
    assert format_instant(times.first_ms("last year", leap_day) or 0) == "2023-02-28T06:00:00.000Z"
    assert times.first_ms("last 999999 years", NOW) == EARLIEST
    assert times.first_ms("last 999999 weeks", NOW) == EARLIEST


def test_a_date_at_the_upper_end_means_its_last_millisecond() -> None:
    assert times.last_ms("2026-02-10", NOW) == parse_instant("2026-02-10T23:59:59.999Z")
    assert times.last_ms("2026-02", NOW) == parse_instant("2026-02-28T23:59:59.999Z")
    assert times.last_ms("2024", NOW) == parse_instant("2024-12-31T23:59:59.999Z")
    assert times.last_ms("2026-02-10T10:00:00Z", NOW) == parse_instant("2026-02-10T10:00:00Z")
    assert times.last_ms("last week", NOW) == times.first_ms("last week", NOW)


def test_an_epoch_is_seconds_or_milliseconds_by_its_size() -> None:
    assert times.epoch_ms(1709251200) == times.epoch_ms(1709251200000)
    assert times.epoch_ms(1709251200.5) == 1709251200500


@given(text=st.text(max_size=20), now=st.integers(-(2**50), 2**50))
def test_any_text_is_an_expression_or_not(text: str, now: int) -> None:
    assert (times.first_ms(text, now) is None) == (not times.is_time_expression(text))
