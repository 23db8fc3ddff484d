"""COSE_Sign1 messages (RFC 9052), to the extent that OMS section 9 uses them.

    18([protected: bstr, unprotected: map, payload: bstr / nil, signature: bstr])

We have our own reader because a general one keeps the last of two equal keys, builds objects from tags and silently
reads past the end. Ours accepts one spelling of every value: definite lengths, shortest heads, no floats, no nested
tags, no repeated label. Signatures are verified over the protected bytes as received.
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
# Levels of nesting. Headers are shallow; the limit bounds the reader's recursion.
_MAX_DEPTH = 8

_UINT, _NINT, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_SIMPLE_VALUES: Final = {20: False, 21: True, 22: None}

Label = int | str | bytes


class Sign1(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a signed message; `payload` is None if it is detached."""

    protected: bytes
    headers: Mapping[Label, Any]
    unprotected: Mapping[Label, Any]
    payload: bytes | None
    signature: bytes


def parse(data: bytes) -> Sign1:
    """Parse a COSE_Sign1 message, tagged or untagged. Raises GrainError with ERR_CORRUPT."""
    reader = _CoseReader(data, start=1 if data[:1] == bytes((_TAG_SIGN1,)) else 0)
    parts = reader.read_all()
    if not isinstance(parts, list) or len(parts) != 4:
        raise _corrupt_error("it is not an array of four")
    protected, unprotected, payload, signature = parts
    if (
        not isinstance(protected, bytes)
        or not isinstance(unprotected, dict)
        or not isinstance(signature, bytes)
    ):
        raise _corrupt_error("a part has the wrong type")
    if payload is not None and not isinstance(payload, bytes):
        raise _corrupt_error("the payload is not a byte string")
    # RFC 9052 section 3: an empty protected header is the empty byte string.
    headers = _CoseReader(protected).read_all() if protected else {}
    if not isinstance(headers, dict):
        raise _corrupt_error("the protected header is not a map")
    # RFC 9052 section 3: a label occurs in one of the two headers, once.
    if headers.keys() & unprotected.keys():
        raise _corrupt_error("a label occurs in both headers")
    return Sign1(
        protected=protected,
        headers=headers,
        unprotected=unprotected,
        payload=payload,
        signature=signature,
    )


def build(
    *,
    protected: bytes,
    unprotected: Mapping[Label, object],
    payload: bytes | None,
    signature: bytes,
) -> bytes:
    """Encode the tagged envelope."""
    return bytes((_TAG_SIGN1,)) + encode([protected, dict(unprotected), payload, signature])


def to_be_signed(protected: bytes, payload: bytes) -> bytes:
    """Encode the Sig_structure of RFC 9052 section 4.4, with empty external data."""
    return encode(["Signature1", protected, b"", payload])


def encode(value: object) -> bytes:
    """Encode a value of a header as deterministic CBOR (RFC 8949 section 4.2.1). Raises TypeError."""
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return _encode_head(_UINT, value) if value >= 0 else _encode_head(_NINT, -1 - value)
    if isinstance(value, bytes):
        return _encode_head(_BYTES, len(value)) + value
    if isinstance(value, str):
        data = value.encode("utf-8")
        return _encode_head(_TEXT, len(data)) + data
    if isinstance(value, list):
        return _encode_head(_ARRAY, len(value)) + b"".join(map(encode, value))
    if isinstance(value, dict):
        entries = sorted((encode(label), encode(entry)) for label, entry in value.items())
        return _encode_head(_MAP, len(entries)) + b"".join(
            label + entry for label, entry in entries
        )
    raise TypeError(f"a header cannot contain a {type(value).__name__}")


def _encode_head(major: int, argument: int) -> bytes:
    """Encode the head of a value: major type and argument."""
    if argument < 24:
        return bytes((major << 5 | argument,))
    for size_code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << (8 * size):
            return bytes((major << 5 | size_code,)) + argument.to_bytes(size, "big")
    raise ValueError("an integer of more than 64 bits")


class _CoseReader:
    """A strict reader of one CBOR value; only the order of labels is free."""

    def __init__(self, data: bytes, *, start: int = 0) -> None:
        self._data = data
        self._position = start

    def read_all(self) -> object:
        """Return the value, which must fill the data. Raises GrainError."""
        value = self._read_value(0)
        if self._position != len(self._data):
            raise _corrupt_error("data follows its end")
        return value

    def _read_value(self, depth: int) -> object:
        """Read the next value, at this level of nesting."""
        if depth > _MAX_DEPTH:
            raise _corrupt_error(f"it nests deeper than {_MAX_DEPTH}")
        major, argument = self._read_head()
        if major == _UINT:
            return argument
        if major == _NINT:
            return -1 - argument
        if major == _BYTES:
            return self._take(argument)
        if major == _TEXT:
            return self._read_text(argument)
        if major == _ARRAY:
            self._check_remaining(argument)
            return [self._read_value(depth + 1) for _ in range(argument)]
        if major == _MAP:
            self._check_remaining(2 * argument)
            return self._read_map(argument, depth)
        if major == _SIMPLE and argument in _SIMPLE_VALUES:
            return _SIMPLE_VALUES[argument]
        raise _corrupt_error("it holds a tag, a float or an unknown simple value")

    def _read_map(self, count: int, depth: int) -> dict[Label, object]:
        """Read a map whose labels are integers or strings, each once."""
        entries: dict[Label, object] = {}
        for _ in range(count):
            label = self._read_value(depth + 1)
            # A bool is an int in Python: True would equal label 1.
            if isinstance(label, bool) or not isinstance(label, int | str | bytes):
                raise _corrupt_error("a label is neither an integer nor a string")
            if label in entries:
                raise _corrupt_error("a label occurs twice")
            entries[label] = self._read_value(depth + 1)
        return entries

    def _read_head(self) -> tuple[int, int]:
        """Read the head of a value: major type and argument."""
        initial = self._take(1)[0]
        major, low = initial >> 5, initial & 0x1F
        if low < 24:
            return major, low
        if low > 27:
            raise _corrupt_error("it has an indefinite length")
        size = 1 << (low - 24)
        argument = int.from_bytes(self._take(size), "big")
        if major == _SIMPLE or argument < (24 if size == 1 else 1 << (4 * size)):
            raise _corrupt_error("a float, or a number not in its shortest form")
        return major, argument

    def _read_text(self, size: int) -> str:
        try:
            return self._take(size).decode("utf-8")
        except UnicodeDecodeError:
            raise _corrupt_error("a text is not UTF-8") from None

    def _take(self, size: int) -> bytes:
        """Return the next bytes and advance. Raises GrainError if there are fewer."""
        self._check_remaining(size)
        start, self._position = self._position, self._position + size
        return self._data[start : self._position]

    def _check_remaining(self, size: int) -> None:
        """Raise GrainError if fewer than `size` bytes remain."""
        if size > len(self._data) - self._position:
            raise _corrupt_error("it ends in the middle of a value")


def _corrupt_error(why: str) -> GrainError:
    """Return the error of a malformed envelope."""
    return GrainError(f"the COSE_Sign1 envelope is malformed: {why}", oms_code="ERR_CORRUPT")
