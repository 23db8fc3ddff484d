"""Credentials, Host, Origin and rates: what a request passes before any route sees it."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send
from tests.bindings.http.running import (
    OWNER,
    Running,
    build_app,
    draft,
    error_of,
    oams_error_of,
    openwop_error_of,
    path_of,
    remember,
    running,
)
from tests.embedders import WORDS_ALONE

from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.visit import ROOT as CONSOLE
from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.oams import OAMS
from memoranda.bindings.http.openwop import OPENWOP
from memoranda.bindings.http.openwop_two import OPENWOP_TWO
from memoranda.bindings.http.operation import OperationTables
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import InvalidInput
from memoranda.opening import open_service
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.settings import load_settings
from memoranda.standards.ump.token import Claims, mint


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server for which time flies, so that failures in a row are not limited."""
    seconds = itertools.count(step=60.0)
    with running(tmp_path_factory.mktemp("patient") / "home", clock=lambda: next(seconds)) as started:
        yield started


OPERATIONS = all_operations()
PROTECTED = [operation for operation in OPERATIONS if not operation.is_public]


@pytest.mark.parametrize("operation", PROTECTED, ids=lambda operation: str(operation.name))
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "Bearer",
        "Bearer nonsense",
        "Bearer mk_aaaa_bbbb",
        "Bearer umpcap.e30.ed25519:AAAA",
        "Bearer umpcap..",
        "Bearer \u00e9\u00ff",
        "Basic dXNlcjpwYXNz",
    ],
)
@pytest.mark.requirement("UMP-4.2-bearer")
def test_nothing_is_done_without_a_good_credential(patient: Running, operation: Any, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization.encode("latin-1")}
    with patient.client("") as stranger:
        # The body is bad on purpose: the credential comes first.
        path = operation.path.replace("{id}", "urn%3Aump%3Aaaaa")
        headers |= {name: value.encode() for name, value in operation.standard.selected_by.items()}
        answer = stranger.request(operation.method, path, headers=headers, content=b"{")  # type: ignore[arg-type]
        if operation.standard is OAMS:
            assert oams_error_of(answer) == (401, -32096)
        elif operation.standard in (OPENWOP, OPENWOP_TWO):
            assert openwop_error_of(answer) == (401, "unauthenticated")
        else:
            assert error_of(answer) == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_only_discovery_and_health_are_public() -> None:
    assert OperationTables(OPERATIONS).public == {
        "/ump/capabilities",
        "/.well-known/ump.json",
        "/.well-known/openwop",
        # What it is and how to use it, for a browser.
        "/",
        "/healthz",
        "/readyz",
        "/openapi.json",
        # The same document, under the name that openwop gives it.
        "/v1/openapi.json",
    }


def with_console(service: Service) -> dict[str, Any]:
    return {"folders": {CONSOLE: lambda threads: LazyConsole(service, threads).routes}}


def test_a_browser_at_the_address_gets_a_page_that_links_to_what_is_open(tmp_path: Path) -> None:
    with running(tmp_path, extra=with_console) as server, server.client("", follow_redirects=True) as stranger:
        answer = stranger.get("/", headers={"accept": "text/html"})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "script" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        links = re.findall(r'href="([^"]+)"', answer.text)
        assert links
        assert [stranger.get(link).status_code for link in links] == [200] * len(links)
        assert f"http://{stranger.base_url.host}:{stranger.base_url.port}/mcp" in answer.text


def test_an_unknown_route_needs_a_credential_first(server: Running) -> None:
    with server.client("") as stranger:
        assert error_of(stranger.get("/nothing")) == (401, "unauthorized")


def test_the_scheme_is_case_insensitive(server: Running) -> None:
    with server.client("") as client:
        answer = client.post("/ump/audit", headers={"authorization": f"bEaReR   {server.token}"})
        assert answer.status_code == 200


def test_a_revoked_key_stops_working_at_once(server: Running) -> None:
    key = server.key("did:key:zRevoked")
    with server.client(key) as client:
        assert client.post("/ump/audit").status_code == 200
        server.service.gate.revoke_key(key.split("_")[1])
        assert error_of(client.post("/ump/audit")) == (401, "unauthorized")


