"""The key ring in the tables of PostgreSQL, for stores that several machines share.

The data keys there are wrapped; only the master key, which unwraps them, is outside the database.

Unlike SQLite's ring, it is shared by all nodes (`is_shared`): a key that one node destroys must be forgotten by all.
The counter `changes` tells them, because every snapshot reads it with the tenant's row. Rotation of the master key
locks the ring for all nodes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from memoranda.storage.crypto.key_ring import HANDOVER, WrappedKey
from memoranda.storage.engine.database import Row
from memoranda.storage.postgres.server import PostgresConnection, open_connection, postgres_errors

_SELECT: Final = "SELECT key_id, holder, master_version, salt, wrapped FROM data_key"
_USABLE: Final = f"WHERE wrapped <> ''::bytea AND key_id <> '{HANDOVER}'"
_VERSIONS: Final = "SELECT min(master_version), max(master_version) FROM data_key"
_PUT: Final = """
INSERT INTO data_key (key_id, holder, master_version, salt, wrapped)
VALUES (:key_id, :holder, :master_version, :salt, :wrapped)
ON CONFLICT (key_id) DO UPDATE
SET master_version = excluded.master_version, salt = excluded.salt, wrapped = excluded.wrapped
"""
# Keep the key id, so that its documents count as erased, not as corrupt.
_DESTROY: Final = """
UPDATE data_key SET holder = :nobody, salt = ''::bytea, wrapped = ''::bytea WHERE holder = :holder RETURNING key_id
"""


class PostgresKeyRing:
    """A key ring in the tables `data_key` and `key_ring`."""

    is_shared = True

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.RLock()
        self._connection: PostgresConnection | None = None
        self._is_changing = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        with self._lock, postgres_errors():
            # Every change of the ring locks this row first.
            self._select("BEGIN")
            self._is_changing = True
            try:
                self._select("SELECT changes FROM key_ring FOR UPDATE")
                yield
                self._select("COMMIT")
            except BaseException:
                if self._connection is not None:
                    self._connection.give_up()
                raise
            finally:
                self._is_changing = False

    def token(self) -> int:
        # Only destroyed and rewrapped keys are counted: a new key invalidates no cached one.
        return int(self._select("SELECT changes FROM key_ring")[0][0])

    def find(self, holder: bytes) -> str | None:
        rows = self._select("SELECT key_id FROM data_key WHERE holder = :holder", holder=holder)
        return str(rows[0][0]) if rows else None

    def get(self, key_id: str) -> WrappedKey | None:
        rows = self._select(f"{_SELECT} WHERE key_id = :key_id", key_id=key_id)
        return WrappedKey(*rows[0]) if rows else None

    def put(self, key: WrappedKey) -> None:
        self._select(_PUT, **key._asdict())

    def usable(self) -> list[WrappedKey]:
        return [WrappedKey(*row) for row in self._select(f"{_SELECT} {_USABLE}")]

    def master_versions(self) -> tuple[int, int] | None:
        ((oldest, newest),) = self._select(f"{_VERSIONS} {_USABLE}")
        return None if oldest is None else (int(oldest), int(newest))

    def destroy(self, holder: bytes) -> bool:
        with self.changing():
            destroyed = self._select(_DESTROY, holder=holder, nobody=os.urandom(16))
            self.count_change()
        return bool(destroyed)

    def count_change(self) -> None:
        self._select("UPDATE key_ring SET changes = changes + 1")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _select(self, query: str, **params: object) -> list[Row]:
        """Run a query; retry it on a new connection if the old one broke outside a transaction."""
        with self._lock, postgres_errors():
            try:
                return self._connect().select(query, params)
            except psycopg.OperationalError:
                if self._is_changing or self._connection is None or not self._connection.is_broken:
                    raise
                return self._connect().select(query, params)

    def _connect(self) -> PostgresConnection:
        """Return the connection, and open it if there is none that works."""
        if self._connection is None or self._connection.is_broken:
            self._connection = open_connection(self._address)
            self._connection.command("SET memoranda.system = 'on'")
        return self._connection
