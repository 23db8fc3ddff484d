"""The key ring in the database itself, for stores that several machines share: only the master key is apart from it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from memoranda.storage.crypto.key_ring import HANDOVER, WrappedKey
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
    """Wrapped keys in the tables `data_key` and `key_ring`."""

    is_shared = True

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.RLock()
        self._connection: PostgresConnection | None = None
        self._is_changing = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        with self._lock, postgres_errors():
            # The row that everybody who changes something takes first.
            self._ask("BEGIN")
            self._is_changing = True
            try:
                self._ask("SELECT changes FROM key_ring FOR UPDATE")
                yield
                self._ask("COMMIT")
            except BaseException:
                if self._connection is not None:
                    self._connection.give_up()
                raise
            finally:
                self._is_changing = False

    def token(self) -> int:
        # A new key makes no other one stale: only what was destroyed, or wrapped anew, is counted.
        return int(self._ask("SELECT changes FROM key_ring")[0][0])

    def find(self, holder: bytes) -> str | None:
        found = self._ask("SELECT key_id FROM data_key WHERE holder = :holder", holder=holder)
        return str(found[0][0]) if found else None

    def get(self, key_id: str) -> WrappedKey | None:
        found = self._ask(f"{_SELECT} WHERE key_id = :key_id", key_id=key_id)
        return WrappedKey(*found[0]) if found else None

    def put(self, key: WrappedKey) -> None:
        self._ask(_PUT, **key._asdict())

    def usable(self) -> list[WrappedKey]:
        return [WrappedKey(*row) for row in self._ask(f"{_SELECT} {_USABLE}")]

    def master_versions(self) -> tuple[int, int] | None:
        ((oldest, newest),) = self._ask(f"{_VERSIONS} {_USABLE}")
        return None if oldest is None else (int(oldest), int(newest))

    def destroy(self, holder: bytes) -> bool:
        with self.changing():
            found = self._ask(_DESTROY, holder=holder, nobody=os.urandom(16))
            self.count_change()
        return bool(found)

    def count_change(self) -> None:
        self._ask("UPDATE key_ring SET changes = changes + 1")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _ask(self, query: str, **params: Any) -> list[tuple[Any, ...]]:
        """Ask on a connection of our own; once more on a new one, unless a transaction was lost with it."""
        with self._lock, postgres_errors():
            try:
                return self._connected().select(query, params)
            except psycopg.OperationalError:
                if self._is_changing or self._connection is None or not self._connection.is_broken:
                    raise
                return self._connected().select(query, params)

    def _connected(self) -> PostgresConnection:
        if self._connection is None or self._connection.is_broken:
            self._connection = open_connection(self._address)
            self._connection.command("SET memoranda.system = 'on'")
        return self._connection
