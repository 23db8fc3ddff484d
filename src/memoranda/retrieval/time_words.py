"""When a question means: "last May", "three weeks ago", "am Montag", "le mois dernier", as spans of time with weights.

Pure: the question, when it is asked and in which time zone go in, spans come out. A memory's own time is compared with
them, and people tell of something on its day or soon after, so a span fades after its end. What only other memories
could date ("before the move") is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

import msgspec

from memoranda.retrieval.languages import fold, language_of

# People tell of something up to so many days afterwards.
_TAIL_DAYS: Final = 10
# A day or month without a year is looked for in the last so many years, and in this one.
_YEARS: Final = 20
_WEEK: Final = 7


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """From when to when, in milliseconds, and what lies inside it weighs."""

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
    **dict.fromkeys(("a couple of", "couple of", "duas", "quinze"), 2),
    **dict.fromkeys(("a few", "few", "ein paar", "einigen", "quelques", "unos", "alguns"), 3),
}
# How many days before the present one; "hier" is here in German.
_DAYS: Final = {
    **dict.fromkeys(("today", "tonight", "heute", "aujourd'hui", "aujourd’hui", "hoy", "hoje", "今天", "今日"), 0),
    **dict.fromkeys(("this morning", "this afternoon", "this evening", "ce matin", "ce soir", "今朝"), 0),
    **dict.fromkeys(("yesterday", "last night", "gestern", "hier", "ayer", "ontem", "昨天", "昨日", "昨晚"), 1),
    **dict.fromkeys(("the day before yesterday", "vorgestern", "avant-hier", "anteayer", "anteontem"), 2),
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

_DAY_WORD: Final = re.compile(rf"(?<![\w-])({_any([word for word in _DAYS if word.isascii() or '’' in word])})(?!\w)")
_UNSPACED_WORD: Final = re.compile(f"{_any([word for word in _DAYS if not word.isascii()])}|{_any(_UNSPACED)}")
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
_LEADING: Final = re.compile(r"\b(?:on|in|of|during|around|by|am|im|vom|en|le|el|em)(?: the| early| late| mid)?[ -]$")


def spans_in(question: str, now: datetime, zone: tzinfo | None = None) -> tuple[Span, ...]:
    """The times that a question means. `now` is when it is asked, `zone` where; None is the machine's own zone."""
    return _Reading(question, now.astimezone(zone), zone).read()


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
    return bool(_LAST_BEFORE.search(text, 0, match.start()) or _BEFORE_MONTH.search(text, 0, match.start()))


