"""A real browser before a real server: Debian's Chromium, driven by Playwright. `make test-browser` brings both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.bindings.http.running import OWNER, Running, draft, running

from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.visit import ROOT
from memoranda.service.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
# As root, without a screen, and without asking its makers for anything.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ALL = ("read", "write", "derive", "export", "erase", "activate")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("Playwright is not here: make test-browser installs it")
    if CHROMIUM is None:
        pytest.skip("no Chromium is here: make test-browser installs it")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


def console_folder(service: Service) -> dict[str, Any]:
    """The options of a server that has the console."""
    return {"folders": {ROOT: lambda threads: LazyConsole(service, threads).routes}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("browser"), extra=console_folder) as server:
        yield server


@pytest.fixture
def key(server: Running) -> str:
    return server.key(OWNER, *ALL)


@pytest.fixture
def opened(chromium: Browser, server: Running, key: str) -> Iterator[Callable[..., BrowserContext]]:
    """Opens windows of a browser that is signed in."""
    contexts: list[BrowserContext] = []

    def sign_in(**options: Any) -> BrowserContext:
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.goto(f"{server.url}{ROOT}/enter?link={server.service.sessions.create_link(key)}")
        page.close()
        return context

    yield sign_in
    for context in contexts:
        context.close()


@pytest.fixture
def page(opened: Callable[..., BrowserContext], server: Running) -> Iterator[Page]:
    """A window on the memories; whatever the browser complains about fails the test."""
    page = opened().new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{server.url}{ROOT}/memories")
    yield page
    assert complaints == []


@pytest.fixture
def remember(server: Running, key: str) -> Callable[..., str]:
    """Writes as an agent does, over HTTP."""

    def write(text: str, **scope: str) -> str:
        with server.client(key) as client:
            answer = client.post("/ump/remember", json=draft(text, **scope))
            assert answer.status_code == 200, answer.text
            return str(answer.json()["id"])

    return write


@pytest.fixture(scope="session")
def axe() -> str:
    found = Path(os.environ.get("MEMORANDA_AXE", ""))
    if not found.is_file():
        pytest.skip("axe-core is not here: make test-browser installs it")
    return found.read_text(encoding="utf-8")
