"""An extractive summary within a budget of tokens: chosen sentences, unchanged, in their original order.

A sentence is worth what it covers that is not covered yet (words, and pairs of words, count by how many notes use
them), times how central it is, how often it was said, how recent and how strong its note is, over the square root of
its length. Old values and old readings, which a later note has overtaken, are left out. The same notes, budget, counter
and time give the same bytes.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from memoranda.consolidation.strategies.series import frames, series
from memoranda.consolidation.text.claims import conflicts
from memoranda.consolidation.text.note import Counter, Note, four_bytes, strongest_first
from memoranda.consolidation.text.reading import Reading, Sentence
from memoranda.consolidation.text.sentences import as_text
from memoranda.consolidation.text.similar import fold
from memoranda.consolidation.text.statement import is_of_its_day
from memoranda.model.instant import DAY_MS

_HALF_LIFE_MS: Final = 90 * DAY_MS
# A sentence most of whose words have been said already adds nothing but length.
_NEW_SHARE: Final = 0.3
# Headings and scraps ("Decisions:", "ok") say little by themselves.
_SCRAP_FACTOR: Final = 0.25
_SCRAP_WORDS: Final = 2
# What happened once is worth less in a summary than what holds.
_EVENT_FACTOR: Final = 0.5
_SERIES_LENGTH: Final = 3
_ROUNDS: Final = 8
_DIGITS: Final = 9


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Chosen sentences and what they stand for."""

    text: str
    sentences: tuple[Sentence, ...]
    # The notes whose sentences are in the text or say the same as one that is; the strongest first.
    notes: tuple[Note, ...]
    tokens: int
    # Different statements that found no room.
    left_out: int
    # The cheapest sentence: below this no budget gives a text. 0 when there is nothing to say.
    smallest_tokens: int


class _Unit(msgspec.Struct, eq=False):
    place: int
    sentence: Sentence
    notes: list[Note]
    tokens: int
    # What it covers, in a fixed order: words, and words beside one another.
    concepts: tuple[str, ...]
    quality: float = 0.0
    weight: float = 0.0


def summarize(
    reading: Reading, *, budget_tokens: int, now: int, count: Counter = four_bytes
) -> Summary:
    """The best sentences that fit; an empty text when not even one does."""
    units = _units(reading, count)
    weights = _weights(units)
    _rate(units, weights, now)
    picked = _pick(units, weights, budget_tokens)
    # A counter may find more tokens in the whole than in its parts.
    while picked and count(_text(picked)) > budget_tokens:
        picked.pop()
    notes = {note.name: note for unit in picked for note in unit.notes}
    text = _text(picked)
    return Summary(
        text=text,
        sentences=tuple(unit.sentence for unit in _in_order(picked)),
        notes=tuple(strongest_first(notes.values())),
        tokens=count(text) if text else 0,
        left_out=len(units) - len(picked),
        smallest_tokens=min((unit.tokens for unit in units), default=0),
    )


def _units(reading: Reading, count: Counter) -> list[_Unit]:
    """Different statements that still hold, each with all the notes that say it."""
    saying: dict[int, list[Note]] = defaultdict(list)
    old = overtaken(reading)
    for sentence, root in zip(reading.sentences, fold(reading.sentences), strict=True):
        saying[root].append(sentence.note)
    found = []
    for root, notes in sorted(saying.items()):
        sentence = reading.sentences[root]
        if (sentence.note.name, sentence.place) not in old:
            found.append(_Unit(root, sentence, notes, count(sentence.text), _concepts(sentence)))
    return found


def _concepts(sentence: Sentence) -> tuple[str, ...]:
    words = sentence.words
    return tuple(
        dict.fromkeys((*words, *(f"{first} {second}" for first, second in pairwise(words))))
    )


def _weights(units: Sequence[_Unit]) -> dict[str, float]:
    notes: dict[str, set[str]] = defaultdict(set)
    for unit in units:
        names = [note.name for note in unit.notes]
        for concept in unit.concepts:
            notes[concept].update(names)
    return {concept: math.log(1.0 + len(names)) for concept, names in notes.items()}


