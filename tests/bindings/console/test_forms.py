"""Every form of the console with each field missing, empty, repeated and odd is answered; none fails on our side."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from tests.bindings.console.browsing import ALL, signed_in, token_of
from tests.bindings.http.running import OWNER, Running, draft
from tests.standards.openwop.samples import ARTIFACTS

from memoranda.bindings.console.pages import FORMS, PAGES
from memoranda.bindings.console.visit import ROOT
from memoranda.encoding.json_text import dump
from memoranda.service.core.access import Access

Fields = Mapping[str, str]
# No number, no id, no date, no JSON; and characters that some parser may stumble over.
ODD = ("\x00", "٣", "-1", "9" * 400, "{", "http://[", "\ud800", "é\u202e" * 700, "urn:ump:" + "a" * 52)
# A handler reads a field by one of these.
READ = re.compile(r'\b(?:given|required|asked|moment|get)\((?:visit, )?"(\w+)"')


class Owner:
    """Somebody with a session, whose memories are made as a form needs them."""

    def __init__(self, server: Running, browser: httpx.Client, access: Access) -> None:
        self.server, self.browser, self.access = server, browser, access
        self.token = token_of(browser.get(f"{ROOT}/overview"))
        self._count = 0

    def memory(self, text: str = "a memory of its own") -> str:
        self._count += 1
        access = self.access
        record = draft(f"{text} {self._count}", owner=access.default_tenant)
        return self.server.service.remember(access, record).id

    def proposal(self) -> str:
        access = self.access
        made = self.server.service.openwop.propose(access, "automation", ARTIFACTS["automation"], title="a proposal")
        return str(made["id"])

    def key(self) -> str:
        return self.server.key(self.access.default_tenant).removeprefix("mk_").partition("_")[0]

    def post(self, path: str, fields: list[tuple[str, str]]) -> httpx.Response:
        body = urlencode([("token", self.token), *fields], errors="surrogatepass")
        return self.send("POST", path, content=body, headers={"content-type": "application/x-www-form-urlencoded"})

    def send(self, method: str, path: str, **how: Any) -> httpx.Response:
        return self.browser.request(method, ROOT + path, follow_redirects=False, **how)


@pytest.fixture
def owner(server: Running) -> Iterator[Owner]:
    credential = server.key(OWNER, *ALL)
    with signed_in(server, credential) as browser:
        yield Owner(server, browser, server.service.gate.authenticate(credential))


# The name in the address of a form, and valid fields for it.
Filled = Callable[[Owner], tuple[str, Fields]]
_PLACE = {"project": "p", "strategy": "validate"}


def _none(_: Owner) -> tuple[str, Fields]:
    return "none", {}


FILLED: Mapping[str, Filled] = {
    "/remember": lambda owner: ("", {"text": "tea", "kind": "semantic", "project": "p"}),
    "/forget": lambda owner: ("", {"id": owner.memory(), "reason": "over", "next": "/review?orders=yes"}),
    "/undo": lambda owner: (owner.memory(), {}),
    "/memory/{id}/revise": lambda owner: ((name := owner.memory()), {"text": "new", "seen": name}),
    "/redo": _none,
    "/memory/{id}/restore": lambda owner: ((name := owner.memory()), {"version": name}),
    "/memory/{id}/details": lambda owner: (
        (name := owner.memory()),
        {"tags": "a, b", "valid_from": "2026-01-01", "valid_to": "2027-01-01", "export": "never", "seen": name}
        | {"kind": "semantic", "project": "p2", "user": "ada", "visibility": "shared"},
    ),
    "/memory/{id}/forget": lambda owner: (owner.memory(), {"hard": "yes", "typed": "erase", "reason": "over"}),
    "/memory/{id}/hold": lambda owner: (owner.memory(), {"held": "yes"}),
    "/review/{id}/approve": lambda owner: (owner.proposal(), {}),
    "/review/{id}/reject": lambda owner: (owner.proposal(), {"reason": "no"}),
    "/review/{id}/revise": lambda owner: (
        owner.proposal(),
        {"artifact": dump(ARTIFACTS["automation"]).decode()},
    ),
    "/review/refuse": lambda owner: ("", {**_PLACE, "key": "k"}),
    "/review/right": lambda owner: ("", {**_PLACE, "wrong": owner.memory()}),
    "/review/keep": lambda owner: (
        "",
        {"key": "duplicate:1", "right": (name := owner.memory()), "input": name, "next": "/review"},
    ),
    "/review/end": lambda owner: ("", {"id": owner.memory(), "key": "stale:1", "day": "2027-01-01"}),
    "/review/dismiss": lambda owner: ("", {"key": "stale:1"}),
    "/review/redact": lambda owner: ("", {"id": owner.memory("password=hunter2hunter2"), "after": "0"}),
    "/review/allow": lambda owner: ("", {"id": owner.memory(), "after": "0"}),
    "/review/undo": lambda owner: ("", {"run": "dream-1"}),
    "/review": lambda owner: ("", {**_PLACE, "key": "k", "text": "in other words"}),
    "/export": lambda owner: ("", {"form": "ndjson", "id": owner.memory()}),
    "/import": lambda owner: ("", {"dry": "yes", "upload": "a" * 32}),
    "/import/part": lambda owner: ("", {"upload": "a" * 32, "offset": "0"}),
    "/import/undo": _none,
    "/rules": lambda owner: ("", {"memories": "100000", "bytes": "0", "writes_per_minute": "0", "preset": ""}),
    "/keys": lambda owner: ("", {"name": "laptop", "scope": "read"}),
    "/keys/{id}/rotate": lambda owner: (owner.key(), {}),
    "/keys/{id}/revoke": lambda owner: (owner.key(), {}),
    "/tokens": lambda owner: ("", {"days": "1", "audience": "did:web:a.example", "verb": "read", "project": "p"}),
    "/tokens/revoke": lambda owner: ("", {"token_text": owner.server.token}),
    "/sessions/{id}/end": _none,
}


def _names(show: Callable[..., Any], given: Fields) -> list[str]:
    """Return the fields of a form: those that fill it, and those that any handler of its module reads."""
    return sorted({*given, *READ.findall(inspect.getsource(sys.modules[show.__module__]))})


def _variants(given: Fields, name: str) -> Iterator[list[tuple[str, str]]]:
    """Yield a form with one field missing, empty, repeated, and with something odd in it."""
    others = [(each, value) for each, value in given.items() if each != name]
    value = given.get(name, "x")
    if name in given:
        yield others
    yield [*others, (name, "")]
    yield [*others, (name, value), (name, value)]
    yield [*others, (name, ""), (name, value)]


def _check(answer: httpx.Response, *sent: object) -> None:
    assert answer.status_code < 500, (sent, answer.status_code)
    # A person sees a page, or a file.
    assert answer.status_code == 303 or "application/json" not in answer.headers["content-type"], sent


def test_every_form_is_tried() -> None:
    assert FILLED.keys() == FORMS.keys()


@pytest.mark.parametrize("path", FORMS)
def test_a_form_with_a_field_missing_empty_or_repeated_is_answered(owner: Owner, path: str) -> None:
    for name in _names(FORMS[path], FILLED[path](owner)[1]):
        for number in range(4):
            at, given = FILLED[path](owner)
            fields = dict(enumerate(_variants(given, name))).get(number)
            if fields is not None:
                _check(owner.post(path.replace("{id}", at), fields), path, fields)


@pytest.mark.parametrize("path", FORMS)
def test_a_form_with_something_odd_in_a_field_is_answered(owner: Owner, path: str) -> None:
    for name in ("", *FILLED[path](owner)[1]):
        for odd in ODD:
            at, given = FILLED[path](owner)
            fields = [*given.items(), ("id", odd)] if not name else [*{**given, name: odd}.items()]
            _check(owner.post(path.replace("{id}", at), fields), path, fields)


@pytest.mark.parametrize("path", [path for path in (*FORMS, *PAGES) if "{id}" in path])
@pytest.mark.parametrize("at", ["%00", "%ff", "%F0%9F%8D%B5", "a" * 5_000, "urn:ump:" + "a" * 52, "%2e%2e", "zq7zq7"])
def test_an_address_that_names_nothing_is_answered(owner: Owner, path: str, at: str) -> None:
    if path in FORMS:
        _check(owner.post(path.replace("{id}", at), [*FILLED[path](owner)[1].items()]), path, at)
    else:
        _check(owner.send("GET", path.replace("{id}", at)), path, at)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_with_a_field_empty_repeated_or_odd_is_answered(owner: Owner, path: str) -> None:
    address, names = path.replace("{id}", owner.memory()), _names(PAGES[path], {})
    asked = [[(name, value) for value in values] for name in names for values in ([""], ["x", "x"])]
    for fields in (*asked, *([(name, odd[:40]) for name in names] for odd in ODD)):
        query = urlencode(fields, errors="surrogatepass")
        answer = owner.send("GET", f"{address}?{query}")
        assert answer.status_code < 500, (address, query, answer.status_code)


# --- before anybody has signed in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/enter"])
def test_whatever_a_stranger_sends_is_answered(server: Running, path: str) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded"}
    for name in ("key", "next", "token", "link"):
        for values in ([], [""], ["x", "x"], *([odd] for odd in ODD)):
            said = urlencode([(name, value) for value in values], errors="surrogatepass")
            with server.client("") as stranger:
                if path != "/enter":
                    _check(stranger.post(ROOT + path, content=said, headers=kind), path, said)
                if path != "/sign-out":
                    _check(stranger.get(f"{ROOT}{path}?{said}"), path, said)


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [path for path in FORMS if "{id}" not in path])
def test_a_form_with_files_where_none_belong_is_answered(owner: Owner, path: str) -> None:
    one, other = ("file", ("a.json", b"[]")), ("file", ("b.json", b"[]"))
    bare = ("file", ("", b""))
    for files in ([one], [one, other], [bare], [("text", ("a.txt", b"x"))], [("token", ("a.txt", b"x"))]):
        answer = owner.send("POST", path, data={"token": owner.token}, files=files)
        _check(answer, path, files)
    for body in (b"", b"--x", b"--x\r\n\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\nx\r\n--x--"):
        kind = {"content-type": "multipart/form-data; boundary=x"}
        _check(owner.send("POST", path, content=body, headers=kind), path, body)
    _check(owner.send("POST", path, content=b"x", headers={"content-type": "multipart/form-data"}), path)
