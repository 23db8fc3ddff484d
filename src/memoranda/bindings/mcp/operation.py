"""A tool as it is listed, and the verb behind it.

A tool has two faces. The one of its standard has the name that the standard reserves, its whole input, and an answer
that programs read and verify. The plain one is made for a model: a name that every host accepts, few fields, no schema
of the answer, and an answer that is text. Tools without a plain face of their own have the standard's, plainly named.

Input schemas have no `anyOf` at their root, because model providers refuse it there. Output schemas describe the error
envelope too: some clients check `structuredContent` against them even when `isError` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types

from memoranda.bindings.operations.row import Plan, Row, plan_of
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

Arguments = dict[str, Any]
Answer = dict[str, Any]
# The service, who calls, and what is asked: the tool's shape, or what its own reader made of the arguments.
Call = Callable[[Service, Access, Any], Answer]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
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
    "message": described(TEXT, "What was wrong and where, after the code and a colon."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """The face of a tool that is made for a model."""

    description: str
    input_schema: Schema
    # Raises InvalidInput.
    reads: Callable[[Arguments], object] = lambda arguments: arguments
    # A text for the model, or an answer for a program that asked for one; None: called as the standard has it.
    call: Callable[[Service, Access, Any], str | Answer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A tool as it is listed, and its call."""

    tool: types.Tool
    # The reader of the arguments. Raises InvalidInput.
    reads: Callable[[Arguments], object]
    call: Call
    plain: Plain | None = None

    @property
    def plain_name(self) -> str:
        """A name that every host accepts: most refuse a dot, and with it the whole server."""
        return self.tool.name.replace(".", "_")


def operation(
    name: str,
    title: str,
    description: str,
    asks: type,
    output: Schema,
    call: Call,
    *,
    reads: Callable[[Arguments], object] | None = None,
    plain: Plain | None = None,
    **hints: bool,
) -> Operation:
    """Return a tool from the shape of its arguments and the schema of its answer."""
    return Operation(
        tool=types.Tool(
            name=name,
            title=title,
            description=description,
            input_schema={"$schema": DIALECT, "title": title, **schema(asks, nulls=False)},
            output_schema=output,
            annotations=types.ToolAnnotations(title=title, open_world_hint=False, **hints),
        ),
        reads=reads or (lambda arguments: parse_value(arguments, asks)),
        call=call,
        plain=plain,
    )


class RowCall:
    """A tool's call by the row of its verb: the arguments are the fields of the tool's shape."""

    def __init__(self, row: Row, asks: type[Shape]) -> None:
        self._row, self._asks = row, asks
        self._plan: Plan | None = None

    def __call__(self, service: Service, access: Access, request: Any) -> Answer:
        if (plan := self._plan) is None:
            # Made by the first call: the verbs of a standard are loaded when they are needed.
            plan = self._plan = plan_of(self._row, self._asks)
        answer: Answer = self._row.perform(service, access, plan.arguments(request))
        return answer


def brief(asks: type, *names: str) -> Schema:
    """Return the schema of a shape with these fields alone, for a reader who pays for every word."""
    whole = schema(asks, nulls=False)
    return {
        "type": "object",
        "properties": {name: whole["properties"][name] for name in names},
        "required": [name for name in names if name in whole.get("required", ())],
        "additionalProperties": False,
    }


def result(answer: Schema, **error: Schema) -> Schema:
    """Return the schema of an answer or an error, which has these parts besides code and message."""
    found: Schema = _inlined(answer)
    refused = described(
        closed_object("code message", **_ERROR, **error),
        "Instead of a result, when isError is set.",
    )
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": {**found["properties"], "error": refused},
        "oneOf": [{"required": found["required"]}, {"required": ["error"]}],
    }


def _inlined(value: Any) -> Any:
    """Return a complete schema, brief where it names another."""
    if isinstance(value, dict):
        if "$ref" in value:
            return _BRIEF[value["$ref"].rpartition("/")[2]]
        return {name: _inlined(inner) for name, inner in value.items()}
    return value
