"""Reads of one tenant over any database behind the seam."""

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
from memoranda.storage.engine.contract import SLICE_BYTES, SLICE_VERSIONS
from memoranda.storage.engine.database import Connection, Dialect, Row
from memoranda.storage.engine.document_cache import Age, Documents
from memoranda.storage.engine.paging import Paging
from memoranda.storage.engine.rows import NO_TENANT, TenantRow, VersionRow
from memoranda.storage.engine.selection import FOREVER_MS, Naming, SelectionSql
from memoranda.storage.index.search import Memory, Search
from memoranda.storage.index.word_index import WordIndex

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


# As many are read by who asks for a page; more by who reads everything.
REMEMBERED_LIMIT: Final = 100


class SqlSnapshot(BackgroundReads):
    """Reads for one tenant on one connection."""

    def __init__(
        self,
        connection: Connection,
        tenant: str,
        prints: Fingerprints,
        cipher: Cipher,
        memory: Memory,
        row: Row | None,
        documents: Documents | None = None,
    ) -> None:
        self._connection = connection
        self._memory = memory
        self._dialect: Dialect = connection.dialect
        self._cipher = cipher
        self._opener: Opener | None = None
        self._documents, self._age = documents, Age(0, 0)
        self._prints = prints
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

    def _versions(self, query: str, /, **params: Any) -> list[Version]:
        return [self._version(VersionRow._make(row)) for row in self._rows(query, **params)]

    def _version(self, row: VersionRow, opener: Opener | None = None) -> Version:
        native, cause, said, kept, is_readable = self._opened(row, opener or self._cipher.open)
        seal = (
            None
            if row.seal is None
            else self._prints.document(self._tenant, row.standard, row.name, native, said)
        )
        is_sealed = seal is not None and seal == row.seal
        if (
            seal is not None
            and seal[:SEAL_BYTES] == (row.seal or b"")[:SEAL_BYTES]
            and not is_sealed
        ):
            # Without what binds it the document could be shown to anybody, for ever: it is damaged.
            native = b""
        return Version(
            tenant=self._tenant,
            version_id=row.version_id,
            memory_id=row.memory_id,
            document=Document(
                standard=row.standard, media_type=row.media_type, name=row.name, native=native
            ),
            cause=cause,
            bounds=kept,
            is_sealed=is_sealed,
            state=_state(row, is_readable),
        )

    def _opened(
        self, row: VersionRow, opener: Opener
    ) -> tuple[bytes, bytes | None, bytes | None, Bounds | None, bool]:
        """The document, its cause and its bounds in the clear, as bytes and read; and whether there is a key."""
        native, cause, said = row.native, row.cause, row.bounds
        try:
            if row.key_id is not None:
                bound = bound_to(self._tenant, row.standard, row.name, row.recorded)
                opened = opener(row.key_id, row.native, bound + b"native")
                if opened is None:
                    return b"", None, None, None, False
                native = opened
                cause = None if cause is None else opener(row.key_id, cause, bound + b"cause")
                said = None if said is None else opener(row.key_id, said, bound + b"bounds")
            return native, cause, said, None if said is None else bounds.decode(said), True
        except StoreCorrupt:
            # One damaged document must not keep anyone from the others: it is empty, which nothing accepts.
            return b"", None, None, None, True

    def find_by_name(self, standard: str, name: str) -> Version | None:
        found = self._versions("version_named", standard=standard, name=name)
        return found[0] if found else None

    def load_versions(self, version_ids: Sequence[int]) -> list[Version]:
        rows = [
            VersionRow._make(row)
            for row in self._rows("versions_by_id", version_ids=as_json(list(version_ids)))
        ]
        # The ring is looked at once for all of them, and not at all for what is not encrypted.
        opener = (
            self._cipher.opener(self._ring_changes)
            if any(row.key_id is not None for row in rows)
            else None
        )
        # Who reads everything reads it once.
        if self._documents is None or len(rows) > REMEMBERED_LIMIT:
            return [self._version(row, opener) for row in rows]
        age = Age(self._erasure_seq, self._cipher.changes)
        known = self._documents.get(self._tenant_id, age, [row.version_id for row in rows])
        found, fresh = [], {}
        for row in rows:
            before = known.get(row.version_id)
            version = (
                self._version(row, opener)
                if before is None
                else self._version_again(row, before, opener)
            )
            if before is None:
                fresh[row.version_id] = opened = _opened(version, row)
                version = replace(version, opened=opened)
            found.append(version)
        self._documents.put(self._tenant_id, age, fresh)
        return found

    def _version_again(
        self, row: VersionRow, before: OpenedDocument, opener: Opener | None
    ) -> Version:
        """A version that was read before, with what was made of its document then: opened only if the store has
        another than it had.
        """
        stored = _stored(row)
        if stored is None or before.stored != stored:
            version = self._version(row, opener)
            opened = _opened(version, row)
            # What does not say the same any more is damaged, and nothing is known of that.
            if opened != before:
                return replace(version, opened=opened)
            before.stored = stored
            return replace(version, opened=before)
        return Version(
            tenant=self._tenant,
            version_id=row.version_id,
            memory_id=row.memory_id,
            document=Document(
                standard=row.standard,
                media_type=row.media_type,
                name=row.name,
                native=before.native,
            ),
            is_sealed=before.is_sealed,
            state=_state(row, is_readable=True),
            opened=before,
        )

    def fit_into_bytes(self, version_ids: Sequence[int], max_bytes: int) -> list[int]:
        if self._byte_count <= max_bytes or len(version_ids) < 2:
            return list(version_ids)
        found: list[int] = []
        left = max_bytes
        for version_id, size in self._sizes(version_ids):
            left -= size
            if found and left < 0:
                break
            found.append(version_id)
        return found

    def _sizes(self, version_ids: Sequence[int]) -> list[tuple[int, int]]:
        """How long the documents of some versions are; of those that are kept it is known."""
        if self._documents is not None and len(version_ids) <= REMEMBERED_LIMIT:
            age = Age(self._erasure_seq, self._cipher.changes)
            known = self._documents.get(self._tenant_id, age, version_ids)
            if len(known) == len(version_ids):
                return [(each, len(known[each].native)) for each in version_ids]
        return self._rows("version_sizes", version_ids=as_json(list(version_ids)))

    def iterate_versions(self, version_ids: Sequence[int]) -> Iterator[Version]:
        at = 0
        while at < len(version_ids):
            fitting = self.fit_into_bytes(version_ids[at : at + SLICE_VERSIONS], SLICE_BYTES)
            yield from self.load_versions(fitting)
            at += max(1, len(fitting))

    def list_history_ids(self, memory_id: int) -> list[int]:
        return [
            version_id for (version_id,) in self._rows("versions_of_memory", memory_id=memory_id)
        ]

    def iterate_history(self, memory_id: int, *, newest_first: bool = False) -> Iterator[Version]:
        version_ids = self.list_history_ids(memory_id)
        return self.iterate_versions(version_ids[::-1] if newest_first else version_ids)

    def iterate_protecting(self, memory_id: int) -> Iterator[Version]:
        name, value = PROTECTS
        asked = {
            "version_ids": as_json(self.list_history_ids(memory_id)),
            "name": name,
            "value_key": self.value_key(value),
        }
        return self.iterate_versions(
            [version_id for (version_id,) in self._rows("versions_protecting", **asked)]
        )

    def load_newest(self, memory_id: int) -> Version:
        (found,) = self.load_versions(self.list_history_ids(memory_id)[-1:])
        return found

    def find_duplicate(self, sameness: str, now: Instant) -> Version | None:
        key = self._prints.value(self._tenant_id, sameness)
        found = self._versions("version_same", sameness_key=key, now_ms=now, forever_ms=FOREVER_MS)
        return found[0] if found else None

    def find_duplicate_or_named(
        self, sameness: str, name: tuple[str, str], now: Instant
    ) -> tuple[Version | None, Version | None]:
        key = self._prints.value(self._tenant_id, sameness)
        asked = {"sameness_key": key, "standard": name[0], "name": name[1]}
        ((is_same, is_named),) = self._rows("is_same_or_named", **asked)
        return self.find_duplicate(sameness, now) if is_same else None, self.find_by_name(
            *name
        ) if is_named else None

    def filter_known_facts(self, samenesses: Sequence[str]) -> set[str]:
        keys = [
            key.hex()
            for each in samenesses
            if (key := self._prints.value(self._tenant_id, each)) is not None
        ]
        asked = [each for each in samenesses if each]
        return {asked[place] for (place,) in self._rows("facts_known", keys=as_json(keys))}

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
        return self._paging(selection, now).page(order, limit=limit, offset=offset, after=after)

    def count(self, selection: Selection, *, now: Instant) -> int:
        return self._paging(selection, now).count()

    def load_counted_page(
        self, selection: Selection, order: Order, *, limit: int, now: Instant, offset: int = 0
    ) -> SelectionPage:
        return self._paging(selection, now).counted_page(order, limit=limit, offset=offset)

    def count_groups(self, selection: Selection, by: str, *, now: Instant) -> list[VersionGroup]:
        return self._paging(selection, now).groups(by)

    def _paging(self, selection: Selection, now: Instant) -> Paging:
        return Paging(self._connection, lambda each: self._selection(each, now), selection)

    def warm_index(self) -> None:
        for segment in WordIndex(
            self._connection, self._tenant_id, self._kept().segments
        ).segments():
            segment.facts.prepare()

    def match(
        self,
        selection: Selection,
        legs: Sequence[RetrieverQuery],
        *,
        limit: int,
        now: Instant,
        count_all: bool = False,
        count_if_cheap: bool = True,
    ) -> Matches:
        self._settle()
        search = Search(
            connection=self._connection,
            tenant=self._tenant,
            tenant_id=self._tenant_id,
            prints=self._prints,
            memory=self._kept(),
            cipher=self._cipher,
            age=Age(self._erasure_seq, self._cipher.changes),
            closing_seq=self._closing_seq,
            now=now,
            selection=selection,
            selected=lambda: self._selection(selection, now),
            versions=self.load_versions,
            few=self._paging(selection, now).few,
        )
        return search.run(legs, limit=limit, whole=count_all, counted=count_if_cheap)

    def _kept(self) -> Memory:
        """What this process keeps of the word index."""
        return self._memory

    def _settle(self) -> None:
        """What was written and is not in the word index yet goes there; a snapshot has written nothing."""

    def _selection(self, selection: Selection, now: Instant) -> SelectionSql:
        naming = Naming(self.value_key, self.field_name)
        return SelectionSql(selection, naming, self._dialect, tenant_id=self._tenant_id, now=now)

    def value_key(self, text: str) -> bytes | None:
        return self._prints.value(self._tenant_id, text)

    def field_name(self, name: str) -> str:
        """Names of our own stand as they are; those that come from outside may tell something, and rows move."""
        return self._prints.word(self._tenant_id, name) if ":" in name else name

    def load_documents(self, version_ids: Sequence[int]) -> list[QueriedDocument]:
        if not version_ids:
            return []
        if self._opener is None:
            # Once in a snapshot: what is destroyed while it is read was there when it began.
            self._opener = self._cipher.opener(self._ring_changes)
            self._age = Age(self._erasure_seq, self._cipher.changes)
        rows = {
            row[0]: row for row in self._rows("kept_by_id", version_ids=as_json(list(version_ids)))
        }
        present = [version_id for version_id in version_ids if version_id in rows]
        opened = (
            self._documents.get(self._tenant_id, self._age, present)
            if self._documents is not None
            else {}
        )
        missing = [version_id for version_id in present if version_id not in opened]
        if missing:
            found = self._rows("documents_by_id", version_ids=as_json(missing))
            fresh = {version_id: self._document(row, self._opener) for version_id, *row in found}
            if self._documents is not None:
                self._documents.put(self._tenant_id, self._age, fresh)
            opened = {**opened, **fresh}
        return [
            QueriedDocument(version_id, opened[version_id], *rows[version_id][1:])
            for version_id in present
        ]

    def _document(self, row: Sequence[Any], opener: Opener) -> OpenedDocument:
        standard, name, native, key_id, recorded, seal = row
        if key_id is None:
            is_sealed = (
                seal is not None
                and self._prints.document(self._tenant, standard, name, native) == seal[:SEAL_BYTES]
            )
            return OpenedDocument(standard, name, native, is_sealed=is_sealed)
        try:
            clear = opener(
                key_id, native, bound_to(self._tenant, standard, name, recorded) + b"native"
            )
        except StoreCorrupt:
            clear = None
        # What opens with a key that is not in the database was sealed by whoever had it, in this place.
        return OpenedDocument(standard, name, clear or b"", is_sealed=clear is not None)

    def has_space(self, space: str) -> bool:
        return bool(self._rows("has_space", space=space))

    def list_spaces(self) -> list[str]:
        return [space for (space,) in self._rows("spaces")]

    def count_by_space_and_kind(self, *, now: Instant) -> dict[tuple[str, str], int]:
        return {(space, kind): count for space, kind, count in self._rows("tally", now=now)}

    def measure_usage(self) -> tuple[int, int]:
        return self._live_count, self._byte_count

    def filter_known_names(self, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        asked: dict[str, list[str]] = {}
        for standard, name in names:
            asked.setdefault(standard, []).append(name)
        found = (
            (standard, named[place])
            for standard, named in asked.items()
            for (place,) in self._rows("names_known", standard=standard, names=as_json(named))
        )
        return set(found)

    def find_names_by_prefix(self, standard: str, prefix: str, limit: int) -> list[tuple[str, int]]:
        return [
            (name, version_id)
            for name, version_id in self._rows(
                "names_starting", standard=standard, prefix=prefix, limit=limit
            )
        ]

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
        asked = {"memory_id": version.memory_id, "version_id": version.version_id, "limit": limit}
        return [(standard, name) for standard, name in self._rows("names_before", **asked)]

    def list_changes(self, after: int, limit: int, max_bytes: int | None = None) -> list[Change]:
        found = self._rows("changes_after", after=after, limit=limit)
        ids = [version_id for *_, version_id in found]
        versions = (
            self.load_versions(ids if max_bytes is None else self.fit_into_bytes(ids, max_bytes))
            if ids
            else []
        )
        return [
            Change(seq=seq, type=type_, at=Instant(at), version=version)
            for (seq, type_, at, _), version in zip(found, versions, strict=False)
        ]

    def find_last_change(self) -> int:
        return self._change_seq

    def find_last_version(self) -> int:
        ((version_id,),) = self._rows("last_version")
        return int(version_id)

    def list_audit_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return [(seq, entry) for seq, entry in self._rows("audit_after", after=after, limit=limit)]

    def list_audit_before(self, before: int | None, limit: int) -> list[tuple[int, bytes]]:
        found = self._rows(
            "audit_before", before=FOREVER_MS if before is None else before, limit=limit
        )
        return [(seq, entry) for seq, entry in found]

    def read_audit_head(self) -> tuple[int, str | None]:
        return self._audit_seq, self._audit_hash


def _state(row: VersionRow, is_readable: bool) -> State:
    # By their places: by their names it takes twice as long, and every read makes many.
    return State(
        row.status,
        row.valid_from,
        row.valid_to,
        row.declared_to,
        row.observed,
        row.updated,
        row.recorded,
        row.space,
        row.closed,
        row.retired,
        row.tombstoned,
        row.expires,
        bool(row.erased) or not is_readable,
        row.successor or "",
        orjson.loads(row.successor_names) if row.successor_names else _NO_NAMES,
        bool(row.held),
        bool(row.review),
        row.verification,
        row.followed,
        row.overridden,
        row.ignored,
        row.contradicted,
    )


def bound_to(tenant: str, standard: str, name: str, recorded: Instant) -> bytes:
    """What a ciphertext belongs to: put in another place, or back in the place of a later edition, it does not open."""
    return f"{tenant}\x00{standard}\x00{name}\x00{recorded}\x00".encode()


# Of a version whose document may protect those after it.
PROTECTS: Final = ("policy scope", "lineage")


def facet_of(link: LinkReason) -> str:
    """Where what a version names is kept: no field of any standard has a space in its name."""
    return f"link {link}"


def as_json(value: object) -> str:
    return orjson.dumps(value).decode()


def _opened(version: Version, row: VersionRow) -> OpenedDocument:
    document = version.document
    found = OpenedDocument(
        document.standard, document.name, document.native, is_sealed=version.is_sealed
    )
    found.stored = _stored(row)
    return found


def _stored(row: VersionRow) -> tuple[Any, ...] | None:
    """All that opening a document goes by; None where more is opened with it, or there is none."""
    if row.erased or row.cause is not None or row.bounds is not None:
        return None
    return row.native, row.key_id, row.seal, row.standard, row.name, row.recorded
