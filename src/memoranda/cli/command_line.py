"""From the words of a command line to one call of a command.

What almost everyone writes is read by `usual.py`. All the rest is the parser's, which takes as long to load as a store
takes to open: help, completion, unusual spellings, and whatever is wrong, because it says best what.

A text may start with a hyphen ("- buy milk", "-" for standard input), while a mistyped option must not become a
text. So what is no option by its looks is marked before anything else sees it, with a character that no command
line can contain, and the mark is taken off before the command does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from memoranda.cli.catalogue import SECTIONS, Entry, overview
from memoranda.cli.commands import App, Function, WrongUsage
from memoranda.cli.run import Run
from memoranda.cli.show import note
from memoranda.cli.usual import MARK, usual_call

_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?:=.*)?|--", re.DOTALL)
# Commands that stay, and whose standard error is a log.
_LOGGING = frozenset(("serve", "mcp"))
_WITH_VALUE = frozenset(("--data", "--store", "--owner"))
# What is about the parser itself: only it knows.
_ASKS_PARSER = frozenset(("--help", "-h", "--version", "--install-completion"))


def run_command(tokens: Sequence[str]) -> object:
    """Run what the tokens say. Raises WrongUsage."""
    end = tokens.index("--") if "--" in tokens else len(tokens)
    marked = [MARK + each if _is_text(each) else each for each in tokens[:end]]
    run, rest = _shared_options(marked)
    if {"--help", "-h"}.issuperset(rest):
        print(overview(), end="")
        return None
    if not _ASKS_PARSER.isdisjoint(marked) and not _is_unknown(rest):
        from memoranda.cli.parser import explain

        return explain([*marked, *tokens[end:]])
    return run_words([*rest, *tokens[end:]], run)


def run_words(words: Sequence[str], run: Run) -> object:
    """Run a command from its name on; the options of every command are read already."""
    entry = _entry(words)
    if entry is not None and entry.name in _LOGGING:
        from memoranda.cli.logs import set_up_early

        set_up_early()
    call = None if entry is None else _usual(entry, words[1:], run)
    if call is None:
        from memoranda.cli.parser import parsed_call

        # What stands after a name that no command has is of no command, either: not even a wish for help.
        call = parsed_call(words[:1] if entry is None else words, run, entry)
    from memoranda.service.core.noticing import noticing

    with noticing() as noticed:
        result = call()
    if noticed.kinds:
        note(str(noticed))
    return result


def _entry(words: Sequence[str]) -> Entry | None:
    return next((entry for section in SECTIONS for entry in section.entries if words[:1] == [entry.name]), None)


def _is_unknown(words: Sequence[str]) -> bool:
    """Whether a command is named that there is not."""
    return bool(words) and not words[0].startswith("-") and _entry(words) is None


def command_of(entry: Entry) -> Function | App:
    """What an entry of the catalogue names."""
    module, _, name = entry.target.partition(":")
    command: Function | App = getattr(import_module(module), name)
    return command


def _usual(entry: Entry, words: Sequence[str], run: Run) -> Callable[[], object] | None:
    command = command_of(entry)
    if isinstance(command, App):
        below = command.commands.get(words[0]) if words else None
        if below is not None:
            return usual_call(below.function, words[1:], run)
        if command.otherwise is None:
            return None
        command = command.otherwise
    return usual_call(command, words, run)


def _shared_options(tokens: list[str]) -> tuple[Run, list[str]]:
    """The options that every command has, and the tokens without them.

    Read here because to let the parser do it, with a second set of rules around the first, takes it twice as long.
    """
    found: dict[str, str] = {}
    rest: list[str] = []
    is_json, left = False, iter(tokens)
    for each in left:
        name, equals, value = each.partition("=")
        if each == "--json":
            is_json = True
        elif name in _WITH_VALUE:
            given = value if equals else next(left, None)
            if given is None:
                raise WrongUsage(f'Parameter "{name}" requires an argument.')
            found[name] = given.removeprefix(MARK)
        else:
            rest.append(each)
    data = found.get("--data")
    return Run(
        data=None if data is None else Path(data), store=found.get("--store"), owner=found.get("--owner"), json=is_json
    ), rest


def _is_text(token: str) -> bool:
    return token.startswith("-") and _OPTION.fullmatch(token) is None
