"""The operations' parameters, declared once and read from untrusted JSON (section 3).

Each is a shape: `parse` takes any JSON value and returns what needs no further checks, or raises InvalidInput that
names the field and what was expected there; its JSON Schema is what the bindings describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypeVar

from msgspec import Meta, field

from memoranda.encoding.shapes import Shape, fields_of
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, Moment
from memoranda.model.selection import Words
from memoranda.model.standard import Standard
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.record import Actor, patch_problems
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

# A question, not a document; longer ones cost the index more than they tell it.
MAX_QUERY_BYTES: Final = 8192
MAX_REASON_CHARS: Final = 1024
MAX_PREFERENCES: Final = 16
# The most of one memory, and of a whole block, that is put into a model's context.
MAX_CHARS_PER_RECORD: Final = 20_000
MAX_BUDGET_CHARS: Final = 1_000_000
# In the change feed.
MAX_PLACE: Final = 10**18 - 1
# Of audit events in one answer.
MAX_EVENTS: Final = 1000

T = TypeVar("T", bound=str)


class ActorSaid(Shape):
    """Who asks, if it is not the credential's own holder; the audit log keeps it as a claim."""

    did: Annotated[Name, Meta(description="A DID or another name.")]
    kind: Annotated[ActorKind, Meta(description="What they are; user by default.")] | None = None


class ScopeFilter(Shape):
    """Where to look."""

    owner: Annotated[Name, Meta(description="Whose memory: a DID; by default the credential's own.")] | None = None
    user: Annotated[Name, Meta(description="About this person.")] | None = None
    project: Annotated[Name, Meta(description="Of this project.", examples=["acme/website"])] | None = None
    agent: Annotated[Name, Meta(description="Of this agent.")] | None = None
    session: Annotated[Name, Meta(description="Of this conversation.")] | None = None
    visibility: Annotated[Visibility, Meta(description="Of this visibility.")] | None = None

    def given(self) -> dict[str, str]:
        """What is filtered by."""
        values = ((name, getattr(self, name)) for name in fields_of(ScopeFilter))
        return {name: value for name, value in values if value is not None}


class SubscribeRequest(ScopeFilter):
    """Which changes (section 3.8); every field given must match exactly."""

    after: Annotated[int, Meta(ge=0, le=MAX_PLACE, description="Go on after the event with this id.")] | None = None


Tags = Annotated[list[Name] | Name, Meta(description="All of these tags.")]
WrittenIn = Annotated[Standard, Meta(description="Written through this standard.")]


class RecallFilter(Shape):
    """Further conditions. `known_at`, `tags` and `standard` are beyond the standard."""

    kind: Annotated[list[Kind] | Kind, Meta(description="Only these kinds.")] | None = None
    status: (
        Annotated[list[Status] | Status, Meta(description="Only these; by default active and candidate.")] | None
    ) = None
    valid_at: Annotated[Moment, Meta(description="What was true then; by default now.")] | None = None
    known_at: Annotated[Moment, Meta(description="What this store knew then; by default now.")] | None = None
    tags: Tags | None = None
    standard: WrittenIn | None = None
    scope: (
        Annotated[
            Literal["strict"],
            Meta(
                description="Every field of scope must match exactly. By default what belongs to no project or is "
                "about nobody is found, too, and agent and session only rank."
            ),
        ]
        | None
    ) = None


# Parts of relevance, as `memoranda.retrieval.weights` has them.
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
]
MAX_WEIGHT: Final = 10.0


class Hints(Shape):
    """How to order."""

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
    asked_at: Annotated[Moment, Meta(description='When it is asked, for "yesterday"; by default now.')] | None = None
    zone: (
        Annotated[Name, Meta(description="Where it is asked; by default the server's.", examples=["Europe/Berlin"])]
        | None
    ) = None

    weights: (
        Annotated[
            dict[Part, Annotated[float, Meta(ge=0, le=MAX_WEIGHT)]],
            Meta(description="How much each part of relevance counts, where it is to be something else than usual."),
        ]
        | None
    ) = None
    words_only: Annotated[bool, Meta(description="Look for words alone, and not for what they mean.")] = False
    floor: Annotated[bool, Meta(description="Leave out what is too far from the question to answer it.")] = True
    rerank: Annotated[
        bool, Meta(description="Read the best 20 once more, each together with the question: better, and slower.")
    ] = False
    explain: Annotated[bool, Meta(description="Say with each result what its relevance is made of.")] = False

    def __post_init__(self) -> None:
        if self.zone is not None:
            from memoranda.model.cron import zone

            zone(self.zone)


