"""Another program looks into a database that a server serves: nothing that was acknowledged is lost by it."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from memoranda.app import Memoranda
from memoranda.stores import KEY_RING_FILE
from tests.bindings.http.process import Server, serving
from tests.forking import run as forked_run
from tests.outside import empty_log, lock_holders, query
from tests.proofs.store import DATABASE_FILE
from tests.waiting import until

CLIENTS = 4
LOOKS = 12
COUNT = "SELECT count(*) FROM version"


def write(client: httpx.Client, text: str) -> str:
    """Write a memory, and return the path that it is read at."""
    answer = client.post("/v1/memory/notes", json={"content": text})
    assert answer.status_code == 201, answer.text
    return f"/v1/memory/notes/{answer.json()['id']}"


def missing(client: httpx.Client, paths: list[str]) -> list[str]:
    return [path for path in paths if client.get(path).status_code != 200]


@pytest.mark.parametrize("is_empty", [False, True], ids=["live log", "empty log"])
def test_a_look_into_the_database_of_a_server_takes_nothing_from_it(tmp_path: Path, is_empty: bool) -> None:
    path = tmp_path / DATABASE_FILE
    log = path.with_name(f"{DATABASE_FILE}-wal")
    with serving(tmp_path) as server, server.client() as client:
        written = [write(client, "before")]
        for number in range(3):
            if is_empty:
                empty_log(path)
            assert (log.stat().st_size == 0) is is_empty
            assert query(path, COUNT) == str(len(written))
            written.append(write(client, f"after look {number}"))
        assert client.get("/readyz").status_code == 200
        for name in (DATABASE_FILE, KEY_RING_FILE):
            assert lock_holders(tmp_path / name) == (server.pid, server.pid)
        assert missing(client, written) == []
    with serving(tmp_path) as server, server.client() as client:
        assert missing(client, written) == []


@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_acknowledged_write_is_lost_to_looks_into_the_database(tmp_path: Path, workers: str) -> None:
    path, stop = tmp_path / DATABASE_FILE, threading.Event()
    acknowledged: list[str] = []

    def write_on(server: Server, number: int) -> None:
        with server.client() as client:
            count = 0
            while not stop.is_set():
                acknowledged.append(write(client, f"note {count} of client {number}"))
                count += 1

    with serving(tmp_path, "--workers", workers) as server, ThreadPoolExecutor(CLIENTS) as clients:
        writing = [clients.submit(write_on, server, number) for number in range(CLIENTS)]
        try:
            for number in range(LOOKS):
                if number % 2:
                    empty_log(path)
                seen = len(acknowledged)
                assert int(query(path, COUNT)) >= seen
                until(lambda seen=seen: len(acknowledged) > seen or any(each.done() for each in writing))  # type: ignore[misc]
        finally:
            stop.set()
        for each in writing:
            each.result()
        with server.client() as client:
            assert missing(client, acknowledged) == []
    with Memoranda.open(tmp_path) as memoranda:
        assert memoranda.service.verify_store().losses == ()
        assert memoranda.stats().memories == len(acknowledged)


def test_a_store_is_not_moved_aside_while_a_server_serves_it(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "store.backup"
    memoranda: list[str | Path] = [sys.executable, "-m", "memoranda", "--data", home]
    with serving(home, MEMORANDA_ENCRYPTION="off") as server, server.client() as client:
        written = [write(client, "before")]
        assert forked_run([*memoranda, "backup", target]).returncode == 0
        restored = forked_run([*memoranda, "restore", target, "--force"])
        assert (restored.returncode, b"stop the server first" in restored.stderr) == (1, True)
        written.append(write(client, "after"))
        assert missing(client, written) == []
