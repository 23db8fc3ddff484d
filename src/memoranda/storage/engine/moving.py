"""A whole store moved to another database, row by row, as it is: ids, keys, audit log and all.

Every table is copied in the order of its key, some rows in one transaction; so what is there already is the beginning
of it, and whoever was interrupted goes on behind that. Then all rows of both are compared. A store that is not whole
yet is not opened by anybody: see `begin` of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, Protocol

from memoranda.errors import StoreCorrupt
from memoranda.storage.engine.database import Row

# Rows of one transaction, or fewer if they are large.
_CHUNK: Final = 5_000
_CHUNK_BYTES: Final = 16 * 2**20

# Every table, and an order of its rows that is the same everywhere.
TABLES: Final = {
    "tenant": "tenant_id",
    "version": "tenant_id, version_id",
    "state": "tenant_id, version_id",
    "alias": "tenant_id, standard, name",
    "facet": "tenant_id, name, value_key, version_id",
    "measure": "tenant_id, name, number, version_id",
    "item": "tenant_id, kind, name",
    "run": "tenant_id, run_id",
    "run_event": "tenant_id, run_id, sequence",
    "run_write": "tenant_id, run_id, version_id",
    "commitment": "tenant_id, commitment_id",
    "use": "tenant_id, name_key, at_ms, seq",
    "feedback": "tenant_id, version_id, at_ms, outcome, session_key IS NOT NULL, session_key",
    "change": "tenant_id, seq",
    "audit": "tenant_id, seq",
    "api_key": "key_id",
    "program_grant": "grant_id",
    "revoked_token": "issuer, jti",
    "segment": "tenant_id, first_version, edition",
    "segment_part": "tenant_id, first_version, edition, number",
    "unindexed": "tenant_id, version_id",
    "embedding_model": "model_id",
    "vector": "tenant_id, place",
    "tombstone": "tenant_id, version_id",
    "data_key": "key_id",
    "meta": "name",
}
# What each database says of its own tables.
OWN_META: Final = ("schema", "layout", "moving")


class Tables(Protocol):
    """A database as tables."""

    def begin(self) -> None:
        """Make the tables to be filled, or go on with those of an earlier attempt. Refuses a store that is there."""
        ...

    def columns(self, table: str) -> list[str]: ...

    def count(self, table: str) -> int: ...

    def rows(self, table: str, columns: Sequence[str], skipped: int = 0) -> Iterator[Row]:
        """The rows of a table in its order, but for the first."""
        ...

    def add(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Add rows, in one transaction."""
        ...

    def finish(self) -> None:
        """Let it be a store."""
        ...

    def close(self) -> None: ...


def move(
    source: Tables,
    target: Tables,
    *,
    copied: Callable[[int], None] | None,
    compared: Callable[[int], None] | None,
) -> int:
    """Copy all rows and compare them; how many there are."""
    target.begin()
    total = 0
    for table in TABLES:
        columns, total_before = source.columns(table), total
        total += target.count(table)
        rows = source.rows(table, columns, total - total_before)
        for some in _chunks(rows):
            target.add(table, columns, some)
            total += len(some)
            if copied:
                copied(total)
    _compare(source, target, compared)
    target.finish()
    return total


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """As many rows at a time as are to be held at once."""
    some: list[Row] = []
    size = 0
    for row in rows:
        some.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(some) == _CHUNK or size >= _CHUNK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _compare(source: Tables, target: Tables, compared: Callable[[int], None] | None) -> None:
    total = 0
    for table in TABLES:
        columns = source.columns(table)
        for one, other in zip_longest(source.rows(table, columns), target.rows(table, columns)):
            if one != other:
                raise StoreCorrupt(
                    f"a row of {table} is not the same in both; the store that was moved is as it was"
                )
            total += 1
            if compared and total % _CHUNK == 0:
                compared(total)
