"""Waiting for something that another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# Reached only by a hang: a machine with ten times as much to do as it can must not make a test fail.
HANG_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.005


def until(condition: Callable[[], object], what: str = "it did not come about") -> None:
    """Wait for a condition that has no event to wait for."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {HANG_SECONDS:.0f} s in vain: {what}"
        time.sleep(_POLL_SECONDS)
