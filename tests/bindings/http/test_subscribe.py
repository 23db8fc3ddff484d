"""Server-sent events: opening, following, coming back, and going away."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.bindings.http.running import OWNER, Running, draft, error_of, remember, running
from tests.waiting import HANG_SECONDS, until


@dataclass(frozen=True)
class Event:
    seq: int
    name: str
    data: dict[str, Any]


class Stream:
    """The blocks of an open stream, one after the other."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def block(self) -> list[str]:
        """The lines up to the next empty one; none when the stream has ended."""
        lines: list[str] = []
        for line in self._lines:
            if not line:
                return lines
            lines.append(line)
        return lines

    def event(self) -> Event:
        """The next event, past comments and hints."""
        while block := self.block():
            fields = dict(line.split(": ", 1) for line in block)
            if "event" in fields:
                assert [line.split(":")[0] for line in block] == ["id", "event", "data"]
                return Event(int(fields["id"]), fields["event"], json.loads(fields["data"]))
        raise AssertionError("the stream ended")


@contextmanager
def subscribed(client: httpx.Client, query: str = "", **headers: str) -> Iterator[Stream]:
    with client.stream("GET", f"/ump/subscribe{query}", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        stream = Stream(answer)
        assert stream.block() == [": ump subscribe open"]
        assert stream.block()[0].startswith("retry: ")
        yield stream


@pytest.mark.requirement("UMP-3.8-subscribe")
def test_every_kind_of_change_is_seen_in_order(server: Running, client: httpx.Client) -> None:
    with server.client(server.key(OWNER)) as listener, subscribed(listener) as stream:
        name = remember(client, "a memory with a life")
        remember(client, "a memory with a life")
        revised = client.post("/ump/revise", json={"id": name, "patch": {"body": {"text": "older and wiser"}}}).json()
        client.post("/ump/forget", json={"id": revised["id"]})
        events = [stream.event() for _ in range(4)]
    assert [event.name for event in events] == ["created", "merged", "revised", "tombstoned"]
    assert [event.data["type"] for event in events] == [event.name for event in events]
    assert events[0].data["id"] == name
    assert events[0].data["record"]["body"]["text"] == "a memory with a life"
    assert [event.seq for event in events] == sorted({event.seq for event in events})


def test_only_the_scope_that_was_asked_for_is_seen(server: Running, client: httpx.Client) -> None:
    with server.client(server.key(OWNER)) as listener, subscribed(listener, f"?owner={OWNER}&project=wanted") as stream:
        remember(client, "of another project", project="unwanted")
        wanted = remember(client, "of this project", project="wanted")
        assert stream.event().data["id"] == wanted


def test_another_tenant_sees_nothing(server: Running, client: httpx.Client) -> None:
    with server.client(server.key("did:key:zNeighbour")) as neighbour, subscribed(neighbour) as stream:
        remember(client, "none of the neighbour's business", visibility="public")
        own = remember(neighbour, "the neighbour's own", owner="did:key:zNeighbour")
        assert stream.event().data["id"] == own


@pytest.mark.parametrize("way", ["header", "query"])
def test_coming_back_misses_nothing_and_repeats_nothing(server: Running, client: httpx.Client, way: str) -> None:
    with server.client(server.key(OWNER)) as listener:
        with subscribed(listener) as stream:
            remember(client, f"before the interruption {way}")
            seen = stream.event()
        missed = [remember(client, f"missed {way} {number}") for number in range(3)]
        headers = {"Last-Event-ID": str(seen.seq)} if way == "header" else {}
        query = "" if way == "header" else f"?after={seen.seq}"
        with subscribed(listener, query, **headers) as stream:
            assert [stream.event().data["id"] for _ in missed] == missed


def test_many_missed_changes_come_page_by_page(server: Running, client: httpx.Client) -> None:
    with server.client(server.key(OWNER)) as listener:
        with subscribed(listener) as stream:
            remember(client, "the first of many")
            seen = stream.event()
        access = server.service.gate.local(OWNER)
        missed = [server.service.remember(access, draft(f"one of many: {number}")).id for number in range(450)]
        with subscribed(listener, f"?after={seen.seq}") as stream:
            assert [stream.event().data["id"] for _ in missed] == missed


@pytest.mark.parametrize("place", ["x", "-1", "1.5", "9" * 30, "١"])
def test_a_place_that_is_none_is_refused(client: httpx.Client, place: str) -> None:
    headers = {"Last-Event-ID": place.encode("utf-8")}
    assert error_of(client.get("/ump/subscribe", headers=headers)) == (400, "invalid_record")  # type: ignore[arg-type]
    assert error_of(client.get("/ump/subscribe", params={"after": place})) == (400, "invalid_record")


def test_a_place_beyond_the_end_starts_at_the_end(client: httpx.Client, server: Running) -> None:
    with server.client(server.key(OWNER)) as listener, subscribed(listener, "?after=999999999") as stream:
        name = remember(client, "what is new")
        assert stream.event().data["id"] == name


def test_a_silent_stream_has_a_heartbeat(client: httpx.Client) -> None:
    with subscribed(client) as stream:
        assert [stream.block() for _ in range(2)] == [[": heartbeat"]] * 2


def test_the_bustle_of_others_does_not_put_off_the_heartbeat(server: Running, client: httpx.Client) -> None:
    is_over = threading.Event()
    access = server.service.gate.local("did:key:zBusy")

    def bustle() -> None:
        for number in itertools.count():
            if is_over.is_set():
                return
            server.service.remember(access, draft(f"busy {number}", owner="did:key:zBusy"))

    busy = threading.Thread(target=bustle)
    busy.start()
    try:
        with subscribed(client) as stream:
            assert [stream.block() for _ in range(3)] == [[": heartbeat"]] * 3
    finally:
        is_over.set()
        busy.join()


def test_a_revoked_credential_ends_the_stream(server: Running) -> None:
    key = server.key("did:key:zLeaving")
    with server.client(key) as leaving, subscribed(leaving) as stream:
        server.service.gate.revoke_key(key.split("_")[1])
        blocks = []
        while block := stream.block():
            blocks.append(block)
        assert blocks[-1] == [": unauthorized"]
        assert [": heartbeat"] * len(blocks[:-1]) == [line for block in blocks[:-1] for line in block]


def test_a_token_that_expires_ends_the_stream(server: Running) -> None:
    token = server.service.gate.mint_token(verbs=("read",), scope={"owner": OWNER}, ttl_ms=3_000)
    with server.client(token) as listener, subscribed(listener, f"?owner={OWNER}") as stream:
        blocks = []
        while block := stream.block():
            blocks.append(block)
        assert blocks[-1] == [": unauthorized"]


def test_a_subscriber_that_sends_without_end_is_let_go(client: httpx.Client) -> None:
    with client.stream("GET", "/ump/subscribe", content=(b"x" * 65_536 for _ in range(64))) as answer:
        assert answer.status_code == 200
        assert answer.read().startswith(b": ump subscribe open\n\n")


def test_head_opens_no_stream(client: httpx.Client) -> None:
    answer = client.head("/ump/subscribe")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")


def test_places_are_limited_and_free_again_when_a_client_goes_away(tmp_path: Path) -> None:
    with running(tmp_path / "home", subscribers_limit=2, heartbeat_seconds=60) as started, started.client() as third:
        with started.client() as first, started.client() as second, subscribed(first), subscribed(second):
            refused = third.get("/ump/subscribe")
            assert error_of(refused) == (429, "rate_limited")
            assert int(refused.headers["retry-after"]) >= 1
        until(lambda: _opens(third))


def _opens(client: httpx.Client) -> bool:
    with client.stream("GET", "/ump/subscribe") as answer:
        return answer.status_code == 200


def test_open_streams_do_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    with running(tmp_path / "home", heartbeat_seconds=600) as started:
        address = urlsplit(started.url)
        listener = socket.create_connection((address.hostname, address.port), timeout=HANG_SECONDS)
        listener.sendall(
            f"GET /ump/subscribe HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {started.token}\r\n\r\n".encode()
        )
        received = b""
        while b"ump subscribe open" not in received:
            received += listener.recv(4096)
    # The server has stopped, in time; and it closed the stream in good order.
    with listener:
        while more := listener.recv(4096):
            received += more
    assert received.endswith(b"0\r\n\r\n")
