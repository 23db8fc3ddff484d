"""A version as it goes into the word index, and how a few of them are written there.

Most units of work write one version. Arrays would cost more than that is worth, so this is done without them; the bytes
are those of a segment (`segment.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack
from typing import Final

# Bits of `marks`: who may see a version, and whether others are shown only a part of it.
VISIBILITY_BITS: Final = {"private": 1, "shared": 2, "public": 4}
REDACTED_BIT: Final = 8

# What fits into the bytes that a length and a count have.
LENGTH_LIMIT: Final = 65_535
COUNT_LIMIT: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A version as it goes into a segment."""

    version_id: int
    space: int
    user: int = 0
    agent: int = 0
    session: int = 0
    # Who speaks in it, and whom it is about.
    speaker: int = 0
    subject: int = 0
    at: int = 0
    marks: int = 1
    # Its words in order, repeats kept.
    words: Sequence[int] = ()


def encode(entries: Sequence[Entry]) -> bytes:
    """The facts and the postings of some versions, in the order of their ids."""
    count = len(entries)
    facts = (
        pack(f"<{count}q", *(entry.version_id for entry in entries)),
        pack(f"<{count}Q", *(entry.space for entry in entries)),
        pack(f"<{count}Q", *(entry.user for entry in entries)),
        pack(f"<{count}Q", *(entry.agent for entry in entries)),
        pack(f"<{count}Q", *(entry.session for entry in entries)),
        pack(f"<{count}Q", *(entry.speaker for entry in entries)),
        pack(f"<{count}Q", *(entry.subject for entry in entries)),
        pack(f"<{count}q", *(entry.at for entry in entries)),
        pack(f"<{count}H", *(min(len(entry.words), LENGTH_LIMIT) for entry in entries)),
        bytes(entry.marks for entry in entries),
    )
    held: dict[int, list[tuple[int, int]]] = {}
    for place, entry in enumerate(entries):
        for word, times in Counter(entry.words).items():
            held.setdefault(word, []).append((place, min(times, COUNT_LIMIT)))
    words = sorted(held)
    postings = [posting for word in words for posting in held[word]]
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(held[word]))
    part = (
        pack("<II", len(words), len(postings)),
        pack(f"<{len(words)}Q", *words),
        pack(f"<{len(starts)}I", *starts),
        pack(f"<{len(postings)}i", *(place for place, _ in postings)),
        bytes(times for _, times in postings),
    )
    return b"".join((*facts, *part))
