"""pattern_extract: sentences built alike, tags that go together, days of the week.

A template is a sentence of which one stretch of words differs from note to note: every sentence is filed under its
beginning and its end with each short stretch left out, so that sentences built alike meet without being compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    between,
    counted,
    dream,
    listed,
    memories,
)
from memoranda.consolidation.strategies.series import (
    GAP,
    Event,
    Framed,
    Rhythm,
    events,
    favourite_weekday,
    frames,
    rhythm,
    series,
    trend,
)
from memoranda.consolidation.text.note import Note, quote
from memoranda.consolidation.text.reading import Reading, Sentence, content_words
from memoranda.consolidation.text.sentences import is_code
from memoranda.consolidation.text.similar import fold
from memoranda.consolidation.time.dates import WEEKDAYS

_TOKEN = re.compile(r"[^\s]+")
_TEMPLATE_TOKENS_LIMIT: Final = 30
_SLOT_TOKENS_LIMIT: Final = 3
# Fixed words that carry meaning: fewer make every "X is Y" a pattern, and "… euros a month".
_FIXED_WORDS: Final = 3
_FIXED_TOKENS: Final = 3
_FILLERS_SHOWN: Final = 5
_EDGES = "\"'“”‘’«»()[]{}.,;:!?*_`~"
# Two tags belong together when nine of ten memories with the rarer one have the other.
_TOGETHER_SHARE: Final = 0.9
_WEEKDAY_SHARE: Final = 0.75
# One more occurrence than for other patterns: three days fall on one weekday too easily.
_RHYTHM_EXTRA: Final = 1


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences that differ in one stretch of words."""

    text: str
    fillers: tuple[str, ...]
    sentences: tuple[Sentence, ...]

    @property
    def notes(self) -> list[Note]:
        return list({sentence.note.name: sentence.note for sentence in self.sentences}.values())


def pattern_extract(reading: Reading, now: int, options: Options) -> list[Dream]:
    """Templates, figures that move, tags that go together and rhythms; the best supported of each first."""
    del now
    groups = frames(reading)
    return [
        *_templates_found(reading, groups, options.least),
        *_figures_found(groups, options.least),
        *_tags_found(reading, options.least),
        *_rhythms_found(reading, groups, options.least),
    ]


def _templates_found(
    reading: Reading, groups: Sequence[Sequence[Framed]], least: int
) -> Iterator[Dream]:
    # What differs only in numbers and dates is a figure or a rhythm, and what is only repeated is no template.
    moving = {made.sentence for group in groups if len(group) >= least for made in group}
    stands_for = fold(reading.sentences)
    different = [
        sentence
        for place, sentence in enumerate(reading.sentences)
        if stands_for[place] == place and sentence not in moving and not is_code(sentence.text)
    ]
    for template in templates(different, least=least):
        fillers = [quote(filler, 40) for filler in template.fillers]
        shown = listed(
            [
                *fillers[:_FILLERS_SHOWN],
                *(
                    [f"{len(fillers) - _FILLERS_SHOWN} more"]
                    if len(fillers) > _FILLERS_SHOWN
                    else []
                ),
            ]
        )
        yield dream(
            f"Recurring statement in {memories(len(template.notes))}: {quote(template.text)}, where {GAP} is {shown}.",
            template.notes,
            why="sentences that differ in one place only",
            pattern="template",
            template=quote(template.text),
            fillers=fillers,
            memories=len(template.notes),
        )


def templates(sentences: Sequence[Sentence], *, least: int) -> list[Template]:
    """Sentences of at least so many notes that are the same but for one stretch; each sentence in one template."""
    split = {
        place: [
            (token.strip(_EDGES) or token).casefold() for token in _TOKEN.findall(sentence.text)
        ]
        for place, sentence in enumerate(sentences)
        if len(sentence.words) > _FIXED_WORDS and sentence.text.count(" ") < _TEMPLATE_TOKENS_LIMIT
    }
    filed: dict[tuple[object, ...], list[tuple[int, int, int]]] = defaultdict(list)
    for place, tokens in split.items():
        markers = sentences[place].markers
        for length in range(1, _SLOT_TOKENS_LIMIT + 1):
            if len(tokens) - length < _FIXED_TOKENS:
                break
            for start in range(len(tokens) - length + 1):
                key = (markers, tuple(tokens[:start]), tuple(tokens[start + length :]))
                filed[key].append((place, start, length))
    found = sorted(
        (
            group
            for group in filed.values()
            if len({sentences[place].note.name for place, _, _ in group}) >= least
        ),
        key=lambda group: (
            -len({place for place, _, _ in group}),
            sum(length for _, _, length in group),
            group,
        ),
    )
    used: set[int] = set()
    made = []
    for group in found:
        template = _template(sentences, [entry for entry in group if entry[0] not in used], least)
        if template is not None:
            used.update(entry[0] for entry in group)
            made.append(template)
    return made


