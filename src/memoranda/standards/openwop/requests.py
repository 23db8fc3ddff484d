"""The HTTP requests to a host; entries, options, runs and proposal revisions have modules of their own.

Each class is one request. Its fields are declared once, with their limits: the parser, the OpenAPI document and the
TypeScript types are made from the declaration (`encoding/shapes`). A field in snake_case is in camelCase on the wire.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, Moment
from memoranda.standards.openwop.entry import MAX_ID_CHARS, Draft
from memoranda.standards.openwop.events import (
    HOST_PROPOSAL_KINDS,
    MAX_EVENT_ID_CHARS,
    PROPOSAL_KINDS,
)
from memoranda.standards.openwop.fields import OpenwopShape, text_limit, word_choice
from memoranda.standards.openwop.proposals import (
    MAX_RATIONALE_CHARS,
    MAX_SOURCE_RUNS,
    MAX_TITLE_CHARS,
    STATES,
)
from memoranda.standards.openwop.refs import MAX_REF_CHARS
from memoranda.standards.openwop.runs import (
    MAX_AGENT_ID_CHARS,
    MAX_MESSAGE_CHARS,
    MAX_RUN_ID_CHARS,
    MAX_WORKFLOW_ID_CHARS,
    MIN_AGENT_ID_CHARS,
    RunTags,
)

# Entries per request, which are written in one unit of work.
MAX_ENTRIES: Final = 500
# Characters of a secret, a cron expression or time zone, and a reason.
MAX_SECRET_CHARS: Final = 65_536
MAX_CRON_CHARS: Final = 256
MAX_REASON_CHARS: Final = 2000
# Milliseconds for which a stream may collect events (stream-modes.md).
MAX_BUFFER_MS: Final = 5000
# The largest count, nine digits: more entries than any list has.
MAX_COUNT: Final = 999_999_999

Ref = Annotated[str, text_limit(MAX_REF_CHARS)]
EventName = Annotated[str, text_limit(MAX_EVENT_ID_CHARS)]
Seconds = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Budget = Annotated[int, Meta(ge=1)]
Fields = dict[str, Any]


class RefRequest(OpenwopShape):
    """A request for one ref."""

    memory_ref: Ref


# --- memory ------------------------------------------------------------------------------------------------


class AttributedEntry(Draft):
    """An entry that a node of a run writes."""

    node_id: Annotated[EventName, Meta(description="The writing node.")] | None = None
    agent_id: Annotated[str, text_limit(MAX_ID_CHARS)] | None = None


class ForgetRequest(RefRequest):
    """A request to forget all entries about a subject."""

    subject: Annotated[str, text_limit(MAX_ID_CHARS)]


class PutEntriesRequest(RefRequest):
    """A request to write many entries, all or none."""

    entries: Annotated[tuple[Draft, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]


class ConsolidationRequest(RefRequest):
    """A request to compact, distill or consolidate the memory of a ref."""

    act: Annotated[
        Literal["compaction", "distillation", "consolidation"], Meta(description="The kind of run.")
    ]
    token_budget: Annotated[Budget, Meta(description="The budget of a distillation.")] | None = None
    is_indexed: Annotated[
        bool, Meta(description="Add the archive of a distillation to the index.")
    ] = True
    texts: (
        Annotated[
            tuple[str, ...],
            Meta(
                max_length=MAX_ENTRIES,
                description="Texts to distill instead of the memory of the ref.",
            ),
        ]
        | None
    ) = None
    run_id: (
        Annotated[str, text_limit(MAX_RUN_ID_CHARS, "Redact the secrets of this run.")] | None
    ) = None
    of_archives: Annotated[bool, Meta(description="Distill the archives of the ref into one.")] = (
        False
    )


# --- runs --------------------------------------------------------------------------------------------------


class AgentRef(OpenwopShape, forbid_unknown_fields=False):
    """An agent and the ref of its memory."""

    agent_id: Annotated[str, Meta(min_length=MIN_AGENT_ID_CHARS, max_length=MAX_AGENT_ID_CHARS)]
    memory_ref: Ref | UnsetType = UNSET


class BeginRunRequest(OpenwopShape):
    """A run of the host itself."""

    workflow_id: Annotated[str, text_limit(MAX_WORKFLOW_ID_CHARS)]
    run_id: (
        Annotated[
            str,
            Meta(
                # The id is part of paths and of the ids of events.
                pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?![\s\S])",
                description="The host's own id for it.",
                extra={"expected": "up to 100 letters, digits, dots, hyphens and underscores"},
                extra_json_schema={"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
            ),
        ]
        | None
    ) = None
    agent: Annotated[Fields, Meta(extra={"shape": AgentRef})] | None = None
    tags: RunTags = ()
    metadata: Fields = field(default_factory=dict)


class EmitEventRequest(OpenwopShape):
    """An event that the server does not record by itself."""

    type: Annotated[EventName, Meta(description="Dotted words.")]
    payload: Fields = field(default_factory=dict)
    node_id: EventName | None = None


class RunError(OpenwopShape):
    """The error of a failed run."""

    code: Annotated[str, text_limit(MAX_RUN_ID_CHARS)]
    message: Annotated[str, text_limit(MAX_MESSAGE_CHARS)]
    details: Fields | UnsetType = UNSET


class CancelRunRequest(OpenwopShape):
    """A request to cancel a run."""

    reason: (
        Annotated[str, text_limit(MAX_MESSAGE_CHARS, "Not stored: a log holds no free text.")]
        | None
    ) = None


class FinishRunRequest(OpenwopShape):
    """The result of a run."""

    status: Literal["completed", "failed", "cancelled"] = "completed"
    variables: (
        Annotated[
            Fields,
            Meta(
                description="{$memory: {memoryRef, id}} or {$memory: {memoryRef, options}} is resolved on reading."
            ),
        ]
        | None
    ) = None
    error: Annotated[Fields, Meta(extra={"shape": RunError})] | None = None


class Secret(OpenwopShape):
    """A secret that a run resolved."""

    secret_id: EventName
    value: Annotated[str, text_limit(MAX_SECRET_CHARS)]


class ListRunsRequest(OpenwopShape):
    """A request for a page of runs."""

    before: Annotated[Moment, Meta(description="Only runs started before this time.")] | None = None
    cursor: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9]{1,15}\.[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?![\s\S])",
                description="`nextCursor` of the previous page.",
                extra={"expected": "the nextCursor of the previous page"},
                extra_json_schema={"pattern": "^[0-9]{1,15}\\.[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"},
            ),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, description="Runs per page, at most 100.")] | None = None
    is_full: Annotated[
        bool, Meta(description="Include variables and metadata; then a page has fewer runs.")
    ] = field(default=False, name="whole")

    def __post_init__(self) -> None:
        if self.before is not None and self.cursor is not None:
            raise InvalidInput("give before or cursor, not both")

    @property
    def start(self) -> tuple[Instant, str] | Instant | None:
        """The start of the page: a time, or a time and the id of the last run."""
        if self.cursor is None:
            return self.before
        started_at, _, run_id = self.cursor.partition(".")
        return Instant(int(started_at)), run_id


class EventsRequest(OpenwopShape):
    """A request for the events of a run."""

    last_sequence: (
        Annotated[int, Meta(ge=0, le=MAX_COUNT, description="Only later events.")] | None
    ) = None


class FollowRequest(EventsRequest):
    """A request to stream the events of a run."""

    stream_mode: Annotated[
        str,
        text_limit(
            MAX_EVENT_ID_CHARS,
            "`updates`: transitions and memory events; `values`: the run after each of them; `debug`: everything;"
            " `messages`: the output of models. Several, joined by commas, but for `values`.",
        ),
    ] = "updates"
    buffer_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_BUFFER_MS,
            description="Milliseconds for which events of a stream are collected into one `batch`.",
        ),
    ] = 0


class PollRequest(EventsRequest):
    """A request to wait for events of a run."""

    timeout: (
        Annotated[Seconds, Meta(description="Seconds to wait, at most 15; default: 10.")] | None
    ) = None


class RegisterWebhookRequest(OpenwopShape):
    """A webhook and its filters (webhooks.md)."""

    url: Annotated[str, text_limit(2048, "The public https URL that receives the events.")]
    events: Annotated[
        tuple[EventName, ...],
        Meta(min_length=1, max_length=64, description="The event types to deliver."),
    ]
    tenant_id: (
        Annotated[
            str, text_limit(MAX_ID_CHARS, "The tenant of the credential; another one is refused.")
        ]
        | None
    ) = None
    tags: Annotated[RunTags, Meta(description="Only events of runs with one of these tags.")] = ()


class UnregisterWebhookRequest(OpenwopShape):
    """A request to remove a webhook of the credential's tenant."""

    tenant_id: (
        Annotated[
            str, text_limit(MAX_ID_CHARS, "The tenant of the credential; another one is refused.")
        ]
        | None
    ) = None


