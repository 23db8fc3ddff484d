"""Upkeep: retention is kept on time, whether or not anyone reads (UMP §2.7), erasures are finished, and what was put
off or scheduled is done (openwop).

Every long-running process does it; what one of them has done, the others find done.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict

from memoranda.errors import MemorandaError
from memoranda.service.core import cascade
from memoranda.service.core.context import Context
from memoranda.service.core.find import name_some
from memoranda.service.ump.revise import expire

BATCH_LIMIT = 200
# Nothing due: look again this soon, because another process may have written something shorter-lived.
IDLE_SECONDS = 1.0
# More to be read: at most this often, so that requests come first.
MORE_SECONDS = 0.05

_log = logging.getLogger(__name__)


def sweep(context: Context) -> int:
    """Tombstone everything that is past its retention; how many there were."""
    count = 0
    while due := context.engine.system.expired(context.clock(), BATCH_LIMIT):
        by_tenant: dict[str, list[int]] = defaultdict(list)
        for tenant, version_id in due:
            by_tenant[tenant].append(version_id)
        for tenant, version_ids in by_tenant.items():
            expire(context, tenant, version_ids)
        count += len(due)
    return count


def index(context: Context) -> bool:
    """Read some of what was written through one standard for the others; whether any tenant may have more of it."""
    from memoranda.service.oms.views import read_some

    is_more = False
    for tenant in context.engine.system.tenants_with_unread():
        # Few at a time, so that whoever writes much is not slowed down by it.
        is_more |= read_some(context, tenant) | name_some(context, tenant)
    return is_more


class Upkeep:
    """Runs the sweep when something falls due."""

    def __init__(self, context: Context) -> None:
        self._context = context
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
                sweep(self._context)
                cascade.finish_all(self._context)
                schedule.tick(self._context)
                # What a reader kept from being scrubbed when it was erased.
                self._context.engine.scrub(patient=False)
                wait = MORE_SECONDS if index(self._context) else self._until_next()
            except MemorandaError as error:
                _log.warning("upkeep: %s", error.message)
                wait = IDLE_SECONDS

    def _until_next(self) -> float:
        system, now = self._context.engine.system, self._context.clock()
        ends = system.next_expiry(), system.next_due()
        return min([IDLE_SECONDS, *(max(0.001, (end - now) / 1000) for end in ends if end is not None)])
