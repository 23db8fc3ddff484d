"""The log at debug level holds no text of a memory, a query or an answer, from HTTP, MCP or the command line."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import MCPError
from mcp.client.client import Client, ConnectMode
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests import forking
from tests.bindings.test_parity import BELIEF
from tests.cli.conftest import Command
from tests.cli.test_serving_logs import Served, command, lines_of, serving
from tests.embedders import WORDS_ALONE
from tests.forking import Forked
from tests.waiting import HANG_SECONDS

import memoranda
from memoranda import errors
from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.operation import PARAMETER, Operation
from memoranda.cli.help import pages
from memoranda.errors import MemorandaError

MARKER = "Zebrastripe"
# Reported in the log as a likely secret: in a field whose name is a text, too.
SECRET = {MARKER: "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"[:36]}
# One has no end; its events are those of `subscribe`.
ENDLESS = ("subscribe", "openwop_all_events", "openwop_events")


@pytest.fixture
def debug(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORANDA_", "OTEL_"))}
    level = {"MEMORANDA_LOG_LEVEL": "debug", "MEMORANDA_LOG_REQUESTS": "on"}
    return {**kept, **WORDS_ALONE, **level, "MEMORANDA_HOME": str(tmp_path / "home")}


def marked(value: Any) -> Any:
    """The same value with the marker in all its texts and names."""
    if isinstance(value, dict):
        return {name: marked(member) for name, member in value.items()}
    if isinstance(value, list):
        return [marked(member) for member in value]
    return f"{value} {MARKER}" if isinstance(value, str) else value


def bodies(operation: Operation) -> Iterator[Any]:
    """Bodies that the operation answers, and bodies that it refuses for each of their parts."""
    example = dict(operation.example)
    yield example
    yield marked(example)
    for name in example:
        yield {**example, name: marked(example[name])}
        yield {**example, name: MARKER}
    yield {MARKER: MARKER}
    yield MARKER


def paths(operation: Operation, names: list[str]) -> Iterator[str]:
    if not operation.path_names:
        yield operation.path
        return
    for name in names:
        yield PARAMETER.sub(name, operation.path)


def do_everything(client: httpx.Client) -> set[int]:
    """Call every operation; return the statuses."""
    kept = [
        client.post("/ump/remember", json={"kind": "semantic", "body": {"text": f"{MARKER} lives in the zoo"}}),
        client.post("/ump/remember", json={"kind": "semantic", "body": {"text": "a key", "structured": SECRET}}),
        client.post("/oms/grains", json={**BELIEF, "object": MARKER}),
        client.post("/cal", json={"query": "RECALL beliefs WHERE object = $1 AS markdown", "params": {"1": MARKER}}),
        client.post("/cal", json={"query": f'RECALL beliefs WHERE object = "{MARKER}" AS sml'}),
        client.post("/cal", json={"query": f'RECALL beliefs WHERE {MARKER} ~ "{MARKER}'}),
        client.post("/ump/recall", json={"query": MARKER}),
        client.post("/ump/recall", json={"query": MARKER, "filter": {MARKER: MARKER}}),
    ]
    assert [answer.status_code for answer in kept[:3]] == [200, 200, 200]
    assert MARKER in kept[6].text
    address, name = kept[2].json()["address"], kept[0].json()["id"]
    assert MARKER in client.get(f"/oms/grains/{address}").text
    statuses = set()
    for operation in all_operations():
        if operation.name in ENDLESS:
            continue
        for path in paths(operation, [name, address, MARKER, "agents"]):
            # The last to see it would be a reader of its text.
            if operation.method == "DELETE" and path.endswith((name, address)):
                continue
            for body in bodies(operation) if operation.has_body else [None]:
                sent = {} if body is None else {"json": body}
                with client.stream(operation.method, path, params={"q": MARKER, "limit": MARKER}, **sent) as answer:
                    statuses.add(answer.status_code)
    return statuses


async def use_every_tool(client: Client) -> bool:
    """Call every tool; return True if an answer had the marker."""
    texts = []
    draft = {"kind": "semantic", "body": {"text": f"{MARKER} sleeps at noon"}}
    texts.append(await client.call_tool("ump_remember", draft))
    texts.append(await client.call_tool("ump_recall", {"query": MARKER}))
    for tool in (await client.list_tools()).tools:
        names = tool.input_schema.get("properties", {})
        for arguments in (dict.fromkeys(names, MARKER), *({name: MARKER} for name in names), {MARKER: MARKER}):
            answer = await client.call_tool(tool.name, arguments)
            texts.append(answer)
    for uri in (f"ump://{MARKER}/{MARKER}", f"memoranda://{MARKER}"):
        with pytest.raises(MCPError):
            await client.read_resource(uri)
    return any(MARKER in str(answer) for answer in texts)


async def over_http(server: Served, key: str, mode: ConnectMode) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(f"{server.url}/mcp?tools=all", http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=HANG_SECONDS) as client:
            assert await use_every_tool(client)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_server_that_debugs_logs_no_text(debug: dict[str, str], form: str) -> None:
    with serving({**debug, "MEMORANDA_LOG_FORMAT": form}) as server:
        key = (Path(debug["MEMORANDA_HOME"]) / "owner.credential").read_text().strip()
        with server.client(key) as client:
            assert {200, 400, 404} <= do_everything(client)
            # Neither HTTP nor JSON.
            for body in (MARKER.encode(), f'{{"query": "{MARKER}'.encode(), b"\xff" + MARKER.encode()):
                for path in ("/ump/recall", "/mcp", "/cal", "/v1/oams/rpc"):
                    client.post(path, content=body, headers={"X-Marker": MARKER})
        for mode in ("auto", "legacy"):
            anyio.run(over_http, server, key, mode)
    log = server.err.read_text()
    assert re.search("(?i)debug", log)
    assert MARKER.lower() not in server.text.lower(), [line for line in log.splitlines() if MARKER in line][:5]
    assert key not in log
    if form == "json":
        assert {"mcp", "sse_starlette"} <= {line["logger"].partition(".")[0] for line in lines_of(log)}


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_agents_server_that_debugs_logs_no_text(debug: dict[str, str], tmp_path: Path, form: str) -> None:
    async def scenario() -> None:
        parameters = StdioServerParameters(
            command=forking.python(),
            args=["-m", "memoranda", "mcp", "--tools", "all"],
            env={**debug, "MEMORANDA_LOG_FORMAT": form},
        )
        with (tmp_path / "log").open("w") as log:
            transport = stdio_client(parameters, errlog=log)
            async with Client(transport, read_timeout_seconds=HANG_SECONDS) as client:
                assert await use_every_tool(client)

    anyio.run(scenario)
    text = (tmp_path / "log").read_text()
    assert re.search("(?i)debug", text)
    assert MARKER.lower() not in text.lower(), [line for line in text.splitlines() if MARKER in line][:5]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_command_that_fails_while_debugging_shows_no_text(debug: dict[str, str], tmp_path: Path, form: str) -> None:
    # A program of its own: an error that nobody expects is made inside of it, with the text in its message.
    program = (
        "import sys\n"
        "from memoranda.cli.run import GlobalOptions\n"
        "from memoranda.cli import main\n"
        f"def broken(self, *_, **__): raise RuntimeError({MARKER!r})\n"
        "GlobalOptions.open = broken\n"
        "sys.exit(main())\n"
    )
    given = {**debug, "MEMORANDA_LOG_FORMAT": form}
    (tmp_path / "broken.py").write_text(program)
    with (tmp_path / "err").open("wb") as err, (tmp_path / "out").open("wb") as out:
        broken = [sys.executable, str(tmp_path / "broken.py"), "--json", "recall", "zoo"]
        with Forked(broken, env=given, stdout=out.fileno(), stderr=err.fileno()) as process:
            assert process.wait(HANG_SECONDS) == 1
        made = command("remember", f"{MARKER} eats hay")
        with Forked(made, env=given, stdout=out.fileno(), stderr=err.fileno()) as process:
            assert process.wait(HANG_SECONDS) == 0
    text = (tmp_path / "err").read_text()
    assert "RuntimeError" in text
    assert MARKER not in text
    assert json.loads((tmp_path / "out").read_text().splitlines()[0])["error"]["code"] == "internal"


# --- every statement that logs ---------------------------------------------------------------------------------------

LEVELS = frozenset(("debug", "info", "warning", "error", "exception", "critical", "log"))
# Errors of a library whose message cannot quote a text of ours, by module: the setup of traces, and a socket's error.
HARMLESS = {("telemetry.py", "ValueError"), ("serve.py", "OSError")}
# Commands that read, write or look for memories and say so.
SPEAKING = frozenset(
    "remember recall show get revise forget suspicious redact history feedback list stats undo rules cal consolidate "
    "openwop distill commitments proposals oams oms export import verify convert audit token key".split()
)


def log_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and "log" in ast.unparse(node.func.value).lower()
        ):
            yield node


def test_no_statement_logs_the_message_of_an_error_that_may_quote_a_text() -> None:
    """A message of our own errors quotes no stored text; that of any other error may."""
    root, count = Path(memoranda.__file__).parent, 0
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for call in log_calls(tree):
            count += 1
            assert isinstance(call.args[0], ast.Constant), f"{path.name}:{call.lineno}: the message is not a constant"
        for handler in ast.walk(tree):
            if not isinstance(handler, ast.ExceptHandler) or handler.name is None or handler.type is None:
                continue
            caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            names = {ast.unparse(kind) for kind in caught}
            foreign = {
                name
                for name in names
                if not issubclass(getattr(errors, name, Exception), MemorandaError)
                and (path.name, name) not in HARMLESS
            }
            for call in log_calls(handler):
                bare = [ast.unparse(argument) for argument in call.args[1:]]
                assert not (foreign and handler.name in bare), f"{path.name}:{call.lineno} logs {foreign}"
    assert count > 25


class Collected(logging.Handler):
    """Everything that our own loggers are given, as they are given it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == "memoranda":
            self.lines.append(f"{record.getMessage()} {getattr(record, 'told', '')}")