def overtaken(reading: Reading) -> set[tuple[str, int]]:
    """Sentences, as note and place, that a later one contradicts or updates: old values, old readings."""
    disputes = (each for each in conflicts(reading) if each.earlier.note.at < each.later.note.at)
    found = {(each.earlier.note.name, each.earlier.place) for each in disputes}
    for each in series(frames(reading), least=_SERIES_LENGTH):
        last = each.points[-1].number
        found.update(
            (point.note.name, point.place) for point in each.points if point.number != last
        )
    return found


def _rate(units: Sequence[_Unit], weights: dict[str, float], now: int) -> None:
    for unit in units:
        note = unit.sentence.note
        words = sorted(unit.sentence.bag)
        centrality = math.fsum(weights[word] for word in words) / len(words) if words else 0.0
        recency = 0.5 ** min(max(now - note.at, 0) / _HALF_LIFE_MS, 60.0)
        support = math.log(len({note.name for note in unit.notes}))
        strength = max(each.strength for each in unit.notes)
        facts = 0.25 if unit.sentence.numbers else 0.0
        quality = (1.0 + centrality + support + 0.5 * recency + facts) * (
            0.5 + strength / (1.0 + strength)
        )
        if is_of_its_day(unit.sentence.text):
            quality *= _EVENT_FACTOR
        is_scrap = len(words) < _SCRAP_WORDS or unit.sentence.text.endswith((":", "：", "?", "？"))
        unit.weight = math.fsum([weights[concept] for concept in unit.concepts])
        unit.quality = quality * (_SCRAP_FACTOR if is_scrap else 1.0)


def _pick(units: Sequence[_Unit], weights: dict[str, float], budget: int) -> list[_Unit]:
    """Greedy. When everything has been covered once and there is room left, it is covered once more."""
    picked: list[_Unit] = []
    left = budget
    for _ in range(_ROUNDS):
        taken = {unit.place for unit in picked}
        fitting = [
            unit
            for unit in units
            if unit.tokens < left + 1 - bool(picked) and unit.place not in taken
        ]
        more, left = _pick_round(fitting, weights, left, bool(picked))
        if not more:
            break
        picked += more
    return picked


def _pick_round(
    units: Sequence[_Unit], weights: dict[str, float], left: int, is_continued: bool
) -> tuple[list[_Unit], int]:
    """Best first. What a sentence adds only ever shrinks, so the heap need not be made anew."""
    covered: set[str] = set()
    picked: list[_Unit] = []
    heap = [
        (-_worth(unit, weights, covered)[0], unit.place, index) for index, unit in enumerate(units)
    ]
    heapq.heapify(heap)
    while heap:
        stated, place, index = heapq.heappop(heap)
        unit = units[index]
        # A token for the mark and the line end of a list item, once there are several.
        cost = unit.tokens + (1 if picked or is_continued else 0)
        if cost > left:
            continue
        worth, new_share = _worth(unit, weights, covered)
        if picked and new_share < _NEW_SHARE:
            continue
        if heap and (-worth, place) > heap[0][:2] and -worth != stated:
            heapq.heappush(heap, (-worth, place, index))
            continue
        picked.append(unit)
        covered.update(unit.concepts)
        left -= cost
    return picked, left


def _worth(unit: _Unit, weights: dict[str, float], covered: set[str]) -> tuple[float, float]:
    new = math.fsum([weights[concept] for concept in unit.concepts if concept not in covered])
    share = new / unit.weight if unit.weight else 1.0
    # A sentence without search words ("To be or not to be") still says something.
    gain = new if unit.concepts else 0.1
    return round(gain * unit.quality / math.sqrt(max(unit.tokens, 1)), _DIGITS), share


def _in_order(units: Sequence[_Unit]) -> list[_Unit]:
    return sorted(units, key=lambda unit: unit.place)


def _text(units: Sequence[_Unit]) -> str:
    return as_text([unit.sentence.text for unit in _in_order(units)])
