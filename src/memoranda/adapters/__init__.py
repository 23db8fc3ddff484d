"""Adapters for the memory interfaces of agent frameworks, one module each, imported only by users of the framework.

Each adapter takes an open `Memoranda`, embedded or on a server. It stores the data of the framework as ordinary
memories, so that all other standards, and agents over MCP, find them by their text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memoranda.standards.ump.requests import MAX_QUERY_BYTES


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Wrap the imports of a framework: an ImportError gets a message with the install command."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{error.msg}; pip install 'memoranda[{extra}]'", name=error.name
        ) from error


def limit_question(text: str) -> str:
    """Return the end of a text, cut to the size limit of a query."""
    data = text.strip().encode("utf-8", "replace")
    return data[-MAX_QUERY_BYTES:].decode("utf-8", "ignore")
