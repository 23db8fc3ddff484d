"""Written dates in all languages, and the days that a note names, as a date or relative to the day of writing.

`find_dates` reads 2026-05-08, 8.5.2026, 2026年5月8日, "8 May 2026", "May 8th", "8 de mayo de 2026" and "May 2026" in
folded text. Ambiguous dates (03/04/2026) are ignored. `find_days` resolves them for notes, and adds English relative
forms such as "tomorrow" and "next Friday". All days are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec

from memoranda.model.calendar import (
    days_after,
    existing_day,
    months_after,
    next_weekday,
    previous_weekday,
    units_after,
    utc_day,
)
from memoranda.retrieval.languages import fold
from memoranda.time_words.vocabulary import (
    ENGLISH_MONTHS,
    ENGLISH_WEEKDAY,
    MONTHS,
    UNITS,
    alternation,
    parse_weekday,
)

MONTH: Final = alternation(MONTHS)
_ORDINAL: Final = r"(?:st|nd|rd|th|er|\.)?"
# Years of dates with words; other numbers of four digits after a month are mostly quantities.
YEAR: Final = r"(?:1\d|2[01])\d\d"
# Not before a digit, nor before the rest of a date that begins with the year.
_SPACED_YEAR: Final = r",?\s(?:of |de |del )?(?P<{}>" + YEAR + r")(?!\d|-\d|年)"
_DATE: Final = re.compile(
    r"(?<!\d)(?P<iso_y>\d{4})(?:-(?P<iso_m>\d\d)(?:-(?P<iso_d>\d\d))?|/(?P<iso_m2>\d\d)/(?P<iso_d2>\d\d))(?!\d)"
    r"(?:t\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:z|[+-]\d\d:\d\d)?)?"
    r"|(?<!\d)(?P<dot_d>\d{1,2})\.\s?(?P<dot_m>\d{1,2})\.\s?(?P<dot_y>\d{4})(?!\d)"
    r"|(?P<cjk_y>\d{4})年(?:(?P<cjk_m>\d{1,2})月)?(?:(?P<cjk_d>\d{1,2})日)?"
    r"|(?<!\d)(?P<dm_d>\d{1,2})" + _ORDINAL + r"\s(?:of\s|de\s)?(?P<dm_m>" + MONTH + r")\b\.?"
    r"(?:" + _SPACED_YEAR.format("dm_y") + r")?"
    r"|\b(?P<md_m>" + MONTH + r")\b\.?\s(?P<md_d>\d{1,2})(?:st|nd|rd|th)?(?!\.?\d)"
    r"(?:" + _SPACED_YEAR.format("md_y") + r")?"
    # "Rio de Janeiro" is a place.
    r"|\b(?<!rio de )(?P<my_m>" + MONTH + r")\b\.?" + _SPACED_YEAR.format("my_y")
)  # fmt: skip
_DIGIT: Final = re.compile(r"\d")
_FORMS: Final = ("iso", "dot", "cjk", "dm", "md", "my")


class WrittenDate(NamedTuple):
    """A date as a text gives it, with the character indices of its name. `year` is None if the text gives none.

    The date may not exist, as 31 February. `day` is 0 for a month, and `month` for a year.
    """

    year: int | None
    month: int
    day: int
    start: int
    end: int
    # The words of the month, folded; empty if it is a number.
    month_word: str = ""


def find_dates(folded: str) -> Iterator[WrittenDate]:
    """Yield the dates that are written in a folded text, in order."""
    if not _DIGIT.search(folded):
        return
    for match in _DATE.finditer(folded):
        groups = match.groupdict()
        form = next(form for form in _FORMS if groups.get(f"{form}_y") or groups.get(f"{form}_m"))
        year = groups[f"{form}_y"]
        month = groups[f"{form}_m"] or groups.get(f"{form}_m2") or "0"
        day = groups.get(f"{form}_d") or groups.get(f"{form}_d2") or "0"
        word = "" if month.isdecimal() else month
        yield WrittenDate(
            int(year) if year else None,
            MONTHS[word] if word else int(month),
            int(day),
            match.start(),
            match.end(),
            word,
        )


# --- the days of a note -------------------------------------------------------------------------------

Grain = Literal["day", "month"]

_RELATIVE: Final = re.compile(
    r"(?<![\w.])(?:in\s(?P<n>\d{1,3})\s(?P<unit>days?|weeks?|months?)"
    r"|(?P<word>today|tomorrow|yesterday|next\sweek|next\smonth)"
    r"|(?P<which>next|on|this|by|until|last)\s(?P<weekday>" + ENGLISH_WEEKDAY + r"))(?![\w-])",
    re.IGNORECASE,
)
_DAY_OFFSETS: Final = {"today": 0, "tomorrow": 1, "yesterday": -1}
# "Form 12 may be used" names no day.
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
    days = [*_find_written_days(text, written_on), *_find_relative_days(text, written_on)]
    return sorted(days, key=lambda day: day.start)


def _find_written_days(text: str, written_on: date) -> Iterator[NamedDay]:
    """Yield the days and months of written dates; dates that do not exist, and parts of longer words, are skipped."""
    for written_date in find_dates(_fold_characters(text)):
        is_part = _is_word(text[written_date.start - 1 : written_date.start], ".") or _is_word(
            text[written_date.end : written_date.end + 1], "-"
        )
        # Only English puts the day after the month.
        is_foreign = written_date.month_word not in ("", *ENGLISH_MONTHS)
        is_month_first = not text[written_date.start].isdecimal()
        if (
            is_part
            or not written_date.month
            or (is_foreign and is_month_first and written_date.day)
        ):
            continue
        if written_date.year is not None:
            day = existing_day(written_date.year, written_date.month, written_date.day or 1)
        elif _is_verb(text, written_date):
            continue
        else:
            day = _resolve_year(written_date.month, written_date.day, written_on)
        if day is not None:
            grain: Grain = "day" if written_date.day else "month"
            yield NamedDay(day=day, grain=grain, start=written_date.start, end=written_date.end)


def _is_word(character: str, other: str) -> bool:
    """Return True for a character of a word, and for `other`; false at the ends of a text."""
    return character.isalnum() or character in ("_", other)


def _is_verb(text: str, written_date: WrittenDate) -> bool:
    """Return True if a month without a year is a word in lower case that is mostly a verb."""
    return (
        written_date.month_word in _VERBS_TOO
        and written_date.month_word in text[written_date.start : written_date.end]
    )


def _resolve_year(month: int, day: int, written_on: date) -> date | None:
    """Return the next day with this month and day; or the last one, if that was at most a few weeks ago."""
    # 29 February exists in every fourth year, and sometimes only after eight.
    for year in range(written_on.year - 1, written_on.year + 8):
        candidate = existing_day(year, month, day)
        if candidate is not None and (written_on - candidate).days <= _RECENT_DAYS:
            return candidate
    return None


def _find_relative_days(text: str, written_on: date) -> Iterator[NamedDay]:
    """Yield the days of "in 3 weeks", "tomorrow", "next month" and "next Friday"."""
    for match in _RELATIVE.finditer(text):
        grain: Grain = "day"
        if match["n"]:
            day = units_after(written_on, int(match["n"]), UNITS[match["unit"].lower()])
        elif match["weekday"]:
            weekday = parse_weekday(match["weekday"])
            is_last = match["which"].lower() == "last"
            day = (previous_weekday if is_last else next_weekday)(written_on, weekday)
        else:
            word = " ".join(match["word"].lower().split())
            if word == "next month":
                day, grain = months_after(written_on.replace(day=1), 1), "month"
            elif word == "next week":
                # It names no day, so its Monday is used.
                day = days_after(written_on, 7 - written_on.weekday())
            else:
                day = days_after(written_on, _DAY_OFFSETS[word])
        yield NamedDay(day=day, grain=grain, start=match.start(), end=match.end(), is_relative=True)


def _fold_characters(text: str) -> str:
    """Return a text folded character by character, so that its length stays."""
    return text.lower() if text.isascii() else "".join(map(_fold_character, text))


@lru_cache(maxsize=1024)
def _fold_character(character: str) -> str:
    folded = fold(character)
    return folded if len(folded) == 1 else character
