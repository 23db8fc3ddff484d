"""A clock that keeps the order in which things happen, whatever the system's clock does."""

from __future__ import annotations

import logging
from collections.abc import Callable

from memoranda.model.instant import DAY_MS, Instant

_log = logging.getLogger(__name__)


class SteadyClock:
    """Now, and never before what it said last, or what the store holds: so what is written later is listed later.

    A clock that is set back by more than a day was wrong before, and is believed: nothing must end days too early.
    """

    def __init__(self, system: Callable[[], Instant], last: Instant) -> None:
        self._system, self._last = system, last

    def __call__(self) -> Instant:
        now, last = self._system(), self._last
        if now < last:
            if last - now <= DAY_MS:
                return last
            _log.warning("the clock was set back by %.1f days", (last - now) / DAY_MS)
        self._last = now
        return now
