"""The routes of all standards: match the path as sent, receive the body, then parse, call and render in a thread.

All that differs between standards is data: rows of `Operation`, and their `Standard`. Errors are raised here, and
written in the form of the standard by the guard.

Routes are looked up by the literal beginning of their path (`RouteTable`), instead of one being tried after the other.
A route is filed under its complete path or, where the path has parameters, under the part before the first one, up to a
slash. A request looks under its own path and under each of its folders: a handful of dictionary look-ups, and the one
or two routes they return decide by their own pattern. Order counts among those as it does in Starlette: the first that
takes path and method is served, else the first that takes the path answers that the method is wrong.

Steps of a request behind the guard: `RouteTable` finds the route; `OperationEndpoint` reserves memory and receives the
body; a thread authenticates, parses, calls the operation's function and renders; `_send` writes the answer. Everything
that may block happens in the thread, everything that waits for the client on the event loop.

To add a route, add a row (`bindings/operations/`), and a function in the module of its standard only if HTTP adds
something to the verb. Do not read headers or bodies anywhere else: the limits of this module are what keeps a stranger
from filling the memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import HttpAnswer, HttpCall
from memoranda.bindings.http.operation import PARAMETER, Operation
from memoranda.bindings.http.threads import TURN_SECONDS, Threads
from memoranda.encoding.json_text import dump
from memoranda.encoding.shapes import check_field_names
from memoranda.errors import InvalidInput, RateLimited
from memoranda.service.core.access import Access
from memoranda.service.core.limits import FairShares
from memoranda.service.core.secret_screening import collect_notices
from memoranda.service.service import Service

# Requests with bodies over the ordinary limit that run at a time. A parsed body takes several times its bytes.
LARGE_BODIES_LIMIT: Final = 4
# Bytes of all bodies that are not small, as received.
BODIES_BYTES_LIMIT: Final = 64 * 1_048_576


# The key of the chosen route in the scope of a request.
_MATCHED: Final = "memoranda.route"


class RouteTable(BaseRoute):
    """A set of routes that Starlette sees as one."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        # Routes with their position in the list: by complete path, and by the folder before the first parameter.
        self._by_path: dict[str, list[tuple[int, Route]]] = {}
        self._by_folder: dict[str, list[tuple[int, Route]]] = {}
        for order, route in enumerate(self.routes):
            literal, brace, _ = route.path.partition("{")
            if brace:
                folder = literal[: literal.rindex("/") + 1]
                self._by_folder.setdefault(folder, []).append((order, route))
            else:
                self._by_path.setdefault(literal, []).append((order, route))
        # Deeper slashes of a path are not looked at, however many a client sends.
        self._depth = max((folder.count("/") for folder in self._by_folder), default=0)

    def candidates(self, path: str) -> list[Route]:
        """Return the routes that may take a decoded path, in their order.

        The work does not grow with the number of routes: it depends on the depth of the path.
        """
        entries = list(self._by_path.get(path, ()))
        end = 0
        for _ in range(self._depth):
            end = path.find("/", end) + 1
            if not end:
                break
            entries += self._by_folder.get(path[:end], ())
        return [route for _, route in sorted(entries, key=lambda entry: entry[0])]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request with the first route that takes its path and method."""
        if scope["type"] != "http":
            return Match.NONE, {}
        partial: tuple[Match, Scope] = (Match.NONE, {})
        for route in self.candidates(scope["path"]):
            match, child = route.matches(scope)
            if match is Match.FULL:
                return match, {**child, _MATCHED: route}
            if match is Match.PARTIAL and partial[0] is Match.NONE:
                partial = match, {**child, _MATCHED: route}
        return partial

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request by the route that `matches` chose."""
        await scope[_MATCHED].handle(scope, receive, send)


