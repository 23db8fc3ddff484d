"""JSON values as YAML in block style: deterministic, and readable by any YAML parser."""

from __future__ import annotations

import re
from typing import Final

from memoranda.standards.cal.printing.plain import dump_json
from memoranda.standards.sml.render import format_number

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


def yaml_text(value: object) -> str:
    """Return a JSON value as YAML, without a final line break. `plain.plain_value` makes such values."""
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
    first, *more = yaml_lines(value)
    return [f"- {first}", *(f"  {line}" for line in more)]


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
