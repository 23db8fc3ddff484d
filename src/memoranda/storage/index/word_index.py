"""The word index of a tenant: segments in the database, read on demand and kept, because none ever changes.

A unit of work adds one segment for what it writes. Sixteen of a size become one of the next, so there are few; those
that are small are read whole and looked at as one. What was erased is taken out of its segment before a scrub ends.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from memoranda.errors import StoreCorrupt
from memoranda.retrieval.analysis import ANALYSIS
from memoranda.retrieval.entry import Entry, encode
from memoranda.storage.engine.database import Connection

if TYPE_CHECKING:
    from memoranda.retrieval.segment import Facts, Postings, Segment

# So many of a size are merged.
FAN_IN: Final = 16
# Larger segments are merged outside the writer's turn, and are not read whole for a question.
SMALL_DOCS: Final = 4_096
# More bytes than this stand in rows of their own.
_INLINE_BYTES: Final = 65_536
# None is made larger, because it is put down in one unit of work: about ten megabytes.
LARGEST_DOCS: Final = 131_072
# Sixteen to the power of this are more than that.
_TIERS: Final = 5
# So many versions are looked at as one when so many questions found the same segments.
_WHOLE_DOCS: Final = 262_144
_QUIET: Final = 128
# As many versions are put together without arrays.
_FEW: Final = 32
# What a version takes in memory, without its words.
_DOC_BYTES: Final = 80
# And the name of a segment.
_NAME_BYTES: Final = 200
_CACHE_BYTES: Final = 256 * 1024 * 1024


Replaced: TypeAlias = "list[tuple[SegmentName, Segment]]"


@contextmanager
def damage_named() -> Iterator[None]:
    """Whatever cannot be read in the bytes of a segment is damage."""
    try:
        yield
    except (ValueError, IndexError, TypeError, struct.error) as error:
        message = "the word index is damaged: `memoranda reindex` makes it anew"
        raise StoreCorrupt(message) from error


class SegmentName(NamedTuple):
    """Which segment: edition by edition a segment takes the place of those it was made from."""

    first_version: int
    edition: int
    docs: int
    # By which rules its texts were cut into words.
    analysis: int = ANALYSIS

    @property
    def tier(self) -> int:
        return (self.docs.bit_length() - 1) // 4


class OpenSegment(NamedTuple):
    """Versions that a question is asked of: their facts, and where a word stands and how often, or None."""

    facts: Facts
    find: Callable[[int], Postings | None]
    # Of what is settled: never another's, so that what is kept under it is of this one.
    serial: int = -1


class _Base(NamedTuple):
    """The facts of everything that is settled, where each of its segments begins, and of large ones the first word of
    each part.
    """

    facts: Facts
    starts: list[int]
    firsts: list[Any]
    # Never another's, so that what is kept under it is of this one.
    serial: int


_serials: Final = count()


class SegmentCache:
    """What was read of segments lately, up to a number of bytes; shared by all readers of a process."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()
        self._limit, self._size = limit, 0

    def get(self, key: tuple[Any, ...]) -> Any:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: tuple[Any, ...], value: Any, size: int) -> None:
        """Keep something, instead of what was kept under the same key."""
        with self._lock:
            if key in self._kept:
                self._size -= self._kept.pop(key)[1]
            if size > self._limit:
                return
            self._kept[key] = value, size
            self._size += size
            while self._size > self._limit:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._size -= dropped


class _Latest(NamedTuple):
    """What was made of some segments. It is kept under what it is, so that the next takes its place: segments come with
    every write, and what was made of fewer is asked for no more.
    """

    names: tuple[SegmentName, ...]
    made: Any


def load_builder(entry_count: int) -> None:
    """Load numpy now if adding so many entries will need it: it takes 40 ms, too long for a unit of work."""
    if entry_count > _FEW:
        import_module("memoranda.retrieval.segment")


