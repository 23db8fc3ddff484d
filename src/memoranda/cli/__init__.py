"""The command line: parses tokens, runs one command, and turns its errors into messages and exit codes.

Each command calls the library once. Exit codes: 0 done, 1 refused, not found or not verified, 2 wrong usage,
130 interrupted, 141 output pipe closed.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from memoranda.build import version_and_build

# New objects between two runs of the garbage collector. Loading a command, or answering a request, makes thousands of
# objects without reference cycles, which the default of 700 would scan again and again.
COLLECTED_AFTER = 10_000
DONE, REFUSED, USAGE, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # Called as a program, so settings of the whole process may be changed.
        gc.set_threshold(COLLECTED_AFTER)
        # NumPy's OpenBLAS would start threads that spin for longer than a command takes; our products are small.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = _run(tokens)
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered output has no reader; without this redirection Python would print an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- a person must never see a traceback
        from memoranda.cli.command_line import report_failure

        return report_failure(tokens, error)
    finally:
        if argv is None:
            # msgspec 0.22 sometimes crashes in the last garbage collection of the process: leave it nothing to scan.
            gc.freeze()
    return code


def _run(tokens: list[str]) -> int:
    # Scripts ask for these two most often, so they are answered before anything heavy is loaded.
    if tokens == ["--version"]:
        print(version_and_build())
        return DONE
    if tokens in ([], ["--help"], ["-h"]):
        from memoranda.cli.catalogue import overview

        print(overview(), end="")
        return DONE
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            # A terminal that cannot show a character must not end the command.
            reconfigure(errors="backslashreplace")
    from memoranda.cli.command_line import run_command

    result = run_command(tokens)
    # A command returns its exit code, or None for success.
    return result if isinstance(result, int) else DONE
