"""The upgrade of SQLite files: all pending migrations in one transaction, after a backup.

A file holds the number of its last migration in `user_version`. The process that takes the write lock first upgrades
the file; others wait. If it fails or is killed, SQLite rolls everything back, and the next process starts again.

What `migrate` decides, in this order: an empty file gets all tables; a file of this version is used if its layout
digest is ours; an older one is checked against the schema that its number promises, backed up, upgraded and checked
again; a newer one, one of another build and a foreign file are refused with a sentence that says what to do. Nothing is
written before all checks have passed. Upgrade code runs on real data of people and cannot be repeated, so it is tested
with stores of every released version (`tests/upgrades`). How to add a step: docs/howto/add-a-migration.md.
"""

from __future__ import annotations

import contextlib
import glob
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.storage.engine.migrations import (
    Migration,
    Predecessor,
    layout,
    load_predecessors,
    newest_number,
    pending_migrations,
    refusal_of_newer,
    write_version,
)
from memoranda.storage.sqlite.file import open_to_read, sqlite_errors
from memoranda.storage.sqlite.schema import find_differences, find_programs, schema_digest

# Is called with the number of a store before it is upgraded, while its tables cannot change.
BeforeUpgrade = Callable[[int], None]

# Marks a file as ours ("Memo").
APPLICATION_ID: Final = 0x4D656D6F
# For one day in November 2026, migration 1 was changed in place to the tables of migration 2.
_ALSO_NUMBERS: Final = {1: (2,)}

_OTHER_BUILD: Final = (
    "this store was made by another build of Memoranda, whose tables are different: "
    "export it with that build (`memoranda export all.mg`) and import it here into a new data directory"
)

_PROGRAM: Final = (
    "this database has a {}, which is not Memoranda's and may change or keep what is written: "
    "use a backup that you made yourself"
)

_log = logging.getLogger(__name__)


def backup_before(database: Path, number: int) -> Path:
    """Return the path of the backup that is written before a database with a number is upgraded."""
    return database.with_name(f"{database.name}-before-{number}.backup")


def remove_backups(database: Path) -> None:
    """Delete the backups before upgrades: they hold what is erased now."""
    for path in database.parent.glob(f"{glob.escape(database.name)}-before-*.backup"):
        with contextlib.suppress(OSError):
            path.unlink()


def migrate(raw: apsw.Connection, before_upgrade: BeforeUpgrade | None = None) -> None:
    """Bring the tables up to date. Raises StoreUnavailable for a newer store, and for one that cannot be upgraded.

    `before_upgrade` writes the backup. It runs inside the transaction that holds the write lock, so the backup has
    exactly the state that is upgraded; if it raises, nothing is changed.
    """
    newest = newest_number("sqlite")
    present = read_number(raw)
    if present == newest:
        _refuse_other_layout(raw)
        return
    if 0 < present < newest and raw.readonly("main"):
        raise StoreUnavailable(
            "this store was written by an earlier Memoranda, and its tables have to be upgraded; "
            "open it once where the database and its folder can be written"
        )
    _begin(raw, is_upgrade=0 < present < newest)
    try:
        _refuse_foreign_file(raw, newest)
        present = read_number(raw)
        if 0 < present < newest:
            predecessors = _identify(raw, present)
            if before_upgrade is not None:
                before_upgrade(present)
            for predecessor in predecessors:
                raw.execute(predecessor.sql)
        _run(raw, present)
        if 0 < present < newest and (differences := find_differences(raw)):
            raise StoreCorrupt(f"the upgrade made other tables than expected: {differences[0]}")
        _complete(raw, newest)
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
    if 0 < present < newest:
        _log.warning("the store was upgraded from layout %d to %d", present, newest)


def migrate_ring(raw: apsw.Connection) -> None:
    """Bring the tables of a key ring up to date. Raises StoreUnavailable for a newer one."""
    newest = newest_number("keyring")
    if read_number(raw) == newest:
        return
    if raw.readonly("main"):
        return  # The tables of 1 are those of a ring without a number.
    raw.execute("BEGIN IMMEDIATE")
    try:
        present = read_number(raw)
        _refuse_newer(present, newest)
        for migration in pending_migrations("keyring", present):
            raw.execute(migration.sql)
        raw.execute(f"PRAGMA user_version = {newest}")
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise


