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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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
from memoranda.standards.openwop.events import (
    STREAM_MODES,
    Event,
    StreamMode,
    is_streamed,
    parse_stream_modes,
)
from memoranda.standards.openwop.requests import EventsRequest as EventsRequest
from memoranda.standards.openwop.requests import FollowRequest, PollRequest

# Open streams: each costs a socket and a read per write.
STREAMS_LIMIT: Final = 200
# Open streams of one credential, so that none uses up the limit of all.
STREAMS_PER_CREDENTIAL_LIMIT: Final = 50
# Seconds that a poll waits by default, and at most: below the 20 s after which clients of openwop give up.
POLL_SECONDS, POLL_SECONDS_LIMIT = 10, 15
# Events of a log in one answer; a client that needs more continues after the last.
EVENTS_LIMIT: Final = 10_000
# Milliseconds after which a browser reconnects.
RETRY_MS: Final = 1000
STREAM: Final = "text/event-stream"

# Modes of the stream of all runs; `values` shows one run.
ALL_RUNS_MODES: Final[tuple[StreamMode, ...]] = tuple(
    mode for mode in STREAM_MODES if mode != "values"
)
# Events, each with its position: the id with which a client reconnects.
PositionedEvents = list[tuple[int, Event]]


class Frame(NamedTuple):
    """An event as it is sent: its position, the name of its frame, and its document."""

    position: int
    name: str
    document: Mapping[str, Any]


class LogPage(NamedTuple):
    """A part of the log of a run, for the answer to a poll."""

    run_id: str
    tenant: str
    frames: Sequence[Frame]
    # True if the run has ended and these are its last events.
    is_complete: bool
    # Returns the status of the run, and the highest sequence in its log.
    read_end: Callable[[], tuple[str, int]]


def _answer_poll(page: LogPage) -> dict[str, object]:
    return {"events": [frame.document for frame in page.frames], "isComplete": page.is_complete}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogForm:
    """The requests and documents of one version of openwop. The functions are called with the tenant of the caller."""

    follow: type[FollowRequest] = FollowRequest
    poll: type[PollRequest] = PollRequest
    # Seconds that a poll waits by default, and at most.
    poll_seconds: tuple[int, int] = (POLL_SECONDS, POLL_SECONDS_LIMIT)
    read_run_id: Callable[[str, str], str] = lambda name, _tenant: name
    show_event: Callable[[Event, str], Mapping[str, Any]] = lambda event, _tenant: event
    show_snapshot: Callable[[Mapping[str, Any], str], Mapping[str, Any]] = (
        lambda snapshot, _tenant: snapshot
    )
    answer_poll: Callable[[LogPage], Mapping[str, Any]] = _answer_poll


