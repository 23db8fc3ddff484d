"""openwop over HTTP: its form of errors, idempotency, and verbs that do more than their row says.

A ref is an opaque string that may hold slashes; it stands percent-encoded in the path. Runs are in `openwop_runs`.

The rows of the operations are in `bindings/operations/openwop.py`. A function here takes the service, the call with its
credential, and the decoded request; it must be named in SERVE, and everything not named there is answered by the verb
of its row.

Idempotency works in three steps: claim the key for this request, perform the operation, record the answer. A repeated
request with the same key and the same digest gets the record; with another digest it is refused. The record must never
hold what forgetting cannot reach, so contents of entries and files and secrets of webhooks are left out, and read again
for a repeated request. Add a reader to `_READ_AGAIN` for each new answer that has such a field.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from memoranda.bindings.http.call import HttpAnswer, HttpCall, Serve
from memoranda.bindings.http.openwop_versions import DISCOVERY, negotiate_first
from memoranda.bindings.http.operation import Operation, Refusal, Standard
from memoranda.bindings.http.webhook_sender import check_url
from memoranda.bindings.operations.openwop import EXAMPLE_REF
from memoranda.bindings.operations.row import in_header
from memoranda.encoding.json_text import canonical, dump, parse
from memoranda.errors import (
    ForbiddenScope,
    InvalidInput,
    MemorandaError,
    NotFound,
    WorkflowError,
)
from memoranda.service.service import Service
from memoranda.standards.openwop.answers import ANSWERS
from memoranda.standards.openwop.problem import (
    NOT_FOUND,
    SUBSCRIPTION_NOT_FOUND,
    WEBHOOK_URL_REJECTED,
    build_problem,
    problem_of,
)
from memoranda.standards.openwop.requests import (
    ApplyRequest,
    FireRequest,
    GetFileRequest,
    ListFilesRequest,
    PutEntriesRequest,
    RegisterWebhookRequest,
    RejectRequest,
    UnregisterWebhookRequest,
    WatchRequest,
)
from memoranda.standards.openwop.workspace import WorkspaceDraft, check_path, is_prefix

EXAMPLE_RUN: Final = "run_example"
EXAMPLE_PATH: Final = "notes/plan.md"


# Performs the operation, and returns its answer and the body.
Act = Callable[[], tuple[HttpAnswer, bytes]]
# Reads an answer again whose content was not recorded.
ReadAgain = Callable[[Service, HttpCall, Any], HttpAnswer]
REPLAYED: Final = ((b"openwop-idempotent-replay", b"true"),)
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
IDEMPOTENCY_HEADER: Final = in_header(
    "Idempotency-Key",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "Performed once under this key within 24 hours: a repeated request gets the same answer, another one 409.",
)
# Statuses of refusals that are recorded, because repeating the request cannot change them.
_FINAL: Final = frozenset({404, 405, 409, 410, 413, 422})
# Fields of an answer that are not recorded: the content of a memory, and a secret that is shown once.
_UNRECORDED: Final = ("content", "secret")


def refuse(error: MemorandaError, _path: str) -> Refusal:
    """Return an error in openwop's envelope, which never holds data of entries (CTI-1)."""
    # auth.md shows scopeRequired at the top level, which the closed envelope does not allow.
    scope = error.scope if isinstance(error, ForbiddenScope) else None
    return problem_of(error, details=None if scope is None else {"scopeRequired": scope})


def refuse_route(status: int, _path: str) -> Refusal:
    """Return the refusal of an unknown path or method."""
    if status == 405:
        return status, build_problem("method_not_allowed", "this path is not for that method")
    return status, build_problem(NOT_FOUND, "no route")


def _path_parameter(example: str, description: str = "") -> dict[str, object]:
    """Return the OpenAPI parameter of a name in the path."""
    described = {"description": description} if description else {}
    return {"schema": {"type": "string", "minLength": 1}, "example": example, **described}


# --- idempotency --------------------------------------------------------------------------------------------


