"""Canonical MessagePack (section 4): one value, one spelling.

Map keys in the order of their UTF-8 bytes, the smallest integer and length headers, the unsigned family for what is
not negative, every float in 64 bits, no extension types. Because the spelling is unique, a reader need not look for
each offence: what reads as a value that writes back to other bytes was not canonical. That takes two passes of a
library in native code; the reader in Python below runs only when they disagree, to say what was wrong and where.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import ormsgpack

from memoranda.standards.oms.normal import MAX_DEPTH, check_float, is_normal, normalised
from memoranda.standards.oms.reader import ValueReader

_SORTED: Final = ormsgpack.OPT_SORT_KEYS


def encode_value(value: Any, *, max_depth: int = MAX_DEPTH) -> bytes:
    """The canonical MessagePack of any value, brought to normal form first. Raises GrainError."""
    return pack(value if is_normal(value, max_depth) else normalised(value, max_depth=max_depth))


def decode_value(data: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Read canonical MessagePack and nothing else. Raises GrainError, mostly with ERR_CORRUPT."""
    return read(data, max_depth)[0]


def read(data: bytes, max_depth: int) -> tuple[Any, bool]:
    """The same, with whether there may be byte strings in the value."""
    try:
        value = ormsgpack.unpackb(data)
        if is_normal(value, max_depth) and ormsgpack.packb(value, option=_SORTED) == data:
            return value, False
    except (ValueError, TypeError):
        # Malformed, or a map with keys that are not text: the slow reader names the place.
        pass
    return _MsgpackReader(data, max_depth).whole(), True


def unpack(data: bytes) -> Any:
    """The value of bytes that are known to be canonical. Raises GrainError all the same if they are not MessagePack."""
    try:
        return ormsgpack.unpackb(data)
    except (ValueError, TypeError):
        # Byte strings are legal in places, and the library has another opinion of them.
        return _MsgpackReader(data, MAX_DEPTH).whole()


def pack(normal: Any) -> bytes:
    """The canonical MessagePack of a value that is already in normal form."""
    return ormsgpack.packb(normal, option=_SORTED)


_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_FLOAT32: Final = 0xCA
_FLOAT64: Final = 0xCB
# Lead byte → size of the big-endian number that follows it, for each family of section 4.2 and the lengths.
_UNSIGNED: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_SIGNED: Final = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_TEXT: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BINARY: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_ARRAY: Final = {0xDC: 2, 0xDD: 4}
_MAP: Final = {0xDE: 2, 0xDF: 4}
# What a map may begin with.
MAP_LEADS: Final = frozenset((*range(0x80, 0x90), *_MAP))
_NUMBERS: Final = frozenset((_FLOAT64, *_UNSIGNED, *_SIGNED))
# By size in bytes: the last value for which a smaller spelling exists, the `fix` form included.
_SMALLER_UNSIGNED: Final = {1: 0x7F, 2: 0xFF, 4: 0xFFFF, 8: 0xFFFFFFFF}
_SMALLER_SIGNED: Final = {1: -0x20, 2: -0x80, 4: -0x8000, 8: -0x80000000}
_SMALLER_TEXT: Final = {1: 0x1F, 2: 0xFF, 4: 0xFFFF}
_SMALLER_BINARY: Final = {1: -1, 2: 0xFF, 4: 0xFFFF}
_SMALLER_CONTAINER: Final = {2: 0x0F, 4: 0xFFFF}


class _MsgpackReader(ValueReader):
    """Accepts exactly what `encode_value` writes."""

    form = "canonical MessagePack"
    # Section 4.1: lexicographic, whatever the length.
    orders_encoded = False

    def value(self, depth: int) -> Any:
        lead = self.take(1)[0]
        if lead <= 0x7F:
            return lead
        if lead >= 0xE0:
            return lead - 0x100
        if lead <= 0x8F:
            return self.map(lead & 0x0F, depth)
        if lead <= 0x9F:
            return self.array(lead & 0x0F, depth)
        if lead <= 0xBF:
            return self.text(lead & 0x1F)
        if lead in _CONSTANTS:
            return _CONSTANTS[lead]
        return self._number(lead) if lead in _NUMBERS else self._long_form(lead, depth)

    def _number(self, lead: int) -> int | float:
        if lead == _FLOAT64:
            (number,) = struct.unpack(">d", self.take(8))
            check_float(number, f"byte {self.position - 8}")
            return float(number)
        if lead in _SIGNED:
            return self._negative(_SIGNED[lead])
        return self._count(_UNSIGNED[lead], _SMALLER_UNSIGNED, "integer")

    def _long_form(self, lead: int, depth: int) -> Any:
        if lead in _TEXT:
            return self.text(self._count(_TEXT[lead], _SMALLER_TEXT, "string length"))
        if lead in _BINARY:
            return self.take(self._count(_BINARY[lead], _SMALLER_BINARY, "binary length"))
        if lead in _ARRAY:
            return self.array(self._count(_ARRAY[lead], _SMALLER_CONTAINER, "array length"), depth)
        if lead in _MAP:
            return self.map(self._count(_MAP[lead], _SMALLER_CONTAINER, "map length"), depth)
        # Section 4.3: single precision MUST NOT be used.
        return self.refuse("a float of 32 bits" if lead == _FLOAT32 else f"type 0x{lead:02x}, which no grain holds")

    def _count(self, size: int, smaller: dict[int, int], what: str) -> int:
        number = int.from_bytes(self.take(size), "big")
        if number <= smaller[size]:
            # Section 4.2: the smallest representation.
            self.refuse(f"{what} {number} in more bytes than it needs")
        return number

    def _negative(self, size: int) -> int:
        number = int.from_bytes(self.take(size), "big", signed=True)
        if number >= _SMALLER_SIGNED[size]:
            self.refuse(f"integer {number} in another form than its smallest")
        return number
