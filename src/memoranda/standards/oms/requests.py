"""What is asked of a store of grains, declared once and read from untrusted JSON (section 28).

Each is a shape: `parse` takes any JSON value and returns what needs no further checks, or raises InvalidInput that
names the field and what was expected there; its JSON Schema is what the bindings describe.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType, field

from memoranda.encoding.shapes import Schema, Shape, one_of
from memoranda.errors import InvalidInput
from memoranda.model.selection import Selection
from memoranda.standards.oms.grains import check_address
from memoranda.standards.oms.registry import BY_NAME, DEFAULT_NAMESPACE, TYPES, is_domain_byte

MAX_LIMIT: Final = 500
DEFAULT_LIMIT: Final = 20
# A question, not a document.
MAX_TEXT_BYTES: Final = 8192
# Longer than any name people give; subjects and objects are compared by fingerprint, whatever their length.
MAX_NAME_CHARS: Final = 4096
MAX_REASON_CHARS: Final = 1024

_DOMAIN_TYPE: Final = re.compile(r"0x[fF][0-9a-fA-F]", re.ASCII)
_WITHOUT_CONTROL: Final = r"^(?![\s\S]*[\x00-\x08\x0b-\x1f\x7f-\x9f])"

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        pattern=_WITHOUT_CONTROL,
        extra={"expected": f"a non-empty string of at most {MAX_NAME_CHARS} characters without control characters"},
        extra_json_schema={"pattern": None},
    ),
]
Reason = Annotated[
    str,
    Meta(
        max_length=MAX_REASON_CHARS,
        pattern=_WITHOUT_CONTROL,
        description="Why, in a line or two; kept in the audit log.",
        extra={"expected": f"a string of at most {MAX_REASON_CHARS} characters"},
        extra_json_schema={"pattern": None},
    ),
]
Address = Annotated[
    Name,
    Meta(
        description="The grain's address: 64 lower-case hexadecimal digits.",
        extra_json_schema={"pattern": "^[0-9a-f]{64}$", "minLength": None, "maxLength": None},
    ),
]
Status = Literal["unverified", "verified", "contested", "retracted"]
Instant = int | str

if TYPE_CHECKING:
    TypeByte = int
else:

    class TypeByte(int):
        """A type of grain by its name, or the byte of an application's own."""

        EXPECTED: ClassVar[str] = f"one of {'|'.join(each.name for each in TYPES)}, or 0xF0 to 0xFF"
        SCHEMA: ClassVar[Schema] = {
            "anyOf": [one_of(tuple(BY_NAME)), {"type": "string", "pattern": "^0x[fF][0-9a-fA-F]$"}]
        }

        @classmethod
        def from_json(cls, value: object) -> TypeByte:
            if isinstance(value, str):
                if (known := BY_NAME.get(value)) is not None:
                    return cls(known.byte)
                if _DOMAIN_TYPE.fullmatch(value) and is_domain_byte(int(value, 16)):
                    return cls(int(value, 16))
            raise ValueError(f"must be {cls.EXPECTED}")


class Grain(Shape, forbid_unknown_fields=False):
    """The grain's fields, under their full names (sections 6, 8). Fields that are not listed here are kept too."""

    type: Annotated[
        str,
        Meta(
            min_length=1,
            description="What kind of grain it is, and what that needs: belief (subject, relation, object, "
            "confidence), event (content), state (context), workflow (steps, trigger), action (a tool and its input or "
            "result), observation (observer_id, observer_type), goal (description, goal_state), reasoning (premises or "
            "conclusion), consensus (participating_observers, threshold, agreement_count, dissent_count), consent "
            "(subject_did, grantee_did, scope, is_withdrawal).",
            examples=[each.name for each in TYPES],
        ),
    ]
    subject: Annotated[str, Meta(description="Who or what it is about.", examples=["user:ada"])] | UnsetType = UNSET
    relation: (
        Annotated[str, Meta(description="How the subject and the object are related.", examples=["prefers"])]
        | UnsetType
    ) = UNSET
    object: Annotated[Any, Meta(description="What is said of the subject: a text, or a value of your own shape.")] = (
        UNSET
    )
    confidence: Annotated[float, Meta(ge=0, le=1, description="How sure it is; for a belief.")] | UnsetType = UNSET
    content: Annotated[str, Meta(description="What happened or was said; for an event.")] | UnsetType = UNSET
    description: Annotated[str, Meta(description="What is to be reached; for a goal.")] | UnsetType = UNSET
    goal_state: Literal["active", "satisfied", "failed", "suspended"] | UnsetType = UNSET
    namespace: (
        Annotated[str, Meta(description="The project or space; by default the connection's, else shared.")] | UnsetType
    ) = UNSET
    user_id: Annotated[str, Meta(description="The person it is about.")] | UnsetType = UNSET
    session_id: Annotated[str, Meta(description="The conversation it belongs to.")] | UnsetType = UNSET
    created_at: (
        Annotated[Instant, Meta(description="Milliseconds since 1970, or RFC 3339; by default now.")] | UnsetType
    ) = UNSET
    valid_from: Annotated[Instant, Meta(description="True from.")] | UnsetType = UNSET
    valid_to: Annotated[Instant, Meta(description="True until.")] | UnsetType = UNSET
    importance: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    source_type: Annotated[str, Meta(description="How it was learned.", examples=["user_explicit"])] | UnsetType = UNSET
    structural_tags: Annotated[list[str], Meta(description="Tags, such as pii:email.")] | UnsetType = UNSET
    derived_from: Annotated[list[str], Meta(description="Addresses of what it was made from.")] | UnsetType = UNSET
    context: Annotated[dict[str, Any], Meta(description="Data of your own shape; what a state holds.")] | UnsetType = (
        UNSET
    )


