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


class GlobalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every command, as typed before or after its name."""

    data: Path | None = None
    store: str | None = None
    owner: str | None = None
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
            service.purge()
            yield memoranda

    def answer(self, document: object, show: Callable[[], None]) -> None:
        """Print the result: the document with --json, otherwise text by calling `show`."""
        if self.json:
            from memoranda.cli.json_output import print_json

            print_json(document)
        else:
            show()


# Each standard has its own word for where a memory belongs; these options work for all of them.
PLACE_NAMES = ("--namespace", "--project")
# The parameter of a command that receives its run; the parser passes it, nobody types it.
GivenRun = Annotated[GlobalOptions, Parameter(is_typed=False)]
