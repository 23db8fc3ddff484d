"""Declarations that a command makes about its parameters, and the error for a wrong command line.

`parser.py` reads the declarations to parse a command line, `help.py` to write help, the reference page and completion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

Function = Callable[..., Any]


class WrongUsage(Exception):
    """A mistake in the command line, found while parsing `command`, or before any command was recognised."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """The names and the help of a parameter; its type is the annotation. Each field of a class of options has one."""

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
