"""Explicit statements in what a person typed, found by rules: without a model, and rather none than a wrong one.

A sentence is a statement if it begins with a cue (`cues.py`) and is neither a question, nor about the task at hand, nor
quoted, nor an attempt to plant something. The text of a statement is always a part of the person's own sentence.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from memoranda.consolidation.learning.cues import CUES, LEAD, PASSING, PLANTING, CueName
from memoranda.consolidation.text.sentences import is_code, split_sentences
from memoranda.encoding.injection import find_instructions
from memoranda.model.memory import Kind

# Characters of a statement: a shorter one says nothing by itself, a longer one is a paragraph.
_LEAST_CHARS: Final = 10
SENTENCE_CHARS_LIMIT: Final = 400
# Characters of a turn that are read; the rest of a longer one is pasted text.
_TURN_CHARS: Final = 20_000
_FENCED: Final = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_QUOTED: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_QUESTION: Final = ("?", "？", "؟", "…", "...")
_KINDS: Final[dict[CueName, Kind]] = {
    "from_now_on": "procedural",
    "rule": "procedural",
    "attribute": "identity",
    "person": "identity",
}
# By cue, as measured on the labelled turns of the tests and rounded down.
_CONFIDENCE: Final[dict[CueName, float]] = {
    "remember": 0.9,
    "from_now_on": 0.9,
    "attribute": 0.9,
    "person": 0.8,
    "rule": 0.8,
    "decision": 0.8,
    "correction": 0.7,
}


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Something to remember, and the sentence of a turn that it rests on."""

    text: str
    kind: Kind
    sentence: str
    confidence: float
    # The kind of cue, such as "decision", or "model".
    cue: str


def find_statements(turn: str) -> list[Statement]:
    """Return the explicit statements in a turn of a person; none of a turn that gives orders about instructions."""
    text = _QUOTED.sub("", _FENCED.sub("\n\n", turn[:_TURN_CHARS]))
    if find_instructions(text):
        return []
    statements = (_read_sentence(sentence) for sentence in split_sentences(text))
    by_text = {
        statement.text.casefold(): statement for statement in statements if statement is not None
    }
    return list(by_text.values())


def _read_sentence(sentence: str) -> Statement | None:
    """Return the statement of a sentence; None if it makes none."""
    is_sized = _LEAST_CHARS <= len(sentence) <= SENTENCE_CHARS_LIMIT
    if not is_sized or sentence.endswith(_QUESTION) or is_code(sentence):
        return None
    lead = LEAD.match(sentence)
    body = sentence[lead.end() :] if lead is not None else sentence
    if PASSING.search(body) or PLANTING.search(body):
        return None
    for name, pattern in CUES:
        match = pattern.match(body)
        if match is not None:
            text = match["rest"] if "rest" in pattern.groupindex else body
            return Statement(
                text=text[:1].upper() + text[1:],
                kind=_KINDS.get(name, "semantic"),
                sentence=sentence,
                confidence=_CONFIDENCE[name],
                cue=name,
            )
    return None
