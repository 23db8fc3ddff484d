"""The parameters of the UMP operations, declared once and parsed from untrusted JSON (section 3).

Each request is a shape. `parse` accepts any JSON value and returns a request that needs no further checks, or raises
InvalidInput with the field and the expected value. The JSON Schema of the shape documents it in every interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypeVar

from msgspec import Meta, field

from memoranda.encoding.shapes import Shape, fields_of
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, Moment
from memoranda.model.memory import Standard
from memoranda.model.selection import KeywordQuery
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.record import Actor, find_patch_problems
from memoranda.standards.ump.shapes import (
    ONE_LINE,
    ActorKind,
    DraftFields,
    Identifier,
    Kind,
    Name,
    NewScope,
    Outcome,
    Patch,
    Provenance,
    Signal,
    Status,
    Visibility,
)

# Bytes. A query is a question, not a document; a longer one costs the index more than it contributes.
MAX_QUERY_BYTES: Final = 8192
# Characters of the reason in the audit log.
MAX_REASON_CHARS: Final = 1024
# Entries in `prefer`.
MAX_PREFERENCES: Final = 16
# Characters of one memory, and of a complete block, in a model's context.
MAX_CHARS_PER_RECORD: Final = 20_000
MAX_BUDGET_CHARS: Final = 1_000_000
# The largest position in the change feed; a number of eighteen digits fits in 64 bits.
MAX_POSITION: Final = 10**18 - 1
# Audit events per response.
MAX_EVENTS: Final = 1000

T = TypeVar("T", bound=str)


class ActorClaim(Shape):
    """The actor, if it is not the credential's holder; the audit log records it as a claim."""

    did: Annotated[Name, Meta(description="A DID or another name.")]
    kind: Annotated[ActorKind, Meta(description="The kind of actor; default: user.")] | None = None


class ScopeFilter(Shape):
    """The scope to search in."""

    owner: (
        Annotated[Name, Meta(description="The owner's DID; default: the credential's own.")] | None
    ) = None
    user: Annotated[Name, Meta(description="Only memories about this person.")] | None = None
    project: (
        Annotated[Name, Meta(description="Only this project.", examples=["acme/website"])] | None
    ) = None
    agent: Annotated[Name, Meta(description="Only this agent.")] | None = None
    session: Annotated[Name, Meta(description="Only this conversation.")] | None = None
    visibility: Annotated[Visibility, Meta(description="Only this visibility.")] | None = None

    def conditions(self) -> dict[str, str]:
        """Return the fields to filter by, with their values."""
        values = ((name, getattr(self, name)) for name in fields_of(ScopeFilter))
        return {name: value for name, value in values if value is not None}


class SubscribeRequest(ScopeFilter):
    """The changes to subscribe to (section 3.8); every given field must match exactly."""

    after: (
        Annotated[
            int, Meta(ge=0, le=MAX_POSITION, description="Continue after the event with this id.")
        ]
        | None
    ) = None


Tags = Annotated[list[Name] | Name, Meta(description="All of these tags.")]
WrittenIn = Annotated[Standard, Meta(description="Written through this standard.")]


class RecallFilter(Shape):
    """Further conditions. `known_at`, `tags` and `standard` are extensions of the standard."""

    kind: Annotated[list[Kind] | Kind, Meta(description="Only these kinds.")] | None = None
    status: (
        Annotated[
            list[Status] | Status,
            Meta(description="Only these statuses; default: active and candidate."),
        ]
        | None
    ) = None
    valid_at: (
        Annotated[Moment, Meta(description="Only what was true then; default: now.")] | None
    ) = None
    known_at: (
        Annotated[Moment, Meta(description="Only what this store knew then; default: now.")] | None
    ) = None
    tags: Tags | None = None
    standard: WrittenIn | None = None
    scope: (
        Annotated[
            Literal["strict"],
            Meta(
                description="Every field of scope must match exactly. By default memories without project or user are "
                "found too, and agent and session only affect ranking."
            ),
        ]
        | None
    ) = None


# Parts of the relevance score; see `memoranda.retrieval.weights`.
Part = Literal[
    "text",
    "window",
    "every",
    "meaning",
    "context",
    "before",
    "after",
    "person",
    "first_named",
    "date",
    "session",
    "length",
    "exact",
]
# Factor for a part of the score.
MAX_WEIGHT: Final = 10.0


