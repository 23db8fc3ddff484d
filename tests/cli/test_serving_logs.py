"""What a server writes to standard output and standard error: kept as a log, so no credential, and JSON if chosen."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.bindings.http.running import NO_AUTHORITIES
from tests.bindings.http.test_oauth import CALLBACK, VERIFIER, Program
from tests.bindings.mcp.peers import run as run_mcp
from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from tests.embedders import WORDS_ALONE
from tests.forking import Forked
from tests.waiting import HANG_SECONDS, until

from memoranda.bindings.console.cookies import COOKIE
from memoranda.bindings.console.visit import ROOT
from memoranda.embedding.endpoint import Endpoint
from memoranda.encoding.json_text import parse
from memoranda.errors import StoreUnavailable
from memoranda.service.core.access import key_parts


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORANDA_", "OTEL_"))}
    return {**kept, **WORDS_ALONE, "MEMORANDA_HOME": str(tmp_path / "home")}


def command(*tokens: str) -> list[str]:
    return [sys.executable, "-m", "memoranda", *tokens]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server whose output goes into two files."""

    url: str
    out: Path
    err: Path

    @property
    def text(self) -> str:
        return self.out.read_text() + self.err.read_text()

    def client(self, credential: str = "") -> httpx.Client:
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        return httpx.Client(base_url=self.url, headers=headers, verify=NO_AUTHORITIES, timeout=HANG_SECONDS)


@contextmanager
def serving(environment: dict[str, str], *tokens: str, program: Path | None = None) -> Iterator[Served]:
    """Run `memoranda serve`, or a program that calls it."""
    folder = Path(environment["MEMORANDA_HOME"]).parent
    out, err = folder / "out", folder / "err"
    with out.open("wb") as out_file, err.open("wb") as err_file:
        command_line = command("serve", "--port", "0", *tokens)
        if program is not None:
            command_line[1:3] = [str(program)]
        with Forked(command_line, env=environment, stdout=out_file.fileno(), stderr=err_file.fileno()) as process:
            try:
                until(lambda: re.search(r"http://[^\s\"]+/mcp", out.read_text()), err.read_text())
                found = re.search(r"http://[^\s\"]+(?=/mcp)", out.read_text())
                assert found is not None
                yield Served(url=found[0].replace("0.0.0.0", "127.0.0.1"), out=out, err=err)
                process.send_signal(signal.SIGINT)
                assert process.wait(HANG_SECONDS) == 0
            finally:
                process.kill()


def lines_of(text: str) -> list[dict[str, Any]]:
    """Read every line as a JSON object."""
    documents = [parse(line) for line in text.splitlines()]
    assert all(isinstance(each, dict) for each in documents)
    return documents


# --- signing in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [(), ("--json",), ("--workers", "2"), ("--workers", "2", "--json")])
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_sign_in_link_is_written_where_it_is_kept(
    environment: dict[str, str], form: str, tokens: tuple[str, ...]
) -> None:
    given = {**environment, "MEMORANDA_LOG_FORMAT": form}
    with serving(given, *tokens, "--host", "0.0.0.0") as server, server.client() as stranger:
        assert stranger.get(f"{ROOT}/").status_code == 303
    assert "link=" not in server.text
    assert "which other machines can reach" in server.err.read_text()
    if form == "json":
        (warning,) = lines_of(server.err.read_text())
        assert warning["level"] == "warning"
    if form == "json" or "--json" in tokens:
        (ready,) = lines_of(server.out.read_text())
        assert ready["console"] == f"{ready['url']}{ROOT}/"
    else:
        assert "memoranda console --url http://" in server.out.read_text()


def test_a_person_at_a_terminal_gets_a_link_that_signs_in(environment: dict[str, str]) -> None:
    with Terminal(command("serve", "--port", "0"), environment) as terminal:
        terminal.until("/ump/recall")
        found = re.search(r"http://\S+/enter\?link=\S+", terminal.seen)
        assert found is not None
        with httpx.Client(verify=NO_AUTHORITIES, timeout=HANG_SECONDS) as browser:
            answer = browser.get(found[0])
            assert (answer.status_code, COOKIE in answer.cookies) == (303, True)


