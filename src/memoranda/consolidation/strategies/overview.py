"""reflect: what the store itself looks like. One text about all notes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    counted,
    day_text,
    dream,
    listed,
    memories,
    span_text,
)
from memoranda.consolidation.strategies.linking import as_written
from memoranda.consolidation.text.claims import agreements, conflicts, read_claims
from memoranda.consolidation.text.cluster import clusters
from memoranda.consolidation.text.note import Note, quote
from memoranda.consolidation.text.reading import Reading, topic_words
from memoranda.consolidation.text.similar import Vectors, same_statement_groups
from memoranda.model.instant import DAY_MS

_MONTH_DAYS: Final = 30
_OLD_DAYS: Final = 180
_GAP_DAYS: Final = 14
_SHOWN: Final = 5
_TOPIC_LIKENESS: Final = 0.3
_TOPIC_NOTES_LIMIT: Final = 200


def reflect(reading: Reading, now: int, options: Options) -> list[Dream]:
    """How many, since when, about what, how sure, and what is missing."""
    del options
    notes = reading.notes
    if len(notes) < 2:
        return []
    parts = {
        "size": _size(notes, now),
        "topics": _topics(reading),
        "tags": _tags(notes),
        "agreement": _agreement(reading),
        "gaps": _gaps(notes, now),
    }
    lines = [line for found in parts.values() for line in found]
    made = dream(
        "\n".join(lines),
        notes,
        why="counted over all memories given",
        memories=len(notes),
        first=day_text(notes[0].at),
        last=day_text(notes[-1].at),
        parts={name: len(found) for name, found in parts.items()},
    )
    # Counting is sure, however unsure the memories are.
    return [replace(made, confidence=None)]


def _size(notes: Sequence[Note], now: int) -> list[str]:
    month = _MONTH_DAYS * DAY_MS
    recent = sum(now - month < note.at <= now for note in notes)
    before = sum(now - 2 * month < note.at <= now - month for note in notes)
    return [
        f"{memories(len(notes))}, written {span_text(notes)}.",
        f"{recent} in the last {_MONTH_DAYS} days, {before} in the {_MONTH_DAYS} days before.",
    ]


def _topics(reading: Reading) -> list[str]:
    vectors = Vectors([topic_words(note.text) for note in reading.notes])
    pairs = ((pair.first, pair.second) for pair in vectors.pairs(_TOPIC_LIKENESS))
    groups = clusters(len(reading.notes), pairs, largest=_TOPIC_NOTES_LIMIT)
    if not groups:
        return []
    groups.sort(key=lambda group: (-len(group), group))
    shown = [
        f"{quote(_topic(reading, vectors, group), 40)} ({len(group)})" for group in groups[:_SHOWN]
    ]
    alone = len(reading.notes) - sum(map(len, groups))
    tail = f" {memories(alone)} {'stands' if alone == 1 else 'stand'} alone." if alone else ""
    return [
        f"{counted(len(groups), 'topic')} with more than one memory; largest: {listed(shown)}.{tail}"
    ]


def _topic(reading: Reading, vectors: Vectors, group: Sequence[int]) -> str:
    """The words that most notes of a group share and few others have."""
    total: dict[str, float] = {}
    for place in group:
        for word, weight in vectors.weights[place].items():
            total[word] = total.get(word, 0.0) + weight
    words = sorted(total, key=lambda word: (-round(total[word], 9), word))[:2]
    # As they stand in a note that has most of them, in its order.
    spoken = [(reading.notes[place].text, vectors.weights[place]) for place in group]
    text, having = max(spoken, key=lambda each: sum(word in each[1] for word in words))
    written = [as_written(word, text) for word in words if word in having]
    return " ".join(sorted(dict.fromkeys(written), key=text.find))


def _tags(notes: Sequence[Note]) -> list[str]:
    counts: dict[str, int] = {}
    for note in notes:
        for tag in set(note.tags):
            counts[tag] = counts.get(tag, 0) + 1
    most = sorted(counts, key=lambda tag: (-counts[tag], tag))[:_SHOWN]
    return (
        [f"Most used tags: {listed([f'{quote(tag, 40)} ({counts[tag]})' for tag in most])}."]
        if most
        else []
    )


def _agreement(reading: Reading) -> list[str]:
    claims = [claim for claim in read_claims(reading) if claim.mood == "fact"]
    disputes = conflicts(reading)
    supported = agreements(claims)
    doubles = same_statement_groups(reading)
    lines = []
    if claims:
        lines.append(
            f"{counted(len(claims), 'present claim')}: {len(supported)} corroborated, "
            f"{counted(len(disputes), 'contradiction')}."
        )
    if disputes:
        last = max(
            disputes,
            key=lambda each: (each.later.note.at, each.later.note.name, each.earlier.note.name),
        )
        lines.append(
            f"Latest contradiction: {quote(last.earlier.sentence, 80)} and {quote(last.later.sentence, 80)}."
        )
    if doubles:
        extra = sum(len(group) - 1 for group in doubles)
        lines.append(
            f"{memories(extra)} {'repeats' if extra == 1 else 'repeat'} what another one says."
        )
    return lines


def _gaps(notes: Sequence[Note], now: int) -> list[str]:
    lines = []
    gap, at = max((later.at - note.at, note.at) for note, later in itertools.pairwise(notes))
    if gap >= _GAP_DAYS * DAY_MS:
        lines.append(
            f"Longest silence: {gap // DAY_MS} days, {day_text(at)} to {day_text(at + gap)}."
        )
    old = sum(now - note.at > _OLD_DAYS * DAY_MS for note in notes)
    lacking = {
        f"older than {_OLD_DAYS} days": old,
        "without a tag": sum(not note.tags for note in notes),
        "without a source": sum(not note.source for note in notes),
        "without a stated confidence": sum(note.stated_confidence is None for note in notes),
    }
    found = [f"{count} {what}" for what, count in lacking.items() if count]
    return [*lines, f"Of {len(notes)}: {listed(found)}."] if found else lines
