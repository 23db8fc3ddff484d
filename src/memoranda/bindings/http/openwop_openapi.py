"""The routes of openwop in the OpenAPI document: schemas, and examples that run."""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.openwop_events import POLL_SECONDS, POLL_SECONDS_LIMIT
from memoranda.bindings.http.openwop_runs import RUN_ID, WORKFLOWS
from memoranda.bindings.http.openwop_wire import DISCOVERY
from memoranda.bindings.http.operation import Operation, in_query
from memoranda.bindings.http.schemas import COUNT, FLAG, MOMENT, TEXT, Schema, closed, one_of, opened, ref, some
from memoranda.service.openwop.runs import TERMINAL
from memoranda.standards.openwop.capabilities import DIMENSIONS
from memoranda.standards.openwop.entry import DEFAULT_LIMIT, MAX_LIMIT, MAX_QUERY_CHARS, MAX_TAG_CHARS, RANKS
from memoranda.standards.openwop.events import CONDITIONS, PROPOSAL_KINDS
from memoranda.standards.openwop.proposals import STATES
from memoranda.standards.openwop.refs import MAX_REF_CHARS
from memoranda.standards.openwop.runs import MODES, STATUSES

EXAMPLE_REF: Final = "agents/research"
EXAMPLE_RUN: Final = "run_example"
EXAMPLE_ENTRY: Final[dict[str, Any]] = {"content": "The customer asks for invoices by mail.", "tags": ["subject:acme"]}
EXAMPLE_PATH: Final = "notes/plan.md"
EXAMPLE_PROPOSAL: Final[dict[str, Any]] = {
    "kind": "automation",
    "title": "Report every Monday",
    "artifact": {"workflowId": "acme.report", "schedule": {"cron": "0 9 * * 1"}},
}

_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 128}
_REF: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_REF_CHARS}
_TAGS: Final = some({"type": "string", "maxLength": MAX_TAG_CHARS})
_OBJECT: Final[Schema] = {"type": "object"}
_ENTRY: Final = closed(
    "id content tags createdAt", id=TEXT, content=TEXT, tags=_TAGS, createdAt=MOMENT, expiresAt=MOMENT
)
_DRAFT: Final[dict[str, Schema]] = {
    "content": {"type": "string", "description": "At most a mebibyte of UTF-8."},
    "tags": _TAGS,
    "expiresAt": {**MOMENT, "description": "Never shown from this very millisecond on."},
}
_AGENT: Final = opened("agentId", agentId={"type": "string", "minLength": 3}, memoryRef=_REF)
_RUN: Final[dict[str, Schema]] = {
    "runId": _NAME,
    "workflowId": TEXT,
    "status": one_of(STATUSES),
    "owner": opened("tenant", tenant=TEXT),
    "startedAt": MOMENT,
    "agent": _AGENT,
    "error": opened("code message", code=TEXT, message=TEXT),
    "tags": some(TEXT),
    "sourceRunId": _NAME,
}
_COMMITMENT: Final = closed(
    "commitmentId memoryRef memoryId condition dueAt repeats state fired",
    commitmentId=TEXT,
    memoryRef=_REF,
    memoryId=TEXT,
    condition=one_of(CONDITIONS),
    dueAt={"type": ["string", "null"], "format": "date-time"},
    repeats=FLAG,
    state=one_of(("open", "fired", "cancelled", "lapsed")),
    fired=COUNT,
)
_FILE: Final[dict[str, Schema]] = {
    "path": TEXT,
    "content": TEXT,
    "version": {"type": "integer", "minimum": 1},
    "updatedAt": MOMENT,
    "contentType": TEXT,
    "etag": TEXT,
}
_PROPOSAL: Final = closed(
    "id kind state artifact provenance owner createdAt",
    id=TEXT,
    kind=one_of(PROPOSAL_KINDS),
    state=one_of(STATES),
    artifact=_OBJECT,
    provenance=closed("sourceRunIds", sourceRunIds=some(TEXT), synthesizerModel=TEXT),
    owner=opened("tenant", tenant=TEXT),
    createdAt=MOMENT,
    updatedAt=MOMENT,
    title=TEXT,
    rationale=TEXT,
    duplicateOf={"type": ["string", "null"]},
    activation={"type": ["object", "null"]},
)
_SHAPE: Final = closed("", scratchpad=FLAG, conversation=FLAG, longTerm=FLAG)
_INVENTORY_ENTRY: Final = closed(
    "agentId persona label modelClass packName packVersion toolAllowlist hasHandoffSchemas",
    **dict.fromkeys(("agentId", "persona", "label", "modelClass", "packName", "packVersion", "description"), TEXT),
    toolAllowlist=some(TEXT),
    hasHandoffSchemas=FLAG,
    memoryShape=_SHAPE,
    memoryDegraded=FLAG,
    degradedMemoryDimensions=some(one_of(DIMENSIONS)),
)