@pytest.fixture
def collected() -> Iterator[Collected]:
    handler, root = Collected(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(level)
    root.removeHandler(handler)


def test_no_command_logs_a_text(
    run: Command, collected: Collected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Targets with the marker as their name are written here.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "off")
    made = run("remember", f"{MARKER} eats hay", "--json").json["id"]
    assert run("remember", "a key", "--structured", json.dumps(SECRET)).code == 0
    assert run("openwop", "put", "garden", f"Remind me to feed {MARKER} tomorrow at 9:00").code == 0
    (tmp_path / "note.md").write_text(f"{MARKER} has stripes")
    codes = set()
    for page in pages():
        if page.path[0] not in SPEAKING:
            continue
        for subject in (MARKER, made, str(tmp_path / "note.md")):
            codes.add(run(*page.path, *(subject for _ in page.arguments)).code)
        for slot in page.options:
            given = () if slot.is_flag else ("7" if slot.kind in (int, float) else MARKER,)
            codes.add(run(*page.path, *(MARKER for _ in page.arguments), slot.label, *given).code)
    assert codes == {0, 1, 2}
    assert [line for line in collected.lines if MARKER.lower() in line.lower()] == []


def test_a_server_whose_verbs_break_logs_no_text(debug: dict[str, str], tmp_path: Path) -> None:
    """An error that nobody expects has the text in its message, and in that of its cause."""
    program = tmp_path / "broken.py"
    program.write_text(
        "import sys\n"
        "from memoranda.service.ump import recall\n"
        "from memoranda.cli import main\n"
        "def broken(*_, **__):\n"
        f"    try: raise KeyError('{MARKER} is the key')\n"
        f"    except KeyError as error: raise RuntimeError({MARKER!r}) from error\n"
        "recall.search_candidates = broken\n"
        "sys.exit(main())\n"
    )

    async def over_mcp(server: Served, key: str) -> None:
        async with create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as http:
            transport = streamable_http_client(f"{server.url}/mcp?tools=all", http_client=http)
            async with Client(transport, read_timeout_seconds=HANG_SECONDS) as client:
                refused = await client.call_tool("ump_recall", {"query": MARKER})
                assert refused.is_error
                assert MARKER not in str(refused)

    for form in ("text", "json"):
        with serving({**debug, "MEMORANDA_LOG_FORMAT": form}, program=program) as server:
            key = (Path(debug["MEMORANDA_HOME"]) / "owner.credential").read_text().strip()
            with server.client(key) as client:
                answer = client.post("/ump/recall", json={"query": f"where is {MARKER}"})
                assert (answer.status_code, MARKER in answer.text) == (500, False)
            anyio.run(over_mcp, server, key)
        log = server.err.read_text()
        assert log.count("RuntimeError") >= 2
        assert "KeyError" in log
        assert MARKER.lower() not in server.text.lower()
