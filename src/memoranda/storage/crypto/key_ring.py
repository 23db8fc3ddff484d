"""The key ring: the store of wrapped data keys, separate from the database, so that its copy alone is unreadable."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

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
