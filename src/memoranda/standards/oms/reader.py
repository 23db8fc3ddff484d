"""The common part of the strict MessagePack and CBOR readers: positions, limits, texts and sorted maps.

A grain is named by the hash of its bytes, so each value may have only one spelling, and a reader that accepted a second
one would let two addresses stand for the same grain. Every check here is therefore a refusal and never a repair.
Lengths are compared with the limits and with what is left of the data before anything is allocated for them. A subclass
adds only how its encoding marks types and lengths.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NoReturn

from memoranda.errors import GrainError
from memoranda.standards.oms.normal import BOM, quote_key


class ValueReader(ABC):
    """A strict reader of one value. Raises GrainError at the first deviation from the one valid spelling."""

    # The name of the encoding, for messages.
    encoding: ClassVar[str]
    # True if keys are sorted by their encoded bytes, which puts shorter keys first; False if by their UTF-8 text.
    sorts_by_encoding: ClassVar[bool]

    def __init__(self, data: bytes, max_depth: int) -> None:
        self._data = data
        self._offset = 0
        self._max_depth = max_depth

    def read_all(self) -> object:
        """Return the value, which must fill the data."""
        value = self.read_value(self._max_depth)
        if self._offset != len(self._data):
            self.refuse(f"{len(self._data) - self._offset} stray bytes after the value")
        return value

    @abstractmethod
    def read_value(self, depth: int) -> object:
        """Read the next value, which may have `depth` levels of maps and arrays."""

    def read_text(self, length: int) -> str:
        """Read a string of this many bytes: UTF-8, NFC and without a byte order mark."""
        start = self._offset
        try:
            text = self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            self.refuse("a string that is not UTF-8", start)
        if text.isascii():
            return text
        if BOM in text:
            # Sections 4.4 and 19.3.
            self.refuse("a string with a byte order mark", start)
        if not unicodedata.is_normalized("NFC", text):
            self.refuse("a string that is not NFC", start)
        return text

    def read_array(self, length: int, depth: int) -> list[object]:
        """Read this many values of an array."""
        self._check_nesting(length, depth)
        return [self.read_value(depth - 1) for _ in range(length)]

    def read_map(self, length: int, depth: int) -> dict[str, object]:
        """Read this many entries of a map: sorted text keys, no duplicates, no null."""
        self._check_nesting(2 * length, depth)
        entries: dict[str, Any] = {}
        previous: bytes | None = None
        for _ in range(length):
            start = self._offset
            key = self.read_value(0)
            if not isinstance(key, str):
                self.refuse("a map key that is not a string", start)
            sort_key = (
                self._data[start : self._offset] if self.sorts_by_encoding else key.encode("utf-8")
            )
            if previous is not None and sort_key <= previous:
                # Section 4.1: keys are sorted, and duplicates MUST be rejected.
                self.refuse(
                    f"the map key {quote_key(key)} {'twice' if key in entries else 'out of order'}",
                    start,
                )
            previous = sort_key
            start = self._offset
            entries[key] = self.read_value(depth - 1)
            if entries[key] is None:
                # Section 4.5: entries that are null MUST be omitted.
                self.refuse(f"null as the value of {quote_key(key)}", start)
        return entries

    def take(self, length: int) -> bytes:
        """Return the next bytes and advance. Raises GrainError if there are fewer."""
        data = self._data[self._offset : self._offset + length]
        if len(data) != length:
            self.refuse("the end in the middle of a value")
        self._offset += length
        return data

    def refuse(self, violation: str, at: int | None = None) -> NoReturn:
        """Raise GrainError for a violation at this byte of the payload, by default the current one."""
        position = self._offset if at is None else at
        raise GrainError(
            f"not {self.encoding}: {violation} at byte {position} of the payload",
            oms_code="ERR_CORRUPT",
        )

    @property
    def position(self) -> int:
        """The number of bytes read."""
        return self._offset

    def _check_nesting(self, elements: int, depth: int) -> None:
        """Check the limits of a map or an array. Raises GrainError."""
        if depth < 1:
            # Section 4.10: parsers MAY reject payloads exceeding their profile's limit with ERR_CORRUPT.
            self.refuse("maps and arrays nested too deeply, or as a map key")
        if elements > len(self._data) - self._offset:
            # Every element takes at least one byte.
            self.refuse("a length beyond the end")
