"""The parser: commands from the catalogue, loaded when they are used, and the options that all of them share.

A text may start with a hyphen ("- buy milk", "-" for standard input), while a mistyped option must not become a
text. So what is no option by its looks is marked before the parser sees it, with a character that no command
line can contain, and the mark is taken off before the command does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Group, Parameter

from memoranda import __version__
from memoranda.cli.catalogue import SECTIONS, Entry
from memoranda.cli.run import Run
from memoranda.cli.show import note
from memoranda.service.core.noticing import noticing

SHARED = Group("Options of every command", sort_key=len(SECTIONS))
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?:=.*)?|--", re.DOTALL)
_MARK = "\0"
_WITH_VALUE = frozenset(("--data", "--store", "--owner"))
# What is about the parser itself: only it knows.
_ASKS_PARSER = frozenset(("--help", "-h", "--version", "--install-completion"))


def run_command(tokens: Sequence[str]) -> object:
    """Run what the tokens say. Raises CycloptsError for wrong usage."""
    end = tokens.index("--") if "--" in tokens else len(tokens)
    marked = [_MARK + each if _is_text(each) else each for each in tokens[:end]]
    if not _ASKS_PARSER.isdisjoint(marked):
        return command_line().meta(
            [*marked, *tokens[end:]], exit_on_error=False, print_error=False, result_action="return_value"
        )
    run, rest = _shared_options(marked)
    known = next((entry for section in SECTIONS for entry in section.entries if rest[:1] == [entry.name]), None)
    # The parser looks at every command that there is, so of the others it is not told.
    app = command_line() if known is None else _application([(None, [known])])
    return _run(app, [*rest, *tokens[end:]], run)


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
                raise CycloptsError(msg=f'Parameter "{name}" requires an argument.')
            found[name] = given.removeprefix(_MARK)
        else:
            rest.append(each)
    data = found.get("--data")
    return Run(
        data=None if data is None else Path(data), store=found.get("--store"), owner=found.get("--owner"), json=is_json
    ), rest


def _run(app: App, tokens: Sequence[str], run: Run) -> object:
    command, bound, ignored = app.parse_args(tokens, exit_on_error=False, print_error=False)
    for name, value in bound.arguments.items():
        bound.arguments[name] = _unmarked(value)
    if "run" in ignored:
        bound.arguments["run"] = run
    with noticing() as noticed:
        result = command(*bound.args, **bound.kwargs)
    if noticed.kinds:
        note(str(noticed))
    return result


def _is_text(token: str) -> bool:
    return token.startswith("-") and _OPTION.fullmatch(token) is None


def _unmarked(value: Any) -> Any:
    if isinstance(value, str):
        return value.removeprefix(_MARK)
    if isinstance(value, tuple):
        return tuple(map(_unmarked, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _unmarked(getattr(value, each.name)) for each in fields(value)})
    return value


def _application(commands: Iterable[tuple[Group | None, Sequence[Entry]]]) -> App:
    app = App(
        name="memoranda",
        help="The memory of AI agents, kept by the people it belongs to.",
        version=__version__,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(negative_iterable="", negative_bool="", show_default=False),
    )
    for group, entries in commands:
        for entry in entries:
            app.command(entry.target, name=entry.name, group=group)
    return app


@cache
def command_line() -> App:
    """The application; its `meta` knows the shared options too, for help and completion."""
    app = _application(
        (Group(section.title, sort_key=place), section.entries) for place, section in enumerate(SECTIONS)
    )

    @app.meta.default
    def _(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        data: Annotated[Path | None, Parameter(group=SHARED, help="The data directory (MEMORANDA_HOME).")] = None,
        store: Annotated[
            str | None,
            Parameter(group=SHARED, help="The store, as sqlite:///PATH or postgresql://… (MEMORANDA_STORE)."),
        ] = None,
        owner: Annotated[str | None, Parameter(group=SHARED, help="Whose memory it is (MEMORANDA_OWNER).")] = None,
        json: Annotated[
            bool, Parameter(group=SHARED, help="Answer in JSON, and write nothing else to standard output.")
        ] = False,
    ) -> object:
        return _run(app, tokens, Run(data=data, store=store, owner=owner, json=json))

    return app
