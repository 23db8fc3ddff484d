"""The threads that run the synchronous core for the event loop of the server, shared fairly between callers.

Contract: a job runs at most once; a caller that gives up (client gone, or no thread in time) gets an error, and if the
job had not begun, it never runs. `_Claim` is how thread and loop agree: the one that pops its only item decides.
Context variables are copied, so that tracing and notices work in the thread.

Each caller has a queue of its own; the threads take from the queues in turn, so that a request waits for one of each
other caller, not for all of them. A caller also has at most `FAIR_SHARE` of the jobs that are handed to threads at
once. So another caller finds a thread free, and does not wait until one of the many has ended. `CALLER_KEY` says whose
request runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple

from memoranda.errors import StoreUnavailable
from memoranda.measures import IN_PROGRESS

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

# A list with one item. The thread that starts the job and the loop that gives up both try to pop it; one succeeds.
_Claim = list[None]
_Job = tuple[
    asyncio.AbstractEventLoop,
    asyncio.Future[Any],
    _Claim,
    Callable[..., object],
    tuple[object, ...],
    Context,
    bytes,
]

# Seconds that a request waits for a thread; each thread is busy no longer than the store lets it wait.
TURN_SECONDS = 30.0
# Seconds that `close` waits for jobs that run.
CLOSE_SECONDS = 10.0
# The part of the jobs handed to threads that one caller may have.
FAIR_SHARE: Final = 0.75

# Identifies the caller of the request that runs: a digest of its credential. Empty outside of requests.
CALLER_KEY: ContextVar[bytes] = ContextVar("caller_key", default=b"")


class Threads:
    """A few threads for calls that may wait for the store, started as needed.

    Every request pays for the switch to a thread. An executor's futures, which any thread may wait for, would double
    that cost. Jobs are handed to threads only as fast as the event loop takes results, which would fill the memory.
    """

    def __init__(self, count: int, name: str, *, turn_seconds: float = TURN_SECONDS) -> None:
        self._count, self._name, self._turn_seconds = count, name, turn_seconds
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Jobs handed over and not settled, in all and by caller. Only the event loop changes these.
        self._unsettled = 0
        self._unsettled_by: Counter[bytes] = Counter()
        # The jobs of each caller that wait to be handed over. The first caller is the next one.
        self._waiting: dict[bytes, deque[_Job]] = {}
        self._caller_limit = math.ceil(FAIR_SHARE * count)

    async def run(self, work: Callable[[*Arguments], T], *args: *Arguments) -> T:
        """Call a function in a thread and return its result.

        Raises StoreUnavailable after TURN_SECONDS without a free thread, and whatever the function raises.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        claim: _Claim = [None]
        timeout: asyncio.TimerHandle | None = None
        IN_PROGRESS.add(self._name)
        try:
            key = CALLER_KEY.get()
            job = (loop, future, claim, work, args, copy_context(), key)
            self._waiting.setdefault(key, deque()).append(job)
            self._dispatch()
            if self._unsettled > self._count or self._waiting:
                # Earlier requests are queued.
                timeout = loop.call_later(self._turn_seconds, self._give_up, future, claim)
            return await future
        finally:
            IN_PROGRESS.add(self._name, amount=-1)
            if timeout is not None:
                timeout.cancel()

    def _give_up(self, future: asyncio.Future[Any], claim: _Claim) -> None:
        """Refuse a job that no thread started in time."""
        if not future.done() and _take_claim(claim):
            future.set_exception(
                StoreUnavailable(
                    f"the server is overloaded: no thread was free within {self._turn_seconds:g} s; nothing was done"
                )
            )

    def _dispatch(self) -> None:
        """Give waiting jobs to the threads, at most two per thread."""
        while self._unsettled < 2 * self._count and (job := self._take_next()) is not None:
            self._unsettled += 1
            self._unsettled_by[job[-1]] += 1
            if len(self._threads) < min(self._count, self._unsettled):
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=self._run_jobs, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._jobs.put(job)

    def _take_next(self) -> _Job | None:
        """Remove and return the first job of the next caller that has not all of its share; None if there is none."""
        for key, line in self._waiting.items():
            if self._unsettled_by[key] < self._caller_limit:
                del self._waiting[key]
                job = line.popleft()
                if line:
                    # Behind all other callers.
                    self._waiting[key] = line
                return job
        return None

    def cancel_waiting(self) -> None:
        """Cancel jobs that no thread has started."""
        for line in self._waiting.values():
            for waiting in line:
                waiting[1].cancel()
        self._waiting.clear()
        with contextlib.suppress(queue.Empty):
            while (job := self._jobs.get_nowait()) is not None:
                job[1].cancel()

    def close(self) -> None:
        """Cancel jobs that no thread has started, and end the threads when their jobs are done.

        Running jobs get CLOSE_SECONDS to end.
        """
        self.cancel_waiting()
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._threads.clear()

    def _run_jobs(self) -> None:
        """Run jobs until there is a None in the queue. This is the body of a thread."""
        while (job := self._jobs.get()) is not None:
            loop, future, claim, work, args, context, key = job
            result: object = None
            failure: BaseException | None = None
            try:
                # A job without its claim was given up, and nobody waits for it.
                result = context.run(work, *args) if _take_claim(claim) else None
            except StopIteration as error:
                # A future refuses StopIteration, and its caller would wait forever.
                failure = RuntimeError("an iterator ended in the middle of a request")
                failure.__cause__ = error
            except BaseException as error:  # noqa: BLE001 -- the caller must get any exception
                failure = error
            # If the loop is closed, nobody waits for the result.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._settle, key, future, result, failure)
            # Nothing of this job is kept alive until the next one arrives.
            del job, loop, future, claim, work, args, context, result, failure

    def _settle(
        self,
        key: bytes,
        future: asyncio.Future[object],
        result: object,
        failure: BaseException | None,
    ) -> None:
        """Set the result of a job, on the event loop."""
        self._unsettled -= 1
        self._unsettled_by[key] -= 1
        if not self._unsettled_by[key]:
            del self._unsettled_by[key]
        self._dispatch()
        if future.done():
            return
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)


def _take_claim(claim: _Claim) -> bool:
    """Take the claim on a job. Return False if it was taken before."""
    try:
        claim.pop()
    except IndexError:
        return False
    return True
