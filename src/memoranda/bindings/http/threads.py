"""The one hop from the server's event loop to the synchronous core."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_Job = tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]


class Threads:
    """A few threads that run what may wait for the store, started as they are needed.

    Every request pays for this hop, and an executor's futures, which any thread may wait for, would double the price.
    No more work is done ahead than the event loop takes: answers that wait for it would fill the memory.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Handed over and not yet settled, and what waits to be handed over; only the event loop changes them.
        self._unsettled = 0
        self._waiting: deque[_Job] = deque()

    async def run(self, work: Callable[[*Arguments], T], *args: *Arguments) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((loop, future, work, args))
        self._hand_over()
        return await future

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
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, work, args = job
            result: object = None
            failure: BaseException | None = None
            try:
                result = work(*args)
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
            del job, loop, future, work, args, result, failure

    def _settle(self, future: asyncio.Future[Any], result: object, failure: BaseException | None) -> None:
        self._unsettled -= 1
        self._hand_over()
        if future.cancelled():
            return
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)
