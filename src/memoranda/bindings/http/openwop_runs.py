"""Runs of openwop: workflows of Memoranda that a client starts, and runs that a host reports.

POST /v1/runs              a consolidation run over a ref: memoranda.compaction, .distillation, .consolidation
POST /v1/host/runs         a host's own run: it reads the current store, and its writes are attributed to it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memoranda.bindings.http import openwop, openwop_versions
from memoranda.bindings.http.call import HttpAnswer, HttpCall, Serve
from memoranda.bindings.http.openwop import OPENWOP
from memoranda.bindings.http.openwop_versions import DISCOVERY, is_second
from memoranda.bindings.http.operation import Operation
from memoranda.bindings.operations import openwop as rows
from memoranda.bindings.operations.openwop import EXAMPLE_REF
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.openwop.openwop import MAX_RUNS
from memoranda.service.openwop.runs import HOST_WORKFLOW, Run
from memoranda.service.service import Service
from memoranda.standards.openwop import version_two
from memoranda.standards.openwop.requests import (
    BeginRunRequest,
    CancelRunRequest,
    ConsolidationRequest,
    FinishRunRequest,
    ListRunsRequest,
    PollRequest,
    RefRequest,
)
from memoranda.standards.openwop.runs import ForkRequest, RunRequest, check_agent, check_snapshot

# Bytes of complete runs in one answer.
_PAGE_BYTES: Final = 1_048_576
Workflow = Callable[[Service, Access, RunRequest], Run]


# --- workflows of this host --------------------------------------------------------------------------------


def compact(service: Service, access: Access, request: RunRequest) -> Run:
    """Run a compaction of a ref."""
    return service.openwop.compact(access, _memory_ref(request)).run


def distill(service: Service, access: Access, request: RunRequest) -> Run:
    """Run a distillation of a ref, within a token budget."""
    return service.openwop.distill(
        access, _memory_ref(request), token_budget=request.token_budget
    ).run


def consolidate(service: Service, access: Access, request: RunRequest) -> Run:
    """Run a consolidation of a ref."""
    return service.openwop.consolidate(access, _memory_ref(request)).run


def _memory_ref(request: RunRequest) -> str:
    return RefRequest.parse({"memoryRef": request.inputs.get("memoryRef")}).memory_ref


WORKFLOWS: Final[Mapping[str, Workflow]] = {
    f"{HOST_WORKFLOW}compaction": compact,
    f"{HOST_WORKFLOW}distillation": distill,
    f"{HOST_WORKFLOW}consolidation": consolidate,
}


def make_start(workflows: Mapping[str, Workflow]) -> Serve:
    """Return the function that starts one of these workflows.

    It raises InvalidInput for a name that is none of them.
    """

    def start(service: Service, call: HttpCall, request: RunRequest) -> dict[str, object]:
        # The tenant is that of the credential; one named in the request gives no rights (WCT-1).
        workflow = workflows.get(request.workflow_id)
        if workflow is None:
            raise InvalidInput("workflowId names no workflow of this host")
        return _started_answer(workflow(service, call.access, request))

    return start


def make_discovery(fixtures: tuple[str, ...]) -> Serve:
    """Return the function that serves the capabilities of this host."""

    def discovery(service: Service, call: HttpCall, _request: None) -> HttpAnswer:
        offered = service.openwop.discovery(
            is_attended=service.upkeep.is_running, fixtures=fixtures
        )
        show = version_two.show_discovery if is_second(call.scope) else version_two.add_versions
        return openwop.answer_unless_known(call, show(offered))

    return discovery


def _started_answer(run: Run) -> dict[str, object]:
    urls = {"eventsUrl": f"/v1/runs/{run.run_id}/events", "statusUrl": f"/v1/runs/{run.run_id}"}
    return {"runId": run.run_id, "status": run.status, **urls}


# --- any run -----------------------------------------------------------------------------------------------


def fork_run(service: Service, call: HttpCall, request: ForkRequest) -> dict[str, object]:
    """Start a fork of a run at one of its events, and return the new run."""
    source = call.path_name("run_id")
    run = service.openwop.fork(call.access, source, mode=request.mode, from_seq=request.from_seq)
    return {
        **_started_answer(run),
        "sourceRunId": source,
        "fromSeq": request.from_seq,
        "mode": request.mode,
    }


def cancel_run(service: Service, call: HttpCall, _request: CancelRunRequest) -> dict[str, object]:
    """Cancel a run, and return its new status."""
    run = service.openwop.cancel_run(call.access, call.path_name("run_id"))
    return {"runId": run.run_id, "status": run.status}


# --- runs of a host ----------------------------------------------------------------------------------------


def list_runs(service: Service, call: HttpCall, request: ListRunsRequest) -> dict[str, object]:
    """Return a page of runs, the latest first: complete ones, or without their variables."""
    limit = MAX_RUNS if request.limit is None else min(request.limit, MAX_RUNS)
    runs = service.openwop.runs(call.access, before=request.start, limit=limit)
    documents = _fitting_runs(runs) if request.is_full else [_brief_run(run) for run in runs]
    is_more = len(runs) == limit or len(documents) < len(runs)
    next_page = {"nextCursor": "{}.{}".format(*runs[len(documents) - 1].cursor)} if is_more else {}
    return {"runs": documents, **next_page}


def _fitting_runs(runs: Sequence[Run]) -> list[dict[str, object]]:
    """Return the complete runs that fit into an answer, at least one."""
    documents: list[dict[str, object]] = []
    size = 0
    for run in runs:
        size += len(dump(run.document()))
        if documents and size > _PAGE_BYTES:
            break
        documents.append(run.document())
    return documents


def run_pass(service: Service, call: HttpCall, request: ConsolidationRequest) -> dict[str, object]:
    """Run a consolidation with a host's options. The answer holds only ids of entries: it is recorded for a day."""
    host, ref = service.openwop, request.memory_ref
    if request.act == "consolidation":
        consolidated = host.consolidate(call.access, ref)
        counts = {
            "taken": consolidated.taken,
            "contradictions": consolidated.contradictions,
            "strengthened": consolidated.strengthened,
        }
        return {"run": consolidated.run.document(), "event": consolidated.event, **counts}
    if request.act == "compaction":
        compacted = host.compact(call.access, ref)
        run, event = compacted.run.document(), compacted.event
        return {"run": run, "event": event, "entryId": compacted.entry["id"]}
    archive = host.distill(
        call.access,
        ref,
        token_budget=request.token_budget,
        is_indexed=request.is_indexed,
        given=request.texts,
        run_id=request.run_id,
        of_archives=request.of_archives,
    )
    answer: dict[str, object] = {
        "run": archive.run.document(),
        "event": archive.event,
        "entryId": archive.entry["id"],
        "checksum": archive.checksum,
    }
    if archive.index is not None:
        answer["index"] = {name: archive.index[name] for name in ("path", "version")}
    return answer


