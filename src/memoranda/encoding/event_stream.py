"""Frames of text/event-stream (HTML Living Standard, 9.2). Data is JSON, which has no line break."""

from __future__ import annotations


def frame(name: str, data: bytes, *, place: int | None = None) -> bytes:
    """One event; `place` is what a client that comes back sends as Last-Event-ID."""
    head = b"" if place is None else b"id: %d\n" % place
    return b"%sevent: %s\ndata: %s\n\n" % (head, name.encode("ascii"), data)


def comment(text: str) -> bytes:
    """What keeps a silent connection open, or tells a person who watches it."""
    return b": %s\n\n" % text.encode("ascii")
