"""Every route, asked as it should be."""

from __future__ import annotations

import httpx
import pytest
from tests.bindings.http.running import OWNER, Running, draft, error_of, path_of, remember

from memoranda.standards.ump.signature import verify


@pytest.mark.requirement("UMP-3.4-get")
def test_a_memory_is_remembered_and_read_back_as_a_signed_record(client: httpx.Client) -> None:
    answer = client.post("/ump/remember", json=draft("prefer tabs in makefiles"))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"] == "created"
    record = client.get(path_of(answer.json()["id"])).json()["record"]
    # The operator's token says whose word it is; whom the draft names is kept as a claim.
    claimed = {"memoranda:claimed": {"actor": OWNER, "actor_kind": "user"}}
    assert record["body"] == {"text": "prefer tabs in makefiles", "structured": claimed}
    assert record["provenance"]["actor"] != OWNER
    assert verify(record)


def test_a_draft_may_be_wrapped_in_record(client: httpx.Client) -> None:
    answer = client.post("/ump/remember", json={"record": draft("wrapped as in the specification")})
    assert answer.json()["result"] == "created"


def test_the_same_fact_again_is_merged(client: httpx.Client) -> None:
    first = client.post("/ump/remember", json=draft("the same fact twice")).json()
    second = client.post("/ump/remember", json=draft("the same fact twice")).json()
    assert second == {"id": first["id"], "result": "merged"}


def test_recall_gives_records_with_signals_and_a_score(client: httpx.Client) -> None:
    name = remember(client, "the staging database is called marmot")
    results = client.post("/ump/recall", json={"query": "marmot database", "scope": {"project": "p"}}).json()["results"]
    assert results[0]["record"]["id"] == name
    assert set(results[0]) == {"record", "signals", "score", "relevance"}
    assert set(results[0]["signals"]) == {"similarity", "recency", "salience", "scope_match", "provenance_depth"}


def test_an_id_is_found_with_its_colons_bare_too(client: httpx.Client) -> None:
    name = remember(client, "bare colons")
    assert client.get(f"/ump/memory/{name}").json()["record"]["id"] == name


def test_a_revision_supersedes_and_history_shows_both(client: httpx.Client) -> None:
    name = remember(client, "the old gate")
    answer = client.post("/ump/revise", json={"id": name, "patch": {"body": {"text": "the new gate"}}})
    assert answer.status_code == 200
    successor = answer.json()["id"]
    assert answer.json()["supersedes"] == [name]
    assert client.get(path_of(name)).json()["record"]["superseded_by"] == [successor]
    versions = client.get(f"{path_of(successor)}/history").json()["versions"]
    assert [version["record"]["body"]["text"] for version in versions][-1] == "the new gate"
    assert all(version["verified"] for version in versions)


@pytest.mark.parametrize(("hard", "result"), [(False, "tombstoned"), (True, "erased")])
def test_forgetting_says_what_it_did(client: httpx.Client, hard: bool, result: str) -> None:
    name = remember(client, f"a throwaway note {hard}")
    answer = client.post("/ump/forget", json={"id": name, "reason": "test", "hard": hard})
    assert (answer.status_code, answer.json()) == (200, {"result": result})


def test_feedback_is_accepted(client: httpx.Client) -> None:
    name = remember(client, "a memory that helps")
    answer = client.post("/ump/feedback", json={"id": name, "outcome": "followed", "session": "s"})
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


def test_rehydration_frames_what_it_recalls_and_says_what_it_dropped(client: httpx.Client) -> None:
    name = remember(client, "the frobnicator wants oil")
    other = remember(client, "the frobnicator is public", visibility="public")
    answer = client.post("/ump/rehydrate", json={"query": "frobnicator", "max_visibility": "private"}).json()
    assert answer["text"].startswith('<ump:memory trust="untrusted-data">')
    assert name in answer["injected"]
    assert {"id": other, "reason": "visibility"} in answer["dropped"]
    # All that is the owner's own, unless it is said how far: what was shared, too.
    for more in ({"max_visibility": "public"}, {}):
        whole = client.post("/ump/rehydrate", json={"query": "frobnicator", **more}).json()
        assert "dropped" not in whole
        assert {name, other} <= set(whole["injected"])


def test_audit_lists_what_was_done_and_the_chain_holds(client: httpx.Client) -> None:
    name = remember(client, "an audited memory")
    events = client.post("/ump/audit", json={"op": "remember", "target": name}).json()["events"]
    assert [event["result"] for event in events] == ["created"]
    report = client.get("/ump/audit/verify").json()
    assert set(report) == {"ok", "count"}
    assert report["ok"] is True
    assert client.get("/ump/audit/verify", params={"owner": OWNER}).json()["ok"] is True


def test_an_empty_post_body_is_an_empty_object(client: httpx.Client) -> None:
    assert client.post("/ump/audit").status_code == 200
    assert error_of(client.post("/ump/recall")) == (400, "invalid_record")


@pytest.mark.parametrize("path", ["/ump/capabilities", "/.well-known/ump.json", "/healthz", "/readyz", "/openapi.json"])
def test_discovery_and_health_need_no_credential(server: Running, path: str) -> None:
    with server.client("") as stranger:
        assert stranger.get(path).status_code == 200
        head = stranger.head(path)
        assert (head.status_code, head.content) == (200, b"")


@pytest.mark.requirement("UMP-4.3-well-known")
def test_the_manifest_names_the_address_it_was_asked_at(server: Running) -> None:
    with server.client("") as stranger:
        manifest = stranger.get("/.well-known/ump.json").json()
        assert manifest["endpoint"] == server.url


@pytest.mark.requirement("UMP-4.3-exports")
def test_the_manifest_points_at_an_export_that_can_be_read(server: Running, client: httpx.Client) -> None:
    with server.client("") as stranger:
        (export,) = stranger.get("/.well-known/ump.json").json()["exports"]
    assert (export["url"], export["format"]) == (f"{server.url}/ump/export", "json")
    written = client.post("/ump/remember", json=draft("tea")).json()["id"]
    ids: set[str] = set()
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(export["url"], params={"cursor": cursor} if cursor else {}).json()
        ids |= {record["id"] for record in page[export["records"].removeprefix("/")]}
        cursor = page[export["next_cursor"].removeprefix("/")]
    assert written in ids


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("GET", "/ump"),
        ("GET", "/ump/recall"),
        ("POST", "/ump/recall/"),
        ("POST", "/ump/capabilities"),
        ("DELETE", "/ump/memory/urn%3Aump%3Aabc"),
        ("GET", "/ump/memory/"),
        ("PUT", "/ump/remember"),
        ("OPTIONS", "/ump/remember"),
        ("POST", "/ump/nothing"),
    ],
)
def test_an_unknown_route_or_method_is_no_route(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert error_of(answer) == (404, "not_found")
    assert answer.json()["error"]["message"] == "no route"


def test_an_encoded_slash_belongs_to_its_name(client: httpx.Client) -> None:
    answer = client.get("/ump/memory/a%2Fb")
    assert error_of(answer) == (404, "not_found")
    assert answer.json()["error"]["message"] == "not_found: no memory a/b"


def test_every_answer_carries_the_security_headers(client: httpx.Client) -> None:
    for answer in (client.get("/healthz"), client.get("/nowhere"), client.post("/ump/recall", json={"query": "x"})):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
