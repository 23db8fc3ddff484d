"""The words of all time expressions, folded: in lower case and without accents.

`ENGLISH_…` are fragments for patterns of English forms. `alternation` makes a fragment of all words of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from memoranda.model.calendar import CalendarUnit
from memoranda.retrieval.languages import fold


def _number_words(*rows: str) -> dict[str, int]:
    """Return the words of each row with their numbers, from 1."""
    return {word: number for row in rows for number, word in enumerate(row.split(), 1)}


ENGLISH_MONTHS: Final = {
    **_number_words(
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
    ),
    "sept": 9,
}
MONTHS: Final = {
    **ENGLISH_MONTHS,
    **_number_words(
        "januar februar marz april mai juni juli august september oktober november dezember",
        "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",
    ),
    "janner": 1,
    "maerz": 3,
}
# 1 is Monday.
WEEKDAYS: Final = {
    **_number_words(
        "monday tuesday wednesday thursday friday saturday sunday",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "lunes martes miercoles jueves viernes sabado domingo",
    ),
    "sonnabend": 6,
}
# The first month of each season.
SEASONS: Final = {
    **dict.fromkeys("spring fruhling fruhjahr printemps primavera".split(), 3),
    **dict.fromkeys("summer sommer ete verano".split(), 6),
    **dict.fromkeys("autumn fall herbst automne otono outono".split(), 9),
    **dict.fromkeys("winter hiver invierno inverno".split(), 12),
}
# The areas of the tz database, the first part of names such as "Europe/Paris".
ZONE_AREA: Final = (
    r"(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Brazil|Canada|Chile|Etc|Europe|Indian|Mexico"
    r"|Pacific|US)"
)
UNITS: Final[dict[str, CalendarUnit]] = {
    **dict.fromkeys("day days tag tage tagen jour jours dia dias".split(), "day"),
    **dict.fromkeys("week weeks woche wochen semaine semaines semana semanas".split(), "week"),
    **dict.fromkeys("month months monat monate monaten mois mes meses".split(), "month"),
    **dict.fromkeys("year years jahr jahre jahren an ans annee annees ano anos".split(), "year"),
}
NUMBERS: Final = {
    **_number_words(
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
# Days before the present one. "hier" is French here; in German it means "here".
PAST_DAYS: Final = {
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
# Holidays with a fixed date, as (month, day). The apostrophe is removed before they are looked up.
HOLIDAYS: Final = {
    **dict.fromkeys(("new years day", "neujahr", "neujahrstag", "nouvel an", "ano nuevo"), (1, 1)),
    **dict.fromkeys(("valentines day", "valentinstag", "saint valentin", "san valentin"), (2, 14)),
    **dict.fromkeys(("halloween",), (10, 31)),
    **dict.fromkeys(("christmas eve", "heiligabend", "nochebuena"), (12, 24)),
    **dict.fromkeys(
        ("christmas", "christmas day", "xmas", "weihnachten", "noel", "navidad", "natal"), (12, 25)
    ),
    **dict.fromkeys(("boxing day",), (12, 26)),
    **dict.fromkeys(("new years eve", "silvester", "nochevieja"), (12, 31)),
}
# Words that say nothing of what happened: "What did I do yesterday?" asks for everything of that day.
EVENT_WORDS: Final = frozenset(
    """
    do did done doing happen happened happens going gone go events event things thing anything everything something
    list tell show remember recall note notes memory memories entries entry log diary day days week weekend month far
    passiert passierte geschah geschehen gemacht machte los war getan tat erlebt alles etwas
    fait faits passe arrive rien tout
    hice hizo hicimos hecho paso pasado sucedio ocurrio todo
    fiz fizemos feito aconteceu
    """.split()
)
# Expressions for the last week, month or year in scripts that do not put spaces between words.
LAST_PERIODS: Final[dict[str, CalendarUnit]] = {
    "上周": "week",
    "上星期": "week",
    "先週": "week",
    "上个月": "month",
    "上月": "month",
    "先月": "month",
    "去年": "year",
    "昨年": "year",
}
# Units after a number in these scripts, as in "3天前"; all other characters mean days.
UNSPACED_UNITS: Final[dict[str, CalendarUnit]] = {
    "周": "week",
    "週間": "week",
    "月": "month",
    "か月": "month",
    "年": "year",
}
# Minute of the day at which each part of it begins.
PARTS_OF_DAY: Final = {
    "morning": 9 * 60,
    "lunchtime": 12 * 60,
    "lunch": 12 * 60,
    "noon": 12 * 60,
    "midday": 12 * 60,
    "afternoon": 14 * 60,
    "evening": 18 * 60,
    "night": 20 * 60,
    "midnight": 24 * 60,
}

WEEKDAY_NAMES: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
)
ENGLISH_WEEKDAY: Final = "(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
ENGLISH_SHORT_WEEKDAY: Final = "(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)"
ENGLISH_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
ENGLISH_COUNT: Final = (
    r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|a couple of|a few)"
)


# Words of which at least one occurs in every expression of a past time without digits.
_HINTS: Final = frozenset(
    word
    for expression in (
        *(*MONTHS, *WEEKDAYS, *UNITS, *HOLIDAYS, *PAST_DAYS, "weekend", "wochenende"),
        # Times that are named by an event: "before the move".
        *("before", "prior", "until", "bevor", "vor", "avant", "antes"),
        *("after", "since", "following", "nachdem", "nach", "seitdem", "seit", "apres", "depuis"),
        *("despues", "desde"),
    )
    for word in re.findall(r"\w+", expression)[-1:]
)
_WORD: Final = re.compile(r"\w+")


def may_name_time(text: str) -> bool:
    """Return False if a text certainly names no past time: most texts, which then need no further reading."""
    folded = fold(text)
    return (
        not folded.isascii()
        or not _HINTS.isdisjoint(_WORD.findall(folded))
        # "l'été" and "insummer": a season need not be a word of its own.
        or any(season in folded for season in SEASONS)
        or any(map(str.isdigit, folded))
    )


def alternation(words: Iterable[str]) -> str:
    """Return the pattern that matches any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def parse_count(text: str) -> int:
    """Return the number that a word or digits stand for."""
    folded = " ".join(text.lower().split())
    return NUMBERS.get(folded) or int(folded)


def parse_weekday(text: str) -> int:
    """Return 0 for Monday to 6 for Sunday, from an English name or its abbreviation."""
    return next(
        index for index, name in enumerate(WEEKDAY_NAMES) if name[:3].lower() == text[:3].lower()
    )


def parse_month(text: str) -> int:
    """Return 1 for January to 12 for December, from an English name or its abbreviation."""
    return MONTHS[text[:3].lower()]
