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
from tests.forking import run as forked_run
from tests.waiting import HANG_SECONDS, until

from memoranda.bindings.http.workers import Patience
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


def starting_ends(client: httpx.Client) -> int:
    """How many workers have ended before they were ready, as the numbers say."""
    return measured(client, 'memoranda_worker_ends_total{state="starting"}')


def measured(client: httpx.Client, name: str) -> int:
    found = [line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return int(found[0].rpartition(" ")[2]) if found else 0


def answers(server: Serving) -> bool:
    try:
        with server.client() as client:
            return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def no_start(home: Path) -> Iterator[None]:
    """Let no process open the store anew: those that have it open go on."""
    key = home / "operator.key"
    key.chmod(0o644)
    try:
        yield
    finally:
        key.chmod(0o600)


def test_the_others_serve_while_a_successor_does_not_start_and_it_is_tried_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home) as server:
        first, second = sorted(server.workers())
        with no_start(home):
            os.kill(first, signal.SIGKILL)
            until(lambda: first not in server.workers())
            with server.client() as client:
                until(lambda: starting_ends(client) >= 2)
                assert measured(client, "memoranda_workers_ready") == 1
            assert second in server.workers()
            name = server.remember("while one is missing")
        with server.client() as client:
            until(lambda: measured(client, "memoranda_workers_ready") == 2)
            assert client.get(f"/ump/memory/{name}").status_code == 200
        assert len(server.workers()) == 2
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANG_SECONDS) == 0


def test_all_workers_may_end_while_none_can_start_and_come_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home) as server:
        first, second = sorted(server.workers())
        with no_start(home):
            os.kill(first, signal.SIGKILL)
            with server.client() as client:
                until(lambda: first not in server.workers())
                until(lambda: starting_ends(client) >= 1)
            os.kill(second, signal.SIGKILL)
            until(lambda: second not in server.workers())
            assert server.process.poll() is None
        until(lambda: answers(server))
        with server.client() as client:
            until(lambda: measured(client, "memoranda_workers_ready") == 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_while_a_successor_does_not_start(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "home"
    with serving(home) as server, no_start(home):
        first, second = sorted(server.workers())
        os.kill(first, signal.SIGKILL)
        with server.client() as client:
            until(lambda: first not in server.workers())
            until(lambda: starting_ends(client) >= 1)
        server.process.send_signal(number)
        assert server.process.wait(HANG_SECONDS) == 0
        assert is_gone(second)


def test_what_keeps_the_first_worker_from_starting_ends_the_server_with_one_message(tmp_path: Path) -> None:
    home, missing = str(tmp_path / "home"), str(tmp_path / "missing")
    tokens = ["--data", home, "serve", "--port", "0", "--workers", "4", "--tls-cert", missing, "--tls-key", missing]
    ran = forked_run([sys.executable, "-m", "memoranda", *tokens])
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr.count(b"the certificate or its key cannot be used") == 1
    assert b"the first server process ended before it was ready" in ran.stderr


def test_pauses_between_starts_double_up_to_a_limit() -> None:
    pauses = [Patience().pause(failures) for failures in range(12)]
    assert pauses == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]
    assert Patience().pause(10**9) == 30.0


# Workers of a few lines. The clock leaps 100 seconds for each byte of a file, so that nobody waits for long.
_FEW_LINES = """
import logging, os, signal, sys, time
from pathlib import Path
from memoranda.bindings.http.workers import Patience, Workers
from memoranda.errors import MemorandaError

folder = Path(sys.argv[1])
leaps, once, main = folder / "leaps", folder / "once", os.getpid()
leaps.touch()
logging.basicConfig(level="WARNING", stream=sys.stdout, format="%(message)s")

def leap():
    with leaps.open("ab", buffering=0) as file:
        file.write(b"x")

def is_first():
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def stay(lifeline, tell):
    tell()
    signal.pause()

def say(*said):
    print(*said, flush=True)

def run(count, work):
    clock = lambda: time.monotonic() + 100 * leaps.stat().st_size
    patience = Patience(first_pause=0.01)
    try:
        Workers(count, work, lambda: say("announced"), patience=patience, clock=clock).run()
    except MemorandaError as error:
        say(error.message)
"""


def run_few_lines(folder: Path, program: str) -> Forked:
    pipe = subprocess.PIPE
    return Forked([sys.executable, "-c", _FEW_LINES + program, folder], stdin=pipe, stdout=pipe)


def lines_after_announced(process: Forked) -> list[str]:
    """Let the first worker go on once the server is announced, and return what is said from then on."""
    assert process.stdout is not None
    assert process.stdout.readline() == b"announced\n"
    out, _ = process.communicate()
    return out.decode().splitlines()


def test_the_server_ends_when_no_worker_was_ready_for_long(tmp_path: Path) -> None:
    program = """
def work(lifeline, tell):
    if is_first():
        tell()
        sys.stdin.readline()
    else:
        leap()
        raise MemorandaError("it does not start")

run(1, work)
"""
    with run_few_lines(tmp_path, program) as process:
        lines = lines_after_announced(process)
    assert lines == [
        "worker 0 ended (exit code 0); another is started in 0.01 s",
        "it does not start",
        "worker 0 ended before it was ready (exit code 1); another is started in 0.02 s",
        "it does not start",
        "worker 0 ended before it was ready (exit code 1); another is started in 0.04 s",
        "it does not start",
        "worker 0 ended before it was ready (exit code 1); another is started in 0.08 s",
        "no server process was ready for 300 s, although several were started; the log has the reasons",
    ]


def test_a_worker_that_takes_too_long_to_start_is_killed_and_tried_again(tmp_path: Path) -> None:
    program = """
def work(lifeline, tell):
    if is_first():
        stay(lifeline, tell)
    if leaps.stat().st_size == 0:
        leap()
        leap()
        # The first process looks at its clock when something wakes it.
        os.kill(main, signal.SIGCHLD)
        signal.pause()
    say("started after all")
    stay(lifeline, tell)

run(2, work)
"""
    with run_few_lines(tmp_path, program) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().decode().strip() for _ in range(4)]
        process.terminate()
        assert process.wait(HANG_SECONDS) == 0
    assert sorted(lines) == [
        "announced",
        "started after all",
        "worker 1 ended before it was ready (exit code -9); another is started in 0.01 s",
        "worker 1 was not ready within 120 s",
    ]


def test_a_worker_that_was_ready_for_long_is_replaced_at_once(tmp_path: Path) -> None:
    program = """
def work(lifeline, tell):
    if is_first():
        tell()
        sys.stdin.readline()
        # Ready for 100 seconds, by the clock.
        leap()
        os._exit(3)
    # The lines are at their end.
    os.kill(main, signal.SIGTERM)
    stay(lifeline, tell)

run(1, work)
"""
    with run_few_lines(tmp_path, program) as process:
        lines = lines_after_announced(process)
    assert lines == ["worker 0 ended (exit code 3); another is started now"]


def test_workers_do_not_outlive_the_first_process(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        workers = server.workers()
        server.process.kill()
        until(lambda: all(map(is_gone, workers)))


def test_a_port_that_is_taken_and_a_number_that_makes_no_sense_are_said_in_a_sentence(run: Command) -> None:
    for tokens, said in (
        (("--workers", "0"), "--workers must be at least 1"),
        (("--workers", "65"), "--workers must be from 1 to 64"),
        (("--workers", "2", "--store", "sqlite:///:memory:"), "a store in memory cannot be shared"),
        (("--workers", "2", "--host", "no-such-host.invalid"), "cannot listen on"),
    ):
        ran = run("serve", *tokens)
        assert ran.code in (1, 2)
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
