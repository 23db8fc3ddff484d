"""The flat form of a memory and a question, with one level of fields, for people, programs and models.

UMP nests its fields (`scope.project`, `filter.kind`, `lifecycle.confidence`). The library, the command line and the
tools of models use this flat form. The translation to UMP is here, once.
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
At = Annotated[Moment, Meta(description="Only what was true then; default: now.")]


class PlainMemory(Shape):
    """A memory to store."""

    text: Annotated[
        str, Meta(min_length=1, description="One thought, understandable without context.")
    ]
    kind: Annotated[
        Kind,
        Meta(
            description="The kind: a fact, an event, how to do something, a note for the task at hand, or a person "
            "and their preferences."
        ),
    ] = "semantic"
    project: Project | None = None
    user: Person | None = None
    agent: Annotated[Name, Meta(description="The agent it belongs to.")] | None = None
    session: Annotated[Name, Meta(description="The conversation it comes from.")] | None = None
    visibility: (
        Annotated[Visibility, Meta(description="The readers who may see it; default: private.")]
        | None
    ) = None
    tags: Annotated[list[Name], Meta(description="Tags.")] | None = None
    about: Annotated[list[Name], Meta(description="Things it is about.")] | None = None
    relations: (
        Annotated[list[Relation], Meta(description="Links to other memories or to things.")] | None
    ) = None
    created: (
        Annotated[Moment, Meta(description="The time it was first written; default: now.")] | None
    ) = None
    observed: (
        Annotated[Moment, Meta(description="The time it was last confirmed; default: now.")] | None
    ) = None
    valid_from: Annotated[Moment, Meta(description="Start of validity; default: now.")] | None = (
        None
    )
    valid_to: Annotated[Moment, Meta(description="End of validity.")] | None = None
    retention: (
        Annotated[str, Meta(description="Erase it after this ISO 8601 duration, such as P30D.")]
        | None
    ) = None
    confidence: Annotated[Fraction, Meta(description="Certainty, from 0 to 1.")] | None = None
    salience: Annotated[Fraction, Meta(description="Importance, from 0 to 1.")] | None = None
    source: Annotated[Name, Meta(description="A reference to its source.")] | None = None
    provenance: Annotated[dict[str, Any], Meta(extra={"shape": Provenance})] | None = None
    structured: (
        Annotated[dict[str, Any], Meta(description="Additional data as a JSON object.")] | None
    ) = None
    redact: (
        Annotated[list[Name], Meta(description="Paths to remove before others see it.")] | None
    ) = None
    exportable: Annotated[bool, Meta(description="false: it must not be exported.")] | None = None

    def to_draft(self) -> dict[str, Any]:
        """Return the UMP draft, without the fields that the caller's credential determines."""
        tags = [TAG_PREFIX + tag for tag in self.tags or ()]
        about = [{"type": "about", "target": target} for target in (*(self.about or ()), *tags)]
        source = {} if self.source is None else {"source": {"ref": self.source}}
        parts: dict[str, Any] = {
            "scope": _set_fields(self, "project", "user", "agent", "session", "visibility"),
            "time": _set_fields(self, "created", "observed", "valid_from", "valid_to"),
            "lifecycle": _set_fields(self, "confidence", "salience"),
            "relations": [*(self.relations or ()), *about],
            "consent": _set_fields(self, "retention", "exportable", "redact"),
            "provenance": {**source, **(self.provenance or {})},
        }
        body = {"text": self.text, **_set_fields(self, "structured")}
        filled = {name: part for name, part in parts.items() if part}
        return {"kind": self.kind, "body": body, **filled}


class PlainQuestion(Shape):
    """A search for memories."""

    query: Annotated[str, Meta(description="The question or keywords.")]
    project: Annotated[Project, Meta(description="Memories of this project or of none.")] | None = (
        None
    )
    user: (
        Annotated[Person, Meta(description="Memories about this person or about nobody.")] | None
    ) = None
    agent: Name | None = None
    session: Name | None = None
    visibility: Visibility | None = None
    owner: Name | None = None
    kind: Kinds | None = None
    status: list[Status] | Status | None = None
    valid_at: At | None = None
    known_at: Annotated[Moment, Meta(description="Only what this store knew then.")] | None = None
    tags: Tags | None = None
    standard: WrittenIn | None = None
    strict: Annotated[bool, Meta(description="Match project, user, agent and session exactly.")] = (
        False
    )
    limit: (
        Annotated[int, Meta(ge=0, description="Maximum number of results; default: 8.")] | None
    ) = None
    prefer: list[Signal] | None = None
    asked_at: Moment | None = None
    zone: Name | None = None
    weights: dict[Part, float] | None = None
    words_only: bool | None = None
    floor: bool | None = None
    rerank: bool | None = None
    explain: bool | None = None

    def to_recall(self) -> dict[str, Any]:
        """Return the question as a UMP recall request."""
        parts: dict[str, Any] = {
            "scope": _set_fields(
                self, "owner", "project", "user", "agent", "session", "visibility"
            ),
            "filter": {
                **_set_fields(self, "kind", "status", "valid_at", "known_at", "tags", "standard"),
                **({"scope": "strict"} if self.strict else {}),
            },
            "ranking_hints": _set_fields(
                self,
                "prefer",
                "asked_at",
                "zone",
                "weights",
                "words_only",
                "floor",
                "rerank",
                "explain",
            ),
        }
        request = {"query": self.query, **_set_fields(self, "limit")}
        return {**request, **{name: part for name, part in parts.items() if part}}


def _set_fields(shape: Shape, *names: str) -> dict[str, Any]:
    """Return the named fields that are set, with their values."""
    values = ((name, getattr(shape, name)) for name in names)
    return {name: value for name, value in values if value is not None}
