"""openwop over HTTP: its form of errors, and the verbs that do more than their row says. Runs are in `openwop_runs`.

A ref is an opaque string that may hold slashes; it stands percent-encoded in the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.bindings.http.call import Answer, Call, Serve
from memoranda.bindings.http.deliver import check_url
from memoranda.bindings.http.openwop_once import HEADER, file_answer, once, run_of
from memoranda.bindings.http.operation import Refusal, Standard
from memoranda.bindings.operations.openwop import EXAMPLE_REF
from memoranda.errors import ForbiddenScope, MemorandaError, NotFound
from memoranda.service.service import Service
from memoranda.standards.openwop.answers import ANSWERS
from memoranda.standards.openwop.problem import NOT_FOUND, build_problem, problem_of
from memoranda.standards.openwop.requests import (
    ApplyRequest,
    FireRequest,
    GetFileRequest,
    ListFilesRequest,
    PutEntriesRequest,
    RegisterWebhookRequest,
    RejectRequest,
    WatchRequest,
)
from memoranda.standards.openwop.workspace import WorkspaceDraft, check_path, is_prefix

DISCOVERY: Final = "/.well-known/openwop"
EXAMPLE_RUN: Final = "run_example"
EXAMPLE_PATH: Final = "notes/plan.md"


def refuse(error: MemorandaError, _path: str) -> Refusal:
    """Return an error in openwop's envelope; entry data is never in it (CTI-1)."""
    # auth.md shows scopeRequired at the top level, which the closed envelope does not allow.
    scope = error.scope if isinstance(error, ForbiddenScope) else None
    return problem_of(error, details=None if scope is None else {"scopeRequired": scope})


def no_route(status: int, _path: str) -> Refusal:
    if status == 405:
        return status, build_problem("method_not_allowed", "this path is not for that method")
    return status, build_problem(NOT_FOUND, "no route")


def _name(example: str, description: str = "") -> dict[str, Any]:
    described = {"description": description} if description else {}
    return {"schema": {"type": "string", "minLength": 1}, "example": example, **described}


OPENWOP: Final = Standard(
    name="openwop",
    prefixes=("/v1/", DISCOVERY),
    refuse=refuse,
    no_route=no_route,
    responses="openwop",
    schemas="Wop",
    errors={
        "400": "Not well-formed, or no such workflow (validation_error)",
        "401": "No credential, or one that does not hold (unauthenticated)",
        "403": "A credential, Host or Origin that does not reach this far (forbidden; details.scopeRequired)",
        "404": "Nothing there, or nothing you may see (not_found)",
        "409": "Not as expected: workspace_conflict with details.currentVersion, or conflict",
        "413": "A workspace file over a limit (workspace_too_large)",
        "422": "token_budget_exceeded, invalid_from_seq, replay_memory_snapshot_unavailable or malformed_artifact",
        "429": "Too fast (rate_limited), with Retry-After",
        "503": "The store cannot be used right now (unavailable)",
    },
    error_schemas=("OpenwopError",),
    answers=ANSWERS,
    names={
        "ref": _name(EXAMPLE_REF, "A memoryRef, percent-encoded, its slashes too."),
        "id": _name("mem_example", "An entry's id."),
        "run_id": _name(EXAMPLE_RUN),
        "path": _name(EXAMPLE_PATH, "A path; its slashes need no encoding."),
        "commitment_id": _name("com_example"),
        "proposal_id": _name("prop_example"),
        "webhook_id": _name("wh_example"),
    },
    # An id of another standard, and a path.
    rest=frozenset({"id", "path"}),
    # A memoryRef that cannot be read is as malformed as any other, which is no error.
    lenient=frozenset({"ref"}),
    once=once,
    effect_headers=(HEADER,),
)


# --- verbs with more than their row says -------------------------------------------------------------------


def put_entries(service: Service, call: Call, request: PutEntriesRequest) -> dict[str, Any]:
    """Write many entries, and return their ids alone.

    Answers are kept for a day under their Idempotency-Key, where forgetting would not find the contents.
    """
    entries = service.openwop.put_entries(call.access, request.memory_ref, request.entries)
    return {"ids": [entry["id"] for entry in entries]}


def list_files(service: Service, call: Call, request: ListFilesRequest) -> dict[str, Any]:
    """Return the workspace files under a prefix; none for a prefix that no path can have."""
    if not is_prefix(request.prefix):
        return {"files": []}
    return {"files": service.openwop.files(call.access, request.prefix, run_id=run_of(call))}


def get_file(service: Service, call: Call, request: GetFileRequest) -> Answer:
    """Return a workspace file with its version as ETag."""
    path = check_path(call.name("path"))
    return file_answer(
        service.openwop.file(call.access, path, request.version, run_id=run_of(call))
    )


def put_file(service: Service, call: Call, request: WorkspaceDraft) -> Answer:
    """Write a workspace file, and return it with its version as ETag."""
    version = service.openwop.write_file(
        call.access,
        check_path(call.name("path")),
        request.content,
        content_type=request.content_type,
        if_match=call.header(b"if-match"),
        if_none_match=call.header(b"if-none-match"),
        run_id=run_of(call),
    )
    return file_answer(version)


def delete_file(service: Service, call: Call, _request: None) -> None:
    """Remove a workspace file. Raises NotFound."""
    path = check_path(call.name("path"))
    if not service.openwop.remove_file(
        call.access, path, if_match=call.header(b"if-match"), run_id=run_of(call)
    ):
        raise NotFound("no such workspace file")


def watch_commitments(service: Service, call: Call, request: WatchRequest) -> dict[str, Any]:
    """Watch a ref for commitments or stop, and return which."""
    service.openwop.watch_commitments(call.access, request.memory_ref, is_watched=request.watched)
    return {"memoryRef": request.memory_ref, "watched": request.watched}


def fire_commitment(service: Service, call: Call, request: FireRequest) -> dict[str, Any]:
    """Fire a commitment, and return it with its event; without one, it was fired before."""
    event, commitment = service.openwop.fire_commitment(
        call.access, call.name("commitment_id"), condition=request.condition
    )
    return {"commitment": commitment.document(), **({} if event is None else {"event": event})}


def apply(service: Service, call: Call, request: ApplyRequest) -> dict[str, Any]:
    """Apply a proposal, and return the artifact that is installed."""
    done = service.openwop.apply_proposal(
        call.access, call.name("proposal_id"), approval_id=request.approval_id
    )
    return {"installedArtifactRef": done["activation"]["installedArtifactRef"]}


def reject(service: Service, call: Call, request: RejectRequest) -> Any:
    """Reject a proposal, with a reason or none."""
    return service.openwop.reject_proposal(
        call.access, call.name("proposal_id"), reason=request.reason or ""
    )


def register(service: Service, call: Call, request: RegisterWebhookRequest) -> dict[str, Any]:
    """Register a webhook whose address is allowed."""
    check_url(request.url, is_private_allowed=service.context.webhooks_anywhere)
    return service.openwop.register_webhook(call.access, request.url, request.events, request.tags)


SERVE: Final[Mapping[str, Serve]] = {
    "openwop_put_many": put_entries,
    **{f"{name}_files": list_files for name in ("openwop", "openwop_run")},
    **{f"{name}_file": get_file for name in ("openwop", "openwop_run")},
    **{f"{name}_write_file": put_file for name in ("openwop", "openwop_run")},
    **{f"{name}_remove_file": delete_file for name in ("openwop", "openwop_run")},
    "openwop_watch": watch_commitments,
    "openwop_fire": fire_commitment,
    "openwop_apply": apply,
    "openwop_reject": reject,
    "openwop_register": register,
}
