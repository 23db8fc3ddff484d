"""The parser, cyclopts: what it is told of the commands in the catalogue, loaded when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import cyclopts

from memoranda import __version__
from memoranda.cli.catalogue import SECTIONS, Entry
from memoranda.cli.command_line import command_of, run_words
from memoranda.cli.commands import App, Function, Group, Parameter, WrongUsage, type_and_words
from memoranda.cli.run import Run
from memoranda.cli.usual import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED = cyclopts.Group("Options of every command", sort_key=len(SECTIONS))
_QUIET: Any = {"exit_on_error": False, "print_error": False}


def explain(tokens: Sequence[str]) -> object:
    """Answer what is about the parser itself, such as help. Raises WrongUsage."""
    with _in_our_words():
        return command_line().meta(tokens, result_action="return_value", **_QUIET)


def parsed_call(words: Sequence[str], run: Run, entry: Entry | None) -> Callable[[], object]:
    """The call that the words of a command ask for, from its name on. Raises WrongUsage."""
    # The parser looks at every command that there is, so of the others it is not told.
    app = command_line() if entry is None else _application([(None, [entry])])
    with _in_our_words("" if entry is None else entry.name):
        command, bound, ignored = app.parse_args(words, **_QUIET)
    for name, value in bound.arguments.items():
        bound.arguments[name] = _unmarked(value)
    if "run" in ignored:
        bound.arguments["run"] = run
    return partial(command, *bound.args, **bound.kwargs)


@contextmanager
def _in_our_words(command: str = "") -> Iterator[None]:
    try:
        yield
    except cyclopts.CycloptsError as error:
        raise WrongUsage(str(error), command) from error


def _unmarked(value: Any) -> Any:
    if isinstance(value, str):
        return value.removeprefix(MARK)
    if isinstance(value, tuple):
        return tuple(map(_unmarked, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _unmarked(getattr(value, each.name)) for each in fields(value)})
    return value


def __getattr__(name: str) -> cyclopts.App | Function:
    """A command of the catalogue by its name, as the parser wants it: it is told of them by their names alone."""
    for section in SECTIONS:
        for entry in section.entries:
            if entry.name == name:
                command = command_of(entry)
                return _group_of_commands(command) if isinstance(command, App) else _described(command)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _application(commands: Iterable[tuple[cyclopts.Group | None, Sequence[Entry]]]) -> cyclopts.App:
    app = _app("memoranda", "The memory of AI agents, kept by the people it belongs to.")
    for group, entries in commands:
        for entry in entries:
            app.command(f"{__name__}:{entry.name}", name=entry.name, group=group)
    return app


def _app(name: str, about: str) -> cyclopts.App:
    return cyclopts.App(
        name=name,
        help=about,
        version=__version__,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
        default_parameter=cyclopts.Parameter(negative_iterable="", negative_bool="", show_default=False),
    )


def _group_of_commands(declared: App) -> cyclopts.App:
    app = _app(declared.name, declared.about)
    for name, command in declared.commands.items():
        app.command(_described(command.function), name=name, group=command.group and _heading(command.group))
    if declared.otherwise is not None:
        app.default(_described(declared.otherwise))
    return app


@cache
def _heading(group: Group) -> cyclopts.Group:
    return cyclopts.Group(group.title, sort_key=group.sort_key)


def _described(function: Function) -> Function:
    """The command, with what is said about its parameters put in the parser's words."""
    function.__annotations__ = _annotations(function)
    return function


def _annotations(declared: Any) -> dict[str, Any]:
    hints = get_type_hints(declared, include_extras=True)
    return {name: hint if name == "return" else _annotation(hint) for name, hint in hints.items()}


def _annotation(hint: Any) -> Any:
    kind, said = type_and_words(hint)
    if is_dataclass(kind) and isinstance(kind, type):
        kind.__annotations__ = _annotations(kind)
        return Annotated[kind, cyclopts.Parameter(name="*")]
    # Both: whoever reads it next may be the one or the other.
    return Annotated[kind, said, _in_parser_words(said)]


def _in_parser_words(said: Parameter) -> cyclopts.Parameter:
    if not said.is_typed:
        return cyclopts.Parameter(parse=False)
    words: dict[str, Any] = {"name": said.name, "help": said.help, "negative": said.negative}
    return cyclopts.Parameter(**{name: value for name, value in words.items() if value})


@cache
def command_line() -> cyclopts.App:
    """The application; its `meta` knows the shared options too, for help and completion."""
    app = _application(
        (cyclopts.Group(section.title, sort_key=place), section.entries) for place, section in enumerate(SECTIONS)
    )

    @app.meta.default
    def _(
        *tokens: Annotated[str, cyclopts.Parameter(show=False, allow_leading_hyphen=True)],
        data: Annotated[
            Path | None, cyclopts.Parameter(group=SHARED, help="The data directory (MEMORANDA_HOME).")
        ] = None,
        store: Annotated[
            str | None,
            cyclopts.Parameter(group=SHARED, help="The store, as sqlite:///PATH or postgresql://… (MEMORANDA_STORE)."),
        ] = None,
        owner: Annotated[
            str | None, cyclopts.Parameter(group=SHARED, help="Whose memory it is (MEMORANDA_OWNER).")
        ] = None,
        json: Annotated[
            bool, cyclopts.Parameter(group=SHARED, help="Answer in JSON, and write nothing else to standard output.")
        ] = False,
    ) -> object:
        return run_words(tokens, Run(data=data, store=store, owner=owner, json=json))

    return app
