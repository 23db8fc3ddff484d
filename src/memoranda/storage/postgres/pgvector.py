"""pgvector switched on and off in a store on PostgreSQL: as its tables are made, by whom they belong to."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import psycopg
from psycopg import errors

from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.database import Row
from memoranda.storage.engine.queries import load_migrations
from memoranda.storage.postgres.clear_vectors import ClearVectors
from memoranda.storage.postgres.server import MIGRATING, open_connection, translated

_BEGIN: Final = (
    f"SELECT set_config('memoranda.system', 'on', true), pg_advisory_xact_lock({MIGRATING})"
)
_IS_MADE: Final = "SELECT to_regclass('clear_progress') IS NOT NULL"
_IS_READ_ONLY: Final = "SELECT current_setting('transaction_read_only') = 'on'"
_OFFERED: Final = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
# Not where our tables are: one of them has the name of its type.
_MADE: Final = (
    "CREATE SCHEMA IF NOT EXISTS pgvector; CREATE EXTENSION IF NOT EXISTS vector SCHEMA pgvector; "
    "GRANT USAGE ON SCHEMA pgvector TO PUBLIC"
)
_WHERE: Final = """
SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""
# The first version that has it is 0.7.
_HAS_HALVES: Final = "SELECT to_regtype('halfvec') IS NOT NULL"
_WANTED: Final = (
    "INSERT INTO clear_progress (model_id, place, filled) VALUES (0, 0, 1) ON CONFLICT DO NOTHING"
)
# The first is the one that readers ask first: whoever has read it is waited for.
_EMPTY: Final = "TRUNCATE clear_progress, clear_vector"

_OR_NOT: Final = "or set vector_search to process"
_MISSING: Final = (
    "vector_search is pgvector, but this PostgreSQL has no pgvector: install 0.7 or later on its server "
    f"(on Debian, postgresql-NN-pgvector), {_OR_NOT}"
)
_FORBIDDEN: Final = (
    "vector_search is pgvector, and only a superuser may add that to this database: "
    f"let one call `{_MADE}`, {_OR_NOT}"
)
_OLD: Final = f"vector_search is pgvector, but the one in this database is older than 0.7: update it, {_OR_NOT}"


def clear_vectors(
    raw: psycopg.Connection[Row], *, is_wanted: bool, is_read_only: bool
) -> ClearVectors | None:
    """The vectors in clear of a database; made if they are wanted and nothing forbids it. None: there are none."""
    if is_wanted and not is_read_only:
        _add_extension(raw)
    where = raw.execute(_WHERE).fetchone()
    path = "" if where is None else _path(raw, where[0])
    if is_wanted and path:
        raw.execute(path)
    if is_wanted and not is_read_only:
        _make_tables(raw)
    if raw.execute(_IS_MADE).fetchone() != (True,):
        return None
    return ClearVectors(is_wanted=is_wanted, path=path)


def _path(raw: psycopg.Connection[Row], schema: str) -> str:
    """What lets a connection find the types and operators behind everything that it finds already."""
    (found,) = raw.execute("SELECT current_setting('search_path')").fetchone() or ("",)
    quoted = schema.replace('"', '""')
    return f'SET search_path = {found}, "{quoted}"'


def _add_extension(raw: psycopg.Connection[Row]) -> None:
    if raw.execute(_WHERE).fetchone() is not None:
        return
    if raw.execute(_OFFERED).fetchone() is None:
        raise StoreUnavailable(_MISSING)
    try:
        with raw.transaction():
            raw.execute(_BEGIN)
            raw.execute(_MADE)
    except errors.InsufficientPrivilege as error:
        raise StoreUnavailable(_FORBIDDEN) from error


def _make_tables(raw: psycopg.Connection[Row]) -> None:
    if raw.execute(_HAS_HALVES).fetchone() != (True,):
        raise StoreUnavailable(_OLD)
    with raw.transaction():
        raw.execute(_BEGIN)
        if raw.execute(_IS_MADE).fetchone() != (True,):
            for _, sql in load_migrations("pgvector"):
                raw.execute(sql)
        raw.execute(_WANTED)


def switch_off(address: str) -> bool:
    """Remove the vectors in clear of a store, if it has any and can be written; whether it had."""
    with translated(), closing(open_connection(address).raw) as raw:
        if raw.execute(_IS_MADE).fetchone() != (True,) or raw.execute(_IS_READ_ONLY).fetchone() == (
            True,
        ):
            return False
        with raw.transaction():
            raw.execute(_BEGIN)
            (is_wanted,) = raw.execute("SELECT count(*) > 0 FROM clear_progress").fetchone() or (
                False,
            )
            if is_wanted:
                raw.execute(_EMPTY)
        return bool(is_wanted)