def check_file(path: Path) -> None:
    """Raise an error unless this version can open or upgrade a file that nobody uses, and its schema is ours."""
    with sqlite_errors(), contextlib.closing(open_to_read(path)) as raw:
        _refuse_foreign_file(raw, newest_number("sqlite"))
        _identify(raw, read_number(raw))


def check_ring_file(path: Path) -> None:
    """Raise an error unless this version can open a key ring that nobody uses, and its schema is ours."""
    with sqlite_errors(), contextlib.closing(open_to_read(path)) as raw:
        number = read_number(raw)
        _refuse_newer(number, newest_number("keyring"))
        # Rings of builds before 1.0 have no number.
        if differences := find_differences(raw, "keyring", max(1, number)):
            raise StoreCorrupt(f"the key ring is not Memoranda's ({differences[0]})")


def read_number(raw: apsw.Connection) -> int:
    """Return the number of the last migration of a file; 0 for an empty file."""
    return _pragma(raw, "user_version")


def _begin(raw: apsw.Connection, *, is_upgrade: bool) -> None:
    try:
        raw.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        if not is_upgrade:
            raise
        raise StoreUnavailable(
            "this store has to be upgraded, and another process is using or upgrading it: "
            "stop servers of the earlier version, or wait until the upgrade is done, and try again"
        ) from None


def _run(raw: apsw.Connection, present: int) -> None:
    migrations = pending_migrations("sqlite", present)
    for position, migration in enumerate(migrations, start=1):
        if present:
            _log.warning(
                "upgrading the store: step %d of %d (%s)",
                position,
                len(migrations),
                migration.name.replace("_", " "),
            )
        _run_one(raw, migration)


def _complete(raw: apsw.Connection, newest: int) -> None:
    raw.execute(f"PRAGMA user_version = {newest}; PRAGMA application_id = {APPLICATION_ID}")
    for name, value in (("layout", layout("sqlite")), ("version", write_version())):
        raw.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))
    raw.execute("COMMIT")


def _run_one(raw: apsw.Connection, migration: Migration) -> None:
    raw.execute(migration.sql)
    while migration.kind == "fill" and raw.changes():
        raw.execute(migration.sql)


def _identify(raw: apsw.Connection, present: int) -> tuple[Predecessor, ...]:
    """Return the steps from the tables of a file to migration 1, usually none.

    Raises StoreUnavailable if the tables are not ours.

    The number alone is not trusted: development builds had tables that differ from any release.
    """
    numbers = (present, *_ALSO_NUMBERS.get(present, ()))
    if any(not find_differences(raw, number=number) for number in numbers):
        return ()
    predecessors = load_predecessors("sqlite") if present == 1 else ()
    digests = [predecessor.layout for predecessor in predecessors]
    digest = schema_digest(raw)
    if digest not in digests and (programs := find_programs(raw)):
        raise StoreCorrupt(_PROGRAM.format(programs[0]))
    if digest not in digests:
        raise StoreUnavailable(f"{_OTHER_BUILD} ({find_differences(raw, number=present)[0]})")
    return predecessors[digests.index(digest) :]


def _refuse_foreign_file(raw: apsw.Connection, newest: int) -> None:
    present = read_number(raw)
    tables = raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if _pragma(raw, "application_id") != APPLICATION_ID and tables != (0,):
        raise StoreCorrupt("this file is an SQLite database, but not one of Memoranda's")
    if present < 1 and tables != (0,):
        raise StoreCorrupt("the database file is damaged: it does not say which layout it has")
    _refuse_newer(present, newest, _read_meta(raw, "version"))


def _refuse_newer(present: int, newest: int, version: bytes | None = None) -> None:
    if present > newest:
        raise StoreUnavailable(refusal_of_newer(present, newest, version))


def _refuse_other_layout(raw: apsw.Connection) -> None:
    """Raise an error unless the tables are those of our migrations, without programs of others."""
    if _read_meta(raw, "layout") != layout("sqlite"):
        raise StoreUnavailable(_OTHER_BUILD)
    if programs := find_programs(raw):
        raise StoreCorrupt(_PROGRAM.format(programs[0]))


def _read_meta(raw: apsw.Connection, name: str) -> bytes | None:
    try:
        row = raw.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    except apsw.SQLError:
        return None
    return row[0] if row is not None and isinstance(row[0], bytes) else None


def _pragma(raw: apsw.Connection, name: str) -> int:
    row = raw.execute(f"PRAGMA {name}").fetchone()
    return int(row[0]) if row else 0
