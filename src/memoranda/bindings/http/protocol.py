"""uvicorn's fast HTTP/1.1 protocol with the two limits it lacks: on the size of a request's head and on its time.

Without them anyone, credential or not, could send a header without end and fill our memory, or send it a byte a
minute and hold a connection for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# URL and headers of one request: a capability token has at most 8 KiB, a proxy may add as much again.
HEAD_BYTES_LIMIT = 65_536
# From the first byte, or from the connection's start, to the end of the head.
HEAD_SECONDS_LIMIT = 20.0


class _Joining:
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


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection whose request head is too long or too late."""

    # Bytes since the parser last had something to show for them; chunk sizes and trailers count too.
    _unaccounted_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Joining(transport, self.loop))  # type: ignore[arg-type]
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # After the first head there always is a cycle, whatever the timer says.
        if self._head_timer is None and self.cycle.response_complete:
            # The next request begins, or the rest of a body that was not wanted is being thrown away.
            self._start_timer()
        self._unaccounted_bytes += len(data)
        super().data_received(data)
        if self._unaccounted_bytes > HEAD_BYTES_LIMIT and not self.transport.is_closing():
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._unaccounted_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unaccounted_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unaccounted_bytes = 0
        super().on_message_complete()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS_LIMIT, self._give_up)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
