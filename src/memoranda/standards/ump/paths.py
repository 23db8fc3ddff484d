"""The paths of `consent.redact` (section 2.7): JSONPath (RFC 9535) without filters, JSON Pointer (RFC 6901), dots.

    $.body.structured.token   $['body']['structured']['token']   $.body.structured.keys[0]   $.body.structured[*]
    $..token   /body/structured/token   body/structured/token   body.structured.token   body.structured.keys.0

An unreadable path parses to None. It is refused in a new record. In a stored record, everything that it might have
meant is redacted. A numeric step stands for an element of a list or for a field of that name, because redacting too
much leaks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import orjson

from memoranda.encoding.shapes import fields_of
from memoranda.encoding.short_cache import short_cache
from memoranda.standards.ump.shapes import CLOSED, Record

# Digits of an index.
_INDEX_DIGITS: Final = 6
_NUMBER: Final = re.compile(rf"-?(?:0|[1-9]\d{{0,{_INDEX_DIGITS - 1}}})", re.ASCII)
# An index in the dotted form, which has no negative numbers.
_INDEX: Final = re.compile(rf"\d{{1,{_INDEX_DIGITS}}}", re.ASCII)
_SLICE: Final = re.compile(
    rf"({_NUMBER.pattern})?\s*:\s*({_NUMBER.pattern})?\s*(?::\s*({_NUMBER.pattern})?)?", re.ASCII
)
# A name after a dot: any characters that have no other meaning in a path. RFC 9535 permits fewer, the dotted form all.
_SHORTHAND: Final = re.compile(r"[^.\[\]*'\"]+")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class PathStep(msgspec.Struct, frozen=True):
    """A step of a path: its selectors (names, indexes, slices, everything). It selects at any depth if it descends."""

    selectors: tuple[str | int | slice, ...]
    descends: bool = False

    def select_keys(self, node: object) -> list[object]:
        """Return the selected keys or indexes of a node, each once."""
        selected_keys: dict[object, None] = {}
        for selector in self.selectors:
            selected_keys.update(dict.fromkeys(_select_keys(node, selector)))
        return list(selected_keys)


EVERYTHING: Final = slice(None)
Path = tuple[PathStep, ...]


def _select_keys(node: object, selector: str | int | slice) -> Iterator[object]:
    """Yield the keys or indexes of a node that one selector selects."""
    if isinstance(node, dict):
        if selector == EVERYTHING:
            yield from node
        elif not isinstance(selector, slice) and str(selector) in node:
            yield str(selector)
    elif isinstance(node, list):
        if isinstance(selector, slice):
            yield from range(*selector.indices(len(node)))
        elif isinstance(selector, int) or _INDEX.fullmatch(selector):
            index = int(selector)
            # A slice selects nothing beyond the end, and also supports negative indexes.
            yield from range(len(node))[slice(index, (index + 1) or None)]


# Entries. Records share few different paths.
@short_cache(1_024)
def parse_path(text: str) -> Path | None:
    """Parse a path; return None if it is malformed."""
    if text.startswith("/") or ("/" in text and text.partition("/")[0] in _FIELDS):
        return _parse_pointer(text.removeprefix("/"))
    return _PathReader(text).parse()


def is_impossible_path(path: Path) -> bool:
    """Return True if no record can have what the path names, such as `body.token` or `bdoy`: it is a mistake."""
    location = ""
    for step in path:
        if step.descends:
            return False
        fields = CLOSED.get(location, ()) if location else _FIELDS
        names = [
            name for name in step.selectors if isinstance(name, str) and not _INDEX.fullmatch(name)
        ]
        if names and fields and not set(names) <= set(fields):
            return True
        if len(step.selectors) != 1:
            return False
        if names:
            location = f"{location}.{names[0]}" if location else names[0]
            if location not in CLOSED:
                return False
    return False


_FIELDS: Final = fields_of(Record)


def _parse_pointer(text: str) -> Path | None:
    """Parse a JSON Pointer; return None if it is malformed."""
    parts = text.split("/")
    if not all(parts) or re.search(r"~(?![01])", text):
        return None
    return tuple(PathStep((part.replace("~1", "/").replace("~0", "~"),)) for part in parts)


class _PathReader:
    """A parser for JSONPath, with or without its `$`. Its methods return None for malformed input."""

    def __init__(self, text: str) -> None:
        self._text, self._position = text, 0

    def parse(self) -> Path | None:
        """Parse the whole path."""
        steps: list[PathStep] = []
        is_rooted = self._take("$")
        while self._position < len(self._text):
            step = self._parse_step(is_first=not steps and not is_rooted)
            if step is None:
                return None
            steps.append(step)
        return tuple(steps) or None

    def _parse_step(self, *, is_first: bool) -> PathStep | None:
        """Parse one step."""
        if is_first:
            return self._parse_shorthand(descends=False)
        if self._take(".."):
            return (
                self._parse_bracket(descends=True)
                if self._take("[")
                else self._parse_shorthand(descends=True)
            )
        if self._take("."):
            return self._parse_shorthand(descends=False)
        return self._parse_bracket(descends=False) if self._take("[") else None

    def _parse_shorthand(self, *, descends: bool) -> PathStep | None:
        """Parse a name or a `*` after a dot."""
        if self._take("*"):
            return PathStep((EVERYTHING,), descends)
        name = self._match(_SHORTHAND)
        return None if name is None else PathStep((name[0],), descends)

    def _parse_bracket(self, *, descends: bool) -> PathStep | None:
        """Parse the selectors of a bracket up to its end."""
        selectors: list[str | int | slice] = []
        while True:
            self._match(_SPACE)
            selector = self._parse_selector()
            self._match(_SPACE)
            if selector is None:
                return None
            selectors.append(selector)
            if self._take("]"):
                return PathStep(tuple(selectors), descends)
            if not self._take(","):
                return None

    def _parse_selector(self) -> str | int | slice | None:
        """Parse one selector in a bracket."""
        if self._take("*"):
            return EVERYTHING
        if (quoted := self._match(_QUOTED)) is not None:
            return _unquote(quoted)
        if (bounds := self._match(_SLICE)) is not None:
            start, stop, step = map(_optional_integer, bounds.groups())
            # RFC 9535 §2.3.4.2.2: a step of 0 selects nothing. Treat it as a mistake.
            return None if step == 0 else slice(start, stop, step)
        number = self._match(_NUMBER)
        return None if number is None else int(number[0])

    def _take(self, text: str) -> bool:
        """Consume the text if it comes next; return True if it did."""
        matches = self._text.startswith(text, self._position)
        self._position += len(text) if matches else 0
        return matches

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consume and return the next match of the pattern, if any."""
        match = pattern.match(self._text, self._position)
        if match is not None:
            self._position = match.end()
        return match


def _optional_integer(text: str | None) -> int | None:
    """Parse a number that may be missing."""
    return None if text is None else int(text)


def _unquote(quoted: re.Match[str]) -> str | None:
    """Return the name in quotes; both kinds of quotes allow JSON's escapes and an escaped quote."""
    inner = quoted[1]
    if inner is None:
        # In single quotes: unescape those and escape double quotes, as JSON needs it.
        inner = quoted[2].replace("\\'", "'").replace('"', '\\"')
    try:
        return str(orjson.loads(f'"{inner}"'))
    except orjson.JSONDecodeError:
        return None
