"""OAuth 2.1 at /mcp: the official client is let in by a person with a key, and whoever cheats is not."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from tests.bindings.http.process import Server, serving
from tests.bindings.http.running import running
from tests.bindings.mcp.peers import run
from tests.waiting import HANG_SECONDS

from memoranda.bindings.http.oauth import BURST, OAuth
from memoranda.service.service import Service

_addresses = itertools.count(2)
CALLBACK = "http://127.0.0.1:3030/callback"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("oauth") / "home", "--oauth") as started:
        yield started


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    """Somebody without a credential, at an address of his own: so much may come from each."""
    transport = httpx.HTTPTransport(local_address=f"127.0.0.{next(_addresses)}")
    with httpx.Client(base_url=server.url, timeout=HANG_SECONDS, transport=transport) as client:
        yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that asks to be let in, step by step."""

    http: httpx.Client
    client_id: str
    redirect_uri: str = CALLBACK
    resource: str

    def ask(self, **changes: str | None) -> httpx.Response:
        given = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": "s&<1>",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": self.resource,
            **changes,
        }
        return self.http.get("/oauth/authorize", params={k: v for k, v in given.items() if v is not None})

    def page(self, **changes: str | None) -> httpx.Response:
        return self.http.get(self.ask(**changes).headers["location"])

    def answer(self, page: httpx.Response, key: str, answer: str = "allow") -> httpx.Response:
        form = {"request": hidden(page), "key": key, "answer": answer}
        return self.http.post("/oauth/consent", data=form, headers={"Origin": str(self.http.base_url).rstrip("/")})

    def code(self, key: str, **changes: str | None) -> str:
        return returned(self.answer(self.page(**changes), key))["code"]

    def redeem(self, code: str, **changes: str) -> httpx.Response:
        given = {"redirect_uri": self.redirect_uri, "code_verifier": VERIFIER, **changes}
        return self._token(grant_type="authorization_code", code=code, **given)

    def refresh(self, token: str, **changes: str) -> httpx.Response:
        return self._token(grant_type="refresh_token", refresh_token=token, **changes)

    def _token(self, **form: str) -> httpx.Response:
        return self.http.post("/oauth/token", data={"client_id": self.client_id, "resource": self.resource, **form})

    def status(self, token: str) -> int:
        """What the MCP endpoint says to an access token."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        return self.http.post("/mcp", json=INITIALIZE, headers=headers).status_code


def hidden(page: httpx.Response) -> str:
    (found,) = re.findall(r'name="request" value="([^"]*)"', page.text)
    return unescape(found)


def returned(answer: httpx.Response) -> dict[str, str]:
    """What the program is told in the address that the person is sent to."""
    assert answer.status_code in (302, 303), answer.text
    return {name: value for name, (value,) in parse_qs(urlsplit(answer.headers["location"]).query).items()}


def refused(answer: httpx.Response, error: str) -> bool:
    return answer.status_code == 400 and answer.json()["error"] == error


@pytest.fixture
def program(http: httpx.Client, server: Server) -> Program:
    answer = http.post("/oauth/register", json={"client_name": "<b>Mallory</b>", "redirect_uris": [CALLBACK]})
    assert answer.status_code == 201, answer.text
    assert "client_secret" not in {name for name, value in answer.json().items() if value is not None}
    return Program(http=http, client_id=answer.json()["client_id"], resource=f"{server.url}/mcp")


class Storage:
    """Where the official client keeps what it got."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def test_the_official_client_is_let_in_by_a_person_with_a_key(server: Server, http: httpx.Client) -> None:
    seen: dict[str, str] = {}
    storage = Storage()

    async def person(url: str) -> None:
        """Opens the address, reads the page, pastes a key, and is sent back to the program."""
        place = urlsplit(url)
        to_page = http.get(f"{place.path}?{place.query}")
        page = http.get(to_page.headers["location"])
        form = {"request": hidden(page), "key": server.credential, "answer": "allow"}
        seen.update(returned(http.post("/oauth/consent", data=form)))

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=seen["code"], state=seen["state"], iss=seen["iss"])

    auth = OAuthClientProvider(
        server_url=f"{server.url}/mcp",
        client_metadata=OAuthClientMetadata(client_name="official", redirect_uris=[AnyUrl(CALLBACK)]),
        storage=storage,
        redirect_handler=person,
        callback_handler=callback,
    )

    async def scenario() -> None:
        async with create_mcp_http_client(auth=auth) as client:
            transport = streamable_http_client(f"{server.url}/mcp", http_client=client)
            async with Client(transport, read_timeout_seconds=HANG_SECONDS) as session:
                draft = {"kind": "semantic", "body": {"text": "the kettle is new"}}
                assert not (await session.call_tool("ump.remember", draft)).is_error
                found = await session.call_tool("ump.recall", {"query": "kettle"})
                assert "the kettle is new" in str(found.structured_content)
                # The client refreshes when its token is about to end, and the session goes on.
                before = storage.tokens
                auth.context.token_expiry_time = 1.0
                assert not (await session.call_tool("ump.recall", {"query": "kettle"})).is_error
                assert before is not None
                assert storage.tokens is not None
                assert storage.tokens.refresh_token != before.refresh_token

    run(scenario)
    # Keys stay the simple way.
    with server.client() as simple:
        assert "kettle" in simple.post("/ump/recall", json={"query": "kettle"}).text


