"""The database and the keys that the settings name. No other module above `storage/` knows how they are opened.

The modules of PostgreSQL are imported for a store on PostgreSQL alone: their driver is optional, and slow to load.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from memoranda.errors import InvalidInput, StoreUnavailable
from memoranda.keys import MasterKeyFile, operator_key
from memoranda.settings import Settings, is_postgres, sqlite_path
from memoranda.storage.crypto.cipher import Cipher, NoCipher, RingCipher
from memoranda.storage.crypto.key_ring import KeyRing
from memoranda.storage.engine.database import Database
from memoranda.storage.engine.moving import TableStore, move
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.keys import SqliteKeyRing

if TYPE_CHECKING:
    pass

MASTER_KEY_FILE = "master.key"
KEY_RING_FILE = "memoranda.keys"


def open_database(settings: Settings) -> Database:
    """Open the database, and create it if it is missing; the folder of a file must exist. Raises StoreUnavailable."""
    refuses = settings.audit_unwritable == "refuse"
    is_clear = settings.vector_search == "pgvector"
    if settings.address is None:
        if is_clear:
            raise InvalidInput(
                "vector_search is pgvector, which only a store on PostgreSQL supports: set it to process"
            )
        return SqliteDatabase(settings.database_path, refuses_unrecorded=refuses)
    # Loaded only for a store that needs it.
    try:
        from memoranda.storage.postgres.database import PostgresDatabase
    except ImportError as error:
        raise StoreUnavailable(
            "a store on PostgreSQL needs psycopg: pip install 'memoranda[postgres]'"
        ) from error
    return PostgresDatabase(
        settings.address, refuses_unrecorded=refuses, has_clear_vectors=is_clear
    )


def settle_vectors(settings: Settings) -> bool:
    """Remove unencrypted vectors that the settings no longer allow; return True if there were any."""
    if settings.address is None or settings.vector_search == "pgvector":
        return False
    try:
        from memoranda.storage.postgres.pgvector import switch_off
    except ImportError:
        # Ignored here: opening the store raises the same error.
        return False
    return switch_off(settings.address)


def open_cipher(settings: Settings) -> Cipher:
    """Open the key ring of a store, even if new documents are not encrypted: older ones may be."""
    ring: KeyRing
    if settings.address is not None:
        from memoranda.storage.postgres.keys import PostgresKeyRing

        ring, master = PostgresKeyRing(settings.address), settings.home / MASTER_KEY_FILE
        return RingCipher(
            ring,
            MasterKeyFile(master),
            settings.coverage,
            lambda: operator_key(settings.home).derive(b"master handover"),
        )
    path = (
        None if settings.database_path is None else settings.database_path.with_name(KEY_RING_FILE)
    )
    if settings.coverage is None and (path is None or not path.exists()):
        return NoCipher()
    return RingCipher(
        SqliteKeyRing(path), MasterKeyFile(_master(settings, path)), settings.coverage
    )


def move_store(
    source: str,
    target: str,
    *,
    copied: Callable[[int], None] | None = None,
    compared: Callable[[int], None] | None = None,
) -> int:
    """Copy a store to an empty database and compare all rows; return their number."""
    with closing(_tables(source)) as origin, closing(_tables(target, is_target=True)) as copy:
        return move(origin, copy, copied=copied, compared=compared)


def copy_to_file(
    settings: Settings,
    database: Path,
    *,
    copied: Callable[[int], None] | None = None,
    compared: Callable[[int], None] | None = None,
) -> None:
    """Copy a snapshot of a store on PostgreSQL to an SQLite file, with the key ring and the master key next to it."""
    assert settings.address is not None
    with closing(open_cipher(settings)) as cipher:
        # Adds master keys made on other machines to our file.
        cipher.reload()
    with closing(_postgres_tables(settings.address, is_moment=True)) as origin:
        master, ring = database.with_name(MASTER_KEY_FILE), database.with_name(KEY_RING_FILE)
        if (settings.home / MASTER_KEY_FILE).exists():
            shutil.copy2(settings.home / MASTER_KEY_FILE, master)
        with closing(_tables(f"sqlite:///{database}", is_target=True)) as copy:
            move(origin, copy, copied=copied, compared=compared)
    with closing(SqliteKeyRing(ring)) as keys:
        used = keys.master_versions()
    if used is not None and not all(MasterKeyFile(master).has(version) for version in used):
        raise StoreUnavailable("the master key was rotated during the backup; start it again")


def _tables(url: str, *, is_target: bool = False) -> TableStore:
    """Open the tables of a store for copying."""
    if is_postgres(url):
        return _postgres_tables(url)
    # Imported here: only a copy of a store needs it.
    from memoranda.storage.sqlite.copying import SqliteTables

    path = sqlite_path(url)
    if path is None:
        raise InvalidInput("a store in memory cannot be copied")
    return SqliteTables(path, path.with_name(KEY_RING_FILE), is_target=is_target)


def _postgres_tables(address: str, *, is_moment: bool = False) -> TableStore:
    """Open the tables of a store on PostgreSQL; `is_moment`: all reads see one moment."""
    from memoranda.storage.postgres.moving import PostgresTables

    return PostgresTables(address, is_moment=is_moment)


def _master(settings: Settings, ring: Path | None) -> Path | None:
    """Return the file of the master keys; None if the key ring is in memory."""
    return None if ring is None else settings.home / MASTER_KEY_FILE
