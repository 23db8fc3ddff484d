"""A segment: the words of some versions of one tenant, and what ranking and filtering need to know of each.

Segments never change. A unit of work adds one for what it writes, and neighbouring ones are merged into larger ones, so
whoever has read one may keep it. Everything that names something is a keyed fingerprint of eight bytes, 0 where there
is nothing; a segment tells whoever has no key nothing but how often things occur.

Inside a segment a version is known by its place. Postings are sorted by word and then by place, and cut into parts, so
that a question reads only the parts with its words.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from struct import unpack_from
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.entry import FREQUENCY_LIMIT, LENGTH_LIMIT, IndexEntry
from memoranda.retrieval.languages import STEMMED_LANGUAGES

HashColumn: TypeAlias = NDArray[np.uint64]
RowNumbers: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float32]
Flags: TypeAlias = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.integer[Any])

# Where a word stands in a segment, and how often.
Postings: TypeAlias = tuple[RowNumbers, NDArray[Any]]

# Of so many versions together it is kept what those come to who see a part.
VIEWS_LIMIT: Final = 4_000_000
# A session that goes on is looked for so far back.
CUT_LIMIT: Final = 8_192
# Postings in a part: about 80 KB.
BLOCK_POSTINGS: Final = 16_384


Links: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


class VisibleStatistics(msgspec.Struct, frozen=True, eq=False):
    """Of what may be seen: who stands beside whom, how many there are, and the length of all, and of all windows."""

    visible: Flags
    links: Links
    count: int
    length: float
    # The length of each with the one before and the one after, and of all of these together.
    window_lengths: Floats
    window_length: float
    # Of words how many windows hold them, as far as anybody asked.
    window_frequencies: dict[Hashable, int] = msgspec.field(default_factory=dict)


class VersionColumns(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """What is known of the versions of a segment, one array a column, in the order of their ids."""

    versions: NDArray[np.int64]
    spaces: HashColumn
    users: HashColumn
    agents: HashColumn
    sessions: HashColumn
    speakers: HashColumn
    subjects: HashColumn
    # What each says as a whole.
    text_hashes: HashColumn
    times: NDArray[np.int64]
    lengths: NDArray[np.uint16]
    flags: NDArray[np.uint8]
    languages: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.versions)

    @cached_property
    def has_sessions(self) -> bool:
        """Whether anything in it belongs to a session."""
        return bool(self.sessions.any())

    @cached_property
    def lengths32(self) -> Floats:
        return self.lengths.astype(np.float32)

    @cached_property
    def longest(self) -> int:
        """How many words the longest has."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def persons(self) -> HashColumn:
        """Everybody who speaks or is spoken of, in order."""
        return union(self.speakers, self.subjects)

    @cached_property
    def languages_present(self) -> frozenset[str]:
        """The languages that its texts are in."""
        return _language_codes(self.languages)

    def languages_of(self, mask: Flags) -> frozenset[str]:
        """The languages of what may be seen."""
        return (
            self.languages_present
            if len(self.languages_present) == 1
            else _language_codes(self.languages[mask])
        )

    @cached_property
    def session_links(self) -> Links:
        """Of each version the one before and the one after in its session, by time; -1 where there is none."""
        size = len(self)
        before, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        talks = np.flatnonzero(self.sessions)
        if len(talks) > 1:
            order = talks[np.lexsort((self.times[talks], self.sessions[talks], self.spaces[talks]))]
            same = (self.sessions[order[1:]] == self.sessions[order[:-1]]) & (
                self.spaces[order[1:]] == self.spaces[order[:-1]]
            )
            first, second = order[:-1][same], order[1:][same]
            after[first] = second
            before[second] = first
        return before, after

    @cached_property
    def _by_session(self) -> tuple[HashColumn, NDArray[np.int64], NDArray[np.int64]]:
        """All sessions in order, where each begins among the places of all, and those places."""
        order = np.argsort(self.sessions, kind="stable")
        sessions = self.sessions[order]
        begins = np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1])[: len(self)])
        return sessions[begins], np.append(begins, len(self)), order

    def rows_of_sessions(self, sessions: HashColumn) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places of everything in some sessions, and the index of each one's session among them."""
        known, begins, order = self._by_session
        if not len(known):
            return order, order
        at = np.searchsorted(known, sessions)
        which = np.flatnonzero(known.take(at, mode="clip") == sessions)
        starts, sizes = begins[at[which]], begins[at[which] + 1] - begins[at[which]]
        # All of each one after another: counted on from its start.
        steps = np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        return order[steps], np.repeat(which, sizes)

    def settled_size(self, following: VersionColumns) -> int:
        """The place from which on sessions may go on in what follows; none of those before does, if that is not far."""
        going_on = following.sessions[following.sessions != 0]
        cut = len(self)
        near = max(0, cut - CUT_LIMIT)
        while len(going_on):
            held = np.flatnonzero(np.isin(self.sessions[near:cut], going_on))
            if not len(held):
                break
            going_on = self.sessions[near + held[0] : cut]
            going_on = going_on[going_on != 0]
            cut = near + int(held[0])
        return cut

    def slice(self, start: int, end: int) -> VersionColumns:
        """The versions from one place to another."""
        found = VersionColumns(**{name: getattr(self, name)[start:end] for name in _COLUMNS})
        if start == 0 and end:
            # The same without those that are not in it, and not to be found out again. Either link may lead out: what
            # is written later may have been said before.
            is_in = np.arange(len(self)) < end
            found.__dict__["session_links"] = tuple(
                links[:end] for links in self.visible_links(is_in)
            )
        return found

    def warm(self) -> None:
        """Find out what every question needs, before there is one."""
        if self.has_sessions:
            _ = self._by_session, self.statistics(np.ones(len(self), np.bool_))

    def rows_of(self, versions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where those of some versions stand that are here; they are in order."""
        found = np.searchsorted(self.versions, versions)
        return found[self.versions.take(found, mode="clip") == versions] if len(self) else found[:0]

    def all_except(self, versions: NDArray[np.int64]) -> Flags:
        """All but some versions, which are in order."""
        found = np.ones(len(self), np.bool_)
        found[self.rows_of(versions)] = False
        return found

    def cached_view(
        self, key: Hashable, closed: object, made: Callable[[VersionColumns], Flags]
    ) -> Flags:
        """What a caller sees of it, kept for the next who sees as much while nothing more is closed."""
        kept: dict[Hashable, tuple[object, Flags]] = self.__dict__.setdefault("_views", {})
        known = kept.get(key)
        if known is not None and known[0] is closed:
            return known[1]
        found = made(self)
        found.flags.writeable = False
        if len(kept) >= self.view_limit:
            kept.clear()
        kept[key] = closed, found
        return found

    def statistics(self, mask: Flags) -> VisibleStatistics:
        """What the whole of it comes to, of what may be seen; kept for the next who sees the same."""
        kept: dict[bytes, VisibleStatistics] = self.__dict__.setdefault("_seen", {})
        found = next((each for each in tuple(kept.values()) if each.visible is mask), None)
        if found is not None:
            return found
        key = b"" if mask.all() else np.packbits(mask).tobytes()
        found = kept.get(key)
        if found is None:
            found = self._compute_statistics(mask)
            if len(kept) >= self.view_limit:
                kept.clear()
            kept[key] = found
        return found

    def _compute_statistics(self, mask: Flags) -> VisibleStatistics:
        links = self.visible_links(mask)
        places = mask.nonzero()[0]
        # What has no neighbour has one without words, behind all; the others' are seen, too.
        lengths = np.append(self.lengths32, np.float32(0))
        own = lengths.take(places)
        around = own + sum(lengths.take(each.take(places)) for each in links)
        windows = np.zeros(len(self), np.float32)
        windows[places] = around
        length, window_length = own.sum(dtype=np.float64), around.sum(dtype=np.float64)
        return VisibleStatistics(
            mask, links, len(places), float(length), windows, float(window_length)
        )

    @property
    def view_limit(self) -> int:
        """Of how many callers it is kept what they see."""
        return max(2, VIEWS_LIMIT // max(1, len(self)))

    def visible_links(self, mask: Flags) -> Links:
        """The same among what may be seen: whatever may not does not stand between others."""
        if mask.all():
            return self.session_links
        before, after = (_skip_invisible(links, mask) for links in self.session_links)
        return before, after

    def encode(self) -> bytes:
        return b"".join(column.tobytes() for column in self.columns())

    def columns(self) -> list[NDArray[Any]]:
        return [getattr(self, name) for name in _COLUMNS]

    @classmethod
    def decode(cls, data: bytes) -> VersionColumns:
        size, start = len(data) // ROW_BYTES, 0
        columns: dict[str, Any] = {}
        for name, kind in _COLUMNS.items():
            columns[name] = np.frombuffer(data, kind, size, start)
            start += size * kind.itemsize
        return cls(**columns)


def _skip_invisible(links: NDArray[np.int64], mask: Flags) -> NDArray[np.int64]:
    wrong = np.flatnonzero(mask & (links >= 0))
    wrong = wrong[~mask[links[wrong]]]
    if len(wrong):
        links = links.copy()
    while len(wrong):
        links[wrong] = links[links[wrong]]
        wrong = wrong[links[wrong] >= 0]
        wrong = wrong[~mask[links[wrong]]]
    return links


_COLUMNS: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(kind)
    for name, kind in zip(
        VersionColumns.__struct_fields__,
        ("<i8", "<u8", "<u8", "<u8", "<u8", "<u8", "<u8", "<u8", "<i8", "<u2", "u1", "u1"),
        strict=True,
    )
}
ROW_BYTES: Final = sum(kind.itemsize for kind in _COLUMNS.values())


def _language_codes(numbers: NDArray[np.uint8]) -> frozenset[str]:
    return frozenset(
        STEMMED_LANGUAGES[number] for number in np.flatnonzero(np.bincount(numbers)).tolist()
    )


def union(one: NDArray[Number], other: NDArray[Number]) -> NDArray[Number]:
    """What is in one of two, in order. NumPy's own loads what it has for missing values, which takes a command long."""
    both: NDArray[Number] = np.sort(np.concatenate((one, other)))
    found: NDArray[Number] = both[np.append(True, both[1:] != both[:-1])[: len(both)]]
    return found


def merge_spellings(found: Sequence[Postings]) -> Postings | None:
    """Postings of several spellings as those of one word."""
    if len(found) < 2:
        return found[0] if found else None
    places, where = np.unique(np.concatenate([each[0] for each in found]), return_inverse=True)
    counts = np.bincount(where, np.concatenate([each[1] for each in found]), len(places))
    return places, counts.astype(np.float32)


def concat_columns(several: Sequence[VersionColumns]) -> VersionColumns:
    """The facts of versions that follow one another."""
    if len(several) == 1:
        return several[0]
    return VersionColumns(
        **{name: np.concatenate([getattr(each, name) for each in several]) for name in _COLUMNS}
    )


def concat_postings(found: Sequence[Postings | None], starts: Sequence[int]) -> Postings | None:
    """Postings of one word in several that follow one another, each beginning at a place of its own."""
    held = [(each, start) for each, start in zip(found, starts, strict=True) if each is not None]
    if not held:
        return None
    places = np.concatenate([places + np.int32(start) for (places, _), start in held])
    return places, np.concatenate([counts for (_, counts), _ in held])


def split_postings(found: Postings | None, cut: int) -> tuple[Postings | None, Postings | None]:
    """Postings before a place, and those from it on, counted from it."""
    if found is None:
        return None, None
    places, counts = found
    at = int(np.searchsorted(places, cut))
    before = (places[:at], counts[:at]) if at else None
    return before, (places[at:] - np.int32(cut), counts[at:]) if at < len(places) else None


class PostingBlock(msgspec.Struct, frozen=True, eq=False):
    """Postings of neighbouring words: which version holds a word, and how often."""

    terms: HashColumn
    # Where the postings of a word begin; one more than words.
    starts: NDArray[np.uint32]
    rows: RowNumbers
    counts: NDArray[np.uint8]

    def find(self, word: int) -> tuple[RowNumbers, NDArray[np.uint8]] | None:
        found = int(np.searchsorted(self.terms, np.uint64(word)))
        if found == len(self.terms) or int(self.terms[found]) != word:
            return None
        start, end = self.starts[found], self.starts[found + 1]
        return self.rows[start:end], self.counts[start:end]

    @property
    def size(self) -> int:
        return len(self.terms) * 12 + len(self.rows) * 5

    def encode(self) -> bytes:
        head = np.array([len(self.terms), len(self.rows)], "<u4")
        return b"".join(
            each.tobytes() for each in (head, self.terms, self.starts, self.rows, self.counts)
        )

    @classmethod
    def decode(cls, data: bytes, *, docs: int) -> PostingBlock:
        """Raises ValueError if the bytes are not those of a part of so many versions."""
        words, postings = (int(each) for each in np.frombuffer(data, "<u4", 2))
        starts = 8 + 8 * words
        places = starts + 4 * (words + 1)
        found = cls(
            np.frombuffer(data, "<u8", words, 8),
            np.frombuffer(data, "<u4", words + 1, starts),
            np.frombuffer(data, "<i4", postings, places),
            np.frombuffer(data, "u1", postings, places + 4 * postings),
        )
        _check_rows(found.rows, docs)
        return found


class Segment(msgspec.Struct, frozen=True, eq=False):
    """Facts and all postings, in memory."""

    columns: VersionColumns
    blocks: list[PostingBlock]

    @property
    def first_terms(self) -> HashColumn:
        """The first word of each part, by which a word is looked up."""
        return np.array([part.terms[0] for part in self.blocks], np.uint64)

    def find(self, word: int) -> Postings | None:
        """Where a word stands and how often."""
        for part in self.blocks:
            if (found := part.find(word)) is not None:
                return found
        return None


def _check_rows(places: RowNumbers, docs: int) -> None:
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < docs:
        raise ValueError("a posting is of no version of its segment")


def build_segment(entries: Sequence[IndexEntry]) -> Segment:
    """The segment of some versions, in the order of their ids."""
    versions, spaces, users, agents, sessions, times, marks, indexed = zip(*entries, strict=True)
    held, lengths, speakers, subjects, languages, said = zip(*indexed, strict=True)
    columns = {
        "versions": versions,
        "spaces": spaces,
        "users": users,
        "agents": agents,
        "sessions": sessions,
        "speakers": speakers,
        "subjects": subjects,
        "text_hashes": said,
        "times": times,
        "lengths": [min(length, LENGTH_LIMIT) for length in lengths],
        "flags": marks,
        "languages": languages,
    }
    words = np.fromiter((word for each in held for word in each), np.uint64)
    counts = np.fromiter(
        (min(n, FREQUENCY_LIMIT) for each in held for n in each.values()), np.uint8
    )
    places = np.repeat(np.arange(len(entries), dtype=np.int32), [len(each) for each in held])
    facts = VersionColumns(
        **{name: np.array(column, _COLUMNS[name]) for name, column in columns.items()}
    )
    return Segment(facts, _cut_into_blocks(words, places, counts))


def decode_segments(pieces: Sequence[tuple[int, bytes]]) -> Segment:
    """One segment of several that follow one another: of each how many versions it holds, and its bytes.

    Bytes are put together before they are arrays, because most pieces are of one version.
    """
    columns: dict[str, Any] = {}
    starts = [0] * len(pieces)
    for name, kind in _COLUMNS.items():
        ends = [
            start + docs * kind.itemsize for start, (docs, _) in zip(starts, pieces, strict=True)
        ]
        cut = (data[start:end] for (_, data), start, end in zip(pieces, starts, ends, strict=True))
        columns[name] = np.frombuffer(b"".join(cut), kind)
        starts = ends
    words, times, places, counts, sizes = [], [], [], [], []
    for (_, data), start in zip(pieces, starts, strict=True):
        held, postings = unpack_from("<II", data, start)
        first = start + 8
        second = first + 8 * held
        third = second + 4 * (held + 1)
        fourth = third + 4 * postings
        words.append(data[first:second])
        # How often a word is held: the differences of where postings begin.
        times.append(data[second + 4 : third])
        times.append(data[second : third - 4])
        places.append(data[third:fourth])
        counts.append(data[fourth : fourth + postings])
        sizes.append(postings)
    _check_rows(np.frombuffer(b"".join(places), "<i4"), max(docs for docs, _ in pieces))
    ends_of, starts_of = (np.frombuffer(b"".join(times[place::2]), "<u4") for place in (0, 1))
    offsets = np.cumsum([0, *(docs for docs, _ in pieces[:-1])])
    return Segment(
        VersionColumns(**columns),
        _cut_into_blocks(
            np.repeat(np.frombuffer(b"".join(words), "<u8"), ends_of - starts_of),
            np.frombuffer(b"".join(places), "<i4") + np.repeat(offsets, sizes).astype(np.int32),
            np.frombuffer(b"".join(counts), "u1"),
        ),
    )


def merge_segments(segments: Sequence[Segment], gone: NDArray[np.int64] | None = None) -> Segment:
    """One segment of several that follow one another, without some versions."""
    columns = {
        name: np.concatenate([getattr(segment.columns, name) for segment in segments])
        for name in _COLUMNS
    }
    offsets = np.cumsum([0, *(len(segment.columns) for segment in segments)])
    words = np.concatenate(
        [np.repeat(p.terms, np.diff(p.starts)) for s in segments for p in s.blocks] or [_NO_WORDS]
    )
    shifted = zip(segments, offsets[:-1], strict=True)
    places = np.concatenate(
        [p.rows + np.int32(offset) for s, offset in shifted for p in s.blocks] or [_NO_PLACES]
    )
    counts = np.concatenate(
        [part.counts for segment in segments for part in segment.blocks] or [_NO_COUNTS]
    )
    if gone is not None and len(gone):
        kept = ~np.isin(columns["versions"], gone)
        renumbered = (np.cumsum(kept) - 1).astype(np.int32)
        columns = {name: column[kept] for name, column in columns.items()}
        stays = kept[places]
        words, places, counts = words[stays], renumbered[places[stays]], counts[stays]
    return Segment(VersionColumns(**columns), _cut_into_blocks(words, places, counts))


_NO_WORDS: Final = np.zeros(0, np.uint64)
_NO_PLACES: Final = np.zeros(0, np.int32)
_NO_COUNTS: Final = np.zeros(0, np.uint8)


def _cut_into_blocks(
    words: HashColumn, places: RowNumbers, counts: NDArray[np.uint8]
) -> list[PostingBlock]:
    """Postings in any order, sorted, equal ones added up, cut into parts at words."""
    if not len(words):
        return []
    order = np.lexsort((places, words))
    words, places, counts = words[order], places[order], counts[order]
    is_new = np.empty(len(words), np.bool_)
    is_new[0] = True
    np.not_equal(words[1:], words[:-1], out=is_new[1:])
    is_new[1:] |= places[1:] != places[:-1]
    if not is_new.all():
        starts = np.flatnonzero(is_new)
        totals = np.add.reduceat(counts.astype(np.uint32), starts)
        words, places, counts = (
            words[starts],
            places[starts],
            np.minimum(totals, FREQUENCY_LIMIT).astype(np.uint8),
        )
    begins = np.flatnonzero(np.concatenate(([True], words[1:] != words[:-1])))
    ends = np.append(begins[1:], len(words))
    found: list[PostingBlock] = []
    first = 0
    while first < len(begins):
        # As many words as fit, at least one: a word is never cut.
        last = max(first + 1, int(np.searchsorted(ends, begins[first] + BLOCK_POSTINGS, "right")))
        start, end = begins[first], ends[last - 1]
        starts32 = np.append(begins[first:last], end) - start
        found.append(
            PostingBlock(
                words[begins[first:last]],
                starts32.astype(np.uint32),
                places[start:end],
                counts[start:end],
            )
        )
        first = last
    return found
