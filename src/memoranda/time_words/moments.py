"""Future instants that a sentence names. English.

Days come from `dates` and from spoken forms: "tonight", "in two weeks", "by the 15th", "end of the month", "a week from
Friday". A day without a time of day means nine in the morning. Today means five in the afternoon, or the end of the day
if five has passed. Times are local to the zone of the caller (UTC by default). An offset, an abbreviation or a name of
the tz database ("Europe/Paris") after a time of day or a day takes precedence; an unknown name is reported. Past and
ambiguous dates (03/04) are ignored. Where the code has to guess ("at 5" means the afternoon), the certainty is lower.

Minutes count from local midnight; instants are milliseconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import InvalidInput
from memoranda.model.calendar import (
    days_after,
    end_of_period,
    existing_day,
    instant_of,
    load_zone,
    local_day,
    months_after,
    next_weekday,
    units_after,
    utc_offset_ms,
)
from memoranda.model.instant import clamp
from memoranda.time_words.dates import find_days
from memoranda.time_words.vocabulary import (
    ENGLISH_COUNT,
    ENGLISH_MONTH,
    ENGLISH_SHORT_WEEKDAY,
    ENGLISH_WEEKDAY,
    PARTS_OF_DAY,
    UNITS,
    ZONE_AREA,
    parse_count,
    parse_month,
    parse_weekday,
)

# Times of one kind read from a sentence; a sentence with more is a timetable.
_TIMES_LIMIT: Final = 12

# Minutes of the day for a day without a time of day: nine in the morning; today five in the afternoon, or the last.
DEFAULT_MINUTE: Final = 9 * 60
_FIVE: Final = 17 * 60
_LAST_MINUTE: Final = 23 * 60 + 59
# Hours from UTC of unambiguous abbreviations; CST, IST and BST have several meanings.
_ZONES: Final = {
    "utc": 0,
    "gmt": 0,
    "z": 0,
    "est": -5,
    "edt": -4,
    "pst": -8,
    "pdt": -7,
    "cet": 1,
    "cest": 2,
    "jst": 9,
}
# A name of the tz database: "17:30 Europe/Paris", "5pm (America/New_York)", "2026-05-07T17:30[Asia/Tokyo]".
_NAMED_ZONE: Final = re.compile(
    r"(?:,?\s(?:in\s)?|\s?(?P<bracket>[(\[]))(?P<name>"
    + ZONE_AREA
    + r"/[A-Z][A-Z0-9_+-]{0,31}(?:/[A-Z0-9_+-]{1,32})?)(?![\w/])(?(bracket)[)\]])",
    re.IGNORECASE,
)
# Names whose zone is kept in memory.
_NAMES_LIMIT: Final = 128
# Sat, Sun, Mon and Wed are also words and names, and mean a day only after a preposition.
_SHORT_WEEKDAY: Final = ENGLISH_SHORT_WEEKDAY + r"\b\.?"
_END = r"(?=\s*(?:$|[.,;:!?)]|(?:at|to|of|and|or|for|with|so|please|about|in|before|by)\b))"

_AFTER_BARE = rf"(?:on|to|today|tomorrow|tonight|this|next|every|each|sharp|and|{ENGLISH_WEEKDAY})"
# A bare number is a time only after a preposition, and before a day or the end of a clause: not in "at 5 Main Street".
CLOCK: Final = re.compile(
    r"(?<![\w.:/$€£#+-])(?P<lead>(?:at|by|before|around|after|until|@)\s)?(?:"
    r"(?P<h12>1[0-2]|0?[1-9])(?:[:.](?P<m12>[0-5]\d))?\s?(?P<half>[ap])\.?m\b\.?"
    r"|(?P<h24>[01]?\d|2[0-3]):(?P<m24>[0-5]\d)(?::[0-5]\d)?(?![\d:])"
    r"|(?P<oclock>1[0-2]|[1-9])\s?o['’]clock"
    r"|(?P<word>noon|midday|midnight|lunchtime)\b"
    r"|(?P<eod>eod|cob|(?:the )?(?:end of (?:the )?(?:work(?:ing)? )?day|close of business))\b"
    r"|(?(lead)(?P<bare>1\d|2[0-3]|[1-9])(?=\s*(?:$|[.,;!?)]|" + _AFTER_BARE + r"\b))|(?!)))"
    r"(?:\s?(?:(?P<offset>(?:utc|gmt)?[+-]\d{1,2}(?::?[0-5]\d)?)(?!\d)"
    r"|(?P<zone>utc|gmt|z|est|edt|pst|pdt|cet|cest|jst)\b))?",
    re.IGNORECASE,
)
_PART_OF_DAY = re.compile(
    r"\s(?:in the |at |around )?(?P<part>morning|afternoon|evening|night|lunchtime)\b",
    re.IGNORECASE,
)
_DAY = re.compile(
    r"(?<![\w.-])(?:"
    r"(?P<after_tomorrow>the day after tomorrow|day after tomorrow)"
    r"|(?P<tonight>tonight|this evening|this afternoon|this morning|later today)"
    r"|(?:in|within)(?: the next)?\s(?P<n>" + ENGLISH_COUNT + r")\s(?P<business>business |working |work)?"
    r"(?P<unit>days?|weeks?|months?|years?)(?:['’] time)?"
    r"|(?P<n_now>" + ENGLISH_COUNT + r")\s(?P<unit_now>days?|weeks?|months?|years?) from (?:now|today)"
    r"|(?P<weekend>(?:this |next |the |over the |at the )?weekend)"
    r"|(?:the )?end of (?:the |this )?(?P<end_next>next )?(?P<end>week|month|quarter|year)|(?P<eo>eow|eom|eoy)"
    r"|(?P<next>next|this|sometime this|sometime next|later this)\s(?P<next_unit>week|month|quarter|year)"
    r"|(?:(?P<which>next|on|this|by|before|after|coming|the coming|until|since|for|from)\s)?"
    r"(?P<weekday>" + ENGLISH_WEEKDAY + r")"
    r"|(?:next|on|this|by|before|after|until|since)\s(?P<short>" + _SHORT_WEEKDAY + r")"
    r"|(?P<md_m>" + ENGLISH_MONTH + r")\s(?:the )?(?P<md_d>\d{1,2})(?:st|nd|rd|th)?\b(?![:.]\d)"
    r"|(?P<dm_d>\d{1,2})(?:st|nd|rd|th)?\s(?:of\s)?(?P<dm_m>" + ENGLISH_MONTH + r")"
    r"|(?:on|by|before)\sthe\s(?P<nth>\d{1,2})(?:st|nd|rd|th)(?P<nth_of> of (?:this|the|next) month)?" + _END +
    r"|(?:in|by|before)\s(?:early\s|late\s)?(?P<month>" + ENGLISH_MONTH + r")(?!\s\d)"
    r"|in\s(?P<year>20\d\d)"
    r")(?![\w-])",
    re.IGNORECASE,
)  # fmt: skip
_SPAN = re.compile(
    r"(?<![\w.-])(?:in|within)(?: the next)?\s(?:(?P<half>half an hour)"
    r"|(?P<n>" + ENGLISH_COUNT + r")\s?(?P<unit>seconds?|secs?|minutes?|mins?|hours?|hrs?|h)(?P<more> and a half)?)\b"
    r"(?:['’] time)?"
    r"|(?<![\w.-])(?P<n_now>" + ENGLISH_COUNT + r")\s(?P<unit_now>minutes?|hours?) from now\b",
    re.IGNORECASE,
)  # fmt: skip
# Certainty that "at 5" means the afternoon, unless the sentence is about waking up or the morning.
_GUESSED_CERTAINTY: Final = 0.85
_EARLY = re.compile(
    r"\b(?:wake|alarm|morning|get up|early|dawn|sunrise|breakfast)\b", re.IGNORECASE
)
_SATURDAY: Final = 5
# The periods of "eow", "eom" and "eoy".
_PERIOD_INITIALS: Final = {"w": "week", "m": "month", "y": "year"}
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000}
_LEAD = re.compile(
    r"\b(?P<way>no later than|not later than|by|on|before|after|until|till|since|from|for|of|around|as of|starting|due)"
    r"\s+(?:the\s+)?\Z",
    re.IGNORECASE,
)
_SHIFT = re.compile(
    r"\b(?P<n>" + ENGLISH_COUNT + r")\s(?P<unit>day|week|month)s?\s\Z", re.IGNORECASE
)
_BETWEEN = re.compile(
    r"[\s,]*(?:(?:at|by|on|around|in|the|before|@|of|first thing)[\s,]*)*", re.IGNORECASE
)
# Words before a day that show that it is not the due day.
_NOT_DUE_LEADS: Final = frozenset(("until", "till", "since", "as of", "from", "of"))
_POSSESSIVES: Final = ("'s", "’s", "'S", "’S", "s'", "s’")


class ZoneName(msgspec.Struct, frozen=True, kw_only=True):
    """A name of a time zone in a text, with the index after it."""

    # The name in the tz database; None if that has no zone of this name.
    name: str | None
    end: int


class NamedMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A future instant, with the character indices at which the text names it, and the word before it."""

    due: int
    start: int
    end: int
    # The preposition before it, such as "by", in lower case; may be empty.
    lead: str = ""
    certainty: float = 1.0
    # The local day, if only a day is named and the time of day is a default.
    day: date | None = None
    # True if the text names a time zone that does not exist; the zone of the caller is used then.
    is_zone_unknown: bool = False


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """A time of day, with the character indices at which the text names it."""

    minute: int
    start: int
    end: int
    # Offset of the zone written after it, in minutes; None if there is none.
    offset_minutes: int | None = None
    # The name of the zone written after it, in the tz database; None if there is none.
    zone_name: str | None = None
    is_zone_unknown: bool = False
    certainty: float = 1.0


