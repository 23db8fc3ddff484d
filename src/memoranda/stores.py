"""Which database the settings name, and where the keys to it are: the one place above `storage/` that knows them."""

from __future__ import annotations

from pathlib import Path

from memoranda.errors import StoreUnavailable
from memoranda.keys import MasterKeyFile
from memoranda.settings import Settings
from memoranda.storage.cipher import Cipher, NoCipher, RingCipher
from memoranda.storage.database import Database
from memoranda.storage.key_ring import KeyRing, SqliteKeyRing
from memoranda.storage.sqlite import SqliteDatabase

MASTER_KEY_FILE = "master.key"
KEY_RING_FILE = "memoranda.keys"


def open_database(settings: Settings) -> Database:
    """The database, made if it is missing; the folder of a file is there already."""
    refuses = settings.audit_unwritable == "refuse"
    if settings.address is None:
        return SqliteDatabase(settings.database_path, refuses_unrecorded=refuses)
    # Loaded only for a store that needs it.
    try:
        from memoranda.storage.postgres import PostgresDatabase
    except ImportError as error:
        raise StoreUnavailable("a store on PostgreSQL needs psycopg: pip install 'memoranda[postgres]'") from error
    return PostgresDatabase(settings.address, refuses_unrecorded=refuses)


def open_cipher(settings: Settings) -> Cipher:
    """The key ring of a store. It is opened even when nothing new is encrypted: something may be."""
    ring: KeyRing
    if settings.address is not None:
        from memoranda.storage.postgres_keys import PostgresKeyRing

        ring, master = PostgresKeyRing(settings.address), settings.home / MASTER_KEY_FILE
        return RingCipher(ring, MasterKeyFile(master), settings.coverage)
    path = None if settings.database_path is None else settings.database_path.with_name(KEY_RING_FILE)
    if settings.coverage is None and (path is None or not path.exists()):
        return NoCipher()
    return RingCipher(SqliteKeyRing(path), MasterKeyFile(_master(settings, path)), settings.coverage)


def _master(settings: Settings, ring: Path | None) -> Path | None:
    """What is in memory has no file beside it."""
    return None if ring is None else settings.home / MASTER_KEY_FILE
