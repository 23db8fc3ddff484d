"""What is asked of a host over HTTP, declared once; entries, options, runs and revisions have modules of their own."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, Moment
from memoranda.standards.openwop.entry import MAX_ID_CHARS, Draft
from memoranda.standards.openwop.events import MAX_EVENT_ID_CHARS, PROPOSAL_KINDS
from memoranda.standards.openwop.fields import OpenwopShape, chars, word
from memoranda.standards.openwop.proposals import MAX_RATIONALE_CHARS, MAX_SOURCE_RUNS, MAX_TITLE_CHARS, STATES
from memoranda.standards.openwop.refs import MAX_REF_CHARS
from memoranda.standards.openwop.runs import (
    MAX_AGENT_ID_CHARS,
    MAX_MESSAGE_CHARS,
    MAX_RUN_ID_CHARS,
    MAX_WORKFLOW_ID_CHARS,
    MIN_AGENT_ID_CHARS,
    RunTags,
)

# Written in one unit of work.
MAX_ENTRIES: Final = 500
MAX_SECRET_CHARS: Final = 65_536
MAX_CRON_CHARS: Final = 256
MAX_REASON_CHARS: Final = 2000
# Nine digits: more than any list has.
MAX_COUNT: Final = 999_999_999

Ref = Annotated[str, chars(MAX_REF_CHARS)]
EventName = Annotated[str, chars(MAX_EVENT_ID_CHARS)]
Seconds = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Budget = Annotated[int, Meta(ge=1)]
Fields = dict[str, Any]


class RefRequest(OpenwopShape):
    """Which ref."""

    memory_ref: Ref


# --- memory ------------------------------------------------------------------------------------------------


class Attributed(Draft):
    """An entry that a node of a run writes."""

    node_id: Annotated[EventName, Meta(description="The node that writes.")] | None = None
    agent_id: Annotated[str, chars(MAX_ID_CHARS)] | None = None


class Forget(RefRequest):
    """All entries about a subject."""

    subject: Annotated[str, chars(MAX_ID_CHARS)]


class PutEntries(RefRequest):
    """Many entries, all or none."""

    entries: Annotated[tuple[Draft, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]


class Pass(RefRequest):
    """A pass over the memory of a ref, with all that a host may say of it."""

    act: Annotated[Literal["compaction", "distillation", "consolidation"], Meta(description="Which pass.")]
    token_budget: Annotated[Budget, Meta(description="Of a distillation.")] | None = None
    is_indexed: Annotated[bool, Meta(description="Of a distillation: whether its archive is put into the index.")] = (
        True
    )
    texts: (
        Annotated[tuple[str, ...], Meta(max_length=MAX_ENTRIES, description="To distil instead of what the ref has.")]
        | None
    ) = None
    run_id: Annotated[str, chars(MAX_RUN_ID_CHARS, "The run whose secrets are redacted.")] | None = None
    of_archives: Annotated[bool, Meta(description="Distil the archives of the ref again, into one.")] = False


# --- runs --------------------------------------------------------------------------------------------------


class AgentRef(OpenwopShape, forbid_unknown_fields=False):
    """Who acts, and where its memory is."""

    agent_id: Annotated[str, Meta(min_length=MIN_AGENT_ID_CHARS, max_length=MAX_AGENT_ID_CHARS)]
    memory_ref: Ref | UnsetType = UNSET


class Begin(OpenwopShape):
    """A host's own run."""

    workflow_id: Annotated[str, chars(MAX_WORKFLOW_ID_CHARS)]
    run_id: (
        Annotated[
            str,
            Meta(
                # It stands in paths and in the ids of events.
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


class Emit(OpenwopShape):
    """An event that is not recorded by itself."""

    type: Annotated[EventName, Meta(description="Dotted words.")]
    payload: Fields = field(default_factory=dict)
    node_id: EventName | None = None


class RunError(OpenwopShape):
    """Why a run failed."""

    code: Annotated[str, chars(MAX_RUN_ID_CHARS)]
    message: Annotated[str, chars(MAX_MESSAGE_CHARS)]
    details: Fields | UnsetType = UNSET


class Finish(OpenwopShape):
    """How a run ended."""

    status: Literal["completed", "failed", "cancelled"] = "completed"
    variables: (
        Annotated[
            Fields,
            Meta(description="{$memory: {memoryRef, id}} or {$memory: {memoryRef, options}} is read when the run is."),
        ]
        | None
    ) = None
    error: Annotated[Fields, Meta(extra={"shape": RunError})] | None = None


class Secret(OpenwopShape):
    """A secret that a run resolved."""

    secret_id: EventName
    value: Annotated[str, chars(MAX_SECRET_CHARS)]


class ListRuns(OpenwopShape):
    """Which runs."""

    before: Annotated[Moment, Meta(description="Started before.")] | None = None
    cursor: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9]{1,15}\.[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?![\s\S])",
                description="`nextCursor` of the page before.",
                extra={"expected": "the nextCursor of the page before"},
                extra_json_schema={"pattern": "^[0-9]{1,15}\\.[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"},
            ),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, description="At most so many; more than 100 is 100.")] | None = None
    whole: Annotated[
        bool, Meta(description="Each with its variables and all that was said of it; then fewer fit into a page.")
    ] = False

    def __post_init__(self) -> None:
        if self.before is not None and self.cursor is not None:
            raise InvalidInput("before and cursor: one of them")

    @property
    def place(self) -> tuple[Instant, str] | Instant | None:
        """Where the page begins."""
        if self.cursor is None:
            return self.before
        started, _, run_id = self.cursor.partition(".")
        return Instant(int(started)), run_id


