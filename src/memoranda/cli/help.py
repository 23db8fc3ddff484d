"""Help of commands, read from their declarations; the reference page and completion scripts read the same pages."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from inspect import getdoc
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from memoranda.cli.catalogue import OPTIONS, SECTIONS, Entry
from memoranda.cli.command_line import load_command
from memoranda.cli.commands import App, Command, Function
from memoranda.cli.parser import Slot, read_slots

# Columns of a line of help; longer lines are hard to read on a wide terminal.
_WIDTH_LIMIT: Final = 100
# Columns of the names in a list; a longer name has its help below it.
_NAMES_WIDTH: Final = 26
_TYPE_NAMES: Final[dict[Any, str]] = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The help of one command."""

    path: tuple[str, ...]
    summary: str
    function: Function | None
    commands: dict[str, Command]

    @property
    def about(self) -> str:
        """The docstring, or the summary of a command that only has others below it."""
        text = getdoc(self.function) if self.function is not None else None
        return text or self.summary

    @property
    def slots(self) -> list[Slot]:
        return [] if self.function is None else read_slots(self.function)

    @property
    def arguments(self) -> list[Slot]:
        """The values that stand without a name, or may."""
        return [slot for slot in self.slots if slot.is_positional and not slot.options]

    @property
    def options(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.options]

    @property
    def usage(self) -> str:
        parts = ["memoranda", *self.path]
        if self.commands:
            parts.append("COMMAND" if self.function is None else "[COMMAND]")
        if self.options:
            parts.append("[OPTIONS]")
        for slot in self.arguments:
            name = f"{slot.placeholder}..." if slot.is_repeatable else slot.placeholder
            parts.append(name if slot.is_required else f"[{name}]")
        return " ".join(parts)


def pages() -> Iterator[Page]:
    """Yield the help of every command, in the order of the overview."""
    for section in SECTIONS:
        for entry in section.entries:
            yield from _pages_of(entry)


def _pages_of(entry: Entry) -> Iterator[Page]:
    command = load_command(entry)
    if not isinstance(command, App):
        yield Page(path=(entry.name,), summary=entry.summary, function=command, commands={})
        return
    yield Page(path=(entry.name,), summary=command.about, function=command.otherwise, commands=command.commands)
    for name, below in command.commands.items():
        yield Page(path=(entry.name, name), summary="", function=below.function, commands={})


def help_of(path: list[str]) -> str:
    """Return the help of the command that these words name."""
    entries = [entry for section in SECTIONS for entry in section.entries if entry.name == path[0]]
    page = next(page for page in _pages_of(entries[0]) if page.path == tuple(path))
    width = min(shutil.get_terminal_size().columns, _WIDTH_LIMIT)
    lines = [f"Usage: {page.usage}", ""]
    for paragraph in page.about.split("\n\n"):
        # An indented paragraph is an example.
        is_example = paragraph.startswith(" ")
        wrapped = paragraph.splitlines() if is_example else textwrap.wrap(" ".join(paragraph.split()), width)
        lines += [*wrapped, ""]
    for title, commands in grouped(page.commands):
        lines += [f"{title}:", *_table([(name, first_line(below)) for name, below in commands], width), ""]
    if page.arguments:
        lines += ["Arguments:", *_table([(argument_text(slot), help_text(slot)) for slot in page.arguments], width), ""]
    if page.options:
        lines += ["Options:", *_table([(option_text(slot), help_text(slot)) for slot in page.options], width), ""]
    lines += ["Options of every command:", *_table(list(OPTIONS[:-2]), width)]
    return "\n".join(lines) + "\n"


def grouped(commands: dict[str, Command]) -> Iterator[tuple[str, list[tuple[str, Function]]]]:
    def order(item: tuple[str, Command]) -> tuple[int, str]:
        group = item[1].group
        return (0, "Commands") if group is None else (group.sort_key, group.title)

    for (_, title), members in groupby(sorted(commands.items(), key=order), order):
        yield title, [(name, command.function) for name, command in members]


def first_line(function: Function) -> str:
    return (getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")


def argument_text(slot: Slot) -> str:
    return f"{slot.placeholder}..." if slot.is_repeatable else slot.placeholder


def option_text(slot: Slot) -> str:
    names = ", ".join(filter(None, (*slot.options, slot.negative)))
    if slot.is_flag:
        return names
    kind = _TYPE_NAMES.get(slot.kind, "CHOICE")
    return f"{names} {kind}{'...' if slot.is_repeatable else ''}"


def help_text(slot: Slot) -> str:
    notes = [f"One of {', '.join(slot.choices)}."] if slot.choices else []
    if slot.is_required and slot.options:
        notes.append("Required.")
    return " ".join(filter(None, (slot.help, *notes)))


def _table(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    names_width = min(max((len(name) for name, _ in rows), default=0), _NAMES_WIDTH)
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(width - names_width - 4, 20)) or [""]
        if len(name) > names_width:
            yield f"  {name}"
            name = ""
        yield f"  {name:<{names_width}}  {wrapped[0]}".rstrip()
        yield from (f"  {'':<{names_width}}  {line}" for line in wrapped[1:])
