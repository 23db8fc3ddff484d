"""The HTTP application: which path is which verb, behind one guard."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memoranda.bindings.http import (
    cal,
    oams,
    oams_wire,
    oms,
    openwop,
    openwop_proposals,
    openwop_runs,
    openwop_seams,
    openwop_wire,
    verbs,
    wire,
)
from memoranda.bindings.http.cal_stream import STALL_SECONDS, CalStreams, CancelStream
from memoranda.bindings.http.guard import Guard, Rules
from memoranda.bindings.http.oams_rpc import RpcRoute
from memoranda.bindings.http.openapi import document
from memoranda.bindings.http.openwop_events import RunEvents
from memoranda.bindings.http.subscribe import HEARTBEAT_SECONDS, SUBSCRIBERS_LIMIT, Subscribe
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.json_text import dump
from memoranda.service.service import Service
from memoranda.standards.oams import codes

# Twice the store's reading connections: while some wait for a commit, others read.
VERB_THREADS = 16
# Subscribers wait for one another rather than keep the verbs waiting.
FEED_THREADS = 2
# Half of the store's reading connections: clients that read slowly do not keep the others from reading.
STREAM_THREADS = 4

VERBS: tuple[tuple[str, str, verbs.Verb], ...] = (
    ("POST", "/ump/recall", verbs.recall),
    ("GET", "/ump/memory/{id}", verbs.get),
    ("POST", "/ump/remember", verbs.remember),
    ("POST", "/ump/rehydrate", verbs.rehydrate),
    ("POST", "/ump/revise", verbs.revise),
    ("POST", "/ump/forget", verbs.forget),
    ("POST", "/ump/feedback", verbs.feedback),
    ("GET", "/ump/memory/{id}/history", verbs.history),
    ("POST", "/ump/audit", verbs.audit),
    ("GET", "/ump/audit/verify", verbs.audit_verify),
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
    seams: bool = False,
    extra_routes: Sequence[BaseRoute] = (),
    lifespans: Sequence[Callable[[], AbstractAsyncContextManager[object]]] = (),
    on_stop: Sequence[Callable[[], None]] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Starlette:
    """The application over an open service, which stays the caller's to close.

    `host` is the address listened on. `seams` adds what conformance suites of openwop ask for. `extra_routes` (none
    under /ump/, /oms/, /cal or /v1/) come behind the same guard, with an `Access` in `scope["state"]["access"]`; each
    of `lifespans` is entered at the start and left at the end; each of `on_stop` is called on the event loop before
    running requests are waited for, to end streams.
    """
    threads, feed_threads = Threads(VERB_THREADS, "memoranda-http"), Threads(FEED_THREADS, "memoranda-feed")
    stream_threads = Threads(STREAM_THREADS, "memoranda-stream")
    subscribe = Subscribe(
        service=service, threads=feed_threads, heartbeat_seconds=heartbeat_seconds, limit=subscribers_limit
    )
    streams = CalStreams(
        service=service,
        threads=threads,
        makers=stream_threads,
        max_body_bytes=max_body_bytes,
        stall_seconds=stall_seconds,
    )
    run_events = RunEvents(service=service, threads=feed_threads, keepalive_seconds=heartbeat_seconds)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for pool in (threads, feed_threads, stream_threads):
                stack.callback(pool.close)
            for each in lifespans:
                await stack.enter_async_context(each())
            stack.callback(subscribe.close)
            stack.callback(streams.close)
            stack.callback(run_events.close)
            yield

    verb_routes = [
        Route(
            path,
            verbs.VerbRoute(verb, service=service, threads=threads, max_body_bytes=max_body_bytes),
            methods=[method],
        )
        for method, path, verb in VERBS
    ]
    oms_routes = [
        Route(
            path,
            oms.OmsRoute(verb, service=service, threads=threads, max_body_bytes=max_body_bytes),
            methods=[method],
        )
        for method, path, verb in oms.VERBS
    ]
    rules = Rules(
        allowed_hosts=(host, *allowed_hosts),
        allowed_origins=allowed_origins,
        rate_limit=rate_limit,
        max_body_bytes=max_body_bytes,
        clock=clock,
    )
    app = Starlette(
        routes=[
            *verb_routes,
            Route("/ump/subscribe", subscribe, methods=["GET"]),
            *oms_routes,
            *_cal_routes(service, threads, streams, max_body_bytes),
            *_oams_routes(service, threads, max_body_bytes),
            *_openwop_routes(service, threads, run_events, max_body_bytes, seams=seams),
            *_public_routes(service, threads, seams=seams),
            *extra_routes,
        ],
        middleware=[Middleware(Guard, gate=service.gate, threads=threads, rules=rules)],
        exception_handlers={404: _no_route, 405: _no_route},
        lifespan=lifespan,
    )
    # "/ump/recall/" is no route of UMP; a redirect would lose the body and the credential of a POST.
    app.router.redirect_slashes = False

    def stop_streams() -> None:
        for stop in (subscribe.close, streams.close, run_events.close, *on_stop):
            stop()

    app.state.stop_streams = stop_streams
    return app


def _cal_routes(service: Service, threads: Threads, streams: CalStreams, max_body_bytes: int) -> list[Route]:
    def route(verb: cal.Verb) -> cal.CalRoute:
        streaming = streams if verb is cal.run else None
        return cal.CalRoute(verb, service=service, threads=threads, max_body_bytes=max_body_bytes, streaming=streaming)

    return [
        *(Route(path, route(verb), methods=[method]) for method, path, verb in cal.VERBS),
        Route("/cal/stream", streams, methods=["POST"]),
        Route("/cal/stream/{assembly_id}", CancelStream(streams), methods=["DELETE"]),
    ]


def _oams_routes(service: Service, threads: Threads, max_body_bytes: int) -> list[Route]:
    bodies = oams.Bodies(max_body_bytes)

    def routes(kind: type[Route], paths: Mapping[str, Mapping[str, oams.Verb]]) -> Iterator[Route]:
        for path, verbs_there in paths.items():
            endpoint = oams.OamsRoute(verbs_there, service=service, threads=threads, bodies=bodies)
            yield kind(path, endpoint, methods=list(verbs_there))

    return [
        # The batch has a path that could be a namespace's.
        *routes(Route, oams.PLAIN_PATHS),
        Route(oams_wire.RPC_PATH, RpcRoute(service=service, threads=threads, bodies=bodies), methods=["POST"]),
        *routes(oams_wire.MemoryRoute, oams.MEMORY_PATHS),
    ]


def _openwop_routes(
    service: Service, threads: Threads, run_events: RunEvents, max_body_bytes: int, *, seams: bool
) -> list[Route]:
    workflows = openwop_seams.ALL_WORKFLOWS if seams else openwop_runs.WORKFLOWS
    paths: dict[str, Mapping[str, openwop_wire.Verb]] = {
        "/v1/runs": {"POST": openwop_runs.starting(workflows)},
        **openwop_runs.PATHS,
        **openwop.PATHS,
        **openwop_proposals.PATHS,
        **(openwop_seams.PATHS if seams else {}),
    }

    def route(path: str, verbs_there: Mapping[str, openwop_wire.Verb]) -> Route:
        endpoint = openwop_wire.WopRoute(verbs_there, service=service, threads=threads, max_body_bytes=max_body_bytes)
        return openwop_wire.NamedRoute(path, endpoint, methods=list(verbs_there))

    streams = (("/v1/runs/{run_id}/events", run_events.events), ("/v1/runs/{run_id}/events/poll", run_events.poll))
    return [
        *(route(path, verbs_there) for path, verbs_there in paths.items()),
        *(openwop_wire.NamedRoute(path, _Endpoint(endpoint), methods=["GET"]) for path, endpoint in streams),
    ]


class _Endpoint:
    """An ASGI endpoint out of a method: what is a function would be taken for one of Starlette's."""

    def __init__(self, call: ASGIApp) -> None:
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._call(scope, receive, send)


