"""A real server on a free port of loopback, in a thread, over a real store; and what tests ask of it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from msgspec.structs import replace
from starlette.applications import Starlette
from tests.embedders import WORDS_ALONE
from tests.waiting import HANG_SECONDS

from memoranda.bindings.http.app import Extensions, StreamLimits, create_app
from memoranda.bindings.http.guard import Rules
from memoranda.bindings.http.server import create_server, listen
from memoranda.opening import open_service
from memoranda.service.cal.session import CalSettings
from memoranda.service.core.limits import Quotas
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.service.service import Service
from memoranda.settings import load_settings

ALL = ("read", "write", "derive", "export")
OWNER = "did:key:zTestOwner"
# Nothing is encrypted here, and to read all authorities for each client takes longer than most tests.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server and what is needed to talk to it."""

    url: str
    service: Service
    # An operator's token that reaches everything.
    token: str

    def key(self, tenant: str = OWNER, *scopes: str) -> str:
        return self.service.gate.add_key("test", tenant=tenant, scopes=scopes or (*ALL, "erase"))

    def client(self, credential: str | None = None, **options: Any) -> httpx.Client:
        """A keep-alive client; with the operator's token unless another credential is given ("" for none)."""
        credential = self.token if credential is None else credential
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        given = {"verify": NO_AUTHORITIES, "timeout": HANG_SECONDS, **options}
        return httpx.Client(base_url=self.url, headers=headers, **given)


def build_app(service: Service, **options: Any) -> Starlette:
    """Return the application with options of the guard, of streams and of extensions, each by its name."""
    options["allowed_hosts"] = ("127.0.0.1", *options.get("allowed_hosts", ()))
    rules, streams, extensions = (
        {field.name: options.pop(field.name) for field in fields(group) if field.name in options}
        for group in (Rules, StreamLimits, Extensions)
    )
    return create_app(
        service, Rules(**rules), streams=StreamLimits(**streams), extensions=Extensions(**extensions), **options
    )


@contextmanager
def running(
    home: Path,
    *,
    extra: Callable[[Service], dict[str, Any]] | None = None,
    cal: CalSettings | None = None,
    quotas: Quotas | None = None,
    meaning: SemanticSearch | None = None,
    settings: Mapping[str, Any] | None = None,
    trusted_proxies: Sequence[str] = (),
    **options: Any,
) -> Iterator[Running]:
    """Start a server, and stop it in the end; that it stops in time is part of every test.

    `cal` and `quotas` replace what the settings say; `options` and what `extra` returns go to `build_app`.
    """
    service = open_service(load_settings(WORDS_ALONE, home=home, **(settings or {})))
    if cal is not None:
        service = Service(replace(service._context, cal=cal))
    if quotas is not None:
        service = Service(replace(service._context, quotas=quotas))
    if meaning is not None:
        service = Service(replace(service._context, semantic_search=meaning))
    app = build_app(service, **options, **(extra(service) if extra else {}))
    ready = threading.Event()
    server = create_server(app, listen("127.0.0.1", 0), on_ready=lambda _: ready.set(), trusted_proxies=trusted_proxies)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(HANG_SECONDS)
        token = service.gate.mint_token(verbs=ALL, scope={}, ttl_ms=3600_000)
        yield Running(url=server.base_url, service=service, token=token)
    finally:
        server.should_exit = True
        thread.join(HANG_SECONDS)
        assert not thread.is_alive(), "the server did not stop"
        service.close()


def draft(text: str = "run the gate before handoff", *, owner: str = OWNER, **scope: str) -> dict[str, Any]:
    return {
        "kind": "procedural",
        "body": {"text": text},
        "scope": {"owner": owner, "project": "p", "visibility": "private", **scope},
        "provenance": {"actor": owner, "actor_kind": "user", "method": "user_correction"},
    }


def remember(client: httpx.Client, text: str = "run the gate before handoff", **scope: str) -> str:
    answer = client.post("/ump/remember", json=draft(text, **scope))
    assert answer.status_code == 200, answer.text
    name: str = answer.json()["id"]
    return name


def path_of(name: str) -> str:
    """The path of a memory, its id percent-encoded as JavaScript's encodeURIComponent does."""
    return "/ump/memory/" + name.replace(":", "%3A")


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error, whose form is checked on the way."""
    body = answer.json()
    assert set(body) == {"error"}, body
    assert set(body["error"]) == {"code", "message"}
    code, message = body["error"]["code"], body["error"]["message"]
    assert message == "no route" or message.startswith(f"{code}: ")
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, code


def memory_path(namespace: str, key: str) -> str:
    """The path of a memory of OAMS. Dots are encoded too, as clients resolve `..` before they send it."""
    return f"/v1/oams/memories/{quote(namespace, safe='')}/{quote(key, safe='').replace('.', '%2E')}"


def oams_error_of(answer: httpx.Response) -> tuple[int, int]:
    """Status and code of an error of OAMS, whose form is checked on the way."""
    error = answer.json()["error"]
    assert set(error) <= {"code", "message", "data"}, error
    assert error["message"]
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, error["code"]


def openwop_error_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error of openwop, whose form is checked on the way."""
    error = answer.json()
    assert {"error", "message"} <= set(error) <= {"error", "message", "details"}, error
    assert error["message"]
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, error["error"]


def connect(server: Running) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=HANG_SECONDS)


def raw_request(server: Running, head: bytes) -> tuple[int, bytes]:
    """A request that no client library would send as it is."""
    with connect(server) as connection:
        connection.sendall(head + b"Host: localhost\r\nConnection: close\r\n\r\n")
        data = b""
        while more := connection.recv(65_536):
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body
