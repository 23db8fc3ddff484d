"""Runs: their snapshots, and the requests to start or to fork one.

The order of the checks of a fork is normative: first its form (400), then the length of the log (422
`invalid_from_seq`), then the availability of memory as of that position (422 `replay_memory_snapshot_unavailable`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta, field

from memoranda.errors import InvalidInput, WorkflowError
from memoranda.standards.openwop.fields import (
    OpenwopShape,
    check_closed_object,
    check_integer,
    check_object,
    check_text,
    check_texts,
    check_time,
    check_word,
    require_fields,
    text_limit,
)
from memoranda.standards.openwop.problem import INVALID_FROM_SEQ, SNAPSHOT_UNAVAILABLE
from memoranda.standards.openwop.refs import MAX_REF_CHARS

Snapshot = dict[str, Any]
Status = Literal[
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
]
Mode = Literal["replay", "branch"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
# version-negotiation.md: the versions of a run document and of its log. Both are in every snapshot and in discovery.
ENGINE_VERSION: Final = 1
EVENT_LOG_SCHEMA_VERSION: Final = 2
# run-options.md: the reserved key for the token budget of a distillation.
TOKEN_BUDGET_KEY: Final = "distillation.tokenBudget"  # noqa: S105 (a name, not a secret)

# Characters of an id, tags, and characters of a tag; run-snapshot.schema.json.
MAX_RUN_ID_CHARS: Final = 128
MAX_TAGS: Final = 100
MAX_TAG_CHARS: Final = 256
# Characters; agent-ref.schema.json.
MIN_AGENT_ID_CHARS: Final = 3
MAX_AGENT_ID_CHARS: Final = 256
# Characters. Names of workflows are dotted words; the longest published ones have some eighty.
MAX_WORKFLOW_ID_CHARS: Final = 256
# Characters of an error message.
MAX_MESSAGE_CHARS: Final = 2000

RunTags = Annotated[
    tuple[Annotated[str, text_limit(MAX_TAG_CHARS)], ...], Meta(max_length=MAX_TAGS)
]


# --- snapshots ---------------------------------------------------------------------------------------


def check_snapshot(value: object) -> Snapshot:
    """Check a RunSnapshot from untrusted JSON and return it unchanged, with unknown fields. Raises InvalidInput."""
    snapshot = check_object(value, "run")
    require_fields(snapshot, ("runId", "workflowId", "status"), "run")
    check_text(snapshot["runId"], "run.runId", MAX_RUN_ID_CHARS)
    check_text(snapshot["workflowId"], "run.workflowId", MAX_WORKFLOW_ID_CHARS)
    check_word(snapshot["status"], STATUSES, "run.status")
    for name in ("variables", "metadata", "configurable"):
        if name in snapshot:
            check_object(snapshot[name], f"run.{name}")
    for name in ("startedAt", "completedAt"):
        if name in snapshot:
            check_time(snapshot[name], f"run.{name}")
    if "agent" in snapshot:
        check_agent(snapshot["agent"], "run.agent")
    if "owner" in snapshot:
        check_owner(snapshot["owner"], "run.owner")
    if "tags" in snapshot:
        check_texts(snapshot["tags"], "run.tags", max_items=MAX_TAGS, max_chars=MAX_TAG_CHARS)
    if "error" in snapshot:
        _check_error(snapshot["error"])
        if snapshot["status"] != "failed":
            # run-snapshot.schema.json: set on terminal `failed`.
            raise InvalidInput("run.error is only valid for a run that failed")
    return snapshot


def check_agent(value: object, location: str) -> dict[str, object]:
    """Check an AgentRef and return it unchanged, with unknown fields. Raises InvalidInput."""
    agent = check_object(value, location)
    require_fields(agent, ("agentId",), location)
    if (
        len(check_text(agent["agentId"], f"{location}.agentId", MAX_AGENT_ID_CHARS))
        < MIN_AGENT_ID_CHARS
    ):
        raise InvalidInput(f"{location}.agentId must have at least {MIN_AGENT_ID_CHARS} characters")
    if "memoryRef" in agent:
        check_text(agent["memoryRef"], f"{location}.memoryRef", MAX_REF_CHARS)
    return agent


def check_owner(
    value: object, location: str, *, names: tuple[str, ...] = ("workspace", "principal")
) -> dict[str, object]:
    """Check the identity triple of RFC 0048: tenant, optional workspace and principal. Raises InvalidInput."""
    owner = check_closed_object(value, ("tenant", *names, "principalKind"), location)
    require_fields(owner, ("tenant",), location)
    for name, part in owner.items():
        check_text(part, f"{location}.{name}", MAX_AGENT_ID_CHARS)
    return owner


def _check_error(value: object) -> None:
    """Check the error of a run. Raises InvalidInput."""
    error = check_closed_object(value, ("code", "message", "details"), "run.error")
    require_fields(error, ("code", "message"), "run.error")
    check_text(error["code"], "run.error.code", MAX_RUN_ID_CHARS)
    check_text(error["message"], "run.error.message", MAX_MESSAGE_CHARS)
    if "details" in error:
        check_object(error["details"], "run.error.details")


# --- starting ----------------------------------------------------------------------------------------


class RunRequest(OpenwopShape, forbid_unknown_fields=False):
    """`POST /v1/runs`. The credential determines the tenant; `tenant_id` is ignored.

    Unknown options are ignored: a host has many, and most are not about memory.
    """

    workflow_id: Annotated[str, text_limit(MAX_WORKFLOW_ID_CHARS)]
    inputs: Annotated[
        dict[str, Any], Meta(description="`memoryRef`: the ref of the memory to work on.")
    ] = field(default_factory=dict)
    tenant_id: (
        Annotated[
            str, text_limit(MAX_WORKFLOW_ID_CHARS, "Ignored; the credential determines the tenant.")
        ]
        | None
    ) = None
    configurable: Annotated[
        dict[str, Any],
        Meta(description=f"`{TOKEN_BUDGET_KEY}`: the maximum of input plus output tokens."),
    ] = field(default_factory=dict)
    tags: RunTags = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if TOKEN_BUDGET_KEY in self.configurable:
            check_integer(
                self.configurable[TOKEN_BUDGET_KEY], f"configurable[{TOKEN_BUDGET_KEY!r}]", least=1
            )

    @property
    def token_budget(self) -> int | None:
        """The requested budget of a distillation, or None."""
        budget = self.configurable.get(TOKEN_BUDGET_KEY)
        return None if budget is None else int(budget)


def effective_budget(requested: int | None, max_token_budget: int) -> int:
    """Return the budget limited to `maxTokenBudget`, which is also the default (RFC 0062)."""
    return max_token_budget if requested is None else min(requested, max_token_budget)


# --- forking -----------------------------------------------------------------------------------------


class ForkRequest(OpenwopShape, forbid_unknown_fields=False):
    """`POST /v1/runs/{id}:fork`: replay a run from a position in its log, or branch off there."""

    mode: Mode
    requested_seq: (
        Annotated[
            int,
            Meta(
                ge=0,
                description="The position in the log; required for a branch, default for a replay: 0.",
            ),
        ]
        | None
    ) = field(default=None, name="fromSeq")
    overlay: (
        Annotated[
            dict[str, Any], Meta(description="Options of a branch, for the host that continues it.")
        ]
        | None
    ) = field(default=None, name="runOptionsOverlay")

    def __post_init__(self) -> None:
        if self.requested_seq is None and self.mode == "branch":
            raise InvalidInput("fromSeq is required for a branch")
        if self.overlay is not None and self.mode == "replay":
            # A replay repeats the record, so an overlay would have no effect.
            raise InvalidInput("runOptionsOverlay is only for a branch")

    @property
    def from_seq(self) -> int:
        """The position in the log from which to fork."""
        return self.requested_seq or 0

    def check_bounds(self, event_count: int) -> None:
        """Raise WorkflowError (422) if the position is beyond the end of the log."""
        if self.from_seq > event_count:
            raise WorkflowError(
                f"fromSeq {self.from_seq} is past the end of the run, which has {event_count} events",
                openwop_code=INVALID_FROM_SEQ,
                details={"fromSeq": self.from_seq, "eventCount": event_count},
            )


def build_snapshot_error(
    source_run_id: str, from_seq: int, reason: Literal["retention_expired", "event_log_unavailable"]
) -> WorkflowError:
    """Return the error of MAE-3: past memory is unavailable, and current memory must not replace it."""
    return WorkflowError(
        "memory as of that position in the run is no longer available",
        openwop_code=SNAPSHOT_UNAVAILABLE,
        details={"fromSeq": from_seq, "sourceRunId": source_run_id, "reason": reason},
    )