GrainFields = Annotated[dict[str, Any], Meta(extra={"shape": Grain})]


G = TypeVar("G", bound="PutRequest")


def given_of(body: object, shape: type[G]) -> G:
    """The grain in a request, bare or under `grain`, and the request's own options beside it."""
    # Every grain has a type, so that a field of its own called grain is not mistaken for a wrapping.
    is_bare = isinstance(body, dict) and ("grain" not in body or "type" in body)
    return shape.parse({"grain": body} if is_bare else body)


class PutRequest(Shape):
    """The grain to add."""

    grain: GrainFields


class ShownGrain(PutRequest):
    """A grain as an answer shows it; what stands beside it is the store's to say."""

    address: Any = None
    index: Any = None
    held: Any = None
    needs_review: Any = None
    native: Any = None


class GetRequest(Shape):
    """Which grain."""

    address: Address


class SupersedeRequest(PutRequest):
    """The whole grain that replaces another."""

    justification: Annotated[Reason, Meta(description="Why, in one line; a protected grain demands it.")] = ""


class SupersedeOne(SupersedeRequest):
    """Which grain, and the whole grain that replaces it."""

    address: Address


class FindRequest(Shape):
    """What to look for: every field given must be equal; text searches by words. At least one is wise."""

    text: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_TEXT_BYTES,
                pattern=r"\S",
                description="Words to look for, in grains of all types; answers come best first, on one page.",
                extra={"expected": f"words, of at most {MAX_TEXT_BYTES} bytes"},
            ),
        ]
        | None
    ) = None
    subject: Annotated[Name, Meta(description="Exactly this subject.")] | None = None
    relation: Annotated[Name, Meta(description="Exactly this relation.")] | None = None
    object: Annotated[Name, Meta(description="Exactly this object.")] | None = None
    namespace: (
        Annotated[Name, Meta(description="Only in this namespace; `shared` is the one of grains that name none.")]
        | None
    ) = None
    user_id: Annotated[Name, Meta(description="Only of this user.")] | None = None
    session_id: Annotated[Name, Meta(description="Only of this session.")] | None = None
    type_byte: Annotated[TypeByte, Meta(description="Only of this type.")] | None = field(default=None, name="type")
    # Without what was superseded or forgotten.
    current: Annotated[bool, Meta(description="false: also what was superseded or forgotten; not with text.")] = True
    limit: Annotated[int, Meta(ge=1, description=f"How many on a page; more than {MAX_LIMIT} is {MAX_LIMIT}.")] = (
        DEFAULT_LIMIT
    )
    cursor: Annotated[Name, Meta(description="`next_cursor` of the page before; not with text.")] | None = None

    def __post_init__(self) -> None:
        if self.text is None:
            return
        if len(self.text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
            raise InvalidInput(f"text must be words, of at most {MAX_TEXT_BYTES} bytes")
        if self.cursor is not None or not self.current:
            raise InvalidInput("text: a search by words gives its best once, of what is current; leave out the rest")

    @property
    def selection(self) -> Selection:
        """The same in the store's words."""
        return Selection(
            standing="current" if self.current else "recorded",
            subject=self.subject,
            relation=self.relation,
            object=self.object,
            space="" if self.namespace == DEFAULT_NAMESPACE else self.namespace,
            user=self.user_id,
            session=self.session_id,
        )

    def asked(self) -> list[str]:
        """The names of the fields that had to match exactly."""
        given = [name for name in _STRUCTURE_FIELDS if getattr(self, name) is not None]
        return [*given, *(["type"] if self.type_byte is not None else [])]


_STRUCTURE_FIELDS: Final = ("subject", "relation", "object", "namespace", "user_id", "session_id")


class OwnedFindRequest(FindRequest):
    """The same, of an owner who is named."""

    owner: (
        Annotated[Name, Meta(description="Whose, for a credential that reaches several; by default its own.")] | None
    ) = None


class OwnerRequest(Shape):
    """Whose it is to be."""

    owner: (
        Annotated[Name, Meta(description="Whose, for a credential that reaches several; by default its own.")] | None
    ) = None


class ExportRequest(OwnerRequest):
    """Which grains leave."""

    namespace: Annotated[Name, Meta(description="Only of this namespace.")] | None = None
    history: Annotated[bool, Meta(description="false: only what is current.")] = True
    cursor: (
        Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,17}$", description="`next_cursor` of the page before.")] | None
    ) = None


class VerificationRequest(Shape):
    """What is known of a grain's truth, why, and the grain that speaks against it."""

    status: Status
    reason: Reason = ""
    by: Annotated[Address, Meta(description="The grain that speaks against it.")] | None = None

    def __post_init__(self) -> None:
        if self.by is not None:
            check_address(self.by)


class ReasonRequest(Shape):
    """Why."""

    reason: Reason = ""


class EraseUserRequest(Shape):
    """Whose memories are to be erased, and why."""

    user_id: Name
    reason: Reason = ""
    owner: Name | None = None


class ConsentRequest(Shape):
    """Who wants to do what with what is whose."""

    subject_did: Annotated[Name, Meta(description="Whose it is.")]
    grantee_did: Annotated[Name, Meta(description="Who wants to.")]
    scope: Annotated[Name, Meta(description="What they want to do.")] = "retrieve"
