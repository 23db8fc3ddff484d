"""The routes of OAMS: five operations as REST, and reading one memory (section 3).

The body of a memory's answer is the memory and nothing else; its version is in `ETag`, and what was odd about it in
`X-OAMS-Warning`. The same operations as JSON-RPC are in `oams_rpc`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import oams_wire, wire
from memoranda.bindings.http.request import Answer, Request
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.json_text import MAX_DEPTH, dump
from memoranda.errors import CrossNamespace, InvalidInput, Unauthorized
from memoranda.service.core.access import Access
from memoranda.service.oams.memories import Shown, Stored
from memoranda.service.service import Service
from memoranda.standards.oams.requests import (
    MAX_NAMESPACES,
    BatchRequest,
    ForgetRequest,
    ListRequest,
    RecallRequest,
    StoreRequest,
)

# Capability tokens of the owners of all namespaces of a query, separated by commas (section 4).
CONSENT_HEADER: Final = b"x-oams-consent"
WARNING_HEADER: Final = b"x-oams-warning"
# A memory may have thousands of fields that nobody knows; headers have less room.
WARNINGS_LIMIT, WARNING_CHARS_LIMIT = 8, 200
# Parsed, each is several times as large as it was on the way.
LARGE_BODIES_LIMIT: Final = 4
# What stands around a memory in a batch: the request and its array.
BATCH_DEPTH: Final = MAX_DEPTH + 2


class Bodies:
    """Room for bodies. Small ones come in at once; of large ones a few, so that they fit in memory."""

    def __init__(self, max_body_bytes: int) -> None:
        self.small_bytes = max_body_bytes
        self._large = asyncio.Semaphore(LARGE_BODIES_LIMIT)

    @asynccontextmanager
    async def room(self, scope: Scope) -> AsyncIterator[None]:
        """Wait until the body of a request may be read and worked on."""
        stated = wire.header(scope, b"content-length") or ""
        if stated.isdecimal() and int(stated[:20]) <= self.small_bytes:
            yield
        else:
            async with self._large:
                yield


# --- the operations, as both bindings call them -------------------------------------------------------------


def store(service: Service, access: Access, request: StoreRequest, *, if_none_match: object = None) -> Answer:
    """STORE. `if_none_match` is `*` where there must be no such memory yet."""
    if if_none_match not in (None, "*"):
        raise InvalidInput("if_none_match must be *")
    is_new = if_none_match is not None
    stored = service.oams.store(access, request.memory, if_match=request.if_match, if_absent=is_new)
    headers = (*_version(stored), *_warnings(stored))
    return Answer(result=stored.memory, status=201 if stored.result == "created" else 200, headers=headers)


def batch_store(service: Service, access: Access, params: object) -> Answer:
    """BATCH_STORE."""
    request = BatchRequest.parse(params)
    stored = service.oams.batch_store(access, [memory for memory, _ in request.memories])
    return Answer(result=[each.memory for each in stored])


def recall(service: Service, access: Access, params: object, *, shown: Sequence[str]) -> Answer:
    """RECALL. `shown`: consents that came in the header; more may stand among the parameters."""
    given: list[Any] = list(shown)
    if isinstance(params, dict) and "consents" in params:
        beside = params["consents"]
        if not isinstance(beside, list):
            raise InvalidInput("consents must be an array of capability tokens")
        given += beside
        params = {name: value for name, value in params.items() if name != "consents"}
    request = RecallRequest.parse(params)
    return Answer(result=service.oams.recall(access, request, consents=_consents(service, given)))


def list_memories(service: Service, access: Access, request: ListRequest) -> Answer:
    """LIST."""
    page = service.oams.list_memories(access, request)
    return Answer(result={"memories": page.memories, "next_cursor": page.next_cursor})


def get(service: Service, access: Access, request: ForgetRequest) -> Answer:
    """One memory by its key; an operation that OAMS lets us add."""
    found = service.oams.get(access, request.namespace, request.key)
    return Answer(result=found.memory, headers=_version(found))


def forget(service: Service, access: Access, request: ForgetRequest) -> Answer:
    """FORGET."""
    service.oams.forget(access, request.namespace, request.key, if_match=request.if_match)
    return Answer(status=204)


def _consents(service: Service, tokens: Sequence[Any]) -> list[Access]:
    if len(tokens) > MAX_NAMESPACES:
        raise InvalidInput(f"there may be at most {MAX_NAMESPACES} consents")
    found = []
    for number, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InvalidInput(f"consents[{number}] must be a string")
        if not token.startswith("umpcap."):
            # An API key tells what its bearer may do, not what an owner agreed to.
            raise CrossNamespace(f"consents[{number}] is no capability token")
        try:
            found.append(service.gate.authenticate(token))
        except Unauthorized as error:
            raise CrossNamespace(f"consents[{number}] does not hold: {error.message}") from None
    return found


def _version(shown: Shown) -> tuple[wire.Header, ...]:
    return ((b"etag", f'"{shown.etag}"'.encode("ascii")),)


def _warnings(stored: Stored) -> tuple[wire.Header, ...]:
    said = list(stored.warnings[:WARNINGS_LIMIT])
    if more := len(stored.warnings) - len(said):
        said.append(f"and {more} more")
    return tuple((WARNING_HEADER, _printable(text)) for text in said)


def _printable(text: str) -> bytes:
    shown = "".join(char if char.isprintable() else " " for char in text[:WARNING_CHARS_LIMIT])
    return shown.encode("ascii", "backslashreplace")


# --- REST --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Request):
    """A request for an operation, as REST says it."""

    def target(self) -> ForgetRequest:
        """The memory that the path names, and which version of it is meant."""
        fields = {"namespace": self.name("namespace"), "key": self.name("key")}
        return ForgetRequest.parse({**fields, "if_match": self.header(b"if-match")})

    def only_path(self) -> None:
        if self.scope["query_string"]:
            raise InvalidInput("nothing can be asked for in the query here")


Verb = Callable[[Service, Asked], Answer]


def put_memory(service: Service, asked: Asked) -> Answer:
    asked.only_path()
    request = StoreRequest.parse_body(
        asked.name("namespace"), asked.name("key"), asked.json(), if_match=asked.header(b"if-match")
    )
    return store(service, asked.access, request, if_none_match=asked.header(b"if-none-match"))


def get_memory(service: Service, asked: Asked) -> Answer:
    asked.only_path()
    return get(service, asked.access, asked.target())


def delete_memory(service: Service, asked: Asked) -> Answer:
    asked.only_path()
    return forget(service, asked.access, asked.target())


def get_memories(service: Service, asked: Asked) -> Answer:
    request = ListRequest.parse_query(asked.name("namespace"), wire.query_pairs(asked.scope))
    return list_memories(service, asked.access, request)


def post_batch(service: Service, asked: Asked) -> Answer:
    asked.only_path()
    return batch_store(service, asked.access, asked.json(max_depth=BATCH_DEPTH))


def post_recall(service: Service, asked: Asked) -> Answer:
    asked.only_path()
    return recall(service, asked.access, asked.json(), shown=consents_in_header(asked.scope))


def consents_in_header(scope: Scope) -> list[str]:
    """The capability tokens in X-OAMS-Consent, which may be given more than once."""
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == CONSENT_HEADER]
    return [token for line in lines for part in line.split(",") if (token := part.strip())]


# All methods of a path together, so that a wrong one is answered with those that there are.
PLAIN_PATHS: Final[Mapping[str, Mapping[str, Verb]]] = {
    "/v1/oams/memories/batch": {"POST": post_batch},
    "/v1/oams/recall": {"POST": post_recall},
}
MEMORY_PATHS: Final[Mapping[str, Mapping[str, Verb]]] = {
    "/v1/oams/memories/{namespace}": {"GET": get_memories},
    "/v1/oams/memories/{namespace}/{key}": {"GET": get_memory, "PUT": put_memory, "DELETE": delete_memory},
}


class OamsRoute:
    """ASGI endpoint: read the request, and in one thread parse, call and render."""

    def __init__(self, verbs: Mapping[str, Verb], *, service: Service, threads: Threads, bodies: Bodies) -> None:
        self._verbs = verbs
        self._service = service
        self._threads = threads
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("POST", "PUT"):
            async with self._bodies.room(scope):
                answer, body = await self._threads.run(self._work, scope, await wire.read_body(receive))
        else:
            answer, body = await self._threads.run(self._work, scope, b"")
        await send_answer(send, answer.status, body, answer.headers)

    def _work(self, scope: Scope, raw: bytes) -> tuple[Answer, bytes]:
        limit = oams_wire.body_limit(scope, self._bodies.small_bytes)
        verb = self._verbs.get(scope["method"]) or self._verbs["GET"]
        answer = verb(self._service, Asked(scope=scope, raw=raw, max_body_bytes=limit))
        return answer, b"" if answer.status == 204 else dump(answer.result)


async def send_answer(send: Send, status: int, body: bytes, headers: Sequence[wire.Header]) -> None:
    if status == 204:
        # RFC 9110 8.6: no Content-Length where there can be no content.
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": b""})
    else:
        await wire.send_bytes(send, status, body, headers)
