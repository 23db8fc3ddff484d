"""The queue of work for the writer threads of a database: shared by all databases.

Theory of operation. A `WorkItem` is a function that runs in a transaction. A thread that writes hands one in and waits
for it. Work that nobody waits for (audit of reads) is held back for a moment, so that it shares a commit. A writer
thread takes a batch of items, runs them in one transaction, commits, and calls `settle`, which wakes the waiting
threads. If work that nobody waits for cannot be written, because the disk is full or the database is away, it goes back
into the queue; until it succeeds, `behind` says why, and reads are refused if the settings demand it or too much waits.

SQLite has one writer and a `WriteQueue`; PostgreSQL has several and a `TenantQueue`.

Changing this file: work that somebody waits for must never wait behind work that nobody waits for, hence two lines
(`_now`, `_background_items`). A thread must be woken exactly once, after the commit or the failure of its item. All
state is guarded by one lock, on which both conditions are based; `_is_begun` and `_turn` of an item have a protocol of
their own, see `WorkItem`. Measurements (`WRITES_WAITING`, `WRITER_WAIT`, `WRITE_SECONDS`) are what operators watch, so
keep them exact.
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
from typing import Any, Final, TypeVar, cast

from memoranda.errors import StoreUnavailable, describe_error
from memoranda.measures import WRITE_SECONDS, WRITER_WAIT, WRITES_WAITING
from memoranda.storage.engine.database import Connection, PendingWrite
from memoranda.storage.sqlite.file import BUSY_SECONDS

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Items in one transaction: more do not get faster, and make the first of them wait.
GROUP_LIMIT: Final = 256
# Seconds that work nobody waits for is held back to share a commit, and the number of such items that may wait.
LATER_SECONDS: Final = 0.05
LATER_LIMIT: Final = 20_000
# Seconds that `write_later` waits for room in the queue before it raises StoreUnavailable.
ROOM_SECONDS: Final = 30.0
# Seconds until records that could not be written are tried again, and the number of records that may wait for it
# before reads are refused.
AGAIN_SECONDS: Final = 0.5
BEHIND_LIMIT: Final = 1_000


class WriteQueue:
    """Work items for one writer: all that wait go into one transaction."""

    def __init__(self, *, refuses_unrecorded: bool = False) -> None:
        """Create the queue. `refuses_unrecorded`: refuse reads that cannot be recorded at once, instead of later."""
        self._refuses_unrecorded = refuses_unrecorded
        self._process = os.getpid()
        lock = threading.Lock()
        self._item_arrived, self._room = threading.Condition(lock), threading.Condition(lock)
        self._now: deque[WorkItem] = deque()
        self._background_items: deque[WorkItem] = deque()
        self._later_since = 0.0
        self.is_closed = False
        # The reason why audit records cannot be written now; None if they can.
        self.behind: str | None = None

    def write(
        self, work: Callable[[Connection], T], tenant: str | None, patience_seconds: float
    ) -> T:
        """Run work and wait until it is durable; return its result. Raises what it raised, and StoreUnavailable."""
        item = WorkItem(work, tenant)
        self._hand_in(item)
        return cast("T", item.wait(patience_seconds))

    def start_write(
        self, work: Callable[[Connection], T], tenant: str | None, patience_seconds: float
    ) -> PendingWrite[T]:
        """Begin to run work; return a handle to wait with."""
        performed = threading.Event()
        item = WorkItem(work, tenant, performed=performed)
        self._hand_in(item)
        return PendingWrite(cast("Callable[[float], T]", item.wait), performed, patience_seconds)

    def _hand_in(self, item: WorkItem) -> None:
        self._refuse_in_fork()
        with self._item_arrived:
            self.refuse_when_closed()
            self._now.append(item)
            self._item_arrived.notify()
        WRITES_WAITING.add()

    def write_later(self, work: Callable[[Connection], None], tenant: str) -> None:
        """Add work that nobody waits for. Raises StoreUnavailable if records cannot be written or do not fit."""
        self._refuse_in_fork()
        with self._item_arrived:
            self.refuse_when_closed()
            self.check_recording()
            if not self._room.wait_for(
                lambda: len(self._background_items) < LATER_LIMIT, ROOM_SECONDS
            ):
                raise StoreUnavailable(
                    f"the queue of writes was full for {ROOM_SECONDS:.0f} s; try again"
                )
            if not self._background_items:
                self._later_since = time.monotonic()
                self._item_arrived.notify()
            self._background_items.append(WorkItem(work, tenant, is_waited_for=False))
        WRITES_WAITING.add()

    def flush(self, patience_seconds: float) -> None:
        """Wait until everything that was handed to `write_later` is done."""
        self._refuse_in_fork()
        last = WorkItem(lambda _: None)
        with self._item_arrived:
            self.refuse_when_closed()
            # The last of the queue, which is due at once: it may take several batches.
            self._background_items.append(last)
            self._later_since = 0.0
            self._item_arrived.notify()
        WRITES_WAITING.add()
        last.wait(patience_seconds)

    def check_recording(self) -> None:
        """Raise StoreUnavailable if reads must be refused because they cannot be recorded in the audit log."""
        if self.behind is not None and (
            self._refuses_unrecorded or len(self._background_items) >= BEHIND_LIMIT
        ):
            raise StoreUnavailable(
                f"{self.behind}: this read cannot be recorded in the audit log, so it is refused"
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
        with self._item_arrived:
            was_open, self.is_closed = not self.is_closed, True
            self._item_arrived.notify_all()
        return was_open

    def take(self, idle_seconds: float | None = None) -> list[WorkItem] | None:
        """Wait for a batch: waited-for items at once, others when they are due or with the first waited-for item.

        Returns None when the queue is closed and empty, and an empty list after `idle_seconds` without work.

        The writer thread of SQLite also uses the idle time to make chain ends durable; that is why it can ask for an
        empty list.
        """
        with self._item_arrived:
            while not (batch := self._take_now()):
                if self.is_closed and not self._now and not self._background_items:
                    return None
                due_in = (
                    self._later_since + LATER_SECONDS - time.monotonic()
                    if self._background_items
                    else 0.0
                )
                if (
                    not self._item_arrived.wait(due_in if due_in > 0 else idle_seconds)
                    and not self._background_items
                ):
                    return []
            self._room.notify_all()
        return self._mark_begun(batch)

    def take_joining(self) -> list[WorkItem]:
        """Return the items that came meanwhile and can join the transaction, without waiting."""
        with self._item_arrived:
            batch = self._take_now()
            self._room.notify_all()
        return self._mark_begun(batch)

    @staticmethod
    def _mark_begun(batch: list[WorkItem]) -> list[WorkItem]:
        """Measure how long the items waited, and return them."""
        now = time.perf_counter()
        WRITES_WAITING.add(amount=-len(batch))
        for item in batch:
            if item.is_waited_for:
                WRITER_WAIT.observe(now - item.since)
            item.since = now
        return batch

    def _is_later_due(self) -> bool:
        return bool(self._background_items) and (
            self.is_closed or self._later_since + LATER_SECONDS <= time.monotonic()
        )

    def _take_now(self) -> list[WorkItem]:
        """Remove and return the items for the next transaction."""
        if not self._now and not self._is_later_due():
            return []
        batch = [
            self._background_items.popleft()
            for _ in range(min(len(self._background_items), GROUP_LIMIT))
        ]
        return batch + [self._now.popleft() for _ in range(min(len(self._now), GROUP_LIMIT))]

    def settle(self, outcomes: list[Outcome]) -> None:
        """Wake the waiting threads after the commit; put records that could not be written back into the queue.

        `outcomes` has one entry per item of the batch: (item, result, failure). Call it exactly once per batch, after
        the commit.
        """
        WRITE_SECONDS.observe(time.perf_counter() - outcomes[0][0].since)
        self._requeue_unrecorded(outcomes)
        for item, result, failure in outcomes:
            if item.is_waited_for:
                item.settle(result, failure)

    def _requeue_unrecorded(self, outcomes: list[Outcome]) -> None:
        records = [(item, failure) for item, _, failure in outcomes if not item.is_waited_for]
        failed_items: list[WorkItem] = []
        trouble: StoreUnavailable | None = None
        for item, failure in records:
            if isinstance(failure, StoreUnavailable) and not self.is_closed:
                failed_items.append(item)
                trouble = trouble or failure
            elif failure is not None:
                _log.error("something could not be put on record: %s", describe_error(failure))
        with self._item_arrived:
            if trouble is not None:
                if self.behind is None:
                    _log.error("%s: nothing is put on record until that is mended", trouble)
                # Clients see this message.
                self.behind = trouble.message
                self._background_items.extendleft(reversed(failed_items))
                WRITES_WAITING.add(amount=len(failed_items))
                self._later_since = time.monotonic() + AGAIN_SECONDS - LATER_SECONDS
                self._item_arrived.notify()
            elif records and self.behind is not None:
                _log.warning("what waited to be put on record is on record")
                self.behind = None


class TenantQueue(WriteQueue):
    """A queue for several writers: a transaction has work of one tenant only, and no two transactions of the same
    tenant.

    So no writer of this process waits for a lock that another one holds, and none holds a lock while it waits for a
    second.
    """

    def __init__(self, *, refuses_unrecorded: bool = False) -> None:
        super().__init__(refuses_unrecorded=refuses_unrecorded)
        self._busy: set[str | None] = set()
        self._idle = 0

    @property
    def has_idle_writer(self) -> bool:
        """True if one of the writers would begin at once."""
        return self._idle > len(self._now)

    def take(self, idle_seconds: float | None = None) -> list[WorkItem] | None:
        self._idle += 1
        try:
            return super().take(idle_seconds)
        finally:
            self._idle -= 1

    def _take_now(self) -> list[WorkItem]:
        """Take the items of the first tenant that no writer works for; `settle` frees the tenant again."""
        first = next((item for item in self._now if item.tenant not in self._busy), None)
        if first is None and self._is_later_due():
            first = next((item for item in self._background_items if self._may_begin(item)), None)
        if first is None:
            return []
        self._busy.add(first.tenant)
        # Work of no tenant may lock several tenants, one after the other, so each has a transaction of its own.
        lines = self._background_items, self._now
        waiting = (item for line in lines for item in line if item.tenant == first.tenant)
        batch = [first] if first.tenant is None else list(islice(waiting, GROUP_LIMIT))
        for line in lines:
            for item in batch:
                with suppress(ValueError):
                    line.remove(item)
        return batch

    def _may_begin(self, item: WorkItem) -> bool:
        """Return True if the tenant of an item is not busy; the end of a flush waits for all items before it."""
        if item.tenant is None:
            return not self._busy and item is self._background_items[0]
        return item.tenant not in self._busy

    def settle(self, outcomes: list[Outcome]) -> None:
        super().settle(outcomes)
        with self._item_arrived:
            self._busy -= {item.tenant for item, _, _ in outcomes}
            self._item_arrived.notify()


def fail_all(batch: list[WorkItem], error: BaseException) -> list[Outcome]:
    """Return the outcomes of a batch that failed with an error."""
    return [(item, None, error) for item in batch]


# Runs a work item in place of the writer, to measure it: called with the work and the connection of a database.
Observer = Callable[[Callable[[Connection], object], Any], object]


class WorkItem:
    """A function to be run in a transaction by a writer thread, and the one thread that may wait for it.

    Bare locks instead of a Future: this is on the path of every write, and a Future costs as much as its SQL. The
    writer that begins the item and the thread that gives it up both try to take `_turn`; the first to get it decides if
    it runs.
    """

    __slots__ = (
        *("_failure", "_is_begun", "_performed", "_result", "_settled", "_turn", "_work"),
        *("is_waited_for", "since", "tenant"),
    )

    def __init__(
        self,
        work: Callable[[Connection], object],
        tenant: str | None = None,
        *,
        is_waited_for: bool = True,
        performed: threading.Event | None = None,
    ) -> None:
        """Wrap `work`. `performed` is set when only the commit is left, or the item has failed."""
        self._work = work
        self._performed = performed
        self.tenant = tenant
        self.is_waited_for = is_waited_for
        # The start of the wait; once a writer has taken the item, the start of its transaction.
        self.since = time.perf_counter()
        self._result: object = None
        self._failure: BaseException | None = None
        self._is_begun = False
        self._turn = threading.Lock()
        self._settled = threading.Lock()
        self._settled.acquire()

    def perform(self, connection: Connection, observer: Observer | None = None) -> object:
        """Run the work, unless its thread has stopped waiting. After this call the thread must wait for the result.

        The work may run more than once.
        """
        if not self._is_begun:
            self._is_begun = self._turn.acquire(blocking=False)
            if not self._is_begun:
                return None
        result = self._work(connection) if observer is None else observer(self._work, connection)
        if self._performed is not None:
            self._performed.set()
        return result

    def settle(self, result: object, failure: BaseException | None) -> None:
        """Store the result or the failure and wake the waiting thread."""
        self._result, self._failure = result, failure
        self._settled.release()
        if self._performed is not None:
            self._performed.set()

    def wait(self, seconds: float) -> object:
        """Wait for the result. Raises StoreUnavailable if no writer takes the item in time; then none ever will.

        Two different timeouts: before a writer took the item, nothing was written and the caller may try again.
        Afterwards the result is unknown, because the commit may still succeed.
        """
        if not self._settled.acquire(timeout=seconds):
            if self._turn.acquire(blocking=False):
                raise StoreUnavailable(
                    f"too many writes at once: the writer was busy for {seconds:g} s; nothing was written"
                )
            if not self._settled.acquire(timeout=seconds):
                raise StoreUnavailable(
                    f"the disk did not answer within {seconds:g} s, so the write may or may not be stored"
                )
        if self._failure is not None:
            raise self._failure
        return self._result


Outcome = tuple[WorkItem, object, BaseException | None]


class WorkItemFailedError(Exception):
    """Raised inside a transaction when a work item has failed. Which one matters only to the second, careful run."""


class MemoryStoreLock:
    """A lock for a store in memory, which has no write-ahead log: any number of readers, or the writer.

    SQLite lets a writer begin while others read, and then refuses new readers until the writer has ended, which it
    cannot before the old readers have. A read inside a read would wait for itself. So the writer begins when nobody
    reads.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._readers = 0
        self._is_writing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock as one of the readers."""
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
        """Hold the lock as the writer."""
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
