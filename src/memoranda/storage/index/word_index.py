"""The word index of a tenant: immutable segments in the database.

Each transaction adds one segment for the versions it wrote. As soon as `MERGE_FAN_IN` segments of a tier exist, they
are merged into one of the next tier, so there are few. Small segments are merged in the transaction, large ones outside
it. Erased versions are removed by rebuilding their segment, before the scrub of the database ends.

A small segment is stored in one row. A large one is stored in parts: part 0 holds the columns of its versions, each
other part a block of postings. This module writes segments; `segment_reader` reads, caches and merges them.

Costs: a write adds one row; a merge copies each version once per tier, five times in its life at most; a query reads
about MERGE_FAN_IN segments per tier. A segment is never changed. Merging or erasing writes a new one with a higher
edition and deletes the old ones in the same transaction, so readers with an older snapshot keep reading the old ones.
Terms are stored as keyed 64-bit hashes (`crypto/fingerprints.py`), so the index reveals no words. After a change of the
text analysis, increase `ANALYSIS`; sections with an older one are rebuilt by `verification.py`.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from memoranda.retrieval.analysis import ANALYSIS
from memoranda.retrieval.entry import IndexEntry, encode_segment
from memoranda.storage.engine.database import Connection

# Modules with NumPy are imported inside functions: most commands write a few versions and search nothing.
if TYPE_CHECKING:
    from memoranda.retrieval.segment import Segment
    from memoranda.storage.index.segment_reader import ReadableSegment, SegmentReader

# Segments of a tier that are merged into one of the next tier.
MERGE_FAN_IN: Final = 16
# Versions: larger segments are merged outside the writer's transaction, and are read block by block.
SMALL_SEGMENT_DOCS: Final = 4_096
# Versions: no larger segment is built, because one transaction must write it; about 10 MB.
LARGEST_SEGMENT_DOCS: Final = 131_072
# Tiers with segments below LARGEST_SEGMENT_DOCS: each is MERGE_FAN_IN times as large as the one before.
_TIERS: Final = 5
# Bytes: longer segments are stored in parts.
_INLINE_BYTES: Final = 65_536
# Versions that are encoded without NumPy, which takes longer to import than to encode them.
_ENCODED_PLAINLY: Final = 32
# Bytes of all cached segments, 256 MiB.
_CACHE_BYTES: Final = 256 * 1024 * 1024
# The encoding of a block without postings: two counts, and the start of the first posting.
_NO_POSTINGS: Final = bytes(12)

# Old segments with the new segment that replaces each of them.
SegmentReplacements: TypeAlias = "list[tuple[SegmentKey, Segment]]"


def load_builder(entry_count: int) -> None:
    """Load NumPy now if adding so many entries will need it: it takes 40 ms, too long for a unit of work."""
    if entry_count > _ENCODED_PLAINLY:
        import_module("memoranda.retrieval.segment")


class SegmentKey(NamedTuple):
    """The identity of a segment. A segment that replaces others has a higher edition."""

    first_version: int
    edition: int
    # The number of its versions.
    docs: int
    # The version of the text analysis by which it was built.
    analysis: int = ANALYSIS

    @property
    def tier(self) -> int:
        """The tier by size: 0 for less than 16 versions, 1 for less than 256, and so on."""
        return (self.docs.bit_length() - 1) // 4


class SegmentCache:
    """A cache of decoded segments, shared by the threads of a process; the least recently used entry goes first."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        """Create an empty cache; `limit`: bytes of all entries."""
        self._lock = threading.Lock()
        # Values with their sizes in bytes.
        self._entries: OrderedDict[tuple[object, ...], tuple[object, int]] = OrderedDict()
        self._limit, self._size = limit, 0

    def get(self, key: tuple[object, ...]) -> Any:
        """Return the cached value, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: tuple[object, ...], value: object, size: int) -> None:
        """Cache a value of some bytes; it replaces the previous value of the key."""
        with self._lock:
            if key in self._entries:
                self._size -= self._entries.pop(key)[1]
            if size > self._limit:
                return
            self._entries[key] = value, size
            self._size += size
            while self._size > self._limit:
                _, (_, dropped_size) = self._entries.popitem(last=False)
                self._size -= dropped_size


