"""Several server processes on one port and one store.

Theory of operation. The first process binds the port and watches; the others, its workers, listen, each with a socket
of its own on that port, and the system deals connections out among them. Where there are as many workers as processors,
each has one.

The first process waits for signals, for workers that end and for workers that report being ready, all in one call, so
that it never waits for a single worker. A worker that ends by itself is replaced. If its successor does not become or
stay ready, another is started after a back-off that doubles up to a limit; the other workers go on serving. The server
ends if no worker was ready for long (`Patience.without_any`), or if the very first one never was: the cause of that (a
wrong setting, say) affects all.

A signal to the first process ends all of them in good order. If the first one is killed, the workers notice that its
end of a pipe is closed, and end.

Rules for the parent: it holds no store, starts no threads and imports as little as possible, because everything that
exists in it when it forks exists in every worker. Only system calls that are safe after a fork are used in
`_run_worker`.
"""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from memoranda import measures
from memoranda.errors import InvalidInput, MemorandaError, StoreUnavailable
from memoranda.measures import WORKER_ENDS, WORKERS_READY

# Processes; more than the processors of most machines.
WORKERS_LIMIT: Final = 64
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)

# Does the work of one worker until it is stopped. Takes the pipe that closes with the first process, and the function
# to call when the worker answers requests.
Work = Callable[[int, Callable[[], None]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Time limits of the first process, in seconds.

    All values can be shortened in tests; the defaults are for slow disks and large stores.
    """

    # For a worker that starts, and for one that ends.
    start: float = 120.0
    end: float = 120.0
    # Before a worker is started again: the first time, and at most.
    first_pause: float = 0.25
    longest_pause: float = 30.0
    # A worker that was ready for this time does not count as failing repeatedly.
    steady: float = 10.0
    # Without any ready worker, until the server gives up.
    without_any: float = 300.0

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after a number of consecutive failures."""
        if failures == 0:
            return 0.0
        # Far beyond any limit the power would be too large for a float.
        doubled = min(failures - 1, 64)
        return min(self.longest_pause, self.first_pause * 2.0**doubled)


@dataclass(slots=True)
class _Slot:
    """A numbered slot for a worker: its process, or the time at which the next one is started."""

    number: int
    process: int | None = None
    # While it starts: the pipe on which it says that it is ready, and when that comes too late.
    pipe: int | None = None
    start_ends_at: float = math.inf
    ready_since: float | None = None
    # Consecutive workers that did not become or stay ready.
    failures: int = 0
    next_start_at: float = 0.0

    @property
    def is_starting(self) -> bool:
        """True if the process has not reported being ready."""
        return self.process is not None and self.ready_since is None

    def close_pipe(self) -> None:
        """Close the pipe through which the worker reports, if it is open."""
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None


def check_workers(count: int) -> None:
    """Raise InvalidInput unless this system can run this number of workers."""
    if not 1 <= count <= WORKERS_LIMIT:
        raise InvalidInput(f"workers must be from 1 to {WORKERS_LIMIT}")
    if count > 1 and not (hasattr(os, "fork") and hasattr(socket, "SO_REUSEPORT")):
        raise InvalidInput("workers: this system can serve with one process only")


class Workers:
    """The processes; `run` returns when all have ended."""

    def __init__(
        self,
        count: int,
        work: Work,
        on_ready: Callable[[], None],
        *,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the number of workers and their work.

        `on_ready` is called once, when all workers are ready, or some are and the others have failed to start.
        """
        self._work, self._on_ready = work, on_ready
        self._patience, self._clock = patience or Patience(), clock
        self._slots = [_Slot(number) for number in range(count)]
        # Signals that ask for an end; each is passed on to the workers.
        self._requests_to_end = 0
        self._is_announced = False
        self._failed_starts = 0
        self._last_ready: float | None = None
        self._lifeline = os.pipe()
        # Every signal writes a byte to it, so that a wait for pipes ends with a signal, too.
        self._wakeups = os.pipe()

    def run(self) -> None:
        """Start the workers, and keep them running until a signal. Raises StoreUnavailable when none becomes ready.

        Returns after SIGTERM or SIGINT, when all workers have ended.
        """
        measures.share_pages(len(self._slots))
        try:
            with self._handling_signals():
                try:
                    while not self._requests_to_end:
                        self._watch()
                finally:
                    self._end_all()
        finally:
            for end in (*self._lifeline, *self._wakeups):
                os.close(end)

    def _watch(self) -> None:
        """Start the workers that are due, wait for the next event, and record which workers are ready or ended."""
        failed_before = self._failed_starts
        self._start_due()
        self._wait(self._next_moment())
        self._note_ready()
        self._kill_late()
        self._note_ended()
        self._announce()
        # Checked only after a failed start, because a worker that is starting may still become ready.
        if (
            self._failed_starts > failed_before
            and not self._ready_slots()
            and not self._requests_to_end
        ):
            self._raise_if_hopeless()

    # --- watching ----------------------------------------------------------------------------------------

    def _ready_slots(self) -> list[_Slot]:
        return [slot for slot in self._slots if slot.ready_since is not None]

    def _startable_slots(self) -> list[_Slot]:
        """Return the slots that need a new process, now or later. Until one was ready, only the first counts."""
        slots = self._slots if self._last_ready is not None else self._slots[:1]
        return [slot for slot in slots if slot.process is None]

    def _next_moment(self) -> float:
        """Return the time of the next action that no pipe and no signal announces."""
        moments = [slot.next_start_at for slot in self._startable_slots()]
        moments += [slot.start_ends_at for slot in self._slots if slot.is_starting]
        return min(moments, default=math.inf)

    def _wait(self, until: float) -> None:
        """Wait until a signal arrives, a worker reports being ready, or the time is reached."""
        pipes = [self._wakeups[0], *(slot.pipe for slot in self._slots if slot.pipe is not None)]
        seconds = None if until == math.inf else max(0.0, until - self._clock())
        ready_pipes, _, _ = select.select(pipes, [], [], seconds)
        if self._wakeups[0] in ready_pipes:
            os.read(self._wakeups[0], 4096)

    def _note_ready(self) -> None:
        """Note the workers that became ready. A pipe that closes without a report is one of a process that ends."""
        pipes = [slot.pipe for slot in self._slots if slot.pipe is not None]
        ready_pipes, _, _ = select.select(pipes, [], [], 0)
        for slot in self._slots:
            if slot.pipe in ready_pipes:
                is_ready = os.read(slot.pipe, 1) == b"1"
                slot.close_pipe()
                if is_ready:
                    slot.ready_since = self._last_ready = self._clock()
                    WORKERS_READY.add()

    def _kill_late(self) -> None:
        """Kill workers that take too long to start; their end is noted like any other."""
        now = self._clock()
        for slot in self._slots:
            if slot.is_starting and slot.process is not None and slot.start_ends_at <= now:
                _log.warning(
                    "worker %d was not ready within %g s", slot.number, self._patience.start
                )
                slot.start_ends_at = math.inf
                os.kill(slot.process, signal.SIGKILL)

    def _note_ended(self) -> None:
        """Note the processes that have ended, and the time at which each is replaced."""
        for slot, code in self._reap():
            now, since = self._clock(), slot.ready_since
            is_steady = since is not None and now - since >= self._patience.steady
            slot.failures = 0 if is_steady else slot.failures + 1
            pause = self._patience.pause(slot.failures)
            slot.next_start_at = now + pause
            if since is None:
                self._failed_starts += 1
            else:
                self._last_ready = now
                slot.ready_since = None
                WORKERS_READY.add(amount=-1)
            WORKER_ENDS.add("starting" if since is None else "ready")
            when = f"in {pause:g} s" if pause else "now"
            how = "before it was ready " if since is None else ""
            _log.warning(
                "worker %d ended %s(exit code %d); another is started %s",
                slot.number,
                how,
                code,
                when,
            )

    def _reap(self) -> list[tuple[_Slot, int]]:
        """Free the slots of the processes that have ended, and return the slots with the exit codes."""
        ended_numbers = []
        for slot in self._slots:
            if slot.process is None:
                continue
            process, status = os.waitpid(slot.process, os.WNOHANG)
            if process:
                slot.process = None
                slot.close_pipe()
                measures.reset_gauges(slot.number)
                ended_numbers.append((slot, os.waitstatus_to_exitcode(status)))
        return ended_numbers

    def _announce(self) -> None:
        """Report once that the server answers, as soon as no worker is at its first start."""
        if self._is_announced or self._requests_to_end or not self._ready_slots():
            return
        if all(slot.ready_since is not None or slot.failures for slot in self._slots):
            self._is_announced = True
            self._on_ready()

    def _raise_if_hopeless(self) -> None:
        """Raise StoreUnavailable if no worker was ever ready, or none was for long."""
        if self._last_ready is None:
            raise StoreUnavailable(
                "the first server process ended before it was ready, or was not ready in time"
            )
        if self._clock() >= self._last_ready + self._patience.without_any:
            raise StoreUnavailable(
                f"no server process was ready for {self._patience.without_any:g} s, although several were started; "
                "the log has the reasons"
            )

    # --- starting ----------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        now = self._clock()
        for slot in self._startable_slots():
            if slot.next_start_at <= now and not self._requests_to_end:
                self._start(slot)

    def _start(self, slot: _Slot) -> None:
        """Start a process in a slot. A system that has no room for one is asked again later.

        Signals are blocked while the child is created, so that one that arrives just then is not lost.
        """
        ready_pipe, tell = os.pipe()
        # Signals are blocked until each process knows if it is the worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            process = os.fork()
        except OSError as error:
            os.close(ready_pipe)
            self._failed_starts += 1
            slot.failures += 1
            slot.next_start_at = self._clock() + self._patience.pause(slot.failures)
            _log.warning("worker %d could not be started: %s", slot.number, error.strerror)
        else:
            if process == 0:
                self._run_worker(slot.number, ready_pipe, tell)
            slot.process, slot.pipe = process, ready_pipe
            slot.start_ends_at = self._clock() + self._patience.start
        finally:
            os.close(tell)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    def _run_worker(self, number: int, ready_pipe: int, tell: int) -> NoReturn:
        """Do the work in the new process, and end it. `tell` is the pipe on which it reports being ready."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for caught in (*_ENDING, signal.SIGCHLD):
                signal.signal(caught, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            for descriptor in (ready_pipe, self._lifeline[1], *self._wakeups):
                os.close(descriptor)
            for slot in self._slots:
                slot.close_pipe()
            stay_on_processor(number, len(self._slots))
            measures.take_page(number)
            self._work(self._lifeline[0], lambda: _report_ready(tell))
            code = 0
        except MemorandaError as error:
            _log.error("%s", error)
        # The worker ends here, because the code of the first process must not run in it.
        except BaseException:  # noqa: BLE001
            _log.exception("a worker failed")
        finally:
            logging.shutdown()
            os._exit(code)

    # --- ending ------------------------------------------------------------------------------------------

    def _end_all(self) -> None:
        """Send SIGTERM to all workers now and with each further signal, and SIGKILL when they take too long."""
        kill_at, requests_seen = self._clock() + self._patience.end, -1
        while running := [slot.process for slot in self._slots if slot.process is not None]:
            number: signal.Signals | None = None
            if self._clock() >= kill_at:
                kill_at, number = math.inf, signal.SIGKILL
            elif requests_seen < self._requests_to_end:
                requests_seen, number = self._requests_to_end, signal.SIGTERM
            if number is not None:
                for process in running:
                    os.kill(process, number)
            self._wait(kill_at)
            self._reap()

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        """Count the signals that ask for an end, and let every signal, and every end of a worker, end a wait."""

        def count(_signal: int, _frame: object) -> None:
            self._requests_to_end += 1

        os.set_blocking(self._wakeups[1], False)
        previous_wakeup = signal.set_wakeup_fd(self._wakeups[1], warn_on_full_buffer=False)
        previous = {number: signal.signal(number, count) for number in _ENDING}
        # Without a handler, SIGCHLD would write no byte.
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(previous_wakeup)


def stay_on_processor(number: int, count: int) -> None:
    """Keep this process on one processor, if there is a worker for each of them.

    Only one thread of a Python process runs at a time. If its threads are on several processors, each release of the
    interpreter wakes a thread elsewhere, mostly in vain, which takes two fifths of the time of a write. On one
    processor, the other thread runs when the first one waits.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            allowed = sorted(os.sched_getaffinity(0))
            if count >= len(allowed):
                os.sched_setaffinity(0, {allowed[number % len(allowed)]})


def _report_ready(pipe: int) -> None:
    os.write(pipe, b"1")
    os.close(pipe)
