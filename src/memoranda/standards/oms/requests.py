"""The requests to a store of grains, declared once and parsed from untrusted JSON (section 28).

Each request is a shape. `parse` accepts any JSON value and returns a request that needs no further checks, or raises
InvalidInput with the field and the expected value. The JSON Schema of the shape documents it in every interface.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType, field

from memoranda.encoding.shapes import Schema, Shape, one_of
from memoranda.errors import InvalidInput
from memoranda.model.oms_names import check_address
from memoranda.model.selection import Selection
from memoranda.standards.oms.registry import BY_NAME, DEFAULT_NAMESPACE, TYPES, is_domain_byte

# Results per page.
MAX_LIMIT: Final = 500
DEFAULT_LIMIT: Final = 20
# Bytes of a search text, which is a question rather than a document.
MAX_TEXT_BYTES: Final = 8192
# Characters. Longer than any real name. Subjects and objects are compared by fingerprint, whatever their length.
MAX_NAME_CHARS: Final = 4096
# Characters; a reason is a line or two for the audit log.
MAX_REASON_CHARS: Final = 1024

_DOMAIN_TYPE: Final = re.compile(r"0x[fF][0-9a-fA-F]", re.ASCII)
_NO_CONTROL_CHARACTERS: Final = r"^(?![\s\S]*[\x00-\x08\x0b-\x1f\x7f-\x9f])"

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        pattern=_NO_CONTROL_CHARACTERS,
        extra={
            "expected": f"a non-empty string of at most {MAX_NAME_CHARS} characters without control characters"
        },
        extra_json_schema={"pattern": None},
    ),
]
Reason = Annotated[
    str,
    Meta(
        max_length=MAX_REASON_CHARS,
        pattern=_NO_CONTROL_CHARACTERS,
        description="The reason, in a line or two; kept in the audit log.",
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
# The target of an erasure by address: the memory with all its earlier versions, or the one grain.
ErasureScope = Literal["memory", "grain"]
Status = Literal["unverified", "verified", "contested", "retracted"]
Instant = int | str

if TYPE_CHECKING:
    TypeByte = int
else:

    class TypeByte(int):
        """A grain type: its name, or the type byte of an application's own type."""

        EXPECTED: ClassVar[str] = f"one of {'|'.join(kind.name for kind in TYPES)}, or 0xF0 to 0xFF"
        SCHEMA: ClassVar[Schema] = {
            "anyOf": [one_of(tuple(BY_NAME)), {"type": "string", "pattern": "^0x[fF][0-9a-fA-F]$"}]
        }

        @classmethod
        def from_json(cls, value: object) -> TypeByte:
            """Parse a type name or a domain byte such as "0xF0". Raises ValueError."""
            if isinstance(value, str):
                if (grain_type := BY_NAME.get(value)) is not None:
                    return cls(grain_type.byte)
                if _DOMAIN_TYPE.fullmatch(value) and is_domain_byte(int(value, 16)):
                    return cls(int(value, 16))
            raise ValueError(f"must be {cls.EXPECTED}")


