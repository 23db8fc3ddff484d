"""POST /cal/stream: an ASSEMBLE as events, by server-sent events or by lines of JSON (CAL section 11).

A thread produces the events, the event loop sends them, and a bounded buffer lies between them. A client that reads
slowly makes the thread wait; one that does not read at all is dropped. A client cancels a stream by closing the
connection or with DELETE. The thread then closes the query, which records the cancellation.

So a slow client can hold a thread for a limited time only. The limits for one client (streams, buffered bytes, seconds)
are the constants below.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.cal import CalRequest, as_query_error, query_parser
from memoranda.bindings.http.call import HttpCall
from memoranda.bindings.http.threads import Threads
from memoranda.bindings.operations.cal import EVENTS, LINES
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError, NotFound, QueryError, RateLimited
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.cal.assembly import stream as cal
from memoranda.standards.cal.requests import Query

# Section 11, per client: open streams, buffered bytes, seconds that it may leave the buffer full.
STREAMS_PER_CREDENTIAL_LIMIT: Final = 3
BUFFER_BYTES: Final = 65_536
STALL_SECONDS: Final = 30.0
# Open streams of all clients.
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
    """The ASGI endpoint, and the register of the running streams."""

    def __init__(
        self,
        *,
        service: Service,
        threads: Threads,
        producers: Threads,
        max_body_bytes: int,
        stall_seconds: float,
    ) -> None:
        self._service = service
        self._threads = threads
        # A pool of its own, because a stream may hold a thread while its client reads.
        self._producers = producers
        self._max_body_bytes = max_body_bytes
        self._stall_seconds = stall_seconds
        self._limit = STREAMS_LIMIT
        self._streams: set[_CalStream] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        media_type = wire.prefer_media_type(
            wire.read_header(scope, b"accept") or "*/*", (EVENTS, LINES)
        )
        wire.check_length(scope, self._max_body_bytes)
        request = await self._threads.run(self._parse_call, scope, await wire.read_body(receive))
        stream = _CalStream(scope["state"]["caller"].digest, media_type, self._stall_seconds)
        self._admit(stream)
        try:
            await stream.run(
                self._producers, self._events(scope["state"]["access"], request), receive, send
            )
        finally:
            self._streams.discard(stream)

    def cancel(self, assembly_id: str, digest: bytes) -> None:
        """End a stream of this credential. Raises NotFound."""
        streams = (
            stream
            for stream in self._streams
            if stream.assembly_id == assembly_id and stream.digest == digest
        )
        if not any(stream.cancel(BY_REQUEST) for stream in streams):
            raise NotFound("no such stream is running")

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._limit = 0
        for stream in tuple(self._streams):
            stream.cancel(BY_SERVER)

    def _parse_call(self, scope: Scope, raw: bytes) -> CalRequest:
        try:
            return _parse_query(HttpCall(scope=scope, raw=raw, max_body_bytes=self._max_body_bytes))
        except InvalidInput as error:
            raise as_query_error(error) from None

    def _events(self, access: Access, request: CalRequest) -> Events:
        return self._service.cal.stream(
            access,
            request.query,
            params=request.params,
            strict=request.strict,
            raises=True,
            **request.caller_fields,
        )

    def _admit(self, stream: _CalStream) -> None:
        """Register a stream. Raises RateLimited if there are too many."""
        of_credential = sum(other.digest == stream.digest for other in self._streams)
        if of_credential >= STREAMS_PER_CREDENTIAL_LIMIT or len(self._streams) >= self._limit:
            raise RateLimited(
                "too many streams at once; wait for one to end, or cancel one",
                retry_after_seconds=1,
            )
        self._streams.add(stream)


class CancelStream:
    """The ASGI endpoint of DELETE, which cancels a stream."""

    def __init__(self, streams: CalStreams) -> None:
        self._streams = streams

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        assembly_id = HttpCall(scope=scope, raw=b"", max_body_bytes=0).path_name("assembly_id")
        self._streams.cancel(assembly_id, scope["state"]["caller"].digest)
        await wire.send_bytes(send, 200, dump({"assembly_id": assembly_id, "result": "cancelled"}))


class _CalStream:
    """One ASSEMBLE that is being streamed."""

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
        # `_has_data` tells the loop that the buffer has data; `_room` tells the thread that the buffer has room.
        self._has_data = asyncio.Event()
        self._room = threading.Condition()
        self._buffer: list[bytes] = []
        self._size = 0
        self._next_seq = self._sent_seq = 0
        # Seconds that the thread may still wait for the client, in total: it holds a reading connection meanwhile.
        self._patience = stall_seconds
        self._cancel_reason: str | None = None
        self._is_over = False

    def cancel(self, reason: str) -> bool:
        """Stop producing events. Return False if all are produced already."""
        with self._room:
            if self._is_over:
                return False
            self._cancel_reason = self._cancel_reason or reason
            self._room.notify_all()
            return True

    # --- in a thread -------------------------------------------------------------------------------------

    def produce(self, events: Events) -> None:
        """Produce the events until the query ends or the stream is cancelled."""
        try:
            with closing(events):
                if self._cancel_reason is None:
                    for event in events:
                        if not self._put(event):
                            return
        finally:
            self._end()

    def _end(self) -> None:
        """Note that no event follows, and wake the loop."""
        with self._room:
            self._is_over = True
        self._wake()

    def _put(self, event: cal.Event) -> bool:
        """Add an event to the buffer, waiting for room. Return False if the stream is cancelled."""
        frame = self._frame(event)
        started_at = time.monotonic()
        with self._room:
            has_room = self._room.wait_for(
                lambda: self._size < BUFFER_BYTES or self._cancel_reason is not None, self._patience
            )
            self._patience = max(0.0, self._patience - (time.monotonic() - started_at))
            if not has_room:
                self._cancel_reason = BY_STALL
            if self._cancel_reason is not None:
                return False
            self.assembly_id = event["assembly_id"]
            self._next_seq = event["seq"] + 1
            self._buffer.append(frame)
            self._size += len(frame)
        self._wake()
        return True

    def _wake(self) -> None:
        # At the very end the loop may be closed already.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._has_data.set)

    # --- on the event loop -------------------------------------------------------------------------------

    async def run(self, producers: Threads, events: Events, receive: Receive, send: Send) -> None:
        """Send the events as they are produced. Raises errors that occur before the first one."""
        production = asyncio.ensure_future(producers.run(self.produce, events))
        # Ends the stream also if no thread ever began it.
        production.add_done_callback(lambda _: self._end())
        watcher = asyncio.create_task(self._watch(receive))
        try:
            # Headers are sent after the first event, so that an immediate error still has its own status.
            data = await self._take()
            if not data:
                await self._raise_reason(production)
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            while data:
                await self._send(send, data)
                data = await self._take()
            await production
            if self._cancel_reason is not None:
                await self._send(send, self._cancelled_frame())
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            raise wire.ClientGone from None
        finally:
            self.cancel(BY_CLIENT)
            watcher.cancel()
            # The stream stays registered until its thread ended. An error was raised above, or the client is gone.
            await asyncio.wait({production})
            if not production.cancelled():
                production.exception()

    async def _raise_reason(self, production: asyncio.Future[None]) -> None:
        """Raise the error of a stream without any event."""
        await production
        if self._cancel_reason is not None:
            raise QueryError(
                f"Cancelled: {self._cancel_reason}.", cal_code=CANCELLED, suggestion="Ask again."
            )

    async def _take(self) -> bytes:
        """Wait for data and return all of the buffer; return nothing when the stream is over."""
        while True:
            self._has_data.clear()
            with self._room:
                if self._cancel_reason is not None:
                    # The rest of a cancelled stream is not sent; its end comes when the thread ended.
                    self._buffer.clear()
                if self._buffer or self._is_over:
                    data = b"".join(self._buffer)
                    self._buffer.clear()
                    self._size = 0
                    self._sent_seq = self._next_seq if data else self._sent_seq
                    self._room.notify_all()
                    return data
            await self._has_data.wait()

    async def _watch(self, receive: Receive) -> None:
        """Cancel the stream when the client disconnects."""
        with suppress(MemorandaError):
            while (await receive())["type"] != "http.disconnect":
                pass
        self.cancel(BY_CLIENT)

    async def _send(self, send: Send, data: bytes) -> None:
        """Send a part of the body. Raises TimeoutError if the client does not read it."""
        async with asyncio.timeout(self._stall_seconds):
            await send({"type": "http.response.body", "body": data, "more_body": True})

    def _cancelled_frame(self) -> bytes:
        """Return the last event of a cancelled stream."""
        event = cal.cancelled_event(self._cancel_reason or "")
        envelope = {
            "type": event.pop("type"),
            "assembly_id": self.assembly_id,
            "seq": self._sent_seq,
            "code": CANCELLED,
        }
        return self._frame(envelope | event)
