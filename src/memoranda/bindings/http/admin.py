"""The routes for the operator: the owners of the store, their quotas, their export, and their deletion.

These routes answer only to the operator's credential. The work is in `service/core/tenants.py`, shared with `memoranda
tenant`. An export is fetched in parts and pages, so no answer becomes large. Deleting needs a reason, which goes to the
operator's own audit log, because that of the owner is deleted too.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from memoranda.bindings.http.call import HttpCall
from memoranda.bindings.http.ump import UMP
from memoranda.bindings.operations.ump import EXAMPLE_OWNER
from memoranda.encoding.shapes import Shape
from memoranda.service.core import tenants
from memoranda.service.core.limits import QuotaGrant
from memoranda.service.service import Service
from memoranda.standards.ump.extensions import Limit
from memoranda.standards.ump.requests import MAX_POSITION, MAX_REASON_CHARS
from memoranda.standards.ump.shapes import Name

_ANY_OBJECT: Final = {"application/json": {"schema": {"type": "object"}}}


class TenantRequest(Shape):
    """The owner that a request is about."""

    owner: Annotated[Name, Meta(description="The owner's name.")]


class QuotaRequest(TenantRequest):
    """The limits of one owner, in place of the server's. A limit that is left out is the server's."""

    memories: Limit | None = None
    bytes: Limit | None = None
    writes_per_minute: Limit | None = None
    runs_per_minute: Limit | None = None
    schedules: Limit | None = None


class TenantPartRequest(TenantRequest):
    """A page of one part of all that the store holds of an owner."""

    part: Annotated[
        Literal["documents", "audit", "runs", "run_events", "items", "commitments"],
        Meta(description="The part."),
    ]
    after: Annotated[
        int, Meta(ge=0, le=MAX_POSITION, description="`next` of the page before; 0 for the first.")
    ] = 0


class TenantDeletionRequest(TenantRequest):
    """The owner to delete for good, and the reason."""

    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_REASON_CHARS,
            description="The reason, in one line; kept in the operator's audit log.",
        ),
    ]


def list_tenants(service: Service, call: HttpCall, _request: None) -> dict[str, object]:
    """Return all owners."""
    summaries = tenants.list_tenants(service.context, call.access, service.gate)
    return {"tenants": [summary.document() for summary in summaries]}


def set_quota(service: Service, call: HttpCall, request: QuotaRequest) -> dict[str, object]:
    """Set the limits of one owner, and return the owner."""
    limits = {name: getattr(request, name) for name in QuotaGrant.__struct_fields__}
    tenants.set_quota(service.context, call.access, request.owner, QuotaGrant(**limits))
    summary = tenants.describe_tenant(service.context, call.access, service.gate, request.owner)
    return summary.document()


def export_page(service: Service, call: HttpCall, request: TenantPartRequest) -> dict[str, object]:
    """Return a page of one part of all that the store holds of an owner."""
    lines, following = tenants.export_page(
        service.context, call.access, request.owner, request.part, request.after
    )
    return {"lines": lines, "next": following}


def delete_tenant(
    service: Service, call: HttpCall, request: TenantDeletionRequest
) -> dict[str, object]:
    """Delete an owner, and return what was deleted."""
    usage = tenants.delete_tenant(
        service.context, call.access, service.gate, request.owner, reason=request.reason
    )
    return {"owner": usage.tenant, "memories": usage.memories, "versions": usage.versions}


_EXAMPLE: Final = {"owner": EXAMPLE_OWNER}

OPERATIONS: Final = (
    UMP.row(
        "GET",
        "/admin/tenants",
        "list_tenants",
        "Return all owners with the amounts that they store and their quotas; for the operator",
        list_tenants,
        gives=_ANY_OBJECT,
    ),
    UMP.row(
        "POST",
        "/admin/tenants/quota",
        "set_quota",
        "Set the limits of one owner in place of the server's; for the operator",
        set_quota,
        asks=QuotaRequest,
        example={**_EXAMPLE, "memories": 100_000},
        gives=_ANY_OBJECT,
    ),
    UMP.row(
        "POST",
        "/admin/tenants/export",
        "export_tenant",
        "Return a page of all that the store holds of an owner, as it holds it; for the operator",
        export_page,
        asks=TenantPartRequest,
        example={**_EXAMPLE, "part": "documents"},
        gives=_ANY_OBJECT,
    ),
    UMP.row(
        "POST",
        "/admin/tenants/delete",
        "delete_tenant",
        "Delete an owner for good, with keys, audit log and data keys; for the operator",
        delete_tenant,
        asks=TenantDeletionRequest,
        example={**_EXAMPLE, "reason": "left the team"},
        gives=_ANY_OBJECT,
    ),
)
