"""One unit of work: reads and writes of one tenant in one transaction.

A `SqlUnit` reads as a snapshot does and adds the writes. New rows wait in an `InsertBuffer` and are sent together, by
the first query that might read them. The tenant's counters (versions, bytes, change feed, audit chain, index
generations) are counted in memory and written back once, by `finish`, which also writes the new entries of the word
index. Nothing is visible to others before the commit, and a unit may be run a second time if another one in the same
transaction fails: it has no effect outside its transaction.

Order of a unit: `SqlEngine` locks the row of the tenant and creates the unit with its counters; `work` reads and
writes; `finish` sends the waiting rows, writes the index segment and stores the counters. The lock makes the counters
exact although they are kept in memory. Careful: whatever a unit changes in `state.live` must be added to or subtracted
from `_live_count`, and must take a new `_next_closing()`; otherwise quotas drift, and caches of live versions keep
versions that have ended. `memoranda verify` and `tests/storage/contract*.py` find both. Bytes of documents that are
added or removed belong into `_byte_count`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from memoranda.model import bounds
from memoranda.model.instant import LATEST, Instant
from memoranda.model.memory import (
    DERIVED_FROM,
    AuditEntry,
    ChangeType,
    Document,
    FieldIndex,
    Projection,
    State,
    Version,
)
from memoranda.retrieval.entry import NO_END, IndexedText, IndexEntry, flags_of
from memoranda.storage.crypto.cipher import SEAL_BYTES, Cipher, Sealer
from memoranda.storage.crypto.fingerprints import Fingerprints, scope_facet, space_facet
from memoranda.storage.crypto.names import STARTED
from memoranda.storage.engine.background import BackgroundWrites
from memoranda.storage.engine.caches import SearchCache
from memoranda.storage.engine.contract import (
    ACTION,
    ACTIONS_KEPT,
    NO_INDEX,
    Seal,
    VersionIndex,
)
from memoranda.storage.engine.database import Connection, Params, Row, without_nul
from memoranda.storage.engine.rows import (
    NewChangeRow,
    NewFacetRow,
    NewMeasureRow,
    NewNameRow,
    NewStateRow,
    NewVersionRow,
    TenantRow,
)
from memoranda.storage.engine.selection import FOREVER_MS
from memoranda.storage.engine.snapshot import (
    PROTECTS,
    SqlSnapshot,
    as_json,
    encryption_context,
    facet_of,
)
from memoranda.storage.index.word_index import MERGE_FAN_IN, SMALL_SEGMENT_DOCS, WordIndex

# The row of `meta` that says that erased bytes must still be scrubbed from the files.
ERASURE_PENDING = "erasure_pending"

_OUTCOMES = ("followed", "overridden", "ignored", "contradicted")
_NO_FIELDS: Final = FieldIndex(at=Instant(0))


def _first_state(projection: Projection, now: Instant, updated: Instant) -> State:
    """Return the state of a version that was just written."""
    return State(
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


class SqlUnit(SqlSnapshot, BackgroundWrites):
    """Reads and writes of one tenant in one transaction.

    `seal` computes the entry and the hash of the next link of the audit chain. `is_untidy` is read after `finish`.
    """

    def __init__(
        self,
        connection: Connection,
        tenant: str,
        fingerprints: Fingerprints,
        cipher: Cipher,
        memory: SearchCache,
        row: Row,
        seal: Seal,
    ) -> None:
        self._buffer = InsertBuffer(connection, self._count_closed)
        super().__init__(self._buffer, tenant, fingerprints, cipher, memory, row)
        # The last update of each memory that got a version in this unit.
        self._updates: dict[int, Instant] = {}
        # The rates read in this unit, by name: (instant, window in ms, uses in the window, number of the last use).
        self._rates: dict[str, tuple[Instant, int, int, int]] = {}
        # True if large segments of the word index should be merged, outside the writer's slot.
        self.is_untidy = False
        # The entries that are written to the word index when the unit ends, or before its next search.
        self._entries: list[IndexEntry] = []
        self._seal = seal
        self._sealer: Sealer | None = None
        # For the item of its action: the changes before it, the unit that it continues, and its first new version.
        self._changes_before = self._change_seq
        self._continued = self._first_appended = 0
        self._announced_type: ChangeType | None = None

    def append(
        self,
        document: Document,
        projection: Projection,
        *,
        now: Instant,
        follows: Version | None = None,
        cause: bytes | None = None,
        index: VersionIndex = NO_INDEX,
        follow_head: bool = False,
    ) -> Version:
        """Write a document as a new version, with everything that it is found by.

        `projection` is the document as the store sees it: scope, times, texts. `follows` is the version that the new
        one revises, whose memory it joins; the caller closes that version with `close_version`. With `follow_head`, the
        document's name will name the newest version of the memory from now on, not this one.
        """
        bounds_data = None if projection.bounds is None else bounds.encode(projection.bounds)
        seal = self._fingerprints.seal_document(
            self._tenant, document.standard, document.name, document.native, bounds_data
        )
        row = self._version_row(document, projection, cause, bounds_data, seal, now)
        version_id = row.version_id
        self._first_appended = self._first_appended or version_id
        self._buffer.add_later("version_add", row)
        memory_id = version_id if follows is None else follows.memory_id
        updated = self._updates[memory_id] = self._update_instant(projection, follows)
        indexed = index.text or self._fingerprints.index_text(self._tenant, projection)
        self._index(
            version_id, memory_id, projection, index.fields, now, updated=updated, indexed=indexed
        )
        self._live_count += int(projection.status != "tombstoned")
        self._byte_count += len(document.native)
        version = Version(
            tenant=self._tenant,
            memory_id=memory_id,
            version_id=version_id,
            document=document,
            state=_first_state(projection, now, updated),
            cause=cause,
            bounds=projection.bounds,
        )
        # A shared version may be found by its name by everyone whom its owner lets in.
        is_public = projection.scope.visibility != "private"
        # A name without a version id stands for the head of the memory.
        named_id = None if follow_head else version_id
        name = document.standard, document.name
        self._add_name("alias_put", version, name, named_id, is_public=is_public)
        for view_name in index.view_names:
            self._add_name("view_name_put", version, view_name, version_id, is_public=is_public)
        return version

    def _update_instant(self, projection: Projection, follows: Version | None) -> Instant:
        """Return the time of writing that the document states, moved after the times of all earlier versions.

        Documents state their own times, which may be equal or go backwards. Lists sort by this time, so a revision
        always gets a later one than the version before, by at least one millisecond, and no later one than `LATEST`,
        the last instant that can be stored.
        """
        written_at = max(projection.created, projection.observed)
        if follows is None:
            return written_at
        last = self._updates.get(follows.memory_id)
        if last is None:
            params = {"tenant_id": self._tenant_id, "memory_id": follows.memory_id}
            (last,) = self._buffer.query_now("memory_updated", params)
        return written_at if last is None else min(LATEST, max(written_at, Instant(last + 1)))

    def _version_row(
        self,
        document: Document,
        projection: Projection,
        cause: bytes | None,
        bounds_data: bytes | None,
        seal: bytes | None,
        now: Instant,
    ) -> NewVersionRow:
        """Return the row of a document, encrypted under its user's key if the store encrypts."""
        if self._sealer is None:
            # Fixed for this unit of work, which lasts milliseconds.
            self._sealer = self._cipher.make_sealer(self._ring_changes)
        sealer, native = self._sealer, document.native
        key_id = sealer.ensure_key(self._tenant, projection.scope.user)
        if key_id is not None:
            context = encryption_context(self._tenant, document.standard, document.name, now)
            native = sealer.seal(key_id, native, context + b"native")
            if cause is not None:
                cause = sealer.seal(key_id, cause, context + b"cause")
            if bounds_data is not None:
                bounds_data = sealer.seal(key_id, bounds_data, context + b"bounds")
        return NewVersionRow(
            self._buffer.next_version_id(),
            self._tenant_id,
            document.standard,
            document.media_type,
            document.name,
            now,
            key_id,
            seal,
            native,
            cause,
            bounds_data,
        )

    def _index(
        self,
        version_id: int,
        memory_id: int,
        projection: Projection,
        field_index: FieldIndex | None,
        now: Instant,
        *,
        updated: Instant,
        indexed: IndexedText,
    ) -> None:
        """Add the state of a version and everything it is found by: facets, numbers, and word index entries."""
        scope, tenant_id = projection.scope, self._tenant_id
        fields = _NO_FIELDS if field_index is None else field_index
        value = self._fingerprints.value
        # Positional: with keywords it takes twice as long. A version without a field index has no address.
        state = NewStateRow(
            tenant_id,
            version_id,
            memory_id,
            without_nul(scope.space),
            projection.kind,
            scope.visibility,
            projection.status,
            value(tenant_id, scope.user),
            value(tenant_id, scope.agent),
            value(tenant_id, scope.session),
            value(tenant_id, projection.sameness),
            value(tenant_id, fields.subject),
            value(tenant_id, fields.relation),
            value(tenant_id, fields.object),
            projection.observed,
            updated,
            projection.valid_from,
            projection.valid_to,
            now,
            projection.expires,
            projection.exportable,
            projection.redacted,
            indexed.length,
            None if field_index is None else fields.address,
            None if field_index is None else fields.form,
            None if field_index is None else fields.at,
            fields.confidence,
            fields.importance,
            self._next_closing() if projection.status == "tombstoned" else 0,
        )
        self._buffer.add_later("state_add", state)
        self._entries.append(self._index_entry(version_id, projection, indexed))
        self._add_facets(version_id, (*facets_of(projection), *fields.texts))
        for name, number in fields.numbers:
            self._buffer.add_later(
                "measure_add", NewMeasureRow(tenant_id, self.field_name(name), number, version_id)
            )
        self._version_count += 1
        self._append_seq += 1
        self._term_count += indexed.length

    def _add_facets(self, version_id: int, texts: Iterable[tuple[str, str]]) -> None:
        value, tenant_id, add_row = (
            self._fingerprints.value,
            self._tenant_id,
            self._buffer.add_later,
        )
        for name, text in texts:
            if (key := value(tenant_id, text)) is not None:
                add_row("facet_add", NewFacetRow(tenant_id, self.field_name(name), key, version_id))

    def consume_rate(
        self, name: str, *, now: Instant, window_ms: int, limit: int, count: int = 1
    ) -> bool:
        """Record uses of a limited operation, and return False if they exceed `limit`.

        The window slides: uses of the last `window_ms` milliseconds before `now` count. Either all of `count` uses are
        recorded and the result is True, or none is. Older uses are deleted with the first call of a unit.
        """
        name_key, since = self.value_key(name), now - window_ms
        rate = self._rates.get(name)
        if rate is None or rate[:2] != (now, window_ms):
            # Read once in a unit, which counts its own uses.
            ((used_count,),) = self._rows("uses_since", name_key=name_key, since_ms=since)
            ((last,),) = self._rows("uses_last", name_key=name_key, at_ms=now)
            self._run("uses_forget", name_key=name_key, since_ms=since)
            rate = now, window_ms, used_count, last
        _, _, used_count, last = rate
        if used_count + count > limit:
            return False
        for seq in range(last + 1, last + 1 + count):
            use = {"tenant_id": self._tenant_id, "name_key": name_key, "at_ms": now, "seq": seq}
            self._buffer.add_later("uses_add", use)
        self._rates[name] = now, window_ms, used_count + count, last + count
        return True

    def find_rate_reset(self, name: str, *, now: Instant, window_ms: int, limit: int) -> Instant:
        name_key, since = self.value_key(name), now - window_ms
        # There is room once the oldest of the newest `limit` uses has left the window.
        rows = self._rows("use_before_last", name_key=name_key, since_ms=since, skipped=limit - 1)
        return Instant(rows[0][0] + window_ms) if rows else now

    def claim_once(self, name: str, *, now: Instant) -> bool:
        return self.consume_rate(name, now=now, window_ms=FOREVER_MS, limit=1)

    def add_view_name(self, version: Version, standard: str, name: str) -> None:
        ((is_public,),) = self._rows("version_is_public", version_id=version.version_id)
        self._add_name(
            "view_name_put",
            version,
            (standard, name),
            version.version_id,
            is_public=bool(is_public),
        )

    def _add_name(
        self,
        query: str,
        version: Version,
        name: tuple[str, str],
        version_id: int | None,
        *,
        is_public: bool,
    ) -> None:
        self._buffer.add_later(
            query, NewNameRow(self._tenant_id, *name, version.memory_id, version_id, is_public)
        )

    def _next_closing(self) -> int:
        """Return the number of a new change of what is live: caches of live versions compare it."""
        self._closing_seq += 1
        return self._closing_seq

    def _uncount(self, version: Version) -> tuple[int, int, int]:
        """Subtract a version from the live count. Return 1, the bytes of its document and its words; zeros if erased.

        Read from the database, not from `version`: the caller may have changed it since it was read.
        """
        ((live, erased, size, is_encrypted, terms),) = self._rows(
            "state_counted", version_id=version.version_id
        )
        self._live_count -= live
        return (0, 0, 0) if erased else (1, size - (SEAL_BYTES if is_encrypted else 0), terms)

    def close_version(
        self, version: Version, *, successor: Version | None, valid_to: Instant | None, now: Instant
    ) -> None:
        """End a version: superseded by its successor, or with an end of its valid time.

        The statement waits in the buffer with other changes; the live count is corrected when it is sent
        (`_count_closed`), because only then is it known which of the versions were live.
        """
        closing = {
            "tenant_id": self._tenant_id,
            "version_id": version.version_id,
            "successor_id": None if successor is None else successor.version_id,
            "valid_to_ms": valid_to,
            "now_ms": now,
            "closing": self._next_closing(),
        }
        self._buffer.change_later("state_close", closing)

    def _count_closed(
        self, connection: Connection, closings: Sequence[Mapping[str, object]]
    ) -> None:
        """Subtract versions about to be closed from the live count."""
        version_ids = as_json(list({closing["version_id"] for closing in closings}))
        ((live,),) = connection.query(
            "count_live", {"tenant_id": self._tenant_id, "version_ids": version_ids}
        )
        self._live_count -= live

    def measure_usage(self) -> tuple[int, int]:
        """Count live versions and bytes, with the writes of this unit.

        Waiting closings would still be counted as live, so the buffer is sent first.
        """
        self._buffer.send()
        return super().measure_usage()

    def supersede(self, pairs: Sequence[tuple[int, int]], *, now: Instant) -> None:
        """Connect versions that were written apart, as imports do: each pair is (id of the older, id of the newer
        version).
        """
        self._live_count -= self.count_live([version_id for version_id, _ in pairs])
        params = {"valid_to_ms": now, "now_ms": now, "closing": self._next_closing()}
        closings = [
            {"version_id": old_id, "successor_id": new_id, **params} for old_id, new_id in pairs
        ]
        self._run_many("state_close", closings)
        self._announce_all("revised", [version_id for version_id, _ in pairs], now)

    def reopen_superseded(self, pairs: Sequence[tuple[int, int]], *, now: Instant) -> int:
        """Undo `supersede` for the pairs that are still connected, and return their number."""
        rows = self._rows("superseded_by", pairs=as_json(list(pairs)))
        version_ids = [version_id for version_id, _ in rows]
        self._live_count += sum(live for _, live in rows)
        closing = self._next_closing()
        reopenings = [{"version_id": version_id, "closing": closing} for version_id in version_ids]
        self._run_many("state_reopen", reopenings)
        self._announce_all("revised", version_ids, now)
        return len(version_ids)

    def _announce_all(self, type_: ChangeType, version_ids: Sequence[int], now: Instant) -> None:
        numbered = enumerate(version_ids, self._change_seq + 1)
        rows = [
            NewChangeRow(self._tenant_id, seq, type_, version_id, now)
            for seq, version_id in numbered
        ]
        self._connection.execute_many("change_add", rows)
        self._change_seq += len(version_ids)

    def retire(self, version: Version, *, now: Instant) -> None:
        self._uncount(version)
        params = {"now_ms": now, "closing": self._next_closing()}
        self._run("state_retire", version_id=version.version_id, **params)

    def tombstone(self, version: Version, *, valid_to: Instant | None, now: Instant) -> None:
        self._uncount(version)
        params = {"valid_to_ms": valid_to, "now_ms": now, "closing": self._next_closing()}
        self._run("state_tombstone", version_id=version.version_id, **params)

    def erase(self, version: Version, *, tombstone: bytes, now: Instant) -> None:
        """Erase the text of a version and everything that was derived from it.

        The version row stays, with the tombstone in place of the document, so that ids, history and audit remain
        complete. Everything that could reveal the text is removed: facets, numbers, feedback, vectors, and the vectors
        of other versions that were computed with this text as context. The word index is rebuilt later without it
        (`SqlEngine.scrub`), because rebuilding a large segment takes longer than a unit may last.
        """
        version_id = version.version_id
        count, size, terms = self._uncount(version)
        self._version_count -= count
        self._byte_count -= size
        self._term_count -= terms
        self._erasure_seq += 1
        self._run("version_erase", version_id=version_id)
        space = version.state.space
        if space and self._seals_names():
            names = self._fingerprints.names
            tombstone = names.seal(self._tenant_id, tombstone)
            space = names.seal_space(self._tenant_id, without_nul(space))
        self._run("tombstone_put", version_id=version_id, native=tombstone)
        closing = self._next_closing()
        self._run("state_erase", version_id=version_id, now_ms=now, closing=closing, space=space)
        self._run("facet_remove", version_id=version_id)
        self._run("measure_remove", version_id=version_id)
        self._run("feedback_erase", version_id=version_id)
        self._run("unindexed_add", version_id=version_id)
        self._run("vector_erase", version_id=version_id)
        self._run("vector_forget_context", version_id=version_id)
        # Part of the same transaction, so that a crash before the scrub does not lose the duty to do it.
        self._connection.execute("meta_put", {"name": ERASURE_PENDING, "value": os.urandom(8)})

    def restore(self, version: Version, *, status: str, follow_head: bool) -> None:
        """Undo a tombstone. Without one, nothing changes."""
        params = {"status": status, "closing": self._next_closing()}
        rows = self._rows("state_restore", version_id=version.version_id, **params)
        for live, is_public in rows:
            self._live_count += live
            # A memory written meanwhile may have taken its name.
            named_id = None if follow_head else version.version_id
            name = version.document.standard, version.document.name
            self._add_name("alias_put", version, name, named_id, is_public=bool(is_public))

    def set_hold(self, version: Version, *, on_hold: bool) -> None:
        self._run("state_hold", version_id=version.version_id, held=int(on_hold))

    def flag_for_review(self, version: Version, *, needs_review: bool) -> None:
        self._run("state_review", version_id=version.version_id, review=int(needs_review))

    def set_verification(self, version: Version, verification: str, *, now: Instant) -> None:
        """Set the verification of a version.

        This can make a version live or end it (a retracted version is not live), so the version is first subtracted and
        then counted again.
        """
        self._uncount(version)
        params = {
            "version_id": version.version_id,
            "verification": verification,
            "closing": self._next_closing(),
        }
        ((live,),) = self._rows("state_verification", **params)
        self._live_count += live
        if verification != version.state.verification:
            # A retracted version is left out of every answer, so caches of live versions must be told.
            self.announce("revised", version, now=now)

    def add_feedback(self, version: Version, outcome: str, session: str, *, now: Instant) -> None:
        version_id = version.version_id
        session_key = self._fingerprints.value(self._tenant_id, session)
        self._run(
            "feedback_add",
            version_id=version_id,
            at_ms=now,
            outcome=outcome,
            session_key=session_key,
        )
        self._run(
            "state_feedback",
            version_id=version_id,
            **{name: int(name == outcome) for name in _OUTCOMES},
        )

    def announce(self, type: ChangeType, version: Version, *, now: Instant) -> None:  # noqa: A002
        self._change_seq += 1
        self._announced_type = type
        change = NewChangeRow(self._tenant_id, self._change_seq, type, version.version_id, now)
        self._buffer.add_later("change_add", change)

    def record_audit(self, entry: AuditEntry) -> None:
        seq = self._audit_seq + 1
        event, digest = self._seal(entry, seq, self._audit_hash)
        if any(name == "project" for name, _ in entry.scope) and self._seals_names():
            event = self._fingerprints.names.seal(self._tenant_id, event)
        self._run("audit_add", seq=seq, entry=event)
        self._audit_seq, self._audit_hash = seq, digest

    def _seals_names(self) -> bool:
        """Return True if names of spaces are encrypted: no earlier version uses the store any more."""
        names = self._fingerprints.names
        if not names.is_started:
            names.is_started = bool(self._connection.query("meta_get", {"name": STARTED}))
        return names.is_started

    def prune_audit(self, last: int) -> None:
        self._run("audit_prune", last=last)

    def _index_entry(
        self, version_id: int, projection: Projection, indexed: IndexedText
    ) -> IndexEntry:
        """Return the entry of a version for the word index: its terms, and its scope as numbers."""
        fingerprints, tenant_id, scope = self._fingerprints, self._tenant_id, projection.scope
        return IndexEntry(
            version_id=version_id,
            space=fingerprints.number(tenant_id, scope.space),
            user=fingerprints.number(tenant_id, scope.user),
            agent=fingerprints.number(tenant_id, scope.agent),
            session=fingerprints.number(tenant_id, scope.session),
            observed=projection.observed,
            flags=flags_of(
                scope.visibility,
                redacted=projection.redacted,
                lasting=projection.is_lasting,
                expiring=projection.expires is not None,
            ),
            text=indexed,
            valid_from=projection.valid_from,
            valid_to=NO_END if projection.valid_to is None else projection.valid_to,
        )

    def _search_memory(self) -> SearchCache:
        # Empty: the writes of this unit must not reach others before its end, and may never do so.
        return SearchCache()

    def _index_entries(self) -> None:
        """Write the new entries to the word index, and from time to time merge its small segments."""
        if not self._entries:
            return
        entries, self._entries = self._entries, []
        index = WordIndex(self._connection, self._tenant_id, self._memory.segments)
        index.add_entries(entries)
        self._segment_seq += 1
        if self._segment_seq % MERGE_FAN_IN == 0:
            self.is_untidy |= index.merge_overdue(limit=SMALL_SEGMENT_DOCS)

    def continue_action(self, last: int) -> None:
        self._continued = last

    def first_appended(self) -> int:
        return self._first_appended

    def _put_action(self) -> None:
        """Write the item of this unit's action, unless it is one change that appended or forgot one version.

        An action groups changes that one call made, so that Undo can revert them together. The common case, one version
        appended or forgotten, needs no item: the change feed describes it completely. `_continued` is the last change
        of an earlier unit that belongs to the same action. Only the newest ACTIONS_KEPT actions are stored.
        """
        count = self._change_seq - self._changes_before
        is_plain = (self._announced_type == "tombstoned") != bool(self._first_appended)
        if not count or (count == 1 and is_plain and not self._continued):
            return
        parts = [self._changes_before + 1, self._continued, self._first_appended]
        self.put_item(ACTION, f"{self._change_seq:015d}", as_json(parts).encode())
        oldest = f"{max(0, self._change_seq - ACTIONS_KEPT):015d}"
        self._count_bytes(-1, "items_prune", kind=ACTION, before=oldest)

    def set_rules(self, rules: bytes) -> None:
        self._rules = rules

    def finish(self) -> TenantRow:
        """Write all waiting rows and the tenant's counters; return the tenant's row as it now is."""
        self._put_action()
        self._buffer.send()
        self._index_entries()
        row = TenantRow(
            tenant_id=self._tenant_id,
            change_seq=self._change_seq,
            audit_seq=self._audit_seq,
            audit_hash=self._audit_hash,
            version_count=self._version_count,
            term_count=self._term_count,
            live_count=self._live_count,
            byte_count=self._byte_count,
            erasure_seq=self._erasure_seq,
            segment_seq=self._segment_seq,
            closing_seq=self._closing_seq,
            unit_seq=self._unit_seq + 1,
            append_seq=self._append_seq,
            rules=self._rules,
            ring_changes=self._ring_changes,
        )
        self._connection.execute("tenant_put", row._asdict())
        return row


