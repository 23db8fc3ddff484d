"""Edits of configurations: the slot of an entry, checked edits, and the formats TOML, YAML and marked text.

A parsed configuration consists of dicts, lists and scalars. `EntrySlot` finds an entry in it and computes the
configuration with or without the entry. `add_entry` and `remove_entry` edit the text through a `ConfigFormat`, and
check that parsing the edited text gives exactly the computed configuration. A format edits the text itself, never a
regenerated document, so that comments, order and line ends stay. JSON has a module of its own, `json_comments`.

The check after every edit is what makes editing foreign files safe: the edited text is parsed, and must equal the
computed configuration in everything. So a mistake in an edit becomes a refusal, never a broken configuration. A new
format needs a class with the three methods of `ConfigFormat`, and cases with comments and odd spacing in `tests/hosts`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memoranda.encoding.passages import BEGIN, END
from memoranda.errors import InvalidInput, Unsupported

Entry = Mapping[str, object]
# The table or the list that holds the entries.
Container = dict[str, object] | list[object]


@dataclass(frozen=True, slots=True)
class EntrySlot:
    """The position of an entry: the path of keys to its container, and its name in it.

    In a list (`is_listed`), an entry has its name as a field. Hooks have no names; the one whose command contains
    `mark` is ours.
    """

    path: tuple[str, ...]
    name: str
    is_listed: bool = False
    mark: str = ""

    def is_ours(self, item: object) -> bool:
        """Return True if an item of the list is the entry."""
        if not self.mark:
            return isinstance(item, dict) and item.get("name") == self.name
        hooks = item.get("hooks") if isinstance(item, dict) else None
        return isinstance(hooks, list) and any(
            isinstance(hook, dict) and self.mark in str(hook.get("command")) for hook in hooks
        )

    def find_container(self, document: object) -> Container | None:
        """Return the container of the entries; None if it is missing. Raises InvalidInput if it has another type."""
        value = document
        for key in self.path:
            if value is None:
                return None
            value = _require_table(value, key).get(key)
        if isinstance(value, list) and self.is_listed:
            return value
        if isinstance(value, dict) and not self.is_listed:
            return value
        if value is None:
            return None
        raise InvalidInput(
            f"{'.'.join(self.path)} is not {'a list' if self.is_listed else 'a table'} there"
        )

    def find_entry(self, document: object) -> Any:
        """Return the entry; None if it is missing."""
        container = self.find_container(document)
        if isinstance(container, dict):
            return container.get(self.name)
        return next((item for item in container or () if self.is_ours(item)), None)

    def with_entry(self, document: object, value: Entry) -> object:
        """Return the document with this entry, which replaces one of the same name."""
        other_entries = self._other_entries(self.find_container(document))
        if isinstance(other_entries, dict):
            return self._rebuild(document, {**other_entries, self.name: dict(value)})
        return self._rebuild(document, [*other_entries, dict(value)])

    def without_entry(self, document: object) -> object:
        """Return the document without the entry."""
        container = self.find_container(document)
        if container is None:
            return document
        return self._rebuild(document, self._other_entries(container))

    def without_empty_container(self, document: object) -> object:
        """Return the document without an empty container, because some formats cannot express one."""
        if self.find_container(document) or not self.path:
            return document
        *outer, last = self.path
        here = EntrySlot(tuple(outer), last)
        return here.without_entry(document)

    def _other_entries(self, container: Container | None) -> Container:
        """Return a copy of a container without the entry."""
        if self.is_listed:
            return [item for item in container or () if not self.is_ours(item)]
        tables = container if isinstance(container, dict) else {}
        return {name: value for name, value in tables.items() if name != self.name}

    def _rebuild(self, document: object, container: Container, depth: int = 0) -> object:
        """Return the document with another container at the path."""
        if depth == len(self.path):
            return container
        here = document if isinstance(document, dict) else {}
        return {
            **here,
            self.path[depth]: self._rebuild(here.get(self.path[depth]), container, depth + 1),
        }


class ConfigFormat(Protocol):
    """A format of configuration files, and its edits."""

    def parse(self, text: str) -> Any:
        """Parse a text. Raises InvalidInput with the line if it is malformed."""

    def add_entry(self, text: str, slot: EntrySlot, value: Entry) -> str:
        """Return the text with the entry; the text may be empty."""

    def remove_entry(self, text: str, slot: EntrySlot) -> str:
        """Return the text without the entry."""


def add_entry(form: ConfigFormat, text: str, slot: EntrySlot, value: Entry) -> str:
    """Return the text with the entry. Raises Unsupported if parsing the result gives anything else."""
    document = form.parse(text)
    if slot.find_entry(document) == dict(value):
        return text
    edited = form.add_entry(text, slot, value)
    _check_edit(form, edited, slot, slot.with_entry(document, value))
    return edited


def remove_entry(form: ConfigFormat, text: str, slot: EntrySlot) -> str:
    """Return the text without the entry. Raises Unsupported if parsing the result gives anything else."""
    document = form.parse(text)
    if slot.find_entry(document) is None:
        return text
    edited = form.remove_entry(text, slot)
    _check_edit(form, edited, slot, slot.without_entry(document))
    return edited


def detect_newline(text: str) -> str:
    """Return the line end of a text."""
    return "\r\n" if "\r\n" in text else "\n"


def _check_edit(form: ConfigFormat, edited: str, slot: EntrySlot, expected: object) -> None:
    try:
        is_right = slot.without_empty_container(form.parse(edited)) == slot.without_empty_container(
            expected
        )
    except InvalidInput:
        is_right = False
    if not is_right:
        raise Unsupported(
            "the file cannot be edited safely, so nothing was changed; add the text yourself (--print shows it)"
        )


def _require_table(value: object, key: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InvalidInput(f"there is no place for {key} in it: it is not a table")
    return value


def split_lines(text: str) -> Sequence[str]:
    """Return the lines of a text with their ends, split only at line feeds."""
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]


_HEADER = re.compile(r"[ \t]*\[")


class TomlTables:
    """The format of TOML files: an entry is a table at the end of the file."""

    def parse(self, text: str) -> Any:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInput(f"it is not TOML: {error}") from None

    def add_entry(self, text: str, slot: EntrySlot, value: Entry) -> str:
        newline, text = detect_newline(text), self.remove_entry(text, slot)
        header = ".".join((*slot.path, slot.name))
        lines = [
            f"[{header}]",
            *(f"{key} = {json.dumps(item, ensure_ascii=False)}" for key, item in value.items()),
        ]
        before = text if not text or text.endswith("\n") else text + newline
        return (before + newline if before else "") + newline.join(lines) + newline

    def remove_entry(self, text: str, slot: EntrySlot) -> str:
        names = r"[ \t]*\.[ \t]*".join(f'"?{re.escape(key)}"?' for key in (*slot.path, slot.name))
        our_entry = re.compile(rf"[ \t]*\[[ \t]*{names}[ \t]*[.\]]")
        remaining: list[str] = []
        pending: list[str] = []
        is_ours = False
        for line in split_lines(text):
            if _HEADER.match(line):
                # Blank lines and comments before a header belong to the next table.
                remaining += pending
                is_ours, pending = our_entry.match(line) is not None, []
                if is_ours and remaining and not remaining[-1].strip():
                    remaining.pop()
            if not is_ours:
                remaining.append(line)
            elif not line.strip() or line.lstrip().startswith("#"):
                pending.append(line)
            else:
                pending = []
        return "".join(remaining + pending)


# Comments, which Markdown does not render.


class MarkedText:
    """A text for agents, such as AGENTS.md. Its only entry, `{"text": …}`, is our passage between two markers."""

    def parse(self, text: str) -> dict[str, object]:
        begin, end = _find_passage(text)
        if begin is None:
            return {"rest": _filled_lines(text)}
        passage = text[begin + len(BEGIN) : end - len(END)].replace("\r\n", "\n").strip("\n")
        return {
            "rest": _filled_lines(text[:begin]) + _filled_lines(text[end:]),
            "memoranda": {"text": passage},
        }

    def add_entry(self, text: str, slot: EntrySlot, value: Entry) -> str:  # noqa: ARG002  a text has one place for it
        newline = detect_newline(text)
        passage = "\n".join((BEGIN, str(value["text"]), END)).replace("\n", newline)
        begin, end = _find_passage(text)
        if begin is not None:
            return text[:begin] + passage + text[end:]
        before = text if not text or text.endswith("\n") else text + newline
        return (before + newline if before else "") + passage + newline

    def remove_entry(self, text: str, slot: EntrySlot) -> str:  # noqa: ARG002
        begin, end = _find_passage(text)
        if begin is None:
            return text
        tail = text[end:].lstrip("\r\n")
        return text[:begin].rstrip("\r\n") + (detect_newline(text) * (2 if tail else 1)) + tail


def _find_passage(text: str) -> tuple[int | None, int]:
    begin = text.find(BEGIN)
    end = text.find(END, begin)
    return (None, 0) if begin < 0 or end < 0 else (begin, end + len(END))


def _filled_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


_EMPTY = re.compile(r"(?:\{[ \t]*\}|\[[ \t]*\]|null|~)?[ \t]*(#.*)?")


class YamlBlocks:
    """The format of YAML files in block style: an entry is a block under a top-level key."""

    def parse(self, text: str) -> Any:
        # Loaded only for the few hosts with YAML: it takes longer to load than all other formats together.
        import ruamel.yaml

        try:
            document = ruamel.yaml.YAML(typ="safe", pure=True).load(text)
        except ruamel.yaml.error.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            location = f": line {mark.line + 1}" if mark is not None else ""
            raise InvalidInput(f"it is not YAML{location}") from None
        return {} if document is None else document

    def add_entry(self, text: str, slot: EntrySlot, value: Entry) -> str:
        newline = detect_newline(text)
        text = (
            self.remove_entry(text, slot) if slot.find_entry(self.parse(text)) is not None else text
        )
        lines = list(split_lines(text))
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += newline
        key = slot.path[0]
        start = _find_key_line(lines, key)
        if start is None:
            return "".join([*lines, f"{key}:{newline}", *_format_block(slot, value, "  ", newline)])
        end = _find_block_end(lines, start)
        children = [line for line in lines[start + 1 : end] if not _is_blank(line)]
        if not children:
            empty_value = _EMPTY.fullmatch(lines[start].rstrip("\r\n")[len(key) + 1 :].strip())
            if empty_value is None:
                raise InvalidInput(
                    f"{key} is written in one line, which cannot be edited; put each entry on its own line"
                )
            lines[start] = f"{key}:{'  ' + empty_value[1] if empty_value[1] else ''}{newline}"
        indent = _indent(children[0]) if children else "  "
        return "".join([*lines[:end], *_format_block(slot, value, indent, newline), *lines[end:]])

    def remove_entry(self, text: str, slot: EntrySlot) -> str:
        lines, document = list(split_lines(text)), self.parse(text)
        start = _find_key_line(lines, slot.path[0])
        if start is None:
            return text
        end, expected = _find_block_end(lines, start), slot.without_entry(document)
        starts = _find_child_lines(lines, start, end)
        for first, after in zip(starts, [*starts[1:], end], strict=True):
            while after > first and _is_blank(lines[after - 1]):
                after -= 1
            remaining = [*lines[:first], *lines[after:]]
            if len(starts) == 1:
                ending = lines[start][len(lines[start].rstrip("\r\n")) :]
                remaining[start] = f"{slot.path[0]}: {'[]' if slot.is_listed else '{}'}{ending}"
            if self.parse("".join(remaining)) == expected:
                return "".join(remaining)
        raise InvalidInput(
            f"the entry in {slot.path[0]} shares a line with other entries; remove it by hand"
        )


def _find_key_line(lines: list[str], key: str) -> int | None:
    return next((at for at, line in enumerate(lines) if line.startswith(f"{key}:")), None)


def _find_block_end(lines: list[str], start: int) -> int:
    """Return the index after the last line that belongs to the key."""
    end = start + 1
    for at in range(start + 1, len(lines)):
        if _is_blank(lines[at]):
            continue
        if not _indent(lines[at]) and not lines[at].startswith("- "):
            break
        end = at + 1
    return end


def _find_child_lines(lines: list[str], start: int, end: int) -> list[int]:
    inside = [at for at in range(start + 1, end) if not _is_blank(lines[at])]
    if not inside:
        return []
    indent = _indent(lines[inside[0]])
    return [at for at in inside if _indent(lines[at]) == indent]


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _format_block(slot: EntrySlot, value: Entry, indent: str, newline: str) -> list[str]:
    """Return the lines of an entry."""
    pairs = [f"{key}: {json.dumps(line, ensure_ascii=False)}" for key, line in value.items()]
    if slot.is_listed:
        heads = [f"{indent}- {pairs[0]}", *(f"{indent}  {line}" for line in pairs[1:])]
    else:
        heads = [f"{indent}{slot.name}:", *(f"{indent}  {line}" for line in pairs)]
    return [line + newline for line in heads]
