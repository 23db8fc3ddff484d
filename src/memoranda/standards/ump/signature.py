"""The integrity block: a signature over the content of a record (section 2.8).

The signature covers the BLAKE3 digest of the hash *string* `blake3:…`, not the digest inside it. A signature proves who
signed. It does not prove that the signer is the owner; the caller must check that.
"""

from __future__ import annotations

from collections.abc import Mapping

from blake3 import blake3

from memoranda.encoding import didkey
from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import InvalidInput
from memoranda.standards.ump.canonical import content_hash, derive_id
from memoranda.standards.ump.record import Record, strip_integrity

_SIGNATURE_PREFIX = "ed25519:"


def seal(record: Record, key: SigningKey) -> Record:
    """Give the record an id derived from its content if it has none, then sign it."""
    identified: Record = record if record["id"] else {**record, "id": derive_id(record)}
    return sign(identified, key)


def sign(record: Record, key: SigningKey) -> Record:
    """Return a copy with a new integrity block as the last field."""
    signed = strip_integrity(record)
    hash_string = content_hash(signed)
    signed["integrity"] = {
        "content_hash": hash_string,
        "signature": sign_hash(hash_string, key),
        "signer": key.did,
    }
    return signed


def verify(record: object) -> bool:
    """Return True if the record has a valid integrity block. Never raises."""
    if not isinstance(record, Mapping):
        return False
    integrity = record.get("integrity")
    if not isinstance(integrity, Mapping):
        return False
    hash_string = integrity.get("content_hash")
    signature = integrity.get("signature")
    signer = integrity.get("signer")
    if not (
        isinstance(hash_string, str) and isinstance(signature, str) and isinstance(signer, str)
    ):
        return False
    try:
        return content_hash(record) == hash_string and verify_hash(hash_string, signature, signer)
    except InvalidInput:
        return False


def sign_hash(hash_string: str, key: SigningKey) -> str:
    """Return `ed25519:` and the base64 of a signature over the hash string."""
    return _SIGNATURE_PREFIX + base64_encode(key.sign(_signed_bytes(hash_string)))


def verify_hash(hash_string: str, signature: str, signer: str) -> bool:
    """Return True if `signer` signed the hash string. Never raises."""
    if not signature.startswith(_SIGNATURE_PREFIX):
        return False
    try:
        data = base64_decode(signature[len(_SIGNATURE_PREFIX) :])
        message = _signed_bytes(hash_string)
    except ValueError:
        return False
    return didkey.verify(signer, message, data)


def _signed_bytes(hash_string: str) -> bytes:
    """Return the bytes that the signature covers."""
    return blake3(hash_string.encode("utf-8")).digest()
