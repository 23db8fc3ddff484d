"""The routes of OMS: grains as canonical bytes, in their envelopes, or as JSON (OMS §28.4 over HTTP).

A grain is returned as the bytes that were written; content negotiation decides only between these bytes and JSON.
Nothing here deletes, except for compliance and with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec.structs import asdict

from memoranda.bindings.http import ump, wire
from memoranda.bindings.http.call import HttpAnswer, HttpCall
from memoranda.bindings.http.operation import Refusal, Standard
from memoranda.bindings.operations import oms as rows
from memoranda.bindings.operations.oms import EXAMPLE_ADDRESS
from memoranda.encoding.bases import base64_encode
from memoranda.encoding.json_text import dump
from memoranda.encoding.shapes import TEXT, check_field_names, closed_object, ref
from memoranda.errors import GrainError, InvalidInput, MemorandaError
from memoranda.service.oms.views import GrainInput, StoredGrain
from memoranda.service.service import Service
from memoranda.standards.oms.answers import ADDRESS, ANSWERS, DOCUMENTS
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE
from memoranda.standards.oms.requests import (
    ExportRequest,
    GetRequest,
    OwnedFindRequest,
    OwnerRequest,
    PutRequest,
    ReasonRequest,
    SupersedeRequest,
    VerificationRequest,
    parse_with_grain,
)
from memoranda.standards.oms.signature import is_envelope

# Media types of a grain as bytes; its first byte shows if it is in an envelope.
GRAIN_TYPES: Final = frozenset(
    (MEDIA_TYPE, SIGNED_MEDIA_TYPE, "application/cose", "application/octet-stream")
)
# Errors of grains that are protected, rather than malformed.
DENIALS: Final = frozenset(("ERR_INVALIDATION_DENIED", "ERR_EVIDENCE_REQUIRED"))


def refuse(error: MemorandaError, path: str) -> Refusal:
    """Return an error in the form of UMP, with the code of OMS if it has one."""
    if not isinstance(error, GrainError):
        return ump.refuse(error, path)
    body = {
        "code": error.code,
        "message": f"{error.code}: {error.message}",
        "oms_code": error.oms_code,
    }
    return 403 if error.oms_code in DENIALS else ump.OTHER_ERROR_STATUS, {"error": body}


OMS: Final = Standard(
    name="oms",
    prefixes=("/oms/",),
    refuse=refuse,
    refuse_route=ump.refuse_route,
    errors=ump.ERRORS,
    error_schemas=("Error",),
    answers={
        **ANSWERS,
        "PutRequest": {"anyOf": [ref("Grain"), closed_object("grain", grain=ref("Grain"))]},
        "SupersedeRequest": {
            "anyOf": [ref("Grain"), closed_object("grain", grain=ref("Grain"), justification=TEXT)]
        },
    },
    documents=DOCUMENTS,
    names={"address": {"schema": ADDRESS, "example": EXAMPLE_ADDRESS}},
)


G = TypeVar("G", bound=PutRequest)


# --- grains in bodies --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GrainRequest:
    """A request with a grain, as bytes or as fields, and its options."""

    grain: GrainInput
    owner: str | None = None
    justification: str = ""


def parse_put(call: HttpCall) -> GrainRequest:
    """Return a grain to store; the owner may stand in the URL."""
    options = OwnerRequest.parse_texts(wire.parse_query(call.scope))
    body = _parse_body(call, PutRequest)
    return GrainRequest(grain=body if isinstance(body, bytes) else body.grain, owner=options.owner)


def parse_supersede(call: HttpCall) -> GrainRequest:
    """Return a grain that replaces another; the justification may stand in the body or in the URL, not in both.

    Raises InvalidInput if it is given in both.
    """
    query, body = wire.parse_query(call.scope), _parse_body(call, SupersedeRequest)
    check_field_names(query, ("justification",), "the query")
    in_url = SupersedeRequest.parse({"grain": {}, **query}).justification
    if isinstance(body, bytes):
        return GrainRequest(grain=body, justification=in_url)
    if body.justification and query:
        raise InvalidInput("justification is given both in the query and in the body")
    return GrainRequest(grain=body.grain, justification=body.justification or in_url)


def _parse_body(call: HttpCall, shape: type[G]) -> G | bytes:
    """Return the bytes of a grain, or the JSON request with it."""
    if call.media_type in GRAIN_TYPES:
        return call.raw
    if call.media_type != wire.JSON:
        raise InvalidInput(f"content-type must be {MEDIA_TYPE}, {SIGNED_MEDIA_TYPE} or {wire.JSON}")
    return parse_with_grain(call.parse_json(), shape)


# --- verbs with more than their row says -------------------------------------------------------------------


def put(service: Service, call: HttpCall, request: GrainRequest) -> dict[str, object]:
    """Store a grain."""
    stored_grain = service.grains.put(call.access, request.grain, owner=request.owner)
    return {
        "address": stored_grain.address,
        "result": stored_grain.result,
        "warnings": list(stored_grain.warnings),
    }


def get(service: Service, call: HttpCall, request: GetRequest) -> HttpAnswer:
    """Return a grain in the form that Accept prefers."""
    return _render_grain(call, service.grains.get(call.access, request.address))


def get_for_export(service: Service, call: HttpCall, request: GetRequest) -> HttpAnswer:
    """Return a grain that its policy allows to export, in the form that Accept prefers."""
    return _render_grain(call, service.grains.release(call.access, request.address))


def _render_grain(call: HttpCall, stored_grain: StoredGrain) -> HttpAnswer:
    """Return a grain as its bytes or as JSON, with the state of its index in headers."""
    headers = _index_headers(stored_grain)
    if not _prefers_bytes(call.header(b"accept") or "*/*"):
        return HttpAnswer(body=dump(stored_grain.document()), headers=headers)
    return HttpAnswer(
        body=stored_grain.delivery,
        # OMS §9.2: a signed grain travels in its envelope, whatever Accept prefers.
        media_type=SIGNED_MEDIA_TYPE if is_envelope(stored_grain.delivery) else MEDIA_TYPE,
        # The bytes never change, so the ETag is the address. The index may change.
        headers=((b"etag", f'"{stored_grain.address}"'.encode("ascii")), *headers),
    )


def list_grains(service: Service, call: HttpCall, request: OwnedFindRequest) -> dict[str, object]:
    """Return the grains that a query in the URL finds."""
    return service.grains.find(call.access, request, owner=request.owner).document()


def export(service: Service, call: HttpCall, request: ExportRequest) -> dict[str, object]:
    """Return a page of grains as bytes, with their index."""
    page, next_position, report = service.grains.export_page(
        call.access,
        owner=request.owner,
        namespace=request.namespace,
        history=request.history,
        after=request.cursor,
    )
    grains = [
        {"grain": base64_encode(delivery), "index": index.portable_fields()}
        for delivery, index in page
    ]
    return {"grains": grains, "report": report.document(), "next_cursor": next_position}


def supersede(service: Service, call: HttpCall, request: GrainRequest) -> dict[str, object]:
    """Replace a grain, as its policy allows."""
    superseded = service.grains.supersede(
        call.access,
        call.path_name("address"),
        request.grain,
        justification=request.justification or None,
    )
    return asdict(superseded)


def set_verification(
    service: Service, call: HttpCall, request: VerificationRequest
) -> dict[str, object]:
    """Set a grain's verification status, and return it with the address."""
    address = call.path_name("address")
    status = service.grains.set_verification(
        call.access, address, request.status, reason=request.reason, by=request.by
    )
    return {"address": address, "verification_status": status}


