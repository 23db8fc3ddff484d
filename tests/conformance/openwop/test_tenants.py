"""Another tenant, and nobody at all: neither learns anything (CTI-1)."""

from __future__ import annotations

import uuid

import pytest
from tests.conformance.openwop.host import Checks, Host, memory
from tests.conformance.openwop.shapes import ERROR, has_shape

SEAMS = (
    "/v1/test/memory/seed",
    "/v1/test/memory/compact",
    "/v1/host/sample/memory/distill",
    "/v1/host/sample/memory/consolidate",
    "/v1/host/sample/commitment/fire",
)
ROUTES = (
    *(("POST", path) for path in (*SEAMS, "/v1/runs", "/v1/runs/x:fork", "/v1/host/runs")),
    *(("GET", path) for path in ("/v1/runs/x", "/v1/runs/x/events", "/v1/agents", "/v1/memory/x", "/v1/memory/x/y")),
    *(("GET", path) for path in ("/v1/host/workspace/files", "/v1/host/sample/proposals", "/v1/nothing")),
    ("PUT", "/v1/host/workspace/files/x"),
)


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.requirement("WOP-5-auth")
@pytest.mark.requirement("WOP-5-seams")
def test_nothing_is_done_without_a_credential(host: Host, checks: Checks, method: str, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer nonsense"}):
        answer = host.stranger.request(method, path, json={}, headers=headers)
        checks.equal((answer.status_code, answer.json()["error"]), (401, "unauthenticated"))
        checks(has_shape(answer.json(), ERROR), answer.text)


def test_one_ref_is_two_memories_for_two_tenants(host: Host, checks: Checks) -> None:
    ref, word = f"shared-name-{uuid.uuid4().hex}", uuid.uuid4().hex
    seeded = host.main.post(SEAMS[0], json={"memoryRef": ref, "entries": [{"id": "a", "content": f"the word {word}"}]})
    host.needs(checks, seeded.status_code == 201, SEAMS[0])
    mine = host.entries(ref)
    checks.equal(len(mine), 1)
    theirs = host.other.get(memory(ref))
    checks.equal(theirs.json(), {"entries": []})
    one = host.other.get(memory(ref, mine[0]["id"]))
    checks.equal(one.status_code, 404)
    gone = host.other.delete(memory(ref, mine[0]["id"]))
    checks.equal(gone.status_code, 404)
    found = host.other.get(memory(ref), params={"rank": "relevance", "query": word})
    if "semantic" in (host.claims("memory", "search", "modes") or ()):
        checks.equal((found.status_code, found.json()), (200, {"entries": []}))
    else:
        # RFC 0113: a host without such a search says so, to everybody.
        checks.equal((found.status_code, found.json()["error"]), (422, "capability_required"))
    for path in SEAMS[1:]:
        answer = host.other.post(path, json={"memoryRef": ref, "tokenBudget": 8000, "condition": "time"})
        checks(word not in answer.text)
    checks.equal(host.entries(ref), mine)


def test_a_run_is_its_own_tenants(host: Host, checks: Checks) -> None:
    host.needs_fixture(checks, "conformance-noop")
    run_id = host.run(checks, "conformance-noop")["runId"]
    asked = [
        host.other.get(f"/v1/runs/{run_id}"),
        host.other.get(f"/v1/runs/{run_id}/events"),
        host.other.get(f"/v1/runs/{run_id}/events/poll"),
        host.other.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay"}),
    ]
    for answer in asked:
        checks.equal((answer.status_code, answer.json()["error"]), (404, "not_found"))


@pytest.mark.requirement("WOP-5-tenant-default")
def test_the_tenant_of_a_run_is_the_keys_whatever_the_request_calls_it(host: Host, checks: Checks) -> None:
    host.needs_fixture(checks, "conformance-noop")
    mine = host.main.get(f"/v1/runs/{host.run(checks, 'conformance-noop')['runId']}").json()["owner"]
    started = host.other.post("/v1/runs", json={"workflowId": "conformance-noop"}).json()["runId"]
    theirs = host.other.get(f"/v1/runs/{started}").json()["owner"]
    for named in ({}, {"tenantId": "mem-attr-emit"}, {"tenantId": theirs["tenant"]}):
        answer = host.main.post("/v1/runs", json={"workflowId": "conformance-noop", **named})
        checks.equal(answer.status_code, 201)
        path = f"/v1/runs/{answer.json()['runId']}"
        checks.equal(host.main.get(path).json()["owner"], mine)
        checks.equal(host.other.get(path).status_code, 404)


def test_workspaces_are_apart(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("workspace", "supported"), "workspace")
    path = f"/v1/host/workspace/files/{uuid.uuid4().hex}.md"
    checks.equal(host.main.put(path, json={"content": "only ours"}).status_code, 200)
    checks.equal(host.other.get(path).status_code, 404)
    checks.equal(host.other.delete(path).status_code, 404)
    checks(path.rpartition("/")[2] not in host.other.get("/v1/host/workspace/files").text)
    # The same path of another tenant begins with its own first version.
    checks.equal(host.other.put(path, json={"content": "theirs"}).json()["version"], 1)
    checks.equal(host.main.get(path).json()["content"], "only ours")


def test_proposals_are_apart(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("agents", "proposals"), "agents.proposals")
    artifact = {"workflowId": "acme.x", "schedule": {"delayMs": 5}, "name": uuid.uuid4().hex}
    made = host.main.post("/v1/host/sample/proposals", json={"kind": "automation", "artifact": artifact})
    host.needs(checks, made.status_code == 201, "POST /v1/host/sample/proposals")
    path = f"/v1/host/sample/proposals/{made.json()['id']}"
    for answer in (
        host.other.get(path),
        host.other.patch(path, json={"title": "x"}),
        host.other.delete(path),
        host.other.post(f"{path}/reject", json={}),
    ):
        checks.equal((answer.status_code, answer.json()["error"]), (404, "not_found"))
    checks(made.json()["id"] not in host.other.get("/v1/host/sample/proposals").text)


def test_a_wrong_method_or_path_has_the_envelope_too(host: Host, checks: Checks) -> None:
    for answer, status in (
        (host.main.delete("/v1/agents"), 405),
        (host.main.get("/v1/nothing/here"), 404),
        (host.main.get("/v1/runs/never-was"), 404),
        (host.main.post("/v1/runs", content=b"{", headers={"content-type": "application/json"}), 400),
        (host.main.post("/v1/runs", json=[]), 400),
    ):
        checks.equal(answer.status_code, status)
        checks(has_shape(answer.json(), ERROR), answer.text)
