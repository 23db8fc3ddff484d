"""SQLite behind the database seam.

Theory of operation. One file in WAL mode, any number of processes. In each process one thread writes and a
few connections read. Writers hand their work to the writer thread, which runs everything that is waiting in
one transaction and commits once: that is group commit. A piece of work that fails is undone alone; for that the
others may be run a second time, so a piece of work has no effect outside its transaction. `synchronous=FULL`
means that a commit is on the disk before anyone is told so. Work that nobody waits for (audit of reads) is
held back for a moment so that it shares a commit.

Other processes hold the write lock for the length of one such commit, so we simply ask again, a little later
and for up to BUSY_SECONDS.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import apsw

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.storage.database import Connection, Params, Row
from memoranda.storage.dialect import SQLITE
from memoranda.storage.queries import load_migrations, load_queries

T = TypeVar("T")

# A bulk import of another process may hold the lock for seconds; a person gives up after about half a minute.
BUSY_SECONDS = 30.0
# More pieces in one commit do not get faster, they only make the first of them wait.
GROUP_LIMIT = 256
# How long work that nobody waits for may be held back, and how much of it.
LATER_SECONDS = 0.05
LATER_LIMIT = 20_000
READERS_LIMIT = 8
# So long a store that is closed waits for those who still read.
CLOSE_SECONDS = 2.0
# How long a reader waits for one of them to be free. All that hold one are at work, so this is reached only when more
# is asked for than can be done.
READER_SECONDS = 10.0
# How long a writer waits for its turn, or, once that has come, for what was begun to be on the disk: longer than
# another process may keep the lock.
WRITER_SECONDS = 40.0
# Every named query stays prepared on every connection.
STATEMENTS_LIMIT = 256
# Marks the file as ours ("Memo").
APPLICATION_ID = 0x4D656D6F

_PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA secure_delete = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32000;
PRAGMA mmap_size = 1073741824;
PRAGMA journal_size_limit = 67108864;
PRAGMA wal_autocheckpoint = 4000;
"""


class SqliteConnection:
    """Named queries on one apsw connection."""

    dialect = SQLITE

    def __init__(self, raw: apsw.Connection, queries: dict[str, str]) -> None:
        self.raw = raw
        self.memo: dict[str, Row] = {}
        self._queries = queries

    def rows(self, name: str, params: Params) -> list[Row]:
        return self.raw.execute(self._queries[name], params).fetchall()

    def row(self, name: str, params: Params) -> Row | None:
        found: Row | None = self.raw.execute(self._queries[name], params).fetchone()
        return found

    def run(self, name: str, params: Params) -> None:
        self.raw.execute(self._queries[name], params)

    def run_many(self, name: str, params: Sequence[Params]) -> None:
        self.raw.executemany(self._queries[name], params)

    def select(self, sql: str, params: Params) -> list[Row]:
        return self.raw.execute(sql, params).fetchall()


class _Piece:
    """One piece of work for the writer thread, and the one thread that may wait for it.

    Bare locks instead of a Future: this is on the path of every write, and a Future costs as much as its SQL. Whoever
    takes `_turn` first, the writer that begins it or the waiter that gives it up, decides whether it is done.
    """

    __slots__ = ("_failure", "_is_begun", "_result", "_settled", "_turn", "work")

    def __init__(self, work: Callable[[Connection], Any]) -> None:
        self.work = work
        self._result: Any = None
        self._failure: BaseException | None = None
        self._is_begun = False
        self._turn = threading.Lock()
        self._settled = threading.Lock()
        self._settled.acquire()

    def begin(self) -> bool:
        """Whether somebody still waits for it; from then on it cannot be given up. It may be begun again."""
        if not self._is_begun:
            self._is_begun = self._turn.acquire(blocking=False)
        return self._is_begun

    def settle(self, result: Any, failure: BaseException | None) -> None:
        self._result, self._failure = result, failure
        self._settled.release()

    def wait(self, seconds: float) -> Any:
        """What came of it. Raises StoreUnavailable if its turn does not come, and then it never will."""
        if not self._settled.acquire(timeout=seconds):
            if self._turn.acquire(blocking=False):
                raise StoreUnavailable(
                    f"too much is written at once: no turn within {seconds:g} s; nothing was written"
                )
            if not self._settled.acquire(timeout=seconds):
                raise StoreUnavailable(f"the disk did not answer within {seconds:g} s; it may be written all the same")
        if self._failure is not None:
            raise self._failure
        return self._result


