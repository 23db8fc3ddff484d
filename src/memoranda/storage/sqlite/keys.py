"""SQLite's key ring: a small file beside the database.

The file is separate from the database so that a copy of the database alone reveals nothing, and so that destroying a
key needs no rewriting of the database. Its tables are those of the key ring on PostgreSQL. Backups contain it, wrapped
under the master key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoranda.storage.crypto.key_ring import HANDOVER, WrappedKey
from memoranda.storage.engine.database import Row
from memoranda.storage.sqlite.file import open_private, sqlite_errors
from memoranda.storage.sqlite.migrating import migrate_ring

_SELECT = "SELECT key_id, holder, master_version, salt, wrapped FROM data_key"
_USABLE = f"WHERE wrapped <> x'' AND key_id <> '{HANDOVER}'"
_VERSIONS = "SELECT min(master_version), max(master_version) FROM data_key"


class SqliteKeyRing:
    """A key ring in a small SQLite file of its own.

    One connection, used under the lock of the cipher (`crypto/cipher.py`); the class takes no lock itself.
    """

    is_shared = False

    def __init__(self, path: Path | None) -> None:
        """Open the ring of a file; None opens one in memory."""
        self._raw = open_private(path)
        with sqlite_errors():
            migrate_ring(self._raw)

    @contextmanager
    def changing(self) -> Iterator[None]:
        with sqlite_errors():
            self._raw.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._raw.execute("COMMIT")
            except BaseException:
                if self._raw.in_transaction:
                    self._raw.execute("ROLLBACK")
                raise

    def token(self) -> int:
        row = self._raw.execute("PRAGMA data_version").fetchone()
        return int(row[0]) if row else 0

    def find(self, holder: bytes) -> str | None:
        row = self._raw.execute(
            "SELECT key_id FROM data_key WHERE holder = ?", (holder,)
        ).fetchone()
        return None if row is None else str(row[0])

    def get(self, key_id: str) -> WrappedKey | None:
        row = self._raw.execute(f"{_SELECT} WHERE key_id = ?", (key_id,)).fetchone()
        return None if row is None else _read_key(row)

    def put(self, key: WrappedKey) -> None:
        self._raw.execute(
            "INSERT INTO data_key (key_id, holder, master_version, salt, wrapped) VALUES (?, ?, ?, ?, ?) ON CONFLICT "
            "DO UPDATE SET master_version = excluded.master_version, salt = excluded.salt, wrapped = excluded.wrapped",
            key,
        )

    def usable(self) -> list[WrappedKey]:
        return [_read_key(row) for row in self._raw.execute(f"{_SELECT} {_USABLE}").fetchall()]

    def master_versions(self) -> tuple[int, int] | None:
        oldest, newest = self._raw.execute(f"{_VERSIONS} {_USABLE}").fetchone() or (None, None)
        return None if oldest is None or newest is None else (int(oldest), int(newest))

    def destroy(self, holder: bytes) -> bool:
        with sqlite_errors():
            # Keep the key id, so that its documents count as erased, not as corrupt.
            self._raw.execute(
                "UPDATE data_key SET holder = randomblob(16), salt = x'', wrapped = x'' WHERE holder = ?",
                (holder,),
            )
            if self._raw.changes() == 0:
                return False
            # Rows that moved between pages leave copies behind, so the file is rewritten and the log truncated.
            self._raw.execute("VACUUM")
            self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return True

    def count_change(self) -> None:
        # SQLite's data_version counts every change.
        pass

    def close(self) -> None:
        self._raw.close()


def _read_key(row: Row) -> WrappedKey:
    key_id, holder, version, salt, wrapped = row
    return WrappedKey(str(key_id), bytes(holder), int(version), bytes(salt), bytes(wrapped))
