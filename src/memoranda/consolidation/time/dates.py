"""Days named in a text: written out, or counted from the day the text was written. All in UTC.

A date that two readers would read differently (03/04/2026) is not read at all.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal

import msgspec

from memoranda.model.instant import EARLIEST, LATEST

Grain = Literal["day", "month"]

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH_NUMBERS: Final = {name[:length]: place for place, name in enumerate(_MONTHS, 1) for length in (3, len(name))} | {
    "sept": 9
}
_MONTH = (
    "(?P<{}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\\.?"
)
_DAYS_OF_WEEK = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_NAMED = re.compile(
    r"(?<![\w.])(?:"
    r"(?P<iso_y>\d{4})[-/](?P<iso_m>\d{2})[-/](?P<iso_d>\d{2})"
    r"(?:[Tt]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:\d{2})?)?"
    r"|(?P<dot_d>\d{1,2})\.\s?(?P<dot_m>\d{1,2})\.\s?(?P<dot_y>\d{4})"
    r"|(?P<cjk_y>\d{4})年(?P<cjk_m>\d{1,2})月(?P<cjk_d>\d{1,2})日"
    r"|(?P<dmy_d>\d{1,2})(?:st|nd|rd|th)?\s(?:of\s)?" + _MONTH.format("dmy_m") + r"(?:,?\s(?P<dmy_y>\d{4}))?"
    r"|" + _MONTH.format("mdy_m") + r"\s(?P<mdy_d>\d{1,2})(?:st|nd|rd|th)?(?:,?\s(?P<mdy_y>\d{4}))?"
    r"|" + _MONTH.format("my_m") + r"\s(?P<my_y>\d{4})"
    r"|(?P<ym_y>\d{4})-(?P<ym_m>\d{2})"
    r"|in\s(?P<in_n>\d{1,3})\s(?P<in_unit>days?|weeks?|months?)"
    r"|(?P<relative>today|tomorrow|yesterday|next\sweek|next\smonth)"
    r"|(?P<which>next|on|this|by|until|last)\s(?P<weekday>" + _DAYS_OF_WEEK + r")"
    r")(?![\w-])",
    re.IGNORECASE,
)  # fmt: skip


_VERBS_TOO: Final = frozenset(("may", "march", "mar"))
# A day without a year that passed so many days ago, and not more, is meant.
_RECENT_DAYS: Final = 31


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A day (or the first of a month) and where the text names it."""

    day: date
    grain: Grain
    start: int
    end: int
    # Whether it was counted from the day of writing ("tomorrow").
    is_relative: bool = False


def day_of(at: int) -> date:
    """The UTC day of an instant, held to the years that a calendar has."""
    clamped = min(max(at, EARLIEST), LATEST)
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=clamped)).date()


def named_days(text: str, at: int) -> list[Named]:
    """The days a text written at that instant names, in order."""
    return list(_found(text, day_of(at)))


def _found(text: str, written: date) -> Iterator[Named]:
    for match in _NAMED.finditer(text):
        for read in _READERS:
            try:
                made = read(match, written)
            except (ValueError, OverflowError):
                made = None  # 31 February, or beyond the calendar
            if made is not None:
                day, grain, is_relative = made
                yield Named(day=day, grain=grain, start=match.start(), end=match.end(), is_relative=is_relative)
                break


_Made = tuple[date, Grain, bool] | None


def _written_out(match: re.Match[str], written: date) -> _Made:
    for form in ("iso", "dot", "cjk", "dmy", "mdy"):
        if match[f"{form}_d"]:
            month = match[f"{form}_m"].lower()
            number, day = _MONTH_NUMBERS.get(month) or int(month), int(match[f"{form}_d"])
            if match[f"{form}_y"]:
                return date(int(match[f"{form}_y"]), number, day), "day", False
            # "Form 12 may be used" names no day.
            return None if match[f"{form}_m"] in _VERBS_TOO else (_without_year(number, day, written), "day", False)
    for form in ("my", "ym"):
        if match[f"{form}_y"]:
            month = match[f"{form}_m"].lower()
            return date(int(match[f"{form}_y"]), _MONTH_NUMBERS.get(month) or int(month), 1), "month", False
    return None


def _without_year(month: int, day: int, written: date) -> date:
    """The next such day; or the last, if that was a few weeks ago: one speaks of what was, and of what comes."""
    for year in range(written.year - 1, written.year + 8):
        # 29 February comes every fourth year, and once in eight.
        if day == 29 and month == 2 and not isleap(year):
            continue
        found = date(year, month, day)
        if found >= written - timedelta(days=_RECENT_DAYS):
            return found
    raise ValueError("no such day near")


def _counted(match: re.Match[str], written: date) -> _Made:
    if match["in_n"]:
        unit = match["in_unit"].lower().rstrip("s")
        if unit == "month":
            return _months_later(written, int(match["in_n"])), "day", True
        return written + timedelta(days=int(match["in_n"]) * (7 if unit == "week" else 1)), "day", True
    if match["relative"]:
        word = match["relative"].lower().split()
        if word == ["next", "month"]:
            return _months_later(written.replace(day=1), 1), "month", True
        days = {"today": 0, "tomorrow": 1, "yesterday": -1}
        # "Next week" is a week, not a day: its Monday stands for it.
        ahead = days[word[0]] if word[0] in days else 7 - written.weekday()
        return written + timedelta(days=ahead), "day", True
    return None


def _weekday(match: re.Match[str], written: date) -> _Made:
    if not match["weekday"]:
        return None
    place = [name.lower() for name in WEEKDAYS].index(match["weekday"].lower())
    if match["which"].lower() == "last":
        return written - timedelta(days=(written.weekday() - place - 1) % 7 + 1), "day", True
    return written + timedelta(days=(place - written.weekday() - 1) % 7 + 1), "day", True


def _months_later(day: date, months: int) -> date:
    place = day.year * 12 + day.month - 1 + months
    year, month = divmod(place, 12)
    last = 31
    while last > 28:
        try:
            return date(year, month + 1, min(day.day, last))
        except ValueError:
            if not 1 <= year <= 9999:
                raise
            last -= 1
    return date(year, month + 1, min(day.day, last))


_READERS: Final[tuple[Callable[[re.Match[str], date], _Made], ...]] = (_written_out, _counted, _weekday)
