"""The word index made anew from the documents, and compared with them, piece by piece.

A piece is a few small segments, or a large one: whatever lies between two of their edges. It is read and made outside
the writer's turn, and put down in one unit of work if nobody changed it meanwhile. So a rebuild that was interrupted
goes on where it was, and whoever searches meanwhile finds everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from memoranda.errors import StoreCorrupt
from memoranda.model.memory import Projection, Version
from memoranda.retrieval.analysis import ANALYSIS
from memoranda.retrieval.entry import COUNT_LIMIT, LENGTH_LIMIT, NOTHING, Entry, marks_of
from memoranda.storage.crypto.fingerprints import Fingerprints
from memoranda.storage.engine.database import Connection, Database
from memoranda.storage.engine.snapshot import SqlSnapshot
from memoranda.storage.index.word_index import SMALL_DOCS, SegmentCache, SegmentName, WordIndex

if TYPE_CHECKING:
    from memoranda.retrieval.segment import Segment

# A version read without its standard; None if it cannot be read.
Reads: TypeAlias = Callable[[Version], Projection | None]
# After the last version.
_END: Final = 1 << 62
# As many documents are read at once.
_CHUNK: Final = 500


class Piece(NamedTuple):
    """Versions from one edge to another, and the segments that hold them."""

    first: int
    end: int
    names: tuple[SegmentName, ...]

    @property
    def is_outdated(self) -> bool:
        return any(name.analysis != ANALYSIS for name in self.names)


class Reindexing(msgspec.Struct, frozen=True, kw_only=True):
    """The word index of one tenant, against its documents."""

    database: Database
    prints: Fingerprints
    cache: SegmentCache
    tenant: str
    # A snapshot of the tenant on a connection.
    snapshot: Callable[[Connection], SqlSnapshot]
    reads: Reads

    def rebuild(
        self, progress: Callable[[int], None] | None = None, *, outdated: bool = False
    ) -> int:
        """Make the index anew, or what of it is of an older analysis; how many versions."""
        count, after = 0, 0
        pieces = self._pieces_after(after, outdated)
        while pieces:
            piece = pieces.pop(0)
            with self.database.open_snapshot(self.tenant) as connection:
                snapshot = self.snapshot(connection)
                entries = self._entries(connection, snapshot, piece)
            if self.database.write(partial(self._put, snapshot.tenant_id, piece, entries)):
                after, count = piece.end, count + len(entries)
                if progress:
                    progress(count)
            else:
                # Somebody merged or erased meanwhile.
                pieces = self._pieces_after(after, outdated)
        return count

    def _pieces_after(self, after: int, outdated: bool) -> list[Piece]:
        with self.database.open_snapshot(self.tenant) as connection:
            pieces = list(self._pieces(connection, self.snapshot(connection)))
        return [each for each in pieces if each.end > after and (each.is_outdated or not outdated)]

    def problems(self) -> list[str]:
        """What is not in the index as the documents say; nothing if all is well."""
        found: list[str] = []
        with self.database.open_snapshot(self.tenant) as connection:
            snapshot = self.snapshot(connection)
            for piece in self._pieces(connection, snapshot):
                entries = self._entries(connection, snapshot, piece)
                try:
                    wrong = self._differing(connection, snapshot.tenant_id, piece, entries)
                except StoreCorrupt as error:
                    found.append(error.message)
                    continue
                if piece.is_outdated:
                    found.append("the word index is of an older analysis")
                elif wrong:
                    found.append(
                        f"the word index is not what the documents say: {wrong} of {len(entries)} versions"
                    )
        return list(dict.fromkeys(found))

    def _pieces(self, connection: Connection, snapshot: SqlSnapshot) -> Iterator[Piece]:
        """From edge to edge, none larger than small segments are together unless it is one."""
        names = WordIndex(connection, snapshot.tenant_id, self.cache).names()
        first, held = 0, list[SegmentName]()
        for place, name in enumerate(names):
            held.append(name)
            following = names[place + 1] if place + 1 < len(names) else None
            if following is None or sum(each.docs for each in (*held, following)) > SMALL_DOCS:
                end = _END if following is None else following.first_version
                yield Piece(first, end, tuple(held))
                first, held = end, []
        if not names:
            rows = connection.query(
                "index_rows", {"tenant_id": snapshot.tenant_id, "first": 0, "end": _END}
            )
            edges = [row[0] for row in rows[::SMALL_DOCS]]
            # Of a tenant that never wrote anything there are none.
            for start, end in zip(edges, [*edges[1:], _END], strict=False):
                yield Piece(start, end, ())

    def _entries(self, connection: Connection, snapshot: SqlSnapshot, piece: Piece) -> list[Entry]:
        """The versions of a piece as they go into the index."""
        asked = {"tenant_id": snapshot.tenant_id, "first": piece.first, "end": piece.end}
        rows = connection.query("index_rows", asked)
        found = []
        for start in range(0, len(rows), _CHUNK):
            some = rows[start : start + _CHUNK]
            versions = {
                each.version_id: each for each in snapshot.load_versions([row[0] for row in some])
            }
            for version_id, space, user, agent, session, at, visibility, redacted, lasting in some:
                # Of one without a document nothing is in the index; that it has none, `Engine.find_damage` tells.
                projection = self.reads(versions[version_id]) if version_id in versions else None
                found.append(
                    Entry(
                        version_id=version_id,
                        space=self.prints.number(snapshot.tenant_id, space),
                        user=int.from_bytes(user or b"", "little"),
                        agent=int.from_bytes(agent or b"", "little"),
                        session=int.from_bytes(session or b"", "little"),
                        at=at,
                        marks=marks_of(visibility, redacted=redacted, lasting=lasting),
                        indexed=NOTHING
                        if projection is None
                        else self.prints.indexed(self.tenant, projection),
                    )
                )
        return found

    def _put(
        self, tenant_id: int, piece: Piece, entries: list[Entry], connection: Connection
    ) -> bool:
        """Put a piece in the place of what was there, if that is still what it was."""
        from memoranda.retrieval.segment import build

        index = WordIndex(connection, tenant_id, self.cache).held()
        names = index.names()
        held = tuple(name for name in names if piece.first <= name.first_version < piece.end)
        # What was written after the last segment that was seen is in one of its own.
        if held[: len(piece.names)] != piece.names:
            return False
        if piece.names:
            index.remove(piece.names)
        if entries:
            last = (
                held[len(piece.names)].first_version if len(held) > len(piece.names) else piece.end
            )
            kept = [entry for entry in entries if entry.version_id < last]
            if kept:
                index.add(build(kept), max((name.edition for name in piece.names), default=0) + 1)
        return True

    def _differing(
        self, connection: Connection, tenant_id: int, piece: Piece, entries: list[Entry]
    ) -> int:
        """How many versions the index has otherwise than they are, lacks, or has though they are gone."""
        if not piece.names:
            return len(entries)
        gone = [row[0] for row in connection.query("unindexed_of", {"tenant_id": tenant_id})]
        index = WordIndex(connection, tenant_id, self.cache)
        kept = index.merged(piece.names, gone=gone or None)
        there = {entry.version_id: _told(entry) for entry in entries}
        held = dict(_versions_of(kept))
        # What cannot be read any more, because its key was destroyed or it is damaged, says nothing of its words.
        unread = {entry.version_id for entry in entries if entry.indexed is NOTHING}
        compared = (there.keys() | held.keys()) - unread
        return sum(there.get(version_id) != held.get(version_id) for version_id in compared)


def _told(entry: Entry) -> tuple[object, ...]:
    _, *facts, indexed = entry
    words = {word: min(times, COUNT_LIMIT) for word, times in indexed.words.items()}
    return (*facts, min(indexed.length, LENGTH_LIMIT), *indexed[2:], words)


def _versions_of(segment: Segment) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Of each version of a segment the same."""
    facts = segment.facts
    words: list[dict[int, int]] = [{} for _ in range(len(facts))]
    for part in segment.parts:
        starts = part.starts.tolist()
        for word, start, end in zip(part.words.tolist(), starts[:-1], starts[1:], strict=True):
            for place, times in zip(
                part.places[start:end].tolist(), part.counts[start:end].tolist(), strict=True
            ):
                words[place][word] = times
    scope = (facts.spaces, facts.users, facts.agents, facts.sessions, facts.times, facts.marks)
    named = (facts.lengths, facts.speakers, facts.subjects, facts.languages, facts.said)
    columns = zip(*(column.tolist() for column in (*scope, *named)), words, strict=True)
    yield from zip(facts.versions.tolist(), columns, strict=True)
