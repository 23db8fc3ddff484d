"""Capability tokens: an issuer grants a bearer verbs within a scope and a period (section 5.2).

    umpcap.<base64url(canonical claims)>.ed25519:<base64url(signature)>

The signature covers BLAKE3 of the payload *text*. Unlike in the reference implementation, a token must expire, and an
unknown claim invalidates the token, because it might be a restriction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
# Characters. A token is sent in one HTTP header, which servers commonly limit to 8 KiB.
MAX_TOKEN_CHARS: Final = 8192

_PREFIX = "umpcap"
_SIGNATURE_PREFIX = "ed25519:"
_CLAIM_NAMES = frozenset(("v", "iss", "aud", "verbs", "scope", "nbf", "exp", "jti"))


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of a token; times are strings as received."""

    v: str
    iss: str
    aud: str | None = None
    verbs: tuple[str, ...]
    scope: dict[str, str]
    nbf: str | None = None
    exp: str
    jti: str


def mint(claims: Claims, key: SigningKey) -> str:
    """Sign a token. `iss` must be the key's own DID. Raises ValueError or Unauthorized."""
    if claims.iss != key.did:
        raise ValueError("the issuer of a token must be the DID of the key that signs it")
    document = claims_to_json(claims)
    _parse_claims(document)
    payload = base64url_encode(json_text.canonical(document))
    return f"{_PREFIX}.{payload}.{_SIGNATURE_PREFIX}{base64url_encode(key.sign(_signed_bytes(payload)))}"


def claims_to_json(claims: Claims) -> dict[str, object]:
    """Return the claims as JSON for a token; unset claims are absent."""
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
    """Raise Unauthorized if the claims do not hold now. Both ends are inclusive."""
    if claims.nbf is not None and parse_instant(claims.nbf) > now:
        raise Unauthorized("not_yet_valid: the capability token is not valid yet")
    if parse_instant(claims.exp) < now:
        raise Unauthorized("expired: the capability token has expired")


def verify_token(token: str) -> Claims:
    """Parse a token and verify its signature, but not its times. Raises Unauthorized."""
    parts = token.split(".") if len(token) <= MAX_TOKEN_CHARS else []
    if len(parts) != 3 or parts[0] != _PREFIX:
        raise Unauthorized("malformed: not a capability token")
    payload, signature_text = parts[1], parts[2]
    if not signature_text.startswith(_SIGNATURE_PREFIX):
        raise Unauthorized("bad_sig_format: the token's signature is not ed25519")
    try:
        wire = json_text.parse(base64url_decode(payload), max_bytes=MAX_TOKEN_CHARS, max_depth=4)
    except (ValueError, MemorandaError):
        raise _payload_error("the claims are not base64url JSON") from None
    claims = _parse_claims(wire)
    # Section 5.2: the owner DID signs tokens. The caller decides whether iss has authority over the scope.
    try:
        signature = base64url_decode(signature_text[len(_SIGNATURE_PREFIX) :])
    except ValueError:
        raise Unauthorized("signature_invalid: the token's signature is not base64url") from None
    if not didkey.verify(claims.iss, _signed_bytes(payload), signature):
        raise Unauthorized("signature_invalid: the token's signature does not verify")
    return claims


def _parse_claims(wire: object) -> Claims:
    """Parse and check the claims of a token. Raises Unauthorized."""
    if not isinstance(wire, dict):
        raise _payload_error("the claims are not an object")
    if wire.get("v") not in TOKEN_VERSIONS:
        raise Unauthorized(
            "unsupported_version: the token's version is not one of " + ", ".join(TOKEN_VERSIONS)
        )
    if not _CLAIM_NAMES.issuperset(wire):
        raise _payload_error("it has a claim this server does not understand")
    verbs, scope = wire.get("verbs"), wire.get("scope")
    if not isinstance(verbs, list) or not verbs or not all(verb in VERBS for verb in verbs):
        raise _payload_error("verbs must be a non-empty array of " + "|".join(VERBS))
    if not isinstance(scope, dict) or not all(
        key in SCOPE_KEYS and isinstance(value, str) for key, value in scope.items()
    ):
        raise _payload_error(
            "scope must be an object of strings with the keys " + "|".join(SCOPE_KEYS)
        )
    return Claims(
        v=wire["v"],
        iss=_read_text(wire, "iss"),
        aud=_read_text(wire, "aud") if "aud" in wire else None,
        verbs=tuple(verbs),
        scope=scope,
        nbf=_read_time(wire, "nbf") if "nbf" in wire else None,
        # A token that never expires could not be revoked, so exp is required.
        exp=_read_time(wire, "exp"),
        jti=_read_text(wire, "jti"),
    )


def _read_text(wire: Mapping[str, object], name: str) -> str:
    """Return a claim that must be a non-empty string. Raises Unauthorized."""
    value = wire.get(name)
    if not isinstance(value, str) or not value:
        raise _payload_error(f"{name} must be a non-empty string")
    return value


def _read_time(wire: Mapping[str, object], name: str) -> str:
    """Return a claim that must be a date-time, as a string. Raises Unauthorized."""
    value = _read_text(wire, name)
    try:
        parse_instant(value)
    except ValueError:
        raise _payload_error(f"{name} must be an RFC 3339 date-time") from None
    return value


def _payload_error(why: str) -> Unauthorized:
    """Return the error of malformed claims."""
    return Unauthorized(f"bad_payload: {why}")


def _signed_bytes(payload: str) -> bytes:
    """Return the bytes that the signature covers."""
    return blake3(payload.encode("ascii")).digest()
