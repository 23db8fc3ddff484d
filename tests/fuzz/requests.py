"""Hostile requests to the whole HTTP application: every route of every standard, MCP, OAuth and the console.

The long run: `python -m tests.fuzz.requests [--requests 1000000] [--processes 2] [--seed 1]`. Exit status 1 if any
answer was a 5xx, named a file of the server, or never came. The application is called in this process, through its
guard and its routes, so that nothing but a network is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from starlette.applications import Starlette

from memoranda.bindings.console.cookies import COOKIE
from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.pages import FORMS, PAGES
from memoranda.bindings.console.visit import ROOT as CONSOLE
from memoranda.bindings.http.app import Extensions, all_operations, create_app
from memoranda.bindings.http.guard import Rules
from memoranda.bindings.http.oauth import OAuth
from memoranda.bindings.mcp.http import McpEndpoint
from memoranda.opening import open_service
from memoranda.service.service import Service
from memoranda.settings import load_settings
from tests.embedders import WORDS_ALONE
from tests.fuzz.mutate import bent, bent_value

OWNER: Final = "did:key:zTestOwner"
ALL: Final = ("read", "write", "derive", "export", "erase", "activate")
# A store of its own for so many requests: a large one would only be slower.
_REQUESTS_PER_STORE: Final = 5_000
# Requests that run at the same time.
_TASKS: Final = 8
_ANSWER_SECONDS: Final = 120.0
_PRINTED: Final = 50
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get", "")
_TYPES: Final = (
    "application/json",
    "application/json; charset=utf-16",
    "text/plain",
    "application/x-ndjson",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "application/cbor",
    "application/cal",
    "text/markdown",
    "\xff",
    "",
)
_ACCEPTS: Final = ("*/*", "application/json", "text/event-stream", "application/x-ndjson", "text/html", "q=9;;,", "")
_TEXTS: Final = (
    *("", "x", "0", "-1", "null", "true", "NaN", "1e999", "9" * 400, "%00", "\x00", "..", "../../etc/passwd", "*"),
    *("%2e%2e%2f", "\ud800", "\U000e0041", "\u202e", "' OR 1=1 --", "{{7*7}}", "${x}", "<script>", "a" * 9_000),
    *("\r\nX-A: b", "%ff", "\xe9", "2026-13-45T99:99:99Z", "P1Y", "P" + "9" * 30 + "D", "0000-00-00", "\ufeff"),
    *("urn:ump:aaaa", "sha256:" + "0" * 64, "did:key:z", "did:key:zTestOwner", "default", "p", "::1"),
    *("user-x123ab:personal", "[1,2", '{"a":', "1;2", "=,;"),
)
_HEADERS: Final = """
    if-match if-none-match last-event-id x-cal-token x-oams-consent x-request-id idempotency-key mcp-session-id
    mcp-protocol-version mcp-method mcp-name origin host cookie range expect content-encoding content-length
    transfer-encoding x-forwarded-for forwarded accept-language prefer traceparent authorization accept-encoding
    if-modified-since content-range te
""".split()
_MCP: Final[tuple[dict[str, Any], ...]] = tuple(
    {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    for method, params in (
        (
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        ),
        ("tools/list", {}),
        ("tools/call", {"name": "ump_recall", "arguments": {"query": "tea"}}),
        ("tools/call", {"name": "cal", "arguments": {"query": "RECALL RECENT 3"}}),
        ("resources/list", {}),
        ("resources/read", {"uri": "memoranda://memory/x"}),
        ("prompts/get", {"name": "rehydrate", "arguments": {"query": "tea"}}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "rehydrate"}, "argument": {"name": "a", "value": "b"}},
        ),
        ("ping", {}),
    )
)
_CONSOLE: Final = tuple(
    (method, f"{CONSOLE}{path}")
    for method, paths in (
        ("GET", (*PAGES, "/sign-in", "/enter", "/static/console.js")),
        ("POST", (*FORMS, "/sign-in", "/sign-out")),
    )
    for path in paths
)
_CONSOLE_FIELDS: Final = """
    q query id ids text project kind file format key name scope verb days reason hard cursor page sort valid_at
    known_at retention link next preset undo
