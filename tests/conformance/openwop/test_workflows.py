"""Workflows of nodes: logs in order, streams in every mode, a key used twice, and a run cancelled midway."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
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


NOOP, FAILING = "conformance-noop", "conformance-failure"


@pytest.mark.requirement("WOP-versions-stamped")
def test_a_new_run_and_discovery_name_the_versions_of_engine_and_log(host: Host, checks: Checks) -> None:
    run = host.main.get(f"/v1/runs/{start(host, checks, NOOP)}").json()
    checks(run["eventLogSchemaVersion"] >= 2, "a lower one means that there is no log")
    checks.equal(run["eventLogSchemaVersion"], host.claims("eventLogSchemaVersion"))
    checks.equal(run["engineVersion"], host.claims("engineVersion"))
    checks(host.claims("minClientVersion"))


@pytest.mark.requirement("WOP-10-noop", "WOP-1.4-sequence")
def test_the_shortest_run_ends_once_and_its_log_reads_the_same_each_time(host: Host, checks: Checks) -> None:
    run_id = start(host, checks, NOOP)
    polls = [host.main.get(f"/v1/runs/{run_id}/events/poll", params={"timeout": 0}).json() for _ in range(2)]
    checks.equal(polls[0], polls[1])
    types = [each["type"] for each in polls[0]["events"]]
    checks.equal([name for name in types if name in ("run.completed", "run.failed", "run.cancelled")], types[-1:])
    past = host.main.get(f"/v1/runs/{run_id}/events/poll", params={"lastSequence": 99_999, "timeout": 1})
    checks.equal((past.status_code, past.json()["events"]), (200, []))
    # A client that reconnects after the last event gets nothing twice, and the stream closes.
    last = polls[0]["events"][-1]["sequence"]
    stream = host.main.get(f"/v1/runs/{run_id}/events", headers={**STREAM, "Last-Event-ID": str(last)})
    checks.equal((stream.status_code, "data:" in stream.text), (200, False))


@pytest.mark.requirement("WOP-10-noop")
def test_a_run_that_fails_says_why_in_its_snapshot(host: Host, checks: Checks) -> None:
    run = host.main.get(f"/v1/runs/{start(host, checks, FAILING)}").json()
    checks.equal(run["status"], "failed")
    checks(run["error"]["code"] and run["error"]["message"])
    checks.equal(host.events(run["runId"])[-1]["type"], "run.failed")


@pytest.mark.requirement("WOP-10-noop")
def test_an_input_comes_back_as_a_variable_unchanged(host: Host, checks: Checks) -> None:
    payload = {"text": "hello", "number": 42, "flag": True, "list": [1, "two", {"three": 3}], "in": {"it": {"x": None}}}
    run = host.main.get(f"/v1/runs/{start(host, checks, 'conformance-identity', payload=payload)}").json()
    checks.equal(run["variables"]["payload"], payload)


@pytest.mark.requirement("WOP-10-definitions")
def test_the_definition_of_a_fixture_is_served_and_an_unknown_one_is_not_found(host: Host, checks: Checks) -> None:
    for name in host.claims("fixtures"):
        shown = host.main.get(f"/v1/workflows/{name}").json()
        checks.equal(shown["id"], name)
        checks(all(part in shown for part in "name version nodes edges triggers variables metadata settings".split()))
        checks.equal([trigger["type"] for trigger in shown["triggers"]], ["manual"])
    nodes = [node["id"] for node in host.main.get(f"/v1/workflows/{NODES}").json()["nodes"]]
    log = host.main.get(f"/v1/runs/{start(host, checks, NODES)}/events/poll", params={"timeout": 0}).json()["events"]
    checks.equal([each["nodeId"] for each in log if each["type"] == "node.started"], nodes)
    unknown = host.main.get("/v1/workflows/openwop-that-nobody-has")
    checks.equal((unknown.status_code, set(unknown.json()) - {"details"}), (404, {"error", "message"}))


@pytest.mark.requirement("WOP-0048-principal")
def test_a_run_names_who_started_it_and_so_do_its_log_and_its_replays(host: Host, checks: Checks) -> None:
    run_id = start(host, checks, NOOP)
    owner = host.main.get(f"/v1/runs/{run_id}").json()["owner"]
    host.needs(checks, owner.get("principal"), "owner.principal")
    checks.equal(host.events(run_id)[0]["payload"]["owner"], owner)
    other = host.activator.post("/v1/runs", json={"workflowId": NOOP}).json()["runId"]
    checks(host.main.get(f"/v1/runs/{other}").json()["owner"]["principal"] != owner["principal"])
    fork = host.main.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay", "fromSeq": 0}).json()["runId"]
    checks.equal(host.main.get(f"/v1/runs/{fork}").json()["owner"], owner)
    # Version 2 shows the same as a subject: an opaque id, not the legacy one.
    second = {"OpenWOP-Version": "2.0"}
    shown = host.main.get(f"/runs/{run_id}", headers=second).json()["owner"]
    checks.equal(set(shown), {"tenant", "subject"})
    subject = shown["subject"]
    checks.equal(
        (subject["subjectId"], subject["kind"], subject["lane"]),
        (owner["principal"], owner["principalKind"], "api-key"),
    )
    checks("legacy" not in subject["issuer"])
    begun = host.main.get(f"/runs/{run_id}/events/poll", params={"timeout": 0}, headers=second).json()["events"][0]
    checks.equal(begun["payload"]["owner"], shown)


@pytest.mark.requirement("WOP-webhooks-tenant")
def test_webhooks_of_one_tenant_are_invisible_to_another(host: Host, checks: Checks) -> None:
    def call(tenant: str, op: str, **args: Any) -> Any:
        body = {"tenantId": tenant, "surface": "webhooks", "op": op, "args": args}
        return host.main.post("/v1/host/sample/test/surface", json=body)

    host.needs(checks, host.claims("webhooks", "supported"), "webhooks")
    one, other, url = uuid.uuid4().hex, uuid.uuid4().hex, "https://example.com/openwop"
    made = call(one, "register", url=url, events=["run.completed"])
    host.needs(checks, made.status_code not in (404, 405, 501), "the test hook of surfaces")
    name = made.json()["webhookId"]
    checks.equal([each["webhookId"] for each in call(one, "list").json()["webhooks"]], [name])
    checks.equal(call(other, "list").json(), {"webhooks": []})
    checks.equal(call(other, "unregister", webhookId=name).status_code, 404)
    checks.equal(call(one, "unregister", webhookId=name).status_code, 200)
    checks.equal(call(one, "register", url="https://127.0.0.1/", events=["run.completed"]).status_code, 400)
    body = {"tenantId": one, "surface": "kvStorage", "op": "get", "args": {}}
    checks.equal(host.main.post("/v1/host/sample/test/surface", json=body).status_code, 404)
    # Nor does the tenant of a request open another one (webhooks.md, Register and Unregister).
    foreign = {"url": url, "events": ["run.completed"], "tenantId": f"foreign-{one}"}
    checks.equal(host.main.post("/v1/webhooks", json=foreign).status_code, 403)


@pytest.mark.requirement("WOP-0048-principal")
def test_a_run_of_another_owner_is_refused_without_a_word_of_it(host: Host, checks: Checks) -> None:
    owned = host.main.get("/v1/host/sample/identity/owned-run")
    host.needs(checks, owned.status_code not in (404, 405, 501), "the test hook of identities")
    checks(owned.json()["owner"]["tenant"])
    answer = host.main.post("/v1/host/sample/identity/cross-workspace-read", json={})
    checks(answer.status_code in (403, 404), answer.text)
    checks(answer.json()["error"] in ("run_forbidden", "not_found"))


@pytest.mark.requirement("WOP-5-fork")
def test_a_run_of_our_own_is_replayed_but_never_branched(host: Host, checks: Checks) -> None:
    if not host.is_ours:
        checks.is_skipped = True
        pytest.skip("our own workflows")
    ref = uuid.uuid4().hex
    put = host.main.post(f"/v1/memory/{ref}", json={"content": "The office is in Ghent."})
    checks.equal(put.status_code, 201)
    body = {"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": ref}}
    run_id = host.main.post("/v1/runs", json=body).json()["runId"]
    branch = host.main.post(f"/v1/runs/{run_id}:fork", json={"mode": "branch", "fromSeq": 1})
    checks.equal((branch.status_code, branch.json()["error"]), (501, "capability_not_provided"))
    replay = host.main.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay", "fromSeq": 0})
    checks.equal((replay.status_code, replay.json()["status"]), (201, "completed"))
    checks("branch" not in host.claims("replay", "modes"))


@pytest.mark.requirement("WOP-5-auth", "WOP-1.9-envelope")
def test_an_artifact_needs_a_credential_before_anything_else(host: Host, checks: Checks) -> None:
    path = "/v1/runs/nobodys/artifacts/none"
    for client, status, code in ((host.stranger, 401, "unauthenticated"), (host.main, 404, "not_found")):
        answer = client.get(path)
        checks.equal((answer.status_code, answer.json()["error"]), (status, code))


@pytest.mark.requirement("WOP-3-sr1-disk")
def test_no_input_that_looks_like_a_key_comes_back_in_events_or_errors(host: Host, checks: Checks) -> None:
    canary = f"sk-ant-api03-{uuid.uuid4().hex}{uuid.uuid4().hex}"
    run_id = start(host, checks, NOOP, note=f"a description with {canary} in it")
    log = host.main.get(f"/v1/runs/{run_id}/events/poll", params={"timeout": 0}).text
    checks(canary not in log)
    refused = host.main.post("/v1/runs", json={"workflowId": f"none-{canary}", "inputs": {"x": canary}})
    checks(refused.status_code == 400 and canary not in refused.text)


@pytest.mark.requirement("WOP-5-idempotency")
def test_ten_requests_at_once_under_one_key_start_one_run(host: Host, checks: Checks) -> None:
    host.needs(checks, ONCE in (host.claims("fixtures") or ()), ONCE)
    key = {"Idempotency-Key": uuid.uuid4().hex}

    def send(_: int) -> Any:
        return host.main.post("/v1/runs", json={"workflowId": ONCE}, headers=key)

    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(send, range(10)))
    checks({answer.status_code for answer in answers} <= {201, 409})
    checks.equal(len({answer.json()["runId"] for answer in answers if answer.status_code == 201}), 1)
    codes = {answer.json()["error"] for answer in answers if answer.status_code == 409}
    checks(codes <= {"idempotency_in_flight"})


@pytest.mark.requirement("WOP-5-seams")
@pytest.mark.parametrize("path", ["memory/distill", "commitment/fire", "workspace/op", "test/surface", "subrun/attest"])
def test_no_test_hook_answers_a_stranger(host: Host, checks: Checks, path: str) -> None:
    for method in ("GET", "POST"):
        answer = host.stranger.request(method, f"/v1/host/sample/{path}", json={} if method == "POST" else None)
        checks(answer.status_code in (401, 403, 404, 405, 501), answer.text)


@pytest.mark.requirement("WOP-5-run-etag")
@pytest.mark.parametrize("version", ["1.1", "2.0", "2"])
def test_a_run_that_did_not_change_is_not_sent_again(host: Host, checks: Checks, version: str) -> None:
    run_id = start(host, checks, NOOP)
    path = f"/v1/runs/{run_id}" if version == "1.1" else f"/runs/{run_id}"
    headers = {"OpenWOP-Version": version}
    first = host.main.get(path, headers=headers)
    tag = first.headers.get("etag")
    host.needs(checks, tag, "an ETag of runs")
    again = host.main.get(path, headers={**headers, "If-None-Match": tag})
    checks.equal((again.status_code, again.content, again.headers["etag"]), (304, b"", tag))
    checks(again.headers["openwop-version"])
    other = host.main.get(path, headers={**headers, "If-None-Match": '"another"'})
    checks.equal((other.status_code, other.json()), (200, first.json()))
    # A run that goes on has another one.
    slow = start(host, checks, "conformance-cancellable", delayMs=20_000)
    path = f"/v1/runs/{slow}"
    before = host.main.get(path).headers["etag"]
    checks.equal(host.main.post(f"{path}/cancel", json={"reason": "over"}).json()["status"], "cancelled")
    changed = host.main.get(path, headers={"If-None-Match": before})
    checks.equal((changed.status_code, changed.json()["status"]), (200, "cancelled"))


@pytest.mark.requirement("WOP2-idempotency-key")
def test_version_two_refuses_a_key_that_can_be_guessed(host: Host, checks: Checks) -> None:
    second = {"OpenWOP-Version": "2.0"}
    body = {"workflowId": NOOP}
    for key, status in (
        ("short", 400),
        ("x" * 129, 400),
        ("a key with blanks in it, long enough", 400),
        ("k" * 22, 201),
    ):
        answer = host.main.post("/runs", json=body, headers={**second, "Idempotency-Key": key})
        checks.equal(answer.status_code, status)
        if status == 400:
            checks.equal(answer.json()["error"], "idempotency_key_invalid")
    # Version 1 has no such rule.
    checks.equal(host.main.post("/v1/runs", json=body, headers={"Idempotency-Key": "short"}).status_code, 201)


@pytest.mark.requirement("WOP2-unadvertised")
@pytest.mark.parametrize("path", ["/prompts", "/content/settings", "/runs/x/annotations", "/tools"])
def test_version_two_answers_any_other_path_in_its_own_form(host: Host, checks: Checks, path: str) -> None:
    answer = host.main.get(path, headers={"OpenWOP-Version": "2.0"})
    checks.equal((answer.status_code, answer.json()["error"]), (404, "not_found"))
    checks.equal(answer.headers["openwop-version"], "2.0")
    for malformed in ("/runs", "/webhooks"):
        headers = {"OpenWOP-Version": "2.0", "Content-Type": "application/json"}
        refused = host.main.post(malformed, content=b"{", headers=headers)
        checks.equal((refused.status_code, refused.json()["error"]), (400, "validation_error"))
        checks.equal(refused.headers["openwop-version"], "2.0")
    # Without the header, and on paths of other standards, nothing changes.
    checks.equal(host.main.get("/prompts").json(), {"error": {"code": "not_found", "message": "no route"}})
    ump = host.main.get("/ump/nothing", headers={"OpenWOP-Version": "2.0"})
    checks.equal(ump.json()["error"]["code"], "not_found")