class _Reading:
    """One question: patterns are tried one after the other, and what one has read is blank for the next."""

    def __init__(self, question: str, now: datetime, zone: tzinfo | None) -> None:
        self._text = fold(question)
        self._zone, self._today = zone, now.date()
        self._spans: list[Span] = []

    def read(self) -> tuple[Span, ...]:
        # "The last week of August 2023" is not counted from today.
        if not (self._named_days() or self._months()):
            self._relative()
        if not self._spans:
            self._seasons()
        return tuple(dict.fromkeys(self._spans))

    def _found(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for match in pattern.finditer(self._text):
            start, end = match.span()
            self._text = self._text[:start] + " " * (end - start) + self._text[end:]
            yield match

    # --- named days, months and seasons ------------------------------------------------------------------

    def _named_days(self) -> bool:
        found = [(int(y), int(m), int(d or 0)) for y, m, d in _ISO.findall(self._text)]
        found += [(int(y), int(m), int(d)) for d, m, y in _DOTTED.findall(self._text)]
        found += [(int(y), int(m or 0), int(d or 0)) for y, m, d in _IDEOGRAPHIC.findall(self._text)]
        for match in self._found(_DAY_FIRST):
            found.append((int(match[3] or 0), _MONTHS[match[2]], int(match[1])))
        for match in self._found(_MONTH_FIRST):
            found.append((int(match[3] or 0), _MONTHS[match[1]], int(match[2])))
        for year, month, day in dict.fromkeys(found):
            self._name(year, month, day)
        return bool(found)

    def _name(self, year: int, month: int, day: int) -> None:
        """A day, a month or a year; of any year if that is 0."""
        for each in (year,) if year else range(self._today.year - _YEARS, self._today.year + 1):
            start = _date(each, month or 1, day or 1)
            if start is None:
                continue
            if day:
                self._day(start)
            elif month:
                self._whole(start, _months_after(start, 1))
            else:
                self._whole(start, _months_after(start, 12))

    def _months(self) -> bool:
        is_named = False
        for match in _MONTH_ALONE.finditer(self._text):
            before = _LAST_BEFORE.search(self._text, 0, match.start())
            is_last = (before and before[1]) or _PASSED_AFTER.match(self._text, match.end())
            if not _is_month(self._text, match):
                continue
            is_named = True
            month = _MONTHS[match[1]]
            if match[2] or not (before or is_last):
                self._name(int(match[2] or 0), month, 0)
            else:
                self._name(self._year_of(month, is_last=bool(is_last)), month, 0)
        return is_named

    def _year_of(self, month: int, *, is_last: bool) -> int:
        """Of "last May" the year before, until the May of this year is over."""
        is_over = month < self._today.month
        return self._today.year if is_over or not is_last else self._today.year - 1

    def _seasons(self) -> None:
        for match in self._found(_SEASON):
            is_last, is_this, name, is_passed, year = match.groups()
            first = _SEASONS[name]
            if year:
                years: Sequence[int] = (int(year),)
            elif is_last or is_passed or is_this:
                is_over = _months_after(date(self._today.year, first, 1), 3) <= self._today
                has_begun = first <= self._today.month
                years = (self._today.year if (is_over if not is_this else has_begun) else self._today.year - 1,)
            else:
                years = range(self._today.year - _YEARS, self._today.year + 1)
            for each in years:
                # A winter is named by the year it begins in, or by the one it ends in.
                starts = [date(each, first, 1)] + ([date(each - 1, 12, 1)] if first == 12 and year else [])
                for start in starts:
                    self._whole(start, _months_after(start, 3))

    # --- by the asker's clock ----------------------------------------------------------------------------

    def _relative(self) -> None:
        is_german = language_of(self._text.split(), self._text, least=1) == "de"
        for match in self._found(_AGO):
            self._ago(*_counted(match))
        for match in self._found(_ROLLING):
            start = self._before(_UNITS[match[2]], _number(match[1]))
            self._whole(start, self._today + timedelta(days=1))
        for match in self._found(_WEEKDAY):
            self._weekday(match)
        for match in self._found(_PERIOD):
            self._period(match)
        for match in self._found(_DAY_WORD):
            if not (match[1] == "hier" and is_german):
                self._day(self._today - timedelta(days=_DAYS[match[1]]))
        for match in self._found(_UNSPACED_WORD):
            if match[0] in _DAYS:
                self._day(self._today - timedelta(days=_DAYS[match[0]]))
            else:
                self._whole(*self._unit(_UNSPACED[match[0]], is_last=True))

    def _ago(self, count: int, unit: str) -> None:
        day = self._before(unit, count)
        # Nobody counts exactly what is long ago.
        slack = {"day": count // _WEEK, "week": 3, "month": 12, "year": 60}[unit]
        if slack:
            self._whole(day - timedelta(days=slack), day + timedelta(days=slack + 1))
        else:
            self._day(day)

    def _before(self, unit: str, count: int) -> date:
        if unit in ("day", "week"):
            return self._today - timedelta(days=count * (_WEEK if unit == "week" else 1))
        return _months_after(self._today, -count * (12 if unit == "year" else 1))

    def _weekday(self, match: re.Match[str]) -> None:
        before, name, after = match.groups()
        back = (self._today.weekday() - (_WEEKDAYS[name] - 1)) % _WEEK
        if after and re.search("week|woche", after):
            monday = self._today - timedelta(days=self._today.weekday() + _WEEK)
            self._day(monday + timedelta(days=_WEEKDAYS[name] - 1))
        else:
            is_before_today = (before and re.fullmatch(_LAST, before)) or after
            self._day(self._today - timedelta(days=back or (_WEEK if is_before_today else 0)))

    def _period(self, match: re.Match[str]) -> None:
        is_last, _, unit, passed = match.groups()
        if unit in ("weekend", "wochenende"):
            saturday = self._today - timedelta(days=(self._today.weekday() - 5) % _WEEK)
            if is_last and self._today.weekday() >= 5:
                saturday -= timedelta(days=_WEEK)
            self._whole(saturday, saturday + timedelta(days=2))
        else:
            self._whole(*self._unit(_UNITS[unit or passed], is_last=bool(is_last or passed)))

    def _unit(self, unit: str, *, is_last: bool) -> tuple[date, date]:
        today = self._today
        if unit == "day":
            start = today - timedelta(days=int(is_last))
            return start, start + timedelta(days=1)
        if unit == "week":
            start = today - timedelta(days=today.weekday() + _WEEK * is_last)
            return start, start + timedelta(days=_WEEK)
        length = 12 if unit == "year" else 1
        start = _months_after(today.replace(day=1, month=1 if unit == "year" else today.month), -length * is_last)
        return start, _months_after(start, length)

    # --- spans -------------------------------------------------------------------------------------------

    def _day(self, day: date) -> None:
        self._add(day, day + timedelta(days=1), inside=1.0, after=13 / 14, later=4 / 14)

    def _whole(self, start: date, end: date) -> None:
        self._add(start, end, inside=0.7, after=0.35, later=0.35)

    def _add(self, start: date, end: date, *, inside: float, after: float, later: float) -> None:
        tail = _TAIL_DAYS * 86_400_000
        first, last = self._midnight(start), self._midnight(end)
        self._spans.append(Span(start=first, end=last, inside=inside, after=after, later=later, tail=tail))

    def _midnight(self, day: date) -> int:
        # Without a zone a time is one of the machine's, by its rules of that day.
        return int(datetime(day.year, day.month, day.day, tzinfo=self._zone).timestamp() * 1000)


def _counted(match: re.Match[str]) -> tuple[int, str]:
    count, unit, foreign, foreign_unit, digits, character = match.groups()
    if digits:
        return int(digits), {"周": "week", "週間": "week", "月": "month", "か月": "month", "年": "year"}.get(
            character, "day"
        )
    return _number(count or foreign), _UNITS[unit or foreign_unit]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text]


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _months_after(day: date, months: int) -> date:
    """So many months later, or on the last day of that month; never before the first year or after the last."""
    number = min(max(12, day.year * 12 + day.month - 1 + months), 9998 * 12)
    year, month = divmod(number, 12)
    for each in (day.day, 30, 29, 28):
        if (found := _date(year, month + 1, each)) is not None:
            return found
    raise AssertionError
