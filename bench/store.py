"""A store on PostgreSQL to be measured, and owners in it who are there for their weight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psycopg
from tests.postgres import Server

from bench.served import Served, server
from memoranda.settings import Settings, load_settings

# Numbers that must not be those of the owner whose rows are copied.
_SHIFTED: Final = ("version_id", "memory_id", "superseded_by", "first_version")
_COLUMNS: Final = """
SELECT table_name::text, array_agg(column_name::text ORDER BY ordinal_position)
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND (is_identity = 'NO' OR column_name <> 'place')
GROUP BY table_name HAVING bool_or(column_name = 'tenant_id') AND table_name <> 'tenant'
"""


class Store:
    """An empty database, and a folder for what is not in it."""

    def __init__(self, cluster: Server, home: Path) -> None:
        self.name, self.home = cluster.scratch(), home
        self.address, self._admin = cluster.address(self.name), cluster.address(self.name, None)

    @property
    def settings(self) -> Settings:
        return load_settings({"MEMORANDA_EMBEDDER": "off"}, home=self.home, store=self.address)

    @contextmanager
    def nodes(self, count: int) -> Iterator[list[Served]]:
        """So many servers of this store."""
        with ExitStack() as stack:
            given = {"MEMORANDA_EMBEDDER": "off", "MEMORANDA_STORE": self.address}
            yield [stack.enter_context(server(self.home, environment=given)) for _ in range(count)]

    @contextmanager
    def admin(self) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
        with psycopg.connect(self._admin, autocommit=True) as raw:
            yield raw


def add_weight(raw: psycopg.Connection[tuple[object, ...]], copies: int) -> None:
    """Owners whom nobody asks: the rows of the first one, again and again."""
    tables: list[tuple[str, list[str]]] = raw.execute(_COLUMNS).fetchall()  # type: ignore[assignment]
    ((first, last, top),) = raw.execute(
        "SELECT min(t.tenant_id), max(t.tenant_id), (SELECT max(version_id) FROM version) FROM tenant t"
    ).fetchall()
    raw.execute(
        "INSERT INTO tenant (tenant_id, name, version_count, live_count) "
        f"SELECT {last} + n, 'owner ' || n, t.version_count, t.live_count "
        f"FROM tenant t, generate_series(1, {copies}) n WHERE t.tenant_id = {first}"
    )
    for table, columns in tables:
        moved = {"tenant_id": f"{last} + n", **{each: f"{each} + n * {top}" for each in _SHIFTED}}
        chosen = ", ".join(moved.get(each, each) for each in columns)
        raw.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} "
            f"FROM generate_series(1, {copies}) n, {table} WHERE tenant_id = {first}"
        )
    for table, column in (("version", "version_id"), ("tenant", "tenant_id")):
        raw.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), (SELECT max({column}) FROM {table}))"
        )
