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

from memoranda.retrieval.entry import COUNT_LIMIT, LENGTH_LIMIT, Entry
from memoranda.retrieval.languages import CODES

Prints: TypeAlias = NDArray[np.uint64]
Places: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float32]
Flags: TypeAlias = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.integer[Any])

# Where a word stands in a segment, and how often.
Postings: TypeAlias = tuple[Places, NDArray[Any]]

# Of so many versions together it is kept what those come to who see a part.
SEEN_LIMIT: Final = 4_000_000
# A session that goes on is looked for so far back.
CUT_LIMIT: Final = 8_192
# Postings in a part: about 80 KB.
PART_POSTINGS: Final = 16_384


Links: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


class Seen(msgspec.Struct, frozen=True, eq=False):
    """Of what may be seen: who stands beside whom, how many there are, and the length of all, and of all windows."""

    mask: Flags
    links: Links
    docs: int
    length: float
    # The length of each with the one before and the one after, and of all of these together.
    window_lengths: Floats
    window_length: float
    # Of words how many windows hold them, as far as anybody asked.
    windows_holding: dict[Hashable, int] = msgspec.field(default_factory=dict)


class Facts(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """What is known of the versions of a segment, one array a column, in the order of their ids."""

    versions: NDArray[np.int64]
    spaces: Prints
    users: Prints
    agents: Prints
    sessions: Prints
    speakers: Prints
    subjects: Prints
    # What each says as a whole.
    said: Prints
    times: NDArray[np.int64]
    lengths: NDArray[np.uint16]
    marks: NDArray[np.uint8]
    languages: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.versions)

    @cached_property
    def has_talks(self) -> bool:
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
    def persons(self) -> Prints:
        """Everybody who speaks or is spoken of, in order."""
        return union(self.speakers, self.subjects)

    @cached_property
    def spoken(self) -> frozenset[str]:
        """The languages that its texts are in."""
        return _languages(self.languages)

    def spoken_by(self, mask: Flags) -> frozenset[str]:
        """The languages of what may be seen."""
        return self.spoken if len(self.spoken) == 1 else _languages(self.languages[mask])

    @cached_property
    def neighbours(self) -> Links:
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
    def _by_session(self) -> tuple[Prints, NDArray[np.int64], NDArray[np.int64]]:
        """All sessions in order, where each begins among the places of all, and those places."""
        order = np.argsort(self.sessions, kind="stable")
        sessions = self.sessions[order]
        begins = np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1])[: len(self)])
        return sessions[begins], np.append(begins, len(self)), order

    def in_sessions(self, sessions: Prints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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

    def cut_before(self, following: Facts) -> int:
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

    def part(self, start: int, end: int) -> Facts:
        """The versions from one place to another."""
        found = Facts(**{name: getattr(self, name)[start:end] for name in _COLUMNS})
        if start == 0 and end:
            # The same without those that are not in it, and not to be found out again. Either link may lead out: what
            # is written later may have been said before.
            is_in = np.arange(len(self)) < end
            found.__dict__["neighbours"] = tuple(links[:end] for links in self.links(is_in))
        return found

    def prepare(self) -> None:
        """Find out what every question needs, before there is one."""
        if self.has_talks:
            _ = self._by_session, self.seen(np.ones(len(self), np.bool_))

    def places_of(self, versions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where those of some versions stand that are here; they are in order."""
        found = np.searchsorted(self.versions, versions)
        return found[self.versions.take(found, mode="clip") == versions] if len(self) else found[:0]

    def without(self, versions: NDArray[np.int64]) -> Flags:
        """All but some versions, which are in order."""
        found = np.ones(len(self), np.bool_)
        found[self.places_of(versions)] = False
        return found

    def view(self, key: Hashable, closed: object, made: Callable[[Facts], Flags]) -> Flags:
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

    def seen(self, mask: Flags) -> Seen:
        """What the whole of it comes to, of what may be seen; kept for the next who sees the same."""
        kept: dict[bytes, Seen] = self.__dict__.setdefault("_seen", {})
        found = next((each for each in tuple(kept.values()) if each.mask is mask), None)
        if found is not None:
            return found
        key = b"" if mask.all() else np.packbits(mask).tobytes()
        found = kept.get(key)
        if found is None:
            found = self._seen_by(mask)
            if len(kept) >= self.view_limit:
                kept.clear()
            kept[key] = found
        return found

    def _seen_by(self, mask: Flags) -> Seen:
        links = self.links(mask)
        places = mask.nonzero()[0]
        # What has no neighbour has one without words, behind all; the others' are seen, too.
        lengths = np.append(self.lengths32, np.float32(0))
        own = lengths.take(places)
        around = own + sum(lengths.take(each.take(places)) for each in links)
        windows = np.zeros(len(self), np.float32)
        windows[places] = around
        length, window_length = own.sum(dtype=np.float64), around.sum(dtype=np.float64)
        return Seen(mask, links, len(places), float(length), windows, float(window_length))

    @property
    def view_limit(self) -> int:
        """Of how many callers it is kept what they see."""
        return max(2, SEEN_LIMIT // max(1, len(self)))

    def links(self, mask: Flags) -> Links:
        """The same among what may be seen: whatever may not does not stand between others."""
        if mask.all():
            return self.neighbours
        before, after = (_skipping(links, mask) for links in self.neighbours)
        return before, after

    def encode(self) -> bytes:
        return b"".join(column.tobytes() for column in self.columns())

    def columns(self) -> list[NDArray[Any]]:
        return [getattr(self, name) for name in _COLUMNS]

    @classmethod
    def decode(cls, data: bytes) -> Facts:
        size, start = len(data) // ROW_BYTES, 0
        columns: dict[str, Any] = {}
        for name, kind in _COLUMNS.items():
            columns[name] = np.frombuffer(data, kind, size, start)
            start += size * kind.itemsize
        return cls(**columns)


def _skipping(links: NDArray[np.int64], mask: Flags) -> NDArray[np.int64]:
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
        Facts.__struct_fields__,
        ("<i8", "<u8", "<u8", "<u8", "<u8", "<u8", "<u8", "<u8", "<i8", "<u2", "u1", "u1"),
        strict=True,
    )
}
ROW_BYTES: Final = sum(kind.itemsize for kind in _COLUMNS.values())


def _languages(numbers: NDArray[np.uint8]) -> frozenset[str]:
    return frozenset(CODES[number] for number in np.flatnonzero(np.bincount(numbers)).tolist())


def union(one: NDArray[Number], other: NDArray[Number]) -> NDArray[Number]:
    """What is in one of two, in order. NumPy's own loads what it has for missing values, which takes a command long."""
    both: NDArray[Number] = np.sort(np.concatenate((one, other)))
    found: NDArray[Number] = both[np.append(True, both[1:] != both[:-1])[: len(both)]]
    return found


def together(found: Sequence[Postings]) -> Postings | None:
    """Postings of several spellings as those of one word."""
    if len(found) < 2:
        return found[0] if found else None
    places, where = np.unique(np.concatenate([each[0] for each in found]), return_inverse=True)
    counts = np.bincount(where, np.concatenate([each[1] for each in found]), len(places))
    return places, counts.astype(np.float32)


def joined(several: Sequence[Facts]) -> Facts:
    """The facts of versions that follow one another."""
    if len(several) == 1:
        return several[0]
    return Facts(
        **{name: np.concatenate([getattr(each, name) for each in several]) for name in _COLUMNS}
    )


def shifted(found: Sequence[Postings | None], starts: Sequence[int]) -> Postings | None:
    """Postings of one word in several that follow one another, each beginning at a place of its own."""
    held = [(each, start) for each, start in zip(found, starts, strict=True) if each is not None]
    if not held:
        return None
    places = np.concatenate([places + np.int32(start) for (places, _), start in held])
    return places, np.concatenate([counts for (_, counts), _ in held])


def until(found: Postings | None, cut: int) -> tuple[Postings | None, Postings | None]:
    """Postings before a place, and those from it on, counted from it."""
    if found is None:
        return None, None
    places, counts = found
    at = int(np.searchsorted(places, cut))
    before = (places[:at], counts[:at]) if at else None
    return before, (places[at:] - np.int32(cut), counts[at:]) if at < len(places) else None


class Part(msgspec.Struct, frozen=True, eq=False):
    """Postings of neighbouring words: which version holds a word, and how often."""

    words: Prints
    # Where the postings of a word begin; one more than words.
    starts: NDArray[np.uint32]
    places: Places
    counts: NDArray[np.uint8]

    def find(self, word: int) -> tuple[Places, NDArray[np.uint8]] | None:
        found = int(np.searchsorted(self.words, np.uint64(word)))
        if found == len(self.words) or int(self.words[found]) != word:
            return None
        start, end = self.starts[found], self.starts[found + 1]
        return self.places[start:end], self.counts[start:end]

    @property
    def size(self) -> int:
        return len(self.words) * 12 + len(self.places) * 5

    def encode(self) -> bytes:
        head = np.array([len(self.words), len(self.places)], "<u4")
        return b"".join(
            each.tobytes() for each in (head, self.words, self.starts, self.places, self.counts)
        )

    @classmethod
    def decode(cls, data: bytes, *, docs: int) -> Part:
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
        _check(found.places, docs)
        return found


class Segment(msgspec.Struct, frozen=True, eq=False):
    """Facts and all postings, in memory."""

    facts: Facts
    parts: list[Part]

    @property
    def firsts(self) -> Prints:
        """The first word of each part, by which a word is looked up."""
        return np.array([part.words[0] for part in self.parts], np.uint64)

    def find(self, word: int) -> Postings | None:
        """Where a word stands and how often."""
        for part in self.parts:
            if (found := part.find(word)) is not None:
                return found
        return None


def _check(places: Places, docs: int) -> None:
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < docs:
        raise ValueError("a posting is of no version of its segment")


def build(entries: Sequence[Entry]) -> Segment:
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
        "said": said,
        "times": times,
        "lengths": [min(length, LENGTH_LIMIT) for length in lengths],
        "marks": marks,
        "languages": languages,
    }
    words = np.fromiter((word for each in held for word in each), np.uint64)
    counts = np.fromiter((min(n, COUNT_LIMIT) for each in held for n in each.values()), np.uint8)
    places = np.repeat(np.arange(len(entries), dtype=np.int32), [len(each) for each in held])
    facts = Facts(**{name: np.array(column, _COLUMNS[name]) for name, column in columns.items()})
    return Segment(facts, _parts(words, places, counts))


def decode_run(pieces: Sequence[tuple[int, bytes]]) -> Segment:
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
    _check(np.frombuffer(b"".join(places), "<i4"), max(docs for docs, _ in pieces))
    ends_of, starts_of = (np.frombuffer(b"".join(times[place::2]), "<u4") for place in (0, 1))
    offsets = np.cumsum([0, *(docs for docs, _ in pieces[:-1])])
    return Segment(
        Facts(**columns),
        _parts(
            np.repeat(np.frombuffer(b"".join(words), "<u8"), ends_of - starts_of),
            np.frombuffer(b"".join(places), "<i4") + np.repeat(offsets, sizes).astype(np.int32),
            np.frombuffer(b"".join(counts), "u1"),
        ),
    )


def merge(segments: Sequence[Segment], gone: NDArray[np.int64] | None = None) -> Segment:
    """One segment of several that follow one another, without some versions."""
    columns = {
        name: np.concatenate([getattr(segment.facts, name) for segment in segments])
        for name in _COLUMNS
    }
    offsets = np.cumsum([0, *(len(segment.facts) for segment in segments)])
    words = np.concatenate(
        [np.repeat(p.words, np.diff(p.starts)) for s in segments for p in s.parts] or [_NO_WORDS]
    )
    shifted = zip(segments, offsets[:-1], strict=True)
    places = np.concatenate(
        [p.places + np.int32(offset) for s, offset in shifted for p in s.parts] or [_NO_PLACES]
    )
    counts = np.concatenate(
        [part.counts for segment in segments for part in segment.parts] or [_NO_COUNTS]
    )
    if gone is not None and len(gone):
        kept = ~np.isin(columns["versions"], gone)
        renumbered = (np.cumsum(kept) - 1).astype(np.int32)
        columns = {name: column[kept] for name, column in columns.items()}
        stays = kept[places]
        words, places, counts = words[stays], renumbered[places[stays]], counts[stays]
    return Segment(Facts(**columns), _parts(words, places, counts))


_NO_WORDS: Final = np.zeros(0, np.uint64)
_NO_PLACES: Final = np.zeros(0, np.int32)
_NO_COUNTS: Final = np.zeros(0, np.uint8)


def _parts(words: Prints, places: Places, counts: NDArray[np.uint8]) -> list[Part]:
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
            np.minimum(totals, COUNT_LIMIT).astype(np.uint8),
        )
    begins = np.flatnonzero(np.concatenate(([True], words[1:] != words[:-1])))
    ends = np.append(begins[1:], len(words))
    found: list[Part] = []
    first = 0
    while first < len(begins):
        # As many words as fit, at least one: a word is never cut.
        last = max(first + 1, int(np.searchsorted(ends, begins[first] + PART_POSTINGS, "right")))
        start, end = begins[first], ends[last - 1]
        starts32 = np.append(begins[first:last], end) - start
        found.append(
            Part(
                words[begins[first:last]],
                starts32.astype(np.uint32),
                places[start:end],
                counts[start:end],
            )
        )
        first = last
    return found
