"""The command as a process of its own: start-up, exit codes, signals, servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.embedders import WORDS_ALONE
from tests.waiting import HANG_SECONDS, until

from memoranda.app import Memoranda
from memoranda.encoding.json_text import dump, parse


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    return {**kept, **WORDS_ALONE, "MEMORANDA_HOME": str(tmp_path / "home")}


def command(*tokens: str) -> list[str]:
    return [sys.executable, "-m", "memoranda", *tokens]


@contextmanager
def running(environment: dict[str, str], *tokens: str) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command(*tokens), env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def test_help_and_version_load_nothing_heavy(environment: dict[str, str]) -> None:
    script = (
        "import sys; from memoranda.cli import main; "
        "main(['--help']); main(['--version']); "
        "heavy = {'mcp', 'starlette', 'uvicorn', 'apsw', 'ruamel', 'cryptography'}; "
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_local_command_loads_no_server(environment: dict[str, str]) -> None:
    script = (
        "import sys; from memoranda.cli import main; main(['remember', 'x']); "
        "sys.exit(','.join(sorted({'mcp', 'starlette', 'uvicorn'} & set(sys.modules))) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_exit_codes_reach_the_shell(environment: dict[str, str]) -> None:
    for tokens, code in ((("doctor",), 0), (("get", "urn:ump:aa"), 1), (("frob",), 2)):
        ran = subprocess.run(command(*tokens), env=environment, capture_output=True, check=False)
        assert ran.returncode == code
        assert b"Traceback" not in ran.stderr


def test_a_reader_that_goes_away_is_no_error_to_speak_of(environment: dict[str, str], tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home") as memoranda:
        memoranda.import_records([{"kind": "semantic", "body": {"text": f"{n} {'x' * 1000}"}} for n in range(500)])
    with running(environment, "export", "-") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"ump"')
        process.stdout.close()
        assert process.wait(HANG_SECONDS) == 141
        assert process.stderr.read() == b""


def test_watching_a_folder_ends_well_when_interrupted(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "sub").mkdir()
    (folder / "sub" / "note.md").write_text("from a file")
    with running(environment, "sync", str(folder), "--watch") as process:
        until((folder / ".memoranda-sync.json").exists)
        with Memoranda.open(tmp_path / "home") as memoranda:
            memoranda.remember("from elsewhere")
        until((folder / "from-elsewhere.md").exists)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_SECONDS) == 0


def test_serving_says_where_it_is_and_how_to_sign_in(environment: dict[str, str], tmp_path: Path) -> None:
    with running(environment, "--json", "serve", "--port", "0") as process:
        assert process.stdout is not None
        said = parse(process.stdout.readline())
        credential = Path(said["credential"])
        assert credential.stat().st_mode & 0o777 == 0o600
        headers = {"Authorization": f"Bearer {credential.read_text().strip()}"}
        draft = {"kind": "semantic", "body": {"text": "over HTTP"}, "scope": {}}
        with httpx.Client(base_url=said["url"], timeout=HANG_SECONDS) as client:
            assert client.post("/ump/recall", json={"query": "x"}).status_code == 401
            assert client.post("/ump/recall", json={"query": "x"}, headers=headers).status_code == 200
            assert client.get("/.well-known/ump.json").json()["conformance"] == "L3"
            assert client.post("/mcp", json=draft).status_code == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_SECONDS) == 0


def test_serving_people_shows_no_secret_and_warns_beyond_loopback(environment: dict[str, str], tmp_path: Path) -> None:
    with running(environment, "serve", "--port", "0", "--host", "0.0.0.0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = b"".join(process.stdout.readline() for _ in range(4)).decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_SECONDS) == 0
        warned = process.stderr.read().decode()
    secret = (tmp_path / "home" / "owner.credential").read_text().strip()
    assert secret not in said + warned
    assert f"$(cat {tmp_path / 'home' / 'owner.credential'})" in said
    assert "which other machines can reach" in warned


def test_an_agent_is_served_over_standard_input_and_output(environment: dict[str, str], tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    draft = {"kind": "semantic", "body": {"text": "told by an agent"}}
    with running(environment, "mcp", "--agent", "bob", "--project", "p") as process:

        def say(method: str, params: dict[str, Any], number: int | None = None) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            numbered = {} if number is None else {"id": number}
            process.stdin.write(dump({"jsonrpc": "2.0", "method": method, "params": params, **numbered}) + b"\n")
            process.stdin.flush()
            # What the server tells of its own accord, such as that the list of memories changed, may come first.
            answers = (parse(line) for line in process.stdout)
            return None if number is None else next(each for each in answers if each.get("id") == number)["result"]

        assert say("initialize", hello, 1)["serverInfo"]["name"] == "memoranda"
        say("notifications/initialized", {})
        assert say("tools/call", {"name": "ump.remember", "arguments": draft}, 2)["isError"] is False
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0
    with Memoranda.open(tmp_path / "home") as memoranda:
        (record,) = memoranda.export()
    assert record["scope"]["project"] == "p"
    assert record["scope"]["agent"] == "bob"
    assert (record["provenance"]["actor"], record["provenance"]["actor_kind"]) == ("bob", "agent")
