"""One kind of route for all standards: match the path as it was sent, receive, and in one thread read, call and render.

What differs between standards is data: rows of `Operation`, and their `Standard`. Errors are raised from here and put
into the standard's words by the guard.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import Answer, Call
from memoranda.bindings.http.operation import PARAMETER, Operation
from memoranda.bindings.http.threads import TURN_SECONDS, Threads
from memoranda.encoding.json_text import dump
from memoranda.encoding.shapes import check_field_names
from memoranda.errors import InvalidInput, RateLimited
from memoranda.service.core.access import Access
from memoranda.service.core.limits import FairShares
from memoranda.service.core.secret_screening import collect_notices
from memoranda.service.service import Service

# Parsed, each is several times as large as it was on the way.
LARGE_BODIES_LIMIT: Final = 4
# Of all bodies that are not small, as they were on the way.
BODIES_BYTES_LIMIT: Final = 64 * 1_048_576


class PathRoute(Route):
    """A route whose names are matched before anything is decoded."""

    def __init__(
        self, path: str, endpoint: ASGIApp, *, methods: Sequence[str], rest: Collection[str] = ()
    ) -> None:
        super().__init__(path, endpoint, methods=list(methods))
        self._whole = path.encode("ascii")
        self._pattern: re.Pattern[bytes] | None = None
        if "{" in path:
            escaped = re.escape(path).replace(r"\{", "{").replace(r"\}", "}")
            last = PARAMETER.findall(path)[-1]

            def pattern(found: re.Match[str]) -> str:
                # Where a slash shows that a name is meant, it may be empty, and is refused as a name.
                kind = ".*" if found[1] in rest else "[^/]+" if found[1] == last else "[^/]*"
                return f"(?P<{found[1]}>{kind})"

            self._pattern = re.compile(PARAMETER.sub(pattern, escaped).encode("ascii"), re.DOTALL)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        names: Mapping[str, bytes] = {}
        if self._pattern is None:
            if scope["raw_path"] != self._whole:
                return Match.NONE, {}
        elif (found := self._pattern.fullmatch(scope["raw_path"])) is not None:
            names = found.groupdict()
        else:
            return Match.NONE, {}
        is_whole = self.methods is None or scope["method"] in self.methods
        return Match.FULL if is_whole else Match.PARTIAL, {
            "endpoint": self.endpoint,
            "path_params": names,
        }


class Room:
    """Room for bodies. Small ones come in at once; of large ones as many as fit in memory, and of the largest a few.

    Where there is none left, whoever takes most of it loses the oldest that is still on its way.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self.max_body_bytes = max_body_bytes
        self._large = asyncio.Semaphore(LARGE_BODIES_LIMIT)
        self._held: FairShares[Callable[[], None]] = FairShares()
        self._coming: set[Callable[[], None]] = set()

    async def receive(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body of a request for which room was taken."""
        drop = scope["state"].get("drop")
        self._coming.add(drop)
        try:
            return await wire.read_body(receive)
        finally:
            self._coming.discard(drop)

    @asynccontextmanager
    async def taken(self, scope: Scope, limit: int) -> AsyncIterator[None]:
        """Wait until the body of a request may be read and worked on. Raises RateLimited where there is no room."""
        stated = wire.stated_length(scope)
        drop = scope["state"].get("drop")
        if drop is not None and not wire.is_small(scope):
            self._held.put(
                drop, scope["state"]["caller"].digest, limit if stated is None else stated
            )
            while self._held.total > BODIES_BYTES_LIMIT and (
                other := self._held.evict(self._coming.__contains__)
            ):
                other()
        try:
            if self._held.total > BODIES_BYTES_LIMIT:
                raise RateLimited(
                    "too many large bodies at once; try again", retry_after_seconds=1.0
                )
            if limit <= self.max_body_bytes or (
                stated is not None and stated <= self.max_body_bytes
            ):
                yield
            else:
                await self._wait_for_large()
                try:
                    yield
                finally:
                    self._large.release()
        finally:
            self._held.remove(drop)

    async def _wait_for_large(self) -> None:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._large.acquire()
        except TimeoutError:
            raise RateLimited(
                "too many of the largest bodies at once; try again", retry_after_seconds=1.0
            ) from None


class Endpoint:
    """ASGI endpoint of all operations of one path."""

    def __init__(
        self, operations: Iterable[Operation], *, service: Service, threads: Threads, room: Room
    ) -> None:
        self._operations = {operation.method: operation for operation in operations}
        self._service = service
        self._threads = threads
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operations.get(scope["method"]) or self._operations["GET"]
        name_request(scope, operation.standard.name, operation.name)
        if operation.is_quick:
            answer, body = self._answer(operation, Call(scope=scope, raw=b"", max_body_bytes=0))
        elif operation.has_body:
            limit = self._room.max_body_bytes * operation.standard.body_factor
            if not wire.is_small(scope):
                # Nobody unknown makes us hold a large body.
                await self._threads.run(authenticate, scope)
                wire.check_length(scope, limit)
            async with self._room.taken(scope, limit):
                raw = await self._room.receive(scope, receive)
                answer, body = await self._threads.run(self._work, operation, scope, raw, limit)
        else:
            answer, body = await self._threads.run(self._work, operation, scope, b"", 0)
        await _send(send, answer.status or operation.success[0], body, answer)

    def _work(
        self, operation: Operation, scope: Scope, raw: bytes, limit: int
    ) -> tuple[Answer, bytes]:
        if not operation.is_public:
            authenticate(scope)
        return self._answer(operation, Call(scope=scope, raw=raw, max_body_bytes=limit))

    def _answer(self, operation: Operation, call: Call) -> tuple[Answer, bytes]:
        try:
            asked = read(operation, call)
        except InvalidInput as error:
            raise operation.standard.malformed(error) from None
        if operation.standard.once is None or not operation.has_effect:
            return self._act(operation, call, asked)
        return operation.standard.once(
            self._service, operation, call, lambda: self._act(operation, call, asked)
        )

    def _act(self, operation: Operation, call: Call, asked: object) -> tuple[Answer, bytes]:
        assert operation.serve is not None
        with collect_notices() as noticed:
            given = operation.serve(self._service, call, asked)
        answer = given if isinstance(given, Answer) else Answer(result=given)
        if noticed.kinds:
            answer = replace(
                answer,
                headers=(*answer.headers, (b"x-memoranda-warning", str(noticed).encode("ascii"))),
            )
        if answer.body is not None:
            return answer, answer.body
        return answer, dump(answer.result)


class Stream:
    """ASGI endpoint of an operation that answers as it goes: the caller is known before it begins.

    One that has another answer, too, is a stream only where that is preferred.
    """

    def __init__(
        self, operation: Operation, app: ASGIApp, threads: Threads, *, instead_of: ASGIApp
    ) -> None:
        self._operation = operation
        self._app = app
        self._threads = threads
        self._otherwise = instead_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if streams := self._operation.streams:
            accepted = wire.header(scope, b"accept") or "*/*"
            if wire.preferred(accepted, (wire.JSON, *self._operation.gives)) not in streams:
                await self._otherwise(scope, receive, send)
                return
        name_request(scope, self._operation.standard.name, self._operation.name)
        await self._threads.run(authenticate, scope)
        await self._app(scope, receive, send)


def name_request(scope: Scope, standard: str, operation: str) -> None:
    """Say what a request turned out to be: the guard counts it under that name."""
    scope.setdefault("state", {})["operation"] = (standard, operation)


def authenticate(scope: Scope) -> None:
    """Find out what the credential may do; in a thread, since the store is asked. Raises Unauthorized."""
    access: Access = scope["state"]["caller"].authenticate()
    access.require_audience(scope["path"])
    scope["state"]["access"] = access


def read(operation: Operation, call: Call) -> object:
    """What is asked, wherever it stands. Raises InvalidInput."""
    if operation.reader is not None:
        return operation.reader(call)
    fields: dict[str, Any] = {
        name: texts if len(texts) > 1 else texts[0]
        for name, texts in wire.query_lists(call.scope, operation.several).items()
    }
    check_field_names(fields, operation.query_fields, "the query")
    body = call.object() if operation.has_body else {}
    if operation.asks is None:
        check_field_names(body, (), "the request")
        return None
    if twice := sorted(set(body) & set(fields)):
        raise InvalidInput(f"{twice[0][:40]!a} is given both in the query and in the body")
    for name in operation.path_fields:
        if name in body:
            raise InvalidInput(f"{name!a} stands in the path already")
        fields[name] = call.name(name)
    if body:
        return operation.asks.parse({**fields, **body})
    return operation.asks.parse_texts(fields)


async def _send(send: Send, status: int, body: bytes, answer: Answer) -> None:
    if status == 204:
        # RFC 9110 8.6: no Content-Length where there can be no content.
        await send(
            {"type": "http.response.start", "status": status, "headers": list(answer.headers)}
        )
        await send({"type": "http.response.body", "body": b""})
    else:
        await wire.send_bytes(send, status, body, answer.headers, media_type=answer.media_type)


def routes_of(
    operations: Sequence[Operation],
    *,
    service: Service,
    threads: Threads,
    room: Room,
    streams: Mapping[str, ASGIApp],
) -> list[Route]:
    """A route for each path, with all its methods, so that a wrong one is answered with those that there are."""
    by_path: dict[str, list[Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, []).append(operation)
    found = []
    for path, mine in by_path.items():
        methods = [operation.method for operation in mine]
        endpoint: ASGIApp = Endpoint(mine, service=service, threads=threads, room=room)
        if (app := streams.get(mine[0].name)) is not None:
            endpoint = Stream(mine[0], app, threads, instead_of=endpoint)
        found.append(PathRoute(path, endpoint, methods=methods, rest=mine[0].standard.rest))
    # What is written out comes before what a name could stand for.
    return sorted(found, key=lambda route: "{" in route.path)
