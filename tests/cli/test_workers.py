"""Several server processes on one port and one store: they answer alike, replace one another, and end together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.bindings.http.running import NO_AUTHORITIES
from tests.cli.conftest import Command
from tests.forking import Forked
from tests.waiting import HANG_SECONDS, until

from memoranda.encoding.json_text import parse
from memoranda.errors import Unsupported
from memoranda.keys import operator_key
from memoranda.service.openwop.secrets import Vault

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A process that serves with workers."""

    process: Forked
    url: str
    headers: dict[str, str]
    owner: str

    def workers(self) -> set[int]:
        number = self.process.pid
        return {int(each) for each in Path(f"/proc/{number}/task/{number}/children").read_text().split()}

    def client(self) -> httpx.Client:
        """A new connection: whichever worker the system gives it to."""
        return httpx.Client(base_url=self.url, verify=NO_AUTHORITIES, headers=self.headers, timeout=HANG_SECONDS)

    def remember(self, text: str) -> str:
        draft = {
            "kind": "semantic",
            "body": {"text": text},
            "scope": {"owner": self.owner},
            "provenance": {"actor": self.owner, "actor_kind": "user", "method": "test"},
        }
        with self.client() as client:
            answer = client.post("/ump/remember", json=draft)
            assert answer.status_code == 200, answer.text
            return str(answer.json()["id"])


@contextmanager
def serving(home: Path, workers: int = 2) -> Iterator[Serving]:
    tokens = ("--data", str(home), "--json", "serve", "--port", "0", "--workers", str(workers))
    command = [sys.executable, "-m", "memoranda", *tokens]
    with Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            said = parse(process.stdout.readline())
            bearer = Path(said["credential"]).read_text().strip()
            headers = {"Authorization": f"Bearer {bearer}"}
            yield Serving(process=process, url=said["url"], headers=headers, owner=operator_key(home).did)
        finally:
            # The workers end with it.
            process.kill()


def is_gone(process: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_share_one_store_and_end_with_a_signal_to_the_first(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "home") as server:
        workers = server.workers()
        assert len(workers) == 2
        names = {server.remember(f"memory number {each}") for each in range(8)}
        for _ in range(4):
            with server.client() as client:
                found = client.post("/ump/recall", json={"query": "memory", "limit": 8}).json()["results"]
            assert {each["record"]["id"] for each in found} == names
            with server.client() as client:
                # Whichever answers tells of all.
                counted = 'memoranda_http_requests_total{standard="ump",operation="remember",code="200"} 8\n'
                assert counted in client.get("/metrics").text
        server.process.send_signal(number)
        out, err = server.process.communicate()
        assert (server.process.returncode, out, err) == (0, b"", b"")
        assert all(map(is_gone, workers))


_STAY = """
import os
from memoranda.bindings.http.workers import stay_on_processor
before = os.sched_getaffinity(0)
stay_on_processor(0, len(before) - 1)
assert os.sched_getaffinity(0) == before
stay_on_processor(len(before) + 1, len(before))
assert os.sched_getaffinity(0) == {sorted(before)[1 % len(before)]}
"""


def test_each_worker_has_a_processor_where_there_are_as_many_and_otherwise_all(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _STAY], check=True)
    allowed = os.sched_getaffinity(0)
    with serving(tmp_path / "home") as server:
        theirs = [os.sched_getaffinity(each) for each in server.workers()]
    each = [{number} for number in allowed] if len(allowed) == 2 else [allowed, allowed]
    assert sorted(map(sorted, theirs)) == sorted(map(sorted, each))


def test_a_subscriber_hears_what_any_worker_wrote(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server, server.client() as client:
        with client.stream("GET", "/ump/subscribe") as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": ump subscribe open"
            names = [server.remember(f"memory number {each}") for each in range(8)]
            heard = [parse(line.removeprefix("data: "))["id"] for line in lines_of(lines, "data: ", len(names))]
        assert heard == names


def lines_of(lines: Iterator[str], prefix: str, count: int) -> Iterator[str]:
    for _ in range(count):
        yield next(line for line in lines if line.startswith(prefix))


def test_agents_are_served_without_sessions_by_whichever_worker(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
        for _ in range(4):
            with server.client() as client:
                hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
                answer = client.post("/mcp", json=hello, headers=accept)
                assert answer.status_code == 200
                assert "mcp-session-id" not in answer.headers
            with server.client() as client:
                asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
                assert "recall" in client.post("/mcp", json=asked, headers=accept).text


def test_a_worker_that_ends_is_replaced(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        name = server.remember("before")
        first, second = sorted(server.workers())
        os.kill(first, signal.SIGKILL)
        until(lambda: len(server.workers() - {first}) == 2)
        assert second in server.workers()
        with server.client() as client:
            until(lambda: client.get("/readyz").status_code == 200)
            assert client.get(f"/ump/memory/{name}").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANG_SECONDS) == 0


def test_workers_do_not_outlive_the_first_process(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        workers = server.workers()
        server.process.kill()
        until(lambda: all(map(is_gone, workers)))


def test_a_port_that_is_taken_and_a_number_that_makes_no_sense_are_said_in_a_sentence(run: Command) -> None:
    for tokens, said in (
        (("--workers", "0"), "workers must be from 1 to 64"),
        (("--workers", "65"), "workers must be from 1 to 64"),
        (("--workers", "2", "--store", "sqlite:///:memory:"), "a store in memory cannot be shared"),
        (("--workers", "2", "--host", "no-such-host.invalid"), "cannot listen on"),
    ):
        ran = run("serve", *tokens)
        assert ran.code == 1
        assert said in ran.err


@pytest.mark.parametrize("workers", [1, 2])
def test_serving_starts_after_the_owners_key_was_revoked(run: Command, home: Path, workers: int) -> None:
    run("console")
    credential = home / "owner.credential"
    before = credential.read_text()
    assert run("key", "revoke", "owner", "--yes").code == 0
    with serving(home, workers) as server, server.client() as client:
        assert credential.read_text() != before
        assert client.post("/ump/recall", json={"query": "x"}).status_code == 200
        old = {"Authorization": f"Bearer {before.strip()}"}
        assert client.post("/ump/recall", json={"query": "x"}, headers=old).status_code == 401
    assert [key["name"] for key in run("key", "list", "--json").json["keys"]] == ["owner", "owner"]


def test_secrets_of_runs_are_refused_where_another_process_would_not_know_them() -> None:
    vault = Vault(is_alone=False)
    with pytest.raises(Unsupported, match="one worker"):
        vault.register(("tenant", "run"), "key", "a value that is long enough")
