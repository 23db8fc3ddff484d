"""Envelopes: known answers, one spelling, no flipped bit unnoticed, and quorums."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standards.oms.published import belief, refused
from tests.standards.oms.strategies import grain_fields

from memoranda.encoding.bases import base58_encode, base64_encode
from memoranda.encoding.didkey import SigningKey, public_key_from_did
from memoranda.errors import GrainError, MemorandaError, SignatureInvalid
from memoranda.standards.oms import cose, grains
from memoranda.standards.oms.did import PublicKey, verify
from memoranda.standards.oms.signature import (
    CONTENT_TYPE,
    CONTENT_TYPE_CBOR,
    MAX_ENDORSEMENTS,
    SignedGrain,
    delivery_of,
    endorse,
    endorsement_payload,
    open_delivery,
    open_envelope,
    quorum_signers,
    sign,
)
from memoranda.standards.oms.signature import verify as verify_envelope

KEY = SigningKey(bytes(range(32)))
OTHER = SigningKey(b"\x07" * 32)
IAT = 1768471200
GRAIN = grains.encode(belief(), signed=True)
ENVELOPE = sign(GRAIN, KEY, issued_at=IAT)
# RFC 9052 appendix C.2.1 and its key "11" of appendix C.7.1.
RFC_9052 = bytes.fromhex(
    "d28443a10126a10442313154546869732069732074686520636f6e74656e742e58408eb33e4ca31d1c465ab05aac34cc6b23d58fef5c083106c4"
    "d25a91aef0b0117e2af9a291aa32e14ab834dc56ed2a223444547e01f11d3b0916e5a4c345cacb36"
)
RFC_9052_KEY = PublicKey("p256", bytes.fromhex("02bac5b11cad8f99f9c72b05cf4b9e26d244dc189f745228255a219a86d6a09eff"))


def envelope(
    blob: bytes = GRAIN.blob,
    *,
    protected: dict[Any, Any] | None = None,
    unprotected: dict[Any, Any] | None = None,
    key: SigningKey = KEY,
    tagged: bool = True,
) -> bytes:
    """An envelope as another implementation might write it."""
    headers = {1: -8, 3: CONTENT_TYPE, 4: KEY.did.encode(), **(protected or {})}
    header = cose.encode({label: value for label, value in headers.items() if value is not None})
    signature = key.sign(cose.to_be_signed(header, blob))
    whole = cose.build(protected=header, unprotected=unprotected or {}, payload=blob, signature=signature)
    return whole if tagged else whole[1:]


def test_the_ecdsa_example_of_rfc_9052_verifies() -> None:
    message = cose.parse(RFC_9052)
    assert message.headers == {1: -7}
    assert message.unprotected == {4: b"11"}
    assert message.payload == b"This is the content."
    signed = cose.to_be_signed(message.protected, message.payload)
    assert verify(RFC_9052_KEY, signed, message.signature)
    assert not verify(RFC_9052_KEY, signed + b"x", message.signature)
    assert (
        cose.build(
            protected=message.protected,
            unprotected=message.unprotected,
            payload=message.payload,
            signature=message.signature,
        )
        == RFC_9052
    )


@pytest.mark.requirement("OMS-9.1-envelope")
def test_an_envelope_is_the_bytes_of_section_9_1() -> None:
    message = cose.parse(ENVELOPE)
    assert ENVELOPE[:2] == b"\xd2\x84"
    assert message.headers == {1: -8, 3: "application/vnd.mg+msgpack", 4: KEY.did.encode(), 15: {6: IAT}}
    assert message.unprotected == {"iat": IAT}
    assert message.payload == GRAIN.blob
    assert len(message.signature) == 64
    # RFC 9052 section 4.4, spelt out.
    size = len(GRAIN.blob)
    structure = (
        b"\x84\x6aSignature1\x58" + bytes((len(message.protected),)) + message.protected + b"\x40\x58" + bytes((size,))
    )
    assert verify(PublicKey("ed25519", public_key_from_did(KEY.did)), structure + GRAIN.blob, message.signature)


@pytest.mark.requirement("OMS-9.1-envelope")
def test_what_was_signed_opens_to_the_same_grain_with_its_signer_and_time() -> None:
    opened = open_envelope(ENVELOPE)
    assert opened == SignedGrain(
        grain=GRAIN, signer=KEY.did, issued_at=IAT, issued_at_is_signed=True, envelope=ENVELOPE
    )
    assert sign(belief(), KEY, issued_at=IAT) == ENVELOPE
    assert delivery_of(opened) == ENVELOPE


@pytest.mark.requirement("OMS-9.1-address-unchanged")
def test_the_address_is_that_of_the_grain_inside() -> None:
    assert open_envelope(ENVELOPE).grain.address == hashlib.sha256(GRAIN.blob).hexdigest()


def test_a_cbor_grain_says_so_in_its_content_type() -> None:
    opened = sign(grains.encode(belief(), cbor=True, signed=True), KEY, issued_at=IAT)
    assert cose.parse(opened).headers[3] == CONTENT_TYPE_CBOR
    assert verify_envelope(opened)


@given(grain_fields(), st.integers(0, 2**63))
@settings(max_examples=50)
def test_any_grain_can_be_signed_and_opened(fields: dict[str, Any], issued_at: int) -> None:
    opened = open_envelope(sign(fields, KEY, issued_at=issued_at))
    assert opened.grain == grains.encode(fields, signed=True)
    assert opened.issued_at == issued_at


@pytest.mark.requirement("OMS-9.3-verification")
def test_any_flipped_bit_of_an_envelope_is_noticed() -> None:
    assert verify_envelope(ENVELOPE)
    for position in range(len(ENVELOPE)):
        for bit in range(8):
            flipped = bytearray(ENVELOPE)
            flipped[position] ^= 1 << bit
            assert not verify_envelope(bytes(flipped)), (position, bit)


def test_an_envelope_cut_short_or_prolonged_is_refused() -> None:
    for end in range(len(ENVELOPE)):
        assert not verify_envelope(ENVELOPE[:end])
    assert not verify_envelope(ENVELOPE + b"\x00")


@pytest.mark.requirement("OMS-9.2-signed-flag")
def test_the_signed_bit_and_the_envelope_come_together_or_not_at_all() -> None:
    unsigned = grains.encode(belief())
    with refused("ERR_SIGNED_MISMATCH"):
        sign(unsigned, KEY, issued_at=IAT)
    with refused("ERR_SIGNED_MISMATCH"):
        open_envelope(envelope(unsigned.blob))
    with refused("ERR_SIGNED_MISMATCH"):
        open_delivery(GRAIN.blob)
    with refused("ERR_SIGNED_MISMATCH"):
        delivery_of(GRAIN)
    assert open_delivery(unsigned.blob) == unsigned
    assert open_delivery(ENVELOPE) == open_envelope(ENVELOPE)


@pytest.mark.requirement("OMS-9.1-algorithms")
def test_both_numbers_of_ed25519_are_accepted_and_no_others() -> None:
    assert open_envelope(envelope()).signer == KEY.did
    assert open_envelope(envelope(protected={1: -19})).signer == KEY.did
    for algorithm in (None, -7, -35, -53, -37, -257, 5, 0, "EdDSA", True):
        with pytest.raises(SignatureInvalid):
            open_envelope(envelope(protected={1: algorithm}))


@pytest.mark.requirement("OMS-9.1-algorithms")
def test_es256_verifies_under_a_p256_did_key() -> None:
    private = ec.derive_private_key(0xC0FFEE, ec.SECP256R1())
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    signer = "did:key:z" + base58_encode(b"\x80\x24" + point)
    header = cose.encode({1: -7, 3: CONTENT_TYPE, 4: signer.encode()})
    der = private.sign(cose.to_be_signed(header, GRAIN.blob), ec.ECDSA(hashes.SHA256()))
    r, s = utils.decode_dss_signature(der)
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    for each in (s, order - s):
        signature = r.to_bytes(32, "big") + each.to_bytes(32, "big")
        data = cose.build(protected=header, unprotected={}, payload=GRAIN.blob, signature=signature)
        assert open_envelope(data).signer == signer
    broken = cose.build(protected=header, unprotected={}, payload=GRAIN.blob, signature=der[:64])
    assert not verify_envelope(broken)


def test_the_tag_may_be_missing_and_the_signer_may_be_text() -> None:
    for data in (envelope(tagged=False), envelope(protected={4: KEY.did}), envelope(protected={3: None})):
        opened = open_envelope(data)
        assert opened.signer == KEY.did
        assert opened.issued_at is None
        assert not opened.issued_at_is_signed


def test_a_time_outside_the_signature_is_told_apart() -> None:
    opened = open_envelope(envelope(unprotected={"iat": 7}))
    assert (opened.issued_at, opened.issued_at_is_signed) == (7, False)
    with pytest.raises(SignatureInvalid):
        open_envelope(envelope(protected={15: {6: IAT}}, unprotected={"iat": IAT + 1}))
    with pytest.raises(SignatureInvalid):
        open_envelope(envelope(protected={15: {6: IAT}}))
    for wrong in ("now", -1, True, None):
        with pytest.raises((GrainError, SignatureInvalid)):
            open_envelope(envelope(protected={15: {6: IAT}}, unprotected={"iat": wrong}))


@pytest.mark.parametrize(
    "protected",
    [
        {4: None},
        {4: 7},
        {4: b"\xff"},
        {4: OTHER.did.encode()},
        {4: (KEY.did + "#k").encode()},
        {2: [99]},
        {4: b"did:web:example.com"},
    ],
)
def test_an_envelope_that_does_not_prove_its_signer_is_refused(protected: dict[Any, Any]) -> None:
    with pytest.raises(SignatureInvalid):
        open_envelope(envelope(protected=protected))


def test_a_signature_made_for_something_else_does_not_vouch_for_a_grain() -> None:
    with refused("ERR_CORRUPT"):
        open_envelope(envelope(protected={3: "application/cwt"}))
    with refused("ERR_CORRUPT"):
        open_envelope(endorse(GRAIN.blob, KEY, issued_at=IAT))


@pytest.mark.requirement("OMS-9.3-did-web-offline")
def test_a_did_web_signer_is_verified_against_the_document_at_hand() -> None:
    web = "did:web:example.com"
    data = envelope(protected={4: web.encode()})
    method = {"id": "#1", "type": "Multikey", "publicKeyMultibase": KEY.did.removeprefix("did:key:")}
    assert open_envelope(data, {web: {"id": web, "verificationMethod": [method]}}).signer == web
    stranger = {**method, "publicKeyMultibase": OTHER.did.removeprefix("did:key:")}
    assert not verify_envelope(data, {web: {"id": web, "verificationMethod": [stranger]}})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xd2",
        b"\xd2\x84",
        b"\xd2\xd2\x84\x40\xa0\x40\x40",
        b"\x84\x40\xa0\x40",
        b"\x85\x40\xa0\x40\x40\x40",
        b"\x9f\x40\xa0\x40\x40\xff",  # indefinite length
        b"\x84\x40\xa2\x01\x01\x01\x02\x40\x40",  # a label twice
        b"\x84\x43\xa1\x01\x26\xa1\x01\x26\x40\x40",  # a label in both headers
        b"\x84\x58\x03\xa1\x01\x26\xa0\x40\x40",  # a length not in its shortest form
        b"\x84\x40\xa1\xf5\x01\x40\x40",  # true as a label
        b"\x84\x40\xa1\x01\xc0\x60\x40\x40",  # a tag inside
        b"\x84\x40\xa1\x01\xf9\x00\x00\x40\x40",  # a float
        b"\x84\x40\xa1\x01\x61\xff\x40\x40",  # text that is not UTF-8
        b"\x84\x01\xa0\x40\x40",
        b"\x84\x41\x01\xa0\x40\x40",
        b"\x84\x40\x40\x40\x40",
        b"\x84\x40\xa0\x01\x40",
        b"\x84\x40\xa1\x01" + b"\x81" * 20 + b"\x01\x40\x40",
        b"\x84\x5b" + b"\xff" * 8,
        b"\x9b" + b"\xff" * 8,
        b"\xbb" + b"\xff" * 8,
    ],
)
def test_malformed_envelopes_are_refused(data: bytes) -> None:
    with refused("ERR_CORRUPT"):
        open_envelope(data)


@given(st.binary(max_size=200) | st.binary(max_size=80).map(lambda tail: ENVELOPE[:60] + tail))
def test_arbitrary_bytes_raise_only_our_errors(data: bytes) -> None:
    for opener in (open_envelope, open_delivery):
        with pytest.raises(MemorandaError):
            opener(data)


AUTHORIZED = [KEY.did, OTHER.did]
SUPERSEDING = belief(object="coffee", derived_from=[GRAIN.address])
PAYLOAD = endorsement_payload(SUPERSEDING)


@pytest.mark.requirement("OMS-23.2-endorsements")
def test_a_quorum_counts_distinct_authorised_signers_of_exactly_this_grain() -> None:
    third = SigningKey(b"\x09" * 32)
    mine, theirs = (endorse(PAYLOAD, key, issued_at=IAT) for key in (KEY, OTHER))
    stranger = endorse(PAYLOAD, third, issued_at=IAT)
    elsewhere = endorse(endorsement_payload(belief(object="water")), OTHER, issued_at=IAT)
    assert quorum_signers([mine, theirs], PAYLOAD, AUTHORIZED) == {KEY.did, OTHER.did}
    assert quorum_signers([mine, mine, base64_encode(mine)], PAYLOAD, AUTHORIZED) == {KEY.did}
    assert quorum_signers([stranger, elsewhere, mine[:-1] + b"\x00"], PAYLOAD, AUTHORIZED) == frozenset()
    attached = envelope(PAYLOAD, key=KEY)
    assert quorum_signers([attached], PAYLOAD, AUTHORIZED) == {KEY.did}
    assert quorum_signers([envelope(GRAIN.blob)], PAYLOAD, AUTHORIZED) == frozenset()


@pytest.mark.requirement("OMS-23.2-endorsements")
def test_endorsements_travel_in_the_grain_that_they_endorse() -> None:
    auth = [endorse(PAYLOAD, key, issued_at=IAT) for key in (KEY, OTHER)]
    carried = grains.decode(grains.encode({**SUPERSEDING, "supersession_auth": auth}).blob)
    payload = endorsement_payload(carried.fields)
    assert payload == PAYLOAD
    assert quorum_signers(carried.fields["supersession_auth"], payload, AUTHORIZED) == set(AUTHORIZED)


@given(st.lists(st.binary(max_size=40) | st.text(max_size=40), max_size=5))
def test_junk_among_endorsements_counts_for_nothing(junk: list[bytes | str]) -> None:
    mine = endorse(PAYLOAD, KEY, issued_at=IAT)
    assert quorum_signers([*junk, mine], PAYLOAD, AUTHORIZED) == {KEY.did}


def test_nobody_pays_for_a_million_endorsements() -> None:
    mine = endorse(PAYLOAD, KEY, issued_at=IAT)
    assert quorum_signers([b""] * MAX_ENDORSEMENTS + [mine], PAYLOAD, AUTHORIZED) == frozenset()
    assert quorum_signers([b"\x00" * 10_000_000, "A" * 10_000_000, mine], PAYLOAD, AUTHORIZED) == {KEY.did}