# --- JSON --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "more", "message"),
    [
        (("--host", "no-such-host.invalid"), {}, "cannot listen on"),
        (("--frob",), {}, "Unknown option"),
        ((), {"MEMORANDA_WORKERS": "x"}, "not a whole number"),
        ((), {"MEMORANDA_STORE": "mysql://x"}, "not a supported database"),
        (("--tls-cert", "/nowhere", "--tls-key", "/nowhere"), {}, "certificate"),
        (("--workers", "2"), {"MEMORANDA_MCP_TOOLS": "frob"}, "frob"),
    ],
)
def test_a_server_that_cannot_start_says_so_in_json(
    environment: dict[str, str], tmp_path: Path, tokens: tuple[str, ...], more: dict[str, str], message: str
) -> None:
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        given = {**environment, "MEMORANDA_LOG_FORMAT": "json", **more}
        command_line = command("serve", "--port", "0", *tokens)
        with Forked(command_line, env=given, stdout=out.fileno(), stderr=err.fileno()) as process:
            code = process.wait(HANG_SECONDS)
    assert code in (1, 2)
    documents = lines_of((tmp_path / "out").read_text() + (tmp_path / "err").read_text())
    assert any(each["level"] == "error" and message in each["message"] for each in documents), documents


def test_a_new_owners_key_is_a_line_of_the_log(environment: dict[str, str], run: Command, home: Path) -> None:
    run("console")
    key = (home / "owner.credential").read_text().strip()
    run("key", "revoke", "owner", "--yes")
    with serving({**environment, "MEMORANDA_LOG_FORMAT": "json"}) as server:
        pass
    (line,) = lines_of(server.err.read_text())
    assert "so a new one was made" in line["message"]
    for each in (key, (home / "owner.credential").read_text().strip()):
        assert key_parts(each)[1] not in server.text


def test_traces_to_look_at_are_lines_of_json_too(environment: dict[str, str]) -> None:
    given = {**environment, "MEMORANDA_LOG_FORMAT": "json", "OTEL_TRACES_EXPORTER": "console"}
    with serving(given) as server, server.client() as client:
        assert client.get("/readyz").status_code == 200
    assert "ump ready" in [line.get("name") for line in lines_of(server.err.read_text())]


# --- the access log ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_request_is_logged_with_its_caller_and_its_verbs_whatever_it_came_through(
    environment: dict[str, str], run: Command, home: Path, form: str
) -> None:
    key = run("key", "add", "ci", "--tenant", "alice").out.strip()
    link = run("console").out.strip().rpartition("link=")[2]

    async def call_tool() -> None:
        headers = {"Authorization": f"Bearer {key}"}
        async with create_mcp_http_client(headers=headers) as http:
            transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
            async with McpClient(transport, read_timeout_seconds=HANG_SECONDS) as session:
                assert not (await session.call_tool("ump.recall", {"query": "a private question"})).is_error

    with serving({**environment, "MEMORANDA_LOG_REQUESTS": "on", "MEMORANDA_LOG_FORMAT": form}) as server:
        with server.client(key) as client:
            client.post("/ump/recall", json={"query": "a private question"}, headers={"X-Request-Id": "r-1"})
            client.get("/oms/grains/0000")
        with server.client("mk_wrong_keyofsomebody") as client:
            client.post("/ump/recall", json={"query": "a private question"})
        with server.client() as browser:
            browser.get(f"{ROOT}/enter", params={"link": link})
            browser.get(f"{ROOT}/")
        run_mcp(call_tool)
    log = server.err.read_text()
    assert "private question" not in log
    assert "alice" not in log
    keys = {each["tenant"] == "alice": each for each in parse(run("--json", "key", "list").out)["keys"]}
    ci, owner = keys[True], keys[False]
    by_ci = {"caller": f"key:{ci['id']}", "owner": ci["owner_fingerprint"]}
    expected = [
        {"request": "r-1", "standard": "ump", "operation": "recall", "status": 200, **by_ci, "verbs": ["ump.recall"]},
        {"standard": "oms", **by_ci},
        {"standard": "ump", "status": 401, "caller": "", "owner": "", "verbs": []},
        {"standard": "console", "status": 200, "owner": owner["owner_fingerprint"]},
        {"standard": "mcp", **by_ci, "verbs": ["ump.recall_bare"]},
    ]
    if form == "json":
        lines = [line for line in lines_of(log) if line["logger"] == "memoranda.requests"]
        for fields in expected:
            assert [line for line in lines if fields.items() <= line.items()], (fields, lines)
    else:
        credential = f"caller=key:{ci['id']} owner={ci['owner_fingerprint']} verbs=ump.recall [r-1]"
        assert [line for line in log.splitlines() if line.endswith(credential)], log


