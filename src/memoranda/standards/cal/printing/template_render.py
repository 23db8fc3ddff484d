"""Templates at work (section 10.6): text with tags, filled from what was recalled.

A template is read once into pieces. Nothing it holds can fetch anything: each variable is a row of the table at the
end. What a template leaves out comes from its parent, one of the formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from memoranda.errors import QueryError
from memoranda.standards.cal.fields import PLURAL_OF
from memoranda.standards.cal.item import value_of
from memoranda.standards.cal.language import template
from memoranda.standards.cal.language.rules import Problem
from memoranda.standards.cal.language.syntax import Sections
from memoranda.standards.cal.printing.elements import Element, Frame
from memoranda.standards.cal.printing.formats import line_of
from memoranda.standards.cal.printing.projection import (
    Level,
    humanize,
    iso_time,
    project,
    relative_time,
    subject_of,
    text_of,
    words,
)
from memoranda.standards.oms.mapping import is_text
from memoranda.standards.sml.render import one_line, plain_number

# Section 10.6: how often {{#each}} goes round.
EACH_MAX: Final = 200
# Their values depend on the text they stand in.
USE_VARIABLES: Final = ("budget.used", "budget.remaining", "budget.utilization")
_DEFAULT_PARENT: Final = "readable"
_FORMAT_OF: Final = {"structured": "sml", "readable": "markdown", "compact": "text"}
# The sections of the parents that stand around elements, in the words of a template.
_PARENTS: Final[Mapping[str, Sections]] = {
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
# The end of a value that a tag could begin with, if what follows it goes on with the name.
_OPEN_END: Final = re.compile(r"<(?=/?[a-z]*\Z)", re.IGNORECASE)
_QUOTE_OR_ANGLE: Final = re.compile(r'["<>]')


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one source contributes."""

    label: str
    # Its place in FROM, from 0, and its rank in PRIORITY, from 1.
    index: int
    priority: int
    elements: Sequence[Element] = ()
    tokens_used: int = 0
    truncated: bool = False


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What the variables of one section stand for."""

    frame: Frame
    level: Level
    now: int
    iso: bool
    parts: Sequence[Part] = ()
    part: Part | None = None
    element: Element | None = None

    def of(self, part: Part, element: Element | None = None) -> Scope:
        """The same inside one source, or at one of its grains."""
        return Scope(
            frame=self.frame,
            level=self.level,
            now=self.now,
            iso=self.iso,
            parts=self.parts,
            part=part,
            element=element,
        )

    def inner(self) -> Iterator[Scope]:
        """One for each grain that is included."""
        for part in self.parts:
            for element in part.elements:
                yield self.of(part, element)


class _Variable(NamedTuple):
    name: str
    # Whether it stands between the quotes of an attribute.
    in_quotes: bool


class _Block(NamedTuple):
    """`{{#name}}…{{/name}}`, or its opposite with `^`."""

    name: str
    inverted: bool
    pieces: list[Any]


_Piece: TypeAlias = str | _Variable | _Block


@lru_cache(maxsize=256)
def _read(section: str, text: str) -> tuple[_Piece, ...]:
    found = template.tags(text)
    problem = found if isinstance(found, Problem) else template.text_problem(section, text)
    if problem is not None:
        raise QueryError(problem.message, cal_code=problem.code, suggestion=problem.suggestion)
    assert not isinstance(found, Problem)
    stack: list[list[_Piece]] = [[]]
    at, markup = 0, _Markup()
    for tag in found:
        if literal := text[at : tag.start]:
            stack[-1].append(literal)
            markup.see(literal)
        at = tag.end
        if tag.sign == "":
            stack[-1].append(_Variable(tag.name, markup.in_quotes))
        elif tag.sign == "/":
            stack.pop()
        elif tag.sign != "!":
            block = _Block(tag.name, tag.sign == "^", [])
            stack[-1].append(block)
            stack.append(block.pieces)
    if rest := text[at:]:
        stack[-1].append(rest)
    return tuple(stack[0])


class _Markup(msgspec.Struct):
    """Where in the markup of a template a tag stands."""

    in_tag: bool = False
    in_quotes: bool = False

    def see(self, literal: str) -> None:
        for sign in _QUOTE_OR_ANGLE.findall(literal):
            if sign == '"':
                self.in_quotes = self.in_tag and not self.in_quotes
            elif not self.in_quotes:
                self.in_tag = sign == "<"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A template, ready to be filled."""

    sections: Sections
    extends: str | None = None
    _parent: Sections = field(init=False)

    def __post_init__(self) -> None:
        parent = _PARENTS.get(self.extends or _DEFAULT_PARENT)
        if parent is None:
            code = "CAL-E086" if self.extends == "data" else "CAL-E087"
            raise QueryError("A template extends structured, readable or compact.", cal_code=code)
        object.__setattr__(self, "_parent", parent)
        for name in Sections.__struct_fields__:
            # Read once, and refused now if it was never checked.
            if (text := getattr(self.sections, name)) is not None:
                _read(name.upper(), text)

    @property
    def names_use(self) -> bool:
        """Whether it prints how much of the budget the text takes."""
        own = (getattr(self.sections, name) for name in Sections.__struct_fields__)
        return any(name in text for text in own if text for name in USE_VARIABLES)

    def line(self, scope: Scope) -> str:
        """One grain, with its line break."""
        element = scope.element
        assert element is not None
        text, name = self.sections.element, "ELEMENT"
        if element.level == "summary" and self.sections.element_summary is not None:
            text, name = self.sections.element_summary, "ELEMENT_SUMMARY"
        if text is None:
            format_name = _FORMAT_OF[self.extends or _DEFAULT_PARENT]
            return line_of(format_name, element, scope.now, iso=scope.iso)
        return self._filled(name, text, scope) + "\n"

    def try_loops(self, scope: Scope) -> None:
        """Fail now, and for this grain, if it cannot be printed where the header or the footer loop over all."""
        for name, text in (("HEADER", self.sections.header), ("FOOTER", self.sections.footer)):
            if text is not None and template.LOOP in text:
                self._filled(name, text, scope)

    def text(self, scope: Scope) -> str:
        """All of it: the parts that printed something, in their order, between header and footer."""
        out = [self._around("HEADER", self.sections.header, self._parent.header, scope)]
        has_printed = False
        for part in scope.parts:
            inside = scope.of(part)
            printed = "".join(self._body(inside))
            if not printed:
                continue
            if has_printed:
                out.append(self._around("SOURCE_BREAK", self.sections.source_break, self._parent.source_break, inside))
            has_printed = True
            out.append(printed)
        out.append(self._around("FOOTER", self.sections.footer, self._parent.footer, scope))
        return "".join(out)

    def _body(self, scope: Scope) -> Iterator[str]:
        part = scope.part
        assert part is not None
        before: str | None = None
        for element in part.elements:
            if self.sections.element is None:
                yield from self._title(before, element.item.grain_type)
                before = element.item.grain_type
            yield self.line(scope.of(part, element))
        # Once for each source that was cut short (cal.md, *sections of templates*).
        if part.truncated and self.sections.element_omit is not None:
            yield self._filled("ELEMENT_OMIT", self.sections.element_omit, scope) + "\n"

    def _title(self, before: str | None, grain_type: str) -> Iterator[str]:
        """Elements of the parent come in the groups of the parent."""
        parent = self.extends or _DEFAULT_PARENT
        if before == grain_type or parent == "compact":
            return
        if before is not None:
            yield "\n"
        if parent == "readable":
            yield f"**{PLURAL_OF[grain_type].capitalize()}**\n"

    def _around(self, name: str, own: str | None, inherited: str | None, scope: Scope) -> str:
        # Every section is followed by one line break (cal.md, *sections of templates*). A parent that has nothing to
        # say has no line.
        if own is not None:
            return self._filled(name, own, scope) + "\n"
        if inherited is None:
            return ""
        text = self._filled(name, inherited, scope)
        return text + "\n" if text or name == "SOURCE_BREAK" else ""

    def _filled(self, name: str, text: str, scope: Scope) -> str:
        return "".join(self._pieces(_read(name, text), scope))

    def _pieces(self, pieces: Sequence[_Piece], scope: Scope) -> Iterator[str]:
        for piece in pieces:
            if isinstance(piece, str):
                yield piece
            elif isinstance(piece, _Variable):
                yield self._shown(value_in(scope, piece.name), piece.in_quotes)
            elif piece.name == template.LOOP:
                for inner in islice(scope.inner(), EACH_MAX):
                    yield from self._pieces(piece.pieces, inner)
            elif is_true(value_in(scope, piece.name)) != piece.inverted:
                yield from self._pieces(piece.pieces, scope)

    def _shown(self, value: Any, in_quotes: bool) -> str:
        if value is None:
            return ""
        if isinstance(value, int | float):
            return plain_number(value)
        text = value if isinstance(value, str) else words(value)
        text = one_line(text)
        if self.extends != "structured":
            return text
        # What is stored cannot spell a tag, not even together with what stands behind it (cal.md, *forged tags*).
        text = _OPEN_END.sub("&lt;", text)
        return text.replace('"', "'") if in_quotes else text