_Outcome = tuple[_Piece, Any, BaseException | None]


class _PieceFailedError(Exception):
    """A piece of work raised; which one matters only to the second, careful run."""


class _Turns:
    """Who may use a store in memory, which has no write-ahead log: any number of readers, or the writer.

    SQLite lets a writer begin beside readers and then refuses new ones until it has ended, which it cannot before the
    old ones do; a read inside a read would wait for itself. So the writer begins when nobody reads.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._readers = 0
        self._is_writing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._turn:
            self._wait(lambda: not self._is_writing)
            self._readers += 1
        try:
            yield
        finally:
            with self._turn:
                self._readers -= 1
                self._turn.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._turn:
            self._wait(lambda: not self._readers)
            self._is_writing = True
        try:
            yield
        finally:
            with self._turn:
                self._is_writing = False
                self._turn.notify_all()

    def _wait(self, may: Callable[[], bool]) -> None:
        if not self._turn.wait_for(may, BUSY_SECONDS):
            raise StoreUnavailable(f"the store in memory was in use for {BUSY_SECONDS:.0f} s")


class SqliteDatabase:
    """One SQLite file, many readers, one writer thread with group commit."""

    # Runs each piece of work in place of the writer, who is held for as long: for whoever measures that.
    observer: ClassVar[Callable[[Callable[[Connection], Any], SqliteConnection], Any] | None] = None

    def __init__(
        self,
        path: Path | None,
        *,
        vfs: str | None = None,
        reader_seconds: float = READER_SECONDS,
        writer_seconds: float = WRITER_SECONDS,
    ) -> None:
        """Open or create the file; `None` means a private store in memory. `vfs` names another way to the disk."""
        self._reader_seconds, self._writer_seconds = reader_seconds, writer_seconds
        self._path = path
        self._vfs = vfs
        self._turns = _Turns() if path is None else None
        self._memory_name = f"file:/memoranda-{id(self)}-{random.getrandbits(64):x}?vfs=memdb"
        self._queries = load_queries("sqlite")
        self._readers: queue.LifoQueue[SqliteConnection] = queue.LifoQueue()
        self._reader_slots = threading.BoundedSemaphore(READERS_LIMIT)
        self._ready = threading.Condition()
        self._now: deque[_Piece] = deque()
        self._later: deque[_Piece] = deque()
        self._later_since = 0.0
        self._closed = False
        with translated():
            self._writer = self._connect()
            _migrate(self._writer)
            self._watcher = self._connect()
        self._watching = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="memoranda-writer", daemon=True)
        self._thread.start()

    def _connect(self) -> SqliteConnection:
        if self._path is None:
            raw = apsw.Connection(
                self._memory_name,
                flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI,
                statementcachesize=STATEMENTS_LIMIT,
            )
        else:
            _create_private(self._path)
            raw = apsw.Connection(str(self._path), vfs=self._vfs)
        raw.set_busy_handler(_wait_a_little)
        # Plans do not depend on the values bound, so that a statement is prepared once and not at every call.
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        _set_up(raw)
        return SqliteConnection(raw, self._queries)

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        self._refuse_when_closed()
        with self._slot(), self._turns.reading() if self._turns else nullcontext(), translated():
            try:
                connection = self._readers.get_nowait()
            except queue.Empty:
                connection = self._connect()
            try:
                connection.raw.execute("BEGIN")
                yield connection
            finally:
                if connection.raw.in_transaction:
                    connection.raw.execute("COMMIT")
                self._put_back(connection)

    def _put_back(self, connection: SqliteConnection) -> None:
        with self._ready:
            if not self._closed:
                self._readers.put(connection)
                return
        # Nobody will look for it any more, and the last one that is closed takes the write-ahead log away.
        connection.raw.close()

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """One of the few readers' places. Whoever reads holds one, and never asks for a second meanwhile."""
        if not self._reader_slots.acquire(timeout=self._reader_seconds):
            raise StoreUnavailable(f"too many read at once: no turn within {self._reader_seconds:g} s")
        try:
            yield
        finally:
            self._reader_slots.release()

    def write(self, work: Callable[[Connection], T]) -> T:
        piece = _Piece(work)
        with self._ready:
            self._refuse_when_closed()
            self._now.append(piece)
            self._ready.notify_all()
        result: T = piece.wait(self._writer_seconds)
        return result

    def write_later(self, work: Callable[[Connection], None]) -> None:
        with self._ready:
            self._refuse_when_closed()
            if not self._ready.wait_for(lambda: len(self._later) < LATER_LIMIT, BUSY_SECONDS):
                raise StoreUnavailable(f"no room to put this on record within {BUSY_SECONDS:.0f} s")
            if not self._later:
                self._later_since = time.monotonic()
                self._ready.notify_all()
            self._later.append(_Piece(work))

    def flush(self) -> None:
        last = _Piece(lambda _: None)
        with self._ready:
            self._refuse_when_closed()
            # Behind everything that waits there, which is due at once: one batch may not hold it all.
            self._later.append(last)
            self._later_since = 0.0
            self._ready.notify_all()
        last.wait(self._writer_seconds)

    def token(self) -> int:
        with self._watching, translated():
            found = self._watcher.raw.execute("PRAGMA data_version").fetchone()
            return int(found[0]) if found else 0

    def scrub(self, patience_seconds: float) -> bool:
        # A truncating checkpoint copies every page home and cuts the log, so that no old page image remains.
        # While it waits for readers nobody can write, so it must not wait as long as others do.
        with self._watching, translated():
            raw = self._watcher.raw
            raw.set_busy_handler(lambda attempt: attempt * 0.002 < patience_seconds and _wait_a_little(attempt))
            try:
                busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or (1, 0, 0)
            finally:
                raw.set_busy_handler(_wait_a_little)
            return not busy

    def check(self) -> list[str]:
        with self.reading() as connection:
            found = connection.raw.execute("PRAGMA quick_check(20)").fetchall()
        return [str(line) for (line,) in found if line != "ok"]

    def close(self) -> None:
        with self._ready:
            if self._closed:
                return
            self._closed = True
            self._ready.notify_all()
        self._thread.join(self._writer_seconds)
        if self._thread.is_alive():
            return  # It waits for a disk that does not answer, and ends with the process.
        self._wait_for_readers()
        while not self._readers.empty():
            self._readers.get_nowait().raw.close()
        self._watcher.raw.close()
        self._writer.raw.close()

    def _wait_for_readers(self) -> None:
        """Whoever is reading may end, for a while: then the process may."""
        until = time.monotonic() + CLOSE_SECONDS
        for _ in range(READERS_LIMIT):
            if not self._reader_slots.acquire(timeout=max(0.0, until - time.monotonic())):
                return

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            self._commit(batch)

    def _next_batch(self) -> list[_Piece] | None:
        """Wait for work: urgent work at once, other work when it is due or something urgent goes anyway."""
        with self._ready:
            while not self._now:
                if self._later:
                    due_in = self._later_since + LATER_SECONDS - time.monotonic()
                    if due_in <= 0 or self._closed:
                        break
                    self._ready.wait(due_in)
                elif self._closed:
                    return None
                else:
                    self._ready.wait()
            batch = [self._later.popleft() for _ in range(min(len(self._later), GROUP_LIMIT))]
            batch += [self._now.popleft() for _ in range(min(len(self._now), GROUP_LIMIT))]
            self._ready.notify_all()
            return batch

    def _commit(self, batch: list[_Piece]) -> None:
        """Run the pieces in one transaction; tell their waiters only after the commit."""
        outcomes: list[_Outcome] = []
        try:
            with translated():
                try:
                    outcomes = self._together(batch)
                except _PieceFailedError:
                    outcomes = self._one_by_one(batch)
        except BaseException as error:  # noqa: BLE001 -- the waiters must learn of it, whatever it is
            outcomes = [(piece, None, error) for piece in batch]
        for piece, result, failure in outcomes:
            piece.settle(result, failure)

    def _together(self, batch: list[_Piece]) -> list[_Outcome]:
        """The usual case: nothing fails, so nothing needs a savepoint, which makes the word index write early."""
        with self._transaction():
            outcomes: list[_Outcome] = []
            for piece in batch:
                try:
                    outcomes.append((piece, self._perform(piece), None))
                except BaseException as error:
                    raise _PieceFailedError from error
            return outcomes

    def _one_by_one(self, batch: list[_Piece]) -> list[_Outcome]:
        """Some piece fails: run all again, each in a savepoint, so that only the failing ones are undone."""
        with self._transaction():
            return [(piece, *self._attempt(piece)) for piece in batch]

    def _perform(self, piece: _Piece) -> Any:
        if not piece.begin():
            return None
        observer = SqliteDatabase.observer
        return piece.work(self._writer) if observer is None else observer(piece.work, self._writer)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        raw = self._writer.raw
        with self._turns.writing() if self._turns else nullcontext():
            raw.execute("BEGIN IMMEDIATE")
            self._writer.memo.clear()
            try:
                yield
                raw.execute("COMMIT")
            except BaseException:
                if raw.in_transaction:
                    raw.execute("ROLLBACK")
                raise

    def _attempt(self, piece: _Piece) -> tuple[Any, BaseException | None]:
        raw = self._writer.raw
        raw.execute("SAVEPOINT piece")
        try:
            result = self._perform(piece)
        except BaseException as error:
            if not raw.in_transaction:
                raise  # SQLite gave up the whole transaction (disk full, I/O error): nobody's work is in
            raw.execute("ROLLBACK TO piece; RELEASE piece")
            self._writer.memo.clear()
            return None, error
        raw.execute("RELEASE piece")
        return result, None


