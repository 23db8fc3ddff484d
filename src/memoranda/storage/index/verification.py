"""Verification of the index tables against the documents, and the rebuild of the word index.

The word index is processed in sections: a few small segments, or a large one. A section is read and rebuilt outside the
writer's transaction, and stored in one unit of work if its segments are still the same. So an interrupted rebuild can
continue, and searches find everything meanwhile.

The other index tables (state, facets, measures, aliases) are compared in pages of versions.

`memoranda verify` reports the problems, `memoranda reindex` repairs the word index, and a server rebuilds outdated
sections in the background after an upgrade. The expected values are computed from the documents by the same functions
that index a new version (`service/core/indexing.py`), so a new index column must be compared here, or damage in it
stays unnoticed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from memoranda.errors import StoreCorrupt
from memoranda.model.memory import DocumentReading, Projection, Version
from memoranda.retrieval.analysis import ANALYSIS
from memoranda.retrieval.entry import (
    FREQUENCY_LIMIT,
    LENGTH_LIMIT,
    NO_END,
    NO_TEXT,
    IndexedText,
    IndexEntry,
    flags_of,
)
from memoranda.storage.crypto.fingerprints import Fingerprints
from memoranda.storage.engine.contract import OUTDATED_INDEX
from memoranda.storage.engine.database import Connection, Database, Row
from memoranda.storage.engine.snapshot import SqlSnapshot, as_json
from memoranda.storage.engine.unit import facets_of
from memoranda.storage.index.word_index import (
    SMALL_SEGMENT_DOCS,
    SegmentCache,
    SegmentKey,
    WordIndex,
)

if TYPE_CHECKING:
    from memoranda.retrieval.segment import Segment

# Returns the projection of a version; None if its document cannot be read.
Reads: TypeAlias = Callable[[Version], Projection | None]
# Greater than any version id.
_END: Final = 1 << 62
# Versions whose documents are read together.
_PAGE_VERSIONS: Final = 500


class IndexSection(NamedTuple):
    """A range of version ids, from `first` to before `end`, and its segments."""

    first: int
    end: int
    keys: tuple[SegmentKey, ...]

    @property
    def is_outdated(self) -> bool:
        """True if any segment was built by an older text analysis."""
        return any(key.analysis != ANALYSIS for key in self.keys)


class WordIndexVerification(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of one tenant's word index with its documents, and its rebuild."""

    database: Database
    fingerprints: Fingerprints
    cache: SegmentCache
    tenant: str
    # Returns a snapshot of the tenant on a connection.
    snapshot: Callable[[Connection], SqlSnapshot]
    load_projection: Reads

    def rebuild(
        self, progress: Callable[[int], None] | None = None, *, outdated: bool = False
    ) -> int:
        """Rebuild the index, or only its outdated sections; return the number of versions indexed.

        `progress` is called with the number of versions so far, after each section. The tenant can be read and written
        all the time. If it is interrupted, running it again repeats everything, except with `outdated`, where finished
        sections are current and are left out.
        """
        count, after = 0, 0
        sections = self._sections_after(after, only_outdated=outdated)
        while sections:
            section = sections.pop(0)
            with self.database.open_snapshot(self.tenant) as connection:
                snapshot = self.snapshot(connection)
                entries = self._entries(connection, snapshot, section)
            if self.database.write(partial(self._store, snapshot.tenant_id, section, entries)):
                after, count = section.end, count + len(entries)
                if progress:
                    progress(count)
            else:
                # Another writer merged segments or erased versions meanwhile.
                sections = self._sections_after(after, only_outdated=outdated)
        return count

    def _sections_after(self, after: int, *, only_outdated: bool) -> list[IndexSection]:
        with self.database.open_snapshot(self.tenant) as connection:
            sections = list(self._sections(connection, self.snapshot(connection)))
        return [
            section
            for section in sections
            # An upgrade deletes segments that it cannot read.
            if section.end > after
            and (section.is_outdated or not section.keys or not only_outdated)
        ]

    def problems(self) -> list[str]:
        """Return a message for each kind of difference; none if the index is correct."""
        messages: list[str] = []
        with self.database.open_snapshot(self.tenant) as connection:
            snapshot = self.snapshot(connection)
            for section in self._sections(connection, snapshot):
                entries = self._entries(connection, snapshot, section)
                try:
                    count = self._count_differences(
                        connection, snapshot.tenant_id, section, entries
                    )
                except StoreCorrupt as error:
                    messages.append(error.message)
                    continue
                if section.is_outdated:
                    messages.append(OUTDATED_INDEX)
                elif count:
                    versions = f"{count} of {len(entries)} versions"
                    messages.append(f"the word index differs from the documents: {versions}")
        return list(dict.fromkeys(messages))

    def _sections(self, connection: Connection, snapshot: SqlSnapshot) -> Iterator[IndexSection]:
        """Yield sections of up to SMALL_SEGMENT_DOCS versions, or of one larger segment."""
        keys = WordIndex(connection, snapshot.tenant_id, self.cache).segment_keys()
        first, members = 0, list[SegmentKey]()
        for index, key in enumerate(keys):
            members.append(key)
            next_segment = keys[index + 1] if index + 1 < len(keys) else None
            if (
                next_segment is None
                or sum(member.docs for member in (*members, next_segment)) > SMALL_SEGMENT_DOCS
            ):
                end = _END if next_segment is None else next_segment.first_version
                yield IndexSection(first, end, tuple(members))
                first, members = end, []
        if not keys:
            params = {"tenant_id": snapshot.tenant_id, "first": 0, "end": _END}
            rows = connection.query("index_rows", params)
            firsts = [row[0] for row in rows[::SMALL_SEGMENT_DOCS]]
            # A tenant without versions has no sections.
            for start, end in zip(firsts, [*firsts[1:], _END], strict=False):
                yield IndexSection(start, end, ())

    def _entries(
        self, connection: Connection, snapshot: SqlSnapshot, section: IndexSection
    ) -> list[IndexEntry]:
        """Build the index entries of a section from the documents."""
        params = {"tenant_id": snapshot.tenant_id, "first": section.first, "end": section.end}
        rows = connection.query("index_rows", params)
        entries = []
        for start in range(0, len(rows), _PAGE_VERSIONS):
            page = rows[start : start + _PAGE_VERSIONS]
            versions = {
                version.version_id: version
                for version in snapshot.load_versions([row[0] for row in page])
            }
            for (
                version_id,
                space,
                user,
                agent,
                session,
                at,
                visibility,
                redacted,
                *validity,
            ) in page:
                lasting, expiring, valid_from, valid_to = validity
                entries.append(
                    IndexEntry(
                        version_id=version_id,
                        space=self.fingerprints.number(snapshot.tenant_id, space),
                        user=int.from_bytes(user or b"", "little"),
                        agent=int.from_bytes(agent or b"", "little"),
                        session=int.from_bytes(session or b"", "little"),
                        observed=at,
                        flags=flags_of(
                            visibility, redacted=redacted, lasting=lasting, expiring=expiring
                        ),
                        valid_from=valid_from,
                        valid_to=NO_END if valid_to is None else valid_to,
                        text=self._indexed_text(versions.get(version_id)),
                    )
                )
        return entries

    def _indexed_text(self, version: Version | None) -> IndexedText:
        """Return the analysis of a version; NO_TEXT without a readable document, which `Engine.find_damage` reports."""
        projection = None if version is None else self.load_projection(version)
        return (
            NO_TEXT if projection is None else self.fingerprints.index_text(self.tenant, projection)
        )

    def _store(
        self,
        tenant_id: int,
        section: IndexSection,
        entries: list[IndexEntry],
        connection: Connection,
    ) -> bool:
        """Replace the segments of a section; return False if they have changed since it was read.

        The tenant is locked while segments are replaced. Versions that were written after the section was read are in
        segments of their own, which stay.
        """
        from memoranda.retrieval.segment import build_segment

        index = WordIndex(connection, tenant_id, self.cache).lock()
        existing = tuple(
            key for key in index.segment_keys() if section.first <= key.first_version < section.end
        )
        if existing[: len(section.keys)] != section.keys:
            return False
        # Versions that were written after the section was read have segments of their own.
        newer = existing[len(section.keys) :]
        if section.keys:
            index.remove(section.keys)
        end = newer[0].first_version if newer else section.end
        entries = [entry for entry in entries if entry.version_id < end]
        if entries:
            edition = max((key.edition for key in section.keys), default=0) + 1
            index.add(build_segment(entries), edition)
        return True

    def _count_differences(
        self,
        connection: Connection,
        tenant_id: int,
        section: IndexSection,
        entries: list[IndexEntry],
    ) -> int:
        """Count the versions that the index lacks, has though they are erased, or has with other values."""
        if not section.keys:
            return len(entries)
        # Erased versions whose words are still to be removed are no difference.
        erased = [row[0] for row in connection.query("unindexed_of", {"tenant_id": tenant_id})]
        segment = WordIndex(connection, tenant_id, self.cache).read_merged(section.keys, erased)
        expected = {entry.version_id: _comparable(entry) for entry in entries}
        indexed = dict(_comparable_versions(segment))
        # A document that is damaged, or whose key was destroyed, cannot be compared.
        unreadable = {entry.version_id for entry in entries if entry.text is NO_TEXT}
        compared = (expected.keys() | indexed.keys()) - unreadable
        return sum(expected.get(version_id) != indexed.get(version_id) for version_id in compared)


