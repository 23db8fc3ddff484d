"""The log of a run (openwop): as JSON, as server-sent events until the run is over, or as a poll that waits.

No thread is held while a reader waits: the change notifier wakes it. Each event's id in the stream is its `sequence`,
so that a client that comes back with `Last-Event-ID` misses nothing and sees nothing twice. In the stream of all runs
of a tenant it is the event's place among all of them.
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

# Every open stream costs a socket and a read per write.
STREAMS_LIMIT: Final = 200
STREAMS_PER_CREDENTIAL_LIMIT: Final = 50
# Below the 20 s after which clients of openwop give a request up.
POLL_SECONDS, POLL_SECONDS_LIMIT = 10, 15
# A log that is rendered at once; who needs more goes on from the last.
EVENTS_LIMIT: Final = 10_000
RETRY_MS: Final = 1000
STREAM: Final = "text/event-stream"

# Each with the id that a reader comes back with.
Events = list[tuple[int, Event]]

_SEQUENCE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"x-accel-buffering", b"no"),
    (b"vary", b"accept"),
]


class RunEvents:
    """The readers of logs that are waiting."""

    def __init__(self, *, service: Service, threads: Threads, keepalive_seconds: float) -> None:
        self._service = service
        self._threads = threads
        # RFC of the stream: at most 30 s of silence.
        self._keepalive_seconds = min(keepalive_seconds, 30.0)
        self._limit = STREAMS_LIMIT
        self._readers: set[_LogReader] = set()

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /v1/runs/{id}/events."""
        asked = FollowRequest.parse_texts(dict(wire.parse_query(scope)))
        # Refused before the form of the answer is looked at (stream-modes.md).
        after, mode = _after(scope, asked), check_stream_mode(asked.stream_mode)
        reader = self._reader(scope, after, mode)
        if _wants_stream(scope):
            await self._stream(scope, receive, send, reader)
            return
        found, is_complete = await self._threads.run(reader.all)
        await _send_events(send, found, isComplete=is_complete)

    async def all_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /v1/host/events: those of all runs, from now on as a stream, or page by page."""
        asked = FollowRequest.parse_texts(dict(wire.parse_query(scope)))
        after, mode = _after(scope, asked), check_stream_mode(asked.stream_mode)
        is_streamed = _wants_stream(scope)
        start = None if is_streamed and after < 0 else max(after, 0)
        reader = _TenantReader(
            self._service, self._threads, scope["state"]["caller"].bearer, start, mode
        )
        if is_streamed:
            await self._stream(scope, receive, send, reader)
            return
        found, _ = await self._threads.run(reader.page)
        places = [place for place, _ in found]
        await _send_events(send, found, places=places, lastSequence=reader.place, end=reader.end)

    async def poll(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /v1/runs/{id}/events/poll."""
        asked = PollRequest.parse_texts(dict(wire.parse_query(scope)))
        wait = min(POLL_SECONDS if asked.timeout is None else asked.timeout, POLL_SECONDS_LIMIT)
        reader = self._reader(scope, _after(scope, asked), "debug")
        with self._admitted(reader):
            found, is_complete = await reader.wait(wait, receive)
        await wire.send_bytes(send, 200, _events(found, isComplete=is_complete))

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

    def _reader(self, scope: Scope, after: int, mode: StreamMode) -> _RunReader:
        run_id = HttpCall(scope=scope, raw=b"", max_body_bytes=0).path_name("run_id")
        return _RunReader(
            self._service, self._threads, scope["state"]["caller"].bearer, run_id, after, mode
        )

    @contextmanager
    def _admitted(self, reader: _LogReader) -> Iterator[None]:
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
    """One reader of a log."""

    def __init__(self, service: Service, threads: Threads, bearer: str, mode: StreamMode) -> None:
        super().__init__(service)
        self.bearer = bearer
        self._threads = threads
        self._mode = mode

    # --- in a thread -------------------------------------------------------------------------------------

    @abstractmethod
    def _read(self, access: Access) -> tuple[Events, bool]:
        """What follows, with the place of each, and whether nothing will; the reader has it from then on."""

    def page(self) -> tuple[Events, bool]:
        """What is shown of what follows, and whether that is all."""
        # Authenticated anew each time, so that a credential that was revoked or has expired ends the stream.
        access = self._service.gate.authenticate(self.bearer)
        while True:
            found, is_complete = self._read(access)
            seen = [(place, event) for place, event in found if is_streamed(event, self._mode)]
            if seen or is_complete or not found:
                return seen, is_complete

    def all(self) -> tuple[Events, bool]:
        found: Events = []
        while len(found) < EVENTS_LIMIT:
            page, is_complete = self.page()
            found += page
            if is_complete or not page:
                return found, is_complete
        return found, False

    # --- on the event loop -------------------------------------------------------------------------------

    async def wait(self, seconds: float, receive: Receive) -> tuple[Events, bool]:
        """What there is as soon as there is something, or nothing after a while."""
        stop_listening = self.listen()
        watcher = asyncio.create_task(self.watch(receive))
        deadline = self._loop.time() + seconds
        try:
            while True:
                self.start_reading()
                found, is_complete = await self._threads.run(self.page)
                if found or is_complete or self.is_over or not await self.wait_for_change(deadline):
                    return found, is_complete
        finally:
            stop_listening()
            watcher.cancel()

    async def run(
        self, receive: Receive, send: Send, keepalive_seconds: float, *, is_head: bool
    ) -> None:
        """Send what there is and what comes, until the run is over."""
        # Listen first, look second: nothing that is written in between is missed.
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
        self, send: Send, page: Events, *, is_complete: bool, keepalive_seconds: float
    ) -> None:
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
                # The headers are out. The client comes back and is told properly.
                await self.send(send, format_comment(error.code))
                return


