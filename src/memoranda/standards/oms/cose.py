"""COSE_Sign1 (RFC 9052), as much of it as OMS section 9 uses.

    18([protected: bstr, unprotected: map, payload: bstr / nil, signature: bstr])

The reader is our own because a general one keeps the last of two equal keys, builds objects from tags
and reads past the end in silence. Here every value has one spelling: definite lengths, shortest heads,
no floats, no tags inside, no repeated label. What is verified are the protected bytes as they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from memoranda.errors import GrainError

# RFC 9052 section 3.1 and, for the claims, RFC 9597.
ALGORITHM: Final = 1
CRITICAL: Final = 2
CONTENT_TYPE: Final = 3
KEY_ID: Final = 4
CLAIMS: Final = 15

_TAG_SIGN1 = 0xD2  # tag 18 in one byte
# Headers are shallow; the depth bounds the reader's recursion.
_MAX_DEPTH = 8

_UINT, _NINT, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_SIMPLE_VALUES: Final = {20: False, 21: True, 22: None}

Label = int | str | bytes


class Sign1(msgspec.Struct, frozen=True, kw_only=True):
    """One signed message, taken apart; `payload` is None when it travels separately."""

    protected: bytes
    headers: Mapping[Label, Any]
    unprotected: Mapping[Label, Any]
    payload: bytes | None
    signature: bytes


def parse(data: bytes) -> Sign1:
    """Take a COSE_Sign1 apart, tagged or bare. Raises GrainError with ERR_CORRUPT."""
    reader = _CoseReader(data, start=1 if data[:1] == bytes((_TAG_SIGN1,)) else 0)
    parts = reader.whole()
    if not isinstance(parts, list) or len(parts) != 4:
        raise _corrupt("it is not an array of four")
    protected, unprotected, payload, signature = parts
    if not isinstance(protected, bytes) or not isinstance(unprotected, dict) or not isinstance(signature, bytes):
        raise _corrupt("a part has the wrong kind")
    if payload is not None and not isinstance(payload, bytes):
        raise _corrupt("the payload is not a byte string")
    # RFC 9052 section 3: an empty protected header is the empty byte string.
    headers = _CoseReader(protected).whole() if protected else {}
    if not isinstance(headers, dict):
        raise _corrupt("the protected header is not a map")
    # RFC 9052 section 3: a label stands in one of the two headers, once.
    if headers.keys() & unprotected.keys():
        raise _corrupt("a label stands in both headers")
    return Sign1(protected=protected, headers=headers, unprotected=unprotected, payload=payload, signature=signature)


def build(*, protected: bytes, unprotected: Mapping[Label, Any], payload: bytes | None, signature: bytes) -> bytes:
    """The tagged envelope."""
    return bytes((_TAG_SIGN1,)) + encode([protected, dict(unprotected), payload, signature])


def to_be_signed(protected: bytes, payload: bytes) -> bytes:
    """RFC 9052 section 4.4: the Sig_structure, with empty external data."""
    return encode(["Signature1", protected, b"", payload])


def encode(value: object) -> bytes:
    """Deterministic CBOR (RFC 8949 section 4.2.1) of what headers hold."""
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return _head(_UINT, value) if value >= 0 else _head(_NINT, -1 - value)
    if isinstance(value, bytes):
        return _head(_BYTES, len(value)) + value
    if isinstance(value, str):
        data = value.encode("utf-8")
        return _head(_TEXT, len(data)) + data
    if isinstance(value, list):
        return _head(_ARRAY, len(value)) + b"".join(map(encode, value))
    if isinstance(value, dict):
        entries = sorted((encode(label), encode(entry)) for label, entry in value.items())
        return _head(_MAP, len(entries)) + b"".join(label + entry for label, entry in entries)
    raise TypeError(f"no header holds a {type(value).__name__}")


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes((major << 5 | argument,))
    for size_code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << (8 * size):
            return bytes((major << 5 | size_code,)) + argument.to_bytes(size, "big")
    raise ValueError("an integer of more than 64 bits")


class _CoseReader:
    """Reads one CBOR value that has exactly one spelling, but for the order of labels."""

    def __init__(self, data: bytes, *, start: int = 0) -> None:
        self._data = data
        self._at = start

    def whole(self) -> object:
        """The value, which the bytes hold and nothing else."""
        value = self._value(0)
        if self._at != len(self._data):
            raise _corrupt("something follows its end")
        return value

    def _value(self, depth: int) -> object:
        if depth > _MAX_DEPTH:
            raise _corrupt(f"it nests deeper than {_MAX_DEPTH}")
        major, argument = self._head()
        if major == _UINT:
            return argument
        if major == _NINT:
            return -1 - argument
        if major == _BYTES:
            return self._take(argument)
        if major == _TEXT:
            return self._text(argument)
        if major == _ARRAY:
            self._check_room(argument)
            return [self._value(depth + 1) for _ in range(argument)]
        if major == _MAP:
            self._check_room(2 * argument)
            return self._map(argument, depth)
        if major == _SIMPLE and argument in _SIMPLE_VALUES:
            return _SIMPLE_VALUES[argument]
        raise _corrupt("it holds a tag, a float or an unknown simple value")

    def _map(self, count: int, depth: int) -> dict[Label, object]:
        entries: dict[Label, object] = {}
        for _ in range(count):
            label = self._value(depth + 1)
            # bool is an int: True would stand for label 1.
            if isinstance(label, bool) or not isinstance(label, int | str | bytes):
                raise _corrupt("a label is neither an integer nor a string")
            if label in entries:
                raise _corrupt("a label stands twice")
            entries[label] = self._value(depth + 1)
        return entries

    def _head(self) -> tuple[int, int]:
        initial = self._take(1)[0]
        major, low = initial >> 5, initial & 0x1F
        if low < 24:
            return major, low
        if low > 27:
            raise _corrupt("it has an indefinite length")
        size = 1 << (low - 24)
        argument = int.from_bytes(self._take(size), "big")
        if major == _SIMPLE or argument < (24 if size == 1 else 1 << (4 * size)):
            raise _corrupt("a float, or a number not in its shortest form")
        return major, argument

    def _text(self, size: int) -> str:
        try:
            return self._take(size).decode("utf-8")
        except UnicodeDecodeError:
            raise _corrupt("a text is not UTF-8") from None

    def _take(self, size: int) -> bytes:
        self._check_room(size)
        start, self._at = self._at, self._at + size
        return self._data[start : self._at]

    def _check_room(self, size: int) -> None:
        if size > len(self._data) - self._at:
            raise _corrupt("it ends early")


def _corrupt(why: str) -> GrainError:
    return GrainError(f"the COSE_Sign1 envelope is malformed: {why}", oms_code="ERR_CORRUPT")
