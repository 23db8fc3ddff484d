"""The normal form that every payload value has before it becomes bytes (sections 4.3 to 4.6, 4.10).

    strings   NFC, no byte order mark, no lone surrogate
    maps      string keys, unique also after NFC; entries that are null are left out
    arrays    as they are; a null inside keeps its place, for dropping it would move its neighbours
    floats    finite
    integers  what 64 bits hold
    bytes     allowed by the encodings; which fields may hold them is the grain's business
    depth     a limited number of maps and arrays inside one another

`is_normal` answers for the common case without allocating anything; `normalised` is the precise, slower road that
also says what is wrong and where.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from memoranda.errors import GrainError

# Section 4.10, extended profile.
MAX_DEPTH: Final = 32
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**64 - 1

BOM: Final = "\ufeff"
_SHOWN_KEY_CHARS: Final = 40


def is_normal(value: Any, max_depth: int = MAX_DEPTH) -> bool:
    """Whether the value is plainly in normal form; False also for what only `normalised` can judge."""
    kind = type(value)
    if kind is str:
        return is_normal_text(value)
    if kind is dict:
        if max_depth < 1:
            return False
        for key, item in value.items():
            if type(key) is not str or not is_normal_text(key):
                return False
            # Most values are short texts: no call for those.
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
    """Whether the text is NFC, without byte order mark and without lone surrogate."""
    return text.isascii() or (unicodedata.is_normalized("NFC", text) and BOM not in text and not _has_surrogate(text))


def normalised(value: Any, *, max_depth: int = MAX_DEPTH, path: str = "") -> Any:
    """The value in normal form, as new plain dicts, lists, str, int, float, bool, bytes and None. Raises GrainError."""
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case int():
            return _integer(int(value), path)
        case float():
            return _float(float(value), path)
        case bytes() | bytearray():
            return bytes(value)
        case Mapping():
            _check_depth(max_depth, path)
            return _map(value, max_depth - 1, path)
        case list() | tuple():
            _check_depth(max_depth, path)
            return [
                normalised(item, max_depth=max_depth - 1, path=f"{path}[{index}]") for index, item in enumerate(value)
            ]
    raise GrainError(
        f"{_place(path)} has the type {type(value).__name__}, which no grain can hold", oms_code="ERR_SCHEMA"
    )


def refuse_bytes(fields: Mapping[str, Any], allowed: frozenset[str]) -> None:
    """Raise if a map in normal form has byte strings beneath any key but the allowed ones."""
    for key, value in fields.items():
        if key not in allowed and _has_bytes(value):
            # Appendix B knows no binary; section 6.1 needs it in a few places.
            raise GrainError(f"{shown(key)} holds binary data, which only {_list(allowed)} may", oms_code="ERR_CORRUPT")


def shown(key: str) -> str:
    """A key as an error message may show it: quoted, escaped and short."""
    return ascii(key if len(key) <= _SHOWN_KEY_CHARS else key[:_SHOWN_KEY_CHARS] + "…")


def check_float(number: float, path: str) -> None:
    """Section 4.3: float64 values MUST NOT be NaN or Infinity."""
    if not math.isfinite(number):
        raise GrainError(f"{_place(path)} is not a finite number", oms_code="ERR_FLOAT_INVALID")


def _text(text: str, path: str) -> str:
    if _has_surrogate(text):
        raise GrainError(f"{_place(path)} has a lone surrogate", oms_code="ERR_CORRUPT")
    if BOM in text:
        # Sections 4.4 and 19.3: strings MUST NOT contain a byte order mark.
        raise GrainError(f"{_place(path)} contains a byte order mark", oms_code="ERR_CORRUPT")
    return unicodedata.normalize("NFC", text)


def _integer(number: int, path: str) -> int:
    if not MIN_INTEGER <= number <= MAX_INTEGER:
        raise GrainError(f"{_place(path)} is an integer beyond 64 bits", oms_code="ERR_RANGE")
    return number


def _float(number: float, path: str) -> float:
    check_float(number, path)
    return number


def _map(value: Mapping[Any, Any], max_depth: int, path: str) -> dict[str, Any]:
    normal: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise GrainError(f"{_place(path)} has a key that is not text", oms_code="ERR_CORRUPT")
        name = _text(key, path)
        if name in normal:
            # Section 4.1: duplicate keys MUST be rejected; normalisation can make two keys one.
            raise GrainError(f"{_place(path)} has the key {shown(name)} twice", oms_code="ERR_CORRUPT")
        # Section 4.5: null entries MUST be omitted.
        if item is not None:
            normal[name] = normalised(item, max_depth=max_depth, path=f"{path}.{name}" if path else name)
    return normal


def _check_depth(max_depth: int, path: str) -> None:
    if max_depth < 1:
        raise GrainError(f"{_place(path)} is nested too deeply", oms_code="ERR_CORRUPT")


def _has_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_bytes(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_bytes(item) for item in value)
    return isinstance(value, bytes)


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _place(path: str) -> str:
    return shown(path) if path else "the value"


def _list(names: frozenset[str]) -> str:
    return " and ".join(sorted(names))
