"""The CBOR encoding of a payload (section 16.2; RFC 8949 section 4.2.1), under flag bit 5.

Keys in the order of their encoded bytes, the smallest integers and lengths, the shortest float that keeps the value, no
indefinite lengths, no tags. Sections 4.1 and 4.3 demand another key order and 64-bit floats. We follow section 16.2,
because it is about CBOR and cites the RFC.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from memoranda.standards.oms.normal import MAX_DEPTH, check_float, is_normal, normalise
from memoranda.standards.oms.reader import ValueReader


def encode_value(value: object, *, max_depth: int = MAX_DEPTH) -> bytes:
    """Encode any value, brought to normal form first, as deterministic CBOR. Raises GrainError."""
    return pack(value if is_normal(value, max_depth) else normalise(value, max_depth=max_depth))


def pack(normal: object) -> bytes:
    """Encode a value in normal form as deterministic CBOR."""
    output = bytearray()
    _write(output, normal)
    return bytes(output)


def decode_value(data: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Decode deterministic CBOR and nothing else. Raises GrainError, mostly with ERR_CORRUPT.

    Libraries are too lenient: they expand tags, accept other spellings and keep the last of duplicate keys.
    """
    return _CborReader(data, max_depth).read_all()


_UNSIGNED, _NEGATIVE, _BINARY, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
# Additional information → bytes of the argument, and the largest argument that fits a smaller form.
_ARGUMENTS: Final = {24: (1, 23), 25: (2, 0xFF), 26: (4, 0xFFFF), 27: (8, 0xFFFFFFFF)}
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_CONSTANTS: Final = {20: False, 21: True, 22: None}
_LEADS: Final = {value: lead for lead, value in _CONSTANTS.items()}


def _write(output: bytearray, value: object) -> None:
    """Append the encoding of a value in normal form."""
    if isinstance(value, str):
        text = value.encode()
        _write_head(output, _TEXT, len(text))
        output += text
    elif value is None or isinstance(value, bool):
        output.append(_SIMPLE << 5 | _LEADS[value])
    elif isinstance(value, int):
        _write_head(output, *((_UNSIGNED, value) if value >= 0 else (_NEGATIVE, -1 - value)))
    elif isinstance(value, float):
        _write_float(output, value)
    elif isinstance(value, bytes):
        _write_head(output, _BINARY, len(value))
        output += value
    elif isinstance(value, list | tuple):
        _write_head(output, _ARRAY, len(value))
        for item in value:
            _write(output, item)
    elif isinstance(value, dict):
        _write_head(output, _MAP, len(value))
        # Shorter keys have a smaller head, so the order of encoded keys is that of length and bytes.
        for _, name in sorted((pack(name), name) for name in value):
            _write(output, name)
            _write(output, value[name])
    else:
        raise TypeError(f"{type(value).__name__} has no CBOR form")


def _write_head(output: bytearray, major: int, argument: int) -> None:
    """Append the type and the argument of a value in the smallest form."""
    if argument < 24:
        output.append(major << 5 | argument)
        return
    for info, (size, _) in _ARGUMENTS.items():
        if argument < 1 << 8 * size:
            output.append(major << 5 | info)
            output += argument.to_bytes(size, "big")
            return
    raise OverflowError("an integer of more than 64 bits")


def _write_float(output: bytearray, value: float) -> None:
    """Append a float in the shortest form that keeps its value."""
    for info, form in _FLOATS.items():
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[0] == value:
            output.append(_SIMPLE << 5 | info)
            output += packed
            return


class _CborReader(ValueReader):
    """A reader that accepts exactly what `encode_value` writes."""

    encoding = "deterministic CBOR"
    # RFC 8949 section 4.2.1: shorter keys first.
    sorts_by_encoding = True

    def read_value(self, depth: int) -> object:
        lead = self.take(1)[0]
        major, info = lead >> 5, lead & 0x1F
        if major == _SIMPLE:
            return self._read_simple(info)
        argument = self._read_argument(info)
        if major == _UNSIGNED:
            return argument
        if major == _NEGATIVE:
            return self._as_negative(argument)
        if major == _TEXT:
            return self.read_text(argument)
        if major == _BINARY:
            return self.take(argument)
        if major == _TAG:
            self.refuse(f"the tag {argument}")
        return self.read_map(argument, depth) if major == _MAP else self.read_array(argument, depth)

    def _read_argument(self, info: int) -> int:
        """Read the argument of a head and refuse it if a smaller form exists."""
        if info < 24:
            return info
        if info not in _ARGUMENTS:
            self.refuse("an indefinite length or a reserved form")
        size, smaller = _ARGUMENTS[info]
        number = int.from_bytes(self.take(size), "big")
        if number <= smaller:
            self.refuse(f"the number {number} in more bytes than it needs")
        return number

    def _as_negative(self, argument: int) -> int:
        """Return the negative integer of an argument. Raises GrainError beyond 64 bits."""
        if argument >= 2**63:
            self.refuse("an integer of more than 64 bits")
        return -1 - argument

    def _read_simple(self, info: int) -> bool | float | None:
        """Read a constant or a float."""
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
    """Return True if the smaller format holds the number exactly."""
    try:
        (smaller,) = struct.unpack(layout, struct.pack(layout, number))
    except OverflowError:
        return False
    return bool(smaller == number)
