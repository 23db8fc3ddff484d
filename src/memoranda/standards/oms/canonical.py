"""Canonical MessagePack (section 4): one spelling per value.

Map keys in the order of their UTF-8 bytes, the smallest integer and length headers, the unsigned family for
non-negative integers, 64-bit floats, no extension types. Because the spelling is unique, reading needs no check of each
rule: the data is canonical if encoding the decoded value gives the same bytes. That takes two passes of a native
library. The Python reader below runs only if they differ, and reports the error and its location.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec

from memoranda.standards.oms.normal import MAX_DEPTH, check_float, is_normal, normalise
from memoranda.standards.oms.reader import ValueReader

# Keys of maps in the order of their UTF-8 bytes.
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder()
# Malformed, or nested deeper than Python's stack. DecodeError and UnicodeDecodeError are kinds of ValueError.
_UNREADABLE: Final = (ValueError, TypeError, RecursionError)


def encode_value(value: object, *, max_depth: int = MAX_DEPTH) -> bytes:
    """Encode any value, brought to normal form first, as canonical MessagePack. Raises GrainError."""
    return pack(value if is_normal(value, max_depth) else normalise(value, max_depth=max_depth))


def decode_value(data: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Decode canonical MessagePack and nothing else. Raises GrainError, mostly with ERR_CORRUPT."""
    return decode_canonical(data, max_depth)[0]


def decode_canonical(data: bytes, max_depth: int) -> tuple[object, bool]:
    """Decode canonical MessagePack; return the value, and False if it certainly has no byte strings.

    Raises GrainError.
    """
    try:
        value = _DECODER.decode(data)
        if is_normal(value, max_depth) and _ENCODER.encode(value) == data:
            return value, False
    except _UNREADABLE:
        # The slow reader reports the location.
        pass
    return _MsgpackReader(data, max_depth).read_all(), True


def unpack(data: bytes) -> Any:
    """Decode bytes that are known to be canonical. Raises GrainError if they are not MessagePack."""
    try:
        return _DECODER.decode(data)
    except _UNREADABLE:
        return _MsgpackReader(data, MAX_DEPTH).read_all()


def pack(normal: object) -> bytes:
    """Encode a value in normal form as canonical MessagePack."""
    return _ENCODER.encode(normal)


_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_FLOAT32: Final = 0xCA
_FLOAT64: Final = 0xCB
# Lead byte → bytes of the big-endian number that follows it, for each family of section 4.2 and for lengths.
_UNSIGNED: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_SIGNED: Final = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_TEXT: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BINARY: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_ARRAY: Final = {0xDC: 2, 0xDD: 4}
_MAP: Final = {0xDE: 2, 0xDF: 4}
# Lead bytes of maps.
MAP_LEADS: Final = frozenset((*range(0x80, 0x90), *_MAP))
_NUMBERS: Final = frozenset((_FLOAT64, *_UNSIGNED, *_SIGNED))
# By size in bytes: the last value that has a smaller spelling, including the `fix` form.
_SMALLER_UNSIGNED: Final = {1: 0x7F, 2: 0xFF, 4: 0xFFFF, 8: 0xFFFFFFFF}
_SMALLER_SIGNED: Final = {1: -0x20, 2: -0x80, 4: -0x8000, 8: -0x80000000}
_SMALLER_TEXT: Final = {1: 0x1F, 2: 0xFF, 4: 0xFFFF}
_SMALLER_BINARY: Final = {1: -1, 2: 0xFF, 4: 0xFFFF}
_SMALLER_CONTAINER: Final = {2: 0x0F, 4: 0xFFFF}


class _MsgpackReader(ValueReader):
    """A reader that accepts exactly what `encode_value` writes."""

    encoding = "canonical MessagePack"
    # Section 4.1: keys are sorted lexicographically, whatever their length.
    sorts_by_encoding = False

    def read_value(self, depth: int) -> object:
        lead = self.take(1)[0]
        if lead <= 0x7F:
            return lead
        if lead >= 0xE0:
            return lead - 0x100
        if lead <= 0x8F:
            return self.read_map(lead & 0x0F, depth)
        if lead <= 0x9F:
            return self.read_array(lead & 0x0F, depth)
        if lead <= 0xBF:
            return self.read_text(lead & 0x1F)
        if lead in _CONSTANTS:
            return _CONSTANTS[lead]
        return self._read_number(lead) if lead in _NUMBERS else self._read_long_form(lead, depth)

    def _read_number(self, lead: int) -> int | float:
        """Read a number after its lead byte."""
        if lead == _FLOAT64:
            (number,) = struct.unpack(">d", self.take(8))
            check_float(number, f"byte {self.position - 8}")
            return float(number)
        if lead in _SIGNED:
            return self._read_negative(_SIGNED[lead])
        return self._read_unsigned(_UNSIGNED[lead], _SMALLER_UNSIGNED, "integer")

    def _read_long_form(self, lead: int, depth: int) -> object:
        """Read a string, byte string, array or map whose length follows its lead byte."""
        if lead in _TEXT:
            return self.read_text(self._read_unsigned(_TEXT[lead], _SMALLER_TEXT, "string length"))
        if lead in _BINARY:
            return self.take(self._read_unsigned(_BINARY[lead], _SMALLER_BINARY, "binary length"))
        if lead in _ARRAY:
            return self.read_array(
                self._read_unsigned(_ARRAY[lead], _SMALLER_CONTAINER, "array length"), depth
            )
        if lead in _MAP:
            return self.read_map(
                self._read_unsigned(_MAP[lead], _SMALLER_CONTAINER, "map length"), depth
            )
        # Section 4.3: single precision MUST NOT be used.
        return self.refuse(
            "a float of 32 bits"
            if lead == _FLOAT32
            else f"type 0x{lead:02x}, which a grain cannot contain"
        )

    def _read_unsigned(self, size: int, smaller: dict[int, int], kind: str) -> int:
        """Read an unsigned number and refuse it if a smaller form exists."""
        number = int.from_bytes(self.take(size), "big")
        if number <= smaller[size]:
            # Section 4.2: the smallest representation.
            self.refuse(f"{kind} {number} in more bytes than it needs")
        return number

    def _read_negative(self, size: int) -> int:
        """Read a negative number and refuse it if a smaller form exists."""
        number = int.from_bytes(self.take(size), "big", signed=True)
        if number >= _SMALLER_SIGNED[size]:
            self.refuse(f"integer {number} in more bytes than it needs")
        return number
