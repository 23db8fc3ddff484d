"""Faults under a running server: a disk without room, a file that goes away, and everything busy at once."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import httpx
import pytest
from tests.bindings.http.process import serving
from tests.bindings.http.running import OWNER, Running, draft, error_of, remember, running
from tests.forking import run as forked_run
from tests.waiting import HANG_SECONDS, until

from memoranda.bindings.http.app import VERB_THREADS
from memoranda.keys import operator_key
from memoranda.standards.oams.namespace import owner_hash
from memoranda.storage.sqlite.database import READERS_LIMIT, SqliteDatabase

DATABASE = "memoranda.db"


def database_of(server: Running) -> SqliteDatabase:
    database = server.service.context.engine._database  # type: ignore[attr-defined]
    assert isinstance(database, SqliteDatabase)
    return database


def said(answer: httpx.Response) -> str:
    message: str = answer.json()["error"]["message"]
    assert "Error" not in message, "words for people"
    return message


# --- a full disk ---------------------------------------------------------------------------------------------------


def fill(server: Running, client: httpx.Client) -> None:
    """Let the database grow no more, as on a disk without room, and use up what is left in its pages."""
    server.service.context.engine.flush()
    grow_to(server, 1)
    while (answer := client.post("/ump/remember", json=draft(os.urandom(1_500).hex()))).status_code == 200:
        pass
    assert error_of(answer) == (503, "unavailable")
    assert said(answer) == "unavailable: the disk is full"


def grow_to(server: Running, pages: int) -> None:
    """So many pages at most, or as many as there are."""
    database_of(server)._writer.raw.execute(f"PRAGMA max_page_count = {pages}").fetchall()


def recall(client: httpx.Client) -> httpx.Response:
    return client.post("/ump/recall", json={"query": "gate", "scope": {"owner": OWNER}})


def recorded(server: Running) -> int:
    access = server.service.gate.local(OWNER)
    return sum(event["op"] == "recall" for event in server.service.audit(access, {"limit": 1_000}))


def read_until(client: httpx.Client, is_enough: Callable[[httpx.Response], bool]) -> int:
    """How many reads were answered."""
    answered = 0
    for _ in range(2_000):
        answer = recall(client)
        answered += answer.status_code == 200
        if is_enough(answer):
            return answered
    raise AssertionError("the disk never was full")


def test_with_a_full_disk_reads_are_answered_and_recorded_later(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client() as client:
        remember(client)
        fill(server, client)
        database = database_of(server)
        answered = read_until(client, lambda _: database.queue.behind is not None)
        answered += read_until(client, lambda answer: answer.status_code == 200)
        grow_to(server, 1_000_000)
        until(lambda: database.queue.behind is None, "what waited is on record")
        assert recorded(server) == answered
        assert client.post("/ump/remember", json=draft("there is room again")).status_code == 200


def test_with_a_full_disk_reads_are_refused_where_that_was_chosen(tmp_path: Path) -> None:
    with running(tmp_path, settings={"audit_unwritable": "refuse"}) as server, server.client() as client:
        remember(client)
        fill(server, client)
        answered = read_until(client, lambda answer: answer.status_code == 503)
        refused = recall(client)
        assert "the disk is full" in said(refused)
        assert client.get("/readyz").status_code == 503
        database = database_of(server)
        grow_to(server, 1_000_000)
        until(lambda: database.queue.behind is None, "what waited is on record")
        assert client.get("/readyz").status_code == 200
        # Every read that was answered is on record, and no other.
        assert recorded(server) == answered


# --- the file goes away --------------------------------------------------------------------------------------------


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def cut(path: Path) -> None:
    os.truncate(path, 4_096)


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize("fault", [delete, replace, cut, delete_log])
def test_a_file_that_was_deleted_replaced_or_cut_is_noticed(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    with running(tmp_path) as server, server.client() as client:
        remember(client)
        database_of(server)._watcher.raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        assert client.get("/readyz").status_code == 200
        fault(tmp_path / DATABASE)
        # Nothing is acknowledged that nobody will find again.
        refused = client.post("/ump/remember", json=draft("after the fault"))
        assert error_of(refused) == (503, "unavailable")
        assert "while it was in use" in said(refused)
        assert client.get("/readyz").status_code == 503
        assert error_of(recall(client)) == (503, "unavailable")
        assert client.get("/healthz").status_code == 200
        assert "after the fault" not in str([path.read_bytes() for path in tmp_path.glob(f"{DATABASE}*")])


def test_a_server_whose_file_is_cut_short_lives_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, MEMORANDA_EMBEDDER="off") as server, server.client() as client:
        for number in range(60):
            sent = {"content": f"{number} gate {os.urandom(1_000).hex()}"}
            assert client.post("/v1/memory/lab", json=sent).status_code == 201
        raw = apsw.Connection(str(tmp_path / DATABASE))
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        raw.close()
        assert client.post("/ump/recall", json={"query": "gate"}).status_code == 200
        os.truncate(tmp_path / DATABASE, 8_192)
        answers = [client.post("/ump/recall", json={"query": "gate"}).status_code for _ in range(3)]
        assert (answers, client.get("/readyz").status_code) == ([503, 503, 503], 503)


def share_master_key(path: Path) -> None:
    path.with_name("master.key").chmod(0o644)


def damage_master_key(path: Path) -> None:
    path.with_name("master.key").write_text("{}")


def requests_of(owner: str, number: int) -> list[tuple[str, str, Any]]:
    """Requests of every standard and interface; what is written is new each time, some of it encrypted."""
    namespace = f"{owner_hash(owner)}:notes"
    recall = {"namespace": namespace, "query": "gate"}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "oams.recall", "params": recall}
    tool = {"name": "ump_recall", "arguments": {"query": "gate"}}
    return [
        ("POST", "/ump/remember", draft(f"note {number}", owner=owner, user=f"user {number}")),
        ("POST", "/ump/recall", {"query": "gate"}),
        ("GET", "/ump/export", None),
        ("PUT", f"/v1/oams/memories/{namespace}/key", {"value": f"memory {number}"}),
        ("POST", "/v1/oams/rpc", rpc),
        ("POST", "/v1/memory/lab", {"content": f"entry {number}"}),
        ("GET", "/v1/memory/lab", None),
        ("POST", "/oms/grains/search", {}),
        ("POST", "/cal", {"query": "RECALL beliefs"}),
        ("POST", "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": tool}),
        ("GET", "/console/overview", None),
        ("GET", "/metrics", None),
        ("GET", "/readyz", None),
        ("GET", "/healthz", None),
    ]


@pytest.mark.parametrize("fault", [delete, replace, cut, delete_log, share_master_key, damage_master_key])
def test_no_answer_names_a_file_of_the_server(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with serving(tmp_path, "--workers", "2") as server, server.client() as client:
        owner = operator_key(tmp_path).did
        link = forked_run([sys.executable, "-m", "memoranda", "--data", tmp_path, "console"]).stdout.decode()
        client.get(urlsplit(link.strip())._replace(scheme="", netloc="").geturl())

        def ask_all(number: int) -> list[httpx.Response]:
            return [
                client.request(method, path, json=body, headers=accepted)
                for method, path, body in requests_of(owner, number)
            ]

        before = ask_all(1)
        assert [(answer.url.path, answer.text) for answer in before if not answer.is_success] == []
        fault(tmp_path / DATABASE)
        after = ask_all(2)
        assert 503 in [answer.status_code for answer in after]
        for answer in (*before, *after):
            assert str(tmp_path) not in f"{answer.text} {answer.headers}", answer.url


# --- everything is taken -------------------------------------------------------------------------------------------


@contextmanager
def all_readers_taken(database: SqliteDatabase) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(READERS_LIMIT):
            assert database._reader_slots.acquire(timeout=HANG_SECONDS)
            stack.callback(database._reader_slots.release)
        yield


@contextmanager
def writer_taken(path: Path) -> Iterator[None]:
    """Another process that holds the write lock."""
    raw = apsw.Connection(str(path))
    raw.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        raw.execute("ROLLBACK")
        raw.close()


@contextmanager
def workers_taken(server: Running) -> Iterator[None]:
    """Every thread of the server at work on something that does not end by itself."""
    entered, may_end = threading.Semaphore(0), threading.Event()
    check = server.service.check_ready

    def hang() -> None:
        entered.release()
        may_end.wait(HANG_SECONDS)

    def ready(number: int) -> int:
        # Two callers, because one never has all threads.
        with server.client() as client:
            client.headers["Authorization"] = f"Bearer mk_{number % 2}"
            return client.get("/readyz").status_code

    server.service.check_ready = hang  # type: ignore[method-assign]
    with ThreadPoolExecutor(VERB_THREADS) as crowd:
        asked = [crowd.submit(ready, number) for number in range(VERB_THREADS)]
        for _ in asked:
            assert entered.acquire(timeout=HANG_SECONDS)
        server.service.check_ready = check  # type: ignore[method-assign]
        try:
            yield
        finally:
            may_end.set()
            assert {each.result() for each in asked} == {200}


def test_when_every_place_is_taken_everybody_is_told_so_in_time_and_the_server_recovers(tmp_path: Path) -> None:
    def ask(path: str, body: Any) -> int:
        with server.client() as each:
            return each.post(path, json=body).status_code

    with running(tmp_path, turn_seconds=0.2) as server, server.client() as client:
        remember(client)
        database = database_of(server)
        database._reader_seconds = database._writer_seconds = 0.2
        with all_readers_taken(database):
            assert "too many reads at once" in said(recall(client))
        with writer_taken(tmp_path / DATABASE):
            assert client.post("/ump/remember", json=draft("nobody's turn")).status_code == 503
        with workers_taken(server):
            refused = recall(client)
            assert error_of(refused) == (503, "unavailable")
            assert "no thread was free" in said(refused)
        # All at once, from many sides.
        with all_readers_taken(database), writer_taken(tmp_path / DATABASE), ThreadPoolExecutor(24) as crowd:
            asked = [crowd.submit(ask, "/ump/remember", draft(f"crowd {number}")) for number in range(12)]
            asked += [crowd.submit(ask, "/ump/recall", {"query": "gate"}) for _ in range(12)]
            assert {each.result() for each in asked} == {503}
        # Now everybody comes to a turn, however much else the machine has to do.
        database._reader_seconds = database._writer_seconds = HANG_SECONDS
        until(lambda: recall(client).status_code == 200, "it answers again")
        assert client.post("/ump/remember", json=draft("afterwards")).status_code == 200
        assert client.get("/readyz").status_code == 200
