"""A store moved to another database row by row, unchanged: ids, keys, audit log and everything else.

Every table is copied in the order of its key, a chunk of rows in each transaction. So the rows that are already in the
target are the first ones of the source, and an interrupted move goes on behind them. Then all rows of both are
compared. Until the move is finished nobody can open the target: see `begin` of each implementation of `TableStore`.

It brings a store from SQLite to PostgreSQL or back. Ids stay the same, so addresses, cursors and the audit chain remain
valid. A new table must be added to `TABLES` with a complete order (a unique key), otherwise a continued move would skip
or repeat rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, Protocol

from memoranda.errors import StoreCorrupt
from memoranda.storage.crypto.names import STARTED
from memoranda.storage.engine.database import Row

# Rows of one transaction, and bytes after which a transaction has fewer rows: they are held in memory at once.
_CHUNK: Final = 5_000
_CHUNK_BYTES: Final = 16 * 2**20

# Every table, and an order of its rows that is the same in every database.
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
# The rows of `meta` that describe a database itself, and are not copied.
OWN_META: Final = ("schema", "layout", "compatible", "moving", "version", STARTED)


class TableStore(Protocol):
    """A store as tables, to be read or filled by a move."""

    def begin(self) -> None:
        """Create the tables, or continue with those of an earlier attempt. Raises StoreUnavailable
        if there is a store.
        """
        ...

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        ...

    def count(self, table: str) -> int:
        """Return the number of a table's rows that are moved."""
        ...

    def rows(self, table: str, columns: Sequence[str], skipped: int = 0) -> Iterator[Row]:
        """Yield the rows of a table in the order of `TABLES`, without the first `skipped`."""
        ...

    def add(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Add rows, in one transaction."""
        ...

    def finish(self) -> None:
        """Mark the store as complete, so that it can be opened."""
        ...

    def close(self) -> None: ...


def move(
    source: TableStore,
    target: TableStore,
    *,
    copied: Callable[[int], None] | None,
    compared: Callable[[int], None] | None,
) -> int:
    """Copy all rows, compare them, and return their number. `copied` and `compared` get the number so far.

    Raises StoreCorrupt if a row differs after copying; the source is never changed, and the target is not marked as
    complete then.
    """
    target.begin()
    total = 0
    for table in TABLES:
        columns, total_before = source.columns(table), total
        total += target.count(table)
        rows = source.rows(table, columns, total - total_before)
        for chunk in _split_into_chunks(rows):
            target.add(table, columns, chunk)
            total += len(chunk)
            if copied:
                copied(total)
    _compare(source, target, compared)
    target.finish()
    return total


def _split_into_chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists of up to _CHUNK rows and about _CHUNK_BYTES bytes."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(chunk) == _CHUNK or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _compare(
    source: TableStore, target: TableStore, compared: Callable[[int], None] | None
) -> None:
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
