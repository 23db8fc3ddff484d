"""Text that a terminal would obey, made visible: stored text must not move the cursor or turn a line around."""

from __future__ import annotations

import re
from typing import Final

# Control characters (C0 but tab and line feed, DEL, C1), what sets the direction of writing, and tag characters.
UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def escaped(text: str) -> str:
    """The text with such characters as JSON escapes them: JSON stays the same JSON."""
    return UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
