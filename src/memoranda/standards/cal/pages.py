"""Cursors: where the next page of a query begins. They hold no snapshot and no secret."""

from __future__ import annotations

from typing import Final

from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.encoding.json_text import parse as parse_json
from memoranda.errors import InvalidInput, QueryError
from memoranda.standards.cal import limits

_PREFIX: Final = "cursor:"
_MAX_CHARS: Final = 256


def encode_cursor(query_hash: str, offset: int) -> str:
    """The cursor for the page of a query that begins after so many items."""
    # Sorted keys, no spaces: one spelling.
    return _PREFIX + base64url_encode(f'{{"h":"{query_hash}","o":{offset},"v":1}}'.encode())


def decode_cursor(cursor: str, query_hash: str) -> int:
    """Where the page begins. Raises QueryError for a cursor of another query, or none at all."""
    offset = _decode_offset(cursor, query_hash)
    if offset is None:
        raise QueryError(
            "The cursor does not belong to this query.",
            cal_code="CAL-E002",
            suggestion="Send the query without a cursor, and then the cursors it answers with.",
        )
    return offset


def _decode_offset(cursor: str, query_hash: str) -> int | None:
    if len(cursor) > _MAX_CHARS or not cursor.startswith(_PREFIX):
        return None
    try:
        value = parse_json(base64url_decode(cursor.removeprefix(_PREFIX)))
    except (ValueError, InvalidInput):
        return None
    offset = value.get("o") if isinstance(value, dict) else None
    if type(offset) is not int or not 0 <= offset <= limits.INTEGER_MAX:
        return None
    return offset if encode_cursor(query_hash, offset) == cursor else None
