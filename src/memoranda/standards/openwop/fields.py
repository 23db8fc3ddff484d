"""Checks of single fields of untrusted JSON, shared by all the shapes of openwop.

Each takes a value and the name of where it stood, and returns it or raises InvalidInput with that name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Meta

from memoranda.encoding.json_text import is_unicode
from memoranda.encoding.shapes import Shape
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, parse_instant

# The longest RFC 3339 time, with nine decimals and an offset, has 35.
MAX_TIME_CHARS: Final = 40
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Semantic Versioning 2.0.0, as openwop's schemas ask for it.
SEMVER: Final = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_SHOWN_CHARS: Final = 40
_MAX_NAME_CHARS: Final = 256


class OpenwopShape(Shape, rename="camel"):
    """What a request may say, in openwop's spelling."""


def chars(most: int, description: str | None = None) -> Meta:
    """A non-empty string of at most so many characters."""
    return Meta(min_length=1, max_length=most, description=description)


def word(words: Sequence[str], description: str | None = None) -> Meta:
    """One of a closed set of words."""
    return Meta(
        pattern=f"^(?:{'|'.join(words)})(?![\\s\\S])",
        description=description,
        extra={"expected": f"one of {', '.join(words)}"},
        extra_json_schema={"enum": list(words), "pattern": None},
    )


def closed_object(value: object, fields: Sequence[str], where: str) -> dict[str, Any]:
    """An object with no other fields than these."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be an object")
    for name in value:
        if name not in fields:
            raise InvalidInput(f"{where} has the field {shown(name)}, which is not one of {', '.join(fields)}")
    return value


def check_text(value: object, where: str, max_chars: int) -> str:
    """A non-empty string of Unicode characters."""
    if not isinstance(value, str) or not 0 < len(value) <= max_chars:
        raise InvalidInput(f"{where} must be a string of 1 to {max_chars} characters")
    if not is_unicode(value):
        raise InvalidInput(f"{where} must have no lone surrogate")
    return value


def check_time(value: object, where: str) -> Instant:
    """An RFC 3339 date-time with any offset."""
    try:
        if isinstance(value, str) and len(value) <= MAX_TIME_CHARS:
            return parse_instant(value)
    except ValueError:
        pass
    raise InvalidInput(f"{where} must be an RFC 3339 time such as 2026-04-27T12:00:00Z")


def check_integer(value: object, where: str, *, least: int) -> int:
    """A whole number; JSON Schema also takes 3.0 for one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{where} must be an integer of at least {least}")
    return value


def shown(text: object) -> str:
    """A name out of somebody else's JSON, short and on one line."""
    name = CONTROL.sub("\ufffd", str(text))
    return f'"{name}"' if len(name) <= _SHOWN_CHARS else f'"{name[:_SHOWN_CHARS]}…"'


def an_object(value: object, where: str) -> dict[str, Any]:
    """An object with whatever fields."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be an object")
    return value


def require(value: dict[str, Any], names: Sequence[str], where: str) -> None:
    """All of these fields are there."""
    for name in names:
        if name not in value:
            raise InvalidInput(f"{where}.{name} is required")


def check_boolean(value: object, where: str) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{where} must be true or false")
    return value


def check_word(value: object, words: Sequence[str], where: str) -> str:
    """One of a closed set of words."""
    if not isinstance(value, str) or value not in words:
        raise InvalidInput(f"{where} must be one of {', '.join(words)}")
    return value


def check_texts(value: object, where: str, *, max_items: int, max_chars: int) -> list[str]:
    """An array of non-empty strings."""
    if not isinstance(value, list) or len(value) > max_items:
        raise InvalidInput(f"{where} must be an array of at most {max_items} strings")
    for index, item in enumerate(value):
        check_text(item, f"{where}[{index}]", max_chars)
    return value


def check_pattern(value: object, pattern: re.Pattern[str], where: str, example: str) -> str:
    """A name of a given form."""
    if not isinstance(value, str) or len(value) > _MAX_NAME_CHARS or not pattern.fullmatch(value):
        raise InvalidInput(f"{where} must be a name such as {example}")
    return value
