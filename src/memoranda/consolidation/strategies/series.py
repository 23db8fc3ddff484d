"""What recurs in time: numbers said again and again of the same thing, and events that come back.

A sentence with its numbers and dates taken out is its **frame**. Frames that recur with one number make a numeric
series; frames and tags that recur on several days make a rhythm. A sentence happened on the day it names, otherwise on
the day its note was written.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from statistics import median
from typing import Final, Literal

import msgspec

from memoranda.consolidation.text.note import Note
from memoranda.consolidation.text.reading import Reading, Sentence, content_words, once
from memoranda.consolidation.time.dates import named_days
from memoranda.model.calendar import days_after, months_after, utc_day
from memoranda.model.instant import DAY_MS

Direction = Literal["rising", "falling", "steady", "mixed"]

# Less than this of what varies is explained by a line: no trend.
_TREND_FIT: Final = 0.8
_FRAME_WORDS: Final = 2
# A rhythm may slip by a fifth of its period, and by a day.
_SLIP_SHARE: Final = 0.2
_SENTENCE_CHARS_LIMIT: Final = 300
GAP: Final = "…"

_FIGURE = re.compile(
    r"(?<![\w.:/#-])(?P<number>[-−+]?(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{1,9})?)(?![\w]*[.:/-]?\d)(?P<unit>\s?[%‰°$€£¥₹]|[^\W\d_]{1,6}\b)?"
)
# "PostgreSQL 16", "Room 5" and "version 2" are names, not measurements.
_NUMBERED = re.compile(r"(?:(?<=\s)(?:[A-Z][^\W\d_]*|version|release|no\.?|number|nr\.?)\s)\Z")
_CURRENCY = re.compile(r"[$€£¥₹](?=\d)")


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of a series."""

    note: Note
    # Which of the note's sentences.
    place: int
    day: date
    at: int
    number: float


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Readings of one thing, oldest first, at most one an instant."""

    # The latest sentence with a gap where the number stands, and its unit.
    frame: str
    unit: str
    points: tuple[Point, ...]


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """A line through a series."""

    direction: Direction
    per_day: float
    # From 0 to 1: how much of the variation the line explains.
    fit: float

    def at(self, series: Series, at: int) -> float:
        """What the line gives for an instant."""
        times, numbers = _coordinates(series)
        mean_time, mean_number = math.fsum(times) / len(times), math.fsum(numbers) / len(numbers)
        return mean_number + self.per_day * ((at - series.points[0].at) / DAY_MS - mean_time)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened on several days; one note a day."""

    # A sentence with gaps, or a tag.
    label: str
    is_tag: bool
    # Something with a number in it.
    is_reading: bool
    days: tuple[date, ...]
    notes: tuple[Note, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Equal in two events of the same notes."""
        return tuple(note.name for note in self.notes)


class Rhythm(msgspec.Struct, frozen=True, kw_only=True):
    """How regularly an event comes."""

    # Days between two, or 0 for "once a month".
    period_days: int
    is_monthly: bool
    # 0 is Monday; None when it comes on several days of the week.
    weekday: int | None

    def after(self, day: date) -> date:
        """Return the next day on which it is due; the last day there is for one beyond."""
        return months_after(day, 1) if self.is_monthly else days_after(day, self.period_days)


class Framed(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence with its dates and numbers taken out."""

    sentence: Sentence
    day: date
    at: int
    # The words that are left, the same for all sentences of one frame.
    key: tuple[str, ...]
    text: str
    figures: tuple[tuple[float, str], ...]


def framed(sentence: Sentence) -> Framed | None:
    """The frame of a sentence; None when too little is left of it."""
    if len(sentence.text) > _SENTENCE_CHARS_LIMIT:
        return None
    note, text = sentence.note, sentence.text
    days = [named for named in named_days(text, note.at) if named.grain == "day"]
    for named in reversed(days):
        text = f"{text[: named.start]}{GAP}{text[named.end :]}"
    figures = []

    def take(match: re.Match[str]) -> str:
        unit = (match["unit"] or "").strip()
        if not unit and _NUMBERED.search(match.string, 1, match.start()):
            return match[0]
        figures.append((float(match["number"].replace(",", "").replace("−", "-")), unit))
        return GAP + (match["unit"] or "")

    text = _FIGURE.sub(take, _CURRENCY.sub(lambda match: match[0] + " ", text))
    key = content_words(text)
    if len(key) < _FRAME_WORDS:
        return None
    day = days[0].day if days else utc_day(note.at)
    at = (day - date(1970, 1, 1)).days * DAY_MS if days else note.at
    return Framed(
        sentence=sentence, day=day, at=at, key=key, text=text.rstrip("."), figures=tuple(figures)
    )


@once
def frames(reading: Reading) -> list[list[Framed]]:
    """Sentences of one frame together, oldest first."""
    found: dict[tuple[tuple[str, ...], frozenset[str]], list[Framed]] = defaultdict(list)
    for sentence in reading.sentences:
        made = framed(sentence)
        if made is not None:
            found[(made.key, sentence.markers)].append(made)
    return [sorted(group, key=_when) for group in found.values() if len(group) > 1]


def _when(made: Framed) -> tuple[int, str, int]:
    return (made.at, made.sentence.note.name, made.sentence.place)


def series(groups: Iterable[Sequence[Framed]], *, least: int) -> list[Series]:
    """Frames with one number each, from at least so many notes and instants."""
    found = []
    for group in groups:
        # One number a sentence: with two of them it is not known which one moves.
        readings = [made for made in group if len(made.figures) == 1]
        units = {made.figures[0][1] for made in readings}
        if len(units) != 1:
            continue
        points: dict[int, Point] = {}
        for made in readings:
            note, place = made.sentence.note, made.sentence.place
            points[made.at] = Point(
                note=note, place=place, day=made.day, at=made.at, number=made.figures[0][0]
            )
        if len({point.note.name for point in points.values()}) >= least:
            found.append(
                Series(frame=readings[-1].text, unit=units.pop(), points=tuple(points.values()))
            )
    return found


def trend(series: Series) -> Trend:
    """The least-squares line through a series of two and more instants."""
    times, numbers = _coordinates(series)
    mean_time, mean_number = math.fsum(times) / len(times), math.fsum(numbers) / len(numbers)
    spread = math.fsum((time - mean_time) ** 2 for time in times)
    variation = math.fsum((number - mean_number) ** 2 for number in numbers)
    if variation == 0.0:
        return Trend(direction="steady", per_day=0.0, fit=1.0)
    common = math.fsum(
        (t - mean_time) * (n - mean_number) for t, n in zip(times, numbers, strict=True)
    )
    slope = common / spread if spread else 0.0
    fit = round(min(1.0, common * common / (spread * variation)), 6) if spread else 0.0
    if not math.isfinite(slope) or not math.isfinite(fit) or fit < _TREND_FIT:
        return Trend(direction="mixed", per_day=0.0, fit=fit if math.isfinite(fit) else 0.0)
    return Trend(direction="rising" if slope > 0 else "falling", per_day=slope, fit=fit)


def _coordinates(series: Series) -> tuple[list[float], list[float]]:
    first = series.points[0].at
    return [(point.at - first) / DAY_MS for point in series.points], [
        point.number for point in series.points
    ]


def events(reading: Reading, groups: Iterable[Sequence[Framed]], *, least: int) -> list[Event]:
    """Frames and tags that came on at least so many days."""
    found = []
    for group in groups:
        by_day = {made.day: made.sentence.note for made in group}
        if len(by_day) >= least and len({note.name for note in by_day.values()}) >= least:
            found.append(_event(group[-1].text, by_day, is_reading=bool(group[-1].figures)))
    tagged: dict[str, dict[date, Note]] = defaultdict(dict)
    for note in reading.notes:
        for tag in sorted(set(note.tags)):
            tagged[tag][utc_day(note.at)] = note
    found += [
        _event(tag, by_day, is_tag=True)
        for tag, by_day in sorted(tagged.items())
        if len(by_day) >= least
    ]
    # A tag that stands on the notes of one frame, or of another tag, and on no others is no event of its own.
    different: dict[tuple[str, ...], Event] = {}
    for event in found:
        different.setdefault(event.key, event)
    return list(different.values())


def _event(
    label: str, by_day: dict[date, Note], *, is_tag: bool = False, is_reading: bool = False
) -> Event:
    days = tuple(sorted(by_day))
    notes = tuple(by_day[day] for day in days)
    return Event(label=label, is_tag=is_tag, is_reading=is_reading, days=days, notes=notes)


def rhythm(event: Event) -> Rhythm | None:
    """The regular period of an event; None when it comes as it likes."""
    days = event.days
    gaps = [(later - earlier).days for earlier, later in itertools.pairwise(days)]
    if len(gaps) < 2:
        return None
    period = round(median(gaps))
    on_month_days = [day.day for day in days]
    months = [day.year * 12 + day.month for day in days]
    is_monthly = max(on_month_days) - min(on_month_days) <= 1 and all(
        later - earlier == 1 for earlier, later in itertools.pairwise(months)
    )
    weekdays = {day.weekday() for day in days}
    weekday = weekdays.pop() if len(weekdays) == 1 else None
    if is_monthly:
        return Rhythm(period_days=0, is_monthly=True, weekday=weekday)
    slip = max(_SLIP_SHARE * period, 1.0 if period >= 5 else 0.0)
    if all(abs(gap - period) <= slip for gap in gaps):
        return Rhythm(period_days=period, is_monthly=False, weekday=weekday)
    return None


def favourite_weekday(event: Event, *, share: float) -> tuple[int, int] | None:
    """The weekday most of its days fall on, and how many; None when no weekday has that share."""
    counts = [0] * 7
    for day in event.days:
        counts[day.weekday()] += 1
    most = max(counts)
    return (counts.index(most), most) if most >= share * len(event.days) else None