VERSION_ONE: Final = LogForm()

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

    async def events(
        self, scope: Scope, receive: Receive, send: Send, *, form: LogForm = VERSION_ONE
    ) -> None:
        """Serve GET /v1/runs/{id}/events, as JSON or as a stream."""
        request = form.follow.parse_texts(dict(wire.parse_query(scope)))
        # Refusals come before the choice of the media type (stream-modes.md).
        modes = parse_stream_modes(request.stream_mode)
        is_streamed = _wants_stream(scope)
        if not is_streamed and "values" in modes:
            # A page of JSON has no snapshots: each would repeat the whole run.
            modes = frozenset({"updates"})
        reader = self._run_reader(scope, _start_position(scope, request), modes, form)
        if is_streamed:
            await self._stream(scope, receive, send, reader, request)
            return
        frames, is_complete = await self._threads.run(reader.all)
        await _send_frames(send, frames, isComplete=is_complete)

    async def all_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve GET /v1/host/events: the events of all runs, as a stream from now on, or page by page."""
        request = FollowRequest.parse_texts(dict(wire.parse_query(scope)))
        after = _start_position(scope, request)
        modes = parse_stream_modes(request.stream_mode, supported=ALL_RUNS_MODES)
        is_streamed = _wants_stream(scope)
        start = None if is_streamed and after < 0 else max(after, 0)
        reader = _TenantReader(
            self._service, self._threads, scope["state"]["caller"].bearer, start, modes
        )
        if is_streamed:
            await self._stream(scope, receive, send, reader, request)
            return
        frames, _ = await self._threads.run(reader.page)
        positions = [frame.position for frame in frames]
        await _send_frames(
            send, frames, places=positions, lastSequence=reader.position, end=reader.end
        )

    async def poll(
        self, scope: Scope, receive: Receive, send: Send, *, form: LogForm = VERSION_ONE
    ) -> None:
        """Serve GET /v1/runs/{id}/events/poll: answer as soon as there are events, or after the timeout."""
        request = form.poll.parse_texts(dict(wire.parse_query(scope)))
        usual, longest = form.poll_seconds
        wait = min(usual if request.timeout is None else request.timeout, longest)
        reader = self._run_reader(
            scope, _start_position(scope, request), frozenset({"debug"}), form
        )
        with self._admitted(reader):
            frames, is_complete = await reader.wait(wait, receive)
        page = LogPage(reader.run_id, reader.tenant, frames, is_complete, reader.read_end)
        await wire.send_bytes(
            send, 200, await self._threads.run(lambda: dump(form.answer_poll(page)))
        )

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._limit = 0
        for reader in tuple(self._readers):
            reader.stop()

    async def _stream(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        reader: _LogReader,
        request: FollowRequest,
    ) -> None:
        timing = _Timing(self._keepalive_seconds, request.buffer_ms / 1000)
        try:
            with self._admitted(reader):
                await reader.run(receive, send, timing, is_head=scope["method"] == "HEAD")
        except TimeoutError:
            raise wire.ClientGone from None

    def _run_reader(
        self, scope: Scope, after: int, modes: frozenset[StreamMode], form: LogForm
    ) -> _RunReader:
        name = HttpCall(scope=scope, raw=b"", max_body_bytes=0).path_name("run_id")
        tenant = scope["state"]["access"].default_tenant
        return _RunReader(
            self._service,
            self._threads,
            scope["state"]["caller"].bearer,
            form.read_run_id(name, tenant),
            after,
            modes,
            tenant=tenant,
            form=form,
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


class _Timing(NamedTuple):
    """Seconds after which a silent stream sends a comment, and for which it collects events."""

    keepalive_seconds: float
    buffer_seconds: float


class _LogReader(Listener, ABC):
    """A client that reads a log."""

    def __init__(
        self, service: Service, threads: Threads, bearer: str, modes: frozenset[StreamMode]
    ) -> None:
        super().__init__(service)
        self.bearer = bearer
        self._threads = threads
        self._modes = modes

    # --- in a thread -------------------------------------------------------------------------------------

    @abstractmethod
    def _read_page(self, access: Access) -> tuple[PositionedEvents, bool]:
        """Read the next events and move past them. Return them, and True if the log is complete."""

    @abstractmethod
    def _show(self, access: Access, events: PositionedEvents) -> list[Frame]:
        """Return the frames of events that a mode shows."""

    def page(self) -> tuple[list[Frame], bool]:
        """Return the next events that the stream modes show, and True if the log is complete."""
        # Authenticated for each page, so that a revoked or expired credential ends the stream.
        access = self._service.gate.authenticate(self.bearer)
        while True:
            events, is_complete = self._read_page(access)
            visible = [entry for entry in events if is_streamed(entry[1], self._modes)]
            frames = self._show(access, visible)
            if frames or is_complete or not events:
                return frames, is_complete

    def all(self) -> tuple[list[Frame], bool]:
        """Return all events up to the limit, and True if the log is complete."""
        frames: list[Frame] = []
        while len(frames) < EVENTS_LIMIT:
            page, is_complete = self.page()
            frames += page
            if is_complete or not page:
                return frames, is_complete
        return frames, False

    # --- on the event loop -------------------------------------------------------------------------------

    async def wait(self, seconds: float, receive: Receive) -> tuple[list[Frame], bool]:
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

    async def run(self, receive: Receive, send: Send, timing: _Timing, *, is_head: bool) -> None:
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
                await self._follow(send, page, timing, is_complete=is_complete)
            await send({"type": "http.response.body", "body": b""})
        finally:
            stop_listening()
            if watcher is not None:
                watcher.cancel()

    async def _follow(
        self, send: Send, page: list[Frame], timing: _Timing, *, is_complete: bool
    ) -> None:
        """Send page after page, and comments while there are no events. Events that wait are sent as one batch."""
        beat_at = self._loop.time() + timing.keepalive_seconds
        waiting: list[Frame] = []
        flush_at = beat_at
        while True:
            if page and not waiting:
                flush_at = self._loop.time() + timing.buffer_seconds
            waiting += page
            is_last = is_complete or self.is_over
            # stream-modes.md: a suspension and the end are never held back.
            is_due = is_last or self._loop.time() >= flush_at or any(map(_is_suspension, page))
            if waiting and is_due:
                await self.send(send, _format_frames(waiting, is_batch=timing.buffer_seconds > 0))
                beat_at = self._loop.time() + timing.keepalive_seconds
                waiting = []
            if is_last:
                return
            wake_at = min(beat_at, flush_at) if waiting else beat_at
            is_silent = not page and not await self.wait_for_change(wake_at)
            if is_silent and self._loop.time() >= beat_at:
                await self.send(send, format_comment("keepalive"))
                beat_at = self._loop.time() + timing.keepalive_seconds
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
        modes: frozenset[StreamMode],
        *,
        tenant: str,
        form: LogForm,
    ) -> None:
        super().__init__(service, threads, bearer, modes)
        self.run_id, self.tenant = run_id, tenant
        self._after = after
        self._form = form
        # A client that reconnects in the mode `values` gets the present state first.
        self._is_resumed = after >= 0

    def _read_page(self, access: Access) -> tuple[PositionedEvents, bool]:
        events, is_complete = self._service.openwop.events(access, self.run_id, after=self._after)
        if events:
            self._after = events[-1]["sequence"]
        return [(event["sequence"], event) for event in events], is_complete

    def _show(self, access: Access, events: PositionedEvents) -> list[Frame]:
        if "values" in self._modes:
            return self._show_values(access, events)
        show = self._form.show_event
        documents = ((position, show(event, self.tenant)) for position, event in events)
        return [Frame(position, document["type"], document) for position, document in documents]

    def _show_values(self, access: Access, events: PositionedEvents) -> list[Frame]:
        """Return the state of the run after each event."""
        if not events and not self._is_resumed:
            return []
        snapshot = self._service.openwop.snapshot(access, self.run_id)
        states = [(position, _state_after(snapshot, event)) for position, event in events]
        if self._is_resumed:
            self._is_resumed = False
            states.insert(0, (self._after if not events else events[0][0] - 1, snapshot))
        show = self._form.show_snapshot
        return [
            Frame(position, "state.snapshot", show(state, self.tenant))
            for position, state in states
        ]

    def read_end(self) -> tuple[str, int]:
        """Return the status of the run, and the highest sequence in its log; -1 for an empty log."""
        access = self._service.gate.authenticate(self.bearer)
        status, last, is_more = self._service.openwop.run(access, self.run_id).status, -1, True
        while is_more:
            events, _ = self._service.openwop.events(access, self.run_id, after=last)
            last, is_more = (events[-1]["sequence"] if events else last), bool(events)
        return status, last


def _state_after(snapshot: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Return the snapshot of a run as it was after an event: only a run that has ended has results."""
    if event["type"] == f"run.{snapshot['status']}":
        return snapshot
    fields = {name: value for name, value in snapshot.items() if name not in ("error", "variables")}
    return {**fields, "status": "running", "variables": {}}


