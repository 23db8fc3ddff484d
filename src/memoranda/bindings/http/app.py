"""The HTTP application: which path is which verb, behind one guard."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memoranda.bindings.http import (
    cal,
    metrics,
    oams,
    oms,
    openwop,
    openwop_runs,
    ump,
    wire,
)
from memoranda.bindings.http.cal_stream import STALL_SECONDS, CalStreams, CancelStream
from memoranda.bindings.http.call import HttpAnswer, HttpCall
from memoranda.bindings.http.deliver import Dispatcher
from memoranda.bindings.http.guard import Guard, Rules
from memoranda.bindings.http.openapi import build_document
from memoranda.bindings.http.openwop_events import RunEvents
from memoranda.bindings.http.operation import Operation, OperationTables, Standard
from memoranda.bindings.http.route import BodyMemory, RouteTable, authenticate, build_routes
from memoranda.bindings.http.subscribe import HEARTBEAT_SECONDS, SUBSCRIBERS_LIMIT, Subscribe
from memoranda.bindings.http.threads import TURN_SECONDS, Threads
from memoranda.encoding.json_text import dump
from memoranda.service.service import Service

# Twice the store's reading connections: while some wait for a commit, others read.
VERB_THREADS = 16
# Subscribers wait for one another rather than keep the verbs waiting.
FEED_THREADS = 2
# Half of the store's reading connections: clients that read slowly do not keep the others from reading.
STREAM_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """What is served for conformance suites beside the rest."""

    operations: tuple[Operation, ...] = ()
    workflows: Mapping[str, openwop_runs.Workflow] = field(default_factory=dict)


def all_operations(seams: Seams | None = None) -> tuple[Operation, ...]:
    """All rows of all tables."""
    found = seams or Seams()
    return (
        *ump.OPERATIONS,
        *oms.OPERATIONS,
        *cal.OPERATIONS,
        *oams.OPERATIONS,
        *openwop_runs.operations(
            {**openwop_runs.WORKFLOWS, **found.workflows}, tuple(found.workflows)
        ),
        *openwop_runs.OPERATIONS,
        metrics.OPERATION,
        _document_operation(ump.UMP, "/openapi.json", "openapi"),
        _document_operation(openwop.OPENWOP, "/v1/openapi.json", "openwop_openapi"),
        *found.operations,
    )


def _document_operation(standard: Standard, path: str, name: str) -> Operation:
    return standard.row(
        "GET", path, name, "This document", None, "OpenApi", is_public=True, is_quick=True
    )


def create_app(
    service: Service,
    *,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    allowed_origins: Sequence[str] = (),
    rate_limit: float = 5_000,
    max_body_bytes: int = 2_097_152,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    subscribers_limit: int = SUBSCRIBERS_LIMIT,
    stall_seconds: float = STALL_SECONDS,
    turn_seconds: float = TURN_SECONDS,
    seams: Seams | None = None,
    extra_routes: Sequence[BaseRoute] = (),
    public_routes: Sequence[Route] = (),
    folders: Mapping[str, Callable[[Threads], Sequence[BaseRoute]]] = MappingProxyType({}),
    protected: str | None = None,
    lifespans: Sequence[Callable[[], AbstractAsyncContextManager[object]]] = (),
    on_stop: Sequence[Callable[[], None]] = (),
    clock: Callable[[], float] = time.monotonic,
    metrics_readers: metrics.Readers = "operator",
) -> Starlette:
    """The application over an open service, which stays the caller's to close.

    `host` is the address listened on. `seams` adds what conformance suites of openwop ask for. `extra_routes` (none
    under /ump/, /oms/, /cal or /v1/) come behind the same guard, with an `Access` in `scope["state"]["access"]`;
    `public_routes` need no credential, and whoever comes to the path `protected` without one is told that they say how
    to get one; what lies under each of `folders` looks after its own credentials; each of `lifespans` is entered at the
    start and left at the end; each of `on_stop` is called on the event loop before running requests are waited for, to
    end streams. `metrics_readers` says who may read /metrics.
    """
    parts = _Runtime(
        service,
        heartbeat_seconds=heartbeat_seconds,
        subscribers_limit=subscribers_limit,
        max_body_bytes=max_body_bytes,
        stall_seconds=stall_seconds,
        turn_seconds=turn_seconds,
    )
    rules = Rules(
        allowed_hosts=(host, *allowed_hosts),
        allowed_origins=allowed_origins,
        rate_limit=rate_limit,
        max_body_bytes=max_body_bytes,
        clock=clock,
        protected=protected,
    )
    further = [_AuthenticatedRoute(route, parts.threads, max_body_bytes) for route in extra_routes]
    operations = _with_document(
        metrics.select_operations(all_operations(seams), metrics_readers), service
    )
    tables = OperationTables(operations, [route.path for route in public_routes], folders)
    own = [route for make in folders.values() for route in make(parts.threads)]
    app = _assemble(
        service, parts, rules, operations, tables, public_routes, [*own, *further], lifespans
    )

    def stop_streams() -> None:
        for stop in (parts.stop_streams, *on_stop):
            stop()

    app.state.stop_streams = stop_streams
    return app


def _assemble(
    service: Service,
    parts: _Runtime,
    rules: Rules,
    operations: Sequence[Operation],
    tables: OperationTables,
    public_routes: Sequence[Route],
    further: Sequence[BaseRoute],
    lifespans: Sequence[Callable[[], AbstractAsyncContextManager[object]]],
) -> Starlette:
    """Every operation under its path, behind the guard."""
    room = BodyMemory(rules.max_body_bytes)
    routes = build_routes(
        operations,
        service=service,
        threads=parts.threads,
        body_memory=room,
        streams=parts.endpoints(),
    )
    app = Starlette(
        routes=[RouteTable([*routes, *public_routes]), *further],
        middleware=[Middleware(Guard, gate=service.gate, tables=tables, rules=rules)],
        exception_handlers=dict.fromkeys((404, 405), _no_route(tables, parts.threads)),
        lifespan=parts.lifespan(lifespans),
    )
    # "/ump/recall/" is no route of UMP; a redirect would lose the body and the credential of a POST.
    app.router.redirect_slashes = False
    return app


class _Runtime:
    """What lives as long as the application: threads, streams, and what sends events."""

    def __init__(
        self,
        service: Service,
        *,
        heartbeat_seconds: float,
        subscribers_limit: int,
        max_body_bytes: int,
        stall_seconds: float,
        turn_seconds: float,
    ) -> None:
        self.threads = Threads(VERB_THREADS, "memoranda-http", turn_seconds=turn_seconds)
        self._feed_threads = Threads(FEED_THREADS, "memoranda-feed", turn_seconds=turn_seconds)
        self._stream_threads = Threads(
            STREAM_THREADS, "memoranda-stream", turn_seconds=turn_seconds
        )
        self._subscribe = Subscribe(
            service=service,
            threads=self._feed_threads,
            heartbeat_seconds=heartbeat_seconds,
            limit=subscribers_limit,
        )
        self._cal_streams = CalStreams(
            service=service,
            threads=self.threads,
            makers=self._stream_threads,
            max_body_bytes=max_body_bytes,
            stall_seconds=stall_seconds,
        )
        self._run_events = RunEvents(
            service=service, threads=self._feed_threads, keepalive_seconds=heartbeat_seconds
        )
        self._dispatcher = Dispatcher(service)

    def endpoints(self) -> dict[str, ASGIApp]:
        """What answers as it goes, by the names of the operations."""
        return {
            "subscribe": self._subscribe,
            "cal": self._cal_streams,
            "cal_stream": self._cal_streams,
            "cal_cancel": CancelStream(self._cal_streams),
            "openwop_events": self._run_events.events,
            "openwop_all_events": self._run_events.all_events,
            "openwop_poll": self._run_events.poll,
        }

    def lifespan(
        self, others: Sequence[Callable[[], AbstractAsyncContextManager[object]]]
    ) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
        """From the start of the application to its end."""

        @asynccontextmanager
        async def live(_: Starlette) -> AsyncIterator[None]:
            async with AsyncExitStack() as stack:
                for pool in (self.threads, self._feed_threads, self._stream_threads):
                    stack.callback(pool.close)
                for each in others:
                    await stack.enter_async_context(each())
                self._dispatcher.start()
                stack.callback(self._dispatcher.close)
                stack.callback(self.stop_streams)
                yield

        return live

    def stop_streams(self) -> None:
        """End every stream, so that the server can stop."""
        for each in (self._subscribe, self._cal_streams, self._run_events):
            each.close()


def _with_document(operations: Sequence[Operation], service: Service) -> tuple[Operation, ...]:
    @cache
    def described() -> bytes:
        # Made when it is first asked for: it takes longer than all else that is made to start.
        return dump(
            build_document(operations, server_version=service.capabilities()["server"]["version"])
        )

    def openapi(_service: Service, _call: HttpCall, _asked: None) -> HttpAnswer:
        return HttpAnswer(body=described())

    return tuple(
        replace(each, serve=openapi) if each.answer == "OpenApi" else each for each in operations
    )


class _AuthenticatedRoute(BaseRoute):
    """A route from elsewhere, behind the same rules."""

    def __init__(self, route: BaseRoute, threads: Threads, max_body_bytes: int) -> None:
        self._route = route
        self._threads = threads
        self._max_body_bytes = max_body_bytes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return self._route.matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._threads.run(authenticate, scope)
        wire.check_length(scope, self._max_body_bytes)
        await self._route.handle(scope, receive, send)


def _no_route(
    tables: OperationTables, threads: Threads
) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.scope["path"]
        if not tables.is_public(path):
            # Nobody unknown learns which routes there are.
            await threads.run(authenticate, request.scope)
        status, body = tables.standard_of(path).no_route(error.status_code, path)
        headers = error.headers if status == error.status_code else None
        return Response(dump(body), status, headers, media_type=wire.JSON)

    return answer
