"""uvicorn, set up for one machine, behind or without a proxy. Several processes: see `workers`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Literal

import uvicorn
from starlette.applications import Starlette

from memoranda.errors import StoreUnavailable

# Connections at once, open streams among them: half of the 2048 files that a process may commonly open, or less.
CONNECTIONS_LIMIT = 1_000
# Longer than the pauses of a thoughtful agent, so that it keeps its connection; idle ones cost only a socket.
KEEP_ALIVE_SECONDS = 30
# What is running may finish; together with the streams' end this stays below the 5 s that supervisors grant.
SHUTDOWN_SECONDS = 3
# As in protocol.py, for the platforms that have no httptools.
H11_HEAD_BYTES_LIMIT = 65_536
BACKLOG = 512


class HttpServer(uvicorn.Server):
    """A uvicorn server that says where it listens, ends its streams, and returns when it was told to stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        on_ready: Callable[[str], None],
        lifeline: int | None = None,
    ) -> None:
        super().__init__(config)
        self._listener = listener
        self._on_ready = on_ready
        self._lifeline = lifeline

    @property
    def base_url(self) -> str:
        return base_url(self._listener, is_tls=self.config.is_ssl)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with self._listener:
            super().run(sockets or [self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._lifeline is not None:
            asyncio.get_running_loop().add_reader(self._lifeline, self._be_alone)
        self._on_ready(self.base_url)

    def _be_alone(self) -> None:
        """The process that started this one is gone, and nobody else would end it."""
        assert self._lifeline is not None
        asyncio.get_running_loop().remove_reader(self._lifeline)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for running requests before it tells the application; streams would never end by themselves.
        app = self.config.app
        assert isinstance(app, Starlette)
        app.state.stop_streams()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises the signal again at the end, which would end the process before the store is closed.
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(signum: int, frame: FrameType | None) -> None:
            self.handle_exit(signum, frame)

        before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def create_server(
    app: Starlette,
    host: str,
    port: int,
    *,
    on_ready: Callable[[str], None],
    log_level: str = "info",
    access_log: bool = False,
    is_shared: bool = False,
    lifeline: int | None = None,
    tls: tuple[str, str] | None = None,
    trusted_proxies: Sequence[str] = (),
) -> HttpServer:
    """A server bound to its port, not yet running. `is_shared`: other processes listen there too.

    `tls` are the files of a certificate and its key; of `trusted_proxies` it is believed who calls.

    It also stops when the other end of the `lifeline`, a pipe, is closed.
    """
    config = uvicorn.Config(
        app,
        access_log=access_log,
        # The rim sets up logging; of uvicorn's own chatter only trouble is news.
        log_config=None,
        log_level="debug" if log_level == "debug" else "warning",
        http=_protocol(),
        ws="none",
        lifespan="on",
        # Who calls is who connects, unless that is a proxy we were told to believe: anyone can send such headers.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        server_header=False,
        # At the limit one goes that is not at work; only where all are, the next is answered 503.
        limit_concurrency=CONNECTIONS_LIMIT + 1,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=H11_HEAD_BYTES_LIMIT,
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )
    try:
        config.load()
    except OSError as error:
        # ssl.SSLError is one, too: a certificate that cannot be read, or a key of another.
        raise StoreUnavailable(
            f"the certificate or its key cannot be used: {error.strerror or error}"
        ) from None
    return HttpServer(config, listen(host, port, is_shared=is_shared), on_ready, lifeline)


def _protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    try:
        from memoranda.bindings.http.protocol import Connections, bounded_protocol
    except ImportError:
        return "h11"
    return bounded_protocol(Connections(CONNECTIONS_LIMIT))


def base_url(listener: socket.socket, *, is_tls: bool = False) -> str:
    """Where a socket can be reached."""
    host, port = listener.getsockname()[:2]
    return f"http{'s' if is_tls else ''}://" + (
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    )


def listen(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A socket bound to an address, on which others of this user can listen too if it is shared."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(address)
            listener.set_inheritable(False)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise StoreUnavailable(
            f"cannot listen on {host} port {port}: {error.strerror or error}"
        ) from error
    return listener