def _comparable(entry: IndexEntry) -> tuple[object, ...]:
    """Return the values of an entry as the index stores them, in the order of `_comparable_versions`."""
    _, *scope, text, valid_from, valid_to = entry
    frequencies = {
        term: min(frequency, FREQUENCY_LIMIT) for term, frequency in text.term_frequencies.items()
    }
    length = min(text.length, LENGTH_LIMIT)
    return (*scope, length, *text[2:], valid_from, valid_to, frequencies)


def _comparable_versions(segment: Segment) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield the id and the values of each version of a segment."""
    columns = segment.columns
    frequencies: list[dict[int, int]] = [{} for _ in range(len(columns))]
    for block in segment.blocks:
        starts = block.starts.tolist()
        for term, start, end in zip(block.terms.tolist(), starts[:-1], starts[1:], strict=True):
            rows, counts = block.rows[start:end].tolist(), block.counts[start:end].tolist()
            for row, count in zip(rows, counts, strict=True):
                frequencies[row][term] = count
    scope = (columns.spaces, columns.users, columns.agents, columns.sessions)
    facts = (columns.times, columns.flags)
    validity = (columns.valid_from, columns.valid_to)
    text = (
        columns.lengths,
        columns.speakers,
        columns.subjects,
        columns.languages,
        columns.text_hashes,
    )
    lists = (column.tolist() for column in (*scope, *facts, *text, *validity))
    values = zip(*lists, frequencies, strict=True)
    yield from zip(columns.versions.tolist(), values, strict=True)


class RowVerification(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of one tenant's index rows (state, facets, measures, aliases) with its documents."""

    database: Database
    tenant: str
    # Returns a snapshot of the tenant on a connection.
    snapshot: Callable[[Connection], SqlSnapshot]
    # Returns what a document says; None if it cannot be read.
    load_reading: Callable[[Version], DocumentReading | None]

    def problems(self) -> list[str]:
        """Return a message for each kind of row that differs; none if all are correct."""
        counts: dict[str, int] = defaultdict(int)
        after = 0
        while True:
            with self.database.open_snapshot(self.tenant) as connection:
                snapshot = self.snapshot(connection)
                params = {
                    "tenant_id": snapshot.tenant_id,
                    "first": after + 1,
                    "end": _END,
                    "limit": _PAGE_VERSIONS,
                }
                version_ids = [row[0] for row in connection.query("index_rows_some", params)]
                if not version_ids:
                    ((orphans,),) = connection.query(
                        "index_orphans", {"tenant_id": snapshot.tenant_id}
                    )
                    counts["rows of erased versions"] += int(orphans)
                    break
                for kind in self._differing_kinds(connection, snapshot, version_ids):
                    counts[kind] += 1
            after = version_ids[-1]
        return [
            f"{count} {kind} differ from the documents" for kind, count in counts.items() if count
        ]

    def _differing_kinds(
        self, connection: Connection, snapshot: SqlSnapshot, version_ids: Sequence[int]
    ) -> Iterator[str]:
        """Yield the kind of rows for every difference of a version."""
        readings = {
            version.version_id: reading
            for version in snapshot.load_versions(version_ids)
            if (reading := self.load_reading(version)) is not None
        }
        params = {"tenant_id": snapshot.tenant_id, "version_ids": as_json(list(readings))}
        states = {row[0]: row[1:] for row in connection.query("index_state", params)}
        facets = _group_by_version(connection.query("index_facets", params))
        measures = _group_by_version(connection.query("index_measures", params))
        names = {
            (standard, name) for reading in readings.values() for standard, name in reading.names
        }
        name_params = {**params, "names": as_json(sorted(names))}
        existing_names = set(connection.query("index_names", name_params))
        for version_id, reading in readings.items():
            if _state_columns(snapshot, reading) != states[version_id]:
                yield "state rows"
            if set(_facet_rows(snapshot, reading)) != facets[version_id]:
                yield "field texts"
            numbers = {
                (snapshot.field_name(name), number) for name, number in reading.field_index.numbers
            }
            if numbers != measures[version_id]:
                yield "field numbers"
            if not set(reading.names) <= existing_names:
                yield "names"


def _state_columns(snapshot: SqlSnapshot, reading: DocumentReading) -> tuple[object, ...]:
    """Return the columns of the query `index_state` as a document determines them."""
    projection, fields, key = reading.projection, reading.field_index, snapshot.value_key
    scope = projection.scope
    return (
        scope.space,
        projection.kind,
        scope.visibility,
        key(scope.user),
        key(scope.agent),
        key(scope.session),
        key(projection.sameness),
        int(projection.exportable),
        int(projection.redacted),
        fields.address,
        fields.form,
        fields.at,
        fields.confidence,
        fields.importance,
        key(fields.subject),
        key(fields.relation),
        key(fields.object),
    )


def _facet_rows(snapshot: SqlSnapshot, reading: DocumentReading) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the key of each field text of a document."""
    for name, text in (*facets_of(reading.projection), *reading.field_index.texts):
        if (key := snapshot.value_key(text)) is not None:
            yield snapshot.field_name(name), key


def _group_by_version(rows: list[Row]) -> dict[int, set[Row]]:
    """Group rows by their first column."""
    groups: dict[int, set[Row]] = defaultdict(set)
    for version_id, *values in rows:
        groups[version_id].add(tuple(values))
    return groups
