"""People sign in with an account of a certified provider, npm's oidc-provider, in a real browser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.bindings.http.running import Running, running
from tests.waiting import until

from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.visit import ROOT
from memoranda.service.core.people import ProviderSettings
from memoranda.service.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

MODULES = Path(os.environ.get("MEMORANDA_AXE", "")).parents[1] if os.environ.get("MEMORANDA_AXE") else Path()
TEAM = "did:key:zTeam"
SETTINGS = {
    "oidc_client_id": "memoranda",
    "oidc_client_secret": "a-secret-of-the-test",
    "oidc_scopes": ("openid", "profile", "groups"),
    "oidc_roles": (f"admins=owner:{TEAM}", f"engineers=reader:{TEAM}"),
}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose people have accounts at the provider, which is another site for the browser."""
    if shutil.which("node") is None or not (MODULES / "oidc-provider").is_dir():
        pytest.skip("oidc-provider is not here: make test-browser installs it")
    port = free_port()
    settings: dict[str, Any] = {**SETTINGS, "oidc_issuer": f"http://localhost:{port}"}
    names = {name.removeprefix("oidc_"): value for name, value in settings.items() if name != "oidc_roles"}

    def with_console(service: Service) -> dict[str, Any]:
        provider = ProviderSettings(**names)
        return {"folders": {ROOT: lambda threads: LazyConsole(service, threads, provider).routes}}

    with running(tmp_path_factory.mktemp("team"), extra=with_console, settings=settings) as server:
        script = Path(__file__).with_name("provider.mjs")
        command = ["node", str(script), str(MODULES), str(port), server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield server
            process.kill()


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    with chromium.new_context() as context:
        yield context


def sign_in(page: Page, server: Running, name: str) -> None:
    page.goto(f"{server.url}{ROOT}/keys")
    page.get_by_role("link", name="Sign in with localhost").click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    # The provider asks for consent.
    page.get_by_role("button", name="Continue").click()


def test_a_person_signs_in_works_and_signs_out_everywhere(team: Running, window: BrowserContext) -> None:
    page = window.new_page()
    sign_in(page, team, "ada")
    # Where the person wanted to go before signing in.
    page.wait_for_url(f"{team.url}{ROOT}/keys")
    page.locator("input[name=name]").first.fill("robot")
    page.get_by_role("button", name="Create the key").click()
    assert page.locator("pre").first.inner_text().startswith("mk_")
    assert [key.name for key in team.service.gate.keys_of(TEAM)] == ["robot"]
    grants = team.service.context.engine.system.list_grants(team.service.context.clock())
    assert [grant.key_id.partition(":")[0] for grant in grants] == ["person"]
    # Signing out leads to the provider, which ends its session, too, and back.
    page.get_by_role("button", name="Sign out").first.click()
    page.get_by_role("button", name="Yes, sign me out").click()
    page.wait_for_url(f"{team.url}{ROOT}/sign-in**")
    page.goto(f"{team.url}{ROOT}/keys")
    assert "/sign-in" in page.url


def test_the_group_decides(team: Running, window: BrowserContext) -> None:
    page = window.new_page()
    sign_in(page, team, "bob")
    page.wait_for_url(f"{team.url}{ROOT}/keys")
    page.locator("input[name=name]").first.fill("robot")
    page.get_by_role("button", name="Create the key").click()
    assert "must not create or revoke keys" in page.inner_text("main")


def test_who_is_in_no_group_stays_outside(team: Running, window: BrowserContext) -> None:
    page = window.new_page()
    sign_in(page, team, "eve")
    page.wait_for_url(f"{team.url}{ROOT}/oidc/callback**")
    assert "none of your groups may use this memory" in page.inner_text("main")
    page.goto(f"{team.url}{ROOT}/")
    assert "/sign-in" in page.url


def test_the_provider_ends_the_session_by_itself(team: Running, window: BrowserContext) -> None:
    page, context = window.new_page(), team.service.context
    page.goto(f"{team.url}{ROOT}/sign-in")
    page.get_by_role("link", name="Sign in with localhost").click()
    provider = page.url.partition("/interaction")[0]
    sign_in(page, team, "ada")
    page.wait_for_url(f"{team.url}{ROOT}/keys")
    grants = {grant.grant_id for grant in context.engine.system.list_grants(context.clock())}
    other = window.new_page()
    other.goto(f"{provider}/session/end")
    other.get_by_role("button", name="Yes, sign me out").click()
    until(lambda: len(context.engine.system.list_grants(context.clock())) < len(grants))
    page.reload()
    assert "/sign-in" in page.url
