"""forecast: what the notes themselves say or show about the time ahead, always with its basis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    between,
    counted,
    day_text,
    dream,
    number_text,
)
from memoranda.consolidation.strategies.patterns import rhythm_text
from memoranda.consolidation.strategies.series import (
    Framed,
    Rhythm,
    Series,
    events,
    frames,
    rhythm,
    series,
    trend,
)
from memoranda.consolidation.text.note import quote
from memoranda.consolidation.text.reading import Reading
from memoranda.consolidation.text.sentences import is_code
from memoranda.consolidation.text.summary import overtaken
from memoranda.consolidation.time.dates import WEEKDAYS, Named, named_days
from memoranda.model.calendar import utc_day
from memoranda.model.instant import DAY_MS

# Three readings always lie near some line; a trend needs one more than a pattern.
_TREND_EXTRA: Final = 1
_RHYTHM_EXTRA: Final = 1
# A line is followed for a third of the time it was seen, no further.
_AHEAD_SHARE: Final = 3
# Something that has not come for two periods has ended, or nobody notes it any more.
_MISSED_PERIODS: Final = 2
# A date ahead is a plan only with a word that says what is to happen; a period or a version number has none.
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


def forecast(reading: Reading, now: int, options: Options) -> list[Dream]:
    """Stated plans by date, events that are due again, and figures that follow a line."""
    groups = frames(reading)
    today = utc_day(now)
    return [
        *_plans(reading, today),
        *_returning(reading, groups, today, options.least),
        *_moving(groups, now, options.least),
    ]


def _plans(reading: Reading, today: date) -> Iterator[Dream]:
    found = []
    # What was put off is no plan any more.
    old = overtaken(reading)
    for sentence in reading.sentences:
        text, written = sentence.text, sentence.note.at
        if (
            (sentence.note.name, sentence.place) in old
            or _DENIED.search(text)
            or text.endswith("?")
            or is_code(text)
        ):
            continue
        is_plan = _PLANNED.search(text) is not None
        ahead = [
            named
            for named in named_days(text, written)
            if _is_ahead(named, today)
            and (named.is_relative or is_plan)
            and _is_said_itself(named, text, written)
        ]
        if ahead:
            found.append((ahead[0].day, sentence.note.at, sentence.note.name, sentence, ahead[0]))
    said = set()
    for day, _, _, sentence, named in sorted(found, key=lambda item: item[:3]):
        if (day, sentence.bag) in said:
            continue
        said.add((day, sentence.bag))
        when = (
            f"{day:%Y-%m}"
            if named.grain == "month"
            else f"{day.isoformat()} ({WEEKDAYS[day.weekday()]})"
        )
        yield dream(
            f"Ahead, {when}: {quote(sentence.text)}, as stated on {day_text(sentence.note.at)}.",
            (sentence.note,),
            why="a date in the future, named in the memory",
            forecast="plan",
            day=day.isoformat(),
            is_relative=named.is_relative,
        )


def _is_said_itself(named: Named, text: str, written: int) -> bool:
    """Whether the sentence itself looks ahead: not a quotation in it, and not "today"."""
    before = text[: named.start]
    return (
        before.count('"') % 2 == 0
        and before.count("“") == before.count("”")
        and named.day > utc_day(written)
    )


def _is_ahead(named: Named, today: date) -> bool:
    if named.grain == "month":
        return (named.day.year, named.day.month) >= (today.year, today.month)
    return named.day >= today


def _returning(
    reading: Reading, groups: Sequence[Sequence[Framed]], today: date, least: int
) -> Iterator[Dream]:
    found = events(reading, groups, least=least + _RHYTHM_EXTRA)
    for event in sorted(found, key=lambda event: (-len(event.days), event.is_tag, event.label)):
        regular = rhythm(event)
        last = event.days[-1]
        if regular is None or last > today:
            continue
        period = regular.period_days or 31
        due = (
            None
            if (today - last).days > _MISSED_PERIODS * period
            else _next_due(regular, last, today)
        )
        if due is None:
            continue
        what = f"a memory tagged {quote(event.label)}" if event.is_tag else quote(event.label)
        yield dream(
            f"Expected on {due.isoformat()} ({WEEKDAYS[due.weekday()]}): {what}. "
            f"Basis: it came {rhythm_text(regular)}, {len(event.days)} times {between(event.days[0], last)}.",
            event.notes,
            why="a regular event carried on by one period",
            forecast="event",
            day=due.isoformat(),
            days=[day.isoformat() for day in event.days],
        )


def _next_due(regular: Rhythm, last: date, today: date) -> date | None:
    """Return the first day, from today on, on which an event is due; None if it last came on the last day there is."""
    due = regular.after(last)
    while due < today:
        due = regular.after(due)
    return due if due > last else None


def _moving(groups: Sequence[Sequence[Framed]], now: int, least: int) -> Iterator[Dream]:
    for each in sorted(
        series(groups, least=least + _TREND_EXTRA), key=lambda s: (-len(s.points), s.frame)
    ):
        line = trend(each)
        if line.direction in ("mixed", "steady"):
            continue
        seen_ms = each.points[-1].at - each.points[0].at
        ahead_ms = max(seen_ms // _AHEAD_SHARE, DAY_MS)
        target = each.points[-1].at + ahead_ms
        if target < now or each.points[-1].at > now:
            continue
        yield _extrapolated(each, target)


def _extrapolated(each: Series, target: int) -> Dream:
    line = trend(each)
    number = line.at(each, target)
    low, high = min(p.number for p in each.points), max(p.number for p in each.points)
    # What was never negative, or a share of a hundred, does not leave its range because a line does.
    if low >= 0:
        number = max(number, 0.0)
    if each.unit == "%" and high <= 100:
        number = min(number, 100.0)
    first, last = each.points[0], each.points[-1]
    days = max(1, round((last.at - first.at) / DAY_MS))
    text = (
        f"If it goes on {line.direction}: {quote(each.frame)} reaches about {number_text(number)}{each.unit} by "
        f"{day_text(target)}. Basis: {counted(len(each.points), 'reading')} {between(first.day, last.day)}, "
        f"{number_text(first.number)}{each.unit} to {number_text(last.number)}{each.unit} in {counted(days, 'day')}."
    )
    return dream(
        text,
        [point.note for point in each.points],
        why="a straight line through the readings, followed for a third of the time they cover",
        forecast="trend",
        day=day_text(target),
        number=round(number, 6),
        per_day=round(line.per_day, 9),
        fit=line.fit,
    )
