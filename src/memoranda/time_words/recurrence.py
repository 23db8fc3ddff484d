"""Recurrences named in a text: "every Monday", "daily at 8", "on the first of every month". English.

A rule selects local days, or has a fixed interval, and computes its next instant. Intervals are counted from the day of
writing.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from datetime import UTC, date, timedelta, timezone, tzinfo
from typing import Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from memoranda.errors import InvalidInput
from memoranda.model.calendar import LAST_DAY, days_after, instant_of, load_zone, local_day
from memoranda.model.instant import EARLIEST, LATEST, clamp
from memoranda.time_words.moments import DEFAULT_MINUTE, Clock, find_clocks, read_zone_name
from memoranda.time_words.vocabulary import (
    ENGLISH_COUNT,
    ENGLISH_MONTH,
    ENGLISH_SHORT_WEEKDAY,
    ENGLISH_WEEKDAY,
    PARTS_OF_DAY,
    parse_count,
    parse_month,
    parse_weekday,
)

Unit = Literal["minute", "hour", "day", "week", "month", "year"]

_DAYS = f"(?:{ENGLISH_WEEKDAY}|{ENGLISH_SHORT_WEEKDAY})"
_LIST = rf"{_DAYS}(?:(?:\s*,\s*(?:and\s)?|\s*/\s*|\s(?:and|&)\s){_DAYS})*"
_EVERY = re.compile(
    r"(?<![\w-])(?:"
    r"(?:on the |every |each |the )?(?P<nth>first|1st|second|2nd|third|3rd|fourth|4th|last)\s"
    r"(?P<nth_day>" + _DAYS + r")\s(?:of|in)\s(?:every|each|the)\smonth"
    r"|(?:on\sthe\s|the\s)?(?P<month_day>\d{1,2}(?:st|nd|rd|th)|first|last day|first day)\sof\s(?:every|each)\smonth"
    r"|(?:every|each)\smonth\s(?:on|by)\sthe\s(?P<month_day_after>\d{1,2})(?:st|nd|rd|th)"
    r"|(?:every|each)\syear\son\s(?:(?P<y_d>\d{1,2})(?:st|nd|rd|th)?\s(?:of\s)?(?P<y_m>" + ENGLISH_MONTH + r")"
    r"|(?P<y_m2>" + ENGLISH_MONTH + r")\s(?P<y_d2>\d{1,2})(?:st|nd|rd|th)?)"
    r"|(?:every|each)\s(?P<other>other\s|second\s)?(?P<days>" + _LIST + r")s?"
    r"(?:\s(?P<day_part>morning|afternoon|evening|night))?"
    r"|on\s(?P<plural>" + ENGLISH_WEEKDAY + r")s"
    r"|(?:every|each)\s(?P<part>morning|afternoon|evening|night)"
    r"|(?:every|each)\s(?:single\s)?(?P<weekday>weekday|workday|working day|business day)|on\s(?P<weekdays>weekdays)"
    r"|(?:every|each)\s(?P<weekend>weekend)"
    r"|(?:every|each)\s(?:(?P<skip>other|second)\s|(?P<n>" + ENGLISH_COUNT + r")\s|single\s)?"
    r"(?P<unit>minutes?|hours?|days?|weeks?|months?|quarters?|years?)"
    r"|(?P<adverb>hourly|daily|weekly|biweekly|fortnightly|monthly|quarterly|yearly|annually)"
    r"|(?:once|one time)\s(?:a|per|every)\s(?P<once>hour|day|week|month|quarter|year)"
    r")(?![\w-])",
    re.IGNORECASE,
)  # fmt: skip
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
# Days searched for the next occurrence, about forty years; rarer rules are not served.
_SEARCH_DAYS: Final = 366 * 40
# Largest interval, in units of the rule; a number with more digits is not a plan.
_INTERVAL_LIMIT: Final = 999
# Largest offset from UTC in minutes; no time zone has more.
_OFFSET_LIMIT: Final = 15 * 60


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """A rule for recurring instants."""

    unit: Unit
    # Number of units between two occurrences, counted from `start`.
    interval: int = 1
    # The instant of writing, in milliseconds since 1970.
    start: int
    # Days of the week, 0 is Monday. With `nth`, the first, second … or last (-1) such day of the month.
    weekdays: tuple[int, ...] = ()
    nth: int = 0
    # 1 to 31, capped at the length of the month; -1 is its last day; 0 is unset.
    month_day: int = 0
    month: int = 0
    # Minute of the local day; for units of a day and longer.
    minute: int = DEFAULT_MINUTE
    # Offset of the zone written after the time of day, in minutes; None if there is none.
    offset_minutes: int | None = None
    # The name of that zone in the tz database, if it is written by name.
    zone_name: str | None = None

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
        if self.zone_name is not None:
            load_zone(self.zone_name)
        if not is_sound:
            raise InvalidInput("the recurrence is invalid: a field is out of its range")

    def next_after(self, at: int, zone: tzinfo = UTC) -> int | None:
        """Return the first instant after `at`; None if there is none in forty years or within the calendar."""
        after = max(at, self.start)
        length = _LENGTHS_MS.get(self.unit)
        if length is not None:
            step = length * self.interval
            due_at = self.start + ((after - self.start) // step + 1) * step
            return due_at if due_at <= LATEST else None
        if self.offset_minutes is not None:
            zone = timezone(timedelta(minutes=self.offset_minutes))
        elif self.zone_name is not None:
            zone = load_zone(self.zone_name)
        day, first = days_after(local_day(after, zone), -1), local_day(self.start, zone)
        for _ in range(_SEARCH_DAYS + 1):
            if self._includes_day(day, first):
                due_at = instant_of(day, self.minute, zone)
                if due_at > after:
                    return due_at
            if day == LAST_DAY:
                break
            day = days_after(day, 1)
        return None

    def _includes_day(self, day: date, start: date) -> bool:
        """Return True if the rule selects a local day; `start` is the local day of writing."""
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
        wanted_day = self.month_day or start.day
        return day.day == (length if wanted_day == -1 else min(wanted_day, length))


class NamedRecurrence(msgspec.Struct, frozen=True, kw_only=True):
    """A recurrence, with the character indices at which the text states it."""

    rule: Recurrence
    start: int
    end: int
    certainty: float = 1.0
    # True if the text names a time zone that does not exist; the zone of the caller is used then.
    is_zone_unknown: bool = False


def read_recurrence(text: str, at: int) -> NamedRecurrence | None:
    """Return the first recurrence in a sentence, with the adjacent time of day; None if there is none."""
    at = clamp(at)
    match = _EVERY.search(text)
    if match is None:
        return None
    start, end, clock_match = match.start(), match.end(), None
    for clock in find_clocks(text):
        gap = text[end : clock.start] if clock.start >= end else text[clock.end : start]
        if len(gap.split()) == 0 or gap.strip().lower() in (",", "at", "on", "by"):
            start, end = min(start, clock.start), max(end, clock.end)
            clock_match = clock
            break
    try:
        rule = _read_rule(match, at)
        if clock_match is not None:
            rule = at_clock(rule, clock_match)
    except (ValueError, InvalidInput):
        return None
    is_zone_unknown = clock_match is not None and clock_match.is_zone_unknown
    if rule.offset_minutes is None and rule.zone_name is None:
        # "Every Monday (Europe/Paris)", "at 9 every Monday, Europe/Paris".
        zone = read_zone_name(text, end)
        if zone is not None:
            end, rule = zone.end, replace(rule, zone_name=zone.name)
            is_zone_unknown = zone.name is None
    return NamedRecurrence(
        rule=rule,
        start=start,
        end=end,
        certainty=clock_match.certainty if clock_match else 1.0,
        is_zone_unknown=is_zone_unknown,
    )


def at_clock(rule: Recurrence, clock: Clock) -> Recurrence:
    """Return a rule at a time of day, in the zone written after that."""
    return replace(
        rule,
        minute=clock.minute,
        offset_minutes=clock.offset_minutes,
        zone_name=clock.zone_name,
    )


def _read_rule(match: re.Match[str], at: int) -> Recurrence:
    """Return the rule of a match, without the time of day after it."""
    if match["nth"]:
        nth = _NTH[match["nth"].lower()]
        return Recurrence(
            unit="month", start=at, nth=nth, weekdays=(parse_weekday(match["nth_day"]),)
        )
    day = match["month_day"] or match["month_day_after"]
    if day:
        number = {"first": 1, "first day": 1, "last day": -1}.get(day.lower()) or int(
            re.sub(r"\D", "", day)
        )
        return Recurrence(unit="month", start=at, month_day=number)
    if match["y_d"] or match["y_d2"]:
        month, number = (
            parse_month(match["y_m"] or match["y_m2"]),
            int(match["y_d"] or match["y_d2"]),
        )
        return Recurrence(unit="year", start=at, month=month, month_day=number)
    if match["days"] or match["plural"]:
        names = re.findall(_DAYS, match["days"] or match["plural"], re.IGNORECASE)
        weekdays = tuple(sorted({parse_weekday(day) for day in names}))
        minute = PARTS_OF_DAY[match["day_part"].lower()] if match["day_part"] else DEFAULT_MINUTE
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
        return Recurrence(unit="day", start=at, minute=PARTS_OF_DAY[match["part"].lower()])
    return _read_counted_rule(match, at)


def _read_counted_rule(match: re.Match[str], at: int) -> Recurrence:
    if match["adverb"]:
        unit, interval = _ADVERBS[match["adverb"].lower()]
    else:
        unit, interval = _UNITS[(match["unit"] or match["once"]).lower().rstrip("s")]
        interval *= 2 if match["skip"] else parse_count(match["n"]) if match["n"] else 1
    return Recurrence(unit=unit, start=at, interval=interval)
