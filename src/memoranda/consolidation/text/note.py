"""What consolidation reads, in one order whatever order it came in, and how it quotes what it read.

A note's text was written by someone: it may be anything. `clean` takes away what could reorder or hide text on a
screen; `quote` puts a text on one line between marks that it cannot close.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

# How many tokens a text has.
Counter = Callable[[str], int]

# Long enough for a statement, short enough that a finding stays readable.
QUOTE_CHARS_LIMIT: Final = 200
# What is known of a note whose confidence nobody stated.
_UNSTATED_CONFIDENCE: Final = 0.5
_WEIGHT_LIMIT: Final = 1e6

_NEW_LINES = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Control characters, bidirectional overrides, byte order marks, annotations and invisible tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_SPACES = re.compile(r"\s+")


def four_bytes(text: str) -> int:
    """A token is four bytes of UTF-8, rounded up: no model's table, and the same everywhere."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


class Note(msgspec.Struct, frozen=True):
    """One memory as consolidation sees it."""

    # Opaque, such as "namespace\x00key": what results cite. One name is one note.
    name: str
    text: str
    # When it was written, in milliseconds since 1970.
    at: int
    tags: tuple[str, ...] = ()
    confidence: float | None = None
    # Salience or use: how much it counts beside others.
    weight: float = 1.0
    # Where it came from (OAMS source_id); empty when that is not known.
    source: str = ""

    @property
    def strength(self) -> float:
        """How much it counts: weight times confidence, whatever strange numbers those are."""
        weight = min(max(self.weight, 0.0), _WEIGHT_LIMIT) if math.isfinite(self.weight) else 1.0
        stated = self.stated_confidence
        return weight * (_UNSTATED_CONFIDENCE if stated is None else stated)

    @property
    def stated_confidence(self) -> float | None:
        """Its confidence if that is a number from 0 to 1."""
        stated = self.confidence
        return stated if stated is not None and 0.0 <= stated <= 1.0 else None


def ordered(notes: Iterable[Note]) -> list[Note]:
    """Oldest first; of several notes with one name only the newest counts."""
    newest: dict[str, Note] = {}
    for note in sorted(notes, key=_order):
        newest[note.name] = note
    return sorted(newest.values(), key=_order)


def _order(note: Note) -> tuple[object, ...]:
    return (
        note.at,
        note.name,
        note.text,
        note.tags,
        note.source,
        repr(note.confidence),
        repr(note.weight),
    )


def strongest_first(notes: Iterable[Note]) -> list[Note]:
    """By strength, then the newest, then by name."""
    return sorted(notes, key=lambda note: (-note.strength, -note.at, note.name))


def clean(text: str) -> str:
    """The text with plain line ends, and without characters that nobody is meant to see."""
    if not text.isascii():
        text = _SURROGATES.sub("\ufffd", text)
    return _UNSEEN.sub(" ", _NEW_LINES.sub("\n", text))


def one_line(text: str) -> str:
    """The text cleaned, on one line."""
    return _SPACES.sub(" ", clean(text)).strip()


def shorten(text: str, limit: int) -> str:
    """At most so many characters, cut between words if there is a place, with an ellipsis where it was cut."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return head[: space if space >= limit // 2 else limit - 1].rstrip() + "…"


def quote(text: str, limit: int = QUOTE_CHARS_LIMIT) -> str:
    """The text as a quotation: one line, cut to a limit, and unable to end its own quotation marks."""
    line = one_line(text).replace("“", '"').replace("”", '"')
    # A quotation stands inside a sentence: its own full stop would end that.
    if line.endswith(".") and not line.endswith(".."):
        line = line[:-1]
    return f"“{shorten(line, limit)}”"
