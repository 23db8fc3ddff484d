"""The routes of UMP (sections 3 and 4.2), and those of the server itself."""

from __future__ import annotations

from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import asdict

from memoranda.bindings.http import moving, wire
from memoranda.bindings.http.call import Call, cursor_of
from memoranda.bindings.http.operation import Refusal, Standard
from memoranda.bindings.http.page import welcome
from memoranda.bindings.operations import ump as rows
from memoranda.bindings.operations.row import as_document, in_header
from memoranda.bindings.operations.ump import EXAMPLE_ID, EXAMPLE_OWNER
from memoranda.encoding.shapes import COUNT, NAME, closed_object, fields_of, one_of, ref
from memoranda.errors import MemorandaError
from memoranda.model.instant import format_instant
from memoranda.service.core.limits import OwnRules
from memoranda.service.service import Service
from memoranda.standards.oms.registry import ERROR_CODES
from memoranda.standards.ump.answers import ANSWERS, DOCUMENTS
from memoranda.standards.ump.extensions import IdsRequest, RulesRequest
from memoranda.standards.ump.requests import (
    AuditVerifyRequest,
    HistoryRequest,
    ListRequest,
    NewMemory,
    RehydrateRequest,
    ScopeFilter,
    SubscribeRequest,
    unwrap_draft,
)

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
    """Return an error in UMP's form (section 3.7)."""
    body = {"code": error.code, "message": f"{error.code}: {error.message}"}
    return _STATUSES.get(error.code, OTHER_ERROR_STATUS), {"error": body}


def no_route(_status: int, _path: str) -> Refusal:
    # As in the reference: an unknown route and a wrong method are both this, word for word.
    return 404, {"error": {"code": "not_found", "message": "no route"}}


_ERROR: Final = closed_object(
    "code message",
    code=NAME,
    message={"type": "string", "minLength": 1},
    oms_code=one_of(sorted(ERROR_CODES)),
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
        "RememberRequest": {
            "anyOf": [ref("NewMemory"), closed_object("record", record=ref("NewMemory"))]
        },
        "Health": closed_object(
            "status", status=NAME, embedding_failing_since={"type": "string", "format": "date-time"}
        ),
        "OpenApi": {"type": "object", "required": ["openapi", "info", "paths"]},
        "Error": closed_object("error", error=_ERROR),
    },
    documents={**DOCUMENTS, "NewMemory": NewMemory},
    names={"id": {"schema": NAME, "example": EXAMPLE_ID}},
    # An id that cannot be read is not found, rather than malformed.
    lenient=frozenset({"id"}),
)


# --- verbs with more than their row says -------------------------------------------------------------------


def read_remember(call: Call) -> object:
    """Read a draft, bare or under `record`."""
    return unwrap_draft(call.json())


def remember(service: Service, call: Call, draft: object) -> object:
    """Write a memory whose provenance says that it came over HTTP."""
    return as_document(
        service.remember(call.access, service.with_defaults(call.access, draft, method="http"))
    )


def rehydrate(service: Service, call: Call, request: RehydrateRequest) -> dict[str, Any]:
    """Return a framed block, and the memories that were left out of it, if any."""
    block = service.for_prompt(call.access, request)
    answer: dict[str, Any] = {"text": block.text, "injected": block.injected}
    if block.dropped:
        answer["dropped"] = [{"id": name, "reason": reason} for name, reason in block.dropped]
    return answer


def list_memories(service: Service, call: Call, request: ListRequest) -> dict[str, Any]:
    """Return a page of the latest memories."""
    records, following = service.list_records(call.access, **request.arguments())
    return {"records": records, "next_cursor": cursor_of(following)}


def stats(service: Service, call: Call, _request: None) -> dict[str, Any]:
    """Return the owner with the counts."""
    return {"owner": call.access.default_tenant, **asdict(service.stats(call.access))}


def history(service: Service, call: Call, request: HistoryRequest) -> dict[str, Any]:
    """Return a page of the versions of a memory; the last page has no cursor."""
    versions, following = service.history_page(
        call.access, call.readable_name("id") or "", after=request.after
    )
    return {"versions": versions} | ({} if following is None else {"next_cursor": str(following)})


def short_ids(service: Service, call: Call, request: IdsRequest) -> dict[str, Any]:
    """Return the short ids of memories. In process anybody may ask for them; over HTTP a reader may."""
    call.access.require("read")
    return {"short": service.short_ids(call.access, request.ids)}


def set_rules(service: Service, call: Call, request: RulesRequest) -> object:
    """Set an owner's rules, and return those in force."""
    service.set_rules(
        call.access, OwnRules(**{name: getattr(request, name) for name in fields_of(RulesRequest)})
    )
    return as_document(service.rules(call.access))


def changes(service: Service, call: Call, request: SubscribeRequest) -> object:
    """Return a page of the change feed."""
    return to_builtins(service.changes(call.access, request.conditions(), request.after or 0))


def feed_end(service: Service, call: Call, request: ScopeFilter) -> dict[str, Any]:
    """Return the position at which the feed of a scope ends."""
    return {"place": service.feed_end(call.access, request.conditions())}


def audit_verify(service: Service, call: Call, request: AuditVerifyRequest) -> dict[str, Any]:
    """Return how far the audit chain holds, in the words of the reference."""
    report = service.audit_verify(call.access, request.owner)
    answer: dict[str, Any] = {"ok": report.ok, "count": report.count}
    if report.pruned:
        answer["pruned"] = report.pruned
    if not report.ok:
        answer |= {"brokenAt": report.broken_at, "reason": report.reason}
    return answer


def capabilities(service: Service, _call: Call, _request: None) -> dict[str, Any]:
    """Return the server's capabilities, which are everybody's."""
    return service.capabilities()


def manifest(service: Service, call: Call, _request: None) -> dict[str, Any]:
    """Return the manifest with the address by which the client came."""
    return service.manifest(f"{call.scope['scheme']}://{wire.header(call.scope, b'host')}")


def alive(_service: Service, _call: Call, _request: None) -> dict[str, str]:
    """Return that the process is alive."""
    return {"status": "alive"}


def ready(service: Service, _call: Call, _request: None) -> dict[str, str]:
    """Return that the store answers. Raises StoreUnavailable or StoreCorrupt."""
    service.check_ready()
    since = service.embedding.failing_since()
    # Ready all the same: memories are found by their words.
    return {
        "status": "ready",
        **({} if since is None else {"embedding_failing_since": format_instant(since)}),
    }


# --- the operations ----------------------------------------------------------------------------------------

_LAST_EVENT: Final = in_header(
    "Last-Event-ID", COUNT, "As `after`; what a browser's EventSource sends by itself."
)
_EVENT: Final = (
    f'id: 7\nevent: created\ndata: {{"type":"created","id":"{EXAMPLE_ID}","record":{{}}}}\n\n'
)
_PUBLIC: Final[dict[str, Any]] = {"is_public": True, "is_quick": True}
_row: Final = UMP.row

OPERATIONS: Final = (
    *UMP.operations(
        rows.OPERATIONS,
        readers={"remember": read_remember},
        serve={
            "remember": remember,
            "rehydrate": rehydrate,
            "list_memories": list_memories,
            "stats": stats,
            "history": history,
            "short_ids": short_ids,
            "set_rules": set_rules,
            "changes": changes,
            "feed_end": feed_end,
            "audit_verify": audit_verify,
            "capabilities": capabilities,
            "manifest": manifest,
            **moving.SERVE,
        },
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
