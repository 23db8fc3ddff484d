"""The database and the keys that the settings name.

No other module above `storage/` opens them, except `backup.py`, which copies their tables.

The modules of PostgreSQL are imported for a store on PostgreSQL alone: their driver is optional, and slow to load.
"""

from __future__ import annotations

from pathlib import Path

from memoranda.errors import InvalidInput, StoreUnavailable
from memoranda.keys import MasterKeyFile, operator_key
from memoranda.settings import Settings
from memoranda.storage.crypto.cipher import Cipher, NoCipher, RingCipher
from memoranda.storage.crypto.key_ring import KeyRing
from memoranda.storage.engine.database import Database
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.keys import SqliteKeyRing
from memoranda.storage.sqlite.migrating import BeforeUpgrade

MASTER_KEY_FILE = "master.key"
KEY_RING_FILE = "memoranda.keys"


def open_database(settings: Settings, *, before_upgrade: BeforeUpgrade | None = None) -> Database:
    """Open the database, and create it if it is missing; the folder of a file must exist. Raises StoreUnavailable.

    `before_upgrade` is called before a file of an earlier version is upgraded.
    """
    refuses = settings.audit_unwritable == "refuse"
    is_clear = settings.vector_search == "pgvector"
    if settings.address is None:
        if is_clear:
            raise InvalidInput(
                "vector_search is pgvector, which only a store on PostgreSQL supports: set it to process"
            )
        return SqliteDatabase(
            settings.database_path, refuses_unrecorded=refuses, before_upgrade=before_upgrade
        )
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


def _master(settings: Settings, ring: Path | None) -> Path | None:
    """Return the file of the master keys; None if the key ring is in memory."""
    return None if ring is None else settings.home / MASTER_KEY_FILE
