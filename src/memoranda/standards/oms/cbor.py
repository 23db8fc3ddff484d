"""The CBOR variant of a payload (section 16.2; RFC 8949 section 4.2.1), under flag bit 5.

Keys in the order of their encoded bytes, the smallest integers and lengths, the shortest float that keeps the value,
no indefinite lengths, no tags. Sections 4.1 and 4.3 ask for another key order and for 64-bit floats; section 16.2,
which is about CBOR and cites the RFC, wins.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import cbor2

from memoranda.standards.oms.normal import MAX_DEPTH, check_float, is_normal, normalised
from memoranda.standards.oms.reader import ValueReader


def encode_value(value: Any, *, max_depth: int = MAX_DEPTH) -> bytes:
    """The deterministic CBOR of any value, brought to normal form first. Raises GrainError."""
    return pack(value if is_normal(value, max_depth) else normalised(value, max_depth=max_depth))


def pack(normal: Any) -> bytes:
    """The deterministic CBOR of a value that is already in normal form."""
    return cbor2.dumps(normal, canonical=True)


def decode_value(data: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Read deterministic CBOR and nothing else. Raises GrainError, mostly with ERR_CORRUPT.

    No library reads it: they expand tags, accept other spellings and keep the last of duplicate keys.
    """
    return _CborReader(data, max_depth).whole()


_UNSIGNED, _NEGATIVE, _BINARY, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
# Additional information → bytes of the argument, and the largest argument that a smaller form holds.
_ARGUMENTS: Final = {24: (1, 23), 25: (2, 0xFF), 26: (4, 0xFFFF), 27: (8, 0xFFFFFFFF)}
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_CONSTANTS: Final = {20: False, 21: True, 22: None}


class _CborReader(ValueReader):
    """Accepts exactly what `encode_value` writes."""

    form = "deterministic CBOR"
    # RFC 8949 section 4.2.1: shorter keys first.
    orders_encoded = True

    def value(self, depth: int) -> Any:
        lead = self.take(1)[0]
        major, info = lead >> 5, lead & 0x1F
        if major == _SIMPLE:
            return self._simple(info)
        argument = self._argument(info)
        if major == _UNSIGNED:
            return argument
        if major == _NEGATIVE:
            return self._negative(argument)
        if major == _TEXT:
            return self.text(argument)
        if major == _BINARY:
            return self.take(argument)
        if major == _TAG:
            self.refuse(f"the tag {argument}")
        return self.map(argument, depth) if major == _MAP else self.array(argument, depth)

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info not in _ARGUMENTS:
            self.refuse("an indefinite length or a reserved form")
        size, smaller = _ARGUMENTS[info]
        number = int.from_bytes(self.take(size), "big")
        if number <= smaller:
            self.refuse(f"the number {number} in more bytes than it needs")
        return number

    def _negative(self, argument: int) -> int:
        if argument >= 2**63:
            self.refuse("an integer below what 64 bits hold")
        return -1 - argument

    def _simple(self, info: int) -> bool | float | None:
        if info in _CONSTANTS:
            return _CONSTANTS[info]
        if info not in _FLOATS:
            self.refuse(f"the simple value {info}")
        start = self.position
        layout = _FLOATS[info]
        (number,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        check_float(number, f"byte {start}")
        if info > 25 and _fits(number, _FLOATS[info - 1]):
            self.refuse("a float in more bytes than it needs", start)
        return float(number)


def _fits(number: float, layout: str) -> bool:
    try:
        (smaller,) = struct.unpack(layout, struct.pack(layout, number))
    except OverflowError:
        return False
    return bool(smaller == number)
