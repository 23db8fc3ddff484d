"""Server-sent events for the pages: the position of the owner's change feed, whenever somebody writes.

An event has no content: the page loads its list again, with the access that its session has then. The session is
checked before each event and at each heartbeat, and a stream does not prolong it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.subscribe import Listener
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.event_stream import format_comment, format_event
from memoranda.encoding.json_text import dump
from memoranda.errors import MemorandaError
from memoranda.service.service import Service

# Open streams of all pages; a browser opens a few.
_STREAMS: Final = 200
# Seconds: below the 30 s after which proxies commonly cut a silent connection.
_HEARTBEAT_SECONDS: Final = 15.0
# Seconds between two events, so that a busy store does not keep a page loading.
_PAUSE_SECONDS: Final = 0.4
# Milliseconds after which a browser connects again.
_RETRY_MS: Final = 3_000


class LiveFeeds:
    """The register of the open streams."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._is_closed = False

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._is_closed = True
        for listener in tuple(self._listeners):
            listener.stop()

    def admit(self, listener: Listener) -> bool:
        """Register a stream; return False if there are too many, or the server stops."""
        if self._is_closed or len(self._listeners) >= _STREAMS:
            return False
        self._listeners.add(listener)
        return True

    def drop(self, listener: Listener) -> None:
        """Forget a stream that has ended."""
        self._listeners.discard(listener)


class LiveStream(Response):
    """The answer that stays open. `load_position` checks the session and returns the position of the feed."""

    def __init__(
        self,
        feeds: LiveFeeds,
        service: Service,
        threads: Threads,
        load_position: Callable[[], int],
    ) -> None:
        super().__init__()
        self._feeds, self._service, self._threads = feeds, service, threads
        self._load_position = load_position

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the browser leaves, the session ends, or the server stops."""
        listener = Listener(self._service)
        if not self._feeds.admit(listener):
            await Response(status_code=503, headers={"Retry-After": "10"})(scope, receive, send)
            return
        # Listening starts before the first read, so that no change in between is missed.
        stop_listening = listener.listen()
        watcher = asyncio.create_task(listener.watch(receive))
        try:
            await self._follow(listener, send)
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            raise wire.ClientGone from None
        finally:
            stop_listening()
            self._feeds.drop(listener)
            watcher.cancel()

    async def _follow(self, listener: Listener, send: Send) -> None:
        """Send the position, and again whenever it changes."""
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await listener.send(send, b"retry: %d\n\n" % _RETRY_MS)
        latest = -1
        while not listener.is_over:
            listener.start_reading()
            try:
                position = await self._threads.run(self._load_position)
            except MemorandaError:
                # The session has ended. The browser connects again and is refused.
                return
            if position != latest:
                latest = position
                await listener.send(send, format_event("change", dump({"seq": position})))
                await asyncio.sleep(_PAUSE_SECONDS)
            deadline = asyncio.get_running_loop().time() + _HEARTBEAT_SECONDS
            if not await listener.wait_for_change(deadline):
                await listener.send(send, format_comment("heartbeat"))
