"""Labelled turns, and how the rules do on them: `python -m tests.learning.labelled` lists what they miss.

Half of the turns, chosen by a hash of the text, is held out: the rules are only changed for the other half.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from memoranda.consolidation.learning.rules import find_statements
from memoranda.consolidation.text.sentences import split_sentences

TURNS = Path(__file__).with_name("turns.txt")
_MARKED = re.compile("⟦(.+?)⟧")


class Turn(NamedTuple):
    """A turn, and the sentences in it that state something to remember."""

    language: str
    text: str
    statements: frozenset[str]
    is_held_out: bool


class Score(NamedTuple):
    """The statements that were found rightly and wrongly, and those that there are."""

    right: int
    wrong: int
    total: int

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.total)


def load_turns() -> list[Turn]:
    """Return all labelled turns."""
    turns = []
    for line in TURNS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            language, _, text = line.replace("\\n", "\n").partition(" ")
            marked = frozenset(sentence for part in _MARKED.findall(text) for sentence in split_sentences(part))
            plain = text.replace("⟦", "").replace("⟧", "")
            is_held_out = hashlib.sha256(plain.encode()).digest()[0] % 2 == 1
            turns.append(Turn(language, plain, marked, is_held_out))
    return turns


def score(turns: Iterable[Turn], *, is_shown: bool = False) -> Score:
    """Compare what the rules find with the labels."""
    right = wrong = total = 0
    for turn in turns:
        found = {statement.sentence for statement in find_statements(turn.text)}
        right += len(found & turn.statements)
        wrong += len(found - turn.statements)
        total += len(turn.statements)
        if is_shown:
            for mark, sentences in (("-", turn.statements - found), ("!", found - turn.statements)):
                for sentence in sentences:
                    sys.stdout.write(f"{mark} {turn.language} {sentence}\n")
    return Score(right, wrong, total)


if __name__ == "__main__":
    tuned = [turn for turn in load_turns() if not turn.is_held_out]
    result = score(tuned, is_shown=True)
    sys.stdout.write(f"{result} precision {result.precision:.3f} recall {result.recall:.3f}\n")
