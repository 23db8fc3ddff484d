"""Encrypted names of spaces: what remains of an erased version, and the audit log, name no project in readable form.

State rows of erased versions, their tombstones, and audit entries with a project outlive the memory. They are encrypted
with AES-256-SIV under a key that is derived from the key of the fingerprints. Equal names of a tenant have equal
ciphertexts, so that a query finds the erased versions of a space by its name.

A version of Memoranda that does not know this cannot read them. So a store begins with it when no such version is
connected any more: a migration then writes the row STARTED of the table `meta`. Rows from before are encrypted in the
background (`engine/sealing.py`).

Deterministic encryption (SIV) is chosen on purpose: the database must find equal names, and nothing else may be learned
from them. The tenant's number is associated data, so equal names of two tenants have different ciphertexts.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

# The row of `meta` that a migration writes: from then on names are encrypted. Its value is the progress of the
# background work (`engine/sealing.py`).
STARTED: Final = "sealed_names"

# The first byte of encrypted data. Data that is not encrypted is JSON.
_SEALED: Final = b"\x02"
# The first character of an encrypted name. No name of a space has it.
SEALED_SPACE: Final = "\x02"
# Bytes of a key of AES-256-SIV.
_KEY_BYTES: Final = 64
_CACHED_SPACES: Final = 4_096


class NameCipher:
    """Encryption of names under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key=key, digest_size=_KEY_BYTES, person=b"names").digest()
        self._siv: AESSIV | None = None
        self._opened_spaces: dict[tuple[int, str], str] = {}
        # True once the store is known to encrypt names.
        self.is_started = False

    def seal(self, tenant_id: int, data: bytes) -> bytes:
        """Encrypt data of a tenant."""
        return _SEALED + self._cipher().encrypt(data, [b"%d" % tenant_id])

    def open(self, tenant_id: int, data: bytes) -> bytes:
        """Return data that may be encrypted; empty if it is damaged.

        Data without the mark of encryption is returned unchanged: rows from before the store began with it stay
        readable.
        """
        if not data.startswith(_SEALED):
            return data
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher().decrypt(data[len(_SEALED) :], [b"%d" % tenant_id])
        except InvalidTag:
            return b""

    def seal_space(self, tenant_id: int, space: str) -> str:
        """Encrypt the name of a space; an empty name stays empty."""
        if not space or space.startswith(SEALED_SPACE):
            return space
        ciphertext = self.seal(tenant_id, space.encode("utf-8", "surrogatepass"))[len(_SEALED) :]
        return SEALED_SPACE + urlsafe_b64encode(ciphertext).decode()

    def open_space(self, tenant_id: int, space: str) -> str:
        """Return the name of a space that may be encrypted; empty if it is damaged."""
        if not space.startswith(SEALED_SPACE):
            return space
        name = self._opened_spaces.get((tenant_id, space))
        if name is None:
            try:
                ciphertext = urlsafe_b64decode(space[len(SEALED_SPACE) :])
            except ValueError:
                return ""
            name = self.open(tenant_id, _SEALED + ciphertext).decode("utf-8", "surrogatepass")
            if len(self._opened_spaces) >= _CACHED_SPACES:
                self._opened_spaces.clear()
            self._opened_spaces[tenant_id, space] = name
        return name

    def spellings(self, tenant_id: int, space: str) -> tuple[str, ...]:
        """Return the values of the column `space` that stand for a space: its name, and that of erased versions."""
        return (space, self.seal_space(tenant_id, space)) if space else (space,)

    def _cipher(self) -> AESSIV:
        if self._siv is None:
            # Imported late, because it takes long and most commands need none.
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV

            self._siv = AESSIV(self._key)
        return self._siv
