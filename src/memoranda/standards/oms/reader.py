"""What the two precise readers share: bytes taken in order, limits, texts, and maps whose keys come in one order."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NoReturn

from memoranda.errors import GrainError
from memoranda.standards.oms.normal import BOM, shown


class ValueReader(ABC):
    """Reads one value that fills the data; raises GrainError for the first thing that is not in its one spelling."""

    # What the data is not, in messages.
    form: ClassVar[str]
    # Whether keys are ordered by their bytes as encoded, length first, or by those of their text.
    orders_encoded: ClassVar[bool]

    def __init__(self, data: bytes, max_depth: int) -> None:
        self._data = data
        self._at = 0
        self._max_depth = max_depth

    def whole(self) -> Any:
        """The value, when nothing follows it."""
        value = self.value(self._max_depth)
        if self._at != len(self._data):
            self.refuse(f"{len(self._data) - self._at} stray bytes after the value")
        return value

    @abstractmethod
    def value(self, depth: int) -> Any:
        """Read the next value, which may hold so many levels of maps and arrays."""

    def text(self, length: int) -> str:
        start = self._at
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

    def array(self, length: int, depth: int) -> list[Any]:
        self._enter(length, depth)
        return [self.value(depth - 1) for _ in range(length)]

    def map(self, length: int, depth: int) -> dict[str, Any]:
        self._enter(2 * length, depth)
        entries: dict[str, Any] = {}
        previous: bytes | None = None
        for _ in range(length):
            start = self._at
            key = self.value(0)
            if not isinstance(key, str):
                self.refuse("a map key that is not a string", start)
            place = self._data[start : self._at] if self.orders_encoded else key.encode("utf-8")
            if previous is not None and place <= previous:
                # Section 4.1: keys are sorted, and duplicates MUST be rejected.
                self.refuse(f"the map key {shown(key)} {'twice' if key in entries else 'out of order'}", start)
            previous = place
            start = self._at
            entries[key] = self.value(depth - 1)
            if entries[key] is None:
                # Section 4.5: entries that are null MUST be omitted.
                self.refuse(f"null as the value of {shown(key)}", start)
        return entries

    def take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) != length:
            self.refuse("the end in the middle of a value")
        self._at += length
        return taken

    def refuse(self, what: str, at: int | None = None) -> NoReturn:
        place = self._at if at is None else at
        raise GrainError(f"not {self.form}: {what} at byte {place} of the payload", oms_code="ERR_CORRUPT")

    @property
    def position(self) -> int:
        """How many bytes have been read."""
        return self._at

    def _enter(self, elements: int, depth: int) -> None:
        if depth < 1:
            # Section 4.10: parsers MAY reject payloads exceeding their profile's limit with ERR_CORRUPT.
            self.refuse("maps and arrays nested too deeply, or as a map key")
        if elements > len(self._data) - self._at:
            # Every element takes a byte or more.
            self.refuse("a length beyond the end")
