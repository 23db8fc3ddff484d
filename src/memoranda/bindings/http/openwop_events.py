"""The event log of a run (openwop): as JSON, as server-sent events until the run is over, or as a poll that waits.

No thread is held while a reader waits: the change notifier wakes it (`subscribe.Listener`), and it reads the next page
in a thread. Each event's id in the stream of a run is its `sequence`, so that a client that reconnects with
`Last-Event-ID` misses nothing and sees nothing twice. In the stream of all runs of a tenant, the id is the event's
position among all of their events.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import HttpCall
from memoranda.bindings.http.subscribe import Listener
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.event_stream import format_comment, format_event
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError, RateLimited
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.openwop.events import Event, StreamMode, check_stream_mode, is_streamed
from memoranda.standards.openwop.requests import EventsRequest as EventsRequest
from memoranda.standards.openwop.requests import FollowRequest, PollRequest

# Open streams: each costs a socket and a read per write.
STREAMS_LIMIT: Final = 200
# Open streams of one credential, so that none uses up the limit of all.
STREAMS_PER_CREDENTIAL_LIMIT: Final = 50
# Seconds that a poll waits by default, and at most: below the 20 s after which clients of openwop give up.
POLL_SECONDS, POLL_SECONDS_LIMIT = 10, 15
# PositionedEvents of a log in one answer; a client that needs more continues after the last.
EVENTS_LIMIT: Final = 10_000
# Milliseconds after which a browser reconnects.
RETRY_MS: Final = 1000
STREAM: Final = "text/event-stream"

# PositionedEvents, each with its position: the id with which a client reconnects.
PositionedEvents = list[tuple[int, Event]]

_SEQUENCE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"x-accel-buffering", b"no"),
    (b"vary", b"accept"),
]


class RunEvents:
    """The ASGI endpoints of logs, and the register of their readers."""

    def __init__(self, *, service: Service, threads: Threads, keepalive_seconds: float) -> None:
        self._service = service
        self._threads = threads
        # openwop allows at most 30 s of silence.
        self._keepalive_seconds = min(keepalive_seconds, 30.0)
        self._limit = STREAMS_LIMIT
        self._readers: set[_LogReader] = set()

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve GET /v1/runs/{id}/events, as JSON or as a stream."""
        request = FollowRequest.parse_texts(dict(wire.parse_query(scope)))
        # Refusals come before the choice of the media type (stream-modes.md).
        after, mode = _start_position(scope, request), check_stream_mode(request.stream_mode)
        reader = self._run_reader(scope, after, mode)
        if _wants_stream(scope):
            await self._stream(scope, receive, send, reader)
            return
        events, is_complete = await self._threads.run(reader.all)
        await _send_events(send, events, isComplete=is_complete)

    async def all_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve GET /v1/host/events: the events of all runs, as a stream from now on, or page by page."""
        request = FollowRequest.parse_texts(dict(wire.parse_query(scope)))
        after, mode = _start_position(scope, request), check_stream_mode(request.stream_mode)
        is_streamed = _wants_stream(scope)
        start = None if is_streamed and after < 0 else max(after, 0)
        reader = _TenantReader(
            self._service, self._threads, scope["state"]["caller"].bearer, start, mode
        )
        if is_streamed:
            await self._stream(scope, receive, send, reader)
            return
        events, _ = await self._threads.run(reader.page)
        positions = [position for position, _ in events]
        await _send_events(
            send, events, places=positions, lastSequence=reader.position, end=reader.end
        )

    async def poll(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve GET /v1/runs/{id}/events/poll: answer as soon as there are events, or after the timeout."""
        request = PollRequest.parse_texts(dict(wire.parse_query(scope)))
        wait = min(POLL_SECONDS if request.timeout is None else request.timeout, POLL_SECONDS_LIMIT)
        reader = self._run_reader(scope, _start_position(scope, request), "debug")
        with self._admitted(reader):
            events, is_complete = await reader.wait(wait, receive)
        await wire.send_bytes(send, 200, _dump_events(events, isComplete=is_complete))

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._limit = 0
        for reader in tuple(self._readers):
            reader.stop()

    async def _stream(self, scope: Scope, receive: Receive, send: Send, reader: _LogReader) -> None:
        try:
            with self._admitted(reader):
                await reader.run(
                    receive, send, self._keepalive_seconds, is_head=scope["method"] == "HEAD"
                )
        except TimeoutError:
            raise wire.ClientGone from None

    def _run_reader(self, scope: Scope, after: int, mode: StreamMode) -> _RunReader:
        run_id = HttpCall(scope=scope, raw=b"", max_body_bytes=0).path_name("run_id")
        return _RunReader(
            self._service, self._threads, scope["state"]["caller"].bearer, run_id, after, mode
        )

    @contextmanager
    def _admitted(self, reader: _LogReader) -> Iterator[None]:
        """Register a reader while its request lasts. Raises RateLimited if there are too many."""
        of_credential = sum(other.bearer == reader.bearer for other in self._readers)
        if len(self._readers) >= self._limit or of_credential >= STREAMS_PER_CREDENTIAL_LIMIT:
            raise RateLimited(
                "too many open streams; close one or try later", retry_after_seconds=10
            )
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)


