"""The console as a browser without a script sees it: signing in, reading, correcting, and what keeps strangers out."""

from __future__ import annotations

import html
import json
import re
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.bindings.console.browsing import ALL, remember, send, sessions_of, signed_in, token_of
from tests.bindings.http.running import OWNER, Running, draft, running

from memoranda.bindings.console.app import FAILURES_BURST, Console
from memoranda.bindings.console.ask import EXAMPLES
from memoranda.bindings.console.cookies import COOKIE
from memoranda.bindings.console.pages import FORMS, PAGES
from memoranda.bindings.console.transfer import FORMS_OUT
from memoranda.bindings.console.visit import ROOT
from memoranda.bindings.http.limits import SCAN_SLOTS, SCANS_LIMIT, ScanSlot
from memoranda.encoding.chat_tokens import CHAT_TOKENS
from memoranda.encoding.untrusted import neutralize_tags
from memoranda.errors import RateLimited
from memoranda.model.instant import Instant
from memoranda.service.core.access import key_parts
from memoranda.service.service import Service
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump.requests import AuditRequest, RecallRequest

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> javascript:alert(3) \u202eabc {{ 7*7 }}"


# --- signing in --------------------------------------------------------------------------------------------------


def test_a_link_signs_a_browser_in_once(server: Running, key: str) -> None:
    link = server.service.sessions.create_link(key)
    with server.client("") as first, server.client("") as second:
        answer = first.get(f"{ROOT}/enter", params={"link": link})
        assert (answer.status_code, answer.headers["location"]) == (303, f"{ROOT}/")
        kept = answer.headers["set-cookie"].lower()
        assert all(word in kept for word in ("httponly", "samesite=strict", "path=/console"))
        assert first.get(f"{ROOT}/").status_code == 200
        again = second.get(f"{ROOT}/enter", params={"link": link})
        assert again.status_code == 401
        assert "was used before" in again.text
        # Whoever has the link twice is not who it was made for, or somebody else has it, too: nobody is signed in now.
        assert first.get(f"{ROOT}/").status_code == 303


def test_a_key_signs_a_browser_in_and_goes_on_to_where_it_wanted(server: Running, key: str) -> None:
    with server.client("") as browser:
        answer = browser.get(f"{ROOT}/overview?x=1")
        assert answer.status_code == 303
        asked = browser.get(answer.headers["location"])
        target = html.unescape(re.search(r'name="next" value="([^"]+)"', asked.text)[1])  # type: ignore[index]
        assert target == f"{ROOT}/overview?x=1"
        wrong = browser.post(f"{ROOT}/sign-in", data={"key": "mk_aaaa_bbbb", "next": target})
        assert wrong.status_code == 401
        assert COOKIE not in browser.cookies
        answer = browser.post(f"{ROOT}/sign-in", data={"key": f" {key}\n", "next": target})
        assert (answer.status_code, answer.headers["location"]) == (303, target)


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example",
        f"//evil.example{ROOT}/",
        f"https://evil.example{ROOT}/",
        "/\\evil.example",
        f"{ROOT}/\\evil.example",
        f"{ROOT}/\t/evil.example",
        "http://[",
        "/ump/recall",
        "",
    ],
)
def test_nobody_is_sent_elsewhere_after_signing_in(server: Running, key: str, target: str) -> None:
    with server.client("") as browser:
        answer = browser.post(f"{ROOT}/sign-in", data={"key": key, "next": target})
        assert answer.headers["location"] == f"{ROOT}/"


def test_who_guesses_keys_waits(tmp_path: Path) -> None:
    def with_still_clock(service: Service) -> dict[str, Any]:
        # No failure is forgiven, however long the requests take.
        return {"folders": {ROOT: lambda threads: Console(service, threads, clock=lambda: 0.0).routes}}

    with running(tmp_path, extra=with_still_clock) as server, server.client("") as browser:
        found = [browser.post(f"{ROOT}/sign-in", data={"key": f"mk_aaaa_{n}"}).status_code for n in range(12)]
        assert found == [401] * FAILURES_BURST + [429] * 2


def test_a_session_ends_when_somebody_says_so_and_with_its_key(server: Running) -> None:
    key = server.key(OWNER, *ALL)
    with signed_in(server, key) as browser, signed_in(server, key) as other:
        page = browser.get(f"{ROOT}/keys").text
        assert page.count("Sign out that device") >= 2
        ids = re.findall(r"/sessions/([a-z0-9]+)/end", page)
        mine = re.search(r"\(this browser\).*?/sessions/([a-z0-9]+)/end", page, re.DOTALL)
        assert mine is not None
        for each in ids:
            if each != mine[1]:
                assert send(browser, f"/sessions/{each}/end").status_code == 200
        assert other.get(f"{ROOT}/", follow_redirects=False).status_code == 303
        assert browser.get(f"{ROOT}/").status_code == 200
        server.service.gate.revoke_key(key_parts(key)[0], is_confirmed=True)
        assert browser.get(f"{ROOT}/", follow_redirects=False).status_code == 303


