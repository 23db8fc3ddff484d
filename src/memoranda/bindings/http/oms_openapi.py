"""The routes of OMS in the OpenAPI document: schemas, and examples that run."""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.operation import Operation, in_query
from memoranda.bindings.http.schemas import COUNT, FLAG, FRACTION, NAME, TEXT, Schema, closed, one_of, opened, ref, some
from memoranda.standards.oms.manifest import STATUSES
from memoranda.standards.oms.mapping import MEDIA_TYPE, SIGNED_MEDIA_TYPE
from memoranda.standards.oms.registry import BY_NAME
from memoranda.standards.oms.requests import DEFAULT_LIMIT, MAX_LIMIT, MAX_REASON_CHARS

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

_GRAIN_TYPES: Final = (MEDIA_TYPE, SIGNED_MEDIA_TYPE)
_ADDRESS: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256 of the grain."}
_MAYBE_ADDRESS: Final[Schema] = {**_ADDRESS, "type": ["string", "null"]}
_REASON: Final[Schema] = {"type": "string", "maxLength": MAX_REASON_CHARS}
_LIMIT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
_TYPE: Final[Schema] = {
    "anyOf": [one_of(tuple(BY_NAME)), {"type": "string", "pattern": "^0x[fF][0-9a-fA-F]$"}],
    "description": "A type of grain, or the byte of an application's own.",
}
_FIND: Final[dict[str, tuple[Schema, str, object]]] = {
    "subject": (NAME, "Exactly this subject.", "ada"),
    "relation": (NAME, "Exactly this relation.", "prefers"),
    "object": (NAME, "Exactly this object.", None),
    "namespace": (NAME, "Only in this namespace; `shared` is the one of grains that name none.", "kitchen"),
    "user_id": (NAME, "Only of this user.", None),
    "session_id": (NAME, "Only of this session.", None),
    "type": (_TYPE, "Only of this type.", "belief"),
    "text": (TEXT, "Words to look for, in grains of all types; answers come best first, on one page.", None),
    "current": ({**FLAG, "default": True}, "false: also what was superseded or forgotten.", None),
    "limit": (_LIMIT, "How many on a page.", 10),
    "cursor": (NAME, "`next_cursor` of the page before.", None),
}
_OWNER: Final = in_query("owner", NAME, "Whose, for a credential that reaches several; by default its own.")
_IN_PATH: Final = {"name": "address", "in": "path", "required": True, "schema": _ADDRESS, "example": EXAMPLE_ADDRESS}
_WHY: Final = in_query("reason", _REASON, "Why; kept in the audit log.", "asked for by the person")
_SHOWN: Final[dict[str, Schema]] = {
    "grain": ref("Grain"),
    "index": closed(
        "verification_status",
        superseded_by=_ADDRESS,
        system_valid_to=COUNT,
        verification_status=one_of(STATUSES),
    ),
    "held": FLAG,
    "needs_review": FLAG,
    "native": {**FLAG, "description": "false: written through another standard; this is its view."},
}
_RESULT: Final = closed(
    "content_address score matched_fields grain index held needs_review native",
    content_address=_ADDRESS,
    score=FRACTION,
    matched_fields=some(NAME),
    **_SHOWN,
)

OMS_SCHEMAS: Final[dict[str, Schema]] = {
    "Grain": {
        **opened("type", type=NAME, created_at={"type": ["integer", "string"]}, namespace=NAME),
        "description": "The fields of a memory grain under their full names (OMS §6, §8). Bytes are shown as base64.",
    },
    "PutRequest": {"anyOf": [ref("Grain"), closed("grain", grain=ref("Grain"))]},
    "PutAnswer": closed(
        "address result warnings", address=_ADDRESS, result=one_of(("created", "exists")), warnings=some(TEXT)
    ),
    "GrainAnswer": closed("address grain index held needs_review native", address=_ADDRESS, **_SHOWN),
    "FindRequest": closed(
        "", owner=NAME, **{name: {**schema, "description": text} for name, (schema, text, _) in _FIND.items()}
    ),
    "FindAnswer": closed(
        "results total next_cursor",
        results=some(_RESULT),
        total={"type": ["integer", "null"], "description": "null where it was not counted."},
        next_cursor={"type": ["string", "null"]},
    ),
    "SupersedeRequest": {"anyOf": [ref("Grain"), closed("grain", grain=ref("Grain"), justification=_REASON)]},
    "SupersedeAnswer": closed(
        "address result needs_review warnings",
        address=_ADDRESS,
        result={"const": "superseded"},
        needs_review=FLAG,
        warnings=some(TEXT),
    ),
    "VerificationRequest": closed(
        "status",
        status=one_of(STATUSES),
        reason=_REASON,
        by={**_MAYBE_ADDRESS, "description": "The grain that speaks against it."},
    ),
    "VerificationAnswer": closed("address verification_status", address=_ADDRESS, verification_status=one_of(STATUSES)),
    "HoldRequest": closed("", reason=_REASON),
    "HoldAnswer": closed("address held", address=_ADDRESS, held=FLAG),
    "EraseAnswer": closed("result", result={"const": "erased"}),
    "EraseUserRequest": closed("user_id reason", user_id=NAME, reason=_REASON, owner=NAME),
    "EraseUserAnswer": closed("erased held key_destroyed", erased=COUNT, held=COUNT, key_destroyed=FLAG),
    "ConsentAnswer": closed("address", address={**_MAYBE_ADDRESS, "description": "null: there is none."}),
}