class _LogReader(Listener, ABC):
    """A client that reads a log."""

    def __init__(self, service: Service, threads: Threads, bearer: str, mode: StreamMode) -> None:
        super().__init__(service)
        self.bearer = bearer
        self._threads = threads
        self._mode = mode

    # --- in a thread -------------------------------------------------------------------------------------

    @abstractmethod
    def _read_page(self, access: Access) -> tuple[PositionedEvents, bool]:
        """Read the next events and move past them. Return them, and True if the log is complete."""

    def page(self) -> tuple[PositionedEvents, bool]:
        """Return the next events that the stream mode shows, and True if the log is complete."""
        # Authenticated for each page, so that a revoked or expired credential ends the stream.
        access = self._service.gate.authenticate(self.bearer)
        while True:
            events, is_complete = self._read_page(access)
            visible = [entry for entry in events if is_streamed(entry[1], self._mode)]
            if visible or is_complete or not events:
                return visible, is_complete

    def all(self) -> tuple[PositionedEvents, bool]:
        """Return all events up to the limit, and True if the log is complete."""
        events: PositionedEvents = []
        while len(events) < EVENTS_LIMIT:
            page, is_complete = self.page()
            events += page
            if is_complete or not page:
                return events, is_complete
        return events, False

    # --- on the event loop -------------------------------------------------------------------------------

    async def wait(self, seconds: float, receive: Receive) -> tuple[PositionedEvents, bool]:
        """Return the next events as soon as there are some, or none after some seconds."""
        stop_listening = self.listen()
        watcher = asyncio.create_task(self.watch(receive))
        deadline = self._loop.time() + seconds
        try:
            while True:
                self.start_reading()
                events, is_complete = await self._threads.run(self.page)
                if (
                    events
                    or is_complete
                    or self.is_over
                    or not await self.wait_for_change(deadline)
                ):
                    return events, is_complete
        finally:
            stop_listening()
            watcher.cancel()

    async def run(
        self, receive: Receive, send: Send, keepalive_seconds: float, *, is_head: bool
    ) -> None:
        """Send the events that exist and those that follow, until the run is over."""
        # Listening starts before the first read, so that no event in between is missed.
        stop_listening = self.listen()
        watcher: asyncio.Task[None] | None = None
        try:
            page, is_complete = await self._threads.run(self.page)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if not is_head:
                watcher = asyncio.create_task(self.watch(receive))
                await self.send(send, b"retry: %d\n\n" % RETRY_MS)
                await self._follow(
                    send, page, is_complete=is_complete, keepalive_seconds=keepalive_seconds
                )
            await send({"type": "http.response.body", "body": b""})
        finally:
            stop_listening()
            if watcher is not None:
                watcher.cancel()

    async def _follow(
        self, send: Send, page: PositionedEvents, *, is_complete: bool, keepalive_seconds: float
    ) -> None:
        """Send page after page, and comments while there are no events."""
        beat_at = self._loop.time() + keepalive_seconds
        while True:
            if page:
                await self.send(send, b"".join(map(_frame, page)))
                beat_at = self._loop.time() + keepalive_seconds
            if is_complete or self.is_over:
                return
            if not page and not await self.wait_for_change(beat_at):
                await self.send(send, format_comment("keepalive"))
                beat_at = self._loop.time() + keepalive_seconds
            self.start_reading()
            try:
                page, is_complete = await self._threads.run(self.page)
            except MemorandaError as error:
                # The headers are sent already. The client reconnects and then gets the error.
                await self.send(send, format_comment(error.code))
                return


class _RunReader(_LogReader):
    """A client that reads the log of one run."""

    def __init__(
        self,
        service: Service,
        threads: Threads,
        bearer: str,
        run_id: str,
        after: int,
        mode: StreamMode,
    ) -> None:
        super().__init__(service, threads, bearer, mode)
        self._run_id = run_id
        self._after = after

    def _read_page(self, access: Access) -> tuple[PositionedEvents, bool]:
        events, is_complete = self._service.openwop.events(access, self._run_id, after=self._after)
        if events:
            self._after = events[-1]["sequence"]
        return [(event["sequence"], event) for event in events], is_complete


class _TenantReader(_LogReader):
    """A client that reads the events of all runs of a tenant, in the order they were written. The log never ends."""

    def __init__(
        self, service: Service, threads: Threads, bearer: str, after: int | None, mode: StreamMode
    ) -> None:
        super().__init__(service, threads, bearer, mode)
        self._after = after
        # The position at which the logs ended at the last read.
        self.end = 0

    @property
    def position(self) -> int:
        """The position of the last event that was read."""
        return self._after or 0

    def _read_page(self, access: Access) -> tuple[PositionedEvents, bool]:
        events, self.end = self._service.openwop.all_events(access, after=self._after)
        if events:
            self._after = events[-1][0]
        elif self._after is None:
            self._after = self.end
        return events, False


def _wants_stream(scope: Scope) -> bool:
    return (
        wire.prefer_media_type(wire.read_header(scope, b"accept") or "*/*", (STREAM, wire.JSON))
        == STREAM
    )


async def _send_events(send: Send, events: PositionedEvents, **more: object) -> None:
    await wire.send_bytes(send, 200, _dump_events(events, **more), [(b"vary", b"accept")])


def _dump_events(events: PositionedEvents, **more: object) -> bytes:
    return dump({"events": [event for _, event in events], **more})


def _frame(positioned: tuple[int, Event]) -> bytes:
    position, event = positioned
    return format_event(event["type"], dump(event), event_id=position)


def _start_position(scope: Scope, request: EventsRequest) -> int:
    """Return the last sequence that the client has; -1 for none. The header counts first: browsers send it."""
    text = wire.read_header(scope, b"last-event-id")
    if not text:
        return -1 if request.last_sequence is None else request.last_sequence
    if _SEQUENCE.fullmatch(text) is None:
        raise InvalidInput("Last-Event-ID must be the sequence of an event of this run")
    return int(text)
