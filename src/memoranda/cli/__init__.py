"""The command line: every command is one call of the library, and this is the rim around all of them.

Exit codes: 0 done, 1 refused, not found or not verified, 2 wrong usage, 130 interrupted, 141 nobody read on.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from memoranda import __version__
from memoranda.errors import MemorandaError, words_of

# New objects before the collector looks at them. To load a command, or to answer a request, makes thousands, which
# stay or go by themselves: next to none is in a circle that only the collector finds.
COLLECTED_AFTER = 10_000
DONE, REFUSED, USAGE, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # This process is ours alone.
        gc.set_threshold(COLLECTED_AFTER)
        # Of NumPy's: the threads that OpenBLAS starts with look for work for longer than a command takes, and what is
        # multiplied here is small.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = _run(tokens)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered has no reader; without this, Python would complain once more on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except KeyboardInterrupt:
        return INTERRUPTED
    except MemorandaError as error:
        return _refuse(tokens, error.code, str(error), REFUSED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(tokens, "unavailable", f"{where}{words_of(error)}", REFUSED)
    # One of the three rims: a person must never see a traceback.
    except Exception as error:  # noqa: BLE001
        return _fail(tokens, error)
    finally:
        if argv is None:
            # At its end Python looks through all that is left, at which msgspec 0.22 crashes now and then.
            gc.freeze()
    return code


def _run(tokens: list[str]) -> int:
    # These two are asked most often, and by scripts: answered before anything heavy is loaded.
    if tokens == ["--version"]:
        print(__version__)
        return DONE
    if tokens in ([], ["--help"], ["-h"]):
        from memoranda.cli.catalogue import overview

        print(overview(), end="")
        return DONE
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            # A terminal that cannot show a character must not end the command.
            reconfigure(errors="backslashreplace")
    return _dispatch(tokens)


def _dispatch(tokens: list[str]) -> int:
    from memoranda.cli.command_line import run_command
    from memoranda.cli.commands import WrongUsage

    try:
        result = run_command(tokens)
    except WrongUsage as error:
        message = " ".join(str(error).split())
        hint = " ".join(("memoranda", *filter(None, (error.command,)), "--help"))
        return _refuse(tokens, "usage", f"{message} Try: {hint}", USAGE)
    return result if isinstance(result, int) else DONE


def _refuse(tokens: list[str], code: str, message: str, exit_code: int) -> int:
    """Say it to a person on standard error, and with --json to a program on standard output too."""
    from memoranda.cli.show import note

    if "--json" in (tokens[: tokens.index("--")] if "--" in tokens else tokens):
        from memoranda.encoding.json_text import dump

        text = message.encode("utf-8", "backslashreplace").decode("utf-8")
        print(dump({"error": {"code": code, "message": text}}).decode("utf-8"), flush=True)
    note(message, is_failure=True)
    return exit_code


def _fail(tokens: list[str], error: Exception) -> int:
    if os.environ.get("MEMORANDA_LOG_LEVEL") == "debug":
        import traceback

        from memoranda.cli.logs import log_note

        if not log_note("unexpected failure", "error", error):
            traceback.print_exception(error)
    hint = "set MEMORANDA_LOG_LEVEL=debug to see where, and please report it"
    return _refuse(tokens, "internal", f"something went wrong that should not; {hint}", REFUSED)
