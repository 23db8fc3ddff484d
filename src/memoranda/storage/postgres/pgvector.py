"""Unencrypted vectors that PostgreSQL stores and compares itself (`vector_search = pgvector`, sql/pgvector).

They are copies of the stored vectors, which may be encrypted. Copies are made in the order of the positions of vectors,
so one number per model says how far the copying has come. A process reads where the copies of a tenant stand, but not
their numbers. Every search compares all vectors of the owner, without an approximate index, so it finds the same as a
comparison in the process, with any filter.

This module sets up the extension and the tables, and copies vectors. `clear_matrix` compares them; it is imported
inside functions, because most commands use no vectors and NumPy takes long to import.

Choosing pgvector is a decision of the operator, because it stores vectors unencrypted: a reader of the database could
guess the topics of texts. `switch_off` deletes all copies when the setting is changed back. Erasing a version deletes
its copy in the same transaction, by a trigger on the table of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors

from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.database import Connection, Row
from memoranda.storage.engine.migrations import load_migrations
from memoranda.storage.index.vector_queue import ClearCopies
from memoranda.storage.postgres.migrating import MIGRATING
from memoranda.storage.postgres.server import open_connection, postgres_errors

if TYPE_CHECKING:
    from memoranda.retrieval.entry import StoredVector
    from memoranda.retrieval.vectors import VectorPositions
    from memoranda.storage.postgres.clear_matrix import ClearMatrix

# Vectors that are copied in one unit of work.
COPIED_LIMIT: Final = 512


class ClearVectors:
    """The table of unencrypted vectors of a database."""

    def __init__(self, *, is_wanted: bool, path: str) -> None:
        """Describe the table of a database that has one.

        `is_wanted`: this process is set to use it. `path`: a statement that every new connection runs first, so that it
        finds pgvector's types and operators.
        """
        self.is_wanted, self.path = is_wanted, path

    def model(self, connection: Connection, name: str) -> tuple[int | None, bool]:
        """Return the id of a model, or None, and True if all its vectors were copied once."""
        row = connection.query_one("clear_model", {"name": name})
        return (None, False) if row is None else (row[0], bool(row[1]))

    def follow(
        self, connection: Connection, tenant_id: int, model_id: int, positions: VectorPositions
    ) -> None:
        """Append the positions of vectors that were copied since the last read."""
        from memoranda.storage.postgres.clear_matrix import VectorSet, read_new_positions

        vector_set = VectorSet(tenant_id, model_id, positions.dimensions)
        read_new_positions(connection, vector_set, positions)

    def counts(self, connection: Connection) -> ClearCopies:
        """Return the numbers of copies, of vectors, and of copies whose vector is gone."""
        ((copies, vectors, orphans, version),) = connection.query("clear_counts", {})
        return ClearCopies(copies, vectors, orphans, version or "", self.is_wanted)

    def is_behind(self, connection: Connection, name: str) -> bool:
        """Return True if vectors of a model are still to be copied."""
        return bool(connection.query("clear_is_behind", {"name": name}))

    def copy(
        self,
        connection: Connection,
        model_id: int,
        open_rows: Callable[[Sequence[Row]], list[StoredVector]],
    ) -> bool:
        """Copy the next vectors of a model, decrypted by `open_rows`; return False if the copies were switched off.

        The caller has locked the row of the model, so vectors are copied in the order of their positions.

        Called in the transaction that stores vectors, and by a background job until old vectors are copied. `filled`
        becomes true with the first batch that is not full; before that, searches compare in the process.
        """
        progress = connection.query("clear_progress", {"model_id": model_id})
        if not progress:
            return False
        ((after, is_filled),) = progress
        rows = connection.query(
            "clear_next", {"model_id": model_id, "after": after, "limit": COPIED_LIMIT}
        )
        for (tenant_id, _, _, _, _, key_id, *_), stored_vector in zip(
            rows, open_rows([row[1:] for row in rows]), strict=True
        ):
            self._add(connection, model_id, tenant_id, key_id, stored_vector)
        last = rows[-1][2] if rows else after
        is_filled = is_filled or len(rows) < COPIED_LIMIT
        connection.execute(
            "clear_progress_put", {"model_id": model_id, "place": last, "filled": int(is_filled)}
        )
        return True

    def _add(
        self,
        connection: Connection,
        model_id: int,
        tenant_id: int,
        key_id: str | None,
        stored_vector: StoredVector,
    ) -> None:
        """Add the copy of a vector, unless it was erased, or its two vectors have different sizes."""
        from memoranda.storage.postgres.clear_matrix import encode_stored_vector

        second_data = stored_vector.context_data if stored_vector.context_id >= 0 else None
        if (
            not stored_vector.version_id
            or not stored_vector.data
            or (second_data is not None and len(second_data) != len(stored_vector.data))
        ):
            return
        scale, size, own_bytes = encode_stored_vector(stored_vector.data)
        second_scale, second = None, None
        if second_data is not None:
            second_scale, _, second = encode_stored_vector(second_data)
        connection.execute(
            "clear_add",
            {
                "tenant_id": tenant_id,
                "model_id": model_id,
                "place": stored_vector.position,
                "version_id": stored_vector.version_id,
                "context_id": stored_vector.context_id,
                "key_id": key_id,
                "size": size,
                "scale": scale,
                "own": own_bytes,
                "second_scale": second_scale,
                "second": second,
            },
        )

    def drop(self, connection: Connection, model_id: int) -> None:
        """Delete the progress of a model that is not used any more. Its copies were deleted with its vectors."""
        connection.execute("clear_progress_drop", {"model_id": model_id})

    def matrix(
        self, connection: Connection, tenant_id: int, model_id: int, positions: VectorPositions
    ) -> ClearMatrix:
        """Return the vectors of a tenant, for one search."""
        from memoranda.storage.postgres.clear_matrix import ClearMatrix, VectorSet

        vector_set = VectorSet(tenant_id, model_id, positions.dimensions)
        return ClearMatrix(connection, vector_set, positions)


_BEGIN: Final = (
    f"SELECT set_config('memoranda.system', 'on', true), pg_advisory_xact_lock({MIGRATING})"
)
_HAS_TABLES: Final = "SELECT to_regclass('clear_progress') IS NOT NULL"
_IS_READ_ONLY: Final = "SELECT current_setting('transaction_read_only') = 'on'"
_IS_AVAILABLE: Final = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
# A schema of its own: one of our tables has the name of pgvector's type.
_CREATE_EXTENSION: Final = (
    "CREATE SCHEMA IF NOT EXISTS pgvector; CREATE EXTENSION IF NOT EXISTS vector SCHEMA pgvector; "
    "GRANT USAGE ON SCHEMA pgvector TO PUBLIC"
)
_SCHEMA: Final = """
SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""
# pgvector has this type since version 0.7.
_HAS_HALFVEC: Final = "SELECT to_regtype('halfvec') IS NOT NULL"
# The row that records that copies are wanted.
_SWITCH_ON: Final = (
    "INSERT INTO clear_progress (model_id, place, filled) VALUES (0, 0, 1) ON CONFLICT DO NOTHING"
)
# clear_progress is first, as in readers' queries: TRUNCATE waits for its readers before it locks the other table.
_EMPTY: Final = "TRUNCATE clear_progress, clear_vector"