class _Answer:
    """ASGI endpoint for what needs no credential and no body."""

    def __init__(self, make: Callable[[Scope], object], threads: Threads | None = None) -> None:
        self._make = make
        self._threads = threads

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        answer = self._make(scope) if self._threads is None else await self._threads.run(self._make, scope)
        await wire.send_bytes(send, 200, answer if isinstance(answer, bytes) else dump(answer))


def _public_routes(service: Service, threads: Threads, *, seams: bool) -> list[Route]:
    description = dump(document(server_version=service.capabilities()["server"]["version"], seams=seams))
    fixtures = openwop_seams.FIXTURES if seams else ()

    def manifest(scope: Scope) -> object:
        return service.manifest(f"{scope['scheme']}://{wire.header(scope, b'host')}")

    def discovery(_: Scope) -> object:
        return service.openwop.discovery(is_attended=service.upkeep.is_running, fixtures=fixtures)

    def ready(_: Scope) -> object:
        service.check_ready()
        return {"status": "ready"}

    return [
        Route("/ump/capabilities", _Answer(lambda _: service.capabilities()), methods=["GET"]),
        Route("/.well-known/ump.json", _Answer(manifest), methods=["GET"]),
        Route(openwop_wire.DISCOVERY, _Answer(discovery), methods=["GET"]),
        Route("/healthz", _Answer(lambda _: {"status": "alive"}), methods=["GET"]),
        Route("/readyz", _Answer(ready, threads), methods=["GET"]),
        Route("/openapi.json", _Answer(lambda _: description), methods=["GET"]),
    ]


def _no_route(request: Request, error: Exception) -> Response:
    if oams_wire.is_oams(request.scope):
        assert isinstance(error, HTTPException)
        message = "no route" if error.status_code == 404 else "this path is not for that method"
        body = oams_wire.error_body(codes.METHOD_NOT_FOUND, message, is_rpc=request.scope["path"] == oams_wire.RPC_PATH)
        return Response(body, error.status_code, error.headers, media_type="application/json")
    if openwop_wire.is_openwop(request.scope):
        assert isinstance(error, HTTPException)
        return Response(
            openwop_wire.no_route(error.status_code), error.status_code, error.headers, media_type="application/json"
        )
    # As in the reference: an unknown route and a wrong method are both this, word for word.
    return Response(wire.error_document("not_found", "no route"), 404, media_type="application/json")
