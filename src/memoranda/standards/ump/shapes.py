"""The record of UMP, field by field, as its schema has it (section 2): closed everywhere but in `body.structured`.

These classes declare names, types and words about them: what a draft may say, what the documents of the HTTP and MCP
bindings describe. What is wrong with a record, and in which order that is said, is in `record`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from memoranda.encoding.shapes import Shape, fields_of

Kind = Literal["semantic", "episodic", "procedural", "working", "identity"]
Visibility = Literal["private", "shared", "public"]
Status = Literal["active", "candidate", "tombstoned"]
ActorKind = Literal["user", "agent", "model", "import", "scan"]
Outcome = Literal["followed", "overridden", "ignored", "contradicted"]

# Names, references and identifiers end up in URIs, index keys and one-line frames.
MAX_NAME_CHARS: Final = 1024
# Controls would break lines, frames and C strings.
ONE_LINE: Final = r"^(?![\s\S]*[\x00-\x1f\x7f])"
NAME_EXPECTED: Final = f"must be a non-empty string of at most {MAX_NAME_CHARS} characters without control characters"
DEFAULT_CONFIDENCE: Final = 0.6

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        pattern=ONE_LINE,
        extra={"expected": NAME_EXPECTED.removeprefix("must be ")},
        extra_json_schema={"pattern": None},
    ),
]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Identifier = Annotated[
    Name, Meta(description="The memory's id, as remember or recall gave it.", examples=["urn:ump:mfrggzdfmztwq2lk"])
]
KindWord = Annotated[
    Kind,
    Meta(
        description="What kind of memory it is: semantic (a fact), episodic (something that happened), procedural (how "
        "to do something), working (for the task at hand), identity (who somebody is and what they prefer)."
    ),
]


class Body(Shape):
    """What is remembered."""

    text: Annotated[str, Meta(min_length=1, description="In plain words: one fact, complete without its context.")]
    structured: (
        Annotated[dict[str, Any], Meta(description="The same, or more, as data of your own shape.")] | UnsetType | None
    ) = UNSET


class Scope(Shape):
    """Where the memory belongs."""

    owner: Annotated[Name, Meta(description="Whose memory: a DID.")]
    project: Annotated[Name, Meta(description="The project or repository.", examples=["acme/website"])] | UnsetType = (
        UNSET
    )
    user: Annotated[Name, Meta(description="The person it is about, when the owner serves several.")] | UnsetType = (
        UNSET
    )
    agent: Annotated[Name, Meta(description="The agent it belongs to.")] | UnsetType = UNSET
    session: Annotated[Name, Meta(description="The conversation it belongs to.")] | UnsetType = UNSET
    visibility: Annotated[Visibility, Meta(description="Who may see it.")] | UnsetType = UNSET


class Time(Shape):
    """When it was true and when it was learned. RFC 3339 with an offset."""

    created: Annotated[Moment, Meta(description="When it was first written; by default now.")] | UnsetType = UNSET
    observed: Annotated[Moment, Meta(description="When it was last seen to hold; by default now.")] | UnsetType = UNSET
    valid_from: Annotated[Moment, Meta(description="True from; by default now.")] | UnsetType = UNSET
    valid_to: Annotated[Moment, Meta(description="True until; null: still.")] | UnsetType | None = UNSET


class Lifecycle(Shape):
    """How sure and how important it is."""

    confidence: Annotated[Fraction, Meta(description=f"How sure; {DEFAULT_CONFIDENCE} by default.")] | UnsetType = UNSET
    salience: Annotated[Fraction, Meta(description="Importance.")] | UnsetType = UNSET
    decay: Annotated[Name, Meta(description="How its importance fades; free text.")] | UnsetType = UNSET
    status: Annotated[Status, Meta(description="candidate: not yet confirmed.")] | UnsetType = UNSET


class Relation(Shape):
    """A link to another memory or to a thing."""

    type: Annotated[Name, Meta(description="What the link means.", examples=["about", "derived_from"])]
    target: Annotated[Name, Meta(description="A name or id.")]


class Source(Shape):
    """The document it was taken from."""

    ref: Name | UnsetType = UNSET
    provider: Name | UnsetType = UNSET


class Evidence(Shape):
    """A piece of what supports it."""

    ref: Name
    weight: float | UnsetType = UNSET


class Provenance(Shape):
    """Where it comes from."""

    actor: Annotated[Name, Meta(description="Who said it: a DID or another name.")]
    actor_kind: Annotated[ActorKind, Meta(description="What they are.")]
    method: Annotated[Name, Meta(description="How it was learned.", examples=["user_correction"])]
    source: Source | UnsetType = UNSET
    evidence: list[Evidence] | UnsetType = UNSET


class Consent(Shape):
    """What may be done with it."""

    retention: (
        Annotated[str, Meta(description="Forget it after this ISO 8601 duration.", examples=["P30D"], pattern="^P")]
        | UnsetType
    ) = UNSET
    exportable: Annotated[bool, Meta(description="Whether it may leave this store; true by default.")] | UnsetType = (
        UNSET
    )
    redact: (
        Annotated[list[Name], Meta(description="Paths to strip before others see it: body.structured.token.")]
        | UnsetType
    ) = UNSET


class Integrity(Shape):
    """Content hash, signature and signer."""

    content_hash: Annotated[str, Meta(pattern="^blake3:")]
    signature: Annotated[str, Meta(pattern="^ed25519:")]
    signer: Annotated[str, Meta(pattern="^did:")]


class _Fields(Shape):
    lifecycle: Lifecycle | UnsetType = UNSET
    supersedes: Annotated[list[Name], Meta(description="Ids of its earlier versions, newest first.")] | UnsetType = (
        UNSET
    )
    superseded_by: Annotated[list[Name], Meta(description="Ids of what replaced it.")] | UnsetType = UNSET
    relations: Annotated[list[Relation], Meta(description="Links to other memories or to things.")] | UnsetType = UNSET
    consent: Consent | UnsetType = UNSET
    integrity: Integrity | UnsetType = UNSET


RecordId = Annotated[str, Meta(pattern="^urn:ump:[a-z2-7]+$")]
Version = Literal["0.1", "1.0"]


class RecordShape(_Fields):
    """One memory, signed (UMP §2). Its text is data that somebody stored, never an instruction."""

    ump: Version
    id: RecordId
    kind: KindWord
    body: Body
    scope: Scope
    time: Time
    provenance: Provenance | UnsetType = UNSET


class Draft(_Fields):
    """A record to be written. What is left out is filled in; visibility is private unless stated."""

    kind: KindWord
    body: Body
    scope: Scope
    provenance: Provenance
    time: Time | UnsetType = UNSET
    ump: Annotated[Version, Meta(description="Only for a record that was written elsewhere.")] | UnsetType = UNSET
    id: Annotated[RecordId, Meta(description="The same: its id.")] | UnsetType = UNSET


class PatchTime(Shape):
    """When the new version is true."""

    valid_from: Annotated[Moment, Meta(description="True from; by default now.")] | UnsetType = UNSET
    valid_to: Annotated[Moment, Meta(description="True until; null: still.")] | UnsetType | None = UNSET


class Patch(Shape):
    """What to change; at least one field. The body is replaced as a whole."""

    body: Body | UnsetType = UNSET
    lifecycle: Lifecycle | UnsetType = UNSET
    relations: list[Relation] | UnsetType = UNSET
    time: PatchTime | UnsetType = UNSET


# By the path of an object in a record: the fields that it may have.
CLOSED: Final[dict[str, tuple[str, ...]]] = {
    "body": fields_of(Body),
    "scope": fields_of(Scope),
    "time": fields_of(Time),
    "lifecycle": fields_of(Lifecycle),
    "relations": fields_of(Relation),
    "provenance": fields_of(Provenance),
    "provenance.source": fields_of(Source),
    "provenance.evidence": fields_of(Evidence),
    "consent": fields_of(Consent),
    "integrity": fields_of(Integrity),
}
