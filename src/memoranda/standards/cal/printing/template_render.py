"""Rendering of templates (section 10.6): text with tags, filled from the recalled grains.

A template is parsed once into pieces. It cannot fetch data: each variable is a row of the tables at the end of this
module. Sections that a template omits come from its parent, which is one of the formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import msgspec

from memoranda.errors import QueryError
from memoranda.standards.cal.fields import PLURAL_OF
from memoranda.standards.cal.item import value_of
from memoranda.standards.cal.language import template
from memoranda.standards.cal.language.rules import RuleViolation
from memoranda.standards.cal.language.syntax import Sections
from memoranda.standards.cal.printing.elements import ContextFrame, Element
from memoranda.standards.cal.printing.formats import line_of
from memoranda.standards.cal.printing.projection import (
    Level,
    humanize,
    iso_time,
    project,
    relative_time,
    subject_of,
    text_of,
    to_text,
)
from memoranda.standards.oms.mapping import is_text
from memoranda.standards.sml.render import format_line, format_number

# Section 10.6: grains over which {{#each}} loops at most.
EACH_MAX_GRAINS: Final = 200
# Variables whose values depend on the size of the text that contains them.
USE_VARIABLES: Final = ("budget.used", "budget.remaining", "budget.utilization")
_DEFAULT_PARENT: Final = "readable"
_FORMAT_OF: Final = {"structured": "sml", "readable": "markdown", "compact": "text"}
# The sections of each parent around its elements, written as templates.
_PARENT_SECTIONS: Final[Mapping[str, Sections]] = {
    "structured": Sections(
        header='<context{{#assembly.intent}} intent="{{assembly.intent}}"{{/assembly.intent}}>\n',
        source_break="",
        footer="\n</context>",
    ),
    "readable": Sections(
        header="{{#assembly.intent}}## Context: {{assembly.intent}}\n{{/assembly.intent}}"
        "{{^assembly.intent}}{{#assembly.name}}## Context: {{assembly.name}}\n{{/assembly.name}}{{/assembly.intent}}",
        source_break="",
    ),
    "compact": Sections(),
}
# The end of a value that could become a tag together with the text after it.
_POSSIBLE_TAG_START: Final = re.compile(r"<(?=/?[a-z]*\Z)", re.IGNORECASE)
_QUOTE_OR_ANGLE: Final = re.compile(r'["<>]')


class SourcePart(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen grains of one source."""

    label: str
    # Index in FROM, from 0, and rank of priority, from 1.
    index: int
    priority: int
    elements: Sequence[Element] = ()
    tokens_used: int = 0
    truncated: bool = False


class SectionScope(msgspec.Struct, frozen=True, kw_only=True):
    """The data behind the variables of one section."""

    frame: ContextFrame
    level: Level
    now: int
    iso_times: bool
    parts: Sequence[SourcePart] = ()
    part: SourcePart | None = None
    element: Element | None = None

    def inside(self, part: SourcePart, element: Element | None = None) -> SectionScope:
        """Return the scope inside one source, or at one of its grains."""
        return SectionScope(
            frame=self.frame,
            level=self.level,
            now=self.now,
            iso_times=self.iso_times,
            parts=self.parts,
            part=part,
            element=element,
        )

    def grain_scopes(self) -> Iterator[SectionScope]:
        """Yield a scope for each chosen grain."""
        for part in self.parts:
            for element in part.elements:
                yield self.inside(part, element)


class _Variable(NamedTuple):
    """A tag that prints a variable."""

    name: str
    # True if it is inside the quotes of an attribute.
    in_quotes: bool


class _Block(NamedTuple):
    """`{{#name}}…{{/name}}`, or its opposite with `^`."""

    name: str
    is_inverted: bool
    pieces: list[_Piece]


_Piece: TypeAlias = str | _Variable | _Block


