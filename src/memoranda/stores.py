"""Which database the settings name, and where the keys to it are: the one place above `storage/` that knows them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from memoranda.errors import InvalidInput, StoreUnavailable
from memoranda.keys import MasterKeyFile, operator_key
from memoranda.settings import Settings, is_postgres, sqlite_path
from memoranda.storage.cipher import Cipher, NoCipher, RingCipher
from memoranda.storage.database import Database
from memoranda.storage.key_ring import KeyRing, SqliteKeyRing
from memoranda.storage.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from memoranda.storage.moving import Tables

MASTER_KEY_FILE = "master.key"
KEY_RING_FILE = "memoranda.keys"


def open_database(settings: Settings) -> Database:
    """The database, made if it is missing; the folder of a file is there already."""
    refuses = settings.audit_unwritable == "refuse"
    is_clear = settings.vector_search == "pgvector"
    if settings.address is None:
        if is_clear:
            raise InvalidInput("vector_search is pgvector, but only a store on PostgreSQL has that: set it to process")
        return SqliteDatabase(settings.database_path, refuses_unrecorded=refuses)
    # Loaded only for a store that needs it.
    try:
        from memoranda.storage.postgres import PostgresDatabase
    except ImportError as error:
        raise StoreUnavailable("a store on PostgreSQL needs psycopg: pip install 'memoranda[postgres]'") from error
    return PostgresDatabase(settings.address, refuses_unrecorded=refuses, has_clear_vectors=is_clear)


def settle_vectors(settings: Settings) -> bool:
    """Remove vectors that a store has in clear though the settings do not want them; whether there were any."""
    if settings.address is None or settings.vector_search == "pgvector":
        return False
    try:
        from memoranda.storage.postgres_vectors import switch_off
    except ImportError:
        # To open the store will say so.
        return False
    return switch_off(settings.address)


def open_cipher(settings: Settings) -> Cipher:
    """The key ring of a store. It is opened even when nothing new is encrypted: something may be."""
    ring: KeyRing
    if settings.address is not None:
        from memoranda.storage.postgres_keys import PostgresKeyRing

        ring, master = PostgresKeyRing(settings.address), settings.home / MASTER_KEY_FILE
        return RingCipher(
            ring,
            MasterKeyFile(master),
            settings.coverage,
            lambda: operator_key(settings.home).derive(b"master handover"),
        )
    path = None if settings.database_path is None else settings.database_path.with_name(KEY_RING_FILE)
    if settings.coverage is None and (path is None or not path.exists()):
        return NoCipher()
    return RingCipher(SqliteKeyRing(path), MasterKeyFile(_master(settings, path)), settings.coverage)


def move_store(
    source: str,
    target: str,
    *,
    copied: Callable[[int], None] | None = None,
    compared: Callable[[int], None] | None = None,
) -> int:
    """Copy a store to where there is none, and compare all rows; how many there are."""
    from memoranda.storage.moving import move

    with closing(_tables(source)) as origin, closing(_tables(target, is_target=True)) as copy:
        return move(origin, copy, copied=copied, compared=compared)


def copy_to_file(
    settings: Settings,
    database: Path,
    *,
    copied: Callable[[int], None] | None = None,
    compared: Callable[[int], None] | None = None,
) -> None:
    """Copy one moment of a store on PostgreSQL to a file of SQLite's, with its keys beside it and the master key."""
    from memoranda.storage.moving import move
    from memoranda.storage.moving_postgres import PostgresTables

    assert settings.address is not None
    with closing(open_cipher(settings)) as cipher:
        # What another machine has made since is in our file then.
        cipher.follow()
    with closing(PostgresTables(settings.address, is_moment=True)) as origin:
        master, ring = database.with_name(MASTER_KEY_FILE), database.with_name(KEY_RING_FILE)
        if (settings.home / MASTER_KEY_FILE).exists():
            shutil.copy2(settings.home / MASTER_KEY_FILE, master)
        with closing(_tables(f"sqlite:///{database}", is_target=True)) as copy:
            move(origin, copy, copied=copied, compared=compared)
    with closing(SqliteKeyRing(ring)) as keys:
        used = keys.master_versions()
    if used is not None and not all(MasterKeyFile(master).has(version) for version in used):
        raise StoreUnavailable("the master key was rotated meanwhile; call it again")


def _tables(url: str, *, is_target: bool = False) -> Tables:
    if is_postgres(url):
        from memoranda.storage.moving_postgres import PostgresTables

        return PostgresTables(url)
    from memoranda.storage.moving_sqlite import SqliteTables

    path = sqlite_path(url)
    if path is None:
        raise InvalidInput("a store in memory is one process's own")
    return SqliteTables(path, path.with_name(KEY_RING_FILE), is_target=is_target)


def _master(settings: Settings, ring: Path | None) -> Path | None:
    """What is in memory has no file beside it."""
    return None if ring is None else settings.home / MASTER_KEY_FILE
