"""uvicorn's fast HTTP/1.1 protocol with additional limits, so that nobody without a credential can fill our memory.

    head            its bytes, its headers and its time are limited
    pipelining      a request that arrives before the last one was answered waits unread
    unread answers  a client that reads nothing for a while is disconnected
    connections     at the limit, the client with most of them loses its oldest one that serves no authenticated request

One connection can occupy a few hundred KiB; `server.py` limits the number of connections.

Limits are needed at this level because the application sees a request only when its head is complete: a client that
sends one byte a minute would never be noticed. The class changes as little of uvicorn's as possible; an update of
uvicorn must pass `tests/bindings/http` before it is locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from functools import partial
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from memoranda.service.core.limits import FairShares

# Bytes of the URL and headers of a request: a capability token has at most 8 KiB, and proxies add headers.
HEAD_BYTES_LIMIT: Final = 32_768
# Headers of a request; parsed, a header of five bytes takes thirty times as much.
HEADERS_LIMIT: Final = 100
# Seconds from the first byte, or from the start of the connection, to the end of the head.
HEAD_SECONDS_LIMIT = 20.0
# Seconds after which a client that reads nothing of its answer is disconnected.
SEND_SECONDS_LIMIT = 30.0
# Bytes that the parser gets at a time.
PARSED_BYTES: Final = 4_096
# Requests of one connection that are parsed before the first one is answered.
PIPELINED_LIMIT: Final = 16
# Bytes that may wait unparsed behind a request that is being answered.
WAITING_BYTES_LIMIT: Final = 65_536


class _JoinedWrites:
    """A transport that joins all writes of one turn of the loop, such as a head and its body.

    uvicorn writes them one by one, and each would be a system call, a packet, and a wake-up of the client.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write data at the end of this turn of the loop, or at once if it is large."""
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append(data)
        if len(data) >= PARSED_BYTES:
            # Sent now, so that flow control notices in time if the client does not read.
            self._send()

    def close(self) -> None:
        """Send all data and close the transport."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        data = b"".join(self._waiting)
        self._waiting.clear()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


class ConnectionRegistry(FairShares["BoundedHttpProtocol"]):
    """The connections of a server, by address or credential."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def admit(self, connection: BoundedHttpProtocol, holder: Hashable) -> None:
        """Add a connection; if there are too many, drop another one.

        The victim is the oldest idle connection of the holder with most connections, so one client cannot push others
        out.
        """
        self.put(connection, holder)
        if len(self) > self._limit:
            victim = self.evict(BoundedHttpProtocol.may_be_dropped)
            if victim is not None:
                victim.drop()


def bounded_protocol(registry: ConnectionRegistry) -> type[asyncio.Protocol]:
    """Return the protocol class for the connections of one server."""
    # uvicorn only calls it, so a partial is enough.
    return cast("type[asyncio.Protocol]", partial(BoundedHttpProtocol, registry=registry))


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection, with its limits.

    `_unparsed` holds bytes that arrived while an earlier request was answered; at most WAITING_BYTES_LIMIT of them are
    read.
    """

    # Bytes since the parser last returned a head or a body part; chunk sizes and trailers count, too.
    _unaccounted_bytes = 0
    # Bytes that arrived behind a request that is being answered.
    _unparsed = b""
    _head_timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, registry: ConnectionRegistry, **options: Any) -> None:
        super().__init__(*args, **options)
        self._registry = registry

    # --- connections ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, and start the timer of its first head."""
        super().connection_made(_JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        self._registry.admit(self, self._address)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the counts."""
        self._registry.remove(self)
        self._stop_timers()
        super().connection_lost(exc)

    @property
    def _address(self) -> Hashable:
        return self.client[0] if self.client else None

    def may_be_dropped(self) -> bool:
        """Return True unless a request of an authenticated caller is being answered."""
        cycle = self._last_cycle
        return cycle is None or cycle.response_complete or "access" not in cycle.scope["state"]

    def drop(self) -> None:
        """Abort the connection, with its unread data."""
        # Removed from the counts now, because uvicorn reports the loss later.
        self.connections.discard(self)
        self._registry.remove(self)
        self.transport.abort()

    # --- reading -------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Add received bytes to the buffer, and parse those that may be parsed now."""
        self._unparsed += data
        self._parse_received()

    def _parse_received(self) -> None:
        """Parse the received bytes, up to the end of a request that is not answered yet."""
        # `self.cycle` exists here: without a running head timer, a first head was parsed.
        if self._head_timer is None and self.cycle.response_complete:
            # The next request begins, or the rest of a refused body is being discarded.
            self._start_timer()
        data, at = self._unparsed, 0
        self._unparsed = b""
        while at < len(data) and not self._is_answering and not self.transport.is_closing():
            piece = data[at : at + PARSED_BYTES]
            at += len(piece)
            self._unaccounted_bytes += len(piece)
            super().data_received(piece)
            if self._unaccounted_bytes > HEAD_BYTES_LIMIT:
                self.drop()
        if at < len(data) and not self.transport.is_closing():
            self._unparsed = data[at:]
            self.flow.pause_reading()
            if len(self._unparsed) > WAITING_BYTES_LIMIT:
                self.drop()

    @property
    def _is_answering(self) -> bool:
        """True if a request is complete and its answer is not."""
        cycle = self._last_cycle
        return bool(self.pipeline) or (
            cycle is not None and not cycle.more_body and not cycle.response_complete
        )

    @property
    def _last_cycle(self) -> RequestResponseCycle | None:
        """The last request whose head was read."""
        return self.cycle

    def on_response_complete(self) -> None:
        """Count the connection for its credential, and parse what waited behind the answer."""
        access = self.cycle.scope["state"].get("access") if not self.pipeline else None
        if access is not None:
            # The connection is authenticated, and idle from now on.
            self._registry.put(self, (self._address, access.credential))
        super().on_response_complete()
        if self._unparsed and not self.transport.is_closing():
            self._parse_received()

    def on_message_begin(self) -> None:
        """Limit the pipelined requests.

        Raises ValueError beyond the limit, which ends the connection.
        """
        if len(self.pipeline) >= PIPELINED_LIMIT:
            raise ValueError("too many requests at once")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Limit the headers of a request.

        Raises ValueError beyond the limit, which ends the connection.
        """
        if len(self.headers) >= HEADERS_LIMIT:
            raise ValueError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the timer of the head, and begin the request."""
        self._unaccounted_bytes = 0
        self._stop_head_timer()
        # The application calls this to drop the connection of an answer that is not read.
        self.scope["state"]["drop"] = self.drop
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._unaccounted_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Pass the end of a request on."""
        self._unaccounted_bytes = 0
        super().on_message_complete()

    # --- waiting -------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Start the timer of a client that does not read."""
        self._send_timer = self.loop.call_later(SEND_SECONDS_LIMIT, self.drop)
        super().pause_writing()

    def resume_writing(self) -> None:
        """End the timer of a client that reads again."""
        self._stop_send_timer()
        super().resume_writing()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS_LIMIT, self._end_slow_head)

    def _end_slow_head(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _stop_timers(self) -> None:
        self._stop_head_timer()
        self._stop_send_timer()