class Hints(Shape):
    """Ranking hints."""

    prefer: (
        Annotated[
            list[Signal],
            Meta(
                max_length=MAX_PREFERENCES,
                description="Signals that count more among good answers, the most important one first.",
            ),
        ]
        | None
    ) = None
    asked_at: (
        Annotated[
            Moment, Meta(description='The time of the question, for "yesterday"; default: now.')
        ]
        | None
    ) = None
    zone: (
        Annotated[
            Name,
            Meta(
                description="The time zone of the question; default: the server's.",
                examples=["Europe/Berlin"],
            ),
        ]
        | None
    ) = None

    weights: (
        Annotated[
            dict[Part, Annotated[float, Meta(ge=0, le=MAX_WEIGHT)]],
            Meta(description="Weights of the parts of relevance that differ from the defaults."),
        ]
        | None
    ) = None
    words_only: Annotated[
        bool, Meta(description="Keyword search only, without semantic search.")
    ] = False
    floor: Annotated[bool, Meta(description="Leave out weak matches.")] = True
    rerank: Annotated[
        bool, Meta(description="Re-rank the top 20 with the question (slower, more accurate).")
    ] = False
    explain: Annotated[bool, Meta(description="Explain the relevance of each result.")] = False

    def __post_init__(self) -> None:
        if self.zone is not None:
            from memoranda.model.calendar import load_zone

            load_zone(self.zone, "zone")


_NO_FILTER: Final = RecallFilter()
_NO_HINTS: Final = Hints()


class RecallRequest(Shape):
    """A search for memories (section 3.2)."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_QUERY_BYTES,
            pattern=r"\S",
            description=f"The question or keywords; at most {MAX_QUERY_BYTES} bytes.",
        ),
    ]
    scope_filter: ScopeFilter | None = field(default=None, name="scope")
    filters: RecallFilter | None = field(default=None, name="filter")
    requested_limit: (
        Annotated[int, Meta(ge=0, description=f"Maximum number of results, at most {MAX_RECALL}.")]
        | None
    ) = field(default=None, name="limit")
    ranking_hints: Hints | None = None
    claimed_actor: ActorClaim | None = field(default=None, name="actor")

    def __post_init__(self) -> None:
        if len(self.query.encode("utf-8", "surrogatepass")) > MAX_QUERY_BYTES:
            raise InvalidInput(f"query must be at most {MAX_QUERY_BYTES} bytes")

    @property
    def scope(self) -> dict[str, str]:
        """The scope fields to filter by."""
        return {} if self.scope_filter is None else self.scope_filter.conditions()

    @property
    def kinds(self) -> tuple[Kind, ...] | None:
        """The kinds to search for, or None for all."""
        return _as_tuple((self.filters or _NO_FILTER).kind)

    @property
    def statuses(self) -> tuple[Status, ...] | None:
        """The statuses to search for, or None for the default."""
        return _as_tuple((self.filters or _NO_FILTER).status)

    @property
    def valid_at(self) -> Instant | None:
        """The time at which memories must be true, or None for now."""
        return (self.filters or _NO_FILTER).valid_at

    @property
    def known_at(self) -> Instant | None:
        """The time at which the store must have known them, or None for now."""
        return (self.filters or _NO_FILTER).known_at

    @property
    def tags(self) -> tuple[str, ...]:
        """The required tags, in lower case for comparison."""
        return tuple(tag.lower() for tag in _as_tuple((self.filters or _NO_FILTER).tags) or ())

    @property
    def standard(self) -> Standard | None:
        """The standard of the documents, or None for all."""
        return (self.filters or _NO_FILTER).standard

    @property
    def is_strict(self) -> bool:
        """True if every field of the scope must match exactly."""
        return (self.filters or _NO_FILTER).scope == "strict"

    @property
    def limit(self) -> int:
        """The maximum number of results."""
        return self._capped_limit(8)

    @property
    def prefer(self) -> tuple[Signal, ...]:
        """The preferred ranking signals, in order."""
        return () if self.ranking_hints is None else tuple(self.ranking_hints.prefer or ())

    @property
    def words(self) -> KeywordQuery:
        """The query text, with the caller's time, zone and weights."""
        hints = self.hints
        return KeywordQuery(
            text=self.query,
            asked_at=hints.asked_at,
            zone=hints.zone,
            weights=tuple(sorted((hints.weights or {}).items())),
            is_explained=hints.explain,
        )

    @property
    def hints(self) -> Hints:
        """The ranking hints, or the defaults."""
        return self.ranking_hints or _NO_HINTS

    @property
    def actor(self) -> Actor | None:
        """The actor that the caller claims, or None."""
        return _to_actor(self.claimed_actor)

    def _capped_limit(self, default: int) -> int:
        """Return the requested limit up to our maximum, or the default."""
        return default if self.requested_limit is None else min(self.requested_limit, MAX_RECALL)


