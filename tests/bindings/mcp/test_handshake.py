"""The answer to `initialize` that is given before the SDK is loaded: equal to the SDK's, and only to plain requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.mcp.test_stdio import HELLO, ask, call, process, say
from tests.waiting import HANG_SECONDS

from memoranda.bindings.mcp.handshake import VERSIONS, ReplayedInput, build_answer


def hello(**params: Any) -> dict[str, Any]:
    return {**HELLO, "params": {**HELLO["params"], **params}}


def answer_early(request: object) -> Any:
    answer = build_answer(json.dumps(request).encode())
    return None if answer is None else json.loads(answer[0])


@pytest.mark.parametrize("version", [*VERSIONS, "2026-07-28", "1999-01-01"])
def test_the_early_answer_is_that_of_the_sdk(tmp_path: Path, version: str) -> None:
    request = hello(protocolVersion=version, capabilities={"roots": {"listChanged": True}})
    with process(tmp_path / "home") as server:
        assert answer_early(request) == ask(server, request)


@pytest.mark.parametrize(
    "request_",
    [
        {**HELLO, "method": "ping"},
        {**HELLO, "id": None},
        {**HELLO, "id": True},
        {**HELLO, "id": 1.5},
        {**HELLO, "jsonrpc": "1.0"},
        {**HELLO, "more": 1},
        {**HELLO, "params": []},
        hello(protocolVersion=1),
        hello(capabilities=None),
        hello(capabilities={"roots": 1}),
        hello(clientInfo={"name": "t"}),
        hello(clientInfo=None),
        [HELLO],
        None,
    ],
)
def test_any_other_message_is_left_to_the_sdk(request_: object) -> None:
    assert answer_early(request_) is None


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_message_is_left_to_the_sdk(data: bytes) -> None:
    assert build_answer(data) is None


def test_what_was_read_is_read_again_before_the_rest() -> None:
    reading, writing = os.pipe()
    os.write(writing, b" and the rest")
    os.close(writing)
    replayed = ReplayedInput(b"the beginning", reading)
    parts = iter(lambda: replayed.read(5), b"")
    assert b"".join(parts) == b"the beginning and the rest"
    os.close(reading)


def test_the_command_answers_before_it_loads_the_sdk() -> None:
    code = (
        "import sys, memoranda.cli.mcp; print([name for name in ('mcp', 'pydantic', 'anyio') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_session_goes_on_after_either_answer(tmp_path: Path, is_plain: bool) -> None:
    command = [sys.executable, "-m", "memoranda", "mcp", "--data", str(tmp_path / "home")]
    pipe = subprocess.PIPE
    request = hello(capabilities={}) if is_plain else {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        # Everything is there before the server reads: what follows the first message must not be lost.
        say(server, request)
        if not is_plain:
            say(server, {**HELLO, "id": 2})
        say(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        remembered = ask(server, call(3, "ump.remember", {"kind": "semantic", "body": {"text": "kept"}}))
        assert remembered["result"]["structuredContent"]["result"] == "created"
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.close()
        ids = [json.loads(line).get("id") for line in server.stdout.read().splitlines()]
        assert 1 not in ids
        assert server.wait(HANG_SECONDS) == 0
