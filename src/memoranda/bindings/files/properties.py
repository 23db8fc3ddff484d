"""Properties: the YAML lines at the top of a note, read and changed without touching any other byte.

The source is read as parser events, which have positions and never resolve an alias: otherwise a few lines could
expand to gigabytes. Only the properties that a caller asks for are interpreted; all others belong to the person. A
change replaces the characters of one value, or adds a line, and then the whole source is parsed again, which proves
that it is still valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Self

import msgspec

from memoranda.errors import InvalidInput

# Characters: the YAML parser reads about a mebibyte a second; properties written by hand are a page.
MAX_CHARS: Final = 65_536
MAX_DEPTH: Final = 64
# Words removed from a list one by one, each with a new parse; if there are more, the list is replaced as a whole.
_FEW_WORDS: Final = 8
# Text that needs no quotes in any reader of YAML, of version 1.1 or 1.2.
_PLAIN = re.compile(r"[^\W\d_](?:[\w/.-]|(?<!,) (?=\w)|:(?=\w))*")
_RESERVED: Final = frozenset(
    ("true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf")
)
# `nothing`: the value is empty; `null`: a word for null is written.
Shape = Literal["text", "block text", "nothing", "null", "flow list", "block list", "other"]


class Scalar(msgspec.Struct, frozen=True, kw_only=True):
    """A text and its position in the source."""

    text: str
    start: int
    end: int


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """A value: its shape, its position, and its texts if it is a text or a list of texts."""

    shape: Shape
    key_end: int
    start: int
    end: int
    scalars: tuple[Scalar, ...] = ()


class Properties:
    """The mapping at the top of a note; immutable, so a change returns a new one."""

    def __init__(
        self, source: str, values: dict[str, Property], *, flow_end: int | None, indent: int
    ) -> None:
        self.source = source
        self._values = values
        # The position of the closing brace; None unless the mapping is written in braces.
        self._flow_end = flow_end
        self._indent = indent

    @classmethod
    def parse(cls, source: str) -> Self | None:
        """Parse properties; None if they are not a mapping. Raises InvalidInput if they are not YAML."""
        if len(source) > MAX_CHARS:
            raise InvalidInput(
                f"properties of {len(source)} characters are over the limit of {MAX_CHARS}"
            )
        # Imported here, because the YAML parser is slow to load.
        import ruamel.yaml

        try:
            return cls._from_events(
                source, _content(ruamel.yaml.YAML(typ="safe", pure=True).parse(source))
            )
        except ruamel.yaml.error.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            location = f" at line {mark.line + 2}" if mark is not None else ""
            raise InvalidInput(f"properties: not YAML{location}") from None
        except (ValueError, OverflowError):
            # An escape beyond Unicode.
            raise InvalidInput("properties: not YAML") from None

    @classmethod
    def _from_events(cls, source: str, events: Iterator[Any]) -> Self | None:
        first = next(events, None)
        if first is None:
            return cls(source, {}, flow_end=None, indent=0)
        if _event_name(first) != "MappingStart":
            return None
        values: dict[str, Property] = {}
        while _event_name(key := next(events)) != "MappingEnd":
            is_text = _event_name(key) == "Scalar"
            if not is_text:
                _skip(key, events)
            value = _parse_property(key, next(events), events)
            if is_text and values.setdefault(key.value.casefold(), value) is not value:
                raise InvalidInput(f"properties: {key.value!r} occurs twice")
        if next(events, None) is not None:
            raise InvalidInput("properties: more than one document")
        end = key.start_mark.index if first.flow_style else None
        return cls(source, values, flow_end=end, indent=first.start_mark.column)

    def text(self, name: str) -> str | None:
        """Return a value that is a text, as it is written; YAML might read it as a number or a date."""
        value = self._values.get(name)
        if value is None or value.shape not in ("text", "block text"):
            return None
        return value.scalars[0].text

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, or the words of a text. Raises InvalidInput for anything else."""
        value = self._values.get(name)
        if value is None or value.shape in ("nothing", "null"):
            return ()
        if value.shape == "other":
            raise InvalidInput(f"properties: {name} is not a list of words")
        if value.shape in ("text", "block text"):
            return tuple(re.split(r"[,\s]+", value.scalars[0].text.strip(", \t\r\n")))
        return tuple(scalar.text for scalar in value.scalars if scalar.text)

    def entries(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list, or a single text; none for any other value."""
        value = self._values.get(name)
        if value is None or value.shape in ("nothing", "null", "other"):
            return ()
        return tuple(scalar.text for scalar in value.scalars if scalar.text)

    def other_values(self, ours: Sequence[str]) -> list[str]:
        """Return the source text of every property that is not named in `ours`."""
        return [
            self.source[value.start : value.end].rstrip()
            for name, value in self._values.items()
            if name not in ours
        ]

    def __contains__(self, name: str) -> bool:
        return name in self._values

    # --- changing --------------------------------------------------------------------------------------

    def with_text(self, name: str, text: str, newline: str) -> Self:
        """Return the properties with another text as a value."""
        value = self._values.get(name)
        if value is None:
            return self._with_line(name, quoted(text), newline)
        if value.shape == "block text":
            return self._replace(value.start, value.end, quoted(text) + newline)
        return self._with_value(value, quoted(text))

    def with_words(self, name: str, words: Sequence[str], newline: str) -> Self:
        """Return the properties with another list as a value: present words stay in place, new ones come last."""
        value = self._values.get(name)
        if value is None:
            return self._with_line(name, _flow_list(words), newline) if words else self
        if value.shape not in ("flow list", "block list"):
            is_needed = words or value.shape in ("text", "block text")
            return self._with_value(value, _flow_list(words)) if is_needed else self
        removed = [index for index, scalar in enumerate(value.scalars) if scalar.text not in words]
        if removed and value.shape == "block list":
            shorter = self._without_lines([value.scalars[index] for index in removed])
            return shorter.with_words(name, words, newline)
        if len(removed) > _FEW_WORDS:
            return self._with_value(value, _flow_list(words))
        if removed:
            return self._without(value, removed[0]).with_words(name, words, newline)
        present = {scalar.text for scalar in value.scalars}
        added = [quoted(word) for word in words if word not in present]
        return self._with_more(value, added, newline) if added else self

    def _with_value(self, value: Property, text: str) -> Self:
        """Replace the source of a value."""
        if value.shape != "nothing":
            return self._replace(value.start, value.end, text)
        colon = self.source.index(":", value.key_end) + 1
        return self._replace(colon, colon, f" {text}")

    def _with_line(self, name: str, text: str, newline: str) -> Self:
        """Add a property at the end."""
        if self._flow_end is not None:
            separator = ", " if self._values else ""
            return self._replace(self._flow_end, self._flow_end, f"{separator}{name}: {text}")
        end = len(self.source)
        start = "" if not self.source or self.source.endswith("\n") else newline
        return self._replace(end, end, f"{start}{' ' * self._indent}{name}: {text}{newline}")

    def _without(self, value: Property, index: int) -> Self:
        """Remove one word of a flow list, with a comma."""
        scalar = value.scalars[index]
        if index + 1 < len(value.scalars):
            return self._replace(scalar.start, value.scalars[index + 1].start, "")
        if index:
            return self._replace(value.scalars[index - 1].end, scalar.end, "")
        # The only word, with everything up to the bracket.
        return self._replace(scalar.start, value.end - 1, "")

    def _without_lines(self, scalars: Sequence[Scalar]) -> Self:
        """Remove the lines of some words of a block list."""
        source = self.source
        for scalar in reversed(scalars):
            source = source[: self._line_start(scalar.start)] + source[self._line_end(scalar.end) :]
        return self._reparse(source)

    def _with_more(self, value: Property, added: list[str], newline: str) -> Self:
        """Add words, quoted already, to the end of a list."""
        if not value.scalars:
            return self._replace(value.end - 1, value.end - 1, ", ".join(added))
        last = value.scalars[-1]
        if value.shape == "flow list":
            return self._replace(last.end, last.end, "".join(f", {word}" for word in added))
        end = self._line_end(last.end)
        lead = self.source[self._line_start(last.start) : last.start]
        return self._replace(end, end, "".join(f"{lead}{word}{newline}" for word in added))

    def _line_start(self, index: int) -> int:
        return self.source.rfind("\n", 0, index) + 1

    def _line_end(self, index: int) -> int:
        newline = self.source.find("\n", index)
        return len(self.source) if newline < 0 else newline + 1

    def _replace(self, start: int, end: int, text: str) -> Self:
        return self._reparse(self.source[:start] + text + self.source[end:])

    def _reparse(self, source: str) -> Self:
        changed_properties = type(self).parse(source)
        if changed_properties is None:
            raise InvalidInput("properties: written in a way that cannot be changed here")
        return changed_properties


def quoted(text: str) -> str:
    """Return a text as a scalar of YAML, in quotes if it needs them."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _RESERVED:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _flow_list(words: Sequence[str]) -> str:
    return f"[{', '.join(quoted(word) for word in words)}]"


def _event_name(event: object) -> str:
    return type(event).__name__.removesuffix("Event")


def _content(events: Iterator[object]) -> Iterator[object]:
    """Yield the events of the values in a document. Raises InvalidInput if they are nested too deep."""
    depth = 0
    for event in events:
        name = _event_name(event)
        depth += name.endswith("Start") - name.endswith("End")
        if depth > MAX_DEPTH:
            raise InvalidInput(f"properties: nested deeper than {MAX_DEPTH} levels")
        if not name.startswith(("Stream", "Document", "Comment")):
            yield event


def _skip(event: object, events: Iterator[object]) -> Any:
    """Skip a value and return its last event."""
    depth = int(_event_name(event).endswith("Start"))
    while depth:
        event = next(events)
        depth += _event_name(event).endswith("Start") - _event_name(event).endswith("End")
    return event


def _parse_property(key: Any, event: Any, events: Iterator[Any]) -> Property:
    """Return the value that starts with an event."""
    position: dict[str, Any] = {"key_end": key.end_mark.index, "start": event.start_mark.index}
    name = _event_name(event)
    if name == "Scalar":
        return Property(
            shape=_scalar_shape(event),
            end=event.end_mark.index,
            **position,
            scalars=_scalars([event]),
        )
    if name != "SequenceStart":
        return Property(shape="other", end=_skip(event, events).end_mark.index, **position)
    items: list[object] = []
    while _event_name(item := next(events)) != "SequenceEnd":
        items.append(item)
        _skip(item, events)
    end = item.end_mark.index
    if any(_event_name(item) != "Scalar" for item in items):
        return Property(shape="other", end=end, **position)
    shape: Shape = "flow list" if event.flow_style else "block list"
    return Property(shape=shape, end=end, **position, scalars=_scalars(items))


def _scalar_shape(event: Any) -> Shape:
    if event.style in ("|", ">"):
        return "block text"
    if event.style is None and event.value in ("", "~", "null", "Null", "NULL"):
        return "null" if event.value else "nothing"
    return "text"


def _scalars(events: Sequence[Any]) -> tuple[Scalar, ...]:
    return tuple(
        Scalar(text=event.value, start=event.start_mark.index, end=event.end_mark.index)
        for event in events
    )
