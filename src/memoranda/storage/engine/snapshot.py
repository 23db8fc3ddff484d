"""Reads of one tenant, over any database.

A `SqlSnapshot` opens with one read of the tenant's row, which holds its counters (versions, bytes, audit head, change
feed, index generations) and rules; everything else is read by named queries. Documents are decrypted and their seals
are checked when they are read. Since a document never changes, what was decrypted is kept in the process's
`DocumentCache` for the next snapshot; the state of a version is read from the database every time.

All reads use the one transaction of `connection`, so they agree with each other, and the counters read at the start are
those of this transaction. Never combine the results of two snapshots: a memory may have been erased between them. Every
query names the tenant (`:tenant_id`). A tenant that is unknown gets the id -1, for which there are no rows, so reading
needs no special case. The public methods are declared with their contracts in `contract.py` and have no docstrings
here. `SqlUnit` inherits from this class, so a read that is added here is available inside a unit of work, and must see
the rows that the unit has written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import orjson
from msgspec.structs import replace

from memoranda.errors import StoreCorrupt
from memoranda.model import bounds
from memoranda.model.instant import Instant
from memoranda.model.memory import (
    Bounds,
    Change,
    Document,
    LinkReason,
    OpenedDocument,
    QueriedDocument,
    State,
    Version,
)
from memoranda.model.selection import (
    WRITTEN,
    Matches,
    Order,
    PageCursor,
    RetrieverQuery,
    Selected,
    Selection,
    SelectionPage,
    VersionGroup,
)
from memoranda.storage.crypto.cipher import Cipher, Opener
from memoranda.storage.crypto.fingerprints import SEAL_BYTES, Fingerprints
from memoranda.storage.engine.background import BackgroundReads
from memoranda.storage.engine.caches import Age, DocumentCache, SearchCache
from memoranda.storage.engine.contract import SLICE_BYTES, SLICE_VERSIONS
from memoranda.storage.engine.database import Connection, Dialect, Row
from memoranda.storage.engine.paging import Paging
from memoranda.storage.engine.rows import NO_TENANT, HeadRow, TenantRow, VersionRow
from memoranda.storage.engine.selection import FOREVER_MS, SelectionSql, TextKeys
from memoranda.storage.index.word_index import WordIndex

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

# Versions of one call up to which the document cache is used. A page has no more; a caller with more reads everything
# once, and would only displace the documents of others.
REMEMBERED_LIMIT: Final = 100

# The facet of versions whose documents may protect later ones.
PROTECTS: Final = ("policy scope", "lineage")


class SqlSnapshot(BackgroundReads):
    """Reads for one tenant on one connection.

    `memory` holds the search caches of the process, `documents` the decrypted documents; None disables the document
    cache, which a unit of work needs because its writes may be undone.
    """

    def __init__(
        self,
        connection: Connection,
        tenant: str,
        fingerprints: Fingerprints,
        cipher: Cipher,
        memory: SearchCache,
        row: Row | None,
        documents: DocumentCache | None = None,
    ) -> None:
        self._connection = connection
        self._memory = memory
        self._dialect: Dialect = connection.dialect
        self._cipher = cipher
        self._opener: Opener | None = None
        self._documents, self._age = documents, Age(0, 0)
        self._fingerprints = fingerprints
        self._tenant = tenant
        counters = NO_TENANT if row is None else TenantRow(*row)
        self._tenant_id = counters.tenant_id
        self._change_seq = counters.change_seq
        self._audit_seq = counters.audit_seq
        self._audit_hash = counters.audit_hash
        self._version_count = counters.version_count
        self._term_count = counters.term_count
        self._live_count = counters.live_count
        self._byte_count = counters.byte_count
        self._erasure_seq = counters.erasure_seq
        self._segment_seq = counters.segment_seq
        self._closing_seq = counters.closing_seq
        self._unit_seq = counters.unit_seq
        self._append_seq = counters.append_seq
        self._rules = bytes(counters.rules)
        self._ring_changes = counters.ring_changes

    @property
    def tenant(self) -> str:
        return self._tenant

    @property
    def rules(self) -> bytes:
        return self._rules

    @property
    def tenant_id(self) -> int:
        return self._tenant_id

    def _versions(self, query: str, /, **params: object) -> list[Version]:
        rows = [VersionRow._make(row) for row in self._rows(query, **params)]
        return self._with_heads([self._version(row) for row in rows])

    def _with_heads(self, versions: list[Version]) -> list[Version]:
        """Return versions with the state of their lines: an earlier version ends when the head of its memory does.

        Only superseded and retired versions can have another head, so the extra query is skipped for pages of current
        versions.
        """
        version_ids = [
            version.version_id
            for version in versions
            if version.state.closed is not None or version.state.retired is not None
        ]
        if not version_ids:
            return versions
        heads = {
            row.version_id: row
            for row in map(
                HeadRow._make, self._rows("line_heads", version_ids=as_json(version_ids))
            )
        }
        return [
            _with_head(version, heads[version.version_id])
            if version.version_id in heads
            else version
            for version in versions
        ]

    def _version(self, row: VersionRow, opener: Opener | None = None) -> Version:
        """Return the version of a row, with its document decrypted and its seal checked.

        A sealed document whose inherited restrictions are missing or changed is damaged: it is empty, because without
        them it could be shown to everybody for ever.
        """
        native, cause, bounds_data, restrictions, is_readable = self._open(
            row, opener or self._cipher.open
        )
        is_sealed = False
        if row.seal is not None:
            seal = self._fingerprints.seal_document(
                self._tenant, row.standard, row.name, native, bounds_data
            )
            is_sealed = seal is not None and seal == row.seal
            # The first part covers the document alone, the second its restrictions.
            if (
                seal is not None
                and not is_sealed
                and seal[:SEAL_BYTES] == (row.seal or b"")[:SEAL_BYTES]
            ):
                native = b""
        return Version(
            tenant=self._tenant,
            version_id=row.version_id,
            memory_id=row.memory_id,
            document=Document(
                standard=row.standard, media_type=row.media_type, name=row.name, native=native
            ),
            cause=cause,
            bounds=restrictions,
            is_sealed=is_sealed,
            state=_state(row, self._open_space(row.space), is_readable=is_readable),
        )

    def _open(
        self, row: VersionRow, opener: Opener
    ) -> tuple[bytes, bytes | None, bytes | None, Bounds | None, bool]:
        """Return the decrypted document, its cause, its restrictions as bytes and decoded, and if there is a key.

        An erased version has no document any more: its column `native` holds the tombstone, whose names may be
        encrypted. If the key was destroyed, `is_readable` is False and the version counts as erased. If decryption
        fails although the key exists, the document is damaged and is returned empty.
        """
        native, cause, bounds_data = row.native, row.cause, row.bounds
        if row.erased:
            native = self._fingerprints.names.open(self._tenant_id, native)
        try:
            if row.key_id is not None:
                context = encryption_context(self._tenant, row.standard, row.name, row.recorded)
                opened_document = opener(row.key_id, row.native, context + b"native")
                if opened_document is None:
                    return b"", None, None, None, False
                native = opened_document
                if cause is not None:
                    cause = opener(row.key_id, cause, context + b"cause")
                if bounds_data is not None:
                    bounds_data = opener(row.key_id, bounds_data, context + b"bounds")
            decoded = None if bounds_data is None else bounds.decode(bounds_data)
            return native, cause, bounds_data, decoded, True
        except StoreCorrupt:
            # One damaged document must not hide the others: it is read as empty, which no standard accepts.
            return b"", None, None, None, True

    def find_by_name(self, standard: str, name: str) -> Version | None:
        versions = self._versions("version_named", standard=standard, name=name)
        return versions[0] if versions else None

    def load_versions(self, version_ids: Sequence[int]) -> list[Version]:
        """Return versions in the order of their ids in the list; unknown ids are left out.

        Documents that are cached are not decrypted again, but the state of each version is read.
        """
        rows = [
            VersionRow._make(row)
            for row in self._rows("versions_by_id", version_ids=as_json(list(version_ids)))
        ]
        # The key ring is read once for all rows, and not at all if none is encrypted.
        is_any_encrypted = any(row.key_id is not None for row in rows)
        opener = self._cipher.make_opener(self._ring_changes) if is_any_encrypted else None
        if self._documents is None or len(rows) > REMEMBERED_LIMIT:
            return self._with_heads([self._version(row, opener) for row in rows])
        age = Age(self._erasure_seq, self._cipher.changes)
        cached = self._documents.get(self._tenant_id, age, [row.version_id for row in rows])
        versions: list[Version] = []
        fresh: dict[int, OpenedDocument] = {}
        for row in rows:
            cached_version = cached.get(row.version_id)
            if cached_version is None:
                version = self._version(row, opener)
                fresh[row.version_id] = opened_document = _opened_document(version, row)
                version = replace(version, opened=opened_document)
            else:
                version = self._cached_version(row, cached_version, opener)
            versions.append(version)
        self._documents.put(self._tenant_id, age, fresh)
        return self._with_heads(versions)

    def _cached_version(
        self, row: VersionRow, cached: OpenedDocument, opener: Opener | None
    ) -> Version:
        """Return the version of a row whose document is cached; decrypt it again only if the stored row has changed."""
        stored_document = _stored_document(row)
        if stored_document is None or cached.stored != stored_document:
            version = self._version(row, opener)
            opened_document = _opened_document(version, row)
            # Documents never change, so another content is damage: nothing that was computed from the old one holds.
            if opened_document != cached:
                return replace(version, opened=opened_document)
            cached.stored = stored_document
            return replace(version, opened=cached)
        return Version(
            tenant=self._tenant,
            version_id=row.version_id,
            memory_id=row.memory_id,
            document=Document(
                standard=row.standard,
                media_type=row.media_type,
                name=row.name,
                native=cached.native,
            ),
            is_sealed=cached.is_sealed,
            state=_state(row, row.space, is_readable=True),
            opened=cached,
        )

    def fit_into_bytes(self, version_ids: Sequence[int], max_bytes: int) -> list[int]:
        """Return the first ids whose documents fit into `max_bytes` together.

        The first version is always included, even if it is larger than `max_bytes`, so that a caller who pages by bytes
        always advances.
        """
        if self._byte_count <= max_bytes or len(version_ids) < 2:
            return list(version_ids)
        fitting: list[int] = []
        bytes_left = max_bytes
        for version_id, size in self._sizes(version_ids):
            bytes_left -= size
            if fitting and bytes_left < 0:
                break
            fitting.append(version_id)
        return fitting

    def _sizes(self, version_ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return (version id, bytes of its document), without a query if all documents are cached.

        Sizes from the cache are those of the decrypted document, sizes from the database may include the overhead of
        encryption. Both are used only to limit the memory of a page, so the difference does not matter.
        """
        if self._documents is not None and len(version_ids) <= REMEMBERED_LIMIT:
            age = Age(self._erasure_seq, self._cipher.changes)
            cached = self._documents.get(self._tenant_id, age, version_ids)
            if len(cached) == len(version_ids):
                return [(version_id, len(cached[version_id].native)) for version_id in version_ids]
        return self._rows("version_sizes", version_ids=as_json(list(version_ids)))

    def iterate_versions(self, version_ids: Sequence[int]) -> Iterator[Version]:
        start = 0
        while start < len(version_ids):
            fitting = self.fit_into_bytes(version_ids[start : start + SLICE_VERSIONS], SLICE_BYTES)
            yield from self.load_versions(fitting)
            start += max(1, len(fitting))

    def list_history_ids(self, memory_id: int) -> list[int]:
        rows = self._rows("versions_of_memory", memory_id=memory_id)
        return [version_id for (version_id,) in rows]

    def iterate_history(self, memory_id: int, *, newest_first: bool = False) -> Iterator[Version]:
        version_ids = self.list_history_ids(memory_id)
        return self.iterate_versions(version_ids[::-1] if newest_first else version_ids)

    def iterate_protecting(self, memory_id: int) -> Iterator[Version]:
        name, value = PROTECTS
        params = {
            "version_ids": as_json(self.list_history_ids(memory_id)),
            "name": name,
            "value_key": self.value_key(value),
        }
        rows = self._rows("versions_protecting", **params)
        return self.iterate_versions([version_id for (version_id,) in rows])

    def load_newest(self, memory_id: int) -> Version:
        (version,) = self.load_versions(self.list_history_ids(memory_id)[-1:])
        return version

    def find_duplicate(self, sameness: str, now: Instant) -> Version | None:
        key = self._fingerprints.value(self._tenant_id, sameness)
        versions = self._versions(
            "version_same", sameness_key=key, now_ms=now, forever_ms=FOREVER_MS
        )
        return versions[0] if versions else None

    def find_duplicate_or_named(
        self, sameness: str, name: tuple[str, str], now: Instant
    ) -> tuple[Version | None, Version | None]:
        """Find a live duplicate of a memory, and the version that has its name.

        Most writes have no duplicate and no taken name, so a single cheap query answers both questions first, and the
        two complete reads follow only if needed.
        """
        key = self._fingerprints.value(self._tenant_id, sameness)
        params = {"sameness_key": key, "standard": name[0], "name": name[1]}
        ((is_same, is_named),) = self._rows("is_same_or_named", **params)
        duplicate = self.find_duplicate(sameness, now) if is_same else None
        return duplicate, self.find_by_name(*name) if is_named else None

    def filter_known_facts(self, samenesses: Sequence[str]) -> set[str]:
        # The query answers with positions in the list of keys; a text has a key unless it is empty.
        texts = [text for text in samenesses if text]
        keys = [key.hex() for text in texts if (key := self.value_key(text)) is not None]
        return {texts[index] for (index,) in self._rows("facts_known", keys=as_json(keys))}

    def load_page(
        self,
        selection: Selection,
        order: Order = WRITTEN,
        *,
        limit: int,
        now: Instant,
        after: PageCursor | None = None,
        offset: int = 0,
    ) -> list[Selected]:
        return self._paging(selection, now).load_page(
            order, limit=limit, offset=offset, after=after
        )

    def count(self, selection: Selection, *, now: Instant) -> int:
        return self._paging(selection, now).count()

    def load_counted_page(
        self, selection: Selection, order: Order, *, limit: int, now: Instant, offset: int = 0
    ) -> SelectionPage:
        return self._paging(selection, now).load_counted_page(order, limit=limit, offset=offset)

    def count_groups(self, selection: Selection, by: str, *, now: Instant) -> list[VersionGroup]:
        return self._paging(selection, now).count_groups(by)

    def _paging(self, selection: Selection, now: Instant) -> Paging:
        return Paging(self._connection, lambda narrower: self._selection(narrower, now), selection)

    def warm_index(self) -> None:
        index = WordIndex(self._connection, self._tenant_id, self._search_memory().segments)
        for segment in index.segments():
            segment.columns.warm()

    def match(
        self,
        selection: Selection,
        queries: Sequence[RetrieverQuery],
        *,
        limit: int,
        now: Instant,
        count_all: bool = False,
        count_if_cheap: bool = True,
    ) -> Matches:
        # Imports NumPy, which most commands do not need.
        from memoranda.storage.index.search import Search

        self._index_entries()
        search = Search(
            connection=self._connection,
            tenant=self._tenant,
            tenant_id=self._tenant_id,
            fingerprints=self._fingerprints,
            cache=self._search_memory(),
            cipher=self._cipher,
            age=Age(self._erasure_seq, self._cipher.changes),
            closing_seq=self._closing_seq,
            now=now,
            selection=selection,
            selection_sql=lambda: self._selection(selection, now),
            versions=self.load_versions,
            select_few=self._paging(selection, now).load_few,
        )
        return search.run(queries, limit=limit, count_all=count_all, count_if_cheap=count_if_cheap)

    def _search_memory(self) -> SearchCache:
        """Return the parts of the word index that this process keeps."""
        return self._memory

    def _index_entries(self) -> None:
        """Write new index entries before a search; a snapshot has none, a unit of work may."""

    def _selection(self, selection: Selection, now: Instant) -> SelectionSql:
        text_keys = TextKeys(self.value_key, self.field_name, self._space_spellings)
        return SelectionSql(selection, text_keys, self._dialect, tenant_id=self._tenant_id, now=now)

    def value_key(self, text: str) -> bytes | None:
        """Return the fingerprint that is stored for a value; None for an empty one."""
        return self._fingerprints.value(self._tenant_id, text)

    def field_name(self, name: str) -> str:
        """Return the stored name of a field: our own as it is, one from a document as a fingerprint, since it may tell
        something about the owner.

        Names with a colon come from documents (`memoranda:…`, keys of user data); our own names have none.
        """
        return self._fingerprints.word(self._tenant_id, name) if ":" in name else name

    def load_documents(self, version_ids: Sequence[int]) -> list[QueriedDocument]:
        if not version_ids:
            return []
        if self._opener is None:
            # Fixed for this snapshot: a key that is destroyed meanwhile was there when it began.
            self._opener = self._cipher.make_opener(self._ring_changes)
            self._age = Age(self._erasure_seq, self._cipher.changes)
        rows = {
            row[0]: row for row in self._rows("kept_by_id", version_ids=as_json(list(version_ids)))
        }
        present = [version_id for version_id in version_ids if version_id in rows]
        opened_document: dict[int, OpenedDocument] = {}
        if self._documents is not None:
            opened_document = self._documents.get(self._tenant_id, self._age, present)
        missing = [version_id for version_id in present if version_id not in opened_document]
        if missing:
            fresh = {
                version_id: self._document(row, self._opener)
                for version_id, *row in self._rows("documents_by_id", version_ids=as_json(missing))
            }
            if self._documents is not None:
                self._documents.put(self._tenant_id, self._age, fresh)
            opened_document = {**opened_document, **fresh}
        return [
            QueriedDocument(version_id, opened_document[version_id], *rows[version_id][1:])
            for version_id in present
        ]

    def _document(self, row: Sequence[Any], opener: Opener) -> OpenedDocument:
        """Return the decrypted document of a row of `documents_by_id`; an unreadable one is empty."""
        standard, name, native, key_id, recorded, seal = row
        if key_id is None:
            is_sealed = (
                seal is not None
                and self._fingerprints.seal_document(self._tenant, standard, name, native)
                == seal[:SEAL_BYTES]
            )
            return OpenedDocument(standard, name, native, is_sealed=is_sealed)
        context = encryption_context(self._tenant, standard, name, recorded)
        try:
            clear = opener(key_id, native, context + b"native")
        except StoreCorrupt:
            clear = None
        # The key is not in the database, so a document that it decrypts in this context was sealed by its holder.
        return OpenedDocument(standard, name, clear or b"", is_sealed=clear is not None)

    def has_space(self, space: str) -> bool:
        return any(
            self._rows("has_space", space=spelling) for spelling in self._space_spellings(space)
        )

    def list_spaces(self) -> list[str]:
        return sorted({self._open_space(space) for (space,) in self._rows("spaces")})

    def _space_spellings(self, space: str) -> tuple[str, ...]:
        return self._fingerprints.names.spellings(self._tenant_id, space)

    def _open_space(self, space: str) -> str:
        return self._fingerprints.names.open_space(self._tenant_id, space)

    def count_by_space_and_kind(self, *, now: Instant) -> dict[tuple[str, str], int]:
        return {(space, kind): count for space, kind, count in self._rows("tally", now=now)}

    def measure_usage(self) -> tuple[int, int]:
        return self._live_count, self._byte_count

    def filter_known_names(self, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        names_by_standard: dict[str, list[str]] = {}
        for standard, name in names:
            names_by_standard.setdefault(standard, []).append(name)
        known_names: set[tuple[str, str]] = set()
        for standard, candidates in names_by_standard.items():
            rows = self._rows("names_known", standard=standard, names=as_json(candidates))
            # The query answers with positions in the list of names.
            known_names |= {(standard, candidates[index]) for (index,) in rows}
        return known_names

    def find_names_by_prefix(self, standard: str, prefix: str, limit: int) -> list[tuple[str, int]]:
        rows = self._rows("names_starting", standard=standard, prefix=prefix, limit=limit)
        return [(name, version_id) for name, version_id in rows]

    def list_linked(self, link: LinkReason, name: str, *, after: int, limit: int) -> list[Version]:
        params = {
            "link": facet_of(link),
            "name_key": self.value_key(name),
            "after": after,
            "limit": limit,
        }
        return self._versions("versions_linked", **params)

    def find_version_ids(self, standard: str, names: Sequence[str]) -> dict[str, int]:
        return dict(self._rows("version_ids_named", standard=standard, names=as_json(list(names))))

    def count_live(self, version_ids: Sequence[int]) -> int:
        ((count,),) = self._rows("count_live", version_ids=as_json(list(version_ids)))
        return int(count)

    def count_deletable(self, version_ids: Sequence[int]) -> int:
        ((count,),) = self._rows("count_free", version_ids=as_json(list(version_ids)))
        return int(count)

    def load_names(self, version_id: int) -> dict[str, str]:
        return dict(self._rows("names_of", version_id=version_id))

    def list_earlier_names(self, version: Version, limit: int) -> list[tuple[str, str]]:
        params = {"memory_id": version.memory_id, "version_id": version.version_id, "limit": limit}
        return [(standard, name) for standard, name in self._rows("names_before", **params)]

    def list_changes(self, after: int, limit: int, max_bytes: int | None = None) -> list[Change]:
        rows = self._rows("changes_after", after=after, limit=limit)
        version_ids = [version_id for *_, version_id in rows]
        if max_bytes is not None:
            version_ids = self.fit_into_bytes(version_ids, max_bytes)
        versions = self.load_versions(version_ids) if version_ids else []
        return [
            Change(seq=seq, type=type_, at=Instant(at), version=version)
            for (seq, type_, at, _), version in zip(rows, versions, strict=False)
        ]

    def find_last_change(self) -> int:
        return self._change_seq

    def rewind(self, versions: Sequence[Version], as_of: int) -> list[Version]:
        """Return versions with the state that they had when `as_of` was the last version.

        The stored state of a version is that of now. A caller who reads as of an earlier version must not see that a
        later one superseded it, so those changes are taken out of the state. Versions without a later change are
        returned unchanged.
        """
        version_ids = [
            version.version_id
            for version in versions
            if version.state.superseded_by or version.state.retired is not None
        ]
        if not version_ids or self.find_last_version() <= as_of:
            return list(versions)
        rows = self._rows("version_successors", version_ids=as_json(version_ids))
        successors = {
            version_id: (successor, following) for version_id, successor, following in rows
        }
        return [
            replace(version, state=_rewind(version.state, successors[version.version_id], as_of))
            if version.version_id in successors
            else version
            for version in versions
        ]

    def find_last_version(self) -> int:
        ((version_id,),) = self._rows("last_version")
        return int(version_id)

    def list_audit_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return self._open_entries(self._rows("audit_after", after=after, limit=limit))

    def list_audit_before(self, before: int | None, limit: int) -> list[tuple[int, bytes]]:
        last = FOREVER_MS if before is None else before
        return self._open_entries(self._rows("audit_before", before=last, limit=limit))

    def _open_entries(self, rows: list[Row]) -> list[tuple[int, bytes]]:
        names = self._fingerprints.names
        return [(seq, names.open(self._tenant_id, entry)) for seq, entry in rows]

    def read_audit_head(self) -> tuple[int, str | None]:
        return self._audit_seq, self._audit_hash


def _state(row: VersionRow, space: str, *, is_readable: bool) -> State:
    """Return the state of a row's version, in a space."""
    # Positional: with keywords it takes twice as long, and every read makes many.
    return State(
        row.status,
        row.valid_from,
        row.valid_to,
        row.declared_to,
        row.observed,
        row.updated,
        row.recorded,
        space,
        row.closed,
        row.retired,
        row.tombstoned,
        row.expires,
        bool(row.erased) or not is_readable,
        row.successor or "",
        orjson.loads(row.successor_names) if row.successor_names else _NO_NAMES,
        bool(row.on_hold),
        bool(row.review),
        row.verification,
        row.followed,
        row.overridden,
        row.ignored,
        row.contradicted,
        row.predecessor or "",
    )


def _rewind(state: State, successors: tuple[int | None, int | None], as_of: int) -> State:
    """Return a state without what versions after `as_of` did to it.

    `successors` are the version that superseded it, and the next one of its memory.
    """
    successor, following = successors
    if state.superseded_by and successor is not None and successor > as_of:
        state = state._replace(
            superseded_by="",
            successor_names=_NO_NAMES,
            closed=None,
            valid_to=state.declared_valid_to,
        )
    if state.retired is not None and following is not None and following > as_of:
        state = state._replace(retired=None)
    return state


def _with_head(version: Version, head: HeadRow) -> Version:
    """Return an earlier version as the head of its memory lets it be: forgotten or expired no later than the head."""
    state = version.state
    ends = [end for end in (state.expires, head.expires) if end is not None]
    state = state._replace(expires=min(ends, default=None))
    if head.tombstoned is not None and state.tombstoned is None:
        state = state._replace(status="tombstoned", tombstoned=head.tombstoned)
    return replace(version, state=state, head_id=head.head_id)


def encryption_context(tenant: str, standard: str, name: str, recorded: Instant) -> bytes:
    """Return the associated data of a ciphertext: moved to another row, or to a later version, it does not decrypt."""
    return f"{tenant}\x00{standard}\x00{name}\x00{recorded}\x00".encode()


def facet_of(link: LinkReason) -> str:
    """Return the name of the facet that holds a link. No field of any standard has a space in its name."""
    return f"link {link}"


def as_json(value: object) -> str:
    """Encode a list as JSON: the only form in which every database takes a list as one parameter."""
    return orjson.dumps(value).decode()


def _opened_document(version: Version, row: VersionRow) -> OpenedDocument:
    """Return the decrypted document of a version for the cache, with the stored values it was made from."""
    document = version.document
    opened_document = OpenedDocument(
        document.standard, document.name, document.native, is_sealed=version.is_sealed
    )
    opened_document.stored = _stored_document(row)
    return opened_document


def _stored_document(row: VersionRow) -> tuple[object, ...] | None:
    """Return all values that decrypting a document depends on; None if a cause or restrictions must be decrypted too,
    or there is no document.

    If these values are equal, decrypting again would give the same result, so the cached document can be used. They are
    compared instead of trusted, so that damage on the disk is found even if the document is cached.
    """
    if row.erased or row.cause is not None or row.bounds is not None:
        return None
    return row.native, row.key_id, row.seal, row.standard, row.name, row.recorded
