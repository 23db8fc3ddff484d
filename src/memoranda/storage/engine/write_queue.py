"""Work that waits for a writer, and what becomes of it: shared by all databases.

Whoever writes waits; what nobody waits for (audit of reads) is held back for a moment so that it shares a commit. If
that cannot be written, because the disk is full or the database is away, it is kept and tried again; meanwhile whoever
reads is told, or refused.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final, TypeVar

from memoranda.errors import StoreUnavailable
from memoranda.measures import WRITE_SECONDS, WRITER_WAIT, WRITES_WAITING
from memoranda.storage.engine.database import Connection, PendingWrite
from memoranda.storage.sqlite.file import BUSY_SECONDS

T = TypeVar("T")

_log = logging.getLogger(__name__)

# More pieces in one commit do not get faster, they only make the first of them wait.
GROUP_LIMIT: Final = 256
# How long work that nobody waits for may be held back, and how much of it.
LATER_SECONDS: Final = 0.05
LATER_LIMIT: Final = 20_000
# So long it is waited for room.
ROOM_SECONDS: Final = 30.0
# What cannot be put on record is tried again so soon; and so much of it may wait.
AGAIN_SECONDS: Final = 0.5
BEHIND_LIMIT: Final = 1_000


class WriteQueue:
    """Pieces of work for the one writer: all that wait go into one transaction."""

    def __init__(self, *, refuses_unrecorded: bool = False) -> None:
        """`refuses_unrecorded`: refuse what cannot be put on record at once, instead of recording it later."""
        self._refuses_unrecorded = refuses_unrecorded
        self._process = os.getpid()
        lock = threading.Lock()
        self._ready, self._room = threading.Condition(lock), threading.Condition(lock)
        self._now: deque[Piece] = deque()
        self._later: deque[Piece] = deque()
        self._later_since = 0.0
        self.is_closed = False
        # Why what was to be put on record is not, as long as it is not.
        self.behind: str | None = None

    def write(
        self, work: Callable[[Connection], T], tenant: str | None, patience_seconds: float
    ) -> T:
        """Wait for a turn and for what came of it."""
        piece = Piece(work, tenant)
        self._hand_in(piece)
        result: T = piece.wait(patience_seconds)
        return result

    def begin(
        self, work: Callable[[Connection], T], tenant: str | None, patience_seconds: float
    ) -> PendingWrite[T]:
        """Hand it in, and wait later."""
        performed = threading.Event()
        piece = Piece(work, tenant, performed=performed)
        self._hand_in(piece)
        return PendingWrite(piece.wait, performed, patience_seconds)

    def _hand_in(self, piece: Piece) -> None:
        self._refuse_in_fork()
        with self._ready:
            self.refuse_when_closed()
            self._now.append(piece)
            self._ready.notify()
        WRITES_WAITING.add()

    def write_later(self, work: Callable[[Connection], None], tenant: str) -> None:
        self._refuse_in_fork()
        with self._ready:
            self.refuse_when_closed()
            self.check_recording()
            if not self._room.wait_for(lambda: len(self._later) < LATER_LIMIT, ROOM_SECONDS):
                raise StoreUnavailable(f"no room to put this on record within {ROOM_SECONDS:.0f} s")
            if not self._later:
                self._later_since = time.monotonic()
                self._ready.notify()
            self._later.append(Piece(work, tenant, is_waited_for=False))
        WRITES_WAITING.add()

    def flush(self, patience_seconds: float) -> None:
        """Wait until everything that was handed to `write_later` is done."""
        self._refuse_in_fork()
        last = Piece(lambda _: None)
        with self._ready:
            self.refuse_when_closed()
            # Behind everything that waits there, which is due at once: one batch may not hold it all.
            self._later.append(last)
            self._later_since = 0.0
            self._ready.notify()
        WRITES_WAITING.add()
        last.wait(patience_seconds)

    def check_recording(self) -> None:
        """Raise StoreUnavailable if what is done cannot be put on record, and so is refused."""
        if self.behind is not None and (
            self._refuses_unrecorded or len(self._later) >= BEHIND_LIMIT
        ):
            raise StoreUnavailable(
                f"{self.behind}: this cannot be put on record, and so is not answered"
            )

    def refuse_when_closed(self) -> None:
        """Raise StoreUnavailable if the store is closed, or open in the process that this one was forked from."""
        self._refuse_in_fork()
        if self.is_closed:
            raise StoreUnavailable("the store is closed")

    def _refuse_in_fork(self) -> None:
        """Raise StoreUnavailable in a forked child: it has neither our threads nor SQLite's locks.

        Checked before any lock is taken, which a thread of the parent may have held when it was forked.
        """
        if os.getpid() != self._process:
            raise StoreUnavailable(
                "this store was opened before the process was forked: open it again in this process"
            )

    def close(self) -> bool:
        """Take nothing more, finish what waits, and return True if the store was open.

        A forked child closes nothing: the connections are its parent's.
        """
        if os.getpid() != self._process:
            return False
        with self._ready:
            was_open, self.is_closed = not self.is_closed, True
            self._ready.notify_all()
        return was_open

    def take(self, idle_seconds: float | None = None) -> list[Piece] | None:
        """Wait for work: urgent work at once, other work when it is due or something urgent goes anyway.

        None when there is nothing more to do, and no work when there was none for so long.
        """
        with self._ready:
            while not (batch := self._chosen()):
                if self.is_closed and not self._now and not self._later:
                    return None
                due_in = (
                    self._later_since + LATER_SECONDS - time.monotonic() if self._later else 0.0
                )
                if not self._ready.wait(due_in if due_in > 0 else idle_seconds) and not self._later:
                    return []
            self._room.notify_all()
        return self._begun(batch)

    def joining(self) -> list[Piece]:
        """What came since then, and can go into the same transaction. Waits for nothing."""
        with self._ready:
            batch = self._chosen()
            self._room.notify_all()
        return self._begun(batch)

    @staticmethod
    def _begun(batch: list[Piece]) -> list[Piece]:
        now = time.perf_counter()
        WRITES_WAITING.add(amount=-len(batch))
        for piece in batch:
            if piece.is_waited_for:
                WRITER_WAIT.observe(now - piece.since)
            piece.since = now
        return batch

    def _is_later_due(self) -> bool:
        return bool(self._later) and (
            self.is_closed or self._later_since + LATER_SECONDS <= time.monotonic()
        )

    def _chosen(self) -> list[Piece]:
        """What goes into the next transaction."""
        if not self._now and not self._is_later_due():
            return []
        batch = [self._later.popleft() for _ in range(min(len(self._later), GROUP_LIMIT))]
        return batch + [self._now.popleft() for _ in range(min(len(self._now), GROUP_LIMIT))]

    def settle(self, outcomes: list[Outcome]) -> None:
        """Tell those who wait, after the commit; keep what nobody waits for if it could not be written."""
        WRITE_SECONDS.observe(time.perf_counter() - outcomes[0][0].since)
        self._keep_unrecorded(outcomes)
        for piece, result, failure in outcomes:
            if piece.is_waited_for:
                piece.settle(result, failure)

    def _keep_unrecorded(self, outcomes: list[Outcome]) -> None:
        records = [(piece, failure) for piece, _, failure in outcomes if not piece.is_waited_for]
        again: list[Piece] = []
        trouble: StoreUnavailable | None = None
        for piece, failure in records:
            if isinstance(failure, StoreUnavailable) and not self.is_closed:
                again.append(piece)
                trouble = trouble or failure
            elif failure is not None:
                _log.error("something could not be put on record: %s", failure)
        with self._ready:
            if trouble is not None:
                if self.behind is None:
                    _log.error("%s: nothing is put on record until that is mended", trouble)
                # Clients are told it.
                self.behind = trouble.message
                self._later.extendleft(reversed(again))
                WRITES_WAITING.add(amount=len(again))
                self._later_since = time.monotonic() + AGAIN_SECONDS - LATER_SECONDS
                self._ready.notify()
            elif records and self.behind is not None:
                _log.warning("what waited to be put on record is on record")
                self.behind = None


class TenantQueue(WriteQueue):
    """The same for several writers: a transaction holds the work of one tenant, and no two have the same one's.

    So no writer of a process waits for another's lock, and none holds one while it waits for a second.
    """

    def __init__(self, *, refuses_unrecorded: bool = False) -> None:
        super().__init__(refuses_unrecorded=refuses_unrecorded)
        self._busy: set[str | None] = set()
        self._idle = 0

    @property
    def has_idle_writer(self) -> bool:
        """Whether one of the writers would begin at once."""
        return self._idle > len(self._now)

    def take(self, idle_seconds: float | None = None) -> list[Piece] | None:
        self._idle += 1
        try:
            return super().take(idle_seconds)
        finally:
            self._idle -= 1

    def _chosen(self) -> list[Piece]:
        first = next((piece for piece in self._now if piece.tenant not in self._busy), None)
        if first is None and self._is_later_due():
            first = next((piece for piece in self._later if self._may_begin(piece)), None)
        if first is None:
            return []
        self._busy.add(first.tenant)
        # What is of no tenant may take locks of several, one piece after the other: each has a transaction of its own.
        waiting = (
            piece
            for line in (self._later, self._now)
            for piece in line
            if piece.tenant == first.tenant
        )
        found = [first] if first.tenant is None else list(islice(waiting, GROUP_LIMIT))
        for line in (self._later, self._now):
            for piece in found:
                with suppress(ValueError):
                    line.remove(piece)
        return found

    def _may_begin(self, piece: Piece) -> bool:
        """The end of a flush is done when all before it is."""
        is_last = piece.tenant is None
        return (
            not (self._busy or piece is not self._later[0])
            if is_last
            else piece.tenant not in self._busy
        )

    def settle(self, outcomes: list[Outcome]) -> None:
        super().settle(outcomes)
        with self._ready:
            self._busy -= {piece.tenant for piece, _, _ in outcomes}
            self._ready.notify()


def failed(batch: list[Piece], error: BaseException) -> list[Outcome]:
    """All of a batch came to nothing."""
    nothing: Any = None
    return [(piece, nothing, error) for piece in batch]


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
