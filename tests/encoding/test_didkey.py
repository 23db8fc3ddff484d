"""Keys, their names and their signatures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.encoding import didkey
from memoranda.encoding.bases import base58_encode
from memoranda.encoding.didkey import SigningKey

# The eight small-order points of Ed25519 in canonical form begin with these four.
SMALL_ORDER = [
    bytes(32),
    b"\x01" + bytes(31),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
]


@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=100))
def test_a_signature_holds_for_its_message_and_no_other(seed: bytes, message: bytes) -> None:
    key = SigningKey(seed)
    signature = key.sign(message)
    assert didkey.verify(key.did, message, signature)
    assert not didkey.verify(key.did, message + b"x", signature)


def test_a_key_round_trips_through_its_name() -> None:
    public = bytes(range(32))
    assert didkey.public_key_from_did(didkey.did_from_public_key(public)) == public


def test_the_representation_does_not_show_the_seed() -> None:
    shown = repr(SigningKey(b"\x5a" * 32))
    assert "ZZZZ" not in shown
    assert "did:key:z" in shown


@pytest.mark.parametrize("public", SMALL_ORDER)
def test_a_small_order_key_verifies_nothing(public: bytes) -> None:
    did = didkey.did_from_public_key(public)
    for forged in (bytes(64), b"\x01" + bytes(63), public + bytes(32)):
        assert not didkey.verify(did, b"anything", forged)


@pytest.mark.parametrize(
    "did",
    [
        "",
        "did:web:example.org",
        "did:key:z",
        "did:key:z0",
        "did:key:z" + "2" * 300,
        "did:key:z" + base58_encode(b"\xec\x01" + bytes(32)),
        "did:key:z" + base58_encode(b"\xed\x01" + bytes(31)),
    ],
)
def test_junk_is_not_a_name(did: str) -> None:
    with pytest.raises(ValueError):
        didkey.public_key_from_did(did)
    assert not didkey.verify(did, b"", bytes(64))


@given(did=st.text(), signature=st.binary(max_size=80))
def test_verification_never_raises(did: str, signature: bytes) -> None:
    assert not didkey.verify(did, b"message", signature)


def test_a_seed_has_32_bytes() -> None:
    with pytest.raises(ValueError):
        SigningKey(b"short")
    with pytest.raises(ValueError):
        didkey.did_from_public_key(b"short")
