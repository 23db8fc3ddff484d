"""The command line in this process: to start one for each command takes ten times as long as the command.

That a process says and ends as it should is what tests/cli/test_process.py is about.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from memoranda.cli import main


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: bytes


def command(*tokens: str, piped: bytes = b"") -> Done:
    """Run one command with this on standard input."""
    printed, before = io.BytesIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(piped))
    try:
        with redirect_stdout(io.TextIOWrapper(printed, write_through=True)), redirect_stderr(io.StringIO()):
            code = main(tokens)
            return Done(code, printed.getvalue())
    finally:
        sys.stdin = before
