"""GET /ump/subscribe: changes as server-sent events (UMP §3.8).

No thread is held while a subscriber waits: the store's notifier wakes its task (`Listener`), which then reads the feed
in a thread, after checking the credential again. Each event's id is its position in the feed, so that a client that
reconnects with `Last-Event-ID` misses nothing and sees nothing twice.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.event_stream import format_comment, format_event
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError, RateLimited
from memoranda.measures import FEED_LAG, STREAMS
from memoranda.service.core.access import Access
from memoranda.service.core.feed import ChangeEvent, FeedPage
from memoranda.service.service import Service
from memoranda.standards.ump.requests import SubscribeRequest

# Open streams: each costs a socket and a read per write; this many serve one busy team.
SUBSCRIBERS_LIMIT = 200
# Open streams of one credential, so that none uses up the limit of all.
SUBSCRIBERS_PER_CREDENTIAL_LIMIT = 50
# Seconds: below the 30 s after which proxies commonly cut a silent connection.
HEARTBEAT_SECONDS = 15.0
# Milliseconds after which a browser reconnects.
RETRY_MS = 2000
# Seconds that a send may take; a client that reads nothing for so long has stopped listening.
SEND_SECONDS_LIMIT: Final = 30.0

_POSITION = re.compile(r"[0-9]{1,18}", re.ASCII)
_HEADERS = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]


class Listener:
    """A client that waits for writes of any process. It ends when the client disconnects or the server stops."""

    def __init__(self, service: Service) -> None:
        self.is_over = False
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        # Times of the first change since the last read began, and of the first one that this read covers; 0: none.
        self._changed_at = self._reading_since = 0.0

    def stop(self) -> None:
        """End the wait of this client."""
        self.is_over = True
        self._wake.set()

    def listen(self) -> Callable[[], None]:
        """Start listening for changes. Return the function that ends it."""
        stop = self._service.notifier.listen(self._note_change)
        STREAMS.add()

        def end() -> None:
            stop()
            STREAMS.add(amount=-1)

        return end

    def _note_change(self) -> None:
        # Called from the notifier's thread; at the very end the loop may be closed already.
        self._changed_at = self._changed_at or time.perf_counter()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)

    async def watch(self, receive: Receive) -> None:
        """Stop when the client disconnects, or sends a body over the limit."""
        with suppress(MemorandaError):
            while (await receive())["type"] != "http.disconnect":
                pass
        self.stop()

    def start_reading(self) -> None:
        """Note that a read begins now, which covers all changes so far."""
        self._reading_since, self._changed_at = self._reading_since or self._changed_at, 0.0
        self._wake.clear()

    async def wait_for_change(self, deadline: float) -> bool:
        """Wait for a change. Return False at the deadline (of the loop's clock), even if changes keep coming."""
        # A client that waits for more has been sent all changes that were read.
        if self._reading_since:
            FEED_LAG.observe(time.perf_counter() - self._reading_since)
            self._reading_since = 0.0
        try:
            async with asyncio.timeout_at(deadline):
                await self._wake.wait()
        except TimeoutError:
            return False
        return self._loop.time() < deadline

    async def send(self, send: Send, data: bytes) -> None:
        """Send a part of the body. Raises TimeoutError if the client does not read it."""
        async with asyncio.timeout(SEND_SECONDS_LIMIT):
            await send({"type": "http.response.body", "body": data, "more_body": True})


class Subscribe:
    """The ASGI endpoint, and the register of the open streams."""

    def __init__(
        self, *, service: Service, threads: Threads, heartbeat_seconds: float, limit: int
    ) -> None:
        self._service = service
        self._threads = threads
        self._heartbeat_seconds = heartbeat_seconds
        self._limit = limit
        self._streams: set[_Subscriber] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope["state"]["caller"]
        access = scope["state"]["access"]
        request = SubscribeRequest.parse_texts(dict(wire.parse_query(scope)))
        after = _start_position(wire.read_header(scope, b"last-event-id"), request.after)
        stream = _Subscriber(
            self._service,
            self._threads,
            access=access,
            bearer=caller.bearer,
            conditions=request.conditions(),
            heartbeat_seconds=self._heartbeat_seconds,
        )
        self._admit(stream)
        self._streams.add(stream)
        try:
            await stream.run(after, receive, send, is_head=scope["method"] == "HEAD")
        finally:
            self._streams.discard(stream)

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._limit = 0
        for stream in tuple(self._streams):
            stream.stop()

    def _admit(self, stream: _Subscriber) -> None:
        of_credential = sum(other.bearer == stream.bearer for other in self._streams)
        if len(self._streams) >= self._limit or of_credential >= SUBSCRIBERS_PER_CREDENTIAL_LIMIT:
            raise RateLimited(
                "too many open subscriptions; close one or try later", retry_after_seconds=10
            )


class _Subscriber(Listener):
    """One subscriber and its stream."""

    def __init__(
        self,
        service: Service,
        threads: Threads,
        *,
        access: Access,
        bearer: str,
        conditions: Mapping[str, str],
        heartbeat_seconds: float,
    ) -> None:
        super().__init__(service)
        self.bearer = bearer
        self._access = access
        self._threads = threads
        self._conditions = conditions
        self._heartbeat_seconds = heartbeat_seconds
        self._cursor = 0
        # Time of the next heartbeat, on the loop's clock.
        self._beat_at = 0.0

    async def run(self, after: int | None, receive: Receive, send: Send, *, is_head: bool) -> None:
        """Send changes after a position until the client disconnects; None begins at the end of the feed."""
        # Listening starts before the first read, so that no change in between is missed.
        stop_listening = self.listen()
        watcher: asyncio.Task[None] | None = None
        try:
            end = await self._threads.run(self._service.feed_end, self._access, self._conditions)
            # A position beyond the end is one of another store: begin at the end.
            self._cursor = end if after is None else min(after, end)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if not is_head:
                watcher = asyncio.create_task(self.watch(receive))
                opening = format_comment("ump subscribe open") + b"retry: %d\nid: %d\n\n" % (
                    RETRY_MS,
                    self._cursor,
                )
                await self.send(send, opening)
                await self._follow(send)
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            raise wire.ClientGone from None
        finally:
            stop_listening()
            if watcher is not None:
                watcher.cancel()

    async def _follow(self, send: Send) -> None:
        """Send page after page, and heartbeats while there are no changes."""
        while not self.is_over:
            self.start_reading()
            try:
                page = await self._threads.run(self._next_page)
            except MemorandaError as error:
                # The headers are sent already. The client reconnects and then gets the error.
                await self.send(send, format_comment(error.code))
                return
            for event in page.events:
                await self.send(send, _frame(event))
            self._cursor = page.next
            if page.is_last and not await self.wait_for_change(self._beat_at):
                await self.send(send, format_comment("heartbeat"))

    def _next_page(self) -> FeedPage:
        # Authenticated for each page, so that a revoked or expired credential ends the stream.
        access = self._service.gate.authenticate(self.bearer)
        return self._service.changes(access, self._conditions, self._cursor)

    async def send(self, send: Send, data: bytes) -> None:
        """Send a part of the body, and put off the next heartbeat."""
        await super().send(send, data)
        self._beat_at = self._loop.time() + self._heartbeat_seconds


def _frame(event: ChangeEvent) -> bytes:
    data = dump({"type": event.type, "id": event.id, "record": event.record})
    return format_event(event.type, data, event_id=event.seq)


def _start_position(header: str | None, parameter: int | None) -> int | None:
    """Return the position to continue after. The header counts first: a reconnecting browser sends it by itself."""
    if header is None:
        return parameter
    if _POSITION.fullmatch(header) is None:
        raise InvalidInput("Last-Event-ID must be the id of an event of this feed")
    return int(header)
