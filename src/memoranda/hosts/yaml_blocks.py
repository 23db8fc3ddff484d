"""YAML, edited as lines: an entry is one more block under a key at the left margin."""

from __future__ import annotations

import json
import re
from typing import Any

from memoranda.errors import InvalidInput
from memoranda.hosts.document import Entry, Slot, lines_of, newline_of

_EMPTY = re.compile(r"(?:\{[ \t]*\}|\[[ \t]*\]|null|~)?[ \t]*(#.*)?")


class YamlBlocks:
    """YAML in blocks."""

    def parse(self, text: str) -> Any:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            found = YAML(typ="safe", pure=True).load(text)
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f": line {mark.line + 1}" if mark is not None else ""
            raise InvalidInput(f"it is not YAML{where}") from None
        return {} if found is None else found

    def put(self, text: str, slot: Slot, value: Entry) -> str:
        newline = newline_of(text)
        text = self.take(text, slot) if slot.entry(self.parse(text)) is not None else text
        lines = list(lines_of(text))
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += newline
        key = slot.path[0]
        start = _key_line(lines, key)
        if start is None:
            return "".join([*lines, f"{key}:{newline}", *_block(slot, value, "  ", newline)])
        end = _end_of(lines, start)
        children = [each for each in lines[start + 1 : end] if not _is_blank(each)]
        if not children:
            rest = _EMPTY.fullmatch(lines[start].rstrip("\r\n")[len(key) + 1 :].strip())
            if rest is None:
                raise InvalidInput(
                    f"{key} is written in one line; write its entries in lines of their own"
                )
            lines[start] = f"{key}:{'  ' + rest[1] if rest[1] else ''}{newline}"
        indent = _indent(children[0]) if children else "  "
        return "".join([*lines[:end], *_block(slot, value, indent, newline), *lines[end:]])

    def take(self, text: str, slot: Slot) -> str:
        lines, document = list(lines_of(text)), self.parse(text)
        start = _key_line(lines, slot.path[0])
        if start is None:
            return text
        end, expected = _end_of(lines, start), slot.take(document)
        starts = _child_lines(lines, start, end)
        for first, after in zip(starts, [*starts[1:], end], strict=True):
            while after > first and _is_blank(lines[after - 1]):
                after -= 1
            left = [*lines[:first], *lines[after:]]
            if len(starts) == 1:
                ending = lines[start][len(lines[start].rstrip("\r\n")) :]
                left[start] = f"{slot.path[0]}: {'[]' if slot.is_listed else '{}'}{ending}"
            if self.parse("".join(left)) == expected:
                return "".join(left)
        raise InvalidInput(f"the entry in {slot.path[0]} does not stand in lines of its own")


def _key_line(lines: list[str], key: str) -> int | None:
    return next((at for at, line in enumerate(lines) if line.startswith(f"{key}:")), None)


def _end_of(lines: list[str], start: int) -> int:
    """Behind the last line that belongs to the key."""
    end = start + 1
    for at in range(start + 1, len(lines)):
        if _is_blank(lines[at]):
            continue
        if not _indent(lines[at]) and not lines[at].startswith("- "):
            break
        end = at + 1
    return end


def _child_lines(lines: list[str], start: int, end: int) -> list[int]:
    inside = [at for at in range(start + 1, end) if not _is_blank(lines[at])]
    if not inside:
        return []
    indent = _indent(lines[inside[0]])
    return [at for at in inside if _indent(lines[at]) == indent]


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _block(slot: Slot, value: Entry, indent: str, newline: str) -> list[str]:
    pairs = [f"{key}: {json.dumps(each, ensure_ascii=False)}" for key, each in value.items()]
    if slot.is_listed:
        heads = [f"{indent}- {pairs[0]}", *(f"{indent}  {each}" for each in pairs[1:])]
    else:
        heads = [f"{indent}{slot.name}:", *(f"{indent}  {each}" for each in pairs)]
    return [each + newline for each in heads]