class _Day(msgspec.Struct, frozen=True, kw_only=True):
    day: date
    start: int
    end: int
    minute: int | None = None
    offset_minutes: int | None = None
    zone_name: str | None = None
    is_zone_unknown: bool = False
    lead: str = ""
    certainty: float = 1.0
    # True if its name includes the time of day, so that no other time is attached.
    is_full: bool = False


def find_moments(text: str, at: int, zone: tzinfo = UTC) -> list[NamedMoment]:
    """Return the instants after `at` that a sentence names, in order. `at`: the instant of writing."""
    exact = list(_find_durations(text, at))
    days = [
        day
        for day in _find_days(text, at, zone)
        if not any(span.start < day.end and day.start < span.end for span in exact)
    ]
    times = [
        time
        for time in find_clocks(text)
        if not any(time.start < day.end and day.start < time.end for day in days)
    ]
    moments = exact
    for day in days:
        day, times = _attach_clock(text, day, times)
        moments.append(_make_moment(_attach_zone(text, day), at, zone))
    moments += [_make_moment(_next_day_for(time, at, zone), at, zone) for time in times]
    return sorted(
        (moment for moment in moments if moment.due > at),
        key=lambda moment: (moment.start, moment.end),
    )


def with_clock(moment: NamedMoment, clock: Clock, zone: tzinfo) -> NamedMoment:
    """Return an instant of which only the day was named, at the time of day of `clock`."""
    if moment.day is None:
        return moment
    day = _Day(
        day=moment.day,
        start=moment.start,
        end=moment.end,
        lead=moment.lead,
        minute=clock.minute,
        offset_minutes=clock.offset_minutes,
        zone_name=clock.zone_name,
        is_zone_unknown=moment.is_zone_unknown or clock.is_zone_unknown,
        certainty=min(moment.certainty, clock.certainty),
    )
    return _make_moment(day, moment.due, zone)


