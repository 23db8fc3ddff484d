"""What a run's log must be, for tests of whoever writes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoranda.standards.openwop.events import (
    COMMITMENT_FIRED,
    MEMORY_CONSOLIDATED,
    MEMORY_WRITTEN,
    Event,
    check_event,
)

# A replay re-reads these from the log and never makes new ones (replay.md, "Recorded-fact events").
RECORDED_FACTS: Final = frozenset({MEMORY_WRITTEN, MEMORY_CONSOLIDATED, COMMITMENT_FIRED})


def check_log(events: Sequence[Event]) -> None:
    """One run's log: all of one run, `sequence` 0, 1, 2 and on, no event twice."""
    for each in events:
        check_event(each)
    assert [each["sequence"] for each in events] == list(range(len(events)))
    assert len({each["runId"] for each in events}) <= 1
    assert len({each["eventId"] for each in events}) == len(events)
