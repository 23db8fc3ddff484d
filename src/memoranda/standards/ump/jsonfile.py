"""*.ump.json: a JSON array of records, one record, or one record per line (section 4.3).

The three forms are told apart by their content and not by the name of the file. Here only JSON and the outer form are
checked; whether an object is a record is decided by the importer, so that one bad record does not spoil a file. Errors
name the line or the number of the item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, TooLarge
from memoranda.standards.ump.record import MAX_RECORD_BYTES
from memoranda.standards.ump.shapes import Record, Unchecked

# Bytes. A file is read into memory completely; a hundred thousand ordinary records fit.
MAX_FILE_BYTES: Final = 128 * 1_048_576
_BOM = b"\xef\xbb\xbf"


def render_ndjson(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield one compact record per line, each with its newline."""
    for record in records:
        yield json_text.dump(record) + b"\n"


def parse_file(data: bytes) -> list[Unchecked]:
    """Parse a file in any of the three forms; return its objects without validation. Raises InvalidInput."""
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"a file of {len(data)} bytes is over the limit of {MAX_FILE_BYTES}")
    body = data.removeprefix(_BOM).strip()
    if not body:
        return []
    if body.startswith(b"["):
        # One level more than in a record, for the array.
        items = json_text.parse(body, max_bytes=MAX_FILE_BYTES, max_depth=json_text.MAX_DEPTH + 1)
        return [_check_object(item, f"record {index}") for index, item in enumerate(items, start=1)]
    if not body.startswith(b"{"):
        raise MalformedJson("not a UMP file: it starts with neither an array nor an object")
    if _is_ndjson(body):
        return list(_parse_lines(body))
    return [_check_object(json_text.parse(body, max_bytes=MAX_RECORD_BYTES), "record 1")]


def _is_ndjson(body: bytes) -> bool:
    """Return True if the first line is a complete object or the second line begins another."""
    first, _, remainder = body.partition(b"\n")
    if remainder.lstrip().startswith(b"{"):
        return True
    try:
        json_text.parse(first)
    except InvalidInput:
        return False
    return True


def _parse_lines(body: bytes) -> Iterator[Unchecked]:
    """Yield the object in each line. Raises InvalidInput with the line number."""
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json_text.parse(line, max_bytes=MAX_RECORD_BYTES)
        except InvalidInput as error:
            raise type(error)(f"line {number}: {error.message}") from None
        yield _check_object(value, f"line {number}")


def _check_object(value: object, location: str) -> Unchecked:
    """Return the value if it is an object. Raises InvalidInput with its location."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{location}: a record must be an object")
    return value
