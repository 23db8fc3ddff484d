"""Values of any origin as JSON. Nothing here fails: a grain may hold any value that somebody stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import orjson

from memoranda.encoding.json_text import MAX_DEPTH, is_unicode
from memoranda.encoding.untrusted import neutralize_tags
from memoranda.standards.sml.render import format_number

# Bits of a whole number that the JSON writer accepts, of either sign.
MAX_INTEGER_BITS: Final = 63


def compact_json(value: object) -> str:
    """Return compact JSON with sorted keys (cal.md, *values other than text*)."""
    return _encode(value, orjson.OPT_SORT_KEYS)


def dump_json(value: object) -> str:
    """Return compact JSON, members in their order."""
    return _encode(value, 0)


def plain_value(value: object, depth: int = MAX_DEPTH, *, is_read: bool = False) -> object:
    """Return the value built from JSON types; values that JSON cannot express become null or text.

    With `is_read`, the result is read by a model: invisible characters and markup in its texts are neutralised. Values
    deeper than `depth` become null.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        valid_text = (
            value if is_unicode(value) else value.encode("utf-8", "replace").decode("utf-8")
        )
        return neutralize_tags(valid_text) if is_read else valid_text
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MAX_INTEGER_BITS else format_number(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == 0:
        return None
    if isinstance(value, Mapping):
        return {
            _key_text(key, is_read): plain_value(member, depth - 1, is_read=is_read)
            for key, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_value(item, depth - 1, is_read=is_read) for item in value]
    return None


def _encode(value: object, option: int) -> str:
    """Encode a value as JSON; values that the writer refuses are replaced by plain ones."""
    try:
        return orjson.dumps(value, option=option).decode("utf-8")
    except TypeError:
        return orjson.dumps(plain_value(value), option=option).decode("utf-8")


def _key_text(key: object, is_read: bool) -> str:
    """Return the key of a mapping as text."""
    text = plain_value(key, 0, is_read=is_read)
    return text if isinstance(text, str) else compact_json(text)
