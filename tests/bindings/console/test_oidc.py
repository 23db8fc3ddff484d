"""Signing in to the console with an account: what is accepted, and what is refused, of a provider and of a browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import jwt
import pytest
from msgspec.structs import replace
from tests.bindings.console.browsing import send
from tests.bindings.console.identity_provider import CLIENT, IdentityProvider, Key, identity_provider
from tests.bindings.http.running import NO_AUTHORITIES, Running, running

from memoranda.bindings.console.app import SIGN_INS_BURST
from memoranda.bindings.console.cookies import COOKIE, PENDING_COOKIE
from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.oidc import PENDING_MS, Accounts
from memoranda.bindings.console.oidc_provider import (
    FAILURE_SECONDS,
    KEYS_RETRY_SECONDS,
    Provider,
    ProviderUnavailable,
)
from memoranda.bindings.console.visit import ROOT
from memoranda.errors import InvalidInput, Unauthorized
from memoranda.model.instant import Instant
from memoranda.service.core.access import ALL_VERBS
from memoranda.service.core.people import People, Person, ProviderSettings, parse_rule
from memoranda.service.core.sign_in import Sessions
from memoranda.service.service import Service

TEAM = "did:key:zTeam"
ROLES = ("admins=owner:did:key:zTeam", "engineers=writer:did:key:zTeam", "guests=reader:@person")


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@contextmanager
def serving(home: Any, provider: IdentityProvider, **more: Any) -> Iterator[Running]:
    settings = {"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT, "oidc_roles": ROLES, **more}
    registration = ProviderSettings(
        issuer=provider.issuer, client_id=CLIENT, client_secret=more.get("oidc_client_secret", "")
    )

    def with_console(service: Service) -> dict[str, Any]:
        return {"folders": {ROOT: lambda threads: LazyConsole(service, threads, registration).routes}}

    with running(home, extra=with_console, settings=settings) as server:
        yield server


@pytest.fixture
def server(tmp_path: Any, provider: IdentityProvider) -> Iterator[Running]:
    with serving(tmp_path, provider) as server:
        yield server


@pytest.fixture
def browser(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, verify=NO_AUTHORITIES) as client:
        yield client


def begin(browser: httpx.Client, provider: IdentityProvider, target: str = "") -> dict[str, str]:
    """Press the button; return what the provider is asked."""
    answer = browser.get(f"{ROOT}/oidc", params={"next": target})
    assert answer.status_code == 303, answer.text
    address = urlsplit(answer.headers["location"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{provider.issuer}/auth"
    provider.request = dict(parse_qsl(address.query))
    return provider.request


def come_back(browser: httpx.Client, provider: IdentityProvider, **changes: str) -> httpx.Response:
    query = {"state": provider.request.get("state", ""), "code": "c", **changes}
    return browser.get(f"{ROOT}/oidc/callback", params=query)


def is_signed_in(browser: httpx.Client) -> bool:
    return browser.get(f"{ROOT}/overview").status_code == 200


def test_a_person_signs_in_with_an_account(server: Running, browser: httpx.Client, provider: IdentityProvider) -> None:
    assert "Sign in with 127.0.0.1" in browser.get(f"{ROOT}/sign-in").text
    request = begin(browser, provider, f"{ROOT}/audit")
    assert (request["response_type"], request["code_challenge_method"], request["client_id"]) == (
        "code",
        "S256",
        CLIENT,
    )
    assert request["redirect_uri"] == f"{server.url}{ROOT}/oidc/callback"
    answer = come_back(browser, provider)
    assert answer.status_code == 200
    # Not a redirect: the browser would send no cookie that is for this site alone.
    assert f'content="0;url={ROOT}/audit"' in answer.text
    cookie = next(value for value in answer.headers.get_list("set-cookie") if value.startswith(COOKIE))
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert is_signed_in(browser)
    session, access = server.service.sessions.authenticate(browser.cookies[COOKIE])
    assert (access.tenant, access.verbs, access.actor_kind) == (TEAM, ALL_VERBS, "user")
    assert session.person is not None
    assert (session.person.name, session.person.groups) == ("Ada", ("admins",))
    assert "Ada" not in access.actor
    assert provider.exchanges[0]["client_id"] == CLIENT
    # Keys of machines remain.
    assert send(browser, "/keys", name="robot", scope="read").status_code == 200


@pytest.mark.parametrize(
    ("groups", "tenant", "verbs"),
    [
        (["engineers"], TEAM, {"read", "write", "derive"}),
        (["engineers", "admins"], TEAM, ALL_VERBS),
        ("engineers", TEAM, {"read", "write", "derive"}),
        (["guests", "others"], "person:", {"read"}),
    ],
)
def test_groups_decide_about_role_and_owner(
    server: Running, browser: httpx.Client, provider: IdentityProvider, groups: Any, tenant: str, verbs: Any
) -> None:
    provider.claims = {"groups": groups}
    begin(browser, provider)
    assert come_back(browser, provider).status_code == 200
    _, access = server.service.sessions.authenticate(browser.cookies[COOKIE])
    assert access.default_tenant.startswith(tenant)
    assert access.verbs == verbs


def test_groups_may_be_in_the_user_information(
    server: Running, browser: httpx.Client, provider: IdentityProvider
) -> None:
    provider.claims = {"groups": None}
    begin(browser, provider)
    assert come_back(browser, provider).status_code == 200
    assert is_signed_in(browser)
    provider.information = {"sub": "bob-2"}
    begin(browser, provider)
    assert come_back(browser, provider).status_code == 401


# Changes of an ID token that must be refused.
FORGERIES: dict[str, Callable[[IdentityProvider], str]] = {
    "another issuer": lambda provider: provider.sign(iss="https://evil.example"),
    "another audience": lambda provider: provider.sign(aud="other"),
    "no audience": lambda provider: provider.sign(aud=None),
    "another nonce": lambda provider: provider.sign(nonce="n"),
    "no nonce": lambda provider: provider.sign(nonce=None),
    "expired": lambda provider: provider.sign(exp=int(time.time()) - 120),
    "no end": lambda provider: provider.sign(exp=None),
    "from the future": lambda provider: provider.sign(iat=int(time.time()) + 900),
    "not valid yet": lambda provider: provider.sign(nbf=int(time.time()) + 900),
    "no subject": lambda provider: provider.sign(sub=None),
    "empty subject": lambda provider: provider.sign(sub=""),
    "another party": lambda provider: provider.sign(azp="other"),
    "several audiences": lambda provider: provider.sign(aud=[CLIENT, "other"]),
    "unknown key": lambda provider: provider.sign(Key("unknown")),
    "another key of the same id": lambda provider: provider.sign(Key("first")),
    "alg none": lambda provider: jwt.encode(
        jwt.decode(provider.sign(), options={"verify_signature": False}), "", "none", headers={"kid": "first"}
    ),
    "signed with what is public": lambda provider: jwt.encode(
        jwt.decode(provider.sign(), options={"verify_signature": False}),
        provider.keys[0].public["x"] * 2,
        "HS256",
        headers={"kid": "first"},
    ),
    "cut": lambda provider: provider.sign()[:-8],
    "nonsense": lambda _: "a.b.c",
    "no groups": lambda provider: provider.sign(groups=[]),
    "groups that are no list": lambda provider: provider.sign(groups={"admins": True}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_token_that_is_not_right_in_everything_is_refused(
    server: Running, browser: httpx.Client, provider: IdentityProvider, name: str
) -> None:
    begin(browser, provider)
    provider.id_token = FORGERIES[name](provider)
    answer = come_back(browser, provider)
    assert answer.status_code == 401, answer.text
    assert COOKIE not in browser.cookies
    assert not is_signed_in(browser)
    assert provider.id_token not in answer.text


def test_an_answer_must_be_to_what_this_browser_began(
    server: Running, browser: httpx.Client, provider: IdentityProvider
) -> None:
    assert come_back(browser, provider).status_code == 401
    begin(browser, provider)
    assert come_back(browser, provider, state="s").status_code == 401
    begin(browser, provider)
    with httpx.Client(base_url=server.url, verify=NO_AUTHORITIES) as other:
        # The state of one browser, in another: with no cookie, and with a cookie of its own.
        assert come_back(other, provider).status_code == 401
        state = provider.request["state"]
        begin(other, provider)
        assert come_back(other, provider, state=state).status_code == 401
    for query in ({"error": "access_denied"}, {"code": ""}, {"iss": "https://evil.example"}):
        begin(browser, provider)
        assert come_back(browser, provider, **query).status_code == 401
    assert provider.exchanges == []
    begin(browser, provider)
    provider.token_status = 400
    assert come_back(browser, provider).status_code == 401
    assert not is_signed_in(browser)


def test_a_sign_in_is_completed_once(server: Running, browser: httpx.Client, provider: IdentityProvider) -> None:
    begin(browser, provider)
    cookie = browser.cookies[PENDING_COOKIE]
    assert come_back(browser, provider).status_code == 200
    browser.cookies.delete(PENDING_COOKIE)
    browser.cookies.set(PENDING_COOKIE, cookie, domain="127.0.0.1", path=f"{ROOT}/oidc")
    assert come_back(browser, provider).status_code == 401
    # Another process, which does not remember it, refuses it by the session that it opened.
    registration = ProviderSettings(issuer=provider.issuer, client_id=CLIENT)
    elsewhere = Accounts(server.service, registration)
    with pytest.raises(Unauthorized, match="completed before"):
        elsewhere.finish(cookie, {"state": provider.request["state"], "code": "c"})


def test_a_sign_in_takes_ten_minutes_at_most(server: Running, provider: IdentityProvider) -> None:
    service, registration = server.service, ProviderSettings(issuer=provider.issuer, client_id=CLIENT)
    address, cookie = Accounts(service, registration).begin("/console/", "https://m.example/console/oidc/callback")
    later = Service(replace(service.context, clock=lambda: Instant(service.context.clock() + PENDING_MS)))
    with pytest.raises(Unauthorized, match="too long"):
        Accounts(later, registration).finish(cookie, {"state": dict(parse_qsl(address))["state"], "code": "c"})


def test_new_keys_of_the_provider_are_found(server: Running, browser: httpx.Client, provider: IdentityProvider) -> None:
    seconds = 0.0
    client = Provider(ProviderSettings(issuer=provider.issuer, client_id=CLIENT), seconds=lambda: seconds)
    provider.request = {"nonce": "n"}
    assert client.verify_id_token(provider.sign(), nonce="n")["sub"] == "ada-1"
    provider.keys = [provider.keys[0], Key("second")]
    # Strangers cannot make the server ask at will.
    with pytest.raises(Unauthorized, match="does not have"):
        client.verify_id_token(provider.sign(), nonce="n")
    assert provider.key_reads == 1
    seconds = KEYS_RETRY_SECONDS
    assert client.verify_id_token(provider.sign(), nonce="n")["sub"] == "ada-1"
    assert client.verify_id_token(provider.sign(provider.keys[0]), nonce="n")["sub"] == "ada-1"
    assert provider.key_reads == 2
    # A key that the provider has withdrawn is refused once the keys are read again.
    withdrawn, provider.keys = provider.keys[0], provider.keys[1:]
    seconds = 10_000.0
    with pytest.raises(Unauthorized, match="does not have"):
        client.verify_id_token(provider.sign(withdrawn), nonce="n")


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"end_session_endpoint": "http://evil.example/"},
        {"token_endpoint": 7},
        {"filler": "x" * 1_100_000},
    ],
    ids=["issuer", "script", "clear", "file", "end", "type", "large"],
)
def test_a_description_that_is_not_right_is_refused(
    server: Running, browser: httpx.Client, provider: IdentityProvider, metadata: dict[str, Any]
) -> None:
    provider.metadata = metadata
    answer = browser.get(f"{ROOT}/oidc")
    assert answer.status_code == 503
    assert "You were not signed in" in answer.text


def test_a_provider_that_is_away_leaves_keys(server: Running, browser: httpx.Client) -> None:
    key = server.key(TEAM)
    client = Provider(ProviderSettings(issuer="http://127.0.0.1:9", client_id=CLIENT))
    with pytest.raises(ProviderUnavailable, match="cannot be reached"):
        client.metadata()
    for address in ("http://id.example", "ftp://id.example", "https://", "id.example"):
        with pytest.raises(InvalidInput, match="https"):
            Provider(ProviderSettings(issuer=address, client_id=CLIENT))
    assert browser.post(f"{ROOT}/sign-in", data={"key": key}).status_code == 303
    assert is_signed_in(browser)


def test_a_provider_that_failed_is_left_alone_for_a_while(provider: IdentityProvider) -> None:
    seconds = 0.0
    client = Provider(ProviderSettings(issuer=provider.issuer, client_id=CLIENT), seconds=lambda: seconds)
    provider.metadata = {"issuer": "https://evil.example"}
    with pytest.raises(ProviderUnavailable, match="states the issuer"):
        client.metadata()
    provider.metadata = {}
    with pytest.raises(ProviderUnavailable, match="states the issuer"):
        client.metadata()
    seconds = FAILURE_SECONDS
    assert client.metadata().issuer == provider.issuer


def test_an_address_begins_so_many_sign_ins(server: Running, browser: httpx.Client) -> None:
    answers = [browser.get(f"{ROOT}/oidc").status_code for _ in range(SIGN_INS_BURST + 5)]
    assert answers[0] == 303
    assert 429 in answers


def test_the_rules_apply_to_every_request(server: Running) -> None:
    service = server.service
    person = Person(issuer="https://id.example", subject="ada-1", name="Ada", groups=("admins",))
    parts = service.gate, service.context.engine.system, service.context.operator, service.context.clock
    sealed = Sessions(*parts, People([parse_rule("admins=owner")], TEAM)).sign_in_person(person, "state")
    assert Sessions(*parts, People([parse_rule("admins=reader")], TEAM)).authenticate(sealed)[1].verbs == {"read"}
    for people in (None, People([parse_rule("others=owner")], TEAM)):
        with pytest.raises(Unauthorized):
            Sessions(*parts, people).authenticate(sealed)
    everybody = People([parse_rule("*=writer:@person")], TEAM)
    access = everybody.admit(replace(person, groups=everybody.select_groups([])), "session:s")
    assert access.default_tenant == person.key_id
    assert parse_rule("cn=ops,dc=example=manager:did:web:a.example").owner == "did:web:a.example"
    for wrong in ("admins", "admins=god", "=owner", "admins=owner:a b", ""):
        with pytest.raises(InvalidInput, match="oidc_roles"):
            parse_rule(wrong)


def test_signing_out_ends_the_session_here_and_there(
    server: Running, browser: httpx.Client, provider: IdentityProvider
) -> None:
    begin(browser, provider)
    come_back(browser, provider)
    answer = send(browser, "/sign-out")
    assert answer.status_code == 200
    assert f"0;url={provider.issuer}/end?client_id={CLIENT}&amp;post_logout_redirect_uri=" in answer.text
    assert not is_signed_in(browser)


def logout_token(provider: IdentityProvider, **changes: Any) -> str:
    event: dict[str, dict[str, str]] = {"http://schemas.openid.net/event/backchannel-logout": {}}
    claims = {"nonce": None, "exp": None, "jti": "j", "events": event, **changes}
    return provider.sign(**claims)


def test_the_provider_ends_sessions(server: Running, browser: httpx.Client, provider: IdentityProvider) -> None:
    begin(browser, provider)
    come_back(browser, provider)
    wrong = {
        "an ID token": provider.sign(),
        "another event": logout_token(provider, events={"x": {}}),
        "nonce": logout_token(provider, nonce="n"),
        "another audience": logout_token(provider, aud="other"),
        "old": logout_token(provider, iat=int(time.time()) - 9_000),
        "another key": provider.sign(Key("first")),
        "nothing": "",
    }
    for name, token in wrong.items():
        assert browser.post(f"{ROOT}/oidc/logout", data={"logout_token": token}).status_code == 400, name
    assert (
        browser.post(f"{ROOT}/oidc/logout", data={"logout_token": logout_token(provider, sub="bob")}).status_code == 200
    )
    assert is_signed_in(browser)
    # The provider's own request has no cookies.
    assert (
        httpx.post(f"{server.url}{ROOT}/oidc/logout", data={"logout_token": logout_token(provider)}).status_code == 200
    )
    assert not is_signed_in(browser)


def test_a_client_with_a_secret_proves_itself(tmp_path: Any, provider: IdentityProvider) -> None:
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    with serving(tmp_path, provider, oidc_client_secret="s3") as server:
        with httpx.Client(base_url=server.url, verify=NO_AUTHORITIES) as browser:
            begin(browser, provider)
            assert come_back(browser, provider).status_code == 200
        assert (provider.exchanges[0]["client_id"], provider.exchanges[0]["client_secret"]) == (CLIENT, "s3")


def test_without_a_provider_there_is_no_such_path(tmp_path: Any) -> None:
    def with_console(service: Service) -> dict[str, Any]:
        return {"folders": {ROOT: lambda threads: LazyConsole(service, threads).routes}}

    with running(tmp_path, extra=with_console) as server, httpx.Client(base_url=server.url) as browser:
        assert browser.get(f"{ROOT}/oidc").status_code == 404
        assert browser.get(f"{ROOT}/oidc/callback").status_code == 404
        assert "Or with an API key" not in browser.get(f"{ROOT}/sign-in").text