class WordIndex:
    """The segments of one tenant on one connection.

    Only a unit of work, or a caller of `lock`, may use the methods that write: two writers would each delete what the
    other has merged.
    """

    def __init__(self, connection: Connection, tenant_id: int, cache: SegmentCache) -> None:
        self._connection, self._tenant_id, self._cache = connection, tenant_id, cache

    def lock(self) -> WordIndex:
        """Lock the tenant until the transaction ends, for callers outside a unit of work; return this index."""
        self._connection.query("tenant_hold", {"tenant_id": self._tenant_id})
        return self

    def segment_keys(self) -> list[SegmentKey]:
        """Return the keys of all segments, in the order of their versions."""
        rows = self._connection.query("segments_of", {"tenant_id": self._tenant_id})
        return [SegmentKey(*row) for row in rows]

    def segments(self) -> list[ReadableSegment]:
        """Return the whole index as at most two readable segments."""
        return self._reader.segments(self.segment_keys())

    def read_merged(self, keys: Sequence[SegmentKey], erased: Sequence[int] = ()) -> Segment:
        """Return consecutive segments as one, without erased versions."""
        return self._reader.read_merged(keys, erased)

    @property
    def _reader(self) -> SegmentReader:
        from memoranda.storage.index.segment_reader import SegmentReader

        return SegmentReader(self._connection, self._tenant_id, self._cache)

    def add(self, segment: Segment, edition: int = 0, analysis: int = ANALYSIS) -> None:
        """Store a segment, in the form of its analysis."""
        from memoranda.retrieval.segment import VALIDITY_ANALYSIS, narrow_columns

        columns = segment.columns.encode()
        if analysis < VALIDITY_ANALYSIS:
            columns = narrow_columns(columns, len(segment.columns))
        blocks = [block.encode() for block in segment.blocks]
        first_version = int(segment.columns.versions[0])
        key = SegmentKey(first_version, edition, len(segment.columns), analysis)
        if len(blocks) <= 1 and len(columns) + sum(map(len, blocks)) <= _INLINE_BYTES:
            self._put(key, b"", columns + (blocks[0] if blocks else _NO_POSTINGS))
        else:
            self._put(key, segment.first_terms.tobytes(), None)
            for number, data in enumerate((columns, *blocks)):
                self._run("segment_part_add", key, number=number, data=data)

    def add_entries(self, entries: Sequence[IndexEntry]) -> None:
        """Store a segment of versions that were just written."""
        if len(entries) <= _ENCODED_PLAINLY:
            key = SegmentKey(entries[0].version_id, 0, len(entries))
            self._put(key, b"", encode_segment(entries))
            return
        from memoranda.retrieval.segment import build_segment

        self.add(build_segment(entries))

    def next_merge(self) -> list[SegmentKey]:
        """Return the segments to merge next, of the lowest tier that has enough; none if no tier has.

        The run includes smaller segments that were written after those of the tier, so that segments stay in the order
        of their versions.
        """
        keys = self.segment_keys()
        for tier in range(_TIERS):
            run = _last_up_to_tier(keys, tier)
            is_bounded = sum(key.docs for key in run) <= LARGEST_SEGMENT_DOCS
            if is_bounded and len([key for key in run if key.tier == tier]) >= MERGE_FAN_IN:
                return run
        return []

    def merge_overdue(self, *, limit: int) -> bool:
        """Merge while a tier is full; return True if a merge of more than `limit` versions remains."""
        while run := self.next_merge():
            if sum(key.docs for key in run) > limit:
                return True
            self.replace(run, self.read_merged(run))
        return False

    def rebuild_without(self, version_ids: Sequence[int]) -> SegmentReplacements:
        """Build replacements, without some versions, of the segments that hold them; store nothing."""
        keys = self.segment_keys()
        first_versions = [key.first_version for key in keys]
        indexes = {bisect_right(first_versions, version_id) - 1 for version_id in version_ids}
        return [
            (keys[index], self.read_merged([keys[index]], version_ids))
            for index in sorted(indexes)
            if index >= 0
        ]

    def replace_all(self, replacements: SegmentReplacements) -> bool:
        """Store replacements; return False, and store none, if one of the old segments does not exist any more."""
        existing = set(self.segment_keys())
        if any(key not in existing for key, _ in replacements):
            return False
        for key, segment in replacements:
            self.replace([key], segment)
        return True

    def replace(self, keys: Sequence[SegmentKey], segment: Segment) -> None:
        """Replace consecutive segments by one, which may be empty.

        The new segment keeps the oldest analysis of those it replaces, so that a rebuild still finds it outdated.
        """
        self.remove(keys)
        if len(segment.columns):
            edition = max(key.edition for key in keys) + 1
            self.add(segment, edition, min(key.analysis for key in keys))

    def remove(self, keys: Sequence[SegmentKey]) -> None:
        """Delete consecutive segments."""
        for query in ("segments_remove", "segments_parts_remove"):
            self._run(query, keys[0], last_version=keys[-1].first_version)

    def _put(self, key: SegmentKey, first_terms: bytes, data: bytes | None) -> None:
        self._run(
            "segment_add",
            key,
            docs=key.docs,
            analysis=key.analysis,
            firsts=first_terms,
            data=data,
        )

    def _run(self, query: str, key: SegmentKey, **params: object) -> None:
        identity = {
            "tenant_id": self._tenant_id,
            "first_version": key.first_version,
            "edition": key.edition,
        }
        self._connection.execute(query, {**identity, **params})


def _last_up_to_tier(keys: list[SegmentKey], tier: int) -> list[SegmentKey]:
    """Return the last segments that are of this tier or a lower one."""
    first = len(keys)
    while first and keys[first - 1].tier <= tier:
        first -= 1
    return keys[first:]
