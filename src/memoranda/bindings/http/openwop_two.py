"""openwop 2 over HTTP: the operations that concern memory, on paths without a version.

Each calls the same verb as its twin under `/v1`, and translates its answer (`standards/openwop/version_two.py`).

Version 2 has other paths, another envelope of errors (`_refuse`) and other names of fields; what happens is the same.
So a function here reads its request, calls the verb, and hands the answer to the translator: a rule about runs,
webhooks or proposals belongs in the verb, where both versions obey it. An operation that exists only in one of the
versions has no twin.

The workflows that a host can start are known only when the server is made, so `operations` builds the row that starts a
run from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from memoranda.bindings.http import openwop_versions as agents
from memoranda.bindings.http.call import HttpAnswer, HttpCall, Serve
from memoranda.bindings.http.openwop import (
    EXAMPLE_RUN,
    IDEMPOTENCY_HEADER,
    OPENWOP,
    answer_once,
    answer_unless_known,
    refuse,
    refuse_route,
    require_allowed_url,
)
from memoranda.bindings.http.openwop_events import LogForm, LogPage
from memoranda.bindings.http.openwop_runs import Workflow
from memoranda.bindings.http.openwop_versions import negotiate_second
from memoranda.bindings.http.operation import Operation, Refusal, Standard
from memoranda.bindings.operations.openwop import EXAMPLE_PROPOSAL, EXAMPLE_REF
from memoranda.bindings.operations.row import in_header
from memoranda.encoding.shapes import COUNT, TEXT, ref
from memoranda.errors import Conflict, InvalidInput, MemorandaError, NotFound, WorkflowError
from memoranda.service.openwop.runs import TERMINAL
from memoranda.service.service import Service
from memoranda.standards.openwop import version_two
from memoranda.standards.openwop.answers import ANSWERS_TWO
from memoranda.standards.openwop.problem import RUN_TERMINAL
from memoranda.standards.openwop.proposals import Revision
from memoranda.standards.openwop.requests import CancelRunRequest, RejectRequest
from memoranda.standards.openwop.requests import ListRunsRequest as FirstListRunsRequest
from memoranda.standards.openwop.runs import ForkRequest
from memoranda.standards.openwop.version_two import (
    ApplyProposalRequest,
    CreateRunRequest,
    EmptyRequest,
    FollowEventsRequest,
    ListProposalsRequest,
    ListRunsRequest,
    PollEventsRequest,
    RegisterWebhookRequest,
    SubmitProposalRequest,
)

_PREFIXES: Final = ("/runs", "/webhooks", "/proposals", "/agents")


# --- the standard ----------------------------------------------------------------------------------------------


def _refuse(error: MemorandaError, path: str) -> Refusal:
    """Return an error in the envelope and with the code of version 2."""
    status, envelope = refuse(error, path)
    assert isinstance(envelope, dict)
    return version_two.show_problem(status, envelope, path)


def _read_webhook(service: Service, call: HttpCall, recorded_answer: Any) -> HttpAnswer:
    name = version_two.read_id(recorded_answer["webhookId"], call.access.default_tenant)
    registered = service.openwop.registered_webhook(call.access, name)
    return HttpAnswer(result={**recorded_answer, "secret": registered["secret"]})


def _name(example: str, description: str = "") -> dict[str, object]:
    described = {"description": description} if description else {}
    return {"schema": {"type": "string", "minLength": 1}, "example": example, **described}


OPENWOP_TWO: Final = Standard(
    name="openwop",
    prefixes=_PREFIXES,
    refuse=_refuse,
    refuse_route=refuse_route,
    negotiate=negotiate_second,
    responses="openwop2",
    schemas="Wop2",
    errors={
        **OPENWOP.errors,
        "404": "Not found, or not visible to you (not_found)",
        "406": "Another version than 1 or 2 (protocol_version_unsupported)",
        "409": "The state does not allow this (run_terminal, proposal_state_conflict, proposal_stale …)",
        "422": "token_budget_exceeded, fork_point_invalid or storage_limit_exceeded",
        "503": "The store cannot be used right now (service_unavailable)",
    },
    error_schemas=("OpenwopError",),
    answers=ANSWERS_TWO,
    names={
        "run_id": _name(EXAMPLE_RUN, "A bound id, `tenant~2Frun_example`, or its last part."),
        "webhook_id": _name("wh_example"),
        "proposal_id": _name("prop_example"),
        "agent_id": _name("vendor.acme.helper"),
    },
    idempotency=partial(
        answer_once,
        read_again={"Openwop2Webhook": _read_webhook},
        check_key=version_two.check_idempotency_key,
    ),
    selected_by={version_two.VERSION_HEADER: "2"},
    effect_headers=(IDEMPOTENCY_HEADER,),
)


# --- runs --------------------------------------------------------------------------------------------------------


def _run_id(call: HttpCall) -> str:
    return version_two.read_id(call.path_name("run_id"), call.access.default_tenant)


def _make_start(workflows: Mapping[str, Workflow]) -> Serve:
    """Return the function that starts one of these workflows."""

    def start(service: Service, call: HttpCall, request: CreateRunRequest) -> dict[str, object]:
        version_two.check_tenant(request.tenant_id, call.access.default_tenant)
        workflow = workflows.get(request.workflow_id)
        if workflow is None:
            raise InvalidInput("workflowId names no workflow of this host")
        run = workflow(service, call.access, request.to_first())
        return version_two.show_started(run.run_id, call.access.default_tenant)

    return start


def list_runs(service: Service, call: HttpCall, request: ListRunsRequest) -> dict[str, object]:
    """Return a page of runs, the latest first, without their variables."""
    limit = min(request.limit or version_two.PAGE_LIMIT, version_two.PAGE_LIMIT)
    start = {} if request.cursor is None else {"cursor": request.cursor}
    page = FirstListRunsRequest.parse(start)
    runs = service.openwop.runs(call.access, before=page.start, limit=limit)
    tenant = call.access.default_tenant
    documents = [version_two.show_run({**run.snapshot(), "variables": {}}, tenant) for run in runs]
    is_more = len(runs) == limit
    next_page = {"nextCursor": "{}.{}".format(*runs[-1].cursor)} if is_more else {}
    return {"runs": documents, **next_page}


def get_run(service: Service, call: HttpCall, _request: None) -> HttpAnswer:
    """Return a run, with the memories that its variables name."""
    run_id = _run_id(call)
    metadata = dict(service.openwop.run(call.access, run_id).metadata)
    snapshot = service.openwop.snapshot(call.access, run_id)
    if metadata:
        snapshot["metadata"] = metadata
    return answer_unless_known(call, version_two.show_run(snapshot, call.access.default_tenant))


def cancel_run(service: Service, call: HttpCall, _request: CancelRunRequest) -> dict[str, object]:
    """Cancel a run. Raises WorkflowError `run_terminal` if it has ended, also if it was cancelled."""
    run_id = _run_id(call)
    terminal = WorkflowError("the run has ended", openwop_code=RUN_TERMINAL)
    if service.openwop.run(call.access, run_id).status in TERMINAL:
        raise terminal
    try:
        run = service.openwop.cancel_run(call.access, run_id)
    except Conflict:
        raise terminal from None
    bound_id = version_two.bind_id(run.run_id, call.access.default_tenant)
    return {"runId": bound_id, "status": run.status}


def fork_run(service: Service, call: HttpCall, request: ForkRequest) -> dict[str, object]:
    """Start a fork of a run at one of its events, and return the new run."""
    source, tenant = _run_id(call), call.access.default_tenant
    bound_source = version_two.bind_id(source, tenant)
    try:
        run = service.openwop.fork(
            call.access, source, mode=request.mode, from_seq=request.from_seq
        )
    except WorkflowError as error:
        if "sourceRunId" in error.details:
            error.details["sourceRunId"] = bound_source
        raise
    return {
        **version_two.show_started(run.run_id, tenant),
        "status": run.status,
        "sourceRunId": bound_source,
        "fromSeq": request.from_seq,
        "mode": request.mode,
    }


def _answer_poll(page: LogPage) -> dict[str, object]:
    status, last = page.read_end()
    return {
        "runId": version_two.bind_id(page.run_id, page.tenant),
        "events": [frame.document for frame in page.frames],
        "lastSequence": last,
        "status": status,
        "isTerminal": status in TERMINAL,
    }


LOG_FORM: Final = LogForm(
    follow=FollowEventsRequest,
    poll=PollEventsRequest,
    poll_seconds=version_two.POLL_SECONDS,
    read_run_id=version_two.read_id,
    show_event=version_two.show_event,
    show_snapshot=version_two.show_run,
    answer_poll=_answer_poll,
)


# --- webhooks, proposals, agents ---------------------------------------------------------------------------------


def register_webhook(
    service: Service, call: HttpCall, request: RegisterWebhookRequest
) -> dict[str, object]:
    """Register a webhook whose address is allowed. Its deliveries have the form of version 2."""
    require_allowed_url(service, request.url)
    types = tuple(version_two.first_event_type(name) for name in request.events)
    registered = service.openwop.register_webhook(
        call.access, request.url, types, request.tags, major=2
    )
    webhook_id = version_two.bind_id(registered["webhookId"], call.access.default_tenant)
    return {
        "webhookId": webhook_id,
        "subscriptionId": webhook_id,
        "url": registered["url"],
        "secret": registered["secret"],
        "eventTypes": list(request.events),
        "createdAt": registered["createdAt"],
    }


def unregister_webhook(service: Service, call: HttpCall, _request: None) -> None:
    """Remove a webhook. Raises NotFound."""
    name = version_two.read_id(call.path_name("webhook_id"), call.access.default_tenant)
    if not service.openwop.unregister_webhook(call.access, name):
        raise NotFound("no such webhook")


def _show_proposal(call: HttpCall, proposal: Mapping[str, Any]) -> dict[str, object]:
    return version_two.show_proposal(proposal, call.access.default_tenant)


def list_proposals(
    service: Service, call: HttpCall, request: ListProposalsRequest
) -> dict[str, object]:
    """Return a page of proposals, the oldest first."""
    proposals = service.openwop.proposals(call.access, state=request.state, kind=request.kind)
    page, cursor = version_two.slice_page(proposals, request)
    next_page = {} if cursor is None else {"nextCursor": cursor}
    return {"items": [_show_proposal(call, proposal) for proposal in page], **next_page}


def submit_proposal(service: Service, call: HttpCall, request: SubmitProposalRequest) -> object:
    """Make a proposal by hand, as a draft."""
    proposal = service.openwop.propose(
        call.access,
        request.kind,
        request.artifact,
        title=request.title,
        rationale=request.rationale,
    )
    return _show_proposal(call, proposal)


def get_proposal(service: Service, call: HttpCall, _request: None) -> object:
    """Return one proposal, with the digest of its artifact."""
    return _show_proposal(
        call, service.openwop.proposal(call.access, call.path_name("proposal_id"))
    )


def revise_proposal(service: Service, call: HttpCall, request: Revision) -> object:
    """Change the texts or the artifact of a proposal, which stays inactive."""
    name = call.path_name("proposal_id")
    return _show_proposal(call, service.openwop.revise_proposal(call.access, name, request))


def archive_proposal(service: Service, call: HttpCall, _request: EmptyRequest) -> object:
    """Archive a proposal."""
    name = call.path_name("proposal_id")
    return _show_proposal(call, service.openwop.archive_proposal(call.access, name))


def apply_proposal(service: Service, call: HttpCall, request: ApplyProposalRequest) -> object:
    """Install the artifact of a proposal, if it is still the one of the digest."""
    proposal = service.openwop.apply_proposal(
        call.access, call.path_name("proposal_id"), artifact_digest=request.artifact_digest
    )
    return _show_proposal(call, proposal)


def reject_proposal(service: Service, call: HttpCall, request: RejectRequest) -> object:
    """Reject a proposal."""
    rejected = service.openwop.reject_proposal(
        call.access, call.path_name("proposal_id"), reason=request.reason or ""
    )
    return _show_proposal(call, rejected)


# --- the table ---------------------------------------------------------------------------------------------------

_RUN: Final = "/runs/{run_id}"
_PROPOSAL: Final = "/proposals/{proposal_id}"
_row: Final = OPENWOP_TWO.row
_LAST_EVENT: Final = in_header("Last-Event-ID", COUNT, "Only later events.")


def operations(workflows: Mapping[str, Workflow]) -> tuple[Operation, ...]:
    """Return the operations of version 2 for a host with these workflows."""
    return (
        _row(
            "POST",
            "/runs",
            "openwop2_start",
            "openwop 2: start a workflow of this host",
            _make_start(workflows),
            "Openwop2Started",
            CreateRunRequest,
            example={"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": EXAMPLE_REF}},
            success=(201,),
        ),
        *_OPERATIONS,
    )


_OPERATIONS: Final = (
    _row(
        "GET",
        "/runs",
        "openwop2_runs",
        "openwop 2: list runs, the last started first",
        list_runs,
        "Openwop2Runs",
        ListRunsRequest,
        example={"limit": 10},
    ),
    _row("GET", _RUN, "openwop2_run", "openwop 2: return a run", get_run, "Openwop2Run"),
    _row(
        "POST",
        f"{_RUN}/cancel",
        "openwop2_cancel_run",
        "openwop 2: cancel a run; 409 if it has ended",
        cancel_run,
        "Openwop2Cancelled",
        CancelRunRequest,
    ),
    _row(
        "POST",
        f"{_RUN}:fork",
        "openwop2_fork",
        "openwop 2: fork a run",
        fork_run,
        "Openwop2Forked",
        ForkRequest,
        example={"mode": "replay", "fromSeq": 0},
        success=(201,),
    ),
    _row(
        "GET",
        f"{_RUN}/events",
        "openwop2_events",
        "openwop 2: return the log of a run, as JSON or as server-sent events",
        None,
        "",
        FollowEventsRequest,
        parameters=(_LAST_EVENT,),
        gives={
            "text/event-stream": {"schema": TEXT},
            "application/json": {"schema": ref("Openwop2Events")},
        },
    ),
    _row(
        "GET",
        f"{_RUN}/events/poll",
        "openwop2_poll",
        "openwop 2: wait for later events of a run",
        None,
        "Openwop2Poll",
        PollEventsRequest,
        example={"timeout": 1},
    ),
    _row(
        "POST",
        "/webhooks",
        "openwop2_register",
        "openwop 2: send signed events to a URL from now on; the secret is shown only in this answer",
        register_webhook,
        "Openwop2Webhook",
        RegisterWebhookRequest,
        example={"url": "https://hooks.example/openwop", "events": ["commitment.fired"]},
        success=(201,),
    ),
    _row(
        "DELETE",
        "/webhooks/{webhook_id}",
        "openwop2_unregister",
        "openwop 2: remove a webhook",
        unregister_webhook,
        success=(204,),
    ),
    _row(
        "GET",
        "/proposals",
        "openwop2_proposals",
        "openwop 2: list the proposals of agents",
        list_proposals,
        "Openwop2Proposals",
        ListProposalsRequest,
        example={"state": "draft"},
    ),
    _row(
        "POST",
        "/proposals",
        "openwop2_submit",
        "openwop 2: make a proposal by hand",
        submit_proposal,
        "Openwop2Proposal",
        SubmitProposalRequest,
        example=EXAMPLE_PROPOSAL,
        success=(201,),
    ),
    _row(
        "GET",
        _PROPOSAL,
        "openwop2_proposal",
        "openwop 2: return one proposal",
        get_proposal,
        "Openwop2Proposal",
    ),
    _row(
        "PATCH",
        _PROPOSAL,
        "openwop2_revise",
        "openwop 2: change a proposal, which stays inactive",
        revise_proposal,
        "Openwop2Proposal",
        Revision,
        example={"title": "Report every Monday at nine"},
    ),
    _row(
        "DELETE",
        _PROPOSAL,
        "openwop2_archive",
        "openwop 2: archive a proposal",
        archive_proposal,
        "Openwop2Proposal",
    ),
    _row(
        "POST",
        f"{_PROPOSAL}:apply",
        "openwop2_apply",
        "openwop 2: install the artifact of a proposal; needs `activate`",
        apply_proposal,
        "Openwop2Proposal",
        ApplyProposalRequest,
    ),
    _row(
        "POST",
        f"{_PROPOSAL}:reject",
        "openwop2_reject",
        "openwop 2: reject a proposal",
        reject_proposal,
        "Openwop2Proposal",
        RejectRequest,
        example={"reason": "not needed"},
    ),
    _row(
        "GET",
        "/agents",
        "openwop2_agents",
        "openwop 2: list the installed agents",
        agents.list_agents,
        "OpenwopInventory",
    ),
    _row(
        "GET",
        "/agents/{agent_id}",
        "openwop2_agent",
        "openwop 2: return one installed agent",
        agents.get_agent,
        "OpenwopAgent",
    ),
)