_NO_FILTER: Final = RecallFilter()
_NO_HINTS: Final = Hints()


class RecallRequest(Shape):
    """What to look for (section 3.2)."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_QUERY_BYTES,
            pattern=r"\S",
            description=f"The question or its key words; at most {MAX_QUERY_BYTES} bytes.",
        ),
    ]
    asked_scope: ScopeFilter | None = field(default=None, name="scope")
    filters: RecallFilter | None = field(default=None, name="filter")
    asked_limit: (
        Annotated[int, Meta(ge=0, description=f"How many at most; more than {MAX_RECALL} is {MAX_RECALL}.")] | None
    ) = field(default=None, name="limit")
    ranking_hints: Hints | None = None
    said_by: ActorSaid | None = field(default=None, name="actor")

    def __post_init__(self) -> None:
        if len(self.query.encode("utf-8", "surrogatepass")) > MAX_QUERY_BYTES:
            raise InvalidInput(f"query must be at most {MAX_QUERY_BYTES} bytes")

    @property
    def scope(self) -> dict[str, str]:
        return {} if self.asked_scope is None else self.asked_scope.given()

    @property
    def kinds(self) -> tuple[Kind, ...] | None:
        return _several((self.filters or _NO_FILTER).kind)

    @property
    def statuses(self) -> tuple[Status, ...] | None:
        return _several((self.filters or _NO_FILTER).status)

    @property
    def valid_at(self) -> Instant | None:
        return (self.filters or _NO_FILTER).valid_at

    @property
    def known_at(self) -> Instant | None:
        return (self.filters or _NO_FILTER).known_at

    @property
    def tags(self) -> tuple[str, ...]:
        """In lower case, as they are compared."""
        return tuple(tag.lower() for tag in _several((self.filters or _NO_FILTER).tags) or ())

    @property
    def standard(self) -> Standard | None:
        return (self.filters or _NO_FILTER).standard

    @property
    def is_strict(self) -> bool:
        """Whether every field of the scope must match exactly."""
        return (self.filters or _NO_FILTER).scope == "strict"

    @property
    def limit(self) -> int:
        return self._limited(8)

    @property
    def prefer(self) -> tuple[Signal, ...]:
        return () if self.ranking_hints is None else tuple(self.ranking_hints.prefer or ())

    @property
    def words(self) -> Words:
        """What is looked for, with the clock of whoever asks."""
        hints = self.hints
        return Words(
            text=self.query,
            asked_at=hints.asked_at,
            zone=hints.zone,
            weights=tuple(sorted((hints.weights or {}).items())),
            is_explained=hints.explain,
        )

    @property
    def hints(self) -> Hints:
        return self.ranking_hints or _NO_HINTS

    @property
    def actor(self) -> Actor | None:
        return _actor(self.said_by)

    def _limited(self, default: int) -> int:
        return default if self.asked_limit is None else min(self.asked_limit, MAX_RECALL)


class RehydrateRequest(RecallRequest):
    """A recall whose results come back as one framed block (section 5.3)."""

    max_visibility: (
        Annotated[Visibility, Meta(description="The widest; by default all of one's own, of others private.")] | None
    ) = None
    max_chars: Annotated[int, Meta(ge=1, le=MAX_CHARS_PER_RECORD)] = 500
    budget_chars: Annotated[int, Meta(ge=1, le=MAX_BUDGET_CHARS)] | None = None
    ids: Annotated[bool, Meta(description="Begin each line with a short id, by which the memory can be named.")] = False

    @property
    def limit(self) -> int:
        return self._limited(12)


Cursor = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}$", description="`next_cursor` of the page before.")]


class ListRequest(Shape):
    """Which of the latest; every field given must match exactly. Beyond the standard."""

    project: Annotated[Name, Meta(description="Of this project.")] | None = None
    user: Annotated[Name, Meta(description="About this person.")] | None = None
    agent: Annotated[Name, Meta(description="Of this agent.")] | None = None
    session: Annotated[Name, Meta(description="Of this conversation.")] | None = None
    kind: Annotated[list[Kind] | Kind, Meta(description="Only these kinds.")] | None = None
    tags: Tags | None = None
    standard: WrittenIn | None = None
    since: Annotated[Moment, Meta(description="Written or changed then or later.")] | None = None
    valid_at: Annotated[Moment, Meta(description="What was true then; by default now.")] | None = None
    known_at: Annotated[Moment, Meta(description="What this store knew then; by default now.")] | None = None
    asked_limit: Annotated[int, Meta(ge=1, description=f"How many; more than {MAX_RECALL} is {MAX_RECALL}.")] = field(
        default=20, name="limit"
    )
    cursor: Cursor | None = None

    @property
    def kinds(self) -> tuple[Kind, ...] | None:
        return _several(self.kind)

    @property
    def limit(self) -> int:
        return min(self.asked_limit, MAX_RECALL)

    @property
    def after(self) -> int:
        """How many were passed over before."""
        return int(self.cursor or 0)

    def given(self) -> dict[str, Any]:
        """What the verb is told."""
        return {
            "project": self.project,
            "user": self.user,
            "agent": self.agent,
            "session": self.session,
            "kinds": self.kinds,
            "tags": _several(self.tags) or (),
            "standard": self.standard,
            "since": self.since,
            "valid_at": self.valid_at,
            "known_at": self.known_at,
            "after": self.after,
            "limit": self.limit,
        }


class HistoryRequest(Shape):
    """Where to go on in a long history. Beyond the standard."""

    cursor: Cursor | None = None

    @property
    def after(self) -> int:
        """How many were passed over before."""
        return int(self.cursor or 0)


# As many records leave by their ids in one answer.
MAX_NAMED: Final = 50
# As many records are taken in by one request.
MAX_IMPORT: Final = 500


class ExportRequest(Shape):
    """Which records leave. Beyond the standard."""

    owner: Annotated[Name, Meta(description="Whose; by default the credential's own.")] | None = None
    project: Annotated[Name, Meta(description="Only of this project.")] | None = None
    history: Annotated[bool, Meta(description="false: only what is current.")] = True
    carry: Annotated[
        bool, Meta(description="false: without the documents of other standards that stand behind records.")
    ] = True
    ids: (
        Annotated[
            list[Name] | Name,
            Meta(
                description=f"Only the records of these ids, at most {MAX_NAMED}, in this order, and nothing with them."
            ),
        ]
        | None
    ) = None
    cursor: (
        Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,17}$", description="`next_cursor` of the page before.")] | None
    ) = None

    @property
    def after(self) -> int:
        """The last version of the page before."""
        return int(self.cursor or 0)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of which ids, if not of all."""
        return _several(self.ids)

    def __post_init__(self) -> None:
        if len(self.names or ()) > MAX_NAMED:
            raise InvalidInput(f"ids must be at most {MAX_NAMED}")


