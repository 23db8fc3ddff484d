"""How a command is declared: its parameters, the commands below it, and the headings under which help lists them.

The parser is told all of this (`parser.py`), but to declare a command does not load it: most command lines are read
without it (`usual.py`).
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
    """What is said about a parameter of a command beside its type. A class of options has none: each field has."""

    name: str | tuple[str, ...] = ()
    help: str = ""
    # What says no to it, where saying yes is the default or nothing is.
    negative: str = ""
    # Whether a person can say it at all.
    is_typed: bool = True


def type_and_words(annotation: Any) -> tuple[Any, Parameter]:
    """The type of a parameter, and what is said about it."""
    metadata = getattr(annotation, "__metadata__", ())
    kind = get_args(annotation)[0] if metadata else annotation
    return kind, next((each for each in metadata if isinstance(each, Parameter)), Parameter())


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
        # What it does where none of those is named.
        self.otherwise: Function | None = None

    @overload
    def command(self, function: F, *, name: str | None = None, group: Group | None = None) -> F: ...
    @overload
    def command(self, *, name: str | None = None, group: Group | None = None) -> Callable[[F], F]: ...
    def command(self, function: Any = None, *, name: str | None = None, group: Group | None = None) -> Any:
        """Add a command: a decorator, with or without arguments."""

        def added(given: Function) -> Function:
            self.commands[name or given.__name__.replace("_", "-")] = Command(given, group)
            return given

        return added if function is None else added(function)

    def default(self, function: F) -> F:
        """Say what it does by itself: a decorator."""
        self.otherwise = function
        return function
