"""SQLite as a `Database`.

Theory of operation. One file in WAL mode, any number of processes. In each process one thread writes and a
few connections read. Writers hand their work to the writer thread, which runs everything that is waiting in
one transaction and commits once: that is group commit. A work item that fails is undone alone; for that the
others may be run a second time, so a work item has no effect outside its transaction. `synchronous=FULL`
means that a commit is on the disk before its writers continue. Work that nobody waits for (audit of reads) is
held back for a moment so that it shares a commit.

Other processes of ours hold the write lock for the length of one such commit, in the order in which they asked
(`ChainEnds.write_turn`). If another program holds it, we try again for up to BUSY_SECONDS.

Threads: any number of callers; one writer thread, which alone uses `_writer`; connections for reading, which a thread
borrows for a snapshot; and `_watcher` for change tokens and checkpoints, guarded by `_watching`. A read inside a read
of the same thread takes a second slot and can deadlock under load (`tests/reader_nesting.py` looks for it). Steps of a
write: queue → writer thread → lock of other processes → BEGIN IMMEDIATE → work items → COMMIT → check that the file is
still the same → chain ends → wake the callers. Do not reorder them: each step is there because a crash or a second
process between the others lost an acknowledged write.
"""

from __future__ import annotations

import atexit
import logging
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import ClassVar, TypeVar

import apsw

from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.database import (
    SQLITE,
    ChainEnd,
    Connection,
    Loss,
    Params,
    PendingWrite,
    Row,
    load_queries,
)
from memoranda.storage.engine.selection import FOREVER_MS
from memoranda.storage.engine.write_queue import (
    MemoryStoreLock,
    Observer,
    Outcome,
    WorkItem,
    WorkItemFailedError,
    WriteQueue,
    fail_all,
)
from memoranda.storage.sqlite.file import (
    STATEMENTS_LIMIT,
    Watched,
    is_read_only,
    is_settled,
    open_file,
    set_up,
    sqlite_errors,
    translate_error,
    wait_a_little,
)
from memoranda.storage.sqlite.heads import SYNC_SECONDS, ChainEnds, losses_of
from memoranda.storage.sqlite.migrating import BeforeUpgrade, migrate, remove_backups
from memoranda.storage.sqlite.schema import find_differences

T = TypeVar("T")

_log = logging.getLogger(__name__)

READERS_LIMIT = 8
WRITER_CACHE_KIB = 32_000
# Seconds that closing the store waits for open readers.
CLOSE_SECONDS = 2.0
# Seconds that a read waits for a free connection. All connections are at work then, so this is reached only under
# overload.
READER_SECONDS = 10.0
# Seconds between two looks for commits of other processes.
WATCH_SECONDS = 0.05
# Seconds that a write waits for a writer, and then again for its commit: longer than another process may keep the lock.
WRITER_SECONDS = 40.0


# The key of the last version number in `memo`: no tenant has this name.
_LAST = "\x00last version"


class SqliteConnection:
    """Named queries on one apsw connection."""

    dialect = SQLITE

    def __init__(self, raw: apsw.Connection, queries: dict[str, str]) -> None:
        self.raw = raw
        self.memo: dict[str, Row] = {}
        self.ends: dict[int, ChainEnd] = {}
        self._queries = queries

    def query(self, name: str, params: Params) -> list[Row]:
        try:
            return self.raw.execute(self._queries[name], params).fetchall()
        except UnicodeDecodeError as error:
            raise translate_error(error) from error

    def query_one(self, name: str, params: Params) -> Row | None:
        try:
            row: Row | None = self.raw.execute(self._queries[name], params).fetchone()
        except UnicodeDecodeError as error:
            raise translate_error(error) from error
        return row

    def next_version_id(self) -> int:
        """Return the number of the next version.

        Numbers are counted in `memo` for the length of a transaction, because asking the table for its greatest number
        before each of a thousand inserts is slow.
        """
        # There is one writer at a time: nobody else uses the same number before this transaction ends.
        row = self.memo.get(_LAST) or self.query_one("version_last", {})
        assert row is not None
        self.memo[_LAST] = (row[0] + 1,)
        return int(row[0] + 1)

    def execute(self, name: str, params: Params) -> None:
        self.raw.execute(self._queries[name], params)

    def execute_many(self, name: str, params: Sequence[Params]) -> None:
        self.raw.executemany(self._queries[name], params)

    def select(self, sql: str, params: Params) -> list[Row]:
        try:
            return self.raw.execute(sql, params).fetchall()
        except UnicodeDecodeError as error:
            raise translate_error(error) from error


