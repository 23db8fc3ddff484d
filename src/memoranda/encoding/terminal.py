"""Escaping of text for a terminal: stored text must not move the cursor or reverse a line."""

from __future__ import annotations

import re
from typing import Final

# Control characters (C0 except tab and line feed, DEL, C1), bidi controls, and tag characters.
UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def escape_controls(text: str) -> str:
    """Return the text with unsafe characters escaped as in JSON, so that JSON stays equal JSON."""
    return UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    """Return the JSON escapes of the matched character."""
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[index : index + 4]}" for index in range(0, len(units), 4))
