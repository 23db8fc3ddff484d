"""The key ring: where wrapped data keys are kept, apart from the database, whose copy alone is unreadable then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from memoranda.storage.sqlite.file import open_private, sqlite_errors

_SCHEMA = """
CREATE TABLE IF NOT EXISTS data_key (
  key_id         TEXT PRIMARY KEY,
  holder         BLOB NOT NULL,
  master_version INTEGER NOT NULL,
  salt           BLOB NOT NULL,
  wrapped        BLOB NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS data_key_holder ON data_key (holder);
"""
# No data key is called that: the newest master key, wrapped under the one before it, for machines that have only that.
HANDOVER = "master"
_SELECT = "SELECT key_id, holder, master_version, salt, wrapped FROM data_key"
_USABLE = f"WHERE wrapped <> x'' AND key_id <> '{HANDOVER}'"
_VERSIONS = "SELECT min(master_version), max(master_version) FROM data_key"


class WrappedKey(NamedTuple):
    """One wrapped data key; without `wrapped`, one that was destroyed."""

    key_id: str
    holder: bytes
    master_version: int
    salt: bytes
    wrapped: bytes


class KeyRing(Protocol):
    """What a place for wrapped keys must offer. Only one process changes it at a time."""

    # Whether machines share it that have each a file of master keys.
    is_shared: bool

    def changing(self) -> AbstractContextManager[None]:
        """Hold the ring's write lock; all that is changed inside happens, or none."""
        ...

    def token(self) -> int:
        """A number that changes when another process has changed the ring."""
        ...

    def find(self, holder: bytes) -> str | None:
        """The id of a holder's key."""
        ...

    def get(self, key_id: str) -> WrappedKey | None:
        """A key, also one that was destroyed; None if there never was one."""
        ...

    def put(self, key: WrappedKey) -> None:
        """Add a key, or wrap it anew."""
        ...

    def usable(self) -> list[WrappedKey]:
        """All data keys that were not destroyed."""
        ...

    def master_versions(self) -> tuple[int, int] | None:
        """The oldest and the newest master key that a usable key is wrapped under."""
        ...

    def destroy(self, holder: bytes) -> bool:
        """Make a holder's key unreadable in every file, but remember that there was one; whether there was."""
        ...

    def count_change(self) -> None:
        """Let the token be another one."""
        ...

    def close(self) -> None: ...


class SqliteKeyRing:
    """A key ring in a small SQLite file of its own."""

    is_shared = False

    def __init__(self, path: Path | None) -> None:
        """`None` means one in memory."""
        self._raw = open_private(path)
        with sqlite_errors():
            self._raw.execute(_SCHEMA)

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
        found = self._raw.execute("PRAGMA data_version").fetchone()
        return int(found[0]) if found else 0

    def find(self, holder: bytes) -> str | None:
        found = self._raw.execute(
            "SELECT key_id FROM data_key WHERE holder = ?", (holder,)
        ).fetchone()
        return None if found is None else str(found[0])

    def get(self, key_id: str) -> WrappedKey | None:
        found = self._raw.execute(f"{_SELECT} WHERE key_id = ?", (key_id,)).fetchone()
        return None if found is None else _key(*found)

    def put(self, key: WrappedKey) -> None:
        self._raw.execute(
            "INSERT INTO data_key (key_id, holder, master_version, salt, wrapped) VALUES (?, ?, ?, ?, ?) ON CONFLICT "
            "DO UPDATE SET master_version = excluded.master_version, salt = excluded.salt, wrapped = excluded.wrapped",
            key,
        )

    def usable(self) -> list[WrappedKey]:
        return [_key(*row) for row in self._raw.execute(f"{_SELECT} {_USABLE}").fetchall()]

    def master_versions(self) -> tuple[int, int] | None:
        oldest, newest = self._raw.execute(f"{_VERSIONS} {_USABLE}").fetchone() or (None, None)
        return None if oldest is None or newest is None else (int(oldest), int(newest))

    def destroy(self, holder: bytes) -> bool:
        with sqlite_errors():
            # The name of the key stays, without its holder: what it locked is erased, not lost.
            self._raw.execute(
                "UPDATE data_key SET holder = randomblob(16), salt = x'', wrapped = x'' WHERE holder = ?",
                (holder,),
            )
            if self._raw.changes() == 0:
                return False
            # Rows of this file move between pages and leave copies behind: write it anew, and cut the log.
            self._raw.execute("VACUUM")
            self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return True

    def count_change(self) -> None:
        # Every change is counted.
        pass

    def close(self) -> None:
        self._raw.close()


def _key(key_id: Any, holder: Any, version: Any, salt: Any, wrapped: Any) -> WrappedKey:
    return WrappedKey(str(key_id), bytes(holder), int(version), bytes(salt), bytes(wrapped))
