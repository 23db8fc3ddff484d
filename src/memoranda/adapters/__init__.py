"""Memoranda where agent frameworks ask for a memory: one file each, loaded only by whoever uses that framework.

Each takes an open `Memoranda`, of this process or on a server, and keeps what the framework stores as memories of
OAMS, so that every other standard, and every agent over MCP, finds it by what it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Import of a framework what an adapter needs. Raises ImportError that says how to install it."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{error.msg}; pip install 'memoranda[{extra}]'", name=error.name
        ) from error
