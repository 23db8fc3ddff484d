"""An ASSEMBLE as events over HTTP: what comes, who may cancel it, and that not reading does not hold the server."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.bindings.http.running import OWNER, Running, error_of, running
from tests.waiting import HANG_SECONDS, until

from memoranda.bindings.http.cal_stream import STREAMS_PER_CREDENTIAL_LIMIT

NAMESPACE = "library"
QUERY = "ASSEMBLE briefing FROM known: (RECALL events | ORDER BY time ASC | LIMIT 200)"
SHORT = f"{QUERY} BUDGET 3 grains FORMAT text"
# Far more than all the buffers between a thread and a client that does not read.
LONG = f"{QUERY} BUDGET 200 grains FORMAT text STREAM {{ all, chunk_size = 20 }}"
GRAINS, WORDS = 120, 12_000


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all grains, which nobody has open."""
    home = tmp_path_factory.mktemp("filled") / "home"
    with running(home) as started:
        fill(started)
    return home


@pytest.fixture(scope="module")
def library(filled: Path) -> Iterator[Running]:
    shutil.copytree(filled, filled.with_name("library"))
    with running(filled.with_name("library"), stall_seconds=60) as started:
        yield started


def fill(server: Running) -> None:
    access = server.service.gate.local(OWNER)
    for number in range(GRAINS):
        grain = {"type": "event", "content": f"{number} " + "word " * WORDS, "created_at": 1768471200000 + number}
        server.service.grains.put(access, {**grain, "namespace": NAMESPACE})


