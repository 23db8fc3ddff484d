"""POST /cal/stream: an ASSEMBLE as events, by server-sent events or by lines of JSON (CAL section 11).

A thread makes the events, the event loop sends them, and between them is a bounded buffer: a client that reads slowly
makes the thread wait, and one that does not read at all is given up. Whoever closes the connection, or asks with
DELETE, cancels; the thread then closes the query, which puts that on record.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.cal import ParsedQuery, malformed, query_parser
from memoranda.bindings.http.call import HttpCall
from memoranda.bindings.http.threads import Threads
from memoranda.bindings.operations.cal import EVENTS, LINES
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError, NotFound, QueryError, RateLimited
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.cal.assembly import stream as cal
from memoranda.standards.cal.requests import Query

# Section 11: so many of one client at once, so much waiting to be sent, and so long for a client that does not read.
STREAMS_PER_CREDENTIAL_LIMIT: Final = 3
BUFFER_BYTES: Final = 65_536
STALL_SECONDS: Final = 30.0
# All clients together.
STREAMS_LIMIT: Final = 60
CANCELLED: Final = "CAL-E082"
BY_REQUEST: Final = "asked for"
BY_CLIENT: Final = "closed by the client"
BY_STALL: Final = "the client does not read"
BY_SERVER: Final = "the server stops"

_parse_query: Final = query_parser(Query)
_FRAMES: Final = {EVENTS: cal.encode_sse, LINES: cal.encode_ndjson}

Events = Generator[cal.Event, None, None]


class CalStreams:
    """ASGI endpoint, and the register of the streams that run."""

    def __init__(
        self,
        *,
        service: Service,
        threads: Threads,
        makers: Threads,
        max_body_bytes: int,
        stall_seconds: float,
    ) -> None:
        self._service = service
        self._threads = threads
        # Threads of their own: a stream may hold one while its client reads.
        self._makers = makers
        self._max_body_bytes = max_body_bytes
        self._stall_seconds = stall_seconds
        self._limit = STREAMS_LIMIT
        self._streams: set[_CalStream] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        media_type = wire.prefer_media_type(
            wire.read_header(scope, b"accept") or "*/*", (EVENTS, LINES)
        )
        wire.check_length(scope, self._max_body_bytes)
        wanted = await self._threads.run(self._wanted, scope, await wire.read_body(receive))
        stream = _CalStream(scope["state"]["caller"].digest, media_type, self._stall_seconds)
        self._admit(stream)
        try:
            await stream.run(
                self._makers, self._events(scope["state"]["access"], wanted), receive, send
            )
        finally:
            self._streams.discard(stream)

    def cancel(self, assembly_id: str, digest: bytes) -> None:
        """End a stream of this credential. Raises NotFound."""
        mine = (
            each
            for each in self._streams
            if each.assembly_id == assembly_id and each.digest == digest
        )
        if not any(stream.cancel(BY_REQUEST) for stream in mine):
            raise NotFound("no such stream is running")

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._limit = 0
        for stream in tuple(self._streams):
            stream.cancel(BY_SERVER)

    def _wanted(self, scope: Scope, raw: bytes) -> ParsedQuery:
        try:
            return _parse_query(HttpCall(scope=scope, raw=raw, max_body_bytes=self._max_body_bytes))
        except InvalidInput as error:
            raise malformed(error) from None

    def _events(self, access: Access, wanted: ParsedQuery) -> Events:
        how: dict[str, Any] = {"params": wanted.params, "strict": wanted.strict, "raises": True}
        return self._service.cal.stream(access, wanted.query, **how, **wanted.caller_fields)

    def _admit(self, stream: _CalStream) -> None:
        of_credential = sum(other.digest == stream.digest for other in self._streams)
        if of_credential >= STREAMS_PER_CREDENTIAL_LIMIT or len(self._streams) >= self._limit:
            raise RateLimited(
                "too many streams at once; let one end, or cancel it", retry_after_seconds=1
            )
        self._streams.add(stream)


class CancelStream:
    """ASGI endpoint of DELETE."""

    def __init__(self, streams: CalStreams) -> None:
        self._streams = streams

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        assembly_id = HttpCall(scope=scope, raw=b"", max_body_bytes=0).path_name("assembly_id")
        self._streams.cancel(assembly_id, scope["state"]["caller"].digest)
        await wire.send_bytes(send, 200, dump({"assembly_id": assembly_id, "result": "cancelled"}))


class _CalStream:
    """One ASSEMBLE on its way."""

    def __init__(self, digest: bytes, media_type: str, stall_seconds: float) -> None:
        self.digest = digest
        self.assembly_id: str | None = None
        self._frame: Callable[[cal.Event], bytes] = _FRAMES[media_type]
        self._headers = [
            (b"content-type", media_type.encode("ascii")),
            (b"x-accel-buffering", b"no"),
        ]
        self._stall_seconds = stall_seconds
        self._loop = asyncio.get_running_loop()
        # For the loop: there is something to take. For the thread: there is room again. The lock is never held long.
        self._ready = asyncio.Event()
        self._room = threading.Condition()
        self._waiting: list[bytes] = []
        self._size = 0
        self._next_seq = self._sent_seq = 0
        # How long the thread may still wait for the client, in all: a thread and a reading connection are held.
        self._patience = stall_seconds
        self._cancel_reason: str | None = None
        self._is_over = False

    def cancel(self, reason: str) -> bool:
        """Stop making events; False if all are made."""
        with self._room:
            if self._is_over:
                return False
            self._cancel_reason = self._cancel_reason or reason
            self._room.notify_all()
            return True

    # --- in a thread -------------------------------------------------------------------------------------

    def make(self, events: Events) -> None:
        """Make the events, until all are made or nobody wants them any more."""
        try:
            with closing(events):
                if self._cancel_reason is None:
                    for event in events:
                        if not self._put(event):
                            return
        finally:
            self._end()

    def _end(self) -> None:
        with self._room:
            self._is_over = True
        self._wake()

    def _put(self, event: cal.Event) -> bool:
        """Add an event to the buffer; False when the stream is cancelled."""
        frame = self._frame(event)
        begun = time.monotonic()
        with self._room:
            has_room = self._room.wait_for(
                lambda: self._size < BUFFER_BYTES or self._cancel_reason is not None, self._patience
            )
            self._patience = max(0.0, self._patience - (time.monotonic() - begun))
            if not has_room:
                self._cancel_reason = BY_STALL
            if self._cancel_reason is not None:
                return False
            self.assembly_id = event["assembly_id"]
            self._next_seq = event["seq"] + 1
            self._waiting.append(frame)
            self._size += len(frame)
        self._wake()
        return True

    def _wake(self) -> None:
        # At the very end the loop may be closed already.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ready.set)

    # --- on the event loop -------------------------------------------------------------------------------

    async def run(self, makers: Threads, events: Events, receive: Receive, send: Send) -> None:
        making = asyncio.ensure_future(makers.run(self.make, events))
        # Also of what never got its turn.
        making.add_done_callback(lambda _: self._end())
        watcher = asyncio.create_task(self._watch(receive))
        try:
            # Before the headers are out, what goes wrong at once still has a status of its own.
            data = await self._take()
            if not data:
                await self._check(making)
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            while data:
                await self._send(send, data)
                data = await self._take()
            await making
            if self._cancel_reason is not None:
                await self._send(send, self._farewell())
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            raise wire.ClientGone from None
        finally:
            self.cancel(BY_CLIENT)
            watcher.cancel()
            # Only then is it out of the register; what failed was raised above, or nobody is left to hear it.
            await asyncio.wait({making})
            if not making.cancelled():
                making.exception()

    async def _check(self, making: asyncio.Future[None]) -> None:
        """Of a stream without any event: why."""
        await making
        if self._cancel_reason is not None:
            raise QueryError(
                f"Cancelled: {self._cancel_reason}.", cal_code=CANCELLED, suggestion="Ask again."
            )

    async def _take(self) -> bytes:
        """All that is there, as soon as there is something; nothing when the stream is over."""
        while True:
            self._ready.clear()
            with self._room:
                if self._cancel_reason is not None:
                    # What is cancelled is not sent any more; whoever waits for its end waits for the thread.
                    self._waiting.clear()
                if self._waiting or self._is_over:
                    data = b"".join(self._waiting)
                    self._waiting.clear()
                    self._size = 0
                    self._sent_seq = self._next_seq if data else self._sent_seq
                    self._room.notify_all()
                    return data
            await self._ready.wait()

    async def _watch(self, receive: Receive) -> None:
        with suppress(MemorandaError):
            while (await receive())["type"] != "http.disconnect":
                pass
        self.cancel(BY_CLIENT)

    async def _send(self, send: Send, data: bytes) -> None:
        async with asyncio.timeout(self._stall_seconds):
            await send({"type": "http.response.body", "body": data, "more_body": True})

    def _farewell(self) -> bytes:
        event = cal.cancelled_event(self._cancel_reason or "")
        named = {
            "type": event.pop("type"),
            "assembly_id": self.assembly_id,
            "seq": self._sent_seq,
            "code": CANCELLED,
        }
        return self._frame(named | event)
