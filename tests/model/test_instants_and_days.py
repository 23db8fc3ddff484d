"""Instants, days and durations at both ends of time: everything is held there, and nothing raises OverflowError."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidInput
from memoranda.model.calendar import (
    FIRST_DAY,
    LAST_DAY,
    days_after,
    end_of_month,
    existing_day,
    instant_of,
    local_day,
    months_after,
    utc_day,
    utc_offset_ms,
)
from memoranda.model.cron import next_after
from memoranda.model.instant import (
    DAY_MS,
    EARLIEST,
    LATEST,
    Instant,
    clamp,
    format_duration,
    format_instant,
    from_datetime,
    parse_duration_ms,
    parse_instant,
    to_datetime,
)

NUMBERS: Final = (
    st.integers()
    | st.integers(EARLIEST - DAY_MS, EARLIEST + 5 * DAY_MS)
    | st.integers(LATEST - 5 * DAY_MS, LATEST + DAY_MS)
)
DAYS: Final = st.dates() | st.dates(FIRST_DAY, date(1, 1, 9)) | st.dates(date(9999, 12, 20), LAST_DAY)
COUNTS: Final = st.integers(-(10**7), 10**7) | st.integers(-40, 40) | st.integers()
ZONES: Final[st.SearchStrategy[tzinfo | None]] = st.sampled_from(
    (UTC, None, timezone(timedelta(hours=-23, minutes=-59)), timezone(timedelta(hours=23, minutes=59)))
) | st.sampled_from(("Europe/Zurich", "Pacific/Kiritimati", "America/Los_Angeles")).map(ZoneInfo)


@given(NUMBERS)
def test_every_number_is_written_as_an_instant_within_time_and_read_again(number: int) -> None:
    assert parse_instant(format_instant(number)) == clamp(number) == from_datetime(to_datetime(number))


@given(st.datetimes(), st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_a_local_time_at_an_end_of_time_is_read_as_an_instant_within_it(local: datetime, offset: int) -> None:
    hours, minutes = divmod(abs(offset), 60)
    sign = "-" if offset < 0 else "+"
    text = f"{local.isoformat(timespec='milliseconds')}{sign}{hours:02}:{minutes:02}"
    moment = local.replace(tzinfo=timezone(timedelta(minutes=offset)))
    assert EARLIEST <= parse_instant(text) == from_datetime(moment) <= LATEST


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("9999-12-31T23:59:59-14:00", LATEST),
        ("9999-12-31T23:59:60Z", LATEST),
        ("0001-01-01T00:00:00+14:00", EARLIEST),
        ("0001-01-01T00:00:00Z", EARLIEST),
    ],
)
def test_an_offset_that_leads_beyond_the_calendar_ends_with_it(text: str, instant: Instant) -> None:
    assert parse_instant(text) == instant


@given(DAYS, COUNTS)
def test_days_later_are_days_later_as_far_as_there_are_days(day: date, count: int) -> None:
    later = days_after(day, count)
    assert (later - day).days == count or later == (FIRST_DAY if count < 0 else LAST_DAY)


@given(DAYS, COUNTS)
def test_months_later_are_months_later_as_far_as_there_are_months(day: date, count: int) -> None:
    later = months_after(day, count)
    months = (later.year - day.year) * 12 + later.month - day.month
    if months == count:
        assert later.day == min(day.day, end_of_month(later).day)
    else:
        assert later == (FIRST_DAY if count < 0 else LAST_DAY)


@pytest.mark.parametrize("day", [(0, 1, 1), (10_000, 1, 1), (2026, 2, 30), (2026, 13, 1), (2026, 0, 1), (2025, 2, 29)])
def test_a_day_that_no_calendar_has_is_none(day: tuple[int, int, int]) -> None:
    assert existing_day(*day) is None


@given(NUMBERS, ZONES)
def test_the_local_day_of_an_instant_is_its_day_by_the_offset_of_its_zone(at: int, zone: tzinfo | None) -> None:
    assert local_day(at, zone) == utc_day(clamp(at) + utc_offset_ms(at, zone))
    assert abs(utc_offset_ms(at, zone)) < DAY_MS


@given(DAYS, st.integers(0, 1440), ZONES)
def test_a_local_time_is_an_instant_within_time(day: date, minute: int, zone: tzinfo | None) -> None:
    at = instant_of(day, minute, zone)
    assert EARLIEST <= at <= LATEST
    assert abs((local_day(at, zone) - day).days) <= 1


@given(st.from_regex(r"P[0-9]{1,9}Y([0-9]{1,9}M)?(T[0-9]{1,9}S)?", fullmatch=True))
def test_no_duration_is_longer_than_all_of_time(text: str) -> None:
    length = parse_duration_ms(text)
    assert 0 <= length <= LATEST - EARLIEST
    assert parse_duration_ms(format_duration(length)) == length


@given(NUMBERS, st.sampled_from(("* * * * *", "0 9 * * *", "0 0 1 1 *", "0 0 29 2 *", "0 0 31 12 *")), ZONES)
def test_a_schedule_comes_next_within_time_or_is_refused_at_its_ends(
    at: int, expression: str, zone: tzinfo | None
) -> None:
    name = str(zone) if isinstance(zone, ZoneInfo) else "UTC"
    try:
        following = next_after(expression, at, name)
    except InvalidInput:
        # Eight years hold every one of these days; near the beginning no zone ahead of UTC has a calendar.
        assert at > LATEST - 9 * 366 * DAY_MS or at < EARLIEST + DAY_MS
    else:
        assert clamp(at) < following <= LATEST
