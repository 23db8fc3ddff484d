"""How alike texts are: the same statement, or the same topic. Without comparing every pair.

`fold` finds sentences that say the same: those with the same key (`text.statement`), the same words in the same order.

`Vectors` compares topics: TF-IDF over the texts given, cosine between two of them. Candidates come from the lists of a
text's weightiest words, and of a list longer than a limit only its neighbours in it are taken, so that the work grows
with the number of texts and not with its square.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from memoranda.consolidation.text.note import Note
from memoranda.consolidation.text.reading import Reading, Sentence

# A text is found through its weightiest words, and a common word leads only to its neighbours in time.
_KEY_WORDS: Final = 10
_NEIGHBOURS: Final = 60
_CANDIDATES: Final = 40


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """Two places in a list, the smaller first, and how alike what lies there is."""

    first: int
    second: int
    score: float


def jaccard(first: Set[str], second: Set[str]) -> float:
    """The share of common words among all words of two sets."""
    if not first and not second:
        return 0.0
    common = len(first & second)
    return common / (len(first) + len(second) - common)


def fold(sentences: Sequence[Sentence]) -> list[int]:
    """For each sentence the place of the one that stands for it: itself, or the newest that says the same."""
    newest: dict[Hashable, int] = {}
    for place in sorted(range(len(sentences)), key=lambda place: _preference(sentences[place])):
        newest.setdefault(sentences[place].key, place)
    return [newest[sentence.key] for sentence in sentences]


def _preference(sentence: Sentence) -> tuple[object, ...]:
    note = sentence.note
    return (-note.at, -note.strength, -len(sentence.text), note.name, sentence.place)


def same_statement_groups(reading: Reading) -> list[tuple[Note, ...]]:
    """Notes all of whose sentences say the same: near-duplicates, in groups of two and more, oldest first."""
    stands_for = fold(reading.sentences)
    said: dict[str, set[int]] = defaultdict(set)
    for sentence, root in zip(reading.sentences, stands_for, strict=True):
        said[sentence.note.name].add(root)
    groups: dict[frozenset[int], list[Note]] = defaultdict(list)
    for note in reading.notes:
        if note.name in said:
            groups[frozenset(said[note.name])].append(note)
    return [tuple(group) for group in groups.values() if len(group) > 1]


class Vectors:
    """Texts as weights of their words: frequent in the text, rare among the texts."""

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
        rarity = {word: math.log(1.0 + total / found) for word, found in self.frequency.items()}
        self.weights = [
            _unit({word: (1.0 + math.log(n)) * rarity[word] for word, n in c.items()})
            for c in counts
        ]

    def cosine(self, first: int, second: int) -> float:
        """How alike two texts are, from 0 to 1."""
        return cosine(self.weights[first], self.weights[second])

    def shared(self, first: int, second: int) -> list[str]:
        """The words two texts have in common, those that make them alike most first."""
        ours, theirs = self.weights[first], self.weights[second]
        return sorted(
            (word for word in ours if word in theirs),
            key=lambda word: (-ours[word] * theirs[word], word),
        )

    def pairs(self, threshold: float, *, nearest: int = _CANDIDATES) -> list[Pair]:
        """Pairs at least so alike, of each text at most its nearest ones; the most alike first."""
        lists: dict[str, list[int]] = defaultdict(list)
        positions: list[dict[str, int]] = []
        for place, weights in enumerate(self.weights):
            by_weight = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
            keys = [word for word, _ in by_weight[:_KEY_WORDS]]
            positions.append({word: len(lists[word]) for word in keys})
            for word in keys:
                lists[word].append(place)
        found: dict[tuple[int, int], float] = {}
        for place, keys_at in enumerate(positions):
            for other, score in self._nearest(place, keys_at, lists, threshold)[:nearest]:
                found[(min(place, other), max(place, other))] = score
        pairs = (Pair(first, second, score) for (first, second), score in found.items())
        return sorted(pairs, key=lambda pair: (-pair.score, pair.first, pair.second))

    def _nearest(
        self, place: int, keys_at: dict[str, int], lists: dict[str, list[int]], threshold: float
    ) -> list[tuple[int, float]]:
        ours = self.weights[place]
        reached: dict[int, float] = {}
        for word, position in keys_at.items():
            weight = ours[word]
            for other in lists[word][max(0, position - _NEIGHBOURS) : position + _NEIGHBOURS + 1]:
                reached[other] = reached.get(other, 0.0) + weight * self.weights[other][word]
        reached.pop(place, None)
        likely = sorted(reached, key=lambda other: (-reached[other], other))[:_CANDIDATES]
        rated = ((other, round(self.cosine(place, other), 6)) for other in likely)
        return sorted(
            (pair for pair in rated if pair[1] >= threshold), key=lambda pair: (-pair[1], pair[0])
        )


def cosine(first: dict[str, float], second: dict[str, float]) -> float:
    """The cosine of two unit vectors."""
    if len(first) > len(second):
        first, second = second, first
    return math.fsum([weight * second[word] for word, weight in first.items() if word in second])


def _unit(weights: dict[str, float]) -> dict[str, float]:
    length = math.sqrt(math.fsum(weight * weight for weight in weights.values()))
    return {word: weight / length for word, weight in weights.items()} if length else {}
