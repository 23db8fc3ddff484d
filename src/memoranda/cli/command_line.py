"""The parser: commands from the catalogue, loaded when they are used, and the options that all of them share.

A text may start with a hyphen ("- buy milk", "-" for standard input), while a mistyped option must not become a
text. So what is no option by its looks is marked before the parser sees it, with a character that no command
line can contain, and the mark is taken off before the command does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from memoranda import __version__
from memoranda.cli.catalogue import SECTIONS
from memoranda.cli.run import Run

SHARED = Group("Options of every command", sort_key=len(SECTIONS))
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?:=.*)?|--", re.DOTALL)
_MARK = "\0"


def run_command(tokens: Sequence[str]) -> object:
    """Run what the tokens say. Raises CycloptsError for wrong usage."""
    end = tokens.index("--") if "--" in tokens else len(tokens)
    marked = [_MARK + each if _is_text(each) else each for each in tokens[:end]]
    return command_line().meta(
        [*marked, *tokens[end:]], exit_on_error=False, print_error=False, result_action="return_value"
    )


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


@cache
def command_line() -> App:
    """The application; its `meta` reads the shared options and runs the command with them."""
    app = App(
        name="memoranda",
        help="The memory of AI agents, kept by the people it belongs to.",
        version=__version__,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(negative_iterable="", negative_bool="", show_default=False),
    )
    for place, section in enumerate(SECTIONS):
        group = Group(section.title, sort_key=place)
        for entry in section.entries:
            app.command(entry.target, name=entry.name, group=group)

    @app.meta.default
    def _(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        data: Annotated[Path | None, Parameter(group=SHARED, help="The data directory (MEMORANDA_HOME).")] = None,
        store: Annotated[
            str | None, Parameter(group=SHARED, help="The store, as sqlite:///PATH (MEMORANDA_STORE).")
        ] = None,
        owner: Annotated[str | None, Parameter(group=SHARED, help="Whose memory it is (MEMORANDA_OWNER).")] = None,
        json: Annotated[
            bool, Parameter(group=SHARED, help="Answer in JSON, and write nothing else to standard output.")
        ] = False,
    ) -> object:
        command, bound, ignored = app.parse_args(tokens, exit_on_error=False, print_error=False)
        for name, value in bound.arguments.items():
            bound.arguments[name] = _unmarked(value)
        if "run" in ignored:
            bound.arguments["run"] = Run(data=data, store=store, owner=owner, json=json)
        return command(*bound.args, **bound.kwargs)

    return app
