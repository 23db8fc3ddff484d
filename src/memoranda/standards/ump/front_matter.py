"""A reader of YAML front matter as the JSON values of a record (section 6.3).

It works on parser events instead of a YAML constructor, because a constructor guesses types: it turns `ump: 0.1` into a
number, `agent: NO` into a boolean and a time into a date. Anchors, aliases, tags, duplicate keys and several documents
are refused; a header does not need them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, TooLarge

# Characters. The YAML parser is slow (a MiB per second at most), and a header written by hand is a page.
MAX_YAML_CHARS: Final = 65_536

# YAML 1.2 core schema without the forms that JSON lacks: octal, hexadecimal, .inf, .nan, leading zeros.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS: Final = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
# Fields of a record whose values are not text.
_NUMBER_FIELDS: Final = frozenset(("confidence", "salience", "weight"))
_BOOLEAN_FIELDS: Final = frozenset(("exportable",))
_FREE: Final = ("body", "structured")


def parse_yaml(source: str) -> object:
    """Parse one YAML document. Raises InvalidInput."""
    if len(source) > MAX_YAML_CHARS:
        raise TooLarge(
            f"YAML front matter of {len(source)} characters is over the limit of {MAX_YAML_CHARS}"
        )
    # Imported here, because YAML is rare and the parser loads slowly.
    import ruamel.yaml

    try:
        value = _FrontMatterReader(
            ruamel.yaml.YAML(typ="safe", pure=True).parse(source)
        ).read_document()
    except ruamel.yaml.error.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f" at line {mark.line + 1} column {mark.column + 1}" if mark is not None else ""
        raise MalformedJson(f"front matter: not YAML{location}") from None
    except (ValueError, OverflowError):
        # An escape beyond Unicode raises this.
        raise MalformedJson("front matter: not YAML") from None
    # Escapes can still produce lone surrogates. The JSON parser applies the same rules to both kinds of header.
    return json_text.parse(json_text.dump(value))


class _FrontMatterReader:
    """A builder of values from a stream of YAML events. Raises InvalidInput."""

    def __init__(self, events: Iterator[object]) -> None:
        self._events = events

    def read_document(self) -> object:
        """Build the value of the only document. Raises InvalidInput."""
        value: Any = None
        documents = 0
        for event in self._events:
            name = type(event).__name__
            if name in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent", "CommentEvent"):
                continue
            if name == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise _unaccepted_error(event, "more than one document")
                value = self._build_value(self._next_event(), ())
        return value

    def _next_event(self) -> Any:
        return next(self._events)

    def _build_value(self, event: object, path: tuple[str, ...]) -> Any:
        """Build the value that begins with this event. `path` is its position in the document."""
        name = type(event).__name__
        if name == "AliasEvent" or getattr(event, "anchor", None) is not None:
            raise _unaccepted_error(event, "an anchor or alias")
        if getattr(event, "tag", None) is not None:
            raise _unaccepted_error(event, "a tag")
        if len(path) > json_text.MAX_DEPTH:
            raise _unaccepted_error(event, f"nested deeper than {json_text.MAX_DEPTH} levels")
        if name == "MappingStartEvent":
            return self._build_mapping(path)
        if name == "SequenceStartEvent":
            return self._build_sequence(path)
        return _read_scalar(event, path)

    def _build_mapping(self, path: tuple[str, ...]) -> dict[str, Any]:
        """Build an object up to the end of its events. Raises InvalidInput."""
        members: dict[str, Any] = {}
        while type(event := self._next_event()).__name__ != "MappingEndEvent":
            if (
                type(event).__name__ != "ScalarEvent"
                or event.anchor is not None
                or event.tag is not None
            ):
                raise _unaccepted_error(event, "a key that is not plain text")
            if event.value in members:
                raise _unaccepted_error(event, "a duplicate key")
            members[event.value] = self._build_value(self._next_event(), (*path, event.value))
        return members

    def _build_sequence(self, path: tuple[str, ...]) -> list[object]:
        """Build an array up to the end of its events. Raises InvalidInput."""
        items: list[Any] = []
        while type(event := self._next_event()).__name__ != "SequenceEndEvent":
            items.append(self._build_value(event, (*path, "")))
        return items


def _read_scalar(event: Any, path: tuple[str, ...]) -> object:
    """Return the value of a scalar, typed by its field."""
    text: str = event.value
    if event.style in ("'", '"', "|", ">"):
        return text
    if text in _NULLS:
        return None
    is_free = path[:2] == _FREE
    field = path[-1] if path else ""
    if text in _BOOLEANS and (is_free or field in _BOOLEAN_FIELDS):
        return _BOOLEANS[text]
    if (is_free or field in _NUMBER_FIELDS) and _NUMBER.fullmatch(text):
        return json_text.parse(text)
    return text


def _unaccepted_error(event: object, construct: str) -> InvalidInput:
    """Return the error for a construct that is not accepted."""
    mark = getattr(event, "start_mark", None)
    location = f" at line {mark.line + 1}" if mark is not None else ""
    return InvalidInput(f"front matter: {construct} is not accepted{location}")