def body(query: str = SHORT) -> dict[str, str]:
    return {"query": query, "namespace": NAMESPACE}


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a whole stream; that it is one is checked on the way."""
    found = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


class Reader:
    """A client that reads as slowly as a test wants, through a window as small as there is."""

    def __init__(self, server: Running, key: str, query: str = LONG) -> None:
        address = urlsplit(server.url)
        self.connection = socket.socket()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.connection.settimeout(HANG_SECONDS)
        self.connection.connect((address.hostname, address.port))
        content = json.dumps(body(query)).encode()
        self.connection.sendall(
            b"POST /cal/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + f"Authorization: Bearer {key}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        self.received = b""

    def assembly_id(self) -> str:
        """Read the first event, and no further."""
        while b'"assembly_id":"' not in self.received:
            self.received += self.connection.recv(256)
        return self.received.partition(b'"assembly_id":"')[2][:12].decode()

    def rest(self) -> bytes:
        while more := self.connection.recv(65_536):
            self.received += more
            if self.received.endswith(b"0\r\n\r\n"):
                break
        return self.received


@contextmanager
def reading(server: Running, key: str, query: str = LONG) -> Iterator[Reader]:
    reader = Reader(server, key, query)
    with reader.connection:
        yield reader


def streams_on_record(server: Running) -> list[dict[str, Any]]:
    access = server.service.gate.local(OWNER)
    entries = server.service.audit(access, {"limit": 1000})
    return [entry for entry in entries if entry["meta"].get("stream_enabled")]


@pytest.mark.requirement("CAL-11-http-stream")
def test_events_come_in_order_and_their_chunks_are_the_text(library: Running) -> None:
    with library.client(library.key()) as client:
        answer = client.post("/cal/stream", json=body(f"{SHORT} STREAM"))
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
        events = events_of(answer.text)
        assert [event["seq"] for event in events] == list(range(len(events)))
        assert len({event["assembly_id"] for event in events}) == 1
        kinds = list(dict.fromkeys(event["type"] for event in events))
        assert (kinds[0], kinds[-2:]) == ("assembly_started", ["chunk", "assembly_completed"])
        ended = [event for event in events if event["type"] == "source_completed"]
        assert ended
        assert all((event["estimated_tokens"] > 0) is (event["grain_count"] > 0) for event in ended)
        whole = client.post("/cal", json=body()).json()["formatted_context"]["text"]
        assert "".join(event["content"] for event in events if event["type"] == "chunk") == whole


@pytest.mark.requirement("CAL-11-http-stream")
def test_accept_decides_between_events_lines_and_one_answer(library: Running) -> None:
    with library.client(library.key()) as client:
        ways = [
            client.post("/cal/stream", json=body(), headers={"accept": "application/x-ndjson"}),
            client.post("/cal", json=body(), headers={"accept": "application/x-ndjson, */*"}),
        ]
        for answer in ways:
            assert answer.headers["content-type"] == "application/x-ndjson"
            lines = [json.loads(line) for line in answer.text.splitlines()]
            assert (lines[0]["type"], lines[-1]["type"]) == ("assembly_started", "assembly_completed")
        streamed = client.post("/cal", json=body(), headers={"accept": "text/event-stream"})
        assert events_of(streamed.text)[-1]["type"] == "assembly_completed"
        text = client.post(
            "/cal", params={"namespace": NAMESPACE}, content=SHORT,
            headers={"accept": "text/event-stream", "content-type": "text/cal"},
        )  # fmt: skip
        assert events_of(text.text)[-1]["summary"]["grain_count"] == 3


@pytest.mark.requirement("CAL-11-http-stream")
def test_what_fails_before_the_first_event_has_its_status_and_place(library: Running) -> None:
    with library.client(library.key()) as client:
        wrong = client.post("/cal/stream", json=body("ASSEMBLE FROM (RECALL facts)"))
        error = wrong.json()["error"]
        assert (wrong.status_code, error["code"], error["position"]["start"]) == (400, "CAL-E003", 22)
        plain = client.post("/cal", json=body("RECALL events"), headers={"accept": "text/event-stream"})
        assert (plain.status_code, plain.json()["error"]["code"]) == (501, "CAL-E079")
        paged = client.post("/cal/stream", json={**body(), "cursor": "cursor:x"})
        assert (paged.status_code, paged.json()["error"]["code"]) == (400, "CAL-E002")
        unread = client.post("/cal/stream", content=b"\xff", headers={"content-type": "text/cal"})
        assert (unread.status_code, unread.json()["error"]["code"]) == (400, "CAL-E070")


def test_a_stream_of_which_no_event_is_wanted_is_empty(library: Running) -> None:
    with library.client(library.key()) as client:
        nothing = {
            "query": 'ASSEMBLE FROM (RECALL goals ABOUT "x") FORMAT text STREAM { chunks }',
            "namespace": "empty",
        }
        answer = client.post("/cal/stream", json=nothing)
        assert (answer.status_code, answer.text) == (200, "")


def test_a_long_stream_comes_whole(library: Running) -> None:
    with library.client(library.key()) as client:
        events = events_of(client.post("/cal/stream", json=body(LONG)).text)
        assert events[-1]["summary"]["grain_count"] == GRAINS
        assert sum(len(event.get("content", "")) for event in events) > GRAINS * WORDS * 5


@pytest.mark.requirement("CAL-11-http-cancel")
def test_the_same_credential_cancels_a_stream_and_another_cannot(library: Running) -> None:
    before = len(streams_on_record(library))
    key = library.key()
    with (
        reading(library, key) as reader,
        library.client(key) as client,
        library.client(library.key()) as other,
    ):
        assembly_id = reader.assembly_id()
        assert error_of(other.delete(f"/cal/stream/{assembly_id}")) == (404, "not_found")
        assert error_of(client.delete("/cal/stream/asm_00000000")) == (404, "not_found")
        done = client.delete(f"/cal/stream/{assembly_id}")
        assert done.json() == {"assembly_id": assembly_id, "result": "cancelled"}
        last = reader.rest().rpartition(b"event: ")[2].decode()
        assert last.startswith("cancelled\n")
        event = json.loads(last.partition("data: ")[2].partition("\n")[0])
        assert (event["assembly_id"], event["code"], event["reason"]) == (assembly_id, "CAL-E082", "asked for")
        assert event["seq"] == reader.received.count(b"event: ") - 1
        until(lambda: len(streams_on_record(library)) == before + 1)
        assert streams_on_record(library)[-1]["meta"]["cancelled"] is True
        assert error_of(client.delete(f"/cal/stream/{assembly_id}")) == (404, "not_found")


@pytest.mark.requirement("CAL-11-http-cancel")
def test_closing_the_connection_cancels_and_is_put_on_record(library: Running) -> None:
    before = len(streams_on_record(library))
    with reading(library, library.key()) as reader:
        reader.assembly_id()
    until(lambda: len(streams_on_record(library)) == before + 1)
    meta = streams_on_record(library)[-1]["meta"]
    assert (meta["cancelled"], meta["cancel_reason"]) == (True, "closed by the client")
    assert 0 < meta["events_emitted"] < GRAINS


@pytest.mark.requirement("CAL-11-http-limits")
def test_a_credential_has_three_streams_at_once(library: Running) -> None:
    key = library.key()
    with library.client(key) as client, library.client(library.key()) as other:
        readers = [Reader(library, key) for _ in range(STREAMS_PER_CREDENTIAL_LIMIT)]
        try:
            for reader in readers:
                reader.assembly_id()
            refused = client.post("/cal/stream", json=body())
            assert error_of(refused) == (429, "rate_limited")
            assert int(refused.headers["retry-after"]) >= 1
            # Other clients, and everything that is no stream, go on.
            assert other.post("/cal/stream", json=body()).status_code == 200
            assert client.post("/cal", json=body()).status_code == 200
        finally:
            for reader in readers:
                reader.connection.close()
        until(lambda: client.post("/cal/stream", json=body()).status_code == 200)


@pytest.mark.requirement("CAL-11-http-limits")
def test_a_client_that_does_not_read_is_given_up(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "home")
    with running(tmp_path / "home", stall_seconds=0.3) as server, reading(server, server.key()) as reader:
        reader.assembly_id()
        until(lambda: len(streams_on_record(server)) == 1)
        assert streams_on_record(server)[0]["meta"]["cancelled"] is True


def test_a_stream_that_nobody_reads_does_not_keep_the_server_from_stopping(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "home")
    with running(tmp_path / "home") as server:
        reader = Reader(server, server.key())
        reader.assembly_id()
    reader.connection.close()
