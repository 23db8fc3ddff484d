"""The normal form of every payload value before it is encoded (sections 4.3 to 4.6, 4.10).

    strings   NFC, no byte order mark, no lone surrogate
    maps      string keys, unique also after NFC; null entries are left out
    arrays    unchanged; a null item stays, because dropping it would shift the other items
    floats    finite
    integers  at most 64 bits
    bytes     allowed by the encodings; grains.py restricts the fields that may contain them
    depth     a limited number of nested maps and arrays

`is_normal` handles the common case without allocating anything. `normalise` is the slower, complete path; it also
reports the error and its location.

Equal grains must have equal bytes in every implementation. So a new kind of value needs a rule here before it may be
encoded, and both paths must treat it alike.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from memoranda.errors import GrainError

# Levels of nested maps and arrays; section 4.10, extended profile.
MAX_DEPTH: Final = 32
MIN_INTEGER: Final = -(2**63)
# Values of signed (negative) and unsigned (positive) integers of 64 bits.
MAX_INTEGER: Final = 2**64 - 1

BOM: Final = "\ufeff"
# Characters of a key in an error message.
_QUOTED_KEY_CHARS: Final = 40


def is_normal(value: Any, max_depth: int = MAX_DEPTH) -> bool:
    """Return True if the value is certainly in normal form; False also if only `normalise` can decide."""
    kind = type(value)
    if kind is str:
        return is_normal_text(value)
    if kind is dict:
        if max_depth < 1:
            return False
        for key, item in value.items():
            if type(key) is not str or not is_normal_text(key):
                return False
            # Most values are short ASCII texts; checking them inline saves a call.
            if type(item) is str and item.isascii():
                continue
            if item is None or not is_normal(item, max_depth - 1):
                return False
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is int:
        return not (value < MIN_INTEGER or value > MAX_INTEGER)
    if kind is list:
        return max_depth >= 1 and all(is_normal(item, max_depth - 1) for item in value)
    return kind is bool or value is None


def is_normal_text(text: str) -> bool:
    """Return True if the text is NFC, without byte order mark and without lone surrogate."""
    return text.isascii() or (
        unicodedata.is_normalized("NFC", text) and BOM not in text and not _has_surrogate(text)
    )


def normalise(value: object, *, max_depth: int = MAX_DEPTH, path: str = "") -> Any:
    """Return the value in normal form, as new dicts, lists, str, int, float, bool, bytes and None.

    Raises GrainError.
    """
    match value:
        case None | bool():
            return value
        case str():
            return _normalise_text(value, path)
        case int():
            return _check_integer(int(value), path)
        case float():
            return _checked_float(float(value), path)
        case bytes() | bytearray():
            return bytes(value)
        case Mapping():
            _check_depth(max_depth, path)
            return _normalise_map(value, max_depth - 1, path)
        case list() | tuple():
            _check_depth(max_depth, path)
            return [
                normalise(item, max_depth=max_depth - 1, path=f"{path}[{index}]")
                for index, item in enumerate(value)
            ]
    raise GrainError(
        f"{_describe_path(path)} has the type {type(value).__name__}, which a grain cannot contain",
        oms_code="ERR_SCHEMA",
    )


def refuse_bytes(fields: Mapping[str, object], allowed: frozenset[str]) -> None:
    """Raise GrainError if a map in normal form has byte strings under any but the allowed keys."""
    for key, value in fields.items():
        if key not in allowed and _has_bytes(value):
            # Appendix B defines no binary data; section 6.1 needs it in a few fields.
            raise GrainError(
                f"{quote_key(key)} contains binary data, which only {_join_names(allowed)} may contain",
                oms_code="ERR_CORRUPT",
            )


def quote_key(key: str) -> str:
    """Return a key for an error message: quoted, escaped and shortened."""
    return ascii(key if len(key) <= _QUOTED_KEY_CHARS else key[:_QUOTED_KEY_CHARS] + "…")


def check_float(number: float, path: str) -> None:
    """Raise GrainError for NaN and infinity, which section 4.3 forbids."""
    if not math.isfinite(number):
        raise GrainError(
            f"{_describe_path(path)} is not a finite number", oms_code="ERR_FLOAT_INVALID"
        )


def _normalise_text(text: str, path: str) -> str:
    """Return the text in NFC. Raises GrainError for a lone surrogate or a byte order mark."""
    if _has_surrogate(text):
        raise GrainError(f"{_describe_path(path)} has a lone surrogate", oms_code="ERR_CORRUPT")
    if BOM in text:
        # Sections 4.4 and 19.3: strings MUST NOT contain a byte order mark.
        raise GrainError(
            f"{_describe_path(path)} contains a byte order mark", oms_code="ERR_CORRUPT"
        )
    # A text of a subclass becomes a plain one, which every encoder accepts.
    return unicodedata.normalize("NFC", str.__str__(text))


def _check_integer(number: int, path: str) -> int:
    """Return the integer if it fits in 64 bits. Raises GrainError."""
    if not MIN_INTEGER <= number <= MAX_INTEGER:
        raise GrainError(
            f"{_describe_path(path)} is an integer beyond 64 bits", oms_code="ERR_RANGE"
        )
    return number


def _checked_float(number: float, path: str) -> float:
    """Return the float if it is finite. Raises GrainError."""
    check_float(number, path)
    return number


def _normalise_map(value: Mapping[object, object], max_depth: int, path: str) -> dict[str, object]:
    """Return the map in normal form. Raises GrainError for keys that are not text or occur twice."""
    normal: dict[str, object] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise GrainError(
                f"{_describe_path(path)} has a key that is not text", oms_code="ERR_CORRUPT"
            )
        name = _normalise_text(key, path)
        if name in normal:
            # Section 4.1: duplicate keys MUST be rejected; NFC can make two different keys equal.
            raise GrainError(
                f"{_describe_path(path)} has the key {quote_key(name)} twice",
                oms_code="ERR_CORRUPT",
            )
        # Section 4.5: null entries MUST be omitted.
        if item is not None:
            normal[name] = normalise(
                item, max_depth=max_depth, path=f"{path}.{name}" if path else name
            )
    return normal


def _check_depth(max_depth: int, path: str) -> None:
    """Raise GrainError if no further level of nesting is allowed."""
    if max_depth < 1:
        raise GrainError(f"{_describe_path(path)} is nested too deeply", oms_code="ERR_CORRUPT")


def _has_bytes(value: object) -> bool:
    """Return True if the value contains byte strings at any depth."""
    if isinstance(value, dict):
        return any(_has_bytes(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_bytes(item) for item in value)
    return isinstance(value, bytes)


def _has_surrogate(text: str) -> bool:
    """Return True if the text has a lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _describe_path(path: str) -> str:
    """Return the location of a value for an error message."""
    return quote_key(path) if path else "the value"


def _join_names(names: frozenset[str]) -> str:
    return " and ".join(sorted(names))
