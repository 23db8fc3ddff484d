"""Similarity of texts, by statement or by topic, without comparing all pairs.

`fold_duplicates` finds sentences with equal statement keys (`text.corpus`).

`TfidfVectors` compares topics by the cosine of TF-IDF vectors. Candidate pairs come from posting lists of each text's
heaviest words. From a long posting list only the neighbours of the text are taken, so that the work is linear in the
number of texts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from memoranda.consolidation.text.corpus import Corpus, Sentence
from memoranda.consolidation.text.note import MemoryNote

# Per text: heaviest words with a posting list, neighbours taken from each list on either side, and candidates compared.
_KEY_WORDS: Final = 10
_NEIGHBOURS: Final = 60
_CANDIDATES: Final = 40


@dataclass(frozen=True, slots=True, order=True)
class SimilarPair:
    """The indices of two texts, the smaller first, and their similarity."""

    first: int
    second: int
    score: float


def jaccard_similarity(first: Set[str], second: Set[str]) -> float:
    """Return the share of common words among all words of two sets."""
    if not first and not second:
        return 0.0
    common = len(first & second)
    return common / (len(first) + len(second) - common)


def fold_duplicates(sentences: Sequence[Sentence]) -> list[int]:
    """Return for each sentence the index of its representative: the newest sentence with the same key."""
    newest: dict[Hashable, int] = {}
    for index in sorted(range(len(sentences)), key=lambda index: _preference_key(sentences[index])):
        newest.setdefault(sentences[index].key, index)
    return [newest[sentence.key] for sentence in sentences]


def _preference_key(sentence: Sentence) -> tuple[object, ...]:
    note = sentence.note
    return (-note.at, -note.strength, -len(sentence.text), note.name, sentence.index)


def group_duplicates(corpus: Corpus) -> list[tuple[MemoryNote, ...]]:
    """Return groups of near-duplicates: at least two notes with the same set of statements, oldest first."""
    representatives = fold_duplicates(corpus.sentences)
    statements_by_note: dict[str, set[int]] = defaultdict(set)
    for sentence, root in zip(corpus.sentences, representatives, strict=True):
        statements_by_note[sentence.note.name].add(root)
    groups: dict[frozenset[int], list[MemoryNote]] = defaultdict(list)
    for note in corpus.notes:
        if note.name in statements_by_note:
            groups[frozenset(statements_by_note[note.name])].append(note)
    return [tuple(group) for group in groups.values() if len(group) > 1]


class TfidfVectors:
    """TF-IDF vectors of texts, each text a sequence of words."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self.frequency: dict[str, int] = defaultdict(int)
        counts: list[dict[str, int]] = []
        for document in documents:
            count: dict[str, int] = {}
            for word in document:
                count[word] = count.get(word, 0) + 1
            counts.append(count)
            for word in count:
                self.frequency[word] += 1
        total = len(documents)
        rarity = {
            word: math.log(1.0 + total / count_of_texts)
            for word, count_of_texts in self.frequency.items()
        }
        self.weights = [
            _normalize({word: (1.0 + math.log(n)) * rarity[word] for word, n in c.items()})
            for c in counts
        ]

    def cosine(self, first: int, second: int) -> float:
        """Return the similarity of two texts, from 0 to 1."""
        return cosine_similarity(self.weights[first], self.weights[second])

    def shared_words(self, first: int, second: int) -> list[str]:
        """Return the common words of two texts by descending contribution to their similarity."""
        ours, other_weights = self.weights[first], self.weights[second]
        return sorted(
            (word for word in ours if word in other_weights),
            key=lambda word: (-ours[word] * other_weights[word], word),
        )

    def similar_pairs(self, threshold: float, *, nearest: int = _CANDIDATES) -> list[SimilarPair]:
        """Return the pairs with a similarity of at least `threshold`, the best first; at most `nearest` per text."""
        postings: dict[str, list[int]] = defaultdict(list)
        positions: list[dict[str, int]] = []
        for index, weights in enumerate(self.weights):
            by_weight = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
            keys = [word for word, _ in by_weight[:_KEY_WORDS]]
            positions.append({word: len(postings[word]) for word in keys})
            for word in keys:
                postings[word].append(index)
        scores: dict[tuple[int, int], float] = {}
        for index, key_positions in enumerate(positions):
            for other, score in self._nearest(index, key_positions, postings, threshold)[:nearest]:
                scores[(min(index, other), max(index, other))] = score
        pairs = (SimilarPair(first, second, score) for (first, second), score in scores.items())
        return sorted(pairs, key=lambda pair: (-pair.score, pair.first, pair.second))

    def _nearest(
        self, index: int, keys_at: dict[str, int], lists: dict[str, list[int]], threshold: float
    ) -> list[tuple[int, float]]:
        own_weights = self.weights[index]
        partial_sums: dict[int, float] = {}
        for word, position in keys_at.items():
            weight = own_weights[word]
            for other in lists[word][max(0, position - _NEIGHBOURS) : position + _NEIGHBOURS + 1]:
                partial_sums[other] = (
                    partial_sums.get(other, 0.0) + weight * self.weights[other][word]
                )
        partial_sums.pop(index, None)
        candidates = sorted(partial_sums, key=lambda other: (-partial_sums[other], other))[
            :_CANDIDATES
        ]
        similarities = ((other, round(self.cosine(index, other), 6)) for other in candidates)
        return sorted(
            (pair for pair in similarities if pair[1] >= threshold),
            key=lambda pair: (-pair[1], pair[0]),
        )


def cosine_similarity(first: dict[str, float], second: dict[str, float]) -> float:
    """Return the cosine of two unit vectors."""
    if len(first) > len(second):
        first, second = second, first
    return math.fsum([weight * second[word] for word, weight in first.items() if word in second])


def _normalize(weights: dict[str, float]) -> dict[str, float]:
    """Return weights divided by their Euclidean length."""
    length = math.sqrt(math.fsum(weight * weight for weight in weights.values()))
    return {word: weight / length for word, weight in weights.items()} if length else {}
