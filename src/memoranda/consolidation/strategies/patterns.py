"""The strategy `pattern_extract`: sentence templates, recurring figures, tags that occur together, and rhythms.

A template is a sentence in which one stretch of words differs from note to note. To find templates without comparing
pairs, each sentence is indexed once for each short stretch, under the words before and after the stretch. Sentences
with the same key form a candidate group.

The index of stretches makes finding templates nearly linear in the number of sentences. Sentences that already belong
to a series of a changing number are left out, so that one pattern is reported once.
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
    count_text,
    join_phrases,
    make_dream,
    memories_text,
    range_text,
)
from memoranda.consolidation.strategies.series import (
    GAP,
    FramedSentence,
    RecurringEvent,
    Rhythm,
    find_events,
    find_favourite_weekday,
    find_rhythm,
    find_series,
    fit_trend,
    group_by_frame,
)
from memoranda.consolidation.text.corpus import Corpus, Sentence, content_words
from memoranda.consolidation.text.note import MemoryNote, quote
from memoranda.consolidation.text.sentences import is_code
from memoranda.consolidation.text.similar import fold_duplicates
from memoranda.time_words.vocabulary import WEEKDAY_NAMES

_TOKEN = re.compile(r"[^\s]+")
# Most tokens of a sentence that becomes a template, and of the gap in it; their product bounds the index entries.
_TEMPLATE_TOKENS_LIMIT: Final = 30
_SLOT_TOKENS_LIMIT: Final = 3
# Fewest content words, and fewest tokens, outside the gap of a template; fewer would make every "X is Y" a pattern.
_FIXED_WORDS: Final = 3
_FIXED_TOKENS: Final = 3
_FILLERS_SHOWN: Final = 5
_EDGES = "\"'“”‘’«»()[]{}.,;:!?*_`~"
# Share of the memories with the rarer tag that must have the other tag.
_TOGETHER_SHARE: Final = 0.9
_WEEKDAY_SHARE: Final = 0.75
# Additional occurrences for a rhythm, because three days are too easily on one weekday.
_RHYTHM_EXTRA: Final = 1


class SentenceTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A group of sentences that differ in one stretch of words."""

    text: str
    fillers: tuple[str, ...]
    sentences: tuple[Sentence, ...]

    @property
    def notes(self) -> list[MemoryNote]:
        """The notes with these sentences, each once."""
        return list({sentence.note.name: sentence.note for sentence in self.sentences}.values())