WOP_SCHEMAS: Final[dict[str, Schema]] = {
    "WopDiscovery": opened(
        "protocolVersion supportedEnvelopes schemaVersions limits memory agents",
        protocolVersion=TEXT,
        supportedEnvelopes=some(TEXT),
        schemaVersions=_OBJECT,
        limits=_OBJECT,
        memory=_OBJECT,
        agents=_OBJECT,
        workspace=_OBJECT,
        replay=_OBJECT,
        fixtures=some(TEXT),
    ),
    "WopEntry": _ENTRY,
    "WopEntries": closed("entries", entries=some(ref("WopEntry"))),
    "WopDraft": closed("content", **_DRAFT),
    "WopAttributed": closed(
        "content", **_DRAFT, nodeId={**_NAME, "description": "The node that writes."}, agentId=_NAME
    ),
    "WopForget": closed("memoryRef subject", memoryRef=_REF, subject={"type": "string", "minLength": 1}),
    "WopForgotten": closed("forgotten", forgotten=COUNT),
    "WopRunRequest": opened(
        "workflowId",
        workflowId={"type": "string", "minLength": 1, "description": f"One of {', '.join(WORKFLOWS)}."},
        inputs={**opened("", memoryRef=_REF), "description": "The ref to work on."},
        tenantId={"type": "string", "description": "The credential's own, if it is said."},
        configurable={
            **opened("", **{"distillation.tokenBudget": {"type": "integer", "minimum": 1}}),
            "description": "A budget of input and output tokens together.",
        },
        tags=some(TEXT),
        metadata=_OBJECT,
    ),
    "WopStarted": closed(
        "runId status eventsUrl statusUrl", runId=_NAME, status=one_of(STATUSES), eventsUrl=TEXT, statusUrl=TEXT
    ),
    "WopRun": opened("runId workflowId status variables", **_RUN, variables=_OBJECT),
    "WopRuns": closed("runs", runs=some(opened("runId workflowId status", **_RUN))),
    "WopForkRequest": opened(
        "mode",
        mode=one_of(MODES),
        fromSeq={**COUNT, "description": "0 for a replay unless said; a branch has to say."},
        runOptionsOverlay={**_OBJECT, "description": "Of a branch; for the host that goes on with it."},
    ),
    "WopForked": closed(
        "runId sourceRunId fromSeq mode status eventsUrl statusUrl",
        runId=_NAME,
        sourceRunId=_NAME,
        fromSeq=COUNT,
        mode=one_of(MODES),
        status=one_of(STATUSES),
        eventsUrl=TEXT,
        statusUrl=TEXT,
    ),
    "WopEvent": opened(
        "eventId runId type payload timestamp sequence",
        eventId=_NAME,
        runId=_NAME,
        type=TEXT,
        payload=_OBJECT,
        timestamp=MOMENT,
        sequence=COUNT,
        nodeId=_NAME,
        causationId=_NAME,
    ),
    "WopEvents": closed("events isComplete", events=some(ref("WopEvent")), isComplete=FLAG),
    "WopBegin": closed(
        "workflowId",
        workflowId={"type": "string", "minLength": 1},
        runId={"type": "string", "pattern": f"^{RUN_ID}$", "description": "The host's own id for it."},
        agent=_AGENT,
        tags=some(_NAME),
        metadata=_OBJECT,
    ),
    "WopEmit": closed("type", type={**_NAME, "description": "Dotted words."}, payload=_OBJECT, nodeId=_NAME),
    "WopFinish": closed(
        "",
        status={**one_of(tuple(sorted(TERMINAL))), "default": "completed"},
        variables={
            **_OBJECT,
            "description": "{$memory: {memoryRef, id}} or {$memory: {memoryRef, options}} is read when the run is.",
        },
        error=closed("code message", code=_NAME, message={"type": "string", "minLength": 1}, details=_OBJECT),
    ),
    "WopSecret": closed("secretId value", secretId=_NAME, value={"type": "string", "minLength": 1}),
    "WopRegistered": closed(
        "registered", registered={**FLAG, "description": "False: shorter than eight characters, never redacted."}
    ),
    "WopRestored": closed("restored", restored=COUNT),
    "WopNothing": {**closed(""), "description": "Nothing can be said here."},
    "WopInventory": closed("agents total", agents=some(_INVENTORY_ENTRY), total=COUNT),
    "WopFile": closed("path content version updatedAt", **_FILE),
    "WopFiles": closed("files", files=some(opened("path version updatedAt", **_FILE))),
    "WopFileDraft": closed("content", content=TEXT, contentType={"type": "string", "default": "text/markdown"}),
    "WopRef": closed("memoryRef", memoryRef=_REF),
    "WopWatch": closed("memoryRef", memoryRef=_REF, watched={**FLAG, "default": True}),
    "WopSnooze": closed("until", until=MOMENT),
    "WopCommitment": _COMMITMENT,
    "WopCommitments": closed("commitments", commitments=some(_COMMITMENT)),
    "WopScheduleDraft": closed(
        "memoryRef cron",
        memoryRef=_REF,
        cron={"type": "string", "minLength": 1, "description": "Five fields."},
        timezone={"type": "string", "minLength": 1, "description": "Of the tz database, such as Europe/Berlin; UTC."},
        tokenBudget={"type": "integer", "minimum": 1},
    ),
    "WopSchedule": closed(
        "memoryRef cron timezone nextAt", memoryRef=_REF, cron=TEXT, timezone=TEXT, tokenBudget=COUNT, nextAt=MOMENT
    ),
    "WopSchedules": closed("schedules", schedules=some(ref("WopSchedule"))),
    "WopProposal": _PROPOSAL,
    "WopProposals": closed("proposals", proposals=some(ref("WopProposal"))),
    "WopProposalDraft": closed(
        "kind artifact",
        kind=one_of(PROPOSAL_KINDS),
        artifact=_OBJECT,
        title={"type": "string", "minLength": 1},
        rationale={"type": "string", "minLength": 1},
        sourceRunIds=some(_NAME),
    ),
    "WopRevision": {
        **closed(
            "", title={"type": "string", "minLength": 1}, rationale={"type": "string", "minLength": 1}, artifact=_OBJECT
        ),
        "minProperties": 1,
    },
    "WopApply": closed("", approvalId={"type": "string", "minLength": 1}),
    "WopApproved": closed("approvalId", approvalId=TEXT),
    "WopInstalled": closed("installedArtifactRef", installedArtifactRef=TEXT),
    "WopArtifacts": closed("artifacts", artifacts={"type": "object", "additionalProperties": _OBJECT}),
    "WopReject": closed("", reason={"type": "string", "minLength": 1}),
    "WopSeeds": opened("memoryRef entries", memoryRef=_REF, entries=some(_OBJECT)),
    "WopOpen": _OBJECT,
    "WopError": {
        **closed(
            "error message", error={"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}, message=TEXT, details=_OBJECT
        ),
        "description": "openwop's envelope: a code, a sentence, and what a program may need to know.",
    },
}

WOP_ERRORS: Final = {
    "400": "Not well-formed, or no such workflow (validation_error)",
    "401": "No credential, or one that does not hold (unauthenticated)",
    "403": "A credential, Host or Origin that does not reach this far (forbidden; details.scopeRequired)",
    "404": "Nothing there, or nothing you may see (not_found)",
    "409": "Not as expected: workspace_conflict with details.currentVersion, or conflict",
    "413": "A workspace file over a limit (workspace_too_large)",
    "422": "token_budget_exceeded, invalid_from_seq, replay_memory_snapshot_unavailable or malformed_artifact",
    "429": "Too fast (rate_limited), with Retry-After",
    "503": "The store cannot be used right now (unavailable)",
}


def _in_path(name: str, example: str, description: str = "") -> dict[str, Any]:
    parameter: dict[str, Any] = {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
    }
    return {**parameter, "example": example, **({"description": description} if description else {})}


_REF_IN_PATH: Final = _in_path("ref", EXAMPLE_REF, "A memoryRef, percent-encoded, its slashes too.")
_ID_IN_PATH: Final = _in_path("id", "mem_example", "An entry's id.")
_RUN_IN_PATH: Final = _in_path("run_id", EXAMPLE_RUN)
_FILE_IN_PATH: Final = _in_path("path", EXAMPLE_PATH, "A path; its slashes need no encoding.")
_COMMITMENT_IN_PATH: Final = _in_path("commitment_id", "com_example")
_PROPOSAL_IN_PATH: Final = _in_path("proposal_id", "prop_example")
_IF_MATCH: Final[dict[str, Any]] = {
    "name": "If-Match",
    "in": "header",
    "schema": TEXT,
    "description": 'The version that is meant, such as `"v3"`; `*` for any.',
}
_IF_NONE_MATCH: Final[dict[str, Any]] = {
    "name": "If-None-Match",
    "in": "header",
    "schema": {"const": "*"},
    "description": "Only if there is no such file.",
}
_ETAG_GIVEN: Final = {"ETag": {"description": "The version of the file.", "schema": TEXT}}
_LIST_OPTIONS: Final = (
    in_query(
        "limit", COUNT, f"At most so many; 0 or none is {DEFAULT_LIMIT}, more than {MAX_LIMIT} is {MAX_LIMIT}.", 50
    ),
    in_query("tag", {"type": "string", "minLength": 1, "maxLength": MAX_TAG_CHARS}, "Only entries with this tag."),
    in_query("tokenBudget", {"type": "integer", "minimum": 1}, "As many as fit; one that alone does not is left out."),
    in_query("rank", one_of(RANKS), "By time, or with `query` by relevance."),
    in_query("query", {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS}, "What is looked for."),
)
_LAST_SEQUENCE: Final = in_query("lastSequence", COUNT, "Only later events.")
_LAST_EVENT: Final[dict[str, Any]] = {
    "name": "Last-Event-ID",
    "in": "header",
    "schema": COUNT,
    "description": "The same; what a browser's EventSource sends by itself.",
}


def _get(path: str, name: str, summary: str, answer: str, *parameters: dict[str, Any], **more: Any) -> Operation:
    return Operation(
        method="get",
        path=path,
        name=name,
        summary=summary,
        answer=answer,
        parameters=parameters,
        errors="WopError",
        **more,
    )


def _delete(path: str, name: str, summary: str, *parameters: dict[str, Any]) -> Operation:
    return Operation(
        method="delete",
        path=path,
        name=name,
        summary=summary,
        answer="",
        success=("204",),
        parameters=parameters,
        errors="WopError",
    )


def _send(
    path: str,
    name: str,
    summary: str,
    asks: str,
    example: dict[str, Any],
    answer: str,
    *parameters: dict[str, Any],
    method: str = "post",
    status: str = "200",
    **more: Any,
) -> Operation:
    return Operation(
        method=method,
        path=path,
        name=name,
        summary=summary,
        asks=asks,
        example=example,
        answer=answer,
        parameters=parameters,
        success=(status,),
        errors="WopError",
        **more,
    )


_RUN_OPERATIONS: Final = (
    _send(
        "/v1/runs",
        "wop_start",
        "Start a workflow of this host: a pass over the memory of a ref",
        "WopRunRequest",
        {"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": EXAMPLE_REF}},
        "WopStarted",
        status="201",
    ),
    _get("/v1/runs/{run_id}", "wop_run", "A run, with the memories that its variables name", "WopRun", _RUN_IN_PATH),
    _get(
        "/v1/runs/{run_id}/events",
        "wop_events",
        "The log of a run: JSON if `Accept` says so, else server-sent events until it is over",
        "",
        _RUN_IN_PATH,
        _LAST_SEQUENCE,
        _LAST_EVENT,
        also_gives={
            "text/event-stream": {"schema": TEXT},
            "application/json": {"schema": ref("WopEvents")},
        },
    ),
    _get(
        "/v1/runs/{run_id}/events/poll",
        "wop_poll",
        "Later events as soon as there are some",
        "WopEvents",
        _RUN_IN_PATH,
        _LAST_SEQUENCE,
        in_query("timeout", COUNT, f"Seconds to wait; {POLL_SECONDS} unless said, at most {POLL_SECONDS_LIMIT}.", 0),
    ),
    _send(
        "/v1/runs/{run_id}:fork",
        "wop_fork",
        "Another run with the facts of this one: a replay repeats them, a branch goes on from there",
        "WopForkRequest",
        {"mode": "replay", "fromSeq": 0},
        "WopForked",
        _RUN_IN_PATH,
        status="201",
    ),
    _get(
        "/v1/host/runs",
        "wop_runs",
        "Runs, the last started first, those of the background too",
        "WopRuns",
        in_query("before", MOMENT, "Started before."),
        in_query("limit", {"type": "integer", "minimum": 1}, "At most so many, and at most 100.", 10),
    ),
    _send(
        "/v1/host/runs",
        "wop_begin",
        "Begin a host's run: what it reads is the store as it is now, and its own writes",
        "WopBegin",
        {"workflowId": "acme.support", "agent": {"agentId": "acme.support.helper", "memoryRef": EXAMPLE_REF}},
        "WopStarted",
        status="201",
    ),
    _send(
        "/v1/host/runs/{run_id}/events",
        "wop_emit",
        "Append to the log of a run what is not recorded by itself",
        "WopEmit",
        {"type": "agent.toolCalled", "payload": {"toolName": "search", "argumentNames": ["query"]}, "nodeId": "n1"},
        "WopEvent",
        _RUN_IN_PATH,
        status="201",
    ),
    _send(
        "/v1/host/runs/{run_id}/secrets",
        "wop_secret",
        "Let a secret that the run resolved never be stored by it; kept in memory until the run is over",
        "WopSecret",
        {"secretId": "crm-token", "value": "an example of a secret"},
        "WopRegistered",
        _RUN_IN_PATH,
    ),
    _get(
        "/v1/host/runs/{run_id}/memory/{ref}",
        "wop_list_in_run",
        "The entries of a ref as the run sees them",
        "WopEntries",
        _RUN_IN_PATH,
        _REF_IN_PATH,
        *_LIST_OPTIONS,
    ),
    _send(
        "/v1/host/runs/{run_id}/memory/{ref}",
        "wop_put_in_run",
        "Write an entry in a run, without its secrets; the log says so",
        "WopAttributed",
        {**EXAMPLE_ENTRY, "nodeId": "n1"},
        "WopEntry",
        _RUN_IN_PATH,
        _REF_IN_PATH,
        status="201",
    ),
    _get(
        "/v1/host/runs/{run_id}/memory/{ref}/{id}",
        "wop_get_in_run",
        "One entry as the run sees it",
        "WopEntry",
        _RUN_IN_PATH,
        _REF_IN_PATH,
        _ID_IN_PATH,
    ),
    _send(
        "/v1/host/runs/{run_id}/undo",
        "wop_undo",
        "Bring back what the consolidation of this run took out",
        "WopNothing",
        {},
        "WopRestored",
        _RUN_IN_PATH,
    ),
    _send(
        "/v1/host/runs/{run_id}/finish",
        "wop_finish",
        "End a run; its secrets are forgotten",
        "WopFinish",
        {"status": "completed", "variables": {"outcome": "answered"}},
        "WopRun",
        _RUN_IN_PATH,
    ),
)

