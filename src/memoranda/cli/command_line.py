"""From the tokens of a command line to the command that runs, and from its error to a report.

The options of every command (`--data`, `--store`, `--owner`, `--new-owner`, `--json`) may stand before or after its
name. The catalogue names the module of each command, so that only the module of the command that runs is imported.

An error becomes a sentence on standard error, and with `--json` also an error document on standard output.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from memoranda.cli import REFUSED, USAGE
from memoranda.cli.catalogue import SECTIONS, CommandEntry, overview
from memoranda.cli.logs import error_locations, log_note, set_up_early
from memoranda.cli.parser import is_option, parse_call, read_slots, unknown
from memoranda.cli.run import Function, GlobalOptions, WrongUsage
from memoranda.cli.show import note
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError, words_of

_WITH_VALUE: Final = frozenset(("--data", "--store", "--owner"))
_HELP: Final = frozenset(("--help", "-h"))
# Bytes. With less address space, the libraries of search and of databases fail in many ways.
_SMALL_BYTES: Final = 1_073_741_824
# Commands that keep running, and whose standard error is a log.
_LOGGING: Final = frozenset(("serve", "mcp"))


def run_command(tokens: Sequence[str]) -> object:
    """Run the command that the tokens name. Raises WrongUsage."""
    end = tokens.index("--") if "--" in tokens else len(tokens)
    wants_help = not _HELP.isdisjoint(tokens[:end])
    run, words = _read_shared_options(
        [word for word in tokens[:end] if word not in _HELP], is_lenient=wants_help
    )
    if wants_help:
        words = [word for word in words if not is_option(word)]
    if not words and end == len(tokens):
        print(overview(), end="")
        return None
    if words == ["--version"]:
        words = ["version"]
    entry, path, arguments = find_command([*words, *tokens[end:]])
    if wants_help or not entry.target:
        # Reads the docstrings and parameters of commands: nothing that a command needs to run.
        from memoranda.cli.help import help_of

        print(help_of(path), end="")
        return None
    if path[0] in _LOGGING:
        set_up_early()
    function = load_command(entry)
    try:
        call = parse_call(function, arguments, run)
    except WrongUsage as error:
        raise WrongUsage(str(error), " ".join(path)) from None
    try:
        return _run(call)
    except InvalidInput as error:
        # Imported here: only errors need it.
        from memoranda.cli.fields import name_option

        error.message = name_option(error.message, read_slots(function))
        raise


def _run(call: Callable[[], object]) -> object:
    """Run a command, and report likely secrets in what it wrote."""
    # Loads logging, which help does without.
    from memoranda.service.core.secret_screening import collect_notices

    with collect_notices() as secrets:
        result = call()
    if secrets.kinds:
        note(str(secrets))
    return result


def find_command(words: Sequence[str]) -> tuple[CommandEntry, list[str], Sequence[str]]:
    """Return the entry of a command, the words that name it, and the words behind those. Raises WrongUsage."""
    entries = {entry.name: entry for section in SECTIONS for entry in section.entries}
    entry = entries.get(words[0])
    if entry is None:
        kind = "option" if is_option(words[0]) else "command"
        raise WrongUsage(unknown(kind, words[0], entries))
    below = entry.below.get(words[1]) if len(words) > 1 else None
    if below is not None:
        return below, [entry.name, below.name], words[2:]
    if not entry.target and len(words) > 1:
        raise WrongUsage(unknown("command", words[1], entry.below), entry.name)
    return entry, [entry.name], words[1:]


def load_command(entry: CommandEntry) -> Function:
    """Import the function that runs a command."""
    module, _, name = entry.target.partition(":")
    function: Function = getattr(import_module(module), name)
    return function


def _read_shared_options(
    tokens: Sequence[str], *, is_lenient: bool = False
) -> tuple[GlobalOptions, list[str]]:
    """Return the options of every command, and the tokens that are none of them. Raises WrongUsage.

    `is_lenient`: a value may be missing.
    """
    values: dict[str, str] = {}
    words: list[str] = []
    is_json, is_new_owner, remaining = False, False, iter(tokens)
    for word in remaining:
        name, equals, text = word.partition("=")
        if word == "--json":
            is_json = True
        elif word == "--new-owner":
            is_new_owner = True
        elif name in _WITH_VALUE:
            value = text if equals else next(remaining, None)
            if value is None or (is_option(value) and not equals):
                if is_lenient:
                    continue
                raise WrongUsage(f"{name} needs a value.")
            values[name] = value
        else:
            words.append(word)
    data = values.get("--data")
    home = None if data is None else Path(data)
    run = GlobalOptions(
        data=home,
        store=values.get("--store"),
        owner=values.get("--owner"),
        is_new_owner=is_new_owner,
        json=is_json,
    )
    return run, words


def report_failure(tokens: Sequence[str], error: Exception) -> int:
    """Report the error that ended a command, and return the exit code."""
    if isinstance(error, WrongUsage):
        message = " ".join(str(error).split())
        hint = " ".join(("memoranda", *filter(None, (error.command,)), "--help"))
        _report(tokens, "usage", f"{message} Try: {hint}")
        return USAGE
    if isinstance(error, MemorandaError):
        _report(tokens, error.code, str(error))
    elif isinstance(error, OSError):
        path = f"{error.filename}: " if error.filename else ""
        _report(tokens, "unavailable", f"{path}{words_of(error)}")
    elif limit := _find_memory_limit(error):
        _report(tokens, "unavailable", limit)
    else:
        _report_unexpected(tokens, error)
    return REFUSED


def _find_memory_limit(error: Exception) -> str:
    """Return the message for an error that a limit of memory causes; empty for any other.

    A library that gets no memory raises errors of many kinds, so a low limit (`ulimit -v`) is taken for the cause.
    """
    limit = _SMALL_BYTES
    with contextlib.suppress(ImportError):
        # Not on Windows.
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            limit = _SMALL_BYTES
    if limit >= _SMALL_BYTES and not isinstance(error, MemoryError):
        return ""
    allowed = f"only {limit // 1_048_576} MB (ulimit -v)" if limit < _SMALL_BYTES else "too little"
    return (
        f"not enough memory: this process may use {allowed}; allow more, "
        "or switch the embedding model off (MEMORANDA_EMBEDDER=off), which needs the most"
    )


def _report(tokens: Sequence[str], code: str, message: str) -> None:
    """Print the message for a person, and with --json the code and the message for a program."""
    end = tokens.index("--") if "--" in tokens else len(tokens)
    if "--json" in tokens[:end]:
        text = message.encode("utf-8", "backslashreplace").decode("utf-8")
        print(dump({"error": {"code": code, "message": text}}).decode("utf-8"), flush=True)
    note(message, is_failure=True)


def _report_unexpected(tokens: Sequence[str], error: Exception) -> None:
    """Report an error that is a fault of Memoranda; its stack is shown only while debugging.

    Its message is never shown, because it may quote a memory.
    """
    if os.environ.get("MEMORANDA_LOG_LEVEL") == "debug" and not log_note(
        "unexpected failure", "error", error
    ):
        print(*error_locations(error), sep="\n", file=sys.stderr)
    hint = "set MEMORANDA_LOG_LEVEL=debug to see where, and please report it"
    _report(tokens, "internal", f"unexpected error in Memoranda; {hint}")
