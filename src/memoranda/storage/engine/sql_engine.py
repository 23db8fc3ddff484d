"""The storage contract over any database: it opens snapshots, runs units of work, and maintains the word index.

Three pieces of work happen outside of units of work, because they would delay every other writer. Audit entries of
reads are gathered in batches (`record_audit_later`). Large segments of the word index are merged in a snapshot, and
only the result is written (`merge_large_segments`). Erased versions are taken out of the word index in the same way,
and then erased bytes are scrubbed from the files (`scrub`).

`SqlEngine` is the class behind the contract `Engine` of `contract.py`, for both databases. It holds what lives as long
as the process: key ring, fingerprints, caches, and the queue of vectors. A snapshot or unit gets these and a
connection. All background work has the same form: read and compute in a snapshot, then check in a short transaction
that nothing has changed, and write. If something has changed, the work is repeated or left for the next round. Keep to
this form, because SQLite has one writer, and every millisecond in a transaction is one in which nobody else can write.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from memoranda.encoding.lazy import LazyModule
from memoranda.errors import MemorandaError
from memoranda.measures import span
from memoranda.model.memory import AuditEntry, DocumentReading, Projection, Version
from memoranda.retrieval.entry import IndexedText
from memoranda.storage.crypto.cipher import Cipher, NoCipher
from memoranda.storage.crypto.fingerprints import Fingerprints, load_index_key
from memoranda.storage.engine.caches import DocumentCache, SearchCache
from memoranda.storage.engine.contract import Seal, Snapshot, System, Unit
from memoranda.storage.engine.database import (
    ChainEnd,
    Connection,
    Database,
    Loss,
    PendingWrite,
    without_nul,
)
from memoranda.storage.engine.deletion import TenantDeletion
from memoranda.storage.engine.rows import NO_TENANT, UnindexedRow
from memoranda.storage.engine.sealing import NameSealing
from memoranda.storage.engine.snapshot import SqlSnapshot, as_json
from memoranda.storage.engine.system import SqlSystem
from memoranda.storage.engine.unit import ERASURE_PENDING, SqlUnit
from memoranda.storage.index.vector_queue import VectorQueue
from memoranda.storage.index.word_index import SegmentKey, SegmentReplacements, WordIndex

if TYPE_CHECKING:
    from memoranda.retrieval.segment import Segment
    from memoranda.storage.index import verification
    from memoranda.storage.index.verification import Reads, WordIndexVerification
else:
    verification = LazyModule("memoranda.storage.index.verification")

T = TypeVar("T")

# Seconds that a scrub waits for open readers. All writers wait with it, so a reader that stays must not hold it longer.
SCRUB_SECONDS = 1.0

# Audit entries that share one unit of work. With the limit of waiting units this bounds the entries that wait.
AUDIT_BATCH_LIMIT = 100

# Erased versions that are taken out of the word index in one transaction: this bounds how long it holds the writer.
UNINDEXED_LIMIT = 10_000


class _AuditBatch:
    """Audit entries of many reads that are written in one unit of work."""

    __slots__ = ("_lock", "entries", "is_closed")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.entries: list[AuditEntry] = []
        self.is_closed = False

    def record(self, unit: Unit) -> None:
        """Append the entries to the audit chain. The unit may be run again, with the same entries."""
        with self._lock:
            self.is_closed = True
        for entry in self.entries:
            unit.record_audit(entry)


class SqlEngine:
    """`Engine` over any database."""

    def __init__(
        self,
        database: Database,
        seal: Seal,
        cipher: Cipher | None = None,
        *,
        document_key: bytes | None = None,
    ) -> None:
        """Open the store: read or create the key of its fingerprints, and scrub what an earlier process left.

        `document_key` seals documents. A sealed document need not have its signature verified again when it is read,
        and two encrypted documents can be compared by their seals.
        """
        self._database = database
        self._cipher = cipher or NoCipher()
        self._seal = seal
        # Decrypted documents that were read before.
        self.documents = DocumentCache()
        self._batching = threading.Lock()
        self._batches: dict[str, _AuditBatch] = {}
        # Tenants whose large segments of the word index should be merged.
        self._untidy: set[int] = set()
        try:
            self._fingerprints = Fingerprints(load_index_key(database, self._cipher), document_key)
        except MemorandaError:
            self.close()
            raise
        self._memory = SearchCache(database.clear_vectors)
        self._system = SqlSystem(database)
        self._sealing = NameSealing(database, self._fingerprints.names)
        self._deletion = TenantDeletion(database, self._cipher)
        self.vectors = VectorQueue(database, self._cipher, self._memory.segments)
        # Removes unused copies of the store; set by the caller, which knows where they may be.
        self.remove_copies: Callable[[], None] | None = None
        self.scrub()

    @property
    def system(self) -> System:
        return self._system

    @contextmanager
    def open_snapshot(self, tenant: str) -> Iterator[Snapshot]:
        with span("storage read"), self._database.open_snapshot(tenant) as connection:
            row = connection.memo.get(tenant) or connection.query_one(
                "tenant_get", {"name": tenant}
            )
            yield SqlSnapshot(
                connection,
                tenant,
                self._fingerprints,
                self._cipher,
                self._memory,
                row,
                self.documents,
            )

    def write(self, tenant: str, work: Callable[[Unit], T]) -> T:
        with span("storage write"):
            return self._database.write(
                lambda connection: self._unit(connection, tenant, work), tenant
            )

    def start_write(self, tenant: str, work: Callable[[Unit], T]) -> PendingWrite[T]:
        return self._database.start_write(
            lambda connection: self._unit(connection, tenant, work), tenant
        )

    def record_audit_later(self, tenant: str, entry: AuditEntry) -> None:
        """Queue an audit entry of a read.

        Many reads of one owner share a unit of work. The batch accepts entries until its unit begins (`is_closed`); the
        lock makes sure that no entry is added to a batch that was already written. Raises StoreUnavailable if reads
        must not be answered because the log cannot be written.
        """
        self._database.check_recording()
        with self._batching:
            batch = self._batches.get(tenant)
            is_new = batch is None or batch.is_closed or len(batch.entries) >= AUDIT_BATCH_LIMIT
            if batch is None or is_new:
                batch = self._batches[tenant] = _AuditBatch(self._batching)
            batch.entries.append(entry)
        if is_new:
            self._database.write_later(
                lambda connection: self._unit(connection, tenant, batch.record), tenant
            )

    def _unit(self, connection: Connection, tenant: str, work: Callable[[Unit], T]) -> T:
        """Run one unit of work in a transaction, and write the tenant's counters back.

        `tenant_lock` returns nothing for a new tenant; `tenant_add` then inserts its row and returns it. The chain end
        is put into `connection.ends`, and is stored outside of the database after the commit.
        """
        params = {"name": without_nul(tenant)}
        # An earlier unit of the same transaction may have left the row; nobody else can have written it since.
        row = (
            connection.memo.get(tenant)
            or connection.query_one("tenant_lock", params)
            or connection.query_one("tenant_add", params)
        )
        assert row is not None
        unit = SqlUnit(
            connection, tenant, self._fingerprints, self._cipher, self._memory, row, self._seal
        )
        result = work(unit)
        row = connection.memo[tenant] = unit.finish()
        connection.ends[row.tenant_id] = ChainEnd(
            row.unit_seq, row.append_seq, row.audit_seq, row.audit_hash
        )
        if unit.is_untidy:
            self._untidy.add(row.tenant_id)
        return result

    def index_text(self, tenant: str, projection: Projection) -> IndexedText:
        return self._fingerprints.index_text(tenant, projection)

    def fingerprint(self, tenant: str, text: str) -> str:
        """Return a keyed fingerprint of a text, as 32 hexadecimal digits.

        The audit log has it in place of a query, and cursors are signed with it. It cannot be reversed without the key
        of the store.
        """
        digest = hashlib.blake2b(
            f"{tenant}\x00{text}".encode("utf-8", "surrogatepass"),
            digest_size=16,
            key=self._fingerprints.secret,
        )
        return digest.hexdigest()

    def destroy_user_key(self, tenant: str, user: str) -> bool:
        return self._cipher.destroy(tenant, user)

    def delete_tenant(self, tenant: str) -> bool:
        """Delete a tenant and everything that it owns.

        Queued audit entries are written first, because a later one would create the tenant again.
        """
        self._database.flush()
        return self._deletion.delete(tenant)

    def finish_deletions(self) -> None:
        if not self.is_read_only:
            self._deletion.finish()

    def rotate_master_key(self) -> int:
        return self._cipher.rotate()

    def reload_keys(self) -> None:
        self._cipher.reload()

    def flush(self) -> None:
        self._database.flush()

    @property
    def is_read_only(self) -> bool:
        return self._database.is_read_only

    def check_recording(self) -> None:
        self._database.check_recording()

    def list_losses(self) -> list[Loss]:
        return self._database.list_losses()

    def scrub(self, *, patient: bool = True) -> None:
        """Remove the bytes of erased versions from index and files.

        This is called after erasures and when a store is opened. First erased versions are removed from the word index,
        then the database removes their bytes from its files. If readers prevent that, the row ERASURE_PENDING stays and
        the next call tries again. `patient` waits up to SCRUB_SECONDS for readers.
        """
        if self.is_read_only:
            return
        self._unindex()
        with self._database.open_snapshot() as connection:
            pending = connection.query_one("meta_get", {"name": ERASURE_PENDING})
        if pending is not None and self._database.scrub(SCRUB_SECONDS if patient else 0.0):
            # Deleted only with the value that was read: another process may have erased something meanwhile.
            finished_scrub = {"name": ERASURE_PENDING, "value": pending[0]}
            self._database.write(
                lambda connection: connection.execute("meta_delete", finished_scrub)
            )
        if self.remove_copies is not None:
            self.remove_copies()

    def _unindex(self) -> None:
        """Take erased versions out of the word index: its segments are rebuilt in a snapshot,
        outside the writer's slot.
        """
        while True:
            with self._database.open_snapshot() as connection:
                rows = [
                    UnindexedRow(*row)
                    for row in connection.query("unindexed_next", {"limit": UNINDEXED_LIMIT})
                ]
                if not rows:
                    return
                index = WordIndex(connection, rows[0].tenant_id, self._memory.segments)
                replaced = index.rebuild_without([row.version_id for row in rows])

            self._database.write(partial(self._replace_segments, rows, replaced))

    def _replace_segments(
        self, rows: list[UnindexedRow], replaced: SegmentReplacements, connection: Connection
    ) -> None:
        index = WordIndex(connection, rows[0].tenant_id, self._memory.segments).lock()
        # False if a segment was merged meanwhile: the rows stay, and the next round finds it.
        if index.replace_all(replaced):
            version_ids = as_json([row.version_id for row in rows])
            connection.execute(
                "unindexed_remove", {"tenant_id": rows[0].tenant_id, "version_ids": version_ids}
            )

    def merge_large_segments(self) -> None:
        """Merge the segments that units of work left for later.

        Background upkeep and imports call this. A merge that was overtaken by another process is dropped:
        `_put_merged_segment` writes only if all segments of the run still exist.
        """
        while self._untidy:
            tenant_id = self._untidy.pop()
            with self._database.open_snapshot() as connection:
                index = WordIndex(connection, tenant_id, self._memory.segments)
                run = index.next_merge()
                if not run:
                    continue
                merged_segment = index.read_merged(run)
            if self._database.write(
                partial(self._put_merged_segment, tenant_id, run, merged_segment)
            ):
                self._untidy.add(tenant_id)

    def _put_merged_segment(
        self, tenant_id: int, run: list[SegmentKey], merged_segment: Segment, connection: Connection
    ) -> bool:
        """Replace segments by the merged one if they are all still there; return True if there is more to merge."""
        index = WordIndex(connection, tenant_id, self._memory.segments).lock()
        if set(run) <= set(index.segment_keys()):
            index.replace(run, merged_segment)
        return bool(index.next_merge())

    def reindex(
        self,
        tenant: str,
        load_projection: Reads,
        *,
        progress: Callable[[int], None] | None = None,
        outdated: bool = False,
    ) -> int:
        return self._reindexing(tenant, load_projection).rebuild(progress, outdated=outdated)

    def find_index_problems(
        self,
        tenant: str,
        load_projection: Reads,
        load_reading: Callable[[Version], DocumentReading | None],
    ) -> list[str]:
        word_index = self._reindexing(tenant, load_projection)
        checking = verification.RowVerification(
            database=self._database,
            tenant=tenant,
            snapshot=word_index.snapshot,
            load_reading=load_reading,
        )
        return [*word_index.problems(), *checking.problems()]

    def _reindexing(self, tenant: str, load_projection: Reads) -> WordIndexVerification:
        def snapshot(connection: Connection) -> SqlSnapshot:
            row = connection.query_one("tenant_get", {"name": tenant})
            return SqlSnapshot(
                connection, tenant, self._fingerprints, self._cipher, self._memory, row
            )

        return verification.WordIndexVerification(
            database=self._database,
            fingerprints=self._fingerprints,
            cache=self._memory.segments,
            tenant=tenant,
            snapshot=snapshot,
            load_projection=load_projection,
        )

    def read_change_token(self) -> int:
        return self._database.read_change_token()

    def watch_changes(self) -> Generator[int]:
        return self._database.watch_changes()

    def is_elected(self, job: str) -> bool:
        return self._database.is_elected(job)

    def resign(self, job: str) -> None:
        self._database.resign(job)

    def continue_upgrade(self) -> bool:
        return self._database.continue_upgrade()

    def seal_names(self) -> bool:
        return self._sealing.advance()

    def find_damage(self, tenants: Sequence[str] = ()) -> list[str]:
        """Return the damage of the database's files, and versions of these tenants with only half of their rows."""
        # Rows without their other half: documents without a state, and states without a document.
        lone_counts = [0, 0]
        for tenant in tenants:
            with self._database.open_snapshot(tenant) as connection:
                row = connection.query_one("tenant_get", {"name": tenant})
                tenant_id = NO_TENANT.tenant_id if row is None else row[0]
                (counts,) = connection.query("halves", {"tenant_id": tenant_id})
            lone_counts = [sum(pair) for pair in zip(lone_counts, counts, strict=True)]
        kinds = zip(
            lone_counts, ("a document but no state", "a state but no document"), strict=True
        )
        return self._database.find_damage() + [
            f"{count} versions have {half}" for count, half in kinds if count
        ]

    def close(self) -> None:
        self._database.close()
        self._cipher.close()
