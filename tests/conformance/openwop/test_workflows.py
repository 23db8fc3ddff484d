"""Workflows of nodes: logs in order, streams in every mode, a key used twice, and a run cancelled midway."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from tests.conformance.openwop.host import TERMINAL, Checks, Host
from tests.waiting import until

NODES, DELAY, ONCE = "conformance-multi-node", "conformance-delay", "conformance-idempotent"
STREAM = {"accept": "text/event-stream"}


def start(host: Host, checks: Checks, workflow_id: str, **inputs: Any) -> str:
    host.needs(checks, workflow_id in (host.claims("fixtures") or ()), workflow_id)
    answer = host.main.post("/v1/runs", json={"workflowId": workflow_id, "inputs": inputs})
    checks.equal(answer.status_code, 201)
    return str(answer.json()["runId"])


def frames(host: Host, run_id: str, **params: Any) -> list[tuple[str, Any]]:
    """The names and documents of a stream, which the server closes when the run is over."""
    answer = host.main.get(f"/v1/runs/{run_id}/events", params=params, headers=STREAM)
    assert answer.status_code == 200, answer.text
    found = []
    for block in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


@pytest.mark.requirement("WOP-5-nodes")
def test_nodes_begin_and_end_in_their_order(host: Host, checks: Checks) -> None:
    run_id = start(host, checks, NODES)
    log = [event for _, event in frames(host, run_id, streamMode="debug")]
    checks.equal([each["nodeId"] for each in log if each["type"] == "node.completed"], ["a", "b", "c"])
    checks.equal([each["sequence"] for each in log], list(range(len(log))))


@pytest.mark.requirement("WOP-5-fork-stable")
def test_two_replays_from_the_middle_tell_the_same(host: Host, checks: Checks) -> None:
    run_id = start(host, checks, NODES)
    middle = next(each["sequence"] for each in host.events(run_id) if each.get("nodeId") == "b") + 1
    tails = []
    for _ in range(2):
        fork = host.main.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay", "fromSeq": middle})
        checks.equal((fork.status_code, fork.json()["sourceRunId"]), (201, run_id))
        log = host.events(fork.json()["runId"])
        tails.append([(each["type"], each.get("nodeId"), each["payload"]) for each in log])
    checks(tails[0] == tails[1] and tails[0])


@pytest.mark.requirement("WOP-5-stream-modes")
def test_each_mode_streams_its_part_and_closes_at_the_end(host: Host, checks: Checks) -> None:
    run_id = start(host, checks, DELAY, delayMs=200)
    updates = frames(host, run_id, streamMode="updates")
    checks.equal([updates[0][0], updates[-1][0]], ["run.started", "run.completed"])
    debug = frames(host, run_id, streamMode="debug")
    checks({name for name, _ in updates} | {"node.started"} <= {name for name, _ in debug})
    values = frames(host, run_id, streamMode="values")
    checks.equal({name for name, _ in values}, {"state.snapshot"})
    checks.equal((values[0][1]["status"], values[-1][1]["status"]), ("running", "completed"))
    checks.equal(frames(host, run_id, streamMode="messages"), [])
    checks.equal(frames(host, run_id, streamMode="updates,messages"), updates)


@pytest.mark.requirement("WOP-5-stream-modes")
@pytest.mark.parametrize("mode", ["does-not-exist", "values,updates", "", "updates,x"])
def test_a_mode_that_is_not_served_is_refused_with_those_that_are(host: Host, checks: Checks, mode: str) -> None:
    run_id = start(host, checks, NODES)
    answer = host.main.get(f"/v1/runs/{run_id}/events", params={"streamMode": mode}, headers=STREAM)
    checks.equal(answer.status_code, 400)
    if mode:
        checks.equal(answer.json()["error"], "unsupported_stream_mode")
        checks("updates" in answer.json()["details"]["supported"])


@pytest.mark.requirement("WOP-5-buffer")
def test_events_are_collected_for_a_time_but_never_past_the_end(host: Host, checks: Checks) -> None:
    run_id = start(host, checks, DELAY, delayMs=200)
    # The end is not held back: the stream would otherwise last for the whole time.
    batches = frames(host, run_id, bufferMs=5000)
    checks.equal({name for name, _ in batches}, {"batch"})
    collected = [event for _, batch in batches for event in batch]
    checks.equal(collected, [event for _, event in frames(host, run_id, bufferMs=0)])
    answer = host.main.get(f"/v1/runs/{run_id}/events", params={"bufferMs": 99999}, headers=STREAM)
    checks.equal((answer.status_code, answer.json()["error"]), (400, "validation_error"))


@pytest.mark.requirement("WOP-5-idempotency")
def test_a_key_starts_one_run_and_another_request_under_it_is_refused(host: Host, checks: Checks) -> None:
    host.needs(checks, ONCE in (host.claims("fixtures") or ()), ONCE)
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"workflowId": ONCE, "inputs": {"nonce": "a"}}
    first, again = (host.main.post("/v1/runs", json=body, headers=key) for _ in range(2))
    checks.equal((first.status_code, again.json()["runId"]), (201, first.json()["runId"]))
    checks.equal(again.headers["openwop-idempotent-replay"], "true")
    other = host.main.post("/v1/runs", json={**body, "inputs": {"nonce": "b"}}, headers=key)
    checks.equal((other.status_code, other.json()["error"]), (409, "idempotency_key_mismatch"))
    checks("runId" not in other.json())


@pytest.mark.requirement("WOP-5-cancel")
def test_a_run_that_is_cancelled_midway_stays_cancelled(host: Host, checks: Checks) -> None:
    run_id, later = start(host, checks, DELAY, delayMs=300), start(host, checks, DELAY, delayMs=400)
    checks.equal(host.main.post(f"/v1/runs/{run_id}/cancel", json={}).json()["status"], "cancelled")
    # The one that was started later has ended, so the time of the first is over as well.
    until(lambda: host.main.get(f"/v1/runs/{later}").json()["status"] in TERMINAL, "the delayed run did not end")
    checks.equal(host.main.get(f"/v1/runs/{run_id}").json()["status"], "cancelled")
    checks.equal(host.events(run_id)[-1]["type"], "run.cancelled")


@pytest.mark.requirement("WOP-3-workspace-snapshot")
def test_a_run_names_the_files_that_it_sees(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("workspace", "supported"), "workspace")
    path = f"seen/{uuid.uuid4().hex}.md"
    checks.equal(host.main.put(f"/v1/host/workspace/files/{path}", json={"content": "first"}).status_code, 200)
    run_id = start(host, checks, NODES)
    host.main.put(f"/v1/host/workspace/files/{path}", json={"content": "second"})
    checks({"path": path, "version": 1} in host.main.get(f"/v1/runs/{run_id}").json()["workspace"])


@pytest.mark.requirement("WOP-3-workspace-tenant")
def test_a_workspace_is_closed_to_every_other_owner(host: Host, checks: Checks) -> None:
    def call(tenant: str, workspace: str, op: str, **more: str) -> Any:
        body = {"tenant": tenant, "workspace": workspace, "op": op, **more}
        return host.main.post("/v1/host/sample/workspace/op", json=body)

    host.needs(checks, call("a", "b", "list").status_code not in (404, 405, 501), "the test hook of workspaces")
    one, path = uuid.uuid4().hex, "SECRET.md"
    checks.equal(call(one, "a", "put", path=path, content="only for a").status_code, 200)
    for tenant, workspace in ((one, "b"), (f"{one}x", "a")):
        answer = call(tenant, workspace, "get", path=path)
        checks(answer.status_code == 404 and "only for a" not in answer.text)
        checks.equal(call(tenant, workspace, "list").json(), {"files": []})
    checks.equal(call(one, "a", "get", path=path).json()["content"], "only for a")
    # Not even the caller's own files are of these owners.
    checks.equal(host.main.get(f"/v1/host/workspace/files/{path}").status_code, 404)
