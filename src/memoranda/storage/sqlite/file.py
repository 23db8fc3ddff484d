"""SQLite files: opening them, noticing that they were replaced, and SQLite's errors in our words.

Everything that opens a SQLite file goes through this module, for three reasons: the settings must be the same on every
connection; POSIX locks disappear if any other descriptor of the file is closed (`_create_private`); and SQLite's errors
must not reach a caller, because they name no action that a person could take. The settings: WAL lets readers and the
writer work at the same time; `synchronous = FULL` makes each commit durable; `secure_delete` overwrites deleted rows,
which erasure depends on; `trusted_schema = OFF` keeps functions out of foreign schemas. Changing one of them needs a
test in `tests/storage/test_sqlite.py`, and `make chaos` for the first two.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import random
import threading
import time
from functools import partial
from pathlib import Path
from urllib.parse import quote

import apsw

from memoranda.errors import StoreCorrupt, StoreUnavailable, words_of

# A bulk import of another process may hold the lock for seconds; a person gives up after about half a minute.
BUSY_SECONDS = 30.0
# Every named query stays prepared on every connection.
STATEMENTS_LIMIT = 256
# Kept small: every reader has its own page cache, and the operating system caches the file, so more is not faster.
_PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA secure_delete = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -8000;
PRAGMA mmap_size = 0;
PRAGMA trusted_schema = OFF;
PRAGMA journal_size_limit = 67108864;
PRAGMA wal_autocheckpoint = 4000;
"""


_READ_ONLY_PRAGMAS = """
PRAGMA query_only = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -8000;
PRAGMA mmap_size = 0;
"""


_log = logging.getLogger(__name__)

# Held while a thread of this process creates a database file.
_creation = threading.Lock()


def set_up(connection: apsw.Connection, *, read_only: bool = False) -> None:
    """Apply the settings. If another process is switching a new file to WAL, SQLite fails at once, so we try again.

    `read_only` sets only what does not write, because switching to WAL changes the file.
    """
    connection.set_busy_handler(wait_a_little)
    for attempt in itertools.count():
        try:
            # fetchall, because apsw stops at the first statement that returns a row
            connection.execute(_READ_ONLY_PRAGMAS if read_only else _PRAGMAS).fetchall()
        except apsw.BusyError:
            if not wait_a_little(attempt):
                raise
        else:
            return


