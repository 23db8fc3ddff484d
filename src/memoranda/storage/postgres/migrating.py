"""The upgrade of a store on PostgreSQL, while nodes of the version before may serve it.

`migrate` creates or upgrades the tables when a node opens the store: the migrations up to the last `expand`, each in a
transaction of its own. `continue_upgrade` runs one step of the rest; the elected node of a server calls it until
nothing is left. The table `meta` holds the progress:

    schema       the number of the last completed migration
    layout       the digest of the migrations up to it
    compatible   the number of the last completed `contract`; a version without that migration cannot use the tables

So a node opens a store with a higher number than its own, unless `compatible` is higher, too. Every step runs under one
advisory lock and reads the number again, so that it is done once. A node that is killed leaves the last completed step.

A `contract` runs only while no node without it is connected. Every connection has the number of its version in its
application name. A node that opens a store takes a lock, shared, while it reads `compatible`, and a `contract` takes
the same lock before it looks for older nodes: so a node is seen, or it sees the contract.

A rolling upgrade goes like this: the first new node runs the `expand` migrations, after which old and new nodes work on
the same tables; the elected new node fills new columns and builds indexes in the background; when the last old node has
gone, the `contract` migrations remove what only the old version needed. Tests: `tests/upgrades/rolling.py`. Rules: a
step must be possible to repeat, because the connection may be lost after the work and before it is recorded; and it
must take its locks within _LOCK_SECONDS, because requests wait behind it.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress
from typing import Final, NamedTuple

import psycopg
from psycopg import errors

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.storage.engine.database import Row
from memoranda.storage.engine.migrations import (
    Migration,
    layout,
    load_migrations,
    load_predecessors,
    newest_number,
    pending_migrations,
    refusal_of_newer,
    required_number,
    write_version,
)

# The advisory lock of the process that creates or changes the tables, and that of nodes which open the store; no other
# program is likely to use these numbers.
MIGRATING: Final = 0x4D656D6F
_OPENING: Final = MIGRATING + 1
# Seconds that a step waits for the locks of its tables. Requests queue behind it, so it gives up soon and tries again.
_LOCK_SECONDS: Final = 1
# Seconds until a node that opens the store gives up, and between two of its attempts.
_PATIENCE_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 0.1
# The end of every application name: `application_name` adds it.
_SUFFIX: Final = re.compile(r"\(layout (\d+)\)$")
# PostgreSQL cuts longer names.
_NAME_BYTES: Final = 63

_STATE: Final = """
SELECT current_setting('server_encoding'),
  pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',
  to_regclass('meta') IS NOT NULL,
  (SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()), current_schema()
"""
_SYSTEM: Final = "SELECT set_config('memoranda.system', 'on', true)"
_META: Final = "SELECT name, value FROM meta WHERE name IN ('schema', 'layout', 'compatible', 'moving', 'version')"
_PUT: Final = "INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_OTHERS: Final = """
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (application_name LIKE 'memoranda%' OR application_name ~ '\\(layout [0-9]+\\)$')
"""
_INVALID_INDEXES: Final = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace
"""

# PostgreSQL creates a type with the name of each table.
_TYPE_EXISTS: Final = (
    "this schema has a type that is named as one of our tables, of pgvector perhaps: make the store in a schema of its "
    "own, or move that (ALTER EXTENSION vector SET SCHEMA …)"
)
_OTHER_BUILD: Final = (
    "this store was made by another build of Memoranda, whose tables are different: "
    "export it with that build (`memoranda export all.mg`) and import it here into a new database"
)

_log = logging.getLogger(__name__)


class _Progress(NamedTuple):
    """The progress of a store as its table `meta` has it."""

    number: int
    layout: bytes | None
    compatible: int
    is_moving: bool
    version: bytes | None


def application_name(name: str) -> str:
    """Return the name of a connection with the number of this version behind it."""
    suffix = f" (layout {newest_number('postgres')})"
    shortened_name = name.encode()[: _NAME_BYTES - len(suffix)].decode(errors="ignore")
    return f"{shortened_name}{suffix}"


