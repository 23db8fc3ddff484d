"""The routes of UMP (sections 3 and 4.2), and those of the server itself.

Most rows need no function here: they are served by their verb. Functions stand for what a row cannot express, such as
pages, items in several forms, headers, and rights to everything an owner has.
"""

from __future__ import annotations

import html
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import asdict

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import HttpAnswer, HttpCall, format_cursor
from memoranda.bindings.http.operation import Refusal, Standard
from memoranda.bindings.operations import ump as rows
from memoranda.bindings.operations.row import as_document, in_header
from memoranda.bindings.operations.ump import EXAMPLE_ID, EXAMPLE_OWNER
from memoranda.encoding.bases import base64_decode
from memoranda.encoding.json_text import parse
from memoranda.encoding.shapes import COUNT, NAME, closed_object, fields_of, one_of, ref, to_json
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import format_instant
from memoranda.service.core.limits import OwnRules
from memoranda.service.exchange.importing import Item, number_items
from memoranda.service.exchange.report import Report
from memoranda.service.service import Service
from memoranda.service.ump.review import BesidePage, SuspectPage
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.oms.registry import ERROR_CODES
from memoranda.standards.ump.answers import ANSWERS, DOCUMENTS
from memoranda.standards.ump.extensions import (
    IdsRequest,
    ImportedItem,
    ImportPartRequest,
    PageRequest,
    RulesRequest,
)
from memoranda.standards.ump.requests import (
    AuditVerifyRequest,
    ExportRequest,
    HistoryRequest,
    ImportRequest,
    ListRequest,
    NewMemory,
    RehydrateRequest,
    ScopeFilter,
    SubscribeRequest,
    unwrap_draft,
)

# As in the reference: not_found 404, unauthorized 401, forbidden_scope 403, every other UMP code 400. Limits and an
# unavailable store have statuses of their own, on which clients wait and try again (RFC 6585 4).
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


def refuse_route(_status: int, _path: str) -> Refusal:
    """Return the refusal of an unknown path or method. Both have the text of the reference."""
    return 404, {"error": {"code": "not_found", "message": "no route"}}


_ERROR: Final = closed_object(
    "code message",
    code=NAME,
    message={"type": "string", "minLength": 1},
    oms_code=one_of(sorted(ERROR_CODES)),
)
ERRORS: Final = {
    "400": "Malformed, refused by the memory's consent, or unsupported",
    "401": "No credential, or an invalid one",
    "403": "The credential, Host or Origin does not allow this; or a grain is protected by its policy or a hold",
    "404": "Not found, or not visible to you",
    "429": "Too many requests, or a limit of the owner is reached; with Retry-After",
    "503": "The store cannot be used right now",
}
UMP: Final = Standard(
    name="ump",
    prefixes=("/",),
    refuse=refuse,
    refuse_route=refuse_route,
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
    # An id that cannot be decoded is not found, rather than malformed.
    lenient=frozenset({"id"}),
)


# --- verbs with more than their row says -------------------------------------------------------------------


def parse_remember(call: HttpCall) -> object:
    """Read a draft, bare or under `record`."""
    return unwrap_draft(call.parse_json())


def remember(service: Service, call: HttpCall, draft: object) -> object:
    """Write a memory; its provenance says that it came over HTTP."""
    return as_document(
        service.remember(call.access, service.with_defaults(call.access, draft, method="http"))
    )


def rehydrate(service: Service, call: HttpCall, request: RehydrateRequest) -> dict[str, object]:
    """Return a framed block, and the memories that were left out of it, if any."""
    block = service.for_prompt(call.access, request)
    answer: dict[str, object] = {"text": block.text, "injected": block.injected}
    if block.dropped:
        answer["dropped"] = [{"id": name, "reason": reason} for name, reason in block.dropped]
    if block.weak:
        answer["weak"] = True
    return answer


def list_memories(service: Service, call: HttpCall, request: ListRequest) -> dict[str, object]:
    """Return a page of the latest memories."""
    records, next_position = service.list_records(call.access, **request.arguments())
    return {"records": records, "next_cursor": format_cursor(next_position)}


def stats(service: Service, call: HttpCall, _request: None) -> dict[str, object]:
    """Return the counts of the owner's memories."""
    return {"owner": call.access.default_tenant, **asdict(service.stats(call.access))}


def history(service: Service, call: HttpCall, request: HistoryRequest) -> dict[str, object]:
    """Return a page of the versions of a memory; the last page has no cursor."""
    versions, next_position = service.history_page(
        call.access, call.readable_path_name("id") or "", after=request.after
    )
    return {"versions": versions} | (
        {} if next_position is None else {"next_cursor": str(next_position)}
    )


