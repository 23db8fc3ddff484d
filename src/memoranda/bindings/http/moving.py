"""The routes that move or look through a whole memory: out, in and back again; what looks like a secret; the check."""

from __future__ import annotations

from typing import Any, Final

from msgspec import to_builtins

from memoranda.bindings.http.call import Call
from memoranda.bindings.http.turns import in_turn
from memoranda.bindings.http.ump import EXAMPLE_ID, UMP
from memoranda.encoding.bases import base64_decode
from memoranda.encoding.json_text import parse
from memoranda.encoding.shapes import to_json
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.exchange import Item, numbered
from memoranda.service.report import Report
from memoranda.service.service import Service
from memoranda.service.ump.redact import BesidePage, SuspectPage
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.ump.extensions import ImportedItem, ImportPartRequest, PageRequest
from memoranda.standards.ump.requests import (
    AuditVerifyRequest,
    ExportRequest,
    GetRequest,
    ImportRequest,
    UndoImportRequest,
)


def export(service: Service, call: Call, asked: ExportRequest) -> dict[str, Any]:
    if asked.record_ids is not None:
        report = Report()
        named = service.export(
            call.access, owner=asked.owner, project=asked.project, names=asked.record_ids, report=report
        )
        return {"records": list(named), "report": report.document(), "next_cursor": None}
    records, following, report = service.export_page(
        call.access,
        owner=asked.owner,
        project=asked.project,
        history=asked.history,
        carry=asked.carry,
        after=asked.after,
    )
    cursor = None if following is None else str(following)
    return {"records": records, "report": report.document(), "next_cursor": cursor}


def import_records(service: Service, call: Call, asked: ImportRequest) -> dict[str, Any]:
    items = numbered("ump", asked.records, first=asked.first)
    return service.import_items(call.access, items, restore=asked.restore).document()


def imports(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"imports": service.imports(call.access)}


def undo_import(service: Service, call: Call, asked: UndoImportRequest) -> dict[str, Any]:
    return service.undo_import(call.access, asked.id).document()


def import_part(service: Service, call: Call, asked: ImportPartRequest) -> dict[str, Any]:
    return service.import_part(
        call.access,
        map(_item, asked.items),
        label=asked.label,
        name=asked.id,
        adopt=asked.adopt,
        into=None if asked.namespace is None else parse_namespace(asked.namespace),
        restore=asked.restore,
        is_dry=asked.dry_run,
    ).document()


def _item(said: ImportedItem) -> Item:
    """What is brought, as the service takes it; what cannot be read is refused in the report."""
    placed: dict[str, Any] = {"form": said.form, "where": said.where, "number": said.number}
    try:
        raw = None if said.line is None else said.line.encode("utf-8")
        value = said.value if raw is None else parse(raw)
        if said.form == "oms" and isinstance(value, str):
            value = base64_decode(value)
        index = DEFAULT if said.index is None else IndexState.from_fields(to_json(said.index))
    except MemorandaError as error:
        return Item(**placed, error=error)
    except ValueError:
        return Item(**placed, error=InvalidInput("value must be the bytes of a grain in base64"))
    return Item(**placed, value=value, raw=raw, index=index)


def suspects(service: Service, call: Call, asked: PageRequest) -> dict[str, Any]:
    return _suspected(service.suspects_page(call.access, after=asked.after))


def suspects_beside(service: Service, call: Call, asked: PageRequest) -> dict[str, Any]:
    return _suspected(service.suspects_beside_page(call.access, after=asked.after))


def orders(service: Service, call: Call, asked: PageRequest) -> dict[str, Any]:
    return _suspected(service.orders_page(call.access, after=asked.after))


def _suspected(page: SuspectPage | BesidePage) -> dict[str, Any]:
    return {"suspects": to_builtins(page.suspects), "next_cursor": None if page.next is None else str(page.next)}


def allow_orders(service: Service, call: Call, asked: GetRequest) -> dict[str, Any]:
    service.allow_orders(call.access, asked.id)
    return {"ok": True}


def redact(service: Service, call: Call, asked: GetRequest) -> dict[str, Any]:
    return {"id": service.redact(call.access, asked.id)}


def verify(service: Service, call: Call, asked: AuditVerifyRequest) -> dict[str, Any]:
    # It counts all that an owner has, and reads the whole database.
    call.access.require_all()
    return service.verify(call.access, owner=asked.owner).document()


_row: Final = UMP.row
OPERATIONS: Final = (
    _row(
        "GET",
        "/ump/export",
        "export",
        "Every record that may leave, page by page, in the order written",
        export,
        "ExportAnswer",
        asks=ExportRequest,
        example={"project": "p"},
    ),
    _row(
        "POST",
        "/ump/import",
        "import_records",
        "Take records in, as an export has them; what is here already changes nothing",
        import_records,
        "Report",
        ImportRequest,
        {"records": [], "restore": False},
    ),
    _row(
        "GET", "/ump/imports", "imports", "The imports that can be taken back, the last first", imports, "ImportsAnswer"
    ),
    _row(
        "POST",
        "/ump/imports",
        "import_part",
        "Take in a part of what is brought from elsewhere, in any standard's form; it can be taken back as a whole",
        import_part,
        "ImportPartAnswer",
        ImportPartRequest,
        {"items": [{"form": "ump", "value": {"kind": "semantic", "body": {"text": "use pnpm"}}}], "what": "notes.csv"},
    ),
    _row(
        "POST",
        "/ump/imports/undo",
        "undo_import",
        "Take back an import, the last unless it is named; what was changed since stays",
        in_turn(undo_import),
        "UndoImportAnswer",
        UndoImportRequest,
        {},
    ),
    _row(
        "GET",
        "/ump/suspects",
        "suspects",
        "Memories that look as if they held a secret, which is not shown, page by page; a page may be empty",
        in_turn(suspects),
        "SuspectsAnswer",
        asks=PageRequest,
    ),
    _row(
        "GET",
        "/ump/suspects/beside",
        "suspects_beside",
        "Where else there is something like a secret: in workspace files and in logs of runs",
        in_turn(suspects_beside),
        "SuspectsBesideAnswer",
        asks=PageRequest,
    ),
    _row(
        "GET",
        "/ump/orders",
        "orders",
        "Memories that read as if they gave orders to a model, page by page; a page may be empty",
        in_turn(orders),
        "SuspectsAnswer",
        asks=PageRequest,
    ),
    _row(
        "POST",
        "/ump/orders/allow",
        "allow_orders",
        "Say that a memory may read as if it gave orders: it is not listed again while it says the same",
        allow_orders,
        "AllowOrdersAnswer",
        GetRequest,
        {"id": EXAMPLE_ID},
    ),
    _row(
        "POST",
        "/ump/redact",
        "redact",
        "Take out of a memory what looks like a secret, for good; its owner may",
        redact,
        "RedactAnswer",
        GetRequest,
        {"id": EXAMPLE_ID},
    ),
    _row(
        "GET",
        "/ump/verify",
        "verify",
        "Check every signature, the audit chain and the database",
        in_turn(verify),
        "VerifyAnswer",
        asks=AuditVerifyRequest,
    ),
)
