"""Grains as lines for people: the formats markdown, text and triples (sections 10.1, 14.2).

Each grain takes exactly one line, whatever its text contains.

A line must be complete on its own, because packing chooses grains one by one. All formats take the words of a grain
from one projection, so they differ only in punctuation. Line breaks and control characters of a text are replaced: a
memory must not be able to look like two lines, or like a heading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from memoranda.standards.cal.fields import PLURAL_OF
from memoranda.standards.cal.printing.elements import (
    ContextFrame,
    Element,
    cached_on_element,
    group_elements,
)
from memoranda.standards.cal.printing.projection import (
    GrainProse,
    humanize,
    project,
    subject_of,
    text_of,
    to_scalar,
    to_text,
)
from memoranda.standards.oms.mapping import is_text
from memoranda.standards.sml.render import format_line

# Type → the attributes printed before the text, and the separator after them (cal.md, *lines of text*).
_LEADING_ATTRIBUTES: Final = {
    "belief": (("subject",), " "),
    "goal": (("subject",), ": "),
    "event": (("role",), ": "),
    "action": (("tool",), ": "),
    "observation": (("observer",), ": "),
    "reasoning": ((), ""),
    "state": (("context",), ": "),
    "workflow": (("trigger",), ": "),
    "consensus": ((), ""),
    "consent": (("grantor", "action", "grantee"), ": "),
}
# Attributes after the text that are printed without their name.
_UNNAMED: Final = frozenset(("state", "phase", "time", "type"))
_UNNAMED_IN_TEXT: Final = _UNNAMED | {"confidence"}
_TITLES: Final = {
    grain_type: f"**{plural.capitalize()}**" for grain_type, plural in PLURAL_OF.items()
}
# The verb that prose uses for a grain without a relation, by type (section 4.1 of the digest): "alice knows tea".
_RELATIONS: Final = {
    "belief": "knows",
    "event": "said",
    "state": "state at",
    "workflow": "requires steps",
    "action": "did",
    "observation": "perceives",
    "goal": "intends",
    "reasoning": "infers",
    "consensus": "agrees with",
    "consent": "permits",
}
_ACTORS: Final = {
    "event": "role",
    "action": "tool_name",
    "observation": "observer_id",
    "consent": "subject_did",
    "goal": "assigned_agent",
}


@cached_on_element
def markdown_line(element: Element, now: int, iso_times: bool) -> str:
    """Return a line such as `- alice prefers dark mode (confidence: 0.92)`."""
    return f"- {_line_body(_project_element(element, now, iso_times), _UNNAMED)}"


@cached_on_element
def text_line(element: Element, now: int, iso_times: bool) -> str:
    """Return a line such as `[belief] alice prefers dark mode (0.92)`."""
    return f"[{element.item.grain_type}] {_line_body(_project_element(element, now, iso_times), _UNNAMED_IN_TEXT)}"


@cached_on_element
def triple_line(element: Element, now: int, iso_times: bool) -> str:
    """Return a line such as `(alice, prefers, dark mode)` (cal.md, *triples*)."""
    fields, grain_type, shape = element.item.fields, element.item.grain_type, element.shape
    subject, relation, object_ = (
        subject_of(element.item),
        humanize(fields.get("relation")),
        fields.get("object"),
    )
    if is_text(grain_type, fields) or not (subject and relation and object_ is not None):
        relation = (
            "revokes"
            if grain_type == "consent" and fields.get("is_withdrawal")
            else _RELATIONS[grain_type]
        )
        subject = subject or _actor_of(element)
        object_ = text_of(element.item)
    if shape is not None and shape.content is not None:
        object_ = _project_element(element, now, iso_times).text
    return f"({format_line(subject)}, {format_line(relation)}, {format_line(to_text(object_))})"


def markdown(
    elements: Sequence[Element], now: int, iso_times: bool, frame: ContextFrame | None = None
) -> str:
    """Return the groups with their titles, after a heading if the frame has an intent or a name."""
    title = frame and (frame.intent or frame.name)
    parts = [f"## Context: {format_line(title)}"] if title else []
    for group in group_elements(elements):
        lines = [
            _TITLES[group[0].item.grain_type],
            *(markdown_line(element, now, iso_times) for element in group),
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def join_lines(
    write: Callable[[Element, int, bool], str],
    elements: Iterable[Element],
    now: int,
    iso_times: bool,
) -> str:
    """Return the lines of all elements."""
    return "\n".join(write(element, now, iso_times) for element in elements)


def _project_element(element: Element, now: int, iso_times: bool) -> GrainProse:
    """Return the projection of an element."""
    return project(element.item, element.level, now, iso_times=iso_times, shape=element.shape)


def _line_body(projection: GrainProse, unnamed_attributes: frozenset[str]) -> str:
    """Return the text of a line: leading attributes, text, then other attributes in parentheses."""
    lead_names, separator = _LEADING_ATTRIBUTES[projection.grain_type]
    if projection.is_sentence:
        separator = ": "
    lead: dict[str, str] = {}
    notes = []
    for name, value in projection.attributes:
        value_text = format_line(to_text(value))
        if name in lead_names:
            lead[name] = value_text
        else:
            notes.append(value_text if name in unnamed_attributes else f"{name}: {value_text}")
    text = format_line(projection.text)
    if lead:
        lead_text = " ".join(lead[name] for name in lead_names if name in lead)
        text = f"{lead_text}{separator}{text}"
    return f"{text} ({', '.join(notes)})" if notes else text


def _actor_of(element: Element) -> str:
    """Return who acted in a grain without a subject: an actor by its type, its author, or the type itself."""
    fields, grain_type = element.item.fields, element.item.grain_type
    for name in (_ACTORS.get(grain_type), "author_did"):
        if name is None:
            continue
        actor = to_scalar(fields.get(name))
        if actor is not None:
            return to_text(actor)
    return grain_type