def find_clocks(text: str) -> list[Clock]:
    """Return the times of day that a text names."""
    clocks = []
    for match in islice(CLOCK.finditer(text), _TIMES_LIMIT):
        if text[match.end() : match.end() + 1] in ("%", "€", "$", "£"):
            continue
        minute, certainty = _read_minute(match)
        if certainty == _GUESSED_CERTAINTY and 12 * 60 <= minute < 19 * 60 and _EARLY.search(text):
            minute -= 12 * 60
        clock = Clock(
            minute=minute,
            start=match.start(),
            end=match.end(),
            offset_minutes=_read_offset(match),
            certainty=certainty,
        )
        zone = None if clock.offset_minutes is not None else read_zone_name(text, clock.end)
        if zone is not None:
            clock = replace(
                clock, end=zone.end, zone_name=zone.name, is_zone_unknown=zone.name is None
            )
        clocks.append(clock)
    return clocks


def read_zone_name(text: str, start: int) -> ZoneName | None:
    """Return the name of a time zone that follows at an index of a text; None if none does."""
    match = _NAMED_ZONE.match(text, start)
    return None if match is None else ZoneName(name=_find_zone(match["name"]), end=match.end())


@lru_cache(maxsize=_NAMES_LIMIT)
def _find_zone(text: str) -> str | None:
    """Return the name in the tz database of a zone as a text writes it; None if there is no such zone."""
    for name in (text, text.title()):
        try:
            load_zone(name)
        except InvalidInput:
            continue
        return name
    return None


