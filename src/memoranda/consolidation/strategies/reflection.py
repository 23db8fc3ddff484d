"""The strategy `reflect`: one text that describes all notes by size, topics, tags, agreement and gaps.

Each part is a function that returns its lines, or none. Topics are groups of notes with similar words: pairs above a
similarity are joined, the strongest first (`cluster_pairs`), and a group is named by its two heaviest words. Agreement
counts claims, contradictions and duplicates. Gaps are the longest time without a note, and fields that many notes
lack.

Everything is counted, nothing is judged. The text is made of lines, so that it can be shown in parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from memoranda.consolidation.strategies.dream import (
    Dream,
    Options,
    count_text,
    day_text,
    join_phrases,
    make_dream,
    memories_text,
    span_text,
)
from memoranda.consolidation.strategies.linking import as_written
from memoranda.consolidation.text.claims import find_agreements, find_conflicts, read_claims
from memoranda.consolidation.text.corpus import Corpus, topic_words
from memoranda.consolidation.text.note import MemoryNote, quote
from memoranda.consolidation.text.similar import TfidfVectors, group_duplicates
from memoranda.model.instant import DAY_MS

# Days of the recent period, of an old note, and of a silence worth a mention.
_MONTH_DAYS: Final = 30
_OLD_DAYS: Final = 180
_GAP_DAYS: Final = 14
_SHOWN: Final = 5
_TOPIC_LIKENESS: Final = 0.3
# Notes of a topic, so that chains of pairs do not join the whole store.
_TOPIC_NOTES_LIMIT: Final = 200


def reflect(corpus: Corpus, now: int, options: Options) -> list[Dream]:
    """Return one dream with counts, time range, topics, tags, contradictions and gaps; none for fewer than 2 notes."""
    del options
    notes = corpus.notes
    if len(notes) < 2:
        return []
    parts = {
        "size": _size_lines(notes, now),
        "topics": _topic_lines(corpus),
        "tags": _tag_lines(notes),
        "agreement": _agreement_lines(corpus),
        "gaps": _gap_lines(notes, now),
    }
    lines = [line for part_lines in parts.values() for line in part_lines]
    result = make_dream(
        "\n".join(lines),
        notes,
        why="counted over all memories",
        memories=len(notes),
        first=day_text(notes[0].at),
        last=day_text(notes[-1].at),
        parts={name: len(part_lines) for name, part_lines in parts.items()},
    )
    # The counts are exact, so the confidence of the notes does not apply.
    return [replace(result, confidence=None)]


def _size_lines(notes: Sequence[MemoryNote], now: int) -> list[str]:
    """Return the number of notes, their time range, and how many are recent."""
    month = _MONTH_DAYS * DAY_MS
    recent = sum(now - month < note.at <= now for note in notes)
    before = sum(now - 2 * month < note.at <= now - month for note in notes)
    return [
        f"{memories_text(len(notes))}, written {span_text(notes)}.",
        f"{recent} in the last {_MONTH_DAYS} days, {before} in the {_MONTH_DAYS} days before.",
    ]


def _topic_lines(corpus: Corpus) -> list[str]:
    """Return the number of topics and the names of the largest."""
    vectors = TfidfVectors([topic_words(note.text) for note in corpus.notes])
    pairs = ((pair.first, pair.second) for pair in vectors.similar_pairs(_TOPIC_LIKENESS))
    groups = cluster_pairs(len(corpus.notes), pairs, largest=_TOPIC_NOTES_LIMIT)
    if not groups:
        return []
    groups.sort(key=lambda group: (-len(group), group))
    topics = [
        f"{quote(_name_topic(corpus, vectors, group), 40)} ({len(group)})"
        for group in groups[:_SHOWN]
    ]
    alone = len(corpus.notes) - sum(map(len, groups))
    tail = f" {memories_text(alone)} {'stands' if alone == 1 else 'stand'} alone." if alone else ""
    return [
        f"{count_text(len(groups), 'topic')} with more than one memory; largest: {join_phrases(topics)}.{tail}"
    ]


def _name_topic(corpus: Corpus, vectors: TfidfVectors, group: Sequence[int]) -> str:
    """Return the two words with the highest weight in a group, as one of its notes spells them."""
    total: dict[str, float] = {}
    for index in group:
        for word, weight in vectors.weights[index].items():
            total[word] = total.get(word, 0.0) + weight
    words = sorted(total, key=lambda word: (-round(total[word], 9), word))[:2]
    # Spelling and order of the note that has most of the words.
    spoken = [(corpus.notes[index].text, vectors.weights[index]) for index in group]
    text, having = max(spoken, key=lambda candidate: sum(word in candidate[1] for word in words))
    spelled = [as_written(word, text) for word in words if word in having]
    return " ".join(sorted(dict.fromkeys(spelled), key=text.find))


def _tag_lines(notes: Sequence[MemoryNote]) -> list[str]:
    """Return the most frequent tags."""
    counts: dict[str, int] = {}
    for note in notes:
        for tag in set(note.tags):
            counts[tag] = counts.get(tag, 0) + 1
    top_tags = sorted(counts, key=lambda tag: (-counts[tag], tag))[:_SHOWN]
    return (
        [
            f"Most used tags: {join_phrases([f'{quote(tag, 40)} ({counts[tag]})' for tag in top_tags])}."
        ]
        if top_tags
        else []
    )


def _agreement_lines(corpus: Corpus) -> list[str]:
    """Return the numbers of claims, corroborations, contradictions and duplicates."""
    claims = [claim for claim in read_claims(corpus) if claim.mood == "fact"]
    disputes = find_conflicts(corpus)
    supported = find_agreements(claims)
    doubles = group_duplicates(corpus)
    lines = []
    if claims:
        lines.append(
            f"{count_text(len(claims), 'present claim')}: {len(supported)} corroborated, "
            f"{count_text(len(disputes), 'contradiction')}."
        )
    if disputes:
        last = max(
            disputes,
            key=lambda dispute: (
                dispute.later.note.at,
                dispute.later.note.name,
                dispute.earlier.note.name,
            ),
        )
        lines.append(
            f"Latest contradiction: {quote(last.earlier.sentence, 80)} and {quote(last.later.sentence, 80)}."
        )
    if doubles:
        extra = sum(len(group) - 1 for group in doubles)
        lines.append(
            f"{memories_text(extra)} {'repeats' if extra == 1 else 'repeat'} what another one says."
        )
    return lines


def _gap_lines(notes: Sequence[MemoryNote], now: int) -> list[str]:
    """Return the longest silence, and the shares of notes that lack a field."""
    lines = []
    gap, at = max(
        (next_note.at - note.at, note.at) for note, next_note in itertools.pairwise(notes)
    )
    if gap >= _GAP_DAYS * DAY_MS:
        lines.append(
            f"Longest silence: {gap // DAY_MS} days, {day_text(at)} to {day_text(at + gap)}."
        )
    old_count = sum(now - note.at > _OLD_DAYS * DAY_MS for note in notes)
    lacking = {
        f"older than {_OLD_DAYS} days": old_count,
        "without a tag": sum(not note.tags for note in notes),
        "without a source": sum(not note.source for note in notes),
        "without a stated confidence": sum(note.stated_confidence is None for note in notes),
    }
    shares = [f"{count} {description}" for description, count in lacking.items() if count]
    return [*lines, f"Of {len(notes)}: {join_phrases(shares)}."] if shares else lines


class DisjointSets:
    """Disjoint sets of indices: union-find with the smallest index as the root."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))
        self._size = [1] * count

    def find_root(self, index: int) -> int:
        """Return the smallest index of a group, and shorten the path to it."""
        parent = self._parent
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    def join(self, first: int, second: int, *, largest: int | None = None) -> bool:
        """Join the groups of two indices; return False if the group would have more than `largest` members."""
        first, second = sorted((self.find_root(first), self.find_root(second)))
        if first == second:
            return True
        size = self._size[first] + self._size[second]
        if largest is not None and size > largest:
            return False
        self._parent[second] = first
        self._size[first] = size
        return True

    def list_groups(self) -> list[tuple[int, ...]]:
        """Return all groups, ordered by their first index."""
        groups: dict[int, list[int]] = {}
        for index in range(len(self._parent)):
            groups.setdefault(self.find_root(index), []).append(index)
        return [tuple(members) for members in groups.values()]


def cluster_pairs(
    count: int, pairs: Iterable[tuple[int, int]], *, largest: int | None = None
) -> list[tuple[int, ...]]:
    """Return the groups with at least two members. Pairs are joined in their order, so pass the strongest first."""
    groups = DisjointSets(count)
    for first, second in pairs:
        groups.join(first, second, largest=largest)
    return [group for group in groups.list_groups() if len(group) > 1]
