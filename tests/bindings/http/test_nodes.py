"""Two servers on one PostgreSQL: each answers by every standard what the other was told, and so does a command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest
from tests.commands import command
from tests.forking import Forked
from tests.postgres import server
from tests.waiting import HANG_SECONDS

from memoranda.app import Memoranda
from memoranda.encoding.json_text import parse
from memoranda.keys import operator_key
from memoranda.storage.postgres.database import PostgresDatabase


@contextmanager
def node(home: Path, address: str) -> Iterator[httpx.Client]:
    """A server process on a store, and a client of it."""
    tokens = ("--data", str(home), "--store", address, "--json", "serve", "--port", "0")
    with Forked([sys.executable, "-m", "memoranda", *tokens], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            said = parse(process.stdout.readline())
            assert "credential" in said, said
            headers = {"Authorization": f"Bearer {Path(said['credential']).read_text().strip()}"}
            with httpx.Client(base_url=said["url"], headers=headers, timeout=HANG_SECONDS) as client:
                yield client
        finally:
            process.kill()


def told(client: httpx.Client, method: str, path: str, body: Any = None) -> str:
    answer = client.request(method, path, json=body)
    assert answer.status_code < 300, answer.text
    return answer.text


def test_what_one_node_is_told_by_any_standard_another_and_a_command_know(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ExitStack() as stack:
        address = stack.enter_context(server().database())
        here, there = (stack.enter_context(node(home, address)) for _ in range(2))
        owner = operator_key(home).did
        stream = stack.enter_context(there.stream("GET", "/ump/subscribe"))
        lines = stream.iter_lines()
        assert next(lines) == ": ump subscribe open"
        record = {
            "kind": "semantic",
            "body": {"text": "the harbour opens at dawn"},
            "scope": {"owner": owner, "project": "port"},
            "provenance": {"actor": owner, "actor_kind": "user", "method": "test"},
        }
        name = parse(told(here, "POST", "/ump/remember", record).encode())["id"]
        heard = next(line for line in lines if line.startswith("data: "))
        assert parse(heard.removeprefix("data: ").encode())["id"] == name
        place = f"/v1/oams/memories/{quote('user-x:port', safe='')}/crane"
        told(here, "PUT", place, {"value": "the crane lifts nine tons"})
        told(here, "POST", "/v1/memory/port", {"content": "the pilot is called Ines"})
        belief = {"type": "belief", "subject": "quay", "relation": "holds", "object": "grain", "confidence": 0.9}
        told(here, "POST", "/oms/grains", {**belief, "created_at": 1768471200000, "namespace": "port"})
        for word in ("dawn", "tons", "Ines", "grain"):
            assert word in told(there, "POST", "/ump/recall", {"query": f"harbour crane pilot quay {word}"})
        assert "nine tons" in told(there, "GET", place)
        assert "Ines" in told(there, "GET", "/v1/memory/port")
        asked = {"query": 'RECALL beliefs WHERE subject = "quay"', "namespace": "port"}
        assert "quay" in told(there, "POST", "/cal", asked)
        with server().away(address):
            for path, body in (("/ump/recall", {"query": "harbour"}), ("/ump/remember", record)):
                answer = there.post(path, json=body)
                assert (answer.status_code, answer.headers.get("retry-after")) == (503, "1"), answer.text
        # Nobody was restarted.
        assert "dawn" in told(there, "POST", "/ump/recall", {"query": "harbour"})
        told(there, "POST", "/ump/remember", {**record, "body": {"text": "the harbour is open again"}})
        shared = ("--data", str(home), "--store", address, "--json")
        found = command(*shared, "recall", "harbour")
        assert (found.code, b"dawn" in found.out) == (0, True)
        assert command(*shared, "doctor").code == 0
        assert parse(command(*shared, "verify").out)["ok"]


@pytest.mark.parametrize("serving", [("serve", "--port", "0"), ("serve", "--port", "0", "--workers", "2"), ("mcp",)])
def test_a_server_whose_database_refuses_a_query_does_not_start_and_says_which(
    tmp_path: Path, serving: tuple[str, ...]
) -> None:
    with server().database() as address:
        PostgresDatabase(address).close()
        rename = "ALTER TABLE feedback RENAME COLUMN {} TO {}"
        with psycopg.connect(address) as owner:
            owner.execute(rename.format("outcome", "result"))
        command = [sys.executable, "-m", "memoranda", "--data", str(tmp_path), "--store", address, *serving]
        pipe = subprocess.PIPE
        with Forked(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            announced = process.stdout.readline()
            if announced:
                process.kill()
            message = process.stderr.read().decode()
        # Another test gets this database.
        with psycopg.connect(address) as owner:
            owner.execute(rename.format("result", "outcome"))
    assert (process.returncode, announced) == (1, b"")
    assert 'refuses the query \'feedback_add\' (column "outcome" of relation "feedback" does not exist)' in message
    assert "Traceback" not in message


def test_the_library_opens_a_store_by_its_address(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    with server().database() as address:
        with Memoranda.open(address) as memory:
            memory.remember("use pnpm, never npm", project="p")
        with Memoranda.open(address) as memory:
            assert [found.text for found in memory.recall("pnpm", project="p")] == ["use pnpm, never npm"]
