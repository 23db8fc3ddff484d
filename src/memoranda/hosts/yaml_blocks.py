"""Edits of YAML as lines: an entry is a block under a top-level key."""

from __future__ import annotations

import json
import re
from typing import Any

from memoranda.errors import InvalidInput
from memoranda.hosts.document import Entry, EntrySlot, detect_newline, split_lines

_EMPTY = re.compile(r"(?:\{[ \t]*\}|\[[ \t]*\]|null|~)?[ \t]*(#.*)?")


class YamlBlocks:
    """The format of YAML files in block style."""

    def parse(self, text: str) -> Any:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            document = YAML(typ="safe", pure=True).load(text)
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f": line {mark.line + 1}" if mark is not None else ""
            raise InvalidInput(f"it is not YAML{where}") from None
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
            f"the entry in {slot.path[0]} shares a line with others; remove it by hand"
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
