"""Where does it end: cutting one grain or value after another out of a run of bytes.

Grains carry no length of their own, but MessagePack and CBOR values end where they end. The scanner finds that
place from the heads alone: it builds nothing, does not recurse, and never holds more than one item. It does not
judge what it cuts out; decoding does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from memoranda.errors import GrainError, TooLarge
from memoranda.standards.oms.header import CBOR, HEADER_BYTES, VERSION
from memoranda.standards.oms.profile import EXTENDED

# The largest grain (section 3.3), and room for an envelope around it.
MAX_ITEM_BYTES: Final = EXTENDED.max_bytes + 64 * 1024


class _Head(NamedTuple):
    """What a lead byte says about the bytes after it."""

    fixed: int = 0  # bytes that follow in any case
    length_bytes: int = 0  # size of the number n that follows
    unit: int = 0  # n counts bytes
    children: int = 0  # values that follow in any case
    per: int = 0  # n counts this many values each


def _msgpack_heads() -> tuple[_Head | None, ...]:
    heads: list[_Head | None] = [_Head()] * 256
    for low in range(16):
        heads[0x80 + low] = _Head(children=2 * low)
        heads[0x90 + low] = _Head(children=low)
    for low in range(32):
        heads[0xA0 + low] = _Head(fixed=low)
    for lead, size in ((0xCA, 4), (0xCB, 8), (0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)):
        heads[lead] = _Head(fixed=size)
    for lead, size in ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8)):
        heads[lead] = _Head(fixed=size)
    for lead, size in ((0xC4, 1), (0xC5, 2), (0xC6, 4), (0xD9, 1), (0xDA, 2), (0xDB, 4)):
        heads[lead] = _Head(length_bytes=size, unit=1)
    for lead, size in ((0xDC, 2), (0xDD, 4)):
        heads[lead] = _Head(length_bytes=size, per=1)
    for lead, size in ((0xDE, 2), (0xDF, 4)):
        heads[lead] = _Head(length_bytes=size, per=2)
    # Appendix B: no extension types; 0xC1 is never used.
    for lead in (0xC1, 0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8):
        heads[lead] = None
    return tuple(heads)


def _cbor_heads() -> tuple[_Head | None, ...]:
    heads: list[_Head | None] = [None] * 256
    for major in range(8):
        is_string, per, is_tag = major in (2, 3), max(0, major - 3) if major in (4, 5) else 0, int(major == 6)
        for low in range(24):
            heads[major << 5 | low] = _Head(fixed=low if is_string else 0, children=low * per + is_tag)
        for size_code in range(4):
            size = 1 << size_code
            head = _Head(length_bytes=size, unit=int(is_string), children=is_tag, per=per)
            # Under major type 7 the bytes that follow are a float.
            heads[major << 5 | 24 + size_code] = _Head(fixed=size) if major == 7 else head
    return tuple(heads)


_MSGPACK = _msgpack_heads()
_CBOR = _cbor_heads()


class Scanner:
    """Cuts items from the front of a run of bytes that arrives in chunks."""

    def __init__(self, chunks: Iterable[bytes], *, max_item_bytes: int = MAX_ITEM_BYTES) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._max_item_bytes = max_item_bytes
        self._buffer = b""
        self._at = 0

    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return not self._has(1)

    def peek(self) -> int:
        """The next byte, which stays."""
        self._need(1)
        return self._buffer[self._at]

    def read(self, size: int) -> bytes:
        """The next `size` bytes. Raises GrainError when there are fewer."""
        self._need(size)
        start, self._at = self._at, self._at + size
        return self._buffer[start : self._at]

    def delivery(self) -> bytes:
        """The next grain, bare or in its envelope."""
        if self.peek() != VERSION:
            return self.read(self._extent(0, _CBOR))
        self._need(HEADER_BYTES)
        is_cbor = self._buffer[self._at + 1] & CBOR
        return self.read(self._extent(HEADER_BYTES, _CBOR if is_cbor else _MSGPACK))

    def value(self, *, cbor: bool = False) -> bytes:
        """The next MessagePack or CBOR value."""
        return self.read(self._extent(0, _CBOR if cbor else _MSGPACK))

    def _extent(self, at: int, heads: tuple[_Head | None, ...]) -> int:
        """How many bytes from here to the end of the one value that begins at `at`."""
        pending = 1
        while pending:
            # Most of a grain is in the buffer already: the test costs less than the call.
            if self._at + at >= len(self._buffer):
                self._need(at + 1)
            head = heads[self._buffer[self._at + at]]
            if head is None:
                raise _corrupt("a byte that begins no value")
            fixed, length_bytes, unit, children, per = head
            at += 1 + fixed
            if length_bytes:
                self._need(at + length_bytes)
                start = self._at + at
                number = int.from_bytes(self._buffer[start : start + length_bytes], "big")
                at += length_bytes + number * unit
                children += number * per
            pending += children - 1
        return at

    def _need(self, size: int) -> None:
        if not self._has(size):
            raise _corrupt("the end in the middle of an item")

    def _has(self, size: int) -> bool:
        """Whether `size` bytes follow, after reading as many chunks as that takes."""
        missing = self._at + size - len(self._buffer)
        if missing <= 0:
            return True
        if size > self._max_item_bytes:
            raise TooLarge(f"an item of more than {self._max_item_bytes} bytes")
        parts = [self._buffer[self._at :]]
        while missing > 0:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            missing -= len(chunk)
        self._buffer, self._at = b"".join(parts), 0
        return missing <= 0


def _corrupt(why: str) -> GrainError:
    return GrainError(f"the bytes cannot be cut into grains: {why}", oms_code="ERR_CORRUPT")
