"""The routes of UMP (sections 3 and 4.2), and those of the server itself."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import asdict

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import Call
from memoranda.bindings.http.operation import Refusal, Standard, in_header
from memoranda.bindings.http.page import welcome
from memoranda.encoding.shapes import COUNT, NAME, closed_object, one_of, ref
from memoranda.errors import MemorandaError
from memoranda.model.instant import format_instant
from memoranda.service.service import Service
from memoranda.standards.oms.registry import ERROR_CODES
from memoranda.standards.ump.answers import ANSWERS, DOCUMENTS
from memoranda.standards.ump.requests import (
    AuditRequest,
    AuditVerifyRequest,
    FeedbackRequest,
    ForgetRequest,
    HistoryRequest,
    ListRequest,
    NewMemory,
    RecallRequest,
    RehydrateRequest,
    ReviseRequest,
    SubscribeRequest,
    unwrap_draft,
)

EXAMPLE_ID: Final = "urn:ump:brli3hjr63twg6fgm2xyttwxprk4my7wfzbwcax5lfpy2drzkcpq"
EXAMPLE_OWNER: Final = "did:key:z6MkvDqGT54cXesYGvABpF1UapVNwjCqRcafi4Px6Thv5T3Z"

# As in the reference: not_found 404, unauthorized 401, forbidden_scope 403, every other UMP code 400. But for
# limits: clients wait of themselves if the status means it (RFC 6585 4).
_STATUSES: Final = {
    "not_found": 404,
    "unauthorized": 401,
    "forbidden_scope": 403,
    "rate_limited": 429,
    "unavailable": 503,
    "corrupt": 503,
    "internal": 500,
}
OTHER_ERROR_STATUS: Final = 400


def refuse(error: MemorandaError, _path: str = "") -> Refusal:
    """An error in UMP's form (section 3.7)."""
    body = {"code": error.code, "message": f"{error.code}: {error.message}"}
    return _STATUSES.get(error.code, OTHER_ERROR_STATUS), {"error": body}


def no_route(_status: int, _path: str) -> Refusal:
    # As in the reference: an unknown route and a wrong method are both this, word for word.
    return 404, {"error": {"code": "not_found", "message": "no route"}}


_ERROR: Final = closed_object(
    "code message", code=NAME, message={"type": "string", "minLength": 1}, oms_code=one_of(sorted(ERROR_CODES))
)
ERRORS: Final = {
    "400": "Malformed, refused by the memory's consent, or unsupported",
    "401": "No credential, or one that does not hold",
    "403": "A credential, Host or Origin that does not reach this far; or a grain protected by its policy or a hold",
    "404": "Nothing there, or nothing you may see",
    "429": "Too fast, or more than an owner may keep or do; with Retry-After",
    "503": "The store cannot be used right now",
}
UMP: Final = Standard(
    name="ump",
    prefixes=("/",),
    refuse=refuse,
    no_route=no_route,
    errors=ERRORS,
    error_schemas=("Error",),
    answers={
        **ANSWERS,
        "RememberRequest": {"anyOf": [ref("NewMemory"), closed_object("record", record=ref("NewMemory"))]},
        "Health": closed_object(
            "status", status=NAME, embedding_failing_since={"type": "string", "format": "date-time"}
        ),
        "OpenApi": {"type": "object", "required": ["openapi", "info", "paths"]},
        "Error": closed_object("error", error=_ERROR),
    },
    documents={**DOCUMENTS, "NewMemory": NewMemory},
    names={"id": {"schema": NAME, "example": EXAMPLE_ID}},
)


# --- the verbs -------------------------------------------------------------------------------------------


def recall(service: Service, call: Call, asked: RecallRequest) -> dict[str, Any]:
    return {"results": [ranked.document() for ranked in service.recall(call.access, asked)]}


def rehydrate(service: Service, call: Call, asked: RehydrateRequest) -> dict[str, Any]:
    block = service.for_prompt(call.access, asked)
    answer: dict[str, Any] = {"text": block.text, "injected": block.injected}
    if block.dropped:
        answer["dropped"] = [{"id": name, "reason": reason} for name, reason in block.dropped]
    return answer


