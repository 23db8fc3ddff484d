"""The public keys of did:key and did:web names (OMS section 12.2).

A did:key contains its key. A did:web names a document on the web. This module never fetches it: the caller passes the
documents it trusts, as parsed JSON, by DID. The content of a document is not trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, Literal

import msgspec

from memoranda.encoding import didkey
from memoranda.encoding.bases import base58_decode, base64url_decode
from memoranda.errors import SignatureInvalid

Documents = Mapping[str, object]
"""DID documents as parsed JSON, by the DID they describe."""

NO_DOCUMENTS: Final[Documents] = {}
# Bytes of an Ed25519 signature, and of r and s of an ES256 signature.
SIGNATURE_BYTES: Final = 64
# Keys in one document. The verifier tries them one by one, so more would be an attack on it.
MAX_METHODS: Final = 32
# Characters.
MAX_DID_CHARS: Final = 2048

_KEY_PREFIX = "did:key:z"
_WEB_PREFIX = "did:web:"
_WEB_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?:%3[Aa][0-9]{1,5})?")
_WEB_SEGMENT = re.compile(r"(?!\.+\Z)[A-Za-z0-9._~-]+")

# Multicodec varints: 0xed is an Ed25519 key, 0x1200 a compressed P-256 point.
_MULTICODECS: Final[tuple[tuple[bytes, Literal["ed25519", "p256"]], ...]] = (
    (b"\xed\x01", "ed25519"),
    (b"\x80\x24", "p256"),
)
# publicKeyBase58 does not encode the kind of key, and an X25519 key has 32 bytes too: the method's type decides.
_BASE58_TYPES: Final[dict[str, Literal["ed25519", "p256"]]] = {
    "Ed25519VerificationKey2018": "ed25519",
    "EcdsaSecp256r1VerificationKey2019": "p256",
}

# The curve y² = x³ - 3x + b over the field of p elements (FIPS 186-5).
_P256_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_P256_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B


class PublicKey(msgspec.Struct, frozen=True):
    """An Ed25519 key (32 bytes) or a compressed P-256 point (33 bytes) on its curve. Raises ValueError."""

    kind: Literal["ed25519", "p256"]
    raw: bytes

    def __post_init__(self) -> None:
        if self.kind == "ed25519":
            if len(self.raw) != 32:
                raise ValueError("an Ed25519 key has 32 bytes")
            return
        x_number = int.from_bytes(self.raw[1:], "big")
        if len(self.raw) != 33 or self.raw[0] not in (2, 3) or not _has_point_at(x_number):
            raise ValueError("not a compressed point of P-256")


def public_key_of(did: str) -> PublicKey:
    """Return the key in a did:key. Raises SignatureInvalid."""
    if len(did) > MAX_DID_CHARS or not did.startswith(_KEY_PREFIX):
        raise SignatureInvalid("the signer is not a did:key")
    try:
        return _decode_multikey(did[len(_KEY_PREFIX) :])
    except ValueError as error:
        raise SignatureInvalid(
            f"the signer's did:key holds no Ed25519 or P-256 key: {error}"
        ) from None


def resolve(did: str, documents: Documents = NO_DOCUMENTS) -> tuple[PublicKey, ...]:
    """Return the keys that may sign for a DID, at least one. Raises SignatureInvalid."""
    if not did.startswith(_WEB_PREFIX):
        return (public_key_of(did),)
    url = document_url(did)
    document = documents.get(did)
    if document is None:
        raise SignatureInvalid(
            f"the signer's DID document was not provided; it is published at {url}"
        )
    if not isinstance(document, Mapping) or document.get("id") != did:
        raise SignatureInvalid("the id of the DID document is not the signer's DID")
    keys = tuple(dict.fromkeys(_read_assertion_keys(did, document)))
    if not keys:
        raise SignatureInvalid(
            "the signer's DID document has no Ed25519 or P-256 key for assertions"
        )
    return keys


def document_url(did: str) -> str:
    """Return the URL of the document of a did:web. Raises SignatureInvalid.

    did:web:example.com → https://example.com/.well-known/did.json; did:web:example.com%3A8443:a:b →
    https://example.com:8443/a/b/did.json.
    """
    if len(did) > MAX_DID_CHARS or not did.startswith(_WEB_PREFIX):
        raise SignatureInvalid("the signer is not a well-formed did:web")
    host, *path = did.removeprefix(_WEB_PREFIX).split(":")
    if not _WEB_HOST.fullmatch(host) or not all(map(_WEB_SEGMENT.fullmatch, path)):
        raise SignatureInvalid("the signer is not a well-formed did:web")
    host = host.replace("%3A", ":").replace("%3a", ":")
    return f"https://{host}/{'/'.join(path) or '.well-known'}/did.json"


def verify(public_key: PublicKey, message: bytes, signature: bytes) -> bool:
    """Return True if the key signed the message: Ed25519, or ES256 as the 64 bytes r || s. Never raises."""
    if len(signature) != SIGNATURE_BYTES:
        return False
    if public_key.kind == "ed25519":
        return didkey.verify(didkey.did_from_public_key(public_key.raw), message, signature)
    from memoranda.standards.oms.es256 import verify_es256

    return verify_es256(public_key.raw, message, signature)


def _read_assertion_keys(did: str, document: Mapping[object, object]) -> Iterator[PublicKey]:
    """Yield the keys of the methods that may assert; without `assertionMethod`, of all methods."""
    methods_declared = document.get("verificationMethod", [])
    if not isinstance(methods_declared, list):
        methods_declared = []
    methods = [method for method in methods_declared[:MAX_METHODS] if isinstance(method, Mapping)]
    assertion_methods = methods
    if "assertionMethod" in document:
        allowed = document["assertionMethod"]
        # A malformed relation allows no method.
        allowed = allowed[:MAX_METHODS] if isinstance(allowed, list) else []
        ids = {_absolute_id(did, reference) for reference in allowed if isinstance(reference, str)}
        assertion_methods = [
            method for method in methods if _absolute_id(did, method.get("id")) in ids
        ]
        assertion_methods += [method for method in allowed if isinstance(method, Mapping)]
    for method in assertion_methods:
        key = _read_method_key(method)
        if key is not None:
            yield key


def _absolute_id(did: str, name: object) -> str | None:
    """Return the absolute form of a method id, which may be a fragment of the DID."""
    if not isinstance(name, str):
        return None
    return did + name if name.startswith("#") else name


def _read_method_key(method: Mapping[object, object]) -> PublicKey | None:
    """Return the key of a verification method, or None for an unknown kind."""
    jwk, multibase, base58 = (
        method.get(f"publicKey{form}") for form in ("Jwk", "Multibase", "Base58")
    )
    try:
        if isinstance(jwk, Mapping):
            return _read_jwk(jwk)
        if isinstance(multibase, str) and multibase.startswith("z"):
            return _decode_multikey(multibase[1:])
        kind = method.get("type")
        if isinstance(base58, str) and isinstance(kind, str) and kind in _BASE58_TYPES:
            return PublicKey(_BASE58_TYPES[kind], base58_decode(base58))
    except ValueError:
        return None
    return None


def _read_jwk(jwk: Mapping[object, object]) -> PublicKey | None:
    """Return the key of a JWK, or None for an unknown kind. Raises ValueError for a point off the curve."""
    key_type = (jwk.get("kty"), jwk.get("crv"))
    x, y = jwk.get("x"), jwk.get("y")
    # A document that publishes the private part has disclosed the key; do not trust it.
    if not isinstance(x, str) or "d" in jwk:
        return None
    if key_type == ("OKP", "Ed25519"):
        return PublicKey("ed25519", base64url_decode(x))
    if key_type == ("EC", "P-256") and isinstance(y, str):
        raw_x, raw_y = base64url_decode(x), base64url_decode(y)
        y_number = int.from_bytes(raw_y, "big")
        if len(raw_x) != 32 or len(raw_y) != 32 or y_number >= _P256_P:
            raise ValueError("P-256 coordinates have 32 bytes each")
        if pow(y_number, 2, _P256_P) != _evaluate_curve(int.from_bytes(raw_x, "big")):
            raise ValueError("not a point of P-256")
        return PublicKey("p256", bytes((2 + y_number % 2,)) + raw_x)
    return None


@lru_cache(maxsize=1024)
def _decode_multikey(text: str) -> PublicKey:
    """Decode a base58 multikey. Raises ValueError."""
    data = base58_decode(text)
    for prefix, kind in _MULTICODECS:
        if data.startswith(prefix):
            return PublicKey(kind, data[len(prefix) :])
    raise ValueError("unknown multicodec")


def _evaluate_curve(x: int) -> int:
    """Evaluate the right side of the curve's equation for x."""
    return (x**3 - 3 * x + _P256_B) % _P256_P


def _has_point_at(x: int) -> bool:
    """Return True if the curve has a point with this x coordinate."""
    # Because p ≡ 3 (mod 4), the square root of a number is its power (p+1)/4.
    square = _evaluate_curve(x)
    root = pow(square, (_P256_P + 1) // 4, _P256_P)
    return x < _P256_P and pow(root, 2, _P256_P) == square