_MEMORY_OPERATIONS: Final = (
    _get(
        "/v1/memory/{ref}",
        "wop_list",
        "The entries of a ref, the newest first; none for a ref that is malformed or unknown",
        "WopEntries",
        _REF_IN_PATH,
        *_LIST_OPTIONS,
    ),
    _send(
        "/v1/memory/{ref}",
        "wop_put",
        "Write an entry; id and time are the host's to give",
        "WopDraft",
        EXAMPLE_ENTRY,
        "WopEntry",
        _REF_IN_PATH,
        status="201",
    ),
    _get("/v1/memory/{ref}/{id}", "wop_get", "One entry", "WopEntry", _REF_IN_PATH, _ID_IN_PATH),
    _delete("/v1/memory/{ref}/{id}", "wop_delete", "Never again in any answer", _REF_IN_PATH, _ID_IN_PATH),
    _send(
        "/v1/host/memory/forget",
        "wop_forget",
        "Take out all entries about a subject: those with the tag `subject:<it>`",
        "WopForget",
        {"memoryRef": EXAMPLE_REF, "subject": "nobody"},
        "WopForgotten",
    ),
    _get("/v1/agents", "wop_agents", "The agents that were installed, and what memory each lacks", "WopInventory"),
)

_WORKSPACE_OPERATIONS: Final = (
    _get(
        "/v1/host/workspace/files",
        "wop_files",
        "Workspace files, without their content",
        "WopFiles",
        in_query("prefix", TEXT, "Only those whose path begins so.", "notes/"),
    ),
    _get(
        "/v1/host/workspace/files/{path}",
        "wop_file",
        "A workspace file, as it is or as it was",
        "WopFile",
        _FILE_IN_PATH,
        in_query("version", {"type": "integer", "minimum": 1}, "An earlier version."),
        headers=_ETAG_GIVEN,
    ),
    _send(
        "/v1/host/workspace/files/{path}",
        "wop_write_file",
        "Write the next version of a workspace file",
        "WopFileDraft",
        {"content": "# Plan\n"},
        "WopFile",
        _FILE_IN_PATH,
        _IF_MATCH,
        _IF_NONE_MATCH,
        method="put",
        headers=_ETAG_GIVEN,
    ),
    _delete(
        "/v1/host/workspace/files/{path}",
        "wop_remove_file",
        "Take a workspace file away, with its versions",
        _FILE_IN_PATH,
        _IF_MATCH,
    ),
)

