"""Binary data as text: base32, base58btc, base64 and base64url, each with exactly one spelling.

Decoders are strict: two different texts never decode to the same bytes, so a text that was signed, hashed or used as a
name has no second spelling. They raise ValueError.
"""

from __future__ import annotations

import base64
import binascii

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
# Pairs of symbols, indexed by ten bits.
_BASE32_PAIRS = [one + other for one in _BASE32 for other in _BASE32]
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58_VALUES = {symbol: value for value, symbol in enumerate(_BASE58)}

# Characters. Base58 takes quadratic time; the longest use, a did:key of any kind, is far below this.
MAX_BASE58_CHARS = 256


def base32_encode(data: bytes) -> str:
    """Encode as RFC 4648 base32, lower case, without padding. Every write needs this; it is faster than the library."""
    bits = len(data) * 8
    number = int.from_bytes(data, "big") << -bits % 10
    pairs = _BASE32_PAIRS
    shifts = range(bits + -bits % 10 - 10, -1, -10)
    encoded = "".join([pairs[number >> shift & 0x3FF] for shift in shifts])
    return encoded[: (bits + 4) // 5]


def base58_encode(data: bytes) -> str:
    """Encode as base58btc, the encoding of multibase prefix `z`."""
    zeros = len(data) - len(data.lstrip(b"\0"))
    number = int.from_bytes(data, "big")
    symbols = []
    while number:
        number, value = divmod(number, 58)
        symbols.append(_BASE58[value])
    return "1" * zeros + "".join(reversed(symbols))


def base58_decode(text: str) -> bytes:
    """Decode base58btc of at most MAX_BASE58_CHARS.

    Raises ValueError for a longer text, and for characters that are not of the alphabet.
    """
    if len(text) > MAX_BASE58_CHARS:
        raise ValueError(f"base58 longer than {MAX_BASE58_CHARS} characters")
    number = 0
    for symbol in text:
        value = _BASE58_VALUES.get(symbol)
        if value is None:
            raise ValueError("not base58")
        number = number * 58 + value
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


def base64_encode(data: bytes) -> str:
    """Encode as standard base64 with padding."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def base64_decode(text: str) -> bytes:
    """Decode standard base64 with padding.

    Raises ValueError for every spelling but the one that `base64_encode` writes, so that equal bytes have equal texts.
    """
    data = _decode_base64(text)
    if base64_encode(data) != text:
        raise ValueError("base64 in a non-canonical spelling")
    return data


def base64url_encode(data: bytes) -> str:
    """Encode as URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def base64url_decode(text: str) -> bytes:
    """Decode URL-safe base64 without padding.

    Raises ValueError for every spelling but the one that `base64url_encode` writes.
    """
    if "+" in text or "/" in text or "=" in text:
        raise ValueError("not base64url without padding")
    padding = "=" * (-len(text) % 4)
    data = _decode_base64(text.replace("-", "+").replace("_", "/") + padding)
    if base64url_encode(data) != text:
        raise ValueError("base64url with stray trailing bits")
    return data


def _decode_base64(text: str) -> bytes:
    """Decode standard base64. Raises ValueError."""
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except UnicodeEncodeError:
        raise ValueError("not base64") from None
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None
