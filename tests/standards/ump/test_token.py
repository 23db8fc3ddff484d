"""Capability tokens, their limits in time and scope, and their forgeries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.standards.ump.published import KEY, NOW, VECTORS

from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import canonical
from memoranda.errors import Unauthorized
from memoranda.model.instant import parse_instant
from memoranda.service.core.access import Access
from memoranda.standards.ump import token
from memoranda.standards.ump.token import Claims

VECTOR = VECTORS["capability"]
TOKEN_A: str = VECTOR["a"]["token"]

# vector -> why ours differs: the reference accepts these two.
DIVERGENCES = {
    "exp_garbage": "an exp that cannot be read never expires in the reference; ours refuses it",
    "exp_missing": "a token without exp never expires in the reference; ours refuses it",
}


def claims_a(**changes: Any) -> Claims:
    grant = VECTOR["grant"]
    claims = Claims(
        v="ump-cap/0.1",
        iss=KEY.did,
        verbs=tuple(grant["verbs"]),
        scope=grant["scope"],
        exp=grant["exp"],
        jti=grant["jti"],
    )
    return replace(claims, **changes)


def signed(wire: object, key: SigningKey = KEY) -> str:
    """A token over any claims, as a careless issuer might sign it."""
    payload = base64url_encode(canonical(wire))
    return f"umpcap.{payload}.ed25519:{base64url_encode(key.sign(blake3(payload.encode()).digest()))}"


def wire_a(**changes: Any) -> dict[str, Any]:
    return {**json.loads(VECTOR["a"]["payload_json"]), **changes}


@pytest.mark.requirement("UMP-5.2-signed-by-owner")
def test_token_a_is_minted_byte_for_byte() -> None:
    assert token.mint(claims_a(), KEY) == TOKEN_A


def holding(text: str, *, now: int) -> Claims:
    """The claims of a token that holds now, as the gate reads it."""
    claims = token.verify_token(text)
    token.check_time(claims, now=now)
    return claims


def allows(claims: Claims, verb: str, scope: dict[str, str | None]) -> bool:
    """Whether whoever comes with these claims may do this there."""
    who = Access(
        credential="token:x",
        actor="a",
        tenant=None,
        default_tenant="o",
        verbs=frozenset(claims.verbs),
        limits=dict(claims.scope),
    )
    return verb in who.verbs and who.allows_scope(scope)


def test_token_b_is_minted_byte_for_byte() -> None:
    wire = json.loads(VECTOR["b"]["payload_json"])
    claims = Claims(**{**wire, "verbs": tuple(wire["verbs"])})
    assert token.mint(claims, KEY) == VECTOR["b"]["token"]
    assert holding(VECTOR["b"]["token"], now=NOW) == claims


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_published_parts_of_a_token(name: str) -> None:
    _, payload, signature = VECTOR[name]["token"].split(".")
    assert base64url_decode(payload).decode() == VECTOR[name]["payload_json"]
    assert payload == VECTOR[name]["signing_input_ascii"]
    assert blake3(payload.encode()).hexdigest() == VECTOR[name]["digest_hex"]
    assert signature == VECTOR[name]["sig"]


def test_token_a_holds() -> None:
    assert VECTOR["verify_a"] is True
    assert holding(TOKEN_A, now=NOW) == claims_a()


def test_both_ends_of_the_time_are_inclusive() -> None:
    exact = token.mint(claims_a(exp="2026-06-04T10:00:00Z", nbf="2026-06-04T10:00:00Z"), KEY)
    assert VECTOR["boundary_exp_equal"]["valid"] is True
    assert VECTOR["boundary_nbf_equal"] is True
    assert holding(exact, now=NOW).exp == "2026-06-04T10:00:00Z"
    with pytest.raises(Unauthorized, match="expired"):
        holding(exact, now=NOW + 1)
    with pytest.raises(Unauthorized, match="not_yet_valid"):
        holding(exact, now=NOW - 1)
    assert token.verify_token(exact).nbf == "2026-06-04T10:00:00Z"


@pytest.mark.requirement("OURS-issuer-bound-and-exp-required")
def test_a_token_must_have_an_expiry_that_can_be_read() -> None:
    assert set(DIVERGENCES) == {"exp_garbage", "exp_missing"}
    without = wire_a()
    del without["exp"]
    for wire in (wire_a(exp="garbage"), without, wire_a(exp=None), wire_a(exp=4_000_000_000)):
        with pytest.raises(Unauthorized, match="bad_payload: exp"):
            holding(signed(wire), now=NOW)


def test_the_published_matrix_of_what_is_allowed() -> None:
    project = holding(TOKEN_A, now=NOW)
    anywhere = claims_a(scope={})
    assert allows(anywhere, "read", {"owner": "anyone"}) is VECTOR["allows_matrix"]["any_scope_on_empty"]
    assert allows(project, "read", {}) is VECTOR["allows_matrix"]["project_on_missing"]
    assert allows(project, "derive", {"project": "p1"}) is VECTOR["allows_matrix"]["derive"]
    assert allows(project, "write", {"project": "p1"}) is VECTOR["allows_matrix"]["write"]
    assert not allows(project, "read", {"project": "p2"})
    assert not allows(project, "read", {"project": None})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "malformed"),
        ("umpcap.a", "malformed"),
        ("umpcap.a.b.c", "malformed"),
        ("umpcap2." + TOKEN_A.partition(".")[2], "malformed"),
        (TOKEN_A + "." + "x" * 9000, "malformed"),
        ("umpcap.e30.rsa:AA", "bad_sig_format"),
        ("umpcap.@@.ed25519:AA", "bad_payload"),
        ("umpcap.é.ed25519:AA", "bad_payload"),
        ("umpcap.bm90IGpzb24.ed25519:AA", "bad_payload"),
        (signed([]), "bad_payload"),
        (signed({}), "unsupported_version"),
        (signed(wire_a(v="ump-cap/9")), "unsupported_version"),
        (signed(wire_a(v=["ump-cap/0.1"])), "unsupported_version"),
        (signed(wire_a(verbs=[])), "bad_payload"),
        (signed(wire_a(verbs="read")), "bad_payload"),
        (signed(wire_a(verbs=["read", "fly"])), "bad_payload"),
        (signed(wire_a(verbs=[["read"]])), "bad_payload"),
        (signed(wire_a(scope=None)), "bad_payload"),
        (signed(wire_a(scope={"project": 1})), "bad_payload"),
        (signed(wire_a(scope={"tenant": "t"})), "bad_payload"),
        (signed(wire_a(max_uses=1)), "bad_payload"),
        (signed(wire_a(iss=5)), "bad_payload"),
        (signed(wire_a(jti="")), "bad_payload"),
        (signed(wire_a(aud=1)), "bad_payload"),
        (signed(wire_a(nbf="soon")), "bad_payload"),
        (signed(wire_a(), SigningKey(b"\x0b" * 32)), "signature_invalid"),
        (signed(wire_a(iss="did:web:example.org")), "signature_invalid"),
        (TOKEN_A[:-1] + "?", "signature_invalid"),
        (TOKEN_A[:-2], "signature_invalid"),
    ],
)
def test_a_refusal_carries_the_reference_s_reason(text: str, reason: str) -> None:
    with pytest.raises(Unauthorized, match=f"^{reason}"):
        holding(text, now=NOW)


@given(place=st.integers(0, len(TOKEN_A) - 1), symbol=st.characters(codec="utf-8"))
def test_any_flipped_character_is_refused(place: int, symbol: str) -> None:
    if TOKEN_A[place] == symbol:
        return
    with pytest.raises(Unauthorized):
        holding(TOKEN_A[:place] + symbol + TOKEN_A[place + 1 :], now=NOW)


@given(st.text(max_size=80) | st.text(max_size=40).map(lambda text: f"umpcap.{text}.ed25519:{text}"))
def test_junk_is_refused_and_never_crashes(text: str) -> None:
    with pytest.raises(Unauthorized):
        holding(text, now=NOW)


def test_version_1_0_tokens_are_read_too() -> None:
    assert holding(token.mint(claims_a(v="ump-cap/1.0"), KEY), now=NOW).v == "ump-cap/1.0"


def test_only_the_issuer_mints() -> None:
    with pytest.raises(ValueError):
        token.mint(claims_a(), SigningKey(b"\x0b" * 32))
    with pytest.raises(Unauthorized):
        token.mint(claims_a(verbs=()), KEY)


def test_a_token_from_the_far_future_does_not_overflow() -> None:
    far = token.mint(claims_a(exp="9999-12-31T23:59:59Z"), KEY)
    assert holding(far, now=parse_instant("9999-12-31T00:00:00Z")).jti == "t1"
