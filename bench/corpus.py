"""A seeded corpus: texts whose words are spread as in real language, each with one word of its own."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator
from typing import Any

_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_TOPICS = """deploy release budget invoice customer meeting database latency backup migration token context agent
memory calendar deadline forecast vendor policy privacy retention branch commit merge conflict test coverage lint
package python docker kernel sensor battery route delivery warehouse booking recipe garlic hiking guitar language
""".split()
VOCABULARY_SIZE = 30_000
# Zipf's exponent, as measured in English prose.
_SKEW = 1.07


class Corpus:
    """`size` memories, the same for the same seed."""

    def __init__(self, size: int, seed: int = 7) -> None:
        self.size = size
        self._seed = seed
        made = ("".join(parts) for parts in itertools.product(_SYLLABLES, repeat=3))
        self._words = _TOPICS + list(itertools.islice(made, VOCABULARY_SIZE - len(_TOPICS)))
        weights = (1.0 / (rank + 1) ** _SKEW for rank in range(VOCABULARY_SIZE))
        self._cumulative = list(itertools.accumulate(weights))

    def text(self, number: int) -> str:
        rng = random.Random(self._seed * 1_000_003 + number)
        words = [self._word(rng) for _ in range(rng.randint(8, 20))]
        words.insert(rng.randrange(len(words)), f"unique{number}")
        return " ".join(words)

    def _word(self, rng: random.Random) -> str:
        return self._words[bisect.bisect_left(self._cumulative, rng.random() * self._cumulative[-1])]

    def drafts(self) -> Iterator[dict[str, Any]]:
        for number in range(self.size):
            scope = {"project": f"project-{number % 20}"}
            yield {"kind": "semantic", "body": {"text": self.text(number)}, "scope": scope}

    def questions(self, count: int) -> list[tuple[str, int]]:
        """Queries of three words of one memory and half the time its unique word, with the memory's number."""
        rng = random.Random(self._seed + 1)
        asked = []
        for _ in range(count):
            number = rng.randrange(self.size)
            words = self.text(number).split()
            own = f"unique{number}"
            picked = rng.sample([word for word in words if word != own], 3)
            asked.append((" ".join([*picked, own] if rng.random() < 0.5 else picked), number))
        return asked
