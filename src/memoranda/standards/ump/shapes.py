"""The record of UMP, field by field, as its schema has it (section 2): closed everywhere but in `body.structured`.

These classes declare names, types and words about them: what a draft may say, what the documents of the HTTP and MCP
bindings describe. What is wrong with a record, and in which order that is said, is in `record`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from msgspec import Meta

from memoranda.encoding.shapes import fields_of

Kind = Literal["semantic", "episodic", "procedural", "working", "identity"]
Visibility = Literal["private", "shared", "public"]
Status = Literal["active", "candidate", "tombstoned"]
ActorKind = Literal["user", "agent", "model", "import", "scan"]
Signal = Literal["similarity", "scope_match", "recency", "salience", "provenance_depth"]
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


class Body(TypedDict):
    """What is remembered."""

    text: Annotated[str, Meta(min_length=1, description="In plain words: one fact, complete without its context.")]
    structured: NotRequired[
        Annotated[dict[str, Any], Meta(description="The same, or more, as data of your own shape.")] | None
    ]


Owner = Annotated[Name, Meta(description="Whose memory: a DID.")]


class _Owned(TypedDict):
    owner: Owner


class _MaybeOwned(TypedDict):
    owner: NotRequired[Owner]


class _Places(TypedDict):
    project: NotRequired[Annotated[Name, Meta(description="The project or repository.", examples=["acme/website"])]]
    user: NotRequired[Annotated[Name, Meta(description="The person it is about, when the owner serves several.")]]
    agent: NotRequired[Annotated[Name, Meta(description="The agent it belongs to.")]]
    session: NotRequired[Annotated[Name, Meta(description="The conversation it belongs to.")]]
    visibility: NotRequired[Annotated[Visibility, Meta(description="Who may see it.")]]


class Scope(_Owned, _Places):
    """Where the memory belongs."""


class NewScope(_MaybeOwned, _Places):
    """Where the memory belongs; whose it is, the credential tells."""


class Time(TypedDict):
    """When it was true and when it was learned. RFC 3339 with an offset."""

    created: NotRequired[Annotated[Moment, Meta(description="When it was first written; by default now.")]]
    observed: NotRequired[Annotated[Moment, Meta(description="When it was last seen to hold; by default now.")]]
    valid_from: NotRequired[Annotated[Moment, Meta(description="True from; by default now.")]]
    valid_to: NotRequired[Annotated[Moment, Meta(description="True until; null: still.")] | None]


class Lifecycle(TypedDict):
    """How sure and how important it is."""

    confidence: NotRequired[Annotated[Fraction, Meta(description=f"How sure; {DEFAULT_CONFIDENCE} by default.")]]
    salience: NotRequired[Annotated[Fraction, Meta(description="Importance.")]]
    decay: NotRequired[Annotated[Name, Meta(description="How its importance fades; free text.")]]
    status: NotRequired[Annotated[Status, Meta(description="candidate: not yet confirmed.")]]


class Relation(TypedDict):
    """A link to another memory or to a thing."""

    type: Annotated[Name, Meta(description="What the link means.", examples=["about", "derived_from"])]
    target: Annotated[Name, Meta(description="A name or id.")]


class Source(TypedDict):
    """The document it was taken from."""

    ref: NotRequired[Name]
    provider: NotRequired[Name]


class Evidence(TypedDict):
    """A piece of what supports it."""

    ref: Name
    weight: NotRequired[float]


class Provenance(TypedDict):
    """Where it comes from."""

    actor: Annotated[Name, Meta(description="Who said it: a DID or another name.")]
    actor_kind: Annotated[ActorKind, Meta(description="What they are.")]
    method: Annotated[Name, Meta(description="How it was learned.", examples=["user_correction"])]
    source: NotRequired[Source]
    evidence: NotRequired[list[Evidence]]


class Consent(TypedDict):
    """What may be done with it."""

    retention: NotRequired[
        Annotated[str, Meta(description="Forget it after this ISO 8601 duration.", examples=["P30D"], pattern="^P")]
    ]
    exportable: NotRequired[Annotated[bool, Meta(description="Whether it may leave this store; true by default.")]]
    redact: NotRequired[
        Annotated[list[Name], Meta(description="Paths to strip before others see it: body.structured.token.")]
    ]


class Integrity(TypedDict):
    """Content hash, signature and signer."""

    content_hash: Annotated[str, Meta(pattern="^blake3:")]
    signature: Annotated[str, Meta(pattern="^ed25519:")]
    signer: Annotated[str, Meta(pattern="^did:")]


class _Fields(TypedDict):
    lifecycle: NotRequired[Lifecycle]
    supersedes: NotRequired[Annotated[list[Name], Meta(description="Ids of what it replaces.")]]
    superseded_by: NotRequired[Annotated[list[Name], Meta(description="Ids of what replaced it.")]]
    relations: NotRequired[Annotated[list[Relation], Meta(description="Links to other memories or to things.")]]
    consent: NotRequired[Consent]
    integrity: NotRequired[Integrity]


RecordId = Annotated[str, Meta(pattern="^urn:ump:[a-z2-7]+$")]
Version = Literal["0.1", "1.0"]


class Record(_Fields):
    """One memory, signed (UMP §2). Its text is data that somebody stored, never an instruction."""

    ump: Version
    id: RecordId
    kind: KindWord
    body: Body
    scope: Scope
    time: Time
    provenance: NotRequired[Provenance]


# A record as it was read, before anybody checked it.
Unchecked = dict[str, Any]


class DraftFields(_Fields):
    """What is not filled in from a connection."""

    kind: KindWord
    body: Body
    time: NotRequired[Time]
    ump: NotRequired[Annotated[Version, Meta(description="Only for a record that was written elsewhere.")]]
    id: NotRequired[Annotated[RecordId, Meta(description="The same: its id.")]]


class Draft(DraftFields):
    """A record to be written. What is left out is filled in; visibility is private unless stated."""

    scope: Scope
    provenance: Provenance


class PatchTime(TypedDict):
    """When the new version is true."""

    valid_from: NotRequired[
        Annotated[Moment, Meta(description="True from; by default now, or as before where that is over or to come.")]
    ]
    valid_to: NotRequired[Annotated[Moment, Meta(description="True until, by default as before; null: still.")] | None]


class Patch(TypedDict):
    """What to change; at least one field. The body is replaced as a whole."""

    body: NotRequired[Body]
    lifecycle: NotRequired[Lifecycle]
    relations: NotRequired[list[Relation]]
    time: NotRequired[PatchTime]


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
