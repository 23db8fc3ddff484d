"""GET /ump/subscribe: changes as server-sent events (UMP §3.8).

No thread is held while a subscriber waits: the store's notifier wakes its task, which then reads the feed in a thread,
as the caller it was then and still is. Each event's id is its place in the feed, so that a client that comes back
with `Last-Event-ID` misses nothing and sees nothing twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.listener import Listener
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.event_stream import format_comment, format_event
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError, RateLimited
from memoranda.service.core.access import Access
from memoranda.service.core.feed import ChangeEvent, FeedPage
from memoranda.service.service import Service
from memoranda.standards.ump.requests import SubscribeRequest

# Every open stream costs a socket and a read per write; so many are one busy team.
SUBSCRIBERS_LIMIT = 200
# One credential may not take all places.
SUBSCRIBERS_PER_CREDENTIAL_LIMIT = 50
# Short of the 30 s after which proxies commonly cut a silent connection.
HEARTBEAT_SECONDS = 15.0
RETRY_MS = 2000

_PLACE = re.compile(r"[0-9]{1,18}", re.ASCII)
_HEADERS = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]


class Subscribe:
    """ASGI endpoint, and the register of the streams that are open."""

    def __init__(
        self, *, service: Service, threads: Threads, heartbeat_seconds: float, limit: int
    ) -> None:
        self._service = service
        self._threads = threads
        self._heartbeat_seconds = heartbeat_seconds
        self._limit = limit
        self._streams: set[_Stream] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope["state"]["caller"]
        access = scope["state"]["access"]
        asked = SubscribeRequest.parse_texts(dict(wire.query(scope)))
        after = _place(wire.header(scope, b"last-event-id"), asked.after)
        stream = _Stream(
            self._service,
            self._threads,
            access=access,
            bearer=caller.bearer,
            where=asked.conditions(),
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

    def _admit(self, stream: _Stream) -> None:
        of_credential = sum(other.bearer == stream.bearer for other in self._streams)
        if len(self._streams) >= self._limit or of_credential >= SUBSCRIBERS_PER_CREDENTIAL_LIMIT:
            raise RateLimited(
                "too many open subscriptions; close one or try later", retry_after_seconds=10
            )


class _Stream(Listener):
    """One subscriber."""

    def __init__(
        self,
        service: Service,
        threads: Threads,
        *,
        access: Access,
        bearer: str,
        where: Mapping[str, str],
        heartbeat_seconds: float,
    ) -> None:
        super().__init__(service)
        self.bearer = bearer
        self._access = access
        self._threads = threads
        self._where = where
        self._heartbeat_seconds = heartbeat_seconds
        self._cursor = 0
        # On the loop's clock.
        self._beat_at = 0.0

    async def run(self, after: int | None, receive: Receive, send: Send, *, is_head: bool) -> None:
        # Listen first, look second: nothing that is written in between is missed.
        stop_listening = self.listen()
        watcher: asyncio.Task[None] | None = None
        try:
            end = await self._threads.run(self._service.feed_end, self._access, self._where)
            # A place beyond the end is of another store: begin with what is new.
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
        while not self.is_over:
            self.look()
            try:
                page = await self._threads.run(self._next_page)
            except MemorandaError as error:
                # The headers are out. The client comes back and is told properly.
                await self.send(send, format_comment(error.code))
                return
            for event in page.events:
                await self.send(send, _frame(event))
            self._cursor = page.next
            if page.is_last and not await self.is_woken(self._beat_at):
                await self.send(send, format_comment("heartbeat"))

    def _next_page(self) -> FeedPage:
        # Authenticated anew each time, so that a credential that was revoked or has expired ends the stream.
        access = self._service.gate.authenticate(self.bearer)
        return self._service.changes(access, self._where, self._cursor)

    async def send(self, send: Send, data: bytes) -> None:
        await super().send(send, data)
        self._beat_at = self._loop.time() + self._heartbeat_seconds


def _frame(event: ChangeEvent) -> bytes:
    data = dump({"type": event.type, "id": event.id, "record": event.record})
    return format_event(event.type, data, event_id=event.seq)


def _place(header: str | None, parameter: int | None) -> int | None:
    """Where to go on. The header is what a browser sends by itself when it comes back, and so the newer one."""
    if header is None:
        return parameter
    if _PLACE.fullmatch(header) is None:
        raise InvalidInput("Last-Event-ID must be the id of an event of this feed")
    return int(header)
