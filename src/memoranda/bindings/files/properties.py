"""Properties: the YAML lines at the top of a note, read and changed without touching any other byte.

Read from parser events, which say where each value stands and never follow an alias: a document that would unfold to
gigabytes is a few lines here. Only the properties that are asked for are looked at; all others belong to the person.
A change replaces the characters of one value, or adds a line; whoever changes something reads the result again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Self

import msgspec

from memoranda.errors import InvalidInput

# The YAML parser is slow (about a MiB a second or less); properties written by hand are a page.
MAX_CHARS: Final = 65_536
MAX_DEPTH: Final = 64
# So many words are taken out of a list one by one; of more, the list is written anew.
_FEW: Final = 8
# What a plain scalar can hold in every reader of YAML, old and new.
_PLAIN = re.compile(r"[^\W\d_](?:[\w/.-]|(?<!,) (?=\w)|:(?=\w))*")
_RESERVED: Final = frozenset(
    ("true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf")
)
# Nothing is written there at all; null is written there.
Shape = Literal["text", "block text", "nothing", "null", "flow list", "block list", "other"]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A text and where it stands in the source."""

    text: str
    start: int
    end: int


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """One value: its shape, where it stands, and the texts it is made of."""

    shape: Shape
    key_end: int
    start: int
    end: int
    pieces: tuple[Piece, ...] = ()


class Properties:
    """The mapping at the top of a note."""

    def __init__(
        self, source: str, values: dict[str, Property], *, flow_end: int | None, indent: int
    ) -> None:
        self.source = source
        self._values = values
        # Where the closing brace of a mapping in braces stands.
        self._flow_end = flow_end
        self._indent = indent

    @classmethod
    def parse(cls, source: str) -> Self | None:
        """Read them; None if there is something else than a mapping. Raises InvalidInput where it is not YAML."""
        if len(source) > MAX_CHARS:
            raise InvalidInput(
                f"properties of {len(source)} characters are over the limit of {MAX_CHARS}"
            )
        # Imported here: the parser takes a while to load.
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            return cls._read(source, _content(YAML(typ="safe", pure=True).parse(source)))
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f" at line {mark.line + 2}" if mark is not None else ""
            raise InvalidInput(f"properties: not YAML{where}") from None
        except (ValueError, OverflowError):
            # An escape beyond Unicode.
            raise InvalidInput("properties: not YAML") from None

    @classmethod
    def _read(cls, source: str, events: Iterator[Any]) -> Self | None:
        first = next(events, None)
        if first is None:
            return cls(source, {}, flow_end=None, indent=0)
        if _name(first) != "MappingStart":
            return None
        values: dict[str, Property] = {}
        while _name(key := next(events)) != "MappingEnd":
            is_text = _name(key) == "Scalar"
            if not is_text:
                _skip(key, events)
            found = _property(key, next(events), events)
            if is_text and values.setdefault(key.value.casefold(), found) is not found:
                raise InvalidInput(f"properties: {key.value!r} stands there twice")
        if next(events, None) is not None:
            raise InvalidInput("properties: more than one document")
        end = key.start_mark.index if first.flow_style else None
        return cls(source, values, flow_end=end, indent=first.start_mark.column)

    def text(self, name: str) -> str | None:
        """A value that is a text, as it was written, whatever YAML would make of it."""
        found = self._values.get(name)
        return (
            found.pieces[0].text
            if found is not None and found.shape in ("text", "block text")
            else None
        )

    def words(self, name: str) -> tuple[str, ...]:
        """A list of texts; a text is a list of its words. Raises InvalidInput for anything else."""
        found = self._values.get(name)
        if found is None or found.shape in ("nothing", "null"):
            return ()
        if found.shape == "other":
            raise InvalidInput(f"properties: {name} is not a list of words")
        if found.shape in ("text", "block text"):
            return tuple(re.split(r"[,\s]+", found.pieces[0].text.strip(", \t\r\n")))
        return tuple(piece.text for piece in found.pieces if piece.text)

    def others(self, ours: Sequence[str]) -> list[str]:
        """The values of all other properties, as they stand there."""
        return [
            self.source[each.start : each.end].rstrip()
            for key, each in self._values.items()
            if key not in ours
        ]

    def __contains__(self, name: str) -> bool:
        return name in self._values

    # --- changing --------------------------------------------------------------------------------------

    def with_text(self, name: str, text: str, newline: str) -> Self:
        """The same with another text."""
        found = self._values.get(name)
        if found is None:
            return self._with_line(name, quoted(text), newline)
        if found.shape == "block text":
            return self._put(found.start, found.end, quoted(text) + newline)
        return self._with_value(found, quoted(text))

    def with_words(self, name: str, words: Sequence[str], newline: str) -> Self:
        """The same with another list: what stays in it stays where it is, new ones come last."""
        found = self._values.get(name)
        if found is None:
            return self._with_line(name, _listed(words), newline) if words else self
        if found.shape not in ("flow list", "block list"):
            return (
                self._with_value(found, _listed(words))
                if words or found.shape in ("text", "block text")
                else self
            )
        gone = [index for index, piece in enumerate(found.pieces) if piece.text not in words]
        if gone and found.shape == "block list":
            return self._without_lines([found.pieces[index] for index in gone]).with_words(
                name, words, newline
            )
        if len(gone) > _FEW:
            return self._with_value(found, _listed(words))
        if gone:
            return self._without(found, gone[0]).with_words(name, words, newline)
        known = {piece.text for piece in found.pieces}
        added = [quoted(each) for each in words if each not in known]
        return self._with_more(found, added, newline) if added else self

    def _with_value(self, found: Property, value: str) -> Self:
        if found.shape != "nothing":
            return self._put(found.start, found.end, value)
        colon = self.source.index(":", found.key_end) + 1
        return self._put(colon, colon, f" {value}")

    def _with_line(self, name: str, value: str, newline: str) -> Self:
        if self._flow_end is not None:
            return self._put(
                self._flow_end, self._flow_end, f"{', ' if self._values else ''}{name}: {value}"
            )
        start = "" if not self.source or self.source.endswith("\n") else newline
        return self._put(
            len(self.source),
            len(self.source),
            f"{start}{' ' * self._indent}{name}: {value}{newline}",
        )

    def _without(self, found: Property, index: int) -> Self:
        piece = found.pieces[index]
        if index + 1 < len(found.pieces):
            return self._put(piece.start, found.pieces[index + 1].start, "")
        # The last one goes with the comma before it; one that was alone with whatever stands behind it.
        return self._put(
            *((found.pieces[index - 1].end, piece.end) if index else (piece.start, found.end - 1)),
            "",
        )

    def _without_lines(self, pieces: Sequence[Piece]) -> Self:
        source = self.source
        for piece in reversed(pieces):
            source = source[: self._line_start(piece.start)] + source[self._line_end(piece.end) :]
        return self._again(source)

    def _with_more(self, found: Property, added: list[str], newline: str) -> Self:
        if not found.pieces:
            return self._put(found.end - 1, found.end - 1, ", ".join(added))
        last = found.pieces[-1]
        if found.shape == "flow list":
            return self._put(last.end, last.end, "".join(f", {each}" for each in added))
        end = self._line_end(last.end)
        lead = self.source[self._line_start(last.start) : last.start]
        return self._put(end, end, "".join(f"{lead}{each}{newline}" for each in added))

    def _line_start(self, index: int) -> int:
        return self.source.rfind("\n", 0, index) + 1

    def _line_end(self, index: int) -> int:
        found = self.source.find("\n", index)
        return len(self.source) if found < 0 else found + 1

    def _put(self, start: int, end: int, text: str) -> Self:
        return self._again(self.source[:start] + text + self.source[end:])

    def _again(self, source: str) -> Self:
        changed = type(self).parse(source)
        if changed is None:
            raise InvalidInput("properties: written in a way that cannot be changed here")
        return changed