def answer_once(
    service: Service,
    operation: Operation,
    call: HttpCall,
    act: Act,
    *,
    read_again: Mapping[str, ReadAgain] | None = None,
    check_key: Callable[[str], None] | None = None,
) -> tuple[HttpAnswer, bytes]:
    """Perform an operation once per `Idempotency-Key`; a repeated request gets the recorded answer.

    Refusals that a correction of the request could avoid (400, 401, 403), and passing ones (429, 5xx), are not
    recorded. Nor is the content of an entry or a file, because forgetting would not reach it: it is read again, and
    answered with 404 if it was removed meanwhile. `read_again`: the readers of such answers, by their schemas.
    `check_key`: raises an error for keys of another form.
    """
    readers = _READ_AGAIN if read_again is None else read_again
    key = call.header(b"idempotency-key")
    if key is None:
        return act()
    (check_key or _check_key)(key)
    name = f"{operation.method} {operation.path}"
    record = service.openwop.claim(call.access, name, key, _request_digest(call))
    if record.status:
        return _replay(service, call, record.status, record.body, readers.get(operation.answer))
    status, body = 0, ""
    try:
        answer, answer_body = act()
        is_read_again = operation.answer in readers
        status = answer.status or operation.success[0]
        body = _record_body(answer_body, is_read_again=is_read_again)
        return answer, answer_body
    except MemorandaError as error:
        refusal_status, problem = operation.standard.refuse(error, call.scope["path"])
        if refusal_status in _FINAL:
            status, body = refusal_status, dump(problem).decode()
        raise
    finally:
        service.openwop.settle(call.access, record, status=status, body=body)


def _check_key(key: str) -> None:
    if _KEY.fullmatch(key) is None:
        raise InvalidInput("Idempotency-Key must be 1 to 255 visible ASCII characters")


def _request_digest(call: HttpCall) -> str:
    """Return the digest of a request: its path, query, conditions and canonical body."""
    body = canonical(parse(call.raw, max_bytes=call.max_body_bytes)) if call.raw else b""
    conditions = "\n".join(
        call.header(name) or "" for name in (b"if-match", b"if-none-match")
    ).encode()
    parts = (call.scope["raw_path"], call.scope["query_string"], conditions, body)
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _record_body(body: bytes, *, is_read_again: bool) -> str:
    """Return the body to record for an answer."""
    if not is_read_again:
        return body.decode()
    result: Any = parse(body, max_bytes=len(body))
    return dump({name: value for name, value in result.items() if name not in _UNRECORDED}).decode()


def _replay(
    service: Service, call: HttpCall, status: int, body: str, reader: ReadAgain | None
) -> tuple[HttpAnswer, bytes]:
    if status < 300 and reader is not None:
        answer = reader(service, call, parse(body))
        return HttpAnswer(status=status, headers=(*answer.headers, *REPLAYED)), dump(answer.result)
    return HttpAnswer(status=status, headers=REPLAYED), body.encode()


def _read_entry(service: Service, call: HttpCall, recorded_answer: Any) -> HttpAnswer:
    entry = service.openwop.get_entry(
        call.access, ref_in_path(call), recorded_answer["id"], run_id=run_in_path(call)
    )
    if entry is None:
        raise NotFound("the entry written with this Idempotency-Key no longer exists")
    return HttpAnswer(result=entry)


def _read_file(service: Service, call: HttpCall, recorded_answer: Any) -> HttpAnswer:
    return answer_with_file(
        service.openwop.file(call.access, recorded_answer["path"], recorded_answer["version"])
    )


def _read_webhook(service: Service, call: HttpCall, recorded_answer: Any) -> HttpAnswer:
    return HttpAnswer(
        result=service.openwop.registered_webhook(call.access, recorded_answer["webhookId"])
    )


# Readers of answers whose content is not recorded, by the schema of the answer.
_READ_AGAIN: Final[Mapping[str, ReadAgain]] = {
    "OpenwopEntry": _read_entry,
    "OpenwopFile": _read_file,
    "OpenwopRegisteredWebhook": _read_webhook,
}


# --- paths and answers --------------------------------------------------------------------------------------


def ref_in_path(call: HttpCall) -> str:
    """Return the memoryRef in the path; "" for one that cannot be decoded, which finds nothing."""
    return call.readable_path_name("ref") or ""


def run_in_path(call: HttpCall) -> str | None:
    """Return the id of the run in the path; None if there is none."""
    return call.path_name("run_id") if "run_id" in call.scope["path_params"] else None


