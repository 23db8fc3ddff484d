"""A real server process under attack: its memory stays below the bound that docs/security.md states."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.bindings.http.process import Server, serving
from tests.waiting import until

from memoranda.app import Memoranda
from memoranda.bindings.http.server import CONNECTIONS_LIMIT
from memoranda.bindings.mcp.http import OWN_SESSIONS_LIMIT

# docs/security.md: what one server process may grow by under attack, beside what it needs to serve.
BOUND_BYTES = 512 * 1_048_576


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if not Path("/proc/self/status").exists():
        pytest.fail("what a process holds in memory is read from /proc")
    with serving(tmp_path / "home") as started:
        with started.client() as client:
            assert client.post("/ump/recall", json={"query": "x"}).status_code == 200
        yield started


def stuff(connection: socket.socket, data: bytes, times: int) -> None:
    """Send as much as the other side takes, and read nothing."""
    connection.settimeout(0.5)
    with suppress(OSError):
        for _ in range(times):
            connection.sendall(data)


def in_threads(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def grown(server: Server, before: int) -> int:
    with server.client() as client:
        # Whoever has a credential is still served.
        assert client.post("/ump/recall", json={"query": "x"}).status_code == 200
    return server.resident("VmHWM") - before


@pytest.mark.parametrize("target", [b"/", b"/healthz", b"/openapi.json", b"/ump/recall"])
def test_requests_sent_without_reading_an_answer_are_not_held(server: Server, target: bytes) -> None:
    before = server.resident()
    request = b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as open_ones:

        def attack() -> None:
            stuff(open_ones.enter_context(server.connect()), request * 5_000, 100)

        in_threads(8, attack)
        assert grown(server, before) < BOUND_BYTES // 8


def test_heads_of_many_small_headers_are_not_held(server: Server) -> None:
    before = server.resident()
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a:b\r\n" * 6_000
    with ExitStack() as open_ones:
        for _ in range(400):
            stuff(open_ones.enter_context(server.connect()), head, 1)
        assert grown(server, before) < BOUND_BYTES // 4


def test_small_bodies_that_are_never_finished_are_bounded(server: Server) -> None:
    before = server.resident()
    head = b"POST /ump/recall HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Length: 65000\r\n\r\n"
    with ExitStack() as open_ones:
        for _ in range(400):
            stuff(open_ones.enter_context(server.connect()), head + b"x" * 64_000, 1)
        assert grown(server, before) < BOUND_BYTES // 2


def test_large_bodies_that_are_never_finished_are_bounded_and_others_get_theirs_in(
    server: Server, tmp_path: Path
) -> None:
    with Memoranda.open(tmp_path / "home") as memoranda:
        namespace = memoranda.oams.namespace()
    before = server.resident()
    head = (
        "POST /ump/remember HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {server.credential}\r\nContent-Length: 2000000\r\n\r\n"
    ).encode()
    with ExitStack() as open_ones:
        for _ in range(120):
            stuff(open_ones.enter_context(server.connect()), head + b"x" * 1_990_000, 1)
        with server.client() as client:
            answer = client.put(f"/v1/oams/memories/{namespace}/k", json={"value": "tea " * 100_000})
            assert answer.status_code in (200, 201), answer.text
        assert grown(server, before) < BOUND_BYTES // 2


def test_idle_connections_without_number_keep_nobody_out(server: Server) -> None:
    before = server.resident()
    with ExitStack() as open_ones, server.client() as known:
        # Known before the attack, and not crowded out by it.
        assert known.post("/ump/recall", json={"query": "x"}).status_code == 200
        for _ in range(CONNECTIONS_LIMIT + 200):
            open_ones.enter_context(server.connect())
        for _ in range(3):
            with server.client() as late:
                assert late.post("/ump/recall", json={"query": "x"}).status_code == 200
        assert known.post("/ump/recall", json={"query": "x"}).status_code == 200
        assert grown(server, before) < BOUND_BYTES // 4


def test_answers_that_nobody_reads_are_bounded(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home") as memoranda:
        for n in range(12):
            memoranda.oams.store(f"key {n}", f"tea {n} " + "x" * 900_000)
        namespace = memoranda.oams.namespace()
    with serving(tmp_path / "home") as server:
        with server.client() as client:
            one = client.get(f"/v1/oams/memories/{namespace}", params={"limit": "500"})
            assert one.status_code == 200
            size = len(one.content)
            assert 300 * size > 1.5 * BOUND_BYTES
        before = server.resident()
        request = (
            f"GET /v1/oams/memories/{namespace}?limit=500 HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {server.credential}\r\n\r\n"
        ).encode()
        with ExitStack() as open_ones:
            connections = [open_ones.enter_context(server.connect()) for _ in range(300)]
            for connection in connections:
                connection.sendall(request)
            waiting = list(connections)

            def all_are_answered() -> bool:
                waiting[:] = [each for each in waiting if not _is_answered(each)]
                return not waiting

            until(all_are_answered)
            assert grown(server, before) < BOUND_BYTES


def test_secrets_of_runs_that_never_end_are_bounded(server: Server) -> None:
    before = server.resident()
    with server.client() as client:
        opened = []
        for number in range(60):
            opened.append(client.post("/v1/host/runs", json={"workflowId": "w"}).json()["runId"])
            for each in range(4):
                value = f"{number}-{each}-" + "s3cr3t/" * 6_000
                told = client.post(f"/v1/host/runs/{opened[-1]}/secrets", json={"secretId": "s", "value": value})
                assert told.status_code == 200, told.text
        assert grown(server, before) < BOUND_BYTES // 4
        # What was forgotten is not believed to be no secret: the run writes nothing until it says it again.
        for run_id, status in ((opened[0], 409), (opened[-1], 201)):
            event = {"type": "agent.toolCalled", "payload": {"said": value}}
            assert client.post(f"/v1/host/runs/{run_id}/events", json=event).status_code == status
        assert "s3cr3t" not in client.get(f"/v1/runs/{opened[-1]}/events/poll").text
        too_many = {"secretId": "s", "value": "s3cr3t/" * 9_000}
        many = [
            client.post(f"/v1/host/runs/{opened[-1]}/secrets", json={**too_many, "value": f"{n}{too_many['value']}"})
            for n in range(40)
        ]
        assert many[-1].status_code == 400


def test_runs_and_schedules_have_a_number(tmp_path: Path) -> None:
    limits = {"MEMORANDA_RUNS_PER_MINUTE": "5", "MEMORANDA_MAX_SCHEDULES": "2"}
    with serving(tmp_path / "home", **limits) as server, server.client() as client:
        begun = [client.post("/v1/host/runs", json={"workflowId": "w"}).status_code for _ in range(7)]
        assert begun == [201] * 5 + [429] * 2
        tenant = client.get("/v1/host/runs").json()["runs"][0]["owner"]["tenant"]
        kept = [
            client.put("/v1/host/schedules", json={"memoryRef": f"mem:{tenant}:{n}", "cron": "0 3 * * *"}).status_code
            for n in (1, 2, 2, 3)
        ]
        assert kept == [200, 200, 200, 429]


def test_one_owner_takes_few_sessions_of_mcp_and_nobody_is_kept_out(server: Server) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}
    with server.client() as client:
        client.headers.update({"accept": "application/json, text/event-stream"})
        sessions = []
        for _ in range(OWN_SESSIONS_LIMIT + 10):
            opened = client.post("/mcp", json=first)
            assert opened.status_code == 200
            sessions.append(opened.headers["mcp-session-id"])
        asked = [client.post("/mcp", json=listing, headers={"mcp-session-id": each}).status_code for each in sessions]
        assert asked == [404] * 10 + [200] * OWN_SESSIONS_LIMIT


def _is_answered(connection: socket.socket) -> bool:
    """Whether there is something to read, or the other side gave up."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
