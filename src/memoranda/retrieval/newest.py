"""The newest of several statements of the same fact: among results that state nearly the same, the newer one leads.

Two texts state nearly the same if they share most of their words, or if both embedding models find them nearly equal.
A newer text passes an older one only if it has the query words of the older one: an order with another number is
another order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.analysis import normalised_text, searchable_text
from memoranda.retrieval.languages import NOW_WORDS, fold
from memoranda.retrieval.retrievers import SearchedSegment, is_in_sorted
from memoranda.retrieval.segment import Floats
from memoranda.retrieval.weights import (
    SAME_FACT_SIMILARITY,
    SAME_FACT_SIMILARITY_NOW,
    SAME_FACT_WORDS,
    SAME_FACT_WORDS_NOW,
)

# Results that are compared with one another.
COMPARED_RESULTS: Final = 16
# Characters: a longer text is no single fact, so its words are not compared.
_FACT_CHARS: Final = 400
# The difference of two scores of which only the order matters.
_STEP: Final = 1e-9
_NOW_PHRASES: Final = re.compile(
    r"\b(?:these days|at present|at the moment|right now|last time|most recent|as of today|up to date)\b"
    r"|现在|目前|最新|当前|如今|現在|いま|最近"
)


class Fact(NamedTuple):
    """A result, as far as this comparison needs it."""

    text: str
    # The time of observation in Unix milliseconds, and the number of the version.
    time: int
    version_id: int
    # The weight of the query words that it contains.
    covered: float


def asks_for_now(query: str) -> bool:
    """Return True if a query asks for the present state: "now", "current", "these days"."""
    text = fold(query)
    words = re.findall(r"[^\W_]+", text)
    return not NOW_WORDS.isdisjoint(words) or _NOW_PHRASES.search(text) is not None


def lead_with_newest(
    facts: Sequence[Fact], similarities: Floats | None, *, is_now: bool
) -> list[int]:
    """Return the order of results, given best first, in which the newest statement of each fact comes first.

    The statements of a fact keep their positions among the other results. `similarities` has one row per result: the
    cosine of the first model twice plus that of the second; NaN if unknown.
    """
    words = [frozenset(searchable_text(fact.text).split()) for fact in facts]
    positions = list(range(len(facts)))
    order = list(positions)
    is_placed = _find_duplicates(facts)
    for best in positions:
        if is_placed[best]:
            continue
        group = [best]
        for other in positions[best + 1 :]:
            if not is_placed[other] and facts[other].covered >= facts[best].covered:
                similarity = np.nan if similarities is None else similarities[best, other]
                if _is_same_fact(words[best], words[other], float(similarity), is_now=is_now):
                    group.append(other)
        newest_first = sorted(
            group, key=lambda index: (facts[index].time, facts[index].version_id), reverse=True
        )
        for position, index in zip(group, newest_first, strict=True):
            order[position] = index
            is_placed[position] = True
    return order


def falling_scores(scores: Sequence[float], order: Sequence[int]) -> list[float]:
    """Return the scores of results in a new order, given by the positions of the first ones in the old order.

    Results of equal score are sorted by name later. So the scores differ by a step where that would undo the order.
    """
    positions = [*order, *range(len(order), len(scores))]
    falling = list(scores[:1])
    for index, (previous, position) in enumerate(pairwise(positions), start=1):
        score = min(scores[index], falling[-1])
        is_tie = previous < position and scores[previous] == scores[position]
        falling.append(score - _STEP if score == falling[-1] and not is_tie else score)
    return falling


def _find_duplicates(facts: Sequence[Fact]) -> list[bool]:
    """Return a flag for each fact: True if a better result has the same text. Duplicates keep their positions."""
    texts: set[str] = set()
    flags = []
    for fact in facts:
        text = normalised_text(fact.text)
        flags.append(bool(text) and text in texts)
        texts.add(text)
    return flags


def _is_same_fact(
    first: frozenset[str], second: frozenset[str], similarity: float, *, is_now: bool
) -> bool:
    """Return True if two texts, given by their words, state nearly the same."""
    if similarity >= (SAME_FACT_SIMILARITY_NOW if is_now else SAME_FACT_SIMILARITY):
        return True
    common = len(first & second)
    required = SAME_FACT_WORDS_NOW if is_now else SAME_FACT_WORDS
    return common > 0 and common >= required * len(first | second)


def states_same_fact(first: str, second: str) -> bool:
    """Return True if two different texts state nearly the same, by their words."""
    if normalised_text(first) == normalised_text(second):
        return False
    words, other_words = (frozenset(searchable_text(text).split()) for text in (first, second))
    return _is_same_fact(words, other_words, float("nan"), is_now=False)


def fact_text(text: str) -> str:
    """Return the text of a possible fact; empty for a longer text, whose words are not compared."""
    return text if len(text) <= _FACT_CHARS else ""


def collect_facts(
    ids: NDArray[np.int64],
    texts: Mapping[int, str],
    segments: Sequence[SearchedSegment],
    weights: NDArray[np.float64],
) -> list[Fact]:
    """Return some versions as facts. `weights` are those of the query words, in the order of the postings."""
    times, covered = np.zeros(len(ids), np.int64), np.zeros(len(ids))
    order = np.argsort(ids)
    for segment in segments:
        columns = segment.columns
        rows = columns.rows_of(ids[order])
        indexes = order[is_in_sorted(ids[order], columns.versions)]
        times[indexes] = columns.times[rows]
        for weight, postings in zip(weights, segment.postings, strict=False):
            if postings is not None and len(rows):
                covered[indexes] += weight * is_in_sorted(rows, postings[0])
    return [
        Fact(texts.get(version_id, ""), time, version_id, weight)
        for version_id, time, weight in zip(
            ids.tolist(), times.tolist(), covered.round(6).tolist(), strict=True
        )
    ]


def readable_versions(
    ids: NDArray[np.int64], segments: Sequence[SearchedSegment], trust: tuple[float, ...]
) -> NDArray[np.int64]:
    """Return the ids, with 0 for versions in languages that the embedding model does not read well."""
    if not trust:
        return ids
    readable = np.zeros(len(ids), np.bool_)
    for segment in segments:
        columns = segment.columns
        rows = columns.rows_of(np.sort(ids))
        is_read = np.array(trust).take(columns.languages.take(rows), mode="clip") == 1
        readable |= np.isin(ids, columns.versions[rows[is_read]])
    return np.where(readable, ids, 0)
