"""Examples as the founding documents print them, on a running server: each is accepted, or refused for a reason.

Printed ids and owners are cut short ("urn:ump:9f2c…", "did:…"). Where a real one must stand for the example to mean
anything, it is put in; the cut ones themselves are refused, because they are no ids. The block of SML, its levels and
the flagship query are in tests/service/test_founding_documents.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.bindings.http.running import OWNER, Running, running

# --- UMP 0.1 -----------------------------------------------------------------------------------------------

UMP_RECORD: dict[str, Any] = {
    "ump": "0.1",
    "id": "urn:ump:9f2c…",
    "kind": "semantic",
    "body": {"text": "Use pnpm, never npm, in this repo.", "structured": {}},
    "scope": {
        "owner": "did:key:z6Mk…",
        "user": "did:key:z6Mk…",
        "project": "github.com/example/project",
        "agent": "claude-code",
        "session": "sess_abc",
        "visibility": "private",
    },
    "time": {
        "created": "2026-06-04T10:00:00Z",
        "observed": "2026-06-04T09:58:00Z",
        "valid_from": "2026-06-04T00:00:00Z",
        "valid_to": None,
    },
    "lifecycle": {"confidence": 0.82, "salience": 0.6, "decay": "half_life:P90D", "status": "active"},
    "supersedes": ["urn:ump:1a…"],
    "superseded_by": [],
    "relations": [
        {"type": "contradicts", "target": "urn:ump:7b…"},
        {"type": "about", "target": "entity:pnpm"},
    ],
    "provenance": {
        "actor": "did:key:z6Mk…",
        "actor_kind": "user",
        "method": "user_correction",
        "source": {"ref": "sess_abc#turn_12"},
        "evidence": [{"ref": "sess_abc#turn_12", "weight": 1.0}],
    },
    "consent": {"retention": "P365D", "exportable": True, "redact": ["body.structured.token"]},
    "integrity": {"content_hash": "blake3:5e…", "signature": "ed25519:9c…", "signer": "did:key:z6Mk…"},
}
UMP_REMEMBER: dict[str, Any] = {
    "record": {
        "kind": "procedural",
        "body": {"text": "run pnpm gate before handoff"},
        "scope": {"owner": "did:…", "project": "…/recall"},
        "provenance": {"actor": "did:…", "actor_kind": "user", "method": "user_correction"},
    }
}


@pytest.mark.requirement("UMP-examples")
def test_the_printed_record_of_ump_is_stored_once_its_ids_are_whole(client: httpx.Client) -> None:
    cut = client.post("/ump/remember", json={"record": UMP_RECORD})
    assert cut.status_code in (400, 403)
    record = {name: value for name, value in UMP_RECORD.items() if name not in ("id", "integrity", "supersedes")}
    record["scope"] = {**UMP_RECORD["scope"], "owner": OWNER, "user": OWNER}
    record["provenance"] = {**UMP_RECORD["provenance"], "actor": OWNER}
    record["relations"] = UMP_RECORD["relations"][1:]
    made = client.post("/ump/remember", json={"record": record})
    assert made.json()["result"] == "created", made.text
    shown = client.get(f"/ump/memory/{made.json()['id']}").json()["record"]
    assert shown["body"]["text"] == record["body"]["text"]
    for name in ("kind", "lifecycle", "relations", "consent"):
        assert shown[name] == record[name]
    assert shown["time"] == record["time"]


@pytest.mark.requirement("UMP-examples")
def test_the_printed_operations_of_ump_answer_as_printed(client: httpx.Client) -> None:
    capabilities = client.get("/ump/capabilities").json()
    printed = ("server", "ump", "conformance", "kinds", "bindings", "retrieval_signals", "max_recall", "writable")
    assert set(printed) <= set(capabilities)
    assert (capabilities["ump"], capabilities["conformance"], capabilities["writable"]) == ("0.1", "L3", True)
    request = json.loads(json.dumps(UMP_REMEMBER).replace("did:\\u2026", OWNER))
    made = client.post("/ump/remember", json=request).json()
    assert made["result"] in ("created", "merged")
    recall = {
        "query": "package manager for this repo",
        "scope": {"owner": OWNER, "project": "…/recall", "agent": "claude-code"},
        "filter": {"kind": ["semantic", "procedural"], "valid_at": "2026-06-04T10:00:00Z"},
        "limit": 8,
        "ranking_hints": {"prefer": ["recency"]},
    }
    assert set(client.post("/ump/recall", json=recall).json()) >= {"results"}
    patch = {"body": {"text": "Use bun, not pnpm."}, "time": {"valid_from": "2999-06-04T10:00:00Z"}}
    revised = client.post("/ump/revise", json={"id": made["id"], "patch": patch}).json()
    assert revised["supersedes"] == [made["id"]]
    forget = {"id": revised["id"], "reason": "user_revoked", "hard": False}
    assert client.post("/ump/forget", json=forget).json() == {"result": "tombstoned"}
    assert client.get("/ump/memory/urn:ump:aaaaaaaaaaaaaaaaaaaaaaaaaa").json()["error"]["code"] == "not_found"


# --- OAMS 0.1 ----------------------------------------------------------------------------------------------

OAMS_MEMORY: dict[str, Any] = {
    "key": "string",
    "namespace": "string",
    "value": "string",
    "tags": ["string", "..."],
    "metadata": {"...": "..."},
    "created_at": "2026-04-27T12:00:00Z",
    "updated_at": "2026-04-27T12:00:00Z",
    "embedding_model": "string",
    "embedding": [0.0123, -0.0456, "..."],
    "parent_id": "string | null",
    "source_id": "string | null",
}


@pytest.mark.requirement("OAMS-examples")
def test_the_printed_memory_of_oams_is_stored_without_the_dots_in_its_vector(client: httpx.Client) -> None:
    path = "/v1/oams/memories/string/string"
    refused = client.put(path, json=OAMS_MEMORY)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, -32003)
    memory = {**OAMS_MEMORY, "embedding": [0.0123, -0.0456]}
    assert client.put(path, json=memory).status_code in (200, 201)
    shown = client.get(path).json()
    for name in ("key", "value", "tags", "source_id"):
        assert shown[name] == memory[name], name
    # A namespace without an owner is a scope of one's own.
    assert shown["namespace"].endswith(":string")


@pytest.mark.requirement("OAMS-examples")
@pytest.mark.parametrize(
    "namespace",
    ["user-x123ab:personal", "user-x123ab:project-mithril", "org-acme:legal-archive", "agent-research-bot:scratchpad"],
)
def test_the_printed_namespaces_are_read_and_written_by_their_owner(server: Running, namespace: str) -> None:
    memory = {**OAMS_MEMORY, "namespace": namespace, "embedding": [0.5]}
    with server.client(server.key(f"did:example:{namespace.partition(':')[0]}")) as owner:
        path = f"/v1/oams/memories/{quote(namespace, safe='')}/string"
        assert owner.put(path, json=memory).status_code in (200, 201)
        assert owner.get(path).json()["namespace"] == namespace
        query = {"query": "string", "namespaces": [namespace], "k": 8}
        assert [found["key"] for found in owner.post("/v1/oams/recall", json=query).json()] == ["string"]


@pytest.mark.requirement("OAMS-examples")
def test_the_printed_query_over_two_namespaces_of_one_owner_is_answered(server: Running) -> None:
    query: dict[str, Any] = {
        "query": "what did I learn about FedRAMP?",
        "namespaces": ["user-x123ab:personal", "user-x123ab:project-mithril"],
        "k": 8,
    }
    with server.client(server.key("did:example:user-x123ab")) as owner:
        for namespace in query["namespaces"]:
            path = f"/v1/oams/memories/{quote(str(namespace), safe='')}/fedramp"
            memory = {**OAMS_MEMORY, "key": "fedramp", "namespace": namespace, "value": f"FedRAMP in {namespace}"}
            assert owner.put(path, json={**memory, "embedding": [0.5]}).status_code in (200, 201)
        found = owner.post("/v1/oams/recall", json=query).json()
        assert {memory["namespace"] for memory in found} == set(query["namespaces"])
        spanning = {**query, "namespaces": ["user-x123ab:personal", "user-y456cd:personal"]}
        assert owner.post("/v1/oams/recall", json=spanning).json()["error"]["code"] == -32005


# --- openwop agent memory 1.1 ------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-examples")
@pytest.mark.parametrize(
    "ref", ["workspaces/tenant-A/agents/agent-1/memories", "mem://customer-support/agent-1", "agent-1"]
)
def test_the_printed_refs_are_refs(client: httpx.Client, ref: str) -> None:
    path = f"/v1/memory/{quote(ref, safe='')}"
    made = client.post(path, json={"content": "The customer prefers email follow-up.", "tags": ["tenant-A"]})
    assert made.status_code == 201
    assert [entry["id"] for entry in client.get(path, params={"tag": "tenant-A"}).json()["entries"]] == [
        made.json()["id"]
    ]
    # An id with a tenant as prefix, as the document prints one, is a host's own.
    assert (
        client.put(f"{path}/{quote('tenant-A:mem-1', safe='')}", json={"content": "x"}).json()["id"] == "tenant-A:mem-1"
    )


# --- CAL 1.0 -----------------------------------------------------------------------------------------------

CAL_ADD = '''CAL/1 ADD reasoning
SET subject = "customer:priya"
SET relation = "dispute_analysis"
SET object = "charge-2026-02-28"
SET content = "Charge matches annual plan renewal on 2026-02-28. Customer last contacted re: plan in Jan. \
Likely unrecognised due to annual cycle."
SET confidence = 0.91
SET tags = ["support:billing", "resolution:explain"]
REASON "agent inferred cause from renewal date and contact history"'''
CAL_RECALL = """CAL/1 RECALL workflows
WHERE tags INCLUDE ["support:billing"]
AND goal_state = "open"
ORDER BY time DESC
LIMIT 50
FORMAT markdown"""


@pytest.mark.requirement("CAL-examples")
def test_the_printed_statements_of_cal_run(tmp_path: Path) -> None:
    with (
        running(tmp_path / "home", settings={"cal_evolve": "on"}) as server,
        server.client(server.key()) as client,
    ):
        prepared = client.post("/cal/prepare", json={"query": CAL_ADD})
        assert prepared.status_code == 200, prepared.text
        done = client.post("/cal/execute", json={"token": prepared.json()["token"]})
        assert done.status_code == 200, done.text
        read = 'RECALL reasonings WHERE subject = "customer:priya" AND tags INCLUDE ["support:billing"] FORMAT json'
        assert "annual cycle" in client.post("/cal", json={"query": read}).text
        assert client.post("/cal", json={"query": CAL_RECALL}).status_code == 200