def migrate(raw: psycopg.Connection[Row], *, may_be_moving: bool = False) -> bool:
    """Create the tables, or upgrade them as far as this version needs; return True if the database is read-only.

    If several processes start together, one of them does it and the others wait.
    """
    encoding, is_read_only, has_store, _, schema = _only(raw.execute(_STATE))
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the encoding of this database is {encoding}; make one with ENCODING 'UTF8'"
        )
    if not has_store:
        if schema is None or is_read_only:
            raise StoreUnavailable("there is no store in this database, and none can be made in it")
        _create(raw)
    progress = _open(raw, may_be_moving=may_be_moving)
    if progress.number < required_number("postgres"):
        if is_read_only:
            raise StoreUnavailable(
                "this store was written by an earlier Memoranda, and its tables have to be upgraded; "
                "open it once where the database can be written"
            )
        _upgrade(raw)
    return bool(is_read_only)


def continue_upgrade(raw: psycopg.Connection[Row]) -> bool:
    """Run one step of the next migration; return True if another step can follow now.

    False means that nothing is left, or that the step must wait for a lock or for older nodes; ask again later.
    """
    with raw.transaction():
        progress = _read_progress(raw)
    pending = pending_migrations("postgres", progress.number)
    if not pending:
        return False
    if pending[0].kind == "index":
        return _build_index(raw, pending[0])
    try:
        with raw.transaction():
            return _take_lock(raw) and _run_step(raw)
    except errors.LockNotAvailable:
        return False


def is_upgraded(raw: psycopg.Connection[Row]) -> bool:
    """Return True if no migration of this version is left."""
    with raw.transaction():
        return _read_progress(raw).number >= newest_number("postgres")


def _create(raw: psycopg.Connection[Row]) -> None:
    with raw.transaction():
        raw.execute(f"SELECT pg_advisory_xact_lock({MIGRATING})")
        _, _, has_store, tables, _ = _only(raw.execute(_STATE))
        if has_store:
            return
        if tables:
            raise StoreCorrupt("this database has tables, but they are not Memoranda's")
        try:
            for migration in load_migrations("postgres"):
                # The tables are empty: there is nothing to fill, and nobody to wait for.
                if migration.kind != "fill":
                    raw.execute(migration.sql.replace("CONCURRENTLY", ""))
        except errors.DuplicateObject as error:
            raise StoreUnavailable(_TYPE_EXISTS) from error
        raw.execute(_SYSTEM)
        for migration in load_migrations("postgres"):
            _complete(raw, migration)


def _open(raw: psycopg.Connection[Row], *, may_be_moving: bool) -> _Progress:
    """Return the progress of a store. Raises StoreUnavailable if this version cannot use or upgrade it."""
    with raw.transaction():
        raw.execute(f"SELECT pg_advisory_xact_lock_shared({_OPENING})")
        progress = _read_progress(raw)
    newest = newest_number("postgres")
    if progress.is_moving and not may_be_moving:
        raise StoreUnavailable(
            "this store is incomplete: run `memoranda migrate-store` again, which continues the copy"
        )
    if progress.compatible > newest:
        raise StoreUnavailable(refusal_of_newer(progress.number, newest, progress.version))
    # Tables with a higher number only have more than ours.
    if progress.number <= newest and progress.layout not in _known_layouts(progress.number):
        raise StoreUnavailable(_OTHER_BUILD)
    return progress


def _known_layouts(number: int) -> set[bytes]:
    if number == 0:
        return {predecessor.layout for predecessor in load_predecessors("postgres")}
    return {layout("postgres", number)}


def _read_progress(raw: psycopg.Connection[Row]) -> _Progress:
    raw.execute(_SYSTEM)
    meta: dict[str, bytes] = dict(raw.execute(_META).fetchall())
    number, digest = int(meta.get("schema", b"0")), meta.get("layout")
    # Layouts before migration 1 have its number.
    if number == 1 and digest in _known_layouts(0):
        number = 0
    return _Progress(
        number,
        digest,
        int(meta.get("compatible", b"0")),
        "moving" in meta,
        meta.get("version"),
    )


# --- steps -----------------------------------------------------------------------------------------------------


