"""Capability tokens: who lets the bearer do what, where and until when (section 5.2).

    umpcap.<base64url(canonical claims)>.ed25519:<base64url(signature)>

The signature covers BLAKE3 of the payload *text*. Unlike the reference, a token must expire, and a
claim that is not understood refuses the token: it might have been a restriction.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from blake3 import blake3

from memoranda.encoding import didkey, json_text
from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import MemorandaError, Unauthorized
from memoranda.model.instant import parse_instant

VERBS: Final = ("read", "write", "derive", "export")
TOKEN_VERSIONS: Final = ("ump-cap/0.1", "ump-cap/1.0")
SCOPE_KEYS: Final = ("owner", "project", "agent", "visibility")
# A token travels in one HTTP header; servers commonly cut headers at 8 KiB.
MAX_TOKEN_CHARS: Final = 8192

_PREFIX = "umpcap"
_SIGNATURE_PREFIX = "ed25519:"
_CLAIMS = frozenset(("v", "iss", "aud", "verbs", "scope", "nbf", "exp", "jti"))


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What a token says; times are kept as written."""

    v: str
    iss: str
    aud: str | None = None
    verbs: tuple[str, ...]
    scope: dict[str, str]
    nbf: str | None = None
    exp: str
    jti: str


def mint(claims: Claims, key: SigningKey) -> str:
    """Write and sign a token; `iss` must be the key's own DID."""
    if claims.iss != key.did:
        raise ValueError("a token is issued by the key that signs it")
    document = claims_document(claims)
    _claims(document)
    payload = base64url_encode(json_text.canonical(document))
    return f"{_PREFIX}.{payload}.{_SIGNATURE_PREFIX}{base64url_encode(key.sign(_message(payload)))}"


def claims_document(claims: Claims) -> dict[str, Any]:
    """The claims as they stand in a token; what is not set is not there."""
    document = {
        "v": claims.v,
        "iss": claims.iss,
        "aud": claims.aud,
        "verbs": list(claims.verbs),
        "scope": claims.scope,
        "nbf": claims.nbf,
        "exp": claims.exp,
        "jti": claims.jti,
    }
    return {name: value for name, value in document.items() if value is not None}


def check_time(claims: Claims, *, now: int) -> None:
    """Refuse claims that do not hold now. Both ends are inclusive: nbf == now and exp == now hold."""
    if claims.nbf is not None and parse_instant(claims.nbf) > now:
        raise Unauthorized("not_yet_valid: the capability token is not valid yet")
    if parse_instant(claims.exp) < now:
        raise Unauthorized("expired: the capability token has expired")


def claims_of(token: str) -> Claims:
    """Read a token whose signature holds, whatever the time."""
    parts = token.split(".") if len(token) <= MAX_TOKEN_CHARS else []
    if len(parts) != 3 or parts[0] != _PREFIX:
        raise Unauthorized("malformed: not a capability token")
    payload, signature_text = parts[1], parts[2]
    if not signature_text.startswith(_SIGNATURE_PREFIX):
        raise Unauthorized("bad_sig_format: the token's signature is not ed25519")
    try:
        wire = json_text.parse(base64url_decode(payload), max_bytes=MAX_TOKEN_CHARS, max_depth=4)
    except (ValueError, MemorandaError):
        raise _bad("the claims are not base64url JSON") from None
    claims = _claims(wire)
    # Section 5.2: tokens are signed by the owner DID; whether iss may speak for a scope is the caller's rule.
    try:
        signature = base64url_decode(signature_text[len(_SIGNATURE_PREFIX) :])
    except ValueError:
        raise Unauthorized("signature_invalid: the token's signature is not base64url") from None
    if not didkey.verify(claims.iss, _message(payload), signature):
        raise Unauthorized("signature_invalid: the token's signature does not verify")
    return claims


def _claims(wire: object) -> Claims:
    if not isinstance(wire, dict):
        raise _bad("the claims are not an object")
    if wire.get("v") not in TOKEN_VERSIONS:
        raise Unauthorized("unsupported_version: the token's version is not one of " + ", ".join(TOKEN_VERSIONS))
    if not _CLAIMS.issuperset(wire):
        raise _bad("it has a claim this server does not understand")
    verbs, scope = wire.get("verbs"), wire.get("scope")
    if not isinstance(verbs, list) or not verbs or not all(verb in VERBS for verb in verbs):
        raise _bad("verbs must be a non-empty array of " + "|".join(VERBS))
    if not isinstance(scope, dict) or not all(
        key in SCOPE_KEYS and isinstance(value, str) for key, value in scope.items()
    ):
        raise _bad("scope must be an object of strings with the keys " + "|".join(SCOPE_KEYS))
    return Claims(
        v=wire["v"],
        iss=_text(wire, "iss"),
        aud=_text(wire, "aud") if "aud" in wire else None,
        verbs=tuple(verbs),
        scope=scope,
        nbf=_time(wire, "nbf") if "nbf" in wire else None,
        # A token that never expires cannot be taken back: exp is required.
        exp=_time(wire, "exp"),
        jti=_text(wire, "jti"),
    )


def _text(wire: dict[str, Any], name: str) -> str:
    value = wire.get(name)
    if not isinstance(value, str) or not value:
        raise _bad(f"{name} must be a non-empty string")
    return value


def _time(wire: dict[str, Any], name: str) -> str:
    value = _text(wire, name)
    try:
        parse_instant(value)
    except ValueError:
        raise _bad(f"{name} must be an RFC 3339 date-time") from None
    return value


def _bad(why: str) -> Unauthorized:
    return Unauthorized(f"bad_payload: {why}")


def _message(payload: str) -> bytes:
    return blake3(payload.encode("ascii")).digest()
