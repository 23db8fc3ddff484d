"""Every number that ranking goes by, in one place.

They were chosen on conversations and checked on others that nobody had looked at: each may be halved or doubled and
little changes. `docs/explanation/recall.md` says what each part is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# BM25.
K1: Final = 0.9
B: Final = 0.4
# Of a text with its neighbours: long ones hold many words by chance.
WINDOW_B: Final = 0.75
# A leg's best so many are compared, from the last of them (0) to the first (1).
LEG_LIMIT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each part counts."""

    # The words of the memory itself, and of it with the one before and the one after.
    text: float = 0.20
    window: float = 0.30
    # How much of the score of the one before and of the one after is added.
    before: float = 0.20
    after: float = 0.15
    # By or about the one person that the question names.
    person: float = 0.30
    # Of the time that the question means.
    date: float = 0.40
    # The mean of the three best of its session.
    session: float = 0.40


WORDS_ONLY: Final = Weights()
