"""The one hop from the server's event loop to the synchronous core."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple

from memoranda.errors import StoreUnavailable
from memoranda.measures import IN_PROGRESS

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

# Its turn: whoever takes the one thing out of the list first, the thread that begins or the loop that gives up, has it.
_Turn = list[None]
_Job = tuple[
    asyncio.AbstractEventLoop,
    asyncio.Future[Any],
    _Turn,
    Callable[..., Any],
    tuple[Any, ...],
    Context,
]

# How long a request waits for a thread. All of them are at work, each for no longer than the store lets them wait.
TURN_SECONDS = 30.0
# How long an end waits for what was begun.
CLOSE_SECONDS = 10.0


class Threads:
    """A few threads that run what may wait for the store, started as they are needed.

    Every request pays for this hop, and an executor's futures, which any thread may wait for, would double the price.
    No more work is done ahead than the event loop takes: answers that wait for it would fill the memory.
    """

    def __init__(self, count: int, name: str, *, turn_seconds: float = TURN_SECONDS) -> None:
        self._count, self._name, self._turn_seconds = count, name, turn_seconds
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Handed over and not yet settled, and what waits to be handed over; only the event loop changes them.
        self._unsettled = 0
        self._waiting: deque[_Job] = deque()

    async def run(self, work: Callable[[*Arguments], T], *args: *Arguments) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        turn: _Turn = [None]
        late: asyncio.TimerHandle | None = None
        IN_PROGRESS.add(self._name)
        try:
            self._waiting.append((loop, future, turn, work, args, copy_context()))
            self._hand_over()
            if self._unsettled > self._count or self._waiting:
                # Others are before it.
                late = loop.call_later(self._turn_seconds, self._give_up, future, turn)
            return await future
        finally:
            IN_PROGRESS.add(self._name, amount=-1)
            if late is not None:
                late.cancel()

    def _give_up(self, future: asyncio.Future[Any], turn: _Turn) -> None:
        """Refuse what nobody has begun in time."""
        if not future.done() and _takes(turn):
            future.set_exception(
                StoreUnavailable(
                    f"too much is asked at once: no turn within {self._turn_seconds:g} s; nothing was done"
                )
            )

    def _hand_over(self) -> None:
        while self._waiting and self._unsettled < 2 * self._count:
            self._unsettled += 1
            if len(self._threads) < min(self._count, self._unsettled):
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._jobs.put(self._waiting.popleft())

    def cancel_waiting(self) -> None:
        """Cancel what nobody has begun."""
        while self._waiting:
            self._waiting.popleft()[1].cancel()
        with contextlib.suppress(queue.Empty):
            while (job := self._jobs.get_nowait()) is not None:
                job[1].cancel()

    def close(self) -> None:
        """Cancel what nobody has begun, and end the threads when they have done what they are at."""
        self.cancel_waiting()
        for _ in self._threads:
            self._jobs.put(None)
        until = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._threads.clear()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, turn, work, args, context = job
            result: object = None
            failure: BaseException | None = None
            try:
                # Nobody waits for what was given up.
                result = context.run(work, *args) if _takes(turn) else None
            except StopIteration as error:
                # No future takes it, and whoever waits must not wait for ever.
                failure = RuntimeError("an iterator ended in the middle of a request")
                failure.__cause__ = error
            except BaseException as error:  # noqa: BLE001 -- whoever waits must learn of it, whatever it is
                failure = error
            # A loop that was closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._settle, future, result, failure)
            # Until the next job comes, nothing of this one is held.
            del job, loop, future, turn, work, args, context, result, failure

    def _settle(
        self, future: asyncio.Future[Any], result: object, failure: BaseException | None
    ) -> None:
        self._unsettled -= 1
        self._hand_over()
        if future.done():
            return
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)


def _takes(turn: _Turn) -> bool:
    try:
        turn.pop()
    except IndexError:
        return False
    return True
