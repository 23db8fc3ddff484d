"""Runs of openwop: started by a client (what Memoranda does itself), or begun, told and ended by a host.

POST /v1/runs              a pass over a ref, on demand: memoranda.compaction, .distillation, .consolidation
POST /v1/host/runs         a host's own run: what it reads is the store as it is now, what it writes is attributed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memoranda.bindings.http import openwop
from memoranda.bindings.http.call import HttpCall, Serve
from memoranda.bindings.http.openwop import DISCOVERY, OPENWOP
from memoranda.bindings.http.operation import Operation
from memoranda.bindings.operations import openwop as rows
from memoranda.bindings.operations.openwop import EXAMPLE_REF
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.openwop.openwop import MAX_RUNS
from memoranda.service.openwop.runs import HOST_WORKFLOW, Run
from memoranda.service.service import Service
from memoranda.standards.openwop.requests import (
    BeginRunRequest,
    ConsolidationRequest,
    FinishRunRequest,
    ListRunsRequest,
    PollRequest,
    RefRequest,
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


def start_with(workflows: Mapping[str, Workflow]) -> Serve:
    """Return the function that starts one of these workflows."""

    def start(service: Service, call: HttpCall, asked: RunRequest) -> dict[str, Any]:
        # The tenant is the credential's, whatever the request calls it (WCT-1: hints are no authorization).
        workflow = workflows.get(asked.workflow_id)
        if workflow is None:
            raise InvalidInput("workflowId names no workflow of this host")
        return _started(workflow(service, call.access, asked))

    return start


def discovery_with(fixtures: tuple[str, ...]) -> Serve:
    """Return the function that tells the claims of this host."""

    def discovery(service: Service, _call: HttpCall, _asked: None) -> object:
        return service.openwop.discovery(is_attended=service.upkeep.is_running, fixtures=fixtures)

    return discovery


def _started(run: Run) -> dict[str, Any]:
    urls = {"eventsUrl": f"/v1/runs/{run.run_id}/events", "statusUrl": f"/v1/runs/{run.run_id}"}
    return {"runId": run.run_id, "status": run.status, **urls}


# --- any run -----------------------------------------------------------------------------------------------


def fork(service: Service, call: HttpCall, asked: ForkRequest) -> dict[str, Any]:
    source = call.path_name("run_id")
    run = service.openwop.fork(call.access, source, mode=asked.mode, from_seq=asked.from_seq)
    return {**_started(run), "sourceRunId": source, "fromSeq": asked.from_seq, "mode": asked.mode}


# --- a host's own ------------------------------------------------------------------------------------------


def list_runs(service: Service, call: HttpCall, asked: ListRunsRequest) -> dict[str, Any]:
    limit = MAX_RUNS if asked.limit is None else min(asked.limit, MAX_RUNS)
    found = service.openwop.runs(call.access, before=asked.start, limit=limit)
    shown = _fitting(found) if asked.is_full else [_brief(run) for run in found]
    is_more = len(found) == limit or len(shown) < len(found)
    more = {"nextCursor": "{}.{}".format(*found[len(shown) - 1].cursor)} if is_more else {}
    return {"runs": shown, **more}


def _fitting(found: Sequence[Run]) -> list[dict[str, Any]]:
    """Return as many complete runs as fit into an answer; at least one."""
    shown: list[dict[str, Any]] = []
    size = 0
    for run in found:
        size += len(dump(run.document()))
        if shown and size > _PAGE_BYTES:
            break
        shown.append(run.document())
    return shown


def run_pass(service: Service, call: HttpCall, asked: ConsolidationRequest) -> dict[str, Any]:
    """Run a pass with a host's options. Its answer has the id of the entry alone: answers are kept for a day."""
    host, ref = service.openwop, asked.memory_ref
    if asked.act == "consolidation":
        done = host.consolidate(call.access, ref)
        told = {
            "taken": done.taken,
            "contradictions": done.contradictions,
            "strengthened": done.strengthened,
        }
        return {"run": done.run.document(), "event": done.event, **told}
    if asked.act == "compaction":
        made = host.compact(call.access, ref)
        return {"run": made.run.document(), "event": made.event, "entryId": made.entry["id"]}
    how: dict[str, Any] = {
        "given": asked.texts,
        "run_id": asked.run_id,
        "of_archives": asked.of_archives,
    }
    archive = host.distill(
        call.access, ref, token_budget=asked.token_budget, is_indexed=asked.is_indexed, **how
    )
    index = (
        {}
        if archive.index is None
        else {"index": {name: archive.index[name] for name in ("path", "version")}}
    )
    named = {"entryId": archive.entry["id"], "checksum": archive.checksum, **index}
    return {"run": archive.run.document(), "event": archive.event, **named}


def _brief(run: Run) -> dict[str, Any]:
    """Return a run for a list: without its variables, which may be long."""
    return {name: value for name, value in run.snapshot().items() if name != "variables"}


def begin(service: Service, call: HttpCall, asked: BeginRunRequest) -> dict[str, Any]:
    if asked.workflow_id.startswith(HOST_WORKFLOW):
        raise InvalidInput(
            f"workflowId must not begin with {HOST_WORKFLOW}: those runs are our own"
        )
    run = service.openwop.begin_run(
        call.access,
        asked.workflow_id,
        run_id=asked.run_id,
        agent=None if asked.agent is None else check_agent(asked.agent, "agent"),
        tags=asked.tags,
        metadata=asked.metadata,
    )
    return _started(run)


def finish(service: Service, call: HttpCall, asked: FinishRunRequest) -> Any:
    run_id, given = call.path_name("run_id"), {"variables": asked.variables, "error": asked.error}
    said = {name: value for name, value in given.items() if value is not None}
    check_snapshot({**said, "runId": "r", "workflowId": "w", "status": asked.status})
    service.openwop.finish_run(
        call.access, run_id, status=asked.status, variables=asked.variables, error=asked.error
    )
    return service.openwop.snapshot(call.access, run_id)


# --- the table ---------------------------------------------------------------------------------------------

_RUN: Final = "/v1/runs/{run_id}"
_row: Final = OPENWOP.row


def operations(
    workflows: Mapping[str, Workflow] = WORKFLOWS, fixtures: tuple[str, ...] = ()
) -> tuple[Operation, ...]:
    """Return the operations that depend on the workflows of this host."""
    return (
        _row(
            "GET",
            DISCOVERY,
            "openwop_discovery",
            "What this host claims (openwop)",
            discovery_with(fixtures),
            "OpenwopDiscovery",
            is_public=True,
            is_quick=True,
        ),
        _row(
            "POST",
            "/v1/runs",
            "openwop_start",
            f"Start a workflow of this host, a pass over the memory of a ref: {', '.join(WORKFLOWS)}",
            start_with(workflows),
            "OpenwopStarted",
            RunRequest,
            {"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": EXAMPLE_REF}},
            success=(201,),
        ),
    )


OPERATIONS: Final = (
    *OPENWOP.operations(
        rows.OPERATIONS,
        serve={
            **openwop.SERVE,
            "openwop_pass": run_pass,
            "openwop_fork": fork,
            "openwop_runs": list_runs,
            "openwop_begin": begin,
            "openwop_finish": finish,
            "openwop_events": None,
            "openwop_all_events": None,
        },
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
)
