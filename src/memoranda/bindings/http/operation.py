"""One operation as the OpenAPI document describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memoranda.bindings.http.schemas import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A route, in the words of its readers; tests run its example."""

    method: str
    path: str
    name: str
    summary: str
    # Names of schemas; an answer without one is not JSON.
    answer: str
    asks: str | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[Mapping[str, Any], ...] = ()
    is_public: bool = False
    # Media types of bodies and answers beside JSON: those of bytes, and those that are described.
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    also_takes: Mapping[str, Any] = field(default_factory=dict)
    also_gives: Mapping[str, Any] = field(default_factory=dict)
    # Statuses of success; 204 has no content.
    success: tuple[str, ...] = ("200",)
    headers: Mapping[str, Any] = field(default_factory=dict)
    # The schema of an error that is of the route's own standard.
    errors: str = "Error"


def in_query(name: str, schema: Schema, description: str, example: object = None) -> dict[str, Any]:
    parameter = {"name": name, "in": "query", "schema": schema, "description": description}
    return parameter if example is None else {**parameter, "example": example}
