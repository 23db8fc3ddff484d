"""Who may write, and when: pieces of work for the one writer, and turns at a store in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.database import Connection
from memoranda.storage.sqlite.file import BUSY_SECONDS

# Whoever is to do work and tells others of it.
Observer = Callable[[Callable[[Connection], Any], Any], Any]


class Piece:
    """One piece of work for the writer thread, and the one thread that may wait for it.

    Bare locks instead of a Future: this is on the path of every write, and a Future costs as much as its SQL. Whoever
    takes `_turn` first, the writer that begins it or the waiter that gives it up, decides whether it is done.
    """

    __slots__ = (
        *("_failure", "_is_begun", "_performed", "_result", "_settled", "_turn", "_work"),
        *("is_waited_for", "since", "tenant"),
    )

    def __init__(
        self,
        work: Callable[[Connection], Any],
        tenant: str | None = None,
        *,
        is_waited_for: bool = True,
        performed: threading.Event | None = None,
    ) -> None:
        """`performed` is set when only the commit is left, or nothing more will come of it."""
        self._work = work
        self._performed = performed
        self.tenant = tenant
        self.is_waited_for = is_waited_for
        # When it began to wait; from its turn on, when that was.
        self.since = time.perf_counter()
        self._result: Any = None
        self._failure: BaseException | None = None
        self._is_begun = False
        self._turn = threading.Lock()
        self._settled = threading.Lock()
        self._settled.acquire()

    def perform(self, connection: Connection, observer: Observer | None = None) -> Any:
        """Do it, if somebody still waits for it; from then on it cannot be given up. It may be done again."""
        if not self._is_begun:
            self._is_begun = self._turn.acquire(blocking=False)
            if not self._is_begun:
                return None
        result = self._work(connection) if observer is None else observer(self._work, connection)
        if self._performed is not None:
            self._performed.set()
        return result

    def settle(self, result: Any, failure: BaseException | None) -> None:
        self._result, self._failure = result, failure
        self._settled.release()
        if self._performed is not None:
            self._performed.set()

    def wait(self, seconds: float) -> Any:
        """What came of it. Raises StoreUnavailable if its turn does not come, and then it never will."""
        if not self._settled.acquire(timeout=seconds):
            if self._turn.acquire(blocking=False):
                raise StoreUnavailable(
                    f"too much is written at once: no turn within {seconds:g} s; nothing was written"
                )
            if not self._settled.acquire(timeout=seconds):
                raise StoreUnavailable(
                    f"the disk did not answer within {seconds:g} s; it may be written all the same"
                )
        if self._failure is not None:
            raise self._failure
        return self._result


Outcome = tuple[Piece, Any, BaseException | None]


class PieceFailedError(Exception):
    """A piece of work raised; which one matters only to the second, careful run."""


class Turns:
    """Who may use a store in memory, which has no write-ahead log: any number of readers, or the writer.

    SQLite lets a writer begin beside readers and then refuses new ones until it has ended, which it cannot before the
    old ones do; a read inside a read would wait for itself. So the writer begins when nobody reads.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._readers = 0
        self._is_writing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._turn:
            self._wait(lambda: not self._is_writing)
            self._readers += 1
        try:
            yield
        finally:
            with self._turn:
                self._readers -= 1
                self._turn.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._turn:
            self._wait(lambda: not self._readers)
            self._is_writing = True
        try:
            yield
        finally:
            with self._turn:
                self._is_writing = False
                self._turn.notify_all()

    def _wait(self, may: Callable[[], bool]) -> None:
        if not self._turn.wait_for(may, BUSY_SECONDS):
            raise StoreUnavailable(f"the store in memory was in use for {BUSY_SECONDS:.0f} s")
