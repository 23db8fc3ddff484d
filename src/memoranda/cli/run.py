"""One run of a command: the options that all commands share, the open store, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from memoranda.cli.commands import Parameter
from memoranda.settings import Settings, load_settings

if TYPE_CHECKING:
    from memoranda.app import Memoranda


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What was said for every command, before or after its name."""

    data: Path | None = None
    store: str | None = None
    owner: str | None = None
    json: bool = False

    def settings(self, **overrides: Any) -> Settings:
        """The settings of this run; the command line wins over the environment."""
        home = self.data.expanduser() if self.data is not None else None
        return load_settings(home=home, store=self.store, owner=self.owner, **overrides)

    @contextmanager
    def open(self) -> Iterator[Memoranda]:
        """The store, with everything past its retention forgotten."""
        from memoranda.app import PATIENCE_SECONDS, Memoranda
        from memoranda.opening import open_service

        settings = self.settings()
        service = open_service(settings, patience_seconds=PATIENCE_SECONDS)
        with Memoranda(service, service.gate.local(settings.owner or None)) as memoranda:
            service.purge()
            yield memoranda

    def answer(self, document: object, say: Callable[[], None]) -> None:
        """The result: as JSON if that was asked for, else in words."""
        if self.json:
            print_json(document)
        else:
            say()


def print_json(document: object) -> None:
    """One JSON value on standard output, as UTF-8 whatever the terminal speaks; nothing in it that one would obey."""
    from memoranda.bindings.files.folder import standard_output
    from memoranda.encoding.json_text import dump

    with standard_output() as file:
        file.write(dump(document) + b"\n")


# A place in a memory has one common word, whatever its standard calls it.
PLACE_NAMES = ("--namespace", "--project")
# How a command takes its run: it is given by the parser, not typed by a person.
GivenRun = Annotated[Run, Parameter(is_typed=False)]
