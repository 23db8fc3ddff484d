"""Frames of text/event-stream (HTML Living Standard, 9.2). The data is JSON, which has no line breaks."""

from __future__ import annotations


def format_event(name: str, data: bytes, *, event_id: int | None = None) -> bytes:
    """Format one event. A client that reconnects sends the last `event_id` as Last-Event-ID."""
    head = b"" if event_id is None else b"id: %d\n" % event_id
    return b"%sevent: %s\ndata: %s\n\n" % (head, name.encode("ascii"), data)


def format_comment(text: str) -> bytes:
    """Format a comment, which keeps a silent connection open."""
    return b": %s\n\n" % text.encode("ascii")
