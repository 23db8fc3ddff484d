"""The uvicorn server of one process, behind or without a proxy. `workers.py` runs several processes.

uvicorn does the protocol; this module adds what it does not do: limits on heads and connections, streams that are ended
at shutdown (they would otherwise keep it waiting), and a stop when the parent process is gone. At a signal the server
ends its streams, and then waits a few seconds for the requests that are running.
"""

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

# Connections at a time, including open streams: at most half of the 2048 files that a process may commonly open.
CONNECTIONS_LIMIT = 1_000
# Seconds that an idle connection stays open: longer than the usual pauses of an agent. It costs only a socket.
KEEP_ALIVE_SECONDS = 30
# Seconds for running requests to finish; with the end of streams, below the 5 s that supervisors grant.
SHUTDOWN_SECONDS = 3
# Bytes of a request's head, for platforms without httptools (see protocol.py for the others).
H11_HEAD_BYTES_LIMIT = 65_536
# Connections that the system accepts before the server does.
BACKLOG = 512


class HttpServer(uvicorn.Server):
    """A uvicorn server that reports its URL, ends its streams, and returns after a signal."""

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
        """The URL under which the server can be reached."""
        return base_url(self._listener, is_tls=self.config.is_ssl)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until stopped, and close the socket."""
        with self._listener:
            super().run(sockets or [self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving, and report that."""
        await super().startup(sockets)
        if self._lifeline is not None:
            asyncio.get_running_loop().add_reader(self._lifeline, self._stop_orphaned)
        self._on_ready(self.base_url)

    def _stop_orphaned(self) -> None:
        """Stop the server, because the process that started it ended and nobody else would stop it."""
        assert self._lifeline is not None
        asyncio.get_running_loop().remove_reader(self._lifeline)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all streams, then shut down as uvicorn does."""
        # uvicorn waits for running requests before the lifespan ends, but streams would never end by themselves.
        app = self.config.app
        assert isinstance(app, Starlette)
        app.state.stop_streams()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop the server at the first SIGINT or SIGTERM."""
        # uvicorn raises the signal again at the end, which would end the process before the store is closed.
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(signum: int, frame: FrameType | None) -> None:
            self.handle_exit(signum, frame)

        ending = (signal.SIGINT, signal.SIGTERM)
        previous = {number: signal.signal(number, stop) for number in ending}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def create_server(
    app: Starlette,
    listener: socket.socket,
    *,
    on_ready: Callable[[str], None],
    log_level: str = "info",
    lifeline: int | None = None,
    tls: tuple[str, str] | None = None,
    trusted_proxies: Sequence[str] = (),
) -> HttpServer:
    """Return a server for the requests at a listening socket; it does not run yet. Raises StoreUnavailable.

    `lifeline` is a pipe; the server stops when its other end is closed. `tls` are the files of a certificate and its
    key. The forwarding headers of `trusted_proxies` are used.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        # The command sets up logging; of uvicorn's own messages only warnings matter.
        log_config=None,
        log_level="debug" if log_level == "debug" else "warning",
        http=_protocol(),
        ws="none",
        lifespan="on",
        # Anyone can send forwarding headers, so only those of trusted proxies name the caller.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        server_header=False,
        # At the limit protocol.py drops an idle connection. Only if none is idle, the next one gets a 503.
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
        listener.close()
        # Includes ssl.SSLError: an unreadable certificate, or a key that does not fit it.
        raise StoreUnavailable(
            f"the certificate or its key cannot be used: {error.strerror or error}"
        ) from None
    return HttpServer(config, listener, on_ready, lifeline)


def _protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    """Return our bounded protocol, or the name of uvicorn's own if httptools is missing."""
    try:
        from memoranda.bindings.http.protocol import ConnectionRegistry, bounded_protocol
    except ImportError:
        return "h11"
    return bounded_protocol(ConnectionRegistry(CONNECTIONS_LIMIT))


def base_url(listener: socket.socket, *, is_tls: bool = False) -> str:
    """Return the URL under which a listening socket can be reached."""
    host, port = listener.getsockname()[:2]
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def listen(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Return a socket bound to an address. With `is_shared`, other processes of this user can listen there, too.

    Raises StoreUnavailable if the address is in use or not allowed.
    """
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
