"""`memoranda serve` with a clock that can be set from outside: a file says by how many milliseconds it is wrong.

After `--passed` it is not wrong: so much time has passed on the machine, too.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import memoranda.opening
from memoranda.cli import main
from memoranda.model.instant import Instant
from memoranda.service.core.retention_clock import Uptime, read_uptime

PASSED = "--passed"


def serve(offset: Path, tokens: list[str]) -> int:
    """Serve until killed."""

    def clock() -> Instant:
        return Instant(time.time_ns() // 1_000_000 + int(offset.read_text() or "0"))

    def uptime() -> Uptime:
        now = read_uptime()
        return now._replace(ms=now.ms + int(offset.read_text() or "0"))

    memoranda.opening.system_clock = clock
    if tokens[0] == PASSED:
        vars(memoranda.opening)["read_uptime"] = uptime
        tokens = tokens[1:]
    return main(tokens)


if __name__ == "__main__":
    sys.exit(serve(Path(sys.argv[1]), sys.argv[2:]))
