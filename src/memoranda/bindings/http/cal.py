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

from starlette.types import ASGIApp, Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput, MalformedJson, QueryError, TooLarge
from memoranda.service.cal.cal import Given
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.cal.grammar import prompt_card
from memoranda.standards.cal.problem import error_envelope, http_status
from memoranda.standards.oms.requests import name_of

JSON: Final = "application/json"
JSON_FORM: Final = "application/json+cal"
TEXT: Final = "text/cal"
EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"
PLAIN: Final = "text/plain; charset=utf-8"
# On whose behalf, and where: never part of the query itself.
WHOSE: Final = ("namespace", "user", "owner", "agent")
TOKEN_HEADER: Final = b"x-cal-token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A query that is asked, and what was said beside it."""

    given: Given
    params: dict[str, Any] | None
    cursor: str | None
    whose: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a verb of CAL."""

    access: Access
    # From the URL.
    fields: dict[str, str]
    raw: bytes
    media_type: str
    # A capability token of CAL, which narrows the credential.
    token: str | None
    max_body_bytes: int

    @classmethod
    def of(cls, scope: Scope, raw: bytes, max_body_bytes: int) -> Asked:
        """The request, of which the body is not read yet."""
        return cls(
            access=scope["state"]["access"],
            fields=wire.query(scope),
            raw=raw,
            media_type=_media_type(scope),
            token=wire.header(scope, TOKEN_HEADER),
            max_body_bytes=max_body_bytes,
        )

    def query(self, *more: str) -> Wanted:
        """The query in the body. `more` names what may be said beside it, other than on whose behalf it is asked."""
        if self.media_type == TEXT:
            given: Given = self.raw
            said = self._said({}, (*more, *WHOSE))
        else:
            body = self.json()
            # Every JSON form has a statement, also one that has a query inside.
            is_bare = self.media_type == JSON_FORM and ("statement" in body or "query" not in body)
            given = body if is_bare else _query(body)
            beside = {} if is_bare else {name: value for name, value in body.items() if name != "query"}
            said = self._said(beside, ("params", *more, *WHOSE))
        params, cursor = said.get("params"), said.get("cursor")
        if "params" in said and not isinstance(params, dict):
            raise malformed("params must be an object of names and values.")
        if "cursor" in said and not isinstance(cursor, str):
            raise malformed("cursor must be the next_cursor of the page before.")
        whose: dict[str, Any] = {name: name_of(said, name) for name in WHOSE} | {"token": self.token}
        return Wanted(given=given, params=params, cursor=cursor, whose=whose)

    def only(self, *known: str) -> dict[str, Any]:
        """What a request without a query says."""
        return self._said(self.json(), known)

    def json(self) -> dict[str, Any]:
        """The body as an object; an empty one is {}. Raises QueryError."""
        if self.media_type not in (JSON, JSON_FORM):
            raise InvalidInput(f"content-type must be {TEXT}, {JSON_FORM} or {JSON}")
        body = _parsed(self.raw, self.max_body_bytes) if self.raw else {}
        if not isinstance(body, dict):
            raise malformed("The body must be an object.")
        return body

    def _said(self, body: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
        """What stands in the URL and in the body; each once, and each known."""
        if twice := sorted(set(body) & set(self.fields)):
            raise malformed(f"{twice[0][:40]!a} is given both in the URL and in the body.")
        said = {**self.fields, **body}
        if unknown := [name for name in said if name not in known]:
            there = f"there are {', '.join(known)}" if known else "there are none"
            raise malformed(f"Unknown member {unknown[0][:40]!a}; {there}.")
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent, and as what."""

    body: bytes
    media_type: str = JSON


Verb = Callable[[Service, Asked], Mapping[str, Any] | Answer]


