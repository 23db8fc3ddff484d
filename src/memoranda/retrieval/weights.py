"""All constants of the ranking: weights, thresholds and limits.

They were fitted to conversations and to our own notes with `bench/retrieval`, each time with one conversation left out
for evaluation. `docs/explanation/recall.md` says what each part contributes. `tests/retrieval/test_conversations.py`
fails if a change makes results worse.

Two logistic functions estimate the relevance of a result from its similarity and its words. Their coefficients were
fitted to questions with and without answers.

How to change a number: measure first (`make bench-retrieval ARGS="--only table"`), change it on the `tune` half only,
look at all rows of the table and at the floor in `tests/retrieval`, and write the reason into the commit. A number
without a comment was fitted together with its neighbours and has no meaning alone.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

# BM25: saturation of term frequency, and length normalisation of texts.
K1: Final = 0.9
B: Final = 0.4
# Length normalisation of windows: it is stronger, since long windows contain many words by chance.
WINDOW_B: Final = 0.75
# Candidates per retriever: the best 100 get a score from 0 (the last one) to 1 (the best), all others 0.
CANDIDATE_LIMIT: Final = 100
# Results: duplicates are moved back only among the best 200, which is more than any page shows.
DEDUPLICATION_LIMIT: Final = 200
# Words: a longer text is not more informative, so its length counts no further.
LENGTH_LIMIT: Final = 40
# Share of the query words that the best text must cover. Below it, keyword scores count less and less.
COVERAGE_GATE: Final = 0.30
# The similarity that covered query words (share 1) are worth when the answer threshold is checked.
COVERAGE_BONUS: Final = 0.20
# Addition to the answer threshold among conversations: their texts are more similar to any query.
CONVERSATION_BONUS: Final = 0.05
# Numbers of versions between which the answer threshold rises: the best of many is more similar by chance.
FEW_VERSIONS: Final = 6
MANY_VERSIONS: Final = 400
# The share of the similarity to a typical query that is subtracted if keywords count for nothing.
TYPICAL_SHARE: Final = 0.40
# Weight of the second model's similarity above its baseline, for standalone texts, times their share of all texts.
SECOND_MODEL_WEIGHT: Final = 0.30
SECOND_MODEL_BASELINE: Final = 0.20
# The trust from which on a model reads a language well enough to decide if words are missing.
READING_TRUST: Final = 0.2
# The gate of the keyword score below which no text has more than a stray word of the query.
HARDLY_ANY_WORD: Final = 0.2
# Two results state the same fact if their cosines add up to this much, of the first model twice, or if this share of
# their words is common; and with a query for the present state ("now").
SAME_FACT_SIMILARITY: Final = 2.40
SAME_FACT_SIMILARITY_NOW: Final = 2.30
SAME_FACT_WORDS: Final = 0.5
SAME_FACT_WORDS_NOW: Final = 0.4
# The most that re-ranking adds to a score, if requested.
RERANK_WEIGHT: Final = 0.60
# The value of the part `date` for memories before or after an event that the query names.
EVENT_WEIGHT: Final = 0.50
# Days: all memories of a time that is not longer are candidates, even without a word of the query.
SHORT_SPAN_DAYS: Final = 8
# The share of the part `date` that orders the memories of a time by their times, if the query asks for nothing else.
TIME_ORDER_SHARE: Final = 0.2
# Retrievers: two by keywords, two by embeddings. The number is that of the parts of a session's relevance.
RETRIEVER_COUNT: Final = 4
# The relevance of a session is that of its best text: the mean of the retrievers, and these shares of person and date.
SESSION_PERSON_WEIGHT: Final = 0.30
SESSION_DATE_WEIGHT: Final = 0.30


# The relevance of a memory of the time, or with the exact string, that a query asks for; and the one below which a
# result is weak: fewer than 1 % of the answers of tuned questions are.
CERTAIN_RELEVANCE: Final = 0.9
WEAK_RELEVANCE: Final = 0.08


class Logistic(msgspec.Struct, frozen=True, kw_only=True):
    """The coefficients of the logistic function that estimates relevance (`relevance`)."""

    base: float
    similarity: float = 0.0
    # The share of the query's words in the text.
    share: float
    # Turns of a session are more similar to any query.
    turn: float = 0.0


RELEVANCE_BY_SIMILARITY: Final = Logistic(base=-11.4, similarity=16.5, share=1.0, turn=-1.1)
RELEVANCE_BY_WORDS: Final = Logistic(base=-2.1, share=4.0)


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The weights of the parts of a score, from 0 to 1 except `length`.

    The parts themselves have values from 0 to 1; their sum is the score, so weights can be read as shares.
    """

    # Keywords in the text, and in its window (with the previous and the next text of the session).
    text: float
    window: float
    # All words of a query of several.
    every: float
    # Similarity of the embedding, and of the one with the end of the previous text.
    meaning: float = 0.0
    context: float = 0.0
    # The window score of the previous text: an answer follows its question.
    before: float
    # The similarity of the next text; without embeddings its window score.
    after: float
    # By or about the one person that the query names; or, if it names several, the first.
    person: float
    first_named: float
    # In or soon after the time that the query means.
    date: float
    # The best text of the session.
    session: float
    # The logarithm of the number of words up to LENGTH_LIMIT: very short texts seldom answer a question.
    length: float
    # The share of the exact strings and phrases of the query: more than all other parts together.
    exact: float = 4.0


