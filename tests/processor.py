"""A bound on processor time, for tests that something does not hang. What others use of the machine does not count."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise AssertionError when what is inside takes more processor time than that, which is far more than it needs.

    Nothing is collected meanwhile: what earlier tests left is not its work, and what is raised while it is collected is
    lost.
    """

    def stop(_: int, __: FrameType | None) -> None:
        raise AssertionError(f"more than {seconds} s of processor time")

    collects = gc.isenabled()
    gc.disable()
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        if collects:
            gc.enable()
