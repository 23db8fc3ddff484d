"""Content hashes and identifiers (sections 2.8, 6.1 and 6.2)."""

from __future__ import annotations

from collections.abc import Mapping

from blake3 import blake3

from memoranda.encoding.bases import base32_encode
from memoranda.encoding.json_text import canonical

_ID_PREFIX = "urn:ump:"
_HASH_PREFIX = "blake3:"
# Bytes of entropy in a random id (section 6.2, level L1).
RANDOM_ID_BYTES = 16


def content_hash(record: Mapping[str, object]) -> str:
    """Return `blake3:` and the base32 BLAKE3 of the canonical record without its integrity block."""
    return _HASH_PREFIX + _digest(record)


def derive_id(record: Mapping[str, object]) -> str:
    """Return the content-addressed identifier of a record.

    Section 6.2 says "the content hash", which is impossible for a field inside the hashed record. As in the reference
    implementation, the identifier is the hash of the record with an empty `id`.
    """
    return _ID_PREFIX + _digest({**record, "id": ""})


def derive_id_from_bytes(content: bytes) -> str:
    """Return an identifier derived from bytes that are not a record."""
    return _ID_PREFIX + base32_encode(blake3(content).digest())


def encode_random_id(entropy: bytes) -> str:
    """Return the identifier for 128 random bits (section 6.2, level L1). Raises ValueError."""
    if len(entropy) != RANDOM_ID_BYTES:
        raise ValueError("the entropy of a random identifier must have 16 bytes")
    return _ID_PREFIX + base32_encode(entropy)


def hash_text(value: object) -> str:
    """Return `blake3:` and the base32 BLAKE3 of the canonical form of a JSON value."""
    return _HASH_PREFIX + base32_encode(blake3(canonical(value)).digest())


def _digest(record: Mapping[str, object]) -> str:
    """Return the base32 BLAKE3 of the canonical record without its integrity block."""
    # Section 6.1: canonical JSON over the record minus the integrity object.
    bare = {key: value for key, value in record.items() if key != "integrity"}
    return base32_encode(blake3(canonical(bare)).digest())