def test_who_comes_without_a_credential_is_told_where_to_ask(http: httpx.Client, server: Server) -> None:
    answer = http.post("/mcp", json=INITIALIZE)
    assert answer.status_code == 401
    where = f"{server.url}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{where}"' in answer.headers["www-authenticate"]
    for path in (where, "/.well-known/oauth-protected-resource"):
        resource = http.get(path).json()
        assert (resource["resource"], resource["authorization_servers"]) == (f"{server.url}/mcp", [server.url])
    metadata = http.get("/.well-known/oauth-authorization-server").json()
    assert metadata["issuer"] == server.url
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    # Elsewhere, keys and tokens are asked for as ever.
    assert "resource_metadata" not in http.post("/ump/recall", json={}).headers["www-authenticate"]


def test_the_page_shows_what_is_asked_and_runs_nothing(program: Program) -> None:
    page = program.page()
    assert "&lt;b&gt;Mallory&lt;/b&gt;" in page.text
    assert "<b>Mallory" not in page.text
    assert "<script" not in page.text
    policy = page.headers["content-security-policy"]
    for part in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'self' http://127.0.0.1:3030"):
        assert part in policy
    assert page.headers["cache-control"] == "no-store"
    # Otherwise a browser would not say that the form is ours.
    assert page.headers["referrer-policy"] == "same-origin"


def test_who_says_no_is_heard_and_the_state_comes_back(program: Program, server: Server) -> None:
    told = returned(program.answer(program.page(), server.credential, "deny"))
    assert told == {"error": "access_denied", "state": "s&<1>", "iss": server.url}


def test_a_key_that_does_not_hold_gives_no_code(program: Program) -> None:
    for key in ("", "mk_aaaa_bbbb", "umpcap.a.b", "<script>"):
        answer = program.answer(program.page(), key)
        assert answer.status_code == 403
        assert "location" not in answer.headers
        assert "<script>" not in answer.text


def test_another_web_page_cannot_answer_for_the_person(program: Program, server: Server) -> None:
    form = {"request": hidden(program.page()), "key": server.credential, "answer": "allow"}
    answer = program.http.post("/oauth/consent", data=form, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "redirect",
    [
        "http://127.0.0.1:3030/other",
        "http://127.0.0.1:3030/callback?x=1",
        "http://127.0.0.1.evil.example/callback",
        "http://localhost:3030/callback",
        "https://127.0.0.1:3030/callback",
        "http://user@127.0.0.1:3030/callback",
        "javascript:alert(1)",
    ],
)
def test_nobody_is_sent_to_another_address(program: Program, redirect: str) -> None:
    answer = program.ask(redirect_uri=redirect)
    assert answer.status_code == 400
    assert "location" not in answer.headers


