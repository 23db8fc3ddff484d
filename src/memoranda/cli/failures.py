"""Reports of failed commands: a sentence on standard error, and with --json an error document on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from memoranda.cli.logs import error_locations, log_note
from memoranda.cli.show import note
from memoranda.encoding.json_text import dump


def report(tokens: Sequence[str], code: str, message: str) -> None:
    """Print the message for a person, and with --json the code and the message for a program."""
    end = tokens.index("--") if "--" in tokens else len(tokens)
    if "--json" in tokens[:end]:
        text = message.encode("utf-8", "backslashreplace").decode("utf-8")
        print(dump({"error": {"code": code, "message": text}}).decode("utf-8"), flush=True)
    note(message, is_failure=True)


def report_unexpected(tokens: Sequence[str], error: Exception) -> None:
    """Report an error that is a fault of Memoranda; its stack is shown only while debugging.

    Its message is never shown, because it may quote a memory.
    """
    if os.environ.get("MEMORANDA_LOG_LEVEL") == "debug" and not log_note(
        "unexpected failure", "error", error
    ):
        print(*error_locations(error), sep="\n", file=sys.stderr)
    hint = "set MEMORANDA_LOG_LEVEL=debug to see where, and please report it"
    report(tokens, "internal", f"unexpected error in Memoranda; {hint}")
