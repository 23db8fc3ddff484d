"""Work that was handed in, for whoever makes ready what comes next while it is on its way to the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Begun(Generic[T]):
    """One piece of such work.

    Whoever goes on waits until it is performed: two who both think take turns every few milliseconds, and whoever
    writes row by row has to ask for one after each. A commit is one call that waits for the disk.
    """

    def __init__(
        self, wait: Callable[[float], T], performed: threading.Event, seconds: float
    ) -> None:
        self._wait, self._performed, self._seconds = wait, performed, seconds

    def wait_until_performed(self) -> None:
        """Wait until only its commit is left, or it is known that nothing comes of it."""
        self._performed.wait(self._seconds)

    def result(self) -> T:
        """Wait until it is durable. Raises what it raised, and StoreUnavailable."""
        return self._wait(self._seconds)
