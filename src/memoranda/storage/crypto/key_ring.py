"""The key ring and the master keys: where the keys of encryption at rest are stored.

The ring holds the data keys, wrapped under a master key, and is separate from the documents, so that a copy of the
documents alone cannot be read. Master keys are stored apart from both.

Two implementations of `KeyRing`: a SQLite file (`sqlite/keys.py`) and tables of PostgreSQL (`postgres/keys.py`).
`MasterKeys` is a file on each machine (`memoranda.keys`). An implementation must write durably before a method returns:
a lost key is lost data, and a key that comes back from the dead is a broken erasure.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

# Bytes of a key, of the salt of a derived key, and of nonce and tag of AES-256-GCM.
KEY_BYTES, SALT_BYTES, NONCE_BYTES, TAG_BYTES = 32, 32, 12, 16
# The first byte of everything that is encrypted.
FORMAT = b"\x01"
# The id of no data key, but of the newest master key, wrapped under the one before it: machines that only have the
# older one read the newer one here.
HANDOVER = "master"


class WrappedKey(NamedTuple):
    """A wrapped data key; `wrapped` is empty if the key was destroyed."""

    key_id: str
    holder: bytes
    master_version: int
    salt: bytes
    wrapped: bytes


class KeyRing(Protocol):
    """The interface of a key ring. Only one process changes it at a time."""

    # True if several machines share it, each with its own file of master keys.
    is_shared: bool

    def changing(self) -> AbstractContextManager[None]:
        """Hold the ring's write lock; the changes inside are applied together or not at all."""
        ...

    def token(self) -> int:
        """Return a number that changes when another process has changed the ring."""
        ...

    def find(self, holder: bytes) -> str | None:
        """Return the id of a holder's key."""
        ...

    def get(self, key_id: str) -> WrappedKey | None:
        """Return a key, also a destroyed one; None if it never existed."""
        ...

    def put(self, key: WrappedKey) -> None:
        """Add a key, or replace its wrapped form."""
        ...

    def usable(self) -> list[WrappedKey]:
        """Return all data keys that were not destroyed."""
        ...

    def master_versions(self) -> tuple[int, int] | None:
        """Return the oldest and the newest master key that wraps a usable key."""
        ...

    def destroy(self, holder: bytes) -> bool:
        """Make a holder's key unreadable in every file and keep its id; return False if there was none."""
        ...

    def count_change(self) -> None:
        """Change the token."""
        ...

    def close(self) -> None: ...


class MasterKeys(Protocol):
    """The master keys of a machine, by version."""

    def current(self) -> tuple[int, bytes]:
        """Return the newest key with its version; the first call makes one."""
        ...

    def get(self, version: int) -> bytes:
        """Return the key of a version. Raises StoreUnavailable."""
        ...

    def has(self, version: int) -> bool:
        """Return True if this machine has the key of a version."""
        ...

    def adopt(self, version: int, key: bytes) -> None:
        """Add a key that another machine made."""
        ...

    def add(self) -> tuple[int, bytes]:
        """Make a new current key, and return it with its version."""
        ...

    def retire_before(self, version: int) -> None:
        """Delete older keys, which wrap nothing any more."""
        ...
