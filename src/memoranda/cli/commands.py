"""Declarations of commands: parameters, the commands below a command, and the headings under which help lists them.

`parser.py` reads them for one command line, `help.py` for help, the reference page and completion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, overload

import msgspec

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


class WrongUsage(Exception):
    """The command line says something that `command`, or none, understands. The message says what."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """Names and help of a parameter, beside its type. A class of options has none: each field has its own."""

    name: str | tuple[str, ...] = ()
    help: str = ""
    # The name that sets a flag to False.
    negative: str = ""
    # False for the run, which the parser passes and nobody types.
    is_typed: bool = True


def type_and_parameter(annotation: Any) -> tuple[Any, Parameter]:
    """Return the type of a parameter, and its names and help."""
    metadata = getattr(annotation, "__metadata__", ())
    kind = get_args(annotation)[0] if metadata else annotation
    return kind, next((item for item in metadata if isinstance(item, Parameter)), Parameter())


class Group(msgspec.Struct, frozen=True):
    """A heading under which commands are listed."""

    title: str
    sort_key: int = 0


class Command(msgspec.Struct, frozen=True):
    """One command below another."""

    function: Function
    group: Group | None = None


class App:
    """A command with commands below it."""

    def __init__(self, *, name: str, about: str) -> None:
        self.name = name
        self.about = about
        self.commands: dict[str, Command] = {}
        # The command that runs where none of those is named.
        self.otherwise: Function | None = None

    @overload
    def command(self, function: F, *, name: str | None = None, group: Group | None = None) -> F: ...
    @overload
    def command(self, *, name: str | None = None, group: Group | None = None) -> Callable[[F], F]: ...
    def command(self, function: Any = None, *, name: str | None = None, group: Group | None = None) -> Any:
        """Add a command: a decorator, with or without arguments."""

        def add(command: Function) -> Function:
            self.commands[name or command.__name__.replace("_", "-")] = Command(command, group)
            return command

        return add if function is None else add(function)

    def default(self, function: F) -> F:
        """Set what runs without the name of a command below: a decorator."""
        self.otherwise = function
        return function
