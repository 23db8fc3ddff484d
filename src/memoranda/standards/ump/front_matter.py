"""YAML front matter, read into the JSON values a record is made of (section 6.3).

Built from parser events rather than by a YAML constructor, because a constructor guesses types: it turns
`ump: 0.1` into a number, `agent: NO` into a boolean and a time into a date. Anchors, aliases, tags,
duplicate keys and several documents are refused; they have no place in a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, TooLarge

# The YAML parser is slow (about a MiB a second or less); a header written by hand is a page.
MAX_YAML_CHARS: Final = 65_536

# YAML 1.2 core schema, less the forms that JSON does not have: octal, hexadecimal, .inf, .nan, leading zeros.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# The fields of a record that hold something else than text.
_NUMBER_FIELDS: Final = frozenset(("confidence", "salience", "weight"))
_BOOLEAN_FIELDS: Final = frozenset(("exportable",))
_FREE: Final = ("body", "structured")


def parse_yaml(source: str) -> Any:
    """Read one YAML document. Raises InvalidInput."""
    if len(source) > MAX_YAML_CHARS:
        raise TooLarge(f"YAML front matter of {len(source)} characters is over the limit of {MAX_YAML_CHARS}")
    # Imported here: reading YAML is rare, and the parser takes a while to load.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        value = _FrontMatterReader(YAML(typ="safe", pure=True).parse(source)).document()
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1} column {mark.column + 1}" if mark is not None else ""
        raise MalformedJson(f"front matter: not YAML{where}") from None
    except (ValueError, OverflowError):
        # An escape beyond Unicode.
        raise MalformedJson("front matter: not YAML") from None
    # Escapes can still spell lone surrogates: one strict reader judges both kinds of header.
    return json_text.parse(json_text.dump(value))


class _FrontMatterReader:
    """Builds values from a stream of YAML events."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events

    def document(self) -> Any:
        value: Any = None
        documents = 0
        for event in self._events:
            name = type(event).__name__
            if name in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent", "CommentEvent"):
                continue
            if name == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise _refused(event, "more than one document")
                value = self._value(self._next(), ())
        return value

    def _next(self) -> Any:
        return next(self._events)

    def _value(self, event: Any, path: tuple[str, ...]) -> Any:
        name = type(event).__name__
        if name == "AliasEvent" or getattr(event, "anchor", None) is not None:
            raise _refused(event, "an anchor or alias")
        if getattr(event, "tag", None) is not None:
            raise _refused(event, "a tag")
        if len(path) > json_text.MAX_DEPTH:
            raise _refused(event, f"nested deeper than {json_text.MAX_DEPTH} levels")
        if name == "MappingStartEvent":
            return self._mapping(path)
        if name == "SequenceStartEvent":
            return self._sequence(path)
        return _scalar(event, path)

    def _mapping(self, path: tuple[str, ...]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while type(event := self._next()).__name__ != "MappingEndEvent":
            if type(event).__name__ != "ScalarEvent" or event.anchor is not None or event.tag is not None:
                raise _refused(event, "a key that is not plain text")
            if event.value in members:
                raise _refused(event, "a duplicate key")
            members[event.value] = self._value(self._next(), (*path, event.value))
        return members

    def _sequence(self, path: tuple[str, ...]) -> list[Any]:
        items: list[Any] = []
        while type(event := self._next()).__name__ != "SequenceEndEvent":
            items.append(self._value(event, (*path, "")))
        return items


def _scalar(event: Any, path: tuple[str, ...]) -> Any:
    text: str = event.value
    if event.style in ("'", '"', "|", ">"):
        return text
    if text in _NULLS:
        return None
    free = path[:2] == _FREE
    field = path[-1] if path else ""
    if text in _BOOLEANS and (free or field in _BOOLEAN_FIELDS):
        return _BOOLEANS[text]
    if (free or field in _NUMBER_FIELDS) and _NUMBER.fullmatch(text):
        return json_text.parse(text)
    return text


def _refused(event: Any, what: str) -> InvalidInput:
    mark = getattr(event, "start_mark", None)
    where = f" at line {mark.line + 1}" if mark is not None else ""
    return InvalidInput(f"front matter: {what} is not accepted{where}")
