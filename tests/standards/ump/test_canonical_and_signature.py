"""Hashes, identifiers and integrity blocks, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from tests.standards.ump.published import JSON_VALUES, KEY, VECTORS, full_record

from memoranda.encoding import didkey
from memoranda.encoding.bases import base32_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import canonical
from memoranda.errors import InvalidInput
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import is_id
from memoranda.standards.ump.signature import content_hash, derive_id, encode_random_id, sign_hash, verify, verify_hash

# Here they are asked about what no type would let through, too.
seal: Any = signature.seal
sign: Any = signature.sign


RECORD = VECTORS["record"]

# vector -> why ours differs
DIVERGENCES = {"strings": "RFC 8785 refuses lone surrogates; the reference escapes them, as JSON.stringify does"}


@pytest.mark.parametrize("name", VECTORS["keys"])
def test_keys_have_the_published_names(name: str) -> None:
    vector = VECTORS["keys"][name]
    assert SigningKey(bytes.fromhex(vector["seed_hex"])).did == vector["did"]
    assert didkey.public_key_from_did(vector["did"]).hex() == vector["public_hex"]


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=lambda vector: vector["name"])
@pytest.mark.requirement("UMP-6.1-canonical")
def test_canonical_bytes_and_their_hash(vector: Any) -> None:
    # The vectors carry results only: a canonical text is its own input.
    value = json.loads(vector["canonical"])
    if vector["name"] in DIVERGENCES:
        with pytest.raises(InvalidInput):
            canonical(value)
        value = value[:-1]
        expected = bytes.fromhex(vector["utf8_hex"])
        assert canonical(value) == expected[: expected.rindex(b',"')] + b"]"
        return
    assert canonical(value).hex() == vector["utf8_hex"]
    assert canonical(value).decode() == vector["canonical"]
    assert blake3(canonical(value)).hexdigest() == vector["blake3_hex"]


def test_blake3_known_answers() -> None:
    assert blake3(b"").hexdigest() == VECTORS["blake3_kat"]["empty_hex"]
    assert blake3(b"abc").hexdigest() == VECTORS["blake3_kat"]["abc_hex"]


@pytest.mark.requirement("UMP-2.8-integrity")
def test_the_record_vector_hashes_and_signs_as_published() -> None:
    record = full_record()
    assert canonical(record).decode() == RECORD["canonical_minus_integrity"]
    assert content_hash(record) == RECORD["content_hash"]
    assert "blake3:" + base32_encode(bytes.fromhex(RECORD["blake3_hex"])) == RECORD["content_hash"]
    assert derive_id(record) == RECORD["id_if_derived_with_empty_id"]
    assert derive_id({**record, "id": ""}) == RECORD["id_if_derived_with_empty_id"]
    assert blake3(RECORD["content_hash"].encode()).hexdigest() == RECORD["sign_input_digest_hex"]
    signed = sign(record, KEY)
    assert signed["integrity"] == RECORD["integrity"]
    assert list(signed)[-1] == "integrity"
    assert verify(signed)
    assert record == full_record()


@pytest.mark.requirement("UMP-6.2-ids")
def test_the_id_hash_covers_the_published_canonical_text() -> None:
    vector = VECTORS["remember_signed"]
    bare = {key: value for key, value in vector["stored"].items() if key != "integrity"}
    assert canonical({**bare, "id": ""}).decode() == vector["canonical_used_for_id"]
    assert derive_id(vector["stored"]) == vector["response"]["id"]


def test_signing_again_replaces_the_block() -> None:
    signed = sign({**full_record(), "integrity": {"content_hash": "old"}}, KEY)
    assert signed["integrity"] == RECORD["integrity"]


def test_sealing_keeps_a_given_id() -> None:
    assert seal(full_record(), KEY)["id"] == full_record()["id"]
    assert seal({**full_record(), "id": ""}, KEY)["id"] == RECORD["id_if_derived_with_empty_id"]


@pytest.mark.parametrize("field", [field for field in full_record() if field != "integrity"])
def test_any_change_breaks_the_signature(field: str) -> None:
    signed = sign(full_record(), KEY)
    assert not verify({**signed, field: "changed"})
    assert not verify({key: value for key, value in signed.items() if key != field})


@pytest.mark.parametrize(
    "change",
    [
        {"signer": VECTORS["keys"]["fill11"]["did"]},
        {"signer": "did:web:example.org"},
        {"signer": 7},
        {"signature": "ed25519:"},
        {"signature": RECORD["integrity"]["signature"].rstrip("=")},
        {"signature": RECORD["integrity"]["signature"].removeprefix("ed25519:")},
        {"content_hash": "blake3:aaaa"},
    ],
)
def test_a_bad_block_does_not_verify(change: Any) -> None:
    assert not verify({**full_record(), "integrity": {**RECORD["integrity"], **change}})


@given(JSON_VALUES)
def test_verification_never_raises(value: Any) -> None:
    assert not verify(value)
    assert not verify({**full_record(), "integrity": value})
    assert not verify({"x": value, "integrity": {"content_hash": "h", "signature": "s", "signer": "d"}})


def test_what_cannot_be_hashed_does_not_verify() -> None:
    assert not verify({"x": "\ud800", "integrity": RECORD["integrity"]})


def test_a_hash_is_signed_as_text() -> None:
    signature = sign_hash(RECORD["content_hash"], KEY)
    assert signature == RECORD["integrity"]["signature"]
    assert verify_hash(RECORD["content_hash"], signature, KEY.did)
    assert not verify_hash(RECORD["content_hash"] + "x", signature, KEY.did)
    assert not verify_hash("\ud800", signature, KEY.did)


@pytest.mark.requirement("UMP-6.2-ids")
def test_a_random_id_is_26_characters_of_base32() -> None:
    identity = encode_random_id(bytes(range(16)))
    assert is_id(identity)
    assert len(identity) == len("urn:ump:") + 26
    with pytest.raises(ValueError):
        encode_random_id(b"short")
