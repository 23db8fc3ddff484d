"""Saturating calendar arithmetic: results are clamped to the years 1 to 9999, and never raise OverflowError.

Texts contain the last day of the calendar, and durations that lead beyond it ("in 3 weeks", written on 9999-12-31). A
result before the first day becomes the first day, and a result after the last day the last; `instant.clamp` does the
same for instants.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Literal
from zoneinfo import ZoneInfo

from memoranda.errors import InvalidInput
from memoranda.model.instant import DAY_MS, EARLIEST, LATEST, Instant, clamp, to_datetime

CalendarUnit = Literal["day", "week", "month", "year"]

FIRST_DAY: Final = date.min
LAST_DAY: Final = date.max
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
# Days. An offset moves a local time by less than a day, and a zone looks up its rules one day further. So for days
# closer to an end of the calendar, the offset of a day this far inside is used.
_MARGIN: Final = 3
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,32}){0,2}", re.ASCII)


def existing_day(year: int, month: int, day: int) -> date | None:
    """Return a day; None if it does not exist, such as 30 February or a day of the year 0."""
    try:
        return date(year, month, day)
    except (ValueError, OverflowError):
        return None


def days_after(day: date, count: int) -> date:
    """Return the day `count` days later, or earlier if the count is negative."""
    return date.fromordinal(
        min(max(day.toordinal() + count, FIRST_DAY.toordinal()), LAST_DAY.toordinal())
    )


def months_after(day: date, count: int) -> date:
    """Return the same day of a later (or earlier) month, or the last day of that month if it is shorter."""
    year, month = divmod(day.year * 12 + day.month - 1 + count, 12)
    if not FIRST_DAY.year <= year <= LAST_DAY.year:
        return FIRST_DAY if count < 0 else LAST_DAY
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def units_after(day: date, count: int, unit: CalendarUnit) -> date:
    """Return the day `count` days, weeks, months or years later, or earlier if the count is negative."""
    if unit in ("month", "year"):
        return months_after(day, count * (12 if unit == "year" else 1))
    return days_after(day, count * (7 if unit == "week" else 1))


def next_weekday(day: date, weekday: int) -> date:
    """Return the first day after another that is this day of the week; 0 is Monday."""
    return days_after(day, (weekday - day.weekday() - 1) % 7 + 1)


def previous_weekday(day: date, weekday: int) -> date:
    """Return the last day before another that is this day of the week; 0 is Monday."""
    return days_after(day, -((day.weekday() - weekday - 1) % 7 + 1))


def end_of_period(first: date, months: int) -> date:
    """Return the last day of a period of `months` months that begins on the first of a month."""
    return end_of_month(months_after(first, months - 1))


def end_of_month(day: date) -> date:
    """Return the last day of a day's month."""
    return day.replace(day=monthrange(day.year, day.month)[1])


def utc_day(at: int) -> date:
    """Return the day of an instant in UTC."""
    return date.fromordinal(_EPOCH_DAY + clamp(at) // DAY_MS)


def load_zone(name: str, field: str = "timezone") -> tzinfo:
    """Return a time zone by its name in the tz database. Raises InvalidInput, which names `field`."""
    try:
        if _ZONE.fullmatch(name):
            return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        pass
    raise InvalidInput(f"{field}: not the name of a time zone, such as Europe/Berlin")


def local_day(at: int, zone: tzinfo | None) -> date:
    """Return the day of an instant in a time zone; None is the zone of this machine."""
    days, inner = _moved_inside(at)
    return days_after(to_datetime(inner).astimezone(zone).date(), days)


def utc_offset_ms(at: int, zone: tzinfo | None) -> int:
    """Return the offset of a time zone from UTC at an instant, in milliseconds."""
    if zone is UTC:
        return 0
    _, inner = _moved_inside(at)
    offset = to_datetime(inner).astimezone(zone).utcoffset() or timedelta()
    return offset // timedelta(milliseconds=1)


def instant_of(day: date, minute: int, zone: tzinfo | None) -> Instant:
    """Return the instant of a local time. `minute` counts from midnight; 1440 is the midnight at the end of the day.

    A local time that a change of clocks skips is as many minutes after the gap as it is after the beginning of the gap
    (02:30 becomes 03:30), and of a local time that occurs twice the first is returned, as in RFC 5545.
    """
    inner = min(max(day, days_after(FIRST_DAY, _MARGIN)), days_after(LAST_DAY, -_MARGIN))
    moment = datetime(inner.year, inner.month, inner.day, tzinfo=zone) + timedelta(minutes=minute)
    return clamp(round(moment.timestamp()) * 1_000 + (day - inner).days * DAY_MS)


def _moved_inside(at: int) -> tuple[int, int]:
    """Return how many days an instant must move away from an end of the calendar, and the moved instant."""
    at = clamp(at)
    first, last = EARLIEST + _MARGIN * DAY_MS, LATEST - _MARGIN * DAY_MS
    days = min(0, (at - first) // DAY_MS) if at < last else -((last - at) // DAY_MS)
    return days, at - days * DAY_MS
