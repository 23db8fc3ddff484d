"""HTTP needs no ceremony: what the credential tells need not be said, ids may be short, and limits answer 429."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.bindings.http.running import OWNER, Running, error_of, path_of, running

from memoranda.service.core.limits import Quotas
from memoranda.standards.oams.namespace import namespace_of

GRAIN = {
    "type": "belief",
    "subject": "ada",
    "relation": "likes",
    "object": "tea",
    "confidence": 0.9,
    "created_at": 1_780_000_000_000,
}


def test_owner_and_provenance_are_the_credentials(server: Running, client: httpx.Client) -> None:
    answer = client.post("/ump/remember", json={"kind": "semantic", "body": {"text": "the sky is blue"}})
    assert answer.json()["result"] == "created"
    record = client.get(path_of(answer.json()["id"])).json()["record"]
    assert record["scope"]["owner"] == OWNER
    assert record["provenance"]["actor"] == "key:test"
    assert (record["provenance"]["actor_kind"], record["provenance"]["method"]) == ("agent", "http")
    wrapped = client.post("/ump/remember", json={"record": {"kind": "semantic", "body": {"text": "the sky is blue"}}})
    assert wrapped.json() == {"id": answer.json()["id"], "result": "merged"}
    placed = {
        "kind": "semantic",
        "body": {"text": "grass"},
        "scope": {"project": "p"},
        "provenance": {"source": {"ref": "x"}},
    }
    record = client.get(path_of(client.post("/ump/remember", json=placed).json()["id"])).json()["record"]
    assert record["scope"]["project"] == "p"
    assert (record["provenance"]["method"], record["provenance"]["source"]) == ("http", {"ref": "x"})
    # Somebody else's word is still not his own to give.
    other = {**placed, "scope": {"owner": "did:example:other"}}
    assert error_of(client.post("/ump/remember", json=other)) == (403, "forbidden_scope")


def test_the_latest_are_listed_in_pages_and_named_by_short_ids(server: Running) -> None:
    owner = "did:example:lister"
    with server.client(server.key(owner)) as client:
        for number in range(5):
            draft = {"kind": "semantic", "body": {"text": f"fact {number}"}, "scope": {"project": "p", "user": "ada"}}
            client.post("/ump/remember", json=draft)
        first = client.get("/ump/memories", params={"project": "p", "limit": 3}).json()
        rest = client.get("/ump/memories", params={"user": "ada", "limit": 3, "cursor": first["next_cursor"]}).json()
        texts = [record["body"]["text"] for record in (*first["records"], *rest["records"])]
        assert texts == [f"fact {number}" for number in (4, 3, 2, 1, 0)]
        assert rest["next_cursor"] is None
        assert client.get("/ump/memories", params={"project": "q"}).json()["records"] == []
        assert client.get("/ump/memories", params={"projcet": "p"}).status_code == 400
        name = first["records"][0]["id"]
        assert client.get(f"/ump/memory/{name[8:16]}").json()["record"]["id"] == name
        assert len(client.get(f"/ump/memory/{name[8:16]}/history").json()["versions"]) == 1
        revised = client.post("/ump/revise", json={"id": name[8:14], "patch": {"body": {"text": "x"}}}).json()
        assert revised["supersedes"] == [name]
        assert client.post("/ump/forget", json={"id": revised["id"][8:20]}).json() == {"result": "tombstoned"}
        block = client.post("/ump/rehydrate", json={"query": "fact", "ids": True}).json()["text"]
        assert f"- {rest['records'][0]['id'][8:16]} [semantic project:p] fact 1" in block
        address = client.post("/oms/grains", json={"grain": GRAIN}).json()["address"]
        assert client.get(f"/oms/grains/{address[:10]}").json()["address"] == address


def test_a_limit_beyond_the_maximum_is_answered_with_a_warning(server: Running, client: httpx.Client) -> None:
    namespace = client.get("/v1/oams/namespaces").json()["default"]
    client.post("/ump/remember", json={"kind": "semantic", "body": {"text": "one of few"}})
    for limit, is_cut in ((50, False), (100_000, True)):
        answers = (
            client.post("/ump/recall", json={"query": "x", "limit": limit}),
            client.post("/ump/rehydrate", json={"query": "x", "limit": limit}),
            client.get("/ump/memories", params={"limit": limit}),
            client.get(f"/v1/oams/memories/{namespace}", params={"limit": limit}),
        )
        assert [answer.status_code for answer in answers] == [200] * 4, [answer.text for answer in answers]
        warnings = [answer.headers.get("x-memoranda-warning", "") for answer in answers]
        assert [f"and {limit} were requested" in warning for warning in warnings] == [is_cut] * 4


@pytest.mark.requirement("OURS-closed-doors")
def test_every_standard_says_429_and_when_to_come_back(tmp_path: Path) -> None:
    with running(tmp_path / "home", quotas=Quotas(memories=1)) as started, started.client(started.key()) as client:
        draft = {"kind": "semantic", "body": {"text": "the only one"}}
        assert client.post("/ump/remember", json=draft).status_code == 200
        memory = {"namespace": namespace_of("", OWNER), "key": "k", "value": "x"}
        for path, body in (
            ("/ump/remember", {"kind": "semantic", "body": {"text": "one too many"}}),
            ("/oms/grains", {"grain": GRAIN}),
            ("/v1/oams/memories/batch", {"memories": [memory]}),
            ("/v1/memory/default", {"content": "one too many"}),
        ):
            answer = client.post(path, json=body)
            assert answer.status_code == 429, (path, answer.text)
            assert int(answer.headers["retry-after"]) >= 1
