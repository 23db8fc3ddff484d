"""What looked like a secret in what was written: told to whoever wrote it, by kinds and never by values.

A binding opens `noticing` around a verb and says what was found in its own way: the command line in a line, HTTP in a
header, MCP in a text and in `_meta`. Where nobody listens, as in a program of one's own, the log has it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_log = logging.getLogger(__name__)


class Noticed:
    """The kinds that were found so far, each once, and whether they were taken out."""

    __slots__ = ("is_redacted", "kinds")

    def __init__(self) -> None:
        self.kinds: dict[str, None] = {}
        self.is_redacted = False

    def __str__(self) -> str:
        """One line of ASCII, for a person, a header or a model."""
        kinds = ", ".join(self.kinds)
        if self.is_redacted:
            return f"what looked like a secret ({kinds}) was replaced before it was stored"
        return (
            f"this looks like a secret ({kinds}) and is stored; "
            "'memoranda redact' lists such memories and mends them"
        )


_listener: Final[ContextVar[Noticed | None]] = ContextVar("memoranda_noticed", default=None)


@contextmanager
def noticing() -> Iterator[Noticed]:
    """Hear of what looks like a secret in whatever is written inside, in this thread."""
    heard = Noticed()
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)


def notice(where: str, kinds: Sequence[str], *, is_redacted: bool) -> None:
    """Tell whoever listens that something looks like a secret."""
    heard = _listener.get()
    if heard is None:
        done = "replaced" if is_redacted else "stored"
        _log.warning("%s: looks like a secret (%s); %s", where, ", ".join(kinds), done)
        return
    heard.kinds.update(dict.fromkeys(kinds))
    heard.is_redacted = is_redacted
