"""Grains as lines for people: markdown, text, triples (sections 10.1, 14.2).

One grain is one line, whatever its text holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from memoranda.standards.cal.fields import PLURAL_OF
from memoranda.standards.cal.printing.elements import Element, Frame, groups, once
from memoranda.standards.cal.printing.projection import Projected, humanize, project, scalar, subject_of, text_of, words
from memoranda.standards.oms.mapping import is_text
from memoranda.standards.sml.render import one_line

# Which attributes stand before the text, and what parts them from it (cal.md, *lines of prose*).
_LEADS: Final = {
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
# Those after it that need no name.
_BARE: Final = frozenset(("state", "phase", "time", "type"))
_BARE_IN_TEXT: Final = _BARE | {"confidence"}
_TITLES: Final = {grain_type: f"**{plural.capitalize()}**" for grain_type, plural in PLURAL_OF.items()}
# Section 4.1 of the digest: what a grain without a triple of its own says of its subject.
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


@once
def markdown_line(element: Element, now: int, iso: bool) -> str:
    """`- alice prefers dark mode (confidence: 0.92)`."""
    return f"- {_body(_projected(element, now, iso), _BARE)}"


@once
def text_line(element: Element, now: int, iso: bool) -> str:
    """`[belief] alice prefers dark mode (0.92)`."""
    return f"[{element.item.grain_type}] {_body(_projected(element, now, iso), _BARE_IN_TEXT)}"


@once
def triple_line(element: Element, now: int, iso: bool) -> str:
    """`(alice, prefers, dark mode)` (cal.md, *triples*)."""
    fields, grain_type, shape = element.item.fields, element.item.grain_type, element.shape
    subject, relation, said = subject_of(element.item), humanize(fields.get("relation")), fields.get("object")
    if is_text(grain_type, fields) or not (subject and relation and said is not None):
        relation = "revokes" if grain_type == "consent" and fields.get("is_withdrawal") else _RELATIONS[grain_type]
        subject = subject or _actor(element)
        said = text_of(element.item)
    if shape is not None and shape.content is not None:
        said = _projected(element, now, iso).text
    return f"({one_line(subject)}, {one_line(relation)}, {one_line(words(said))})"


def markdown(elements: Sequence[Element], now: int, iso: bool, frame: Frame | None = None) -> str:
    """A heading if there is something to be called after, and the groups with their titles."""
    title = frame and (frame.intent or frame.name)
    parts = [f"## Context: {one_line(title)}"] if title else []
    for group in groups(elements):
        lines = [_TITLES[group[0].item.grain_type], *(markdown_line(each, now, iso) for each in group)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def lines(write: Callable[[Element, int, bool], str], elements: Iterable[Element], now: int, iso: bool) -> str:
    """One line for each, and nothing else."""
    return "\n".join(write(each, now, iso) for each in elements)


def _projected(element: Element, now: int, iso: bool) -> Projected:
    return project(element.item, element.level, now, iso=iso, shape=element.shape)


def _body(projected: Projected, bare: frozenset[str]) -> str:
    names, separator = _LEADS[projected.grain_type]
    lead: dict[str, str] = {}
    notes = []
    for name, value in projected.attributes:
        said = one_line(words(value))
        if name in names:
            lead[name] = said
        else:
            notes.append(said if name in bare else f"{name}: {said}")
    text = one_line(projected.text)
    if lead:
        parted = ": " if projected.is_sentence else separator
        text = f"{' '.join(lead[name] for name in names if name in lead)}{parted}{text}"
    return f"{text} ({', '.join(notes)})" if notes else text


def _actor(element: Element) -> str:
    fields, grain_type = element.item.fields, element.item.grain_type
    for name in (_ACTORS.get(grain_type), "author_did"):
        if name is not None and (said := scalar(fields.get(name))) is not None:
            return words(said)
    return grain_type
