"""An extractive summary within a token budget: selected sentences, unchanged, in their original order.

Sentences are selected greedily by gain. The gain is the weight of the concepts (words and word pairs, weighted by the
number of notes that use them) that are not covered yet, times the quality of the sentence, divided by the square root
of its length in tokens. Quality combines centrality, repetition, recency and the strength of the note. Values that a
later note has replaced are left out.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from memoranda.consolidation.strategies.series import find_series, group_by_frame
from memoranda.consolidation.text.claims import find_conflicts
from memoranda.consolidation.text.corpus import Corpus, Sentence, is_past_event
from memoranda.consolidation.text.note import (
    MemoryNote,
    TokenCounter,
    estimate_tokens,
    sort_by_strength,
)
from memoranda.consolidation.text.sentences import join_statements
from memoranda.consolidation.text.similar import fold_duplicates
from memoranda.model.instant import DAY_MS

_HALF_LIFE_MS: Final = 90 * DAY_MS
# The share of a sentence's concept weight that must be new.
_NEW_SHARE: Final = 0.3
# Factor for headings and scraps ("Decisions:", "ok"), which mean little alone.
_SCRAP_FACTOR: Final = 0.25
_SCRAP_WORDS: Final = 2
# Factor for a single past event, which is worth less than a lasting fact.
_EVENT_FACTOR: Final = 0.5
_SERIES_LENGTH: Final = 3
_ROUNDS: Final = 8
_DIGITS: Final = 9


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The selected sentences, and the notes that they represent."""

    text: str
    sentences: tuple[Sentence, ...]
    # The notes with a sentence in the text, or with an equal statement; the strongest first.
    notes: tuple[MemoryNote, ...]
    tokens: int
    # Number of different statements for which the budget was too small.
    left_out: int
    # Tokens of the cheapest sentence, and so the smallest useful budget; 0 without sentences.
    smallest_tokens: int


class _Candidate(msgspec.Struct, eq=False):
    """A statement that may be selected, with all notes that make it."""

    index: int
    sentence: Sentence
    notes: list[MemoryNote]
    tokens: int
    # Words and pairs of adjacent words, in a fixed order.
    concepts: tuple[str, ...]
    quality: float = 0.0
    weight: float = 0.0


def summarize(
    corpus: Corpus, *, budget_tokens: int, now: int, count: TokenCounter = estimate_tokens
) -> Summary:
    """Return the best sentences that fit the budget; an empty text if none does.

    `now` is in milliseconds since 1970; `count` returns the tokens of a text.
    """
    units = _collect_candidates(corpus, count)
    weights = _weigh_concepts(units)
    _rate_candidates(units, weights, now)
    picked_units = _pick_sentences(units, weights, budget_tokens)
    # A counter may find more tokens in the joined text than in its parts.
    while picked_units and count(_join_text(picked_units)) > budget_tokens:
        picked_units.pop()
    notes = {note.name: note for unit in picked_units for note in unit.notes}
    text = _join_text(picked_units)
    return Summary(
        text=text,
        sentences=tuple(unit.sentence for unit in _sort_by_position(picked_units)),
        notes=tuple(sort_by_strength(notes.values())),
        tokens=count(text) if text else 0,
        left_out=len(units) - len(picked_units),
        smallest_tokens=min((unit.tokens for unit in units), default=0),
    )


def _collect_candidates(corpus: Corpus, count: TokenCounter) -> list[_Candidate]:
    """Return the different current statements, each with all notes that make it."""
    notes_by_statement: dict[int, list[MemoryNote]] = defaultdict(list)
    overtaken = find_overtaken(corpus)
    for sentence, root in zip(corpus.sentences, fold_duplicates(corpus.sentences), strict=True):
        notes_by_statement[root].append(sentence.note)
    candidates = []
    for root, notes in sorted(notes_by_statement.items()):
        sentence = corpus.sentences[root]
        if (sentence.note.name, sentence.index) not in overtaken:
            candidates.append(
                _Candidate(root, sentence, notes, count(sentence.text), _list_concepts(sentence))
            )
    return candidates


def _list_concepts(sentence: Sentence) -> tuple[str, ...]:
    words = sentence.words
    return tuple(
        dict.fromkeys((*words, *(f"{first} {second}" for first, second in pairwise(words))))
    )


def _weigh_concepts(units: Sequence[_Candidate]) -> dict[str, float]:
    """Return the weight of each concept by the number of notes that use it."""
    notes: dict[str, set[str]] = defaultdict(set)
    for unit in units:
        names = [note.name for note in unit.notes]
        for concept in unit.concepts:
            notes[concept].update(names)
    return {concept: math.log(1.0 + len(names)) for concept, names in notes.items()}


