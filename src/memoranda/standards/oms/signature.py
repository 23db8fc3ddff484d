"""Signed grains in COSE_Sign1 envelopes (OMS section 9), and endorsements of a supersession.

OMS leaves these points open (docs/standards/oms.md gives the reasons):

- The envelope is written with tag 18, and read with or without it.
- The signer's DID is written as a byte string, following RFC 9052, and also read as text.
- The time of signing is in the unprotected header, following OMS, and also in the protected header (RFC 9597), so that
  nobody can change it.

A signature proves who signed. It does not prove that the signer is the author or has any right; callers check that.

COSE is implemented in `cose.py` for exactly the forms that OMS uses. Keys of `did:key` are in the DID itself; documents
of `did:web` must be given and are never fetched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from memoranda.encoding.bases import base64_decode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import GrainError, MemorandaError, SignatureInvalid
from memoranda.standards.oms import cose, did, grains
from memoranda.standards.oms.did import NO_DOCUMENTS, Documents
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.header import Header

CONTENT_TYPE: Final = "application/vnd.mg+msgpack"
# OMS defines no content type for CBOR grains; this one follows its pattern.
CONTENT_TYPE_CBOR: Final = "application/vnd.mg+cbor"
EDDSA: Final = -8
# Section 9.1: verifiers MUST accept both -8 and -19 for Ed25519; ES256 (ECDSA P-256) is the alternative.
KEY_KINDS: Final[Mapping[int, str]] = {EDDSA: "ed25519", -19: "ed25519", -7: "p256"}
# Entries. A quorum is a handful of people, and each entry costs a signature verification.
MAX_ENDORSEMENTS: Final = 64
# Bytes that an endorsement may have in addition to the grain.
_ENVELOPE_OVERHEAD_BYTES = 8192

_ENVELOPE_LEADS = frozenset((b"\xd2", b"\x84"))
_IAT = "iat"
_CLAIM_IAT = 6


class SignedGrain(msgspec.Struct, frozen=True, kw_only=True):
    """A grain with a verified signature. `issued_at` (seconds) is signed only if `issued_at_is_signed`."""

    grain: Grain
    signer: str
    issued_at: int | None
    issued_at_is_signed: bool
    envelope: bytes


def sign(grain: Grain | Mapping[str, object], key: SigningKey, *, issued_at: int) -> bytes:
    """Return the signed envelope of a grain encoded with its `signed` bit, or of fields. Raises GrainError."""
    signed_grain = grain if isinstance(grain, Grain) else grains.encode(grain, signed=True)
    if not signed_grain.header.is_signed:
        # Section 9.2: if signed = 0, the grain MUST NOT be wrapped. The bit is part of the address.
        raise _mismatch_error(
            "the grain was encoded as unsigned; encode it with its signed bit to sign it"
        )
    return _build_envelope(signed_grain.blob, key, issued_at=issued_at, detached=False)


def open_envelope(data: bytes, documents: Documents = NO_DOCUMENTS) -> SignedGrain:
    """Verify an envelope and return its grain.

    Raises SignatureInvalid, or GrainError for bytes that are not an envelope or contain no grain.
    """
    message = cose.parse(data)
    if message.payload is None:
        raise GrainError(
            "the envelope contains no grain: its payload is detached", oms_code="ERR_CORRUPT"
        )
    _check_content_type(message)
    issued_at, issued_at_is_signed = _read_issued_at(message)
    signer = _verify_signer(message, message.payload, documents)
    if not Header.parse(message.payload).is_signed:
        raise _mismatch_error("the envelope contains a grain whose signed bit is not set")
    return SignedGrain(
        grain=grains.decode(message.payload),
        signer=signer,
        issued_at=issued_at,
        issued_at_is_signed=issued_at_is_signed,
        envelope=data,
    )


def open_delivery(data: bytes, documents: Documents = NO_DOCUMENTS) -> Grain | SignedGrain:
    """Read a grain as delivered: bare if it is unsigned, in its envelope if it is signed.

    Raises GrainError if the signed bit of the grain is set but no envelope is around it.
    """
    if is_envelope(data):
        return open_envelope(data, documents)
    grain = grains.decode(data)
    if grain.header.is_signed:
        # Section 9.2: parsers MUST reject if the flag is 1 but no wrapper is present.
        raise _mismatch_error("the grain's signed bit is set, but its envelope is missing")
    return grain


def is_envelope(data: bytes) -> bool:
    """Return True if the first byte is that of an envelope; a bare grain begins with its version."""
    return data[:1] in _ENVELOPE_LEADS


def delivery_of(grain: Grain | SignedGrain) -> bytes:
    """Return the bytes to deliver: the envelope of a signed grain, otherwise the grain's own bytes.

    Raises GrainError for a grain whose signed bit is set: it travels only in its envelope.
    """
    if isinstance(grain, SignedGrain):
        return grain.envelope
    if grain.header.is_signed:
        # Section 9.2: if signed = 1, the grain MUST be delivered wrapped.
        raise _mismatch_error(
            "the grain's signed bit is set, so it can only be delivered in its envelope"
        )
    return grain.blob


def blob_of(delivery: bytes) -> bytes:
    """Return the bare grain in a delivery, whose hash is the address. Verifies nothing.

    Raises GrainError for an envelope without its grain.
    """
    if not is_envelope(delivery):
        return delivery
    payload = cose.parse(delivery).payload
    if payload is None:
        raise GrainError(
            "the envelope contains no grain: its payload is detached", oms_code="ERR_CORRUPT"
        )
    return payload


def signer_of(envelope: bytes) -> str:
    """Return the DID that an envelope names as its signer. Verifies nothing."""
    return _read_signer(cose.parse(envelope))


def verify(data: bytes, documents: Documents = NO_DOCUMENTS) -> bool:
    """Return True if the bytes are a signed grain with a valid signature. Never raises."""
    try:
        open_envelope(data, documents)
    except MemorandaError:
        return False
    return True


def endorsement_payload(
    fields: Mapping[str, object], *, cbor: bool = False, type_byte: int | None = None
) -> bytes:
    """Return the bytes that endorsers of a superseding grain sign: the grain without `supersession_auth`.

    The payload has no `signed` bit, so that an endorsement cannot be mistaken for the delivery of a signed grain. It
    names the superseded grain only if the grain does (`derived_from`); the caller checks that.
    """
    fields_endorsed = {name: value for name, value in fields.items() if name != "supersession_auth"}
    return grains.encode(fields_endorsed, cbor=cbor, type_byte=type_byte).blob


def endorse(payload: bytes, key: SigningKey, *, issued_at: int) -> bytes:
    """Return a detached COSE_Sign1 signature over a superseding grain."""
    return _build_envelope(payload, key, issued_at=issued_at, detached=True)


def quorum_signers(
    auth: Sequence[bytes | str],
    payload: bytes,
    authorized: Collection[str],
    documents: Documents = NO_DOCUMENTS,
) -> frozenset[str]:
    """Return the authorized DIDs that endorsed the payload, each once (section 23, mode quorum). Never raises.

    Entries are COSE_Sign1 bytes or their base64, with the payload or detached. Invalid entries and those beyond
    MAX_ENDORSEMENTS are ignored.
    """
    signers = set()
    for entry in auth[:MAX_ENDORSEMENTS]:
        try:
            message = cose.parse(_decode_endorsement(entry, len(payload)))
            # Verify signatures of authorized signers only: verification is expensive.
            if _read_signer(message) not in authorized or message.payload not in (None, payload):
                continue
            signers.add(_verify_signer(message, payload, documents))
        except (MemorandaError, ValueError):
            continue
    return frozenset(signers)


def _decode_endorsement(entry: object, payload_bytes: int) -> bytes:
    """Return the bytes of an endorsement, decoded from base64 if needed. Raises ValueError."""
    limit = payload_bytes + _ENVELOPE_OVERHEAD_BYTES
    if isinstance(entry, str) and len(entry) <= 2 * limit:
        entry = base64_decode(entry)
    if not isinstance(entry, bytes) or len(entry) > limit:
        raise ValueError("not an endorsement")
    return entry


def _build_envelope(blob: bytes, key: SigningKey, *, issued_at: int, detached: bool) -> bytes:
    """Sign the bytes and return the envelope, without the payload if `detached`."""
    if not 0 <= issued_at < 2**64:
        raise ValueError("issued_at must be a time in seconds since 1970")
    content_type = CONTENT_TYPE_CBOR if Header.parse(blob).is_cbor else CONTENT_TYPE
    protected = cose.encode(
        {
            cose.ALGORITHM: EDDSA,
            cose.CONTENT_TYPE: content_type,
            cose.KEY_ID: key.did.encode("ascii"),
            cose.CLAIMS: {_CLAIM_IAT: issued_at},
        }
    )
    signature = key.sign(cose.to_be_signed(protected, blob))
    payload = None if detached else blob
    return cose.build(
        protected=protected, unprotected={_IAT: issued_at}, payload=payload, signature=signature
    )


def _verify_signer(message: cose.Sign1, payload: bytes, documents: Documents) -> str:
    """Return the DID whose key made the signature. Raises SignatureInvalid."""
    if cose.CRITICAL in message.headers or cose.CRITICAL in message.unprotected:
        # RFC 9052 section 3.1: a critical header that is not understood is an error. We support none.
        raise SignatureInvalid("the envelope has critical headers that are not understood")
    algorithm = message.headers.get(cose.ALGORITHM)
    kind = KEY_KINDS.get(algorithm) if isinstance(algorithm, int) else None
    if kind is None:
        raise SignatureInvalid(
            "the signature algorithm is not one of EdDSA (-8), Ed25519 (-19) and ES256 (-7)"
        )
    signer = _read_signer(message)
    signed_bytes = cose.to_be_signed(message.protected, payload)
    keys = did.resolve(signer, documents)
    if not any(
        key.kind == kind and did.verify(key, signed_bytes, message.signature) for key in keys
    ):
        raise SignatureInvalid("the signature does not match the signer's key and these bytes")
    return signer


def _read_signer(message: cose.Sign1) -> str:
    """Return the signer's DID, which section 9.3 puts in `kid` of the protected header."""
    key_id = message.headers.get(cose.KEY_ID)
    try:
        signer = key_id.decode("utf-8") if isinstance(key_id, bytes) else key_id
    except UnicodeDecodeError:
        signer = None
    if not isinstance(signer, str):
        raise SignatureInvalid("the envelope does not name its signer under its signature")
    return signer


