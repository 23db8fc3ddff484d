"""Values of any origin as text: as JSON, and as YAML.

A grain may hold any value that somebody stored, so the functions for JSON accept all values: `plain_value` replaces
what JSON cannot express. YAML is written in block style from JSON values; it is deterministic, and any YAML parser can
read it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

import orjson

from memoranda.encoding.json_text import MAX_DEPTH, is_unicode
from memoranda.encoding.untrusted import neutralize_tags
from memoranda.standards.sml.render import format_number

# Bits of a whole number that the JSON writer accepts, of either sign.
MAX_INTEGER_BITS: Final = 63
# Strings that need no quotes: they begin with a letter, so are no number and no date, and contain no YAML syntax.
_NEEDS_NO_QUOTES: Final = re.compile(r"[^\W\d_](?:[^:#\[\]{}\"\\`\n\r\t]*[^:#\[\]{}\"\\`\s])?")
# The booleans and nulls of YAML 1.1 and 1.2.
_RESERVED: Final = frozenset("true false yes no on off y n null".split())
# Common keys, known to need no quotes, so that they need not be tested.
_COMMON_KEYS: Final = frozenset(
    """type subject confidence role time state deadline tool phase observer reasoning_type context trigger threshold
    count action grantor grantee source observed importance tags verification_status relation object content""".split()
)
# Characters that must be escaped in a YAML string, but not in a JSON string.
_MUST_ESCAPE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


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


# --- YAML -------------------------------------------------------------------------------------------------


def yaml_text(value: object) -> str:
    """Return a JSON value as YAML, without a final line break. `plain_value` makes such values."""
    return "\n".join(yaml_lines(value))


def yaml_lines(value: object) -> list[str]:
    """Return a JSON value as lines of YAML."""
    output = []
    if isinstance(value, dict) and value:
        for key, member in value.items():
            name = key if key in _COMMON_KEYS else _string_text(key)
            if isinstance(member, dict | list) and member:
                output.append(f"{name}:")
                output += [f"  {line}" for line in yaml_lines(member)]
            else:
                output.append(f"{name}: {_scalar_text(member)}")
    elif isinstance(value, list) and value:
        for item in value:
            output += _item_lines(item)
    else:
        output.append(_scalar_text(value))
    return output


def _item_lines(value: object) -> list[str]:
    """Return a list item as lines; its first line follows the dash."""
    first, *further_lines = yaml_lines(value)
    return [f"- {first}", *(f"  {line}" for line in further_lines)]


def _scalar_text(value: object) -> str:
    """Return a value that is no structure as YAML."""
    if isinstance(value, str):
        return _string_text(value)
    if value is None:
        return "null"
    return format_number(value) if isinstance(value, int | float) else dump_json(value)


def _string_text(text: str) -> str:
    """Return a string as YAML, in quotes if it needs them."""
    if text.isprintable() and _NEEDS_NO_QUOTES.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return _MUST_ESCAPE.sub(lambda match: f"\\u{ord(match[0]):04x}", dump_json(text))
