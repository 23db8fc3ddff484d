"""A real store with its owner, its peers, its interfaces, its files, other stores, and a clock that tests move.

A store is a data directory that is opened as programs open it. The command line opens it again beside the service that
is open already, as a second process does.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx

import memoranda.opening
from memoranda import Memoranda
from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.memories import ERASE_WORD
from memoranda.bindings.console.visit import ROOT as CONSOLE
from memoranda.bindings.http.server import create_server, listen
from memoranda.bindings.mcp.http import McpEndpoint
from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput
from memoranda.keys import OPERATOR_KEY_FILE
from memoranda.model.instant import Instant, parse_instant
from memoranda.opening import open_service
from memoranda.service.core.access import Access
from memoranda.service.core.retention_clock import Uptime
from memoranda.settings import load_settings
from memoranda.standards.oams.mapping import VISIBILITY_KEY
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump.requests import ReviseRequest
from memoranda.storage.engine.sql_engine import SqlEngine
from tests import stores
from tests.bindings.http.running import NO_AUTHORITIES, build_app
from tests.commands import command
from tests.embedders import WORDS_ALONE
from tests.lines.clients import Console, LangGraph, TypeScript, Unavailable, built_typescript, read_url
from tests.lines.model import Names
from tests.matrix.doors import DAY, SPACE, House, key
from tests.service.oams_verbs import Oams, namespace
from tests.service.world import PEER, START, grain
from tests.waiting import HANG_SECONDS

OTHER_OWNER: Final = "did:web:other.example"
# No digit 0 is in base 32, in which ids are written.
_WORD: Final = re.compile(r"zq0\d{5}")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{32,}")
# Tokens of the command line for each form of files: the name of the target, and further options.
FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "ndjson": ("memories.ndjson",),
    "json": ("memories.ump.json",),
    "mg": ("memories.mg",),
    "oams": ("memories.oams.jsonl",),
    "markdown": ("folder/",),
    "book": ("memories.ump.md", "--book"),
}
# The standard of the documents in each form.
FAMILIES: Final = {"mg": "oms", "oams": "oams", **dict.fromkeys(("ndjson", "json", "markdown", "book"), "ump")}
# Forms that can hold earlier versions.
WITH_HISTORY: Final = ("ndjson", "json", "mg", "markdown", "book")


class Clock:
    """The clock of every store and process of a stage, and the time since the start of its machine."""

    def __init__(self) -> None:
        self.now = parse_instant(START)
        self.uptime_ms = 1_000_000_000
        # The file from which other processes read both.
        self.path: Path | None = None

    def __call__(self) -> Instant:
        return self.now

    def uptime(self) -> Uptime:
        return Uptime("lines", self.uptime_ms)

    def advance(self, milliseconds: int, *, is_jump: bool) -> None:
        """Let time pass, or set the clock only."""
        self.now = Instant(self.now + milliseconds)
        if not is_jump:
            self.uptime_ms += milliseconds
        self.share()

    def share(self) -> None:
        """Tell other processes the time."""
        if self.path is not None:
            # Written at once, so that nobody reads a half of it.
            written = self.path.with_suffix(".new")
            written.write_text(f"{self.now} {self.uptime_ms}")
            written.replace(self.path)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let whoever opens a store take the time from this clock."""
        with (
            patch.object(memoranda.opening, "system_clock", self),
            patch.object(memoranda.opening, "read_uptime", self.uptime),
        ):
            yield


def words_in(text: str) -> set[str]:
    return set(_WORD.findall(text))