OMS_OPERATIONS: Final = (
    Operation(
        method="post",
        path="/oms/grains",
        name="grain_put",
        summary="Add a grain: its fields, its canonical bytes, or its envelope (OMS §28.4)",
        parameters=(_OWNER,),
        asks="PutRequest",
        takes=_GRAIN_TYPES,
        example=EXAMPLE_GRAIN,
        answer="PutAnswer",
    ),
    Operation(
        method="get",
        path="/oms/grains/{address}",
        name="grain_get",
        summary="One grain by its address: as JSON, or the bytes it was written as",
        parameters=(_IN_PATH,),
        answer="GrainAnswer",
        gives=_GRAIN_TYPES,
    ),
    Operation(
        method="get",
        path="/oms/grains",
        name="grain_list",
        summary="Grains by structure, in the order written, or by words, best first (OMS §28)",
        parameters=(_OWNER, *(in_query(name, *described) for name, described in _FIND.items())),
        answer="FindAnswer",
    ),
    Operation(
        method="post",
        path="/oms/grains/search",
        name="grain_search",
        summary="The same, asked in JSON",
        asks="FindRequest",
        example={"text": "tea", "namespace": "kitchen", "limit": 5},
        answer="FindAnswer",
    ),
    Operation(
        method="post",
        path="/oms/grains/{address}/verification",
        name="grain_verification",
        summary="Say what is known of a grain's truth; contesting and retracting ask its policy (OMS §23)",
        parameters=(_IN_PATH,),
        asks="VerificationRequest",
        example={"status": "verified", "reason": "she said so"},
        answer="VerificationAnswer",
    ),
    Operation(
        method="put",
        path="/oms/grains/{address}/hold",
        name="grain_hold",
        summary="Put a legal hold on a grain: it cannot be superseded, contradicted or erased",
        parameters=(_IN_PATH,),
        asks="HoldRequest",
        example={"reason": "matter 7"},
        answer="HoldAnswer",
    ),
    Operation(
        method="delete",
        path="/oms/grains/{address}/hold",
        name="grain_release",
        summary="Lift a legal hold",
        parameters=(_IN_PATH, _WHY),
        answer="HoldAnswer",
    ),
    Operation(
        method="post",
        path="/oms/grains/{address}/supersede",
        name="grain_supersede",
        summary="Replace a grain under its policy, in one atomic step (OMS §28.4)",
        parameters=(_IN_PATH, in_query("justification", _REASON, "Why, where the body is not wrapped.")),
        asks="SupersedeRequest",
        takes=_GRAIN_TYPES,
        example={
            "grain": {**EXAMPLE_GRAIN, "object": "black coffee", "created_at": 1768557600000},
            "justification": "she changed her mind",
        },
        answer="SupersedeAnswer",
    ),
    Operation(
        method="delete",
        path="/oms/grains/{address}",
        name="grain_erase",
        summary="Erase a grain for compliance; holds are honoured (OMS §28.4)",
        parameters=(_IN_PATH, _WHY),
        answer="EraseAnswer",
    ),
    Operation(
        method="post",
        path="/oms/users/erase",
        name="user_erase",
        summary="Erase everything of a user, and destroy the user's key (OMS §20.3)",
        asks="EraseUserRequest",
        example={"user_id": "user-7", "reason": "asked for by the person"},
        answer="EraseUserAnswer",
    ),
    Operation(
        method="get",
        path="/oms/consents",
        name="consents",
        summary="The consent under which someone may act on what is a person's, now (OMS §8.10)",
        parameters=(
            in_query("subject_did", NAME, "Whose it is.", "did:example:ada"),
            in_query("grantee_did", NAME, "Who wants to.", "did:example:bob"),
            in_query("scope", {**NAME, "default": "retrieve"}, "What they want to do.", "retrieve"),
        ),
        answer="ConsentAnswer",
    ),
)
