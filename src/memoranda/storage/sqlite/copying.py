"""A copy of a database file while others read and write it, by SQLite's own means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.storage.sqlite.file import FileConnection, open_existing, translated

# Pages between two looks at the clock of whoever watches.
_STEP_PAGES = 2_000


def copy_database(
    source: Path, target: Path, progress: Callable[[int], None] | None = None
) -> None:
    """Copy one moment of a database; nobody who writes meanwhile is held up. Raises StoreCorrupt if it is damaged."""
    with (
        translated(),
        closing(_opened(source)) as origin,
        closing(FileConnection(str(target), target)) as copy,
    ):
        # The snapshot is held from here on, so that no change makes the copy begin again.
        origin.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        with copy.backup("main", origin, "main") as backup:
            while not backup.done:
                backup.step(_STEP_PAGES)
                if progress:
                    progress(backup.page_count - backup.remaining)
        # As it is in the archive, it has no log beside it.
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        problems = [
            str(line)
            for (line,) in copy.execute("PRAGMA quick_check(3)").fetchall()
            if line != "ok"
        ]
    if problems:
        raise StoreCorrupt(f"the database is damaged ({problems[0]})", path=source)


@contextmanager
def writers_kept_out(path: Path) -> Iterator[None]:
    """Hold the write lock of a database: it can be read and copied, and stays as it is."""
    with translated(), closing(_opened(path)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        yield
        raw.execute("ROLLBACK")


def settle(path: Path) -> None:
    """Take the log of a database in, for whoever moves the file. Raises StoreUnavailable if somebody has it open."""
    with closing(_opened(path)) as raw:
        raw.set_busy_timeout(0)
        try:
            # Asked for before anything is read, it is refused as long as anybody else has the file open.
            raw.execute(
                "PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM sqlite_schema"
            ).fetchall()
        except apsw.BusyError:
            raise StoreUnavailable(
                "the store is in use: stop the server first", path=path
            ) from None
        except apsw.Error:
            return  # Damaged: it is moved as it is, with its log.


def _opened(path: Path) -> apsw.Connection:
    if not path.exists():
        raise StoreUnavailable("there is no database here", path=path)
    return open_existing(path)
