"""Every number that ranking goes by, in one place.

They were fitted to conversations and to notes of our own, each time with one conversation left out to look at: with
`bench/retrieval`, which says what a change is worth. `docs/explanation/recall.md` says what each part is worth.
"""

from __future__ import annotations

from typing import Final

import msgspec

# BM25.
K1: Final = 0.9
B: Final = 0.4
# Of a text with its neighbours: long ones hold many words by chance.
WINDOW_B: Final = 0.75
# Candidates per retriever: the best 100 get a score from 0 (the last one) to 1 (the best), all others 0.
CANDIDATE_LIMIT: Final = 100
# Results: duplicates are moved back only among the best 200, which is more than any page shows.
DEDUPLICATION_LIMIT: Final = 200


# Words: a longer text is not more informative, so its length counts no further.
LENGTH_LIMIT: Final = 40
# A question of whose words the best memory covers less than this is answered by meaning, more and more.
COVERAGE_GATE: Final = 0.30


# By how much what the best one covers of a question's words makes up for being less near, where it is told whether
# anything answers at all. What is said in talks is nearer to any question than what stands alone.
COVERAGE_BONUS: Final = 0.20
CONVERSATION_BONUS: Final = 0.05
# The more there are, the nearer is the nearest by chance: among few what is near enough for one is, among many more.
FEW_VERSIONS: Final = 6
MANY_VERSIONS: Final = 400
# Some texts are near to any question: so much of how near they are to a typical one does not count, when words tell
# little.
TYPICAL_SHARE: Final = 0.40
# What another model says of how near a text that stands alone is, above what it says of any; times the share of all
# that stand alone.
SECOND_MODEL_WEIGHT: Final = 0.30
SECOND_MODEL_BASELINE: Final = 0.20
# What reading the question and a text together adds at most, where that is asked for.
RERANK_WEIGHT: Final = 0.60
# Legs of words and of meaning.
RETRIEVER_COUNT: Final = 4
# What a session is about is what its best one is about: all legs alike, and these.
SESSION_PERSON_WEIGHT: Final = 0.30
SESSION_DATE_WEIGHT: Final = 0.30


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """How much each part counts. Each is a number from 0 to 1, but for the length."""

    # The words of the memory itself, and of it with the one before and the one after.
    text: float
    window: float
    # Every word of a question of several.
    every: float
    # What the memory means by itself, and behind the end of the one before it.
    meaning: float = 0.0
    context: float = 0.0
    # The words around the one before it: an answer stands behind its question.
    before: float
    # What the one after it means, or the words around that.
    after: float
    # By or about the one person that the question names; or, of several, by or about the first.
    person: float
    first_named: float
    # Of the time that the question means.
    date: float
    # The best one of its session.
    session: float
    # The logarithm of how many words it has, up to LENGTH_LIMIT: what says little answers little.
    length: float


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