class SqliteDatabase:
    """One SQLite file, many readers, one writer thread with group commit.

    A store whose file or disk cannot be written is opened read-only. Reads are then answered, and cannot be audited;
    `list_losses` and `doctor` say so.
    """

    # SQLite compares no vectors.
    clear_vectors: ClassVar[None] = None
    # Runs each work item in place of the writer thread, to measure how long it is held.
    observer: ClassVar[Observer | None] = None

    def __init__(
        self,
        path: Path | None,
        *,
        vfs: str | None = None,
        reader_seconds: float = READER_SECONDS,
        writer_seconds: float = WRITER_SECONDS,
        refuses_unrecorded: bool = False,
        before_upgrade: BeforeUpgrade | None = None,
    ) -> None:
        """Open or create the file; `None` means a private store in memory. `vfs` names a virtual file system of SQLite.

        `refuses_unrecorded`: refuse reads that cannot be recorded at once, instead of recording them later.
        `before_upgrade` is called before the tables of an earlier version are upgraded.
        """
        self.queue = WriteQueue(refuses_unrecorded=refuses_unrecorded)
        self._reader_seconds, self._writer_seconds = reader_seconds, writer_seconds
        self._path = path
        self._vfs = vfs
        self._memory_lock = MemoryStoreLock() if path is None else None
        self._memory_name = f"file:/memoranda-{id(self)}-{random.getrandbits(64):x}?vfs=memdb"
        self._queries = load_queries("sqlite")
        # Idle connections. A list needs no lock, which an interrupted thread would keep.
        self._readers: list[SqliteConnection] = []
        self._reader_slots = threading.BoundedSemaphore(READERS_LIMIT)
        self.is_read_only = path is not None and is_read_only(path)
        with sqlite_errors():
            self._writer = self._connect_first()
            try:
                migrate(self._writer.raw, before_upgrade)
                # Large enough that the pages of a large unit of work are written once, when it ends.
                self._writer.raw.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
                self._watcher = self._connect()
                self._file = None if path is None else Watched(path)
                self._heads = None if path is None else ChainEnds(path, read_only=self.is_read_only)
                self._unrecorded_losses = self._compare()
            except BaseException:
                self._writer.raw.close()
                raise
        if self.is_read_only:
            self.queue.behind = "the database cannot be written"
            _log.warning("%s cannot be written: it is read, and reads are not put on record", path)
        self._watching = threading.Lock()
        self._thread = self._start()

    def _start(self) -> threading.Thread:
        """Start the writer thread. It is closed at exit, so that no thread is inside SQLite while Python ends."""
        thread = threading.Thread(target=self._run, name="memoranda-writer", daemon=True)
        thread.start()
        atexit.register(self.close)
        return thread

    def _connect_first(self) -> SqliteConnection:
        try:
            return self._connect()
        except (apsw.FullError, apsw.IOError):
            # A full disk has no room for the files that SQLite shares between processes either.
            if self._path is None or not is_settled(self._path):
                raise
            self.is_read_only = True
            return self._connect()

    def _connect(self) -> SqliteConnection:
        if self._path is None:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
            raw = apsw.Connection(
                self._memory_name, flags=flags, statementcachesize=STATEMENTS_LIMIT
            )
            set_up(raw)
        else:
            raw = open_file(self._path, vfs=self._vfs, read_only=self.is_read_only)
        # Plans must not depend on bound values: otherwise SQLite prepares a statement again at every call.
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return SqliteConnection(raw, self._queries)

    def _compare(self) -> list[Loss]:
        """Compare the database with its chain ends; return the losses that a read-only store cannot
        write to its file.
        """
        if self._heads is None:
            return []
        losses = self._heads.compare(self._writer.raw)
        return losses if self.is_read_only else []

    def list_losses(self) -> list[Loss]:
        return [] if self._path is None else [*losses_of(self._path), *self._unrecorded_losses]

    @contextmanager
    def open_snapshot(self, tenant: str | None = None) -> Iterator[SqliteConnection]:  # noqa: ARG002 -- every query names its tenant
        self.queue.refuse_when_closed()
        if self._file is not None:
            self._file.check()
        with (
            self._slot(),
            self._memory_lock.reading() if self._memory_lock else nullcontext(),
            sqlite_errors(),
        ):
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = self._connect()
            try:
                connection.raw.execute("BEGIN")
                yield connection
            except apsw.Error:
                # Close it after any error: nobody else has this connection, and it must keep no file open.
                connection.raw.close(True)
                raise
            finally:
                self._put_back(connection)

    def _put_back(self, connection: SqliteConnection) -> None:
        """End a connection's snapshot and return it to the idle ones, or close it if the store was closed.

        A snapshot ends with COMMIT, though it wrote nothing: SQLite frees the read lock with it, so that checkpoints
        can continue.
        """
        try:
            if connection.raw.in_transaction:
                connection.raw.execute("COMMIT")
        except apsw.ConnectionClosedError:
            return
        except apsw.Error:
            connection.raw.close(True)
            raise
        if not self.queue.is_closed:
            self._readers.append(connection)
            return
        # The last connection to be closed deletes the write-ahead log.
        connection.raw.close()

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Hold one of the READERS_LIMIT slots. A reader never takes a second one, so readers cannot
        block each other.
        """
        if not self._reader_slots.acquire(timeout=self._reader_seconds):
            raise StoreUnavailable(
                f"too many reads at once: no connection was free for {self._reader_seconds:g} s"
            )
        try:
            yield
        finally:
            self._reader_slots.release()

    def write(self, work: Callable[[Connection], T], tenant: str | None = None) -> T:
        self._refuse_when_read_only()
        return self.queue.write(work, tenant, self._writer_seconds)

    def start_write(
        self, work: Callable[[Connection], T], tenant: str | None = None
    ) -> PendingWrite[T]:
        self._refuse_when_read_only()
        return self.queue.start_write(work, tenant, self._writer_seconds)

    def write_later(self, work: Callable[[Connection], None], tenant: str) -> None:
        if self.is_read_only:
            self.queue.refuse_when_closed()
            self.check_recording()
            return
        self.queue.write_later(work, tenant)

    def check_recording(self) -> None:
        self.queue.check_recording()

    def flush(self) -> None:
        self.queue.refuse_when_closed()
        if not self.is_read_only:
            self.queue.flush(self._writer_seconds)

    def find_settled_version(self) -> int:
        # There is one writer at a time: versions are committed in the order of their numbers.
        return FOREVER_MS

    def read_change_token(self) -> int:
        self.queue.refuse_when_closed()
        with self._watching, sqlite_errors():
            row = self._watcher.raw.execute("PRAGMA data_version").fetchone()
            return int(row[0]) if row else 0

    def watch_changes(self) -> Generator[int]:
        # SQLite does not notify other processes, so the token is polled.
        while True:
            time.sleep(WATCH_SECONDS)
            yield self.read_change_token()

    def scrub(self, patience_seconds: float) -> bool:
        """Remove erased bytes from every file of the store.

        Pages in the database file are overwritten by SQLite (`secure_delete`). Old images of them remain in the
        write-ahead log, and backups made before an upgrade hold everything, so both are removed. Returns False if a
        reader still needs the log; the caller tries again later.
        """
        if self._path is not None:
            remove_backups(self._path)
        # A truncating checkpoint copies every page home and cuts the log, so that no old page image remains.
        # While it waits for readers nobody can write, so it must not wait as long as others do.
        with self._watching, sqlite_errors():
            raw = self._watcher.raw
            raw.set_busy_handler(
                lambda attempt: attempt * 0.002 < patience_seconds and wait_a_little(attempt)
            )
            try:
                busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or (1, 0, 0)
            finally:
                raw.set_busy_handler(wait_a_little)
            return not busy

    def is_elected(self, job: str) -> bool:  # noqa: ARG002 -- one process writes at a time, and the next one finds the job done
        return True

    def resign(self, job: str) -> None:
        pass

    def continue_upgrade(self) -> bool:
        return False  # Everything is upgraded when the file is opened.

    def find_damage(self) -> list[str]:
        with self.open_snapshot() as connection:
            # Unlike quick_check, this compares every index with its table.
            rows = connection.raw.execute("PRAGMA integrity_check(20)").fetchall()
            differences = find_differences(connection.raw)
        return [*(str(line) for (line,) in rows if line != "ok"), *differences]

    def check_queries(self) -> None:
        # Nothing to check: the pinned library (apsw) contains SQLite, and the tests run every query on this version.
        self.queue.refuse_when_closed()

    def close(self) -> None:
        """Finish waiting work, wait up to CLOSE_SECONDS for readers, and close all connections.

        The writer is closed last: the last connection to close makes a checkpoint and deletes the write-ahead log. If
        the file was replaced by another one, no checkpoint may be made, because it would write old pages into the new
        file.
        """
        if not self.queue.close():
            return
        atexit.unregister(self.close)
        self._thread.join(self._writer_seconds)
        if self._thread.is_alive():
            return  # The thread waits for a disk that does not answer; it ends with the process.
        self._wait_for_readers()
        if self._file is not None and self._file.is_gone:
            # The file was replaced, and the new one must not be written.
            for connection in (self._writer, self._watcher):
                connection.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        while self._readers:
            self._readers.pop().raw.close()
        with self._watching:
            self._watcher.raw.close()
        self._writer.raw.close()
        if self._heads is not None:
            self._heads.close()

    def _wait_for_readers(self) -> None:
        """Wait for open readers, at most CLOSE_SECONDS."""
        until = time.monotonic() + CLOSE_SECONDS
        for _ in range(READERS_LIMIT):
            if not self._reader_slots.acquire(timeout=max(0.0, until - time.monotonic())):
                return

    def _refuse_when_read_only(self) -> None:
        if self.is_read_only:
            raise StoreUnavailable("the database, or the disk that it is on, is read-only or full")

    def _run(self) -> None:
        """Take batches until the queue is closed; without work, sync the chain ends every SYNC_SECONDS."""
        while (
            batch := self.queue.take(SYNC_SECONDS if self._heads and self._heads.is_dirty else None)
        ) is not None:
            if batch:
                self._commit(batch)
            if self._heads is not None:
                self._heads.sync(only_if_due=bool(batch))

    def _commit(self, batch: list[WorkItem]) -> None:
        """Run a batch in one transaction; wake its waiting threads only after the commit.

        Every item of the batch gets an outcome, whatever happens: a caller that is never woken would wait until its
        timeout.
        """
        outcomes: list[Outcome] = []
        try:
            with sqlite_errors(), self._turn():
                # Items that came while another process was writing join this transaction.
                batch += self.queue.take_joining()
                try:
                    outcomes = self._run_together(batch)
                except WorkItemFailedError:
                    outcomes = self._run_one_by_one(batch)
        except BaseException as error:  # noqa: BLE001 -- any error must reach the waiting callers
            outcomes = fail_all(batch, error)
        self.queue.settle(outcomes)

    def _run_together(self, batch: list[WorkItem]) -> list[Outcome]:
        """Run a batch without savepoints. Usually no item fails, and each savepoint would make the word index
        write early.
        """
        with self._transaction():
            outcomes: list[Outcome] = []
            for item in batch:
                try:
                    outcomes.append(
                        (item, item.perform(self._writer, SqliteDatabase.observer), None)
                    )
                except BaseException as error:
                    raise WorkItemFailedError from error
            return outcomes

    def _run_one_by_one(self, batch: list[WorkItem]) -> list[Outcome]:
        """Run a batch again after an item failed, each item in a savepoint, so that only the
        failing ones are undone.
        """
        with self._transaction():
            return [(item, *self._attempt(item)) for item in batch]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        raw = self._writer.raw
        self._check_file()
        raw.execute("BEGIN IMMEDIATE")
        self._writer.memo.clear()
        self._writer.ends.clear()
        try:
            yield
            raw.execute("COMMIT")
        except BaseException:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise
        # A write to a file that was deleted or replaced meanwhile is not acknowledged.
        self._check_file()
        if self._heads is not None:
            self._heads.note(self._writer.ends)

    def _turn(self) -> AbstractContextManager[None]:
        if self._memory_lock is not None:
            return self._memory_lock.writing()
        return nullcontext() if self._heads is None else self._heads.write_turn()

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check(with_log=True)

    def _attempt(self, item: WorkItem) -> tuple[object, BaseException | None]:
        """Return result and failure of an item that is run in a savepoint.

        The memo is copied before and restored after a failure, because the item may have stored rows there that are now
        undone.
        """
        raw, memo, ends = self._writer.raw, dict(self._writer.memo), dict(self._writer.ends)
        raw.execute("SAVEPOINT item")
        try:
            result = item.perform(self._writer, SqliteDatabase.observer)
        except BaseException as error:
            if not raw.in_transaction:
                raise  # SQLite rolled back the whole transaction (disk full, I/O error)
            raw.execute("ROLLBACK TO item; RELEASE item")
            # Drop the rows that the item cached; those of earlier items are still valid.
            self._writer.memo, self._writer.ends = memo, ends
            return None, translate_error(error)
        raw.execute("RELEASE item")
        return result, None
