"""Numeric series, trends, recurring events and their rhythms.

The **frame** of a sentence is the sentence without its numbers and dates. Sentences of one frame with one number each
form a numeric series. Frames and tags that occur on several days form a recurring event. The day of a sentence is the
day that it names, or else the day of writing.

Days are calendar days in UTC. A rhythm is accepted only if most gaps agree with it; a trend only
if the line explains the points.
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

from memoranda.consolidation.text.corpus import Corpus, Sentence, cached_per_corpus, content_words
from memoranda.consolidation.text.note import MemoryNote
from memoranda.model.calendar import days_after, months_after, utc_day
from memoranda.model.instant import DAY_MS
from memoranda.time_words.dates import find_days

Direction = Literal["rising", "falling", "steady", "mixed"]

# Share of the variation (R²) that a line must explain to be a trend.
_TREND_FIT: Final = 0.8
_FRAME_WORDS: Final = 2
# Share of the period by which an occurrence may be early or late; from five days on, at least one day.
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
    """One measurement of a series."""

    note: MemoryNote
    # The position among the sentences of the note.
    sentence_index: int
    day: date
    at: int
    number: float


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one thing, oldest first, at most one per instant."""

    # The latest sentence with a gap for the number, and the unit of the number.
    frame: str
    unit: str
    points: tuple[Point, ...]


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """A line fitted to a series."""

    direction: Direction
    per_day: float
    # Share of the variation that the line explains, from 0 to 1.
    fit: float

    def value_at(self, find_series: Series, at: int) -> float:
        """Return the value of the line at an instant."""
        times, numbers = _coordinates(find_series)
        mean_time, mean_number = math.fsum(times) / len(times), math.fsum(numbers) / len(numbers)
        return mean_number + self.per_day * ((at - find_series.points[0].at) / DAY_MS - mean_time)


class RecurringEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that happened on several days, with one note per day."""

    # A sentence with gaps, or a tag.
    label: str
    is_tag: bool
    # True for a sentence with a number, which is a measurement.
    is_reading: bool
    days: tuple[date, ...]
    notes: tuple[MemoryNote, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the notes; equal in two events of the same notes."""
        return tuple(note.name for note in self.notes)


class Rhythm(msgspec.Struct, frozen=True, kw_only=True):
    """The regular period of an event."""

    # Days between two occurrences; 0 for "once a month".
    period_days: int
    is_monthly: bool
    # 0 is Monday; None if it occurs on several days of the week.
    weekday: int | None

    def next_after(self, day: date) -> date:
        """Return the next due day after a day; the last day of the calendar if it would be later."""
        return months_after(day, 1) if self.is_monthly else days_after(day, self.period_days)


class FramedSentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence without its dates and numbers."""

    sentence: Sentence
    day: date
    at: int
    # The remaining content words; equal in all sentences of one frame.
    key: tuple[str, ...]
    text: str
    figures: tuple[tuple[float, str], ...]


def frame_sentence(sentence: Sentence) -> FramedSentence | None:
    """Return a sentence with its frame; None if the frame has too few words."""
    if len(sentence.text) > _SENTENCE_CHARS_LIMIT:
        return None
    note, text = sentence.note, sentence.text
    days = [mention for mention in find_days(text, note.at) if mention.grain == "day"]
    for mention in reversed(days):
        text = f"{text[: mention.start]}{GAP}{text[mention.end :]}"
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
    return FramedSentence(
        sentence=sentence, day=day, at=at, key=key, text=text.rstrip("."), figures=tuple(figures)
    )


@cached_per_corpus
def group_by_frame(corpus: Corpus) -> list[list[FramedSentence]]:
    """Return the groups of at least two sentences with one frame, oldest first."""
    groups: dict[tuple[tuple[str, ...], frozenset[str]], list[FramedSentence]] = defaultdict(list)
    for sentence in corpus.sentences:
        sentence_framed = frame_sentence(sentence)
        if sentence_framed is not None:
            groups[(sentence_framed.key, sentence.markers)].append(sentence_framed)
    return [sorted(group, key=_sort_key) for group in groups.values() if len(group) > 1]


def _sort_key(member: FramedSentence) -> tuple[int, str, int]:
    return (member.at, member.sentence.note.name, member.sentence.index)


def find_series(groups: Iterable[Sequence[FramedSentence]], *, least: int) -> list[Series]:
    """Return the series with measurements of at least `least` notes."""
    all_series = []
    for group in groups:
        # Only sentences with one number; of two numbers it is unknown which one is measured.
        readings = [member for member in group if len(member.figures) == 1]
        units = {member.figures[0][1] for member in readings}
        if len(units) != 1:
            continue
        points: dict[int, Point] = {}
        for member in readings:
            note, index = member.sentence.note, member.sentence.index
            points[member.at] = Point(
                note=note,
                sentence_index=index,
                day=member.day,
                at=member.at,
                number=member.figures[0][0],
            )
        if len({point.note.name for point in points.values()}) >= least:
            all_series.append(
                Series(frame=readings[-1].text, unit=units.pop(), points=tuple(points.values()))
            )
    return all_series


def fit_trend(find_series: Series) -> Trend:
    """Fit a least-squares line to a series of at least two instants."""
    times, numbers = _coordinates(find_series)
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


def _coordinates(find_series: Series) -> tuple[list[float], list[float]]:
    """Return the days since the first measurement, and the numbers."""
    first = find_series.points[0].at
    return [(point.at - first) / DAY_MS for point in find_series.points], [
        point.number for point in find_series.points
    ]


def find_events(
    corpus: Corpus, groups: Iterable[Sequence[FramedSentence]], *, least: int
) -> list[RecurringEvent]:
    """Return the frames and tags that occur on at least `least` days."""
    candidates = []
    for group in groups:
        by_day = {member.day: member.sentence.note for member in group}
        if len(by_day) >= least and len({note.name for note in by_day.values()}) >= least:
            candidates.append(
                _make_event(group[-1].text, by_day, is_reading=bool(group[-1].figures))
            )
    tagged: dict[str, dict[date, MemoryNote]] = defaultdict(dict)
    for note in corpus.notes:
        for tag in sorted(set(note.tags)):
            tagged[tag][utc_day(note.at)] = note
    candidates += [
        _make_event(tag, by_day, is_tag=True)
        for tag, by_day in sorted(tagged.items())
        if len(by_day) >= least
    ]
    # A tag with exactly the notes of a frame, or of another tag, is the same event.
    different: dict[tuple[str, ...], RecurringEvent] = {}
    for event in candidates:
        different.setdefault(event.key, event)
    return list(different.values())


def _make_event(
    label: str, by_day: dict[date, MemoryNote], *, is_tag: bool = False, is_reading: bool = False
) -> RecurringEvent:
    days = tuple(sorted(by_day))
    notes = tuple(by_day[day] for day in days)
    return RecurringEvent(label=label, is_tag=is_tag, is_reading=is_reading, days=days, notes=notes)


def find_rhythm(event: RecurringEvent) -> Rhythm | None:
    """Return the rhythm of an event; None if it is irregular."""
    days = event.days
    gaps = [(next_day - previous_day).days for previous_day, next_day in itertools.pairwise(days)]
    if len(gaps) < 2:
        return None
    period = round(median(gaps))
    on_month_days = [day.day for day in days]
    months = [day.year * 12 + day.month for day in days]
    is_monthly = max(on_month_days) - min(on_month_days) <= 1 and all(
        next_day - earlier == 1 for earlier, next_day in itertools.pairwise(months)
    )
    weekdays = {day.weekday() for day in days}
    weekday = weekdays.pop() if len(weekdays) == 1 else None
    if is_monthly:
        return Rhythm(period_days=0, is_monthly=True, weekday=weekday)
    max_deviation = max(_SLIP_SHARE * period, 1.0 if period >= 5 else 0.0)
    if all(abs(gap - period) <= max_deviation for gap in gaps):
        return Rhythm(period_days=period, is_monthly=False, weekday=weekday)
    return None


def find_favourite_weekday(event: RecurringEvent, *, share: float) -> tuple[int, int] | None:
    """Return the most frequent weekday and its number of days; None if its share is below `share`."""
    counts = [0] * 7
    for day in event.days:
        counts[day.weekday()] += 1
    highest_count = max(counts)
    return (
        (counts.index(highest_count), highest_count)
        if highest_count >= share * len(event.days)
        else None
    )
