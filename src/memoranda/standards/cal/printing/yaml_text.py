"""YAML in block style, for values of JSON: deterministic, and any YAML parser reads it back."""

from __future__ import annotations

import re
from typing import Any, Final

from memoranda.standards.cal.printing.plain import dump
from memoranda.standards.sml.render import format_number

# Begins with a letter, so it is no number and no date; holds nothing that YAML or a line reads as its own.
_PLAIN: Final = re.compile(r"[^\W\d_](?:[^:#\[\]{}\"\\`\n\r\t]*[^:#\[\]{}\"\\`\s])?")
# The booleans and nulls of YAML 1.1 and 1.2.
_RESERVED: Final = frozenset("true false yes no on off y n null".split())
# The usual keys, known not to need a look.
_NAMES: Final = frozenset(
    """type subject confidence role time state deadline tool phase observer reasoning_type context trigger threshold
    count action grantor grantee source observed importance tags verification_status relation object content""".split()
)
# What JSON leaves bare in a string and YAML does not.
_UNPRINTED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def text(value: Any) -> str:
    """A value that `plain` could have made, without a last line break."""
    return "\n".join(lines(value))


def lines(value: Any) -> list[str]:
    """Its lines."""
    found = []
    if isinstance(value, dict) and value:
        for key, member in value.items():
            name = key if key in _NAMES else _string(key)
            if isinstance(member, dict | list) and member:
                found.append(f"{name}:")
                found += [f"  {line}" for line in lines(member)]
            else:
                found.append(f"{name}: {_scalar(member)}")
    elif isinstance(value, list) and value:
        for each in value:
            found += _listed(each)
    else:
        found.append(_scalar(value))
    return found


def _listed(value: Any) -> list[str]:
    # The first line of an item stands on the line of its dash.
    first, *more = lines(value)
    return [f"- {first}", *(f"  {line}" for line in more)]


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None:
        return "null"
    return format_number(value) if isinstance(value, int | float) else dump(value)


def _string(text: str) -> str:
    if text.isprintable() and _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return _UNPRINTED.sub(lambda match: f"\\u{ord(match[0]):04x}", dump(text))
