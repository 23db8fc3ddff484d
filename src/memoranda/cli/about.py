"""help and version: the commands and the version of this program."""

from __future__ import annotations

from typing import Annotated

from memoranda import __version__
from memoranda.build import build_id, version_and_build
from memoranda.cli.catalogue import overview
from memoranda.cli.command_line import find_command
from memoranda.cli.help import help_of
from memoranda.cli.run import GivenRun, Parameter


def show_help(
    *command: Annotated[
        str, Parameter(name="COMMAND", help="The command (default: list all commands).")
    ],
    run: GivenRun,
) -> None:
    """Show all commands, or the help of one."""
    text = help_of(find_command(command)[1]) if command else overview()
    run.answer({"help": text}, lambda: print(text, end=""))


def version(*, run: GivenRun) -> None:
    """Show the version and build of Memoranda."""
    document = {"version": __version__, "build": build_id()}
    run.answer(document, lambda: print(version_and_build()))