def facets_of(projection: Projection) -> Iterator[tuple[str, str]]:
    """Yield the facets of a version, (name, text), apart from its content: space, scope, tags and links."""
    scope = projection.scope
    yield space_facet(scope.space)
    for name, value in (("user", scope.user), ("agent", scope.agent), ("session", scope.session)):
        if value:
            yield scope_facet(name), value
    for tag in dict.fromkeys(tag.lower() for tag in projection.tags):
        yield "label", tag
    if projection.basis:
        yield facet_of("basis"), projection.basis
    if projection.withdraws:
        yield facet_of("withdraws"), projection.withdraws
    if projection.may_protect:
        yield PROTECTS
    for relation in projection.relations:
        if relation.type == DERIVED_FROM:
            yield facet_of("source"), relation.target


class InsertBuffer:
    """A connection that holds new rows back and adds them together: one statement for a batch instead of one a row.

    Only a unit of work uses it, and only for rows that nothing reads before the next query: every query that is not
    such an addition first sends what waits. The last statement of a unit is a query, so nothing stays behind. Changes
    of rows wait too. They are sent after the additions.
    """

    def __init__(
        self,
        connection: Connection,
        before_changes: Callable[[Connection, list[Mapping[str, object]]], None],
    ) -> None:
        """Wrap a connection. `before_changes` sees each batch of changes first, to count what they change."""
        self._connection = connection
        self._before_changes = before_changes
        self._additions: dict[str, list[Params]] = {}
        self._changes: dict[str, list[Mapping[str, object]]] = {}
        self.dialect = connection.dialect
        self.memo, self.ends = connection.memo, connection.ends

    def add_later(self, name: str, params: Params) -> None:
        """Add a row before the next query."""
        self._additions.setdefault(name, []).append(params)

    def change_later(self, name: str, params: Mapping[str, object]) -> None:
        """Change a row before the next query; no other kind of change may wait at the same time."""
        self._changes.setdefault(name, []).append(params)

    def query_now(self, name: str, params: Params) -> Row:
        """Return the one row of a query that does not depend on the waiting rows, without sending them.

        Use it only for tables and rows that no waiting row can touch: the result would otherwise lack them.
        """
        (row,) = self._connection.query(name, params)
        return row

    def send(self) -> Connection:
        """Send the waiting rows and return the connection.

        Additions are sent in the order in which their kinds were first used, and before changes, because a change may
        concern a row that was added in the same unit.
        """
        if self._additions:
            additions, self._additions = self._additions, {}
            for name, rows in additions.items():
                self._connection.execute_many(name, rows)
        if self._changes:
            all_changes, self._changes = self._changes, {}
            for name, changes in all_changes.items():
                self._before_changes(self._connection, changes)
                self._connection.execute_many(name, changes)
        return self._connection

    def query(self, name: str, params: Params) -> list[Row]:
        return self.send().query(name, params)

    def query_one(self, name: str, params: Params) -> Row | None:
        return self.send().query_one(name, params)

    def next_version_id(self) -> int:
        return self._connection.next_version_id()

    def execute(self, name: str, params: Params) -> None:
        self.send().execute(name, params)

    def execute_many(self, name: str, params: Sequence[Params]) -> None:
        self.send().execute_many(name, params)

    def select(self, sql: str, params: Params) -> list[Row]:
        return self.send().select(sql, params)
