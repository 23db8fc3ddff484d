"""The integrity block: who vouches for these exact bytes (section 2.8).

What is signed is the BLAKE3 digest of the hash *string* `blake3:…`, not the digest inside it. A
signature proves who signed, not that the signer is the owner: that is the caller's question.
"""

from __future__ import annotations

from collections.abc import Mapping

from blake3 import blake3

from memoranda.encoding import didkey
from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import InvalidInput
from memoranda.standards.ump.canonical import content_hash, derive_id
from memoranda.standards.ump.record import Record, unsigned

_SIGNATURE_PREFIX = "ed25519:"


def seal(record: Record, key: SigningKey) -> Record:
    """Name the record by its content if it has no name yet, then sign it."""
    named: Record = record if record["id"] else {**record, "id": derive_id(record)}
    return sign(named, key)


def sign(record: Record, key: SigningKey) -> Record:
    """A copy with a fresh integrity block, which comes last."""
    signed = unsigned(record)
    stated = content_hash(signed)
    signed["integrity"] = {"content_hash": stated, "signature": sign_hash(stated, key), "signer": key.did}
    return signed


def verify(record: object) -> bool:
    """Whether the record has an integrity block and the block holds. Never raises."""
    if not isinstance(record, Mapping):
        return False
    integrity = record.get("integrity")
    if not isinstance(integrity, Mapping):
        return False
    stated = integrity.get("content_hash")
    signature = integrity.get("signature")
    signer = integrity.get("signer")
    if not (isinstance(stated, str) and isinstance(signature, str) and isinstance(signer, str)):
        return False
    try:
        return content_hash(record) == stated and verify_hash(stated, signature, signer)
    except InvalidInput:
        return False


def sign_hash(hash_string: str, key: SigningKey) -> str:
    """`ed25519:` + base64 of the signature over a hash string."""
    return _SIGNATURE_PREFIX + base64_encode(key.sign(_message(hash_string)))


def verify_hash(hash_string: str, signature: str, signer: str) -> bool:
    """Whether `signer` signed the hash string. Never raises."""
    if not signature.startswith(_SIGNATURE_PREFIX):
        return False
    try:
        data = base64_decode(signature[len(_SIGNATURE_PREFIX) :])
        message = _message(hash_string)
    except ValueError:
        return False
    return didkey.verify(signer, message, data)


def _message(hash_string: str) -> bytes:
    return blake3(hash_string.encode("utf-8")).digest()
