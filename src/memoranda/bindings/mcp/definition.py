"""The definition of a tool: how it is listed, how its arguments are parsed, and the verb behind it.

A tool has two faces. The standard face has the name that its standard reserves, the complete input, and an answer that
programs parse and verify. The plain face is made for a model: a name that every host accepts, few fields, no schema of
the answer, and an answer that is text. A tool without a plain face shows the standard one under its plain name.

Input schemas have no `anyOf` at their root, because model providers refuse it there. Output schemas describe the error
envelope too: some clients check `structuredContent` against them even when `isError` is set.

The words of a tool are the interface to a model: a description says when to use the tool, what the fields mean, and
what an empty answer means, in as few words as possible. A change of words can change how agents behave, so try it with
a real agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types

from memoranda.bindings.operations.row import CallPlan, Row, plan_of
from memoranda.encoding.shapes import (
    TEXT,
    Schema,
    Shape,
    closed_object,
    described,
    parse_value,
    schema,
)
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.oams.answers import BRIEF_MEMORY
from memoranda.standards.oms.answers import BRIEF_GRAIN
from memoranda.standards.ump.answers import BRIEF_RECORD

Arguments = dict[str, object]
Answer = dict[str, Any]
# Takes the service, the caller and the parsed request: the tool's shape, or the result of its own parser.
ToolCall = Callable[[Service, Access, Any], Answer]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Short schemas that stand for references, by the name of the component.
_BRIEF: Final[Mapping[str, Schema]] = {
    "Record": BRIEF_RECORD,
    "Grain": BRIEF_GRAIN,
    "OamsMemory": BRIEF_MEMORY,
}
_ERROR: Final[dict[str, Schema]] = {
    "code": described(
        TEXT,
        "invalid_record, not_found, unauthorized, forbidden_scope, consent_violation, signature_invalid, unsupported, "
        "rate_limited, unavailable, corrupt or internal.",
    ),
    "message": described(TEXT, "The code, a colon, and the cause of the error."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFace:
    """The face of a tool that is made for a model."""

    description: str
    input_schema: Schema
    # Parses the arguments. Raises InvalidInput.
    parse: Callable[[Arguments], object] = lambda arguments: arguments
    # Returns a text for the model, or an answer if a program asked for one. None: the standard call is used.
    call: Callable[[Service, Access, Any], str | Answer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTool:
    """A tool as it is listed, its parser and its call."""

    tool: types.Tool
    # Parses the arguments. Raises InvalidInput.
    parse: Callable[[Arguments], object]
    call: ToolCall
    plain: PlainFace | None = None

    @property
    def plain_name(self) -> str:
        """The name without a dot. Most hosts refuse a dot, and then the whole server."""
        return self.tool.name.replace(".", "_")


def define_tool(
    name: str,
    title: str,
    description: str,
    shape: type,
    output: Schema,
    call: ToolCall,
    *,
    plain: PlainFace | None = None,
    **hints: bool,
) -> MemoryTool:
    """Return a tool whose arguments have this shape. `hints` are the annotations of MCP, such as `read_only_hint`.

    `shape` declares the arguments, `output` the schema of the standard face. Tools that do exactly what a row does use
    `RowCall` as their call.
    """
    return MemoryTool(
        tool=types.Tool(
            name=name,
            title=title,
            description=description,
            input_schema={"$schema": DIALECT, "title": title, **schema(shape, nulls=False)},
            output_schema=output,
            annotations=types.ToolAnnotations(title=title, open_world_hint=False, **hints),
        ),
        parse=lambda arguments: parse_value(arguments, shape),
        call=call,
        plain=plain,
    )


class RowCall:
    """The call of a tool that does exactly what a row of the operations does.

    The plan is made at the first call, because it loads the verbs.
    """

    def __init__(self, row: Row, shape: type[Shape]) -> None:
        self._row, self._shape = row, shape
        self._plan: CallPlan | None = None

    def __call__(self, service: Service, access: Access, request: object) -> Answer:
        plan = self._plan
        if plan is None:
            # Built by the first call, because it loads the verbs of the standard.
            plan = self._plan = plan_of(self._row, self._shape)
        answer: Answer = self._row.perform(service, access, plan.arguments(request))
        return answer


def brief_schema(shape: type, *names: str) -> Schema:
    """Return the schema of a shape with only these fields. A model pays for every word of it."""
    full = schema(shape, nulls=False)
    return {
        "type": "object",
        "properties": {name: full["properties"][name] for name in names},
        "required": [name for name in names if name in full.get("required", ())],
        "additionalProperties": False,
    }


def answer_schema(answer: Schema, **error: Schema) -> Schema:
    """Return the schema of "this answer or an error". `error` adds fields to the code and message of an error.

    References are replaced by short schemas, since the full ones would fill a model's context.
    """
    inlined: Schema = _inline_references(answer)
    refused = described(
        closed_object("code message", **_ERROR, **error),
        "Instead of a result, when isError is set.",
    )
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": {**inlined["properties"], "error": refused},
        "oneOf": [{"required": inlined["required"]}, {"required": ["error"]}],
    }


def _inline_references(value: object) -> Any:
    """Return a schema with each reference to a component replaced by the short schema of that component."""
    if isinstance(value, dict):
        if "$ref" in value:
            return _BRIEF[value["$ref"].rpartition("/")[2]]
        return {name: _inline_references(inner) for name, inner in value.items()}
    return value