class WordIndex:
    """The segments of one tenant on one connection."""

    def __init__(self, connection: Connection, tenant_id: int, cache: SegmentCache) -> None:
        self._connection, self._tenant_id, self._cache = connection, tenant_id, cache

    def held(self) -> WordIndex:
        """The same for whoever changes it without a unit of work: nobody else does until the transaction ends."""
        self._connection.query("tenant_hold", {"tenant_id": self._tenant_id})
        return self

    # --- reading -----------------------------------------------------------------------------------------

    def names(self) -> list[SegmentName]:
        return [SegmentName(*row) for row in self._rows("segments_of")]

    def segments(self) -> list[OpenSegment]:
        """All versions in two: those that are settled, and the last few, which change with every write.

        The cut between them moves back to where no session goes on, so that neighbours are found whatever segments
        they are in. Where nothing was written for a while, all in one: that is asked in two thirds of the time.
        """
        names = self.names()
        runs = list(_runs(names))
        settled = runs if runs and runs[-1][0].docs >= SMALL_DOCS else runs[:-1]
        if not settled:
            return [self._open(runs[-1])] if runs else []
        if len(settled) == len(runs):
            return [self._base(settled, "base")]
        if self._is_quiet(tuple(names)):
            return [self._base(runs, "whole")]
        return self._cut(self._base(settled, "base"), self._open(runs[-1]), tuple(names))

    def _is_quiet(self, names: tuple[SegmentName, ...]) -> bool:
        """Whether as many questions as that pays for found the same segments."""
        if sum(name.docs for name in names) > _WHOLE_DOCS:
            return False
        asked: list[int] | None = self._latest("asked", names)
        if asked is None:
            asked = [0]
            self._keep((self._tenant_id, "asked"), names, asked, 0)
        # Two who count at once may count one.
        asked[0] += 1
        return asked[0] > _QUIET

    def _open(self, run: Sequence[SegmentName]) -> OpenSegment:
        whole = self._run_of(run)
        return OpenSegment(whole.facts, whole.find)

    def _run_of(self, run: Sequence[SegmentName]) -> Segment:
        """Small segments that follow one another, as one."""
        from memoranda.retrieval.segment import merge

        names, key = tuple(run), (self._tenant_id, "run", run[0].first_version)
        kept: _Latest | None = self._cache.get(key)
        whole: Segment
        if kept is not None and kept.names == names:
            whole = kept.made
            return whole
        if kept is not None and kept.names == names[: len(kept.names)]:
            # Mostly what was there before, and a little more.
            whole = merge([kept.made, self.merged(run[len(kept.names) :])])
        else:
            whole = self.merged(run)
        self._keep(key, names, whole, _size(whole))
        return whole

    def _latest(self, what: str, names: tuple[SegmentName, ...]) -> Any:
        kept: _Latest | None = self._cache.get((self._tenant_id, what))
        return kept.made if kept is not None and kept.names == names else None

    def _keep(
        self, key: tuple[Any, ...], names: tuple[SegmentName, ...], made: Any, size: int
    ) -> None:
        self._cache.put(key, _Latest(names, made), size + _NAME_BYTES * len(names))

    def _base(self, runs: Sequence[Sequence[SegmentName]], what: str) -> OpenSegment:
        """Runs and large segments one behind the other, kept under what they are; their facts as one."""
        from memoranda.retrieval.segment import joined, shifted

        names = tuple(name for run in runs for name in run)
        kept: _Base | None = self._latest(what, names)
        if kept is None:
            parts = [self._part_of_base(run) for run in runs]
            starts = [0, *accumulate(len(facts) for facts, _ in parts)]
            facts = joined([facts for facts, _ in parts])
            kept = _Base(facts, starts[:-1], [firsts for _, firsts in parts], next(_serials))
            self._keep((self._tenant_id, what), names, kept, _DOC_BYTES * len(facts))
        base = kept

        def find(word: int) -> Postings | None:
            known: tuple[Postings | None] | None = self._cache.get((base.serial, word))
            if known is None:
                found = shifted(
                    [self._find(*each, word) for each in zip(runs, base.firsts, strict=True)],
                    base.starts,
                )
                known = (found,)
                self._cache.put(
                    (base.serial, word), known, 64 + (0 if found is None else 5 * len(found[0]))
                )
            return known[0]

        return OpenSegment(base.facts, find, base.serial)

    def _part_of_base(self, run: Sequence[SegmentName]) -> tuple[Facts, Any]:
        """The facts of a run, and the first words of the parts of a large segment."""
        import numpy as np

        from memoranda.retrieval.segment import Facts

        name = run[0]
        if name.docs < SMALL_DOCS:
            return self._run_of(run).facts, None
        with damage_named():
            facts = Facts.decode(self._part(name, 0))
            ((firsts,),) = self._rows(
                "segment_firsts", first_version=name.first_version, edition=name.edition
            )
            return facts, np.frombuffer(firsts, np.uint64)

    def _find(self, run: Sequence[SegmentName], firsts: Any, word: int) -> Postings | None:
        import numpy as np

        from memoranda.retrieval.segment import Part

        if firsts is None:
            return self._run_of(run).find(word)
        name, number = run[0], int(np.searchsorted(firsts, np.uint64(word), "right")) - 1
        if number < 0:
            return None
        key = (self._tenant_id, name.first_version, name.edition, number)
        part: Part | None = self._cache.get(key)
        if part is None:
            with damage_named():
                part = Part.decode(self._part(name, number + 1), docs=name.docs)
            self._cache.put(key, part, part.size)
        return part.find(word)

    def _cut(
        self, base: OpenSegment, fresh: OpenSegment, names: tuple[SegmentName, ...]
    ) -> list[OpenSegment]:
        """Return what is settled and what is not, cut where no session goes on; all in one if none of it is settled."""
        from memoranda.retrieval.segment import joined, shifted, until

        kept: tuple[int, Facts, Facts] | None = self._latest("cut", names)
        if kept is None:
            cut = base.facts.cut_before(fresh.facts)
            rest = base.facts.part(cut, len(base.facts))
            kept = cut, self._head(base, cut), joined([rest, fresh.facts])
            self._keep((self._tenant_id, "cut"), names, kept, _DOC_BYTES * len(kept[2]))
        cut, head, tail = kept
        moved = len(base.facts) - cut
        if not moved:
            return [OpenSegment(head, base.find), OpenSegment(tail, fresh.find)]
        after = OpenSegment(
            tail,
            lambda word: shifted([until(base.find(word), cut)[1], fresh.find(word)], [0, moved]),
        )
        if not cut:
            return [after]
        return [OpenSegment(head, lambda word: until(base.find(word), cut)[0]), after]

    def _head(self, base: OpenSegment, cut: int) -> Facts:
        """What is settled up to a cut. Most writes leave that where it is: what was found out of it stays."""
        key = (self._tenant_id, "head")
        kept: tuple[tuple[int, int], Facts] | None = self._cache.get(key)
        if kept is None or kept[0] != (base.serial, cut):
            kept = (base.serial, cut), base.facts.part(0, cut)
            self._cache.put(key, kept, 16 * cut)
        return kept[1]

    def merged(self, names: Sequence[SegmentName], gone: Any = None) -> Segment:
        """All of some segments that follow one another, as one, without some versions."""
        with damage_named():
            return self._merged(names, gone)

    def _merged(self, names: Sequence[SegmentName], gone: Any) -> Segment:
        from memoranda.retrieval.segment import Facts, Part, Segment, decode_run, merge

        rows = self._rows(
            "segments_between",
            first_version=names[0].first_version,
            last_version=names[-1].first_version,
        )
        if gone is None and all(data is not None for _, data in rows):
            return decode_run(rows)
        found = []
        for name, (docs, data) in zip(names, rows, strict=True):
            if data is not None:
                found.append(decode_run([(docs, data)]))
                continue
            parts = self._rows(
                "segment_parts", first_version=name.first_version, edition=name.edition
            )
            facts, *postings = (part for (part,) in parts)
            found.append(
                Segment(Facts.decode(facts), [Part.decode(each, docs=docs) for each in postings])
            )
        return merge(found, gone)

    def _part(self, name: SegmentName, number: int) -> bytes:
        ((data,),) = self._rows(
            "segment_part", first_version=name.first_version, edition=name.edition, number=number
        )
        return bytes(data)

    # --- writing -----------------------------------------------------------------------------------------

    def add(self, segment: Segment, edition: int = 0, analysis: int = ANALYSIS) -> None:
        facts, parts = segment.facts.encode(), [part.encode() for part in segment.parts]
        name = SegmentName(int(segment.facts.versions[0]), edition, len(segment.facts), analysis)
        if len(parts) <= 1 and len(facts) + sum(map(len, parts)) <= _INLINE_BYTES:
            self._put(name, b"", facts + (parts[0] if parts else _NO_POSTINGS))
        else:
            self._put(name, segment.firsts.tobytes(), None)
            for number, data in enumerate((facts, *parts)):
                self._run("segment_part_add", name, number=number, data=data)

    def add_entries(self, entries: Sequence[Entry]) -> None:
        """The same of versions that were just written."""
        if len(entries) <= _FEW:
            name = SegmentName(entries[0].version_id, 0, len(entries))
            self._put(name, b"", encode(entries))
            return
        from memoranda.retrieval.segment import build

        self.add(build(entries))

    def overdue(self) -> list[SegmentName]:
        """Those that are to become one, because there are many of a size; the smallest such."""
        names = self.names()
        for tier in range(_TIERS):
            run = _last_of_tier(names, tier)
            is_bounded = sum(name.docs for name in run) <= LARGEST_DOCS
            if is_bounded and len([name for name in run if name.tier == tier]) >= FAN_IN:
                return run
        return []

    def tidy(self, *, limit: int) -> bool:
        """Merge what is overdue, none into more versions than a limit; whether more is to do."""
        while run := self.overdue():
            if sum(name.docs for name in run) > limit:
                return True
            self.replace(run, self.merged(run))
        return False

    def without(self, version_ids: Sequence[int]) -> Replaced:
        """Every segment that holds some versions, made anew without them."""
        import numpy as np

        gone, names = np.array(version_ids, np.int64), self.names()
        firsts = np.array([name.first_version for name in names], np.int64)
        places = set((np.searchsorted(firsts, gone, "right") - 1).tolist())
        return [
            (names[place], self.merged([names[place]], gone))
            for place in sorted(places)
            if place >= 0
        ]

    def replace_all(self, made: Replaced) -> bool:
        """Put segments in the place of others, unless one of those is not there any more."""
        there = set(self.names())
        if any(name not in there for name, _ in made):
            return False
        for name, segment in made:
            self.replace([name], segment)
        return True

    def replace(self, names: Sequence[SegmentName], segment: Segment) -> None:
        self.remove(names)
        if len(segment.facts):
            edition, analysis = (
                max(name.edition for name in names) + 1,
                min(name.analysis for name in names),
            )
            self.add(segment, edition, analysis)

    def remove(self, names: Sequence[SegmentName]) -> None:
        """Take out segments that follow one another."""
        for query in ("segments_remove", "segments_parts_remove"):
            self._run(query, names[0], last_version=names[-1].first_version)

    def _put(self, name: SegmentName, firsts: bytes, data: bytes | None) -> None:
        self._run(
            "segment_add", name, docs=name.docs, analysis=name.analysis, firsts=firsts, data=data
        )

    def _run(self, query: str, name: SegmentName, **params: Any) -> None:
        named = {
            "tenant_id": self._tenant_id,
            "first_version": name.first_version,
            "edition": name.edition,
        }
        self._connection.execute(query, {**named, **params})

    def _rows(self, query: str, **params: Any) -> list[Any]:
        return self._connection.query(query, {"tenant_id": self._tenant_id, **params})


# No words, and where the postings of the first would begin.
_NO_POSTINGS: Final = bytes(12)


def _runs(names: list[SegmentName]) -> Iterator[list[SegmentName]]:
    """Neighbouring small segments together, a large one by itself."""
    run: list[SegmentName] = []
    for name in names:
        if name.docs < SMALL_DOCS and sum(each.docs for each in run) < SMALL_DOCS:
            run.append(name)
            continue
        if run:
            yield run
        run = []
        if name.docs >= SMALL_DOCS:
            yield [name]
        else:
            run = [name]
    if run:
        yield run


def _last_of_tier(names: list[SegmentName], tier: int) -> list[SegmentName]:
    """The last ones that are no larger than a tier."""
    first = len(names)
    while first and names[first - 1].tier <= tier:
        first -= 1
    return names[first:]


def _size(segment: Segment) -> int:
    return _DOC_BYTES * len(segment.facts) + sum(part.size for part in segment.parts)
