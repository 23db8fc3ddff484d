"""From the tokens of a command line to the command that runs.

Options of every command (`--data`, `--store`, `--owner`, `--json`) may stand before or behind its name. The catalogue
names every command and the module that has it, so that only the module of the one that runs is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from memoranda import __version__
from memoranda.cli.catalogue import SECTIONS, Entry, overview
from memoranda.cli.commands import App, Function, WrongUsage
from memoranda.cli.parser import is_option, parse_call, unknown
from memoranda.cli.run import Run
from memoranda.cli.show import note

_WITH_VALUE: Final = frozenset(("--data", "--store", "--owner"))
_HELP: Final = frozenset(("--help", "-h"))
# Commands that keep running, and whose standard error is a log.
_LOGGING: Final = frozenset(("serve", "mcp"))


def run_command(tokens: Sequence[str]) -> object:
    """Run the command that the tokens name. Raises WrongUsage."""
    end = tokens.index("--") if "--" in tokens else len(tokens)
    wants_help = not _HELP.isdisjoint(tokens[:end])
    run, words = _shared_options([word for word in tokens[:end] if word not in _HELP], is_lenient=wants_help)
    if wants_help:
        words = [word for word in words if not is_option(word)]
    if not words and end == len(tokens):
        print(overview(), end="")
        return None
    if words == ["--version"]:
        print(__version__)
        return None
    function, path, arguments = _find_command([*words, *tokens[end:]])
    if wants_help or function is None:
        from memoranda.cli.help import help_of

        print(help_of(path), end="")
        return None
    if path[0] in _LOGGING:
        from memoranda.cli.logs import set_up_early

        set_up_early()
    try:
        call = parse_call(function, arguments, run)
    except WrongUsage as error:
        raise WrongUsage(str(error), " ".join(path)) from None
    return _run(call)


def _run(call: Callable[[], object]) -> object:
    from memoranda.service.core.noticing import noticing

    with noticing() as noticed:
        result = call()
    if noticed.kinds:
        note(str(noticed))
    return result


def _find_command(words: Sequence[str]) -> tuple[Function | None, list[str], Sequence[str]]:
    """Return a command, the words that name it and the rest; None for one that only has others below it."""
    entries = {entry.name: entry for section in SECTIONS for entry in section.entries}
    entry = entries.get(words[0])
    if entry is None:
        kind = "option" if is_option(words[0]) else "command"
        raise WrongUsage(unknown(kind, words[0], entries))
    command = load_command(entry)
    if not isinstance(command, App):
        return command, [entry.name], words[1:]
    below = command.commands.get(words[1]) if len(words) > 1 else None
    if below is not None:
        return below.function, [entry.name, words[1]], words[2:]
    if command.otherwise is None and len(words) > 1:
        raise WrongUsage(unknown("command", words[1], command.commands), entry.name)
    return command.otherwise, [entry.name], words[1:]


def load_command(entry: Entry) -> Function | App:
    """Return the command that an entry of the catalogue names."""
    module, _, name = entry.target.partition(":")
    command: Function | App = getattr(import_module(module), name)
    return command


def _shared_options(tokens: Sequence[str], *, is_lenient: bool = False) -> tuple[Run, list[str]]:
    """Return the options that every command has, and the tokens without them. `is_lenient`: a value may be missing."""
    values: dict[str, str] = {}
    words: list[str] = []
    is_json, remaining = False, iter(tokens)
    for word in remaining:
        name, equals, text = word.partition("=")
        if word == "--json":
            is_json = True
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
    return Run(data=home, store=values.get("--store"), owner=values.get("--owner"), json=is_json), words
