"""The routes of CAL (section 26): a query as text or as JSON in, its envelope out.

    text/cal                the query; `namespace`, `user` and the like stand in the URL
    application/json+cal    the JSON form of the query, or the object below
    application/json        {"query": text or JSON form, "params", "cursor", "namespace", "user", "owner", "agent"}

Nothing is approved here: what appends is prepared, looked at, and executed. Streams are in `cal_stream`.
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
from memoranda.service.cal.cal import Given
from memoranda.service.service import Service
from memoranda.standards.cal.answers import ANSWERS
from memoranda.standards.cal.grammar import prompt_card
from memoranda.standards.cal.problem import error_envelope, http_status
from memoranda.standards.cal.requests import PagedQuery, Query

PLAIN: Final = "text/plain; charset=utf-8"
# On whose behalf, and where: never part of the query itself.
CALLER_FIELDS: Final = ("namespace", "user", "owner", "agent")
TOKEN_HEADER: Final = b"x-cal-token"


# --- errors ------------------------------------------------------------------------------------------------


def malformed(error: InvalidInput) -> MemorandaError:
    """What a request that cannot be read is in CAL's words (section 22)."""
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
    """An error as section 22 prints it; what is not about the query itself, in UMP's words."""
    told = malformed(error) if isinstance(error, TooLarge) else error
    if isinstance(told, QueryError):
        return http_status(told.cal_code), error_envelope(told)
    return ump.refuse(told, path)


CAL: Final = Standard(
    name="cal",
    prefixes=("/cal",),
    refuse=refuse,
    no_route=ump.no_route,
    malformed=malformed,
    responses="cal",
    schemas="Cal",
    errors={
        "400": "Not a query that can be run; `position` says where, `suggestion` what to write instead",
        "401": "No credential, or one that does not hold",
        "403": "A credential or a token that does not reach this far, or changes that are not enabled (CAL-E044, E045)",
        "404": "No such grain, template or stream",
        "409": "Something else is there already, or cannot be changed (CAL-E040, E041, E042, E088)",
        "429": "Too often, or too many streams at once (then with Retry-After)",
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
class ParsedQuery:
    """A query that is asked, and what was said beside it."""

    query: Given
    params: dict[str, Any] | None
    cursor: str | None
    strict: bool
    caller_fields: dict[str, Any]


def query_parser(shape: type[Query]) -> Callable[[HttpCall], ParsedQuery]:
    """How the query and what stands beside it are read, from the body and the URL; each once, and each known."""

    def read(call: HttpCall) -> ParsedQuery:
        given, beside = _split_body(call)
        url: dict[str, Any] = wire.parse_query(call.scope)
        if twice := sorted(set(beside) & set(url)):
            raise InvalidInput(f"{twice[0][:40]!a} is given both in the URL and in the body")
        asked = shape.parse(
            {**_flags(url), **beside, "query": "" if isinstance(given, bytes) else given}
        )
        whose = {name: getattr(asked, name) for name in CALLER_FIELDS}
        return ParsedQuery(
            query=given if isinstance(given, bytes) else asked.query,
            params=None if asked.params is UNSET else asked.params,
            cursor=asked.cursor if isinstance(asked, PagedQuery) else None,
            strict=asked.strict,
            # A capability token of CAL, which narrows the credential.
            caller_fields={**whose, "token": call.header(TOKEN_HEADER)},
        )

    return read


def _flags(url: dict[str, Any]) -> dict[str, Any]:
    """In a URL everything is text."""
    return (
        {**url, "strict": {"true": True, "false": False}.get(url["strict"], url["strict"])}
        if "strict" in url
        else url
    )


def _split_body(call: HttpCall) -> tuple[Any, dict[str, Any]]:
    if call.media_type == TEXT:
        return call.raw, {}
    if call.media_type not in (wire.JSON, JSON_FORM):
        raise InvalidInput(f"content-type must be {TEXT}, {JSON_FORM} or {wire.JSON}")
    body = parse(call.raw, max_bytes=call.max_body_bytes) if call.raw else {}
    if not isinstance(body, dict):
        raise InvalidInput("the body must be an object")
    # Every JSON form has a statement, also one that has a query inside.
    if call.media_type == JSON_FORM and ("statement" in body or "query" not in body):
        return body, {}
    return body.get("query"), {name: value for name, value in body.items() if name != "query"}


# --- the verbs ---------------------------------------------------------------------------------------------


def run(service: Service, call: HttpCall, wanted: ParsedQuery) -> HttpAnswer:
    how: dict[str, Any] = {
        "params": wanted.params,
        "cursor": wanted.cursor,
        "strict": wanted.strict,
    }
    found = service.cal.run(call.access, wanted.query, **how, **wanted.caller_fields)
    # Section 15: without a preference, the answer has the form of the request.
    own = JSON_FORM if call.media_type == JSON_FORM else wire.JSON
    media_type = wire.prefer_media_type(
        call.header(b"accept") or "*/*", tuple(dict.fromkeys((own, wire.JSON, JSON_FORM)))
    )
    return HttpAnswer(body=dump(found), media_type=media_type, headers=((b"vary", b"accept"),))


def check(service: Service, _call: HttpCall, wanted: ParsedQuery) -> Mapping[str, Any]:
    return service.cal.check(wanted.query, params=wanted.params, strict=wanted.strict)


def prepare(service: Service, call: HttpCall, wanted: ParsedQuery) -> dict[str, Any]:
    how: dict[str, Any] = {"params": wanted.params, "strict": wanted.strict}
    return service.cal.prepare(call.access, wanted.query, **how, **wanted.caller_fields)


def card(_service: Service, _call: HttpCall, _asked: None) -> HttpAnswer:
    return HttpAnswer(body=prompt_card().encode("utf-8"), media_type=PLAIN)


def capabilities(service: Service, call: HttpCall, _asked: None) -> dict[str, Any]:
    described: dict[str, Any] = service.cal.run(call.access, "DESCRIBE capabilities")["description"]
    return described


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
        "The language on one card, for a model's prompt (CAL §27)",
        card,
        "",
        gives={"text/plain": {"schema": STRING}},
    ),
    _row(
        "GET",
        "/cal/capabilities",
        "cal_capabilities",
        "What of CAL there is here: DESCRIBE capabilities (CAL §24)",
        capabilities,
        "CalCapabilities",
    ),
)