def answer_unless_known(call: HttpCall, document: object) -> HttpAnswer:
    """Return a document with an ETag of its content; 304 without a body to a client that names this ETag."""
    etag = f'"{hashlib.sha256(dump(document)).hexdigest()[:32]}"'
    headers = ((b"etag", etag.encode("ascii")), (b"cache-control", b"no-cache"))
    if call.header(b"if-none-match") == etag:
        return HttpAnswer(status=304, headers=headers, body=b"")
    return HttpAnswer(result=document, headers=headers)


def answer_with_file(file: dict[str, object]) -> HttpAnswer:
    """Return a workspace file with its version as ETag."""
    return HttpAnswer(result=file, headers=((b"etag", str(file["etag"]).encode("ascii")),))


OPENWOP: Final = Standard(
    name="openwop",
    prefixes=("/v1/", DISCOVERY),
    refuse=refuse,
    refuse_route=refuse_route,
    negotiate=negotiate_first,
    responses="openwop",
    schemas="Wop",
    errors={
        "400": "Malformed, or no such workflow (validation_error)",
        "401": "No credential, or an invalid one (unauthenticated)",
        "403": "The credential, Host or Origin does not allow this (forbidden; details.scopeRequired)",
        "404": "Not found, or not visible to you (not_found)",
        "409": "Another version than expected (workspace_conflict with details.currentVersion), or conflict",
        "413": "A workspace file over a limit (workspace_too_large)",
        "422": "token_budget_exceeded, invalid_from_seq, replay_memory_snapshot_unavailable or malformed_artifact",
        "429": "Too many requests (rate_limited), with Retry-After",
        "503": "The store cannot be used right now (unavailable)",
    },
    error_schemas=("OpenwopError",),
    answers=ANSWERS,
    names={
        "ref": _path_parameter(EXAMPLE_REF, "A memoryRef, percent-encoded, its slashes too."),
        "id": _path_parameter("mem_example", "An entry's id."),
        "run_id": _path_parameter(EXAMPLE_RUN),
        "path": _path_parameter(EXAMPLE_PATH, "A path; its slashes need no encoding."),
        "commitment_id": _path_parameter("com_example"),
        "proposal_id": _path_parameter("prop_example"),
        "webhook_id": _path_parameter("wh_example"),
        "agent_id": _path_parameter("vendor.acme.helper"),
        "workflow_id": _path_parameter("conformance-noop"),
    },
    # Ids of other standards and file paths may hold slashes.
    slash_names=frozenset({"id", "path"}),
    # A memoryRef that cannot be decoded finds nothing, like any malformed one, and is no error.
    lenient=frozenset({"ref"}),
    idempotency=answer_once,
    effect_headers=(IDEMPOTENCY_HEADER,),
)


# --- verbs with more than their row says -------------------------------------------------------------------


def put_entries(service: Service, call: HttpCall, request: PutEntriesRequest) -> dict[str, object]:
    """Write several entries, and return only their ids.

    The answer is recorded for a day under its Idempotency-Key, where forgetting would not reach the contents.
    """
    entries = service.openwop.put_entries(call.access, request.memory_ref, request.entries)
    return {"ids": [entry["id"] for entry in entries]}


def list_files(service: Service, call: HttpCall, request: ListFilesRequest) -> dict[str, object]:
    """Return the workspace files under a prefix; none if no path can have that prefix."""
    if not is_prefix(request.prefix):
        return {"files": []}
    return {"files": service.openwop.files(call.access, request.prefix, run_id=run_in_path(call))}


def get_file(service: Service, call: HttpCall, request: GetFileRequest) -> HttpAnswer:
    """Return a workspace file with its version as ETag."""
    path = check_path(call.path_name("path"))
    return answer_with_file(
        service.openwop.file(call.access, path, request.version, run_id=run_in_path(call))
    )


def put_file(service: Service, call: HttpCall, request: WorkspaceDraft) -> HttpAnswer:
    """Write a workspace file, and return it with its version as ETag."""
    version = service.openwop.write_file(
        call.access,
        check_path(call.path_name("path")),
        request.content,
        content_type=request.content_type,
        if_match=call.header(b"if-match"),
        if_none_match=call.header(b"if-none-match"),
        run_id=run_in_path(call),
    )
    return answer_with_file(version)


