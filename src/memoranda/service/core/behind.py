"""Work whose last part is waited for later, so that whoever began it makes ready what comes next meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")


class Behind(Generic[T]):
    """Work in a thread of its own, of which only what needs no turn of ours is left.

    Not sooner: two who both think take turns every few milliseconds, and whoever writes row by row has to ask for one
    after each. A commit is one call that waits for the disk.
    """

    def __init__(self, work: Callable[[Callable[[], None]], T]) -> None:
        """Begin it; it calls what it is given when only that is left."""
        self._performed = threading.Event()
        self._result: list[T] = []
        self._failure: BaseException | None = None
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run, work), name="memoranda-behind", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Callable[[], None]], T]) -> None:
        try:
            self._result.append(work(self._performed.set))
        except BaseException as error:  # noqa: BLE001 -- raised where it is waited for
            self._failure = error
        finally:
            self._performed.set()

    def wait_until_performed(self) -> None:
        """Wait until only that is left, or it is over."""
        self._performed.wait()

    def result(self) -> T:
        """Wait for it; raises what it raised."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._result[0]
