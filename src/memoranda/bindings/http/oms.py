"""The routes of OMS: grains as canonical bytes, in their envelopes, or as JSON (OMS §28.4 over HTTP).

What was written as bytes is read back as the same bytes; content negotiation decides only whether they are shown
as they are or as JSON fields. Nothing here deletes except for compliance, with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from memoranda.bindings.http import ump, wire
from memoranda.bindings.http.call import Answer, Call
from memoranda.bindings.http.operation import Refusal, Standard, in_query
from memoranda.encoding.bases import base64_encode
from memoranda.encoding.json_text import dump
from memoranda.encoding.shapes import NAME, TEXT, check_field_names, closed_object, ref
from memoranda.errors import GrainError, InvalidInput, MemorandaError
from memoranda.service.oms.views import Given, StoredGrain
from memoranda.service.service import Service
from memoranda.standards.oms.answers import ADDRESS, ANSWERS, DOCUMENTS
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE
from memoranda.standards.oms.requests import (
    ConsentRequest,
    EraseUserRequest,
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

EXAMPLE_GRAIN: Final[dict[str, Any]] = {
    "type": "belief",
    "subject": "ada",
    "relation": "prefers",
    "object": "green tea",
    "confidence": 0.9,
    "created_at": 1768471200000,
    "namespace": "kitchen",
}
EXAMPLE_ADDRESS: Final = "b2437eaf0fdcecab95465e29b834c5d01af584ba1edb620ab157993bc5c5fdb6"
# All of them mean "as it travels": a grain's first byte tells whether it is in an envelope.
GRAIN_TYPES: Final = frozenset((MEDIA_TYPE, SIGNED_MEDIA_TYPE, "application/cose", "application/octet-stream"))
# What is refused because it is protected, not because it is wrong.
DENIALS: Final = frozenset(("ERR_INVALIDATION_DENIED", "ERR_EVIDENCE_REQUIRED"))


def refuse(error: MemorandaError, path: str) -> Refusal:
    """In UMP's form, with the code of OMS where there is one."""
    if not isinstance(error, GrainError):
        return ump.refuse(error, path)
    body = {"code": error.code, "message": f"{error.code}: {error.message}", "oms_code": error.oms_code}
    return 403 if error.oms_code in DENIALS else ump.OTHER_ERROR_STATUS, {"error": body}


OMS: Final = Standard(
    name="oms",
    prefixes=("/oms/",),
    refuse=refuse,
    no_route=ump.no_route,
    errors=ump.ERRORS,
    error_schemas=("Error",),
    answers={
        **ANSWERS,
        "PutRequest": {"anyOf": [ref("Grain"), closed_object("grain", grain=ref("Grain"))]},
        "SupersedeRequest": {"anyOf": [ref("Grain"), closed_object("grain", grain=ref("Grain"), justification=TEXT)]},
    },
    documents=DOCUMENTS,
    names={"address": {"schema": ADDRESS, "example": EXAMPLE_ADDRESS}},
)


G = TypeVar("G", bound=PutRequest)


# --- grains in bodies --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenGrain:
    """The grain in a body, as bytes or as fields, and what the request says beside it."""

    given: Given
    owner: str | None = None
    justification: str = ""


def read_put(call: Call) -> GivenGrain:
    asked = OwnerRequest.parse_texts(wire.query(call.scope))
    found = _in_body(call, PutRequest)
    return GivenGrain(given=found if isinstance(found, bytes) else found.grain, owner=asked.owner)


def read_supersede(call: Call) -> GivenGrain:
    query, found = wire.query(call.scope), _in_body(call, SupersedeRequest)
    check_field_names(query, ("justification",), "the query")
    if isinstance(found, bytes):
        why = SupersedeRequest.parse({"grain": {}, **query}).justification
        return GivenGrain(given=found, justification=why)
    if found.justification and query:
        raise InvalidInput("justification is given both in the query and in the body")
    why = found.justification or SupersedeRequest.parse({"grain": {}, **query}).justification
    return GivenGrain(given=found.grain, justification=why)


def _in_body(call: Call, shape: type[G]) -> G | bytes:
    if call.media_type in GRAIN_TYPES:
        return call.raw
    if call.media_type != wire.JSON:
        raise InvalidInput(f"content-type must be {MEDIA_TYPE}, {SIGNED_MEDIA_TYPE} or {wire.JSON}")
    return parse_with_grain(call.json(), shape)


# --- the verbs -------------------------------------------------------------------------------------------


