"""A store on PostgreSQL as tables, for moving it from or to another database (engine/moving.py).

While a store is being filled, its table `meta` has the row `moving`, and no process opens the store.

Reading happens in one snapshot, so the source may be in use, but writes after its begin are not moved. Rows are sent in
binary form as one array per column, because row-level security forbids COPY. After the last row the
sequences continue behind the highest ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.database import Row
from memoranda.storage.engine.moving import OWN_META, TABLES
from memoranda.storage.postgres.server import migrate, open_connection, postgres_errors

# Tables with a sequence, and the column that takes its numbers.
_SEQUENCES = {
    "tenant": "tenant_id",
    "version": "version_id",
    "embedding_model": "model_id",
    "vector": "place",
}
# Rows fetched from the server at a time.
_BATCH_ROWS = 2_000
_COLUMNS = """
SELECT column_name::text, data_type::text FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = %s ORDER BY ordinal_position
"""


class PostgresTables:
    """The tables of a store, including its key ring."""

    def __init__(self, address: str, *, is_moment: bool = False) -> None:
        """Open the tables; `is_moment`: read only, and all reads see the same snapshot."""
        with postgres_errors():
            connection = open_connection(address)
            migrate(connection, may_be_moving=not is_moment)
            self._raw = connection.raw
            connection.command("SET memoranda.system = 'on'; SET statement_timeout = 0")
            if is_moment:
                connection.command("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                # The snapshot is taken by the first query.
                self.count("meta")

    def begin(self) -> None:
        with postgres_errors():
            if self._raw.execute("SELECT 1 FROM meta WHERE name = 'moving'").fetchone() is None:
                if self.count("tenant") or self.count("meta"):
                    raise StoreUnavailable("there is a store in this database already")
                self._raw.execute("INSERT INTO meta (name, value) VALUES ('moving', '')")

    def columns(self, table: str) -> list[str]:
        return list(self._types(table))

    def _types(self, table: str) -> dict[str, str]:
        """Return the columns of a table, with their types."""
        with postgres_errors():
            columns: list[tuple[str, str]] = self._raw.execute(_COLUMNS, (table,)).fetchall()
        return dict(columns)

    def count(self, table: str) -> int:
        with postgres_errors():
            ((count,),) = self._raw.execute(
                f"SELECT count(*) FROM {table} {_where(table)}"
            ).fetchall()
        return int(count)

    def rows(self, table: str, columns: Sequence[str], skipped: int = 0) -> Iterator[Row]:
        query = f"SELECT {', '.join(columns)} FROM {table} {_where(table)} ORDER BY {TABLES[table]} OFFSET {skipped}"
        # A server-side cursor: a table may be larger than memory.
        with (
            postgres_errors(),
            self._raw.transaction(),
            self._raw.cursor(f"moving_{table}", binary=True) as cursor,
        ):
            cursor.itersize = _BATCH_ROWS
            yield from cursor.execute(query)

    def add(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        # Row-level security forbids COPY, so one INSERT takes all rows as one array per column.
        types = self._types(table)
        arrays = ", ".join(f"%b::{types[name]}[]" for name in columns)
        values: list[list[object]] = [list(column) for column in zip(*rows, strict=True)]
        for index, name in enumerate(columns):
            if types[name] == "double precision":
                # SQLite may return a whole number as an integer.
                numbers = cast("list[float | None]", values[index])
                values[index] = [None if number is None else float(number) for number in numbers]
        insert = f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({arrays})"
        with postgres_errors(), self._raw.transaction():
            self._raw.execute(insert, values)

    def finish(self) -> None:
        with postgres_errors():
            for table, column in _SEQUENCES.items():
                last = f"(SELECT coalesce(max({column}), 0) + 1 FROM {table})"
                self._raw.execute(
                    f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {last}, false)"
                )
            self._raw.execute("DELETE FROM meta WHERE name = 'moving'")
            self._raw.execute("ANALYZE")

    def close(self) -> None:
        self._raw.close()


def _where(table: str) -> str:
    """Return the condition that leaves out the rows of `meta` that belong to this database alone."""
    own_keys = ", ".join(f"'{name}'" for name in OWN_META)
    return f"WHERE name NOT IN ({own_keys})" if table == "meta" else ""
