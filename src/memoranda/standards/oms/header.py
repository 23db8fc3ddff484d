"""The nine bytes before every payload (section 3).

    0     version           0x01
    1     flags             see the masks below
    2     type              the type byte of the grain
    3-4   namespace hash    the first two bytes of SHA-256(namespace): a routing hint, never a permission
    5-8   created_at        whole seconds since 1970: a routing hint; the payload has the exact milliseconds

All numbers are big-endian. All functions here run in constant time: they never read the payload.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import Final

import msgspec

from memoranda.errors import GrainError

VERSION: Final = 1
# Bytes of the header.
HEADER_BYTES: Final = 9
# Bytes. Section 3.3: the header and at least one byte of payload.
MIN_BLOB_BYTES: Final = HEADER_BYTES + 1

SIGNED: Final = 0x01
ENCRYPTED: Final = 0x02
COMPRESSED: Final = 0x04
CONTENT_REFS: Final = 0x08
EMBEDDING_REFS: Final = 0x10
CBOR: Final = 0x20
SENSITIVITY_SHIFT: Final = 6

# Indexed by the value of flag bits 6 and 7.
SENSITIVITIES: Final = ("public", "internal", "pii", "phi")
# Seconds since 1970: the header has 32 bits for them, which last until 2106.
MAX_CREATED_AT_SEC: Final = 2**32 - 1

_LAYOUT = struct.Struct(">BBBHI")
# Entries: namespaces of one store, about a hundred bytes each.
_CACHED_NAMESPACES: Final = 4096


class Header(msgspec.Struct, frozen=True, gc=False):
    """The fixed header of one grain."""

    version: int
    flags: int
    type_byte: int
    ns_hash: int
    created_at_sec: int

    @classmethod
    def parse(cls, blob: bytes) -> Header:
        """Parse the header of a blob. Raises GrainError: ERR_TOO_SHORT or ERR_VERSION."""
        _check_start(blob)
        return cls(*_LAYOUT.unpack_from(blob))

    def pack(self) -> bytes:
        """Encode the header as nine bytes."""
        return _LAYOUT.pack(
            self.version, self.flags, self.type_byte, self.ns_hash, self.created_at_sec
        )

    @property
    def is_signed(self) -> bool:
        """True if the grain is delivered in a COSE_Sign1 envelope."""
        return bool(self.flags & SIGNED)

    @property
    def is_encrypted(self) -> bool:
        """True if the payload is ciphertext."""
        return bool(self.flags & ENCRYPTED)

    @property
    def is_compressed(self) -> bool:
        """True if the payload is compressed."""
        return bool(self.flags & COMPRESSED)

    @property
    def is_cbor(self) -> bool:
        """True if the payload is CBOR rather than MessagePack."""
        return bool(self.flags & CBOR)

    @property
    def sensitivity(self) -> int:
        """The sensitivity: 0 public, 1 internal, 2 pii, 3 phi."""
        return self.flags >> SENSITIVITY_SHIFT

    @property
    def sensitivity_name(self) -> str:
        """The name of the sensitivity, one of SENSITIVITIES."""
        return SENSITIVITIES[self.sensitivity]


def read_type_byte(blob: bytes) -> int:
    """Return the type byte of an encoded grain. Raises GrainError."""
    _check_start(blob)
    return blob[2]


@lru_cache(maxsize=_CACHED_NAMESPACES)
def namespace_hash(namespace: str) -> int:
    """Return the first two bytes of SHA-256(namespace) as a number. The namespace must be NFC."""
    return int.from_bytes(hashlib.sha256(namespace.encode("utf-8")).digest()[:2], "big")


def _check_start(blob: bytes) -> None:
    """Raise GrainError if the blob is too short for a grain or has another version."""
    if len(blob) < MIN_BLOB_BYTES:
        raise GrainError(
            f"a grain has at least {MIN_BLOB_BYTES} bytes (9-byte header and payload), not {len(blob)}",
            oms_code="ERR_TOO_SHORT",
        )
    if blob[0] != VERSION:
        # Section 19.4: include the version in the message.
        raise GrainError(f"unsupported grain format version {blob[0]}", oms_code="ERR_VERSION")