def test_another_owners_private_memory_does_not_exist(server: Running, client: httpx.Client) -> None:
    name = remember(client, "a private matter")
    with server.client(server.key("did:key:zOther")) as other:
        assert error_of(other.get(path_of(name))) == (404, "not_found")
        assert error_of(other.get(f"{path_of(name)}/history")) == (404, "not_found")
        patch = {"body": {"text": "taken over"}}
        assert error_of(other.post("/ump/revise", json={"id": name, "patch": patch})) == (404, "not_found")
        assert error_of(other.post("/ump/forget", json={"id": name, "hard": True})) == (404, "not_found")
        assert error_of(other.post("/ump/feedback", json={"id": name, "outcome": "ignored"})) == (404, "not_found")
        assert error_of(other.post("/ump/remember", json=draft("planted"))) == (403, "forbidden_scope")
        assert error_of(other.get(f"/ump/subscribe?owner={OWNER}")) == (403, "forbidden_scope")
        assert error_of(other.post("/ump/audit", json={"owner": OWNER})) == (403, "forbidden_scope")
        found = other.post("/ump/recall", json={"query": "private matter", "scope": {"owner": OWNER}}).json()["results"]
        assert name not in [result["record"]["id"] for result in found]


@pytest.mark.requirement("UMP-4.2-bearer")
def test_a_token_reaches_the_owner_who_signed_it_and_nobody_else(server: Running, client: httpx.Client) -> None:
    name = remember(client, "not for everyone who can sign")
    owner = SigningKey(bytes([7]) * 32)
    # With a key of its own, an owner may sign, too.
    server.key(owner.did)
    token = mint(claims(owner.did, scope={}), owner)
    with server.client(token) as someone:
        assert error_of(someone.get(path_of(name))) == (404, "not_found")
        own = remember(someone, "my own", owner=owner.did)
        assert someone.get(path_of(own)).status_code == 200
    with server.client(mint(claims(owner.did, scope={"owner": OWNER}), owner)) as forger:
        assert error_of(forger.get(path_of(name))) == (401, "unauthorized")


def test_an_expired_token_is_refused(server: Running) -> None:
    owner = SigningKey(bytes([8]) * 32)
    with server.client(mint(claims(owner.did, scope={}, exp="2001-01-01T00:00:00Z"), owner)) as late:
        assert error_of(late.post("/ump/audit")) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("read", "/ump/recall", {"query": "x"}),
        ("write", "/ump/remember", draft()),
        ("derive", "/ump/feedback", {"id": "urn:ump:aaaa", "outcome": "followed"}),
    ],
)
def test_a_verb_that_was_not_granted_is_forbidden(server: Running, verb: str, path: str, body: object) -> None:
    others = tuple({"read", "write", "derive"} - {verb})
    with server.client(server.key(OWNER, *others)) as client:
        assert error_of(client.post(path, json=body)) == (403, "forbidden_scope")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8420", "[::1]"])
def test_loopback_names_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "8.8.8.8", "[::2]"]
)
@pytest.mark.parametrize("path", ["/healthz", "/ump/capabilities", "/ump/audit/verify"])
def test_another_host_name_is_refused(client: httpx.Client, host: str, path: str) -> None:
    assert error_of(client.get(path, headers={"host": host})) == (403, "forbidden_scope")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "file://"])
def test_another_web_origin_is_refused(client: httpx.Client, origin: str) -> None:
    answer = client.get("/ump/capabilities", headers={"origin": origin})
    assert error_of(answer) == (403, "forbidden_scope")
    assert "access-control-allow-origin" not in answer.headers
    preflight = {"origin": origin, "access-control-request-method": "POST"}
    assert error_of(client.options("/ump/recall", headers=preflight)) == (403, "forbidden_scope")


def test_a_page_of_our_own_may_call(server: Running, client: httpx.Client) -> None:
    assert client.post("/ump/audit", headers={"origin": server.url}).status_code == 200


def test_an_allowed_host_and_origin_are_answered(tmp_path: Path) -> None:
    origin = "https://app.example"
    options: dict[str, Any] = {"allowed_hosts": ["Memory.example"], "allowed_origins": [f"{origin}/"]}
    with running(tmp_path / "home", **options) as started, started.client() as client:
        assert client.get("/healthz", headers={"host": "memory.example:443"}).status_code == 200
        answer = client.post("/ump/audit", headers={"origin": origin})
        assert answer.headers["access-control-allow-origin"] == origin
        assert answer.headers["vary"] == "Origin"
        refused = client.post("/ump/audit", headers={"origin": origin, "authorization": "Bearer x"})
        assert error_of(refused) == (401, "unauthorized")
        assert refused.headers["access-control-allow-origin"] == origin
    with running(tmp_path / "home", **options) as started, started.client("") as browser:
        preflight = browser.options("/ump/recall", headers={"origin": origin, "access-control-request-method": "POST"})
        assert preflight.status_code == 204
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert "authorization" in preflight.headers["access-control-allow-headers"]


