"""What one route is: a row of its standard's table, from which it is served and described."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from memoranda.bindings.http.call import Answer, Call
from memoranda.encoding.shapes import Schema, Shape, fields_of, schema
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.service import Service

# The service, the request, and what it asks for: the shape of the operation, or what its own reader made of it.
Verb = Callable[[Service, Call, Any], object]
# Status and body of a refusal.
Refusal = tuple[int, object]

PARAMETER: Final = re.compile(r"\{(\w+)\}")
WITHOUT_BODY: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """What the routes of one standard share."""

    name: str
    # What the paths begin with.
    prefixes: tuple[str, ...]
    # An error in the standard's own words; the path tells, where one standard has several ways to say it.
    refuse: Callable[[MemorandaError, str], Refusal]
    # 404 for no path, 405 for a path without that method.
    no_route: Callable[[int, str], Refusal]
    # In the OpenAPI document: the names of responses begin with this, those of shapes with that.
    responses: str = ""
    schemas: str = ""
    # What each status of an error means, and the forms it comes in.
    errors: Mapping[str, str]
    error_schemas: tuple[str, ...]
    # Answers, by their names.
    answers: Mapping[str, Schema]
    documents: Mapping[str, type] = field(default_factory=dict)
    # Names in paths: schema, description and example.
    names: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Names in paths that take the slashes that are left.
    rest: frozenset[str] = frozenset()
    # How many times as large as an ordinary one a body may be.
    body_factor: int = 1
    # What a request that cannot be read is in the standard's own words.
    malformed: Callable[[InvalidInput], MemorandaError] = lambda error: error
    # How what changes something is done, given (service, operation, call, act); None: it is just done.
    once: Callable[..., tuple[Answer, bytes]] | None = None
    # Headers of whatever changes something, as OpenAPI parameters.
    effect_headers: tuple[Mapping[str, Any], ...] = ()

    def row(
        self,
        method: str,
        path: str,
        name: str,
        summary: str,
        verb: Verb | None,
        answer: str,
        asks: type[Shape] | None = None,
        example: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Operation:
        """One row of this standard's table."""
        return Operation(
            method=method,
            path=path,
            name=name,
            summary=summary,
            verb=verb,
            answer=answer,
            asks=asks,
            example=example or {},
            standard=self,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A route, in the words of its readers; tests run its example."""

    method: str
    path: str
    name: str
    summary: str
    standard: Standard
    # None: served by a stream of this name.
    verb: Verb | None
    # The name of its answer's schema; an answer without one is not JSON.
    answer: str = ""
    # Fields in the path, the query and the body together. None: nothing can be said.
    asks: type[Shape] | None = None
    # Fields that may stand in the query although there is a body; without a body all may.
    in_query: tuple[str, ...] = ()
    # Where the body is not the fields: how it is read, and what it is (schema by name).
    reads: Callable[[Call], object] | None = None
    body: str = ""
    example: Mapping[str, Any] = field(default_factory=dict)
    # OpenAPI parameters that are no fields: headers, and what an own reader takes.
    parameters: tuple[Mapping[str, Any], ...] = ()
    is_public: bool = False
    # Answered on the event loop: it waits for nothing.
    is_quick: bool = False
    # Media types of bodies and answers beside JSON; of bytes the description is empty.
    takes: Mapping[str, Any] = field(default_factory=dict)
    gives: Mapping[str, Any] = field(default_factory=dict)
    # Of these media types it is answered by the stream of its name, if they are preferred.
    streams: tuple[str, ...] = ()
    # Statuses of success, the usual one first; 204 has no content.
    success: tuple[int, ...] = (200,)
    headers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_body(self) -> bool:
        return self.method not in WITHOUT_BODY

    @cached_property
    def has_effect(self) -> bool:
        return self.method not in ("GET", "HEAD")

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        return tuple(PARAMETER.findall(self.path))

    @cached_property
    def query_fields(self) -> tuple[str, ...]:
        """What may stand in the query."""
        if self.asks is None:
            return ()
        mine = tuple(name for name in fields_of(self.asks) if name not in self.path_names)
        return self.in_query if self.has_body and self.method != "DELETE" else mine

    @cached_property
    def several(self) -> frozenset[str]:
        """What may be given more than once in the query: what is a list, or may be one."""
        if self.asks is None or not self.query_fields:
            return frozenset()
        known = schema(self.asks, nulls=False).get("properties", {})
        forms = {name: [known[name], *known[name].get("anyOf", ())] for name in self.query_fields if name in known}
        return frozenset(name for name, found in forms.items() if any(each.get("type") == "array" for each in found))

    @cached_property
    def path_fields(self) -> tuple[str, ...]:
        """What the path says of what is asked."""
        return () if self.asks is None else tuple(set(self.path_names) & set(fields_of(self.asks)))


def in_header(name: str, schema: Schema, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": schema, "description": description}


def in_query(name: str, schema: Schema, description: str, example: object = None) -> dict[str, Any]:
    parameter = {"name": name, "in": "query", "schema": schema, "description": description}
    return parameter if example is None else {**parameter, "example": example}


class Tables:
    """All operations, and which standard's words are spoken where."""

    def __init__(
        self, operations: Sequence[Operation], public: Collection[str] = (), open_folders: Collection[str] = ()
    ) -> None:
        """`public` are paths that need no credential; what lies in `open_folders` asks for its own."""
        self._open_folders = tuple(f"{folder}/" for folder in open_folders)
        public = (*public, *open_folders)
        self.public = frozenset((*public, *(operation.path for operation in operations if operation.is_public)))
        standards = {id(operation.standard): operation.standard for operation in operations}.values()
        mine = ((prefix, standard) for standard in standards for prefix in standard.prefixes)
        # The longest first: the narrower counts.
        self._standards = sorted(mine, key=lambda each: -len(each[0]))

    def is_folder(self, path: str) -> bool:
        """Whether it lies in an open folder, which bounds what it reads itself."""
        return path.startswith(self._open_folders)

    def is_public(self, path: str) -> bool:
        return path in self.public or path.startswith(self._open_folders)

    def standard_of(self, path: str) -> Standard:
        """The one whose prefix fits best; the last is everybody's."""
        fitting = (standard for prefix, standard in self._standards if path.startswith(prefix))
        return next(fitting, self._standards[-1][1])
