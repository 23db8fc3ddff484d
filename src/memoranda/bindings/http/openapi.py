"""The OpenAPI 3.1 document of the HTTP binding. Tests run its examples and compare it with the routes."""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.cal_openapi import CAL_ERRORS, CAL_OPERATIONS, CAL_SCHEMAS
from memoranda.bindings.http.oams_openapi import OAMS_ERRORS, OAMS_OPERATIONS, OAMS_SCHEMAS
from memoranda.bindings.http.oms_openapi import OMS_OPERATIONS, OMS_SCHEMAS
from memoranda.bindings.http.openwop_openapi import (
    SEAM_OPERATIONS,
    WOP_ERRORS,
    WOP_OPERATIONS,
    WOP_SCHEMAS,
)
from memoranda.bindings.http.operation import Operation, in_query
from memoranda.bindings.http.schemas import NAME, SCHEMAS, one_of, ref
from memoranda.standards.ump.record import VISIBILITIES

EXAMPLE_ID: Final = "urn:ump:brli3hjr63twg6fgm2xyttwxprk4my7wfzbwcax5lfpy2drzkcpq"
EXAMPLE_OWNER: Final = "did:key:z6MkvDqGT54cXesYGvABpF1UapVNwjCqRcafi4Px6Thv5T3Z"

_DRAFT: Final = {
    "kind": "procedural",
    "body": {"text": "run pnpm gate before handoff"},
    "scope": {"owner": EXAMPLE_OWNER, "project": "p", "visibility": "private"},
    "provenance": {"actor": EXAMPLE_OWNER, "actor_kind": "user", "method": "user_correction"},
}
_RECALL: Final = {"query": "gate handoff", "scope": {"owner": EXAMPLE_OWNER, "project": "p"}}
_ID_IN_PATH: Final = {"name": "id", "in": "path", "required": True, "schema": NAME, "example": EXAMPLE_ID}


_SUBSCRIBE_PARAMETERS: Final = (
    in_query("owner", NAME, "Whose memories; by default the credential's own.", EXAMPLE_OWNER),
    in_query("project", NAME, "Only of this project.", "p"),
    *(in_query(name, NAME, f"Only of this {name}.") for name in ("agent", "user", "session")),
    in_query("visibility", one_of(VISIBILITIES), "Only of this visibility."),
    in_query("after", {"type": "integer", "minimum": 0}, "Go on after the event with this id."),
    {
        "name": "Last-Event-ID",
        "in": "header",
        "schema": {"type": "integer", "minimum": 0},
        "description": "The same; what a browser's EventSource sends by itself.",
    },
)


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="get",
        path="/ump/capabilities",
        name="capabilities",
        summary="What this server speaks (UMP §3.1)",
        answer="Capabilities",
        is_public=True,
    ),
    Operation(
        method="get",
        path="/.well-known/ump.json",
        name="manifest",
        summary="Discovery (UMP §4.3)",
        answer="Manifest",
        is_public=True,
    ),
    Operation(
        method="post",
        path="/ump/remember",
        name="remember",
        summary="Write one memory (UMP §3.3)",
        asks="RememberRequest",
        example=_DRAFT,
        answer="RememberAnswer",
    ),
    Operation(
        method="post",
        path="/ump/recall",
        name="recall",
        summary="The best memories for a query, with their signals (UMP §3.2)",
        asks="RecallRequest",
        example={**_RECALL, "filter": {"kind": ["procedural"]}, "limit": 5},
        answer="RecallAnswer",
    ),
    Operation(
        method="post",
        path="/ump/rehydrate",
        name="rehydrate",
        summary="Recalled memories as one framed block for a model's context (UMP §5.3)",
        asks="RehydrateRequest",
        example={**_RECALL, "max_chars": 400, "budget_chars": 4000},
        answer="RehydrateAnswer",
    ),
    Operation(
        method="get",
        path="/ump/memory/{id}",
        name="get",
        summary="One record by its id (UMP §3.4)",
        parameters=(_ID_IN_PATH,),
        answer="GetAnswer",
    ),
    Operation(
        method="get",
        path="/ump/memory/{id}/history",
        name="history",
        summary="All versions of a memory, oldest first",
        parameters=(_ID_IN_PATH,),
        answer="HistoryAnswer",
    ),
    Operation(
        method="post",
        path="/ump/feedback",
        name="feedback",
        summary="Say what became of a recalled memory (UMP §3.8)",
        asks="FeedbackRequest",
        example={"id": EXAMPLE_ID, "outcome": "followed", "session": "s-1"},
        answer="FeedbackAnswer",
    ),
    Operation(
        method="post",
        path="/ump/revise",
        name="revise",
        summary="Write a successor (UMP §3.5)",
        asks="ReviseRequest",
        example={"id": EXAMPLE_ID, "patch": {"body": {"text": "run pnpm gate and the type check before handoff"}}},
        answer="ReviseAnswer",
    ),
    Operation(
        method="post",
        path="/ump/forget",
        name="forget",
        summary="Tombstone a memory, or with hard erase it for good (UMP §3.6)",
        asks="ForgetRequest",
        example={"id": EXAMPLE_ID, "reason": "no longer true", "hard": False},
        answer="ForgetAnswer",
    ),
    Operation(
        method="get",
        path="/ump/subscribe",
        name="subscribe",
        summary="Changes as server-sent events: created, merged, revised, tombstoned (UMP §3.8)",
        parameters=_SUBSCRIBE_PARAMETERS,
        answer="",
    ),
    Operation(
        method="post",
        path="/ump/audit",
        name="audit",
        summary="The last audit events that match, oldest first",
        asks="AuditRequest",
        example={"owner": EXAMPLE_OWNER, "op": ["remember", "recall"], "limit": 20},
        answer="AuditAnswer",
    ),
    Operation(
        method="get",
        path="/ump/audit/verify",
        name="audit_verify",
        summary="Whether the audit chain is whole",
        parameters=(in_query("owner", NAME, "Whose chain; by default the credential's own.", EXAMPLE_OWNER),),
        answer="AuditVerifyAnswer",
    ),
    *OMS_OPERATIONS,
    *CAL_OPERATIONS,
    *OAMS_OPERATIONS,
    *WOP_OPERATIONS,
    Operation(
        method="get",
        path="/healthz",
        name="alive",
        summary="Whether the process is alive",
        answer="Health",
        is_public=True,
    ),
    Operation(
        method="get",
        path="/readyz",
        name="ready",
        summary="Whether the store answers",
        answer="Health",
        is_public=True,
    ),
    Operation(
        method="get",
        path="/openapi.json",
        name="openapi",
        summary="This document",
        answer="OpenApi",
        is_public=True,
    ),
)

