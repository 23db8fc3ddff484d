"""Days named in a text: written out, or counted from the day the text was written. All in UTC.

A date that two readers would read differently (03/04/2026) is not read at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final, Literal

import msgspec

from memoranda.model.calendar import days_after, existing_day, months_after, utc_day

Grain = Literal["day", "month"]

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH_NUMBERS: Final = {
    name[:length]: place for place, name in enumerate(_MONTHS, 1) for length in (3, len(name))
} | {"sept": 9}
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
    # Counted from the day of writing ("tomorrow").
    is_relative: bool = False


def named_days(text: str, at: int) -> list[Named]:
    """Return the days that a text written at an instant names, in order."""
    written = utc_day(at)
    return [
        named for match in _NAMED.finditer(text) if (named := _read(match, written)) is not None
    ]


def _read(match: re.Match[str], written: date) -> Named | None:
    """Return the day that a match names; None for a day that does not exist, as 31 February."""
    for reader in _READERS:
        day, grain, is_relative = reader(match, written) or _NO_DAY
        if day is not None:
            return Named(
                day=day, grain=grain, start=match.start(), end=match.end(), is_relative=is_relative
            )
    return None


# The day, how exact it is, and whether it was counted from the day of writing.
_Reading = tuple[date | None, Grain, bool]
_NO_DAY: Final[_Reading] = (None, "day", False)


def _read_date(match: re.Match[str], written: date) -> _Reading | None:
    for form in ("iso", "dot", "cjk", "dmy", "mdy"):
        if match[f"{form}_d"]:
            month = match[f"{form}_m"].lower()
            number, day = _MONTH_NUMBERS.get(month) or int(month), int(match[f"{form}_d"])
            if match[f"{form}_y"]:
                return existing_day(int(match[f"{form}_y"]), number, day), "day", False
            # "Form 12 may be used" names no day.
            return (
                None
                if match[f"{form}_m"] in _VERBS_TOO
                else (_without_year(number, day, written), "day", False)
            )
    for form in ("my", "ym"):
        if match[f"{form}_y"]:
            month = match[f"{form}_m"].lower()
            return (
                existing_day(int(match[f"{form}_y"]), _MONTH_NUMBERS.get(month) or int(month), 1),
                "month",
                False,
            )
    return None


def _without_year(month: int, day: int, written: date) -> date | None:
    """Return the next such day, or the last one if it was a few weeks ago: people speak of both."""
    # 29 February comes every fourth year, and once in eight.
    for year in range(written.year - 1, written.year + 8):
        named = existing_day(year, month, day)
        if named is not None and (written - named).days <= _RECENT_DAYS:
            return named
    return None


def _read_count(match: re.Match[str], written: date) -> _Reading | None:
    if match["in_n"]:
        unit = match["in_unit"].lower().rstrip("s")
        if unit == "month":
            return months_after(written, int(match["in_n"])), "day", True
        return days_after(written, int(match["in_n"]) * (7 if unit == "week" else 1)), "day", True
    if match["relative"]:
        word = match["relative"].lower().split()
        if word == ["next", "month"]:
            return months_after(written.replace(day=1), 1), "month", True
        days = {"today": 0, "tomorrow": 1, "yesterday": -1}
        # "Next week" is a week, not a day: its Monday stands for it.
        ahead = days[word[0]] if word[0] in days else 7 - written.weekday()
        return days_after(written, ahead), "day", True
    return None


def _read_weekday(match: re.Match[str], written: date) -> _Reading | None:
    if not match["weekday"]:
        return None
    weekday = [name.lower() for name in WEEKDAYS].index(match["weekday"].lower())
    if match["which"].lower() == "last":
        return days_after(written, -((written.weekday() - weekday - 1) % 7 + 1)), "day", True
    return days_after(written, (weekday - written.weekday() - 1) % 7 + 1), "day", True


_READERS: Final[tuple[Callable[[re.Match[str], date], _Reading | None], ...]] = (
    _read_date,
    _read_count,
    _read_weekday,
)
