"""remember and revise: write a memory, or a new version of one.

The options are in groups (scope, weight, consent, origin), which `remember` and `revise` share; each group returns only
what was typed. Merging with an equal memory, the limits and the search for secrets are the service's; here a warning of
the service is only printed. `revise` keeps everything that no option changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from memoranda.cli.options import (
    ANY_SCOPE,
    Kind,
    MemoryId,
    MemoryScope,
    complete_date,
    read_duration_ms,
    read_json_object,
    read_text,
)
from memoranda.cli.run import GivenRun, Parameter, without_none
from memoranda.cli.show import displayed_id, line, note
from memoranda.standards.ump.plain import PlainMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """Importance, certainty and validity of a memory."""

    salience: Annotated[
        float | None, Parameter(help="How important it is.", minimum=0, maximum=1)
    ] = None
    confidence: Annotated[
        float | None, Parameter(help="How certain it is.", minimum=0, maximum=1)
    ] = None
    valid_from: Annotated[
        str | None, Parameter(help="When it becomes true: a date, or RFC 3339.")
    ] = None
    valid_to: Annotated[
        str | None,
        Parameter(help="When it stops being true: a date, RFC 3339, or never, which lifts an end."),
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the options that were typed, by their names in the library."""
        return without_none(
            salience=self.salience,
            confidence=self.confidence,
            valid_from=complete_date(self.valid_from),
            valid_to=complete_date(self.valid_to),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentTerms:
    """Consent for a memory."""

    retention: Annotated[str | None, Parameter(help="Erase it after this time: 30d, or P365D.")] = (
        None
    )
    redact: Annotated[
        tuple[str, ...],
        Parameter(
            help="A field to hide from others, such as body.structured.token; can be repeated."
        ),
    ] = ()
    export: Annotated[
        bool, Parameter(negative="--no-export", help="Allow or forbid that it leaves this store.")
    ] = True

    def fields(self) -> dict[str, Any]:
        """Return the options that were typed, by their names in the library."""
        retention = self.retention
        if retention is not None and not retention.startswith("P"):
            retention = f"PT{read_duration_ms(retention, '--retention') // 1000}S"
        return without_none(
            retention=retention,
            exportable=None if self.export else False,
            redact=list(self.redact) or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The subject and the source of a memory."""

    about: Annotated[
        tuple[str, ...],
        Parameter(help="An entity it is about; can be repeated.", fields=("relations.target",)),
    ] = ()
    source: Annotated[
        str | None, Parameter(help="A reference to its source.", fields=("provenance.source.ref",))
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the options that were typed, by their names in the library."""
        return without_none(about=list(self.about) or None, source=self.source)


NO_WEIGHT, NO_TERMS, NO_ORIGIN = Weight(), ConsentTerms(), Origin()


def remember(
    text: Annotated[
        str | None, Parameter(help="The text; without it, or with -, standard input is read.")
    ] = None,
    /,
    *,
    kind: Annotated[Kind, Parameter(help="The kind of memory (default: semantic).")] = "semantic",
    tag: Annotated[
        tuple[str, ...], Parameter(help="A tag; can be repeated.", fields=("relations.target",))
    ] = (),
    structured: Annotated[str | None, Parameter(help="Further data, as a JSON object.")] = None,
    scope: MemoryScope = ANY_SCOPE,
    weight: Weight = NO_WEIGHT,
    terms: ConsentTerms = NO_TERMS,
    origin: Origin = NO_ORIGIN,
    run: GivenRun,
) -> None:
    """Remember a text. If an equal memory exists, the two are merged and its confidence rises."""
    data = None if structured is None else read_json_object(structured, "--structured")
    memory = PlainMemory(
        text=read_text(text),
        kind=kind,
        tags=list(tag) or None,
        structured=data,
        **scope.fields(),
        **weight.fields(),
        **terms.fields(),
        **origin.fields(),
    )
    with run.open() as memoranda:
        result = memoranda.ump.remember(
            memoranda.ump.with_defaults(memory.to_draft(), method="cli")
        )
        name = displayed_id(memoranda, result.id)
        similar = [(displayed_id(memoranda, memory.id), memory.text) for memory in result.similar]

    def show() -> None:
        line(f"{name} {result.result}")
        for similar_name, similar_text in similar:
            note(f"similar: {similar_name} {similar_text}; to replace it, use revise instead")

    run.answer(result.document(), show)


def revise(
    name: MemoryId,
    text: Annotated[str | None, Parameter(help="The new text; - reads standard input.")] = None,
    /,
    *,
    weight: Weight = NO_WEIGHT,
    terms: ConsentTerms = NO_TERMS,
    run: GivenRun,
) -> None:
    """Write a new version of a memory; the old version stays in its history. Consent can only be tightened."""
    fields = {**weight.fields(), **terms.fields()}
    with run.open() as memoranda:
        # Without a text, an option such as --salience alone makes the new version.
        new_text = read_text(text) if text is not None or not fields else None
        revised = memoranda.revise(name, new_text, **fields)
        new_name = displayed_id(memoranda, revised.id)
    run.answer(
        {"id": revised.id, "supersedes": list(revised.supersedes)},
        lambda: line(f"{new_name} revised"),
    )
