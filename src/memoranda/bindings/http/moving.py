"""Verbs that move a whole memory, or read all of it: export, import, likely secrets and orders, verification.

These functions are for what rows cannot say: pages, items in several forms, and a right to all that an owner has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.bindings.http.call import Call, Serve, cursor_of
from memoranda.bindings.operations.row import as_document
from memoranda.encoding.bases import base64_decode
from memoranda.encoding.json_text import parse
from memoranda.encoding.shapes import to_json
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.exchange.importing import Item, numbered
from memoranda.service.exchange.report import Report
from memoranda.service.service import Service
from memoranda.service.ump.redact import BesidePage, SuspectPage
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.ump.extensions import ImportedItem, ImportPartRequest, PageRequest
from memoranda.standards.ump.requests import AuditVerifyRequest, ExportRequest, ImportRequest


def export(service: Service, call: Call, request: ExportRequest) -> dict[str, Any]:
    """Return a page of an export, or the records of the ids in the request."""
    owner, project = request.owner, request.project
    if request.record_ids is not None:
        report = Report()
        export = service.export(
            call.access, owner=owner, project=project, names=request.record_ids, report=report
        )
        records = list(export)
        return {"records": records, "report": report.document(), "next_cursor": None}
    records, following, report = service.export_page(
        call.access,
        owner=owner,
        project=project,
        history=request.history,
        carry=request.carry,
        after=request.after,
    )
    return {"records": records, "report": report.document(), "next_cursor": cursor_of(following)}


def import_records(service: Service, call: Call, request: ImportRequest) -> dict[str, Any]:
    """Import records as an export has them, and return the report."""
    items = numbered("ump", request.records, first=request.first)
    return service.import_items(call.access, items, restore=request.restore).document()


def import_part(service: Service, call: Call, request: ImportPartRequest) -> dict[str, Any]:
    """Import one part of a longer import, in any form."""
    return service.import_part(
        call.access,
        map(_item, request.items),
        label=request.label,
        name=request.id,
        adopt=request.adopt,
        into=None if request.namespace is None else parse_namespace(request.namespace),
        restore=request.restore,
        is_dry=request.dry_run,
    ).document()


def _item(sent: ImportedItem) -> Item:
    """Return an item for the service; the error of one that cannot be read goes into the report."""
    position: dict[str, Any] = {"form": sent.form, "where": sent.where, "number": sent.number}
    try:
        raw = None if sent.line is None else sent.line.encode("utf-8")
        value = sent.value if raw is None else parse(raw)
        if sent.form == "oms" and isinstance(value, str):
            value = base64_decode(value)
        index = DEFAULT if sent.index is None else IndexState(**to_json(sent.index))
    except MemorandaError as error:
        return Item(**position, error=error)
    except ValueError:
        return Item(**position, error=InvalidInput("value must be the bytes of a grain in base64"))
    return Item(**position, value=value, raw=raw, index=index)


def suspects(service: Service, call: Call, request: PageRequest) -> dict[str, Any]:
    """Return a page of memories with likely secrets."""
    return _page(service.suspects_page(call.access, after=request.after))


def suspects_beside(service: Service, call: Call, request: PageRequest) -> dict[str, Any]:
    """Return a page of files and logs with likely secrets."""
    return _page(service.suspects_beside_page(call.access, after=request.after))


def orders(service: Service, call: Call, request: PageRequest) -> dict[str, Any]:
    """Return a page of memories that read as if they gave orders."""
    return _page(service.orders_page(call.access, after=request.after))


def _page(page: SuspectPage | BesidePage) -> dict[str, Any]:
    return {"suspects": as_document(page.suspects), "next_cursor": cursor_of(page.next)}


def verify(service: Service, call: Call, request: AuditVerifyRequest) -> dict[str, Any]:
    """Return the report of a full check. It counts all that an owner has, so a right to a part will not do."""
    call.access.require_whole_owner()
    return service.verify(call.access, owner=request.owner).document()


SERVE: Final[Mapping[str, Serve]] = {
    "export": export,
    "import_records": import_records,
    "import_part": import_part,
    "suspects": suspects,
    "suspects_beside": suspects_beside,
    "orders": orders,
    "verify": verify,
}
