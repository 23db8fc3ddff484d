"""The input of consolidation, its order, and functions to clean and quote foreign text.

The text of a note is untrusted. `clean` removes characters that could reorder or hide text on a screen; `quote` puts a
text on one line, inside quotation marks that it cannot close.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

# A function that returns the number of tokens of a text.
TokenCounter = Callable[[str], int]

# Characters of a quotation: long enough for a statement, short enough for a readable result.
QUOTE_CHARS_LIMIT: Final = 200
# The confidence of a note without a stated one.
_UNSTATED_CONFIDENCE: Final = 0.5
# Largest weight of a note, so that one strange value cannot outweigh all others.
_WEIGHT_LIMIT: Final = 1e6

_NEW_LINES = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Control characters, bidirectional overrides, byte order marks, annotations and invisible tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_SPACES = re.compile(r"\s+")
_SPEAKER = re.compile(r"[^\W\d_][^:\n]{0,59}: ")


def estimate_tokens(text: str) -> int:
    """Return an estimate of four UTF-8 bytes per token, rounded up; it depends on no model."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


class MemoryNote(msgspec.Struct, frozen=True):
    """A memory as the input of consolidation."""

    # Opaque and unique, such as "namespace\x00key"; results cite it.
    name: str
    text: str
    # The instant of writing, in milliseconds since 1970.
    at: int
    tags: tuple[str, ...] = ()
    confidence: float | None = None
    # Salience or use, relative to other notes.
    weight: float = 1.0
    # The source (OAMS source_id); empty if unknown.
    source: str = ""
    # True for a turn of a conversation, which says what somebody said, not what is so.
    is_turn: bool = False

    @property
    def strength(self) -> float:
        """Weight times confidence, finite for every input."""
        weight = min(max(self.weight, 0.0), _WEIGHT_LIMIT) if math.isfinite(self.weight) else 1.0
        stated_value = self.stated_confidence
        return weight * (_UNSTATED_CONFIDENCE if stated_value is None else stated_value)

    @property
    def stated_confidence(self) -> float | None:
        """The confidence, or None unless it is a number from 0 to 1."""
        stated_value = self.confidence
        return stated_value if stated_value is not None and 0.0 <= stated_value <= 1.0 else None


def is_turn(kind: str, session: str, text: str) -> bool:
    """Return True for a turn of a conversation as the importers write it: an event of a session, with its speaker."""
    return kind == "episodic" and bool(session) and _SPEAKER.match(text) is not None


def order_notes(notes: Iterable[MemoryNote]) -> list[MemoryNote]:
    """Return the notes, oldest first; of several with one name only the newest."""
    newest: dict[str, MemoryNote] = {}
    for note in sorted(notes, key=_sort_key):
        newest[note.name] = note
    return sorted(newest.values(), key=_sort_key)


def _sort_key(note: MemoryNote) -> tuple[object, ...]:
    return (
        note.at,
        note.name,
        note.text,
        note.tags,
        note.source,
        repr(note.confidence),
        repr(note.weight),
    )


def sort_by_strength(notes: Iterable[MemoryNote]) -> list[MemoryNote]:
    """Return the notes by descending strength, then the newest first, then by name."""
    return sorted(notes, key=lambda note: (-note.strength, -note.at, note.name))


def clean(text: str) -> str:
    """Return the text with `\\n` line ends, and with invisible and control characters replaced by spaces."""
    if not text.isascii():
        text = _SURROGATES.sub("\ufffd", text)
    return _UNSEEN.sub(" ", _NEW_LINES.sub("\n", text))


def to_one_line(text: str) -> str:
    """Return the cleaned text on one line."""
    return _SPACES.sub(" ", clean(text)).strip()


def shorten(text: str, limit: int) -> str:
    """Cut a text to `limit` characters, between words if possible, and end it with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return head[: space if space >= limit // 2 else limit - 1].rstrip() + "…"


def quote(text: str, limit: int = QUOTE_CHARS_LIMIT) -> str:
    """Return the text as a quotation: one line, cut to `limit` characters, without quotation marks of its own kind."""
    line = to_one_line(text).replace("“", '"').replace("”", '"')
    # The quotation stands inside a sentence, which its full stop would end.
    if line.endswith(".") and not line.endswith(".."):
        line = line[:-1]
    return f"“{shorten(line, limit)}”"
