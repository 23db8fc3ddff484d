"""A version as it goes into the word index, and how a few of them are written there.

Most units of work write one version. Arrays would cost more than that is worth, so this is done without them; the bytes
are those of a segment (`segment.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Final, NamedTuple

# Bits of `marks`: who may see a version, whether others are shown only a part of it, and whether it is true from when
# it was observed on and nothing says until when.
VISIBILITY_BITS: Final = {"private": 1, "shared": 2, "public": 4}
REDACTED_BIT: Final = 8
LASTING_BIT: Final = 16
# What of them is about who sees it.
AUDIENCE_BITS: Final = 15

# What fits into the bytes that a length and a count have.
LENGTH_LIMIT: Final = 65_535
FREQUENCY_LIMIT: Final = 255


class IndexedText(NamedTuple):
    """What a text is found by: its words and how often it says each, who speaks in it, whom it is about, in which
    language that is, and what it says as a whole.
    """

    term_frequencies: Mapping[int, int]
    length: int
    speaker: int = 0
    subject: int = 0
    language: int = 0
    # Whatever has the same says the same.
    text_hash: int = 0


NO_TEXT: Final = IndexedText({}, 0)


def flags_of(visibility: str, *, redacted: bool, lasting: bool) -> int:
    return (
        VISIBILITY_BITS[visibility]
        | (REDACTED_BIT if redacted else 0)
        | (LASTING_BIT if lasting else 0)
    )


class IndexEntry(NamedTuple):
    """A version as it goes into a segment."""

    version_id: int
    space: int
    user: int = 0
    agent: int = 0
    session: int = 0
    observed: int = 0
    flags: int = 1
    text: IndexedText = NO_TEXT


def encode_segment(entries: Sequence[IndexEntry]) -> bytes:
    """The facts and the postings of some versions, in the order of their ids."""
    count = len(entries)
    facts = (
        pack(f"<{count}q", *(entry.version_id for entry in entries)),
        pack(f"<{count}Q", *(entry.space for entry in entries)),
        pack(f"<{count}Q", *(entry.user for entry in entries)),
        pack(f"<{count}Q", *(entry.agent for entry in entries)),
        pack(f"<{count}Q", *(entry.session for entry in entries)),
        pack(f"<{count}Q", *(entry.text.speaker for entry in entries)),
        pack(f"<{count}Q", *(entry.text.subject for entry in entries)),
        pack(f"<{count}Q", *(entry.text.text_hash for entry in entries)),
        pack(f"<{count}q", *(entry.observed for entry in entries)),
        pack(f"<{count}H", *(min(entry.text.length, LENGTH_LIMIT) for entry in entries)),
        bytes(entry.flags for entry in entries),
        bytes(entry.text.language for entry in entries),
    )
    return b"".join(
        (
            *facts,
            *(_encode_postings_of_one(entries[0]) if count == 1 else _encode_postings(entries)),
        )
    )


def _encode_postings_of_one(entry: IndexEntry) -> tuple[bytes, ...]:
    """The same as of several; a version may have twenty thousand words, and whoever writes holds up others."""
    words = entry.text.term_frequencies
    distinct = sorted(words)
    count = len(distinct)
    return (
        pack("<II", count, count),
        pack(f"<{count}Q", *distinct),
        pack(f"<{count + 1}I", *range(count + 1)),
        bytes(4 * count),
        bytes([min(words[word], FREQUENCY_LIMIT) for word in distinct]),
    )


def _encode_postings(entries: Sequence[IndexEntry]) -> tuple[bytes, ...]:
    found = ((place, entry.text.term_frequencies.items()) for place, entry in enumerate(entries))
    postings = sorted((word, place, times) for place, words in found for word, times in words)
    distinct: list[int] = []
    starts: list[int] = []
    for number, (word, _, _) in enumerate(postings):
        if not distinct or distinct[-1] != word:
            distinct.append(word)
            starts.append(number)
    starts.append(len(postings))
    return (
        pack("<II", len(distinct), len(postings)),
        pack(f"<{len(distinct)}Q", *distinct),
        pack(f"<{len(starts)}I", *starts),
        pack(f"<{len(postings)}i", *(place for _, place, _ in postings)),
        bytes(min(times, FREQUENCY_LIMIT) for _, _, times in postings),
    )