def _set_up(raw: apsw.Connection) -> None:
    """Make the settings. Turning a new file to WAL can meet another process at it, and then SQLite does not wait."""
    for attempt in itertools.count():
        try:
            # fetchall, because apsw stops at the first statement that returns a row
            raw.execute(_PRAGMAS).fetchall()
        except apsw.BusyError:
            if not _wait_a_little(attempt):
                raise
        else:
            return


def open_private(path: Path | None) -> apsw.Connection:
    """A small durable file of its own, readable by its owner alone; in memory when there is no path."""
    with translated():
        if path is not None:
            _create_private(path)
        raw = apsw.Connection(":memory:" if path is None else str(path))
        raw.set_busy_handler(_wait_a_little)
        _set_up(raw)
        return raw


def _create_private(path: Path) -> None:
    """Make the file, readable by its owner alone; SQLite gives its log and index the same mode."""
    with contextlib.suppress(OSError):  # what cannot be made, SQLite will complain of
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _wait_a_little(attempt: int) -> bool:
    # Random and short, so that several processes take turns instead of moving in step.
    if attempt * 0.002 > BUSY_SECONDS:
        return False
    time.sleep(random.uniform(0.0005, 0.0035))  # noqa: S311 -- jitter
    return True


def _migrate(connection: SqliteConnection) -> None:
    """Bring the schema up to date, once, whichever process comes first."""
    raw = connection.raw
    migrations = load_migrations("sqlite")
    newest = migrations[-1][0]
    if _pragma(raw, "user_version") == newest:
        return
    raw.execute("BEGIN IMMEDIATE")
    try:
        _refuse_foreign_file(raw, newest)
        present = _pragma(raw, "user_version")
        for number, sql in migrations:
            if number > present:
                raw.execute(sql)
        raw.execute(f"PRAGMA user_version = {newest}; PRAGMA application_id = {APPLICATION_ID}")
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise


def _refuse_foreign_file(raw: apsw.Connection, newest: int) -> None:
    present = _pragma(raw, "user_version")
    tables = raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if _pragma(raw, "application_id") != APPLICATION_ID and tables != (0,):
        raise StoreCorrupt("this file is an SQLite database, but not one of Memoranda's")
    if present > newest:
        raise StoreUnavailable(f"this store was written by a newer Memoranda (schema {present}, ours is {newest})")


def _pragma(raw: apsw.Connection, name: str) -> int:
    found = raw.execute(f"PRAGMA {name}").fetchone()
    return int(found[0]) if found else 0


class translated:  # noqa: N801 -- used like the function that it would be if every read did not pay for that
    """Say SQLite's troubles in our words; the original stays as the cause."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, apsw.Error):
            return
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            raise StoreUnavailable(f"another process kept the store locked for {BUSY_SECONDS:.0f} s") from error
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            raise StoreCorrupt("the database file is damaged or is not a database") from error
        if isinstance(error, _UNUSABLE):
            raise StoreUnavailable(f"the database file cannot be used: {type(error).__name__}") from error


_UNUSABLE = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
