"""The routes of CAL (section 26): a query as text or as JSON in, its envelope out.

    text/cal                the query; `namespace`, `user` and the like stand in the URL
    application/json+cal    the JSON form of the query, or the object below
    application/json        {"query": text or JSON form, "params", "cursor", "namespace", "user", "owner", "agent"}

A query that writes is prepared first, shown to a person, and then executed. Streams are in `cal_stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from memoranda.bindings.http import ump, wire
from memoranda.bindings.http.call import HttpAnswer, HttpCall
from memoranda.bindings.http.operation import Refusal, Standard
from memoranda.bindings.operations import cal as rows
from memoranda.bindings.operations.cal import JSON_FORM, TEXT
from memoranda.encoding.json_text import dump, parse
from memoranda.encoding.shapes import NAME
from memoranda.encoding.shapes import TEXT as STRING
from memoranda.errors import InvalidInput, MalformedJson, MemorandaError, QueryError, TooLarge
from memoranda.service.cal.execution import QueryInput
from memoranda.service.service import Service
from memoranda.standards.cal.answers import ANSWERS
from memoranda.standards.cal.grammar import prompt_card
from memoranda.standards.cal.problem import error_envelope, http_status
from memoranda.standards.cal.requests import PagedQuery, Query

PLAIN: Final = "text/plain; charset=utf-8"
# Fields that say for whom and where a query runs. They are never part of the query itself.
CALLER_FIELDS: Final = ("namespace", "user", "owner", "agent")
TOKEN_HEADER: Final = b"x-cal-token"


# --- errors ------------------------------------------------------------------------------------------------


def as_query_error(error: InvalidInput) -> MemorandaError:
    """Return the error of CAL (section 22) for a request that cannot be parsed."""
    if isinstance(error, QueryError):
        return error
    message = f"{error.message[:1].upper()}{error.message[1:]}."
    if isinstance(error, TooLarge):
        return QueryError(
            message,
            cal_code="CAL-E001",
            suggestion="Give long values as parameters, and fewer of them.",
        )
    if isinstance(error, MalformedJson):
        message = f"The body is {error.message}."
        if "not UTF-8" in message:
            return QueryError(message, cal_code="CAL-E070", suggestion="Send it as UTF-8.")
    suggestion = 'Send {"query": "RECALL beliefs"}, or the query as text/cal.'
    return QueryError(message, cal_code="CAL-E002", suggestion=suggestion)


def refuse(error: MemorandaError, path: str) -> Refusal:
    """Return an error in the form of section 22; an error that is not about the query, in the form of UMP."""
    error = as_query_error(error) if isinstance(error, TooLarge) else error
    if isinstance(error, QueryError):
        return http_status(error.cal_code), error_envelope(error)
    return ump.refuse(error, path)


CAL: Final = Standard(
    name="cal",
    prefixes=("/cal",),
    refuse=refuse,
    refuse_route=ump.refuse_route,
    malformed_error=as_query_error,
    responses="cal",
    schemas="Cal",
    errors={
        "400": "The query cannot be run; `position` says where the error is, `suggestion` what to write instead",
        "401": "No credential, or an invalid one",
        "403": "The credential or token does not allow this, or changes are not enabled (CAL-E044, E045)",
        "404": "No such grain, template or stream",
        "409": "Conflicts with something that exists, or that cannot be changed (CAL-E040, E041, E042, E088)",
        "429": "Too many requests, or too many streams at once (then with Retry-After)",
        "501": "Only ASSEMBLE can be streamed (CAL-E079)",
        "502": "Every source of an ASSEMBLE failed (CAL-E076)",
        "503": "The store cannot be used right now, or CAL is switched off (CAL-E000)",
        "504": "It took too long (CAL-E031, E075)",
    },
    error_schemas=("CalError", "Error"),
    answers=ANSWERS,
    names={
        "assembly_id": {"schema": NAME, "example": "asm_a1b2c3d4"},
        "name": {"schema": NAME, "example": "brief", "description": "The name of a template."},
    },
)


# --- queries in bodies -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CalRequest:
    """A query, and the options that came with it."""

    query: QueryInput
    params: dict[str, object] | None
    cursor: str | None
    strict: bool
    # The namespace, user, owner, agent and token that the query runs with.
    caller_fields: dict[str, Any]


def query_parser(shape: type[Query]) -> Callable[[HttpCall], CalRequest]:
    """Return the parser of a query and its options, which may stand in the body or in the URL, but not in both.

    Raises InvalidInput for an option that is given in both.
    """

    def parse_call(call: HttpCall) -> CalRequest:
        query, in_body = _split_body(call)
        in_url = wire.parse_query(call.scope)
        if repeated := sorted(set(in_body) & set(in_url)):
            raise InvalidInput(f"{repeated[0][:40]!a} is given both in the URL and in the body")
        # A query in bytes is decoded by the language; the shape checks only the options then.
        text = "" if isinstance(query, bytes) else query
        request = shape.parse({**_parse_flags(in_url), **in_body, "query": text})
        caller_fields = {name: getattr(request, name) for name in CALLER_FIELDS}
        return CalRequest(
            query=query if isinstance(query, bytes) else request.query,
            params=None if request.params is UNSET else request.params,
            cursor=request.cursor if isinstance(request, PagedQuery) else None,
            strict=request.strict,
            # A capability token of CAL narrows the credential.
            caller_fields={**caller_fields, "token": call.header(TOKEN_HEADER)},
        )

    return parse_call


def _parse_flags(in_url: Mapping[str, str]) -> dict[str, object]:
    """Return the fields of a URL with `strict` as a boolean; there it is text."""
    fields: dict[str, object] = dict(in_url)
    if in_url.get("strict") in ("true", "false"):
        fields["strict"] = in_url["strict"] == "true"
    return fields


def _split_body(call: HttpCall) -> tuple[object, dict[str, object]]:
    """Return the query in a body, and the other fields of the body. Raises InvalidInput."""
    if call.media_type == TEXT:
        return call.raw, {}
    if call.media_type not in (wire.JSON, JSON_FORM):
        raise InvalidInput(f"content-type must be {TEXT}, {JSON_FORM} or {wire.JSON}")
    body = parse(call.raw, max_bytes=call.max_body_bytes) if call.raw else {}
    if not isinstance(body, dict):
        raise InvalidInput("the body must be an object")
    # Every JSON form has a statement, even one with a query inside.
    if call.media_type == JSON_FORM and ("statement" in body or "query" not in body):
        return body, {}
    return body.get("query"), {name: value for name, value in body.items() if name != "query"}


# --- the verbs ---------------------------------------------------------------------------------------------


def run(service: Service, call: HttpCall, request: CalRequest) -> HttpAnswer:
    """Run a query, and return its answer in the media type that Accept prefers."""
    answer = service.cal.run(
        call.access,
        request.query,
        params=request.params,
        cursor=request.cursor,
        strict=request.strict,
        **request.caller_fields,
    )
    # Section 15: without a preference, the answer has the form of the request.
    own_type = JSON_FORM if call.media_type == JSON_FORM else wire.JSON
    media_type = wire.prefer_media_type(
        call.header(b"accept") or "*/*", tuple(dict.fromkeys((own_type, wire.JSON, JSON_FORM)))
    )
    return HttpAnswer(body=dump(answer), media_type=media_type, headers=((b"vary", b"accept"),))


def check(service: Service, _call: HttpCall, request: CalRequest) -> Mapping[str, object]:
    """Return whether a query is valid, and its first error."""
    return service.cal.check(request.query, params=request.params, strict=request.strict)


def prepare(service: Service, call: HttpCall, request: CalRequest) -> dict[str, object]:
    """Prepare a query, and return its side effects with the token that executes it."""
    return service.cal.prepare(
        call.access,
        request.query,
        params=request.params,
        strict=request.strict,
        **request.caller_fields,
    )


def card(_service: Service, _call: HttpCall, _request: None) -> HttpAnswer:
    """Return the language on one card, as text."""
    return HttpAnswer(body=prompt_card().encode("utf-8"), media_type=PLAIN)


def capabilities(service: Service, call: HttpCall, _request: None) -> dict[str, object]:
    """Return the capabilities as `DESCRIBE capabilities` does."""
    answer = service.cal.run(call.access, "DESCRIBE capabilities")
    description: dict[str, object] = answer["description"]
    return description


# --- the table ---------------------------------------------------------------------------------------------

_row: Final = CAL.row

OPERATIONS: Final = (
    *CAL.operations(
        rows.OPERATIONS,
        parsers={
            "cal": query_parser(PagedQuery),
            "cal_check": query_parser(Query),
            "cal_prepare": query_parser(Query),
        },
        serve={"cal": run, "cal_check": check, "cal_prepare": prepare, "cal_stream": None},
    ),
    _row(
        "DELETE",
        "/cal/stream/{assembly_id}",
        "cal_cancel",
        "Cancel a stream of the same credential; it ends with the event `cancelled` (CAL-E082)",
        None,
        "CalCancelAnswer",
    ),
    _row(
        "GET",
        "/cal/card",
        "cal_card",
        "Return the language on one card, for a model's prompt (CAL §27)",
        card,
        "",
        gives={"text/plain": {"schema": STRING}},
    ),
    _row(
        "GET",
        "/cal/capabilities",
        "cal_capabilities",
        "Return the supported parts of CAL: DESCRIBE capabilities (CAL §24)",
        capabilities,
        "CalCapabilities",
    ),
)