WORDS_ONLY: Final = Weights(
    text=0.08,
    window=0.30,
    every=0.20,
    before=0.18,
    after=0.03,
    person=0.30,
    first_named=0.12,
    date=0.70,
    session=0.60,
    length=0.087,
)
WITH_MEANING: Final = Weights(
    text=0.02,
    window=0.18,
    every=0.20,
    meaning=0.15,
    context=0.31,
    before=0.165,
    after=0.13,
    person=0.28,
    first_named=0.135,
    date=0.69,
    session=0.53,
    length=0.094,
)
# A query that only names a time: its memories, the newest first.
ONLY_TIME: Final = Weights(
    text=0.02,
    window=0.0,
    every=0.0,
    before=0.0,
    after=0.0,
    person=0.0,
    first_named=0.0,
    date=1.0,
    session=0.0,
    length=0.0,
)


def interpolate(first: Weights, second: Weights, share: float) -> Weights:
    """Return the weights between two sets: the first for share 0, the second for share 1.

    Used where the model reads a language only partly.
    """
    if share == 1:
        return second
    return Weights(
        **{
            name: (1 - share) * getattr(first, name) + share * getattr(second, name)
            for name in Weights.__struct_fields__
        }
    )


class TimeSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A time that a question means, in milliseconds since 1970, with the weights of memories inside and after it."""

    start: int
    end: int
    inside: float
    # Weights right after the end, and at the end of the tail, where they stop.
    after: float
    later: float
    # Length of the tail in milliseconds.
    tail: int


# Results that people and models are shown if all are weak.
NEAREST_SHOWN: Final = 3


def is_weak(relevance: float | None) -> bool:
    """Return True if a result probably does not answer the query; never if the relevance is unknown."""
    return relevance is not None and relevance < WEAK_RELEVANCE


def relevance_of_share(share: float) -> float:
    """Return the relevance of a result by the share of the query words that it contains."""
    return estimate_probability(0.0, 0.0, share, is_turn=False)


def estimate_probability(similarity: float, trust: float, share: float, *, is_turn: bool) -> float:
    """Return how probable it is that a result answers the question. `trust` (0 to 1): how well the model reads the
    language of the text.
    """
    by_words, by_similarity = RELEVANCE_BY_WORDS, RELEVANCE_BY_SIMILARITY
    words = by_words.base + by_words.share * share
    meaning = by_similarity.base + by_similarity.similarity * similarity
    meaning += by_similarity.share * share + by_similarity.turn * is_turn
    return 1.0 / (1.0 + math.exp(-(trust * meaning + (1.0 - trust) * words)))
