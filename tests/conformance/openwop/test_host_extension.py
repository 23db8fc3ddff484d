"""The extension under /v1/host/ and /v1/memory/: a host in any language begins a run, reads, writes and ends it."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conformance.openwop.host import Checks, Host, encoded, memory
from tests.conformance.openwop.shapes import ENTRY, RUN, has_shape, is_valid_event
from tests.waiting import until


@pytest.fixture(autouse=True)
def extension(host: Host, checks: Checks) -> None:
    host.needs(checks, host.main.get("/v1/host/runs").status_code == 200, "/v1/host/runs")


@pytest.fixture
def ref() -> str:
    return f"workspaces/acme/agents/{uuid.uuid4().hex}/memories"


def begin(host: Host, checks: Checks, **fields: Any) -> str:
    answer = host.main.post("/v1/host/runs", json={"workflowId": "acme.support", **fields})
    checks.equal(answer.status_code, 201)
    return str(answer.json()["runId"])


def in_run(run_id: str, ref: str, entry_id: str | None = None) -> str:
    return f"/v1/host/runs/{run_id}{memory(ref, entry_id).removeprefix('/v1')}"


def put(host: Host, checks: Checks, ref: str, content: str, **fields: Any) -> dict[str, Any]:
    answer = host.main.post(memory(ref), json={"content": content, **fields})
    checks.equal(answer.status_code, 201)
    made: dict[str, Any] = answer.json()
    checks(has_shape(made, ENTRY), made)
    return made


def put_in(host: Host, checks: Checks, run_id: str, ref: str, content: str, **fields: Any) -> dict[str, Any]:
    answer = host.main.post(in_run(run_id, ref), json={"content": content, **fields})
    checks.equal(answer.status_code, 201)
    made: dict[str, Any] = answer.json()
    return made


def seen(host: Host, run_id: str, ref: str) -> list[str]:
    return [entry["content"] for entry in host.main.get(in_run(run_id, ref)).json()["entries"]]


# --- list and get --------------------------------------------------------------------------------------------


def test_an_entry_is_listed_and_got_as_it_was_put(host: Host, checks: Checks, ref: str) -> None:
    made = put(host, checks, ref, "Grüße aus 東京 😀", tags=["a", "", "source:mail"])
    checks.equal((made["content"], made["tags"]), ("Grüße aus 東京 😀", ["a", "source:mail"]))
    checks.equal(host.entries(ref), [made])
    checks.equal(host.main.get(memory(ref, made["id"])).json(), made)


def test_the_newest_is_first_and_limit_and_tag_narrow(host: Host, checks: Checks, ref: str) -> None:
    made = [put(host, checks, ref, f"number {n}", tags=["odd"] if n % 2 else ["even"])["id"] for n in range(6)]
    listed = host.entries(ref)
    checks.equal([entry["createdAt"] for entry in listed], sorted((e["createdAt"] for e in listed), reverse=True))
    checks.equal({entry["id"] for entry in listed}, set(made))
    checks.equal(len(host.entries(ref, limit=2)), 2)
    checks.equal(host.entries(ref, limit=2), listed[:2])
    checks.equal(host.entries(ref, limit=0), listed)
    checks.equal([e["id"] for e in host.entries(ref, tag="odd")], [e["id"] for e in listed if "odd" in e["tags"]])
    checks.equal(host.entries(ref, tag="none"), [])
    for params in ({"limit": "-1"}, {"limit": "x"}, {"tag": ""}, {"rank": "best"}, {"rank": "relevance"}, {"x": "1"}):
        answer = host.main.get(memory(ref), params=params)
        checks.equal((answer.status_code, answer.json()["error"]), (400, "validation_error"))


@pytest.mark.parametrize(
    "bad",
    ["../../etc/passwd", "a/../b", "..", "a\x00b", "\x00", "x" * 257, "x" * 5000, "a\\b", "a\nb", "\u2028",
     "never-used", "memoranda://t-aaaaaaaaaaaaaaaaaaaa/x", "%ff"],
)  # fmt: skip
def test_a_ref_that_cannot_be_is_empty_and_no_error(host: Host, checks: Checks, bad: str) -> None:
    path = f"/v1/memory/{encoded(bad) if bad != '%ff' else bad}"
    listed, got = host.main.get(path), host.main.get(f"{path}/mem_x")
    checks.equal((listed.status_code, listed.json()), (200, {"entries": []}))
    checks.equal((got.status_code, got.json()["error"]), (404, "not_found"))


def test_an_unknown_id_is_not_found_whatever_it_looks_like(host: Host, checks: Checks, ref: str) -> None:
    put(host, checks, ref, "something")
    for bad in ("mem_nothing", "x" * 1501, "../x", "a/b", "\x00", "urn:ump:aaaa", "0" * 64):
        checks.equal(host.main.get(memory(ref, bad)).status_code, 404)


# --- put, delete, forget, expire ------------------------------------------------------------------------------


def test_a_put_that_cannot_be_is_refused_without_its_words(host: Host, checks: Checks, ref: str) -> None:
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    limit = host.claims("memory", "maxEntrySizeBytes")
    bodies: tuple[Any, ...] = (
        {"content": "canary-words", "expiresAt": past},
        {"content": "canary-words" + "x" * limit},
        {"content": "canary-words", "id": "mine"},
        {"content": "canary-words", "createdAt": "2026-01-01T00:00:00Z"},
        {"content": "canary-words", "tags": ["x" * 257]},
        {"content": "canary-words", "tags": "canary-words"},
        {"content": ["canary-words"]},
        {"tags": []},
        ["canary-words"],
    )
    for body in bodies:
        answer = host.main.post(memory(ref), json=body)
        checks.equal((answer.status_code, answer.json()["error"]), (400, "validation_error"))
        checks("canary-words" not in answer.text)
    checks.equal(host.entries(ref), [])
    for bad in ("a/../b", "x" * 300):
        checks.equal(host.main.post(memory(bad), json={"content": "x"}).status_code, 400)


def test_an_entry_of_the_greatest_size_is_taken(host: Host, checks: Checks, ref: str) -> None:
    text = "x" * host.claims("memory", "maxEntrySizeBytes")
    made = put(host, checks, ref, text)
    checks(host.main.get(memory(ref, made["id"])).json()["content"] == text)


def test_a_deleted_entry_is_gone(host: Host, checks: Checks, ref: str) -> None:
    kept, gone = put(host, checks, ref, "kept"), put(host, checks, ref, "gone")
    checks.equal(host.main.delete(memory(ref, gone["id"])).status_code, 204)
    checks.equal(host.main.delete(memory(ref, gone["id"])).status_code, 404)
    checks.equal(host.main.get(memory(ref, gone["id"])).status_code, 404)
    checks.equal([entry["id"] for entry in host.entries(ref)], [kept["id"]])


def test_everything_about_a_subject_can_be_forgotten(host: Host, checks: Checks, ref: str) -> None:
    host.needs(checks, host.claims("memory", "retention", "forget"), "memory.retention.forget")
    for number in range(3):
        put(host, checks, ref, f"about ada {number}", tags=["subject:ada"])
    other = put(host, checks, ref, "about grace", tags=["subject:grace"])
    asked = {"memoryRef": ref, "subject": "ada"}
    checks.equal(host.other.post("/v1/host/memory/forget", json=asked).json(), {"forgotten": 0})
    checks.equal(host.main.post("/v1/host/memory/forget", json=asked).json(), {"forgotten": 3})
    checks.equal(host.main.post("/v1/host/memory/forget", json=asked).json(), {"forgotten": 0})
    checks.equal([entry["id"] for entry in host.entries(ref)], [other["id"]])


def test_an_entry_ends_when_it_says(host: Host, checks: Checks, ref: str) -> None:
    run_id = begin(host, checks)
    end = datetime.now(UTC) + timedelta(seconds=3)
    made = put_in(host, checks, run_id, ref, "short-lived", expiresAt=end.isoformat())
    until(lambda: not host.entries(ref), "it did not expire")
    checks(datetime.now(UTC) >= end, "it ended early")
    checks.equal(host.main.get(memory(ref, made["id"])).status_code, 404)
    # Also for the run that wrote it.
    checks.equal(seen(host, run_id, ref), [])
    checks.equal(host.main.get(in_run(run_id, ref, made["id"])).status_code, 404)


# --- runs ----------------------------------------------------------------------------------------------------


def test_a_run_sees_the_store_as_it_began_and_its_own_writes(host: Host, checks: Checks, ref: str) -> None:
    before = put(host, checks, ref, "there before")
    run_id = begin(host, checks)
    late = put(host, checks, ref, "written by somebody meanwhile")
    checks.equal(seen(host, run_id, ref), ["there before"])
    checks.equal(host.main.get(in_run(run_id, ref, late["id"])).status_code, 404)
    own = put_in(host, checks, run_id, ref, "written by the run", nodeId="n1")
    checks.equal(seen(host, run_id, ref), ["written by the run", "there before"])
    # A deletion does not change what a running run sees.
    checks.equal(host.main.delete(memory(ref, before["id"])).status_code, 204)
    checks.equal(seen(host, run_id, ref), ["written by the run", "there before"])
    checks.equal(host.main.get(in_run(run_id, ref, before["id"])).json()["content"], "there before")
    following = begin(host, checks)
    checks.equal(set(seen(host, following, ref)), {"written by somebody meanwhile", "written by the run"})
    checks.equal({entry["id"] for entry in host.entries(ref)}, {late["id"], own["id"]})


def test_each_write_of_a_run_is_one_event_with_its_node(host: Host, checks: Checks, ref: str) -> None:
    run_id = begin(host, checks, agent={"agentId": "acme.helper", "memoryRef": ref})
    first = put_in(host, checks, run_id, ref, "by a node", nodeId="n1", agentId="acme.helper", tags=["t"])
    second = put_in(host, checks, run_id, ref, "at the end of the session")
    events = [event for event in host.events(run_id) if event["type"] == "memory.written"]
    checks.equal([event["payload"]["memoryId"] for event in events], [first["id"], second["id"]])
    expected = {"memoryRef": ref, "memoryId": first["id"], "nodeId": "n1", "agentId": "acme.helper", "tags": ["t"]}
    checks.equal(events[0]["payload"], expected)
    checks("nodeId" not in events[1]["payload"])
    for event in events:
        checks(is_valid_event(event), event)


def test_a_hosts_own_words_go_into_the_log_and_facts_cannot_be_claimed(host: Host, checks: Checks, ref: str) -> None:
    run_id = begin(host, checks)
    path = f"/v1/host/runs/{run_id}/events"
    told = host.main.post(path, json={"type": "agent.toolCalled", "payload": {"toolName": "search"}, "nodeId": "n"})
    checks.equal(told.status_code, 201)
    checks(is_valid_event(told.json()), told.text)
    for type_, payload in (
        ("memory.written", {"memoryRef": ref, "memoryId": "mem_forged"}),
        ("run.completed", {}),
        ("commitment.fired", {"commitmentId": "c", "memoryRef": ref, "condition": "time"}),
        ("openwop.mine", {}),
        ("nodots", {}),
    ):
        checks.equal(host.main.post(path, json={"type": type_, "payload": payload}).status_code, 400)
    whole = host.main.get(f"/v1/runs/{run_id}/events/poll", params={"timeout": 0}).json()["events"]
    checks.equal([event["type"] for event in whole], ["run.started", "agent.toolCalled"])


def test_the_end_of_a_run_ends_its_log(host: Host, checks: Checks, ref: str) -> None:
    run_id = begin(host, checks, runId=f"host-{uuid.uuid4().hex}", tags=["nightly"])
    entry = put_in(host, checks, run_id, ref, "kept")
    variables = {
        "answer": 42,
        "entry": {"$memory": {"memoryRef": ref, "id": entry["id"]}},
        "entries": {"$memory": {"memoryRef": ref}},
        "theirs": {"$memory": {"memoryRef": "memoranda://t-aaaaaaaaaaaaaaaaaaaa/x"}},
    }
    ended = host.main.post(f"/v1/host/runs/{run_id}/finish", json={"variables": variables}).json()
    checks(has_shape(ended, RUN), ended)
    shown = {"answer": 42, "entry": entry, "entries": [entry], "theirs": []}
    checks.equal((ended["status"], ended["variables"], ended["tags"]), ("completed", shown, ["nightly"]))
    checks.equal(host.events(run_id)[-1]["type"], "run.completed")
    for answer in (
        host.main.post(f"/v1/host/runs/{run_id}/finish", json={}),
        host.main.post(f"/v1/host/runs/{run_id}/events", json={"type": "node.started"}),
        host.main.post(in_run(run_id, ref), json={"content": "too late"}),
        host.main.post(f"/v1/host/runs/{run_id}/secrets", json={"secretId": "s", "value": "long enough"}),
        host.main.post("/v1/host/runs", json={"workflowId": "acme.support", "runId": run_id}),
    ):
        checks.equal((answer.status_code, answer.json()["error"]), (409, "conflict"))
    # What is deleted does not live on in a run.
    host.main.delete(memory(ref, entry["id"]))
    checks.equal(host.entries(ref), [])


def test_a_failed_run_says_why(host: Host, checks: Checks) -> None:
    run_id = begin(host, checks)
    error = {"code": "tool_failed", "message": "the tool did not answer"}
    path = f"/v1/host/runs/{run_id}/finish"
    checks.equal(host.main.post(path, json={"status": "completed", "error": error}).status_code, 400)
    checks.equal(host.main.post(path, json={"status": "running"}).status_code, 400)
    ended = host.main.post(path, json={"status": "failed", "error": error}).json()
    checks.equal((ended["status"], ended["error"]), ("failed", error))
    checks(run_id in [run["runId"] for run in host.main.get("/v1/host/runs").json()["runs"]])


def test_a_secret_of_a_run_is_stored_nowhere(host: Host, checks: Checks, ref: str) -> None:
    run_id, secret = begin(host, checks), f"s3cr3t-{uuid.uuid4().hex}"
    path = f"/v1/host/runs/{run_id}"
    known = host.main.post(f"{path}/secrets", json={"secretId": "crm", "value": secret})
    checks.equal(known.json(), {"registered": True})
    short = host.main.post(f"{path}/secrets", json={"secretId": "pin", "value": "1234"})
    checks.equal(short.json(), {"registered": False})
    made = put_in(host, checks, run_id, ref, f"call with {secret}!", tags=[f"key:{secret}"], nodeId="n")
    checks.equal((made["content"], made["tags"]), ("call with [REDACTED:crm]!", ["key:[REDACTED:crm]"]))
    host.main.post(f"{path}/events", json={"type": "log.appended", "payload": {"line": f"used {secret}"}})
    ended = host.main.post(f"{path}/finish", json={"variables": {"used": [secret]}})
    shown = [
        ended.text,
        json.dumps(host.events(run_id)),
        json.dumps(host.entries(ref)),
        host.main.get(f"/v1/runs/{run_id}").text,
    ]
    checks(not [text for text in shown if secret in text])
    checks.equal(ended.json()["variables"], {"used": ["[REDACTED:crm]"]})


def test_a_branch_keeps_what_was_and_goes_on(host: Host, checks: Checks, ref: str) -> None:
    run_id = begin(host, checks)
    put_in(host, checks, run_id, ref, "before the branch")
    put_in(host, checks, run_id, ref, "after the branch")
    answer = host.main.post(f"/v1/runs/{run_id}:fork", json={"mode": "branch", "fromSeq": 2})
    checks.equal((answer.status_code, answer.json()["status"]), (201, "running"))
    branch = answer.json()["runId"]
    checks.equal([event["type"] for event in host.events(branch)], ["run.started", "memory.written"])
    put_in(host, checks, branch, ref, "written by the branch")
    checks.equal([event["sequence"] for event in host.events(branch)], [0, 1, 2])


# --- passes, schedules, commitments --------------------------------------------------------------------------


def test_a_pass_is_started_as_a_run_and_can_be_undone(host: Host, checks: Checks, ref: str) -> None:
    for _ in range(2):
        put(host, checks, ref, "The office of the team is in Ghent.")
    started = host.main.post("/v1/runs", json={"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": ref}})
    checks.equal(started.status_code, 201)
    checks.equal(len(host.entries(ref)), 1)
    event = next(e for e in host.events(started.json()["runId"]) if e["type"] == "agent.memory.consolidated")
    checks.equal((event["payload"]["inputCount"], event["payload"]["outputCount"]), (2, 1))
    undone = host.main.post(f"/v1/host/runs/{started.json()['runId']}/undo", json={})
    checks.equal(undone.json(), {"restored": 1})
    checks.equal(len(host.entries(ref)), 2)


def test_the_budget_of_a_distillation_is_an_option_of_its_run(host: Host, checks: Checks, ref: str) -> None:
    put(host, checks, ref, "The budget of a run is one of its options.")
    body: dict[str, Any] = {"workflowId": "memoranda.distillation", "inputs": {"memoryRef": ref}}
    started = host.main.post("/v1/runs", json={**body, "configurable": {"distillation.tokenBudget": 900}})
    event = next(e for e in host.events(started.json()["runId"]) if e["type"] == "memory.compacted")
    checks.equal(event["payload"]["distillation"]["tokenBudget"], 900)
    small = host.main.post("/v1/runs", json={**body, "configurable": {"distillation.tokenBudget": 1}})
    checks.equal((small.status_code, small.json()["error"]), (422, "token_budget_exceeded"))
    wrong = host.main.post("/v1/runs", json={**body, "configurable": {"distillation.tokenBudget": 0}})
    checks.equal((wrong.status_code, wrong.json()["error"]), (400, "validation_error"))


def test_a_schedule_is_kept_shown_and_taken_away(host: Host, checks: Checks, ref: str) -> None:
    host.needs(checks, host.claims("memory", "distillation", "scheduled"), "memory.distillation.scheduled")
    path = "/v1/host/schedules"
    made = host.main.put(path, json={"memoryRef": ref, "cron": "30 3 * * *", "tokenBudget": 500}).json()
    checks.equal((made["cron"], made["tokenBudget"]), ("30 3 * * *", 500))
    checks(datetime.fromisoformat(made["nextAt"]) > datetime.now(UTC))
    checks(made in host.main.get(path).json()["schedules"])
    checks(ref not in host.other.get(path).text)
    for cron in ("", "61 * * * *", "30 2 31 2 *", "@reboot", "* * * *", 7):
        checks.equal(host.main.put(path, json={"memoryRef": ref, "cron": cron}).status_code, 400)
    checks.equal(host.main.delete(path, params={"memoryRef": ref}).status_code, 204)
    checks.equal(host.main.delete(path, params={"memoryRef": ref}).status_code, 404)


def test_a_commitment_is_found_put_off_and_cancelled(host: Host, checks: Checks, ref: str) -> None:
    made = put(host, checks, ref, "Remind me tomorrow at 9:00 to call the printer about the canary brochure.")
    answer = host.main.post("/v1/host/commitments/infer", json={"memoryRef": ref})
    checks("brochure" not in answer.text)
    (found,) = answer.json()["commitments"]
    checks.equal((found["memoryId"], found["condition"], found["state"]), (made["id"], "time", "open"))
    path = f"/v1/host/commitments/{found['commitmentId']}"
    checks.equal(host.other.post(f"{path}/cancel", json={}).status_code, 404)
    checks.equal(host.main.post(f"{path}/snooze", json={"until": "2020-01-01T00:00:00Z"}).status_code, 400)
    later = host.main.post(f"{path}/snooze", json={"until": "2999-01-01T00:00:00Z"}).json()
    checks(later["dueAt"].startswith("2999-01-01"))
    checks.equal(host.main.post(f"{path}/cancel", json={}).json()["state"], "cancelled")
    listed = host.main.get("/v1/host/commitments", params={"memoryRef": ref}).json()["commitments"]
    checks.equal([each["state"] for each in listed], ["cancelled"])
    checks(found["commitmentId"] not in host.other.get("/v1/host/commitments").text)


def test_a_watched_ref_fires_by_itself_once(host: Host, checks: Checks, ref: str) -> None:
    host.needs(checks, host.claims("agents", "commitments", "supported"), "agents.commitments")
    host.main.post("/v1/host/commitments/watch", json={"memoryRef": ref})
    put(host, checks, ref, "When the audit is finished, send the report to the board.")

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = host.main.get("/v1/host/commitments", params={"memoryRef": ref}).json()[
            "commitments"
        ]
        return found

    until(listed, "nothing was found")
    checks.equal([each["fired"] for each in listed()], [0])
    put(host, checks, ref, "The audit is finished.")
    until(lambda: listed()[0]["state"] != "open", "it did not fire")
    found = listed()[0]
    checks.equal((found["state"], found["fired"]), ("fired", 1))
    host.main.post("/v1/host/commitments/watch", json={"memoryRef": ref, "watched": False})


# --- workspace -----------------------------------------------------------------------------------------------


def test_a_workspace_file_has_versions_and_is_guarded(host: Host, checks: Checks) -> None:
    path = f"/v1/host/workspace/files/notes/{uuid.uuid4().hex}.md"
    first = host.main.put(path, json={"content": "one"}, headers={"if-none-match": "*"})
    checks.equal((first.status_code, first.json()["version"]), (200, 1))
    checks.equal(first.headers["etag"], first.json()["etag"])
    again = host.main.put(path, json={"content": "one"}, headers={"if-none-match": "*"})
    checks.equal((again.status_code, again.json()["error"]), (409, "workspace_conflict"))
    second = host.main.put(path, json={"content": "two"}, headers={"if-match": first.headers["etag"]})
    checks.equal(second.json()["version"], 2)
    stale = host.main.put(path, json={"content": "three"}, headers={"if-match": first.headers["etag"]})
    checks.equal((stale.status_code, stale.json()["error"]), (409, "workspace_conflict"))
    checks.equal(stale.json()["details"], {"currentVersion": 2})
    checks.equal(host.main.get(path).json()["content"], "two")
    checks.equal(host.main.get(path, params={"version": 1}).json()["content"], "one")
    checks.equal(host.main.get(path, params={"version": 9}).status_code, 404)
    listed = host.main.get("/v1/host/workspace/files", params={"prefix": path.rpartition("files/")[2]}).json()["files"]
    checks.equal([(file["version"], "content" in file) for file in listed], [(2, False)])
    checks.equal(host.main.delete(path, headers={"if-match": '"v1"'}).status_code, 409)
    checks.equal(host.main.delete(path).status_code, 204)
    checks.equal(host.main.delete(path).status_code, 404)
    # No two contents ever share a version, and the deletion was one.
    checks.equal(host.main.put(path, json={"content": "four"}).json()["version"], 4)


def test_a_workspace_file_that_cannot_be_is_refused(host: Host, checks: Checks) -> None:
    big = "x" * (host.claims("workspace", "maxFileBytes") + 1)
    answer = host.main.put("/v1/host/workspace/files/big.md", json={"content": big})
    checks.equal((answer.status_code, answer.json()["error"]), (413, "workspace_too_large"))
    for name in ("%2E%2E/x", "a/%2E%2E/b", "%2Fetc", "a//b", "%00", "a%20b", "x" * 257, "-a"):
        bad = host.main.put(f"/v1/host/workspace/files/{name}", json={"content": "x"})
        checks.equal((bad.status_code, bad.json()["error"]), (400, "validation_error"))
    wrong: tuple[Any, ...] = (
        {},
        {"content": 1},
        {"content": "x", "version": 3},
        {"content": "x", "contentType": "-"},
        [],
    )
    for body in wrong:
        checks.equal(host.main.put("/v1/host/workspace/files/x.md", json=body).status_code, 400)