# --- workspace ---------------------------------------------------------------------------------------------


class ListFilesRequest(OpenwopShape):
    """A request for a list of files."""

    prefix: Annotated[str, Meta(description="Only paths with this prefix.")] = ""


class GetFileRequest(OpenwopShape):
    """A request for a version of a file."""

    version: Annotated[int, Meta(ge=1, le=MAX_COUNT, description="An earlier version.")] | None = (
        None
    )


# --- commitments and schedules -----------------------------------------------------------------------------


class ListCommitmentsRequest(OpenwopShape):
    """A request for a list of commitments."""

    memory_ref: Annotated[Ref, Meta(description="Only commitments of this ref.")] | None = None


class WatchRequest(RefRequest):
    """A request to find commitments in new entries of a ref, or to stop that."""

    watched: bool = True


class SnoozeRequest(OpenwopShape):
    """A request to postpone a commitment."""

    until: Moment


class FireRequest(OpenwopShape):
    """A request to fire a commitment as if its condition held."""

    condition: (
        Annotated[
            Literal["time", "predicate"],
            Meta(description="The condition that the commitment must have."),
        ]
        | None
    ) = None


class ScheduleRequest(RefRequest):
    """A request to distill a ref regularly."""

    cron: Annotated[str, text_limit(MAX_CRON_CHARS, "A cron expression with five fields.")]
    timezone: Annotated[
        str, text_limit(MAX_CRON_CHARS, "A time zone of the tz database, such as Europe/Berlin.")
    ] = "UTC"
    token_budget: Budget | None = None


