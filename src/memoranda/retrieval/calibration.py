"""The relevance of a result from its similarity and its words: two logistic functions, and the line below them.

Their coefficients (`weights`) were fitted to questions with and without answers.
"""

from __future__ import annotations

import math
from typing import Final

from memoranda.retrieval.weights import (
    RELEVANCE_BY_SIMILARITY,
    RELEVANCE_BY_WORDS,
    WEAK_RELEVANCE,
)

# Results that people and models are shown if all are weak.
NEAREST_SHOWN: Final = 3


def is_weak(relevance: float | None) -> bool:
    """Return True if a result probably does not answer the query; never if the relevance is unknown."""
    return relevance is not None and relevance < WEAK_RELEVANCE


def relevance_of_share(share: float) -> float:
    """Return the relevance of a result by the share of the query words that it contains."""
    return estimate_probability(0.0, 0.0, share, is_turn=False)


def estimate_probability(similarity: float, trust: float, share: float, *, is_turn: bool) -> float:
    """Return a probability; `trust` is that in the similarity, for the language of the text."""
    by_words, by_similarity = RELEVANCE_BY_WORDS, RELEVANCE_BY_SIMILARITY
    words = by_words.base + by_words.share * share
    meaning = by_similarity.base + by_similarity.similarity * similarity
    meaning += by_similarity.share * share + by_similarity.turn * is_turn
    return 1.0 / (1.0 + math.exp(-(trust * meaning + (1.0 - trust) * words)))
