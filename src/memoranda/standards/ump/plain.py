"""A memory and a question in plain words: one level of fields, as people, programs and models say them.

UMP nests what it says (`scope.project`, `filter.kind`, `lifecycle.confidence`). The library, the command line and the
tools of models do not; each says it in these words, and what UMP makes of them is written here once.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from memoranda.encoding.shapes import Shape
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.requests import Part, Tags, WrittenIn
from memoranda.standards.ump.shapes import (
    Fraction,
    Kind,
    Moment,
    Name,
    Provenance,
    Relation,
    Signal,
    Status,
    Visibility,
)

Project = Annotated[Name, Meta(description="The project or repository.")]
Person = Annotated[Name, Meta(description="The person it is about.")]
Kinds = Annotated[list[Kind] | Kind, Meta(description="Only these kinds.")]
At = Annotated[Moment, Meta(description="What was true then; by default now.")]


class PlainMemory(Shape):
    """What to remember."""

    text: Annotated[str, Meta(min_length=1, description="One thought, complete without its context.")]
    kind: Annotated[
        Kind,
        Meta(
            description="A fact, an event, how to do something, a note for the task at hand, or who somebody is and "
            "what they prefer."
        ),
    ] = "semantic"
    project: Project | None = None
    user: Person | None = None
    agent: Annotated[Name, Meta(description="The agent it belongs to.")] | None = None
    session: Annotated[Name, Meta(description="The conversation it comes from.")] | None = None
    visibility: Annotated[Visibility, Meta(description="Who may see it; private by default.")] | None = None
    tags: Annotated[list[Name], Meta(description="Words to file it under.")] | None = None
    about: Annotated[list[Name], Meta(description="Things it is about.")] | None = None
    relations: Annotated[list[Relation], Meta(description="Links to other memories or to things.")] | None = None
    created: Annotated[Moment, Meta(description="When it was first written; by default now.")] | None = None
    observed: Annotated[Moment, Meta(description="When it was last seen to hold; by default now.")] | None = None
    valid_from: Annotated[Moment, Meta(description="True from; by default now.")] | None = None
    valid_to: Annotated[Moment, Meta(description="True until.")] | None = None
    retention: Annotated[str, Meta(description="Erase it after this ISO 8601 duration, such as P30D.")] | None = None
    confidence: Annotated[Fraction, Meta(description="How sure it is.")] | None = None
    salience: Annotated[Fraction, Meta(description="How important it is.")] | None = None
    source: Annotated[Name, Meta(description="A reference to where it comes from.")] | None = None
    provenance: Annotated[dict[str, Any], Meta(extra={"shape": Provenance})] | None = None
    structured: Annotated[dict[str, Any], Meta(description="The same, or more, as data.")] | None = None
    redact: Annotated[list[Name], Meta(description="Paths that others never see.")] | None = None
    exportable: Annotated[bool, Meta(description="Whether it may leave this store.")] | None = None

    def draft(self) -> dict[str, Any]:
        """The record to be written, without what the caller's credential tells."""
        about = [*(self.about or ()), *(TAG_PREFIX + tag for tag in self.tags or ())]
        source = {} if self.source is None else {"source": {"ref": self.source}}
        parts: dict[str, Any] = {
            "scope": _given(self, "project", "user", "agent", "session", "visibility"),
            "time": _given(self, "created", "observed", "valid_from", "valid_to"),
            "lifecycle": _given(self, "confidence", "salience"),
            "relations": [*(self.relations or ()), *({"type": "about", "target": target} for target in about)],
            "consent": _given(self, "retention", "exportable", "redact"),
            "provenance": {**source, **(self.provenance or {})},
        }
        body = {"text": self.text, **_given(self, "structured")}
        return {"kind": self.kind, "body": body, **{name: part for name, part in parts.items() if part}}


class PlainQuestion(Shape):
    """What to look for."""

    query: Annotated[str, Meta(description="The question, or key words.")]
    project: Annotated[Project, Meta(description="Of this project, and of none.")] | None = None
    user: Annotated[Person, Meta(description="About this person, and about nobody.")] | None = None
    agent: Name | None = None
    session: Name | None = None
    visibility: Visibility | None = None
    owner: Name | None = None
    kind: Kinds | None = None
    status: list[Status] | Status | None = None
    valid_at: At | None = None
    known_at: Annotated[Moment, Meta(description="What was known here then.")] | None = None
    tags: Tags | None = None
    standard: WrittenIn | None = None
    strict: Annotated[bool, Meta(description="Only what names exactly this project, user, agent, session.")] = False
    limit: Annotated[int, Meta(ge=0, description="At most so many; 8 by default.")] | None = None
    prefer: list[Signal] | None = None
    asked_at: Moment | None = None
    zone: Name | None = None
    weights: dict[Part, float] | None = None
    words_only: bool | None = None
    floor: bool | None = None
    rerank: bool | None = None
    explain: bool | None = None

    def asked(self) -> dict[str, Any]:
        """The same as a recall of UMP."""
        parts: dict[str, Any] = {
            "scope": _given(self, "owner", "project", "user", "agent", "session", "visibility"),
            "filter": {
                **_given(self, "kind", "status", "valid_at", "known_at", "tags", "standard"),
                **({"scope": "strict"} if self.strict else {}),
            },
            "ranking_hints": _given(
                self, "prefer", "asked_at", "zone", "weights", "words_only", "floor", "rerank", "explain"
            ),
        }
        said = {"query": self.query, **_given(self, "limit")}
        return {**said, **{name: part for name, part in parts.items() if part}}


def _given(said: Shape, *names: str) -> dict[str, Any]:
    found = ((name, getattr(said, name)) for name in names)
    return {name: value for name, value in found if value is not None}