@lru_cache(maxsize=256)  # texts of sections
def _parse_pieces(section: str, text: str) -> tuple[_Piece, ...]:
    """Parse the text of a section into pieces. Raise QueryError if it is not well formed."""
    tags = template.find_tags(text)
    problem = tags if isinstance(tags, RuleViolation) else template.check_section(section, text)
    if problem is not None:
        raise QueryError(problem.message, cal_code=problem.code, suggestion=problem.suggestion)
    assert not isinstance(tags, RuleViolation)
    stack: list[list[_Piece]] = [[]]
    position, markup = 0, _MarkupState()
    for tag in tags:
        if literal := text[position : tag.start]:
            stack[-1].append(literal)
            markup.read_literal(literal)
        position = tag.end
        if tag.sign == "":
            stack[-1].append(_Variable(tag.name, markup.in_quotes))
        elif tag.sign == "/":
            stack.pop()
        elif tag.sign != "!":
            block = _Block(tag.name, tag.sign == "^", [])
            stack[-1].append(block)
            stack.append(block.pieces)
    if tail := text[position:]:
        stack[-1].append(tail)
    return tuple(stack[0])


class _MarkupState(msgspec.Struct):
    """The position of a tag in the markup of a template."""

    in_tag: bool = False
    in_quotes: bool = False

    def read_literal(self, literal: str) -> None:
        """Update the state by the text before the next tag."""
        for sign in _QUOTE_OR_ANGLE.findall(literal):
            if sign == '"':
                self.in_quotes = self.in_tag and not self.in_quotes
            elif not self.in_quotes:
                self.in_tag = sign == "<"


