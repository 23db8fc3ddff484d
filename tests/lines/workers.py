"""A server of two processes whose clock a test moves: python -m tests.lines.workers FOLDER CLOCK CREDENTIAL.

FOLDER is a data directory, CLOCK a file with the time and the uptime in milliseconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import memoranda.opening
from memoranda.cli import main
from memoranda.model.instant import Instant
from memoranda.service.core.retention_clock import Uptime


def run(folder: str, clock: str) -> int:
    """Serve until the end, by the clock of a file."""
    path = Path(clock)

    def read_clock() -> tuple[int, int]:
        now, uptime_ms = path.read_text().split()
        return int(now), int(uptime_ms)

    memoranda.opening.__dict__["system_clock"] = lambda: Instant(read_clock()[0])
    memoranda.opening.__dict__["read_uptime"] = lambda: Uptime("lines", read_clock()[1])
    return main(("--data", folder, "--json", "serve", "--port", "0", "--workers", "2"))


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