def _check_content_type(message: cose.Sign1) -> None:
    """Raise GrainError if the envelope declares content other than a grain."""
    # A signature made for another purpose must not be valid for a grain.
    if message.headers.get(cose.CONTENT_TYPE, CONTENT_TYPE) not in (
        CONTENT_TYPE,
        CONTENT_TYPE_CBOR,
    ):
        raise GrainError(
            "the content type of the envelope is not that of a grain", oms_code="ERR_CORRUPT"
        )


def _read_issued_at(message: cose.Sign1) -> tuple[int | None, bool]:
    """Return the time of signing, and True if the signature covers it. Raises if the two headers differ."""
    stated_time = message.unprotected.get(_IAT)
    claims = message.headers.get(cose.CLAIMS)
    signed_time = claims.get(_CLAIM_IAT) if isinstance(claims, Mapping) else None
    if stated_time is not None and not _is_time(stated_time):
        raise GrainError("the envelope's iat is not a time in seconds", oms_code="ERR_CORRUPT")
    if signed_time is None:
        return stated_time, False
    if not _is_time(signed_time) or signed_time != stated_time:
        raise SignatureInvalid("the envelope's iat is not the one that was signed")
    return signed_time, True


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _mismatch_error(why: str) -> GrainError:
    """Return the error of a grain whose signed bit does not fit its delivery."""
    return GrainError(why, oms_code="ERR_SIGNED_MISMATCH")
