"""A rolling upgrade: two servers are replaced by a newer version, one after the other, and no request fails.

The servers are real processes on one PostgreSQL. Clients are at both of them all the time, as behind a load balancer: a
server gets no new requests before it is stopped. The newer version has one more column, which is filled and indexed in
the background, and at last required (tests/storage/newer.py).
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest

from memoranda import Memoranda
from memoranda.encoding.json_text import parse
from memoranda.keys import operator_key
from tests.postgres import server
from tests.storage.newer import write_newer
from tests.waiting import HANG_SECONDS, until

ROOT: Final = Path(__file__).parents[2]
CLIENTS: Final = 4
# Memories that are there before, so that the background has something to do.
EARLIER: Final = 200


class Node:
    """A server process, and the number of requests that it has not answered yet."""

    def __init__(self, home: Path, address: str, newer: Path | None) -> None:
        module = ["memoranda"] if newer is None else ["tests.storage.newer", str(newer)]
        tokens = ["--data", str(home), "--store", address, "--json", "serve", "--port", "0"]
        command = [sys.executable, "-m", *module, *tokens]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert self.process.stdout is not None
        started = parse(self.process.stdout.readline())
        self.url = started["url"]
        self.key = Path(started["credential"]).read_text().strip()
        self.open_requests = 0

    def close(self) -> None:
        """End the process, however the test ended."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> None:
        """Stop the process as an operator does, and wait until it has ended."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(HANG_SECONDS) in (0, -signal.SIGTERM)


class Balancer:
    """The servers that get requests, each in its turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: list[Node] = []
        self._turn = 0

    def add(self, node: Node) -> None:
        with self._lock:
            self._nodes.append(node)

    def drain(self, node: Node) -> None:
        """Send no more requests to a server, and wait for its last answer."""
        with self._lock:
            self._nodes.remove(node)
        until(lambda: node.open_requests == 0)

    @contextmanager
    def node(self) -> Iterator[Node]:
        with self._lock:
            self._turn += 1
            node = self._nodes[self._turn % len(self._nodes)]
            node.open_requests += 1
        try:
            yield node
        finally:
            with self._lock:
                node.open_requests -= 1


class Load:
    """Clients that write and read all the time."""

    def __init__(self, balancer: Balancer, owner: str) -> None:
        self._balancer, self._owner = balancer, owner
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CLIENTS)]
        self.texts: list[str] = []
        self.failures: list[str] = []
        self.answers = 0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, count: int) -> None:
        """Wait for so many further answers."""
        until_count = self.answers + count
        until(lambda: self.answers >= until_count or self.failures)

    def _run(self, client: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            text = f"Client {client} measured {number} litres of rain."
            if self._answer("/ump/remember", self._record(text)):
                self.texts.append(text)
            self._answer("/ump/recall", {"query": f"litres of rain {number}"})

    def _record(self, text: str) -> dict[str, Any]:
        provenance = {"actor": self._owner, "actor_kind": "user", "method": "test"}
        scope = {"owner": self._owner}
        return {"kind": "semantic", "body": {"text": text}, "scope": scope, "provenance": provenance}

    def _answer(self, path: str, body: dict[str, Any]) -> bool:
        """Send one request, once; return True if it was answered as it should be."""
        try:
            with self._balancer.node() as node:
                headers = {"Authorization": f"Bearer {node.key}"}
                answer = httpx.post(node.url + path, json=body, headers=headers, timeout=HANG_SECONDS)
        except httpx.HTTPError as error:
            self.failures.append(f"{path}: {error!r}")
            return False
        self.answers += 1
        if answer.status_code >= 300:
            self.failures.append(f"{path}: {answer.status_code} {answer.text}")
        return answer.status_code < 300


def schema_of(address: str) -> int:
    with closing(psycopg.connect(address, autocommit=True)) as raw:
        raw.execute("SET memoranda.system = 'on'")
        ((value,),) = raw.execute("SELECT value FROM meta WHERE name = 'schema'").fetchall()
    return int(value)


def test_two_servers_are_upgraded_under_load_and_no_request_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, newer = tmp_path / "home", write_newer(tmp_path / "newer")
    address = server().address(server().scratch())
    monkeypatch.setenv("MEMORANDA_HOME", str(home))
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "off")
    with Memoranda.open(address) as m:
        m.import_records([{"kind": "semantic", "body": {"text": f"Earlier note {n}."}} for n in range(EARLIER)])
    balancer = Balancer()
    load = Load(balancer, operator_key(home).did)
    with ExitStack() as stack:

        def start(version: Path | None) -> Node:
            node = Node(home, address, version)
            stack.callback(node.close)
            balancer.add(node)
            return node

        one, other = start(None), start(None)
        before = schema_of(address)
        stack.callback(load.stop)
        load.start()
        load.wait_for(100)
        balancer.drain(one)
        one.stop()
        # Its first step runs while the other server reads and writes the table.
        start(newer)
        until(lambda: schema_of(address) == 9003, "the background fills and indexes the column")
        # Both versions serve, and the last step waits for the older one.
        load.wait_for(100)
        assert schema_of(address) == 9003
        balancer.drain(other)
        other.stop()
        start(newer)
        until(lambda: schema_of(address) == 9004, "the last step runs when no older server is left")
        load.wait_for(100)
        load.stop()
    assert before < 9001
    assert load.failures == []
    assert load.answers >= 300
    with closing(psycopg.connect(address)) as raw:
        raw.execute("SET memoranda.system = 'on'")
        query = "SELECT count(*), count(*) FILTER (WHERE label IS NULL) FROM state"
        assert raw.execute(query).fetchall() == [(EARLIER + len(load.texts), 0)]
