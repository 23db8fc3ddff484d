"""Upkeep: retention is kept on time, whether or not anyone reads (UMP §2.7), erasures are finished, and what was put
off or scheduled is done (openwop).

Every long-running process does it; what one of them has done, the others find done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from memoranda.errors import MemorandaError
from memoranda.service.core import cascade
from memoranda.service.core.context import Context
from memoranda.service.core.find import name_some
from memoranda.service.core.retention import purge

# Nothing due: look again this soon, because another process may have written something shorter-lived.
IDLE_SECONDS = 1.0
# More to be read for the other standards: requests come first. Some at a time while this process does nothing else for
# a pause (it uses less than this share of a processor), and between requests next to none.
READ_WHEN_QUIET, READ_WHEN_BUSY = 25, 5
PAUSE_SECONDS = 0.01
QUIET_SHARE = 0.1

_log = logging.getLogger(__name__)


def index(context: Context, limit: int) -> bool:
    """Read some of what was written through one standard for the others; whether there may be more of it."""
    from memoranda.service.oms.views import read_some

    waiting = context.engine.system.tenants_with_unread()
    # One tenant after the other: each time something of the first is done, so that all have their turn.
    for tenant in waiting[:1]:
        read_some(context, tenant, limit)
        name_some(context, tenant, limit)
    return bool(waiting)


class Upkeep:
    """Does what falls due."""

    def __init__(self, context: Context, processor: Callable[[], float] = time.process_time) -> None:
        """`processor`: how many seconds of processor time this process has used."""
        self._context = context
        self._processor = processor
        self._stop = threading.Event()
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
            self._thread.join()

    def _run(self) -> None:
        # Only who stays needs it: a command is over before anything falls due.
        from memoranda.service.openwop import schedule

        wait = 0.0
        while not self._stop.wait(wait):
            try:
                purge(self._context)
                cascade.finish_all(self._context)
                schedule.tick(self._context)
                # What a reader kept from being scrubbed when it was erased.
                self._context.engine.scrub(patient=False)
                wait = self.read_on(self._until_next())
            except MemorandaError as error:
                _log.warning("upkeep: %s", error.message)
                wait = IDLE_SECONDS

    def read_on(self, seconds: float) -> float:
        """Read for the other standards until something falls due or somebody asks; the seconds that are left."""
        end = time.monotonic() + seconds
        limit = READ_WHEN_BUSY
        while index(self._context, limit) and time.monotonic() < end and self._is_quiet():
            limit = READ_WHEN_QUIET
        return max(0.0, end - time.monotonic())

    def _is_quiet(self) -> bool:
        """Whether this process has nothing else to do; False, too, if it is to stop."""
        before = self._processor()
        is_stopped = self._stop.wait(PAUSE_SECONDS)
        return not is_stopped and self._processor() - before < QUIET_SHARE * PAUSE_SECONDS

    def _until_next(self) -> float:
        system, now = self._context.engine.system, self._context.clock()
        ends = system.next_expiry(), system.next_due()
        return min([IDLE_SECONDS, *(max(0.001, (end - now) / 1000) for end in ends if end is not None)])
