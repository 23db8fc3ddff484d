"""The OpenAPI 3.1 document of the HTTP binding. Tests run its examples and compare it with the routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from memoranda.bindings.http.schemas import NAME, SCHEMAS, Schema, one_of, ref
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


def _in_query(name: str, schema: Schema, description: str, example: object = None) -> dict[str, Any]:
    parameter = {"name": name, "in": "query", "schema": schema, "description": description}
    return parameter if example is None else {**parameter, "example": example}


_SUBSCRIBE_PARAMETERS: Final = (
    _in_query("owner", NAME, "Whose memories; by default the credential's own.", EXAMPLE_OWNER),
    _in_query("project", NAME, "Only of this project.", "p"),
    *(_in_query(name, NAME, f"Only of this {name}.") for name in ("agent", "user", "session")),
    _in_query("visibility", one_of(VISIBILITIES), "Only of this visibility."),
    _in_query("after", {"type": "integer", "minimum": 0}, "Go on after the event with this id."),
    {
        "name": "Last-Event-ID",
        "in": "header",
        "schema": {"type": "integer", "minimum": 0},
        "description": "The same; what a browser's EventSource sends by itself.",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    method: str
    path: str
    name: str
    summary: str
    answer: str
    asks: str | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[Mapping[str, Any], ...] = ()
    is_public: bool = False


OPERATIONS: Final = (
    _Operation(
        method="get",
        path="/ump/capabilities",
        name="capabilities",
        summary="What this server speaks (UMP §3.1)",
        answer="Capabilities",
        is_public=True,
    ),
    _Operation(
        method="get",
        path="/.well-known/ump.json",
        name="manifest",
        summary="Discovery (UMP §4.3)",
        answer="Manifest",
        is_public=True,
    ),
    _Operation(
        method="post",
        path="/ump/remember",
        name="remember",
        summary="Write one memory (UMP §3.3)",
        asks="RememberRequest",
        example=_DRAFT,
        answer="RememberAnswer",
    ),
    _Operation(
        method="post",
        path="/ump/recall",
        name="recall",
        summary="The best memories for a query, with their signals (UMP §3.2)",
        asks="RecallRequest",
        example={**_RECALL, "filter": {"kind": ["procedural"]}, "limit": 5},
        answer="RecallAnswer",
    ),
    _Operation(
        method="post",
        path="/ump/rehydrate",
        name="rehydrate",
        summary="Recalled memories as one framed block for a model's context (UMP §5.3)",
        asks="RehydrateRequest",
        example={**_RECALL, "max_chars": 400, "budget_chars": 4000},
        answer="RehydrateAnswer",
    ),
    _Operation(
        method="get",
        path="/ump/memory/{id}",
        name="get",
        summary="One record by its id (UMP §3.4)",
        parameters=(_ID_IN_PATH,),
        answer="GetAnswer",
    ),
    _Operation(
        method="get",
        path="/ump/memory/{id}/history",
        name="history",
        summary="All versions of a memory, oldest first",
        parameters=(_ID_IN_PATH,),
        answer="HistoryAnswer",
    ),
    _Operation(
        method="post",
        path="/ump/feedback",
        name="feedback",
        summary="Say what became of a recalled memory (UMP §3.8)",
        asks="FeedbackRequest",
        example={"id": EXAMPLE_ID, "outcome": "followed", "session": "s-1"},
        answer="FeedbackAnswer",
    ),
    _Operation(
        method="post",
        path="/ump/revise",
        name="revise",
        summary="Write a successor (UMP §3.5)",
        asks="ReviseRequest",
        example={"id": EXAMPLE_ID, "patch": {"body": {"text": "run pnpm gate and the type check before handoff"}}},
        answer="ReviseAnswer",
    ),
    _Operation(
        method="post",
        path="/ump/forget",
        name="forget",
        summary="Tombstone a memory, or with hard erase it for good (UMP §3.6)",
        asks="ForgetRequest",
        example={"id": EXAMPLE_ID, "reason": "no longer true", "hard": False},
        answer="ForgetAnswer",
    ),
    _Operation(
        method="get",
        path="/ump/subscribe",
        name="subscribe",
        summary="Changes as server-sent events: created, merged, revised, tombstoned (UMP §3.8)",
        parameters=_SUBSCRIBE_PARAMETERS,
        answer="",
    ),
    _Operation(
        method="post",
        path="/ump/audit",
        name="audit",
        summary="The last audit events that match, oldest first",
        asks="AuditRequest",
        example={"owner": EXAMPLE_OWNER, "op": ["remember", "recall"], "limit": 20},
        answer="AuditAnswer",
    ),
    _Operation(
        method="get",
        path="/ump/audit/verify",
        name="audit_verify",
        summary="Whether the audit chain is whole",
        parameters=(_in_query("owner", NAME, "Whose chain; by default the credential's own.", EXAMPLE_OWNER),),
        answer="AuditVerifyAnswer",
    ),
    _Operation(
        method="get",
        path="/healthz",
        name="alive",
        summary="Whether the process is alive",
        answer="Health",
        is_public=True,
    ),
    _Operation(
        method="get",
        path="/readyz",
        name="ready",
        summary="Whether the store answers",
        answer="Health",
        is_public=True,
    ),
    _Operation(
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
    "403": "A credential, Host or Origin that does not reach this far",
    "404": "Nothing there, or nothing you may see",
    "503": "The store cannot be used right now",
}


def document(*, server_version: str) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Memoranda",
            "version": server_version,
            "summary": "The memory of AI agents over UMP, the Universal Memory Protocol.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key (mk_…) or a UMP capability token (umpcap.…).",
                }
            },
            "responses": {code: _json(text, "Error") for code, text in _ERRORS.items()},
        },
    }


def _describe(operation: _Operation) -> dict[str, Any]:
    success = _json("Success", operation.answer) if operation.answer else _EVENTS
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {"200": success, **{code: {"$ref": f"#/components/responses/{code}"} for code in _ERRORS}},
    }
    if operation.parameters:
        described["parameters"] = list(operation.parameters)
    if operation.asks is not None:
        content = {"schema": ref(operation.asks), "example": operation.example}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    if operation.is_public:
        described["security"] = []
    return described


def _json(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": ref(schema)}}}


_EVENTS: Final = {
    "description": "A stream without end. Each event's data is {type, id, record}; its id is its place in the feed.",
    "content": {
        "text/event-stream": {
            "schema": {"type": "string"},
            "example": f'id: 7\nevent: created\ndata: {{"type":"created","id":"{EXAMPLE_ID}","record":{{}}}}\n\n',
        }
    },
}