class ImportRequest(Shape):
    """Records to take in; a bad one is reported, and the rest go on. Beyond the standard."""

    records: Annotated[list[Any], Meta(max_length=MAX_IMPORT, description="Whole records, as an export has them.")]
    restore: Annotated[bool, Meta(description="Also those that were forgotten here.")] = False
    first: Annotated[int, Meta(ge=1, le=MAX_PLACE, description="The number of the first, for the report.")] = 1


class UndoImportRequest(Shape):
    """Which import is taken back; by default the last. Beyond the standard."""

    id: Name | None = None


class GetRequest(Shape):
    """Which memory (section 3.4)."""

    # Any name will do: an identifier that is not one of ours is not found, rather than malformed.
    id: Identifier


class ActRequest(GetRequest):
    """What is done to a memory, and by whom it is said to be done."""

    said_by: ActorSaid | None = field(default=None, name="actor")

    @property
    def actor(self) -> Actor | None:
        return _actor(self.said_by)


class ReviseRequest(ActRequest):
    """Which memory, and its new content (section 3.5)."""

    patch: Annotated[dict[str, Any], Meta(extra={"shape": Patch})]

    def __post_init__(self) -> None:
        check_patch(self.patch)


class ForgetRequest(ActRequest):
    """Which memory, and why (section 3.6)."""

    reason: (
        Annotated[
            str,
            Meta(
                max_length=MAX_REASON_CHARS,
                pattern=ONE_LINE,
                description="Why, in one line; kept in the audit log.",
                extra={"expected": f"one line of at most {MAX_REASON_CHARS} characters"},
                extra_json_schema={"pattern": None},
            ),
        ]
        | None
    ) = None
    hard: Annotated[
        bool, Meta(description="true erases the content for good; false keeps it for the record, out of every recall.")
    ] = False


