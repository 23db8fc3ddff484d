"""One run of a command: its declared parameters, the options of every command, the open store, and the answer.

A command declares each parameter with a `Parameter` in its annotation. `parser.py` reads the declarations to parse a
command line, `help.py` to write help, the reference page and completion. The run is passed to the command last.

The owner named by `--owner` must exist, because a mistyped name must not become a new, empty memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec

from memoranda.cli.show import is_confirmed
from memoranda.encoding.json_text import dump
from memoranda.errors import NotFound
from memoranda.settings import Settings, load_settings

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.service.service import Service

Function = Callable[..., object]


class WrongUsage(Exception):
    """A mistake in the command line, found while parsing `command`, or before any command was recognised."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """The names and the help of a parameter; its type is the annotation. Each field of a class of options has one."""

    name: str | tuple[str, ...] = ()
    help: str = ""
    # The least and the greatest number that is allowed.
    minimum: float | None = None
    maximum: float | None = None
    # Names of the fields of requests that it sets, if these differ from its own name; messages name the option instead.
    fields: tuple[str, ...] = ()
    # The name that sets a flag to False.
    negative: str = ""
    # False for the run, which the parser passes and nobody types.
    is_typed: bool = True


def type_and_parameter(annotation: object) -> tuple[object, Parameter]:
    """Return the type of a parameter, and its names and help."""
    metadata = getattr(annotation, "__metadata__", ())
    kind = get_args(annotation)[0] if metadata else annotation
    return kind, next((item for item in metadata if isinstance(item, Parameter)), Parameter())


class GlobalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every command, as typed before or after its name."""

    data: Path | None = None
    store: str | None = None
    owner: str | None = None
    # True: the owner may be new in a store that has others.
    is_new_owner: bool = False
    json: bool = False

    def settings(self, **overrides: Any) -> Settings:
        """Return the settings of this run; the command line wins over the environment."""
        home = self.data.expanduser() if self.data is not None else None
        return load_settings(home=home, store=self.store, owner=self.owner, **overrides)

    @contextmanager
    def open(self) -> Iterator[Memoranda]:
        """Open the store, and erase memories past their retention period before anything is read."""
        # Help and commands without a store do without these, which take most of the start.
        from memoranda.app import PATIENCE_SECONDS, Memoranda
        from memoranda.opening import open_service

        settings = self.settings()
        service = open_service(settings, patience_seconds=PATIENCE_SECONDS)
        with Memoranda(service, service.gate.local(settings.owner or None)) as memoranda:
            if self.owner and not self.is_new_owner:
                check_owner_exists(service, self.owner)
            service.purge()
            yield memoranda

    def answer(self, document: object, show: Callable[[], None]) -> None:
        """Print the result: the document with --json, otherwise text by calling `show`."""
        if self.json:
            print_json(document)
        else:
            show()


# Each standard has its own word for where a memory belongs; these options work for all of them.
PLACE_NAMES = ("--namespace", "--project")
# The parameter of a command that receives its run; the parser passes it, nobody types it.
GivenRun = Annotated[GlobalOptions, Parameter(is_typed=False)]


def print_json(document: object) -> None:
    """Print one JSON value, as UTF-8 whatever the terminal's encoding, with control characters escaped."""
    # Imported here: text needs no module of files.
    from memoranda.bindings.files.folder import standard_output

    with standard_output() as file:
        file.write(dump(document) + b"\n")


def check_owner_exists(service: Service, owner: str) -> None:
    """Raise NotFound if a store has owners, this one is none of them, and no person confirms to create it."""
    system = service.context.engine.system
    owners = system.list_tenants()
    if (
        not owners
        or owner in (service.operator_did, *owners)
        or system.has_key(owner, service.context.clock())
    ):
        return
    # Imported here: few runs name an owner, and fewer mistype it.
    from difflib import get_close_matches

    similar = get_close_matches(owner, owners, n=1)
    hint = f", but there is {similar[0]}" if similar else ""
    message = f"this store has no owner {owner}{hint}"
    if sys.stdin.isatty() and is_confirmed(f"{message}. Create {owner}?"):
        return
    raise NotFound(f"{message}; to create it, add --new-owner")


def without_none(**fields: object) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
