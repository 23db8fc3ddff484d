"""JSONL, the canonical form: one memory per line, UTF-8, LF-terminated (section 7).

Reading never stops at a bad line: its error, with the line number, takes its place. Sorting by `created_at` holds one
sorted run in memory; the other runs are in a scratch file.
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

# Bytes: a value of one MiB with every character as an escape of six characters, an embedding, and metadata.
MAX_LINE_BYTES: Final = 8 * 1_048_576
# Bytes of lines sorted in memory at once.
RUN_BYTES: Final = 16 * 1_048_576
# Bytes read ahead per run while merging: a thousand runs of 16 MiB need 64 MiB.
_AHEAD_BYTES: Final = 65_536

_BOM: Final = b"\xef\xbb\xbf"
_FRACTION: Final = re.compile(r"\.(\d+)", re.ASCII)
# Sort key, bytes of the line, bytes of the vector.
_RECORD: Final = struct.Struct("<20sII")


class ReadableLines(Protocol):
    """A binary file with random access."""

    def read(self, size: int, /) -> bytes:
        """Read at most `size` bytes; return none at the end."""

    def readline(self, size: int = -1, /) -> bytes:
        """Read up to the next line feed, inclusive, but at most `size` bytes."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to a position and return it, counted from the start of the file."""


class WritableLines(Protocol):
    """A binary file whose `write` accepts all of its data."""

    def write(self, data: bytes, /) -> object:
        """Write all of the data."""


class Scratch(ReadableLines, WritableLines, Protocol):
    """A temporary file that is written and then read."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line: a checked memory and its bytes, or an error.

    `raw` is the line without its end. It may be stored as the memory's native document if `is_verbatim`. Otherwise
    members were removed or added, and only `memory` is valid.
    """

    number: int
    offset: int = 0
    raw: bytes = b""
    memory: Memory | None = None
    warnings: Warnings = ()
    error: MemorandaError | None = None
    is_verbatim: bool = False


# --- reading -----------------------------------------------------------------------------------------


def read_lines(file: ReadableLines, *, complete: bool = True) -> Iterator[Line]:
    """Yield every line that is not blank, from the current position of the file."""
    offset = 0
    number = 0
    while data := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        start, offset = offset, offset + len(data)
        if len(data) > MAX_LINE_BYTES and not data.endswith(b"\n"):
            offset += _skip_line(file)
            yield Line(
                number=number, offset=start, error=_number_error(number, _line_length_error())
            )
        elif data.strip() not in (b"", _BOM):
            yield read_line(data, number=number, offset=start, complete=complete)


def _line_length_error() -> TooLarge:
    """Return the error of a line that is too long."""
    return TooLarge(f"a line may have at most {MAX_LINE_BYTES} bytes")


def _skip_line(file: ReadableLines) -> int:
    """Skip the remainder of a line; return the number of bytes."""
    skipped = 0
    while data := file.readline(MAX_LINE_BYTES):
        skipped += len(data)
        if data.endswith(b"\n"):
            break
    return skipped


def read_line(data: bytes, *, number: int = 1, offset: int = 0, complete: bool = True) -> Line:
    """Parse one line with its end."""
    oddities: list[str] = []
    raw = data.removesuffix(b"\n")
    if raw == data:
        oddities.append("the line has no line feed at its end")
    if raw.endswith(b"\r"):
        raw = raw.removesuffix(b"\r")
        oddities.append("the line ends in CR LF instead of LF")
    if number == 1 and raw.startswith(_BOM):
        raw = raw.removeprefix(_BOM)
        oddities.append("the file starts with a byte order mark")
    try:
        value = _parse_json(raw, has_line_end=data.endswith(b"\n"))
        memory, warnings = memories.check(value, complete=complete)
    except MemorandaError as error:
        return Line(number=number, offset=offset, raw=raw, error=_number_error(number, error))
    return Line(
        number=number,
        offset=offset,
        raw=raw,
        memory=memory,
        warnings=(*oddities, *warnings),
        is_verbatim=memory is value,
    )


