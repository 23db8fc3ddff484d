"""JSON as configurations have it: with comments and with commas before the end, edited as text.

The text is read once into a tree that knows where each value stands; an edit changes the characters around one of them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from memoranda.errors import InvalidInput
from memoranda.hosts.document import Entry, Slot, newline_of

# Deeper than any configuration, and not as deep as Python's own stack.
_MAX_DEPTH: Final = 100
_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"[-+.\w]+")
_INDENTED = re.compile(r"\n([ \t]+)\S")
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*(?:[^*\n]|\*(?!/))*\*/[ \t]*)*(?://[^\r\n]*)?(?=\r?\n)")
_BLANKS: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    node: _Node


@dataclass(frozen=True, slots=True)
class _Node:
    """A value, and where it stands; of an object also its members, of an array its items, which have no keys."""

    start: int
    end: int
    value: Any
    members: tuple[_Member, ...] = ()

    def member(self, key: str) -> _Member | None:
        found = [each for each in self.members if each.key == key]
        if len(found) > 1:
            raise InvalidInput(f'"{key}" stands there twice')
        return found[0] if found else None


class JsonComments:
    """JSON with comments."""

    def parse(self, text: str) -> Any:
        return _read(text).value if text.strip(_BLANKS) else {}

    def put(self, text: str, slot: Slot, value: Entry) -> str:
        alone: Any = [value] if slot.is_listed else {slot.name: value}
        if not text.strip(_BLANKS):
            return _dump(_nested(slot.path, alone), "", "  ", "\n") + "\n"
        node = _read(text)
        for depth, key in enumerate(slot.path):
            found = node.member(key)
            if found is None:
                return _add(text, node, key, _nested(slot.path[depth + 1 :], alone))
            if found.node.value is None:
                return _replace(text, found, _nested(slot.path[depth + 1 :], alone))
            node = found.node
        there = _entry(node, slot)
        if there is not None:
            return _replace(text, there, value)
        return _add(text, node, "" if slot.is_listed else slot.name, value)

    def take(self, text: str, slot: Slot) -> str:
        node = _read(text)
        for key in slot.path:
            found = node.member(key)
            if found is None:
                return text
            node = found.node
        there = _entry(node, slot)
        return text if there is None else _remove(text, node, node.members.index(there))


def _entry(node: _Node, slot: Slot) -> _Member | None:
    if not slot.is_listed:
        return node.member(slot.name)
    return next((each for each in node.members if slot.is_ours(each.node.value)), None)


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _add(text: str, node: _Node, key: str, value: Any) -> str:
    newline, close = newline_of(text), node.end - 1
    named = f"{json.dumps(key)}: " if key else ""
    if not node.members:
        outer = _indent_at(text, node.start)
        inner = outer + _unit(text)
        shown = f"{named}{_dump(value, inner, _unit(text), newline)}"
        left = text[node.start + 1 : close].rstrip(_BLANKS)
        return (
            f"{text[: node.start + 1]}{left}{newline}{inner}{shown}{newline}{outer}{text[close:]}"
        )
    last = node.members[-1].node.end
    if "\n" not in text[node.start : close]:
        after = _after_comma(text, last)
        comma = ", " if after is None else " "
        at = last if after is None else after
        return f"{text[:at]}{comma}{named}{json.dumps(value, ensure_ascii=False)}{text[at:]}"
    inner = _indent_at(text, node.members[-1].start)
    shown = f"{named}{_dump(value, inner, _unit(text), newline)}"
    after = _after_comma(text, last)
    at = _line_end(text, after or last, close)
    if after is not None:
        return f"{text[:at]}{newline}{inner}{shown},{text[at:]}"
    return f"{text[:last]},{text[last:at]}{newline}{inner}{shown}{text[at:]}"


def _replace(text: str, member: _Member, value: Any) -> str:
    node = member.node
    if (
        "\n" in text[node.start : node.end]
        or text[text.rfind("\n", 0, member.start) + 1 : member.start].isspace()
    ):
        shown = _dump(value, _indent_at(text, member.start), _unit(text), newline_of(text))
    else:
        shown = json.dumps(value, ensure_ascii=False)
    return text[: node.start] + shown + text[node.end :]


def _remove(text: str, node: _Node, place: int) -> str:
    member = node.members[place]
    after = _after_comma(text, member.node.end)
    # From the end of what stands before it, so that its line goes, too.
    start = len(text[: member.start].rstrip(_BLANKS))
    text = text[:start] + text[after or member.node.end :]
    if place and after is None:
        # What was the last but one has a comma too many now.
        comma = _after_comma(text, node.members[place - 1].node.end)
        if comma is not None:
            text = text[: comma - 1] + text[comma:]
    inside = text[node.start + 1 :]
    if len(node.members) == 1 and inside.lstrip(_BLANKS).startswith(("}", "]")):
        text = text[: node.start + 1] + inside.lstrip(_BLANKS)
    return text


def _after_comma(text: str, at: int) -> int | None:
    """Where the comma behind a value ends, if there is one."""
    found = _space(text, at)
    return found + 1 if text[found : found + 1] == "," else None


def _line_end(text: str, at: int, close: int) -> int:
    """Where the line ends on which a value does, behind the comments on it; right here if anything else follows."""
    found = _REST_OF_LINE.match(text, at, close)
    return found.end() if found else at


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """How far one step is indented: as far as the first line that is."""
    found = _INDENTED.search(text)
    return found[1] if found else "  "


def _dump(value: Any, indent: str, unit: str, newline: str) -> str:
    shown = json.dumps(value, ensure_ascii=False, indent=unit)
    return shown.replace("\n", newline + indent)


def _read(text: str) -> _Node:
    node = _value(text, _space(text, 0), 0)
    if (at := _space(text, node.end)) != len(text):
        raise _broken(text, at)
    return node


def _value(text: str, at: int, depth: int) -> _Node:
    start = text[at : at + 1]
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"it is nested deeper than {_MAX_DEPTH} levels")
    if start == "{":
        return _object(text, at, depth)
    if start == "[":
        return _array(text, at, depth)
    found = (_STRING if start == '"' else _WORD).match(text, at)
    if found is None:
        raise _broken(text, at)
    try:
        return _Node(at, found.end(), json.loads(found[0]))
    except ValueError:
        raise _broken(text, at) from None


def _object(text: str, at: int, depth: int) -> _Node:
    members: list[_Member] = []
    start, at = at, _space(text, at + 1)
    while text[at : at + 1] != "}":
        key = _STRING.match(text, at)
        colon = _space(text, key.end()) if key else at
        if key is None or text[colon : colon + 1] != ":":
            raise _broken(text, colon)
        node = _value(text, _space(text, colon + 1), depth + 1)
        members.append(_Member(json.loads(key[0]), at, node))
        at = _next(text, node.end, "}")
    return _Node(start, at + 1, {each.key: each.node.value for each in members}, tuple(members))


def _array(text: str, at: int, depth: int) -> _Node:
    items: list[_Member] = []
    start, at = at, _space(text, at + 1)
    while text[at : at + 1] != "]":
        node = _value(text, at, depth + 1)
        items.append(_Member("", at, node))
        at = _next(text, node.end, "]")
    return _Node(start, at + 1, [each.node.value for each in items], tuple(items))


def _next(text: str, at: int, close: str) -> int:
    at = _space(text, at)
    if text[at : at + 1] == ",":
        return _space(text, at + 1)
    if text[at : at + 1] != close:
        raise _broken(text, at)
    return at


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _broken(text: str, at: int) -> InvalidInput:
    line = text.count("\n", 0, at) + 1
    return InvalidInput(
        f"it is not JSON, not even with comments: line {line}, column {at - text.rfind(chr(10), 0, at)}"
    )