def test_a_program_on_the_machine_may_listen_on_any_port(program: Program, server: Server) -> None:
    elsewhere = replace(program, redirect_uri="http://127.0.0.1:4040/callback")
    assert elsewhere.redeem(elsewhere.code(server.credential)).status_code == 200


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "erase"}, "invalid_scope"),
        ({"state": "x" * 3_000}, "invalid_request"),
    ],
)
def test_a_request_that_is_not_right_goes_back_to_the_program(
    program: Program, server: Server, changes: dict[str, Any], error: str
) -> None:
    told = returned(program.ask(**changes))
    assert told["error"] == error
    assert told["iss"] == server.url


def test_requests_that_are_forged_or_changed_are_no_requests(program: Program, server: Server) -> None:
    sealed = hidden(program.page())
    for forged in ("", "x", sealed[:-2], "A" + sealed[1:], program.client_id, sealed + "é"):
        form = {"request": forged, "key": server.credential, "answer": "allow"}
        assert program.http.post("/oauth/consent", data=form).status_code == 400
    assert program.ask(client_id="made-up").status_code == 400


def test_a_code_is_good_once_for_its_program_with_its_verifier(program: Program, server: Server) -> None:
    code = program.code(server.credential)
    assert refused(program.redeem(code, code_verifier="w" * 64), "invalid_grant")
    assert refused(program.redeem(code, redirect_uri="http://127.0.0.1:3031/callback"), "invalid_request")
    assert refused(program.redeem(code, resource="https://other.example/mcp"), "invalid_target")
    other = program.http.post("/oauth/register", json={"redirect_uris": [CALLBACK]}).json()["client_id"]
    assert refused(replace(program, client_id=other).redeem(code), "invalid_grant")
    got = program.redeem(code)
    assert got.status_code == 200
    assert got.headers["cache-control"] == "no-store"
    assert program.status(got.json()["access_token"]) == 200
    # Whoever brings it again ends what came of it.
    assert refused(program.redeem(code), "invalid_grant")
    assert program.status(got.json()["access_token"]) == 401
    assert refused(program.refresh(got.json()["refresh_token"]), "invalid_grant")


def test_a_refresh_token_is_good_once_and_a_thief_ends_it_for_both(program: Program, server: Server) -> None:
    first = program.redeem(program.code(server.credential, scope="read write")).json()
    assert refused(program.refresh(first["refresh_token"], resource="https://other.example/mcp"), "invalid_target")
    assert refused(program.refresh(first["refresh_token"], scope="read export"), "invalid_scope")
    second = program.refresh(first["refresh_token"], scope="read").json()
    assert second["scope"] == "read"
    assert program.status(second["access_token"]) == 200
    assert refused(program.refresh(first["refresh_token"]), "invalid_grant")
    assert refused(program.refresh(second["refresh_token"]), "invalid_grant")
    assert program.status(second["access_token"]) == 401
    # A refresh token is no code, and neither is an access token anything to exchange.
    third = program.redeem(program.code(server.credential)).json()
    for wrong in (third["refresh_token"], third["access_token"]):
        assert refused(program.redeem(wrong), "invalid_grant")
    assert refused(program.refresh(third["access_token"]), "invalid_grant")


def test_a_token_is_good_at_the_mcp_endpoint_alone(program: Program, server: Server) -> None:
    token = program.redeem(program.code(server.credential)).json()["access_token"]
    assert program.status(token) == 200
    with server.client(token) as client:
        for method, path in (("POST", "/ump/recall"), ("POST", "/cal"), ("GET", "/v1/oams/namespaces"), ("GET", "/no")):
            assert client.request(method, path, json={"query": "kettle"}).status_code == 401, path


def test_a_program_that_gives_its_token_back_is_out(program: Program, server: Server) -> None:
    got = program.redeem(program.code(server.credential)).json()
    form = {"client_id": program.client_id, "token": got["refresh_token"], "client_secret": ""}
    assert program.http.post("/oauth/revoke", data=form).status_code == 200
    assert program.status(got["access_token"]) == 401


