"""Days named in a text, as a date or relative to the day of writing. All in UTC.

Ambiguous dates (03/04/2026) are ignored.
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
    name[:length]: number for number, name in enumerate(_MONTHS, 1) for length in (3, len(name))
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
# Days in the past up to which a date without a year means the last one, and not the next.
_RECENT_DAYS: Final = 31


class NamedDay(msgspec.Struct, frozen=True, kw_only=True):
    """A day (or the first day of a month), with the character indices at which the text names it."""

    day: date
    grain: Grain
    start: int
    end: int
    # True if it is relative to the day of writing ("tomorrow").
    is_relative: bool = False


def find_days(text: str, at: int) -> list[NamedDay]:
    """Return the days that a text names, in order. `at`: the instant of writing, in milliseconds since 1970."""
    written_on = utc_day(at)
    days = (_read_day(match, written_on) for match in _NAMED.finditer(text))
    return [day for day in days if day is not None]


def _read_day(match: re.Match[str], written_on: date) -> NamedDay | None:
    """Return the day that a match names; None for a day that does not exist, such as 31 February."""
    for reader in _READERS:
        day, grain, is_relative = reader(match, written_on) or _NO_DAY
        if day is not None:
            return NamedDay(
                day=day, grain=grain, start=match.start(), end=match.end(), is_relative=is_relative
            )
    return None


# The day, its precision, and True if it is relative to the day of writing.
_DayReading = tuple[date | None, Grain, bool]
_NO_DAY: Final[_DayReading] = (None, "day", False)


def _read_full_date(match: re.Match[str], written_on: date) -> _DayReading | None:
    """Return the day of a written date; None for relative forms."""
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
                else (_resolve_year(number, day, written_on), "day", False)
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


def _resolve_year(month: int, day: int, written_on: date) -> date | None:
    """Return the next day with this month and day; or the last one, if that was at most a few weeks ago."""
    # 29 February exists in every fourth year, and sometimes only after eight.
    for year in range(written_on.year - 1, written_on.year + 8):
        candidate = existing_day(year, month, day)
        if candidate is not None and (written_on - candidate).days <= _RECENT_DAYS:
            return candidate
    return None


def _read_relative(match: re.Match[str], written_on: date) -> _DayReading | None:
    """Return the day of "in two weeks", "tomorrow" or "next month"; None for other forms."""
    if match["in_n"]:
        unit = match["in_unit"].lower().rstrip("s")
        if unit == "month":
            return months_after(written_on, int(match["in_n"])), "day", True
        return (
            days_after(written_on, int(match["in_n"]) * (7 if unit == "week" else 1)),
            "day",
            True,
        )
    if match["relative"]:
        word = match["relative"].lower().split()
        if word == ["next", "month"]:
            return months_after(written_on.replace(day=1), 1), "month", True
        days = {"today": 0, "tomorrow": 1, "yesterday": -1}
        # "Next week" names no day, so its Monday is used.
        ahead = days[word[0]] if word[0] in days else 7 - written_on.weekday()
        return days_after(written_on, ahead), "day", True
    return None


def _read_weekday(match: re.Match[str], written_on: date) -> _DayReading | None:
    """Return the next or last day with the named weekday; None for other forms."""
    if not match["weekday"]:
        return None
    weekday = [name.lower() for name in WEEKDAYS].index(match["weekday"].lower())
    if match["which"].lower() == "last":
        return days_after(written_on, -((written_on.weekday() - weekday - 1) % 7 + 1)), "day", True
    return days_after(written_on, (weekday - written_on.weekday() - 1) % 7 + 1), "day", True


_READERS: Final[tuple[Callable[[re.Match[str], date], _DayReading | None], ...]] = (
    _read_full_date,
    _read_relative,
    _read_weekday,
)