def words_in_bytes(data: bytes, depth: int = 4) -> set[str]:
    """Return the words in the bytes of a file, and in the documents that it holds in base64."""
    words = words_in(data.decode("utf-8", "replace"))
    for run in _BASE64.findall(data) if depth else ():
        for start in range(4):
            part = run[start : start + (len(run) - start) // 4 * 4]
            with contextlib.suppress(binascii.Error):
                words |= words_in_bytes(base64.b64decode(part, altchars=b"-_" if b"-" in part else None), depth - 1)
    return words


def words_in_path(path: Path) -> set[str]:
    paths = [path] if path.is_file() else sorted(path.rglob("*"))
    return set().union(*(words_in_bytes(file.read_bytes()) for file in paths if file.is_file()))


class Stage(House):
    """One data directory, open as a service."""

    def __init__(self, home: Path, clock: Clock) -> None:
        # A store is opened as programs do it, and not by the parts of World.
        self.home, self.clock = home, clock
        self._open()
        self.peer_token = self.service.gate.mint_token(
            verbs=("read", "export"),
            scope={"owner": self.tenant},
            ttl_ms=3_650 * DAY,
            audience=PEER.did,
        )
        self.stranger = self.key(OTHER_OWNER)
        self._exports = itertools.count()
        # The latest time by which a command erased what had ended.
        self.purged_until = Instant(0)
        # Warnings of the last export.
        self.export_warnings: list[str] = []
        self._served: ExitStack | None = None
        self._remote: Memoranda | None = None
        self._remote_peer: Memoranda | None = None
        self._http: httpx.Client | None = None
        self._console: Console | None = None
        self._typescript: TypeScript | None = None
        self._credential = self._url = ""

    def _open(self) -> None:
        self.service = open_service(load_settings(WORDS_ALONE, home=self.home, cal_evolve="on"))
        self.context = self.service.context
        assert isinstance(self.context.engine, SqlEngine)
        self.engine = self.context.engine
        self.owner = self.service.gate.local()
        self.oams = Oams(self, namespace(self.owner.default_tenant, SPACE))
        self.local = Memoranda(self.service, self.owner)
        self.now = self.context.clock()

    def reopen(self) -> None:
        """Close the store and open it again, as a program that is started again."""
        self.stop_serving()
        self.service.close()
        self._open()

    def close(self) -> None:
        self.stop_serving()
        self.service.close()
        stores.release(self.home)

    def advance(self, milliseconds: int, *, is_jump: bool = False) -> Instant:
        self.clock.advance(milliseconds, is_jump=is_jump)
        self.now = self.context.clock()
        return self.now

    def believed(self) -> Instant:
        """Return the time by which commands erase what has ended: a sudden jump of the clock is not believed."""
        self.purged_until = max(self.purged_until, self.context.retention_now())
        return self.context.retention_now()

    @property
    def peer(self) -> Access:
        return self.service.gate.authenticate(self.peer_token)

    # --- interfaces ---------------------------------------------------------------------------------------------------

    def stop_serving(self) -> None:
        if self._served is not None:
            self._served.close()
        self._served = self._remote = self._remote_peer = self._http = self._console = self._typescript = None

    @property
    def is_served(self) -> bool:
        return self._remote is not None

    @property
    def served_interfaces(self) -> tuple[str, ...]:
        """The interfaces that were started, beside those that need no server."""
        return (
            *(() if self._remote is None else ("http",)),
            *(() if self._typescript is None else ("typescript",)),
        )

    @property
    def has_workers(self) -> bool:
        """True while other processes serve this store."""
        return self._served is not None and self.clock.path is not None

    @property
    def remote(self) -> Memoranda:
        """The library over a server of this store, which starts when it is first needed."""
        if self._remote is None:
            self._serve()
        assert self._remote is not None
        return self._remote

    @property
    def remote_peer(self) -> Memoranda:
        """The library over a server, with the token of the peer."""
        assert self.remote is not None
        assert self._served is not None
        if self._remote_peer is None:
            self._remote_peer = Memoranda.open(self._url, key=self.peer_token)
            self._served.callback(self._remote_peer.close)
        return self._remote_peer

    @property
    def console(self) -> Console:
        assert self.remote is not None
        if self._console is None:
            self._console = Console(self._url, self.service, self._credential)
        return self._console

    @property
    def typescript(self) -> TypeScript | None:
        """The TypeScript client; None if it cannot be built here."""
        folder = built_typescript()
        if folder is not None and self._typescript is None:
            assert self.remote is not None
            assert self._served is not None
            self._typescript = TypeScript(self._url, self._credential, folder)
            self._served.callback(self._typescript.close)
        return self._typescript

    @property
    def langgraph(self) -> LangGraph:
        return LangGraph(self.local, SPACE)

    def serve(self, *, workers: int) -> None:
        """Start the server again, in this process or with several of its own."""
        self.stop_serving()
        self._serve(workers)

    def _serve(self, workers: int = 1) -> None:
        self._served = ExitStack()
        self._url = self._start_here() if workers == 1 else self._start_workers()
        scopes = ("read", "write", "derive", "export", "erase")
        credential = self._credential = self.service.gate.add_key("lines", tenant=self.tenant, scopes=scopes)
        self._remote = Memoranda.open(self._url, key=credential)
        self._served.callback(self._remote.close)
        headers = {
            "Authorization": f"Bearer {credential}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
        }
        self._http = httpx.Client(base_url=self._url, headers=headers, verify=NO_AUTHORITIES, timeout=HANG_SECONDS)
        self._served.callback(self._http.close)
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        answer = self._http.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        if session := answer.headers.get("mcp-session-id"):
            self._http.headers["mcp-session-id"] = session

    def _start_here(self) -> str:
        """Start a server in a thread of this process, and return its URL."""
        assert self._served is not None
        ready = threading.Event()
        endpoint = McpEndpoint(self.service)
        app = build_app(
            self.service,
            extra_routes=endpoint.routes,
            folders={CONSOLE: lambda threads: LazyConsole(self.service, threads).routes},
            lifespans=(endpoint.running,),
            on_stop=(endpoint.stop_streams,),
        )
        server = create_server(app, listen("127.0.0.1", 0), on_ready=lambda _: ready.set())
        thread = threading.Thread(target=server.run)
        thread.start()

        def stop() -> None:
            server.should_exit = True
            thread.join(HANG_SECONDS)
            assert not thread.is_alive(), "the server did not stop"

        self._served.callback(stop)
        assert ready.wait(HANG_SECONDS)
        return server.base_url

    def _start_workers(self) -> str:
        """Start a server of two processes, and return its URL."""
        assert self._served is not None
        self.clock.path = self.home.parent / "clock"
        self.clock.share()
        environment = {**os.environ, **WORDS_ALONE, "MEMORANDA_CAL_EVOLVE": "on"}
        command = [sys.executable, "-m", "tests.lines.workers", str(self.home), str(self.clock.path)]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

        def stop() -> None:
            self.clock.path = None
            process.terminate()
            process.wait(HANG_SECONDS)
            assert process.stdout is not None
            process.stdout.close()

        self._served.callback(stop)
        assert process.stdout is not None
        return read_url(process.stdout.readline())

    def facade(self, interface: str) -> Memoranda:
        return self.remote if interface in ("http", "console", "typescript") else self.local

    def tool(self, name: str, **arguments: Any) -> str:
        """Call a tool of the MCP server, and return its text. Raises Unavailable."""
        assert self.remote is not None
        assert self._http is not None
        params = {"name": name, "arguments": arguments}
        answer = self._http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        body = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            body = next(line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: {"))
        reply = parse(body.encode())
        assert "result" in reply, reply
        text = str(reply["result"])
        if reply["result"].get("isError"):
            raise Unavailable(text)
        return text

    def command(self, *tokens: str) -> str:
        """Run a command of the command line, and return what it prints. Raises Unavailable."""
        self.believed()
        done = command("--data", str(self.home), *tokens)
        assert done.code != 70, tokens
        if done.code:
            raise Unavailable(str(done.code))
        return done.out.decode()

    # --- files --------------------------------------------------------------------------------------------------------

    def export(self, form: str, folder: Path, *, history: bool) -> tuple[Path, set[str]]:
        """Export everything by the command line, into a new file or folder.

        Return its path, and the ids of the memories that are named as left out.
        """
        name, *options = FORMS[form]
        target = folder / f"{next(self._exports)}-{name}"
        if form in WITH_HISTORY:
            options.append("--history" if history else "--no-history")
        tokens = ("export", str(target) + ("/" if name.endswith("/") else ""), *options)
        self.believed()
        done = command("--data", str(self.home), "--json", *tokens)
        # Exit code 1: something is left out.
        assert done.code in (0, 1), tokens
        report = parse(done.out)
        self.export_warnings = report["warnings"]
        assert done.code == (1 if report["left_out"] + report["kept"] else 0), report
        return target, {refusal["id"] for refusal in report["refusals"]}

    def import_file(self, path: Path, *, adopt: bool = False) -> None:
        with contextlib.suppress(Unavailable):
            self.command("import", str(path), *(("--adopt",) if adopt else ()))

    def twin(self, home: Path) -> Stage:
        """Open another store of the same operator."""
        home.mkdir(mode=0o700)
        shutil.copy(self.home / OPERATOR_KEY_FILE, home)
        return Stage(home, self.clock)


# --- verbs through every interface ------------------------------------------------------------------------------------


def _fields(stage: Stage, text: str, visibility: str) -> dict[str, Any]:
    tags = [f"visibility:{visibility}"] if visibility != "private" else None
    return grain(stage.now, subject="house", relation="says", object=text, namespace=SPACE, structural_tags=tags)


def _metadata(visibility: str) -> dict[str, str]:
    return {} if visibility == "private" else {VISIBILITY_KEY: visibility}


def write(stage: Stage, interface: str, standard: str, text: str, visibility: str) -> None:
    """Write a memory through a standard, by the command line or a tool of MCP, or by the library or its client."""
    if interface == "cli":
        stage.command("remember", text, "--project", SPACE, "--visibility", visibility)
        return
    if interface == "mcp":
        stage.tool("ump_remember", text=text, project=SPACE, visibility=visibility)
        return
    if interface == "console":
        stage.console.send("/remember", text=text, project=SPACE)
        return
    if interface == "langgraph":
        stage.langgraph.put(key(text), text)
        return
    if interface == "typescript" and stage.typescript is not None:
        stage.typescript.call("remember", text, {"project": SPACE, "visibility": visibility})
        return
    memoranda = stage.facade(interface)
    if standard == "ump":
        memoranda.remember(text, project=SPACE, visibility=visibility)  # type: ignore[arg-type]
    elif standard == "oams":
        memoranda.oams.store(key(text), text, namespace=stage.oams.namespace, metadata=_metadata(visibility))
    elif standard == "oms":
        memoranda.grains.put(_fields(stage, text, visibility))
    elif standard == "cal":
        query = 'ADD belief SET subject = "house" SET relation = "says" SET object = $text REASON "lines"'
        memoranda.cal(query, {"text": text}, namespace=SPACE, approve=True)
    else:
        memoranda.openwop.put_entry(SPACE, Draft(content=text))


def write_many(stage: Stage, texts: list[str]) -> None:
    """Write several memories as one action."""
    stage.oams.batch([stage.oams.memory(key(text), text) for text in texts])


def revise(stage: Stage, interface: str, standard: str, names: Names, text: str, visibility: str) -> None:
    """Write the next version of a memory."""
    memoranda = stage.facade(interface)
    if interface == "cli":
        stage.command("revise", names["ump"], text)
    elif interface == "edit":
        _edit(stage, names["ump"], text)
    elif interface == "mcp":
        stage.tool("ump_revise", id=names["ump"], text=text)
    elif interface == "console":
        stage.console.send(f"/memory/{names['ump']}/revise", text=text, seen=names["ump"])
    elif interface == "langgraph":
        stage.langgraph.put(names["oams"], text)
    elif interface == "typescript" and stage.typescript is not None:
        stage.typescript.call("revise", names["ump"], text)
    elif standard == "ump":
        memoranda.ump.revise(ReviseRequest.parse({"id": names["ump"], "patch": {"body": {"text": text}}}))
    elif standard == "oams":
        memoranda.oams.store(names["oams"], text, namespace=stage.oams.namespace, metadata=_metadata(visibility))
    elif standard == "oms":
        memoranda.grains.supersede(names["oms"], _fields(stage, text, visibility), justification="lines")
    elif standard == "cal":
        query = 'SUPERSEDE $old SET object = $text REASON "lines"'
        params = {"old": f"sha256:{names['oms']}", "text": text}
        memoranda.cal(query, params, namespace=SPACE, approve=True)
    else:
        memoranda.openwop.put_entry(SPACE, Draft(content=text), entry_id=names["openwop"])


def _edit(stage: Stage, name: str, text: str) -> None:
    """Change a text in an editor, which overwrites the file that it is given."""
    written = stage.home / "edited.txt"
    written.write_text(text)
    with patch.dict(os.environ, {"VISUAL": f"cp {written}"}):
        stage.command("edit", name)


def forget(stage: Stage, interface: str, standard: str, names: Names) -> None:
    """Forget a memory softly."""
    memoranda = stage.facade(interface)
    if interface == "cli":
        stage.command("forget", names["ump"])
    elif interface == "mcp":
        stage.tool("ump_forget", id=names["ump"])
    elif interface == "console":
        stage.console.send(f"/memory/{names['ump']}/forget")
    elif interface == "typescript" and stage.typescript is not None:
        stage.typescript.call("forget", names["ump"])
    elif standard == "oams":
        memoranda.oams.forget(names["oams"], namespace=stage.oams.namespace)
    elif standard == "openwop":
        if not memoranda.openwop.delete_entry(SPACE, names["openwop"]):
            raise InvalidInput("there is no such entry")
    else:
        memoranda.forget(names["ump"])


def erase(stage: Stage, interface: str, standard: str, names: Names) -> None:
    """Erase a memory for good."""
    if interface == "cli":
        stage.command("forget", names["ump"], "--hard", "--yes", "--reason", "asked")
    elif interface == "console":
        stage.console.send(f"/memory/{names['ump']}/forget", hard="on", typed=ERASE_WORD, reason="asked")
    elif standard == "oms":
        stage.facade(interface).grains.erase(names["oms"], reason="asked")
    else:
        stage.facade(interface).forget(names["ump"], hard=True, reason="asked")


def undo(stage: Stage, interface: str, *, is_redo: bool) -> None:
    if interface == "cli":
        stage.command("redo" if is_redo else "undo")
    elif interface == "console":
        stage.console.send("/redo" if is_redo else "/undo")
    elif is_redo:
        stage.facade(interface).ump.redo_last()
    else:
        stage.facade(interface).ump.undo_last()


def revert(stage: Stage, interface: str, names: Names) -> None:
    """Write the content of the version before the last one again, by CAL."""
    params = {"last": f"sha256:{names['oms']}"}
    stage.facade(interface).cal('REVERT $last REASON "lines"', params, namespace=SPACE, approve=True)