def put(service: Service, call: Call, asked: GivenGrain) -> dict[str, Any]:
    stored = service.grains.put(call.access, asked.given, owner=asked.owner)
    return {"address": stored.address, "result": stored.result, "warnings": list(stored.warnings)}


def get(service: Service, call: Call, asked: GetRequest) -> Answer:
    return _shown(call, service.grains.get(call.access, asked.address))


def leave(service: Service, call: Call, asked: GetRequest) -> Answer:
    return _shown(call, service.grains.release(call.access, asked.address))


def _shown(call: Call, found: StoredGrain) -> Answer:
    headers = _index_headers(found)
    if not _prefers_bytes(call.header(b"accept") or "*/*"):
        return Answer(body=dump(found.document()), headers=headers)
    return Answer(
        body=found.delivery,
        # OMS §9.2: a signed grain travels in its envelope, whatever was asked for.
        media_type=SIGNED_MEDIA_TYPE if is_envelope(found.delivery) else MEDIA_TYPE,
        # Only the bytes never change; what the index says of them does.
        headers=((b"etag", f'"{found.address}"'.encode("ascii")), *headers),
    )


def find(service: Service, call: Call, asked: OwnedFindRequest) -> dict[str, Any]:
    return service.grains.find(call.access, asked, owner=asked.owner).document()


def export(service: Service, call: Call, asked: ExportRequest) -> dict[str, Any]:
    page, following, report = service.grains.export_page(
        call.access,
        owner=asked.owner,
        namespace=asked.namespace,
        history=asked.history,
        after=int(asked.cursor or 0),
    )
    grains = [{"grain": base64_encode(delivery), "index": index.portable_fields()} for delivery, index in page]
    return {
        "grains": grains,
        "report": report.document(),
        "next_cursor": None if following is None else str(following),
    }


def supersede(service: Service, call: Call, asked: GivenGrain) -> dict[str, Any]:
    address, why = call.name("address"), asked.justification or None
    stored = service.grains.supersede(call.access, address, asked.given, justification=why)
    return {
        "address": stored.address,
        "result": stored.result,
        "needs_review": stored.needs_review,
        "warnings": list(stored.warnings),
    }


def verification(service: Service, call: Call, asked: VerificationRequest) -> dict[str, Any]:
    address = call.name("address")
    status = service.grains.set_verification(call.access, address, asked.status, reason=asked.reason, by=asked.by)
    return {"address": address, "verification_status": status}


def hold(service: Service, call: Call, asked: ReasonRequest) -> dict[str, Any]:
    return _set_hold(service, call, asked, held=True)


def release(service: Service, call: Call, asked: ReasonRequest) -> dict[str, Any]:
    return _set_hold(service, call, asked, held=False)


def _set_hold(service: Service, call: Call, asked: ReasonRequest, *, held: bool) -> dict[str, Any]:
    address = call.name("address")
    is_held = service.grains.set_hold(call.access, address, held=held, reason=asked.reason)
    return {"address": address, "held": is_held}


def erase(service: Service, call: Call, asked: ReasonRequest) -> dict[str, Any]:
    service.grains.erase(call.access, call.name("address"), reason=asked.reason)
    return {"result": "erased"}


def erase_user(service: Service, call: Call, asked: EraseUserRequest) -> dict[str, Any]:
    done = service.grains.erase_user(call.access, asked.user_id, reason=asked.reason, owner=asked.owner)
    return {"erased": done.erased, "held": done.held, "key_destroyed": done.key_destroyed}


def consents(service: Service, call: Call, asked: ConsentRequest) -> dict[str, Any]:
    address = service.grains.consent(
        call.access, subject=asked.subject_did, grantee=asked.grantee_did, scope=asked.scope
    )
    return {"address": address}


# --- the table -------------------------------------------------------------------------------------------

_BYTES: Final[dict[str, Any]] = {MEDIA_TYPE: {}, SIGNED_MEDIA_TYPE: {}}
_WHY: Final = {"reason": "asked for by the person"}
_row: Final = OMS.row

