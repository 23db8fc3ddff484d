"""The strategy `forecast`: plans, recurring events and trends in the notes, each with its basis.

A plan is a future day in a sentence with a word such as "due" or "will". A recurring event is due again when its
rhythm (`series.find_rhythm`) says so; after a few missed periods it counts as ended. A trend is a line fitted to a
series of measurements, extrapolated for a share of the time that was observed. Nothing is predicted without such a
basis, and each result names the notes that it rests on.

A forecast can embarrass, so it is careful: a plan that was cancelled, moved or denied is dropped, a rhythm needs more
occurrences than a pattern, and a trend is extended only for a share of the observed time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    count_text,
    day_text,
    make_dream,
    number_text,
    range_text,
)
from memoranda.consolidation.strategies.patterns import rhythm_text
from memoranda.consolidation.strategies.series import (
    FramedSentence,
    Rhythm,
    Series,
    find_events,
    find_rhythm,
    find_series,
    fit_trend,
    group_by_frame,
)
from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import quote
from memoranda.consolidation.text.sentences import is_code
from memoranda.consolidation.text.summary import find_overtaken
from memoranda.model.calendar import utc_day
from memoranda.model.instant import DAY_MS
from memoranda.time_words.dates import NamedDay, find_days
from memoranda.time_words.vocabulary import WEEKDAY_NAMES

# Additional readings for a trend, because three readings are always near some line; and occurrences for a rhythm.
_TREND_EXTRA: Final = 1
_RHYTHM_EXTRA: Final = 1
# A trend is extrapolated for the observed time divided by this.
_AHEAD_SHARE: Final = 3
# Missed periods after which an event counts as ended.
_MISSED_PERIODS: Final = 2
# A future date is a plan only with one of these words; a period or a version number has none.
_PLANNED = re.compile(
    r"\b(?:will|shall|going to|due|deadline|plan(?:s|ned)?|schedul\w+|expires?|launch(?:es)?|renew(?:s|al)?|by|until"
    r"|remind|meet(?:s|ing)?|starts?|begins?|ends?|(?:is|are) (?:on|at|in)|happens?|takes? place|booked|appointment"
    r"|flight|trip|visit|conference|call|moves?|arrives?|leaves?|releases?|ships?|delivery|vacation|holiday|exam"
    r"|birthday|wedding|migration)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:cancel(?:l?ed|s)?|postponed|not|no longer|never|was|were|moved from)\b|n['’]t\b",
    re.IGNORECASE,
)


def forecast(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return stated plans by date, recurring events that are due, and trends.

    `now` in milliseconds since 1970 decides what lies ahead.
    """
    groups = group_by_frame(corpus)
    today = utc_day(now)
    return [
        *_plan_dreams(corpus, today),
        *_event_dreams(corpus, groups, today, options.least),
        *_trend_dreams(groups, now, options.least),
    ]


def _plan_dreams(corpus: Corpus, today: date) -> Iterator[Dream]:
    """Yield one dream for each future day that a sentence states as a plan."""
    plans = []
    # A postponed plan is no longer valid.
    overtaken_positions = find_overtaken(corpus)
    for sentence in corpus.sentences:
        text, written_at = sentence.text, sentence.note.at
        if (
            (sentence.note.name, sentence.index) in overtaken_positions
            or _DENIED.search(text)
            or text.endswith("?")
            or is_code(text)
        ):
            continue
        is_plan = _PLANNED.search(text) is not None
        future_days = [
            day_named
            for day_named in find_days(text, written_at)
            if _is_ahead(day_named, today)
            and (day_named.is_relative or is_plan)
            and _is_forward_looking(day_named, text, written_at)
        ]
        if future_days:
            plans.append(
                (future_days[0].day, sentence.note.at, sentence.note.name, sentence, future_days[0])
            )
    reported = set()
    for day, _, _, sentence, day_named in sorted(plans, key=lambda item: item[:3]):
        if (day, sentence.word_set) in reported:
            continue
        reported.add((day, sentence.word_set))
        when = (
            f"{day:%Y-%m}"
            if day_named.grain == "month"
            else f"{day.isoformat()} ({WEEKDAY_NAMES[day.weekday()]})"
        )
        yield make_dream(
            f"Ahead, {when}: {quote(sentence.text)}, as stated on {day_text(sentence.note.at)}.",
            (sentence.note,),
            why="a date in the future, named in the memory",
            forecast="plan",
            day=day.isoformat(),
            is_relative=day_named.is_relative,
        )


