"""Queries that frameworks pass on: usually the last message, which may be too long."""

from __future__ import annotations

from memoranda.standards.ump.requests import MAX_QUERY_BYTES


def limit_question(text: str) -> str:
    """Return the end of a text, cut to the size limit of a query."""
    data = text.strip().encode("utf-8", "replace")
    return data[-MAX_QUERY_BYTES:].decode("utf-8", "ignore")