def _brief_run(run: Run) -> dict[str, object]:
    """Return a run for a list: without its variables, which may be long."""
    return {name: value for name, value in run.snapshot().items() if name != "variables"}


def begin_run(service: Service, call: HttpCall, request: BeginRunRequest) -> dict[str, object]:
    """Register a run of the host, and return its id and URLs.

    Raises InvalidInput for the name of a workflow that Memoranda runs itself.
    """
    if request.workflow_id.startswith(HOST_WORKFLOW):
        raise InvalidInput(
            f"workflowId must not begin with {HOST_WORKFLOW}: Memoranda runs those itself"
        )
    run = service.openwop.begin_run(
        call.access,
        request.workflow_id,
        run_id=request.run_id,
        agent=None if request.agent is None else check_agent(request.agent, "agent"),
        tags=request.tags,
        metadata=request.metadata,
    )
    return _started_answer(run)


def finish_run(service: Service, call: HttpCall, request: FinishRunRequest) -> object:
    """End a run of the host, and return its snapshot."""
    run_id = call.path_name("run_id")
    outcome = {"variables": request.variables, "error": request.error}
    present = {name: value for name, value in outcome.items() if value is not None}
    check_snapshot({**present, "runId": "r", "workflowId": "w", "status": request.status})
    service.openwop.finish_run(
        call.access, run_id, status=request.status, variables=request.variables, error=request.error
    )
    return service.openwop.snapshot(call.access, run_id)


# --- the table ---------------------------------------------------------------------------------------------

_RUN: Final = "/v1/runs/{run_id}"
_row: Final = OPENWOP.row


def workflow_operations(
    workflows: Mapping[str, Workflow] = WORKFLOWS, fixtures: tuple[str, ...] = ()
) -> tuple[Operation, ...]:
    """Return the operations that depend on the workflows of this host."""
    return (
        _row(
            "GET",
            DISCOVERY,
            "openwop_discovery",
            "Return the capabilities of this host (openwop)",
            make_discovery(fixtures),
            "OpenwopDiscovery",
            is_public=True,
            is_quick=True,
        ),
        _row(
            "POST",
            "/v1/runs",
            "openwop_start",
            f"Start a workflow of this host over the memory of a ref: {', '.join(WORKFLOWS)}",
            make_start(workflows),
            "OpenwopStarted",
            RunRequest,
            example={"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": EXAMPLE_REF}},
            success=(201,),
        ),
    )


OPERATIONS: Final = (
    *OPENWOP.operations(
        rows.OPERATIONS,
        serve={
            **openwop.SERVE,
            "openwop_pass": run_pass,
            "openwop_fork": fork_run,
            "openwop_cancel_run": cancel_run,
            "openwop_runs": list_runs,
            "openwop_begin": begin_run,
            "openwop_finish": finish_run,
            "openwop_events": None,
            "openwop_all_events": None,
        },
    ),
    _row(
        "GET",
        "/v1/agents/{agent_id}",
        "openwop_agent",
        "Return one installed agent, and the memory that it lacks",
        openwop_versions.get_agent,
        "OpenwopAgent",
    ),
    _row(
        "GET",
        f"{_RUN}/events/poll",
        "openwop_poll",
        "Wait for later events of a run",
        None,
        "OpenwopEvents",
        PollRequest,
        example={"timeout": 0},
    ),
)
