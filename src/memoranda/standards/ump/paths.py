"""Paths of `consent.redact` (section 2.7): JSONPath (RFC 9535) without filters, JSON Pointer (RFC 6901), and dots.

    $.body.structured.token   $['body']['structured']['token']   $.body.structured.keys[0]   $.body.structured[*]
    $..token   /body/structured/token   body/structured/token   body.structured.token   body.structured.keys.0

What cannot be read is None: whoever writes is told so, and of what is stored nothing is shown that it might have meant.
A step that is a number stands for an element of a list or for a field of that name: hiding too much is no leak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import orjson

from memoranda.encoding.shapes import fields_of
from memoranda.encoding.short_cache import short_cache
from memoranda.standards.ump.shapes import CLOSED, Record

_DIGITS_LIMIT: Final = 6
_NUMBER: Final = re.compile(rf"-?(?:0|[1-9]\d{{0,{_DIGITS_LIMIT - 1}}})", re.ASCII)
# The same in the dotted form, which counts from the start only.
_PLACE: Final = re.compile(rf"\d{{1,{_DIGITS_LIMIT}}}", re.ASCII)
_SLICE: Final = re.compile(
    rf"({_NUMBER.pattern})?\s*:\s*({_NUMBER.pattern})?\s*(?::\s*({_NUMBER.pattern})?)?", re.ASCII
)
# A name after a dot: whatever is no other part of a path. RFC 9535 allows fewer, the dotted form all of these.
_SHORTHAND: Final = re.compile(r"[^.\[\]*'\"]+")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class Step(msgspec.Struct, frozen=True):
    """What one step of a path selects: names, numbers, stretches or everything; at any depth below, if it descends."""

    selectors: tuple[str | int | slice, ...]
    descends: bool = False

    def keys(self, node: Any) -> list[Any]:
        """The keys or places of a node that are selected, each once."""
        found: dict[Any, None] = {}
        for selector in self.selectors:
            found.update(dict.fromkeys(_keys(node, selector)))
        return list(found)


EVERYTHING: Final = slice(None)
Path = tuple[Step, ...]


def _keys(node: Any, selector: str | int | slice) -> Iterator[Any]:
    if isinstance(node, dict):
        if selector == EVERYTHING:
            yield from node
        elif not isinstance(selector, slice) and str(selector) in node:
            yield str(selector)
    elif isinstance(node, list):
        if isinstance(selector, slice):
            yield from range(*selector.indices(len(node)))
        elif isinstance(selector, int) or _PLACE.fullmatch(selector):
            yield from range(len(node))[slice(int(selector), (int(selector) + 1) or None)]


# Few paths are written often.
@short_cache(1_024)
def parse_path(text: str) -> Path | None:
    """Read a path; None if it is none."""
    if text.startswith("/") or ("/" in text and text.partition("/")[0] in _FIELDS):
        return _pointer(text.removeprefix("/"))
    return _PathReader(text).path()


def leads_nowhere(path: Path) -> bool:
    """Whether no record can have what a path names: `body.token`, say, or `bdoy`. Then it is a mistake."""
    at = ""
    for step in path:
        if step.descends:
            return False
        known = CLOSED.get(at, ()) if at else _FIELDS
        names = [each for each in step.selectors if isinstance(each, str) and not _PLACE.fullmatch(each)]
        if names and known and not set(names) <= set(known):
            return True
        if len(step.selectors) != 1:
            return False
        if names:
            at = f"{at}.{names[0]}" if at else names[0]
            if at not in CLOSED:
                return False
    return False


_FIELDS: Final = fields_of(Record)


def _pointer(text: str) -> Path | None:
    parts = text.split("/")
    if not all(parts) or re.search(r"~(?![01])", text):
        return None
    return tuple(Step((part.replace("~1", "/").replace("~0", "~"),)) for part in parts)


class _PathReader:
    """Reads a JSONPath, or the same without its `$`."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def path(self) -> Path | None:
        steps: list[Step] = []
        is_rooted = self._take("$")
        while self._at < len(self._text):
            step = self._step(is_first=not steps and not is_rooted)
            if step is None:
                return None
            steps.append(step)
        return tuple(steps) or None

    def _step(self, *, is_first: bool) -> Step | None:
        if is_first:
            return self._shorthand(descends=False)
        if self._take(".."):
            return self._bracket(descends=True) if self._take("[") else self._shorthand(descends=True)
        if self._take("."):
            return self._shorthand(descends=False)
        return self._bracket(descends=False) if self._take("[") else None

    def _shorthand(self, *, descends: bool) -> Step | None:
        if self._take("*"):
            return Step((EVERYTHING,), descends)
        found = self._match(_SHORTHAND)
        return None if found is None else Step((found[0],), descends)

    def _bracket(self, *, descends: bool) -> Step | None:
        selectors: list[str | int | slice] = []
        while True:
            self._match(_SPACE)
            selector = self._selector()
            self._match(_SPACE)
            if selector is None:
                return None
            selectors.append(selector)
            if self._take("]"):
                return Step(tuple(selectors), descends)
            if not self._take(","):
                return None

    def _selector(self) -> str | int | slice | None:
        if self._take("*"):
            return EVERYTHING
        if (quoted := self._match(_QUOTED)) is not None:
            return _unquoted(quoted)
        if (stretch := self._match(_SLICE)) is not None:
            start, stop, step = (None if part is None else int(part) for part in stretch.groups())
            # RFC 9535 §2.3.4.2.2: a step of 0 selects nothing; nobody means that.
            return None if step == 0 else slice(start, stop, step)
        number = self._match(_NUMBER)
        return None if number is None else int(number[0])

    def _take(self, text: str) -> bool:
        is_there = self._text.startswith(text, self._at)
        self._at += len(text) if is_there else 0
        return is_there

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found


def _unquoted(quoted: re.Match[str]) -> str | None:
    """A quoted name; both quotes have JSON's escapes, and one for themselves."""
    inner = quoted[1] if quoted[1] is not None else quoted[2].replace("\\'", "'").replace('"', '\\"')
    try:
        return str(orjson.loads(f'"{inner}"'))
    except orjson.JSONDecodeError:
        return None
