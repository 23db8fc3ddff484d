"""The OpenAPI 3.1 document, made from the same tables that are served. Tests run its examples.

Nothing is written by hand: a path, its parameters, bodies and examples come from the rows of the operations, and the
schemas from the structs of requests and the tables of answers. So a wrong document means a wrong row. Fields that are
in the path or the query are left out of the body, in the same way in which the server reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoranda.bindings.http.operation import Operation, Standard
from memoranda.bindings.operations.row import in_header, in_query
from memoranda.encoding.shapes import NAME, Schema, Shape, closed_object, ref, schema

# A part of the OpenAPI document, as JSON.
Document = dict[str, Any]

# Characters of a text in a URL: several such texts, percent-encoded, fit into the head of a request.
URL_TEXT_CHARS: Final = 1024


def build_document(operations: Sequence[Operation], *, server_version: str) -> Document:
    """Return the OpenAPI document of some operations."""
    paths: dict[str, Document] = {}
    schemas: dict[str, Schema] = {}
    responses: Document = {}
    groups = {id(operation.standard): operation.standard for operation in operations}
    for group in groups.values():
        schemas |= {name: schema(kind) for name, kind in group.documents.items()}
        schemas |= group.answers
        responses |= {
            f"{group.responses}{code}": _json_response(text, *group.error_schemas)
            for code, text in group.errors.items()
        }
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation_entry(operation)
        if (
            operation.has_body
            and operation.asks is not None
            and not operation.body
            and operation.method != "DELETE"
        ):
            schemas[body_schema_name(operation)] = _body_schema(operation, operation.asks)
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
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key (mk_…) or a UMP capability token (umpcap.…).",
                }
            },
            "responses": responses,
        },
    }


def body_schema_name(operation: Operation) -> str:
    """Return the name of the schema of a body; "" for none."""
    if operation.body or operation.asks is None:
        return operation.body
    return f"{operation.standard.schemas}{operation.asks.__name__.removesuffix('Request')}Request"


def operation_parameters(operation: Operation) -> list[Document]:
    """Return the parameters in the path, in the query and in headers."""
    described = {} if operation.asks is None else schema(operation.asks, nulls=False)
    properties, required = described.get("properties", {}), described.get("required", ())
    entries: list[Document] = []
    for name in operation.path_names:
        described_name = operation.standard.names.get(name, {})
        entries.append(
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": properties.get(name, {}),
                **described_name,
            }
        )
    declared_names = {parameter["name"] for parameter in operation.parameters}
    for name in operation.query_fields:
        if name in declared_names:
            continue
        inner = dict(properties[name])
        if inner.get("maxLength", 0) > URL_TEXT_CHARS:
            inner["maxLength"] = URL_TEXT_CHARS
        parameter = {
            "name": name,
            "in": "query",
            "schema": inner,
            "description": inner.pop("description", name),
        }
        if name in required:
            parameter["required"] = True
        if name in operation.example and name not in operation.in_query:
            parameter["example"] = operation.example[name]
        entries.append(parameter)
    headers: list[Mapping[str, object]] = [
        {**in_header(name, {"enum": [value]}, "Selects the version."), "required": True}
        for name, value in operation.standard.selected_by.items()
    ]
    if operation.has_effect:
        headers += operation.standard.effect_headers
    in_url = _url_parameters(properties) if operation.is_in_url else ()
    return [*entries, *map(dict, (*in_url, *operation.parameters, *headers))]


def _url_parameters(properties: Mapping[str, Schema]) -> list[Document]:
    """Return the parameters of a query that is sent as it is: all fields but the query text and its parameters."""
    in_url = (
        (name, field) for name, field in properties.items() if name not in ("query", "params")
    )
    return [in_query(name, NAME, field["description"]) for name, field in in_url]


def _body_schema(operation: Operation, asks: type[Shape]) -> Schema:
    """Return the schema of a body: all fields but those in the path."""
    body = schema(asks)
    names = operation.path_fields
    if names:
        body["properties"] = {
            name: inner for name, inner in body["properties"].items() if name not in names
        }
        body["required"] = [name for name in body.get("required", ()) if name not in names]
    return body


def _operation_entry(operation: Operation) -> Document:
    """Return the OpenAPI entry of an operation."""
    standard: Standard = operation.standard
    described: Document = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            **{str(status): _success_response(operation, status) for status in operation.success},
            **{
                code: {"$ref": f"#/components/responses/{standard.responses}{code}"}
                for code in standard.errors
            },
        },
    }
    if entries := operation_parameters(operation):
        described["parameters"] = entries
    if operation.has_body and operation.method != "DELETE":
        name = body_schema_name(operation)
        content: Document = {"schema": ref(name) if name else closed_object("")}
        if operation.example or name:
            content["example"] = dict(operation.example)
        described["requestBody"] = {
            "required": bool(name),
            "content": {"application/json": content, **operation.takes},
        }
    if operation.is_public:
        described["security"] = []
    return described


def _success_response(operation: Operation, status: int) -> Document:
    """Return the OpenAPI response for a status of success."""
    if status == 204:
        return {"description": "Success, without content"}
    if not operation.answer:
        return {"description": "Success", "content": dict(operation.gives)}
    success = _json_response("Success", operation.answer)
    if operation.headers:
        success["headers"] = dict(operation.headers)
    return {**success, "content": {**success["content"], **operation.gives}}


def _json_response(description: str, *schemas: str) -> Document:
    """Return a response with a JSON body of one of these schemas."""
    body = ref(schemas[0]) if len(schemas) == 1 else {"anyOf": [ref(name) for name in schemas]}
    return {"description": description, "content": {"application/json": {"schema": body}}}