def test_keys_show_their_end_use_and_limits_and_are_replaced(server: Running) -> None:
    owner = "did:key:zEnds"
    key = server.key(owner, *ALL, "activate", "erase")
    with signed_in(server, key) as browser:
        form = {"name": "robot", "scope": "read", "days": "3", "requests_per_minute": "60", "writes_per_day": "9"}
        page = send(browser, "/keys", **form).text
        secret = re.search(r"mk_[a-z0-9]+_[a-z0-9]+", page)
        assert secret is not None
        assert "The key robot expires soon." in page
        assert "60 requests per minute" in page
        assert "9 writes per day" in page
        with server.client(secret[0]) as program:
            assert program.post("/ump/recall", json={"query": "tea"}).status_code == 200
        page = send(browser, f"/keys/{key_parts(secret[0])[0]}/rotate").text
        successor = server.service.gate.find_key("robot")
        assert successor.replaces == key_parts(secret[0])[0]
        assert f"mk_{successor.key_id}_" in page
        assert send(browser, "/keys", name="robot", scope="read", days="99999").status_code == 400
    with signed_in(server, server.key("did:key:zOther", *ALL, "activate", "erase")) as other:
        assert send(other, f"/keys/{successor.key_id}/rotate").status_code == 404


def test_signing_out_ends_the_session(server: Running, key: str) -> None:
    with signed_in(server, key) as browser:
        kept = browser.cookies[COOKIE]
        assert send(browser, "/sign-out").url.path == f"{ROOT}/sign-in"
    with server.client("", cookies={COOKIE: kept}) as thief:
        assert thief.get(f"{ROOT}/").status_code == 303


