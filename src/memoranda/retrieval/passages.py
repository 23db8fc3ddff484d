"""The choice of the passage of a long text that answers a query best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from memoranda.model.passages import Passage, split_passages, split_sentences
from memoranda.retrieval.analysis import keywords

# The weight of the cosine to the query beside the share of the query's words. Cosines of the passages of one text
# differ by about a tenth.
_COSINE_WEIGHT: Final = 2.0


def choose_passage(
    text: str, weights: Mapping[tuple[str, ...], float], cosines: Sequence[float] = ()
) -> Passage | None:
    """Return the passage that answers a query best; None for an empty text.

    `weights` are those of the query's words, each given by its spellings; `cosines` compare the query with the
    embedded passages.
    """
    passages = split_passages(text)
    if not passages:
        return None
    if len(cosines) != len(passages):
        cosines = [0.0] * len(passages)
    total = sum(weights.values()) or 1.0
    scores = [
        _covered(f"{passage.heading}\n{text[passage.start : passage.end]}", weights) / total
        + _COSINE_WEIGHT * cosine
        for passage, cosine in zip(passages, cosines, strict=True)
    ]
    best = passages[scores.index(max(scores))]
    by_sentence = [
        (_covered(text[start:end], weights), start) for start, end in split_sentences(text, best)
    ]
    # `max` returns the first of the sentences that cover the most.
    covered, start = max(by_sentence, key=lambda item: item[0])
    return best._replace(focus=start if covered else best.start)


def _covered(text: str, weights: Mapping[tuple[str, ...], float]) -> float:
    """Return the sum of the weights of those query words that a text has."""
    words = set(keywords(text))
    return sum(weight for terms, weight in weights.items() if not words.isdisjoint(terms))
