"""Readers of what people type or pipe in: texts, durations and JSON. Raises InvalidInput with the option's name."""

from __future__ import annotations

import re
import sys
from typing import Any

from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import parse_duration_ms
from memoranda.standards.ump.record import MAX_TEXT_BYTES

_DURATION = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def read_text(text: str | None, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return a typed text, or standard input if the text is `-`, or is missing while input is piped in.

    The limit, by default that of a record's text, holds for standard input; the library checks typed texts.
    """
    if text is not None and text != "-":
        return text
    if text is None and sys.stdin.isatty():
        raise InvalidInput("no text given: write it after the command, or pipe it in")
    # One byte more than the limit and a final line feed shows that the input is too long.
    data = sys.stdin.buffer.read(max_bytes + 2)
    if len(data.removesuffix(b"\n")) > max_bytes:
        raise TooLarge(f"standard input: a text may have at most {max_bytes} bytes")
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input: not UTF-8 at byte {error.start}") from None


def read_duration_ms(text: str, option: str) -> int:
    """Return a duration in milliseconds: 90s, 15m, 1h, 7d, 2w, or ISO 8601."""
    if match := _DURATION.fullmatch(text):
        return int(match[1]) * _UNIT_MS[match[2]]
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise InvalidInput(
            f"{option}: {text!r} is not a duration such as 90s, 15m, 1h, 7d or PT1H"
        ) from None


def read_json_object(text: str, option: str) -> dict[str, Any]:
    """Return a JSON object typed as the value of an option."""
    try:
        value = parse(text)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error.message}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{option}: must be a JSON object")
    return value