def short_ids(service: Service, call: HttpCall, request: IdsRequest) -> dict[str, object]:
    """Return the short ids of memories. The verb itself checks no right; over HTTP the caller needs `read`."""
    call.access.require("read")
    return {"short": service.short_ids(call.access, request.ids)}


def set_rules(service: Service, call: HttpCall, request: RulesRequest) -> object:
    """Set an owner's rules, and return those in force."""
    service.set_rules(
        call.access, OwnRules(**{name: getattr(request, name) for name in fields_of(RulesRequest)})
    )
    return as_document(service.rules(call.access))


def changes(service: Service, call: HttpCall, request: SubscribeRequest) -> object:
    """Return a page of the change feed."""
    return to_builtins(service.changes(call.access, request.conditions(), request.after or 0))


def feed_end(service: Service, call: HttpCall, request: ScopeFilter) -> dict[str, object]:
    """Return the position at which the feed of a scope ends."""
    return {"place": service.feed_end(call.access, request.conditions())}


def audit_verify(
    service: Service, call: HttpCall, request: AuditVerifyRequest
) -> dict[str, object]:
    """Return the result of checking the audit chain, with the field names of the reference."""
    report = service.audit_verify(call.access, request.owner)
    answer: dict[str, object] = {"ok": report.ok, "count": report.count}
    if report.pruned:
        answer["pruned"] = report.pruned
    if not report.ok:
        answer |= {"brokenAt": report.broken_at, "reason": report.reason}
    return answer


def capabilities(service: Service, _call: HttpCall, _request: None) -> dict[str, object]:
    """Return the capabilities of the server, which are public."""
    return service.capabilities()


def manifest(service: Service, call: HttpCall, _request: None) -> dict[str, object]:
    """Return the manifest with the URL by which the client reached the server."""
    return service.manifest(f"{call.scope['scheme']}://{wire.read_header(call.scope, b'host')}")


def alive(_service: Service, _call: HttpCall, _request: None) -> dict[str, str]:
    """Return that the process is alive."""
    return {"status": "alive"}


def report_ready(service: Service, _call: HttpCall, _request: None) -> dict[str, str]:
    """Return that the store answers. Raises StoreUnavailable or StoreCorrupt."""
    service.check_ready()
    since = service.embedding.failing_since()
    # The server is ready without embeddings, too: keyword search works.
    return {
        "status": "ready",
        **({} if since is None else {"embedding_failing_since": format_instant(since)}),
    }


# --- exports, imports and full scans -----------------------------------------------------------------------


def export_records(service: Service, call: HttpCall, request: ExportRequest) -> dict[str, object]:
    """Return a page of an export, or the records of the ids in the request."""
    owner, project = request.owner, request.project
    if request.record_ids is not None:
        report = Report()
        export = service.export(
            call.access, owner=owner, project=project, names=request.record_ids, report=report
        )
        records = list(export)
        return {"records": records, "report": report.document(), "next_cursor": None}
    records, next_position, report = service.export_page(
        call.access,
        owner=owner,
        project=project,
        history=request.history,
        carry=request.carry,
        after=request.cursor,
    )
    return {"records": records, "report": report.document(), "next_cursor": next_position}


def import_records(service: Service, call: HttpCall, request: ImportRequest) -> dict[str, object]:
    """Import records as an export has them, and return the report."""
    items = number_items("ump", request.records, first=request.first)
    return service.import_items(call.access, items, restore=request.restore).document()


def import_part(service: Service, call: HttpCall, request: ImportPartRequest) -> dict[str, object]:
    """Import one part of a longer import, with items of any form, and return the report."""
    return service.import_part(
        call.access,
        map(_parse_item, request.items),
        label=request.label,
        name=request.id,
        adopt=request.adopt,
        into=None if request.namespace is None else parse_namespace(request.namespace),
        restore=request.restore,
        is_dry=request.dry_run,
    ).document()


def _parse_item(request: ImportedItem) -> Item:
    """Return an item for the service. An item that cannot be parsed carries its error, for the report."""
    item = partial(Item, form=request.form, where=request.where, number=request.number)
    try:
        raw = None if request.line is None else request.line.encode("utf-8")
        value = request.value if raw is None else parse(raw)
        if request.form == "oms" and isinstance(value, str):
            value = base64_decode(value)
        index = DEFAULT if request.index is None else IndexState(**to_json(request.index))
    except MemorandaError as error:
        return item(error=error)
    except ValueError:
        return item(error=InvalidInput("value must be the bytes of a grain in base64"))
    return item(value=value, raw=raw, index=index)


