"""Small conversions of typed values: optional fields, lists and dates."""

from __future__ import annotations

import re
from typing import Any

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def without_none(**fields: object) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def split_names(text: str) -> tuple[str, ...]:
    """Split a list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def complete_date(text: str | None) -> str | None:
    """Return a date as RFC 3339, at its first moment in UTC; any other text as it is."""
    return f"{text}T00:00:00Z" if text is not None and _DATE.fullmatch(text) else text


def end_of_date(text: str | None) -> str | None:
    """Return a point in time in RFC 3339; a date means its last moment in UTC, so that it includes the day."""
    return f"{text}T23:59:59.999Z" if text is not None and _DATE.fullmatch(text) else text
