"""A server process as an agent starts it: what it prints, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.mcp.peers import STDIO_SERVER
from tests.forking import Forked
from tests.waiting import HANG_SECONDS

from memoranda.app import Memoranda

HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
DRAFT = {"kind": "semantic", "body": {"text": "kept"}}


Process = Forked | subprocess.Popen[bytes]


@contextmanager
def process(home: Path, start: type[Process] = Forked) -> Iterator[Process]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "error", str(STDIO_SERVER), str(home)]
    with start(command, stdin=pipe, stdout=pipe, stderr=pipe) as started:
        try:
            yield started
        finally:
            started.kill()


def say(server: Process, message: dict[str, Any] | str) -> None:
    assert server.stdin is not None
    server.stdin.write((message if isinstance(message, str) else json.dumps(message)).encode() + b"\n")
    server.stdin.flush()


def ask(server: Process, message: dict[str, Any]) -> dict[str, Any]:
    say(server, message)
    assert server.stdout is not None
    while True:
        line = server.stdout.readline()
        assert line, server.stderr.read() if server.stderr else b""
        answer = json.loads(line)
        if answer.get("id") == message["id"]:
            return dict(answer)


def call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def handshake(server: Process) -> None:
    assert ask(server, HELLO)["result"]["protocolVersion"] == "2025-06-18"
    say(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})


@pytest.mark.parametrize("ending", ["end of input", "SIGTERM", "SIGINT"])
def test_it_ends_cleanly_and_leaves_a_closed_store(tmp_path: Path, ending: str) -> None:
    home = tmp_path / "home"
    # One of them reads the program itself, where a warning would be an error, too.
    with process(home, subprocess.Popen if ending == "end of input" else Forked) as server:
        handshake(server)
        remembered = ask(server, call(2, "ump.remember", DRAFT))
        assert remembered["result"]["structuredContent"]["result"] == "created"
        assert server.stdin is not None
        if ending == "end of input":
            server.stdin.close()
        else:
            server.send_signal(getattr(signal, ending))
        assert server.wait(HANG_SECONDS) == 0
        assert server.stderr is not None
        assert server.stderr.read() == b""
    # The last connection that closes a SQLite database takes its write-ahead log away.
    assert not (home / "memoranda.db-wal").exists()
    assert (home / "memoranda.db").exists()


def test_garbage_on_standard_input_is_answered_or_passed_over(tmp_path: Path) -> None:
    with process(tmp_path / "home") as server:
        handshake(server)
        for garbage in ("", "{", "null", "[]", "\x00", "[" * 10_000, '{"jsonrpc":"2.0","id":3,"method":7}'):
            say(server, garbage)
        deep: Any = "x"
        for _ in range(100):
            deep = {"a": deep}
        refused = ask(server, call(4, "ump.remember", {**DRAFT, "body": {"text": "x", "structured": deep}}))
        assert refused["result"]["structuredContent"]["error"]["code"] == "invalid_record"
        unknown = ask(server, {"jsonrpc": "2.0", "id": 5, "method": "memories/steal"})
        assert unknown["error"]["code"] == -32601
        assert ask(server, call(6, "ump.remember", DRAFT))["result"]["isError"] is False


def test_two_processes_share_one_memory(tmp_path: Path) -> None:
    with process(tmp_path / "home") as one, process(tmp_path / "home") as two:
        handshake(one)
        handshake(two)
        ask(one, call(2, "ump.remember", DRAFT))
        found = ask(two, call(2, "ump.recall", {"query": "kept"}))["result"]["structuredContent"]["results"]
        assert [hit["record"]["body"]["text"] for hit in found] == ["kept"]


def test_the_sdk_is_loaded_only_by_who_serves_mcp() -> None:
    script = "import memoranda.app, memoranda.cli, sys; sys.exit('mcp' in sys.modules or 'mcp_types' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("stated", "stored"),
    [
        ("codex-mcp-client", "codex"),
        ("a new host", "a new host"),
        ("with\u0007bell", None),
        ("n" * 101, None),
        ("", None),
    ],
)
def test_memories_name_the_agent_that_the_client_states(tmp_path: Path, stated: str, stored: str | None) -> None:
    home = tmp_path / "home"
    hello = {**HELLO, "params": {**HELLO["params"], "clientInfo": {"name": stated, "version": "1"}}}
    with process(home) as server:
        ask(server, hello)
        say(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        ask(server, call(2, "ump.remember", DRAFT))
        named = {"kind": "semantic", "body": {"text": "of a reviewer"}, "scope": {"agent": "reviewer"}}
        ask(server, call(3, "ump.remember", named))
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait(HANG_SECONDS) == 0
    with Memoranda.open(home) as memoranda:
        records = {record["body"]["text"]: record for record in memoranda.export()}
    assert records["kept"]["scope"].get("agent") == stored
    assert (records["kept"]["provenance"]["actor"] == stored) == (stored is not None)
    assert records["of a reviewer"]["scope"]["agent"] == "reviewer"