def _read_minute(match: re.Match[str]) -> tuple[int, float]:
    """Return the minute of the day, and the certainty of the guess."""
    if match["word"]:
        part = match["word"].lower()
        return PARTS_OF_DAY[part], 0.9 if part == "midnight" else 1.0
    if match["eod"]:
        return _FIVE, 1.0
    if match["half"]:
        hour = int(match["h12"]) % 12 + (12 if match["half"].lower() == "p" else 0)
        return hour * 60 + int(match["m12"] or 0), 1.0
    if match["h24"]:
        hour, minute = int(match["h24"]), int(match["m24"])
        # "5:30" means the afternoon; "05:30", "0:30" and "7:30" are clear.
        if len(match["h24"]) == 2 or hour == 0 or hour >= 7:
            return hour * 60 + minute, 1.0
        return (hour + 12) * 60 + minute, _GUESSED_CERTAINTY
    hour = int(match["oclock"] or match["bare"])
    return (hour + 12 if hour < 7 else hour) * 60, _GUESSED_CERTAINTY


def _read_offset(match: re.Match[str]) -> int | None:
    """Return the offset or zone written after a time of day, in minutes; None without one."""
    if match["zone"]:
        return _ZONES[match["zone"].lower()] * 60
    if not match["offset"]:
        return None
    digits = re.sub(r"[^\d+-]", "", match["offset"])
    sign, digits = (-1 if digits[0] == "-" else 1), digits[1:]
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    return sign * (hours * 60 + minutes) if hours <= 14 else None


def _find_durations(text: str, at: int) -> Iterator[NamedMoment]:
    """Yield the instants of "in two hours" and "30 minutes from now"."""
    for match in islice(_SPAN.finditer(text), _TIMES_LIMIT):
        if match["half"]:
            length = 30 * 60_000
        else:
            unit_ms = _UNITS_MS[(match["unit"] or match["unit_now"])[0].lower()]
            length = parse_count(match["n"] or match["n_now"]) * unit_ms
            if match["more"]:
                length += unit_ms // 2
        yield NamedMoment(due=clamp(at + length), start=match.start(), end=match.end())


def _find_days(text: str, at: int, zone: tzinfo) -> list[_Day]:
    """Return the days that a text names; of two that overlap, the one that begins earlier, then the longer."""
    today = local_day(at, zone)
    candidates = [
        *_find_calendar_days(text, at + utc_offset_ms(at, zone)),
        *_find_spoken_days(text, today),
    ]
    selected_days: list[_Day] = []
    for day in sorted(candidates, key=lambda day: (day.start, -day.end)):
        if not selected_days or day.start >= selected_days[-1].end:
            selected_days.append(day)
    return [shifted for day in selected_days for shifted in _apply_lead(text, day)]


def _find_calendar_days(text: str, local_at: int) -> Iterator[_Day]:
    """Yield the days found by `find_days`, with the time of an ISO date-time."""
    for named_day in find_days(text, local_at)[:_TIMES_LIMIT]:
        words = text[named_day.start : named_day.end].lower()
        first = words.split()[0]
        if first in ("last", "yesterday"):
            continue
        lead = first if first in ("until", "by", "on") else ""
        day = _Day(
            day=named_day.day,
            start=named_day.start,
            end=named_day.end,
            lead=lead,
            certainty=0.9 if named_day.grain == "month" else 1.0,
        )
        time = re.search(
            r"[t](\d{2}):(\d{2})(?::\d{2}(?:\.\d+)?)?(z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?$", words
        )
        if time and int(time[1]) < 24 and int(time[2]) < 60:
            offset = _iso_offset(time[3])
            day = replace(
                day, minute=int(time[1]) * 60 + int(time[2]), offset_minutes=offset, is_full=True
            )
        yield day


def _iso_offset(text: str | None) -> int | None:
    """Return the minutes of an offset such as "+02:00" or "z"; None without one."""
    if text is None:
        return None
    if text == "z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    return -minutes if text[0] == "-" else minutes


def _find_spoken_days(text: str, today: date) -> Iterator[_Day]:
    """Yield the days of forms that `find_days` does not know."""
    for match in islice(_DAY.finditer(text), _TIMES_LIMIT):
        day = (
            _read_counted_day(match, today)
            or _read_period_end(match, today)
            or _read_day_of_month(match, today)
        )
        if day is not None:
            lead = (match["which"] or "").lower()
            yield replace(day, start=match.start(), end=match.end(), lead=day.lead or lead)


