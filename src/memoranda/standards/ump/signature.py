"""Hashes, identifiers and signatures of records (sections 2.8, 6.1 and 6.2), and the signed audit log (section 9).

A record is hashed in its canonical form without its integrity block. The block has this hash and a signature. The
signature covers the BLAKE3 digest of the hash *string* `blake3:…`, not the digest inside it. A signature proves who
signed. It does not prove that the signer is the owner; the caller must check that.

The events of an audit log form a chain: the hash of an event covers everything except `hash`, `signature` and `signer`,
and so covers `prev` and `seq`. The log itself cannot show that its end was cut off: keep the last hash elsewhere, or
pass it to `verify_chain` as a start. Section 9 is non-normative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from blake3 import blake3

from memoranda.encoding import didkey
from memoranda.encoding.bases import base32_encode, base64_decode, base64_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import canonical
from memoranda.errors import InvalidInput
from memoranda.standards.ump.record import Record, strip_integrity

_ID_PREFIX = "urn:ump:"
_HASH_PREFIX = "blake3:"
# Bytes of entropy in a random id (section 6.2, level L1).
RANDOM_ID_BYTES = 16
_SIGNATURE_PREFIX = "ed25519:"
# The fields of an audit event that its hash does not cover.
_UNHASHED_FIELDS = ("hash", "signature", "signer")


# --- hashes and identifiers -----------------------------------------------------------------------------------


def content_hash(record: Mapping[str, object]) -> str:
    """Return `blake3:` and the base32 BLAKE3 of the canonical record without its integrity block."""
    return _HASH_PREFIX + _digest(record)


def derive_id(record: Mapping[str, object]) -> str:
    """Return the content-addressed identifier of a record.

    Section 6.2 says "the content hash", which is impossible for a field inside the hashed record. As in the reference
    implementation, the identifier is the hash of the record with an empty `id`.

    Two records with the same content get the same id. Drafts that state an id keep it.
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
    unsigned_record = {key: value for key, value in record.items() if key != "integrity"}
    return base32_encode(blake3(canonical(unsigned_record)).digest())


# --- records --------------------------------------------------------------------------------------------------


def seal(record: Record, key: SigningKey) -> Record:
    """Give the record an id derived from its content if it has none, then sign it.

    Returns a new record; the draft is unchanged. `key` is the key of the store for its own records, or a client's key
    in tools.
    """
    identified: Record = record if record["id"] else {**record, "id": derive_id(record)}
    return sign(identified, key)


def sign(record: Record, key: SigningKey) -> Record:
    """Return a copy with a new integrity block as the last field."""
    signed_record = strip_integrity(record)
    hash_string = content_hash(signed_record)
    signed_record["integrity"] = {
        "content_hash": hash_string,
        "signature": sign_hash(hash_string, key),
        "signer": key.did,
    }
    return signed_record


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


# --- audit log ------------------------------------------------------------------------------------------------


class ChainReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification: the number of valid events, and the position and reason of the first bad one.

    `count` does not include the `pruned` events before them.
    """

    ok: bool
    count: int
    broken_at: int | None = None
    reason: str | None = None
    pruned: int = 0


def seal_event(event: Mapping[str, object], key: SigningKey | None = None) -> dict[str, Any]:
    """Return the event with its hash and, given a key, its signature."""
    unsigned_record = {
        field: value for field, value in event.items() if field not in _UNHASHED_FIELDS
    }
    event_hash = hash_text(unsigned_record)
    if key is None:
        return {**unsigned_record, "hash": event_hash}
    return {
        **unsigned_record,
        "hash": event_hash,
        "signature": sign_hash(event_hash, key),
        "signer": key.did,
    }


def verify_chain(
    events: Iterable[Mapping[str, Any]],
    *,
    start_seq: int = 1,
    prev: str | None = None,
    signer: str | None = None,
) -> ChainReport:
    """Verify the events one by one, from `start_seq` and the hash `prev` before it.

    With `signer`, every event must be signed by that DID. Without it, unsigned events pass, as in the reference
    implementation.

    `events` may be an iterator over millions of events; only one is held at a time. After pruning, give the first
    remaining `seq` and the hash before it.
    """
    seq, count = start_seq, 0
    for event in events:
        reason = _find_flaw(event, seq, prev, signer)
        if reason is not None:
            return ChainReport(ok=False, count=count, broken_at=seq, reason=reason)
        prev = event["hash"]
        seq += 1
        count += 1
    return ChainReport(ok=True, count=count)


def _find_flaw(
    event: Mapping[str, object], seq: int, prev: str | None, signer: str | None
) -> str | None:
    """Return the first flaw of an event, or None."""
    if event.get("seq") != seq:
        return "seq gap"
    if event.get("prev") != prev:
        return "broken chain"
    try:
        recomputed = hash_text(
            {key: value for key, value in event.items() if key not in _UNHASHED_FIELDS}
        )
    except InvalidInput:
        return "hash mismatch"
    if event.get("hash") != recomputed:
        return "hash mismatch"
    if "signature" not in event and "signer" not in event and signer is None:
        return None
    signature, claimed_signer = event.get("signature"), event.get("signer")
    if (
        not isinstance(signature, str)
        or not isinstance(claimed_signer, str)
        or signer not in (None, claimed_signer)
    ):
        return "bad signature"
    return None if verify_hash(recomputed, signature, claimed_signer) else "bad signature"
