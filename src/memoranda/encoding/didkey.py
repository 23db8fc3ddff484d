"""Ed25519 keys as did:key identifiers.

did:key = `did:key:z` + base58btc(0xed 0x01 || 32-byte public key).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from nacl import bindings, exceptions

from memoranda.encoding.bases import base58_decode, base58_encode

_PREFIX = "did:key:z"
_ED25519_MULTICODEC = b"\xed\x01"
# Bytes of a seed and of a signature.
SEED_BYTES = 32
SIGNATURE_BYTES = 64
# Entries of about a hundred bytes: owners, operators and peers of one store.
_CACHED_KEYS = 4096


def did_from_public_key(public_key: bytes) -> str:
    """Return the did:key of a 32-byte Ed25519 public key. Raises ValueError."""
    if len(public_key) != bindings.crypto_sign_PUBLICKEYBYTES:
        raise ValueError("an Ed25519 public key has 32 bytes")
    return _PREFIX + base58_encode(_ED25519_MULTICODEC + public_key)


@lru_cache(maxsize=_CACHED_KEYS)
def public_key_from_did(did: str) -> bytes:
    """Return the public key of a did:key. Raises ValueError."""
    if not did.startswith(_PREFIX):
        raise ValueError("not a did:key")
    data = base58_decode(did[len(_PREFIX) :])
    if len(data) != 2 + bindings.crypto_sign_PUBLICKEYBYTES or not data.startswith(
        _ED25519_MULTICODEC
    ):
        raise ValueError("not the did:key of an Ed25519 key")
    return data[2:]


@dataclass(frozen=True, slots=True, eq=False)
class SigningKey:
    """A private key; its repr never shows the seed."""

    seed: bytes = field(repr=False)
    did: str = field(init=False)
    _secret: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.seed) != SEED_BYTES:
            raise ValueError("an Ed25519 seed has 32 bytes")
        public, secret = bindings.crypto_sign_seed_keypair(self.seed)
        object.__setattr__(self, "did", did_from_public_key(public))
        object.__setattr__(self, "_secret", secret)

    def derive(self, use: bytes) -> bytes:
        """Derive a secret of 32 bytes for another use, which reveals nothing about the key.

        `use` has at most 16 bytes.
        """
        return hashlib.blake2b(b"", digest_size=32, key=self.seed, person=use).digest()

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte Ed25519 signature of the message."""
        return bindings.crypto_sign(message, self._secret)[:SIGNATURE_BYTES]


def verify(did: str, message: bytes, signature: bytes) -> bool:
    """Return True if the key of `did` signed the message. Never raises; refuses small-order keys."""
    if len(signature) != SIGNATURE_BYTES:
        return False
    try:
        bindings.crypto_sign_open(signature + message, public_key_from_did(did))
    except (ValueError, exceptions.CryptoError):
        return False
    return True
