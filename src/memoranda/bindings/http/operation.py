"""A route: a row of the table of operations, its standard's form of errors, and the function that serves it.

Most rows are served by their verb alone. A function of its own is for what HTTP adds: bytes, headers, pages.

`Standard` collects what differs between standards as data, `Operation` is a row with its function. `ServedVerb` makes
functions for most rows superfluous: it computes once which argument of the verb comes from where (`plan_of`), then
calls the verb with them. If a new verb needs a special function, ask first if the row can say it instead (`fields`,
`conditions`, `under`, `missing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from starlette.types import Scope

from memoranda.bindings.http.call import HttpAnswer, HttpCall, Serve
from memoranda.bindings.http.limits import with_scan_slot
from memoranda.bindings.http.wire import read_header
from memoranda.bindings.operations.row import CallPlan, Row, plan_of
from memoranda.encoding.shapes import Schema, Shape, fields_of, schema
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.service import Service

Parse = Callable[[HttpCall], object]
# Status and body of a refusal.
Refusal = tuple[int, object]

PARAMETER: Final = re.compile(r"\{(\w+)\}")
WITHOUT_BODY: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """The properties that all routes of one standard share."""

    name: str
    # The beginnings of its paths.
    prefixes: tuple[str, ...]
    # Returns an error in the standard's own form; the path decides if the standard has several forms.
    refuse: Callable[[MemorandaError, str], Refusal]
    # Returns the refusal of an unknown path (404) or method (405).
    refuse_route: Callable[[int, str], Refusal]
    # Selects the version that a request asks for; it may change the path, and add headers to the answer.
    negotiate: Callable[[Scope], None] | None = None
    # In the OpenAPI document: the prefixes of the names of its responses and of its schemas.
    responses: str = ""
    schemas: str = ""
    # The meaning of each status of an error, and the forms of errors.
    errors: Mapping[str, str]
    error_schemas: tuple[str, ...]
    # Schemas of answers, by their names.
    answers: Mapping[str, Schema]
    documents: Mapping[str, type] = field(default_factory=dict)
    # Names in paths: schema, description and example.
    names: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    # Names in paths that include all further slashes.
    slash_names: frozenset[str] = frozenset()
    # Names in paths that count as empty if they cannot be decoded: nothing is found then, instead of an error.
    lenient: frozenset[str] = frozenset()
    # Largest body as a multiple of an ordinary one.
    body_factor: int = 1
    # Returns the standard's own error for a request that cannot be parsed.
    malformed_error: Callable[[InvalidInput], MemorandaError] = lambda error: error
    # A wrapper of calls that change something, called with (service, operation, call, act).
    idempotency: Callable[..., tuple[HttpAnswer, bytes]] | None = None
    # Headers that every call needs, by name: they select the version of the standard.
    selected_by: Mapping[str, str] = field(default_factory=dict)
    # Headers of calls that change something, as OpenAPI parameters.
    effect_headers: tuple[Mapping[str, object], ...] = ()

    def row(
        self,
        method: str,
        path: str,
        name: str,
        summary: str,
        serve: Serve | None,
        answer: str = "",
        asks: type[Shape] | None = None,
        **options: Any,
    ) -> Operation:
        """Return an operation that only HTTP has."""
        attributes: dict[str, Any] = {
            "name": name,
            "summary": summary,
            "serve": serve,
            "answer": answer,
            "asks": asks,
        }
        return Operation(standard=self, method=method, path=path, **attributes, **options)

    def operations(
        self,
        rows: Iterable[Row],
        *,
        serve: Mapping[str, Serve | None],
        parsers: Mapping[str, Parse] = MappingProxyType({}),
    ) -> tuple[Operation, ...]:
        """Return the operations of rows: served by their verbs, by functions of their own, or (None) by streams.

        `serve` maps names of rows to functions, or to None for streams. An unknown name is a programming error and
        fails at import.
        """
        table = {row.name: row for row in rows}
        assert {*serve, *parsers} <= table.keys(), "a function is for no row"
        operations = []
        for row in table.values():
            function = serve[row.name] if row.name in serve else ServedVerb(row, self)
            operation = Operation(
                **{field.name: getattr(row, field.name) for field in fields(Row)},
                standard=self,
                serve=_limit_scans(row, function),
                parser=parsers.get(row.name),
            )
            operations.append(operation)
        return tuple(operations)


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation(Row):
    """A row as it is served."""

    standard: Standard
    # None: served by a stream of this name.
    serve: Serve | None
    # The parser of a request that is more than the fields of `asks`.
    parser: Parse | None = None

    @property
    def has_body(self) -> bool:
        """True if requests have a body."""
        return self.method not in WITHOUT_BODY

    @cached_property
    def has_effect(self) -> bool:
        """True if the operation may change something."""
        return self.method not in ("GET", "HEAD")

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        """The names of the parameters in the path."""
        return tuple(PARAMETER.findall(self.path))

    @cached_property
    def query_fields(self) -> tuple[str, ...]:
        """Names of the fields that may stand in the query."""
        if self.asks is None:
            return ()
        in_query = tuple(name for name in fields_of(self.asks) if name not in self.path_names)
        return self.in_query if self.has_body and self.method != "DELETE" else in_query

    @cached_property
    def repeatable_fields(self) -> frozenset[str]:
        """Names that may occur more than once in the query: fields that are lists, or may be."""
        if self.asks is None or not self.query_fields:
            return frozenset()
        properties = schema(self.asks, nulls=False).get("properties", {})
        repeatable = []
        for name in self.query_fields:
            field_schema = properties.get(name, {})
            forms = (field_schema, *field_schema.get("anyOf", ()))
            if any(form.get("type") == "array" for form in forms):
                repeatable.append(name)
        return frozenset(repeatable)

    @cached_property
    def path_fields(self) -> tuple[str, ...]:
        """Names of the fields of the request that stand in the path."""
        if self.asks is None:
            return ()
        return tuple(set(self.path_names) & set(fields_of(self.asks)))


def _limit_scans(row: Row, serve: Serve | None) -> Serve | None:
    """Return the function of a row, with a scan slot around it if the row is a full scan."""
    return with_scan_slot(serve) if row.is_long and serve is not None else serve


class ServedVerb:
    """A verb as a route calls it: arguments from path, headers and request, and its result as an answer."""

    __slots__ = ("_plan", "_row", "_standard")

    def __init__(self, row: Row, standard: Standard) -> None:
        assert row.verb, f"{row.name} has neither a verb nor a function"
        self._row, self._standard = row, standard
        self._plan: CallPlan | None = None

    def __call__(self, service: Service, call: HttpCall, request: object) -> object:
        plan = self._plan
        if plan is None:
            # Built by the first call, because it loads the verbs of the standard.
            plan = self._plan = plan_of(self._row, self._row.asks)
        arguments = plan.arguments(request)
        for parameter, name in plan.path:
            if name in self._standard.lenient:
                arguments[parameter] = call.readable_path_name(name) or ""
            else:
                arguments[parameter] = call.path_name(name)
        for parameter, header in plan.headers:
            arguments[parameter] = call.header(header.lower().encode("ascii"))
        return self._row.perform(service, call.access, arguments)


class OperationTables:
    """All operations, and the standard of each path.

    Needed by the guard, before a route is found: which limits and which form of errors a path has, and if it is public.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        public: Collection[str] = (),
        open_folders: Collection[str] = (),
    ) -> None:
        """Take `public` paths, which need no credential, and `open_folders`, whose routes check their own."""
        self._open_folders = tuple(f"{folder}/" for folder in open_folders)
        public = (*public, *open_folders)
        self.public = frozenset(
            (*public, *(operation.path for operation in operations if operation.is_public))
        )
        paths = (*public, *(operation.path for operation in operations))
        # The first parts of all paths that exist.
        self._folders = frozenset(map(_first_part, paths))
        groups = {id(operation.standard): operation.standard for operation in operations}.values()
        by_prefix = ((prefix, group) for group in groups for prefix in group.prefixes)
        # Longest prefix first, because it is the most specific one.
        self._standards = sorted(by_prefix, key=lambda entry: -len(entry[0]))

    def is_folder(self, path: str) -> bool:
        """Return True for a path in an open folder, which limits the bodies it reads itself.

        Bodies under such a path may be large, and their route streams them.
        """
        return path.startswith(self._open_folders)

    def is_public(self, path: str) -> bool:
        """Return True if a path needs no credential here."""
        return path in self.public or path.startswith(self._open_folders)

    def standard_of(self, path: str) -> Standard:
        """Return the standard with the longest prefix of a path; the last one has all other paths."""
        fitting = (group for prefix, group in self._standards if path.startswith(prefix))
        return next(fitting, self._standards[-1][1])

    def standard_for(self, scope: Scope) -> Standard:
        """Return the standard of a request: that of its path, or of an unknown path the one that a header selects."""
        standard = self.standard_of(scope["path"])
        if _first_part(scope["path"]) in self._folders:
            return standard
        for _, group in self._standards:
            for name, value in group.selected_by.items():
                text = read_header(scope, name.lower().encode("ascii")) or ""
                if text.startswith(value):
                    return group
        return standard


def _first_part(path: str) -> str:
    """Return the first part of a path, also of one without a slash, such as the `*` of OPTIONS."""
    return path.removeprefix("/").partition("/")[0]