class Grain(Shape, forbid_unknown_fields=False):
    """The fields of a grain under their full names (sections 6, 8). Fields that are not listed here are kept too."""

    type: Annotated[
        str,
        Meta(
            min_length=1,
            description="The type of the grain, with the fields it requires: belief (subject, relation, object, "
            "confidence), event (content), state (context), workflow (steps, trigger), action (a tool and its input or "
            "result), observation (observer_id, observer_type), goal (description, goal_state), reasoning (premises or "
            "conclusion), consensus (participating_observers, threshold, agreement_count, dissent_count), consent "
            "(subject_did, grantee_did, scope, is_withdrawal).",
            examples=[kind.name for kind in TYPES],
        ),
    ]
    subject: (
        Annotated[str, Meta(description="The person or thing it is about.", examples=["user:ada"])]
        | UnsetType
    ) = UNSET
    relation: (
        Annotated[
            str, Meta(description="The relation between subject and object.", examples=["prefers"])
        ]
        | UnsetType
    ) = UNSET
    object: Annotated[
        Any, Meta(description="The statement about the subject: a text or a JSON object.")
    ] = UNSET
    confidence: (
        Annotated[float, Meta(ge=0, le=1, description="Certainty of a belief, from 0 to 1.")]
        | UnsetType
    ) = UNSET
    content: Annotated[str, Meta(description="The text of an event.")] | UnsetType = UNSET
    description: Annotated[str, Meta(description="The aim of a goal.")] | UnsetType = UNSET
    goal_state: Literal["active", "satisfied", "failed", "suspended"] | UnsetType = UNSET
    namespace: (
        Annotated[
            str, Meta(description="The project; default: the connection's namespace, or shared.")
        ]
        | UnsetType
    ) = UNSET
    user_id: Annotated[str, Meta(description="The person it is about.")] | UnsetType = UNSET
    session_id: Annotated[str, Meta(description="The conversation it belongs to.")] | UnsetType = (
        UNSET
    )
    created_at: (
        Annotated[
            Instant, Meta(description="Milliseconds since 1970, or RFC 3339; by default now.")
        ]
        | UnsetType
    ) = UNSET
    valid_from: Annotated[Instant, Meta(description="Start of validity.")] | UnsetType = UNSET
    valid_to: Annotated[Instant, Meta(description="End of validity.")] | UnsetType = UNSET
    importance: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    source_type: (
        Annotated[str, Meta(description="The kind of source.", examples=["user_explicit"])]
        | UnsetType
    ) = UNSET
    structural_tags: (
        Annotated[list[str], Meta(description="Tags, such as pii:email.")] | UnsetType
    ) = UNSET
    derived_from: (
        Annotated[list[str], Meta(description="Addresses of the grains it was derived from.")]
        | UnsetType
    ) = UNSET
    context: (
        Annotated[dict[str, Any], Meta(description="Any JSON object; the content of a state.")]
        | UnsetType
    ) = UNSET


GrainFields = Annotated[dict[str, Any], Meta(extra={"shape": Grain})]


G = TypeVar("G", bound="PutRequest")


def parse_with_grain(body: object, shape: type[G]) -> G:
    """Parse a request whose body is a grain, or an object with the grain under `grain` and options next to it."""
    # Every grain has a type. A body with a type is thus a grain, even if it has its own field called `grain`.
    is_bare = isinstance(body, dict) and ("grain" not in body or "type" in body)
    return shape.parse({"grain": body} if is_bare else body)


class PutRequest(Shape):
    """A request to add a grain."""

    grain: GrainFields


class RenderedGrain(PutRequest):
    """A grain as a response shows it. The other members are the store's and are ignored."""

    address: Any = None
    index: Any = None
    is_held: Any = field(default=None, name="held")
    needs_review: Any = None
    native: Any = None


class GetRequest(Shape):
    """A request for one grain."""

    address: Address


class SupersedeRequest(PutRequest):
    """The complete grain that replaces another."""

    justification: Annotated[
        Reason, Meta(description="The reason, in one line; required for a protected grain.")
    ] = ""


class AddressedSupersedeRequest(SupersedeRequest):
    """The address of a grain and the complete grain that replaces it."""

    address: Address