def test_a_star_allows_every_host(tmp_path: Path) -> None:
    with running(tmp_path / "home", allowed_hosts=["*"]) as started, started.client("") as client:
        assert client.get("/healthz", headers={"host": "anything.example"}).status_code == 200


def test_one_credential_is_limited_and_another_is_not(tmp_path: Path) -> None:
    with (
        running(tmp_path / "home", rate_limit=5, clock=lambda: 0.0) as started,
        started.client(started.key()) as busy,
        started.client() as calm,
    ):
        answers = [busy.post("/ump/audit") for _ in range(11)]
        assert [answer.status_code for answer in answers[:10]] == [200] * 10
        assert error_of(answers[10]) == (429, "rate_limited")
        assert answers[10].headers["retry-after"] == "1"
        assert calm.post("/ump/audit").status_code == 200


@pytest.mark.requirement("OURS-closed-doors")
def test_guessing_is_limited_and_locks_nobody_out(tmp_path: Path) -> None:
    with (
        running(tmp_path / "home", clock=lambda: 0.0) as started,
        started.client() as known,
        started.client("mk_aaaa_bbbb") as guesser,
        started.client(started.key(OWNER)) as newcomer,
    ):
        assert known.post("/ump/audit").status_code == 200
        codes = [error_of(guesser.post("/ump/audit"))[1] for _ in range(42)]
        assert codes == ["unauthorized"] * 40 + ["rate_limited"] * 2
        assert known.post("/ump/audit").status_code == 200
        # From the same address, and never seen before.
        assert newcomer.post("/ump/audit").status_code == 200


@pytest.mark.parametrize("options", [{"rate_limit": 0}, {"max_body_bytes": 0}])
def test_a_limit_of_nothing_is_refused_at_the_start(tmp_path: Path, options: dict[str, int]) -> None:
    service = open_service(load_settings(WORDS_ALONE, home=tmp_path / "home"))
    try:
        with pytest.raises(InvalidInput):
            build_app(service, **options)
    finally:
        service.close()


def test_a_mounted_application_gets_the_access_and_may_stream(tmp_path: Path) -> None:
    seen: list[str] = []

    class Mounted:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            access = scope["state"]["access"]
            assert isinstance(access, Access)
            while (await receive()).get("more_body"):
                pass
            await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"no-cache")]})
            for part in (access.default_tenant.encode(), b""):
                await send({"type": "http.response.body", "body": part, "more_body": bool(part)})

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        seen.append("started")
        yield
        seen.append("stopped")

    def stop() -> None:
        seen.append("stopping")

    # A Route answers /mcp itself; a Mount only what is below it.
    routes: list[BaseRoute] = [Route("/mcp", Mounted(), methods=["GET", "POST"]), Mount("/below", app=Mounted())]
    with (
        running(tmp_path / "home", extra_routes=routes, lifespans=[lifespan], on_stop=[stop]) as started,
        started.client(started.key()) as client,
        started.client("") as stranger,
    ):
        for path in ("/mcp", "/below/anything"):
            answer = client.post(path, content=b"anything")
            assert (answer.status_code, answer.text) == (200, OWNER)
            assert answer.headers["cache-control"] == "no-cache"
            assert error_of(stranger.post(path)) == (401, "unauthorized")
            assert error_of(client.post(path, headers={"origin": "https://evil.example"})) == (403, "forbidden_scope")
            large = b"x" * 3_000_000
            assert error_of(client.post(path, content=large)) == (400, "invalid_record")
            assert error_of(client.post(path, content=iter([large]))) == (400, "invalid_record")
    assert seen == ["started", "stopping", "stopped"]


def test_an_unexpected_failure_tells_nothing_but_that(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("the secret is 42")

    with running(tmp_path / "home", extra_routes=[Mount("/broken", app=broken)]) as started, started.client() as client:
        answer = client.get("/broken/")
        assert error_of(answer) == (500, "internal")
        assert "42" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "the secret is 42" in caplog.text


def claims(issuer: str, *, scope: dict[str, str], exp: str = "2999-01-01T00:00:00Z") -> Claims:
    return Claims(
        v="ump-cap/0.1",
        iss=issuer,
        aud=None,
        verbs=("read", "write", "derive", "export"),
        scope=scope,
        nbf=None,
        exp=exp,
        jti="test",
    )
