"""Public keys behind DIDs, known answers first; then documents that mean harm."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.published import MICRO

from memoranda.encoding.bases import base58_encode, base64url_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import SignatureInvalid
from memoranda.standards.oms.did import MAX_METHODS, PublicKey, document_url, public_key_of, resolve, verify

# RFC 8032 section 7.1, tests 1 and 2.
RFC_8032 = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
            "655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
            "b00d291612bb0c00"
        ),
    ),
]
# The did:key specification, section 7.1.3, and the JWK it gives for it.
P256_DID = "did:key:zDnaerx9CtbPJ1q36T5Ln5wYt3MQYeGRG5ehnPAmxcf5mDZpv"
P256_JWK = {
    "kty": "EC",
    "crv": "P-256",
    "x": "igrFmi0whuihKnj9R3Om1SoMph72wUGeFaBbzG2vzns",
    "y": "efsX5b10x8yjyrj4ny3pGfLcY7Xby1KzgqOdqnsrJIM",
}
KEY = SigningKey(bytes(range(32)))
OTHER = SigningKey(bytes(32))
WEB = "did:web:example.com:agents:summarizer"
MULTIKEY = {
    "id": "#key-1",
    "type": "Multikey",
    "controller": WEB,
    "publicKeyMultibase": KEY.did.removeprefix("did:key:"),
}


def document(*methods: object, **fields: object) -> dict[str, Any]:
    return {WEB: {"id": WEB, "verificationMethod": list(methods), **fields}}


def raw(key: SigningKey) -> bytes:
    return public_key_of(key.did).raw


@pytest.mark.requirement("OMS-9.3-did-key")
def test_the_published_did_key_decodes_to_its_published_bytes() -> None:
    vector = MICRO["did:key decode"]
    assert public_key_of(vector["input"]) == PublicKey("ed25519", bytes.fromhex(vector["raw_hex"])[2:])


@pytest.mark.requirement("OMS-9.3-did-key")
def test_a_p256_did_key_is_the_point_of_its_published_jwk() -> None:
    (from_jwk,) = resolve(WEB, document({"id": "#1", "publicKeyJwk": P256_JWK}))
    assert public_key_of(P256_DID) == from_jwk
    assert from_jwk.kind == "p256"


@pytest.mark.parametrize(("public", "message", "signature"), RFC_8032)
def test_ed25519_known_answers(public: str, message: str, signature: str) -> None:
    key = PublicKey("ed25519", bytes.fromhex(public))
    assert verify(key, bytes.fromhex(message), bytes.fromhex(signature))
    assert not verify(key, bytes.fromhex(message) + b"x", bytes.fromhex(signature))
    assert not verify(key, bytes.fromhex(message), bytes.fromhex(signature)[:-1])


def test_small_order_keys_vouch_for_nothing() -> None:
    neutral = PublicKey("ed25519", b"\x01" + bytes(31))
    assert not verify(neutral, b"anything", b"\x01" + bytes(63))


def test_junk_signatures_of_p256_are_false() -> None:
    key = public_key_of(P256_DID)
    for signature in (bytes(64), b"\xff" * 64, b"", bytes(63)):
        assert not verify(key, b"message", signature)


@pytest.mark.parametrize(
    "did",
    [
        "",
        "did:key:",
        "did:key:z",
        "did:key:z0",
        "did:key:u" + base64url_encode(b"\xed\x01" + bytes(32)),
        "did:key:z" + base58_encode(b"\xed\x01" + bytes(31)),
        "did:key:z" + base58_encode(b"\xed\x01" + bytes(33)),
        "did:key:z" + base58_encode(b"\xec\x01" + bytes(32)),  # X25519
        "did:key:z" + base58_encode(b"\xe7\x01\x02" + bytes(32)),  # secp256k1
        "did:key:z" + base58_encode(b"\x80\x24\x04" + bytes(32)),
        "did:key:z" + base58_encode(b"\x80\x24\x02" + b"\xff" * 32),
        "did:key:z" + base58_encode(b"\x80\x24\x02" + (5).to_bytes(32, "big"))[:-1],
        KEY.did + "#key-1",
        "did:key:z" + "1" * 5000,
        "did:ion:abc",
    ],
)
def test_what_is_not_a_key_we_know_is_refused(did: str) -> None:
    with pytest.raises(SignatureInvalid):
        resolve(did)


@pytest.mark.requirement("OMS-9.3-did-web-offline")
@pytest.mark.parametrize(
    "method",
    [
        MULTIKEY,
        {"id": f"{WEB}#k", "type": "JsonWebKey2020", "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": "…"}},
        {"id": "#k", "type": "Ed25519VerificationKey2018", "publicKeyBase58": "…"},
    ],
)
def test_the_keys_of_a_document_at_hand(method: dict[str, Any]) -> None:
    filled = {
        **method,
        **(
            {"publicKeyJwk": {**method["publicKeyJwk"], "x": base64url_encode(raw(KEY))}}
            if "publicKeyJwk" in method
            else {}
        ),
        **({"publicKeyBase58": base58_encode(raw(KEY))} if "publicKeyBase58" in method else {}),
    }
    assert resolve(WEB, document(filled)) == (PublicKey("ed25519", raw(KEY)),)


@pytest.mark.requirement("OMS-9.3-did-web-offline")
def test_without_the_document_the_message_says_where_it_is_published() -> None:
    with pytest.raises(SignatureInvalid, match=re.escape("https://example.com/agents/summarizer/did.json")):
        resolve(WEB)


@pytest.mark.parametrize(
    ("did", "url"),
    [
        ("did:web:example.com", "https://example.com/.well-known/did.json"),
        ("did:web:example.com:a:b", "https://example.com/a/b/did.json"),
        ("did:web:localhost%3A8443:a", "https://localhost:8443/a/did.json"),
    ],
)
def test_where_a_did_web_is_published(did: str, url: str) -> None:
    assert document_url(did) == url


@pytest.mark.parametrize(
    "did",
    ["did:web:", "did:web:a b", "did:web:a:..", "did:web:a::b", "did:web:a/b", "did:web:a%2Fb", "did:web:u@h", KEY.did],
)
def test_a_did_web_that_could_lead_elsewhere_is_refused(did: str) -> None:
    with pytest.raises(SignatureInvalid):
        document_url(did)


def test_only_the_methods_for_assertions_count_when_the_document_lists_them() -> None:
    other = {"id": f"{WEB}#key-2", "type": "Multikey", "publicKeyMultibase": OTHER.did.removeprefix("did:key:")}
    ours, theirs = PublicKey("ed25519", raw(KEY)), PublicKey("ed25519", raw(OTHER))
    assert resolve(WEB, document(MULTIKEY, other)) == (ours, theirs)
    assert resolve(WEB, document(MULTIKEY, other, assertionMethod=["#key-2"])) == (theirs,)
    assert resolve(WEB, document(MULTIKEY, other, assertionMethod=[f"{WEB}#key-1"])) == (ours,)
    assert resolve(WEB, document(MULTIKEY, assertionMethod=[other])) == (theirs,)
    for nothing in ([], "#key-1", None, [7], ["did:web:other#key-1"]):
        with pytest.raises(SignatureInvalid):
            resolve(WEB, document(MULTIKEY, other, assertionMethod=nothing))


@pytest.mark.parametrize(
    "method",
    [
        {"publicKeyJwk": {**P256_JWK, "y": P256_JWK["x"]}},  # not on the curve
        {"publicKeyJwk": {**P256_JWK, "d": "AA"}},  # gives its secret away
        {"publicKeyJwk": {"kty": "OKP", "crv": "X25519", "x": base64url_encode(bytes(32))}},
        {"publicKeyJwk": {"kty": "EC", "crv": "P-256", "x": P256_JWK["x"]}},
        {"publicKeyJwk": []},
        {"publicKeyMultibase": "m" + base64url_encode(bytes(34))},
        {"publicKeyMultibase": "z" + "1" * 5000},
        {"type": "X25519KeyAgreementKey2019", "publicKeyBase58": base58_encode(bytes(range(32)))},
        {"type": [], "publicKeyBase58": base58_encode(bytes(range(32)))},
        {},
        None,
    ],
)
def test_keys_that_cannot_verify_are_passed_over(method: object) -> None:
    entry = {"id": "#bad", **method} if isinstance(method, dict) else method
    with pytest.raises(SignatureInvalid):
        resolve(WEB, document(entry))
    assert resolve(WEB, document(entry, MULTIKEY)) == (PublicKey("ed25519", raw(KEY)),)


def test_a_document_for_someone_else_is_refused() -> None:
    documents: list[object] = [{"id": "did:web:example.org"}, {}, [], "text", 7, {"id": ["did:web:example.com"]}]
    for wrong in documents:
        with pytest.raises(SignatureInvalid):
            resolve(WEB, {WEB: wrong})


def test_a_document_cannot_make_us_try_any_number_of_keys() -> None:
    methods = [
        {"id": f"#{n}", "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": base64url_encode(n.to_bytes(32, "big"))}}
        for n in range(1, 1000)
    ]
    assert len(resolve(WEB, document(*methods))) == MAX_METHODS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([WEB, "#key-1", "Multikey"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["id", "type", "verificationMethod", "assertionMethod", "publicKeyJwk", "kty", "crv", "x", "y"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, JSON)
def test_hostile_documents_never_crash(methods: Any, relation: Any) -> None:
    for documents in ({WEB: methods}, {WEB: {"id": WEB, "verificationMethod": methods, "assertionMethod": relation}}):
        with pytest.raises(SignatureInvalid):
            resolve(WEB, documents)
