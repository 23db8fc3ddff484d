"""Schedules as five-field cron expressions: minute, hour, day of month, month, day of week. All in UTC.

    *       every value            MON-FRI     a range            JAN,JUL     a list
    */15    every fifteenth        8-18/2      every second of a range

Names are the first three English letters, in any case. Sunday is 0 or 7. As in crontab(5), when neither the day of
month nor the day of week begins with `*`, a day that fits either of them is meant; otherwise it has to fit both. A
schedule that can never come, such as 30 February, is refused. `L`, `W`, `#`, `?`, a sixth field and `@daily` are no
part of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

from memoranda.errors import InvalidInput
from memoranda.model.instant import EARLIEST, LATEST

# The longest useful list is sixty minutes; more is a mistake or an attack.
EXPRESSION_CHARS_LIMIT: Final = 256

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MACROS: Final = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
_PART = re.compile(r"(?:(?P<every>\*)|(?P<first>[^-/*]+)(?:-(?P<last>[^-/*]+))?)(?:/(?P<step>[^-/*]+))?", re.DOTALL)
_LONGEST_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    # The number of the first name.
    names_from: int = 0


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of week", 0, 7, _DAYS, 0),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule; each field holds its values in order. Days of the week count from Sunday, 0."""

    expression: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    # Neither day field begins with a star: either of them is enough.
    either_day: bool

    def next_after(self, at: int) -> int:
        """The first instant of the schedule later than that one. Raises InvalidInput at the end of the calendar."""
        start = _EPOCH + timedelta(milliseconds=min(max(at, EARLIEST), LATEST))
        if start <= datetime.max.replace(tzinfo=UTC) - _MINUTE:
            start = start.replace(second=0, microsecond=0) + _MINUTE
            for day in self._days_from(start.date()):
                minute = self._minute_from(start.hour * 60 + start.minute if day == start.date() else 0)
                if minute is not None:
                    moment = datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=UTC)
                    return (moment - _EPOCH) // timedelta(milliseconds=1)
        raise InvalidInput(f"the schedule “{self.expression}” does not come again before the year 10000")

    def _days_from(self, first: date) -> Iterator[date]:
        for month_count in range(first.year * 12 + first.month - 1, 10_000 * 12):
            year, month = month_count // 12, month_count % 12 + 1
            if month not in self.months:
                continue
            is_first_month = (year, month) == (first.year, first.month)
            for number in range(first.day if is_first_month else 1, monthrange(year, month)[1] + 1):
                day = date(year, month, number)
                fits_month, fits_week = number in self.days, day.isoweekday() % 7 in self.weekdays
                if (fits_month or fits_week) if self.either_day else (fits_month and fits_week):
                    yield day

    def _minute_from(self, first: int) -> int | None:
        for hour in self.hours[bisect_left(self.hours, first // 60) :]:
            least = first % 60 if hour == first // 60 else 0
            place = bisect_left(self.minutes, least)
            if place < len(self.minutes):
                return hour * 60 + self.minutes[place]
        return None


def next_after(expression: str, at: int) -> int:
    """When an expression comes next after an instant. Raises InvalidInput."""
    return parse_cron(expression).next_after(at)


@lru_cache(maxsize=256)
def parse_cron(expression: str) -> Cron:
    """Read a five-field expression. Raises InvalidInput, which says what is wrong in which field."""
    if len(expression) > EXPRESSION_CHARS_LIMIT:
        raise InvalidInput(f"a cron expression has at most {EXPRESSION_CHARS_LIMIT} characters, not {len(expression)}")
    texts = expression.split()
    if len(texts) == 1 and texts[0].lower() in _MACROS:
        raise InvalidInput(f"{texts[0]} is not a cron expression here; write “{_MACROS[texts[0].lower()]}”")
    if len(texts) != len(_FIELDS):
        raise InvalidInput(
            "a cron expression has five fields (minute, hour, day of month, month, day of week), "
            f"and this one has {len(texts)}"
        )
    minutes, hours, days, months, weekdays = (_values(field, text) for field, text in zip(_FIELDS, texts, strict=True))
    either_day = not texts[2].startswith("*") and not texts[4].startswith("*")
    if not either_day and days[0] > max(_LONGEST_MONTHS[month - 1] for month in months):
        raise InvalidInput(f"the schedule “{' '.join(texts)}” never comes: none of its months has a day {days[0]}")
    return Cron(
        expression=" ".join(texts),
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=tuple(sorted({weekday % 7 for weekday in weekdays})),
        either_day=either_day,
    )


def _values(field: _Field, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(","):
        found.update(_part_values(field, part))
    return tuple(sorted(found))


def _part_values(field: _Field, part: str) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise _wrong(field, f"cannot read {_shown(part)}")
    step = _number(field, match["step"], "step") if match["step"] else 1
    if step < 1:
        raise _wrong(field, "a step must be at least 1")
    if match["every"]:
        # A day of the week has two names for Sunday, and steps count it once.
        return range(field.least, min(field.most, 6 if field.names is _DAYS else field.most) + 1, step)
    first = _value(field, match["first"])
    if match["last"] is None:
        if match["step"]:
            raise _wrong(field, f"a step needs * or a range, such as {first}-{field.most}/{step}")
        return range(first, first + 1)
    last = _value(field, match["last"])
    if field.names is _DAYS and last == 0 < first:
        last = 7  # FRI-SUN
    if last < first:
        raise _wrong(field, f"the range {_shown(part)} runs backwards")
    return range(first, last + 1, step)


def _value(field: _Field, text: str) -> int:
    if text.upper() in field.names:
        return field.names.index(text.upper()) + field.names_from
    number = _number(field, text, "value")
    if not field.least <= number <= field.most:
        raise _wrong(field, f"{number} is not between {field.least} and {field.most}")
    return number


def _number(field: _Field, text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 4):
        raise _wrong(field, f"{_shown(text)} is not a {what}")
    return int(text)


def _wrong(field: _Field, reason: str) -> InvalidInput:
    return InvalidInput(f"cron expression, {field.name}: {reason}")


def _shown(text: str) -> str:
    short = text if len(text) <= 20 else text[:20] + "…"
    return f"“{short}”" if short.isprintable() else "an unprintable character"
