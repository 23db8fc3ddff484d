"""Runs: what their snapshots show, and what a request to start or to fork one may say.

The order of the checks of a fork is normative: first its form (400), then whether the log reaches so far (422
`invalid_from_seq`), then whether memory as of there can still be served (422 `replay_memory_snapshot_unavailable`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta, field

from memoranda.errors import InvalidInput, WorkflowError
from memoranda.standards.openwop.fields import (
    OpenwopShape,
    an_object,
    chars,
    check_integer,
    check_text,
    check_texts,
    check_time,
    check_word,
    closed_object,
    require,
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
# run-options.md: the reserved key of a distillation's budget.
TOKEN_BUDGET_KEY: Final = "distillation.tokenBudget"  # noqa: S105 (a name, not a secret)

# run-snapshot.schema.json.
MAX_RUN_ID_CHARS: Final = 128
MAX_TAGS: Final = 100
MAX_TAG_CHARS: Final = 256
# agent-ref.schema.json.
MIN_AGENT_ID_CHARS: Final = 3
MAX_AGENT_ID_CHARS: Final = 256
# Names of workflows are dotted words; the longest published ones have some eighty characters.
MAX_WORKFLOW_ID_CHARS: Final = 256
MAX_MESSAGE_CHARS: Final = 2000

RunTags = Annotated[tuple[Annotated[str, chars(MAX_TAG_CHARS)], ...], Meta(max_length=MAX_TAGS)]


# --- snapshots ---------------------------------------------------------------------------------------


def check_snapshot(value: object) -> Snapshot:
    """A RunSnapshot from untrusted JSON, as it was given; fields that we do not know are left alone."""
    found = an_object(value, "run")
    require(found, ("runId", "workflowId", "status"), "run")
    check_text(found["runId"], "run.runId", MAX_RUN_ID_CHARS)
    check_text(found["workflowId"], "run.workflowId", MAX_WORKFLOW_ID_CHARS)
    check_word(found["status"], STATUSES, "run.status")
    for name in ("variables", "metadata", "configurable"):
        if name in found:
            an_object(found[name], f"run.{name}")
    for name in ("startedAt", "completedAt"):
        if name in found:
            check_time(found[name], f"run.{name}")
    if "agent" in found:
        check_agent(found["agent"], "run.agent")
    if "owner" in found:
        check_owner(found["owner"], "run.owner")
    if "tags" in found:
        check_texts(found["tags"], "run.tags", max_items=MAX_TAGS, max_chars=MAX_TAG_CHARS)
    if "error" in found:
        _check_error(found["error"])
        if found["status"] != "failed":
            # run-snapshot.schema.json: set on terminal `failed`.
            raise InvalidInput("run.error must only be there when the run failed")
    return found


def check_agent(value: object, where: str) -> dict[str, Any]:
    """An AgentRef: who acts, and where its memory is. Fields that we do not know are left alone."""
    found = an_object(value, where)
    require(found, ("agentId",), where)
    if len(check_text(found["agentId"], f"{where}.agentId", MAX_AGENT_ID_CHARS)) < MIN_AGENT_ID_CHARS:
        raise InvalidInput(f"{where}.agentId must have at least {MIN_AGENT_ID_CHARS} characters")
    if "memoryRef" in found:
        check_text(found["memoryRef"], f"{where}.memoryRef", MAX_REF_CHARS)
    return found


def check_owner(value: object, where: str, *, names: tuple[str, ...] = ("workspace", "principal")) -> dict[str, Any]:
    """The identity triple of RFC 0048: tenant, and perhaps workspace and principal."""
    found = closed_object(value, ("tenant", *names, "principalKind"), where)
    require(found, ("tenant",), where)
    for name, part in found.items():
        check_text(part, f"{where}.{name}", MAX_AGENT_ID_CHARS)
    return found


def _check_error(value: object) -> None:
    found = closed_object(value, ("code", "message", "details"), "run.error")
    require(found, ("code", "message"), "run.error")
    check_text(found["code"], "run.error.code", MAX_RUN_ID_CHARS)
    check_text(found["message"], "run.error.message", MAX_MESSAGE_CHARS)
    if "details" in found:
        an_object(found["details"], "run.error.details")


# --- starting ----------------------------------------------------------------------------------------


class RunRequest(OpenwopShape, forbid_unknown_fields=False):
    """`POST /v1/runs`. The tenant comes from the credential; `tenant_id` is read and chooses nothing.

    Options that we do not know are left alone: a host has many, and most are not about memory.
    """

    workflow_id: Annotated[str, chars(MAX_WORKFLOW_ID_CHARS)]
    inputs: Annotated[dict[str, Any], Meta(description="`memoryRef`: the ref to work on.")] = field(
        default_factory=dict
    )
    tenant_id: (
        Annotated[str, chars(MAX_WORKFLOW_ID_CHARS, "A client's word for its tenant; the run is the credential's.")]
        | None
    ) = None
    configurable: Annotated[
        dict[str, Any], Meta(description=f"`{TOKEN_BUDGET_KEY}`: a budget of input and output tokens together.")
    ] = field(default_factory=dict)
    tags: RunTags = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if TOKEN_BUDGET_KEY in self.configurable:
            check_integer(self.configurable[TOKEN_BUDGET_KEY], f"configurable[{TOKEN_BUDGET_KEY!r}]", least=1)

    @property
    def token_budget(self) -> int | None:
        """The budget that a distillation is to keep, if the request names one."""
        budget = self.configurable.get(TOKEN_BUDGET_KEY)
        return None if budget is None else int(budget)


def effective_budget(requested: int | None, max_token_budget: int) -> int:
    """RFC 0062: clamped to `maxTokenBudget`; absent means all of it."""
    return max_token_budget if requested is None else min(requested, max_token_budget)


# --- forking -----------------------------------------------------------------------------------------


class ForkRequest(OpenwopShape, forbid_unknown_fields=False):
    """`POST /v1/runs/{id}:fork`: repeat a run from a place in its log, or leave it there and go on differently."""

    mode: Mode
    asked_from: Annotated[int, Meta(ge=0, description="0 for a replay unless said; a branch has to say.")] | None = (
        field(default=None, name="fromSeq")
    )
    overlay: Annotated[dict[str, Any], Meta(description="Of a branch; for the host that goes on with it.")] | None = (
        field(default=None, name="runOptionsOverlay")
    )

    def __post_init__(self) -> None:
        if self.asked_from is None and self.mode == "branch":
            raise InvalidInput("fromSeq is required for a branch")
        if self.overlay is not None and self.mode == "replay":
            # A replay repeats what is on record; there is nothing to overlay.
            raise InvalidInput("runOptionsOverlay is only for a branch")

    @property
    def from_seq(self) -> int:
        return self.asked_from or 0

    def check_bounds(self, event_count: int) -> None:
        """The log must reach so far: its very end is the last place to fork from. Raises WorkflowError (422)."""
        if self.from_seq > event_count:
            raise WorkflowError(
                f"fromSeq {self.from_seq} is past the end of the run, which has {event_count} events",
                openwop_code=INVALID_FROM_SEQ,
                details={"fromSeq": self.from_seq, "eventCount": event_count},
            )


def snapshot_unavailable(
    source_run_id: str, from_seq: int, reason: Literal["retention_expired", "event_log_unavailable"]
) -> WorkflowError:
    """MAE-3: memory as of there cannot be served, and current memory is never put in its place."""
    return WorkflowError(
        "memory as it was at that point of the run is no longer there",
        openwop_code=SNAPSHOT_UNAVAILABLE,
        details={"fromSeq": from_seq, "sourceRunId": source_run_id, "reason": reason},
    )