class _TenantReader(_LogReader):
    """A client that reads the events of all runs of a tenant, in the order they were written. The log never ends."""

    def __init__(
        self,
        service: Service,
        threads: Threads,
        bearer: str,
        after: int | None,
        modes: frozenset[StreamMode],
    ) -> None:
        super().__init__(service, threads, bearer, modes)
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

    def _show(self, _access: Access, events: PositionedEvents) -> list[Frame]:
        return [Frame(position, event["type"], event) for position, event in events]


def _wants_stream(scope: Scope) -> bool:
    return (
        wire.prefer_media_type(wire.read_header(scope, b"accept") or "*/*", (STREAM, wire.JSON))
        == STREAM
    )


async def _send_frames(send: Send, frames: Sequence[Frame], **fields: object) -> None:
    body = dump({"events": [frame.document for frame in frames], **fields})
    await wire.send_bytes(send, 200, body, [(b"vary", b"accept")])


def _format_frames(frames: Sequence[Frame], *, is_batch: bool) -> bytes:
    """Format frames one by one, or all as one batch with the id of the last."""
    if is_batch:
        documents = dump([frame.document for frame in frames])
        return format_event("batch", documents, event_id=frames[-1].position)
    return b"".join(
        format_event(frame.name, dump(frame.document), event_id=frame.position) for frame in frames
    )


def _is_suspension(frame: Frame) -> bool:
    return frame.name == "node.suspended"


def _start_position(scope: Scope, request: EventsRequest) -> int:
    """Return the last sequence that the client has; -1 for none. The header counts first: browsers send it."""
    text = wire.read_header(scope, b"last-event-id")
    if not text:
        return -1 if request.last_sequence is None else request.last_sequence
    if _SEQUENCE.fullmatch(text) is None:
        raise InvalidInput("Last-Event-ID must be the sequence of an event of this run")
    return int(text)
