"""A scanner that cuts a stream of bytes into single grains or values.

Grains have no length field, but MessagePack and CBOR values have a definite end. The scanner finds it from the heads of
the values alone: it builds no values, does not recurse, and buffers one item at most. It does not validate the items;
decoding does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from memoranda.errors import GrainError, TooLarge
from memoranda.standards.oms.header import CBOR, HEADER_BYTES, VERSION
from memoranda.standards.oms.profile import EXTENDED

# Bytes of the largest grain (section 3.3), plus space for its envelope.
MAX_ITEM_BYTES: Final = EXTENDED.max_bytes + 64 * 1024


class _Head(NamedTuple):
    """The size of a value, as its lead byte determines it."""

    # Bytes that follow in any case.
    fixed: int = 0
    # Bytes of the number n that follows.
    length_bytes: int = 0
    # 1 if n counts bytes, else 0.
    unit: int = 0
    # Values that follow in any case.
    children: int = 0
    # Values per unit of n: 1 for an array, 2 for a map.
    per: int = 0


def _build_msgpack_heads() -> tuple[_Head | None, ...]:
    """Build the table of MessagePack heads by lead byte; None for bytes that cannot begin a value."""
    heads: list[_Head | None] = [_Head()] * 256
    for low in range(16):
        heads[0x80 + low] = _Head(children=2 * low)
        heads[0x90 + low] = _Head(children=low)
    for low in range(32):
        heads[0xA0 + low] = _Head(fixed=low)
    floats = {0xCA: 4, 0xCB: 8}
    unsigned = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
    signed_widths = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
    for lead, size in (floats | unsigned | signed_widths).items():
        heads[lead] = _Head(fixed=size)
    binary = {0xC4: 1, 0xC5: 2, 0xC6: 4}
    text = {0xD9: 1, 0xDA: 2, 0xDB: 4}
    for lead, size in (binary | text).items():
        heads[lead] = _Head(length_bytes=size, unit=1)
    for lead, size in ((0xDC, 2), (0xDD, 4)):
        heads[lead] = _Head(length_bytes=size, per=1)
    for lead, size in ((0xDE, 2), (0xDF, 4)):
        heads[lead] = _Head(length_bytes=size, per=2)
    # Appendix B: no extension types; 0xC1 is never used.
    for lead in (0xC1, 0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8):
        heads[lead] = None
    return tuple(heads)


def _build_cbor_heads() -> tuple[_Head | None, ...]:
    """Build the table of CBOR heads by lead byte; None for bytes that cannot begin a value."""
    heads: list[_Head | None] = [None] * 256
    for major in range(8):
        is_string, is_tag = major in (2, 3), int(major == 6)
        # An array (4) has one value per unit of its length, a map (5) two.
        per = {4: 1, 5: 2}.get(major, 0)
        for low in range(24):
            heads[major << 5 | low] = _Head(
                fixed=low if is_string else 0, children=low * per + is_tag
            )
        for size_code in range(4):
            size = 1 << size_code
            head = _Head(length_bytes=size, unit=int(is_string), children=is_tag, per=per)
            # Under major type 7 the bytes that follow are a float.
            heads[major << 5 | 24 + size_code] = _Head(fixed=size) if major == 7 else head
    return tuple(heads)


_MSGPACK = _build_msgpack_heads()
_CBOR = _build_cbor_heads()


class Scanner:
    """A reader that takes items from the front of a stream of chunks."""

    def __init__(self, chunks: Iterable[bytes], *, max_item_bytes: int = MAX_ITEM_BYTES) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._max_item_bytes = max_item_bytes
        self._buffer = b""
        self._at = 0

    def is_at_end(self) -> bool:
        """Return True if no bytes are left."""
        return not self._buffer_bytes(1)

    def peek(self) -> int:
        """Return the next byte without consuming it."""
        self._require(1)
        return self._buffer[self._at]

    def read_bytes(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises GrainError if there are fewer."""
        self._require(size)
        start, self._at = self._at, self._at + size
        return self._buffer[start : self._at]

    def read_delivery(self) -> bytes:
        """Return the next grain, bare or in its envelope."""
        if self.peek() != VERSION:
            return self.read_bytes(self._measure(0, _CBOR))
        self._require(HEADER_BYTES)
        is_cbor = self._buffer[self._at + 1] & CBOR
        return self.read_bytes(self._measure(HEADER_BYTES, _CBOR if is_cbor else _MSGPACK))

    def read_value(self, *, cbor: bool = False) -> bytes:
        """Return the next MessagePack or CBOR value."""
        return self.read_bytes(self._measure(0, _CBOR if cbor else _MSGPACK))

    def _measure(self, at: int, heads: tuple[_Head | None, ...]) -> int:
        """Return the number of bytes from here to the end of the value that begins at offset `at`."""
        pending = 1
        while pending:
            # Most of a grain is already in the buffer; this test is cheaper than the call.
            if self._at + at >= len(self._buffer):
                self._require(at + 1)
            head = heads[self._buffer[self._at + at]]
            if head is None:
                raise _corrupt_error("a byte that cannot begin a value")
            fixed, length_bytes, unit, children, per = head
            at += 1 + fixed
            if length_bytes:
                self._require(at + length_bytes)
                start = self._at + at
                number = int.from_bytes(self._buffer[start : start + length_bytes], "big")
                at += length_bytes + number * unit
                children += number * per
            pending += children - 1
        return at

    def _require(self, size: int) -> None:
        """Fill the buffer with at least `size` bytes. Raises GrainError if there are fewer."""
        if not self._buffer_bytes(size):
            raise _corrupt_error("they end in the middle of a grain")

    def _buffer_bytes(self, size: int) -> bool:
        """Read chunks until `size` bytes are buffered; return False if the stream ends before."""
        missing = self._at + size - len(self._buffer)
        if missing <= 0:
            return True
        if size > self._max_item_bytes:
            raise TooLarge(f"a grain has at most {self._max_item_bytes} bytes")
        parts = [self._buffer[self._at :]]
        while missing > 0:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            missing -= len(chunk)
        self._buffer, self._at = b"".join(parts), 0
        return missing <= 0


def _corrupt_error(why: str) -> GrainError:
    """Return the error of bytes that are not a sequence of grains."""
    return GrainError(f"the bytes cannot be cut into grains: {why}", oms_code="ERR_CORRUPT")
