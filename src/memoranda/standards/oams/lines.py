"""JSONL, the canonical form: one memory per line, UTF-8, LF-terminated (section 7).

Reading never stops at a bad line: the error stands in its place, with the number of the line. Sorting by `created_at`
needs memory for one run only; the runs wait in a scratch file.
"""

from __future__ import annotations

import heapq
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, MemorandaError, TooLarge
from memoranda.model.instant import EARLIEST, parse_instant
from memoranda.standards.oams import memory as memories
from memoranda.standards.oams.memory import Memory, Warnings

# A value of one MiB with every character written as an escape of six, an embedding, and metadata.
MAX_LINE_BYTES: Final = 8 * 1_048_576
# What is sorted at once, in memory.
RUN_BYTES: Final = 16 * 1_048_576
# Read ahead for each run while merging: a thousand runs of 16 MiB need 64 MiB.
_AHEAD_BYTES: Final = 65_536

_BOM: Final = b"\xef\xbb\xbf"
_FRACTION: Final = re.compile(r"\.(\d+)", re.ASCII)
# Sort key, length of the line, length of the vector.
_RECORD: Final = struct.Struct("<20sII")


class Readable(Protocol):
    """A binary file that can be read anywhere."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""

    def readline(self, size: int = -1, /) -> bytes:
        """Up to the next line feed, inclusive, but no more than `size` bytes."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a place and say where that is."""


class Writable(Protocol):
    """A binary file that takes all it is given."""

    def write(self, data: bytes, /) -> object:
        """Write all of it."""


class Scratch(Readable, Writable, Protocol):
    """A file that is written, then read again, and then gone."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a checked memory and the bytes it was read from, or why there is none.

    `raw` is the line without its end. It may be kept as the memory's native document where `is_verbatim`; else
    something was taken out of the memory or put into it, and only `memory` counts.
    """

    number: int
    offset: int = 0
    raw: bytes = b""
    memory: Memory | None = None
    warnings: Warnings = ()
    error: MemorandaError | None = None
    is_verbatim: bool = False


# --- reading -----------------------------------------------------------------------------------------


def read(file: Readable, *, complete: bool = True) -> Iterator[Line]:
    """Every line that says something, from where the file stands."""
    offset = 0
    number = 0
    while data := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        start, offset = offset, offset + len(data)
        if len(data) > MAX_LINE_BYTES and not data.endswith(b"\n"):
            offset += _skip_line(file)
            yield Line(number=number, offset=start, error=_placed(number, _too_long()))
        elif data.strip() not in (b"", _BOM):
            yield read_line(data, number=number, offset=start, complete=complete)


def _too_long() -> TooLarge:
    return TooLarge(f"a line may have at most {MAX_LINE_BYTES} bytes")


def _skip_line(file: Readable) -> int:
    skipped = 0
    while data := file.readline(MAX_LINE_BYTES):
        skipped += len(data)
        if data.endswith(b"\n"):
            break
    return skipped


def read_line(data: bytes, *, number: int = 1, offset: int = 0, complete: bool = True) -> Line:
    """One line with its end."""
    odd: list[str] = []
    raw = data.removesuffix(b"\n")
    if raw == data:
        odd.append("the line has no line feed at its end")
    if raw.endswith(b"\r"):
        raw = raw.removesuffix(b"\r")
        odd.append("the line ends in CR LF instead of LF")
    if number == 1 and raw.startswith(_BOM):
        raw = raw.removeprefix(_BOM)
        odd.append("the file starts with a byte order mark")
    try:
        value = _parsed(raw, is_whole=data.endswith(b"\n"))
        memory, warnings = memories.check(value, complete=complete)
    except MemorandaError as error:
        return Line(number=number, offset=offset, raw=raw, error=_placed(number, error))
    return Line(
        number=number,
        offset=offset,
        raw=raw,
        memory=memory,
        warnings=(*odd, *warnings),
        is_verbatim=memory is value,
    )


def _parsed(raw: bytes, *, is_whole: bool) -> Any:
    try:
        return json_text.parse(raw, max_bytes=MAX_LINE_BYTES)
    except MalformedJson as error:
        if is_whole:
            raise
        raise MalformedJson(f"{error.message}; the last line seems to be cut off") from None


def _placed(number: int, error: MemorandaError) -> MemorandaError:
    error.message = f"line {number}: {error.message}"
    error.args = (error.message,)
    return error


# --- sorting -----------------------------------------------------------------------------------------


class Packed(msgspec.Struct, frozen=True):
    """A line to be written, without its end, and the vector that goes with it."""

    order: bytes
    line: bytes
    vector: bytes = b""


def order_of(memory: Mapping[str, Any], arrival: int) -> bytes:
    """Sorts by `created_at`, all nine decimals of it, and then by arrival."""
    text = memory["created_at"]
    fraction = _FRACTION.search(text)
    below_ms = int(fraction[1].ljust(9, "0")[3:9]) if fraction else 0
    moment = (parse_instant(text) - EARLIEST) * 1_000_000 + below_ms
    # An offset, which only UTC's are, cannot take a time before the year 1.
    return moment.to_bytes(12, "big") + arrival.to_bytes(8, "big")


class Sorter:
    """Lines in any order in, lines by `created_at` out."""

    def __init__(self, scratch: Scratch, *, run_bytes: int = RUN_BYTES) -> None:
        self._scratch = scratch
        self._run_bytes = run_bytes
        self._held: list[Packed] = []
        self._held_bytes = 0
        self._runs: list[tuple[int, int]] = []
        self._end = 0

    def add(self, packed: Packed) -> None:
        """Take one; write a run when enough are held."""
        self._held.append(packed)
        # What an object and its three parts weigh besides their bytes.
        self._held_bytes += len(packed.line) + len(packed.vector) + 200
        if self._held_bytes >= self._run_bytes:
            self._spill()

    def _spill(self) -> None:
        self._held.sort(key=_order)
        start = self._end
        self._scratch.seek(start)
        for packed in self._held:
            head = _RECORD.pack(packed.order, len(packed.line), len(packed.vector))
            self._scratch.write(head + packed.line + packed.vector)
            self._end += len(head) + len(packed.line) + len(packed.vector)
        self._runs.append((start, self._end))
        self._held = []
        self._held_bytes = 0

    def sorted(self) -> Iterator[Packed]:
        """All that was added, in order; once."""
        self._held.sort(key=_order)
        runs = [_run(self._scratch, start, end) for start, end in self._runs]
        return heapq.merge(*runs, self._held, key=_order)


def _order(packed: Packed) -> bytes:
    return packed.order


def _run(scratch: Scratch, start: int, end: int) -> Iterator[Packed]:
    """The records of one run, read ahead in pieces, because other runs move the file in between."""
    buffer = b""
    at = 0
    while start < end or at < len(buffer):
        if len(buffer) - at >= _RECORD.size:
            order, line_bytes, vector_bytes = _RECORD.unpack_from(buffer, at)
            size = _RECORD.size + line_bytes + vector_bytes
            if len(buffer) - at >= size:
                line_end = at + _RECORD.size + line_bytes
                yield Packed(order, buffer[at + _RECORD.size : line_end], buffer[line_end : at + size])
                at += size
                continue
            wanted = max(_AHEAD_BYTES, size - (len(buffer) - at))
        else:
            wanted = _AHEAD_BYTES
        scratch.seek(start)
        piece = scratch.read(min(wanted, end - start))
        if not piece:
            raise InvalidInput("the scratch file was cut off while it was in use")
        buffer, at = buffer[at:] + piece, 0
        start += len(piece)
