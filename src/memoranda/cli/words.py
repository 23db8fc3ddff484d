"""What people type, read: texts from the command line or standard input, moments, spans of time, JSON."""

from __future__ import annotations

import re
import sys
from typing import Any

from memoranda.errors import InvalidInput, TooLarge

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_SPAN = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_SPAN_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def text_or_input(text: str | None, *, max_bytes: int | None = None) -> str:
    """The text given; from standard input if it is `-`, or if none is given and something is piped in.

    Unless said, it may be as long as the text of a record.
    """
    from memoranda.standards.ump.record import MAX_TEXT_BYTES

    limit = MAX_TEXT_BYTES if max_bytes is None else max_bytes
    if text not in (None, "-"):
        assert text is not None
        return text
    if text is None and sys.stdin.isatty():
        raise InvalidInput("no text given: write it after the command, or pipe it in")
    data = sys.stdin.buffer.read(limit + 2)
    if len(data.removesuffix(b"\n")) > limit:
        raise TooLarge(f"standard input: a text may have at most {limit} bytes")
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input: not UTF-8 at byte {error.start}") from None


def moment(text: str | None) -> str | None:
    """Return a point in time in RFC 3339; a date means its first moment in UTC."""
    return f"{text}T00:00:00Z" if text is not None and _DATE.fullmatch(text) else text


def end_of(text: str | None) -> str | None:
    """Return a point in time in RFC 3339; a date means its last moment in UTC, so that it includes the day."""
    return f"{text}T23:59:59.999Z" if text is not None and _DATE.fullmatch(text) else text


def span_ms(text: str, option: str) -> int:
    """A span of time: 90s, 15m, 1h, 7d, 2w, or an ISO 8601 duration."""
    from memoranda.model.instant import parse_duration_ms

    if match := _SPAN.fullmatch(text):
        return int(match[1]) * _SPAN_MS[match[2]]
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise InvalidInput(f"{option}: {text!r} is not a span of time such as 90s, 15m, 1h, 7d or PT1H") from None


def json_object(text: str, option: str) -> dict[str, Any]:
    """A JSON object typed as an option."""
    from memoranda.encoding.json_text import parse

    try:
        value = parse(text)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error.message}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{option}: it must be a JSON object")
    return value


def names(text: str) -> tuple[str, ...]:
    """A list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def given(**fields: object) -> dict[str, Any]:
    """The fields that were said."""
    return {name: value for name, value in fields.items() if value is not None}