def is_true(value: Any) -> bool:
    """There, not empty, not false; the number 0 is there (cal.md, *truth in templates*)."""
    if value is None or value is False:
        return False
    return bool(value) if isinstance(value, str | Sequence | Mapping) else True


def value_in(scope: Scope, name: str) -> Any:
    """What a variable stands for; None: nothing here."""
    kind = name.partition(".")[0]
    if kind == "grain":
        return None if scope.element is None else _OF_GRAIN[name](scope.element, scope)
    if kind == "source":
        return None if scope.part is None else _OF_SOURCE[name](scope.part)
    return _OF_ALL[name](scope)


def _content(element: Element, scope: Scope) -> str:
    if element.shape is None:
        return text_of(element.item)
    return project(element.item, element.level, scope.now, iso=scope.iso, shape=element.shape).text


def _tags(element: Element, _: Scope) -> str:
    tags = value_of(element.item, "tags")
    return ",".join(map(words, tags)) if isinstance(tags, list | tuple) else words(tags)


def _field(name: str) -> Callable[[Element, Scope], Any]:
    return lambda element, _: value_of(element.item, name)


def _subject(element: Element, _: Scope) -> Any:
    item = element.item
    return subject_of(item) if is_text(item.grain_type, item.fields) else value_of(item, "subject")


