"""Reading the segments of the word index: cached, and joined to at most two.

Segments are grouped into runs: consecutive small segments together, each large one alone. All runs but the last small
one are settled: they change only by merges and erasures. They form the base. The last run, the fresh one, changes with
every write. A query gets the base and the fresh run as two segments. The cut between them is moved back until no
session continues across it, so that the neighbours of a text are always in its own segment.

Small segments are read whole. Of a large one the columns are read, and per query word one block of postings.

What is cached: joined runs (`run`), bases (`base`, `whole`), the cut (`cut`, `head`), single blocks of large segments,
and postings of a term in a base. Every cache key holds the segment keys or the serial number of the base, so a write, a
merge or an erasure invalidates exactly what it changed. If you add a derived value, give its size to the cache: the
limit is in bytes. Errors of decoding become StoreCorrupt with advice to rebuild (`report_damage`), because a damaged
index must not look like an empty one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, count
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from memoranda.errors import StoreCorrupt
from memoranda.retrieval.segment import (
    VALIDITY_ANALYSIS,
    Flags,
    HashColumn,
    PostingBlock,
    Postings,
    Segment,
    VersionColumns,
    concat_columns,
    concat_postings,
    decode_segments,
    merge_segments,
    split_postings,
    widen_columns,
)
from memoranda.storage.engine.database import Connection, Row
from memoranda.storage.index.word_index import SMALL_SEGMENT_DOCS, SegmentCache, SegmentKey

# Versions: up to this many, base and fresh run are joined to one segment while nothing is written.
_JOINED_DOCS: Final = 262_144
# Queries that must see the same segments before these are joined: then joining pays.
_QUERIES_BEFORE_JOIN: Final = 128
# Bytes of a version in memory without its postings, and of a segment key.
_DOC_BYTES: Final = 80
_KEY_BYTES: Final = 200

# Consecutive small segments, or one large segment.
Run: TypeAlias = Sequence[SegmentKey]

# Unique numbers of bases, for cache keys.
_serials: Final = count()


class ReadableSegment(NamedTuple):
    """Versions to search: their columns, and the function that returns the postings of a term, or None.

    `may_have` returns a flag for each of many terms, much faster than `find`: False if no version has it.
    """

    columns: VersionColumns
    find: Callable[[int], Postings | None]
    may_have: Callable[[HashColumn], Flags]
    # The unique number of a base, -1 for other segments; a key of what is cached for it.
    serial: int = -1


class _Base(NamedTuple):
    """The joined columns of runs, the first row of each run, and the first terms of the blocks of large segments."""

    columns: VersionColumns
    starts: list[int]
    first_terms: list[HashColumn | None]
    serial: int


class _Derived(NamedTuple):
    """A cached value that was computed from segments. A later value of the same kind replaces it."""

    keys: tuple[SegmentKey, ...]
    value: Any


@contextmanager
def report_damage() -> Iterator[None]:
    """Raise StoreCorrupt for any error of decoding a segment."""
    try:
        yield
    except (ValueError, IndexError, TypeError, struct.error) as error:
        message = "the word index is damaged: run `memoranda reindex` to rebuild it"
        raise StoreCorrupt(message) from error


class SegmentReader:
    """A reader of the segments of one tenant on one connection."""

    def __init__(self, connection: Connection, tenant_id: int, cache: SegmentCache) -> None:
        self._connection, self._tenant_id, self._cache = connection, tenant_id, cache

    def segments(self, keys: list[SegmentKey]) -> list[ReadableSegment]:
        """Return all versions of the index: the base and the fresh run, or one segment if nothing was written lately.

        One segment is searched in two thirds of the time of two.

        `keys` are all segments of the tenant in order, as `WordIndex.segment_keys` returns them from the same snapshot.
        """
        runs = list(_runs(keys))
        is_settled = bool(runs) and runs[-1][0].docs >= SMALL_SEGMENT_DOCS
        settled = runs if is_settled else runs[:-1]
        if not settled:
            return [self._whole_run(runs[-1])] if runs else []
        if is_settled:
            return [self._base(settled, "base")]
        if self._is_quiet(tuple(keys)):
            return [self._base(runs, "whole")]
        return self._cut_base(self._base(settled, "base"), self._whole_run(runs[-1]), tuple(keys))

    def read_merged(self, keys: Sequence[SegmentKey], erased: Sequence[int] = ()) -> Segment:
        """Return consecutive segments as one, without erased versions.

        The segments are read from the database, not from the cache, so that a merge works on exactly the stored bytes.
        """
        params = {"first_version": keys[0].first_version, "last_version": keys[-1].first_version}
        with report_damage():
            rows = [
                (docs, None if data is None else _current_columns(data, docs, key))
                for key, (docs, data) in zip(
                    keys, self._rows("segments_between", **params), strict=True
                )
            ]
            inline = [(docs, data) for docs, data in rows if data is not None]
            if not erased and len(inline) == len(rows):
                return decode_segments(inline)
            segments = [
                self._read_in_parts(key) if data is None else decode_segments([(docs, data)])
                for key, (docs, data) in zip(keys, rows, strict=True)
            ]
            return merge_segments(segments, erased)

    def _read_in_parts(self, key: SegmentKey) -> Segment:
        """Read a large segment."""
        parts = self._rows("segment_parts", first_version=key.first_version, edition=key.edition)
        columns, *blocks = (data for (data,) in parts)
        return Segment(
            VersionColumns.decode(_current_columns(columns, key.docs, key)),
            [PostingBlock.decode(block, docs=key.docs) for block in blocks],
        )

    def _is_quiet(self, keys: tuple[SegmentKey, ...]) -> bool:
        """Return True if enough queries have seen the same segments."""
        if sum(key.docs for key in keys) > _JOINED_DOCS:
            return False
        counter: list[int] | None = self._cached("asked", keys)
        if counter is None:
            counter = [0]
            self._keep("asked", keys, counter, 0)
        # Two threads that count at the same time may count once, which does no harm.
        counter[0] += 1
        return counter[0] > _QUERIES_BEFORE_JOIN

    def _whole_run(self, run: Run) -> ReadableSegment:
        segment = self._merged_run(run)
        return ReadableSegment(segment.columns, segment.find, segment.has)

    def _merged_run(self, run: Run) -> Segment:
        """Return a run of small segments as one. Mostly it is the cached one with a few more segments."""
        keys, cache_key = tuple(run), (self._tenant_id, "run", run[0].first_version)
        cached: _Derived | None = self._cache.get(cache_key)
        segment: Segment
        if cached is not None and cached.keys == keys:
            segment = cached.value
            return segment
        if cached is not None and cached.keys == keys[: len(cached.keys)]:
            segment = merge_segments([cached.value, self.read_merged(run[len(cached.keys) :])])
        else:
            segment = self.read_merged(run)
        size = _size(segment) + _KEY_BYTES * len(keys)
        self._cache.put(cache_key, _Derived(keys, segment), size)
        return segment

    def _cached(self, kind: str, keys: tuple[SegmentKey, ...]) -> Any:
        """Return the cached value of a kind if it was computed from these segments, else None."""
        cached: _Derived | None = self._cache.get((self._tenant_id, kind))
        return cached.value if cached is not None and cached.keys == keys else None

    def _keep(self, kind: str, keys: tuple[SegmentKey, ...], value: object, size: int) -> None:
        size += _KEY_BYTES * len(keys)
        self._cache.put((self._tenant_id, kind), _Derived(keys, value), size)

    def _base(self, runs: Sequence[Run], kind: str) -> ReadableSegment:
        """Return runs as one segment, whose columns are cached under `kind`."""
        keys = tuple(key for run in runs for key in run)
        cached: _Base | None = self._cached(kind, keys)
        if cached is None:
            parts = [self._columns_of_run(run) for run in runs]
            starts = [0, *accumulate(len(columns) for columns, _ in parts)]
            columns = concat_columns([columns for columns, _ in parts])
            first_terms = [terms for _, terms in parts]
            cached = _Base(columns, starts[:-1], first_terms, next(_serials))
            self._keep(kind, keys, cached, _DOC_BYTES * len(columns))
        base = cached

        def find(term: int) -> Postings | None:
            # In a tuple, so that "no postings" can be cached, too.
            cached_postings: tuple[Postings | None] | None = self._cache.get((base.serial, term))
            if cached_postings is None:
                by_run = [
                    self._find(run, first_terms, term)
                    for run, first_terms in zip(runs, base.first_terms, strict=True)
                ]
                cached_postings = (concat_postings(by_run, base.starts),)
                (postings,) = cached_postings
                size = 64 + (0 if postings is None else 5 * len(postings[0]))
                self._cache.put((base.serial, term), cached_postings, size)
            return cached_postings[0]

        def may_have(terms: HashColumn) -> Flags:
            flags = np.zeros(len(terms), np.bool_)
            for run, first_terms in zip(runs, base.first_terms, strict=True):
                flags |= self._may_have(run, first_terms, terms)
            return flags

        return ReadableSegment(base.columns, find, may_have, base.serial)

    def _columns_of_run(self, run: Run) -> tuple[VersionColumns, HashColumn | None]:
        """Return the columns of a run, and the first terms of the blocks of a large segment."""
        key = run[0]
        if key.docs < SMALL_SEGMENT_DOCS:
            return self._merged_run(run).columns, None
        with report_damage():
            columns = VersionColumns.decode(_current_columns(self._part(key, 0), key.docs, key))
            ((first_terms,),) = self._rows(
                "segment_firsts", first_version=key.first_version, edition=key.edition
            )
            return columns, np.frombuffer(first_terms, np.uint64)

    def _find(self, run: Run, first_terms: HashColumn | None, term: int) -> Postings | None:
        """Return the postings of a term in a run; in a large segment only the block with the term is read."""
        if first_terms is None:
            return self._merged_run(run).find(term)
        number = int(np.searchsorted(first_terms, np.uint64(term), "right")) - 1
        return None if number < 0 else self._block(run[0], number).find(term)

    def _may_have(self, run: Run, first_terms: HashColumn | None, terms: HashColumn) -> Flags:
        """Return a flag for each term: True if a run has it. Of a large segment, some blocks are read."""
        if first_terms is None:
            return self._merged_run(run).has(terms)
        flags = np.zeros(len(terms), np.bool_)
        numbers = np.searchsorted(first_terms, terms, "right") - 1
        for number in np.unique(numbers[numbers >= 0]).tolist():
            is_here = numbers == number
            flags[is_here] = self._block(run[0], number).has(terms[is_here])
        return flags

    def _block(self, key: SegmentKey, number: int) -> PostingBlock:
        """Return a block of a large segment, from the cache if it was read lately."""
        cache_key = (self._tenant_id, key.first_version, key.edition, number)
        block: PostingBlock | None = self._cache.get(cache_key)
        if block is None:
            with report_damage():
                block = PostingBlock.decode(self._part(key, number + 1), docs=key.docs)
            self._cache.put(cache_key, block, block.size)
        return block

    def _cut_base(
        self, base: ReadableSegment, fresh: ReadableSegment, keys: tuple[SegmentKey, ...]
    ) -> list[ReadableSegment]:
        """Return base and fresh run, cut where no session continues; one segment if there is no such cut.

        Ranking looks at the texts before and after a text of a session. If a session began in the base and continues in
        the fresh run, its rows in the base are moved to the second segment, with all rows behind them.
        """

        def may_have(terms: HashColumn) -> Flags:
            return base.may_have(terms) | fresh.may_have(terms)

        cached: tuple[int, VersionColumns, VersionColumns] | None = self._cached("cut", keys)
        if cached is None:
            row_count = base.columns.settled_size(fresh.columns)
            moved_columns = base.columns.slice(row_count, len(base.columns))
            tail = concat_columns([moved_columns, fresh.columns])
            cached = row_count, self._head(base, row_count), tail
            self._keep("cut", keys, cached, _DOC_BYTES * len(tail))
        row_count, head, tail = cached
        moved = len(base.columns) - row_count
        if not moved:
            return [
                ReadableSegment(head, base.find, base.may_have),
                ReadableSegment(tail, fresh.find, fresh.may_have),
            ]

        def find_in_head(term: int) -> Postings | None:
            return split_postings(base.find(term), row_count)[0]

        def find_in_tail(term: int) -> Postings | None:
            moved_postings = split_postings(base.find(term), row_count)[1]
            return concat_postings([moved_postings, fresh.find(term)], [0, moved])

        after = ReadableSegment(tail, find_in_tail, may_have)
        before = ReadableSegment(head, find_in_head, base.may_have)
        return [before, after] if row_count else [after]

    def _head(self, base: ReadableSegment, row_count: int) -> VersionColumns:
        """Return the columns of the base segment before row `cut`. Cached, because most writes do not change `cut`."""
        cache_key = (self._tenant_id, "head")
        cached: tuple[tuple[int, int], VersionColumns] | None = self._cache.get(cache_key)
        if cached is None or cached[0] != (base.serial, row_count):
            cached = (base.serial, row_count), base.columns.slice(0, row_count)
            self._cache.put(cache_key, cached, 16 * row_count)
        return cached[1]

    def _part(self, key: SegmentKey, number: int) -> bytes:
        """Read one part of a large segment."""
        ((data,),) = self._rows(
            "segment_part", first_version=key.first_version, edition=key.edition, number=number
        )
        return bytes(data)

    def _rows(self, query: str, **params: object) -> list[Row]:
        return self._connection.query(query, {"tenant_id": self._tenant_id, **params})


def _current_columns(data: bytes, docs: int, key: SegmentKey) -> bytes:
    """Return encoded columns, or a segment, with the columns of this version."""
    return widen_columns(data, docs) if key.analysis < VALIDITY_ANALYSIS else data


def _runs(keys: list[SegmentKey]) -> Iterator[Run]:
    """Group segments: consecutive small ones together, up to SMALL_SEGMENT_DOCS and the one that exceeds it."""
    run: list[SegmentKey] = []
    for key in keys:
        if (
            key.docs < SMALL_SEGMENT_DOCS
            and sum(member.docs for member in run) < SMALL_SEGMENT_DOCS
        ):
            run.append(key)
            continue
        if run:
            yield run
        run = []
        if key.docs >= SMALL_SEGMENT_DOCS:
            yield [key]
        else:
            run = [key]
    if run:
        yield run


def _size(segment: Segment) -> int:
    """Return the bytes of a segment in memory."""
    return _DOC_BYTES * len(segment.columns) + sum(block.size for block in segment.blocks)