def _upgrade(raw: psycopg.Connection[Row]) -> None:
    """Run all steps that this version needs before it can use the store."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    required = required_number("postgres")
    while True:
        with raw.transaction():
            before = _read_progress(raw)
        if before.number >= required:
            return
        if continue_upgrade(raw):
            deadline = time.monotonic() + _PATIENCE_SECONDS
        elif time.monotonic() > deadline:
            raise StoreUnavailable(
                "the store could not be upgraded: its tables were in use, or servers of an earlier version still run; "
                "stop them and try again"
            )
        else:
            time.sleep(_RETRY_SECONDS)


def _take_lock(raw: psycopg.Connection[Row]) -> bool:
    """Take the lock of migrations until the transaction ends; return False if another process has it.

    Polled: a waiting transaction would keep an index from being built, which waits for all transactions.
    """
    (is_ours,) = _only(raw.execute(f"SELECT pg_try_advisory_xact_lock({MIGRATING})"))
    return bool(is_ours)


def _run_step(raw: psycopg.Connection[Row]) -> bool:
    """Run one step in a transaction that holds the lock; return False if it has to wait."""
    progress = _read_progress(raw)
    if _upgrade_predecessor(raw, progress):
        return True
    pending = pending_migrations("postgres", progress.number)
    if not pending or pending[0].kind == "index":
        return bool(pending)
    migration = pending[0]
    raw.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'; SET LOCAL statement_timeout = 0")
    if migration.kind == "contract":
        raw.execute(f"SELECT pg_advisory_xact_lock({_OPENING})")
        if _has_older_nodes(raw, migration.number):
            return False
    count = raw.execute(migration.sql).rowcount
    if migration.kind != "fill" or not count:
        _complete(raw, migration)
        _log.warning(
            "the store was upgraded to layout %d (%s)",
            migration.number,
            migration.name.replace("_", " "),
        )
    return True


def _upgrade_predecessor(raw: psycopg.Connection[Row], progress: _Progress) -> bool:
    """Bring tables that are older than migration 1 to its layout; return False if they are not."""
    if progress.number:
        return False
    predecessors = load_predecessors("postgres")
    layouts = [predecessor.layout for predecessor in predecessors]
    if progress.layout not in layouts:
        raise StoreUnavailable(_OTHER_BUILD)
    for predecessor in predecessors[layouts.index(progress.layout) :]:
        raw.execute(predecessor.sql)
    raw.execute(_PUT, ("layout", layout("postgres", 1)))
    return True


def _build_index(raw: psycopg.Connection[Row], migration: Migration) -> bool:
    """Run a migration outside a transaction; return False if another process holds the lock."""
    (is_ours,) = _only(raw.execute(f"SELECT pg_try_advisory_lock({MIGRATING})"))
    if not is_ours:
        return False
    try:
        # An attempt that was interrupted leaves an invalid index.
        for (name,) in raw.execute(_INVALID_INDEXES).fetchall():
            raw.execute(psycopg.sql.SQL("DROP INDEX {}").format(psycopg.sql.Identifier(name)))
        raw.execute("SET statement_timeout = 0")
        for statement in migration.sql.split(";\n"):
            if statement.strip():
                raw.execute(statement)
        with raw.transaction():
            raw.execute(_SYSTEM)
            _complete(raw, migration)
    finally:
        # A lost connection has lost both.
        with suppress(psycopg.OperationalError):
            raw.execute("RESET statement_timeout")
            raw.execute(f"SELECT pg_advisory_unlock({MIGRATING})")
    return True


def _complete(raw: psycopg.Connection[Row], migration: Migration) -> None:
    """Record that a migration is completed."""
    raw.execute(_PUT, ("schema", str(migration.number).encode()))
    raw.execute(_PUT, ("layout", layout("postgres", migration.number)))
    raw.execute(_PUT, ("version", write_version()))
    if migration.kind == "contract":
        raw.execute(_PUT, ("compatible", str(migration.number).encode()))


def _has_older_nodes(raw: psycopg.Connection[Row], number: int) -> bool:
    """Return True if a connection belongs to a version without the migration of a number.

    Connections of tools such as psql have other names and do not count.
    """
    names = [str(name) for (name,) in raw.execute(_OTHERS).fetchall()]
    return any(_layout_of(name) < number for name in names)


def _layout_of(name: str) -> int:
    """Return the number in the name of a connection; 0 for builds before 1.0, which named none."""
    suffix = _SUFFIX.search(name)
    return int(suffix[1]) if suffix else 0


def _only(cursor: psycopg.Cursor[Row]) -> Row:
    """Return the row of a query that always has one."""
    row = cursor.fetchone()
    assert row is not None
    return row