@pytest.mark.parametrize(
    "body",
    [
        {"redirect_uris": ["https://evil.example/cb"], "client_name": "Claude"},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["http://evil.example/cb"]},
        {"redirect_uris": ["http://127.0.0.1/cb#x"]},
        {"redirect_uris": []},
        {"redirect_uris": [f"http://127.0.0.1/{n}" for n in range(9)]},
        {"redirect_uris": ["http://127.0.0.1/" + "x" * 600]},
        {"redirect_uris": [CALLBACK], "client_name": "x\u202ey"},
        {"redirect_uris": [CALLBACK], "client_name": "x" * 101},
        [],
    ],
)
def test_only_programs_on_ones_own_machine_register_themselves(http: httpx.Client, body: Any) -> None:
    answer = http.post("/oauth/register", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"] in ("invalid_redirect_uri", "invalid_client_metadata")


def register_by_command(home: Path, redirect_uri: str) -> str:
    """Return the client id that the operator gets for a program."""
    command = [sys.executable, "-m", "memoranda", "--data", str(home), "key", "program", "registered", redirect_uri]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_setting_refuses_programs_that_registered_under_a_wider_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    site, loopback = "https://site.example/cb", CALLBACK
    with serving(home, MEMORANDA_OAUTH="open") as server, httpx.Client(base_url=server.url) as http:
        ids = {
            uri: http.post("/oauth/register", json={"client_name": "p", "redirect_uris": [uri]}).json()["client_id"]
            for uri in (site, loopback)
        }
        program = Program(http=http, client_id=ids[site], redirect_uri=site, resource=f"{server.url}/mcp")
        tokens = program.redeem(program.code(server.credential)).json()
        page = hidden(program.page())
    operators = {uri: register_by_command(home, uri) for uri in (site, loopback)}
    accepted = {}
    for setting in ("known", "on", "open"):
        with serving(home, MEMORANDA_OAUTH=setting) as server, httpx.Client(base_url=server.url) as http:
            for registrar, clients in (("self", ids), ("operator", operators)):
                for uri, client_id in clients.items():
                    program = Program(http=http, client_id=client_id, redirect_uri=uri, resource=f"{server.url}/mcp")
                    accepted[setting, registrar, uri] = program.ask().status_code == 302
            earlier = Program(http=http, client_id=ids[site], redirect_uri=site, resource=f"{server.url}/mcp")
            refreshed = earlier.refresh(tokens["refresh_token"])
            accepted[setting, "refresh", site] = refreshed.status_code == 200
            accepted[setting, "page", site] = http.get("/oauth/consent", params={"request": page}).status_code == 200
            if refreshed.status_code == 200:
                tokens = refreshed.json()
    refused = [case for case, is_accepted in accepted.items() if not is_accepted]
    assert refused == [
        ("known", "self", site),
        ("known", "self", loopback),
        ("known", "refresh", site),
        ("known", "page", site),
        ("on", "self", site),
        ("on", "refresh", site),
        ("on", "page", site),
    ]


def test_what_strangers_send_is_bounded(tmp_path: Path) -> None:
    def with_oauth(service: Service) -> dict[str, Any]:
        # Time stands still, however long the requests take.
        oauth = OAuth(service, "on", clock=lambda: 0.0)
        return {"public_routes": oauth.routes, "lifespans": [oauth.running]}

    with running(tmp_path / "home", extra=with_oauth) as server, server.client("") as client:
        assert client.post("/oauth/register", content=b"{" + b" " * 40_000).status_code == 400
        answers = [client.post("/oauth/token", data={"client_id": "x"}) for _ in range(int(BURST) + 1)]
    assert [answer.status_code for answer in answers] == [401] * (int(BURST) - 1) + [429] * 2
    assert [answer.headers.get("retry-after") for answer in answers[-3:]] == [None, "1", "1"]
