"""What comes again: "every Monday", "daily at 8", "on the first of every month", "every other week". English.

A rule says which local days it means, or how much time lies between two, and finds its next instant. Intervals are
counted from the day the text was written.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from datetime import UTC, date, timedelta, timezone, tzinfo
from typing import Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.time.moments import (
    MONTH,
    NINE,
    NUMBER,
    clocks,
    count_of,
    month_of,
    weekday_of,
)
from memoranda.errors import InvalidInput
from memoranda.model.calendar import LAST_DAY, days_after, instant_of, local_day
from memoranda.model.instant import EARLIEST, LATEST, clamp

Unit = Literal["minute", "hour", "day", "week", "month", "year"]

_DAYS = r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)"
_LIST = rf"{_DAYS}(?:(?:\s*,\s*(?:and\s)?|\s*/\s*|\s(?:and|&)\s){_DAYS})*"
_EVERY = re.compile(
    r"(?<![\w-])(?:"
    r"(?:on the |every |each |the )?(?P<nth>first|1st|second|2nd|third|3rd|fourth|4th|last)\s"
    r"(?P<nth_day>" + _DAYS + r")\s(?:of|in)\s(?:every|each|the)\smonth"
    r"|(?:on\sthe\s|the\s)?(?P<month_day>\d{1,2}(?:st|nd|rd|th)|first|last day|first day)\sof\s(?:every|each)\smonth"
    r"|(?:every|each)\smonth\s(?:on|by)\sthe\s(?P<month_day_after>\d{1,2})(?:st|nd|rd|th)"
    r"|(?:every|each)\syear\son\s(?:(?P<y_d>\d{1,2})(?:st|nd|rd|th)?\s(?:of\s)?(?P<y_m>" + MONTH + r")"
    r"|(?P<y_m2>" + MONTH + r")\s(?P<y_d2>\d{1,2})(?:st|nd|rd|th)?)"
    r"|(?:every|each)\s(?P<other>other\s|second\s)?(?P<days>" + _LIST + r")s?"
    r"(?:\s(?P<day_part>morning|afternoon|evening|night))?"
    r"|on\s(?P<plural>" + _DAYS.replace("|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun", "") + r")s"
    r"|(?:every|each)\s(?P<part>morning|afternoon|evening|night)"
    r"|(?:every|each)\s(?:single\s)?(?P<weekday>weekday|workday|working day|business day)|on\s(?P<weekdays>weekdays)"
    r"|(?:every|each)\s(?P<weekend>weekend)"
    r"|(?:every|each)\s(?:(?P<skip>other|second)\s|(?P<n>" + NUMBER + r")\s|single\s)?"
    r"(?P<unit>minutes?|hours?|days?|weeks?|months?|quarters?|years?)"
    r"|(?P<adverb>hourly|daily|weekly|biweekly|fortnightly|monthly|quarterly|yearly|annually)"
    r"|(?:once|one time)\s(?:a|per|every)\s(?P<once>hour|day|week|month|quarter|year)"
    r")(?![\w-])",
    re.IGNORECASE,
)  # fmt: skip
_PARTS: Final = {"morning": NINE, "afternoon": 14 * 60, "evening": 18 * 60, "night": 20 * 60}
_NTH: Final = {
    "first": 1,
    "1st": 1,
    "second": 2,
    "2nd": 2,
    "third": 3,
    "3rd": 3,
    "fourth": 4,
    "4th": 4,
    "last": -1,
}
_ADVERBS: Final[Mapping[str, tuple[Unit, int]]] = {
    "hourly": ("hour", 1), "daily": ("day", 1), "weekly": ("week", 1), "biweekly": ("week", 2),
    "fortnightly": ("week", 2), "monthly": ("month", 1), "quarterly": ("month", 3), "yearly": ("year", 1),
    "annually": ("year", 1),
}  # fmt: skip
_UNITS: Final[Mapping[str, tuple[Unit, int]]] = {
    "minute": ("minute", 1), "hour": ("hour", 1), "day": ("day", 1), "week": ("week", 1), "month": ("month", 1),
    "quarter": ("month", 3), "year": ("year", 1),
}  # fmt: skip
_LENGTHS_MS: Final = {"minute": 60_000, "hour": 3_600_000}
_WORKING_DAYS: Final = (0, 1, 2, 3, 4)
# The longest wait that is looked through: a leap day, or every hundredth year, is beyond what a memory plans.
_SEARCH_DAYS: Final = 366 * 40
_INTERVAL_LIMIT: Final = 999
_OFFSET_LIMIT: Final = 15 * 60


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """A rule for instants that come again and again."""

    unit: Unit
    # Every so many of them, counted from `start`.
    interval: int = 1
    # When the text was written, in milliseconds since 1970.
    start: int
    # Of the week: 0 is Monday. With `nth`, the first, second … or last (-1) such day of the month.
    weekdays: tuple[int, ...] = ()
    nth: int = 0
    # 1 to 31, held to the length of the month; -1 is its last day.
    month_day: int = 0
    month: int = 0
    # Of the local day; for days and what is longer.
    minute: int = NINE
    # Of the zone written beside the time of day; None when there is none.
    offset_minutes: int | None = None

    def __post_init__(self) -> None:
        is_sound = (
            self.unit in get_args(Unit)
            and 1 <= self.interval <= _INTERVAL_LIMIT
            and EARLIEST <= self.start <= LATEST
            and all(0 <= weekday <= 6 for weekday in self.weekdays)
            and self.nth in (-1, 0, 1, 2, 3, 4)
            and (self.month_day == -1 or 0 <= self.month_day <= 31)
            and 0 <= self.month <= 12
            and 0 <= self.minute <= 24 * 60
            and -_OFFSET_LIMIT <= (self.offset_minutes or 0) <= _OFFSET_LIMIT
        )
        if not is_sound:
            raise InvalidInput("not a rule for something that comes again")

    def next_after(self, at: int, zone: tzinfo = UTC) -> int | None:
        """Return the first instant after another; None if there is none in forty years or before time ends."""
        after = max(at, self.start)
        length = _LENGTHS_MS.get(self.unit)
        if length is not None:
            step = length * self.interval
            due = self.start + ((after - self.start) // step + 1) * step
            return due if due <= LATEST else None
        if self.offset_minutes is not None:
            zone = timezone(timedelta(minutes=self.offset_minutes))
        day, first = days_after(local_day(after, zone), -1), local_day(self.start, zone)
        for _ in range(_SEARCH_DAYS + 1):
            if self._means(day, first) and (due := instant_of(day, self.minute, zone)) > after:
                return due
            if day == LAST_DAY:
                break
            day = days_after(day, 1)
        return None

    def _means(self, day: date, start: date) -> bool:
        months = (day.year - start.year) * 12 + day.month - start.month
        match self.unit:
            case "day":
                return (day - start).days % self.interval == 0
            case "week":
                weeks = (day.toordinal() - day.weekday() - start.toordinal() + start.weekday()) // 7
                return weeks % self.interval == 0 and day.weekday() in (
                    self.weekdays or (start.weekday(),)
                )
            case "month":
                return months % self.interval == 0 and self._is_day_of_month(day, start)
            case _:
                is_month = day.month == (self.month or start.month)
                return (
                    is_month
                    and (day.year - start.year) % self.interval == 0
                    and self._is_day_of_month(day, start)
                )

    def _is_day_of_month(self, day: date, start: date) -> bool:
        length = monthrange(day.year, day.month)[1]
        if self.nth:
            is_nth = day.day > length - 7 if self.nth == -1 else (day.day - 1) // 7 == self.nth - 1
            return is_nth and day.weekday() in self.weekdays
        wanted = self.month_day or start.day
        return day.day == (length if wanted == -1 else min(wanted, length))


class Recurring(msgspec.Struct, frozen=True, kw_only=True):
    """A rule and where the text states it."""

    rule: Recurrence
    start: int
    end: int
    certainty: float = 1.0


def read_recurrence(text: str, at: int) -> Recurring | None:
    """The first rule a sentence written at that instant states, with the time of day beside it."""
    at = clamp(at)
    match = _EVERY.search(text)
    if match is None:
        return None
    start, end, beside = match.start(), match.end(), None
    for clock in clocks(text):
        gap = text[end : clock.start] if clock.start >= end else text[clock.end : start]
        if len(gap.split()) == 0 or gap.strip().lower() in (",", "at", "on", "by"):
            start, end = min(start, clock.start), max(end, clock.end)
            beside = clock
            break
    try:
        rule = _rule(match, at)
        if beside is not None:
            rule = replace(rule, minute=beside.minute, offset_minutes=beside.offset_minutes)
    except (ValueError, InvalidInput):
        return None
    return Recurring(rule=rule, start=start, end=end, certainty=beside.certainty if beside else 1.0)


def _rule(match: re.Match[str], at: int) -> Recurrence:
    if match["nth"]:
        nth = _NTH[match["nth"].lower()]
        return Recurrence(unit="month", start=at, nth=nth, weekdays=(weekday_of(match["nth_day"]),))
    day = match["month_day"] or match["month_day_after"]
    if day:
        number = {"first": 1, "first day": 1, "last day": -1}.get(day.lower()) or int(
            re.sub(r"\D", "", day)
        )
        return Recurrence(unit="month", start=at, month_day=number)
    if match["y_d"] or match["y_d2"]:
        month, number = month_of(match["y_m"] or match["y_m2"]), int(match["y_d"] or match["y_d2"])
        return Recurrence(unit="year", start=at, month=month, month_day=number)
    if match["days"] or match["plural"]:
        found = re.findall(_DAYS, match["days"] or match["plural"], re.IGNORECASE)
        weekdays = tuple(sorted({weekday_of(day) for day in found}))
        minute = _PARTS[match["day_part"].lower()] if match["day_part"] else NINE
        return Recurrence(
            unit="week",
            start=at,
            interval=2 if match["other"] else 1,
            weekdays=weekdays,
            minute=minute,
        )
    if match["weekday"] or match["weekdays"]:
        return Recurrence(unit="week", start=at, weekdays=_WORKING_DAYS)
    if match["weekend"]:
        return Recurrence(unit="week", start=at, weekdays=(5,))
    if match["part"]:
        return Recurrence(unit="day", start=at, minute=_PARTS[match["part"].lower()])
    return _counted(match, at)


def _counted(match: re.Match[str], at: int) -> Recurrence:
    if match["adverb"]:
        unit, interval = _ADVERBS[match["adverb"].lower()]
    else:
        unit, interval = _UNITS[(match["unit"] or match["once"]).lower().rstrip("s")]
        interval *= 2 if match["skip"] else count_of(match["n"]) if match["n"] else 1
    return Recurrence(unit=unit, start=at, interval=interval)
