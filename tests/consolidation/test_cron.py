"""Cron expressions: what is read, what is refused, and when they come next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.errors import InvalidInput
from memoranda.model.cron import check_cron, next_after, normal_form
from memoranda.model.instant import EARLIEST, LATEST, format_instant, parse_instant

NAMES = {
    "month": "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(),
    "day": "SUN MON TUE WED THU FRI SAT".split(),
}
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@pytest.mark.parametrize(
    ("expression", "at", "then"),
    [
        ("* * * * *", "2026-01-31T23:59:59.999Z", "2026-02-01T00:00:00.000Z"),
        ("* * * * *", "2026-01-31T23:59:00.000Z", "2026-02-01T00:00:00.000Z"),
        ("0 3 * * *", "2026-05-04T02:59:59.999Z", "2026-05-04T03:00:00.000Z"),
        ("0 3 * * *", "2026-05-04T03:00:00.000Z", "2026-05-05T03:00:00.000Z"),
        ("*/15 8-18 * * MON-FRI", "2026-05-01T18:45:00.000Z", "2026-05-04T08:00:00.000Z"),
        ("30 9 1 * *", "2026-12-01T09:30:00.000Z", "2027-01-01T09:30:00.000Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00.000Z", "2028-02-29T00:00:00.000Z"),
        ("0 0 29 2 *", "2096-03-01T00:00:00.000Z", "2104-02-29T00:00:00.000Z"),
        ("0 0 31 * *", "2026-01-31T00:00:00.000Z", "2026-03-31T00:00:00.000Z"),
        ("15,45 6,18 * jan,Jul sun", "2026-01-05T00:00:00.000Z", "2026-01-11T06:15:00.000Z"),
        # Either day: the 13th, or any Friday.
        ("0 12 13 * FRI", "2026-05-08T12:00:00.000Z", "2026-05-13T12:00:00.000Z"),
        ("0 12 13 * FRI", "2026-05-13T12:00:00.000Z", "2026-05-15T12:00:00.000Z"),
        # A day field that begins with a star leaves the other alone: odd days that are Mondays.
        ("0 0 */2 * MON", "2026-05-04T00:00:00.000Z", "2026-05-11T00:00:00.000Z"),
        # Either day also saves a day that its month has not.
        ("0 0 30 2 MON", "2026-02-02T00:00:00.000Z", "2026-02-09T00:00:00.000Z"),
        ("0 0 * * 7", "2026-05-04T00:00:00.000Z", "2026-05-10T00:00:00.000Z"),
        ("0 0 * * FRI-SUN", "2026-05-08T00:00:00.000Z", "2026-05-09T00:00:00.000Z"),
        ("0 0 * * 6-7", "2026-05-09T00:00:00.000Z", "2026-05-10T00:00:00.000Z"),
        # The rarest: leap days that are Sundays, here over a century without a leap day.
        ("0 0 29 2 */7", "2088-03-01T00:00:00.000Z", "2128-02-29T00:00:00.000Z"),
        ("0 0 29 2 *", "1896-02-29T00:00:00.000Z", "1904-02-29T00:00:00.000Z"),
    ],
)  # fmt: skip
def test_a_schedule_comes_next_when_it_should(expression: str, at: str, then: str) -> None:
    assert format_instant(next_after(expression, parse_instant(at))) == then


@pytest.mark.parametrize(
    ("expression", "at", "then"),
    [
        # By the clocks of Berlin: an hour earlier in UTC in winter, two in summer.
        ("0 9 * * *", "2026-01-10T00:00:00.000Z", "2026-01-10T08:00:00.000Z"),
        ("0 9 * * *", "2026-07-10T00:00:00.000Z", "2026-07-10T07:00:00.000Z"),
        ("0 9 * * MON", "2026-03-28T00:00:00.000Z", "2026-03-30T07:00:00.000Z"),
        # 2:30 is skipped on 29 March 2026, and comes as soon as the clocks have gone on.
        ("30 2 * * *", "2026-03-28T12:00:00.000Z", "2026-03-29T01:00:00.000Z"),
        ("30 2 * * *", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"),
        # 2:30 is struck twice on 25 October 2026, and comes once.
        ("30 2 * * *", "2026-10-24T12:00:00.000Z", "2026-10-25T00:30:00.000Z"),
        ("30 2 * * *", "2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"),
        # Every half hour is every half hour of real time.
        ("*/30 * * * *", "2026-10-25T00:30:00.000Z", "2026-10-25T01:00:00.000Z"),
        ("*/30 * * * *", "2026-03-29T00:59:00.000Z", "2026-03-29T01:00:00.000Z"),
    ],
)  # fmt: skip
def test_a_schedule_goes_by_the_clocks_of_its_time_zone(expression: str, at: str, then: str) -> None:
    assert format_instant(next_after(expression, parse_instant(at), "Europe/Berlin")) == then


@pytest.mark.parametrize(
    ("expression", "at", "then"),
    [
        ("0 0 L * *", "2026-02-01T00:00:00.000Z", "2026-02-28T00:00:00.000Z"),
        ("0 0 LW * *", "2026-05-01T00:00:00.000Z", "2026-05-29T00:00:00.000Z"),
        ("0 0 * * FRI#2", "2026-05-01T00:00:00.000Z", "2026-05-08T00:00:00.000Z"),
        ("5/20 * * * *", "2026-05-01T00:05:00.000Z", "2026-05-01T00:25:00.000Z"),
    ],
)
def test_last_days_and_the_nth_weekday_are_understood(expression: str, at: str, then: str) -> None:
    assert format_instant(next_after(expression, parse_instant(at))) == then


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "five fields"),
        ("* * * *", "this one has 4"),
        ("* * * * * *", "this one has 6"),
        ("@daily", "this one has 1"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("* * 15W * *", "bad day-of-month"),
        ("* * ? * *", "bad day-of-month"),
        ("*/0 * * * *", "bad minute"),
        ("*/x * * * *", "bad minute"),
        ("30-10 * * * *", "bad minute"),
        ("1,,2 * * * *", "bad minute"),
        ("1- * * * *", "bad minute"),
        ("-1 * * * *", "bad minute"),
        ("** * * * *", "bad minute"),
        ("MON * * * *", "bad minute"),
        ("* * * * monday", "bad day-of-week"),
        ("٣ * * * *", "bad minute"),
        ("1e1 * * * *", "bad minute"),
        ("99999999999999999999 * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 31 4,6,9,11 *", "bad day-of-month"),
        ("1," * 200 + "1 * * * *", "at most 256 characters"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_field(expression: str, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_cron(expression)
    assert why in refused.value.message


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "Europe", "../../etc/passwd", "/etc/localtime", "A" * 300, "é", "UTC\0"]
)
def test_a_time_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="not the name of a time zone"):
        check_cron("* * * * *", name)


def test_nothing_comes_after_the_end_of_the_calendar() -> None:
    for name in ("UTC", "Europe/Berlin", "America/Los_Angeles", "Pacific/Auckland"):
        with pytest.raises(InvalidInput, match="does not come again"):
            next_after("* * * * *", LATEST, name)
    assert format_instant(next_after("* * * * *", EARLIEST - 10**18)) == "0001-01-01T00:01:00.000Z"


def test_two_spellings_mean_the_same() -> None:
    assert normal_form("0,30 9 * * MON-FRI") == normal_form("*/30 09 * JAN-DEC 1,2,3-5")
    assert normal_form("0 9 * * SUN") == normal_form("0 9 * * 7") == normal_form("0 9 * * 0")
    assert normal_form("0 9 1 * MON") != normal_form("0 9 1 * *") != normal_form("0 9 * * MON")


def part(bounds: tuple[int, int], names: list[str]) -> st.SearchStrategy[str]:
    numbers = st.integers(*bounds)
    single = numbers.map(str) if not names else numbers.map(str) | st.sampled_from(names)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.integers(1, 12).map(str)
    stepped = st.tuples(ranges | st.just("*"), steps).map("/".join)
    return single | ranges | stepped | st.just("*")


def field(place: int) -> st.SearchStrategy[str]:
    names = [*NAMES["month"]] if place == 3 else [*NAMES["day"]] if place == 4 else []
    return st.lists(part(BOUNDS[place], names), min_size=1, max_size=3).map(",".join)


expressions = st.tuples(*(field(place) for place in range(5))).map(" ".join)


def means(text: str, value: int, place: int) -> bool:
    """Whether one field of an expression means a value, read in the plainest way."""
    for item in text.split(","):
        bounds, _, step = item.partition("/")
        for count, name in enumerate(NAMES["month"], 1):
            bounds = bounds.replace(name, str(count)) if place == 3 else bounds
        for count, name in enumerate(NAMES["day"]):
            bounds = bounds.replace(name, str(count)) if place == 4 else bounds
        low, _, high = bounds.partition("-")
        least, most = BOUNDS[place] if low == "*" else (int(low), int(high or low))
        values = [value, 7] if place == 4 and value == 0 and low != "*" else [value]
        if any(least <= one <= most and (one - least) % int(step or 1) == 0 for one in values):
            return True
    return False


def comes_at(expression: str, moment: datetime) -> bool:
    minute, hour, day, month, weekday = expression.split()
    fits_day, fits_week = means(day, moment.day, 2), means(weekday, (moment.weekday() + 1) % 7, 4)
    is_either = day[0] != "*" and weekday[0] != "*"
    return (
        means(minute, moment.minute, 0)
        and means(hour, moment.hour, 1)
        and means(month, moment.month, 3)
        and ((fits_day or fits_week) if is_either else (fits_day and fits_week))
    )


def next_or_none(expression: str, at: int) -> int | None:
    try:
        return next_after(expression, at)
    except InvalidInput:
        # Only a day that no month of the expression has may be refused.
        with pytest.raises(InvalidInput, match="bad day-of-month"):
            check_cron(expression)
        return None


@settings(max_examples=150)
@given(expressions, st.integers(parse_instant("1999-01-01T00:00:00Z"), parse_instant("2101-01-01T00:00:00Z")))
def test_the_next_time_is_the_one_found_minute_by_minute(expression: str, at: int) -> None:
    then = next_or_none(expression, at)
    if then is None:
        return
    moment = datetime.fromtimestamp(at // 60_000 * 60, UTC) + timedelta(minutes=1)
    # A naive search over forty years takes too long: days in which no minute can come are passed over.
    while not comes_at(expression, moment):
        _, _, day, month, weekday = expression.split()
        is_possible = moment.hour or moment.minute or comes_at(f"* * {day} {month} {weekday}", moment)
        moment += timedelta(minutes=1) if is_possible else timedelta(days=1)
    assert datetime.fromtimestamp(then / 1000, UTC) == moment


def is_refused(text: str) -> bool:
    try:
        check_cron(text)
    except InvalidInput:
        return True
    return False


@settings(max_examples=300)
@given(st.text(max_size=300) | st.lists(st.text("*/-,0123456789LWMON#?", max_size=8), max_size=7).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    if not is_refused(text):
        assert normal_form(text) == normal_form(" ".join(text.split()).lower())
        for name in ("UTC", "America/New_York"):
            assert next_after(text, 0, name) > 0