class CalRoute:
    """ASGI endpoint: read the request, and in one thread parse, call and render."""

    def __init__(
        self, verb: Verb, *, service: Service, threads: Threads, max_body_bytes: int, streaming: ASGIApp | None = None
    ) -> None:
        self._verb = verb
        self._service = service
        self._threads = threads
        self._max_body_bytes = max_body_bytes
        # What answers instead when events are asked for.
        self._streaming = streaming

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        media_type = JSON
        if self._streaming is not None:
            # Section 15: without a preference, the answer has the form of the request.
            own = JSON_FORM if _media_type(scope) == JSON_FORM else JSON
            offered = tuple(dict.fromkeys((own, JSON, JSON_FORM, EVENTS, LINES)))
            media_type = wire.preferred(wire.header(scope, b"accept") or "*/*", offered)
            if media_type in (EVENTS, LINES):
                await self._streaming(scope, receive, send)
                return
        try:
            raw = await read_body(scope, receive, self._max_body_bytes)
            answer = await self._threads.run(self._work, scope, raw, media_type)
        except QueryError as error:
            await send_refusal(send, error)
            return
        headers = ((b"vary", b"accept"),) if self._streaming is not None else ()
        await wire.send_bytes(send, 200, answer.body, headers, media_type=answer.media_type)

    def _work(self, scope: Scope, raw: bytes, media_type: str) -> Answer:
        answer = self._verb(self._service, Asked.of(scope, raw, self._max_body_bytes))
        return answer if isinstance(answer, Answer) else Answer(body=dump(answer), media_type=media_type)


async def read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """The body of a request, if it has one. Raises CAL-E001."""
    if scope["method"] in ("GET", "HEAD", "DELETE"):
        return b""
    try:
        wire.check_length(scope, max_bytes)
        return await wire.read_body(receive)
    except TooLarge as error:
        raise _too_large(error) from None


async def send_refusal(send: Send, error: QueryError) -> None:
    """Answer with an error as section 22 prints it."""
    await wire.send_bytes(send, http_status(error.cal_code), dump(error_envelope(error)))


def malformed(message: str) -> QueryError:
    """CAL-E002 for the request around a query."""
    return QueryError(
        message, cal_code="CAL-E002", suggestion='Send {"query": "RECALL beliefs"}, or the query as text/cal.'
    )


def _media_type(scope: Scope) -> str:
    return wire.bare(wire.header(scope, b"content-type") or JSON)


def _query(body: Mapping[str, Any]) -> Given:
    given = body.get("query")
    if not isinstance(given, str | dict):
        raise malformed("query must be the text of a query, or its JSON form.")
    return given


def _parsed(raw: bytes, max_bytes: int) -> Any:
    try:
        raw.decode("utf-8")
        return parse(raw, max_bytes=max_bytes)
    except UnicodeDecodeError as error:
        message = f"The body is not UTF-8 at byte {error.start}."
        raise QueryError(message, cal_code="CAL-E070", suggestion="Send it as UTF-8.") from None
    except TooLarge as error:
        raise _too_large(error) from None
    except MalformedJson as error:
        raise malformed(f"The body is {error.message}.") from None


def _too_large(error: TooLarge) -> QueryError:
    message = f"{error.message[:1].upper()}{error.message[1:]}."
    return QueryError(message, cal_code="CAL-E001", suggestion="Give long values as parameters, and fewer of them.")


# --- the verbs -------------------------------------------------------------------------------------------


def run(service: Service, asked: Asked) -> dict[str, Any]:
    wanted = asked.query("cursor")
    return service.cal.run(asked.access, wanted.given, params=wanted.params, cursor=wanted.cursor, **wanted.whose)


def check(service: Service, asked: Asked) -> Mapping[str, Any]:
    wanted = asked.query()
    return service.cal.check(wanted.given, params=wanted.params)


def prepare(service: Service, asked: Asked) -> dict[str, Any]:
    wanted = asked.query()
    return service.cal.prepare(asked.access, wanted.given, params=wanted.params, **wanted.whose)


def execute(service: Service, asked: Asked) -> dict[str, Any]:
    token = asked.only("token").get("token")
    if not isinstance(token, str):
        raise malformed("token must be what /cal/prepare gave.")
    return service.cal.execute(asked.access, token)


def card(_: Service, asked: Asked) -> Answer:
    asked.only()
    return Answer(body=prompt_card().encode("utf-8"), media_type=PLAIN)


def capabilities(service: Service, asked: Asked) -> dict[str, Any]:
    asked.only()
    described: dict[str, Any] = service.cal.run(asked.access, "DESCRIBE capabilities")["description"]
    return described


VERBS: Final[tuple[tuple[str, str, Verb], ...]] = (
    ("POST", "/cal", run),
    ("POST", "/cal/check", check),
    ("POST", "/cal/prepare", prepare),
    ("POST", "/cal/execute", execute),
    ("GET", "/cal/card", card),
    ("GET", "/cal/capabilities", capabilities),
)
