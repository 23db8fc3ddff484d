"""Plain BM25 over texts, what a search must not fall behind: no stems, no stop words, nothing but counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

K1: Final = 1.2
B: Final = 0.75
_WORD: Final = re.compile(r"[a-z0-9]+")


class Bm25:
    """An index of texts by their numbers."""

    def __init__(self, texts: Sequence[str]) -> None:
        found: dict[str, tuple[list[int], list[int]]] = {}
        lengths = np.zeros(len(texts), np.float32)
        for number, text in enumerate(texts):
            words = _WORD.findall(text.lower())
            lengths[number] = len(words)
            for word, times in Counter(words).items():
                places, counts = found.setdefault(word, ([], []))
                places.append(number)
                counts.append(times)
        self._postings = {
            word: (np.array(places, np.int32), np.array(counts, np.float32)) for word, (places, counts) in found.items()
        }
        self._lengths = lengths

    def best(self, question: str, limit: int, mask: NDArray[np.bool_] | None = None) -> list[int]:
        """The numbers of the best texts, best first; of equal ones the first written. `mask`: only these are there."""
        lengths = self._lengths if mask is None else self._lengths[mask]
        scores = np.zeros(len(self._lengths), np.float32)
        norms = K1 * (1.0 - B + B * self._lengths / max(1.0, float(lengths.mean())))
        for word in dict.fromkeys(_WORD.findall(question.lower())):
            if word not in self._postings:
                continue
            places, counts = self._postings[word]
            if mask is not None:
                kept = mask[places]
                places, counts = places[kept], counts[kept]
            idf = np.log(1.0 + (len(lengths) - len(places) + 0.5) / (len(places) + 0.5))
            scores[places] += idf * (K1 + 1.0) * counts / (counts + norms[places])
        held = np.flatnonzero(scores)
        order = np.lexsort((held, -scores[held]))[:limit]
        return [int(each) for each in held[order]]