def find_overtaken(corpus: Corpus) -> set[tuple[str, int]]:
    """Return the sentences (note name, sentence index) that a later one contradicts or updates."""
    disputes = (
        dispute
        for dispute in find_conflicts(corpus)
        if dispute.earlier.note.at < dispute.later.note.at
    )
    positions = {
        (dispute.earlier.note.name, dispute.earlier.sentence_index) for dispute in disputes
    }
    for figures in find_series(group_by_frame(corpus), least=_SERIES_LENGTH):
        last = figures.points[-1].number
        positions.update(
            (point.note.name, point.sentence_index)
            for point in figures.points
            if point.number != last
        )
    return positions


def _rate_candidates(units: Sequence[_Candidate], weights: dict[str, float], now: int) -> None:
    """Set the quality and the weight of each candidate."""
    for unit in units:
        note = unit.sentence.note
        words = sorted(unit.sentence.word_set)
        centrality = math.fsum(weights[word] for word in words) / len(words) if words else 0.0
        recency = 0.5 ** min(max(now - note.at, 0) / _HALF_LIFE_MS, 60.0)
        support = math.log(len({note.name for note in unit.notes}))
        strength = max(supporter.strength for supporter in unit.notes)
        facts = 0.25 if unit.sentence.numbers else 0.0
        quality = (1.0 + centrality + support + 0.5 * recency + facts) * (
            0.5 + strength / (1.0 + strength)
        )
        if is_past_event(unit.sentence.text):
            quality *= _EVENT_FACTOR
        is_scrap = len(words) < _SCRAP_WORDS or unit.sentence.text.endswith((":", "：", "?", "？"))
        unit.weight = math.fsum([weights[concept] for concept in unit.concepts])
        unit.quality = quality * (_SCRAP_FACTOR if is_scrap else 1.0)


def _pick_sentences(
    units: Sequence[_Candidate], weights: dict[str, float], budget: int
) -> list[_Candidate]:
    """Select sentences in rounds: while there is budget left, each round covers all concepts once more."""
    picked_units: list[_Candidate] = []
    remaining = budget
    for _ in range(_ROUNDS):
        picked_indices = {unit.index for unit in picked_units}
        fitting = [
            unit
            for unit in units
            if unit.tokens < remaining + 1 - bool(picked_units) and unit.index not in picked_indices
        ]
        further_units, remaining = _pick_round(fitting, weights, remaining, bool(picked_units))
        if not further_units:
            break
        picked_units += further_units
    return picked_units


def _pick_round(
    units: Sequence[_Candidate], weights: dict[str, float], budget: int, is_continued: bool
) -> tuple[list[_Candidate], int]:
    """Select sentences of one round, the best first.

    The gain of a sentence only shrinks, so a heap entry is recomputed when it comes to the top (lazy greedy).
    """
    covered: set[str] = set()
    picked_units: list[_Candidate] = []
    heap = [
        (-_rate_gain(unit, weights, covered)[0], unit.index, index)
        for index, unit in enumerate(units)
    ]
    heapq.heapify(heap)
    while heap:
        stated_gain, position, index = heapq.heappop(heap)
        unit = units[index]
        # One more token for the marker and line end of a list item, if there are several sentences.
        cost = unit.tokens + (1 if picked_units or is_continued else 0)
        if cost > budget:
            continue
        worth, new_share = _rate_gain(unit, weights, covered)
        if picked_units and new_share < _NEW_SHARE:
            continue
        if heap and (-worth, position) > heap[0][:2] and -worth != stated_gain:
            heapq.heappush(heap, (-worth, position, index))
            continue
        picked_units.append(unit)
        covered.update(unit.concepts)
        budget -= cost
    return picked_units, budget


def _rate_gain(
    unit: _Candidate, weights: dict[str, float], covered: set[str]
) -> tuple[float, float]:
    """Return the gain of a candidate per root of its tokens, and the share of its concepts that is new."""
    new_weight = math.fsum(
        [weights[concept] for concept in unit.concepts if concept not in covered]
    )
    share = new_weight / unit.weight if unit.weight else 1.0
    # A sentence without search words ("To be or not to be") still has a small gain.
    gain = new_weight if unit.concepts else 0.1
    return round(gain * unit.quality / math.sqrt(max(unit.tokens, 1)), _DIGITS), share


def _sort_by_position(units: Sequence[_Candidate]) -> list[_Candidate]:
    return sorted(units, key=lambda unit: unit.index)


def _join_text(units: Sequence[_Candidate]) -> str:
    return join_statements([unit.sentence.text for unit in _sort_by_position(units)])
