"""Past times that a question means, as spans with weights: "last May", "vor drei Wochen", "le mois dernier".

The time of a memory is compared with the spans. People report an event on its day or soon after, so the weight of a
span fades after its end. Other times are ignored here.

A question may also name a time by an event: "before the move", "since I joined the climbing club". The day of the event
is known only if a memory tells of it, so `find_event` returns the phrase, and the search looks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, tzinfo
from typing import Final, Literal, NamedTuple

from memoranda.model.calendar import (
    CalendarUnit,
    days_after,
    end_of_period,
    existing_day,
    instant_of,
    local_day,
    months_after,
    previous_weekday,
    units_after,
)
from memoranda.model.instant import DAY_MS
from memoranda.retrieval.languages import detect_language, fold
from memoranda.retrieval.weights import TimeSpan
from memoranda.time_words.dates import MONTH, YEAR, find_dates
from memoranda.time_words.vocabulary import (
    HOLIDAYS,
    LAST_PERIODS,
    MONTHS,
    NUMBERS,
    PAST_DAYS,
    SEASONS,
    UNITS,
    UNSPACED_UNITS,
    WEEKDAYS,
    alternation,
    parse_count,
)

_BEFORE: Final = (
    r"before|prior to|until|bevor|avant (?:que|la|le|les|mon|ma|notre)|avant l['’]"
    r"|antes de(?:l| la| mi| que)?"
)
_AFTER: Final = (
    r"(?<!look )(?<!looks )(?<!looked )(?<!looking )(?<!named )after|(?:ever )?since|following|nachdem|seitdem"
    r"|apres (?:que|la|le|les|mon|ma|notre)|apres l['’]|depuis(?: que)?|despues de(?:l| la| mi| que)?|desde(?: que)?"
)
# The phrase ends with a comma, a mark, or the word that begins the question proper.
_EVENT: Final = re.compile(
    rf"(?<!\w)(?:(?P<before>{_BEFORE})|(?:{_AFTER}))(?!\w)\s*"
    r"(?P<phrase>[^,.;:!?]{3,80}?)\s*"
    r"(?=[,.;:!?]|$|\b(?:what|which|who|whom|where|how|did|was|wer|wen|wo|wie)\b)"
)
# In German the verb follows the event, so the event is one noun.
_GERMAN_EVENT: Final = re.compile(
    r"(?<!\w)(?:(?P<before>vor)|nach|seit) (?:de[mr]|meine[mr]|unsere[mr]) (?P<phrase>\w{3,40})"
)


class EventReference(NamedTuple):
    """A time before or after an event."""

    relation: Literal["before", "after"]
    # The words that name the event.
    phrase: str
    # The question without the reference.
    remaining_text: str


def find_event(question: str) -> EventReference | None:
    """Return the first time of a question that is named by an event; None if there is none."""
    text = fold(question)
    if len(text) != len(question):
        return None
    match = _GERMAN_EVENT.search(text) or _EVENT.search(text)
    if match is None:
        return None
    remaining = f"{question[: match.start()]} {question[match.end() :]}"
    return EventReference(
        "before" if match["before"] else "after",
        question[match.start("phrase") : match.end("phrase")],
        " ".join(remaining.replace(" ,", " ").split()),
    )


# Days after the end of a span in which people still report it.
_TAIL_DAYS: Final = 10
# Past years searched for a day or month without a year, besides the current one.
_YEARS: Final = 20
_WEEK: Final = 7
_DAY_MINUTES: Final = 24 * 60

_LAST: Final = r"(?:last|past|previous|letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?)"
_THIS: Final = r"(?:this|diese[nrsm]?|cette|cet|ce|este|esta|neste|nesta)"
_PASSED: Final = r"(?:derniere?|passee?|pasad[oa]|passad[oa])"
_OPTIONAL_YEAR: Final = rf"(?:,? (?:of |de |del )?({YEAR})(?!\d))?"
_UNIT: Final = alternation(UNITS)
_COUNT: Final = rf"(\d{{1,3}}|{alternation(NUMBERS)})"

_APOSTROPHE: Final = re.compile("['’]")
_HOLIDAY_NAME: Final = re.sub(r"(year|valentine)s", r"\1['’]?s", alternation(HOLIDAYS))
_HOLIDAY: Final = re.compile(rf"\b({_HOLIDAY_NAME})\b(?:,? (?:of |de )?({YEAR})(?!\d))?")
_DAY_WORD: Final = re.compile(
    rf"(?<![\w-])({alternation([word for word in PAST_DAYS if word.isascii() or '’' in word])})(?!\w)"
)
_UNSPACED_WORD: Final = re.compile(
    f"{alternation([word for word in PAST_DAYS if not word.isascii()])}|{alternation(LAST_PERIODS)}"
)
_AGO: Final = re.compile(
    rf"\b{_COUNT} ({_UNIT}) ago\b|\b(?:vor|il y a|hace|ha) {_COUNT} ({_UNIT})\b"
    r"|(\d{1,3})(?:个)?(天|周|月|年|日|週間|か月)前"
)
_ROLLING: Final = re.compile(rf"\b{_LAST} {_COUNT} ({_UNIT})\b")
_PERIOD: Final = re.compile(
    rf"\b(?:({_LAST})|({_THIS})) (weekend|wochenende|{_UNIT})\b|\b(?:la |le |el |l['’]|a |o )?({_UNIT}) {_PASSED}\b"
)
_WEEKDAY: Final = re.compile(
    rf"\b(?:({_LAST}|on|am|this|el|le) )?({alternation(WEEKDAYS)})(?: ({_LAST} (?:week|woche)|{_PASSED}))?\b"
)
_SEASON: Final = re.compile(
    rf"\b(?:({_LAST})|({_THIS})|in|im|en|au|l['’]|(?:of|during) (?:the )?) ?({alternation(SEASONS)})"
    rf"(?: ({_PASSED}))?{_OPTIONAL_YEAR}\b"
)
_MONTH_ALONE: Final = re.compile(rf"\b({MONTH})\b\.?")
_LAST_BEFORE: Final = re.compile(rf"\b(?:({_LAST})|({_THIS})) $")
_PASSED_AFTER: Final = re.compile(rf" {_PASSED}\b")
# Words that are months only after a preposition: "may" and "march" are mostly verbs, and "mars" is a planet.
_UNSURE: Final = ("may", "march", "mar", "mars", "sept", "mai")
_BEFORE_MONTH: Final = re.compile(
    r"\b(?:in|of|last|this|next|by|before|after|during|since|until|early|late|mid|im|seit|letzten|en|au|depuis)[ -]$"
)
# "Rio de Janeiro" is a place.
_BEFORE_PLACE: Final = re.compile(r"\brio de $")


class QuestionTimes(NamedTuple):
    """The past times that a question means, and the question without the words that name them."""

    spans: tuple[TimeSpan, ...]
    remaining_text: str


def read_times(question: str, now: int, zone: tzinfo | None = None) -> QuestionTimes:
    """Return the past times of a question, asked at an instant in a time zone, and its other words.

    Without a zone, the machine's own is used. The words are folded if folding adds letters.
    """
    reader = _QuestionReader(question, now, zone)
    spans = reader.find_spans()
    return QuestionTimes(spans, reader.remaining_text(question) if spans else question)


def _is_month(text: str, match: re.Match[str]) -> bool:
    """Return True if the name of a month, which may be another word, means the month."""
    if match[1] not in _UNSURE:
        return not _BEFORE_PLACE.search(text, 0, match.start())
    return bool(
        _LAST_BEFORE.search(text, 0, match.start()) or _BEFORE_MONTH.search(text, 0, match.start())
    )


class _QuestionReader:
    """Reader of one question. It tries one pattern after another, and blanks the text that a pattern has matched."""

    def __init__(self, question: str, now: int, zone: tzinfo | None) -> None:
        self._text = fold(question)
        self._zone, self._today = zone, local_day(now, zone)
        self._spans: list[TimeSpan] = []

    def remaining_text(self, question: str) -> str:
        """Return the question without the text that the patterns have matched."""
        if len(self._text) != len(question):
            return self._text
        pairs = zip(question, self._text, strict=True)
        return "".join(" " if blanked == " " else letter for letter, blanked in pairs)

    def find_spans(self) -> tuple[TimeSpan, ...]:
        """Return the spans, each once."""
        self._add_holidays()
        # "The last week of August 2023" is not relative to today.
        if not self._add_dates() and not self._spans:
            self._add_relative_times()
        if not self._spans:
            self._add_seasons()
        return tuple(dict.fromkeys(self._spans))

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield the matches of a pattern, and blank them."""
        for match in pattern.finditer(self._text):
            self._blank(*match.span())
            yield match

    def _blank(self, start: int, end: int) -> None:
        self._text = self._text[:start] + " " * (end - start) + self._text[end:]

    # --- dates, months and seasons -----------------------------------------------------------------------

    def _add_holidays(self) -> None:
        """Add the holidays with a fixed date, of the named year or of each of the last years."""
        for match in self._matches(_HOLIDAY):
            month, day = HOLIDAYS[_APOSTROPHE.sub("", match[1])]
            self._add_date(int(match[2]) if match[2] else None, month, day)

    def _add_dates(self) -> bool:
        """Add the written dates, or without any the named months; return True if there are any."""
        dates = list(find_dates(self._text))
        # "May 2023" counts with the months; "2023-05" counts with the days.
        days = [
            written_date
            for written_date in dates
            if written_date.day or not written_date.month_word
        ]
        for written_date in days or dates:
            self._blank(written_date.start, written_date.end)
        for year, month, day in dict.fromkeys(written_date[:3] for written_date in days or dates):
            self._add_date(year, month, day)
        return bool(days) or self._add_months() or bool(dates)

    def _add_date(self, year: int | None, month: int, day: int) -> None:
        """Add a day, a month (day 0) or a year (month 0); of each of the last years if the year is None."""
        for number in self._recent_years() if year is None else (year,):
            first = existing_day(number, month or 1, day or 1)
            if first is None:
                continue
            if day:
                self._add_day(first)
            else:
                self._add_period(first, end_of_period(first, 1 if month else 12))

    def _recent_years(self) -> Sequence[int]:
        return range(self._today.year - _YEARS, self._today.year + 1)

    def _add_months(self) -> bool:
        """Add the months without a day and a year; return True if there are any."""
        has_months = False
        for match in _MONTH_ALONE.finditer(self._text):
            if not _is_month(self._text, match):
                continue
            has_months = True
            self._blank(*match.span())
            before = _LAST_BEFORE.search(self._text, 0, match.start())
            is_last = bool(before and before[1]) or bool(
                _PASSED_AFTER.match(self._text, match.end())
            )
            month = MONTHS[match[1]]
            year = self._year_of(month, is_last=is_last) if before or is_last else None
            if before:
                self._blank(*before.span())
            self._add_date(year, month, 0)
        return has_months

    def _year_of(self, month: int, *, is_last: bool) -> int:
        """Return the year of "last May" or "this May": "last" is the year before until this year's May is over."""
        is_over = month < self._today.month
        return self._today.year if is_over or not is_last else self._today.year - 1

    def _add_seasons(self) -> None:
        for match in self._matches(_SEASON):
            is_last, is_this, name, is_passed, year = match.groups()
            month = SEASONS[name]
            if year:
                years: Sequence[int] = (int(year),)
            elif is_last or is_passed or is_this:
                is_over = end_of_period(date(self._today.year, month, 1), 3) < self._today
                has_begun = month <= self._today.month
                is_of_this_year = has_begun if is_this else is_over
                years = (self._today.year if is_of_this_year else self._today.year - 1,)
            else:
                years = self._recent_years()
            for number in years:
                # A winter is named by the year it begins in, or by the one it ends in.
                starts = [existing_day(number, month, 1)]
                starts += [existing_day(number - 1, 12, 1)] if month == 12 and year else []
                for start in filter(None, starts):
                    self._add_period(start, end_of_period(start, 3))

    # --- times relative to the question ------------------------------------------------------------------

    def _add_relative_times(self) -> None:
        is_german = detect_language(self._text.split(), self._text, minimum=1) == "de"
        for match in self._matches(_AGO):
            self._add_ago(*_parse_ago(match))
        for match in self._matches(_ROLLING):
            first = units_after(self._today, -parse_count(match[1]), UNITS[match[2]])
            self._add_period(first, self._today)
        for match in self._matches(_WEEKDAY):
            self._add_weekday(match)
        for match in self._matches(_PERIOD):
            self._add_named_period(match)
        for match in self._matches(_DAY_WORD):
            if not (match[1] == "hier" and is_german):
                self._add_day(days_after(self._today, -PAST_DAYS[match[1]]), is_relative=True)
        for match in self._matches(_UNSPACED_WORD):
            if match[0] in PAST_DAYS:
                self._add_day(days_after(self._today, -PAST_DAYS[match[0]]), is_relative=True)
            else:
                self._add_unit(LAST_PERIODS[match[0]], is_last=True)

    def _add_ago(self, count: int, unit: CalendarUnit) -> None:
        """Add the day or period of "three weeks ago"."""
        day = units_after(self._today, -count, unit)
        # Days on both sides, because people do not count exactly how long ago an event was.
        slack = {"day": count // _WEEK, "week": 3, "month": 12, "year": 60}[unit]
        if slack:
            self._add_period(days_after(day, -slack), days_after(day, slack))
        else:
            self._add_day(day)

    def _add_weekday(self, match: re.Match[str]) -> None:
        """Add the last such day of the week; today only if it is not "last"."""
        before, name, after = match.groups()
        weekday = WEEKDAYS[name] - 1
        if after and re.search("week|woche", after):
            to_monday = self._today.weekday() + _WEEK
            self._add_day(days_after(self._today, weekday - to_monday))
            return
        is_before_today = (before and re.fullmatch(_LAST, before)) or after
        if weekday == self._today.weekday() and not is_before_today:
            self._add_day(self._today)
        else:
            self._add_day(previous_weekday(self._today, weekday))

    def _add_named_period(self, match: re.Match[str]) -> None:
        """Add the period of "last week", "this month" or "last weekend"."""
        is_last, _, unit, passed_unit = match.groups()
        if unit in ("weekend", "wochenende"):
            days_back = (self._today.weekday() - 5) % _WEEK
            if is_last and self._today.weekday() >= 5:
                days_back += _WEEK
            self._add_period(
                days_after(self._today, -days_back), days_after(self._today, 1 - days_back)
            )
        else:
            self._add_unit(UNITS[unit or passed_unit], is_last=bool(is_last or passed_unit))

    def _add_unit(self, unit: CalendarUnit, *, is_last: bool) -> None:
        """Add this day, week, month or year, or the last one."""
        today = self._today
        if unit == "day":
            start = days_after(today, -int(is_last))
            self._add_period(start, start)
        elif unit == "week":
            to_monday = today.weekday() + _WEEK * is_last
            self._add_period(
                days_after(today, -to_monday), days_after(today, _WEEK - 1 - to_monday)
            )
        else:
            length = 12 if unit == "year" else 1
            start = months_after(
                today.replace(day=1, month=1 if unit == "year" else today.month), -length * is_last
            )
            self._add_period(start, end_of_period(start, length))

    # --- spans -------------------------------------------------------------------------------------------

    def _add_day(self, day: date, *, is_relative: bool = False) -> None:
        """Add a day. "Yesterday" means that day only; of a date, people report some days later."""
        if is_relative:
            self._add(day, day, inside=1.0, after=0.0, later_weight=0.0)
        else:
            self._add(day, day, inside=1.0, after=13 / 14, later_weight=4 / 14)

    def _add_period(self, first: date, last: date) -> None:
        self._add(first, last, inside=0.7, after=0.35, later_weight=0.35)

    def _add(
        self, first: date, last: date, *, inside: float, after: float, later_weight: float
    ) -> None:
        # The end is the midnight after the last day: minute 1440, also on days of 23 and 25 hours.
        start, end = instant_of(first, 0, self._zone), instant_of(last, _DAY_MINUTES, self._zone)
        tail = _TAIL_DAYS * DAY_MS
        self._spans.append(
            TimeSpan(
                start=start, end=end, inside=inside, after=after, later=later_weight, tail=tail
            )
        )


def _parse_ago(match: re.Match[str]) -> tuple[int, CalendarUnit]:
    """Return the number and the unit of "three weeks ago", "vor drei Wochen" or "3天前"."""
    count, unit, foreign_count, foreign_unit, digits, character = match.groups()
    if digits:
        return int(digits), UNSPACED_UNITS.get(character, "day")
    return parse_count(count or foreign_count), UNITS[unit or foreign_unit]
