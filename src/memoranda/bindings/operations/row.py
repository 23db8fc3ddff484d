"""One row of the table of operations, and the plan by which its verb is called.

A row joins a verb of a standard's table (`Ump`, `Grains` …) to a method and a path. HTTP serves it, OpenAPI describes
it, the library over a server calls it, MCP tools answer by it, and the TypeScript client is generated from it. The
verb's signature says which parts of a request it takes, and its return type how an answer is read. A row states only
what cannot be derived: other names, and the key under which a result stands.

Rows load neither a server nor the verbs. `table_of` loads the verbs of a standard when the first of them is called.

Reading a row: `verb` names the function in the table of verbs, `request` the parameter that takes the complete request,
`fields` maps a parameter to another name in the request, `conditions` maps a parameter to a header, `under` is the key
of the answer under which the result stands, `missing` the message of a 404 for a result that is None or False, and
`done` the answer of a verb that returns nothing. All other attributes are for HTTP and OpenAPI.

Changing a row changes a public interface: run `make generate`, and add a line to the CHANGELOG.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct

from memoranda.encoding.shapes import Schema, Shape
from memoranda.errors import NotFound

if TYPE_CHECKING:
    from memoranda.service.core.access import Access
    from memoranda.service.service import Service

# The table of verbs of each standard: its module, its class, and its name in a service, which has UMP's as its own.
# Loading one takes longer than a request.
_TABLES: Final[Mapping[str, tuple[str, str, str]]] = {
    "ump": ("memoranda.service.ump.ump", "Ump", ""),
    "oams": ("memoranda.service.oams.oams", "Oams", "oams"),
    "oms": ("memoranda.service.oms.oms", "Grains", "grains"),
    "cal": ("memoranda.service.cal.cal", "Cal", "cal"),
    "openwop": ("memoranda.service.openwop.openwop", "Openwop", "openwop"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """One operation: a verb, its route, its request and its answer."""

    # The standard whose table has the verb.
    table: str = ""
    method: str
    path: str
    name: str
    summary: str
    # The name of the schema of the answer; an answer without one is not JSON.
    answer: str = ""
    # The fields of the path, the query and the body together. None: a request has none.
    asks: type[Shape] | None = None
    example: Mapping[str, object] = field(default_factory=dict)
    # The verb's name in the table of its standard. "": only HTTP has this operation.
    verb: str = ""
    # The parameter of the verb that takes the request as one value.
    request: str = ""
    # Parameters of the verb whose field or name in the path is called otherwise.
    fields: Mapping[str, str] = field(default_factory=dict)
    # Parameters of the verb that travel as headers.
    conditions: Mapping[str, str] = field(default_factory=dict)
    # The key of the answer that holds the result. "": the result is the answer.
    under: str = ""
    # The message of the 404 that is sent if the verb returns None or False.
    missing: str = ""
    # The answer of a verb that returns nothing.
    done: Mapping[str, object] | None = None
    # The verb reads everything an owner has, so few run at once.
    is_long: bool = False
    # Fields that may stand in the query although there is a body; without a body all may.
    in_query: tuple[str, ...] = ()
    # All fields but the query text and its parameters may stand in the URL, too.
    is_in_url: bool = False
    # The name of the schema of a body that is not the fields.
    body: str = ""
    # OpenAPI parameters that are no fields.
    parameters: tuple[Mapping[str, object], ...] = ()
    is_public: bool = False
    # Answered on the event loop: it waits for nothing.
    is_quick: bool = False
    # Media types of bodies and answers beside JSON; of bytes the description is empty.
    takes: Mapping[str, Any] = field(default_factory=dict)
    gives: Mapping[str, object] = field(default_factory=dict)
    # Media types of the answer that the stream of this name sends, if they are preferred.
    streams: tuple[str, ...] = ()
    # Statuses of success, the usual one first; 204 has no content.
    success: tuple[int, ...] = (200,)
    headers: Mapping[str, object] = field(default_factory=dict)

    def perform(self, service: Service, access: Access, arguments: Mapping[str, object]) -> Any:
        """Call the verb in an open service, and return the answer. Raises NotFound for a result that is missing.

        Used by MCP and by tests. Authorisation is in the table of verbs, not here.
        """
        name = _TABLES[self.table][2]
        verbs = getattr(service, name) if name else service
        result = getattr(verbs, self.verb)(access, **arguments)
        if self.missing and (result is None or result is False):
            raise NotFound(self.missing)
        if self.done is not None:
            return self.done
        document = as_document(result)
        return {self.under: document} if self.under else document


def row_constructor(standard: str) -> Callable[..., Row]:
    """Return the constructor of the rows of a standard: method, path, name, summary, answer, asks, example, …"""

    def row(
        method: str,
        path: str,
        name: str,
        summary: str,
        answer: str = "",
        asks: type[Shape] | None = None,
        example: Mapping[str, object] | None = None,
        **options: object,
    ) -> Row:
        fields: dict[str, Any] = {
            "name": name,
            "summary": summary,
            "answer": answer,
            "asks": asks,
            **options,
        }
        return Row(table=standard, method=method, path=path, example=example or {}, **fields)

    return row


@cache
def table_of(standard: str) -> object:
    """Return the class with the verbs of a standard."""
    module, name, _ = _TABLES[standard]
    return getattr(import_module(module), name)


def function_of(
    standard: str, verb: str
) -> tuple[Callable[..., object], tuple[inspect.Parameter, ...]]:
    """Return the function behind a verb, and the parameters that its callers give.

    The parameters exclude those that the table supplies (context and access).
    """
    entry = inspect.getattr_static(table_of(standard), verb)
    parameters = inspect.signature(entry.function).parameters.values()
    return entry.function, tuple(parameters)[entry.bound_count :]


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The source of each argument of a verb: a name in the path, a header, or an attribute of the request."""

    path: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    attributes: tuple[tuple[str, str], ...]
    request: str

    def arguments(self, request: object) -> dict[str, object]:
        """Return the arguments that a request holds, without those that it leaves open."""
        arguments: dict[str, object] = {self.request: request} if self.request else {}
        for parameter, attribute in self.attributes:
            value = getattr(request, attribute)
            if value is not UNSET:
                arguments[parameter] = value
        return arguments