@dataclass(frozen=True, slots=True)
class TemplateRenderer:
    """A template, ready to be filled."""

    sections: Sections
    extends: str | None = None
    _parent: Sections = field(init=False)

    def __post_init__(self) -> None:
        parent = _PARENT_SECTIONS.get(self.extends or _DEFAULT_PARENT)
        if parent is None:
            code = "CAL-E086" if self.extends == "data" else "CAL-E087"
            raise QueryError("A template extends structured, readable or compact.", cal_code=code)
        object.__setattr__(self, "_parent", parent)
        for name in Sections.__struct_fields__:
            # Parsed now, so that a text that was never checked fails here, and cached for rendering.
            if (text := getattr(self.sections, name)) is not None:
                _parse_pieces(name.upper(), text)

    @property
    def shows_usage(self) -> bool:
        """True if the template prints how much of the budget the text takes."""
        templates = (getattr(self.sections, name) for name in Sections.__struct_fields__)
        return any(name in text for text in templates if text for name in USE_VARIABLES)

    def render_line(self, scope: SectionScope) -> str:
        """Return the line of one grain, with its line break."""
        element = scope.element
        assert element is not None
        text, name = self.sections.element, "ELEMENT"
        if element.level == "summary" and self.sections.element_summary is not None:
            text, name = self.sections.element_summary, "ELEMENT_SUMMARY"
        if text is None:
            format_name = _FORMAT_OF[self.extends or _DEFAULT_PARENT]
            return line_of(format_name, element, scope.now, iso_times=scope.iso_times)
        return self._fill(name, text, scope) + "\n"

    def try_loops(self, scope: SectionScope) -> None:
        """Render the loops of header and footer for one grain, so that one that cannot be printed fails now."""
        for name, text in (("HEADER", self.sections.header), ("FOOTER", self.sections.footer)):
            if text is not None and template.LOOP in text:
                self._fill(name, text, scope)

    def render_text(self, scope: SectionScope) -> str:
        """Return the whole text: the sources that print something, between header and footer."""
        output = [self._render_section("HEADER", self.sections.header, self._parent.header, scope)]
        has_printed = False
        for part in scope.parts:
            inside = scope.inside(part)
            printed = "".join(self._render_part(inside))
            if not printed:
                continue
            if has_printed:
                output.append(
                    self._render_section(
                        "SOURCE_BREAK",
                        self.sections.source_break,
                        self._parent.source_break,
                        inside,
                    )
                )
            has_printed = True
            output.append(printed)
        output.append(
            self._render_section("FOOTER", self.sections.footer, self._parent.footer, scope)
        )
        return "".join(output)

    def _render_part(self, scope: SectionScope) -> Iterator[str]:
        """Yield the lines of one source."""
        part = scope.part
        assert part is not None
        previous_type: str | None = None
        for element in part.elements:
            if self.sections.element is None:
                yield from self._render_title(previous_type, element.item.grain_type)
                previous_type = element.item.grain_type
            yield self.render_line(scope.inside(part, element))
        # Once for each source of which some grains did not fit (cal.md, *sections of templates*).
        if part.truncated and self.sections.element_omit is not None:
            yield self._fill("ELEMENT_OMIT", self.sections.element_omit, scope) + "\n"

    def _render_title(self, previous_type: str | None, grain_type: str) -> Iterator[str]:
        """Yield the title of a group; elements that the parent prints are grouped as the parent does."""
        parent = self.extends or _DEFAULT_PARENT
        if previous_type == grain_type or parent == "compact":
            return
        if previous_type is not None:
            yield "\n"
        if parent == "readable":
            yield f"**{PLURAL_OF[grain_type].capitalize()}**\n"

    def _render_section(
        self, name: str, own_template: str | None, inherited: str | None, scope: SectionScope
    ) -> str:
        """Return a section of the template, or the one inherited from its parent."""
        # Every section is followed by one line break (cal.md, *sections of templates*), except an inherited empty one.
        if own_template is not None:
            return self._fill(name, own_template, scope) + "\n"
        if inherited is None:
            return ""
        text = self._fill(name, inherited, scope)
        return text + "\n" if text or name == "SOURCE_BREAK" else ""

    def _fill(self, name: str, text: str, scope: SectionScope) -> str:
        """Return a section with its variables replaced."""
        return "".join(self._fill_pieces(_parse_pieces(name, text), scope))

    def _fill_pieces(self, pieces: Sequence[_Piece], scope: SectionScope) -> Iterator[str]:
        """Yield the pieces with their variables replaced."""
        for piece in pieces:
            if isinstance(piece, str):
                yield piece
            elif isinstance(piece, _Variable):
                yield self._format_value(variable_value(scope, piece.name), piece.in_quotes)
            elif piece.name == template.LOOP:
                for inner in islice(scope.grain_scopes(), EACH_MAX_GRAINS):
                    yield from self._fill_pieces(piece.pieces, inner)
            elif is_truthy(variable_value(scope, piece.name)) != piece.is_inverted:
                yield from self._fill_pieces(piece.pieces, scope)

    def _format_value(self, value: object, in_quotes: bool) -> str:
        """Return the value of a variable as text on one line."""
        if value is None:
            return ""
        if isinstance(value, int | float):
            return format_number(value)
        text = value if isinstance(value, str) else to_text(value)
        text = format_line(text)
        if self.extends != "structured":
            return text
        # A stored value must not form a tag, not even with the text after it (cal.md, *forged tags*).
        text = _POSSIBLE_TAG_START.sub("&lt;", text)
        return text.replace('"', "'") if in_quotes else text


def is_truthy(value: object) -> bool:
    """Return True unless the value is missing, false or empty; 0 is true (cal.md, *conditions in templates*)."""
    if value is None or value is False:
        return False
    return bool(value) if isinstance(value, str | Sequence | Mapping) else True


def variable_value(scope: SectionScope, name: str) -> object:
    """Return the value of a variable, or None if it has none here."""
    kind = name.partition(".")[0]
    if kind == "grain":
        return None if scope.element is None else _GRAIN_VARIABLES[name](scope.element, scope)
    if kind == "source":
        return None if scope.part is None else _SOURCE_VARIABLES[name](scope.part)
    return _GLOBAL_VARIABLES[name](scope)


