"""AES-256-GCM and the derivation of keys: the operations of `cryptography` that encryption at rest uses.

That library takes long to import, so `cipher` imports this module only when something is encrypted or decrypted.

The format of a ciphertext is in `key_ring.py` (FORMAT, nonce, tag). A new format needs a new first byte, and `decrypt`
must go on reading the old one, because documents are never encrypted again.
"""

from __future__ import annotations

import os
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memoranda.errors import StoreCorrupt
from memoranda.storage.crypto.key_ring import FORMAT, KEY_BYTES, NONCE_BYTES, TAG_BYTES


class KeyCipher:
    """Encryption and decryption under one key."""

    __slots__ = ("_aes",)

    def __init__(self, key: bytes) -> None:
        self._aes = AESGCM(key)

    @classmethod
    def derive(cls, master: bytes, salt: bytes, holder: bytes) -> Self:
        """Return the cipher under the key that wraps the data key of a holder.

        `salt` is random for each holder and is replaced at every rotation; `holder` is a hash, so that the derivation
        names nobody.
        """
        info = b"memoranda user key\x00" + holder
        kdf = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=salt, info=info)
        return cls(kdf.derive(master))

    def encrypt(self, data: bytes, bound: bytes) -> bytes:
        """Encrypt data; it can only be decrypted with the same `bound`, which names its place in the store."""
        nonce = os.urandom(NONCE_BYTES)
        return FORMAT + nonce + self._aes.encrypt(nonce, data, bound)

    def decrypt(self, data: bytes, bound: bytes) -> bytes:
        """Decrypt data. Raises StoreCorrupt if it was changed or moved to another place."""
        if not data.startswith(FORMAT):
            raise StoreCorrupt("an encrypted document has an unknown format")
        nonce, encrypted = data[1 : 1 + NONCE_BYTES], data[1 + NONCE_BYTES :]
        if len(encrypted) < TAG_BYTES:
            raise StoreCorrupt("an encrypted document was cut off")
        try:
            return self._aes.decrypt(nonce, encrypted, bound)
        except InvalidTag:
            raise StoreCorrupt(
                "an encrypted document was changed, or belongs somewhere else"
            ) from None
