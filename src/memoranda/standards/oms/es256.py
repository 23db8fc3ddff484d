"""ECDSA over P-256. Most grains are signed with Ed25519, so `did.py` imports this module with the first such key."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils


def verify_es256(point: bytes, message: bytes, signature: bytes) -> bool:
    """Return True if the ECDSA signature over SHA-256 is valid for a compressed P-256 point."""
    # RFC 9053 section 2.1: r and s, 32 bytes each. A high s is accepted like a low one.
    r = int.from_bytes(signature[:32], "big")
    s = int.from_bytes(signature[32:], "big")
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        key.verify(utils.encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA256()))
    except (ValueError, InvalidSignature):
        return False
    return True
