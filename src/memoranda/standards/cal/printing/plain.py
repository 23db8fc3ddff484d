"""Values of any origin as JSON, never failing: what a grain holds was put there by somebody else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import orjson

from memoranda.encoding.json_text import MAX_DEPTH, is_unicode
from memoranda.encoding.untrusted import neutralize_tags
from memoranda.standards.sml.render import format_number

# What the writer takes of either sign.
MAX_INTEGER_BITS: Final = 63


def compact(value: Any) -> str:
    """Compact JSON with sorted keys (cal.md, *values that are no text*)."""
    return _written(value, orjson.OPT_SORT_KEYS)


def dump(value: Any) -> str:
    """Compact JSON in the order given."""
    return _written(value, 0)


def plain(value: Any, depth: int = MAX_DEPTH, *, is_read: bool = False) -> Any:
    """The same out of what JSON has: what it has no form for becomes null, or text.

    `is_read`: by a model, so its texts hide nothing and spell no tag.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        sound = value if is_unicode(value) else value.encode("utf-8", "replace").decode("utf-8")
        return neutralize_tags(sound) if is_read else sound
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MAX_INTEGER_BITS else format_number(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == 0:
        return None
    if isinstance(value, Mapping):
        return {_key(key, is_read): plain(member, depth - 1, is_read=is_read) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, depth - 1, is_read=is_read) for each in value]
    return None


def _written(value: Any, option: int) -> str:
    try:
        return orjson.dumps(value, option=option).decode("utf-8")
    except TypeError:
        return orjson.dumps(plain(value), option=option).decode("utf-8")


def _key(key: Any, is_read: bool) -> str:
    said = plain(key, 0, is_read=is_read)
    return said if isinstance(said, str) else compact(said)
