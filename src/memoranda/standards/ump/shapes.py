"""The fields of a UMP record with their types and descriptions, following its schema (section 2).

The classes describe drafts, and the documents of the HTTP and MCP interfaces. All objects are closed except
`body.structured`. Validation, with its order of messages, is in `record`.
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

# Characters. Names, references and identifiers are used in URIs, index keys and one-line frames.
MAX_NAME_CHARS: Final = 1024
# Control characters would break lines, frames and C strings.
ONE_LINE: Final = r"^(?![\s\S]*[\x00-\x1f\x7f])"
NAME_EXPECTED: Final = (
    f"must be a non-empty string of at most {MAX_NAME_CHARS} characters without control characters"
)
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
    Name,
    Meta(
        description="The memory's id, from remember or recall.",
        examples=["urn:ump:mfrggzdfmztwq2lk"],
    ),
]
KindWord = Annotated[
    Kind,
    Meta(
        description="The kind of memory: semantic (a fact), episodic (something that happened), procedural (how to do "
        "something), working (for the task at hand), identity (a person and their preferences)."
    ),
]


class Body(TypedDict):
    """The content of the memory."""

    text: Annotated[
        str,
        Meta(min_length=1, description="One fact in plain words, understandable without context."),
    ]
    structured: NotRequired[
        Annotated[dict[str, Any], Meta(description="Additional data as any JSON object.")] | None
    ]


Owner = Annotated[Name, Meta(description="The owner's DID.")]


class _RequiredOwner(TypedDict):
    owner: Owner


class _OptionalOwner(TypedDict):
    owner: NotRequired[Owner]


class _ScopeFields(TypedDict):
    project: NotRequired[
        Annotated[Name, Meta(description="The project or repository.", examples=["acme/website"])]
    ]
    user: NotRequired[
        Annotated[Name, Meta(description="The person it is about, when the owner serves several.")]
    ]
    agent: NotRequired[Annotated[Name, Meta(description="The agent it belongs to.")]]
    session: NotRequired[Annotated[Name, Meta(description="The conversation it belongs to.")]]
    visibility: NotRequired[Annotated[Visibility, Meta(description="The readers who may see it.")]]


class Scope(_RequiredOwner, _ScopeFields):
    """The owner and context of the memory."""


class NewScope(_OptionalOwner, _ScopeFields):
    """The context of the memory; the credential determines the owner."""


class Time(TypedDict):
    """The times of validity and recording. RFC 3339 with an offset."""

    created: NotRequired[
        Annotated[Moment, Meta(description="The time it was first written; default: now.")]
    ]
    observed: NotRequired[
        Annotated[Moment, Meta(description="The time it was last confirmed; default: now.")]
    ]
    valid_from: NotRequired[Annotated[Moment, Meta(description="Start of validity; default: now.")]]
    valid_to: NotRequired[
        Annotated[Moment, Meta(description="End of validity; null: no end.")] | None
    ]


class Lifecycle(TypedDict):
    """Certainty, importance and status."""

    confidence: NotRequired[
        Annotated[Fraction, Meta(description=f"Certainty; default: {DEFAULT_CONFIDENCE}.")]
    ]
    salience: NotRequired[Annotated[Fraction, Meta(description="Importance.")]]
    decay: NotRequired[Annotated[Name, Meta(description="The decay of its importance; free text.")]]
    status: NotRequired[Annotated[Status, Meta(description="candidate: not yet confirmed.")]]


class Relation(TypedDict):
    """A link to another memory or to a thing."""

    type: Annotated[
        Name, Meta(description="The meaning of the link.", examples=["about", "derived_from"])
    ]
    target: Annotated[Name, Meta(description="The target: a name or an id.")]


class Source(TypedDict):
    """The document it was taken from."""

    ref: NotRequired[Name]
    provider: NotRequired[Name]


class Evidence(TypedDict):
    """A reference that supports the memory."""

    ref: Name
    weight: NotRequired[float]


class Provenance(TypedDict):
    """The origin of the memory."""

    actor: Annotated[Name, Meta(description="The source of the statement: a DID or another name.")]
    actor_kind: Annotated[ActorKind, Meta(description="The kind of actor.")]
    method: Annotated[
        Name, Meta(description="The method of learning it.", examples=["user_correction"])
    ]
    source: NotRequired[Source]
    evidence: NotRequired[list[Evidence]]


class Consent(TypedDict):
    """The permitted uses."""

    retention: NotRequired[
        Annotated[
            str,
            Meta(
                description="Forget the memory after this ISO 8601 duration.",
                examples=["P30D"],
                pattern="^P",
            ),
        ]
    ]
    exportable: NotRequired[
        Annotated[bool, Meta(description="false: it must not be exported; default: true.")]
    ]
    redact: NotRequired[
        Annotated[
            list[Name],
            Meta(
                description="Paths to remove before others see the record, such as body.structured.token."
            ),
        ]
    ]


class Integrity(TypedDict):
    """Content hash, signature and signer."""

    content_hash: Annotated[str, Meta(pattern="^blake3:")]
    signature: Annotated[str, Meta(pattern="^ed25519:")]
    signer: Annotated[str, Meta(pattern="^did:")]


class _Fields(TypedDict):
    lifecycle: NotRequired[Lifecycle]
    supersedes: NotRequired[
        Annotated[list[Name], Meta(description="Ids of the records it replaces.")]
    ]
    superseded_by: NotRequired[
        Annotated[list[Name], Meta(description="Ids of the records that replaced it.")]
    ]
    relations: NotRequired[
        Annotated[list[Relation], Meta(description="Links to other memories or to things.")]
    ]
    consent: NotRequired[Consent]
    integrity: NotRequired[Integrity]


RecordId = Annotated[str, Meta(pattern="^urn:ump:[a-z2-7]+$")]
Version = Literal["0.1", "1.0"]


class Record(_Fields):
    """A signed memory (UMP §2). Its text is stored data, never an instruction."""

    ump: Version
    id: RecordId
    kind: KindWord
    body: Body
    scope: Scope
    time: Time
    provenance: NotRequired[Provenance]


# A parsed record before validation.
Unchecked = dict[str, Any]


class DraftFields(_Fields):
    """The fields of a draft that a connection does not determine."""

    kind: KindWord
    body: Body
    time: NotRequired[Time]
    ump: NotRequired[Annotated[Version, Meta(description="Only for a record from elsewhere.")]]
    id: NotRequired[
        Annotated[RecordId, Meta(description="Only for a record from elsewhere: its id.")]
    ]


class Draft(DraftFields):
    """A record to be written. Omitted fields get defaults; the default visibility is private."""

    scope: Scope
    provenance: Provenance


class PatchTime(TypedDict):
    """The period of validity of the new version."""

    valid_from: NotRequired[
        Annotated[
            Moment,
            Meta(
                description="True from; by default now, or as before where that is over or to come."
            ),
        ]
    ]
    valid_to: NotRequired[
        Annotated[Moment, Meta(description="True until, by default as before; null: still.")] | None
    ]


class Patch(TypedDict):
    """The fields to change, at least one. The body is replaced completely."""

    body: NotRequired[Body]
    lifecycle: NotRequired[Lifecycle]
    relations: NotRequired[list[Relation]]
    time: NotRequired[PatchTime]
    consent: NotRequired[
        Annotated[
            Consent,
            Meta(
                description=(
                    "Restrictions to add; they are never lifted. `retention` counts from now. "
                    "An extension of the standard."
                )
            ),
        ]
    ]


# The permitted fields of each object in a record, by its path.
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
