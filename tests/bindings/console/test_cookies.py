"""Cookies of the console, which a program at another port of the same host can set and read."""

from __future__ import annotations

from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest
from tests.bindings.console.browsing import ALL, send, signed_in, with_console
from tests.bindings.http.running import OWNER, Running, running

from memoranda.bindings.console.cookies import COOKIE, NOTICE_COOKIE
from memoranda.bindings.console.visit import ROOT

SECURE = f"__Host-{COOKIE}"


def test_a_notice_that_another_program_planted_is_not_shown(server: Running, key: str, browser: httpx.Client) -> None:
    page = send(browser, "/remember", text="tea is green").text
    assert 'role="status"' in page
    session = f"{COOKIE}={browser.cookies[COOKIE]}"
    for planted in ("zebra", "0.zebra", ".zebra", "0" * 32 + ".zebra", "%C3%A9.zebra"):
        answer = browser.get(f"{ROOT}/", headers={"Cookie": f"{session}; {NOTICE_COOKIE}={planted}"})
        assert answer.status_code == 200
        assert "zebra" not in answer.text
        # It is gone with the next page.
        assert any(NOTICE_COOKIE in cookie for cookie in answer.headers.get_list("set-cookie"))
    with server.client("") as stranger:
        answer = stranger.get(f"{ROOT}/sign-in", headers={"Cookie": f"{NOTICE_COOKIE}=0.zebra"})
        assert "zebra" not in answer.text


def test_the_notice_of_one_session_is_not_shown_in_another(server: Running, key: str) -> None:
    with signed_in(server, key) as one, signed_in(server, key) as other:
        one.follow_redirects = False
        notice = SimpleCookie(send(one, "/remember", text="coffee is brown").headers["set-cookie"])[NOTICE_COOKIE].value
        for browser, is_shown in ((one, True), (other, False)):
            cookies = {"Cookie": f"{COOKIE}={browser.cookies[COOKIE]}; {NOTICE_COOKIE}={notice}"}
            page = browser.get(f"{ROOT}/", headers=cookies).text
            assert ('said" role="status"' in page) == is_shown


def test_the_sign_in_page_says_that_somebody_signed_out(browser: httpx.Client) -> None:
    assert "signed out" in send(browser, "/sign-out").text


@pytest.mark.requirement("OURS-cookies")
def test_over_tls_cookies_are_of_this_host_alone(tmp_path: Path) -> None:
    with running(tmp_path / "home", extra=with_console, trusted_proxies=("127.0.0.1",)) as server:
        key = server.key(OWNER, *ALL)
        with server.client("") as client:
            client.headers["X-Forwarded-Proto"] = "https"
            answer = client.get(f"{ROOT}/enter", params={"link": server.service.sessions.create_link(key)})
            kept = answer.headers["set-cookie"]
            assert kept.startswith(f"{SECURE}=")
            parts = {part.strip().lower() for part in kept.split(";")[1:]}
            assert {"secure", "httponly", "path=/", "samesite=strict"} <= parts
            assert not any(part.startswith("domain") for part in parts)
            session = SimpleCookie(kept)[SECURE].value
            assert client.get(f"{ROOT}/", headers={"Cookie": f"{SECURE}={session}"}).status_code == 200
            # One that any other port or a page without TLS may have set.
            assert client.get(f"{ROOT}/", headers={"Cookie": f"{COOKIE}={session}"}).status_code == 303