# --- proposals ---------------------------------------------------------------------------------------------


class ListProposalsRequest(OpenwopShape):
    """A request for a list of proposals."""

    state: Annotated[str, word_choice(STATES, "Only proposals in this state.")] | None = None
    kind: (
        Annotated[
            str,
            word_choice(
                (*PROPOSAL_KINDS, *HOST_PROPOSAL_KINDS),
                "Only proposals of this kind; without one, those of the standard.",
            ),
        ]
        | None
    ) = None


class ProposeRequest(OpenwopShape):
    """A proposal made by a person."""

    kind: Annotated[str, word_choice(PROPOSAL_KINDS)]
    artifact: Fields
    title: Annotated[str, text_limit(MAX_TITLE_CHARS)] | UnsetType = UNSET
    rationale: Annotated[str, text_limit(MAX_RATIONALE_CHARS)] | UnsetType = UNSET
    source_run_ids: Annotated[
        tuple[Annotated[str, text_limit(MAX_RUN_ID_CHARS)], ...], Meta(max_length=MAX_SOURCE_RUNS)
    ] = ()


class ApplyRequest(OpenwopShape):
    """A request to apply a proposal under an approval."""

    approval_id: Annotated[str, text_limit(MAX_ID_CHARS)] | None = None
    artifact_digest: (
        Annotated[
            str,
            text_limit(MAX_ID_CHARS, "Refused unless the artifact, as RFC 8785, has this sha256."),
        ]
        | None
    ) = None


class RejectRequest(OpenwopShape):
    """A request to reject a proposal, with a reason."""

    reason: Annotated[str, text_limit(MAX_REASON_CHARS)] | None = None