class FeedbackRequest(ActRequest):
    """Which memory, and what became of it (section 3.8)."""

    outcome: Annotated[Outcome, Meta(description="What you did with it.")]
    session: Annotated[Name, Meta(description="The conversation it was used in.")] | None = None


class CapabilitiesRequest(Shape):
    """Nothing is needed."""

    client: Annotated[dict[str, Any], Meta(description="Who asks; informative.")] | None = None


class AuditRequest(Shape):
    """Which events of the audit log (UMP 1.0 section 9)."""

    op: Name | list[Name] | None = None
    actor: Name | None = None
    target: Name | None = None
    owner: Name | None = None
    project: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    asked_limit: Annotated[int, Meta(ge=1, description=f"More than {MAX_EVENTS} is {MAX_EVENTS}.")] = field(
        default=100, name="limit"
    )

    @property
    def limit(self) -> int:
        """How many at most."""
        return min(self.asked_limit, MAX_EVENTS)


class AuditVerifyRequest(Shape):
    """Whose audit log; by default the credential's own."""

    owner: Name | None = None


class NewMemory(DraftFields):
    """The memory: kind and body.text are needed. Owner and provenance are filled in from the credential."""

    scope: NotRequired[NewScope]
    provenance: NotRequired[Provenance]


class RememberRequest(NewMemory):
    """The memory: kind and body.text are needed. Owner and provenance are filled in from the credential."""

    record: NotRequired[
        Annotated[
            dict[str, Any], Meta(description="Instead of the above: the same fields wrapped, as UMP 3.3 writes it.")
        ]
    ]


def draft_of(body: object) -> object:
    """The draft in a remember request: under `record`, as section 3.3 writes it, or bare."""
    if not isinstance(body, dict) or "record" not in body:
        return body
    if len(body) > 1:
        raise InvalidInput(f"record stands alone; beside it there is {next(n for n in body if n != 'record')[:40]!a}")
    return body["record"]


def check_patch(patch: Mapping[str, Any]) -> None:
    """Refuse what cannot be revised, and what is wrong with the rest."""
    known = fields_of(Patch)
    for name in patch:
        if name not in known:
            # Section 3.5: scope, kind and consent pass to the successor unchanged.
            raise InvalidInput(f"patch.{name[:40]} cannot be revised; only {', '.join(known)} can")
    if not patch:
        raise InvalidInput(f"patch must change at least one of {', '.join(known)}")
    problems = patch_problems(patch)
    time = patch.get("time")
    if isinstance(time, dict):
        problems += [f"time.{name} cannot be revised" for name in ("created", "observed") if name in time]
    if problems:
        raise InvalidInput("; ".join(f"patch.{problem}" for problem in problems))


def _actor(said: ActorSaid | None) -> Actor | None:
    return None if said is None else (said.did, said.kind or "user")


def _several(given: list[T] | T | None) -> tuple[T, ...] | None:
    if not given:
        return None
    return tuple(dict.fromkeys([given] if isinstance(given, str) else given))