def _template(
    sentences: Sequence[Sentence], group: Sequence[tuple[int, int, int]], least: int
) -> Template | None:
    members = [sentences[place] for place, _, _ in group]
    if len({sentence.note.name for sentence in members}) < least:
        return None
    fillers: dict[str, str] = {}
    for place, start, length in group:
        tokens = _TOKEN.findall(sentences[place].text)
        filler = " ".join(tokens[start : start + length]).strip(_EDGES)
        fillers.setdefault(filler.casefold(), filler)
    if len(fillers) < least:
        return None
    place, start, length = group[-1]
    tokens = _TOKEN.findall(sentences[place].text)
    last = tokens[start + length - 1]
    end = last[len(last.rstrip(_EDGES)) :]
    fixed = [*tokens[:start], GAP + end, *tokens[start + length :]]
    if len(content_words(" ".join(fixed))) < _FIXED_WORDS:
        return None
    return Template(text=" ".join(fixed), fillers=tuple(fillers.values()), sentences=tuple(members))


def _figures_found(groups: Sequence[Sequence[Framed]], least: int) -> Iterator[Dream]:
    for each in sorted(series(groups, least=least), key=lambda s: (-len(s.points), s.frame)):
        numbers = [point.number for point in each.points]
        line = trend(each)
        if line.direction == "steady":
            continue  # a number that never moves is only repeated, like PostgreSQL 16
        shown = f"{_plain(numbers[0])}{each.unit} to {_plain(numbers[-1])}{each.unit}"
        course = {"rising": "rising", "falling": "falling", "mixed": "up and down"}
        yield dream(
            f"Recurring figure in {memories(len(each.points))}: {quote(each.frame)}, {course[line.direction]}, "
            f"{shown} {between(each.points[0].day, each.points[-1].day)}.",
            [point.note for point in each.points],
            why="one sentence with another number each time",
            pattern="figure",
            numbers=numbers,
            fit=line.fit,
        )


def _plain(number: float) -> str:
    return f"{number:g}" if abs(number) < 1e6 else f"{number:.0f}"


def _tags_found(reading: Reading, least: int) -> Iterator[Dream]:
    having: dict[str, set[int]] = defaultdict(set)
    together: dict[tuple[str, str], int] = defaultdict(int)
    for place, note in enumerate(reading.notes):
        tags = sorted(set(note.tags))[:_TEMPLATE_TOKENS_LIMIT]
        for index, tag in enumerate(tags):
            having[tag].add(place)
            for other in tags[index + 1 :]:
                together[(tag, other)] += 1
    total = len(reading.notes)
    for (first, second), count in sorted(together.items(), key=lambda item: (-item[1], item[0])):
        rarer, other = sorted((first, second), key=lambda tag: (len(having[tag]), tag))
        # What nearly every memory carries goes together with everything and says nothing.
        is_everywhere = len(having[other]) > _TOGETHER_SHARE * total
        if count >= least and count >= _TOGETHER_SHARE * len(having[rarer]) and not is_everywhere:
            notes = [reading.notes[place] for place in sorted(having[first] & having[second])]
            yield dream(
                f"Tags that go together: {quote(rarer)} and {quote(other)}, in {count} of the "
                f"{memories(len(having[rarer]))} tagged {quote(rarer)}.",
                notes,
                why="tags found on the same memories",
                pattern="tags",
                memories=count,
            )


def _rhythms_found(
    reading: Reading, groups: Sequence[Sequence[Framed]], least: int
) -> Iterator[Dream]:
    # Readings come as often as somebody looks.
    found = (
        each for each in events(reading, groups, least=least + _RHYTHM_EXTRA) if not each.is_reading
    )
    for event in sorted(found, key=lambda event: (-len(event.days), event.is_tag, event.label)):
        regular = rhythm(event)
        weekday = favourite_weekday(event, share=_WEEKDAY_SHARE)
        span = between(event.days[0], event.days[-1])
        what = f"Memories tagged {quote(event.label)}" if event.is_tag else quote(event.label)
        if regular is not None:
            come = "come" if event.is_tag else "comes"
            text = f"Rhythm: {what} {come} {rhythm_text(regular)}, {len(event.days)} times {span}."
        elif weekday is not None and _spans_weeks(event):
            text = (
                f"Rhythm: {what} mostly {'fall' if event.is_tag else 'falls'} on a {WEEKDAYS[weekday[0]]}, "
                f"{weekday[1]} of {len(event.days)} days {span}."
            )
        else:
            continue
        days = [day.isoformat() for day in event.days]
        yield dream(text, event.notes, why="the days on which it came", pattern="rhythm", days=days)


def _spans_weeks(event: Event) -> bool:
    return len({day.isocalendar()[:2] for day in event.days}) >= len(event.days) // 2 + 1


def rhythm_text(regular: Rhythm) -> str:
    """ "every day", "every Monday", "every 10 days", "every month"."""
    if regular.is_monthly:
        return "every month"
    if regular.period_days == 1:
        return "every day"
    if regular.weekday is not None and regular.period_days == 7:
        return f"every {WEEKDAYS[regular.weekday]}"
    return f"every {counted(regular.period_days, 'day')}"