def remember(service: Service, call: Call, draft: object) -> dict[str, Any]:
    remembered = service.remember(call.access, service.with_defaults(call.access, draft, method="http"))
    return {"id": remembered.id, "result": remembered.result}


def get(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"record": service.get(call.access, memory_id(call))}


def list_memories(service: Service, call: Call, asked: ListRequest) -> dict[str, Any]:
    records, following = service.list_records(call.access, **asked.arguments())
    return {"records": records, "next_cursor": None if following is None else str(following)}


def stats(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"owner": call.access.default_tenant, **asdict(service.stats(call.access))}


def history(service: Service, call: Call, asked: HistoryRequest) -> dict[str, Any]:
    versions, following = service.history_page(call.access, memory_id(call), after=asked.after)
    return {"versions": versions} | ({} if following is None else {"next_cursor": str(following)})


def memory_id(call: Call) -> str:
    """The memory that the path names."""
    # What cannot be an id is not found, rather than malformed.
    return call.readable_name("id") or ""


def revise(service: Service, call: Call, asked: ReviseRequest) -> dict[str, Any]:
    revised = service.revise(call.access, asked)
    return {"id": revised.id, "supersedes": revised.supersedes}


def forget(service: Service, call: Call, asked: ForgetRequest) -> dict[str, Any]:
    return {"result": service.forget(call.access, asked)}


def feedback(service: Service, call: Call, asked: FeedbackRequest) -> dict[str, Any]:
    service.feedback(call.access, asked)
    return {"ok": True}


def audit(service: Service, call: Call, asked: AuditRequest) -> dict[str, Any]:
    return {"events": service.audit(call.access, asked)}


def audit_verify(service: Service, call: Call, asked: AuditVerifyRequest) -> dict[str, Any]:
    report = service.audit_verify(call.access, asked.owner)
    answer: dict[str, Any] = {"ok": report.ok, "count": report.count}
    if report.pruned:
        answer["pruned"] = report.pruned
    if not report.ok:
        answer |= {"brokenAt": report.broken_at, "reason": report.reason}
    return answer


def capabilities(service: Service, _call: Call, _asked: None) -> dict[str, Any]:
    return service.capabilities()


