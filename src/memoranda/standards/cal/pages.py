"""Page cursors: the offset of the next page of a query. They hold no snapshot and no secret."""

from __future__ import annotations

from typing import Final

from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.encoding.json_text import parse as parse_json
from memoranda.errors import InvalidInput, QueryError
from memoranda.standards.cal import limits

_PREFIX: Final = "cursor:"
# Characters; ours have about 150. A longer text is refused before it is decoded.
_MAX_CHARS: Final = 256


def encode_cursor(query_hash: str, offset: int) -> str:
    """Return the cursor for the page of a query that begins at an offset."""
    # Keys are sorted and there are no spaces, so that each page has exactly one cursor.
    return _PREFIX + base64url_encode(f'{{"h":"{query_hash}","o":{offset},"v":1}}'.encode())


def decode_cursor(cursor: str, query_hash: str) -> int:
    """Return the offset of a page. Raise QueryError if the text is no cursor, or belongs to another query."""
    offset = _decode_offset(cursor, query_hash)
    if offset is None:
        raise QueryError(
            "The cursor does not belong to this query.",
            cal_code="CAL-E002",
            suggestion="Send the query without a cursor, and then the cursors it answers with.",
        )
    return offset


def _decode_offset(cursor: str, query_hash: str) -> int | None:
    """Return the offset in a cursor, or None if it is not exactly a cursor of this query."""
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