def _make_day(day: date, minute: int | None = None, certainty: float = 1.0) -> _Day:
    """Return a day without position; the caller sets it."""
    return _Day(
        day=day, start=0, end=0, minute=minute, certainty=certainty, is_full=minute is not None
    )


def _read_counted_day(match: re.Match[str], today: date) -> _Day | None:
    """Return the day of "tonight", "in two weeks", "on Friday" or "the weekend"; None for other forms."""
    if match["after_tomorrow"]:
        return _make_day(days_after(today, 2))
    if match["tonight"]:
        part = match["tonight"].lower().removeprefix("to").removeprefix("this ")
        # "Later today" has no part of the day.
        return _make_day(today, PARTS_OF_DAY.get(part))
    if match["n"] or match["n_now"]:
        word = match["n"] or match["n_now"]
        count, certainty = parse_count(word), 0.8 if "few" in word else 1.0
        if match["business"]:
            return _make_day(_add_working_days(today, count), certainty=certainty)
        unit = UNITS[(match["unit"] or match["unit_now"]).lower()]
        return _make_day(units_after(today, count, unit), certainty=certainty)
    if match["weekday"] or match["short"]:
        return _make_day(next_weekday(today, parse_weekday(match["weekday"] or match["short"])))
    if match["weekend"]:
        saturday = next_weekday(today, _SATURDAY)
        if "next" in match["weekend"].lower() and today.weekday() < _SATURDAY:
            saturday = days_after(saturday, 7)
        return _make_day(saturday, certainty=0.9)
    return None


def _read_period_end(match: re.Match[str], today: date) -> _Day | None:
    """Return the day of "end of the month" or "next week"; None for other forms."""
    if match["end"] or match["eo"]:
        unit = match["end"].lower() if match["end"] else _PERIOD_INITIALS[match["eo"][2].lower()]
        return _make_day(_last_day_of(unit, today, 1 if match["end_next"] else 0), _FIVE)
    if match["next_unit"]:
        unit = match["next_unit"].lower()
        if "this" in match["next"].lower():
            return _make_day(_last_day_of(unit, today, 0), _FIVE, 0.8)
        if unit == "week":
            return _make_day(days_after(today, 7 - today.weekday()))
        return _make_day(days_after(_last_day_of(unit, today, 0), 1), certainty=0.9)
    return None


def _read_day_of_month(match: re.Match[str], today: date) -> _Day | None:
    """Return the day of "3 May", "the 15th", "in May" or "in 2027"; None for other forms."""
    if match["md_d"] or match["dm_d"]:
        month_word = match["md_m"] or match["dm_m"]
        if month_word == "may" and not match["md_d"]:
            return None  # "5 may be too many"
        month, number = parse_month(month_word), int(match["md_d"] or match["dm_d"])
        # 29 February is read only if the year that it falls in has one.
        day = existing_day(today.year, month, number)
        if day is not None and day < today:
            day = existing_day(today.year + 1, month, number)
        return _make_existing_day(day)
    if match["nth"]:
        number = int(match["nth"])
        first = today.replace(day=1)
        if "next" in (match["nth_of"] or "").lower() or (
            number < today.day and not match["nth_of"]
        ):
            first = months_after(first, 1)
        return _make_existing_day(existing_day(first.year, first.month, number))
    if match["year"]:
        return _make_existing_day(existing_day(int(match["year"]), 1, 1), certainty=0.8)
    if match["month"] and match["month"][0].isupper():
        month = parse_month(match["month"])
        return _make_existing_day(
            existing_day(today.year + (month <= today.month), month, 1), certainty=0.8
        )
    return None


def _make_existing_day(day: date | None, certainty: float = 1.0) -> _Day | None:
    return None if day is None else _make_day(day, certainty=certainty)


def _add_working_days(day: date, count: int) -> date:
    for _ in range(count):
        day = days_after(day, 1)
        # This ends, because the last day of the calendar is a Friday.
        while day.weekday() >= _SATURDAY:
            day = days_after(day, 1)
    return day


