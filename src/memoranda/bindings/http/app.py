"""The HTTP application: which path is which verb, behind one guard."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import cal, oms, verbs, wire
from memoranda.bindings.http.cal_stream import STALL_SECONDS, CalStreams, CancelStream
from memoranda.bindings.http.guard import Guard, Rules
from memoranda.bindings.http.openapi import document
from memoranda.bindings.http.subscribe import HEARTBEAT_SECONDS, SUBSCRIBERS_LIMIT, Subscribe
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.json_text import dump
from memoranda.service.service import Service

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
    extra_routes: Sequence[BaseRoute] = (),
    lifespans: Sequence[Callable[[], AbstractAsyncContextManager[object]]] = (),
    on_stop: Sequence[Callable[[], None]] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Starlette:
    """The application over an open service, which stays the caller's to close.

    `host` is the address listened on. `extra_routes` (none under /ump/, /oms/ or /cal) come behind the same guard, with
    an `Access` in `scope["state"]["access"]`; each of `lifespans` is entered at the start and left at the end; each of
    `on_stop` is called on the event loop before running requests are waited for, to end streams.
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

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for pool in (threads, feed_threads, stream_threads):
                stack.callback(pool.close)
            for each in lifespans:
                await stack.enter_async_context(each())
            stack.callback(subscribe.close)
            stack.callback(streams.close)
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
            *_public_routes(service, threads),
            *extra_routes,
        ],
        middleware=[Middleware(Guard, gate=service.gate, threads=threads, rules=rules)],
        exception_handlers={404: _no_route, 405: _no_route},
        lifespan=lifespan,
    )
    # "/ump/recall/" is no route of UMP; a redirect would lose the body and the credential of a POST.
    app.router.redirect_slashes = False

    def stop_streams() -> None:
        for stop in (subscribe.close, streams.close, *on_stop):
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


class _Answer:
    """ASGI endpoint for what needs no credential and no body."""

    def __init__(self, make: Callable[[Scope], object], threads: Threads | None = None) -> None:
        self._make = make
        self._threads = threads

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        answer = self._make(scope) if self._threads is None else await self._threads.run(self._make, scope)
        await wire.send_bytes(send, 200, answer if isinstance(answer, bytes) else dump(answer))


def _public_routes(service: Service, threads: Threads) -> list[Route]:
    description = dump(document(server_version=service.capabilities()["server"]["version"]))

    def manifest(scope: Scope) -> object:
        return service.manifest(f"{scope['scheme']}://{wire.header(scope, b'host')}")

    def ready(_: Scope) -> object:
        service.check_ready()
        return {"status": "ready"}

    return [
        Route("/ump/capabilities", _Answer(lambda _: service.capabilities()), methods=["GET"]),
        Route("/.well-known/ump.json", _Answer(manifest), methods=["GET"]),
        Route("/healthz", _Answer(lambda _: {"status": "alive"}), methods=["GET"]),
        Route("/readyz", _Answer(ready, threads), methods=["GET"]),
        Route("/openapi.json", _Answer(lambda _: description), methods=["GET"]),
    ]


def _no_route(_: Request, __: Exception) -> Response:
    # As in the reference: an unknown route and a wrong method are both this, word for word.
    return Response(wire.error_document("not_found", "no route"), 404, media_type="application/json")
