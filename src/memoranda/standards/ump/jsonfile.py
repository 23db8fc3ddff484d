"""*.ump.json: a JSON array of records, one record, or one record per line (section 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, TooLarge
from memoranda.standards.ump.record import MAX_RECORD_BYTES
from memoranda.standards.ump.shapes import Record, Unchecked

# A file is read into memory whole; a hundred thousand ordinary records fit.
MAX_FILE_BYTES: Final = 128 * 1_048_576
_BOM = b"\xef\xbb\xbf"


def render_ndjson(records: Iterable[Record]) -> Iterator[bytes]:
    """One compact record per line, each with its newline."""
    for record in records:
        yield json_text.dump(record) + b"\n"


def parse_file(data: bytes) -> list[Unchecked]:
    """The records of a file in any of the three forms; they are objects, and not checked further."""
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"a file of {len(data)} bytes is over the limit of {MAX_FILE_BYTES}")
    body = data.removeprefix(_BOM).strip()
    if not body:
        return []
    if body.startswith(b"["):
        # One level more than a record, for the array around it.
        whole = json_text.parse(body, max_bytes=MAX_FILE_BYTES, max_depth=json_text.MAX_DEPTH + 1)
        return [_object(item, f"record {index}") for index, item in enumerate(whole, start=1)]
    if not body.startswith(b"{"):
        raise MalformedJson("not a UMP file: it starts with neither an array nor an object")
    if _is_ndjson(body):
        return list(_parse_lines(body))
    return [_object(json_text.parse(body, max_bytes=MAX_RECORD_BYTES), "record 1")]


def _is_ndjson(body: bytes) -> bool:
    """Whether the first line already is a whole object, or the second line starts another."""
    first, _, rest = body.partition(b"\n")
    if rest.lstrip().startswith(b"{"):
        return True
    try:
        json_text.parse(first)
    except InvalidInput:
        return False
    return True


def _parse_lines(body: bytes) -> Iterator[Unchecked]:
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json_text.parse(line, max_bytes=MAX_RECORD_BYTES)
        except InvalidInput as error:
            raise type(error)(f"line {number}: {error.message}") from None
        yield _object(value, f"line {number}")


def _object(value: Any, where: str) -> Unchecked:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: a record must be an object")
    return value