def _made(element: Element, _: Scope) -> str | None:
    made = element.item.fields.get("created_at")
    return iso_time(made) if type(made) is int else None


def _ago(element: Element, scope: Scope) -> str | None:
    fields = element.item.fields
    then = fields.get("timestamp_ms", fields.get("created_at"))
    if type(then) is not int:
        return None
    return iso_time(then) if scope.iso else relative_time(then, scope.now)


_OF_GRAIN: Final[Mapping[str, Callable[[Element, Scope], Any]]] = {
    "grain.content": _content,
    "grain.type": _field("type"),
    "grain.subject": _subject,
    "grain.relation": _field("relation"),
    "grain.humanized_relation": lambda element, _: humanize(value_of(element.item, "relation")),
    "grain.object": _field("object"),
    "grain.confidence": _field("confidence"),
    "grain.importance": _field("importance"),
    "grain.tags": _tags,
    "grain.created_at": _made,
    "grain.relative_time": _ago,
    "grain.score": _field("score"),
    # A template that asks for it prints it (cal.md, *hashes*).
    "grain.hash": _field("hash"),
    "grain.is_full": lambda element, _: element.level == "full",
    "grain.is_summary": lambda element, _: element.level == "summary",
}
_OF_SOURCE: Final[Mapping[str, Callable[[Part], Any]]] = {
    "source.label": lambda part: part.label,
    "source.index": lambda part: part.index,
    "source.priority": lambda part: part.priority,
    "source.grain_count": lambda part: len(part.elements),
    "source.tokens_used": lambda part: part.tokens_used,
    "source.truncated": lambda part: part.truncated,
}
_OF_ALL: Final[Mapping[str, Callable[[Scope], Any]]] = {
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


def utilization(used: int, total: int) -> float:
    """The part of the budget that is used, from 0.0 to 1.0."""
    return round(used / total, 4) if total else 0.0