def delete_file(service: Service, call: HttpCall, _request: None) -> None:
    """Remove a workspace file. Raises NotFound."""
    path = check_path(call.path_name("path"))
    if not service.openwop.remove_file(
        call.access, path, if_match=call.header(b"if-match"), run_id=run_in_path(call)
    ):
        raise NotFound("no such workspace file")


def watch_commitments(service: Service, call: HttpCall, request: WatchRequest) -> dict[str, object]:
    """Start or stop watching a ref for commitments, and return the new state."""
    service.openwop.watch_commitments(call.access, request.memory_ref, is_watched=request.watched)
    return {"memoryRef": request.memory_ref, "watched": request.watched}


def fire_commitment(service: Service, call: HttpCall, request: FireRequest) -> dict[str, object]:
    """Fire a commitment, and return it with its event. There is no event if it was fired before."""
    event, commitment = service.openwop.fire_commitment(
        call.access, call.path_name("commitment_id"), condition=request.condition
    )
    return {"commitment": commitment.document(), **({} if event is None else {"event": event})}


def apply_proposal(service: Service, call: HttpCall, request: ApplyRequest) -> dict[str, object]:
    """Apply a proposal, and return the installed artifact."""
    proposal = service.openwop.apply_proposal(
        call.access,
        call.path_name("proposal_id"),
        approval_id=request.approval_id,
        artifact_digest=request.artifact_digest,
    )
    return {"installedArtifactRef": proposal["activation"]["installedArtifactRef"]}


def reject_proposal(service: Service, call: HttpCall, request: RejectRequest) -> object:
    """Reject a proposal, and return it."""
    return service.openwop.reject_proposal(
        call.access, call.path_name("proposal_id"), reason=request.reason or ""
    )


def register_webhook(service: Service, call: HttpCall, request: RegisterWebhookRequest) -> object:
    """Register a webhook whose address is allowed, for the tenant of the credential."""
    _require_own_tenant(call, request.tenant_id)
    require_allowed_url(service, request.url)
    return service.openwop.register_webhook(call.access, request.url, request.events, request.tags)


def get_run(service: Service, call: HttpCall, _request: None) -> HttpAnswer:
    """Return a run, with the memories that its variables name."""
    snapshot = service.openwop.snapshot(call.access, call.path_name("run_id"))
    return answer_unless_known(call, snapshot)


def require_allowed_url(service: Service, url: str) -> None:
    """Raise WorkflowError `webhook_url_rejected` for an address that webhooks may not have."""
    try:
        check_url(url, is_private_allowed=service.context.webhooks_anywhere)
    except InvalidInput as error:
        raise WorkflowError(error.message, openwop_code=WEBHOOK_URL_REJECTED) from None


def unregister_webhook(service: Service, call: HttpCall, request: UnregisterWebhookRequest) -> None:
    """Remove a webhook of the credential's tenant. Raises WorkflowError `subscription_not_found`."""
    _require_own_tenant(call, request.tenant_id)
    if not service.openwop.unregister_webhook(call.access, call.path_name("webhook_id")):
        raise WorkflowError("no such webhook", openwop_code=SUBSCRIPTION_NOT_FOUND)


def _require_own_tenant(call: HttpCall, tenant_id: str | None) -> None:
    """Raise ForbiddenScope for another tenant than the credential's, which snapshots of runs name (`owner.tenant`)."""
    # webhooks.md: "The caller MUST be a member of the tenant the subscription will live under."
    if tenant_id is not None and tenant_id != call.access.default_tenant:
        raise ForbiddenScope("tenantId: this credential belongs to another tenant")


SERVE: Final[Mapping[str, Serve]] = {
    "openwop_put_many": put_entries,
    **{f"{name}_files": list_files for name in ("openwop", "openwop_run")},
    **{f"{name}_file": get_file for name in ("openwop", "openwop_run")},
    **{f"{name}_write_file": put_file for name in ("openwop", "openwop_run")},
    **{f"{name}_remove_file": delete_file for name in ("openwop", "openwop_run")},
    "openwop_run": get_run,
    "openwop_watch": watch_commitments,
    "openwop_fire": fire_commitment,
    "openwop_apply": apply_proposal,
    "openwop_reject": reject_proposal,
    "openwop_register": register_webhook,
    "openwop_unregister": unregister_webhook,
}
