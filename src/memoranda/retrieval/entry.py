"""Index entries: what the word index stores of a version, and their encoding without NumPy.

Most transactions write one version. NumPy would take longer to import than the encoding takes, so this module encodes
a few versions with `struct`; the bytes are those that `segment.Segment` would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import calcsize, pack
from typing import Final, NamedTuple

# Bits of `IndexEntry.flags`. LASTING_BIT: valid since its observation, without an end. EXPIRING_BIT: only the database
# knows until when it is kept.
VISIBILITY_BITS: Final = {"private": 1, "shared": 2, "public": 4}
REDACTED_BIT: Final = 8
LASTING_BIT: Final = 16
EXPIRING_BIT: Final = 32
# The bits of visibility and redaction: two versions with the same bits have the same audience.
AUDIENCE_BITS: Final = 15

# Words: the greatest length that fits into the two bytes of a length.
LENGTH_LIMIT: Final = 65_535
# Occurrences: the greatest term frequency that fits into its byte.
FREQUENCY_LIMIT: Final = 255


class IndexedText(NamedTuple):
    """A text as it is indexed. Terms and names are keyed hashes, 0 for none."""

    term_frequencies: Mapping[int, int]
    # The number of its words.
    length: int
    speaker: int = 0
    subject: int = 0
    # The number of its language (`analysis.LANGUAGE_NUMBERS`).
    language: int = 0
    # The hash of the normalised text, equal for duplicates.
    text_hash: int = 0


NO_TEXT: Final = IndexedText({}, 0)


# Times before and after all others, in Unix milliseconds: no beginning and no end of validity.
NO_BEGINNING: Final = -(1 << 63)
NO_END: Final = (1 << 63) - 1


def flags_of(visibility: str, *, redacted: bool, lasting: bool, expiring: bool) -> int:
    """Return the flags of a version."""
    redacted_bit = REDACTED_BIT if redacted else 0
    lasting_bit = LASTING_BIT if lasting else 0
    expiring_bit = EXPIRING_BIT if expiring else 0
    return VISIBILITY_BITS[visibility] | redacted_bit | lasting_bit | expiring_bit


class IndexEntry(NamedTuple):
    """The facts about a version in a segment. Space, user, agent and session are keyed hashes, 0 for none."""

    version_id: int
    space: int
    user: int = 0
    agent: int = 0
    session: int = 0
    # Time of observation, in Unix milliseconds.
    observed: int = 0
    flags: int = 1
    text: IndexedText = NO_TEXT
    # The declared validity, in Unix milliseconds; a successor may end it earlier.
    valid_from: int = NO_BEGINNING
    valid_to: int = NO_END


class StoredVector(NamedTuple):
    """The vectors of a version as the store returns them, decrypted."""

    # The position in the table of vectors, which ascends in the order of storing.
    position: int
    version_id: int
    # The previous version of the session; 0 if there is none, -1 if it was erased.
    context_id: int
    data: bytes
    # The vector with the end of the previous text; of a standalone text, the vector of the second model.
    context_data: bytes | None
    # The vectors of the passages of a long text.
    passages: tuple[bytes, ...] = ()


# The end of a stored vector that is followed by those of its passages; in front of it is their number.
_PASSAGES_MARK: Final = b"passages"
_COUNT_SIZE: Final = calcsize("<H")


def join_vectors(text_vector: bytes, passages: Sequence[bytes]) -> bytes:
    """Return the vector of a text and those of its passages as one value, so that they are erased together."""
    if not passages:
        return text_vector
    return b"".join((text_vector, *passages, pack("<H", len(passages)), _PASSAGES_MARK))


def split_vectors(data: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the vector of a text, and those of its passages. Raises ValueError."""
    if not data.endswith(_PASSAGES_MARK):
        return data, ()
    end = len(data) - len(_PASSAGES_MARK) - _COUNT_SIZE
    count = int.from_bytes(data[end : end + _COUNT_SIZE], "little")
    size, remainder = divmod(end, count + 1)
    if remainder:
        raise ValueError("vectors of different lengths")
    return data[:size], tuple(data[start : start + size] for start in range(size, end, size))


def encode_segment(entries: Sequence[IndexEntry]) -> bytes:
    """Encode versions, given in the order of their ids, as a segment of one block."""
    count = len(entries)
    columns = (
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
        pack(f"<{count}q", *(entry.valid_from for entry in entries)),
        pack(f"<{count}q", *(entry.valid_to for entry in entries)),
    )
    postings = _encode_postings_of_one(entries[0]) if count == 1 else _encode_postings(entries)
    return b"".join((*columns, *postings))


def _encode_postings_of_one(entry: IndexEntry) -> tuple[bytes, ...]:
    """Encode the postings of one version; faster than `_encode_postings`, since a text may have 20,000 words."""
    frequencies = entry.text.term_frequencies
    terms = sorted(frequencies)
    count = len(terms)
    return (
        pack("<II", count, count),
        pack(f"<{count}Q", *terms),
        pack(f"<{count + 1}I", *range(count + 1)),
        bytes(4 * count),
        bytes([min(frequencies[term], FREQUENCY_LIMIT) for term in terms]),
    )


def _encode_postings(entries: Sequence[IndexEntry]) -> tuple[bytes, ...]:
    """Encode the postings of several versions."""
    postings = sorted(
        (term, row, frequency)
        for row, entry in enumerate(entries)
        for term, frequency in entry.text.term_frequencies.items()
    )
    terms: list[int] = []
    starts: list[int] = []
    for index, (term, _, _) in enumerate(postings):
        if not terms or terms[-1] != term:
            terms.append(term)
            starts.append(index)
    starts.append(len(postings))
    return (
        pack("<II", len(terms), len(postings)),
        pack(f"<{len(terms)}Q", *terms),
        pack(f"<{len(starts)}I", *starts),
        pack(f"<{len(postings)}i", *(row for _, row, _ in postings)),
        bytes(min(frequency, FREQUENCY_LIMIT) for _, _, frequency in postings),
    )