class RehydrateRequest(RecallRequest):
    """A recall that returns its results as one framed block (section 5.3)."""

    max_visibility: (
        Annotated[
            Visibility,
            Meta(
                description="The widest visibility; default: all of one's own memories, private ones of others."
            ),
        ]
        | None
    ) = None
    max_chars: Annotated[int, Meta(ge=1, le=MAX_CHARS_PER_RECORD)] = 500
    budget_chars: Annotated[int, Meta(ge=1, le=MAX_BUDGET_CHARS)] | None = None
    ids: Annotated[bool, Meta(description="Begin each line with a short id of its memory.")] = False

    @property
    def limit(self) -> int:
        """The maximum number of results."""
        return self._capped_limit(12)


Cursor = Annotated[
    str, Meta(pattern=r"^[1-9][0-9]{0,8}$", description="`next_cursor` of the previous page.")
]


class ListRequest(Shape):
    """A listing of the latest memories; every given field must match exactly. An extension of the standard."""

    project: Annotated[Name, Meta(description="Only this project.")] | None = None
    user: Annotated[Name, Meta(description="Only memories about this person.")] | None = None
    agent: Annotated[Name, Meta(description="Only this agent.")] | None = None
    session: Annotated[Name, Meta(description="Only this conversation.")] | None = None
    kind: Annotated[list[Kind] | Kind, Meta(description="Only these kinds.")] | None = None
    tags: Tags | None = None
    standard: WrittenIn | None = None
    since: (
        Annotated[Moment, Meta(description="Only memories written or changed since then.")] | None
    ) = None
    valid_at: (
        Annotated[Moment, Meta(description="Only what was true then; default: now.")] | None
    ) = None
    known_at: (
        Annotated[Moment, Meta(description="Only what this store knew then; default: now.")] | None
    ) = None
    requested_limit: Annotated[
        int, Meta(ge=1, description=f"Results per page, at most {MAX_RECALL}.")
    ] = field(default=20, name="limit")
    cursor: Cursor | None = None

    @property
    def kinds(self) -> tuple[Kind, ...] | None:
        """The kinds to list, or None for all."""
        return _as_tuple(self.kind)

    @property
    def limit(self) -> int:
        """The number of results per page."""
        return min(self.requested_limit, MAX_RECALL)

    @property
    def after(self) -> int:
        """The number of memories on the previous pages."""
        return int(self.cursor or 0)

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the service's `list`."""
        return {
            "project": self.project,
            "user": self.user,
            "agent": self.agent,
            "session": self.session,
            "kinds": self.kinds,
            "tags": _as_tuple(self.tags) or (),
            "standard": self.standard,
            "since": self.since,
            "valid_at": self.valid_at,
            "known_at": self.known_at,
            "after": self.after,
            "limit": self.limit,
        }


class HistoryRequest(Shape):
    """A page of a memory's history. An extension of the standard."""

    cursor: Cursor | None = None

    @property
    def after(self) -> int:
        """The number of versions on the previous pages."""
        return int(self.cursor or 0)


# Ids per export request.
MAX_EXPORT_IDS: Final = 50
# Records per import request.
MAX_IMPORT: Final = 500


class ExportRequest(Shape):
    """A request to export records. An extension of the standard."""

    owner: Annotated[Name, Meta(description="The owner; default: the credential's own.")] | None = (
        None
    )
    project: Annotated[Name, Meta(description="Only this project.")] | None = None
    history: Annotated[bool, Meta(description="false: only current versions.")] = True
    carry: Annotated[
        bool,
        Meta(
            description="false: without the original documents of other standards inside the records."
        ),
    ] = True
    ids: (
        Annotated[
            list[Name] | Name,
            Meta(
                description=f"Only the records with these ids, at most {MAX_EXPORT_IDS}, in this order."
            ),
        ]
        | None
    ) = None
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

    @property
    def record_ids(self) -> tuple[str, ...] | None:
        """The ids to export, or None for all."""
        return _as_tuple(self.ids)

    def __post_init__(self) -> None:
        if len(self.record_ids or ()) > MAX_EXPORT_IDS:
            raise InvalidInput(f"ids must have at most {MAX_EXPORT_IDS} entries")


class ImportRequest(Shape):
    """Records to import; bad ones are reported and skipped. An extension of the standard."""

    records: Annotated[
        list[Any], Meta(max_length=MAX_IMPORT, description="Complete records, as exported.")
    ]
    restore: Annotated[bool, Meta(description="Import records that were forgotten here, too.")] = (
        False
    )
    first: Annotated[
        int,
        Meta(ge=1, le=MAX_POSITION, description="The number of the first record, for the report."),
    ] = 1