def place_hold(service: Service, call: HttpCall, request: ReasonRequest) -> dict[str, object]:
    """Put a legal hold on a grain."""
    return _set_hold(service, call, request, is_held=True)


def lift_hold(service: Service, call: HttpCall, request: ReasonRequest) -> dict[str, object]:
    """Remove the legal hold of a grain."""
    return _set_hold(service, call, request, is_held=False)


def _set_hold(
    service: Service, call: HttpCall, request: ReasonRequest, *, is_held: bool
) -> dict[str, object]:
    address = call.path_name("address")
    return {
        "address": address,
        "held": service.grains.set_hold(call.access, address, held=is_held, reason=request.reason),
    }


OPERATIONS: Final = OMS.operations(
    rows.OPERATIONS,
    parsers={"grain_put": parse_put, "grain_supersede": parse_supersede},
    serve={
        "grain_put": put,
        "grain_get": get,
        "grain_leave": get_for_export,
        "grain_list": list_grains,
        "grain_export": export,
        "grain_supersede": supersede,
        "grain_verification": set_verification,
        "grain_hold": place_hold,
        "grain_release": lift_hold,
    },
)


def _index_headers(stored_grain: StoredGrain) -> tuple[wire.Header, ...]:
    """Return the headers that describe the state of a grain in the store."""
    index = stored_grain.index
    headers = (
        ("x-oms-address", stored_grain.address),
        ("x-oms-superseded-by", index.superseded_by),
        ("x-oms-system-valid-to", index.system_valid_to),
        ("x-oms-verification-status", index.verification_status),
        ("vary", "accept"),
    )
    return tuple(
        (name.encode(), str(value).encode("ascii")) for name, value in headers if value is not None
    )


def _prefers_bytes(accept: str) -> bool:
    """Return True if an Accept header prefers the bytes of a grain; False if it has no preference."""
    best_bytes = best_json = 0.0
    for part in accept.split(","):
        name, quality = wire.bare_media_type(part), wire.parse_quality(part)
        if name in GRAIN_TYPES:
            best_bytes = max(best_bytes, quality)
        elif name in (wire.JSON, "application/*", "*/*"):
            best_json = max(best_json, quality)
    return best_bytes > best_json or (
        best_bytes == best_json > 0 and wire.JSON not in accept.lower()
    )