def quoted(text: str) -> str:
    """A text as a scalar of YAML."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _RESERVED:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _listed(words: Sequence[str]) -> str:
    return f"[{', '.join(quoted(each) for each in words)}]"


def _name(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _content(events: Iterator[Any]) -> Iterator[Any]:
    """What stands in the document, never deeper than the limit."""
    depth = 0
    for event in events:
        name = _name(event)
        depth += name.endswith("Start") - name.endswith("End")
        if depth > MAX_DEPTH:
            raise InvalidInput(f"properties: nested deeper than {MAX_DEPTH} levels")
        if not name.startswith(("Stream", "Document", "Comment")):
            yield event


def _skip(event: Any, events: Iterator[Any]) -> Any:
    """Pass over a value; its last event."""
    depth = int(_name(event).endswith("Start"))
    while depth:
        event = next(events)
        depth += _name(event).endswith("Start") - _name(event).endswith("End")
    return event


def _property(key: Any, event: Any, events: Iterator[Any]) -> Property:
    place: dict[str, Any] = {"key_end": key.end_mark.index, "start": event.start_mark.index}
    name = _name(event)
    if name == "Scalar":
        return Property(
            shape=_scalar_shape(event), end=event.end_mark.index, **place, pieces=_pieces([event])
        )
    if name != "SequenceStart":
        return Property(shape="other", end=_skip(event, events).end_mark.index, **place)
    items: list[Any] = []
    while _name(each := next(events)) != "SequenceEnd":
        items.append(each)
        _skip(each, events)
    shape: Shape = "flow list" if event.flow_style else "block list"
    if any(_name(item) != "Scalar" for item in items):
        shape = "other"
    end = each.end_mark.index
    return Property(
        shape=shape, end=end, **place, pieces=_pieces(items) if shape != "other" else ()
    )


def _scalar_shape(event: Any) -> Shape:
    if event.style in ("|", ">"):
        return "block text"
    if event.style is None and event.value in ("", "~", "null", "Null", "NULL"):
        return "null" if event.value else "nothing"
    return "text"


def _pieces(events: Sequence[Any]) -> tuple[Piece, ...]:
    return tuple(
        Piece(text=event.value, start=event.start_mark.index, end=event.end_mark.index)
        for event in events
    )
