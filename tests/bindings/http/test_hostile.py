"""Malformed requests: a clear refusal each, never a 500, and the server lives on."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bindings.http.running import (
    OWNER,
    Running,
    connect,
    draft,
    error_of,
    path_of,
    raw_request,
    remember,
    running,
)

from memoranda.bindings.http import protocol

POST_PATHS = (
    "/ump/recall",
    "/ump/rehydrate",
    "/ump/remember",
    "/ump/revise",
    "/ump/forget",
    "/ump/feedback",
    "/ump/audit",
)
NESTED = b"[" * 100_000 + b"]" * 100_000
MALFORMED = {
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "a string": b'"x"',
    "not JSON": b"{",
    "two values": b"{} {}",
    "deep nesting": NESTED,
    "nesting inside a field": b'{"query":' + NESTED + b"}",
    "bad UTF-8": b'{"query":"\xff"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a duplicate key": b'{"query":"a","query":"b"}',
    "NaN": b'{"limit":NaN}',
    "a huge number": b'{"limit":1e999}',
    "an integer of many digits": b'{"limit":' + b"9" * 5000 + b"}",
    "a lone surrogate": b'{"query":"\\ud800"}',
    "only spaces": b"   ",
}


@pytest.mark.parametrize("path", POST_PATHS)
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.requirement("OURS-no-500")
def test_a_malformed_body_is_refused(client: httpx.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert error_of(answer) == (400, "invalid_record")


@pytest.mark.parametrize(
    "line", [b"GET /console/?q=\xd8\x00 HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET /oauth/none?\xff HTTP/1.1"]
)
def test_a_strange_target_is_refused(server: Running, line: bytes) -> None:
    status, _ = raw_request(server, line + b"\r\n")
    assert 400 <= status < 500


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/ump/recall", {"query": 7}),
        ("/ump/recall", {"query": "  "}),
        ("/ump/recall", {"query": "x" * 9000}),
        ("/ump/recall", {"query": "x", "scope": "mine"}),
        ("/ump/recall", {"query": "x", "scope": {"owner": "a\x00b"}}),
        ("/ump/recall", {"query": "x", "filter": {"colour": "red"}}),
        ("/ump/recall", {"query": "x", "filter": {"valid_at": "yesterday"}}),
        ("/ump/recall", {"query": "x", "limit": -1}),
        ("/ump/recall", {"query": "x", "limit": True}),
        ("/ump/rehydrate", {"query": "x", "max_chars": 0}),
        ("/ump/rehydrate", {"query": "x", "max_visibility": "everyone"}),
        ("/ump/remember", {"record": None}),
        ("/ump/remember", draft("")),
        ("/ump/remember", {**draft(), "id": "urn:ump:NOT"}),
        ("/ump/remember", {**draft(), "time": {"created": "never"}}),
        ("/ump/revise", {"id": "urn:ump:aaaa"}),
        ("/ump/revise", {"id": "urn:ump:aaaa", "patch": {}}),
        ("/ump/revise", {"id": "urn:ump:aaaa", "patch": {"scope": {"owner": "me"}}}),
        ("/ump/revise", {"id": "a\x00b", "patch": {"body": {"text": "x"}}}),
        ("/ump/forget", {"id": ["urn:ump:aaaa"]}),
        ("/ump/forget", {"id": "urn:ump:aaaa", "hard": "yes"}),
        ("/ump/forget", {"id": "\x00"}),
        ("/ump/feedback", {"id": "urn:ump:aaaa", "outcome": "liked"}),
        ("/ump/audit", {"limit": 0}),
        ("/ump/audit", {"since": "yesterday"}),
        ("/ump/audit", {"colour": "red"}),
    ],
)
def test_a_wrong_field_is_refused(client: httpx.Client, path: str, body: object) -> None:
    answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert error_of(answer) == (400, "invalid_record")


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/ump/revise", {"patch": {"body": {"text": "x"}}}),
        ("/ump/forget", {}),
        ("/ump/feedback", {"outcome": "followed"}),
    ],
)
def test_an_unknown_id_is_not_found(client: httpx.Client, path: str, more: dict[str, Any]) -> None:
    assert error_of(client.post(path, json={"id": "urn:ump:aaaa", **more})) == (404, "not_found")


@pytest.mark.parametrize(
    "path",
    [
        "/ump/memory/urn%3Aump%3Aaaaa",
        "/ump/memory/%",
        "/ump/memory/%zz",
        "/ump/memory/%00",
        "/ump/memory/%ff%fe",
        "/ump/memory/%ED%A0%80",
        "/ump/memory/" + "a" * 20_000,
        "/ump/memory/..",
        "/ump/memory/%00/history",
        "/ump/memory/%2e%2e%2f%2e%2e/history",
    ],
)
def test_an_impossible_id_is_not_found(server: Running, path: str) -> None:
    status, body = raw_request(server, f"GET {path} HTTP/1.1\r\nAuthorization: Bearer {server.token}\r\n".encode())
    assert (status, json.loads(body)["error"]["code"]) == (404, "not_found")


def test_ten_megabytes_are_refused_whether_their_length_is_stated_or_not(client: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    big = b'{"query":"' + b"x" * 10_000_000 + b'"}'
    assert error_of(client.post("/ump/recall", content=big, headers=headers)) == (400, "invalid_record")
    chunks = (big[start : start + 65_536] for start in range(0, len(big), 65_536))
    assert error_of(client.post("/ump/recall", content=chunks, headers=headers)) == (400, "invalid_record")
    assert client.post("/ump/recall", json={"query": "x"}).status_code == 200


def test_a_body_in_chunks_is_read(client: httpx.Client) -> None:
    text = json.dumps(draft("a memory in chunks " + "x" * 100_000)).encode()
    chunks = (text[start : start + 1000] for start in range(0, len(text), 1000))
    answer = client.post("/ump/remember", content=chunks, headers={"content-type": "application/json; charset=utf-8"})
    assert answer.json()["result"] == "created"


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_of_another_type_is_refused(client: httpx.Client, media_type: str) -> None:
    answer = client.post("/ump/audit", content=b"{}", headers={"content-type": media_type})
    assert error_of(answer) == (400, "invalid_record")


def test_a_body_without_a_type_is_read_as_json(client: httpx.Client) -> None:
    assert client.post("/ump/audit", content=b"{}").status_code == 200


@pytest.mark.parametrize(
    "query",
    ["owner=a&owner=b", "owner=%ff", "colour=red", "owner=", "owner=%00", "visibility=none", "&".join(["a=1"] * 99)],
)
def test_a_bad_query_is_refused(client: httpx.Client, query: str) -> None:
    assert error_of(client.get(f"/ump/subscribe?{query}")) == (400, "invalid_record")


def test_a_bad_query_of_the_audit_check_is_refused(client: httpx.Client) -> None:
    assert error_of(client.get("/ump/audit/verify?colour=red")) == (400, "invalid_record")
    assert error_of(client.get("/ump/audit/verify?owner=a&owner=b")) == (400, "invalid_record")


@pytest.mark.parametrize(
    "request_head",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /ump/recall HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /ump/recall HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ],
)
def test_what_is_not_http_is_refused(server: Running, client: httpx.Client, request_head: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(request_head)
        first = connection.recv(65_536)
    assert first.startswith((b"HTTP/1.1 400", b"HTTP/1.1 401"))
    assert client.get("/healthz").status_code == 200


def test_a_head_without_end_is_cut_off(server: Running, client: httpx.Client) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(b"x" * 10_000)
            assert connection.recv(1) == b""
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("begun", [b"", b"GET /hea", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he"])
def test_a_head_that_never_ends_is_not_waited_for(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS_LIMIT", 0.2)
    with running(tmp_path_factory.mktemp("slow") / "home") as started, connect(started) as connection:
        connection.sendall(begun)
        received = b""
        while b"alive" not in received and begun.endswith(b"GET /he"):
            received += connection.recv(65_536)
        if begun:
            connection.sendall(b"a")
        assert connection.recv(65_536) == b""


def test_a_store_that_is_closed_is_unavailable(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("closed") / "home") as started, started.client() as client:
        name = remember(client)
        started.service.close()
        assert error_of(client.get(path_of(name))) == (503, "unavailable")
        assert error_of(client.get("/readyz")) == (503, "unavailable")
        assert client.get("/healthz").status_code == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
RECORD_FIELDS = (
    *("kind", "body", "scope", "provenance", "time", "lifecycle", "relations", "consent", "integrity"),
    *("supersedes", "superseded_by", "ump", "id"),
)
REQUEST_FIELDS = (
    *("query", "scope", "filter", "limit", "ranking_hints", "actor", "id", "patch", "hard", "reason", "outcome"),
    *("session", "record", "op", "since", "max_chars", "budget_chars", "max_visibility"),
)
# Real names with wrong values reach further in than random names do.
NEARLY = st.dictionaries(st.sampled_from(REQUEST_FIELDS + RECORD_FIELDS), JSON, max_size=6).map(
    lambda fields: {"query": "x", "id": "urn:ump:aaaa", **fields}
)


@pytest.mark.parametrize("path", POST_PATHS)
@settings(max_examples=60)
@given(body=JSON | NEARLY)
@pytest.mark.requirement("OURS-no-500")
def test_no_json_value_makes_the_server_fail(client: httpx.Client, path: str, body: Any) -> None:
    answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    if answer.status_code == 200:
        assert isinstance(answer.json(), dict)
    else:
        assert error_of(answer)[0] in (400, 403, 404)


@settings(max_examples=100)
@given(changed=st.dictionaries(st.sampled_from(RECORD_FIELDS), JSON, min_size=1, max_size=2))
def test_no_damaged_draft_makes_the_server_fail(client: httpx.Client, changed: dict[str, Any]) -> None:
    body = {**draft("a damaged draft", owner=OWNER), **changed}
    answer = client.post("/ump/remember", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == 200 or error_of(answer)[0] == 400
