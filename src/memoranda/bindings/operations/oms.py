"""The operations of OMS on grains (section 28.4)."""

from __future__ import annotations

from typing import Final

from memoranda.bindings.operations.row import in_query, row_constructor
from memoranda.encoding.shapes import NAME, TEXT
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE
from memoranda.standards.oms.requests import (
    ConsentRequest,
    EraseRequest,
    EraseUserRequest,
    ExportRequest,
    GetRequest,
    OwnedFindRequest,
    ReasonRequest,
    VerificationRequest,
)

EXAMPLE_GRAIN: Final[dict[str, object]] = {
    "type": "belief",
    "subject": "ada",
    "relation": "prefers",
    "object": "green tea",
    "confidence": 0.9,
    "created_at": 1768471200000,
    "namespace": "kitchen",
}
EXAMPLE_ADDRESS: Final = "b2437eaf0fdcecab95465e29b834c5d01af584ba1edb620ab157993bc5c5fdb6"
_BYTES: Final[dict[str, object]] = {MEDIA_TYPE: {}, SIGNED_MEDIA_TYPE: {}}
_WHY: Final = {"reason": "asked for by the person"}

row: Final = row_constructor("oms")

OPERATIONS: Final = (
    row(
        "POST",
        "/oms/grains",
        "grain_put",
        "Add a grain: its fields, its canonical bytes, or its envelope (OMS §28.4)",
        "PutAnswer",
        verb="put",
        body="PutRequest",
        takes=_BYTES,
        example=EXAMPLE_GRAIN,
        parameters=(
            in_query(
                "owner",
                NAME,
                "The owner, for a credential with access to several; by default its own.",
            ),
        ),
    ),
    row(
        "GET",
        "/oms/grains/{address}",
        "grain_get",
        "Return one grain by its address: as JSON, or as the bytes that were written",
        "GrainAnswer",
        GetRequest,
        verb="get",
        gives=_BYTES,
    ),
    row(
        "GET",
        "/oms/grains/{address}/leaving",
        "grain_leave",
        "Return one grain for export; refused if its consent or a rule of its owner forbids that",
        "GrainAnswer",
        GetRequest,
        verb="release",
        gives=_BYTES,
    ),
    row(
        "GET",
        "/oms/export",
        "grain_export",
        "Export the grains that their consent allows, as bytes, page by page, in the order written",
        "GrainExportAnswer",
        ExportRequest,
        {"namespace": "kitchen"},
        verb="export_page",
        fields={"after": "cursor"},
    ),
    row(
        "GET",
        "/oms/grains",
        "grain_list",
        "Find grains by structure, in the order written, or by keywords, best first (OMS §28)",
        "FindAnswer",
        OwnedFindRequest,
        {
            "subject": "ada",
            "relation": "prefers",
            "namespace": "kitchen",
            "type": "belief",
            "limit": 10,
        },
        verb="",
    ),
    row(
        "POST",
        "/oms/grains/search",
        "grain_search",
        "Find grains, with the query as JSON",
        "FindAnswer",
        OwnedFindRequest,
        {"text": "tea", "namespace": "kitchen", "limit": 5},
        verb="find",
        request="request",
    ),
    row(
        "POST",
        "/oms/grains/{address}/verification",
        "grain_verification",
        "Set the verification status of a grain; contesting and retracting need its policy's consent (OMS §23)",
        "VerificationAnswer",
        VerificationRequest,
        {"status": "verified", "reason": "she said so"},
        verb="set_verification",
        under="verification_status",
    ),
    row(
        "PUT",
        "/oms/grains/{address}/hold",
        "grain_hold",
        "Put a legal hold on a grain: it cannot be superseded, contradicted or erased",
        "HoldAnswer",
        ReasonRequest,
        {"reason": "matter 7"},
        verb="",
        in_query=("reason",),
    ),
    row(
        "DELETE",
        "/oms/grains/{address}/hold",
        "grain_release",
        "Lift a legal hold",
        "HoldAnswer",
        ReasonRequest,
        _WHY,
        verb="",
    ),
    row(
        "POST",
        "/oms/grains/{address}/supersede",
        "grain_supersede",
        "Replace a grain as its policy allows, in one atomic step (OMS §28.4)",
        "SupersedeAnswer",
        verb="supersede",
        body="SupersedeRequest",
        takes=_BYTES,
        example={
            "grain": {**EXAMPLE_GRAIN, "object": "black coffee", "created_at": 1768557600000},
            "justification": "she changed her mind",
        },
        parameters=(
            in_query("justification", TEXT, "The justification, if the body is the grain itself."),
        ),
    ),
    row(
        "DELETE",
        "/oms/grains/{address}",
        "grain_erase",
        "Erase a memory, or one grain of it, for compliance; holds are honoured (OMS §28.4)",
        "EraseAnswer",
        EraseRequest,
        _WHY,
        verb="erase",
        done={"result": "erased"},
    ),
    row(
        "POST",
        "/oms/users/erase",
        "user_erase",
        "Erase everything of a user, and destroy the user's key (OMS §20.3)",
        "EraseUserAnswer",
        EraseUserRequest,
        {"user_id": "user-7", "reason": "asked for by the person"},
        verb="erase_user",
        fields={"user": "user_id"},
        in_query=("user_id", "reason", "owner"),
    ),
    row(
        "GET",
        "/oms/consents",
        "consents",
        "Return the consent that allows somebody to act on a person's memories now (OMS §8.10)",
        "ConsentAnswer",
        ConsentRequest,
        {"subject_did": "did:example:ada", "grantee_did": "did:example:bob", "scope": "retrieve"},
        verb="consent",
        fields={"subject": "subject_did", "grantee": "grantee_did"},
        under="address",
    ),
)