class _RunReader(_LogReader):
    """One reader of the log of one run."""

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

    def _read(self, access: Access) -> tuple[Events, bool]:
        found, is_complete = self._service.openwop.events(access, self._run_id, after=self._after)
        if found:
            self._after = found[-1]["sequence"]
        return [(event["sequence"], event) for event in found], is_complete


class _TenantReader(_LogReader):
    """One reader of the logs of all runs of a tenant, in the order in which they were written; it never ends."""

    def __init__(
        self, service: Service, threads: Threads, bearer: str, after: int | None, mode: StreamMode
    ) -> None:
        super().__init__(service, threads, bearer, mode)
        self._after = after
        # Where the logs ended when it last looked.
        self.end = 0

    @property
    def place(self) -> int:
        """The place of the last event that it has."""
        return self._after or 0

    def _read(self, access: Access) -> tuple[Events, bool]:
        found, self.end = self._service.openwop.all_events(access, after=self._after)
        self._after = found[-1][0] if found else self.end if self._after is None else self._after
        return found, False


def _wants_stream(scope: Scope) -> bool:
    return (
        wire.prefer_media_type(wire.read_header(scope, b"accept") or "*/*", (STREAM, wire.JSON))
        == STREAM
    )


async def _send_events(send: Send, found: Events, **more: object) -> None:
    await wire.send_bytes(send, 200, _events(found, **more), [(b"vary", b"accept")])


def _events(found: Events, **more: object) -> bytes:
    return dump({"events": [event for _, event in found], **more})


def _frame(placed: tuple[int, Event]) -> bytes:
    place, event = placed
    return format_event(event["type"], dump(event), event_id=place)


def _after(scope: Scope, asked: EventsRequest) -> int:
    """The last sequence that the reader has; -1 for none. The header is what a browser sends by itself."""
    text = wire.read_header(scope, b"last-event-id")
    if not text:
        return -1 if asked.last_sequence is None else asked.last_sequence
    if _SEQUENCE.fullmatch(text) is None:
        raise InvalidInput("Last-Event-ID must be the sequence of an event of this run")
    return int(text)
