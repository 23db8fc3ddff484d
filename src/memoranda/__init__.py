"""Memoranda: the memory of AI agents, kept by the people it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from memoranda.app import Memoranda

__all__ = ["Memoranda", "__version__"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for, so that `memoranda --version` need not open a database library.
    if name == "Memoranda":
        from memoranda.app import Memoranda

        return Memoranda
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