class UndoImportRequest(Shape):
    """A request to undo an import, by default the last. An extension of the standard."""

    id: Name | None = None


class GetRequest(Shape):
    """A request for one memory (section 3.4)."""

    # Accept any name: an identifier that is not one of ours is not found rather than malformed.
    id: Identifier


class ActRequest(GetRequest):
    """A change of one memory, and the actor that the caller claims."""

    claimed_actor: ActorClaim | None = field(default=None, name="actor")

    @property
    def actor(self) -> Actor | None:
        """The actor that the caller claims, or None."""
        return _to_actor(self.claimed_actor)


class ReviseRequest(ActRequest):
    """The memory to revise and its new content (section 3.5)."""

    patch: Annotated[dict[str, Any], Meta(extra={"shape": Patch})]

    def __post_init__(self) -> None:
        check_patch(self.patch)


class ForgetRequest(ActRequest):
    """The memory to forget, and the reason (section 3.6)."""

    reason: (
        Annotated[
            str,
            Meta(
                max_length=MAX_REASON_CHARS,
                pattern=ONE_LINE,
                description="The reason, in one line; kept in the audit log.",
                extra={"expected": f"one line of at most {MAX_REASON_CHARS} characters"},
                extra_json_schema={"pattern": None},
            ),
        ]
        | None
    ) = None
    hard: Annotated[
        bool,
        Meta(
            description="true: erase the content permanently; false: keep it in the history, hidden from recall."
        ),
    ] = False


class FeedbackRequest(ActRequest):
    """Feedback on a memory (section 3.8)."""

    outcome: Annotated[Outcome, Meta(description="Your use of the memory.")]
    session: Annotated[Name, Meta(description="The conversation it was used in.")] | None = None


class CapabilitiesRequest(Shape):
    """A request for the server's capabilities. Nothing is required."""

    client: Annotated[dict[str, Any], Meta(description="The client; informative.")] | None = None


class AuditRequest(Shape):
    """A filter for events of the audit log (UMP 1.0 section 9)."""

    op: Name | list[Name] | None = None
    actor: Name | None = None
    target: Name | None = None
    owner: Name | None = None
    project: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    requested_limit: Annotated[
        int, Meta(ge=1, description=f"Events per response, at most {MAX_EVENTS}.")
    ] = field(default=100, name="limit")

    @property
    def limit(self) -> int:
        """The maximum number of events."""
        return min(self.requested_limit, MAX_EVENTS)


class AuditVerifyRequest(Shape):
    """A request to verify an owner's audit log, by default that of the credential's owner."""

    owner: Name | None = None


class NewMemory(DraftFields):
    """The memory; kind and body.text are required. The credential determines owner and provenance."""

    scope: NotRequired[NewScope]
    provenance: NotRequired[Provenance]


class RememberRequest(NewMemory):
    """The memory; kind and body.text are required. The credential determines owner and provenance."""

    record: NotRequired[
        Annotated[
            dict[str, Any],
            Meta(description="The same fields in a wrapper, as in UMP 3.3, instead of the above."),
        ]
    ]


def unwrap_draft(body: object) -> object:
    """Return the draft of a remember request: bare, or under `record` as in section 3.3. Raises InvalidInput."""
    if not isinstance(body, dict) or "record" not in body:
        return body
    other_names = [name for name in body if name != "record"]
    if other_names:
        raise InvalidInput(f"record must be the only field; remove {other_names[0][:40]!a}")
    return body["record"]


def check_patch(patch: Mapping[str, Any]) -> None:
    """Raise InvalidInput for fields that cannot be revised and for invalid values."""
    fields = fields_of(Patch)
    for name in patch:
        if name not in fields:
            # Section 3.5: scope and kind pass to the successor unchanged, and so does consent, but for what is added.
            raise InvalidInput(f"patch.{name[:40]} cannot be revised; only {', '.join(fields)} can")
    if not patch:
        raise InvalidInput(f"patch must change at least one of {', '.join(fields)}")
    problems = find_patch_problems(patch)
    time = patch.get("time")
    if isinstance(time, dict):
        problems += [
            f"time.{name} cannot be revised" for name in ("created", "observed") if name in time
        ]
    if problems:
        raise InvalidInput("; ".join(f"patch.{problem}" for problem in problems))


def _to_actor(claim: ActorClaim | None) -> Actor | None:
    """Return the claimed actor; its kind is user by default."""
    return None if claim is None else (claim.did, claim.kind or "user")


def _as_tuple(values: list[T] | T | None) -> tuple[T, ...] | None:
    """Return one value or several as a tuple without duplicates; None for none."""
    if not values:
        return None
    return tuple(dict.fromkeys([values] if isinstance(values, str) else values))
