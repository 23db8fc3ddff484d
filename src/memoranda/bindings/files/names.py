"""File names for memories: readable, safe on every system, and never one that is taken."""

from __future__ import annotations

import unicodedata
from collections.abc import Container
from typing import Final

from memoranda.bindings.files.formats import MARKDOWN_ENDING
from memoranda.standards.ump.record import Record

# Enough to tell notes apart; with the ending well below the 255 bytes of common file systems.
_SLUG_BYTES: Final = 60
_ID_CHARS: Final = 8
# Names that Windows keeps for devices.
_DEVICES: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10)))
)


def file_name(record: Record, taken: Container[str], ending: str = MARKDOWN_ENDING) -> str:
    """A free name: the first words of the text, with a part of the id if they do not tell it apart."""
    slug = _slug(record["body"]["text"])
    key = record["id"].removeprefix("urn:ump:")
    for name in (slug, f"{slug}-{key[:_ID_CHARS]}", key[:200], f"{slug}-{key[:150]}"):
        full = f"{name.strip('-')}{ending}"
        if name and name not in _DEVICES and full.casefold() not in taken:
            return full
    count = 2
    while (full := f"{slug}-{key[:100]}-{count}{ending}".lstrip("-")).casefold() in taken:
        count += 1
    return full


def _slug(text: str) -> str:
    """Letters and digits of the first line, in lower case, joined by hyphens."""
    first = next((each for each in text.splitlines() if each.strip()), "")[:200]
    folded = unicodedata.normalize("NFC", first.lower())
    words = "".join(char if char.isalnum() else " " for char in folded).split()
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word
        if len(longer.encode("utf-8")) > _SLUG_BYTES:
            break
        slug = longer
    return slug