class Events(OpenwopShape):
    """Which events of a run."""

    last_sequence: Annotated[int, Meta(ge=0, le=MAX_COUNT, description="Only later events.")] | None = None


class Follow(Events):
    """Which events of a run are streamed."""

    stream_mode: Annotated[
        str, chars(MAX_EVENT_ID_CHARS, "`updates`: transitions and facts of memory; `debug`: everything.")
    ] = "updates"


class Poll(Events):
    """Which events of a run, and how long to wait for them."""

    timeout: Annotated[Seconds, Meta(description="Seconds to wait; 10 unless said, at most 15.")] | None = None


class RegisterWebhook(OpenwopShape):
    """Whom to tell of which events (webhooks.md)."""

    url: Annotated[str, chars(2048, "Where each event is posted: https, on the open Internet.")]
    events: Annotated[tuple[EventName, ...], Meta(min_length=1, max_length=64, description="Types of events.")]
    # The tenant is the credential's, whatever the request calls it.
    tenant_id: Annotated[str, chars(MAX_ID_CHARS, "Any word of the client's.")] | None = None
    tags: Annotated[RunTags, Meta(description="Only of runs with one of these tags.")] = ()


class Unregister(OpenwopShape):
    """Which webhook; the tenant is the credential's."""

    tenant_id: Annotated[str, chars(MAX_ID_CHARS, "Any word of the client's.")] | None = None


# --- workspace ---------------------------------------------------------------------------------------------


class ListFiles(OpenwopShape):
    """Which files."""

    prefix: Annotated[str, Meta(description="Only those whose path begins so.")] = ""


class GetFile(OpenwopShape):
    """Which version of a file."""

    version: Annotated[int, Meta(ge=1, le=MAX_COUNT, description="An earlier version.")] | None = None


# --- commitments and schedules -----------------------------------------------------------------------------


class ListCommitments(OpenwopShape):
    """Which commitments."""

    memory_ref: Annotated[Ref, Meta(description="Only of this ref.")] | None = None


class Watch(RefRequest):
    """Whether commitments are found in whatever is written to a ref."""

    watched: bool = True


class Snooze(OpenwopShape):
    """Until when it is put off."""

    until: Moment


class Fire(OpenwopShape):
    """What is fired as if its condition held now."""

    condition: Annotated[Literal["time", "predicate"], Meta(description="What it must be waiting for.")] | None = None


class Schedule(RefRequest):
    """When a ref is distilled by itself."""

    cron: Annotated[str, chars(MAX_CRON_CHARS, "Five fields.")]
    timezone: Annotated[str, chars(MAX_CRON_CHARS, "Of the tz database, such as Europe/Berlin.")] = "UTC"
    token_budget: Budget | None = None


# --- proposals ---------------------------------------------------------------------------------------------


class ListProposals(OpenwopShape):
    """Which proposals."""

    state: Annotated[str, word(STATES, "Only in this state.")] | None = None
    kind: Annotated[str, word(PROPOSAL_KINDS, "Only of this kind.")] | None = None


class Propose(OpenwopShape):
    """Something to learn, proposed by hand."""

    kind: Annotated[str, word(PROPOSAL_KINDS)]
    artifact: Fields
    title: Annotated[str, chars(MAX_TITLE_CHARS)] | UnsetType = UNSET
    rationale: Annotated[str, chars(MAX_RATIONALE_CHARS)] | UnsetType = UNSET
    source_run_ids: Annotated[
        tuple[Annotated[str, chars(MAX_RUN_ID_CHARS)], ...], Meta(max_length=MAX_SOURCE_RUNS)
    ] = ()


class Apply(OpenwopShape):
    """Under which approval."""

    approval_id: Annotated[str, chars(MAX_ID_CHARS)] | None = None


class Reject(OpenwopShape):
    """Why it is declined."""

    reason: Annotated[str, chars(MAX_REASON_CHARS)] | None = None