_ALTERNATIVE: Final = "or set vector_search to process"
_MISSING: Final = (
    "vector_search is pgvector, but this PostgreSQL has no pgvector: install 0.7 or later on its server "
    f"(on Debian, postgresql-NN-pgvector), {_ALTERNATIVE}"
)
_FORBIDDEN: Final = (
    "vector_search is pgvector, and only a superuser may add that to this database: "
    f"let one call `{_CREATE_EXTENSION}`, {_ALTERNATIVE}"
)
_OLD: Final = f"vector_search is pgvector, but the one in this database is older than 0.7: update it, {_ALTERNATIVE}"


def open_clear_vectors(
    raw: psycopg.Connection[Row], *, is_wanted: bool, is_read_only: bool
) -> ClearVectors | None:
    """Return the unencrypted vectors of a database, or None if it has none.

    Creates them if they are wanted and the database can be written. Raises StoreUnavailable.

    A standby can use copies that exist, and cannot make any. The messages tell an operator who may not create
    extensions which statement a superuser has to run.
    """
    if is_wanted and not is_read_only:
        _add_extension(raw)
    row = raw.execute(_SCHEMA).fetchone()
    path = "" if row is None else _search_path(raw, row[0])
    if is_wanted and path:
        raw.execute(path)
    if is_wanted and not is_read_only:
        _make_tables(raw)
    if raw.execute(_HAS_TABLES).fetchone() != (True,):
        return None
    return ClearVectors(is_wanted=is_wanted, path=path)


def _search_path(raw: psycopg.Connection[Row], schema: str) -> str:
    """Return a statement that adds pgvector's schema to the end of the search path."""
    (current_path,) = raw.execute("SELECT current_setting('search_path')").fetchone() or ("",)
    quoted = schema.replace('"', '""')
    return f'SET search_path = {current_path}, "{quoted}"'


def _add_extension(raw: psycopg.Connection[Row]) -> None:
    if raw.execute(_SCHEMA).fetchone() is not None:
        return
    if raw.execute(_IS_AVAILABLE).fetchone() is None:
        raise StoreUnavailable(_MISSING)
    try:
        with raw.transaction():
            raw.execute(_BEGIN)
            raw.execute(_CREATE_EXTENSION)
    except errors.InsufficientPrivilege as error:
        raise StoreUnavailable(_FORBIDDEN) from error


def _make_tables(raw: psycopg.Connection[Row]) -> None:
    if raw.execute(_HAS_HALFVEC).fetchone() != (True,):
        raise StoreUnavailable(_OLD)
    with raw.transaction():
        raw.execute(_BEGIN)
        if raw.execute(_HAS_TABLES).fetchone() != (True,):
            for migration in load_migrations("pgvector"):
                raw.execute(migration.sql)
        raw.execute(_SWITCH_ON)


def switch_off(address: str) -> bool:
    """Delete the unencrypted vectors of a store that can be written; return True if it had any."""
    with postgres_errors(), closing(open_connection(address).raw) as raw:
        has_tables = raw.execute(_HAS_TABLES).fetchone() == (True,)
        if not has_tables or raw.execute(_IS_READ_ONLY).fetchone() == (True,):
            return False
        with raw.transaction():
            raw.execute(_BEGIN)
            (is_wanted,) = raw.execute("SELECT count(*) > 0 FROM clear_progress").fetchone() or (
                False,
            )
            if is_wanted:
                raw.execute(_EMPTY)
        return bool(is_wanted)