def is_read_only(path: Path) -> bool:
    """Return True if a database exists that this user, or this disk, does not allow to be written."""
    can = partial(os.access, mode=os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return path.exists() and not (can(path) and can(path.parent))


def is_settled(path: Path) -> bool:
    """Return True if all of a database is in its file and nobody has it open, so that it can be read without locks."""
    log, index = (path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-shm"))
    return path.exists() and not index.exists() and (not log.exists() or log.stat().st_size == 0)


class FileConnection(apsw.Connection):
    """A connection to a database file. It knows the path of the file even while another thread uses it."""

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
        vfs: str | None = None,
        statementcachesize: int = STATEMENTS_LIMIT,
    ) -> None:
        """Open the file; `name` is the path or URI for SQLite."""
        self.path = path.resolve()
        super().__init__(name, flags=flags, vfs=vfs, statementcachesize=statementcachesize)


def open_file(path: Path, *, vfs: str | None = None, read_only: bool = False) -> apsw.Connection:
    """Open a database file with our settings; create the file if it is missing."""
    connection: apsw.Connection
    if read_only:
        connection = open_to_read(path)
    else:
        _create_private(path)
        connection = FileConnection(str(path), path, vfs=vfs, statementcachesize=STATEMENTS_LIMIT)
    try:
        set_up(connection, read_only=read_only)
    except BaseException:
        connection.close(True)
        raise
    return connection


def open_existing(path: Path) -> apsw.Connection:
    """Open a database file that is there, to read and to write. Raises apsw.Error if it is missing."""
    connection = FileConnection(str(path), path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_handler(wait_a_little)
    return connection


def open_to_read(path: Path) -> apsw.Connection:
    """Open a database file without making any file beside it, if nobody has it open. Raises apsw.Error.

    `immutable` tells SQLite that nobody changes the file, so it takes no locks and makes no index of the log; that is
    right only if nobody has it open (`is_settled`).
    """
    uri = f"file:{quote(str(path.resolve()))}?mode=ro{'&immutable=1' if is_settled(path) else ''}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return FileConnection(uri, path, flags=flags, statementcachesize=STATEMENTS_LIMIT)


def open_private(path: Path | None) -> apsw.Connection:
    """Open a small durable database of its own, readable by its owner alone; in memory without a path."""
    with sqlite_errors():
        if path is not None:
            return open_file(path, read_only=is_read_only(path))
        connection = apsw.Connection(":memory:")
        set_up(connection)
        return connection


def _create_private(path: Path) -> None:
    """Create the file, readable by its owner alone, if there is none; SQLite gives its log and index the same mode.

    POSIX drops every lock that a process has on a file when any descriptor of it is closed: without SQLite's locks,
    another program that reads the database deletes its log. So a file that exists is never opened here, and no
    connection of this process is at a file before its creation is over.
    """
    # Other errors are ignored: SQLite meets them at the same path and reports them.
    with _creation, contextlib.suppress(OSError):
        os.close(os.open(path.resolve(), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


class Watched:
    """A database file and its log, watched for being deleted, replaced or cut.

    SQLite goes on with a file that was deleted or replaced, and whatever it writes then is lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The paths as text, converted once: they are checked before every read and around every commit.
        self._name, self._log = str(path), f"{path}-wal"
        self._trouble: str | None = None
        status = path.stat()
        self._identity, self._size = (status.st_dev, status.st_ino), status.st_size
        self._log_identity = self._identify_log()

    @property
    def is_gone(self) -> bool:
        """True once another file, or none, was found in its place."""
        return self._trouble is not None

    def check(self, *, with_log: bool = False) -> None:
        """Raise StoreUnavailable if the files are not those that were opened, and at every later call.

        Called before every snapshot, and around every commit with `with_log`. It costs one or two `stat` calls.
        """
        is_news = self._trouble is None
        if is_news:
            self._trouble = self._find_trouble(with_log)
        if self._trouble is not None:
            error = StoreUnavailable(
                f"the database {self._trouble} while it was in use; nothing is read or written any more: put it back "
                "(memoranda restore) and start again",
                path=self._path,
            )
            if is_news:
                _log.error("%s", error)
            raise error

    def _find_trouble(self, with_log: bool) -> str | None:
        # Read before the new size: the log grows meanwhile, and other threads check it, too.
        size = self._size
        try:
            status = os.stat(self._name)  # noqa: PTH116 - see above
        except FileNotFoundError:
            return "was deleted"
        except OSError as error:
            raise StoreUnavailable(words_of(error), path=self._path) from error
        if (status.st_dev, status.st_ino) != self._identity:
            return "was replaced"
        # No command returns pages to the file system, so a smaller file was cut.
        if status.st_size < size:
            return "was cut short"
        self._size = status.st_size
        if (
            with_log
            and self._log_identity is not None
            and self._identify_log() != self._log_identity
        ):
            return "lost its log"
        return None

    def _identify_log(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._log)  # noqa: PTH116 - see above
        except OSError:
            return None
        return status.st_dev, status.st_ino


def wait_a_little(attempt: int) -> bool:
    """Wait before another attempt to lock; return False after BUSY_SECONDS in total."""
    # Random and short, so that several processes take turns instead of moving in step.
    if attempt * 0.002 > BUSY_SECONDS:
        return False
    time.sleep(random.uniform(0.0005, 0.0035))  # noqa: S311 -- jitter
    return True


class sqlite_errors:  # noqa: N801 -- used like a function; as a generator function it would slow every read
    """A context manager that raises errors of SQLite as our own; the original stays as the cause."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error | UnicodeDecodeError) and (
            (ours := translate_error(error)) is not error
        ):
            raise ours from error


def translate_error(error: BaseException) -> BaseException:
    """Return our error for one of SQLite's, and any other error unchanged.

    The cause of the result is the original, so that a traceback in the log still shows what SQLite said.
    """
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreUnavailable(f"another process kept the store locked for {BUSY_SECONDS:.0f} s")
    # We write only valid UTF-8, so a text that cannot be decoded is damaged.
    is_damage = isinstance(error, apsw.CorruptError | apsw.NotADBError | UnicodeDecodeError)
    # A damaged header; SQLite has no code of its own for it.
    if is_damage or (isinstance(error, apsw.SQLError) and str(error) == "unsupported file format"):
        return StoreCorrupt("the database file is damaged or is not a database")
    if (
        isinstance(error, apsw.IOError)
        and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
    ):
        return StoreUnavailable("the disk is full")
    if isinstance(error, apsw.CantOpenError) and _is_out_of_descriptors():
        return StoreUnavailable("this process has too many open files (see ulimit -n)")
    return next(
        (StoreUnavailable(words) for kind, words in _WORDS.items() if isinstance(error, kind)),
        error,
    )


def _is_out_of_descriptors() -> bool:
    """Return True if this process cannot open any file, because it has reached the limit of open files."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


_WORDS: dict[type[apsw.Error], str] = {
    apsw.FullError: "the disk is full",
    apsw.ReadOnlyError: "the database, or the disk that it is on, is read-only",
    apsw.CantOpenError: "the database cannot be opened: the file or its folder is missing, or not yours to use",
    apsw.PermissionsError: "the database is not yours to use",
    apsw.IOError: "the disk could not be read or written",
    apsw.NoMemError: "there is not enough memory",
}
