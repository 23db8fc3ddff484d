"""A browser without a script, signed in to a server with the console."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from tests.bindings.http.running import Running, draft

from memoranda.bindings.console.cookies import COOKIE
from memoranda.bindings.console.lazy import LazyConsole
from memoranda.bindings.console.visit import ROOT
from memoranda.service.service import Service
from memoranda.storage.engine.contract import ProgramGrant

ALL = ("read", "write", "derive", "export", "erase", "activate")


def with_console(service: Service) -> dict[str, Any]:
    return {"folders": {ROOT: lambda threads: LazyConsole(service, threads).routes}}


@contextmanager
def signed_in(server: Running, key: str) -> Iterator[httpx.Client]:
    with server.client("", follow_redirects=True) as client:
        answer = client.get(f"{ROOT}/enter", params={"link": server.service.sessions.create_link(key)})
        assert (answer.status_code, answer.url.path) == (200, f"{ROOT}/")
        yield client


def remember(server: Running, key: str, text: str, **scope: str) -> str:
    with server.client(key) as client:
        answer = client.post("/ump/remember", json=draft(text, **scope))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])


def sessions_of(server: Running, browser: httpx.Client) -> list[ProgramGrant]:
    session, access = server.service.sessions.authenticate(browser.cookies[COOKIE], is_used=False)
    return server.service.sessions.open_sessions(access, session)


def token_of(answer: httpx.Response) -> str:
    found = re.search(r'name="token" value="([^"]+)"', answer.text)
    assert found is not None
    return found[1]


def send(browser: httpx.Client, path: str, **fields: str | list[str]) -> httpx.Response:
    token = token_of(browser.get(f"{ROOT}/overview"))
    return browser.post(
        ROOT + path, data={"token": token, **fields}, headers={"origin": str(browser.base_url).rstrip("/")}
    )
