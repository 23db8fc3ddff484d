"""Checks of single fields of untrusted JSON, shared by all shapes of openwop.

Each check takes a value and its location, and returns the value or raises InvalidInput with the location.

The location is text such as `chains[2].edges` for the person who wrote the JSON, so each check adds its own part. Names
from untrusted JSON appear in messages only through `quote_name`, which shortens them and keeps them on one line.
Numbers follow JSON Schema, where 3.0 is an integer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Meta

from memoranda.encoding.json_text import is_unicode
from memoranda.encoding.shapes import Shape
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, parse_instant

# Characters. The longest RFC 3339 time, with nine decimals and an offset, has 35.
MAX_TIME_CHARS: Final = 40
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Semantic Versioning 2.0.0, as openwop's schemas require.
SEMVER: Final = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
# Characters of a name in a message, and of a name.
_QUOTED_CHARS: Final = 40
_MAX_NAME_CHARS: Final = 256


class OpenwopShape(Shape, rename="camel"):
    """A request whose fields have openwop's spelling (camelCase)."""


def text_limit(limit: int, description: str | None = None) -> Meta:
    """Return the constraint of a non-empty string with at most `limit` characters."""
    return Meta(min_length=1, max_length=limit, description=description)


def word_choice(words: Sequence[str], description: str | None = None) -> Meta:
    """Return the constraint of one of a closed set of words."""
    return Meta(
        pattern=f"^(?:{'|'.join(words)})(?![\\s\\S])",
        description=description,
        extra={"expected": f"one of {', '.join(words)}"},
        extra_json_schema={"enum": list(words), "pattern": None},
    )


def check_closed_object(value: object, fields: Sequence[str], location: str) -> dict[str, Any]:
    """Check an object without other fields than these and return it. Raises InvalidInput."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{location} must be an object")
    for name in value:
        if name not in fields:
            raise InvalidInput(
                f"{location} has the field {quote_name(name)}, which is not one of {', '.join(fields)}"
            )
    return value


def check_text(value: object, location: str, max_chars: int) -> str:
    """Check a non-empty string without lone surrogates and return it. Raises InvalidInput."""
    if not isinstance(value, str) or not 0 < len(value) <= max_chars:
        raise InvalidInput(f"{location} must be a string of 1 to {max_chars} characters")
    if not is_unicode(value):
        raise InvalidInput(f"{location} must have no lone surrogate")
    return value


def check_time(value: object, location: str) -> Instant:
    """Parse an RFC 3339 date-time with any offset. Raises InvalidInput."""
    try:
        if isinstance(value, str) and len(value) <= MAX_TIME_CHARS:
            return parse_instant(value)
    except ValueError:
        pass
    raise InvalidInput(f"{location} must be an RFC 3339 time such as 2026-04-27T12:00:00Z")


def check_integer(value: object, location: str, *, least: int) -> int:
    """Check an integer and return it. Like JSON Schema, accept 3.0. Raises InvalidInput."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{location} must be an integer of at least {least}")
    return value


def quote_name(text: object) -> str:
    """Return a name from untrusted JSON for a message: quoted, shortened and on one line."""
    name = CONTROL.sub("\ufffd", str(text))
    return f'"{name}"' if len(name) <= _QUOTED_CHARS else f'"{name[:_QUOTED_CHARS]}…"'


def check_object(value: object, location: str) -> dict[str, object]:
    """Check an object with any fields and return it. Raises InvalidInput."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{location} must be an object")
    return value


def require_fields(value: Mapping[str, object], names: Sequence[str], location: str) -> None:
    """Raise InvalidInput if one of these fields is missing."""
    for name in names:
        if name not in value:
            raise InvalidInput(f"{location}.{name} is required")


def check_boolean(value: object, location: str) -> bool:
    """Check a boolean and return it. Raises InvalidInput."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{location} must be true or false")
    return value


def check_word(value: object, words: Sequence[str], location: str) -> str:
    """Check one of a closed set of words and return it. Raises InvalidInput."""
    if not isinstance(value, str) or value not in words:
        raise InvalidInput(f"{location} must be one of {', '.join(words)}")
    return value


def check_texts(value: object, location: str, *, max_items: int, max_chars: int) -> list[str]:
    """Check an array of non-empty strings and return it. Raises InvalidInput."""
    if not isinstance(value, list) or len(value) > max_items:
        raise InvalidInput(f"{location} must be an array of at most {max_items} strings")
    for index, item in enumerate(value):
        check_text(item, f"{location}[{index}]", max_chars)
    return value


def check_pattern(value: object, pattern: re.Pattern[str], location: str, example: str) -> str:
    """Check a name of a given form and return it. Raises InvalidInput."""
    if not isinstance(value, str) or len(value) > _MAX_NAME_CHARS or not pattern.fullmatch(value):
        raise InvalidInput(f"{location} must be a name such as {example}")
    return value
