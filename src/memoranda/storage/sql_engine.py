"""The one SQL logic, over any database behind the seam.

Search. A tenant's words are fingerprints of their own, so posting lists, document frequencies and mean lengths
are the tenant's alone and no score tells of anyone else. Candidates come from the rarest words first until
their posting lists add up to POSTINGS_LIMIT; commoner words cannot change the order much and would cost
the most. A query of common words only takes the newest matches.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, cast

import orjson

from memoranda.errors import MemorandaError, StoreCorrupt
from memoranda.model.change import AuditEntry, Change, ChangeType
from memoranda.model.facts import FieldIndex, Kept, Order, Selected, Selection, WordMatches
from memoranda.model.instant import LATEST, Instant
from memoranda.model.memory import VISIBILITIES, Document, Projection, State, Version
from memoranda.model.query import Filter, Hit, Listing, Matches, Structure
from memoranda.storage.cipher import SEAL_BYTES, Cipher, NoCipher, Opener, Sealer
from memoranda.storage.database import Connection, Database, Row
from memoranda.storage.engine import ApiKey, Seal, Snapshot, System, Unit
from memoranda.storage.selection import COUNT_CAPS, SelectionSql
from memoranda.storage.words import words

T = TypeVar("T")

# After every instant that can occur: stands for "never ends".
FOREVER_MS = 1 << 62
_NOW_KNOWN_MS = FOREVER_MS - 1

# Half a microsecond each: about a millisecond a search.
POSTINGS_LIMIT = 2_000
# A space of fewer memories is a word of every question.
SMALL_SPACE_LIMIT = 2_000
# A question has few words; a pasted page is cut, rarest words first.
QUERY_WORDS_LIMIT = 32
# BM25's usual constants.
_K1, _B = 1.2, 0.75

# A scrub waits for readers that are about to finish; one that stays must not keep everybody from writing.
SCRUB_SECONDS = 1.0

# Reads that share a piece of work. With the limit on waiting pieces this bounds what waits.
AUDIT_BATCH_LIMIT = 100

_OUTCOMES = ("followed", "overridden", "ignored", "contradicted")
_ERASURE_PENDING = "erasure_pending"
_FIELD_INDEX_COLUMNS = (
    "address",
    "form",
    "at_ms",
    "confidence",
    "importance",
    "subject_key",
    "relation_key",
    "object_key",
)
# Longer than a key itself, so that neither passes for the other.
_IN_RING = b"kept in the key ring as: "


class _Fingerprints:
    """Keyed fingerprints. The key lives in the store, so all its processes agree."""

    def __init__(self, key: bytes, document_key: bytes | None = None) -> None:
        self.secret = key
        self._document_key = document_key
        # Most words of a memory were seen before, and so were its tags, its user and its space.
        self.word = lru_cache(maxsize=131_072)(self._word)
        self.value = lru_cache(maxsize=8_192)(self._value)
        self.scope_word = lru_cache(maxsize=8_192)(self._scope_word)

    def _value(self, tenant_id: int, text: str) -> bytes | None:
        return self._digest(b"value", tenant_id, text) if text else None

    def _word(self, tenant_id: int, word: str) -> str:
        return self._digest(b"word", tenant_id, word).hex()

    def _scope_word(self, use: bytes, tenant_id: int, name: str) -> str:
        return self._digest(use, tenant_id, name).hex()

    def document(self, tenant: str, standard: str, name: str, native: bytes) -> bytes | None:
        """The seal of a document: whoever can only write to the database cannot make one."""
        if self._document_key is None:
            return None
        message = f"{tenant}\x00{standard}\x00{name}\x00".encode() + native
        return hashlib.blake2b(message, digest_size=16, key=self._document_key).digest()

    def _digest(self, use: bytes, tenant_id: int, text: str) -> bytes:
        message = b"%d\x00" % tenant_id + text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(message, digest_size=8, key=self.secret, person=use).digest()


class SqlSnapshot:
    """Reads for one tenant on one connection."""

    def __init__(
        self, connection: Connection, tenant: str, prints: _Fingerprints, cipher: Cipher, row: Row | None
    ) -> None:
        self._connection = connection
        self._cipher = cipher
        self._opener: Opener | None = None
        self._prints = prints
        self._tenant = tenant
        # An unknown tenant has no rows; -1 finds none.
        self._tenant_id: int = row[0] if row else -1
        self._change_seq: int = row[1] if row else 0
        self._audit_seq: int = row[2] if row else 0
        self._audit_hash: str | None = row[3] if row else None
        self._version_count: int = row[4] if row else 0
        self._term_count: int = row[5] if row else 0
        self._live_count: int = row[6] if row else 0
        self._byte_count: int = row[7] if row else 0

    @property
    def tenant(self) -> str:
        return self._tenant

    def _rows(self, query: str, /, **params: Any) -> list[Row]:
        params["tenant_id"] = self._tenant_id
        return self._connection.rows(query, params)

    def _versions(self, query: str, /, **params: Any) -> list[Version]:
        return [self._version(row) for row in self._rows(query, **params)]

    def _version(self, row: Row) -> Version:
        optional = cast("tuple[Instant | None, ...]", row[9:16])
        valid_to, declared_to, _, closed, retired, tombstoned, expires = optional
        native, cause, is_readable = self._opened(row)
        document = Document(standard=row[2], media_type=row[3], name=row[4], native=native)
        return Version(
            tenant=self._tenant,
            version_id=row[0],
            memory_id=row[1],
            document=document,
            cause=cause,
            is_sealed=row[28] is not None and self._prints.document(self._tenant, row[2], row[4], native) == row[28],
            state=State(
                status=row[7],
                valid_from=row[8],
                valid_to=valid_to,
                declared_valid_to=declared_to,
                recorded=row[11],
                closed=closed,
                retired=retired,
                tombstoned=tombstoned,
                expires=expires,
                erased=bool(row[16]) or not is_readable,
                superseded_by=row[17] or "",
                followed=row[18],
                overridden=row[19],
                ignored=row[20],
                contradicted=row[21],
                observed=row[22],
                updated=row[30],
                held=bool(row[23]),
                needs_review=bool(row[24]),
                verification=row[25],
                space=row[29],
                successor_names=orjson.loads(row[27]) if row[27] else {},
            ),
        )

    def _opened(self, row: Row) -> tuple[bytes, bytes | None, bool]:
        """The document and its cause in the clear, and whether there still is a key to read them with."""
        native, cause, key_id = row[5], row[6], row[26]
        if key_id is None:
            return native, cause, True
        bound = _bound(self._tenant, row[2], row[4], row[11])
        try:
            opened = self._cipher.open(key_id, native, bound + b"native")
            if opened is None:
                return b"", None, False
            return opened, None if cause is None else self._cipher.open(key_id, cause, bound + b"cause"), True
        except StoreCorrupt:
            # One damaged document must not keep anyone from the others: it is empty, which nothing accepts.
            return b"", None, True

    def named(self, standard: str, name: str) -> Version | None:
        found = self._versions("version_named", standard=standard, name=name)
        return found[0] if found else None

    def versions(self, version_ids: Sequence[int]) -> list[Version]:
        return self._versions("versions_by_id", version_ids=_json(list(version_ids)))

    def history(self, memory_id: int) -> list[Version]:
        return self._versions("versions_of_memory", memory_id=memory_id)

    def same(self, sameness: str, now: Instant) -> Version | None:
        key = self._prints.value(self._tenant_id, sameness)
        found = self._versions("version_same", sameness_key=key, now_ms=now, forever_ms=FOREVER_MS)
        return found[0] if found else None

    def page(self, after: int, limit: int, space: str | None = None) -> list[Version]:
        return self._versions("versions_page", after=after, limit=limit, space=space)

    def search(self, text: str, where: Filter, limit: int, now: Instant) -> Matches:
        within = self._scope_words(where.space, where.user, where.agent, where.session)
        frequencies = self._frequencies(text, within)
        weights = {word: _weight(count, self._version_count) for word, count in frequencies.items()}
        mean_terms = max(1.0, self._term_count / max(1, self._version_count))
        present = {word: count for word, count in frequencies.items() if count}
        rare = _rarest(present)
        common = [word for word in present if word not in rare]
        params = self._filter_params(where, now)
        found: dict[int, float] = {}
        if rare:
            terms = _json([[self._expression(word, within), weights[word]] for word in rare])
            constants = {"k1": _K1, "b": _B, "mean_terms": mean_terms}
            found.update(self._rows("search_terms", **params, **constants, terms=terms, limit=limit))
        if common and len(found) < limit:
            for version_id in self._newest_matches(common, within, params, limit):
                found.setdefault(version_id, 0.0)
        hits = [Hit(version_id=version_id, lexical=lexical) for version_id, lexical in found.items()]
        return Matches(hits=tuple(hits[:limit]), weights=weights, mean_terms=mean_terms)

    def _newest_matches(self, common: list[str], within: list[str], params: dict[str, Any], limit: int) -> list[int]:
        """Versions with common words: first those that have all of them, then any, newest first."""
        found: list[int] = []
        for joint in (" AND ", " OR "):
            either = joint.join(self._expression(word, []) for word in common)
            expression = " AND ".join([*within, f"({either})"])
            rows = self._rows("search_newest", **params, expression=expression, limit=limit)
            found += [version_id for (version_id,) in rows if version_id not in found]
            if len(found) >= limit or len(common) == 1:
                break
        return found

    def _frequencies(self, text: str, within: list[str]) -> dict[str, int]:
        """How many of the tenant's versions hold each query word, counted up to the limit."""
        distinct = list(dict.fromkeys(words(text)))[: QUERY_WORDS_LIMIT * 4]
        expressions = _json([self._expression(word, within) for word in distinct])
        counts = self._connection.rows("term_frequencies", {"expressions": expressions, "cap": POSTINGS_LIMIT + 1})
        return {word: count for word, (count,) in zip(distinct, counts, strict=True)}

    def _expression(self, word: str, within: list[str]) -> str:
        return " AND ".join([*within, f'"{self._prints.word(self._tenant_id, word)}"'])

    def _scope_words(self, *scope: str | None) -> list[str]:
        """Search words for a scope: the dimensions in their fixed order, those that are not set left out."""
        named = zip((b"space", b"user", b"agent", b"session"), scope, strict=True)
        return [f'"{self._prints.scope_word(use, self._tenant_id, name)}"' for use, name in named if name is not None]

    def recent(self, where: Filter, limit: int, now: Instant) -> list[int]:
        query = _recent_query(where)
        return [version_id for (version_id,) in self._rows(query, **self._filter_params(where, now), limit=limit)]

    def _filter_params(self, where: Filter, now: Instant) -> dict[str, Any]:
        def key(text: str | None) -> bytes | None:
            return None if text is None else self._prints.value(self._tenant_id, text)

        return {
            "statuses": _json(list(where.statuses)),
            "at_ms": where.at,
            "known_ms": _NOW_KNOWN_MS if where.known_at is None else where.known_at,
            "expiry_ms": now if where.known_at is None else max(now, where.known_at),
            "forever_ms": FOREVER_MS,
            "space": where.space,
            "user_key": key(where.user),
            "agent_key": key(where.agent),
            "session_key": key(where.session),
            "kinds": None if where.kinds is None else _json(list(where.kinds)),
            "visibilities": None if where.visibilities is None else _json(list(where.visibilities)),
        }

    def find(self, structure: Structure, *, after: int, limit: int, now: Instant) -> list[Version]:
        def key(text: str | None) -> bytes | None:
            return None if text is None else self._prints.value(self._tenant_id, text)

        given = {"s": structure.subject, "r": structure.relation, "o": structure.object}
        path = "".join(letter for letter, text in given.items() if text is not None) or "any"
        found = self._rows(
            f"structural_{path}",
            subject_key=key(structure.subject),
            relation_key=key(structure.relation),
            object_key=key(structure.object),
            space=structure.space,
            user_key=key(structure.user),
            session_key=key(structure.session),
            current=int(structure.current),
            after=after,
            limit=limit,
            now_ms=now,
            forever_ms=FOREVER_MS,
        )
        return self.versions([version_id for (version_id,) in found])

    def select(self, selection: Selection, order: Order, *, limit: int, offset: int, now: Instant) -> list[Selected]:
        sql = self._selection(selection, now)
        page = sql.page(order, self._narrowest(sql))
        params = {**sql.params, "limit": limit, "offset": offset}
        return [Selected(version_id, address) for version_id, address in self._connection.select(page, params)]

    def count(self, selection: Selection, *, now: Instant) -> int:
        sql = self._selection(selection, now)
        ((found,),) = self._connection.select(sql.count(self._narrowest(sql)), sql.params)
        return int(found)

    def _selection(self, selection: Selection, now: Instant) -> SelectionSql:
        params = {"tenant_id": self._tenant_id, "forever_ms": FOREVER_MS, "now_ms": now}
        return SelectionSql(selection, self._value_key, self._field_name, params)

    def _narrowest(self, sql: SelectionSql) -> int:
        counting = sql.count_drivers()
        if counting is None:
            return 0
        for cap in COUNT_CAPS:
            (counts,) = self._connection.select(counting, {**sql.params, "cap": cap})
            if min(counts) < cap:
                break
        return counts.index(min(counts))

    def _value_key(self, text: str) -> bytes | None:
        return self._prints.value(self._tenant_id, text)

    def _field_name(self, name: str) -> str:
        """Names of our own stand as they are; those that come from outside may tell something, and rows move."""
        return self._prints.word(self._tenant_id, name) if ":" in name else name

    def match(self, text: str, selection: Selection, *, limit: int, whole: bool, now: Instant) -> WordMatches:
        within = self._narrowing(selection.space)
        present = {word: count for word, count in self._frequencies(text, within).items() if count}
        if not present:
            return WordMatches(found=(), total=0)
        scoring = _rarest(present)
        others = [word for word in present if word not in scoring]
        found = self._scored(scoring, present, within, selection, limit + 1, now) if scoring else []
        for expression in self._unscored(scoring, others):
            if len(found) <= limit:
                found += self._newest(expression, within, selection, limit + 1 - len(found), now)
        total: int | None = len(found)
        if len(found) > limit:
            counts_all = whole or not others
            total = self._count_words([*scoring, *others], within, selection, now) if counts_all else None
        return WordMatches(found=tuple(found[:limit]), total=total)

    def _narrowing(self, space: str | None) -> list[str]:
        """The word of a space, if the space is small: then it shortens every list. A long list costs more than rows."""
        within = self._scope_words(space, None, None, None)
        if not within:
            return []
        params = {"expressions": _json(within), "cap": SMALL_SPACE_LIMIT}
        ((count,),) = self._connection.rows("term_frequencies", params)
        return within if count < SMALL_SPACE_LIMIT else []

    def _scored(
        self,
        scoring: list[str],
        counts: dict[str, int],
        within: list[str],
        selection: Selection,
        limit: int,
        now: Instant,
    ) -> list[Selected]:
        sql = self._selection(selection, now)
        weights = [[self._expression(word, within), _weight(counts[word], self._version_count)] for word in scoring]
        mean_terms = max(1.0, self._term_count / max(1, self._version_count))
        params = {**sql.params, "terms": _json(weights), "k1": _K1, "b": _B, "mean_terms": mean_terms, "limit": limit}
        return [Selected(*row) for row in self._connection.select(sql.scored(), params)]

    def _unscored(self, scoring: list[str], others: list[str]) -> list[str]:
        """What else matches, and comes last: first what has all of the commoner words, then what has any."""
        if not others:
            return []
        every, either = (joint.join(self._expression(word, []) for word in others) for joint in (" AND ", " OR "))
        but = f" NOT ({self._either(scoring)})" if scoring else ""
        if len(others) == 1:
            return [f"({either}){but}"]
        return [f"({every}){but}", f"(({either}) NOT ({every})){but}"]

    def _newest(
        self, expression: str, within: list[str], selection: Selection, limit: int, now: Instant
    ) -> list[Selected]:
        sql = self._selection(selection, now)
        params = {**sql.params, "expression": " AND ".join([*within, f"({expression})"]), "limit": limit}
        # Walked from the end, so that only what is taken is looked at.
        query = sql.searched("s.version_id, s.address", "ORDER BY c.rowid DESC LIMIT :limit")
        return [Selected(*row) for row in self._connection.select(query, params)]

    def _count_words(self, words: list[str], within: list[str], selection: Selection, now: Instant) -> int:
        sql = self._selection(selection, now)
        params = {**sql.params, "expression": " AND ".join([*within, f"({self._either(words)})"])}
        ((found,),) = self._connection.select(sql.searched("count(*)", ""), params)
        return int(found)

    def _either(self, words: list[str]) -> str:
        return " OR ".join(self._expression(word, []) for word in words)

    def documents(self, version_ids: Sequence[int]) -> list[Kept]:
        if not version_ids:
            return []
        if self._opener is None:
            # Once in a snapshot: what is destroyed while it is read was there when it began.
            self._opener = self._cipher.opener()
        opener = self._opener
        rows = {row[0]: row for row in self._rows("documents_by_id", version_ids=_json(list(version_ids)))}
        return [self._kept(rows[version_id], opener) for version_id in version_ids if version_id in rows]

    def _kept(self, row: Row, opener: Opener) -> Kept:
        version_id, standard, name, native, key_id, recorded, seal, address, verification, gone, closed = row
        if key_id is None:
            is_sealed = seal is not None and self._prints.document(self._tenant, standard, name, native) == seal
            return Kept(version_id, standard, name, native, is_sealed, address, verification, gone, closed)
        try:
            opened = opener(key_id, native, _bound(self._tenant, standard, name, recorded) + b"native")
        except StoreCorrupt:
            opened = None
        # What opens with a key that is not in the database was sealed by whoever had it, in this place.
        is_sealed = opened is not None
        return Kept(version_id, standard, name, opened or b"", is_sealed, address, verification, gone, closed)

    def without_field_index(self, limit: int) -> list[Version]:
        unread = self._rows("sheets_missing", limit=limit)
        return self.versions([version_id for (version_id,) in unread]) if unread else []

    def listed(self, listing: Listing, *, limit: int, now: Instant) -> list[tuple[Version, tuple[Instant, int]]]:
        before_ms, before_id = listing.before or (FOREVER_MS, 0)
        visibilities = listing.visibilities
        params: dict[str, Any] = {
            "space": listing.space,
            "before_ms": before_ms,
            "before_id": before_id,
            "since_ms": -FOREVER_MS if listing.since is None else listing.since,
            "forever_ms": FOREVER_MS,
            "now_ms": now,
            "visibilities": None if visibilities in (None, VISIBILITIES) else _json(list(visibilities or ())),
            "limit": limit,
        }
        query = "listed_page"
        if listing.tags:
            first, *others = (self._value_key(tag) or b"" for tag in listing.tags)
            query = "listed_tagged"
            params |= {"tag_key": first, "other_keys": _json([key.hex() for key in others])}
        places = {version_id: (Instant(at), version_id) for version_id, at in self._rows(query, **params)}
        return [(version, places[version.version_id]) for version in self.versions(list(places))]

    def live(self, space: str, *, after: int, limit: int, now: Instant) -> list[Version]:
        params = {"space": space, "after": after, "limit": limit, "now_ms": now, "forever_ms": FOREVER_MS}
        return self._versions("live_page", **params)

    def has_space(self, space: str) -> bool:
        return bool(self._rows("has_space", space=space))

    def spaces(self) -> list[str]:
        return [space for (space,) in self._rows("spaces")]

    def unnamed(self, limit: int) -> list[Version]:
        found = self._rows("unnamed", limit=limit)
        return self.versions([version_id for (version_id,) in found]) if found else []

    def usage(self) -> tuple[int, int]:
        return self._live_count, self._byte_count

    def known_names(self, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        return {names[place] for (place,) in self._rows("names_known", names=_json(list(names)))}

    def names_starting(self, standard: str, prefix: str, limit: int) -> list[tuple[str, int]]:
        return [
            (name, version_id)
            for name, version_id in self._rows("names_starting", standard=standard, prefix=prefix, limit=limit)
        ]

    def run(self, run_id: str) -> bytes | None:
        found = self._rows("run_get", run_id=run_id)
        return bytes(found[0][0]) if found else None

    def runs(self, *, before: Instant | None, limit: int) -> list[bytes]:
        before_ms = FOREVER_MS if before is None else before
        return [document for (document,) in self._rows("runs_before", before_ms=before_ms, limit=limit)]

    def run_events(self, run_id: str, *, after: int, limit: int) -> list[bytes]:
        return [event for (event,) in self._rows("run_events", run_id=run_id, after=after, limit=limit)]

    def run_event_count(self, run_id: str) -> int:
        ((count,),) = self._rows("run_event_count", run_id=run_id)
        return int(count)

    def items(self, kind: str) -> dict[str, bytes]:
        return dict(self._rows("notes_get", kind=kind))

    def of_user(self, user: str, *, after: int, limit: int) -> list[Version]:
        key = self._prints.value(self._tenant_id, user)
        return self._versions("versions_of_user", user_key=key, after=after, limit=limit)

    def names_of(self, version_id: int) -> dict[str, str]:
        return dict(self._rows("names_of", version_id=version_id))

    def changes(self, after: int, limit: int) -> list[Change]:
        return [
            Change(seq=row[0], type=row[1], at=Instant(row[2]), version=self._version(row[3:]))
            for row in self._rows("changes_after", after=after, limit=limit)
        ]

    def change_seq(self) -> int:
        return self._change_seq

    def last_version(self) -> int:
        ((version_id,),) = self._rows("last_version")
        return int(version_id)

    def audit_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return [(seq, entry) for seq, entry in self._rows("audit_after", after=after, limit=limit)]

    def audit_before(self, before: int | None, limit: int) -> list[tuple[int, bytes]]:
        found = self._rows("audit_before", before=FOREVER_MS if before is None else before, limit=limit)
        return [(seq, entry) for seq, entry in found]

    def audit_head(self) -> tuple[int, str | None]:
        return self._audit_seq, self._audit_hash


class SqlUnit(SqlSnapshot):
    """Reads and writes for one tenant in one transaction."""

    def __init__(
        self, connection: Connection, tenant: str, prints: _Fingerprints, cipher: Cipher, row: Row, seal: Seal
    ) -> None:
        super().__init__(connection, tenant, prints, cipher, row)
        self._seal = seal
        self._sealer: Sealer | None = None

    def _run(self, query: str, /, **params: Any) -> None:
        params["tenant_id"] = self._tenant_id
        self._connection.run(query, params)

    def append(
        self,
        document: Document,
        projection: Projection,
        *,
        now: Instant,
        memory_id: int | None = None,
        cause: bytes | None = None,
        field_index: FieldIndex | None = None,
        follow_head: bool = False,
        is_named: bool = True,
        stems: Sequence[str] | None = None,
    ) -> Version:
        ((version_id,),) = self._rows(
            "version_add",
            standard=document.standard,
            media_type=document.media_type,
            name=document.name,
            recorded_ms=now,
            seal=self._prints.document(self._tenant, document.standard, document.name, document.native),
            **self._sealed(document, projection, cause, now),
        )
        memory = version_id if memory_id is None else memory_id
        updated = self._updated(projection, memory_id)
        self._index(version_id, memory, projection, field_index, now, updated=updated, is_named=is_named, stems=stems)
        self._live_count += int(projection.status != "tombstoned")
        self._byte_count += len(document.native)
        state = State(
            status=projection.status,
            valid_from=projection.valid_from,
            valid_to=projection.valid_to,
            declared_valid_to=projection.valid_to,
            observed=projection.observed,
            updated=updated,
            recorded=now,
            space=projection.scope.space,
            expires=projection.expires,
        )
        version = Version(
            tenant=self._tenant,
            memory_id=memory,
            version_id=version_id,
            document=document,
            state=state,
            cause=cause,
        )
        self.add_name(version, document.standard, document.name, follow_head=follow_head)
        return version

    def _updated(self, projection: Projection, memory_id: int | None) -> Instant:
        """When the memory was last written, by its own account, but after every version before."""
        written = max(projection.created, projection.observed)
        if memory_id is None:
            return written
        ((last,),) = self._rows("memory_updated", memory_id=memory_id)
        return written if last is None else min(LATEST, max(written, Instant(last + 1)))

    def _sealed(self, document: Document, projection: Projection, cause: bytes | None, now: Instant) -> dict[str, Any]:
        """The document as it goes to the disk: encrypted under its user's key when the store encrypts."""
        if self._sealer is None:
            # Once in a unit of work, which lasts milliseconds.
            self._sealer = self._cipher.sealer()
        key_id = self._sealer.key_for(self._tenant, projection.scope.user)
        if key_id is None:
            return {"key_id": None, "native": document.native, "cause": cause}
        bound, seal = _bound(self._tenant, document.standard, document.name, now), self._sealer.seal
        sealed_cause = None if cause is None else seal(key_id, cause, bound + b"cause")
        return {"key_id": key_id, "native": seal(key_id, document.native, bound + b"native"), "cause": sealed_cause}

    def _index(
        self,
        version_id: int,
        memory_id: int,
        projection: Projection,
        field_index: FieldIndex | None,
        now: Instant,
        *,
        updated: Instant,
        is_named: bool,
        stems: Sequence[str] | None,
    ) -> None:
        scope = projection.scope
        if stems is None:
            stems = words(projection.text)
        prints, tenant_id = self._prints, self._tenant_id
        self._run(
            "state_add",
            version_id=version_id,
            memory_id=memory_id,
            space=scope.space,
            kind=projection.kind,
            visibility=scope.visibility,
            status=projection.status,
            user_key=prints.value(tenant_id, scope.user),
            agent_key=prints.value(tenant_id, scope.agent),
            session_key=prints.value(tenant_id, scope.session),
            sameness_key=prints.value(tenant_id, projection.sameness),
            **self._field_index_columns(field_index),
            named=int(is_named),
            observed_ms=projection.observed,
            updated_ms=updated,
            valid_from_ms=projection.valid_from,
            valid_to_ms=projection.valid_to,
            recorded_ms=now,
            expires_ms=projection.expires,
            exportable=int(projection.exportable),
            term_count=len(stems),
        )
        listed = [prints.word(tenant_id, stem) for stem in dict.fromkeys(stems)]
        listed += self._scope_words(scope.space, scope.user or None, scope.agent or None, scope.session or None)
        self._connection.run("search_add", {"version_id": version_id, "words": " ".join(listed)})
        if projection.tags:
            self._add_facets(version_id, [("label", tag) for tag in dict.fromkeys(t.lower() for t in projection.tags)])
        self._add_fields(version_id, field_index)
        self._version_count += 1
        self._term_count += len(stems)

    def _field_index_columns(self, field_index: FieldIndex | None) -> dict[str, Any]:
        if field_index is None:
            return dict.fromkeys(_FIELD_INDEX_COLUMNS)
        return {
            "address": field_index.address,
            "form": field_index.form,
            "at_ms": field_index.at,
            "confidence": field_index.confidence,
            "importance": field_index.importance,
            "subject_key": self._value_key(field_index.subject),
            "relation_key": self._value_key(field_index.relation),
            "object_key": self._value_key(field_index.object),
        }

    def _add_fields(self, version_id: int, field_index: FieldIndex | None) -> None:
        if field_index is None:
            return
        if field_index.numbers:
            numbered = [(self._field_name(name), number) for name, number in field_index.numbers]
            self._run_many("measure_add", [{"name": n, "number": m, "version_id": version_id} for n, m in numbered])
        self._add_facets(version_id, field_index.texts)

    def _add_facets(self, version_id: int, texts: Sequence[tuple[str, str]]) -> None:
        keyed = [(self._field_name(name), key) for name, text in texts if (key := self._value_key(text)) is not None]
        if keyed:
            self._run_many("facet_add", [{"name": n, "value_key": k, "version_id": version_id} for n, k in keyed])

    def _run_many(self, query: str, params: list[dict[str, Any]]) -> None:
        self._connection.run_many(query, [{**each, "tenant_id": self._tenant_id} for each in params])

    def put_field_index(self, version: Version, field_index: FieldIndex) -> None:
        self._run("sheet_put", version_id=version.version_id, **self._field_index_columns(field_index))
        self._add_fields(version.version_id, field_index)

    def take_rate(self, name: str, *, now: Instant, window_ms: int, limit: int, count: int = 1) -> bool:
        name_key, since = self._value_key(name), now - window_ms
        ((used,),) = self._rows("spent_since", name_key=name_key, since_ms=since)
        if used + count > limit:
            return False
        self._run("spent_forget", name_key=name_key, since_ms=since)
        ((last,),) = self._rows("spent_last", name_key=name_key, at_ms=now)
        uses = range(last + 1, last + 1 + count)
        self._run_many("spent_add", [{"name_key": name_key, "at_ms": now, "seq": seq} for seq in uses])
        return True

    def put_run(self, run_id: str, document: bytes, *, started: Instant) -> None:
        self._run("run_put", run_id=run_id, document=document, started_ms=started)

    def add_run_event(self, run_id: str, event: bytes) -> int:
        ((sequence,),) = self._rows("run_event_add", run_id=run_id, event=event)
        return int(sequence)

    def delete_item(self, kind: str, name: str) -> None:
        self._run("note_remove", kind=kind, name=name)

    def put_item(self, kind: str, name: str, value: bytes) -> None:
        self._run("note_put", kind=kind, name=name, value=value)

    def once(self, name: str, *, now: Instant) -> bool:
        return self.take_rate(name, now=now, window_ms=FOREVER_MS, limit=1)

    def add_name(self, version: Version, standard: str, name: str, *, follow_head: bool = False) -> None:
        version_id = None if follow_head else version.version_id
        self._run("alias_put", standard=standard, name=name, memory_id=version.memory_id, version_id=version_id)

    def set_named(self, version: Version) -> None:
        self._run("state_named", version_id=version.version_id)

    def _leave(self, version: Version) -> int:
        """A version that was live is not any more; how many bytes its document has, if it was not erased.

        Looked up, not taken from the version: the caller may have changed it since it was read.
        """
        ((live, erased, size, is_encrypted),) = self._rows("state_counted", version_id=version.version_id)
        self._live_count -= live
        return 0 if erased else size - (SEAL_BYTES if is_encrypted else 0)

    def close(self, version: Version, *, successor: Version, valid_to: Instant | None, now: Instant) -> None:
        self._leave(version)
        self._run(
            "state_close",
            version_id=version.version_id,
            successor_id=successor.version_id,
            valid_to_ms=valid_to,
            now_ms=now,
        )

    def reopen(self, version: Version) -> None:
        state = version.state
        is_closed = bool(state.superseded_by) and state.tombstoned is None and not state.erased
        self._live_count += int(is_closed and state.retired is None and state.verification != "retracted")
        self._run("state_reopen", version_id=version.version_id)

    def retire(self, version: Version, *, now: Instant) -> None:
        self._leave(version)
        self._run("state_retire", version_id=version.version_id, now_ms=now)

    def tombstone(self, version: Version, *, valid_to: Instant | None, now: Instant) -> None:
        self._leave(version)
        self._run("state_tombstone", version_id=version.version_id, valid_to_ms=valid_to, now_ms=now)

    def erase(self, version: Version, *, tombstone: bytes, now: Instant) -> None:
        version_id = version.version_id
        self._byte_count -= self._leave(version)
        self._run("version_erase", version_id=version_id)
        self._run("tombstone_put", version_id=version_id, native=tombstone)
        self._run("state_erase", version_id=version_id, now_ms=now)
        self._run("facet_remove", version_id=version_id)
        self._run("measure_remove", version_id=version_id)
        self._run("feedback_erase", version_id=version_id)
        self._connection.run("search_remove", {"version_id": version_id})
        # Kept with the erasure itself, so that a crash before the scrub does not lose the duty to do it.
        self._connection.run("meta_put", {"name": _ERASURE_PENDING, "value": os.urandom(8)})

    def hold(self, version: Version, *, held: bool) -> None:
        self._run("state_hold", version_id=version.version_id, held=int(held))

    def flag_for_review(self, version: Version, *, needs_review: bool) -> None:
        self._run("state_review", version_id=version.version_id, review=int(needs_review))

    def set_verification(self, version: Version, verification: str) -> None:
        self._leave(version)
        ((live,),) = self._rows("state_verification", version_id=version.version_id, verification=verification)
        self._live_count += live

    def feedback(self, version: Version, outcome: str, session: str, *, now: Instant) -> None:
        version_id = version.version_id
        session_key = self._prints.value(self._tenant_id, session)
        self._run("feedback_add", version_id=version_id, at_ms=now, outcome=outcome, session_key=session_key)
        self._run("state_feedback", version_id=version_id, **{name: int(name == outcome) for name in _OUTCOMES})

    def announce(self, type: ChangeType, version: Version, *, now: Instant) -> None:  # noqa: A002
        self._change_seq += 1
        self._run("change_add", seq=self._change_seq, type=type, version_id=version.version_id, at_ms=now)

    def record(self, entry: AuditEntry) -> None:
        seq = self._audit_seq + 1
        sealed, digest = self._seal(entry, seq, self._audit_hash)
        self._run("audit_add", seq=seq, entry=sealed)
        self._audit_seq, self._audit_hash = seq, digest

    def finish(self) -> Row:
        """Write the tenant's counters back, once per unit; the row as it now is."""
        self._run(
            "tenant_put",
            change_seq=self._change_seq,
            audit_seq=self._audit_seq,
            audit_hash=self._audit_hash,
            version_count=self._version_count,
            term_count=self._term_count,
            live_count=self._live_count,
            byte_count=self._byte_count,
        )
        return (
            self._tenant_id,
            self._change_seq,
            self._audit_seq,
            self._audit_hash,
            self._version_count,
            self._term_count,
            self._live_count,
            self._byte_count,
        )


class SqlSystem:
    """Credentials, expiry, and whose a name is."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _rows(self, query: str, /, **params: Any) -> list[Row]:
        with self._database.reading() as connection:
            return connection.rows(query, params)

    def tenants(self) -> list[str]:
        return [name for (name,) in self._rows("tenant_list")]

    def tenants_naming(self, standard: str, name: str) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_naming", standard=standard, name=name)]

    def tenants_with_items(self, kinds: Sequence[str]) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants_with_items", kinds=_json(list(kinds)))]

    def expired(self, now: Instant, limit: int) -> list[tuple[str, int]]:
        return [(tenant, version_id) for tenant, version_id in self._rows("expired", now_ms=now, limit=limit)]

    def next_expiry(self) -> Instant | None:
        ((found,),) = self._rows("next_expiry")
        return None if found is None else Instant(found)

    def add_key(self, key: ApiKey) -> None:
        params = {
            "key_id": key.key_id,
            "key_hash": key.key_hash,
            "name": key.name,
            "tenant": key.tenant,
            "scopes": ",".join(key.scopes),
            "created_ms": key.created,
        }
        self._database.write(lambda connection: connection.run("api_key_add", params))

    def key(self, key_id: str) -> ApiKey | None:
        found = self._rows("api_key_get", key_id=key_id)
        return _api_key(found[0]) if found else None

    def all_keys(self) -> list[ApiKey]:
        return [_api_key(row) for row in self._rows("api_key_list")]

    def revoke_key(self, key_id: str, now: Instant) -> bool:
        params = {"key_id": key_id, "revoked_ms": now}
        return self._database.write(lambda connection: connection.row("api_key_revoke", params)) is not None

    def revoke_token(self, issuer: str, jti: str, now: Instant) -> None:
        params = {"issuer": issuer, "jti": jti, "revoked_ms": now}
        self._database.write(lambda connection: connection.run("token_revoke", params))

    def is_token_revoked(self, issuer: str, jti: str) -> bool:
        return bool(self._rows("token_revoked", issuer=issuer, jti=jti))


class _AuditBatch:
    """Entries that go into the chain together: one piece of work for many reads."""

    __slots__ = ("_lock", "entries", "is_closed")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.entries: list[AuditEntry] = []
        self.is_closed = False

    def record(self, unit: Unit) -> None:
        # Closed when it first runs; if it is run again, because another piece failed, it is the same entries.
        with self._lock:
            self.is_closed = True
        for entry in self.entries:
            unit.record(entry)


class SqlEngine:
    """The storage contract over any database behind the seam."""

    def __init__(
        self, database: Database, seal: Seal, cipher: Cipher | None = None, *, document_key: bytes | None = None
    ) -> None:
        """`document_key` seals documents, so that reading one need not verify its signature again."""
        self._database = database
        self._cipher = cipher or NoCipher()
        self._seal = seal
        self._batching = threading.Lock()
        self._batches: dict[str, _AuditBatch] = {}
        try:
            self._prints = _Fingerprints(_index_key(database, self._cipher), document_key)
        except MemorandaError:
            self.close()
            raise
        self._system = SqlSystem(database)
        self.scrub()

    @property
    def system(self) -> System:
        return self._system

    @contextmanager
    def read(self, tenant: str) -> Iterator[Snapshot]:
        with self._database.reading() as connection:
            row = connection.row("tenant_get", {"name": tenant})
            yield SqlSnapshot(connection, tenant, self._prints, self._cipher, row)

    def write(self, tenant: str, work: Callable[[Unit], T]) -> T:
        return self._database.write(lambda connection: self._unit(connection, tenant, work))

    def record_later(self, tenant: str, entry: AuditEntry) -> None:
        with self._batching:
            batch = self._batches.get(tenant)
            is_new = batch is None or batch.is_closed or len(batch.entries) >= AUDIT_BATCH_LIMIT
            if batch is None or is_new:
                batch = self._batches[tenant] = _AuditBatch(self._batching)
            batch.entries.append(entry)
        if is_new:
            self._database.write_later(lambda connection: self._unit(connection, tenant, batch.record))

    def _unit(self, connection: Connection, tenant: str, work: Callable[[Unit], T]) -> T:
        named = {"name": tenant}
        # What an earlier piece of the same transaction left; nobody else can have written since.
        row = connection.memo.get(tenant) or connection.row("tenant_get", named) or connection.row("tenant_add", named)
        assert row is not None
        unit = SqlUnit(connection, tenant, self._prints, self._cipher, row, self._seal)
        result = work(unit)
        connection.memo[tenant] = unit.finish()
        return result

    def fingerprint(self, tenant: str, text: str) -> str:
        digest = hashlib.blake2b(
            f"{tenant}\x00{text}".encode("utf-8", "surrogatepass"), digest_size=16, key=self._prints.secret
        )
        return digest.hexdigest()

    def destroy_user_key(self, tenant: str, user: str) -> bool:
        return self._cipher.destroy(tenant, user)

    def rotate_master_key(self) -> int:
        return self._cipher.rotate()

    def flush(self) -> None:
        self._database.flush()

    def scrub(self, *, patient: bool = True) -> None:
        with self._database.reading() as connection:
            mark = connection.row("meta_get", {"name": _ERASURE_PENDING})
        if mark is not None and self._database.scrub(SCRUB_SECONDS if patient else 0.0):
            # Only the mark that was seen: what another process erased meanwhile is still to be scrubbed.
            done = {"name": _ERASURE_PENDING, "value": mark[0]}
            self._database.write(lambda connection: connection.run("meta_delete", done))

    def change_token(self) -> int:
        return self._database.token()

    def check(self) -> list[str]:
        return self._database.check()

    def close(self) -> None:
        self._database.close()
        self._cipher.close()


def _bound(tenant: str, standard: str, name: str, recorded: Instant) -> bytes:
    """What a ciphertext belongs to: put in another place, or back in the place of a later edition, it does not open."""
    return f"{tenant}\x00{standard}\x00{name}\x00{recorded}\x00".encode()


def _index_key(database: Database, cipher: Cipher) -> bytes:
    """The key of all fingerprints, made once by whichever process comes first; in the key ring if there is one."""

    def claim(connection: Connection) -> bytes:
        key_id, key = cipher.index_key()
        stored = key if key_id is None else _IN_RING + key_id.encode()
        connection.run("meta_claim", {"name": "index_key", "value": stored})
        row = connection.row("meta_get", {"name": "index_key"})
        if row is None:
            raise StoreCorrupt("the store has lost its index key")
        return bytes(row[0])

    with database.reading() as connection:
        row = connection.row("meta_get", {"name": "index_key"})
    stored = bytes(row[0]) if row else database.write(claim)
    return cipher.key(stored.removeprefix(_IN_RING).decode()) if stored.startswith(_IN_RING) else stored


def _recent_query(where: Filter) -> str:
    """The query whose index is narrowest."""
    if where.known_at is not None:
        return "recent_known"
    if where.session is not None:
        return "recent_of_session"
    if where.user is not None:
        return "recent_of_user"
    return "recent" if where.space is None else "recent_in_space"


def _rarest(frequencies: dict[str, int]) -> list[str]:
    """The rarest words whose posting lists together stay under the limit."""
    chosen, postings = [], 0
    for word, count in sorted(frequencies.items(), key=lambda item: item[1])[:QUERY_WORDS_LIMIT]:
        if postings + count > POSTINGS_LIMIT:
            break
        chosen.append(word)
        postings += count
    return chosen


def _weight(frequency: int, versions: int) -> float:
    return math.log(1.0 + (max(versions, frequency) - frequency + 0.5) / (frequency + 0.5))


def _api_key(row: Row) -> ApiKey:
    return ApiKey(
        key_id=row[0],
        key_hash=row[1],
        name=row[2],
        tenant=row[3],
        scopes=tuple(filter(None, row[4].split(","))),
        created=Instant(row[5]),
        revoked=None if row[6] is None else Instant(row[6]),
    )


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
