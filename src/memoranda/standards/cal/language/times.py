"""Time expressions: `last 7 days`, `yesterday`, `2026-03-15`, an instant, an epoch (section 9.3).

All results are milliseconds since 1970 in UTC. An expression names the start of a span; the caller passes the current
time. Weeks start on Monday.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date
from typing import Final

from memoranda.errors import QueryError
from memoranda.model.calendar import (
    FIRST_DAY,
    end_of_month,
    existing_day,
    instant_of,
    months_after,
    utc_day,
)
from memoranda.model.instant import DAY_MS, EARLIEST, clamp, parse_instant
from memoranda.standards.cal.language.syntax import Option

# Epochs below this are in seconds, others in milliseconds: 1e11 seconds are the year 5138, 1e11 ms are 1973.
SECONDS_BELOW: Final = 100_000_000_000
# An arbitrary current time (2026-03-03), to test if a text is an expression at all.
_ARBITRARY_NOW: Final = 1_772_539_200_000

_UNIT: Final = r"(second|minute|hour|day|week|month|year)"
_LAST_UNITS: Final = re.compile(rf"(?:last|past|previous)(?: +(\d{{1,6}}))? +{_UNIT}s?", re.ASCII)
_UNITS_AGO: Final = re.compile(rf"(\d{{1,6}}) +{_UNIT}s? +ago", re.ASCII)
_THIS_UNIT: Final = re.compile(r"this +(hour|day|week|month|year)", re.ASCII)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY: Final = re.compile(rf"(?:last +)?({'|'.join(_WEEKDAYS)})", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)
_EPOCH: Final = re.compile(r"\d{9,14}", re.ASCII)
_HAS_OFFSET: Final = re.compile(r"(?:z|[+-]\d{2}:\d{2})\Z", re.IGNORECASE)
_UNIT_MS: Final = {
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": DAY_MS,
    "week": 7 * DAY_MS,
}


def first_ms(text: str, now: int) -> int | None:
    """Return the instant in ms at which a time expression begins; None for any other text."""
    words = text.strip().lower()
    today = now - now % DAY_MS
    if words == "now":
        return now
    if words == "today":
        return today
    if words == "yesterday":
        return today - DAY_MS
    if match := _LAST_UNITS.fullmatch(words) or _UNITS_AGO.fullmatch(words):
        return _subtract(now, int(match[1] or 1), match[2])
    if match := _THIS_UNIT.fullmatch(words):
        return _start_of_current(now, match[1])
    if match := _WEEKDAY.fullmatch(words):
        # 1970-01-01 was a Thursday, three days after a Monday.
        days = (today // DAY_MS + 3 - _WEEKDAYS.index(match[1])) % 7
        return today - (days or 7) * DAY_MS
    span = parse_span(text)
    return None if span is None else span[0]


def last_ms(text: str, now: int) -> int | None:
    """Return the last millisecond of a date; for other expressions the same as `first_ms`."""
    span = parse_span(text)
    return first_ms(text, now) if span is None else span[1]


# Options of our own, such as `WITH x_valid_at("2026-05-01")`: results that were valid, or known, at an instant.
VALID_AT: Final = "x_valid_at"
KNOWN_AT: Final = "x_known_at"


def time_option(options: Iterable[Option], name: str, now: int) -> int | None:
    """Return the instant that an option names, or None without the option. Raise QueryError if it is no time."""
    for option in options:
        if option.name != name:
            continue
        argument = option.arguments[0] if len(option.arguments) == 1 else None
        instant = last_ms(argument, now) if isinstance(argument, str) else None
        if instant is None:
            raise QueryError(
                f"{name} needs one time.",
                cal_code="CAL-E021",
                suggestion=f'Write {name}("2026-05-01T12:00:00Z").',
            )
        return instant
    return None


def is_time_expression(text: str) -> bool:
    """Return True if the text is a time expression."""
    return first_ms(text, _ARBITRARY_NOW) is not None


def parse_span(text: str) -> tuple[int, int] | None:
    """Return first and last millisecond of a date, an instant or an epoch; None for all other texts."""
    text = text.strip()
    if _EPOCH.fullmatch(text):
        return (epoch := epoch_ms(int(text))), epoch
    if match := _DATE.fullmatch(text):
        return _days(match)
    try:
        instant = parse_instant(text if _HAS_OFFSET.search(text) else f"{text}Z")
    except ValueError:
        return None
    return instant, instant


def epoch_ms(number: float) -> int:
    """Return an epoch given in seconds or milliseconds in milliseconds."""
    return int(number * 1000 if abs(number) < SECONDS_BELOW else number)


def _days(match: re.Match[str]) -> tuple[int, int] | None:
    """Return the first and the last millisecond of a year, a month or a day; None if it does not exist."""
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None
    first = existing_day(year, 1 if month is None else month, 1 if day is None else day)
    if first is None:
        return None
    if day:
        last = first
    else:
        last_month = first if month else first.replace(month=12)
        last = end_of_month(last_month)
    return _start(first), _start(last) + DAY_MS - 1


def _subtract(now: int, count: int, unit: str) -> int:
    """Return the instant a number of units before now."""
    if unit in _UNIT_MS:
        return clamp(now - count * _UNIT_MS[unit])
    # The 31st of March minus one month is the last of February.
    day = months_after(utc_day(now), -count * (12 if unit == "year" else 1))
    return EARLIEST if day == FIRST_DAY else _start(day) + clamp(now) % DAY_MS


def _start_of_current(now: int, unit: str) -> int:
    """Return the first millisecond of the current hour, day, week, month or year."""
    if unit == "hour":
        return now - now % _UNIT_MS["hour"]
    today = now - now % DAY_MS
    if unit == "day":
        return today
    if unit == "week":
        return today - (today // DAY_MS + 3) % 7 * DAY_MS
    first = utc_day(today).replace(day=1)
    return _start(first if unit == "month" else first.replace(month=1))


def _start(day: date) -> int:
    return instant_of(day, 0, UTC)
