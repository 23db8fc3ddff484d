"""Edits of JSON with comments and trailing commas, as text.

The text is parsed into a tree of nodes with character indices. An edit changes only the characters around one node.

Settings of editors and agents belong to the person, who wrote comments into them and arranged their lines. So the file
is never written again from its values: an edit finds the place of one member and changes the characters there, with the
indentation and line ends that the file uses. A file that this parser does not understand is refused and stays as it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from memoranda.errors import InvalidInput
from memoranda.hosts.document import Entry, EntrySlot, detect_newline

# Levels of nesting: more than any configuration has, and fewer than Python's stack allows.
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
    """A value and its character indices, with the members of an object, or the items of an array (without keys)."""

    start: int
    end: int
    value: object
    members: tuple[_Member, ...] = ()

    def member(self, key: str) -> _Member | None:
        """Return the member with a key; None without one. Raises InvalidInput if there are several."""
        matches = [member for member in self.members if member.key == key]
        if len(matches) > 1:
            raise InvalidInput(f'the key "{key}" occurs twice; remove one of them')
        return matches[0] if matches else None


class JsonComments:
    """The format of JSON files with comments."""

    def parse(self, text: str) -> Any:
        return _parse_document(text).value if text.strip(_BLANKS) else {}

    def add_entry(self, text: str, slot: EntrySlot, value: Entry) -> str:
        new_container: object = [value] if slot.is_listed else {slot.name: value}
        if not text.strip(_BLANKS):
            return _dump_indented(_nest(slot.path, new_container), "", "  ", "\n") + "\n"
        node = _parse_document(text)
        for depth, key in enumerate(slot.path):
            member = node.member(key)
            if member is None:
                return _add_member(text, node, key, _nest(slot.path[depth + 1 :], new_container))
            if member.node.value is None:
                return _replace_value(text, member, _nest(slot.path[depth + 1 :], new_container))
            node = member.node
        present = _find_entry(node, slot)
        if present is not None:
            return _replace_value(text, present, value)
        return _add_member(text, node, "" if slot.is_listed else slot.name, value)

    def remove_entry(self, text: str, slot: EntrySlot) -> str:
        node = _parse_document(text)
        for key in slot.path:
            member = node.member(key)
            if member is None:
                return text
            node = member.node
        present = _find_entry(node, slot)
        return text if present is None else _remove_member(text, node, node.members.index(present))


def _find_entry(node: _Node, slot: EntrySlot) -> _Member | None:
    if not slot.is_listed:
        return node.member(slot.name)
    return next((member for member in node.members if slot.is_ours(member.node.value)), None)


def _nest(path: tuple[str, ...], value: object) -> object:
    """Return a value inside nested objects, one for each key of a path."""
    for key in reversed(path):
        value = {key: value}
    return value


def _add_member(text: str, node: _Node, key: str, value: object) -> str:
    """Return the text with a member at the end of an object, or an item at the end of an array."""
    newline, close = detect_newline(text), node.end - 1
    prefix = f"{json.dumps(key)}: " if key else ""
    if not node.members:
        outer = _indent_of_line(text, node.start)
        inner = outer + _indent_unit(text)
        dumped = f"{prefix}{_dump_indented(value, inner, _indent_unit(text), newline)}"
        inside = text[node.start + 1 : close].rstrip(_BLANKS)
        return f"{text[: node.start + 1]}{inside}{newline}{inner}{dumped}{newline}{outer}{text[close:]}"
    last = node.members[-1].node.end
    if "\n" not in text[node.start : close]:
        after = _comma_end(text, last)
        comma = ", " if after is None else " "
        at = last if after is None else after
        return f"{text[:at]}{comma}{prefix}{json.dumps(value, ensure_ascii=False)}{text[at:]}"
    inner = _indent_of_line(text, node.members[-1].start)
    dumped = f"{prefix}{_dump_indented(value, inner, _indent_unit(text), newline)}"
    after = _comma_end(text, last)
    at = _line_end(text, after or last, close)
    if after is not None:
        return f"{text[:at]}{newline}{inner}{dumped},{text[at:]}"
    return f"{text[:last]},{text[last:at]}{newline}{inner}{dumped}{text[at:]}"


def _replace_value(text: str, member: _Member, value: object) -> str:
    """Return the text with another value of a member."""
    node = member.node
    if (
        "\n" in text[node.start : node.end]
        or text[text.rfind("\n", 0, member.start) + 1 : member.start].isspace()
    ):
        dumped = _dump_indented(
            value, _indent_of_line(text, member.start), _indent_unit(text), detect_newline(text)
        )
    else:
        dumped = json.dumps(value, ensure_ascii=False)
    return text[: node.start] + dumped + text[node.end :]


def _remove_member(text: str, node: _Node, index: int) -> str:
    """Return the text without a member, its comma and its line."""
    member = node.members[index]
    after = _comma_end(text, member.node.end)
    # Begin after the text before it, so that its line is removed too.
    start = len(text[: member.start].rstrip(_BLANKS))
    text = text[:start] + text[after or member.node.end :]
    if index and after is None:
        # Remove the comma of the member that is the last one now.
        comma = _comma_end(text, node.members[index - 1].node.end)
        if comma is not None:
            text = text[: comma - 1] + text[comma:]
    inside = text[node.start + 1 :]
    if len(node.members) == 1 and inside.lstrip(_BLANKS).startswith(("}", "]")):
        text = text[: node.start + 1] + inside.lstrip(_BLANKS)
    return text


def _comma_end(text: str, at: int) -> int | None:
    """Return the index after the comma that follows a value; None without a comma."""
    end = _skip_space(text, at)
    return end + 1 if text[end : end + 1] == "," else None


def _line_end(text: str, at: int, close: int) -> int:
    """Return the end of the line after a value and its comments; `at` itself if another value follows."""
    match = _REST_OF_LINE.match(text, at, close)
    return match.end() if match else at


def _indent_of_line(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_unit(text: str) -> str:
    """Return the indentation of one level, taken from the first indented line."""
    match = _INDENTED.search(text)
    return match[1] if match else "  "


def _dump_indented(value: object, indent: str, unit: str, newline: str) -> str:
    dumped = json.dumps(value, ensure_ascii=False, indent=unit)
    return dumped.replace("\n", newline + indent)


def _parse_document(text: str) -> _Node:
    node = _parse_value(text, _skip_space(text, 0), 0)
    if (at := _skip_space(text, node.end)) != len(text):
        raise _syntax_error(text, at)
    return node


def _parse_value(text: str, at: int, depth: int) -> _Node:
    """Return the node of the value at `at`. Raises InvalidInput."""
    start = text[at : at + 1]
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"it is nested deeper than {_MAX_DEPTH} levels")
    if start == "{":
        return _parse_object(text, at, depth)
    if start == "[":
        return _parse_array(text, at, depth)
    match = (_STRING if start == '"' else _WORD).match(text, at)
    if match is None:
        raise _syntax_error(text, at)
    try:
        return _Node(at, match.end(), json.loads(match[0]))
    except ValueError:
        raise _syntax_error(text, at) from None


def _parse_object(text: str, at: int, depth: int) -> _Node:
    members: list[_Member] = []
    start, at = at, _skip_space(text, at + 1)
    while text[at : at + 1] != "}":
        key = _STRING.match(text, at)
        colon = _skip_space(text, key.end()) if key else at
        if key is None or text[colon : colon + 1] != ":":
            raise _syntax_error(text, colon)
        node = _parse_value(text, _skip_space(text, colon + 1), depth + 1)
        members.append(_Member(json.loads(key[0]), at, node))
        at = _next_member(text, node.end, "}")
    return _Node(
        start, at + 1, {member.key: member.node.value for member in members}, tuple(members)
    )


def _parse_array(text: str, at: int, depth: int) -> _Node:
    items: list[_Member] = []
    start, at = at, _skip_space(text, at + 1)
    while text[at : at + 1] != "]":
        node = _parse_value(text, at, depth + 1)
        items.append(_Member("", at, node))
        at = _next_member(text, node.end, "]")
    return _Node(start, at + 1, [item.node.value for item in items], tuple(items))


def _next_member(text: str, at: int, close: str) -> int:
    at = _skip_space(text, at)
    if text[at : at + 1] == ",":
        return _skip_space(text, at + 1)
    if text[at : at + 1] != close:
        raise _syntax_error(text, at)
    return at


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _syntax_error(text: str, at: int) -> InvalidInput:
    line = text.count("\n", 0, at) + 1
    return InvalidInput(
        f"it is not valid JSON (comments are allowed): line {line}, column {at - text.rfind(chr(10), 0, at)}"
    )
