"""Several server processes on one port and one store.

The first process binds the port and watches; the others, its workers, listen, each with a socket of its own on that
port, and the system deals connections out among them. Where there are as many as processors, each has one. A worker
that ends by itself is replaced. A signal to the first process ends all of them in good order, and if the first one is
killed the workers see that its end of a pipe is gone.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from memoranda.errors import InvalidInput, MemorandaError, StoreUnavailable

WORKERS_LIMIT: Final = 64
# How long a worker may take until it answers, and to end what it has begun.
START_SECONDS: Final = 120.0
END_SECONDS: Final = 120.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)

# What a worker does until it is told to stop. It gets its number, which only one has at a time, the pipe that ends with
# the first process, and what to call when it answers requests.
Work = Callable[[int, int, Callable[[], None]], None]


def check_workers(count: int) -> None:
    """Raise InvalidInput unless so many can be had here."""
    if not 1 <= count <= WORKERS_LIMIT:
        raise InvalidInput(f"workers must be from 1 to {WORKERS_LIMIT}")
    if count > 1 and not (hasattr(os, "fork") and hasattr(socket, "SO_REUSEPORT")):
        raise InvalidInput("workers: this system can serve with one process only")


class Workers:
    """The processes; `run` returns when all have ended."""

    def __init__(self, count: int, work: Work, on_ready: Callable[[], None]) -> None:
        self._count, self._work, self._on_ready = count, work, on_ready
        # Their numbers, by their processes.
        self._running: dict[int, int] = {}
        self._is_stopping = False
        self._lifeline = os.pipe()

    def run(self) -> None:
        """Start them, say when all are ready, and keep them running until a signal."""
        with self._signals():
            try:
                while len(self._running) < self._count and not self._is_stopping:
                    self._start()
                if not self._is_stopping:
                    self._on_ready()
                self._watch()
            finally:
                self._stop()
                self._wait_for_end()
                for end in self._lifeline:
                    os.close(end)

    def _wait_for_end(self) -> None:
        """Whoever does not end in time is ended."""
        until, is_killed = time.monotonic() + END_SECONDS, False
        while self._running:
            process, _ = os.waitpid(-1, os.WNOHANG)
            self._running.pop(process, None)
            if not process:
                time.sleep(0.01)
            if not is_killed and time.monotonic() > until:
                is_killed = True
                for each in self._running:
                    os.kill(each, signal.SIGKILL)

    def _watch(self) -> None:
        while self._running:
            process, status = os.wait()
            self._running.pop(process, None)
            if not self._is_stopping:
                _log.warning("a worker ended (%s); another takes its place", os.waitstatus_to_exitcode(status))
                self._start()

    def _start(self) -> None:
        """Start one and wait until it answers. Raises StoreUnavailable if it ends before that."""
        ready, tell = os.pipe()
        number = min(set(range(self._count)) - set(self._running.values()))
        # A signal waits until both know what they are.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        process = os.fork()
        if process == 0:
            self._be_worker(number, ready, tell)
        self._running[process] = number
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(tell)
        with open(ready, "rb") as waiting:  # noqa: PTH123
            is_told, _, _ = select.select([waiting], [], [], START_SECONDS)
            if not (is_told and waiting.read(1)) and not self._is_stopping:
                raise StoreUnavailable("a server process ended before it was ready, or was not ready in time")

    def _be_worker(self, number: int, ready: int, tell: int) -> NoReturn:
        code = 1
        try:
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os.close(ready)
            os.close(self._lifeline[1])
            stay_on_processor(number, self._count)
            self._work(number, self._lifeline[0], lambda: _tell(tell))
            code = 0
        except MemorandaError as error:
            _log.error("%s", error)
        # A rim of its own: what is left of the first process in this one must not run.
        except BaseException:  # noqa: BLE001
            _log.exception("a worker failed")
        finally:
            logging.shutdown()
            os._exit(code)

    def _stop(self) -> None:
        self._is_stopping = True
        for process in self._running:
            os.kill(process, signal.SIGTERM)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        before = {each: signal.signal(each, lambda _signal, _frame: self._stop()) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def stay_on_processor(number: int, count: int) -> None:
    """Stay on one processor, where there is a worker for each of them.

    One thread of a Python process runs at a time. Where they are on several processors, each that lets another run for
    a moment wakes one elsewhere, in vain more often than not: two fifths of what a write takes go there. A process that
    has a processor to itself runs the other when it has nothing to do.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            allowed = sorted(os.sched_getaffinity(0))
            if count >= len(allowed):
                os.sched_setaffinity(0, {allowed[number % len(allowed)]})


def _tell(pipe: int) -> None:
    os.write(pipe, b"1")
    os.close(pipe)