OPERATIONS: Final = (
    _row(
        "POST",
        "/oms/grains",
        "grain_put",
        "Add a grain: its fields, its canonical bytes, or its envelope (OMS §28.4)",
        put,
        "PutAnswer",
        reads=read_put,
        body="PutRequest",
        takes=_BYTES,
        example=EXAMPLE_GRAIN,
        parameters=(in_query("owner", NAME, "Whose, for a credential that reaches several; by default its own."),),
    ),
    _row(
        "GET",
        "/oms/grains/{address}",
        "grain_get",
        "One grain by its address: as JSON, or the bytes it was written as",
        get,
        "GrainAnswer",
        GetRequest,
        gives=_BYTES,
    ),
    _row(
        "GET",
        "/oms/grains/{address}/leaving",
        "grain_leave",
        "One grain that is about to leave: refused if its consent or a rule of its owner keeps it here",
        leave,
        "GrainAnswer",
        GetRequest,
        gives=_BYTES,
    ),
    _row(
        "GET",
        "/oms/export",
        "grain_export",
        "Every grain that may leave, as it travels, page by page, in the order written",
        export,
        "GrainExportAnswer",
        ExportRequest,
        {"namespace": "kitchen"},
    ),
    _row(
        "GET",
        "/oms/grains",
        "grain_list",
        "Grains by structure, in the order written, or by words, best first (OMS §28)",
        find,
        "FindAnswer",
        OwnedFindRequest,
        {"subject": "ada", "relation": "prefers", "namespace": "kitchen", "type": "belief", "limit": 10},
    ),
    _row(
        "POST",
        "/oms/grains/search",
        "grain_search",
        "The same, asked in JSON",
        find,
        "FindAnswer",
        OwnedFindRequest,
        {"text": "tea", "namespace": "kitchen", "limit": 5},
    ),
    _row(
        "POST",
        "/oms/grains/{address}/verification",
        "grain_verification",
        "Say what is known of a grain's truth; contesting and retracting ask its policy (OMS §23)",
        verification,
        "VerificationAnswer",
        VerificationRequest,
        {"status": "verified", "reason": "she said so"},
    ),
    _row(
        "PUT",
        "/oms/grains/{address}/hold",
        "grain_hold",
        "Put a legal hold on a grain: it cannot be superseded, contradicted or erased",
        hold,
        "HoldAnswer",
        ReasonRequest,
        {"reason": "matter 7"},
        in_query=("reason",),
    ),
    _row(
        "DELETE",
        "/oms/grains/{address}/hold",
        "grain_release",
        "Lift a legal hold",
        release,
        "HoldAnswer",
        ReasonRequest,
        _WHY,
    ),
    _row(
        "POST",
        "/oms/grains/{address}/supersede",
        "grain_supersede",
        "Replace a grain under its policy, in one atomic step (OMS §28.4)",
        supersede,
        "SupersedeAnswer",
        reads=read_supersede,
        body="SupersedeRequest",
        takes=_BYTES,
        example={
            "grain": {**EXAMPLE_GRAIN, "object": "black coffee", "created_at": 1768557600000},
            "justification": "she changed her mind",
        },
        parameters=(in_query("justification", TEXT, "Why, where the body is not wrapped."),),
    ),
    _row(
        "DELETE",
        "/oms/grains/{address}",
        "grain_erase",
        "Erase a grain for compliance; holds are honoured (OMS §28.4)",
        erase,
        "EraseAnswer",
        ReasonRequest,
        _WHY,
    ),
    _row(
        "POST",
        "/oms/users/erase",
        "user_erase",
        "Erase everything of a user, and destroy the user's key (OMS §20.3)",
        erase_user,
        "EraseUserAnswer",
        EraseUserRequest,
        {"user_id": "user-7", "reason": "asked for by the person"},
        in_query=("user_id", "reason", "owner"),
    ),
    _row(
        "GET",
        "/oms/consents",
        "consents",
        "The consent under which someone may act on what is a person's, now (OMS §8.10)",
        consents,
        "ConsentAnswer",
        ConsentRequest,
        {"subject_did": "did:example:ada", "grantee_did": "did:example:bob", "scope": "retrieve"},
    ),
)


def _index_headers(found: StoredGrain) -> tuple[wire.Header, ...]:
    index = found.index
    known = (
        ("x-oms-address", found.address),
        ("x-oms-superseded-by", index.superseded_by),
        ("x-oms-system-valid-to", index.system_valid_to),
        ("x-oms-verification-status", index.verification_status),
        ("vary", "accept"),
    )
    return tuple((name.encode(), str(value).encode("ascii")) for name, value in known if value is not None)


def _prefers_bytes(accept: str) -> bool:
    """Whether an Accept header asks for the grain as it travels; wire.JSON where it leaves both open."""
    best_bytes = best_json = 0.0
    for part in accept.split(","):
        name, quality = wire.bare(part), wire.quality(part)
        if name in GRAIN_TYPES:
            best_bytes = max(best_bytes, quality)
        elif name in (wire.JSON, "application/*", "*/*"):
            best_json = max(best_json, quality)
    return best_bytes > best_json or (best_bytes == best_json > 0 and wire.JSON not in accept.lower())
