"""Real peers: a store, an HTTP server in a thread, server processes, and the official client for both."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import uvicorn
from mcp.client.client import Client, ConnectMode
from mcp.client.session import IncomingMessage
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import ElicitRequestParams, ElicitResult
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from tests import forking
from tests.embedders import WORDS_ALONE
from tests.waiting import HANG_SECONDS, until

from memoranda.bindings.mcp.http import McpEndpoint
from memoranda.bindings.mcp.offer import ToolOffer
from memoranda.bindings.mcp.server import create_agent_server
from memoranda.errors import MemorandaError
from memoranda.opening import open_service
from memoranda.service.core.access import ALL_VERBS
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.service.service import Service
from memoranda.settings import load_settings

STDIO_SERVER = Path(__file__).with_name("stdio_server.py")


class Authenticator:
    """What the HTTP application does before `/mcp` is reached, in its smallest form."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            bearer = headers.get(b"authorization", b"").decode("latin-1").removeprefix("Bearer ")
            try:
                scope.setdefault("state", {})["access"] = self._service.gate.authenticate(bearer)
            except MemorandaError as error:
                await JSONResponse({"error": {"code": error.code}}, 401)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class StoppingServer(uvicorn.Server):
    """Ends standing streams before it waits for running requests, as the HTTP application's server does."""

    def __init__(self, config: uvicorn.Config, endpoint: McpEndpoint) -> None:
        super().__init__(config)
        self._endpoint = endpoint

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._endpoint.stop_streams()
        await super().shutdown(sockets)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPeer:
    """A running server and its store."""

    service: Service
    url: str
    server: uvicorn.Server

    def stop(self) -> None:
        self.server.should_exit = True

    def key(self, tenant: str, *scopes: str) -> str:
        return self.service.gate.add_key("test", tenant=tenant, scopes=scopes or tuple(sorted(ALL_VERBS)))


def store(home: Path) -> Service:
    return open_service(load_settings(WORDS_ALONE, home=home))


@contextmanager
def http_peer(home: Path, meaning: SemanticSearch | None = None) -> Iterator[HttpPeer]:
    service = store(home)
    if meaning is not None:
        service = Service(replace(service.context, semantic_search=meaning))
    endpoint = McpEndpoint(service)
    app = Starlette(routes=list(endpoint.routes), lifespan=lambda _app: endpoint.running())
    config = uvicorn.Config(
        Authenticator(app, service), ws="none", log_level="warning", timeout_graceful_shutdown=5, log_config=None
    )
    server = StoppingServer(config, endpoint)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started)
            yield HttpPeer(service=service, url=f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", server=server)
        finally:
            server.should_exit = True
            thread.join(HANG_SECONDS)
            service.close()
    assert not thread.is_alive()


@dataclass
class Inbox:
    """The notifications a client received, and a way to wait for one."""

    methods: list[tuple[str, str]] = field(default_factory=list)
    arrived: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, message: IncomingMessage) -> None:
        method = getattr(message, "method", "")
        self.methods.append((method, getattr(getattr(message, "params", None), "uri", "")))
        self.arrived.set()
        self.arrived = anyio.Event()

    async def until(self, method: str, uri: str = "") -> None:
        while (method, uri) not in self.methods:
            await self.arrived.wait()


@asynccontextmanager
async def http_client(
    url: str, bearer: str, mode: ConnectMode = "auto", inbox: Inbox | None = None
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {bearer}"}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, message_handler=inbox, read_timeout_seconds=HANG_SECONDS) as client:
            yield client


class Person:
    """Who sits before an agent, is asked, and answers so."""

    def __init__(self, action: Literal["accept", "decline", "cancel"] = "accept", *, erases: bool = True) -> None:
        self._result = ElicitResult(action=action, content={"erase": erases} if action == "accept" else None)
        self.asked: list[str] = []

    async def __call__(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return self._result


@asynccontextmanager
async def stdio_peer(
    home: Path,
    mode: ConnectMode = "auto",
    inbox: Inbox | None = None,
    *offer: str,
    person: Person | None = None,
) -> AsyncIterator[Client]:
    arguments = [str(STDIO_SERVER), str(home), *offer]
    parameters = StdioServerParameters(command=forking.python(), args=arguments, env=WORDS_ALONE)
    with (home.parent / "stderr.txt").open("a") as log:
        transport = stdio_client(parameters, errlog=log)
        async with Client(
            transport,
            mode=mode,
            message_handler=inbox,
            read_timeout_seconds=HANG_SECONDS,
            elicitation_callback=person,
        ) as client:
            yield client


@asynccontextmanager
async def agent_peer(
    home: Path, mode: ConnectMode = "auto", *offer: str, person: Person | None = None
) -> AsyncIterator[Client]:
    """What `stdio_peer` gives, without its process and its pipes: these have tests of their own."""
    asked = ToolOffer().with_query(dict(each.split("=") for each in offer))
    with closing(store(home)) as service:
        server = create_agent_server(service, service.gate.local(actor_kind="agent"), asked)
        async with (
            create_client_server_memory_streams() as (ours, theirs),
            anyio.create_task_group() as group,
        ):
            group.start_soon(server.run, *theirs, server.create_initialization_options())
            async with Client(
                nullcontext(ours), mode=mode, read_timeout_seconds=HANG_SECONDS, elicitation_callback=person
            ) as client:
                yield client
            group.cancel_scope.cancel()


def run(scenario: Callable[[], Any]) -> None:
    """Run an asynchronous scenario, within the deadline."""

    async def bounded() -> None:
        with anyio.fail_after(HANG_SECONDS):
            await scenario()

    anyio.run(bounded)
