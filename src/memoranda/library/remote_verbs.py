"""The verbs of one standard over a server, built from the rows of the table of operations.

`RemoteVerbs` gives a subclass one method for each row: with the signature of the verb that the row names, sending its
arguments as the row says, and reading the answer by the verb's return type. A method in the body of a subclass is for
a verb that takes more: several pages, several requests, or bytes.

The verbs themselves, and with them the types of their results, are loaded when a method is first used.

How a call travels: arguments of the verb → `request_fields` (names of the request, JSON values) → path, query, headers
and body as the row says → answer → `read_result` by the return type of the verb. It is the mirror of `ServedVerb` and
uses the same rows, so both sides cannot disagree about names.

A subclass states `rows`, and `refused` for verbs that make no sense over a server, each with the reason.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_args, get_origin, get_type_hints
from urllib.parse import quote

from msgspec import Struct

from memoranda.bindings.operations.row import Row, function_of
from memoranda.encoding.json_text import is_unicode
from memoranda.encoding.shapes import to_json
from memoranda.errors import InvalidInput, NotFound, Unsupported
from memoranda.model.instant import format_instant

if TYPE_CHECKING:
    from memoranda.library.remote import Answer, ServerConnection

# Arguments of a verb as JSON, by the names of its parameters.
Arguments = Mapping[str, Any]
_NAME: Final = re.compile(r"\{(\w+)\}")
# The one name in paths whose slashes need no encoding: the path of a file.
_PATH_PARAMETER: Final = "path"


class RemoteVerbs:
    """The verbs of one standard over a server."""

    # Verbs that a server does not offer, and the reason.
    _refused: ClassVar[Mapping[str, str]]
    # The rows of each verb, and of each operation without one.
    _routes: ClassVar[dict[str, list[Row]]]

    def __init__(self, server: ServerConnection) -> None:
        self._server = server

    def __init_subclass__(
        cls, *, rows: Iterable[Row], refused: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init_subclass__()
        cls._refused, cls._routes = refused, {}
        for row in rows:
            cls._routes.setdefault(row.verb or row.name, []).append(row)
        for verb, routes in cls._routes.items():
            if routes[0].verb and verb not in vars(cls):
                setattr(cls, verb, RemoteVerb(verb, routes))

    def _answer(
        self,
        name: str,
        /,
        *,
        _body: object = None,
        _headers: Mapping[str, str] | None = None,
        **arguments: object,
    ) -> Answer:
        """Return the answer to a verb with these arguments, or to an operation without a verb.

        `_body` is sent as it is, with the arguments in the query; `_headers` are added to those of the row.

        For hand-written methods; the bound verbs do the same for themselves.
        """
        routes = self._routes[name]
        has_parameters = bool(routes[0].verb and arguments)
        parameters = parameters_of(routes[0]) if has_parameters else {}
        sent_arguments = {
            key: encode_argument(value, parameters.get(key))
            for key, value in arguments.items()
            if value is not None
        }
        return send(
            self._server,
            choose_route(routes, sent_arguments),
            sent_arguments,
            body=_body,
            headers=_headers,
        )

    def _document(self, name: str, /, **arguments: Any) -> Any:
        """Return the JSON document of the answer to a verb, or to an operation without a verb."""
        return self._answer(name, **arguments).document

    def __getattr__(self, name: str) -> Any:
        table = type(self).__name__.removeprefix("Remote").lower()
        if (reason := self._refused.get(name)) is None:
            raise AttributeError(f"{table} has no verb {name!r}")
        raise Unsupported(f"{table}.{name}: this memory is on a server, and {reason}")


class RemoteVerb:
    """One verb over a server, as a descriptor that builds the method when it is first used.

    A verb has several routes if an argument, such as the id of a run, is in the path of one and not of the other.
    """

    def __init__(self, name: str, routes: list[Row]) -> None:
        self._name, self._routes = name, routes

    def __get__(self, verbs: RemoteVerbs | None, owner: type) -> object:
        if verbs is None:
            return self
        bound = self._bind(verbs._server)
        # Stored in the object, where the next look-up finds it without this descriptor.
        vars(verbs)[self._name] = bound
        return bound

    def _bind(self, server: ServerConnection) -> Callable[..., object]:
        """Return the method: a function with the signature and the docstring of the verb."""
        function, _ = function_of(self._routes[0].table, self._name)
        parameters, kind = parameters_of(self._routes[0]), _result_type(function)
        signature = inspect.Signature(list(parameters.values()))
        variadic = [
            name
            for name, parameter in parameters.items()
            if parameter.kind is inspect.Parameter.VAR_KEYWORD
        ]

        def call(*args: object, **keywords: object) -> object:
            arguments = dict(signature.bind(*args, **keywords).arguments)
            for name in variadic:
                arguments |= arguments.pop(name, {})
            sent_arguments = {
                name: encode_argument(value, parameters.get(name))
                for name, value in arguments.items()
                if not _is_default(value, parameters.get(name))
            }
            return _call(server, choose_route(self._routes, sent_arguments), sent_arguments, kind)

        call.__name__, call.__doc__ = self._name, function.__doc__
        call.__dict__["__signature__"] = signature
        return call


def parameters_of(row: Row) -> dict[str, inspect.Parameter]:
    """Return the parameters of the verb of a row, by name."""
    return {parameter.name: parameter for parameter in function_of(row.table, row.verb)[1]}


def _result_type(function: Callable[..., object]) -> object:
    """Return the type of a verb's result.

    The hints are read from a copy of the function without parameters, whose types may exist only for type checkers.
    """
    assert isinstance(function, FunctionType)
    bare_function = FunctionType(function.__code__, function.__globals__)
    bare_function.__annotations__ = {"return": function.__annotations__["return"]}
    return get_type_hints(bare_function)["return"]


def _is_default(value: object, parameter: inspect.Parameter | None) -> bool:
    """Return True for an argument that need not be sent: the server has the same default."""
    return value is None or (parameter is not None and value == parameter.default)


def encode_argument(value: object, parameter: inspect.Parameter | None) -> object:
    """Return an argument in the JSON of a request."""
    is_instant = parameter is not None and str(parameter.annotation).startswith("Instant")
    return format_instant(value) if is_instant else to_json(value)


def choose_route(routes: list[Row], arguments: Arguments) -> Row:
    """Return the route whose path has the most parameters, all of them among the arguments.

    Example: an operation on a run has a route with the run's id in its path and one without.
    """
    if len(routes) == 1:
        return routes[0]
    fitting = [
        row
        for row in routes
        if request_fields(row, arguments).keys() >= set(_NAME.findall(row.path))
    ]
    return max(fitting or routes, key=lambda row: len(_NAME.findall(row.path)))


def request_fields(row: Row, arguments: Arguments) -> dict[str, object]:
    """Return the fields of the request, in path, query or body, that arguments of the verb become."""
    asks = row.asks
    encoded = (
        {}
        if asks is None
        else dict(zip(asks.__struct_fields__, asks.__struct_encode_fields__, strict=True))
    )
    fields: dict[str, object] = {}
    for parameter, value in arguments.items():
        if parameter == row.request and isinstance(value, dict):
            fields |= value
        elif parameter not in row.conditions and parameter != row.request:
            name = row.fields.get(parameter, parameter)
            fields[encoded.get(name, name)] = value
    return fields


def _call(server: ServerConnection, row: Row, arguments: Arguments, kind: object) -> object:
    """Call the verb of a row, and return its result."""
    try:
        answer = send(server, row, arguments)
    except NotFound:
        if not row.missing:
            raise
        return False if kind is bool else None
    if row.success[0] == 204:
        return True if row.missing else None
    return read_result(answer.document[row.under] if row.under else answer.document, kind)


def send(
    server: ServerConnection,
    row: Row,
    arguments: Arguments,
    *,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send the arguments of a verb as its row says: in the path, in headers, in the query or in the body.

    Raises InvalidInput for a text with a lone surrogate, which UTF-8 cannot hold.
    """
    fields = request_fields(row, arguments)

    def name_in_path(match: re.Match[str]) -> str:
        text = str(fields.pop(match[1]))
        if not is_unicode(text):
            raise InvalidInput(f"{match[1]} has a lone surrogate")
        return quote(text, safe="/" if match[1] == _PATH_PARAMETER else "")

    path = _NAME.sub(name_in_path, row.path)
    conditions = {
        header: arguments[name] for name, header in row.conditions.items() if name in arguments
    }
    conditions |= headers or {}
    if body is not None or row.method in ("GET", "DELETE"):
        return server.ask(row.method, path, body, query=encode_query(fields), headers=conditions)
    if row.request in arguments and not isinstance(arguments[row.request], dict):
        # Not an object: the server refuses it with the right error.
        return server.ask(row.method, path, arguments[row.request], headers=conditions)
    has_body = bool(fields or row.request or row.asks)
    return server.ask(row.method, path, fields if has_body else None, headers=conditions)


def encode_query(fields: Mapping[str, object]) -> dict[str, object]:
    """Return fields in the form of a query string, where flags are `true` and `false`."""
    flags = {
        name: "true" if value else "false"
        for name, value in fields.items()
        if isinstance(value, bool)
    }
    return {**fields, **flags}


def read_result(document: Any, kind: object) -> Any:
    """Return the result of a type from its JSON: by the type's own `of`, field by field, or unchanged.

    Types with a class method `of` read themselves; structures of plain fields are read field by field.
    """
    if kind is type(None):
        return None
    if get_origin(kind) is list:
        return [read_result(item, get_args(kind)[0]) for item in document]
    if not isinstance(kind, type) or not issubclass(kind, Struct):
        return document
    if (of := getattr(kind, "of", None)) is not None:
        return of(document)
    types = inspect.get_annotations(kind)
    return kind(
        **{
            name: tuple(value) if str(types[name]).startswith("tuple") else value
            for name, value in document.items()
        }
    )
