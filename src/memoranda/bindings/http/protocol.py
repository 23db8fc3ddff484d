"""uvicorn's fast HTTP/1.1 protocol with the limits it lacks, so that nobody without a credential can fill our memory.

    head            its bytes, its headers and its time
    pipelining      a request that comes before the last one was answered waits unread
    unread answers  a client that reads nothing for a while is let go
    connections     at the limit, whoever has most of them loses the oldest that is not at work for a known caller

What one connection can make us hold is a few hundred KiB; of connections there are at most as many as `server` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from functools import partial
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from memoranda.service.core.limits import FairShares

# URL and headers of one request: a capability token has at most 8 KiB, and as much again for what a proxy adds.
HEAD_BYTES_LIMIT: Final = 32_768
# Parsed, a header of five bytes takes thirty times as much.
HEADERS_LIMIT: Final = 100
# From the first byte, or from the connection's start, to the end of the head.
HEAD_SECONDS_LIMIT = 20.0
# A client that takes nothing of its answer for so long is not reading any more.
SEND_SECONDS_LIMIT = 30.0
# Bytes given to the parser at once; so many requests of a client that sends several at once are read before it waits.
PARSED_BYTES: Final = 4_096
PIPELINED_LIMIT: Final = 16
# What may wait unread behind a request that is being answered.
WAITING_BYTES_LIMIT: Final = 65_536


class _JoinedWrites:
    """A transport that sends what is written in one turn of the loop as one piece: a head and its body together.

    uvicorn writes them one by one, and each is a system call here, a packet on the way and a wake-up over there.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append(data)
        if len(data) >= PARSED_BYTES:
            # So that whoever sends more learns in time that nobody reads.
            self._send()

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        data = b"".join(self._waiting)
        self._waiting.clear()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connections(FairShares["BoundedHttpProtocol"]):
    """All connections of a server."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def admit(self, connection: BoundedHttpProtocol, holder: Hashable) -> None:
        """Take a connection in; if there are too many, another goes."""
        self.put(connection, holder)
        if (
            len(self) > self._limit
            and (leaving := self.evict(BoundedHttpProtocol.may_go)) is not None
        ):
            leaving.drop()


def bounded_protocol(crowd: Connections) -> type[asyncio.Protocol]:
    """The protocol of the connections of one server."""
    # uvicorn calls it and asks nothing else of it.
    return cast("type[asyncio.Protocol]", partial(BoundedHttpProtocol, crowd=crowd))


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection, within its limits."""

    # Bytes since the parser last had something to show for them; chunk sizes and trailers count too.
    _unaccounted_bytes = 0
    # What came behind a request that is being answered.
    _waiting = b""
    _head_timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, crowd: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._crowd = crowd

    # --- connections ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        self._crowd.admit(self, self._address)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.remove(self)
        self._stop_timers()
        super().connection_lost(exc)

    @property
    def _address(self) -> Hashable:
        return self.client[0] if self.client else None

    def may_go(self) -> bool:
        """Whether nothing is at work here for a caller who is known."""
        cycle = self._last
        return cycle is None or cycle.response_complete or "access" not in cycle.scope["state"]

    def drop(self) -> None:
        """End it at once, with whatever was not read."""
        # Counted no more from now on, although it is told later.
        self.connections.discard(self)
        self._crowd.remove(self)
        self.transport.abort()

    # --- reading -------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        self._read_on()

    def _read_on(self) -> None:
        """Read what came, up to the end of a request that is not answered yet."""
        # After the first head there always is a cycle, whatever the timer says.
        if self._head_timer is None and self.cycle.response_complete:
            # The next request begins, or the rest of a body that was not wanted is being thrown away.
            self._start_timer()
        data, at = self._waiting, 0
        self._waiting = b""
        while at < len(data) and not self._is_answering and not self.transport.is_closing():
            piece = data[at : at + PARSED_BYTES]
            at += len(piece)
            self._unaccounted_bytes += len(piece)
            super().data_received(piece)
            if self._unaccounted_bytes > HEAD_BYTES_LIMIT:
                self.drop()
        if at < len(data) and not self.transport.is_closing():
            self._waiting = data[at:]
            self.flow.pause_reading()
            if len(self._waiting) > WAITING_BYTES_LIMIT:
                self.drop()

    @property
    def _is_answering(self) -> bool:
        """Whether all of a request is here and its answer is not over."""
        cycle = self._last
        return bool(self.pipeline) or (
            cycle is not None and not cycle.more_body and not cycle.response_complete
        )

    @property
    def _last(self) -> RequestResponseCycle | None:
        """The last request whose head was read."""
        return self.cycle

    def on_response_complete(self) -> None:
        access = self.cycle.scope["state"].get("access") if not self.pipeline else None
        if access is not None:
            # Known, and idle since now.
            self._crowd.put(self, (self._address, access.credential))
        super().on_response_complete()
        if self._waiting and not self.transport.is_closing():
            self._read_on()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_LIMIT:
            raise ValueError("too many requests at once")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS_LIMIT:
            raise ValueError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unaccounted_bytes = 0
        self._stop_head_timer()
        # With this the application can end an answer that is not read, without a word.
        self.scope["state"]["drop"] = self.drop
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unaccounted_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unaccounted_bytes = 0
        super().on_message_complete()

    # --- waiting -------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._send_timer = self.loop.call_later(SEND_SECONDS_LIMIT, self.drop)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stop_send_timer()
        super().resume_writing()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS_LIMIT, self._give_up)

    def _give_up(self) -> None:
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
