"""Help of commands, read from their signatures and docstrings, and the commands `help` and `version`.

A `Page` holds the help of one command. The reference page and completion scripts are made from the same pages.

There is no second text to keep up to date: the summary is the first paragraph of a command's docstring, the rest of the
docstring follows, and the options are its annotated parameters. So the docstring of a command is written for its user,
without names of this code. The reference page in `docs` is made from the same pages, and the tests compare both.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Final

import msgspec

from memoranda import __version__
from memoranda.build import build_id, version_and_build
from memoranda.cli.catalogue import OPTIONS, SECTIONS, CommandEntry, Section, overview
from memoranda.cli.command_line import find_command, load_command
from memoranda.cli.parser import ParameterSlot, read_slots
from memoranda.cli.run import Function, GivenRun, Parameter

# Columns of a line of help; longer lines are hard to read on a wide terminal.
_WIDTH_LIMIT: Final = 100
# Columns of the names in a list; a longer name has its help below it.
_NAMES_WIDTH: Final = 26
_TYPE_NAMES: Final[dict[object, str]] = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}


class HelpPage(msgspec.Struct, frozen=True, kw_only=True):
    """The help of one command."""

    path: tuple[str, ...]
    summary: str
    # None if only the commands below it can run.
    function: Function | None
    # Commands below it, under their headings.
    sections: tuple[Section, ...] = ()

    @property
    def about(self) -> str:
        """The docstring of the function, or the summary where there is no function."""
        text = getdoc(self.function) if self.function is not None else None
        return text or self.summary

    @property
    def slots(self) -> list[ParameterSlot]:
        """The values that the command takes."""
        return [] if self.function is None else read_slots(self.function)

    @property
    def arguments(self) -> list[ParameterSlot]:
        """The values without an option name."""
        return [slot for slot in self.slots if slot.is_positional and not slot.options]

    @property
    def options(self) -> list[ParameterSlot]:
        """The values with an option name."""
        return [slot for slot in self.slots if slot.options]

    @property
    def usage(self) -> str:
        """The usage line, such as `memoranda get [OPTIONS] ID`."""
        parts = ["memoranda", *self.path]
        if self.sections:
            parts.append("COMMAND" if self.function is None else "[COMMAND]")
        if self.options:
            parts.append("[OPTIONS]")
        for slot in self.arguments:
            name = f"{slot.placeholder}..." if slot.is_repeatable else slot.placeholder
            parts.append(name if slot.is_required else f"[{name}]")
        return " ".join(parts)


def pages() -> Iterator[HelpPage]:
    """Yield the help of every command, in the order of the overview."""
    for section in SECTIONS:
        for entry in section.entries:
            yield from _pages_of(entry)


def _pages_of(entry: CommandEntry) -> Iterator[HelpPage]:
    """Yield the help of a command, then that of each command below it."""
    function = load_command(entry) if entry.target else None
    yield HelpPage(
        path=(entry.name,), summary=entry.summary, function=function, sections=entry.sections
    )
    for below in entry.below.values():
        yield HelpPage(path=(entry.name, below.name), summary="", function=load_command(below))


def help_of(path: list[str]) -> str:
    """Return the help of the command that the words of `path` name."""
    entries = [entry for section in SECTIONS for entry in section.entries if entry.name == path[0]]
    page = next(page for page in _pages_of(entries[0]) if page.path == tuple(path))
    width = min(shutil.get_terminal_size().columns, _WIDTH_LIMIT)
    lines = [f"Usage: {page.usage}", ""]
    for paragraph in page.about.split("\n\n"):
        # An indented paragraph is an example.
        is_example = paragraph.startswith(" ")
        wrapped = (
            paragraph.splitlines()
            if is_example
            else textwrap.wrap(" ".join(paragraph.split()), width)
        )
        lines += [*wrapped, ""]
    for section in page.sections:
        rows = [(entry.name, first_line(load_command(entry))) for entry in section.entries]
        lines += [f"{section.title}:", *_table(rows, width), ""]
    if page.arguments:
        lines += [
            "Arguments:",
            *_table([(argument_text(slot), help_text(slot)) for slot in page.arguments], width),
            "",
        ]
    if page.options:
        lines += [
            "Options:",
            *_table([(option_text(slot), help_text(slot)) for slot in page.options], width),
            "",
        ]
    lines += ["Options of every command:", *_table(list(OPTIONS[:-2]), width)]
    return "\n".join(lines) + "\n"


def first_line(function: Function) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return (getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")


def argument_text(slot: ParameterSlot) -> str:
    """Return an argument as help shows it, such as `FILE...`."""
    return f"{slot.placeholder}..." if slot.is_repeatable else slot.placeholder


def option_text(slot: ParameterSlot) -> str:
    """Return the names of an option and the kind of its value, such as `--limit NUMBER`."""
    names = ", ".join(filter(None, (*slot.options, slot.negative)))
    if slot.is_flag:
        return names
    kind = _TYPE_NAMES.get(slot.kind, "CHOICE")
    return f"{names} {kind}{'...' if slot.is_repeatable else ''}"


def help_text(slot: ParameterSlot) -> str:
    """Return the help of a value, with its choices."""
    notes = [f"One of {', '.join(slot.choices)}."] if slot.choices else []
    notes += [f"{slot.range.capitalize()}."] if slot.range else []
    if slot.is_required and slot.options:
        notes.append("Required.")
    return " ".join(filter(None, (slot.help, *notes)))


def _table(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield lines with a name and its help, wrapped to the width; a long name has its help below it."""
    names_width = min(max((len(name) for name, _ in rows), default=0), _NAMES_WIDTH)
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(width - names_width - 4, 20)) or [""]
        if len(name) > names_width:
            yield f"  {name}"
            name = ""
        yield f"  {name:<{names_width}}  {wrapped[0]}".rstrip()
        yield from (f"  {'':<{names_width}}  {line}" for line in wrapped[1:])


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
