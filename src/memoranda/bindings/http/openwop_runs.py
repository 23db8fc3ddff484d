"""Runs of openwop: started by a client (what Memoranda does itself), or begun, told and ended by a host.

POST /v1/runs              a pass over a ref, on demand: memoranda.compaction, .distillation, .consolidation
POST /v1/host/runs         a host's own run: what it reads is the store as it is now, what it writes is attributed
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from memoranda.bindings.http.openwop import OPTIONS
from memoranda.bindings.http.openwop_wire import Asked, Paths, Verb, memory_ref, whole_number
from memoranda.bindings.http.request import Answer
from memoranda.errors import ForbiddenScope, InvalidInput, NotFound
from memoranda.service.core.access import Access
from memoranda.service.openwop.runs import HOST_WORKFLOW, TERMINAL, Run
from memoranda.service.service import Service
from memoranda.standards.openwop.entry import MAX_ID_CHARS, Draft, ListOptions
from memoranda.standards.openwop.events import MAX_EVENT_ID_CHARS
from memoranda.standards.openwop.fields import an_object, check_text, check_texts, check_time, check_word, require
from memoranda.standards.openwop.runs import (
    MAX_TAG_CHARS,
    MAX_TAGS,
    MAX_WORKFLOW_ID_CHARS,
    ForkRequest,
    RunRequest,
    check_agent,
    check_snapshot,
)

# A host has ids of its own; they stand in paths and in the ids of events.
RUN_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_RUN_ID: Final = re.compile(RUN_ID, re.ASCII)
_ATTRIBUTION: Final = ("nodeId", "agentId")
MAX_SECRET_CHARS: Final = 65_536

Workflow = Callable[[Service, Access, RunRequest], Run]


# --- on demand -------------------------------------------------------------------------------------------


def compact(service: Service, access: Access, request: RunRequest) -> Run:
    return service.openwop.compact(access, memory_ref(request.inputs)).run


def distill(service: Service, access: Access, request: RunRequest) -> Run:
    ref = memory_ref(request.inputs)
    return service.openwop.distill(access, ref, token_budget=request.token_budget).run


def consolidate(service: Service, access: Access, request: RunRequest) -> Run:
    return service.openwop.consolidate(access, memory_ref(request.inputs)).run


WORKFLOWS: Final[Mapping[str, Workflow]] = {
    f"{HOST_WORKFLOW}compaction": compact,
    f"{HOST_WORKFLOW}distillation": distill,
    f"{HOST_WORKFLOW}consolidation": consolidate,
}


def starting(workflows: Mapping[str, Workflow]) -> Verb:
    """`POST /v1/runs` for these workflows."""

    def start(service: Service, asked: Asked) -> Answer:
        request = RunRequest.parse(asked.json())
        if request.tenant_id not in (None, asked.access.default_tenant):
            raise ForbiddenScope("this credential belongs to another tenant")
        workflow = workflows.get(request.workflow_id)
        if workflow is None:
            raise InvalidInput("workflowId names no workflow of this host")
        run = workflow(service, asked.access, request)
        return Answer(result=_started(run), status=201)

    return start


def _started(run: Run) -> dict[str, Any]:
    urls = {"eventsUrl": f"/v1/runs/{run.run_id}/events", "statusUrl": f"/v1/runs/{run.run_id}"}
    return {"runId": run.run_id, "status": run.status, **urls}


# --- any run ---------------------------------------------------------------------------------------------


def get_run(service: Service, asked: Asked) -> Answer:
    return Answer(result=service.openwop.snapshot(asked.access, asked.name("run_id")))


def fork(service: Service, asked: Asked) -> Answer:
    request, source = ForkRequest.parse(asked.json()), asked.name("run_id")
    run = service.openwop.fork(asked.access, source, mode=request.mode, from_seq=request.from_seq)
    made = {**_started(run), "sourceRunId": source, "fromSeq": request.from_seq, "mode": request.mode}
    return Answer(result=made, status=201)


def undo(service: Service, asked: Asked) -> Answer:
    asked.only()
    return Answer(result={"restored": service.openwop.undo_consolidation(asked.access, asked.name("run_id"))})


# --- a host's own ----------------------------------------------------------------------------------------


def list_runs(service: Service, asked: Asked) -> Answer:
    fields = asked.query("before", "limit")
    before = check_time(fields["before"], "before") if "before" in fields else None
    limit = whole_number(fields, "limit", least=1)
    found = service.openwop.runs(asked.access, before=before, **({} if limit is None else {"limit": limit}))
    return Answer(result={"runs": [_brief(run) for run in found]})


def _brief(run: Run) -> dict[str, Any]:
    """What a list shows of a run: its variables may be long, and are read with it."""
    return {name: value for name, value in run.snapshot().items() if name != "variables"}


def begin(service: Service, asked: Asked) -> Answer:
    fields = asked.only("workflowId", "runId", "agent", "tags", "metadata")
    workflow_id = check_text(fields.get("workflowId"), "workflowId", MAX_WORKFLOW_ID_CHARS)
    if workflow_id.startswith(HOST_WORKFLOW):
        raise InvalidInput(f"workflowId must not begin with {HOST_WORKFLOW}: those runs are our own")
    run_id = fields.get("runId")
    if run_id is not None and (not isinstance(run_id, str) or _RUN_ID.fullmatch(run_id) is None):
        raise InvalidInput("runId must be up to 100 letters, digits, dots, hyphens and underscores")
    agent = fields.get("agent")
    run = service.openwop.begin_run(
        asked.access,
        workflow_id,
        run_id=run_id,
        agent=None if agent is None else check_agent(agent, "agent"),
        tags=tuple(check_texts(fields.get("tags", []), "tags", max_items=MAX_TAGS, max_chars=MAX_TAG_CHARS)),
        metadata=an_object(fields.get("metadata", {}), "metadata"),
    )
    return Answer(result=_started(run), status=201)


def emit(service: Service, asked: Asked) -> Answer:
    fields = asked.only("type", "payload", "nodeId")
    node_id = fields.get("nodeId")
    made = service.openwop.emit(
        asked.access,
        asked.name("run_id"),
        check_text(fields.get("type"), "type", MAX_EVENT_ID_CHARS),
        an_object(fields.get("payload", {}), "payload"),
        node_id=None if node_id is None else check_text(node_id, "nodeId", MAX_EVENT_ID_CHARS),
    )
    return Answer(result=made, status=201)


def finish(service: Service, asked: Asked) -> Answer:
    fields, run_id = asked.only("status", "variables", "error"), asked.name("run_id")
    status = check_word(fields.get("status", "completed"), sorted(TERMINAL), "status")
    check_snapshot({**fields, "runId": "r", "workflowId": "w", "status": status})
    service.openwop.finish_run(
        asked.access, run_id, status=status, variables=fields.get("variables"), error=fields.get("error")
    )
    return Answer(result=service.openwop.snapshot(asked.access, run_id))


def add_secret(service: Service, asked: Asked) -> Answer:
    fields = asked.only("secretId", "value")
    require(fields, ("secretId", "value"), "the request")
    secret_id = check_text(fields["secretId"], "secretId", MAX_EVENT_ID_CHARS)
    value = check_text(fields["value"], "value", MAX_SECRET_CHARS)
    is_known = service.openwop.register_secret(asked.access, asked.name("run_id"), secret_id, value)
    return Answer(result={"registered": is_known})


def list_in_run(service: Service, asked: Asked) -> Answer:
    options = ListOptions.parse_query(asked.query(*OPTIONS))
    found = service.openwop.list_entries(asked.access, asked.ref(), options, run_id=asked.name("run_id"))
    return Answer(result={"entries": found})


def get_in_run(service: Service, asked: Asked) -> Answer:
    found = service.openwop.get_entry(asked.access, asked.ref(), asked.name("id"), run_id=asked.name("run_id"))
    if found is None:
        raise NotFound("no such entry")
    return Answer(result=found)


def put_in_run(service: Service, asked: Asked) -> Answer:
    fields = asked.object()
    draft = Draft.parse({name: value for name, value in fields.items() if name not in _ATTRIBUTION})
    node_id, agent_id = (_attributed(fields, name) for name in _ATTRIBUTION)
    made = service.openwop.put_entry(
        asked.access, asked.ref(), draft, run_id=asked.name("run_id"), node_id=node_id, agent_id=agent_id
    )
    return Answer(result=made, status=201)


def _attributed(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    limit = MAX_EVENT_ID_CHARS if name == "nodeId" else MAX_ID_CHARS
    return None if value is None else check_text(value, name, limit)


PATHS: Final[Paths] = {
    "/v1/runs/{run_id}": {"GET": get_run},
    "/v1/runs/{run_id}:fork": {"POST": fork},
    "/v1/host/runs": {"GET": list_runs, "POST": begin},
    "/v1/host/runs/{run_id}/events": {"POST": emit},
    "/v1/host/runs/{run_id}/finish": {"POST": finish},
    "/v1/host/runs/{run_id}/secrets": {"POST": add_secret},
    "/v1/host/runs/{run_id}/undo": {"POST": undo},
    "/v1/host/runs/{run_id}/memory/{ref}": {"GET": list_in_run, "POST": put_in_run},
    "/v1/host/runs/{run_id}/memory/{ref}/{id}": {"GET": get_in_run},
}