def plan_of(row: Row, asks: type[Shape] | None) -> CallPlan:
    """Return the plan of a row whose requests have this shape; fields of the shape count before names in the path.

    Computed once per row, when it is first called, because it loads the verbs.
    """
    path, headers, attributes = [], [], []
    names = {part.partition("}")[0] for part in row.path.split("{")[1:]}
    for parameter in function_of(row.table, row.verb)[1]:
        name = row.fields.get(parameter.name, parameter.name)
        if parameter.name == row.request:
            continue
        if parameter.name in row.conditions:
            headers.append((parameter.name, row.conditions[parameter.name]))
        elif asks is not None and hasattr(asks, name):
            attributes.append((parameter.name, name))
        elif name in names:
            path.append((parameter.name, name))
        elif parameter.kind is parameter.VAR_KEYWORD and asks is not None:
            used_attributes = {attribute for _, attribute in attributes}
            attributes += [
                (name, name) for name in asks.__struct_fields__ if name not in used_attributes
            ]
    return CallPlan(tuple(path), tuple(headers), tuple(attributes), row.request)


def as_document(value: object) -> object:
    """Return a result of a verb as JSON: by its own `document`, else field by field.

    Structures may have a method `document` for another form than their fields.
    """
    if isinstance(value, list | tuple):
        return [as_document(item) for item in value]
    if isinstance(value, Struct):
        document = getattr(value, "document", None)
        if document is not None:
            return document()
        return {name: as_document(getattr(value, name)) for name in value.__struct_fields__}
    return value


def in_header(name: str, schema: Schema, description: str) -> dict[str, object]:
    """Return the OpenAPI parameter of a header."""
    return {"name": name, "in": "header", "schema": schema, "description": description}


def in_query(
    name: str, schema: Schema, description: str, example: object = None
) -> dict[str, object]:
    """Return the OpenAPI parameter of a name in the query."""
    parameter: dict[str, object] = {
        "name": name,
        "in": "query",
        "schema": schema,
        "description": description,
    }
    if example is not None:
        parameter["example"] = example
    return parameter


def find_row(rows: Iterable[Row], name: str) -> Row:
    """Return the row of an operation."""
    return next(row for row in rows if row.name == name)
