"""Ed25519 keys as did:key identifiers.

did:key = `did:key:z` + base58btc(0xed 0x01 || 32-byte public key).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from memoranda.encoding.bases import base58_decode, base58_encode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_PREFIX = "did:key:z"
_ED25519_MULTICODEC = b"\xed\x01"
# Bytes of a seed, of a public key and of a signature.
SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
# Entries of about a hundred bytes: owners, operators and peers of one store.
_CACHED_KEYS = 4096
# Verified messages, each of at most so many bytes: together at most 8 MiB. UMP signs hashes, which are short.
_CACHED_SIGNATURES: Final = 8_192
_CACHED_MESSAGE_BYTES: Final = 1_024
# The field of the curve: a point is written as its y coordinate, and the sign of x in the highest bit.
_FIELD_PRIME: Final = 2**255 - 19
_Y_MASK: Final = 2**255 - 1
# The y coordinates of the eight points of small order. A signature under such a key, or with such a point as its first
# half, may hold for any message.
_SMALL_ORDER_Y: Final = frozenset(
    (
        0,
        1,
        _FIELD_PRIME - 1,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    )
)


def did_from_public_key(public_key: bytes) -> str:
    """Return the did:key of a 32-byte Ed25519 public key. Raises ValueError."""
    if len(public_key) != PUBLIC_KEY_BYTES:
        raise ValueError("an Ed25519 public key has 32 bytes")
    return _PREFIX + base58_encode(_ED25519_MULTICODEC + public_key)


@lru_cache(maxsize=_CACHED_KEYS)
def public_key_from_did(did: str) -> bytes:
    """Return the public key of a did:key. Raises ValueError."""
    if not did.startswith(_PREFIX):
        raise ValueError("not a did:key")
    data = base58_decode(did[len(_PREFIX) :])
    if len(data) != 2 + PUBLIC_KEY_BYTES or not data.startswith(_ED25519_MULTICODEC):
        raise ValueError("not the did:key of an Ed25519 key")
    return data[2:]


@dataclass(frozen=True, slots=True, eq=False)
class SigningKey:
    """A private key; its repr never shows the seed."""

    seed: bytes = field(repr=False)
    did: str = field(init=False)
    _private: Ed25519PrivateKey = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.seed) != SEED_BYTES:
            raise ValueError("an Ed25519 seed has 32 bytes")
        # Clients of a server neither sign nor verify, and do without this library.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.from_private_bytes(self.seed)
        public = private.public_key().public_bytes_raw()
        object.__setattr__(self, "did", did_from_public_key(public))
        object.__setattr__(self, "_private", private)

    def derive(self, use: bytes) -> bytes:
        """Derive a secret of 32 bytes for another use, which reveals nothing about the key.

        `use` has at most 16 bytes.
        """
        return hashlib.blake2b(b"", digest_size=32, key=self.seed, person=use).digest()

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte Ed25519 signature of the message."""
        return self._private.sign(message)


def verify(did: str, message: bytes, signature: bytes) -> bool:
    """Return True if the key of `did` signed the message. Never raises; refuses small-order keys."""
    if len(message) > _CACHED_MESSAGE_BYTES:
        return _verify(did, message, signature)
    return _cached_verify(did, message, signature)


def _verify(did: str, message: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    if len(signature) != SIGNATURE_BYTES or not _is_usable_point(signature[:PUBLIC_KEY_BYTES]):
        return False
    try:
        _public_key(did).verify(signature, message)
    except (ValueError, InvalidSignature):
        return False
    return True


# Memories that are found often are verified each time.
_cached_verify = lru_cache(maxsize=_CACHED_SIGNATURES)(_verify)


@lru_cache(maxsize=_CACHED_KEYS)
def _public_key(did: str) -> Ed25519PublicKey:
    """Return the key of a did:key, ready to verify. Raises ValueError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = public_key_from_did(did)
    if not _is_usable_point(public):
        raise ValueError("an Ed25519 key of small order")
    return Ed25519PublicKey.from_public_bytes(public)


def _is_usable_point(data: bytes) -> bool:
    """Return True if 32 bytes are the canonical form of a point that is not of small order."""
    y = int.from_bytes(data, "little") & _Y_MASK
    return y < _FIELD_PRIME and y not in _SMALL_ORDER_Y
