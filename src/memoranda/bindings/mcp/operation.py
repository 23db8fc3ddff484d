"""A tool as it is listed, and the verb behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from memoranda.bindings.mcp.shapes import Schema
from memoranda.service.core.access import Access
from memoranda.service.service import Service

Arguments = dict[str, Any]
Answer = dict[str, Any]
Call = Callable[[Service, Access, Arguments], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is listed, and what is called."""

    tool: types.Tool
    call: Call


def operation(name: str, description: str, schemas: tuple[Schema, Schema], call: Call, **hints: bool) -> Operation:
    """A tool from its input and output schemas."""
    inputs, outputs = schemas
    return Operation(
        tool=types.Tool(
            name=name,
            title=inputs["title"],
            description=description,
            input_schema=inputs,
            output_schema=outputs,
            annotations=types.ToolAnnotations(title=inputs["title"], open_world_hint=False, **hints),
        ),
        call=call,
    )