def list_suspects(service: Service, call: HttpCall, request: PageRequest) -> dict[str, object]:
    """Return a page of memories with likely secrets."""
    return _suspects_answer(service.suspects_page(call.access, after=request.after))


def list_suspect_files(service: Service, call: HttpCall, request: PageRequest) -> dict[str, object]:
    """Return a page of files and logs with likely secrets."""
    return _suspects_answer(service.suspects_beside_page(call.access, after=request.after))


def list_orders(service: Service, call: HttpCall, request: PageRequest) -> dict[str, object]:
    """Return a page of memories that look like prompt injection."""
    return _suspects_answer(service.orders_page(call.access, after=request.after))


def _suspects_answer(page: SuspectPage | BesidePage) -> dict[str, object]:
    return {"suspects": as_document(page.suspects), "next_cursor": format_cursor(page.next)}


def verify_store(
    service: Service, call: HttpCall, request: AuditVerifyRequest
) -> dict[str, object]:
    """Return the report of a full check. It counts everything an owner has, so it needs rights to all of it."""
    call.access.require_whole_owner()
    return service.verify(call.access, owner=request.owner).document()


# --- the page for people ------------------------------------------------------------------------------------

# Public paths, and what is there.
_OPEN: Final = (
    ("/ump/capabilities", "its capabilities in the Universal Memory Protocol (UMP)"),
    ("/.well-known/openwop", "its capabilities in openwop agent memory"),
    ("/openapi.json", "every request of all standards, as an OpenAPI document"),
    ("/healthz", "the state of the server"),
)


def welcome_page(_service: Service, call: HttpCall, _request: None) -> HttpAnswer:
    """Return the page for a person who opens the address in a browser. It shows nothing of any memory."""
    base = html.escape(wire.base_url(call.scope))
    links = "".join(f'<li><a href="{path}">{path}</a>: {text}</li>' for path, text in _OPEN)
    body = (
        f"<h1>Memoranda</h1><p>The memory of AI agents, kept by the people it belongs to. Version "
        f"{version('memoranda')} is running here. To read or write, a program shows a key, which you make on the "
        "machine of the server:</p><pre>memoranda key add laptop</pre>"
        f'<p>Then ask:</p><pre>curl {base}/ump/recall \\\n  -H "Authorization: Bearer $KEY" '
        '-H "Content-Type: application/json" \\\n  -d \'{"query": "which package manager?"}\'</pre>'
        '<p>In this browser: <a href="/console/">the console</a>.</p>'
        f"<p>An agent that speaks MCP is connected at <code>{base}/mcp</code>, or on the machine itself with the "
        f"command <code>memoranda mcp</code>. Open to everybody:</p><ul>{links}</ul>"
    )
    headers = tuple(
        (name.lower().encode(), value.encode()) for name, value in wire.page_headers().items()
    )
    return HttpAnswer(
        body=wire.render_page("the memory of your agents", body).encode(),
        media_type=wire.HTML,
        headers=headers,
    )


# --- the operations ----------------------------------------------------------------------------------------

_LAST_EVENT: Final = in_header(
    "Last-Event-ID", COUNT, "As `after`; a browser's EventSource sends it by itself."
)
_EVENT: Final = (
    f'id: 7\nevent: created\ndata: {{"type":"created","id":"{EXAMPLE_ID}","record":{{}}}}\n\n'
)
_PUBLIC: Final[dict[str, Any]] = {"is_public": True, "is_quick": True}
_row: Final = UMP.row

OPERATIONS: Final = (
    *UMP.operations(
        rows.OPERATIONS,
        parsers={"remember": parse_remember},
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
            "export": export_records,
            "import_records": import_records,
            "import_part": import_part,
            "suspects": list_suspects,
            "suspects_beside": list_suspect_files,
            "orders": list_orders,
            "verify": verify_store,
        },
    ),
    _row(
        "GET",
        "/ump/subscribe",
        "subscribe",
        "Stream changes as server-sent events: created, merged, revised, tombstoned (UMP §3.8). The stream has no "
        "end; each event's data is {type, id, record}, and its id is its position in the feed",
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
        "Show a page for people, with the first steps",
        welcome_page,
        "",
        gives={"text/html": {"schema": {"type": "string"}}},
        **_PUBLIC,
    ),
    _row(
        "GET",
        "/healthz",
        "alive",
        "Return 200 while the process is alive",
        alive,
        "Health",
        **_PUBLIC,
    ),
    _row(
        "GET",
        "/readyz",
        "ready",
        "Return 200 if the store is available",
        report_ready,
        "Health",
        is_public=True,
    ),
)