def _content_value(element: Element, scope: SectionScope) -> str:
    """Return the text of a grain, as PROJECT defines it if there is one."""
    if element.shape is None:
        return text_of(element.item)
    return project(
        element.item, element.level, scope.now, iso_times=scope.iso_times, shape=element.shape
    ).text


def _tags_value(element: Element, _: SectionScope) -> str:
    """Return the tags of a grain, separated by commas."""
    tags = value_of(element.item, "tags")
    return ",".join(map(to_text, tags)) if isinstance(tags, list | tuple) else to_text(tags)


def _field_value(name: str) -> Callable[[Element, SectionScope], object]:
    """Return a reader of one field."""
    return lambda element, _: value_of(element.item, name)


def _subject_value(element: Element, _: SectionScope) -> object:
    """Return the subject of a grain."""
    item = element.item
    return subject_of(item) if is_text(item.grain_type, item.fields) else value_of(item, "subject")


def _created_at_value(element: Element, _: SectionScope) -> str | None:
    """Return the time at which a grain was created."""
    created_at = element.item.fields.get("created_at")
    return iso_time(created_at) if type(created_at) is int else None


def _relative_time_value(element: Element, scope: SectionScope) -> str | None:
    """Return the age of a grain in words, or its time if `iso_times`."""
    fields = element.item.fields
    instant_ms = fields.get("timestamp_ms", fields.get("created_at"))
    if type(instant_ms) is not int:
        return None
    return iso_time(instant_ms) if scope.iso_times else relative_time(instant_ms, scope.now)


_GRAIN_VARIABLES: Final[Mapping[str, Callable[[Element, SectionScope], object]]] = {
    "grain.content": _content_value,
    "grain.type": _field_value("type"),
    "grain.subject": _subject_value,
    "grain.relation": _field_value("relation"),
    "grain.humanized_relation": lambda element, _: humanize(value_of(element.item, "relation")),
    "grain.object": _field_value("object"),
    "grain.confidence": _field_value("confidence"),
    "grain.importance": _field_value("importance"),
    "grain.tags": _tags_value,
    "grain.created_at": _created_at_value,
    "grain.relative_time": _relative_time_value,
    "grain.score": _field_value("score"),
    # Printed only by a template that names it (cal.md, *hashes*).
    "grain.hash": _field_value("hash"),
    "grain.is_full": lambda element, _: element.level == "full",
    "grain.is_summary": lambda element, _: element.level == "summary",
}
_SOURCE_VARIABLES: Final[Mapping[str, Callable[[SourcePart], object]]] = {
    "source.label": lambda part: part.label,
    "source.index": lambda part: part.index,
    "source.priority": lambda part: part.priority,
    "source.grain_count": lambda part: len(part.elements),
    "source.tokens_used": lambda part: part.tokens_used,
    "source.truncated": lambda part: part.truncated,
}
_GLOBAL_VARIABLES: Final[Mapping[str, Callable[[SectionScope], object]]] = {
    "assembly.name": lambda scope: scope.frame.name,
    "assembly.intent": lambda scope: scope.frame.intent,
    "assembly.source_count": lambda scope: len(scope.parts),
    "assembly.grain_count": lambda scope: sum(len(part.elements) for part in scope.parts),
    "budget.total": lambda scope: scope.frame.total,
    "budget.used": lambda scope: scope.frame.used,
    "budget.remaining": lambda scope: max(0, scope.frame.total - scope.frame.used),
    "budget.unit": lambda scope: scope.frame.unit,
    "budget.utilization": lambda scope: utilization(scope.frame.used, scope.frame.total),
    "disclosure.level": lambda scope: scope.level,
    "timestamp": lambda scope: iso_time(scope.now),
}


def utilization(used_units: int, total: int) -> float:
    """Return the used part of the budget, from 0.0 to 1.0."""
    return round(used_units / total, 4) if total else 0.0
