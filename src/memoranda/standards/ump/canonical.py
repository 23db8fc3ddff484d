"""Content hashes and identifiers (sections 2.8, 6.1 and 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blake3 import blake3

from memoranda.encoding.bases import base32_encode
from memoranda.encoding.json_text import canonical

_ID_PREFIX = "urn:ump:"
_HASH_PREFIX = "blake3:"
RANDOM_ID_BYTES = 16


def content_hash(record: Mapping[str, Any]) -> str:
    """`blake3:` + base32 of BLAKE3 over the canonical record minus its integrity block."""
    return _HASH_PREFIX + _digest(record)


def derive_id(record: Mapping[str, Any]) -> str:
    """The content-addressed identifier.

    Section 6.2 says "the content hash", which cannot hold for a field inside the hashed record: the
    identifier is the hash of the record with an empty `id`, as the reference computes it.
    """
    return _ID_PREFIX + _digest({**record, "id": ""})


def derived_name(said: bytes) -> str:
    """The identifier for something else than a record, by what it says."""
    return _ID_PREFIX + base32_encode(blake3(said).digest())


def random_id(entropy: bytes) -> str:
    """The identifier for 128 random bits (section 6.2, level L1)."""
    if len(entropy) != RANDOM_ID_BYTES:
        raise ValueError("a random identifier takes 16 bytes")
    return _ID_PREFIX + base32_encode(entropy)


def hash_text(value: object) -> str:
    """`blake3:` + base32 over the canonical form of any JSON value."""
    return _HASH_PREFIX + base32_encode(blake3(canonical(value)).digest())


def _digest(record: Mapping[str, Any]) -> str:
    # Section 6.1: canonical JSON over the record minus the integrity object.
    bare = {key: value for key, value in record.items() if key != "integrity"}
    return base32_encode(blake3(canonical(bare)).digest())