def _parse_json(raw: bytes, *, has_line_end: bool) -> object:
    """Parse the JSON of a line. Raises MalformedJson, with a hint if the line may be cut off."""
    try:
        return json_text.parse(raw, max_bytes=MAX_LINE_BYTES)
    except MalformedJson as error:
        if has_line_end:
            raise
        raise MalformedJson(f"{error.message}; the last line seems to be cut off") from None


def _number_error(number: int, error: MemorandaError) -> MemorandaError:
    """Prefix the error with the line number."""
    error.message = f"line {number}: {error.message}"
    error.args = (error.message,)
    return error


# --- sorting -----------------------------------------------------------------------------------------


class Packed(msgspec.Struct, frozen=True):
    """A line to write, without its end, and its vector."""

    order: bytes
    line: bytes
    vector: bytes = b""


def sort_key_of(memory: Mapping[str, Any], arrival: int) -> bytes:
    """Return a sort key: `created_at` with all nine decimals, then the order of arrival."""
    text = memory["created_at"]
    fraction = _FRACTION.search(text)
    below_ms = int(fraction[1].ljust(9, "0")[3:9]) if fraction else 0
    moment = (parse_instant(text) - EARLIEST) * 1_000_000 + below_ms
    # Only UTC offsets are valid, so no time can be before the year 1.
    return moment.to_bytes(12, "big") + arrival.to_bytes(8, "big")


class Sorter:
    """An external merge sort of lines by `created_at`."""

    def __init__(self, scratch: Scratch, *, run_bytes: int = RUN_BYTES) -> None:
        self._scratch = scratch
        self._run_bytes = run_bytes
        self._buffer: list[Packed] = []
        self._buffer_bytes = 0
        self._runs: list[tuple[int, int]] = []
        self._end = 0

    def add(self, packed: Packed) -> None:
        """Add a line; write a run to the scratch file when the memory limit is reached."""
        self._buffer.append(packed)
        # Bytes of memory that an object and its three parts need besides their contents.
        self._buffer_bytes += len(packed.line) + len(packed.vector) + 200
        if self._buffer_bytes >= self._run_bytes:
            self._spill()

    def _spill(self) -> None:
        """Write the buffered lines to the scratch file as a sorted run."""
        self._buffer.sort(key=_sort_key)
        start = self._end
        self._scratch.seek(start)
        for packed in self._buffer:
            head = _RECORD.pack(packed.order, len(packed.line), len(packed.vector))
            self._scratch.write(head + packed.line + packed.vector)
            self._end += len(head) + len(packed.line) + len(packed.vector)
        self._runs.append((start, self._end))
        self._buffer = []
        self._buffer_bytes = 0

    def merge(self) -> Iterator[Packed]:
        """Return all lines in order. Call it once."""
        self._buffer.sort(key=_sort_key)
        runs = [_read_run(self._scratch, start, end) for start, end in self._runs]
        return heapq.merge(*runs, self._buffer, key=_sort_key)


def _sort_key(packed: Packed) -> bytes:
    return packed.order


def _read_run(scratch: Scratch, start: int, end: int) -> Iterator[Packed]:
    """Yield the records of one run. It reads ahead and seeks each time, because the merge alternates between runs."""
    buffer = b""
    position = 0
    while start < end or position < len(buffer):
        if len(buffer) - position >= _RECORD.size:
            order, line_bytes, vector_bytes = _RECORD.unpack_from(buffer, position)
            size = _RECORD.size + line_bytes + vector_bytes
            if len(buffer) - position >= size:
                line_end = position + _RECORD.size + line_bytes
                yield Packed(
                    order,
                    buffer[position + _RECORD.size : line_end],
                    buffer[line_end : position + size],
                )
                position += size
                continue
            read_bytes = max(_AHEAD_BYTES, size - (len(buffer) - position))
        else:
            read_bytes = _AHEAD_BYTES
        scratch.seek(start)
        chunk = scratch.read(min(read_bytes, end - start))
        if not chunk:
            raise InvalidInput("the scratch file was cut off while it was in use")
        buffer, position = buffer[position:] + chunk, 0
        start += len(chunk)