_BACKGROUND_OPERATIONS: Final = (
    _get(
        "/v1/host/commitments",
        "wop_commitments",
        "The commitments that are known; no word of any",
        "WopCommitments",
        in_query("memoryRef", _REF, "Only of this ref.", EXAMPLE_REF),
    ),
    _send(
        "/v1/host/commitments/infer",
        "wop_infer",
        "Find the commitments in the memories of a ref",
        "WopRef",
        {"memoryRef": EXAMPLE_REF},
        "WopCommitments",
    ),
    _send(
        "/v1/host/commitments/watch",
        "wop_watch",
        "Find commitments in whatever is written to a ref from now on",
        "WopWatch",
        {"memoryRef": EXAMPLE_REF, "watched": True},
        "WopWatch",
    ),
    _send(
        "/v1/host/commitments/{commitment_id}/snooze",
        "wop_snooze",
        "Let it fire later",
        "WopSnooze",
        {"until": "2999-01-01T09:00:00Z"},
        "WopCommitment",
        _COMMITMENT_IN_PATH,
    ),
    _send(
        "/v1/host/commitments/{commitment_id}/cancel",
        "wop_cancel",
        "Let it never fire",
        "WopNothing",
        {},
        "WopCommitment",
        _COMMITMENT_IN_PATH,
    ),
    _get(
        "/v1/host/schedules", "wop_schedules", "Which refs are distilled by themselves, and when next", "WopSchedules"
    ),
    _send(
        "/v1/host/schedules",
        "wop_schedule",
        "Distil a ref whenever a cron expression says",
        "WopScheduleDraft",
        {"memoryRef": EXAMPLE_REF, "cron": "0 3 * * *", "timezone": "Europe/Berlin", "tokenBudget": 8000},
        "WopSchedule",
        method="put",
    ),
    _delete(
        "/v1/host/schedules",
        "wop_unschedule",
        "Distil it no longer by itself",
        {**in_query("memoryRef", _REF, "Which.", EXAMPLE_REF), "required": True},
    ),
)

