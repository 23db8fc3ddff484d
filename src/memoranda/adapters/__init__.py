"""Adapters for the memory interfaces of agent frameworks, one module each, imported only by users of the framework.

Each adapter takes an open `Memoranda`, embedded or on a server. It stores the data of the framework as ordinary
memories, so that all other standards, and agents over MCP, find them by their text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Wrap the imports of a framework: an ImportError gets a message with the install command."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{error.msg}; pip install 'memoranda[{extra}]'", name=error.name
        ) from error