def pattern_extract(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return templates, changing figures, tag pairs and rhythms, the best supported of each kind first."""
    del now
    groups = group_by_frame(corpus)
    return [
        *_template_dreams(corpus, groups, options.least),
        *_figure_dreams(groups, options.least),
        *_tag_dreams(corpus, options.least),
        *_rhythm_dreams(corpus, groups, options.least),
    ]


def _template_dreams(
    corpus: Corpus, groups: Sequence[Sequence[FramedSentence]], least: int
) -> Iterator[Dream]:
    """Yield one dream for each sentence template."""
    # Sentences that differ only in numbers and dates are figures or rhythms; equal sentences are no template.
    varying_sentences = {
        member.sentence for group in groups if len(group) >= least for member in group
    }
    representatives = fold_duplicates(corpus.sentences)
    different = [
        sentence
        for index, sentence in enumerate(corpus.sentences)
        if representatives[index] == index
        and sentence not in varying_sentences
        and not is_code(sentence.text)
    ]
    for template in find_templates(different, least=least):
        fillers = [quote(filler, 40) for filler in template.fillers]
        examples = join_phrases(
            [
                *fillers[:_FILLERS_SHOWN],
                *(
                    [f"{len(fillers) - _FILLERS_SHOWN} more"]
                    if len(fillers) > _FILLERS_SHOWN
                    else []
                ),
            ]
        )
        count = memories_text(len(template.notes))
        yield make_dream(
            f"Recurring statement in {count}: {quote(template.text)}, where {GAP} is {examples}.",
            template.notes,
            why="sentences that differ in one place only",
            pattern="template",
            template=quote(template.text),
            fillers=fillers,
            memories=len(template.notes),
        )


def find_templates(sentences: Sequence[Sentence], *, least: int) -> list[SentenceTemplate]:
    """Return the templates with sentences of at least `least` notes. Each sentence is in at most one template.

    `least` counts notes, not sentences: a list inside one note is no pattern.
    """
    split_texts = {
        index: [
            (token.strip(_EDGES) or token).casefold() for token in _TOKEN.findall(sentence.text)
        ]
        for index, sentence in enumerate(sentences)
        if len(sentence.words) > _FIXED_WORDS and sentence.text.count(" ") < _TEMPLATE_TOKENS_LIMIT
    }
    by_context: dict[tuple[object, ...], list[tuple[int, int, int]]] = defaultdict(list)
    for index, tokens in split_texts.items():
        markers = sentences[index].markers
        for length in range(1, _SLOT_TOKENS_LIMIT + 1):
            if len(tokens) - length < _FIXED_TOKENS:
                break
            for start in range(len(tokens) - length + 1):
                key = (markers, tuple(tokens[:start]), tuple(tokens[start + length :]))
                by_context[key].append((index, start, length))
    ranked_groups = sorted(
        (
            group
            for group in by_context.values()
            if len({sentences[index].note.name for index, _, _ in group}) >= least
        ),
        key=lambda group: (
            -len({index for index, _, _ in group}),
            sum(length for _, _, length in group),
            group,
        ),
    )
    used_indexes: set[int] = set()
    templates = []
    for group in ranked_groups:
        template = _build_template(
            sentences, [entry for entry in group if entry[0] not in used_indexes], least
        )
        if template is not None:
            used_indexes.update(entry[0] for entry in group)
            templates.append(template)
    return templates


def _build_template(
    sentences: Sequence[Sentence], group: Sequence[tuple[int, int, int]], least: int
) -> SentenceTemplate | None:
    """Return the template of a group of (sentence, start, length); None if it has too few notes or words."""
    members = [sentences[index] for index, _, _ in group]
    if len({sentence.note.name for sentence in members}) < least:
        return None
    fillers: dict[str, str] = {}
    for index, start, length in group:
        tokens = _TOKEN.findall(sentences[index].text)
        filler = " ".join(tokens[start : start + length]).strip(_EDGES)
        fillers.setdefault(filler.casefold(), filler)
    if len(fillers) < least:
        return None
    index, start, length = group[-1]
    tokens = _TOKEN.findall(sentences[index].text)
    last = tokens[start + length - 1]
    end = last[len(last.rstrip(_EDGES)) :]
    fixed = [*tokens[:start], GAP + end, *tokens[start + length :]]
    if len(content_words(" ".join(fixed))) < _FIXED_WORDS:
        return None
    return SentenceTemplate(
        text=" ".join(fixed), fillers=tuple(fillers.values()), sentences=tuple(members)
    )


def _figure_dreams(groups: Sequence[Sequence[FramedSentence]], least: int) -> Iterator[Dream]:
    """Yield one dream for each series of a changing number, the longest first."""
    for figures in sorted(
        find_series(groups, least=least), key=lambda s: (-len(s.points), s.frame)
    ):
        numbers = [point.number for point in figures.points]
        line = fit_trend(figures)
        if line.direction == "steady":
            continue  # a constant number is a name, like PostgreSQL 16
        change = f"{_plain_number(numbers[0])}{figures.unit} to {_plain_number(numbers[-1])}{figures.unit}"
        course = {"rising": "rising", "falling": "falling", "mixed": "up and down"}
        yield make_dream(
            f"Recurring figure in {memories_text(len(figures.points))}: {quote(figures.frame)}, "
            f"{course[line.direction]}, {change} {range_text(figures.points[0].day, figures.points[-1].day)}.",
            [point.note for point in figures.points],
            why="one sentence with another number each time",
            pattern="figure",
            numbers=numbers,
            fit=line.fit,
        )


def _plain_number(number: float) -> str:
    return f"{number:g}" if abs(number) < 1e6 else f"{number:.0f}"


def _tag_dreams(corpus: Corpus, least: int) -> Iterator[Dream]:
    """Yield one dream for each pair of tags that occur together, the most frequent first."""
    notes_by_tag: dict[str, set[int]] = defaultdict(set)
    together: dict[tuple[str, str], int] = defaultdict(int)
    for note_index, note in enumerate(corpus.notes):
        tags = sorted(set(note.tags))[:_TEMPLATE_TOKENS_LIMIT]
        for index, tag in enumerate(tags):
            notes_by_tag[tag].add(note_index)
            for other in tags[index + 1 :]:
                together[(tag, other)] += 1
    total = len(corpus.notes)
    for (first, second), count in sorted(together.items(), key=lambda item: (-item[1], item[0])):
        rarer, other = sorted((first, second), key=lambda tag: (len(notes_by_tag[tag]), tag))
        # A tag on nearly every memory occurs together with all others, so it is ignored.
        is_everywhere = len(notes_by_tag[other]) > _TOGETHER_SHARE * total
        if (
            count >= least
            and count >= _TOGETHER_SHARE * len(notes_by_tag[rarer])
            and not is_everywhere
        ):
            notes = [
                corpus.notes[note_index]
                for note_index in sorted(notes_by_tag[first] & notes_by_tag[second])
            ]
            yield make_dream(
                f"Tags that go together: {quote(rarer)} and {quote(other)}, in {count} of the "
                f"{memories_text(len(notes_by_tag[rarer]))} tagged {quote(rarer)}.",
                notes,
                why="tags found on the same memories",
                pattern="tags",
                memories=count,
            )


def _rhythm_dreams(
    corpus: Corpus, groups: Sequence[Sequence[FramedSentence]], least: int
) -> Iterator[Dream]:
    """Yield one dream for each event with a rhythm or a favourite weekday."""
    # Measurements occur whenever someone measures, so they have no rhythm of their own.
    candidates = (
        event
        for event in find_events(corpus, groups, least=least + _RHYTHM_EXTRA)
        if not event.is_reading
    )
    for event in sorted(
        candidates, key=lambda event: (-len(event.days), event.is_tag, event.label)
    ):
        regular = find_rhythm(event)
        weekday = find_favourite_weekday(event, share=_WEEKDAY_SHARE)
        span = range_text(event.days[0], event.days[-1])
        subject = f"Memories tagged {quote(event.label)}" if event.is_tag else quote(event.label)
        if regular is not None:
            come = "come" if event.is_tag else "comes"
            text = (
                f"Rhythm: {subject} {come} {rhythm_text(regular)}, {len(event.days)} times {span}."
            )
        elif weekday is not None and _spans_weeks(event):
            text = (
                f"Rhythm: {subject} mostly {'fall' if event.is_tag else 'falls'} on a {WEEKDAY_NAMES[weekday[0]]}, "
                f"{weekday[1]} of {len(event.days)} days {span}."
            )
        else:
            continue
        days = [day.isoformat() for day in event.days]
        yield make_dream(
            text, event.notes, why="the days on which it came", pattern="rhythm", days=days
        )


def _spans_weeks(event: RecurringEvent) -> bool:
    """Return True if the days of an event lie in more than half as many calendar weeks."""
    return len({day.isocalendar()[:2] for day in event.days}) >= len(event.days) // 2 + 1


def rhythm_text(regular: Rhythm) -> str:
    """Return a rhythm in words: "every day", "every Monday", "every 10 days", "every month"."""
    if regular.is_monthly:
        return "every month"
    if regular.period_days == 1:
        return "every day"
    if regular.weekday is not None and regular.period_days == 7:
        return f"every {WEEKDAY_NAMES[regular.weekday]}"
    return f"every {count_text(regular.period_days, 'day')}"
