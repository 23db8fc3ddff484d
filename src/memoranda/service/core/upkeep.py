"""Upkeep: retention is kept on time, whether or not anyone reads (UMP §2.7), erasures are finished, and what was put
off or scheduled is done (openwop).

Of several machines that share a store one does it, and another when that is gone; of several processes on one file
every long-running one looks, and what one of them has done, the others find done.
"""

from __future__ import annotations

import logging
import threading

from memoranda.errors import MemorandaError
from memoranda.service.core import audit, cascade
from memoranda.service.core.context import CLOSE_SECONDS, Context
from memoranda.service.core.retention import purge

# Nothing due: look again this soon, because another process may have written something shorter-lived.
IDLE_SECONDS = 1.0
_JOB = "upkeep"

_log = logging.getLogger(__name__)


class Upkeep:
    """Does what falls due."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stop = threading.Event()
        self._day: int | None = None
        self._thread = threading.Thread(target=self._run, name="memoranda-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether what falls due is done."""
        return self._thread.is_alive()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        wait, trouble = 0.0, ""
        while not self._stop.wait(wait):
            try:
                self._context.engine.follow_keys()
                # Of what was written here.
                self._context.engine.tidy()
                wait = IDLE_SECONDS
                if self._context.engine.is_elected(_JOB):
                    self._do_what_is_due()
                    wait = self._until_next()
                trouble = ""
            except MemorandaError as error:
                # Once: a disk that is full, or read-only, stays so for a while.
                if error.message != trouble:
                    _log.warning("upkeep: %s", error)
                wait, trouble = IDLE_SECONDS, error.message

    def _do_what_is_due(self) -> None:
        # Only who stays needs it: a command is over before anything falls due.
        from memoranda.service.openwop import runs, schedule
        from memoranda.service.verify import reindex

        purge(self._context)
        if self._is_another_day():
            audit.keep_retention(self._context)
            runs.keep_retention(self._context)
            # What an older Memoranda wrote.
            reindex(self._context, outdated=True)
        cascade.finish_all(self._context)
        schedule.tick(self._context)
        # What a reader kept from being scrubbed when it was erased.
        self._context.engine.scrub(patient=False)

    def _is_another_day(self) -> bool:
        """Once a day, and at the start."""
        today = self._context.clock() // audit.DAY_MS
        before, self._day = self._day, today
        return today != before

    def _until_next(self) -> float:
        system, now = self._context.engine.system, self._context.clock()
        ends = system.next_expiry(), system.next_due()
        return min(
            [IDLE_SECONDS, *(max(0.001, (end - now) / 1000) for end in ends if end is not None)]
        )
