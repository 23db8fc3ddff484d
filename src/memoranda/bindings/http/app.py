"""The HTTP application: the table of all operations, their routes, and one guard in front of them.

Data flow of a request: uvicorn (`server.py`, `protocol.py`), the guard, the route table, an endpoint of `route.py`,
which parses the request and calls a verb in a thread of `threads.py`. Streams have endpoints and threads of their own.

Threads are divided by purpose, so that waiting subscribers never take those of short requests. Tests and the command
`serve` build the same application; nothing here opens a socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memoranda.bindings.http import (
    admin,
    cal,
    metrics,
    oams,
    oms,
    openwop,
    openwop_runs,
    openwop_two,
    ump,
    wire,
)
from memoranda.bindings.http.cal_stream import STALL_SECONDS, CalStreams, CancelStream
from memoranda.bindings.http.call import HttpAnswer, HttpCall
from memoranda.bindings.http.guard import Guard, Rules
from memoranda.bindings.http.openapi import build_document
from memoranda.bindings.http.openwop_events import RunEvents
from memoranda.bindings.http.operation import Operation, OperationTables, Standard
from memoranda.bindings.http.route import BodyMemory, RouteTable, authenticate, build_routes
from memoranda.bindings.http.subscribe import HEARTBEAT_SECONDS, SUBSCRIBERS_LIMIT, Subscribe
from memoranda.bindings.http.threads import TURN_SECONDS, Threads
from memoranda.bindings.http.webhook_sender import Dispatcher
from memoranda.encoding.json_text import dump
from memoranda.service.service import Service

# Threads for requests: twice the reading connections of the store, because some threads wait for a commit.
VERB_THREADS = 16
# Threads for subscribers, who share a pool of their own, so that requests never wait for them.
FEED_THREADS = 2
# Threads for streamed queries: half of the reading connections, so that slow clients leave some to the others.
STREAM_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """Additional operations and workflows that conformance suites need."""

    operations: tuple[Operation, ...] = ()
    # Operations instead of those with the same method and path.
    replaced: tuple[Operation, ...] = ()
    workflows: Mapping[str, openwop_runs.Workflow] = field(default_factory=dict)


def all_operations(seams: Seams | None = None) -> tuple[Operation, ...]:
    """Return the operations of all standards.

    `seams` adds and replaces operations for conformance suites; a normal server has none.
    """
    seams = seams or Seams()
    workflows = {**openwop_runs.WORKFLOWS, **seams.workflows}
    operations = (
        *ump.OPERATIONS,
        *oms.OPERATIONS,
        *cal.OPERATIONS,
        *oams.OPERATIONS,
        *openwop_runs.workflow_operations(workflows, tuple(seams.workflows)),
        *openwop_runs.OPERATIONS,
        *openwop_two.operations(workflows),
        metrics.OPERATION,
        *admin.OPERATIONS,
        _document_operation(ump.UMP, "/openapi.json", "openapi"),
        _document_operation(openwop.OPENWOP, "/v1/openapi.json", "openwop_openapi"),
        *seams.operations,
    )
    replaced = {(operation.method, operation.path): operation for operation in seams.replaced}
    return tuple(
        replaced.get((operation.method, operation.path), operation) for operation in operations
    )


def _document_operation(standard: Standard, path: str, name: str) -> Operation:
    """Return the operation that serves the OpenAPI document. Its function is added by `_with_document`."""
    return standard.row(
        "GET", path, name, "This document", None, "OpenApi", is_public=True, is_quick=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """The limits of streams and of requests that wait."""

    heartbeat_seconds: float = HEARTBEAT_SECONDS
    subscribers_limit: int = SUBSCRIBERS_LIMIT
    stall_seconds: float = STALL_SECONDS
    turn_seconds: float = TURN_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """Routes and tasks that the application has in addition to the operations of the standards."""

    # Operations and workflows for the conformance suites of openwop.
    seams: Seams | None = None
    # None under /ump/, /oms/, /cal or /v1/: behind the same guard, with an `Access` in `scope["state"]["access"]`.
    extra_routes: Sequence[BaseRoute] = ()
    # Routes that need no credential.
    public_routes: Sequence[Route] = ()
    # Routes below a path that check credentials themselves.
    folders: Mapping[str, Callable[[Threads], Sequence[BaseRoute]]] = field(default_factory=dict)
    # Entered at the start and left at the end.
    lifespans: Sequence[Callable[[], AbstractAsyncContextManager[object]]] = ()
    # Functions that end streams: called on the event loop, before running requests are waited for.
    on_stop: Sequence[Callable[[], None]] = ()


def create_app(
    service: Service,
    rules: Rules | None = None,
    *,
    streams: StreamLimits | None = None,
    extensions: Extensions | None = None,
    metrics_readers: metrics.Readers = "operator",
) -> Starlette:
    """Return the application over an open service, which the caller closes.

    `metrics_readers` says who may read /metrics.
    """
    rules, extensions = rules or Rules(), extensions or Extensions()
    runtime = _Runtime(service, streams or StreamLimits(), max_body_bytes=rules.max_body_bytes)
    public_routes, folders = extensions.public_routes, extensions.folders
    extra = [
        _AuthenticatedRoute(route, runtime.threads, rules.max_body_bytes)
        for route in extensions.extra_routes
    ]
    operations = _with_document(
        metrics.select_operations(all_operations(extensions.seams), metrics_readers), service
    )
    tables = OperationTables(operations, [route.path for route in public_routes], folders)
    in_folders = [route for make in folders.values() for route in make(runtime.threads)]
    app = _assemble(
        runtime,
        rules,
        operations,
        tables,
        public_routes,
        [*in_folders, *extra],
        extensions.lifespans,
    )

    def stop_streams() -> None:
        for stop in (runtime.stop_streams, *extensions.on_stop):
            stop()

    app.state.stop_streams = stop_streams
    return app


def _assemble(
    runtime: _Runtime,
    rules: Rules,
    operations: Sequence[Operation],
    tables: OperationTables,
    public_routes: Sequence[Route],
    other_routes: Sequence[BaseRoute],
    lifespans: Sequence[Callable[[], AbstractAsyncContextManager[object]]],
) -> Starlette:
    """Return the application with every operation under its path, behind the guard."""
    body_memory = BodyMemory(rules.max_body_bytes)
    routes = build_routes(
        operations,
        service=runtime.service,
        threads=runtime.threads,
        body_memory=body_memory,
        streams=runtime.endpoints(),
    )
    app = Starlette(
        routes=[RouteTable([*routes, *public_routes]), *other_routes],
        middleware=[Middleware(Guard, gate=runtime.service.gate, tables=tables, rules=rules)],
        exception_handlers=dict.fromkeys((404, 405), _no_route(tables, runtime.threads)),
        lifespan=runtime.lifespan(lifespans),
    )
    # "/ump/recall/" is no route of UMP; a redirect would lose the body and the credential of a POST.
    app.router.redirect_slashes = False
    return app


class _Runtime:
    """Threads, streams and the sender of webhooks, which live as long as the application."""

    def __init__(self, service: Service, limits: StreamLimits, *, max_body_bytes: int) -> None:
        turn_seconds = limits.turn_seconds
        self.service = service
        self.threads = Threads(VERB_THREADS, "memoranda-http", turn_seconds=turn_seconds)
        self._feed_threads = Threads(FEED_THREADS, "memoranda-feed", turn_seconds=turn_seconds)
        self._stream_threads = Threads(
            STREAM_THREADS, "memoranda-stream", turn_seconds=turn_seconds
        )
        self._subscribe = Subscribe(
            service=service,
            threads=self._feed_threads,
            heartbeat_seconds=limits.heartbeat_seconds,
            limit=limits.subscribers_limit,
        )
        self._cal_streams = CalStreams(
            service=service,
            threads=self.threads,
            producers=self._stream_threads,
            max_body_bytes=max_body_bytes,
            stall_seconds=limits.stall_seconds,
        )
        self._run_events = RunEvents(
            service=service, threads=self._feed_threads, keepalive_seconds=limits.heartbeat_seconds
        )
        self._dispatcher = Dispatcher(service)

    def endpoints(self) -> dict[str, ASGIApp]:
        """Return the endpoints of streaming operations, by the names of the operations."""
        return {
            "subscribe": self._subscribe,
            "cal": self._cal_streams,
            "cal_stream": self._cal_streams,
            "cal_cancel": CancelStream(self._cal_streams),
            "openwop_events": self._run_events.events,
            "openwop_all_events": self._run_events.all_events,
            "openwop_poll": self._run_events.poll,
            "openwop2_events": partial(self._run_events.events, form=openwop_two.LOG_FORM),
            "openwop2_poll": partial(self._run_events.poll, form=openwop_two.LOG_FORM),
        }

    def lifespan(
        self, lifespans: Sequence[Callable[[], AbstractAsyncContextManager[object]]]
    ) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
        """Return the lifespan of the application, which enters the given ones, too."""

        @asynccontextmanager
        async def live(_: Starlette) -> AsyncIterator[None]:
            async with AsyncExitStack() as stack:
                for pool in (self.threads, self._feed_threads, self._stream_threads):
                    stack.callback(pool.close)
                for lifespan in lifespans:
                    await stack.enter_async_context(lifespan())
                self._dispatcher.start()
                stack.callback(self._dispatcher.close)
                stack.callback(self.stop_streams)
                yield

        return live

    def stop_streams(self) -> None:
        """End every stream, so that the server can stop."""
        for streams in (self._subscribe, self._cal_streams, self._run_events):
            streams.close()


def _with_document(operations: Sequence[Operation], service: Service) -> tuple[Operation, ...]:
    """Return the operations, with a function for those that serve the OpenAPI document of all of them."""

    @cache
    def render() -> bytes:
        # Built for the first request, because it takes longer than the rest of the start.
        return dump(
            build_document(operations, server_version=service.capabilities()["server"]["version"])
        )

    def openapi(_service: Service, _call: HttpCall, _request: None) -> HttpAnswer:
        return HttpAnswer(body=render())

    return tuple(
        replace(operation, serve=openapi) if operation.answer == "OpenApi" else operation
        for operation in operations
    )


class _AuthenticatedRoute(BaseRoute):
    """A route of another binding, with authentication and the limit of bodies in front of it."""

    def __init__(self, route: BaseRoute, threads: Threads, max_body_bytes: int) -> None:
        self._route = route
        self._threads = threads
        self._max_body_bytes = max_body_bytes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as the inner route does."""
        return self._route.matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate the caller, check the stated length, and serve the request by the inner route."""
        await self._threads.run(authenticate, scope)
        wire.check_length(scope, self._max_body_bytes)
        await self._route.handle(scope, receive, send)


def _no_route(
    tables: OperationTables, threads: Threads
) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return the handler of unknown paths and methods."""

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.scope["path"]
        if not tables.is_public(path):
            # Callers without a valid credential do not learn which routes exist.
            await threads.run(authenticate, request.scope)
        status, body = tables.standard_for(request.scope).refuse_route(error.status_code, path)
        headers = error.headers if status == error.status_code else None
        return Response(dump(body), status, headers, media_type=wire.JSON)

    return answer