_PROPOSALS: Final = "/v1/host/sample/proposals"
_PROPOSAL_OPERATIONS: Final = (
    _get(
        _PROPOSALS,
        "wop_proposals",
        "What agents propose to learn",
        "WopProposals",
        in_query("state", one_of(STATES), "Only in this state.", "draft"),
        in_query("kind", one_of(PROPOSAL_KINDS), "Only of this kind."),
    ),
    _send(
        _PROPOSALS,
        "wop_propose",
        "Propose something by hand",
        "WopProposalDraft",
        EXAMPLE_PROPOSAL,
        "WopProposal",
        status="201",
    ),
    _send(
        f"{_PROPOSALS}/synthesise",
        "wop_synthesise",
        "Propose what the recorded runs suggest; only what is new is given",
        "WopNothing",
        {},
        "WopProposals",
    ),
    _get(f"{_PROPOSALS}/{{proposal_id}}", "wop_proposal", "One proposal", "WopProposal", _PROPOSAL_IN_PATH),
    _send(
        f"{_PROPOSALS}/{{proposal_id}}",
        "wop_revise",
        "Change its words or its artifact; it stays inert",
        "WopRevision",
        {"title": "Report every Monday at nine"},
        "WopProposal",
        _PROPOSAL_IN_PATH,
        method="patch",
    ),
    Operation(
        method="delete",
        path=f"{_PROPOSALS}/{{proposal_id}}",
        name="wop_archive",
        summary="Put a proposal away",
        answer="WopProposal",
        parameters=(_PROPOSAL_IN_PATH,),
        errors="WopError",
    ),
    _send(
        f"{_PROPOSALS}/{{proposal_id}}/approve",
        "wop_approve",
        "Approve it as it is now; needs `activate`",
        "WopNothing",
        {},
        "WopApproved",
        _PROPOSAL_IN_PATH,
    ),
    _send(
        f"{_PROPOSALS}/{{proposal_id}}/apply",
        "wop_apply",
        "Install its artifact; needs `activate`, or an approval of exactly this",
        "WopApply",
        {},
        "WopInstalled",
        _PROPOSAL_IN_PATH,
    ),
    _send(
        f"{_PROPOSALS}/{{proposal_id}}/reject",
        "wop_reject",
        "Decline it; why goes into the audit log",
        "WopReject",
        {"reason": "not needed"},
        "WopProposal",
        _PROPOSAL_IN_PATH,
    ),
    _get("/v1/host/artifacts", "wop_artifacts", "The artifacts in force, by their refs", "WopArtifacts"),
)

