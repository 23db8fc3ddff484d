"""Copies of a SQLite database: a backup while others read and write it, and a move of the whole store row by row.

Two different jobs share this file because both open databases that another process may use. A *copy* (`copy_database`,
for backups) uses SQLite's backup interface page by page and gives one consistent moment. A *move* (`SqliteTables`)
reads and writes rows, because the target may be another database (`engine/moving.py`). Neither may leave a file that
looks complete before it is: copies are checked before they are used, and the target of a move has other file names
until `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.storage.engine.database import Row
from memoranda.storage.engine.moving import OWN_META, TABLES
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.file import FileConnection, open_existing, open_file, sqlite_errors
from memoranda.storage.sqlite.heads import write_heads_of
from memoranda.storage.sqlite.keys import SqliteKeyRing

# Pages copied between two calls of `progress`.
_STEP_PAGES = 2_000


def copy_database(
    source: Path, target: Path, progress: Callable[[int], None] | None = None
) -> None:
    """Copy one moment of a database, without delaying writers. Raises StoreCorrupt if it is damaged.

    `progress` gets the number of pages copied so far. The copy has no write-ahead log, so it is one file. Only the form
    of the pages is checked; `memoranda verify` checks the content.
    """
    with (
        sqlite_errors(),
        closing(_open_database(source)) as origin,
        closing(FileConnection(str(target), target)) as copy,
    ):
        # Open the snapshot now: otherwise every change by others makes the copy begin again.
        origin.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        with copy.backup("main", origin, "main") as backup:
            while not backup.done:
                backup.step(_STEP_PAGES)
                if progress:
                    progress(backup.page_count - backup.remaining)
        # The archive has no log, so the copy must not need one.
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
    """Hold the write lock of a database, so that it can be read and copied but not changed."""
    with sqlite_errors(), closing(_open_database(path)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        yield
        raw.execute("ROLLBACK")


def settle(path: Path) -> None:
    """Merge a database's log into its file, so that the file can be moved. Raises StoreUnavailable if it is in use.

    After it, the database has no log beside it. A damaged database is left as it is, so that nothing that could still
    be saved is lost.
    """
    with closing(_open_database(path)) as raw:
        raw.set_busy_timeout(0)
        try:
            # Requested before the first read, exclusive mode is refused while anyone else has the file open.
            raw.execute(
                "PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM sqlite_schema"
            ).fetchall()
        except apsw.BusyError:
            raise StoreUnavailable(
                "the store is in use: stop the server first", path=path
            ) from None
        except apsw.Error:
            return  # The database is damaged: move it unchanged, with its log.


def _open_database(path: Path) -> apsw.Connection:
    if not path.exists():
        raise StoreUnavailable("there is no database here", path=path)
    return open_existing(path)


class SqliteTables:
    """A `TableStore` on SQLite: a database and its key ring, two files.

    A target has other file names until the move is finished, so that nobody opens it before.
    """

    def __init__(self, path: Path, ring: Path, *, is_target: bool) -> None:
        self._path, self._ring = path, ring
        self._unfinished = [(file.with_name(f"{file.name}.moving"), file) for file in (ring, path)]
        if is_target:
            path, ring = self._unfinished[1][0], self._unfinished[0][0]
        elif not path.exists():
            raise StoreUnavailable("there is no store here", path=path)
        self._file, self._ring_file = path, ring
        with sqlite_errors():
            # Creates missing files, and refuses files that are not ours.
            SqliteDatabase(path).close()
            SqliteKeyRing(ring).close()
            self._raw = open_file(path)
            self._raw.execute("ATTACH ? AS ring", (str(ring),))

    def begin(self) -> None:
        if self._path.exists():
            raise StoreUnavailable("there is a store here already", path=self._path)

    def columns(self, table: str) -> list[str]:
        return [str(row[1]) for row in self._raw.execute(f"PRAGMA table_info({table})")]

    def count(self, table: str) -> int:
        rows: list[Row] = self._raw.execute(
            f"SELECT count(*) FROM {table} {_where(table)}"
        ).fetchall()
        return int(rows[0][0])

    def rows(self, table: str, columns: Sequence[str], skipped: int = 0) -> Iterator[Row]:
        selected_columns = ", ".join(
            "CAST(value AS BLOB)" if (table, column) == ("meta", "value") else column
            for column in columns
        )
        order = f"{_where(table)} ORDER BY {TABLES[table]} LIMIT -1 OFFSET {skipped}"
        with sqlite_errors():
            yield from self._raw.execute(f"SELECT {selected_columns} FROM {table} {order}")

    def add(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        marks = ", ".join("?" for _ in columns)
        with sqlite_errors(), self._raw:
            self._raw.executemany(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows
            )
            if table == "meta":
                # SQLite increments this value, so it must be a number.
                self._raw.execute(
                    "UPDATE meta SET value = CAST(value AS INTEGER) WHERE name = 'system_seq'"
                )

    def finish(self) -> None:
        """Give the files of a target their final names.

        The chain ends are written and renamed first: a database without them would not notice a loss. Renaming replaces
        in one step each, so a crash in between leaves an unfinished move, which can be continued.
        """
        self._raw.close()
        write_heads_of(self._file)
        heads = self._file.with_name(f"{self._file.name}-heads")
        heads.replace(self._path.with_name(f"{self._path.name}-heads"))
        # The key ring first: without the database nobody can use it.
        for unfinished, final in self._unfinished:
            unfinished.replace(final)

    def close(self) -> None:
        with suppress(Exception):
            self._raw.close()


def _where(table: str) -> str:
    own_keys = ", ".join(f"'{name}'" for name in OWN_META)
    return f"WHERE name NOT IN ({own_keys})" if table == "meta" else ""