class FindRequest(Shape):
    """A search: every given field must be equal, and `text` is a keyword search. Give at least one."""

    text: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_TEXT_BYTES,
                pattern=r"\S",
                description="Words to search for, in grains of all types; one page of results, best first.",
                extra={"expected": f"words, of at most {MAX_TEXT_BYTES} bytes"},
            ),
        ]
        | None
    ) = None
    subject: Annotated[Name, Meta(description="Only grains with exactly this subject.")] | None = (
        None
    )
    relation: (
        Annotated[Name, Meta(description="Only grains with exactly this relation.")] | None
    ) = None
    object: Annotated[Name, Meta(description="Only grains with exactly this object.")] | None = None
    namespace: (
        Annotated[
            Name, Meta(description="Only this namespace; grains without one are in `shared`.")
        ]
        | None
    ) = None
    user_id: Annotated[Name, Meta(description="Only grains about this user.")] | None = None
    session_id: Annotated[Name, Meta(description="Only grains of this session.")] | None = None
    type_byte: Annotated[TypeByte, Meta(description="Only grains of this type.")] | None = field(
        default=None, name="type"
    )
    # Excludes superseded and forgotten grains.
    current: Annotated[
        bool, Meta(description="false: include superseded and forgotten grains; not with text.")
    ] = True
    limit: Annotated[int, Meta(ge=1, description=f"Results per page, at most {MAX_LIMIT}.")] = (
        DEFAULT_LIMIT
    )
    cursor: (
        Annotated[Name, Meta(description="`next_cursor` of the previous page; not with text.")]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.text is None:
            return
        if len(self.text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
            raise InvalidInput(f"text must be words, of at most {MAX_TEXT_BYTES} bytes")
        if self.cursor is not None or not self.current:
            raise InvalidInput(
                "a search by text returns one page of current grains; leave out cursor and current"
            )

    @property
    def selection(self) -> Selection:
        """The request as a selection of the store."""
        return Selection(
            status_filter="current" if self.current else "unforgotten",
            subject=self.subject,
            relation=self.relation,
            object=self.object,
            space="" if self.namespace == DEFAULT_NAMESPACE else self.namespace,
            user=self.user_id,
            session=self.session_id,
        )

    def exact_fields(self) -> list[str]:
        """Return the names of the fields that must match exactly."""
        names = [name for name in _EXACT_FIELDS if getattr(self, name) is not None]
        return [*names, *(["type"] if self.type_byte is not None else [])]


_EXACT_FIELDS: Final = ("subject", "relation", "object", "namespace", "user_id", "session_id")


class OwnedFindRequest(FindRequest):
    """A search among the grains of one owner."""

    owner: (
        Annotated[
            Name,
            Meta(
                description="The owner, for a credential with access to several; default: its own."
            ),
        ]
        | None
    ) = None


class OwnerRequest(Shape):
    """A request that names an owner."""

    owner: (
        Annotated[
            Name,
            Meta(
                description="The owner, for a credential with access to several; default: its own."
            ),
        ]
        | None
    ) = None


class ExportRequest(OwnerRequest):
    """A request to export grains."""

    namespace: Annotated[Name, Meta(description="Only grains in this namespace.")] | None = None
    history: Annotated[bool, Meta(description="false: only current grains.")] = True
    cursor: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9]{1,18}\.[0-9]{1,18}$",
                description="`next_cursor` of the previous page.",
            ),
        ]
        | None
    ) = None


class VerificationRequest(Shape):
    """The verification status of a grain, its reason, and the address of a contradicting grain."""

    status: Status
    reason: Reason = ""
    by: Annotated[Address, Meta(description="The grain that contradicts it.")] | None = None

    def __post_init__(self) -> None:
        if self.by is not None:
            check_address(self.by)


class ReasonRequest(Shape):
    """The reason of an operation."""

    reason: Reason = ""


class EraseRequest(Shape):
    """A request to erase the memory that a grain belongs to, or the one grain."""

    reason: Reason = ""
    scope: Annotated[
        ErasureScope,
        Meta(
            description=(
                "`memory`: the grain with all versions before it. `grain`: this version alone; "
                "earlier ones keep their content."
            )
        ),
    ] = "memory"


class EraseUserRequest(Shape):
    """A request to erase all memories of one user."""

    user_id: Name
    reason: Reason = ""
    owner: Name | None = None


class ConsentRequest(Shape):
    """A question whether one party consented to another's use of its data."""

    subject_did: Annotated[Name, Meta(description="The party whose data it is.")]
    grantee_did: Annotated[Name, Meta(description="The party that wants to use it.")]
    scope: Annotated[Name, Meta(description="The intended use.")] = "retrieve"
