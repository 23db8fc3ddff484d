"""What frameworks hand over as a question: whatever was said last, which may be long."""

from __future__ import annotations

from memoranda.standards.ump.requests import MAX_QUERY_BYTES


def question(said: str) -> str:
    """The end of what was said, as much of it as can be asked."""
    data = said.strip().encode("utf-8", "replace")
    return data[-MAX_QUERY_BYTES:].decode("utf-8", "ignore")
