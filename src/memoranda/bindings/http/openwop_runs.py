"""Runs of openwop: started by a client (what Memoranda does itself), or begun, told and ended by a host.

POST /v1/runs              a pass over a ref, on demand: memoranda.compaction, .distillation, .consolidation
POST /v1/host/runs         a host's own run: what it reads is the store as it is now, what it writes is attributed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memoranda.bindings.http.call import Call
from memoranda.bindings.http.openwop import DISCOVERY, EXAMPLE_ENTRY, EXAMPLE_REF, OPENWOP
from memoranda.bindings.http.openwop_once import ref_of
from memoranda.bindings.http.operation import Operation, Verb, in_header
from memoranda.encoding.json_text import dump
from memoranda.encoding.shapes import COUNT, TEXT, ref
from memoranda.errors import InvalidInput, NotFound
from memoranda.service.core.access import Access
from memoranda.service.openwop.host import MAX_RUNS
from memoranda.service.openwop.runs import HOST_WORKFLOW, Run
from memoranda.service.service import Service
from memoranda.standards.openwop.entry import ListOptions
from memoranda.standards.openwop.requests import (
    AttributedEntry,
    BeginRunRequest,
    ConsolidationRequest,
    EmitEventRequest,
    FinishRunRequest,
    FollowRequest,
    ListRunsRequest,
    PollRequest,
    RefRequest,
    Secret,
)
from memoranda.standards.openwop.runs import ForkRequest, RunRequest, check_agent, check_snapshot

# Of whole runs in one answer.
_PAGE_BYTES: Final = 1_048_576
Workflow = Callable[[Service, Access, RunRequest], Run]


# --- on demand ---------------------------------------------------------------------------------------------


def compact(service: Service, access: Access, request: RunRequest) -> Run:
    return service.openwop.compact(access, _ref(request)).run


def distill(service: Service, access: Access, request: RunRequest) -> Run:
    return service.openwop.distill(access, _ref(request), token_budget=request.token_budget).run


def consolidate(service: Service, access: Access, request: RunRequest) -> Run:
    return service.openwop.consolidate(access, _ref(request)).run


def _ref(request: RunRequest) -> str:
    return RefRequest.parse({"memoryRef": request.inputs.get("memoryRef")}).memory_ref


WORKFLOWS: Final[Mapping[str, Workflow]] = {
    f"{HOST_WORKFLOW}compaction": compact,
    f"{HOST_WORKFLOW}distillation": distill,
    f"{HOST_WORKFLOW}consolidation": consolidate,
}


def starting(workflows: Mapping[str, Workflow]) -> Verb:
    """`POST /v1/runs` for these workflows."""

    def start(service: Service, call: Call, asked: RunRequest) -> dict[str, Any]:
        # The tenant is the credential's, whatever the request calls it (WCT-1: hints are no authorization).
        workflow = workflows.get(asked.workflow_id)
        if workflow is None:
            raise InvalidInput("workflowId names no workflow of this host")
        return _started(workflow(service, call.access, asked))

    return start


def discovering(fixtures: tuple[str, ...]) -> Verb:
    """What this host claims."""

    def discovery(service: Service, _call: Call, _asked: None) -> object:
        return service.openwop.discovery(is_attended=service.upkeep.is_running, fixtures=fixtures)

    return discovery


def _started(run: Run) -> dict[str, Any]:
    urls = {"eventsUrl": f"/v1/runs/{run.run_id}/events", "statusUrl": f"/v1/runs/{run.run_id}"}
    return {"runId": run.run_id, "status": run.status, **urls}


# --- any run -----------------------------------------------------------------------------------------------


def get_run(service: Service, call: Call, _asked: None) -> Any:
    return service.openwop.snapshot(call.access, call.name("run_id"))


def fork(service: Service, call: Call, asked: ForkRequest) -> dict[str, Any]:
    source = call.name("run_id")
    run = service.openwop.fork(call.access, source, mode=asked.mode, from_seq=asked.from_seq)
    return {**_started(run), "sourceRunId": source, "fromSeq": asked.from_seq, "mode": asked.mode}


def undo(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"restored": service.openwop.undo_consolidation(call.access, call.name("run_id"))}


# --- a host's own ------------------------------------------------------------------------------------------


def list_runs(service: Service, call: Call, asked: ListRunsRequest) -> dict[str, Any]:
    limit = MAX_RUNS if asked.limit is None else min(asked.limit, MAX_RUNS)
    found = service.openwop.runs(call.access, before=asked.start, limit=limit)
    shown = _fitting(found) if asked.is_full else [_brief(run) for run in found]
    is_more = len(found) == limit or len(shown) < len(found)
    more = {"nextCursor": "{}.{}".format(*found[len(shown) - 1].place)} if is_more else {}
    return {"runs": shown, **more}


def _fitting(found: Sequence[Run]) -> list[dict[str, Any]]:
    """As many whole runs as fit into an answer; always one."""
    shown: list[dict[str, Any]] = []
    size = 0
    for run in found:
        size += len(dump(run.document()))
        if shown and size > _PAGE_BYTES:
            break
        shown.append(run.document())
    return shown


def host_run(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return service.openwop.run(call.access, call.name("run_id")).document()


def run_pass(service: Service, call: Call, asked: ConsolidationRequest) -> dict[str, Any]:
    """A pass with all that a host may say of it. What it wrote is named, not shown: answers are kept for a day."""
    host, ref = service.openwop, asked.memory_ref
    if asked.act == "consolidation":
        done = host.consolidate(call.access, ref)
        told = {"taken": done.taken, "contradictions": done.contradictions, "strengthened": done.strengthened}
        return {"run": done.run.document(), "event": done.event, **told}
    if asked.act == "compaction":
        made = host.compact(call.access, ref)
        return {"run": made.run.document(), "event": made.event, "entryId": made.entry["id"]}
    how: dict[str, Any] = {"given": asked.texts, "run_id": asked.run_id, "of_archives": asked.of_archives}
    archive = host.distill(call.access, ref, token_budget=asked.token_budget, is_indexed=asked.is_indexed, **how)
    index = {} if archive.index is None else {"index": {name: archive.index[name] for name in ("path", "version")}}
    named = {"entryId": archive.entry["id"], "checksum": archive.checksum, **index}
    return {"run": archive.run.document(), "event": archive.event, **named}


def _brief(run: Run) -> dict[str, Any]:
    """What a list shows of a run: its variables may be long, and are read with it."""
    return {name: value for name, value in run.snapshot().items() if name != "variables"}


def begin(service: Service, call: Call, asked: BeginRunRequest) -> dict[str, Any]:
    if asked.workflow_id.startswith(HOST_WORKFLOW):
        raise InvalidInput(f"workflowId must not begin with {HOST_WORKFLOW}: those runs are our own")
    run = service.openwop.begin_run(
        call.access,
        asked.workflow_id,
        run_id=asked.run_id,
        agent=None if asked.agent is None else check_agent(asked.agent, "agent"),
        tags=asked.tags,
        metadata=asked.metadata,
    )
    return _started(run)


def emit(service: Service, call: Call, asked: EmitEventRequest) -> Any:
    return service.openwop.emit(call.access, call.name("run_id"), asked.type, asked.payload, node_id=asked.node_id)


def finish(service: Service, call: Call, asked: FinishRunRequest) -> Any:
    run_id, given = call.name("run_id"), {"variables": asked.variables, "error": asked.error}
    said = {name: value for name, value in given.items() if value is not None}
    check_snapshot({**said, "runId": "r", "workflowId": "w", "status": asked.status})
    service.openwop.finish_run(call.access, run_id, status=asked.status, variables=asked.variables, error=asked.error)
    return service.openwop.snapshot(call.access, run_id)


def add_secret(service: Service, call: Call, asked: Secret) -> dict[str, Any]:
    is_known = service.openwop.register_secret(call.access, call.name("run_id"), asked.secret_id, asked.value)
    return {"registered": is_known}


def list_in_run(service: Service, call: Call, asked: ListOptions) -> dict[str, Any]:
    return {"entries": service.openwop.list_entries(call.access, ref_of(call), asked, run_id=call.name("run_id"))}


def get_in_run(service: Service, call: Call, _asked: None) -> Any:
    found = service.openwop.get_entry(call.access, ref_of(call), call.name("id"), run_id=call.name("run_id"))
    if found is None:
        raise NotFound("no such entry")
    return found


def put_in_run(service: Service, call: Call, asked: AttributedEntry) -> Any:
    return service.openwop.put_entry(
        call.access,
        ref_of(call),
        asked,
        entry_id=call.name("id") if "id" in call.scope["path_params"] else None,
        run_id=call.name("run_id"),
        node_id=asked.node_id,
        agent_id=asked.agent_id,
    )


# --- the table ---------------------------------------------------------------------------------------------

_LAST_EVENT: Final = in_header("Last-Event-ID", COUNT, "As `lastSequence`; what browsers send by themselves.")
_RUN, _HOST_RUNS, _HOST_RUN = "/v1/runs/{run_id}", "/v1/host/runs", "/v1/host/runs/{run_id}"
_ENTRIES: Final = f"{_HOST_RUN}/memory/{{ref}}"
_row: Final = OPENWOP.row


def operations(workflows: Mapping[str, Workflow] = WORKFLOWS, fixtures: tuple[str, ...] = ()) -> tuple[Operation, ...]:
    """The rows that depend on which workflows this host knows."""
    return (
        _row(
            "GET",
            DISCOVERY,
            "openwop_discovery",
            "What this host claims (openwop)",
            discovering(fixtures),
            "OpenwopDiscovery",
            is_public=True,
            is_quick=True,
        ),
        _row(
            "POST",
            "/v1/runs",
            "openwop_start",
            f"Start a workflow of this host, a pass over the memory of a ref: {', '.join(WORKFLOWS)}",
            starting(workflows),
            "OpenwopStarted",
            RunRequest,
            {"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": EXAMPLE_REF}},
            success=(201,),
        ),
    )


OPERATIONS: Final = (
    _row(
        "GET",
        _HOST_RUN,
        "openwop_host_run",
        "A run as its host sees it: its variables as they were given, and what was said of it when it began",
        host_run,
        "OpenwopHostRun",
    ),
    _row(
        "POST",
        "/v1/host/passes",
        "openwop_pass",
        "A pass over the memory of a ref, with all that a host may say of it, and what it did",
        run_pass,
        "OpenwopPass",
        ConsolidationRequest,
        {"act": "consolidation", "memoryRef": EXAMPLE_REF},
    ),
    _row("GET", _RUN, "openwop_run", "A run, with the memories that its variables name", get_run, "OpenwopRun"),
    _row(
        "GET",
        f"{_RUN}/events",
        "openwop_events",
        "The log of a run: JSON if `Accept` says so, else server-sent events until it is over",
        None,
        "",
        FollowRequest,
        parameters=(_LAST_EVENT,),
        gives={"text/event-stream": {"schema": TEXT}, "application/json": {"schema": ref("OpenwopEvents")}},
    ),
    _row(
        "GET",
        f"{_RUN}/events/poll",
        "openwop_poll",
        "Later events as soon as there are some",
        None,
        "OpenwopEvents",
        PollRequest,
        {"timeout": 0},
    ),
    _row(
        "GET",
        "/v1/host/events",
        "openwop_all_events",
        "The logs of all runs: server-sent events from now on, or with JSON a page of them",
        None,
        "",
        FollowRequest,
        parameters=(_LAST_EVENT,),
        gives={"text/event-stream": {"schema": TEXT}, "application/json": {"schema": ref("OpenwopAllEvents")}},
    ),
    _row(
        "POST",
        f"{_RUN}:fork",
        "openwop_fork",
        "Another run with the facts of this one: a replay repeats them, a branch goes on from there",
        fork,
        "OpenwopForked",
        ForkRequest,
        {"mode": "replay", "fromSeq": 0},
        success=(201,),
    ),
    _row(
        "GET",
        _HOST_RUNS,
        "openwop_runs",
        "Runs, the last started first, those of the background too",
        list_runs,
        "OpenwopRuns",
        ListRunsRequest,
        {"limit": 10},
    ),
    _row(
        "POST",
        _HOST_RUNS,
        "openwop_begin",
        "Begin a host's run: what it reads is the store as it is now, and its own writes",
        begin,
        "OpenwopStarted",
        BeginRunRequest,
        {"workflowId": "acme.support", "agent": {"agentId": "acme.support.helper", "memoryRef": EXAMPLE_REF}},
        success=(201,),
    ),
    _row(
        "POST",
        f"{_HOST_RUN}/events",
        "openwop_emit",
        "Append to the log of a run what is not recorded by itself",
        emit,
        "OpenwopEvent",
        EmitEventRequest,
        {"type": "agent.toolCalled", "payload": {"toolName": "search", "argumentNames": ["query"]}, "nodeId": "n1"},
        success=(201,),
    ),
    _row(
        "POST",
        f"{_HOST_RUN}/secrets",
        "openwop_secret",
        "Let a secret that the run resolved never be stored by it; kept in memory until the run is over",
        add_secret,
        "OpenwopRegistered",
        Secret,
        {"secretId": "crm-token", "value": "an example of a secret"},
    ),
    _row(
        "GET",
        _ENTRIES,
        "openwop_list_in_run",
        "The entries of a ref as the run sees them",
        list_in_run,
        "OpenwopEntries",
        ListOptions,
        {"limit": 50},
    ),
    _row(
        "POST",
        _ENTRIES,
        "openwop_put_in_run",
        "Write an entry in a run, without its secrets; the log says so",
        put_in_run,
        "OpenwopEntry",
        AttributedEntry,
        {**EXAMPLE_ENTRY, "nodeId": "n1"},
        success=(201,),
    ),
    _row("GET", f"{_ENTRIES}/{{id}}", "openwop_get_in_run", "One entry as the run sees it", get_in_run, "OpenwopEntry"),
    _row(
        "PUT",
        f"{_ENTRIES}/{{id}}",
        "openwop_put_under_in_run",
        "Write the entry under an id that the host chooses in a run; the log says so",
        put_in_run,
        "OpenwopEntry",
        AttributedEntry,
        {**EXAMPLE_ENTRY, "nodeId": "n1"},
    ),
    _row(
        "POST",
        f"{_HOST_RUN}/undo",
        "openwop_undo",
        "Bring back what the consolidation of this run took out",
        undo,
        "OpenwopRestored",
    ),
    _row(
        "POST",
        f"{_HOST_RUN}/finish",
        "openwop_finish",
        "End a run; its secrets are forgotten",
        finish,
        "OpenwopRun",
        FinishRunRequest,
        {"status": "completed", "variables": {"outcome": "answered"}},
    ),
)
