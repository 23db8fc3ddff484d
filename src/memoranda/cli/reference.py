"""The command-line reference, docs/reference/cli.md, from the commands themselves.

    python -m memoranda.cli.reference > docs/reference/cli.md

A test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from memoranda.cli.catalogue import OPTIONS
from memoranda.cli.parser import SHARED, command_line

_HEAD = """\
# The command line

<!-- Written by `python -m memoranda.cli.reference`; edit the commands instead. -->

Every command is one call of the library. These options can stand before or after the command:

{options}

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | refused, not found, or not verified |
| 2 | wrong usage |
| 130 | interrupted |
| 141 | whoever read the output went away |

An error is one sentence on standard error; one in a query has its place and a suggestion below it. With `--json` it
is also `{{"error": {{"code": …, "message": …}}}}` on standard output.
"""


def reference() -> str:
    """The whole page."""
    options = "\n".join(f"- `{flag}`: {meaning}" for flag, meaning in OPTIONS)
    with _named_memoranda():
        documented = command_line().generate_docs(output_format="markdown")
    parts = [part for part in documented.split("\n## ") if part.startswith("memoranda ")]
    return "\n".join([_HEAD.format(options=options), *(f"## {_without_shared(part)}" for part in parts)])


def _without_shared(part: str) -> str:
    """A command's part without the options that every command has."""
    kept, skipping = [], False
    for line in part.split("\n"):
        if line == f"**{SHARED.name}**:":
            skipping = True
        elif skipping and line and not line.startswith("* `--"):
            skipping = False
        if not skipping:
            kept.append(line)
    return "\n".join(kept).rstrip() + "\n"


@contextmanager
def _named_memoranda() -> Iterator[None]:
    """The parser names the program after whatever was started: a test runner, or this module."""
    before, main = sys.argv, sys.modules.pop("__main__", None)
    sys.argv = ["memoranda"]
    try:
        yield
    finally:
        sys.argv = before
        if main is not None:
            sys.modules["__main__"] = main


if __name__ == "__main__":
    print(reference(), end="")