def _last_day_of(unit: str, today: date, offset: int) -> date:
    """Return the last day (in a week, the Friday) of the current or a later period."""
    if unit == "week":
        friday = days_after(today, 4 - today.weekday() + 7 * offset)
        return max(friday, today)
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    first = date(today.year, (today.month - 1) // months * months + 1, 1)
    return end_of_period(months_after(first, months * offset), months)


def _apply_lead(text: str, day: _Day) -> Iterator[_Day]:
    """Apply the words before a day ("a week after", "by"); yield nothing if they show that it is not the due day."""
    if text[day.end : day.end + 2] in _POSSESSIVES:
        return
    lead, start = day.lead, day.start
    match = _LEAD.search(text, max(0, start - 24), start)
    if match:
        lead, start = " ".join(match["way"].lower().split()), match.start()
    is_repeated = text[max(0, start - 6) : start].lower().rstrip().endswith(("every", "each"))
    if is_repeated or lead in _NOT_DUE_LEADS - {"from"}:
        return
    shift = _SHIFT.search(text, max(0, start - 24), start)
    if shift and lead in ("before", "after", "from"):
        count = parse_count(shift["n"]) * (-1 if lead == "before" else 1)
        moved = units_after(day.day, count, UNITS[shift["unit"].lower()])
        yield replace(day, day=moved, start=shift.start(), lead="")
    elif lead != "from":
        # "Before Friday" is the day before; "before Friday at five" is still Friday.
        days = 0 if day.is_full else {"before": -1, "after": 1}.get(lead, 0)
        yield replace(day, day=days_after(day.day, days), start=start, lead=lead)


def _attach_clock(text: str, day: _Day, times: list[Clock]) -> tuple[_Day, list[Clock]]:
    """Attach the adjacent time of day to a day; return the day and the remaining times."""
    part = _PART_OF_DAY.match(text, day.end)
    if part and not day.is_full:
        day = replace(day, end=part.end(), minute=PARTS_OF_DAY[part["part"].lower()])
    for time in times:
        gap = text[time.end : day.start] if time.end <= day.start else text[day.end : time.start]
        if len(gap) > 20 or not _BETWEEN.fullmatch(gap) or (day.is_full and day.minute != _FIVE):
            continue
        merged_moment = replace(
            day,
            start=min(day.start, time.start),
            end=max(day.end, time.end),
            minute=time.minute,
            offset_minutes=time.offset_minutes,
            zone_name=time.zone_name,
            is_zone_unknown=time.is_zone_unknown,
            certainty=min(day.certainty, time.certainty),
        )
        return merged_moment, [other for other in times if other is not time]
    return day, times


def _attach_zone(text: str, day: _Day) -> _Day:
    """Attach the name of a zone that follows a day without one: "at 17:30 on Friday (Europe/Paris)"."""
    if day.zone_name is not None or day.is_zone_unknown:
        return day
    zone = read_zone_name(text, day.end)
    if zone is None:
        return day
    if day.offset_minutes is not None:
        # An offset states the time exactly; the name only says where.
        return replace(day, end=zone.end)
    return replace(day, end=zone.end, zone_name=zone.name, is_zone_unknown=zone.name is None)


def _next_day_for(time: Clock, at: int, zone: tzinfo) -> _Day:
    """Return today, or tomorrow if the time of day has passed."""
    local_zone = _zone_of(time, zone)
    today = local_day(at, local_zone)
    day = _Day(
        day=today,
        start=time.start,
        end=time.end,
        minute=time.minute,
        offset_minutes=time.offset_minutes,
        zone_name=time.zone_name,
        is_zone_unknown=time.is_zone_unknown,
        certainty=time.certainty,
    )
    if instant_of(today, time.minute, local_zone) > at:
        return day
    return replace(day, day=days_after(today, 1))


def _make_moment(day: _Day, at: int, zone: tzinfo) -> NamedMoment:
    """Return the instant of a day; without a time of day, at the default minute."""
    local_zone = _zone_of(day, zone)
    minute = _default_minute(day, at, local_zone) if day.minute is None else day.minute
    return NamedMoment(
        due=instant_of(day.day, minute, local_zone),
        start=day.start,
        end=day.end,
        lead=day.lead,
        certainty=day.certainty,
        day=day.day if day.minute is None else None,
        is_zone_unknown=day.is_zone_unknown,
    )


def _zone_of(time: Clock | _Day, zone: tzinfo) -> tzinfo:
    """Return the zone written after a time of day, by offset or name; without one, the zone of the caller."""
    if time.offset_minutes is not None:
        return timezone(timedelta(minutes=time.offset_minutes))
    return zone if time.zone_name is None else load_zone(time.zone_name)


def _default_minute(day: _Day, at: int, zone: tzinfo) -> int:
    """Return the minute for a day without a time: nine; today five in the afternoon, or the last minute."""
    if day.day != local_day(at, zone):
        return DEFAULT_MINUTE
    return _FIVE if instant_of(day.day, _FIVE, zone) > at else _LAST_MINUTE
