"""Segments of the word index in memory: columns of facts about versions, and postings of terms.

A segment holds some consecutive versions of one tenant and never changes. A version is known by its row, its index in
the order of version ids. Names and terms are keyed hashes of eight bytes, 0 for none, so that without the key a segment
reveals only frequencies.

Postings are sorted by term, then by row, and cut into blocks between two terms, so that a query reads only the blocks
of its terms. Encoded, a segment is its columns one after another (`_COLUMNS`), followed by its blocks. A block is the
numbers of terms and postings, the terms, the starts of their postings, the rows, and the term frequencies. All numbers
are little-endian.

The encoding is the contract with stored data: a new column needs a new ANALYSIS number, a branch in `widen_columns` for
older segments, and the same column in `entry.encode_segment`, which writes small segments without NumPy. Arrays made by
`decode` share the bytes that they were read from and cannot be written.

Rows are addressed by index within their segment; version ids ascend, so a version is found by binary search. Links
between neighbours of a session are computed once for a segment and then adjusted to what a caller sees.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from struct import unpack_from
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.entry import (
    EXPIRING_BIT,
    FREQUENCY_LIMIT,
    LASTING_BIT,
    LENGTH_LIMIT,
    NO_BEGINNING,
    NO_END,
    IndexEntry,
)
from memoranda.retrieval.languages import LANGUAGE_CODES

HashColumn: TypeAlias = NDArray[np.uint64]
RowNumbers: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float32]
Flags: TypeAlias = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.integer[Any])

# The rows of a term in ascending order, and its frequency in each.
Postings: TypeAlias = tuple[RowNumbers, NDArray[Any]]
# For each row the previous and the next row of its session; -1 if there is none.
Links: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

# Rows: cached views of a segment may have this many together, at one byte each.
VIEWS_LIMIT: Final = 4_000_000
# Rows: a session that continues in the fresh run is looked for this far back; farther back its neighbours are missed.
CUT_LIMIT: Final = 8_192
# Postings per block: about 80 KB, which a query reads for one term.
BLOCK_POSTINGS: Final = 16_384


class VisibleStatistics(msgspec.Struct, frozen=True, eq=False):
    """Statistics of the visible rows of a segment; computed once per set of visible rows."""

    visible: Flags
    # Among the visible rows.
    links: Links
    count: int
    # The number of words of all visible texts.
    length: float
    # The number of words in the window of each row (with the previous and the next text), and of all windows.
    window_lengths: Floats
    window_length: float
    # Cached numbers of windows with a word, by the key of the word.
    window_frequencies: dict[Hashable, int] = msgspec.field(default_factory=dict)


class VersionColumns(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """Facts about the versions of a segment, one array per fact, in the order of version ids.

    Frozen; values that are computed from it are cached on the object, because segments live as long as the cache holds
    them.
    """

    versions: NDArray[np.int64]
    spaces: HashColumn
    users: HashColumn
    agents: HashColumn
    sessions: HashColumn
    speakers: HashColumn
    subjects: HashColumn
    # Hashes of the normalised texts, equal for duplicates.
    text_hashes: HashColumn
    # Times of observation, in Unix milliseconds.
    times: NDArray[np.int64]
    lengths: NDArray[np.uint16]
    # Bits of visibility, redaction and validity (`entry`).
    flags: NDArray[np.uint8]
    languages: NDArray[np.uint8]
    # The declared validity: its first millisecond, and the one after the last.
    valid_from: NDArray[np.int64]
    valid_to: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.versions)

    @cached_property
    def has_sessions(self) -> bool:
        """True if any row belongs to a session."""
        return bool(self.sessions.any())

    @cached_property
    def lengths32(self) -> Floats:
        """The lengths as floating-point numbers."""
        return self.lengths.astype(np.float32)

    @cached_property
    def longest(self) -> int:
        """The number of words of the longest text."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def persons(self) -> HashColumn:
        """All speakers and subjects, in ascending order."""
        return union(self.speakers, self.subjects)

    @cached_property
    def languages_present(self) -> frozenset[str]:
        """The languages of all texts."""
        return _language_codes(self.languages)

    @cached_property
    def _limits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The beginnings and the ends of validity, each in ascending order."""
        return np.sort(self.valid_from), np.sort(self.valid_to)

    def validity_key(self, at: int) -> tuple[int, int]:
        """Return a key that is equal for instants at which the same rows are valid."""
        beginnings, ends = self._limits
        return int(beginnings.searchsorted(at, "right")), int(ends.searchsorted(at, "right"))

    def is_valid_at(self, at: int) -> Flags:
        """Return a flag for each row: True if its declared validity includes an instant."""
        flags: Flags = (self.valid_from <= at) & (self.valid_to > at)
        return flags

    def languages_of(self, mask: Flags) -> frozenset[str]:
        """Return the languages of some rows."""
        if len(self.languages_present) == 1:
            return self.languages_present
        return _language_codes(self.languages[mask])

    @cached_property
    def session_links(self) -> Links:
        """The previous and the next row of each row in its session and space, by time; -1 if there is none."""
        size = len(self)
        before, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        rows = np.flatnonzero(self.sessions)
        if len(rows) > 1:
            order = rows[np.lexsort((self.times[rows], self.sessions[rows], self.spaces[rows]))]
            is_same_session = self.sessions[order[1:]] == self.sessions[order[:-1]]
            is_same_session &= self.spaces[order[1:]] == self.spaces[order[:-1]]
            first, second = order[:-1][is_same_session], order[1:][is_same_session]
            after[first] = second
            before[second] = first
        return before, after

    @cached_property
    def _by_session(self) -> tuple[HashColumn, NDArray[np.int64], NDArray[np.int64]]:
        """All sessions in ascending order, where the rows of each start in the third array, and the rows."""
        order = np.argsort(self.sessions, kind="stable")
        sessions = self.sessions[order]
        is_first = np.append(True, sessions[1:] != sessions[:-1])[: len(self)]
        starts = np.flatnonzero(is_first)
        return sessions[starts], np.append(starts, len(self)), order

    def rows_of_sessions(self, sessions: HashColumn) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of some sessions, and for each row the index of its session in `sessions`."""
        all_sessions, session_starts, order = self._by_session
        if not len(all_sessions):
            return order, order
        positions = np.searchsorted(all_sessions, sessions)
        indexes = np.flatnonzero(all_sessions.take(positions, mode="clip") == sessions)
        starts = session_starts[positions[indexes]]
        sizes = session_starts[positions[indexes] + 1] - starts
        # Consecutive numbers from each start on, for all sessions at once.
        shifts = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        steps = np.arange(sizes.sum()) + shifts
        return order[steps], np.repeat(indexes, sizes)

    def settled_size(self, next_columns: VersionColumns) -> int:
        """Return the number of leading rows without a session that continues in the following rows or after the cut.

        Used to cut the base where no session continues (`SegmentReader`). Looks back at most CUT_LIMIT rows.
        """
        continued = next_columns.sessions[next_columns.sessions != 0]
        cut_row = len(self)
        earliest = max(0, cut_row - CUT_LIMIT)
        while len(continued):
            rows = np.flatnonzero(np.isin(self.sessions[earliest:cut_row], continued))
            if not len(rows):
                break
            first = earliest + int(rows[0])
            # Other sessions are cut there, too, so they move the cut further back.
            continued = self.sessions[first:cut_row]
            continued = continued[continued != 0]
            cut_row = first
        return cut_row

    def slice(self, start: int, end: int) -> VersionColumns:
        """Return the rows from `start` to before `end`."""
        part = VersionColumns(**{name: getattr(self, name)[start:end] for name in _COLUMNS})
        if start == 0 and end:
            # Links need not be computed again. They may lead to rows after `end`: later rows may have earlier times.
            is_inside = np.arange(len(self)) < end
            links = tuple(column[:end] for column in self.visible_links(is_inside))
            part.__dict__["session_links"] = links
        return part

    def warm(self) -> None:
        """Compute and cache what every query needs."""
        if self.has_sessions:
            _ = self._by_session, self.statistics(np.ones(len(self), np.bool_))

    def row_of(self, version_id: int) -> int | None:
        """Return the row of a version; None if it is not in this segment."""
        row = int(np.searchsorted(self.versions, version_id))
        return row if row < len(self) and int(self.versions[row]) == version_id else None

    def rows_of(self, versions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of those versions that are in this segment; `versions` ascend."""
        rows = np.searchsorted(self.versions, versions)
        return rows[self.versions.take(rows, mode="clip") == versions] if len(self) else rows[:0]

    def all_except(self, versions: NDArray[np.int64]) -> Flags:
        """Return a flag for each row: True unless its version is in `versions`, which must ascend."""
        flags = np.ones(len(self), np.bool_)
        flags[self.rows_of(versions)] = False
        return flags

    def cached_view(
        self, key: Hashable, closed_versions: object, compute: Callable[[VersionColumns], Flags]
    ) -> Flags:
        """Return the flags that `compute` returns, cached by `key` until another array of closed versions is used.

        The same object is returned for the same view, so callers can compare views by identity.

        `closed_versions` is compared by identity: the array of closed versions is replaced when it changes.
        """
        views: dict[Hashable, tuple[object, Flags]] = self.__dict__.setdefault("_views", {})
        cached = views.get(key)
        if cached is not None and cached[0] is closed_versions:
            return cached[1]
        flags = compute(self)
        flags.flags.writeable = False
        if len(views) >= self.view_limit:
            views.clear()
        views[key] = closed_versions, flags
        return flags

    def statistics(self, visible: Flags) -> VisibleStatistics:
        """Return statistics of the visible rows, cached for callers who see the same rows."""
        cache: dict[bytes, VisibleStatistics] = self.__dict__.setdefault("_statistics", {})
        for statistics in tuple(cache.values()):
            if statistics.visible is visible:
                return statistics
        key = b"" if visible.all() else np.packbits(visible).tobytes()
        cached = cache.get(key)
        if cached is None:
            cached = self._compute_statistics(visible)
            if len(cache) >= self.view_limit:
                cache.clear()
            cache[key] = cached
        return cached

    def _compute_statistics(self, visible: Flags) -> VisibleStatistics:
        links = self.visible_links(visible)
        rows = visible.nonzero()[0]
        # A trailing 0 is the length of the missing neighbour, -1.
        lengths = np.append(self.lengths32, np.float32(0))
        own_lengths = lengths.take(rows)
        windows = own_lengths + sum(lengths.take(linked.take(rows)) for linked in links)
        window_lengths = np.zeros(len(self), np.float32)
        window_lengths[rows] = windows
        return VisibleStatistics(
            visible,
            links,
            len(rows),
            float(own_lengths.sum(dtype=np.float64)),
            window_lengths,
            float(windows.sum(dtype=np.float64)),
        )

    @property
    def view_limit(self) -> int:
        """The number of cached views of this segment."""
        return max(2, VIEWS_LIMIT // max(1, len(self)))

    def visible_links(self, visible: Flags) -> Links:
        """Return the links between visible rows; invisible rows between them are skipped."""
        if visible.all():
            return self.session_links
        before, after = (_skip_invisible(links, visible) for links in self.session_links)
        return before, after

    def encode(self) -> bytes:
        """Return all columns as bytes."""
        return b"".join(column.tobytes() for column in self.columns())

    def columns(self) -> list[NDArray[Any]]:
        """Return all columns in the order of their encoding."""
        return [getattr(self, name) for name in _COLUMNS]

    @classmethod
    def decode(cls, data: bytes) -> VersionColumns:
        """Read columns from bytes, without copying them."""
        size, start = len(data) // ROW_BYTES, 0
        columns: dict[str, Any] = {}
        for name, kind in _COLUMNS.items():
            columns[name] = np.frombuffer(data, kind, size, start)
            start += size * kind.itemsize
        return cls(**columns)


def _skip_invisible(links: NDArray[np.int64], visible: Flags) -> NDArray[np.int64]:
    """Replace links of visible rows to invisible ones by the next visible row in that direction, or -1."""
    wrong = np.flatnonzero(visible & (links >= 0))
    wrong = wrong[~visible[links[wrong]]]
    if len(wrong):
        links = links.copy()
    while len(wrong):
        links[wrong] = links[links[wrong]]
        wrong = wrong[links[wrong] >= 0]
        wrong = wrong[~visible[links[wrong]]]
    return links


_COLUMNS: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(kind)
    for name, kind in zip(
        VersionColumns.__struct_fields__,
        (
            "<i8",
            "<u8",
            "<u8",
            "<u8",
            "<u8",
            "<u8",
            "<u8",
            "<u8",
            "<i8",
            "<u2",
            "u1",
            "u1",
            "<i8",
            "<i8",
        ),
        strict=True,
    )
}
# Bytes per version.
ROW_BYTES: Final = sum(kind.itemsize for kind in _COLUMNS.values())
# The first analysis whose segments have columns of validity, and the bytes per version of earlier ones.
VALIDITY_ANALYSIS: Final = 9
_EARLIER_ROW_BYTES: Final = ROW_BYTES - 16


def widen_columns(data: bytes, docs: int) -> bytes:
    """Return an encoded segment of an earlier analysis with columns of validity; these exclude no time.

    Only the database knows until when its versions are valid, unless they are lasting.

    Every row that may have an end of validity is marked as expiring, so that the database checks it.
    """
    end = docs * _EARLIER_ROW_BYTES
    columns = np.frombuffer(data, np.uint8, end).copy()
    flags = columns[end - 2 * docs : end - docs]
    flags[(flags & LASTING_BIT) == 0] |= EXPIRING_BIT
    limits = np.repeat(np.array([NO_BEGINNING, NO_END], "<i8"), docs)
    return b"".join((columns.tobytes(), limits.tobytes(), data[end:]))


def narrow_columns(data: bytes, docs: int) -> bytes:
    """Return encoded columns without validity, as segments of an earlier analysis have them."""
    return data[: docs * _EARLIER_ROW_BYTES]


def _language_codes(numbers: NDArray[np.uint8]) -> frozenset[str]:
    present = np.flatnonzero(np.bincount(numbers)).tolist()
    return frozenset(LANGUAGE_CODES[number] for number in present)


def union(one: NDArray[Number], other: NDArray[Number]) -> NDArray[Number]:
    """Return the distinct numbers of two arrays in ascending order.

    `numpy.union1d` would import NumPy's masked arrays, which delays a command noticeably.
    """
    all_numbers: NDArray[Number] = np.sort(np.concatenate((one, other)))
    distinct: NDArray[Number] = all_numbers[
        np.append(True, all_numbers[1:] != all_numbers[:-1])[: len(all_numbers)]
    ]
    return distinct


def merge_spellings(postings: Sequence[Postings]) -> Postings | None:
    """Return the postings of several spellings as those of one word; None if there are none."""
    if len(postings) < 2:
        return postings[0] if postings else None
    all_rows = np.concatenate([rows for rows, _ in postings])
    rows, indexes = np.unique(all_rows, return_inverse=True)
    frequencies = np.concatenate([frequencies for _, frequencies in postings])
    sums = np.bincount(indexes, frequencies, len(rows))
    return rows, sums.astype(np.float32)


def concat_columns(parts: Sequence[VersionColumns]) -> VersionColumns:
    """Return the columns of consecutive versions as one."""
    if len(parts) == 1:
        return parts[0]
    return VersionColumns(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    )


def concat_postings(parts: Sequence[Postings | None], starts: Sequence[int]) -> Postings | None:
    """Return the postings of one term in several segments as one; `starts`: the first row of each segment."""
    present = [
        (postings, start)
        for postings, start in zip(parts, starts, strict=True)
        if postings is not None
    ]
    if not present:
        return None
    rows = np.concatenate([rows + np.int32(start) for (rows, _), start in present])
    return rows, np.concatenate([frequencies for (_, frequencies), _ in present])


def split_postings(
    postings: Postings | None, cut_row: int
) -> tuple[Postings | None, Postings | None]:
    """Return the postings before a row, and those from it on, with rows counted from it."""
    if postings is None:
        return None, None
    rows, frequencies = postings
    index = int(np.searchsorted(rows, cut_row))
    before = (rows[:index], frequencies[:index]) if index else None
    if index == len(rows):
        return before, None
    return before, (rows[index:] - np.int32(cut_row), frequencies[index:])


class PostingBlock(msgspec.Struct, frozen=True, eq=False):
    """The postings of some consecutive terms."""

    terms: HashColumn
    # The index of the first posting of each term, and the number of all postings.
    starts: NDArray[np.uint32]
    rows: RowNumbers
    # Term frequencies.
    counts: NDArray[np.uint8]

    def find(self, term: int) -> tuple[RowNumbers, NDArray[np.uint8]] | None:
        """Return the postings of a term; None if it is not here."""
        index = int(self.terms.searchsorted(np.uint64(term)))
        if index == len(self.terms) or int(self.terms[index]) != term:
            return None
        start, end = self.starts[index], self.starts[index + 1]
        return self.rows[start:end], self.counts[start:end]

    def has(self, terms: HashColumn) -> Flags:
        """Return a flag for each term: True if it is here."""
        indexes = self.terms.searchsorted(terms)
        flags: Flags = self.terms.take(indexes, mode="clip") == terms
        return flags

    @property
    def size(self) -> int:
        """The bytes that it takes in memory."""
        return len(self.terms) * 12 + len(self.rows) * 5

    def encode(self) -> bytes:
        """Return the block as bytes."""
        head = np.array([len(self.terms), len(self.rows)], "<u4")
        arrays = (head, self.terms, self.starts, self.rows, self.counts)
        return b"".join(array.tobytes() for array in arrays)

    @classmethod
    def decode(cls, data: bytes, *, docs: int) -> PostingBlock:
        """Read a block from bytes; raise ValueError if they are no block of a segment with `docs` versions."""
        terms, postings = np.frombuffer(data, "<u4", 2).tolist()
        starts_offset = 8 + 8 * terms
        rows_offset = starts_offset + 4 * (terms + 1)
        block = cls(
            np.frombuffer(data, "<u8", terms, 8),
            np.frombuffer(data, "<u4", terms + 1, starts_offset),
            np.frombuffer(data, "<i4", postings, rows_offset),
            np.frombuffer(data, "u1", postings, rows_offset + 4 * postings),
        )
        _check_rows(block.rows, docs)
        return block


class Segment(msgspec.Struct, frozen=True, eq=False):
    """A segment with all its postings."""

    columns: VersionColumns
    blocks: list[PostingBlock]

    @property
    def first_terms(self) -> HashColumn:
        """The first term of each block, by which the block of a term is found."""
        return np.array([block.terms[0] for block in self.blocks], np.uint64)

    def find(self, term: int) -> Postings | None:
        """Return the postings of a term; None if no version has it."""
        # The terms of the blocks ascend, so only one block can have it.
        for block in self.blocks:
            if int(block.terms[-1]) >= term:
                return block.find(term)
        return None

    def has(self, terms: HashColumn) -> Flags:
        """Return a flag for each term: True if a version has it."""
        flags = np.zeros(len(terms), np.bool_)
        for block in self.blocks:
            flags |= block.has(terms)
        return flags


def _check_rows(rows: RowNumbers, docs: int) -> None:
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < docs:
        raise ValueError("a posting is of no version of its segment")


def build_segment(entries: Sequence[IndexEntry]) -> Segment:
    """Build the segment of some versions, given in the order of their ids.

    Entries of more than LENGTH_LIMIT words count as that long; frequencies stop at FREQUENCY_LIMIT.
    """
    versions, spaces, users, agents, sessions, times, flags, texts, valid_from, valid_to = zip(
        *entries, strict=True
    )
    by_text, lengths, speakers, subjects, languages, text_hashes = zip(*texts, strict=True)
    values = {
        "versions": versions,
        "spaces": spaces,
        "users": users,
        "agents": agents,
        "sessions": sessions,
        "speakers": speakers,
        "subjects": subjects,
        "text_hashes": text_hashes,
        "times": times,
        "lengths": [min(length, LENGTH_LIMIT) for length in lengths],
        "flags": flags,
        "languages": languages,
        "valid_from": valid_from,
        "valid_to": valid_to,
    }
    terms = np.fromiter((term for frequencies in by_text for term in frequencies), np.uint64)
    counts = np.fromiter(
        (
            min(frequency, FREQUENCY_LIMIT)
            for frequencies in by_text
            for frequency in frequencies.values()
        ),
        np.uint8,
    )
    sizes = [len(frequencies) for frequencies in by_text]
    rows = np.repeat(np.arange(len(entries), dtype=np.int32), sizes)
    columns = {name: np.array(column, _COLUMNS[name]) for name, column in values.items()}
    return Segment(VersionColumns(**columns), _cut_into_blocks(terms, rows, counts))


def decode_segments(encoded: Sequence[tuple[int, bytes]]) -> Segment:
    """Decode consecutive segments as one. Each is given by its number of versions and its bytes.

    The bytes are joined before arrays are built, because most segments hold one version.
    """
    columns: dict[str, Any] = {}
    starts = [0] * len(encoded)
    for name, kind in _COLUMNS.items():
        ends = [
            start + docs * kind.itemsize for start, (docs, _) in zip(starts, encoded, strict=True)
        ]
        slices = (
            data[start:end] for (_, data), start, end in zip(encoded, starts, ends, strict=True)
        )
        columns[name] = np.frombuffer(b"".join(slices), kind)
        starts = ends
    # `bounds`: for each segment the ends of its terms' postings, then their starts.
    terms, bounds, rows, counts, sizes = [], [], [], [], []
    for (_, data), start in zip(encoded, starts, strict=True):
        term_count, posting_count = unpack_from("<II", data, start)
        terms_offset = start + 8
        starts_offset = terms_offset + 8 * term_count
        rows_offset = starts_offset + 4 * (term_count + 1)
        counts_offset = rows_offset + 4 * posting_count
        terms.append(data[terms_offset:starts_offset])
        bounds.append(data[starts_offset + 4 : rows_offset])
        bounds.append(data[starts_offset : rows_offset - 4])
        rows.append(data[rows_offset:counts_offset])
        counts.append(data[counts_offset : counts_offset + posting_count])
        sizes.append(posting_count)
    joined_rows = np.frombuffer(b"".join(rows), "<i4")
    _check_rows(joined_rows, max(docs for docs, _ in encoded))
    term_ends = np.frombuffer(b"".join(bounds[0::2]), "<u4")
    term_starts = np.frombuffer(b"".join(bounds[1::2]), "<u4")
    first_rows = np.cumsum([0, *(docs for docs, _ in encoded[:-1])])
    blocks = _cut_into_blocks(
        np.repeat(np.frombuffer(b"".join(terms), "<u8"), term_ends - term_starts),
        joined_rows + np.repeat(first_rows, sizes).astype(np.int32),
        np.frombuffer(b"".join(counts), "u1"),
    )
    return Segment(VersionColumns(**columns), blocks)


def merge_segments(segments: Sequence[Segment], erased: Sequence[int] = ()) -> Segment:
    """Merge consecutive segments into one, without erased versions.

    Postings of erased versions are dropped, and rows are counted again.
    """
    columns = {
        name: np.concatenate([getattr(segment.columns, name) for segment in segments])
        for name in _COLUMNS
    }
    first_rows = np.cumsum([0, *(len(segment.columns) for segment in segments)])
    # With an empty array in front, which gives the result its type if there are no blocks.
    terms, rows, counts = [_NO_TERMS], [_NO_ROWS], [_NO_COUNTS]
    for segment, first_row in zip(segments, first_rows[:-1], strict=True):
        for block in segment.blocks:
            terms.append(np.repeat(block.terms, np.diff(block.starts)))
            rows.append(block.rows + np.int32(first_row))
            counts.append(block.counts)
    all_terms, all_rows = np.concatenate(terms), np.concatenate(rows)
    all_counts = np.concatenate(counts)
    if len(erased):
        is_kept = ~np.isin(columns["versions"], np.array(erased, np.int64))
        new_rows = (np.cumsum(is_kept) - 1).astype(np.int32)
        columns = {name: column[is_kept] for name, column in columns.items()}
        stays = is_kept[all_rows]
        all_terms, all_counts = all_terms[stays], all_counts[stays]
        all_rows = new_rows[all_rows[stays]]
    return Segment(VersionColumns(**columns), _cut_into_blocks(all_terms, all_rows, all_counts))


_NO_TERMS: Final = np.zeros(0, np.uint64)
_NO_ROWS: Final = np.zeros(0, np.int32)
_NO_COUNTS: Final = np.zeros(0, np.uint8)


def _cut_into_blocks(
    terms: HashColumn, rows: RowNumbers, counts: NDArray[np.uint8]
) -> list[PostingBlock]:
    """Sort postings, add up those of the same term and row, and cut them into blocks; a term is never cut."""
    if not len(terms):
        return []
    order = np.lexsort((rows, terms))
    terms, rows, counts = terms[order], rows[order], counts[order]
    is_new = np.empty(len(terms), np.bool_)
    is_new[0] = True
    np.not_equal(terms[1:], terms[:-1], out=is_new[1:])
    is_new[1:] |= rows[1:] != rows[:-1]
    if not is_new.all():
        starts = np.flatnonzero(is_new)
        totals = np.add.reduceat(counts.astype(np.uint32), starts)
        terms, rows = terms[starts], rows[starts]
        counts = np.minimum(totals, FREQUENCY_LIMIT).astype(np.uint8)
    term_starts = np.flatnonzero(np.concatenate(([True], terms[1:] != terms[:-1])))
    term_ends = np.append(term_starts[1:], len(terms))
    blocks: list[PostingBlock] = []
    first = 0
    while first < len(term_starts):
        # The block ends with the last term that fits, but has at least one.
        block_end = term_starts[first] + BLOCK_POSTINGS
        last = max(first + 1, int(np.searchsorted(term_ends, block_end, "right")))
        start, end = term_starts[first], term_ends[last - 1]
        starts_in_block = np.append(term_starts[first:last], end) - start
        blocks.append(
            PostingBlock(
                terms[term_starts[first:last]],
                starts_in_block.astype(np.uint32),
                rows[start:end],
                counts[start:end],
            )
        )
        first = last
    return blocks


def closings_array(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return closed versions, each with the end of its valid time, as an array of two columns."""
    return np.array(rows, np.int64).reshape(len(rows), 2)


def apply_closings(
    closed_versions: NDArray[np.int64], changes: Sequence[tuple[object, ...]]
) -> NDArray[np.int64]:
    """Return the closed versions after changes: a version, its end, and 0 if it was closed or 1 if reopened."""
    changed_rows = np.array(sorted(changes), np.int64).reshape(len(changes), 3)
    unchanged = closed_versions[~np.isin(closed_versions[:, 0], changed_rows[:, 0])]
    newly_closed = changed_rows[changed_rows[:, 2] == 0, :2]
    all_rows = np.concatenate((unchanged, newly_closed))
    result: NDArray[np.int64] = all_rows[np.argsort(all_rows[:, 0], kind="stable")]
    return result