# --- what keeps strangers out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [path.replace("{id}", "abcd") for path in PAGES])
def test_every_page_asks_who_is_there(server: Running, path: str) -> None:
    with server.client("") as stranger:
        answer = stranger.get(ROOT + path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith(f"{ROOT}/sign-in")


@pytest.mark.parametrize("path", [path.replace("{id}", "abcd") for path in FORMS])
def test_every_form_needs_a_session_and_its_token(server: Running, browser: httpx.Client, path: str) -> None:
    with server.client("") as stranger:
        assert stranger.post(ROOT + path, data={"text": "x", "name": "x"}).status_code == 401
    for token in ({}, {"token": ""}, {"token": "guessed"}):
        answer = browser.post(ROOT + path, data={"text": "x", "name": "x", **token})
        assert answer.status_code == 403
        assert "belongs to another session" in answer.text


def test_a_token_of_any_letters_is_only_wrong(browser: httpx.Client) -> None:
    assert browser.post(f"{ROOT}/undo", data={"token": "é\u202e"}).status_code == 403
    assert browser.post(f"{ROOT}/sign-out", data={"token": "é"}).status_code == 200
    # It was not signed out by that, though its own cookie went.
    assert browser.get(f"{ROOT}/", follow_redirects=False).status_code == 303


def test_who_has_not_signed_in_is_not_listened_to(server: Running) -> None:
    large = b"x" * 1_000_000
    with server.client("") as stranger:
        assert stranger.post(f"{ROOT}/import", content=large).status_code == 401
        assert stranger.post(f"{ROOT}/sign-in", content=large).status_code == 400
        assert stranger.post(f"{ROOT}/sign-out", content=large).status_code == 400


def test_what_a_page_asks_by_itself_keeps_no_session_alive_and_is_not_put_on_record(
    server: Running, browser: httpx.Client
) -> None:
    session, access = server.service.sessions.authenticate(browser.cookies[COOKIE], is_used=False)
    server.service.sessions._system.extend_grant(session.grant_id, Instant(server.service.context.clock() + 60_000))
    (before,) = [each for each in sessions_of(server, browser) if each.grant_id == session.grant_id]
    events = len(server.service.audit(access, AuditRequest(requested_limit=500)))
    live = {"x-memoranda-live": "1"}
    assert [browser.get(f"{ROOT}/latest", headers=live).json()["seq"] for _ in range(3)]
    (after,) = [each for each in sessions_of(server, browser) if each.grant_id == session.grant_id]
    assert after.expires == before.expires
    assert len(server.service.audit(access, AuditRequest(requested_limit=500))) == events
    browser.get(f"{ROOT}/keys")
    (used,) = [each for each in sessions_of(server, browser) if each.grant_id == session.grant_id]
    assert used.expires > before.expires


def test_events_say_that_somebody_wrote_and_nothing_else(server: Running, key: str) -> None:
    with server.client("") as stranger:
        assert stranger.get(f"{ROOT}/events").status_code == 401
    with signed_in(server, key) as browser:
        (before,) = [each.expires for each in sessions_of(server, browser)][:1]
        with browser.stream("GET", f"{ROOT}/events") as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            lines = (line for line in answer.iter_lines() if line.startswith("data: "))
            first = json.loads(next(lines).removeprefix("data: "))
            remember(server, server.key("did:key:zElsewhere", *ALL), "of another owner", owner="did:key:zElsewhere")
            remember(server, key, "written while the page is open")
            second = json.loads(next(lines).removeprefix("data: "))
        assert (first.keys(), second["seq"] > first["seq"]) == ({"seq"}, True)
        assert [each.expires for each in sessions_of(server, browser)][:1] == [before]


def test_a_key_for_less_sees_no_other_keys_and_ends_no_other_sessions(server: Running) -> None:
    owner = "did:key:zLess"
    with signed_in(server, server.key(owner, *ALL)) as browser, signed_in(server, server.key(owner, "read")) as reader:
        (mine,) = [each for each in sessions_of(server, browser) if each not in sessions_of(server, reader)]
        page = reader.get(f"{ROOT}/keys").text
        assert mine.grant_id not in page
        assert page.count('/revoke"') == 1
        assert send(reader, f"/sessions/{mine.grant_id}/end").status_code == 404
        assert browser.get(f"{ROOT}/", follow_redirects=False).status_code == 200


def test_few_have_everything_read_at_once() -> None:
    room = threading.BoundedSemaphore(SCANS_LIMIT)
    turns = [ScanSlot(room) for _ in range(SCANS_LIMIT + 1)]
    for turn in turns[:-1]:
        turn.take()
    with pytest.raises(RateLimited):
        turns[-1].take()
    # What nobody took is not given back.
    turns[-1].finish()
    # What goes on after its answer gives it back itself, once.
    turns[0].hand_over()
    turns[0].finish()
    with pytest.raises(RateLimited):
        turns[-1].take()
    turns[0].release()
    turns[0].release()
    turns[-1].take()
    # Others never wait.
    ScanSlot(None).take()


def test_who_has_everything_read_through_the_console_and_over_http_share_their_turns(
    server: Running, browser: httpx.Client
) -> None:
    turns = [ScanSlot(SCAN_SLOTS) for _ in range(SCANS_LIMIT)]
    with server.client() as client:
        for turn in turns:
            turn.take()
        try:
            answers = client.get("/ump/verify"), client.get("/ump/orders"), browser.get(f"{ROOT}/overview")
            assert [answer.status_code for answer in answers] == [429, 429, 429]
            assert all("too many full scans are running" in answer.text for answer in answers)
        finally:
            for turn in turns:
                turn.finish()
        assert client.get("/ump/orders").status_code == browser.get(f"{ROOT}/overview").status_code == 200


def test_a_form_from_another_origin_does_nothing(server: Running, browser: httpx.Client) -> None:
    token = token_of(browser.get(f"{ROOT}/"))
    data = {"token": token, "text": "planted", "kind": "semantic"}
    answer = browser.post(f"{ROOT}/remember", data=data, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "planted" not in browser.get(f"{ROOT}/").text


def test_pages_are_kept_to_themselves(browser: httpx.Client) -> None:
    for path in ("/", "/overview", "/nothing"):
        headers = browser.get(ROOT + path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_what_is_stored_is_never_markup(server: Running, browser: httpx.Client, key: str) -> None:
    name = remember(server, key, HOSTILE, project=HOSTILE[:40], user=HOSTILE[:40])
    pages = (
        *(
            "/",
            "/memories?q=alert",
            "/changes",
            "/agents",
            "/review",
            "/try?q=alert",
            "/timeline",
            "/graph",
            "/overview",
        ),
        *(f"/memories?project={HOSTILE[:40]}", f"/?project={HOSTILE[:40]}", f"/graph?subject={HOSTILE[:40]}"),
        *(f"/memory/{name}", f"/memory/{name}?q=alert", f"/memory/{name}/views", f"/memories?edit={name}"),
    )
    for path in pages:
        answer = browser.get(ROOT + path)
        assert answer.status_code == 200
        assert not re.search(
            r"<script(?! src=\"/console/static)|<img|onerror=(?!(?:<mark>)?alert(?:</mark>)?\(2\)&)|href=\"javascript",
            answer.text,
        )
    shown = browser.get(f"{ROOT}/memory/{name}").text
    assert html.escape("<script>alert(1)</script>") in shown
    assert "{{ 7*7 }}" in shown


def test_another_owner_sees_nothing(server: Running, browser: httpx.Client, key: str) -> None:
    name = remember(server, key, "a secret of the owner")
    with signed_in(server, server.key("did:key:zSomebodyElse", *ALL)) as other:
        assert "a secret of the owner" not in other.get(f"{ROOT}/").text
        assert "a secret of the owner" not in other.get(f"{ROOT}/memories?q=secret").text
        for path in (f"/memory/{name}", f"/memory/{name}/views", f"/memory/{name}/readers", f"/memory/{name}/export"):
            assert other.get(ROOT + path).status_code == 404
        assert send(other, f"/memory/{name}/forget").status_code == 404
        assert send(other, f"/memory/{name}/revise", text="stolen").status_code == 404
        mine = {each.grant_id for each in sessions_of(server, browser)}
        assert all(send(other, f"/sessions/{each}/end").status_code == 404 for each in mine)
        theirs = key.removeprefix("mk_").partition("_")[0]
        assert send(other, f"/keys/{theirs}/revoke").status_code == 404
    assert browser.get(f"{ROOT}/memory/{name}").status_code == 200


def test_a_key_that_may_only_read_changes_nothing(server: Running, key: str) -> None:
    name = remember(server, key, "kept as it is")
    with signed_in(server, server.key(OWNER, "read")) as reader:
        assert "kept as it is" in reader.get(f"{ROOT}/memory/{name}").text
        for path, fields in (
            (f"/memory/{name}/revise", {"text": "changed"}),
            (f"/memory/{name}/forget", {}),
            (f"/memory/{name}/forget", {"hard": "yes", "typed": "erase"}),
            ("/remember", {"text": "new"}),
            ("/undo", {}),
            ("/keys", {"name": "more", "scope": "read"}),
        ):
            assert send(reader, path, **fields).status_code == 403
        assert reader.get(f"{ROOT}/ask", params={"query": 'ADD belief SET subject = "a" REASON "b"'}).status_code == 200
    with signed_in(server, key) as browser:
        assert "kept as it is" in browser.get(f"{ROOT}/memory/{name}").text


# --- reading -----------------------------------------------------------------------------------------------------


def test_the_latest_are_listed_in_pages_and_narrowed(server: Running) -> None:
    owner = "did:key:zLists"
    key = server.key(owner, *ALL)
    for number in range(25):
        remember(server, key, f"note {number:02} of the list", owner=owner, project=f"p{number % 2}")
    with signed_in(server, key) as browser:
        first = browser.get(f"{ROOT}/memories")
        assert first.text.count("of the list</a></bdi></h2>") == 20
        older = html.unescape(re.search(r'href="([^"]+)" rel="next"', first.text)[1])  # type: ignore[index]
        assert browser.get(older).text.count("of the list</a></bdi></h2>") == 5
        narrowed = browser.get(f"{ROOT}/memories?project=p1").text
        assert narrowed.count("of the list</a></bdi></h2>") == 12
        assert "note 02" not in narrowed
        assert browser.get(f"{ROOT}/memories?kind=identity").text.count("of the list</a></bdi></h2>") == 0
        assert browser.get(f"{ROOT}/memories?after=x").status_code == 400
        found = browser.get(f"{ROOT}/memories?q=note+07").text
        assert found.index("note 07") < (found.index("note 06") if "note 06" in found else len(found))
        assert "Scores" in found
        assert "<mark>note</mark> <mark>07</mark>" in found
        assert "No memory answers this question" in browser.get(f"{ROOT}/memories?q=xylophone").text
        assert "There are no memories yet" not in first.text


def test_what_was_true_and_known_on_another_day_is_shown(server: Running) -> None:
    owner = "did:key:zTimes"
    key = server.key(owner, *ALL)
    with server.client(key) as client:
        body = draft("Alice lives in Porto", owner=owner)
        body["time"] = {"valid_from": "2020-01-01T00:00:00Z", "valid_to": "2021-01-01T00:00:00Z"}
        assert client.post("/ump/remember", json=body).status_code == 200
    with signed_in(server, key) as browser:
        assert "Porto" not in browser.get(f"{ROOT}/memories").text
        assert "Porto" in browser.get(f"{ROOT}/memories?valid_at=2020-06-01").text
        assert "Porto" in browser.get(f"{ROOT}/memories?valid_at=2020-06-01&q=Alice").text
        assert "Porto" not in browser.get(f"{ROOT}/memories?valid_at=2020-06-01&known_at=2020-06-01").text
        assert browser.get(f"{ROOT}/memories?valid_at=yesterday").status_code == 400


def test_what_was_true_or_known_on_a_day_includes_that_day(server: Running) -> None:
    owner = "did:key:zSameDay"
    key = server.key(owner, *ALL)
    with server.client(key) as client:
        assert client.post("/ump/remember", json=draft("Alice lives in Porto", owner=owner)).status_code == 200
        found = client.post("/ump/recall", json={"query": "Alice"}).json()["results"]
    day = found[0]["record"]["time"]["created"][:10]
    with signed_in(server, key) as browser:
        for name in ("valid_at", "known_at"):
            assert "Porto" in browser.get(f"{ROOT}/memories?{name}={day}").text
            assert "Porto" in browser.get(f"{ROOT}/memories?{name}={day}&q=Alice").text
            assert "Porto" not in browser.get(f"{ROOT}/memories?{name}={day}T00:00:00Z").text


def test_one_memory_is_shown_with_its_history_and_in_every_standard(
    server: Running, browser: httpx.Client, key: str
) -> None:
    name = remember(server, key, "Deploys happen on Mondays")
    answer = send(browser, f"/memory/{name}/revise", text="Deploys happen on Tuesdays", seen=name)
    assert answer.status_code == 200
    assert "<del>Mondays</del><ins>Tuesdays</ins>" in answer.text
    assert "verified" in answer.text
    assert "Changed." in answer.text
    assert "This is an earlier version" in browser.get(f"{ROOT}/memory/{name}").text
    views = browser.get(f"{ROOT}/memory/{name}/views").text
    assert all(f"<h2>{standard}</h2>" in views for standard in ("UMP", "OMS", "OAMS", "openwop"))
    readers = browser.get(f"{ROOT}/memory/{name}/readers").text
    assert "remember" in readers
    export = browser.get(f"{ROOT}/memory/{name}/export")
    assert export.json()["id"] == name
    assert "attachment" in export.headers["content-disposition"]
    # Somebody else changed it meanwhile: what was typed over it is not written.
    newest = answer.url.path.rpartition("/")[2]
    both = send(browser, f"/memory/{newest}/revise", text="Deploys happen on Wednesdays", seen=name)
    assert both.status_code == 409
    assert "was changed while you were typing" in both.text
    assert ">Deploys happen on Wednesdays</textarea>" in both.text
    assert "<del>Tuesdays</del><ins>Wednesdays</ins>" in both.text
    assert "Deploys happen on Tuesdays" in browser.get(f"{ROOT}/memory/{newest}").text


def test_a_correction_keeps_the_data_beside_the_text(server: Running, browser: httpx.Client, key: str) -> None:
    access = server.service.gate.authenticate(key)
    body = {"text": "Ada drinks tea", "structured": {"cups": 2}}
    name = server.service.remember(access, {**draft(), "body": body}).id
    later = send(browser, f"/memory/{name}/revise", text="Ada drinks green tea").url.path.rpartition("/")[2]
    assert server.service.get(access, later)["body"] == {**body, "text": "Ada drinks green tea"}


def test_only_the_beginning_of_a_memory_cannot_be_corrected(server: Running, browser: httpx.Client, key: str) -> None:
    access, long = server.service.gate.authenticate(key), "a long story " * 30_000
    namespace = server.service.oams.namespace(access)
    server.service.oams.store(access, {"key": "story", "namespace": str(namespace), "value": long})
    (found,) = server.service.recall(access, RecallRequest.parse({"query": "story", "filter": {"standard": "oams"}}))
    name = found.record["id"]
    page = browser.get(f"{ROOT}/memory/{name}").text
    assert ("shows only the beginning" in page, "<textarea" in page) == (True, False)
    refused = send(browser, f"/memory/{name}/revise", text="a short story")
    assert (refused.status_code, "at most 262144 bytes" in refused.text) == (400, True)
    assert server.service.oams.get(access, namespace, "story").memory["value"] == long


def test_what_is_forgotten_comes_back_with_undo_and_what_is_erased_does_not(
    server: Running, browser: httpx.Client, key: str
) -> None:
    name = remember(server, key, "a passing thought about herons")
    answer = send(browser, f"/memory/{name}/forget", reason="no longer true")
    assert "Forgot 1 memory" in answer.text
    assert "herons</a>" not in browser.get(f"{ROOT}/memories").text
    assert "Undone" in send(browser, "/undo").text
    assert "herons</a>" in browser.get(f"{ROOT}/memories").text
    refused = send(browser, f"/memory/{name}/forget", hard="yes", typed="yes")
    assert refused.status_code == 400
    assert "nothing was erased" in refused.text
    assert "for good" in send(browser, f"/memory/{name}/forget", hard="yes", typed="Erase").text
    left = browser.get(f"{ROOT}/memory/{name}").text
    assert "herons" not in left
    assert "was forgotten" in left


@pytest.mark.parametrize("standard", ["ump", "oams", "oms", "openwop"])
def test_what_was_erased_has_its_pages_whichever_standard_wrote_it(
    server: Running, browser: httpx.Client, key: str, standard: str
) -> None:
    text, service = f"herons of {standard}", server.service
    access = service.gate.authenticate(key)
    if standard == "ump":
        remember(server, key, text)
    elif standard == "oams":
        namespace = str(service.oams.namespace(access))
        service.oams.store(access, {"key": "herons", "namespace": namespace, "value": text})
    elif standard == "oms":
        fields = {"type": "belief", "subject": "ada", "relation": "sees", "object": text, "confidence": 1.0}
        service.grains.put(access, service.grains.with_defaults(access, fields))
    else:
        service.openwop.put_entry(access, "birds", Draft(content=text))
    (found,) = service.recall(access, RecallRequest.parse({"query": text, "filter": {"standard": standard}}))
    name = found.record["id"]
    assert "for good" in send(browser, f"/memory/{name}/forget", hard="yes", typed="erase").text
    for path in (path for path in PAGES if "{id}" in path):
        answer = browser.get(ROOT + path.replace("{id}", name))
        assert answer.status_code == 200, path
        assert text not in answer.text


def test_several_are_forgotten_at_once(server: Running, browser: httpx.Client, key: str) -> None:
    names = [remember(server, key, f"many at once {number}") for number in range(3)]
    refused = send(browser, "/forget", id="")
    assert (refused.status_code, "no memory was selected" in refused.text) == (400, True)
    assert "Forgot 3 memories" in send(browser, "/forget", id=[*names, names[0]]).text
    assert "many at once" not in browser.get(f"{ROOT}/memories").text


def test_a_memory_is_written_and_a_key_is_made_and_revoked(server: Running, browser: httpx.Client) -> None:
    answer = send(browser, "/remember", text="Anna likes tea\r\nand cake", kind="semantic", project="home")
    assert "Remembered." in answer.text
    assert "Anna likes tea\nand cake" in answer.text
    assert send(browser, "/remember", text="  ").status_code == 400
    page = send(browser, "/keys", name="laptop", scope=["read", "write"])
    made = re.search(r"<pre[^>]*>(mk_[a-z0-9_]+)</pre>", page.text)
    assert made is not None
    assert server.service.gate.authenticate(made[1]).verbs == {"read", "write"}
    assert made[1] not in browser.get(f"{ROOT}/keys").text
    assert "is revoked" in send(browser, f"/keys/{made[1].removeprefix('mk_').partition('_')[0]}/revoke").text


def test_the_key_of_this_browser_is_revoked_only_by_a_typed_word(server: Running) -> None:
    key = server.key("ada", *ALL)
    server.key("ada", *ALL)
    path = f"/keys/{key_parts(key)[0]}/revoke"
    with signed_in(server, key) as browser:
        page = browser.get(f"{ROOT}/keys").text
        assert "You signed in with this key" in page
        assert page.count('name="typed"') == 1
        for typed in ({}, {"typed": ""}, {"typed": "yes"}):
            refused = send(browser, path, **typed)
            assert refused.status_code == 400
            assert "type the word revoke" in refused.text
        assert browser.get(f"{ROOT}/").status_code == 200
        assert send(browser, path, typed=" Revoke ").url.path == f"{ROOT}/sign-in"


def test_the_examples_of_cal_run(browser: httpx.Client) -> None:
    for name, query in EXAMPLES:
        answer = browser.get(f"{ROOT}/ask", params={"query": query})
        assert (name, answer.status_code, "CAL-E" in answer.text) == (name, 200, False)
        assert "<h2>Answer</h2>" in answer.text
    assert "CAL-E" in browser.get(f"{ROOT}/ask", params={"query": "RECALL *"}).text


def test_a_query_is_checked_and_a_context_says_what_its_sources_cost(
    browser: httpx.Client, server: Running, key: str
) -> None:
    told = browser.get(f"{ROOT}/ask/check", params={"query": "RECALL beliefs"}).json()
    assert (told["valid"], told["error"]) == (True, None)
    told = browser.get(
        f"{ROOT}/ask/check", params={"query": "RECALL beliefs REC x", "before": "RECALL beliefs REC"}
    ).json()
    assert (told["valid"], told["word"], told["completions"]) == (False, "REC", ["RECENT"])
    wrong = browser.get(f"{ROOT}/ask/check", params={"query": "RECALL *"}).json()
    assert wrong["error"]["code"].startswith("CAL-E")
    remember(server, key, "npm is not used in this shop", project="context")
    query = 'ASSEMBLE FOR "setting up" FROM notes: (RECALL LIKE "npm") BUDGET 300 tokens FORMAT markdown'
    page = browser.get(f"{ROOT}/ask", params={"query": query, "namespace": "context"}).text
    assert "npm is not used in this shop" in page
    assert re.search(r'<th scope="row">notes</th><td>1 of 1</td><td>\d+</td>', page)
    nothing = browser.get(f"{ROOT}/ask", params={"query": 'RECALL LIKE "npm"', "namespace": "shared"}).text
    assert "No results in shared" in nothing
    assert "namespace=context" in nothing


def test_what_is_held_is_neither_changed_nor_erased(server: Running, browser: httpx.Client, key: str) -> None:
    name = remember(server, key, "evidence in a dispute")
    assert "On hold" in send(browser, f"/memory/{name}/hold", held="yes").text
    assert "Remove the hold" in browser.get(f"{ROOT}/memory/{name}/views").text
    refused = send(browser, f"/memory/{name}/forget", hard="yes", typed="erase")
    assert refused.status_code == 400
    assert "held" in refused.text or "hold" in refused.text
    assert "The hold is removed" in send(browser, f"/memory/{name}/hold").text
    assert "for good" in send(browser, f"/memory/{name}/forget", hard="yes", typed="erase").text


def test_the_graph_shows_whom_a_statement_names(server: Running, browser: httpx.Client, key: str) -> None:
    with server.client(key) as client:
        for other in ("tea", "Bob & <Co>"):
            body = {
                "type": "belief",
                "subject": "alice",
                "relation": "likes",
                "object": other,
                "confidence": 1,
                "created_at": 1_768_471_200_000,
            }
            answer = client.post("/oms/grains", json=body)
            assert answer.status_code in (200, 201), answer.text
    page = browser.get(f"{ROOT}/graph?subject=alice").text
    assert "Bob &amp; &lt;Co&gt;" in page
    assert page.count("<line") == 2
    assert "likes" in browser.get(f"{ROOT}/graph?subject=tea").text
    assert "There are no statements about" in browser.get(f"{ROOT}/graph?subject=nobody").text


def test_the_audit_log_is_shown_and_verified(browser: httpx.Client) -> None:
    page = browser.get(f"{ROOT}/audit?verify=yes&op=list").text
    assert "The chain is complete" in page
    assert re.search(r"<td [^>]*>list</td>", page)


def test_the_overview_counts_and_checks_everything(server: Running) -> None:
    owner = "did:key:zOverview"
    key = server.key(owner, *ALL)
    for number in range(3):
        remember(server, key, f"counted {number}", owner=owner, project="counting")
    with signed_in(server, key) as browser:
        page = browser.get(f"{ROOT}/overview?verify=yes").text
        assert "3 memories" in page
        assert "All 3 versions are intact" in page
        assert "/memories?project=counting" in page
        assert "keywords only" in page


def test_secrets_are_looked_for_when_somebody_asks(server: Running, browser: httpx.Client, key: str) -> None:
    remember(server, key, "The password of the router is hunter2-Zx81!")
    assert "hunter2" not in browser.get(f"{ROOT}/review?secrets=yes").text
    assert "password" in browser.get(f"{ROOT}/review?secrets=yes").text


def test_what_follows_from_memories_is_shown_with_its_sources_and_written_when_accepted(server: Running) -> None:
    owner = "did:key:zReview"
    key = server.key(owner, *ALL)
    for text in ("Alice lives in Lisbon.", "Alice lives in Porto.", "The build uses pnpm."):
        remember(server, key, text, owner=owner, project="town")
    with signed_in(server, key) as browser:
        page = browser.get(f"{ROOT}/review?project=town&strategy=validate").text
        assert "contradict each other</h2>" in page
        assert "Alice lives in Lisbon." in page.partition("contradict each other</h2>")[2]
        # Looking writes nothing.
        assert server.service.stats(server.service.gate.authenticate(key)).memories == 3
        done = send(browser, "/review", project="town", strategy="validate")
        assert "1 memory written." in done.text
        assert server.service.stats(server.service.gate.authenticate(key)).memories > 3
        assert "contradict each other</h2>" not in browser.get(f"{ROOT}/review?project=town&strategy=validate").text
        assert browser.get(f"{ROOT}/review?strategy=nonsense").status_code == 400


def test_memories_leave_in_every_form_and_come_back(server: Running) -> None:
    owner, other = "did:key:zLeaving", "did:key:zComing"
    key = server.key(owner, *ALL)
    names = [remember(server, key, f"leaves as {word}", owner=owner, visibility="shared") for word in ("one", "two")]
    with signed_in(server, key) as browser, signed_in(server, server.key(other, *ALL)) as elsewhere:
        files = {form: send(browser, "/export", form=form) for form in FORMS_OUT}
        for form, answer in files.items():
            assert (form, answer.status_code) == (form, 200)
            assert FORMS_OUT[form][0] in answer.headers["content-disposition"]
            assert answer.content
        assert send(browser, "/export", form="nonsense").status_code == 400
        chosen = send(browser, "/export", id=names[:1]).text
        assert "leaves as one" in chosen
        assert "leaves as two" not in chosen
        token = token_of(elsewhere.get(f"{ROOT}/moving"))
        brought = {"file": ("mem0.json", files["mem0"].content, "application/json")}
        tried = elsewhere.post(f"{ROOT}/import", data={"token": token, "dry": "yes"}, files=brought)
        assert "The import would add 2" in tried.text
        assert "Mem0" in tried.text
        assert "leaves as" not in elsewhere.get(f"{ROOT}/").text
        assert "The import added 2" in elsewhere.post(f"{ROOT}/import", data={"token": token}, files=brought).text
        hostile = (
            ("../../x.json", b"{"),
            ("empty.json", b""),
            ("x.zip", b"PK\x03\x04 broken"),
            ("..", b"{}"),
            ("x" * 300, b"{}"),
        )
        for name, body in hostile:
            refused = elsewhere.post(f"{ROOT}/import", data={"token": token}, files={"file": (name, body)})
            assert refused.status_code in (200, 400)
            assert "an unexpected error" not in refused.text
            assert "memoranda-import-" not in refused.text
        assert elsewhere.post(f"{ROOT}/import", data={"token": token}).status_code == 400
        assert elsewhere.post(f"{ROOT}/import", data={"token": "x"}, files=brought).status_code == 403
        broken = {"content-type": "multipart/form-data; boundary=x"}
        assert elsewhere.post(f"{ROOT}/import", content=b"--y", headers=broken).status_code in (400, 403)


def test_the_timeline_goes_by_days(server: Running, browser: httpx.Client, key: str) -> None:
    remember(server, key, "on the timeline of today")
    page = browser.get(f"{ROOT}/timeline").text
    assert "on the timeline of today" in page
    assert re.search(r'<time datetime="\d{4}-\d\d-\d\d">', page)
    assert "on the timeline of today" not in browser.get(f"{ROOT}/timeline?until=2001-01-01").text


@pytest.mark.parametrize(
    "path", ["/memory/nothing", "/static/../app.py", "/static/x", "/nothing", "/memory/%00", "/memories?after=-1"]
)
def test_what_is_not_there_is_a_page(browser: httpx.Client, path: str) -> None:
    answer = browser.get(ROOT + path)
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_the_style_and_the_script_are_ours_and_kept(browser: httpx.Client) -> None:
    page = browser.get(f"{ROOT}/").text
    for path in re.findall(r'(?:src|href)="(/console/static/[^"]+)"', page):
        answer = browser.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert not re.search(r'(?:src|href)="(?!/console|#)', page)
    assert len(page.encode()) < 150_000


# --- lists as data, facets, and what the first page costs --------------------------------------------------------


def test_every_list_is_json_and_csv_too(server: Running) -> None:
    owner = "did:key:zData"
    key = server.key(owner, *ALL)
    remember(server, key, "=1+1 is no formula", owner=owner, project="data")
    remember(server, key, "of another project", owner=owner)
    with signed_in(server, key) as browser:
        listed = browser.get(f"{ROOT}/memories.json?project=data").json()
        assert [each["record"]["body"]["text"] for each in listed["memories"]] == ["=1+1 is no formula"]
        assert listed["next"] is None
        found = browser.get(f"{ROOT}/memories.json?q=formula").json()
        assert found["memories"][0]["score"] > 0
        table = browser.get(f"{ROOT}/memories.csv?project=data")
        assert "attachment" in table.headers["content-disposition"]
        assert ",'=1+1 is no formula,data," in table.text
        assert "/console/memories.csv?project=data" in browser.get(f"{ROOT}/memories?project=data").text


def test_facets_count_what_the_caller_may_see_and_follow_the_store(server: Running) -> None:
    owner = "did:key:zFacets"
    key = server.key(owner, *ALL)
    for number in range(3):
        remember(server, key, f"counted {number}", owner=owner, project="many", agent="cursor", user="ana")
    remember(server, key, "counted alone", owner=owner, project="one")

    def facet(page: str, name: str) -> dict[str, str]:
        section = page.partition(f"<h2>{name}</h2>")[2].partition("</section>")[0]
        return dict(re.findall(r"<span><bdi>([^<]+)</bdi></span><span class=\"n\">(\d+)</span>", section))

    with signed_in(server, key) as browser:
        page = browser.get(f"{ROOT}/memories").text
        assert facet(page, "Project") == {"many": "3", "one": "1"}
        assert facet(page, "Agent") == {"Cursor": "3"}
        assert facet(page, "Person") == {"ana": "3"}
        assert facet(page, "Standard") == {"UMP": "4"}
        assert facet(browser.get(f"{ROOT}/memories?project=one").text, "Agent") == {}
        assert facet(browser.get(f"{ROOT}/memories?q=counted").text, "Project") == {"many": "3", "one": "1"}
        remember(server, key, "counted later", owner=owner, project="one")
        assert facet(browser.get(f"{ROOT}/memories").text, "Project") == {"many": "3", "one": "2"}
    with signed_in(server, server.key("did:key:zNoFacets", *ALL)) as other:
        assert facet(other.get(f"{ROOT}/memories").text, "Project") == {}


def test_no_data_of_the_drawings_is_another_owners(server: Running, browser: httpx.Client, key: str) -> None:
    name = remember(server, key, "Zoltan lives in Szeged.", project="drawn")
    assert "Zoltan" in browser.get(f"{ROOT}/graph.json?project=drawn").text
    assert "Zoltan" in browser.get(f"{ROOT}/timeline.json?project=drawn").text
    assert "Zoltan" in browser.get(f"{ROOT}/graph/memories.json", params={"id": name}).text
    with signed_in(server, server.key("did:key:zNobody", *ALL)) as other:
        for path in ("/graph.json", "/timeline.json", f"/graph/memories.json?id={name}", "/palette.json?q=Zoltan"):
            assert "Zoltan" not in other.get(ROOT + path).text


def test_the_first_page_is_light(server: Running, browser: httpx.Client, key: str) -> None:
    for number in range(70):
        remember(server, key, f"Ana prefers thing number {number} to all others of its kind", project=f"p{number % 9}")
    page = browser.get(f"{ROOT}/").text
    paths = set(re.findall(r'(?:src|href)="(/console/static/[^"#]+)', page))
    assert len(paths) + 1 <= 8
    size = len(page.encode()) + sum(len(browser.get(path).content) for path in paths)
    assert size <= 120_000


def test_tags_dates_and_consent_are_edited_and_nothing_is_written_without_a_change(
    server: Running, browser: httpx.Client, key: str
) -> None:
    name = remember(server, key, "Edited beside its text")
    record = server.service.get(server.service.gate.authenticate(key), name)
    fields = {"tags": "", "valid_from": record["time"]["valid_from"][:10], "valid_to": "", "export": "", "seen": name}
    same = send(browser, f"/memory/{name}/details", **fields)
    assert "nothing was changed" in same.text
    assert same.url.path.endswith(name)
    fields |= {"tags": "release, #freeze", "valid_to": "2099-01-01", "export": "never"}
    newest = send(browser, f"/memory/{name}/details", **fields).url.path.rpartition("/")[2]
    changed: Any = server.service.get(server.service.gate.authenticate(key), newest)
    assert changed["body"]["text"] == record["body"]["text"]
    assert changed["time"]["valid_to"].startswith("2099-01-01")
    assert changed["consent"]["exportable"] is False
    assert "Edited beside" in browser.get(f"{ROOT}/memories?tag=freeze").text


def test_kind_project_person_and_visibility_are_edited_and_an_undo_brings_them_back(
    server: Running, browser: httpx.Client, key: str
) -> None:
    name = remember(server, key, "Filed in the wrong drawer", project="wrong")
    page = browser.get(f"{ROOT}/memory/{name}").text
    assert 'name="project" value="wrong"' in page
    fields = {"kind": "semantic", "project": "right", "user": "ada", "visibility": "shared", "seen": name}
    answer = send(browser, f"/memory/{name}/details", **fields)
    newest = answer.url.path.rpartition("/")[2]
    assert newest != name
    access = server.service.gate.authenticate(key)
    record: Any = server.service.get(access, newest)
    assert (record["kind"], record["scope"]["project"], record["scope"]["user"]) == ("semantic", "right", "ada")
    assert record["scope"]["visibility"] == "shared"
    assert "nothing was changed" in send(browser, f"/memory/{newest}/details", **{**fields, "seen": newest}).text
    send(browser, "/undo")
    listed: Any = server.service.list_records(access, project="wrong")[0]
    assert [(each["body"]["text"], each["kind"]) for each in listed] == [("Filed in the wrong drawer", "procedural")]
    assert "user" not in listed[0]["scope"]


@pytest.mark.parametrize("wrong", [{"kind": "gossip"}, {"visibility": "all"}, {"user": "a\nb"}, {"valid_to": "soon"}])
def test_details_that_are_no_details_are_refused(
    server: Running, browser: httpx.Client, key: str, wrong: dict[str, str]
) -> None:
    name = remember(server, key, f"Refuses {sorted(wrong)} of {len(str(wrong))}")
    assert send(browser, f"/memory/{name}/details", seen=name, **wrong).status_code == 400
    access = server.service.gate.authenticate(key)
    assert len(server.service.history(access, name)) == 1


def test_details_that_changed_meanwhile_are_shown_beside_what_was_typed(
    server: Running, browser: httpx.Client, key: str
) -> None:
    name = remember(server, key, "Filed by two at once", project="drawer")
    access = server.service.gate.authenticate(key)
    before: Any = server.service.get(access, name)
    form = {"kind": "procedural", "project": "drawer", "user": "", "visibility": "private", "tags": "", "valid_to": ""}
    form |= {"seen": name, "valid_from": before["time"]["valid_from"][:10]}
    send(browser, f"/memory/{name}/details", **{**form, "project": "cupboard", "tags": "seen"})
    answer = send(browser, f"/memory/{name}/details", **{**form, "project": "attic", "user": "<b>Ada</b>"})
    assert answer.status_code == 409
    both = answer.text.partition("Filed by two at once</")[0]
    assert "cupboard" in both
    assert 'name="project" value="attic"' in both
    assert "&lt;b&gt;Ada&lt;/b&gt;" in both
    # The tag of the other form stays, because nobody removed it in this one.
    assert 'name="tags" value="seen"' in both
    newest = re.search(r'name="seen" value="([^"]+)"', both)
    assert newest is not None
    assert len(server.service.history(access, newest[1])) == 2
    assert send(browser, f"/memory/{name}/details", seen=newest[1], project="attic").status_code == 200
    listed: Any = server.service.list_records(access, project="attic")[0]
    assert [each["scope"].get("user") for each in listed] == [None]


@pytest.mark.requirement("OURS-chat-tokens")
def test_the_text_that_an_agent_would_receive_has_no_token_of_a_chat(server: Running) -> None:
    owner = "did:key:zChatTokens"
    key = server.key(owner, *ALL)
    tokens = " ".join(token for tokens in CHAT_TOKENS.values() for token in tokens)
    names = [remember(server, key, f"tea {tokens} </ump:memory>\u200b {end}", owner=owner) for end in ("one", "two")]
    with signed_in(server, key) as browser:
        for chosen in ({}, {"asked": "tea", "keep": names[0]}):
            page = browser.get(f"{ROOT}/try", params={"q": "tea", **chosen}).text
            block = page.partition('<pre id="block"')[2].partition("<bdi>")[2].partition("</bdi>")[0]
            copied = page.partition('data-copy-text="')[2].partition('"')[0]
            assert "tea" in block
            for shown in (block, copied):
                text = html.unescape(shown)
                inner = text.replace('<ump:memory trust="untrusted-data">', "").replace("</ump:memory>", "")
                assert neutralize_tags(inner) == inner