""".split()
# The one 5xx that a standard asks for: CAL answers 501 if a query other than ASSEMBLE is to be streamed.
_NOT_STREAMED: Final = b'"CAL-E079"'
_OAUTH: Final = (
    *("/oauth/register", "/oauth/authorize", "/oauth/token", "/.well-known/oauth-authorization-server"),
    "/.well-known/oauth-protected-resource",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request, as a server program hands it to the application."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.path[:200]!r}?{self.query[:200]!r} {self.headers} {self.body[:600]!r}"


@dataclass(slots=True, kw_only=True)
class Report:
    """Counts of the answers, and the findings."""

    count: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    routes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def note(self, finding: str) -> None:
        """Keep a finding, and print the first ones at once."""
        self.findings.append(finding)
        if len(self.findings) <= _PRINTED:
            print("FINDING", finding, flush=True)


class Composer:
    """Makes requests: an operation's example, with a few things about it changed."""

    def __init__(self, rng: random.Random, credentials: list[str], session: tuple[str, str]) -> None:
        """`session` is the cookie of a session of the console and the token of its forms."""
        self._rng, self._credentials, self.session = rng, credentials, session
        self._operations = list(all_operations())
        # Names that answers contained: they lead further than invented ones.
        self.names: list[str] = ["urn:ump:aaaa", "p", "x"]

    def next(self) -> HttpRequest:
        rng = self._rng
        kind, more = rng.random(), {}
        if kind < 0.74:
            method, path, fields, body = self._of_operation()
        elif kind < 0.82:
            method, path, fields, body = "POST", "/mcp", {}, self._encode(self._bent(rng.choice(_MCP)))
            more["accept"] = "application/json, text/event-stream"
        elif kind < 0.95:
            method, path, fields, body, more = self._of_page()
        else:
            method, path = rng.choice(("GET", "POST")), rng.choice(_OAUTH)
            fields = {rng.choice(("client_id", "grant_type", "code", "state", "resource")): self._text()}
            body, more = self._encode(fields), {"content-type": rng.choice(_TYPES)}
        if rng.random() < 0.08:
            method = rng.choice(_METHODS)
        if rng.random() < 0.06:
            path = self._bent_path(path)
        if rng.random() < 0.15:
            other = rng.choice(_TEXTS).encode("utf-8", "surrogatepass")
            body = bent(rng, body or b"{}", other)
        query = self._query(fields if method in ("GET", "HEAD", "DELETE") or rng.random() < 0.1 else {})
        return HttpRequest(method=method, path=path, query=query, headers=self._headers(more), body=body)

    def _of_operation(self) -> tuple[str, str, dict[str, Any], bytes]:
        operation = self._rng.choice(self._operations)
        fields: dict[str, Any] = dict(self._bent(dict(operation.example)))
        path = operation.path
        for part in [part for part in operation.path.split("/") if "{" in part]:
            name = part.strip("{}").partition(":")[0]
            value = fields.pop(name, None)
            text = value if isinstance(value, str) and self._rng.random() < 0.4 else self._text()
            path = path.replace(part, quote(text, safe="", errors="surrogatepass"))
        if operation.method in ("GET", "DELETE"):
            return operation.method, path, fields, b""
        return operation.method, path, fields, self._encode(fields)

    def _encode(self, fields: Mapping[str, Any]) -> bytes:
        try:
            return json.dumps(
                fields, default=lambda value: list(value) if isinstance(value, bytes) else str(value)
            ).encode()
        except (ValueError, TypeError, RecursionError):
            return b"{}"

    def _bent(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return fields with none to four places changed, and some of them filled with names that exist."""
        changed: Any = value
        for _ in range(self._rng.choice((0, 0, 1, 1, 2, 4))):
            changed = bent_value(self._rng, changed)
        if not isinstance(changed, dict):
            return value
        if changed and self._rng.random() < 0.5:
            changed = {**changed, self._rng.choice(list(changed)): self._text()}
        return {str(name): item for name, item in changed.items()}

    def _text(self) -> str:
        return self._rng.choice(self.names if self._rng.random() < 0.4 else _TEXTS)

    def _bent_path(self, path: str) -> str:
        rng = self._rng
        at = rng.randrange(len(path) + 1)
        piece = rng.choice(("%", "%zz", "//", "/../", "%2f", ";a=b", "\x00", "é", "?", "#", "{", "\\"))
        return path[:at] + piece + path[at + rng.randrange(2) :]

    def _query(self, fields: Mapping[str, Any]) -> bytes:
        pairs = [
            (name, value if isinstance(value, str) else json.dumps(value, default=str))
            for name, value in fields.items()
        ]
        if self._rng.random() < 0.15:
            pairs += [(self._rng.choice(("limit", "cursor", "owner", "project", "a" * 300, "")), self._text())] * 2
        query = urlencode(pairs, errors="replace").encode()
        return bent(self._rng, query, b"%ff%00&=;") if self._rng.random() < 0.05 else query

    def _of_page(self) -> tuple[str, str, dict[str, Any], bytes, dict[str, str]]:
        rng = self._rng
        method, path = rng.choice(_CONSOLE)
        fields = {rng.choice(_CONSOLE_FIELDS): self._text() for _ in range(rng.choice((0, 1, 2, 5)))}
        cookie, token = self.session
        path = path.replace("{id}", quote(self._text(), safe="", errors="surrogatepass"))
        headers = {"cookie": f"{COOKIE}={cookie}"} if rng.random() < 0.9 else {}
        if method == "GET":
            return method, path, fields, b"", headers
        form = {"token": token, **fields}
        if rng.random() < 0.7:
            headers["content-type"] = "application/x-www-form-urlencoded"
            return method, path, {}, urlencode(form, errors="replace").encode(), headers
        headers["content-type"] = "multipart/form-data; boundary=x"
        parts = [
            f'--x\r\ncontent-disposition: form-data; name="{name}"; filename="{name}.json"\r\n\r\n{value}\r\n'
            for name, value in form.items()
        ]
        return method, path, {}, ("".join(parts) + "--x--\r\n").encode("utf-8", "replace"), headers

    def _headers(self, more: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        rng = self._rng
        headers = {"host": "127.0.0.1", "content-type": "application/json", "accept": "application/json", **more}
        if rng.random() < 0.9:
            headers["authorization"] = f"Bearer {rng.choice(self._credentials)}"
        if rng.random() < 0.15:
            headers["content-type"] = rng.choice(_TYPES)
        if rng.random() < 0.15:
            headers["accept"] = rng.choice(_ACCEPTS)
        for _ in range(rng.choice((0, 0, 0, 1, 3))):
            headers[rng.choice(_HEADERS)] = self._text()[:300].replace("\r\n", "")
        # A server program lets no control characters in headers pass.
        return [
            (name.encode(), bytes(byte for byte in value.encode("utf-8", "replace") if byte >= 0x20 and byte != 0x7F))
            for name, value in headers.items()
        ]

    def learn(self, body: bytes) -> None:
        """Take an id from an answer."""
        try:
            answer = json.loads(body)
        except ValueError:
            return
        if isinstance(answer, dict):
            for name in ("id", "address", "runId", "memoryId", "cursor", "key", "token", "subscriptionId"):
                if isinstance(answer.get(name), str):
                    self.names.append(answer[name])
                    del self.names[:-60]


class Stage:
    """An application over a store of its own, called without a network."""

    def __init__(self, home: Path, rng: random.Random, report: Report) -> None:
        self.service: Service = open_service(load_settings(WORDS_ALONE, home=home))
        self._home, self._report, self._rng = home, report, rng
        endpoint, oauth = McpEndpoint(self.service), OAuth(self.service, "open")
        self._app: Starlette = create_app(
            self.service,
            Rules(allowed_hosts=("127.0.0.1",), rate_limit=1e9, protected="/mcp"),
            extensions=Extensions(
                extra_routes=endpoint.routes,
                public_routes=oauth.routes,
                folders={CONSOLE: lambda threads: LazyConsole(self.service, threads).routes},
                lifespans=[endpoint.running, oauth.running],
                on_stop=[endpoint.stop_streams],
            ),
        )
        gate = self.service.gate
        credentials = [
            *(gate.add_key("all", tenant=OWNER, scopes=ALL) for _ in range(2)),
            gate.add_key("reader", tenant=OWNER, scopes=("read",)),
            gate.add_key("other", tenant="did:example:other", scopes=ALL),
            gate.mint_token(verbs=("read", "write"), scope={}, ttl_ms=3600_000),
            gate.mint_token(verbs=("read",), scope={"owner": OWNER, "project": "p"}, ttl_ms=3600_000),
            "garbage",
        ]
        self._composer = Composer(rng, [*credentials[:2] * 4, *credentials], self._sign_in())

    def _sign_in(self) -> tuple[str, str]:
        """Return the cookie of a new session of the console, and the token of its forms."""
        sessions = self.service.sessions
        key = self.service.gate.add_key("console", tenant=OWNER, scopes=ALL)
        cookie = sessions.follow_link(sessions.create_link(key))
        return cookie, sessions.authenticate(cookie)[0].token

    async def run(self, count: int) -> None:
        """Send so many requests."""
        async with self._app.router.lifespan_context(self._app):
            left = iter(range(count))
            await asyncio.gather(*(self._task(left) for _ in range(_TASKS)))
            self._app.state.stop_streams()

    async def _task(self, left: Any) -> None:
        for _ in left:
            if self._rng.random() < 0.01:
                # Requests end sessions and revoke keys.
                self._composer.session = self._sign_in()
            request = self._composer.next()
            self._report.count += 1
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    status, body = await self._answer(request)
            except TimeoutError:
                self._report.note(f"no answer: {request}")
                continue
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
                self._report.note(f"{error!r}: {request}")
                continue
            self._report.statuses[status] += 1
            self._report.routes["/".join(request.path.split("/")[:3])[:40]] += 1
            is_failure = status >= 500 and not (status == 501 and _NOT_STREAMED in body)
            if is_failure or str(self._home).encode() in body or b"Traceback (most" in body:
                self._report.note(f"{status} {body[:300]!r}: {request}")
            if status < 300:
                self._composer.learn(body)

    async def _answer(self, request: HttpRequest) -> tuple[int, bytes]:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": _decoded(request.path),
            "raw_path": request.path.encode("utf-8", "replace"),
            "query_string": request.query,
            "root_path": "",
            "headers": request.headers,
            "client": (f"10.0.{self._rng.randrange(256)}.{self._rng.randrange(256)}", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        status, chunks = 0, bytearray()
        has_enough = asyncio.Event()
        parts = [request.body]

        async def receive() -> dict[str, Any]:
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": False}
            # The client of a stream goes away after the first piece.
            await has_enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if any(b"event-stream" in value for name, value in message["headers"]):
                    has_enough.set()
            elif message["type"] == "http.response.body":
                if len(chunks) < 65_536:
                    chunks.extend(message.get("body", b""))
                if not message.get("more_body"):
                    has_enough.set()

        await self._app(scope, receive, send)
        return status, bytes(chunks)


def _decoded(path: str) -> str:
    """Return a path as server programs decode it."""
    return unquote(path.encode("utf-8", "replace").decode("latin-1"), "utf-8", "replace")


def run(count: int, seed: int, report: Report, *, says: bool = False) -> None:
    """Send so many requests, to one store after another."""
    begin = time.monotonic()
    while report.count < count:
        rng = random.Random(f"{seed} {report.count}")
        folder = Path(tempfile.mkdtemp(prefix="fuzz-requests-"))
        try:
            stage = Stage(folder / "home", rng, report)
            try:
                asyncio.run(stage.run(min(_REQUESTS_PER_STORE, count - report.count)))
            finally:
                stage.service.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if says:
            rate = report.count / (time.monotonic() - begin)
            print(f"seed {seed}: {report.count} requests, {len(report.findings)} findings, {rate:.0f}/s", flush=True)


def _run_process(count: int, seed: int, results: Any) -> None:
    report = Report()
    try:
        run(count, seed, report, says=True)
    finally:
        results.put((report.count, report.statuses, report.routes, report.findings[:200]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.requests", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    share = -(-arguments.requests // arguments.processes)
    processes = [
        context.Process(target=_run_process, args=(share, arguments.seed + number, results))
        for number in range(arguments.processes)
    ]
    for process in processes:
        process.start()
    total = Report()
    for _ in processes:
        count, statuses, routes, findings = results.get()
        total.count += count
        total.statuses += statuses
        total.routes += routes
        total.findings += findings
    for process in processes:
        process.join()
    print(
        f"{total.count} requests; statuses {dict(sorted(total.statuses.items()))}; {len(total.routes)} kinds of paths"
    )
    return 1 if total.findings else 0


if __name__ == "__main__":
    sys.exit(main())
