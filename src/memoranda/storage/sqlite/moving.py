"""A store of SQLite as tables, for whoever moves it. One that is being filled has another name until it is whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from memoranda.errors import StoreUnavailable
from memoranda.storage.crypto.key_ring import SqliteKeyRing
from memoranda.storage.engine.database import Row
from memoranda.storage.engine.heads import write_heads_of
from memoranda.storage.engine.moving import OWN_META, TABLES
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.file import open_file, translated


class SqliteTables:
    """A database and its key ring, two files."""

    def __init__(self, path: Path, ring: Path, *, is_target: bool) -> None:
        self._path, self._ring = path, ring
        self._unfinished = [(each.with_name(f"{each.name}.moving"), each) for each in (ring, path)]
        if is_target:
            path, ring = self._unfinished[1][0], self._unfinished[0][0]
        elif not path.exists():
            raise StoreUnavailable("there is no store here", path=path)
        self._file, self._ring_file = path, ring
        with translated():
            # Makes what is missing, and refuses what is not ours.
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
        rows: list[Any] = self._raw.execute(
            f"SELECT count(*) FROM {table} {_where(table)}"
        ).fetchall()
        return int(rows[0][0])

    def rows(self, table: str, columns: Sequence[str], skipped: int = 0) -> Iterator[Row]:
        selected = ", ".join(
            "CAST(value AS BLOB)" if (table, each) == ("meta", "value") else each
            for each in columns
        )
        order = f"{_where(table)} ORDER BY {TABLES[table]} LIMIT -1 OFFSET {skipped}"
        with translated():
            yield from self._raw.execute(f"SELECT {selected} FROM {table} {order}")

    def add(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        marks = ", ".join("?" for _ in columns)
        with translated(), self._raw:
            self._raw.executemany(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows
            )
            if table == "meta":
                # SQLite counts with it.
                self._raw.execute(
                    "UPDATE meta SET value = CAST(value AS INTEGER) WHERE name = 'system_seq'"
                )

    def finish(self) -> None:
        self._raw.close()
        write_heads_of(self._file)
        heads = self._file.with_name(f"{self._file.name}-heads")
        heads.replace(self._path.with_name(f"{self._path.name}-heads"))
        # The keys first: without the database they are of no use to anybody.
        for made, final in self._unfinished:
            made.replace(final)

    def close(self) -> None:
        with suppress(Exception):
            self._raw.close()


def _where(table: str) -> str:
    own = ", ".join(f"'{name}'" for name in OWN_META)
    return f"WHERE name NOT IN ({own})" if table == "meta" else ""