_ERRORS: Final = {
    "400": "Malformed, refused by the memory's consent, unsupported, or too fast (then with Retry-After)",
    "401": "No credential, or one that does not hold",
    "403": "A credential, Host or Origin that does not reach this far; or a grain protected by its policy or a hold",
    "404": "Nothing there, or nothing you may see",
    "503": "The store cannot be used right now",
}
# By the schema of an error: how its responses are called, what they are, and in which forms they come.
_ERRORS_OF: Final[dict[str, tuple[str, dict[str, str], tuple[str, ...]]]] = {
    "Error": ("", _ERRORS, ("Error",)),
    # What is not about the query itself is said in UMP's words here, too.
    "CalError": ("cal", CAL_ERRORS, ("CalError", "Error")),
    "OamsError": ("oams", OAMS_ERRORS, ("OamsError",)),
    "WopError": ("wop", WOP_ERRORS, ("WopError",)),
}


def document(*, server_version: str, seams: bool = False) -> dict[str, Any]:
    """The whole document; with `seams`, also what is served for conformance suites."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in (*OPERATIONS, *(SEAM_OPERATIONS if seams else ())):
        paths.setdefault(operation.path, {})[operation.method] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Memoranda",
            "version": server_version,
            "summary": "The memory of AI agents over UMP, OMS grains, CAL queries, OAMS and openwop.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {
            "schemas": {**SCHEMAS, **OMS_SCHEMAS, **CAL_SCHEMAS, **OAMS_SCHEMAS, **WOP_SCHEMAS},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key (mk_…) or a UMP capability token (umpcap.…).",
                }
            },
            "responses": {
                f"{prefix}{code}": _json(text, *schemas)
                for prefix, errors, schemas in _ERRORS_OF.values()
                for code, text in errors.items()
            },
        },
    }


def _describe(operation: Operation) -> dict[str, Any]:
    prefix, errors, _ = _ERRORS_OF[operation.errors]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            **{status: _success(operation, status) for status in operation.success},
            **{code: {"$ref": f"#/components/responses/{prefix}{code}"} for code in errors},
        },
    }
    if operation.parameters:
        described["parameters"] = list(operation.parameters)
    if operation.asks is not None:
        content = {"application/json": {"schema": ref(operation.asks), "example": operation.example}}
        more = {**_binary(operation.takes), **operation.also_takes}
        described["requestBody"] = {"required": True, "content": {**content, **more}}
    if operation.is_public:
        described["security"] = []
    return described


def _success(operation: Operation, status: str) -> dict[str, Any]:
    if status == "204":
        return {"description": "Success, and nothing to say"}
    more = {**_binary(operation.gives), **operation.also_gives}
    if not operation.answer:
        return {"description": "Success", "content": more} if more else _EVENTS
    success = _json("Success", operation.answer)
    if operation.headers:
        success["headers"] = dict(operation.headers)
    return {**success, "content": {**success["content"], **more}}


def _binary(media_types: tuple[str, ...]) -> dict[str, Any]:
    # OpenAPI 3.1: what is binary has no schema.
    return {media_type: {} for media_type in media_types}


def _json(description: str, *schemas: str) -> dict[str, Any]:
    found = ref(schemas[0]) if len(schemas) == 1 else {"anyOf": [ref(name) for name in schemas]}
    return {"description": description, "content": {"application/json": {"schema": found}}}


_EVENTS: Final[dict[str, Any]] = {
    "description": "A stream without end. Each event's data is {type, id, record}; its id is its place in the feed.",
    "content": {
        "text/event-stream": {
            "schema": {"type": "string"},
            "example": f'id: 7\nevent: created\ndata: {{"type":"created","id":"{EXAMPLE_ID}","record":{{}}}}\n\n',
        }
    },
}
