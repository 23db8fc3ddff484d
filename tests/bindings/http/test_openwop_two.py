"""openwop 2 over HTTP: chosen by the version that a request states, over the same runs, webhooks and proposals."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.bindings.http.running import ALL, OWNER, Running, openwop_error_of, running
from tests.bindings.http.test_openwop import begin, finish, frames, put, tell
from tests.bindings.http.test_openwop_webhooks import ANYWHERE, receiving
from tests.waiting import until

from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.openwop_two import OPENWOP_TWO
from memoranda.conformance.openwop import SEAMS
from memoranda.standards.openwop.version_two import bind_id, path_segment, tenant_id

PASS = {"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": "agents/two"}}
JOB = {"workflowId": "acme.report", "schedule": {"cron": "0 9 * * 1"}}
OTHER = "did:example:somebody-else"


@pytest.fixture(scope="module")
def two(server: Running) -> Iterator[httpx.Client]:
    with server.client(server.key(OWNER, *ALL, "activate")) as each:
        each.headers["OpenWOP-Version"] = "2.0"
        yield each


def segment(run_id: str) -> str:
    return path_segment(bind_id(run_id, OWNER))


@pytest.mark.requirement("WOP2-1.3-selection", "WOP2-1.4-response")
def test_the_stated_version_chooses_the_contract_and_the_answer_names_it(
    client: httpx.Client, two: httpx.Client
) -> None:
    run_id = begin(client)
    for headers in ({}, {"OpenWOP-Version": "1"}):
        # Without a version a path is served as its twin under /v1.
        first = client.get(f"/runs/{run_id}", headers=headers)
        assert (first.json(), first.headers["openwop-version"]) == (client.get(f"/v1/runs/{run_id}").json(), "1.1")
    second = two.get(f"/runs/{run_id}")
    assert (second.json()["runId"], second.headers["openwop-version"]) == (bind_id(run_id, OWNER), "2.0")
    for path in ("/runs", "/.well-known/openwop"):
        answer = client.get(path, headers={"OpenWOP-Version": "3"})
        assert openwop_error_of(answer) == (406, "protocol_version_unsupported")
        assert answer.json()["details"] == {"protocolVersions": ["1.1", "2.0"]}
    assert openwop_error_of(two.get(f"/v1/runs/{run_id}")) == (400, "protocol_version_mismatch")
    missing = two.get("/runs/nobodys-run-at-all")
    assert (openwop_error_of(missing), missing.headers["openwop-version"]) == ((404, "not_found"), "2.0")
    assert openwop_error_of(client.get("/proposals")) == (404, "not_found")


@pytest.mark.requirement("WOP2-1.1-discovery")
def test_discovery_is_one_resource_with_two_representations(client: httpx.Client, two: httpx.Client) -> None:
    first, second = client.get("/.well-known/openwop"), two.get("/.well-known/openwop")
    for answer in (first, second):
        assert answer.json()["protocolVersions"] == ["1.1", "2.0"]
        assert answer.json()["preferredVersion"] == "1.1"
        condition = {"if-none-match": answer.headers["etag"], "openwop-version": answer.headers["openwop-version"]}
        assert client.get("/.well-known/openwop", headers=condition).status_code == 304
    assert first.headers["etag"] != second.headers["etag"]
    assert first.json()["memory"]["supported"] is True
    assert second.json()["memory"]["status"] == "stable"
    assert "protocolVersion" not in second.json()


@pytest.mark.requirement("WOP2-5-ids")
def test_a_run_is_found_under_every_spelling_of_its_id_and_never_anothers(
    server: Running, client: httpx.Client, two: httpx.Client
) -> None:
    run_id = begin(client)
    bound = bind_id(run_id, OWNER)
    for name in (segment(run_id), bound.replace("/", "%2F"), run_id):
        assert two.get(f"/runs/{name}").json()["runId"] == bound
    with server.client(server.key(OTHER)) as other:
        other.headers["OpenWOP-Version"] = "2"
        assert openwop_error_of(other.get(f"/runs/{segment(run_id)}")) == (403, "id_tenant_mismatch")
        assert openwop_error_of(other.get(f"/runs/{segment('run_that_never_was')}")) == (403, "id_tenant_mismatch")
        assert openwop_error_of(other.get(f"/runs/{run_id}")) == (404, "not_found")
        assert other.get("/runs").json() == {"runs": []}


@pytest.mark.requirement("WOP2-runs-create")
def test_a_run_is_started_read_polled_forked_and_not_cancelled_again(two: httpx.Client) -> None:
    started = two.post("/runs", json=PASS)
    assert started.status_code == 201
    assert set(started.json()) == {"runId", "status", "eventsUrl", "statusUrl"}
    run = two.get(started.json()["statusUrl"]).json()
    assert (run["status"], run["owner"]["tenant"]) == ("completed", tenant_id(OWNER))
    assert set(run) <= {
        "runId", "workflowId", "status", "owner", "eventLogSchemaVersion", "startedAt", "variables", "tags", "metadata"
    }  # fmt: skip
    poll = two.get(f"{started.json()['eventsUrl']}/poll", params={"afterSequence": 0, "timeout": 1}).json()
    assert [event["type"] for event in poll["events"]] == ["agent.memory-consolidated", "run.completed"]
    assert (poll["lastSequence"], poll["isTerminal"], poll["status"]) == (2, True, "completed")
    past = two.get(f"{started.json()['eventsUrl']}/poll", params={"afterSequence": 99, "timeout": 1}).json()
    assert (past["events"], past["lastSequence"]) == ([], 2)
    name = segment(run["runId"].partition("/")[2])
    fork = two.post(f"/runs/{name}:fork", json={"mode": "replay"})
    assert (fork.status_code, fork.json()["sourceRunId"]) == (201, run["runId"])
    beyond = two.post(f"/runs/{name}:fork", json={"mode": "replay", "fromSeq": 99})
    assert openwop_error_of(beyond) == (422, "fork_point_invalid")
    assert openwop_error_of(two.post(f"/runs/{name}/cancel", json={})) == (409, "run_terminal")
    foreign = two.post("/runs", json={**PASS, "tenantId": "someone-else"})
    assert openwop_error_of(foreign) == (403, "id_tenant_mismatch")
    assert two.post("/runs", json={**PASS, "tenantId": tenant_id(OWNER)}).status_code == 201


@pytest.mark.requirement("WOP2-runs-list")
def test_runs_are_listed_page_by_page(server: Running) -> None:
    with server.client(server.key("did:example:lister")) as each:
        each.headers["OpenWOP-Version"] = "2"
        made = [each.post("/runs", json=PASS).json()["runId"] for _ in range(3)]
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = each.get("/runs", params={"limit": 2, **cursor}).json()
            seen += [run["runId"] for run in page["runs"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert sorted(seen) == sorted(made)
        assert openwop_error_of(each.get("/runs", params={"cursor": "nonsense"})) == (400, "validation_error")


@pytest.mark.requirement("WOP2-5-replay-memory")
def test_a_replay_without_its_memory_is_a_conflict_that_names_the_bound_id(
    client: httpx.Client, two: httpx.Client
) -> None:
    run_id = begin(client)
    put(client, "two-erased", "A fact about capybaras that must go.", run_id)
    finish(client, run_id)
    found = client.post("/ump/recall", json={"query": "capybaras", "scope": {"owner": OWNER, "project": "two-erased"}})
    name = found.json()["results"][0]["record"]["id"]
    assert client.post("/ump/forget", json={"id": name, "hard": True}).status_code == 200
    answer = two.post(f"/runs/{segment(run_id)}:fork", json={"mode": "replay"})
    assert openwop_error_of(answer) == (409, "replay_memory_snapshot_unavailable")
    assert answer.json()["details"]["sourceRunId"] == bind_id(run_id, OWNER)


@pytest.mark.requirement("WOP2-events-stream")
def test_a_stream_has_the_events_of_version_two_in_every_mode(client: httpx.Client, two: httpx.Client) -> None:
    run_id = begin(client)
    tell(client, run_id, "agent.toolCalled")
    tell(client, run_id, "node.completed")
    finish(client, run_id)
    log = f"/runs/{segment(run_id)}/events"
    stream = {"accept": "text/event-stream"}
    # The official client asks for a resumable stream of several modes.
    params = {"streamMode": "updates,debug", "resumable": "true"}
    shown = [(0, "run.started"), (1, "agent.tool-called"), (2, "node.completed"), (3, "run.completed")]
    assert frames(two.get(log, params=params, headers=stream).text) == shown
    assert frames(two.get(log, headers={**stream, "last-event-id": "2"}).text) == shown[3:]
    snapshots = two.get(log, params={"streamMode": "values"}, headers={**stream, "last-event-id": "0"}).text
    states = [json.loads(line[6:]) for line in snapshots.splitlines() if line.startswith("data: ")]
    assert [state["status"] for state in states] == ["completed", "running", "completed"]
    assert {state["runId"] for state in states} == {bind_id(run_id, OWNER)}
    assert len(two.get(log, headers={"accept": "application/json"}).json()["events"]) == 3


@pytest.mark.requirement("WOP2-proposals")
def test_a_proposal_is_reviewed_and_applied_only_as_it_was_read(two: httpx.Client) -> None:
    made = two.post("/proposals", json={"kind": "automation", "artifact": JOB, "title": "Two"})
    assert made.status_code == 201
    name, digest = made.json()["id"], made.json()["artifactDigest"]
    revised = two.patch(f"/proposals/{name}", json={"artifact": {**JOB, "name": "Other"}}).json()
    assert (revised["state"], revised["artifactDigest"] == digest) == ("revised", False)
    stale = two.post(f"/proposals/{name}:apply", json={"artifactDigest": digest})
    assert openwop_error_of(stale) == (409, "proposal_stale")
    assert two.get(f"/proposals/{name}").json() == revised
    applied = two.post(f"/proposals/{name}:apply", json={"artifactDigest": revised["artifactDigest"]}).json()
    assert (applied["state"], applied["artifact"]) == ("applied", {**JOB, "name": "Other"})
    assert openwop_error_of(two.delete(f"/proposals/{name}")) == (409, "proposal_state_conflict")
    other = two.post("/proposals", json={"kind": "automation", "artifact": JOB}).json()["id"]
    assert two.post(f"/proposals/{other}:reject", json={"reason": "no"}).json()["state"] == "rejected"
    assert two.delete(f"/proposals/{other}").json()["state"] == "archived"
    first = two.get("/proposals", params={"limit": 1}).json()
    rest = two.get("/proposals", params={"cursor": first["nextCursor"]}).json()
    assert {name, other} <= {item["id"] for item in [*first["items"], *rest["items"]]}


@pytest.mark.requirement("WOP2-webhooks")
def test_a_webhook_gets_the_events_of_the_version_in_which_it_was_registered(tmp_path: Path) -> None:
    with (
        receiving() as receiver,
        running(tmp_path / "home", settings=ANYWHERE) as server,
        server.client(server.key(OWNER)) as each,
    ):
        url = receiver.url
        second = {"OpenWOP-Version": "2", "Idempotency-Key": "k" * 22}
        body = {"url": url, "events": ["agent.memory-consolidated"]}
        made = each.post("/webhooks", json=body, headers=second)
        assert made.status_code == 201
        # The secret is not recorded under the key, but the repetition gets it again.
        assert each.post("/webhooks", json=body, headers=second).json() == made.json()
        assert each.post("/v1/webhooks", json={"url": url, "events": ["agent.memory.consolidated"]}).status_code == 201
        assert each.post("/v1/runs", json=PASS).status_code == 201
        until(lambda: len(receiver.got) == 2, "the events did not arrive")
        for headers, raw in receiver.got:
            delivered: dict[str, Any] = json.loads(raw)
            for name in ("timestamp", "signature", "webhook-id", "event-type", "signature-algorithm"):
                assert headers[f"openwop-{name}"] == headers[f"x-openwop-{name}"]
            if headers["openwop-webhook-id"] != made.json()["webhookId"]:
                assert delivered["event"]["type"] == "agent.memory.consolidated"
                continue
            assert set(delivered) == {"runId", "event"}
            assert (
                delivered["runId"]
                == delivered["event"]["runId"]
                == bind_id(delivered["runId"].partition("/")[2], OWNER)
            )
            assert delivered["event"]["type"] == headers["openwop-event-type"] == "agent.memory-consolidated"
            signed = headers["openwop-timestamp"].encode() + b"." + raw
            digest = hmac.new(made.json()["secret"].encode(), signed, hashlib.sha256).hexdigest()
            assert headers["openwop-signature"] == f"sha256={digest}"
        name = path_segment(made.json()["webhookId"])
        assert each.delete(f"/webhooks/{name}", headers={"OpenWOP-Version": "2"}).status_code == 204
        gone = each.delete(f"/webhooks/{name}", headers={"OpenWOP-Version": "2"})
        assert openwop_error_of(gone) == (404, "not_found")


@pytest.mark.requirement("WOP2-webhooks")
def test_a_webhook_to_an_address_inside_is_refused(two: httpx.Client) -> None:
    refused = two.post("/webhooks", json={"url": "https://10.0.0.1/", "events": ["memory.written"]})
    assert openwop_error_of(refused) == (400, "webhook_url_rejected")


def test_an_agent_is_shown_by_its_id_in_both_versions(tmp_path: Path, two: httpx.Client) -> None:
    assert openwop_error_of(two.get("/agents/nobody")) == (404, "not_found")
    with running(tmp_path / "home", seams=SEAMS) as server, server.client(server.key(OWNER)) as each:
        for folder, version in (("/v1", {}), ("", {"OpenWOP-Version": "2"})):
            (agent,) = each.get(f"{folder}/agents", headers=version).json()["agents"]
            assert each.get(f"{folder}/agents/{agent['agentId']}", headers=version).json() == agent


@pytest.mark.requirement("WOP2-auth")
def test_every_operation_needs_a_credential_and_grants_no_more_than_its_twin(server: Running) -> None:
    version = {"OpenWOP-Version": "2"}
    with server.client("") as stranger, server.client(server.key(OWNER, "read")) as reader:
        for operation in all_operations():
            if operation.standard is not OPENWOP_TWO:
                continue
            path = operation.path.replace("{run_id}", "run_aaaaaaaaaaaaaaaa")
            for name in operation.path_names:
                path = path.replace(f"{{{name}}}", "x")
            answer = stranger.request(operation.method, path, headers=version)
            assert openwop_error_of(answer) == (401, "unauthenticated"), operation.name
            if operation.has_effect:
                refused = reader.request(operation.method, path, headers=version, json=dict(operation.example))
                assert refused.status_code in (400, 403, 404), (operation.name, refused.text)
                assert refused.status_code == 403 or operation.name in ("openwop2_fork", "openwop2_cancel_run"), (
                    operation.name
                )