def manifest(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return service.manifest(f"{call.scope['scheme']}://{wire.header(call.scope, b'host')}")


def alive(_service: Service, _call: Call, _asked: None) -> dict[str, str]:
    return {"status": "alive"}


def ready(service: Service, _call: Call, _asked: None) -> dict[str, str]:
    service.check_ready()
    since = service.embedding.failing_since()
    # Ready all the same: memories are found by their words.
    return {"status": "ready", **({} if since is None else {"embedding_failing_since": format_instant(since)})}


# --- the table -------------------------------------------------------------------------------------------

_DRAFT: Final = {"kind": "procedural", "body": {"text": "run pnpm gate before handoff"}, "scope": {"project": "p"}}
_RECALL: Final = {"query": "gate handoff", "scope": {"owner": EXAMPLE_OWNER, "project": "p"}}
_LAST_EVENT: Final = in_header("Last-Event-ID", COUNT, "As `after`; what a browser's EventSource sends by itself.")
_EVENT: Final = f'id: 7\nevent: created\ndata: {{"type":"created","id":"{EXAMPLE_ID}","record":{{}}}}\n\n'


_row: Final = UMP.row
_PUBLIC: Final[dict[str, Any]] = {"is_public": True, "is_quick": True}

OPERATIONS: Final = (
    _row(
        "GET",
        "/ump/capabilities",
        "capabilities",
        "What this server speaks (UMP §3.1)",
        capabilities,
        "Capabilities",
        **_PUBLIC,
    ),
    _row("GET", "/.well-known/ump.json", "manifest", "Discovery (UMP §4.3)", manifest, "Manifest", **_PUBLIC),
    _row(
        "POST",
        "/ump/remember",
        "remember",
        "Write one memory (UMP §3.3)",
        remember,
        "RememberAnswer",
        None,
        _DRAFT,
        reads=lambda call: unwrap_draft(call.json()),
        body="RememberRequest",
    ),
    _row(
        "POST",
        "/ump/recall",
        "recall",
        "The best memories for a query, with their signals (UMP §3.2)",
        recall,
        "RecallAnswer",
        RecallRequest,
        {**_RECALL, "filter": {"kind": ["procedural"]}, "limit": 5},
    ),
    _row(
        "POST",
        "/ump/rehydrate",
        "rehydrate",
        "Recalled memories as one framed block for a model's context (UMP §5.3)",
        rehydrate,
        "RehydrateAnswer",
        RehydrateRequest,
        {**_RECALL, "max_chars": 400, "budget_chars": 4000},
    ),
    _row(
        "GET",
        "/ump/memories",
        "list_memories",
        "The latest memories, last updated first",
        list_memories,
        "ListAnswer",
        asks=ListRequest,
        example={"project": "p", "limit": 20},
    ),
    _row(
        "GET",
        "/ump/stats",
        "stats",
        "Whose memory this is, and how much is in it: of what kind, in which project",
        stats,
        "StatsAnswer",
    ),
    _row("GET", "/ump/memory/{id}", "get", "One record by its id (UMP §3.4)", get, "GetAnswer"),
    _row(
        "GET",
        "/ump/memory/{id}/history",
        "history",
        "All versions of a memory, oldest first",
        history,
        "HistoryAnswer",
        asks=HistoryRequest,
    ),
    _row(
        "POST",
        "/ump/feedback",
        "feedback",
        "Say what became of a recalled memory (UMP §3.8)",
        feedback,
        "FeedbackAnswer",
        FeedbackRequest,
        {"id": EXAMPLE_ID, "outcome": "followed", "session": "s-1"},
    ),
    _row(
        "POST",
        "/ump/revise",
        "revise",
        "Write a successor (UMP §3.5)",
        revise,
        "ReviseAnswer",
        ReviseRequest,
        {"id": EXAMPLE_ID, "patch": {"body": {"text": "run pnpm gate and the type check before handoff"}}},
    ),
    _row(
        "POST",
        "/ump/forget",
        "forget",
        "Tombstone a memory, or with hard erase it for good (UMP §3.6)",
        forget,
        "ForgetAnswer",
        ForgetRequest,
        {"id": EXAMPLE_ID, "reason": "no longer true", "hard": False},
    ),
    _row(
        "GET",
        "/ump/subscribe",
        "subscribe",
        "Changes as server-sent events: created, merged, revised, tombstoned (UMP §3.8). A stream without end; each "
        "event's data is {type, id, record}, its id is its place in the feed",
        None,
        "",
        asks=SubscribeRequest,
        example={"owner": EXAMPLE_OWNER, "project": "p"},
        parameters=(_LAST_EVENT,),
        gives={"text/event-stream": {"schema": {"type": "string"}, "example": _EVENT}},
    ),
    _row(
        "POST",
        "/ump/audit",
        "audit",
        "The last audit events that match, oldest first",
        audit,
        "AuditAnswer",
        AuditRequest,
        {"owner": EXAMPLE_OWNER, "op": ["remember", "recall"], "limit": 20},
    ),
    _row(
        "GET",
        "/ump/audit/verify",
        "audit_verify",
        "Whether the audit chain is whole",
        audit_verify,
        "AuditVerifyAnswer",
        asks=AuditVerifyRequest,
        example={"owner": EXAMPLE_OWNER},
    ),
    _row(
        "GET",
        "/",
        "welcome",
        "A page for people: what this is, and how to use it",
        welcome,
        "",
        gives={"text/html": {"schema": {"type": "string"}}},
        **_PUBLIC,
    ),
    _row("GET", "/healthz", "alive", "Whether the process is alive", alive, "Health", **_PUBLIC),
    _row("GET", "/readyz", "ready", "Whether the store answers", ready, "Health", is_public=True),
)
