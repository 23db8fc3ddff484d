"""Logging for the commands that stay: to standard error, one line each, never a memory's content."""

from __future__ import annotations

import logging


def set_up(level: str) -> None:
    """Log at this level; of libraries only trouble is news, unless someone is debugging."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if level != "debug":
        for library in ("mcp", "uvicorn", "asyncio"):
            logging.getLogger(library).setLevel(logging.WARNING)
