"""When a question means: "last May", "three weeks ago", "am Montag", "le mois dernier", as spans of time with weights.

Pure: the question, when it is asked and in which time zone go in, spans come out. A memory's own time is compared with
them, and people tell of something on its day or soon after, so a span fades after its end. What only other memories
could date ("before the move") is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, tzinfo
from typing import Final

import msgspec

from memoranda.model.calendar import (
    days_after,
    end_of_month,
    existing_day,
    instant_of,
    local_day,
    months_after,
)
from memoranda.model.instant import DAY_MS
from memoranda.retrieval.languages import detect_language, fold

# People tell of something up to so many days afterwards.
_TAIL_DAYS: Final = 10
# A day or month without a year is looked for in the last so many years, and in this one.
_YEARS: Final = 20
_WEEK: Final = 7
_DAY_MINUTES: Final = 24 * 60


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A time that a question means, in milliseconds since 1970, and the weights of memories inside and after it."""

    start: int
    end: int
    inside: float
    # What is told at once afterwards weighs this, what is told at the end of the tail `later`.
    after: float
    later: float
    tail: int


def _numbered(*rows: str) -> dict[str, int]:
    return {word: number for row in rows for number, word in enumerate(row.split(), 1)}


_MONTHS: Final = {
    **_numbered(
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "januar februar marz april mai juni juli august september oktober november dezember",
        "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",
    ),
    "sept": 9,
    "janner": 1,
    "maerz": 3,
}
_WEEKDAYS: Final = {
    **_numbered(
        "monday tuesday wednesday thursday friday saturday sunday",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "lunes martes miercoles jueves viernes sabado domingo",
    ),
    "sonnabend": 6,
}
_SEASONS: Final = {
    **dict.fromkeys("spring fruhling fruhjahr printemps primavera".split(), 3),
    **dict.fromkeys("summer sommer ete verano".split(), 6),
    **dict.fromkeys("autumn fall herbst automne otono outono".split(), 9),
    **dict.fromkeys("winter hiver invierno inverno".split(), 12),
}
_UNITS: Final = {
    **dict.fromkeys("day days tag tage tagen jour jours dia dias".split(), "day"),
    **dict.fromkeys("week weeks woche wochen semaine semaines semana semanas".split(), "week"),
    **dict.fromkeys("month months monat monate monaten mois mes meses".split(), "month"),
    **dict.fromkeys("year years jahr jahre jahren an ans annee annees ano anos".split(), "year"),
}
_NUMBERS: Final = {
    **_numbered(
        "one two three four five six seven eight nine ten eleven twelve",
        "ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
        "un deux trois quatre cinq six sept huit neuf dix onze douze",
        "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "um dois tres quatro cinco seis sete oito nove dez onze doze",
    ),
    **dict.fromkeys("a an eine einem einer einen une una uma".split(), 1),
    **dict.fromkeys(("a couple of", "couple of", "duas"), 2),
    "quinze": 15,
    **dict.fromkeys(("a few", "few", "ein paar", "einigen", "quelques", "unos", "alguns"), 3),
}
# How many days before the present one; "hier" is here in German.
_DAYS: Final = {
    **dict.fromkeys(
        ("today", "tonight", "heute", "aujourd'hui", "aujourd’hui", "hoy", "hoje", "今天", "今日"),
        0,
    ),
    **dict.fromkeys(
        ("this morning", "this afternoon", "this evening", "ce matin", "ce soir", "今朝"), 0
    ),
    **dict.fromkeys(
        ("yesterday", "last night", "gestern", "hier", "ayer", "ontem", "昨天", "昨日", "昨晚"), 1
    ),
    **dict.fromkeys(
        ("the day before yesterday", "vorgestern", "avant-hier", "anteayer", "anteontem"), 2
    ),
    **dict.fromkeys(("前天", "一昨日"), 2),
}
_UNSPACED: Final = {
    "上周": "week",
    "上星期": "week",
    "先週": "week",
    "上个月": "month",
    "上月": "month",
    "先月": "month",
} | {
    "去年": "year",
    "昨年": "year",
}