class PathRoute(Route):
    """A route that matches the path as it was sent, so that an encoded slash belongs to its name."""

    def __init__(
        self,
        path: str,
        endpoint: ASGIApp,
        *,
        methods: Sequence[str],
        slash_names: Collection[str] = (),
    ) -> None:
        super().__init__(path, endpoint, methods=list(methods))
        self._raw_path = path.encode("ascii")
        self._pattern: re.Pattern[bytes] | None = None
        if "{" in path:
            escaped = re.escape(path).replace(r"\{", "{").replace(r"\}", "}")
            last = PARAMETER.findall(path)[-1]

            def pattern(match: re.Match[str]) -> str:
                name = match[1]
                # A name before a slash may be empty here; the operation refuses it as a name.
                kind = "[^/]+" if name == last else "[^/]*"
                if name in slash_names:
                    kind = ".*"
                return f"(?P<{name}>{kind})"

            self._pattern = re.compile(PARAMETER.sub(pattern, escaped).encode("ascii"), re.DOTALL)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the raw path; the names in it stay encoded."""
        if scope["type"] != "http":
            return Match.NONE, {}
        names: Mapping[str, bytes] = {}
        if self._pattern is None:
            if scope["raw_path"] != self._raw_path:
                return Match.NONE, {}
        elif (match := self._pattern.fullmatch(scope["raw_path"])) is not None:
            names = match.groupdict()
        else:
            return Match.NONE, {}
        has_method = self.methods is None or scope["method"] in self.methods
        return Match.FULL if has_method else Match.PARTIAL, {
            "endpoint": self.endpoint,
            "path_params": names,
        }


class BodyMemory:
    """The memory for bodies. Small ones are read at once, large ones if they fit, and few of the largest at a time.

    If there is no memory left, the caller who uses most of it loses its oldest body that is still being received.

    Bodies are counted with their stated length before they are received, and with the limit of the path if they state
    none.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self.max_body_bytes = max_body_bytes
        self._large = asyncio.Semaphore(LARGE_BODIES_LIMIT)
        self._bodies: FairShares[Callable[[], None]] = FairShares()
        self._receiving: set[Callable[[], None]] = set()

    async def receive(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a request for which memory was reserved."""
        drop = scope["state"].get("drop")
        self._receiving.add(drop)
        try:
            return await wire.read_body(receive)
        finally:
            self._receiving.discard(drop)

    @asynccontextmanager
    async def reserve(self, scope: Scope, limit: int) -> AsyncIterator[None]:
        """Wait until the body of a request may be received and processed. Raises RateLimited if memory is short."""
        stated_bytes = wire.stated_length(scope)
        drop = scope["state"].get("drop")
        if drop is not None and not wire.is_small(scope):
            digest = scope["state"]["caller"].digest
            self._bodies.put(drop, digest, limit if stated_bytes is None else stated_bytes)
            while self._bodies.total > BODIES_BYTES_LIMIT:
                drop_other = self._bodies.evict(self._receiving.__contains__)
                if drop_other is None:
                    break
                drop_other()
        try:
            if self._bodies.total > BODIES_BYTES_LIMIT:
                raise RateLimited(
                    "too many large bodies at once; try again", retry_after_seconds=1.0
                )
            is_ordinary = stated_bytes is not None and stated_bytes <= self.max_body_bytes
            if limit <= self.max_body_bytes or is_ordinary:
                yield
            else:
                await self._wait_for_large()
                try:
                    yield
                finally:
                    self._large.release()
        finally:
            self._bodies.remove(drop)

    async def _wait_for_large(self) -> None:
        """Wait until one of the largest bodies may be received. Raises RateLimited."""
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._large.acquire()
        except TimeoutError:
            raise RateLimited(
                "too many of the largest bodies at once; try again", retry_after_seconds=1.0
            ) from None


class OperationEndpoint:
    """The ASGI endpoint of all operations of one path."""

    def __init__(
        self,
        operations: Iterable[Operation],
        *,
        service: Service,
        threads: Threads,
        body_memory: BodyMemory,
    ) -> None:
        self._operations = {operation.method: operation for operation in operations}
        self._service = service
        self._threads = threads
        self._body_memory = body_memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operations.get(scope["method"]) or self._operations["GET"]
        label_request(scope, operation.standard.name, operation.name)
        if operation.is_quick:
            answer, body = self._answer(operation, HttpCall(scope=scope, raw=b"", max_body_bytes=0))
        elif operation.has_body:
            limit = self._body_memory.max_body_bytes * operation.standard.body_factor
            if not wire.is_small(scope):
                # A caller without a valid credential must not make us hold a large body.
                await self._threads.run(authenticate, scope)
                wire.check_length(scope, limit)
            async with self._body_memory.reserve(scope, limit):
                raw = await self._body_memory.receive(scope, receive)
                answer, body = await self._threads.run(self._work, operation, scope, raw, limit)
        else:
            answer, body = await self._threads.run(self._work, operation, scope, b"", 0)
        await _send(send, answer.status or operation.success[0], body, answer)

    def _work(
        self, operation: Operation, scope: Scope, raw: bytes, limit: int
    ) -> tuple[HttpAnswer, bytes]:
        """Authenticate the caller and answer the request, in a thread."""
        if not operation.is_public:
            authenticate(scope)
        return self._answer(operation, HttpCall(scope=scope, raw=raw, max_body_bytes=limit))

    def _answer(self, operation: Operation, call: HttpCall) -> tuple[HttpAnswer, bytes]:
        """Parse the request and perform the operation, at most once if it has an idempotency key.

        Errors of parsing are answered in the form of the standard, so the function of an operation never sees a
        malformed request.
        """
        try:
            request = parse_request(operation, call)
        except InvalidInput as error:
            raise operation.standard.malformed_error(error) from None
        if operation.standard.idempotency is None or not operation.has_effect:
            return self._act(operation, call, request)
        return operation.standard.idempotency(
            self._service, operation, call, lambda: self._act(operation, call, request)
        )

    def _act(
        self, operation: Operation, call: HttpCall, request: object
    ) -> tuple[HttpAnswer, bytes]:
        """Perform the operation, and render its result. A notice about content or limit becomes a header."""
        assert operation.serve is not None
        with collect_notices() as noticed:
            result = operation.serve(self._service, call, request)
        answer = result if isinstance(result, HttpAnswer) else HttpAnswer(result=result)
        warnings = [*([str(noticed)] if noticed.kinds else ()), *_list_limit_warnings(request)]
        if warnings:
            header = b"x-memoranda-warning", "; ".join(warnings).encode("ascii")
            answer = replace(answer, headers=(*answer.headers, header))
        if answer.body is not None:
            return answer, answer.body
        return answer, dump(answer.result)


def _list_limit_warnings(request: object) -> Iterator[str]:
    """Yield a warning if a request asks for more results than an answer holds."""
    requested_limit = getattr(request, "requested_limit", None)
    if requested_limit is not None and requested_limit > (limit := request.limit):  # type: ignore[attr-defined]
        yield f"limit: an answer holds at most {limit}, and {requested_limit} were requested"


class StreamEndpoint:
    """The ASGI endpoint of an operation that streams its answer. The caller is authenticated before it begins.

    An operation that has an ordinary answer, too, streams only if the Accept header prefers that.

    `instead_of` serves clients that accept no stream.
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
            accepted = wire.read_header(scope, b"accept") or "*/*"
            if wire.prefer_media_type(accepted, (wire.JSON, *self._operation.gives)) not in streams:
                await self._otherwise(scope, receive, send)
                return
        label_request(scope, self._operation.standard.name, self._operation.name)
        await self._threads.run(authenticate, scope)
        await self._app(scope, receive, send)


def label_request(scope: Scope, standard: str, operation: str) -> None:
    """Store the operation of a request in its scope; the guard counts the request under that name."""
    scope.setdefault("state", {})["operation"] = (standard, operation)


def authenticate(scope: Scope) -> None:
    """Store the access of the caller in the scope. Raises Unauthorized. Call it in a thread: it reads the store."""
    access: Access = scope["state"]["caller"].authenticate()
    access.require_audience(scope["path"])
    scope["state"]["access"] = access


def parse_request(operation: Operation, call: HttpCall) -> object:
    """Return the request from the path, the query and the body. Raises InvalidInput.

    Fields of path, query and body are one namespace: a name may occur in one place only, and an unknown name is an
    error.
    """
    if operation.parser is not None:
        return operation.parser(call)
    fields: dict[str, object] = {
        name: texts if len(texts) > 1 else texts[0]
        for name, texts in wire.parse_query_lists(call.scope, operation.repeatable_fields).items()
    }
    check_field_names(fields, operation.query_fields, "the query")
    body = call.parse_object() if operation.has_body else {}
    if operation.asks is None:
        check_field_names(body, (), "the request")
        return None
    if repeated := sorted(set(body) & set(fields)):
        raise InvalidInput(f"{repeated[0][:40]!a} is given both in the query and in the body")
    for name in operation.path_fields:
        if name in body:
            raise InvalidInput(f"{name!a} is in the path already")
        fields[name] = call.path_name(name)
    if body:
        return operation.asks.parse({**fields, **body})
    return operation.asks.parse_texts(fields)


async def _send(send: Send, status: int, body: bytes, answer: HttpAnswer) -> None:
    if status == 204:
        # RFC 9110 8.6: no Content-Length if there can be no content.
        await send(
            {"type": "http.response.start", "status": status, "headers": list(answer.headers)}
        )
        await send({"type": "http.response.body", "body": b""})
    else:
        await wire.send_bytes(send, status, body, answer.headers, media_type=answer.media_type)


def build_routes(
    operations: Sequence[Operation],
    *,
    service: Service,
    threads: Threads,
    body_memory: BodyMemory,
    streams: Mapping[str, ASGIApp],
) -> list[Route]:
    """Return a route for each path, with all its methods, so that 405 can list them.

    `streams` has the endpoints of streamed operations by name.
    """
    by_path: dict[str, list[Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, []).append(operation)
    routes = []
    for path, siblings in by_path.items():
        methods = [operation.method for operation in siblings]
        endpoint: ASGIApp = OperationEndpoint(
            siblings, service=service, threads=threads, body_memory=body_memory
        )
        if (app := streams.get(siblings[0].name)) is not None:
            endpoint = StreamEndpoint(siblings[0], app, threads, instead_of=endpoint)
        routes.append(
            PathRoute(path, endpoint, methods=methods, slash_names=siblings[0].standard.slash_names)
        )
    # Literal paths come before paths with parameters, which could match them.
    return sorted(routes, key=lambda route: "{" in route.path)