def _is_forward_looking(day: NamedDay, text: str, written_at: int) -> bool:
    """Return True if the day is after the day of writing, and not inside a quotation."""
    before = text[: day.start]
    return (
        before.count('"') % 2 == 0
        and before.count("“") == before.count("”")
        and day.day > utc_day(written_at)
    )


def _is_ahead(day: NamedDay, today: date) -> bool:
    """Return True if a day, or a month, has not passed."""
    if day.grain == "month":
        return (day.day.year, day.day.month) >= (today.year, today.month)
    return day.day >= today


def _event_dreams(
    corpus: Corpus, groups: Sequence[Sequence[FramedSentence]], today: date, least: int
) -> Iterator[Dream]:
    """Yield one dream for each recurring event that is due again, the most frequent first."""
    recurring = find_events(corpus, groups, least=least + _RHYTHM_EXTRA)
    for event in sorted(recurring, key=lambda event: (-len(event.days), event.is_tag, event.label)):
        regular = find_rhythm(event)
        last = event.days[-1]
        if regular is None or last > today:
            continue
        period = regular.period_days or 31
        if (today - last).days > _MISSED_PERIODS * period:
            continue
        due_day = _next_due_day(regular, last, today)
        if due_day is None:
            continue
        subject = f"a memory tagged {quote(event.label)}" if event.is_tag else quote(event.label)
        yield make_dream(
            f"Expected on {due_day.isoformat()} ({WEEKDAY_NAMES[due_day.weekday()]}): {subject}. "
            f"Basis: it came {rhythm_text(regular)}, {len(event.days)} times {range_text(event.days[0], last)}.",
            event.notes,
            why="a regular event carried on by one period",
            forecast="event",
            day=due_day.isoformat(),
            days=[day.isoformat() for day in event.days],
        )


def _next_due_day(regular: Rhythm, last: date, today: date) -> date | None:
    """Return the first due day, from today on; None if the event last came on the last day of the calendar."""
    due_day = regular.next_after(last)
    while due_day < today:
        due_day = regular.next_after(due_day)
    return due_day if due_day > last else None


def _trend_dreams(
    groups: Sequence[Sequence[FramedSentence]], now: int, least: int
) -> Iterator[Dream]:
    """Yield one dream for each series that rises or falls, the longest first."""
    for figures in sorted(
        find_series(groups, least=least + _TREND_EXTRA), key=lambda s: (-len(s.points), s.frame)
    ):
        line = fit_trend(figures)
        if line.direction in ("mixed", "steady"):
            continue
        seen_ms = figures.points[-1].at - figures.points[0].at
        ahead_ms = max(seen_ms // _AHEAD_SHARE, DAY_MS)
        target = figures.points[-1].at + ahead_ms
        if target < now or figures.points[-1].at > now:
            continue
        yield _extrapolate(figures, target)


def _extrapolate(figures: Series, target: int) -> Dream:
    """Return a dream with the value of a trend at the instant `target`."""
    line = fit_trend(figures)
    number = line.value_at(figures, target)
    low, high = min(p.number for p in figures.points), max(p.number for p in figures.points)
    # Keep non-negative numbers and percentages within their range.
    if low >= 0:
        number = max(number, 0.0)
    if figures.unit == "%" and high <= 100:
        number = min(number, 100.0)
    first, last = figures.points[0], figures.points[-1]
    days = max(1, round((last.at - first.at) / DAY_MS))
    text = (
        f"If it goes on {line.direction}: {quote(figures.frame)} reaches about {number_text(number)}{figures.unit} by "
        f"{day_text(target)}. Basis: {count_text(len(figures.points), 'reading')} {range_text(first.day, last.day)}, "
        f"{number_text(first.number)}{figures.unit} to {number_text(last.number)}{figures.unit} "
        f"in {count_text(days, 'day')}."
    )
    return make_dream(
        text,
        [point.note for point in figures.points],
        why="a straight line through the readings, followed for a third of the time they cover",
        forecast="trend",
        day=day_text(target),
        number=round(number, 6),
        per_day=round(line.per_day, 9),
        fit=line.fit,
    )