def _any(words: Sequence[str] | dict[str, int] | dict[str, str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_LAST: Final = r"(?:last|past|previous|letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?)"
_THIS: Final = r"(?:this|diese[nrsm]?|cette|cet|ce|este|esta|neste|nesta)"
_PASSED: Final = r"(?:derniere?|passee?|pasad[oa]|passad[oa])"
_ORDINAL: Final = r"(?:st|nd|rd|th|er|\.)?"
_YEAR: Final = r"(?:,? (?:of |de |del )?((?:19|20)\d\d)(?!\d))?"
_MONTH: Final = _any(_MONTHS)
_UNIT: Final = _any(_UNITS)
_COUNT: Final = rf"(\d{{1,3}}|{_any(_NUMBERS)})"

_DAY_WORD: Final = re.compile(
    rf"(?<![\w-])({_any([word for word in _DAYS if word.isascii() or '’' in word])})(?!\w)"
)
_UNSPACED_WORD: Final = re.compile(
    f"{_any([word for word in _DAYS if not word.isascii()])}|{_any(_UNSPACED)}"
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
    rf"\b(?:({_LAST}|on|am|this|el|le) )?({_any(_WEEKDAYS)})(?: ({_LAST} (?:week|woche)|{_PASSED}))?\b"
)
_SEASON: Final = re.compile(
    rf"\b(?:({_LAST})|({_THIS})|in|im|en|au|l['’]|(?:of|during) (?:the )?) ?({_any(_SEASONS)})"
    rf"(?: ({_PASSED}))?{_YEAR}\b"
)
_ISO: Final = re.compile(r"(?<!\d)(\d{4})-(\d\d)(?:-(\d\d))?(?!\d)")
_DOTTED: Final = re.compile(r"(?<!\d)(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)(?!\d)")
_IDEOGRAPHIC: Final = re.compile(r"(\d{4})年(?:(\d{1,2})月)?(?:(\d{1,2})日)?")
_DAY_FIRST: Final = re.compile(rf"(?<!\d)(\d{{1,2}}){_ORDINAL} (?:of |de )?({_MONTH})\b\.?{_YEAR}")
_MONTH_FIRST: Final = re.compile(rf"\b({_MONTH})\.? (\d{{1,2}}){_ORDINAL}(?!\d){_YEAR}")
_MONTH_ALONE: Final = re.compile(rf"\b({_MONTH})\b\.?{_YEAR}")
_LAST_BEFORE: Final = re.compile(rf"\b(?:({_LAST})|({_THIS})) $")
_PASSED_AFTER: Final = re.compile(rf" {_PASSED}\b")
# "may" is mostly a verb, "march" too, and "mars" a planet: a month only behind one of these, or before a year.
_UNSURE: Final = ("may", "march", "mar", "mars", "sept", "mai")
_BEFORE_MONTH: Final = re.compile(
    r"\b(?:in|of|last|this|next|by|before|after|during|since|until|early|late|mid|im|seit|letzten|en|au|depuis)[ -]$"
)
# "Rio de Janeiro" is a place.
_BEFORE_PLACE: Final = re.compile(r"\brio de $")
_NAMED: Final = (_ISO, _DOTTED, _IDEOGRAPHIC, _DAY_FIRST, _MONTH_FIRST)
# What stands before a day or a month and says nothing without it.
_LEADING: Final = re.compile(
    r"\b(?:on|in|of|during|around|by|am|im|vom|en|le|el|em)(?: the| early| late| mid)?[ -]$"
)


def spans_in(question: str, now: int, zone: tzinfo | None = None) -> tuple[Span, ...]:
    """Return the times that a question means, asked at an instant in a time zone; None is the machine's own."""
    return _Reading(question, now, zone).read()


def timeless(question: str) -> str:
    """The question without the days and months that it names: when a memory is of is not what it means.

    As it is where nothing else would be left, or where signs would be lost.
    """
    text = fold(question)
    if len(text) != len(question):
        return question
    found = [match.span() for pattern in _NAMED for match in pattern.finditer(text)]
    found += [match.span() for match in _MONTH_ALONE.finditer(text) if _is_month(text, match)]
    kept, last = [], 0
    for start, end in sorted(found):
        before = _LEADING.search(text, last, start)
        kept.append(question[last : before.start() if before else start])
        last = max(last, end)
    rest = " ".join(" ".join((*kept, question[last:])).split())
    return rest if found and len(rest.split()) > 2 else question


def _is_month(text: str, match: re.Match[str]) -> bool:
    """Whether a word that may be another is a month."""
    if match[1] not in _UNSURE or match[2]:
        return not _BEFORE_PLACE.search(text, 0, match.start())
    return bool(
        _LAST_BEFORE.search(text, 0, match.start()) or _BEFORE_MONTH.search(text, 0, match.start())
    )


class _Reading:
    """One question: patterns are tried one after the other, and the text that one has read is blank for the next."""

    def __init__(self, question: str, now: int, zone: tzinfo | None) -> None:
        self._text = fold(question)
        self._zone, self._today = zone, local_day(now, zone)
        self._spans: list[Span] = []

    def read(self) -> tuple[Span, ...]:
        """Return the times, each once."""
        # "The last week of August 2023" is not counted from today.
        if not (self._read_days() or self._read_months()):
            self._read_relative()
        if not self._spans:
            self._read_seasons()
        return tuple(dict.fromkeys(self._spans))

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for match in pattern.finditer(self._text):
            start, end = match.span()
            self._text = self._text[:start] + " " * (end - start) + self._text[end:]
            yield match

    # --- named days, months and seasons ------------------------------------------------------------------

    def _read_days(self) -> bool:
        """Add the days, months and years that are written with numbers; True if there are any."""
        dates: list[tuple[int | None, int, int]] = [
            *((int(y), int(m), int(d or 0)) for y, m, d in _ISO.findall(self._text)),
            *((int(y), int(m), int(d)) for d, m, y in _DOTTED.findall(self._text)),
            *((int(y), int(m or 0), int(d or 0)) for y, m, d in _IDEOGRAPHIC.findall(self._text)),
        ]
        dates += [(_year(m[3]), _MONTHS[m[2]], int(m[1])) for m in self._matches(_DAY_FIRST)]
        dates += [(_year(m[3]), _MONTHS[m[1]], int(m[2])) for m in self._matches(_MONTH_FIRST)]
        for year, month, day in dict.fromkeys(dates):
            self._add_date(year, month, day)
        return bool(dates)

    def _add_date(self, year: int | None, month: int, day: int) -> None:
        """Add a day, a month (day 0) or a year (month 0); of each of the last years if that is None."""
        for number in self._recent_years() if year is None else (year,):
            first = existing_day(number, month or 1, day or 1)
            if first is None:
                continue
            if day:
                self._add_day(first)
            else:
                self._add_period(first, _end_of_period(first, months=1 if month else 12))

    def _recent_years(self) -> Sequence[int]:
        return range(self._today.year - _YEARS, self._today.year + 1)

    def _read_months(self) -> bool:
        """Add the months that are named without a day; True if there are any."""
        is_named = False
        for match in _MONTH_ALONE.finditer(self._text):
            before = _LAST_BEFORE.search(self._text, 0, match.start())
            is_last = (before and before[1]) or _PASSED_AFTER.match(self._text, match.end())
            if not _is_month(self._text, match):
                continue
            is_named = True
            month = _MONTHS[match[1]]
            if match[2] or not (before or is_last):
                self._add_date(_year(match[2]), month, 0)
            else:
                self._add_date(self._year_of(month, is_last=bool(is_last)), month, 0)
        return is_named

    def _year_of(self, month: int, *, is_last: bool) -> int:
        """Return the year of "last May" or "this May": "last" is the year before until this year's May is over."""
        is_over = month < self._today.month
        return self._today.year if is_over or not is_last else self._today.year - 1

    def _read_seasons(self) -> None:
        for match in self._matches(_SEASON):
            is_last, is_this, name, is_passed, year = match.groups()
            month = _SEASONS[name]
            if year:
                years: Sequence[int] = (int(year),)
            elif is_last or is_passed or is_this:
                is_over = _end_of_period(date(self._today.year, month, 1), months=3) < self._today
                has_begun = month <= self._today.month
                years = (
                    self._today.year
                    if (is_over if not is_this else has_begun)
                    else self._today.year - 1,
                )
            else:
                years = self._recent_years()
            for number in years:
                # A winter is named by the year it begins in, or by the one it ends in.
                starts = [existing_day(number, month, 1)]
                starts += [existing_day(number - 1, 12, 1)] if month == 12 and year else []
                for start in filter(None, starts):
                    self._add_period(start, _end_of_period(start, months=3))

    # --- by the asker's clock ----------------------------------------------------------------------------

    def _read_relative(self) -> None:
        is_german = detect_language(self._text.split(), self._text, minimum=1) == "de"
        for match in self._matches(_AGO):
            self._add_ago(*_counted(match))
        for match in self._matches(_ROLLING):
            self._add_period(self._before(_UNITS[match[2]], _number(match[1])), self._today)
        for match in self._matches(_WEEKDAY):
            self._add_weekday(match)
        for match in self._matches(_PERIOD):
            self._read_period(match)
        for match in self._matches(_DAY_WORD):
            if not (match[1] == "hier" and is_german):
                self._add_day(days_after(self._today, -_DAYS[match[1]]))
        for match in self._matches(_UNSPACED_WORD):
            if match[0] in _DAYS:
                self._add_day(days_after(self._today, -_DAYS[match[0]]))
            else:
                self._add_unit(_UNSPACED[match[0]], is_last=True)

    def _add_ago(self, count: int, unit: str) -> None:
        day = self._before(unit, count)
        # Days to both sides: nobody counts exactly how long ago something was.
        slack = {"day": count // _WEEK, "week": 3, "month": 12, "year": 60}[unit]
        if slack:
            self._add_period(days_after(day, -slack), days_after(day, slack))
        else:
            self._add_day(day)

    def _before(self, unit: str, count: int) -> date:
        if unit in ("day", "week"):
            return days_after(self._today, -count * (_WEEK if unit == "week" else 1))
        return months_after(self._today, -count * (12 if unit == "year" else 1))

    def _add_weekday(self, match: re.Match[str]) -> None:
        before, name, after = match.groups()
        days_back = (self._today.weekday() - (_WEEKDAYS[name] - 1)) % _WEEK
        if after and re.search("week|woche", after):
            to_monday = self._today.weekday() + _WEEK
            self._add_day(days_after(self._today, _WEEKDAYS[name] - 1 - to_monday))
        else:
            is_before_today = (before and re.fullmatch(_LAST, before)) or after
            self._add_day(
                days_after(self._today, -(days_back or (_WEEK if is_before_today else 0)))
            )

    def _read_period(self, match: re.Match[str]) -> None:
        is_last, _, unit, passed = match.groups()
        if unit in ("weekend", "wochenende"):
            days_back = (self._today.weekday() - 5) % _WEEK
            if is_last and self._today.weekday() >= 5:
                days_back += _WEEK
            self._add_period(
                days_after(self._today, -days_back), days_after(self._today, 1 - days_back)
            )
        else:
            self._add_unit(_UNITS[unit or passed], is_last=bool(is_last or passed))

    def _add_unit(self, unit: str, *, is_last: bool) -> None:
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
            self._add_period(start, _end_of_period(start, months=length))

    # --- spans -------------------------------------------------------------------------------------------

    def _add_day(self, day: date) -> None:
        self._add(day, day, inside=1.0, after=13 / 14, later=4 / 14)

    def _add_period(self, first: date, last: date) -> None:
        self._add(first, last, inside=0.7, after=0.35, later=0.35)

    def _add(self, first: date, last: date, *, inside: float, after: float, later: float) -> None:
        # The end is the midnight after the last day; 1440 minutes are it on days of 23 and 25 hours, too.
        start, end = instant_of(first, 0, self._zone), instant_of(last, _DAY_MINUTES, self._zone)
        tail = _TAIL_DAYS * DAY_MS
        self._spans.append(
            Span(start=start, end=end, inside=inside, after=after, later=later, tail=tail)
        )


def _end_of_period(first: date, *, months: int) -> date:
    """Return the last day of so many months that begin with a first of a month."""
    return end_of_month(months_after(first, months - 1))


def _year(digits: str | None) -> int | None:
    return int(digits) if digits else None


def _counted(match: re.Match[str]) -> tuple[int, str]:
    count, unit, foreign, foreign_unit, digits, character = match.groups()
    if digits:
        return int(digits), {
            "周": "week",
            "週間": "week",
            "月": "month",
            "か月": "month",
            "年": "year",
        }.get(character, "day")
    return _number(count or foreign), _UNITS[unit or foreign_unit]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text]