# --- credentials -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["info", "debug"])
def test_no_credential_is_logged_however_it_comes(
    environment: dict[str, str], run: Command, home: Path, level: str
) -> None:
    link = run("console").out.strip().rpartition("link=")[2]
    owner = (home / "owner.credential").read_text().strip()
    token = run("token", "mint", "--verbs", "read", "--ttl", "1h").out.strip()
    sent = [owner, token, link, VERIFIER, "mk_wrong_keyofsomebody"]
    given = {**environment, "MEMORANDA_LOG_LEVEL": level, "MEMORANDA_LOG_REQUESTS": "on"}
    with serving(given, "--oauth") as server:
        for credential in (owner, token, "mk_wrong_keyofsomebody", f"{owner}\\x00"):
            with server.client(credential) as client:
                client.post("/ump/recall", json={"query": "x"})
                client.get(f"/ump/memory/{credential}", params={"access_token": credential})
        with server.client() as browser:
            assert browser.get(f"{ROOT}/enter", params={"link": link}).status_code == 303
            sent.append(browser.cookies[COOKIE])
            browser.post(f"{ROOT}/sign-in", data={"key": owner})
            sent.append(browser.cookies[COOKIE])
            browser.post(f"{ROOT}/sign-in", data={"key": "mk_wrong_keyofsomebody", "next": f"/x?key={owner}"})
        with server.client() as http:
            made = http.post("/oauth/register", json={"client_name": "p", "redirect_uris": [CALLBACK]}).json()
            program = Program(http=http, client_id=made["client_id"], resource=f"{server.url}/mcp")
            code = program.code(owner)
            granted = program.redeem(code).json()
            sent += [code, granted["access_token"], granted["refresh_token"]]
            assert program.status(granted["access_token"]) == 200
            program.redeem(code)
            program.refresh(granted["refresh_token"])
    assert "memoranda.requests" in server.err.read_text()
    for secret in sent:
        assert secret not in server.text
        # Neither is a part of it.
        assert secret[-16:] not in server.text


@pytest.mark.parametrize("level", ["info", "debug"])
def test_an_address_that_cannot_be_read_is_said_without_its_password(
    run: Command, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.setenv("MEMORANDA_LOG_LEVEL", level)
    ran = run("list", "--store", "postgresql://ada:pass%zzword@127.0.0.1:1/memories")
    assert ran.code == 1
    assert "the address of the database cannot be read" in ran.err
    assert "zzword" not in ran.err


def test_an_embedder_that_is_away_is_named_without_what_its_address_says_beside_its_host() -> None:
    endpoint = Endpoint("http://127.0.0.1:1/v1?key=secret", "model")
    with pytest.raises(StoreUnavailable, match=r"the embedder at 127\.0\.0\.1:1 does not answer") as caught:
        endpoint.of_memory("tea")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("host", "reached"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]")]
)
def test_the_link_of_the_console_is_one_that_this_machine_reaches(
    run: Command, monkeypatch: pytest.MonkeyPatch, host: str, reached: str
) -> None:
    monkeypatch.setenv("MEMORANDA_HOST", host)
    assert run("console").out.startswith(f"http://{reached}:8420{ROOT}/enter?link=")