WOP_OPERATIONS: Final = (
    _get(DISCOVERY, "wop_discovery", "What this host claims (openwop)", "WopDiscovery", is_public=True),
    *_RUN_OPERATIONS,
    *_MEMORY_OPERATIONS,
    *_WORKSPACE_OPERATIONS,
    *_BACKGROUND_OPERATIONS,
    *_PROPOSAL_OPERATIONS,
)

SEAM_OPERATIONS: Final = (
    _send(
        "/v1/test/memory/seed",
        "wop_seed",
        "For conformance suites: write entries",
        "WopSeeds",
        {"memoryRef": EXAMPLE_REF, "entries": [{"id": "s1", "content": "Deployments go out on Tuesdays."}]},
        "WopOpen",
        status="201",
    ),
    *(
        _send(
            path, name, f"For conformance suites: {summary}", "WopOpen", {"memoryRef": EXAMPLE_REF, **more}, "WopOpen"
        )
        for path, name, summary, more in (
            ("/v1/test/memory/compact", "wop_compact", "compact a ref", {}),
            ("/v1/host/sample/memory/distill", "wop_distill", "distil a ref", {"tokenBudget": 8000}),
            ("/v1/host/sample/memory/consolidate", "wop_consolidate", "consolidate a ref", {}),
            ("/v1/host/sample/commitment/fire", "wop_fire", "fire a commitment", {"condition": "predicate"}),
        )
    ),
)
