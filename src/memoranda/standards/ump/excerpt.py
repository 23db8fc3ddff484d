"""The part of a record that is shown where its text is too long: its title, and the passage that answers a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.errors import MemorandaError
from memoranda.model.memory import unwrap_document
from memoranda.model.passages import Passage, cut_window
from memoranda.model.titles import title_in
from memoranda.standards.port import port_of

# Characters at the beginning of a text in which its title may stand.
_BEGINNING_CHARS: Final = 240
# Numbers that name a passage.
_BOUNDS: Final = 3
_ELLIPSIS: Final = "…"


def missing_title(record: Mapping[str, Any]) -> str:
    """Return the title of a record on one line; empty without one, or if the text begins with it."""
    body = record["body"]
    structured = body.get("structured")
    title = _find_title(structured) if isinstance(structured, Mapping) else ""
    is_known = title.casefold() in str(body["text"])[:_BEGINNING_CHARS].casefold()
    return "" if is_known else " ".join(title.split())


def _find_title(structured: Mapping[str, Any]) -> str:
    """Return the title among structured data, or of the document of another standard that they carry."""
    title, original = title_in(structured), unwrap_document(structured)
    if title or original is None:
        return title
    try:
        return port_of(original.standard).title(original)
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        # Anybody may have put it there.
        return ""


def read_passage(bounds: object) -> Passage | None:
    """Return the passage that a result names: its first character, the one after it, and that of its best sentence.

    None if it names none.
    """
    if not isinstance(bounds, list | tuple) or len(bounds) != _BOUNDS:
        return None
    if not all(isinstance(bound, int) for bound in bounds):
        return None
    start, end, focus = bounds
    return Passage(start, end, focus=focus) if 0 <= start < end else None


def cut_excerpt(text: str, max_chars: int, passage: Passage | None = None) -> tuple[str, int]:
    """Return a text, or of a longer one the part around a passage between ellipses, and the number of omitted
    characters. The ellipses come on top of `max_chars`.
    """
    window = cut_window(text, max_chars, passage)
    begin, end = _ELLIPSIS if window.before else "", _ELLIPSIS if window.after else ""
    return f"{begin}{window.text}{end}", window.before + window.after


def omission_hint(omitted: int, name: str) -> str:
    """Return the end of a shortened text: how many characters are omitted, and the id by which to request them."""
    return f" ({omitted:,} more characters{f', {name}' if name else ''})"
