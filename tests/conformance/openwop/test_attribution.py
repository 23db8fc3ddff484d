"""The log of a run: what was written is on record, without content, and a replay repeats it and nothing else."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.conformance.openwop.host import Checks, Host
from tests.conformance.openwop.shapes import has_shape, is_valid_event, shape

NOOP = "conformance-noop"
FACTS = ("memory.written", "agent.memory.consolidated", "commitment.fired")


@pytest.fixture
def run_id(host: Host, checks: Checks) -> str:
    claim = host.claims("memory", "attribution", "emitsWriteEvents")
    host.needs(checks, claim, "memory.attribution.emitsWriteEvents")
    host.needs(checks, NOOP in (host.claims("fixtures") or ()), NOOP)
    snapshot = host.run(checks, NOOP)
    checks.equal(snapshot["status"], "completed")
    return str(snapshot["runId"])


def written(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == "memory.written"]


def test_attribution_is_claimed_in_its_form(host: Host, checks: Checks) -> None:
    claim = host.claims("memory", "attribution")
    host.needs(checks, claim, "memory.attribution")
    allowed = shape("supported", supported={"const": True}, emitsWriteEvents={"type": "boolean"})
    checks(has_shape(claim, allowed), claim)


def test_a_run_that_writes_says_so_in_its_own_log(host: Host, checks: Checks, run_id: str) -> None:
    found = written(host.events(run_id))
    checks(found, "a write without a record")
    for event in found:
        checks.equal(event["runId"], run_id)
        checks(event["payload"]["memoryRef"])
        checks(event["payload"]["memoryId"])


def test_the_entry_that_a_log_names_is_there(host: Host, checks: Checks, run_id: str) -> None:
    payload = written(host.events(run_id))[0]["payload"]
    host.needs(checks, host.main.get("/v1/memory/x").status_code == 200, "GET /v1/memory")
    checks(payload["memoryId"] in [entry["id"] for entry in host.entries(payload["memoryRef"])])


def test_every_event_is_valid_and_without_content(host: Host, checks: Checks, run_id: str) -> None:
    events = host.events(run_id)
    for event in events:
        checks(is_valid_event(event), event)
    checks.equal([event["sequence"] for event in events], list(range(len(events))))
    checks.equal(len({event["eventId"] for event in events}), len(events))


def test_a_log_never_changes(host: Host, checks: Checks, run_id: str) -> None:
    before = host.events(run_id)
    host.main.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay", "fromSeq": 0})
    checks.equal(host.events(run_id), before)


@pytest.mark.requirement("WOP-5-events")
def test_json_and_stream_tell_the_same(host: Host, checks: Checks, run_id: str) -> None:
    stream = host.main.get(f"/v1/runs/{run_id}/events", headers={"accept": "text/event-stream"})
    checks(stream.headers["content-type"].startswith("text/event-stream"))
    told = [line.removeprefix("id: ") for line in stream.text.splitlines() if line.startswith("id: ")]
    checks.equal(told, [str(event["sequence"]) for event in host.events(run_id)])
    answer = host.main.get(f"/v1/runs/{run_id}/events", headers={"accept": "application/json"})
    checks(answer.json().get("isComplete", True) is True)


@pytest.mark.requirement("WOP-5-fork-unknown")
def test_a_replay_repeats_the_facts_and_makes_none(host: Host, checks: Checks, run_id: str) -> None:
    host.needs(checks, "replay" in (host.claims("replay", "modes") or ()), "replay")
    answer = host.main.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay", "fromSeq": 0})
    checks.equal(answer.status_code, 201)
    forked = answer.json()
    checks.equal((forked["sourceRunId"], forked["fromSeq"], forked["mode"]), (run_id, 0, "replay"))
    checks(forked["runId"] != run_id)
    source, fork = host.events(run_id), host.events(forked["runId"])
    facts, repeated = ([event for event in events if event["type"] in FACTS] for events in (source, fork))
    checks(facts)
    checks.equal([event["payload"] for event in repeated], [event["payload"] for event in facts])
    checks.equal([event["timestamp"] for event in repeated], [event["timestamp"] for event in facts])
    checks(all(event["runId"] == forked["runId"] for event in fork))
    checks(not {event["eventId"] for event in source} & {event["eventId"] for event in fork})
    for event in fork:
        checks(is_valid_event(event), event)


def test_a_replay_writes_no_memory(host: Host, checks: Checks, run_id: str) -> None:
    host.needs(checks, host.main.get("/v1/memory/x").status_code == 200, "GET /v1/memory")
    ref = written(host.events(run_id))[0]["payload"]["memoryRef"]
    before = host.entries(ref, limit=1000)
    host.main.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay"})
    checks.equal(host.entries(ref, limit=1000), before)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"mode": "sideways"}, 400),
        ({}, 400),
        ({"mode": "branch"}, 400),
        ({"mode": "replay", "fromSeq": -1}, 400),
        ({"mode": "replay", "fromSeq": "0"}, 400),
        ({"mode": "replay", "runOptionsOverlay": {}}, 400),
        ({"mode": "replay", "fromSeq": 100_000}, 422),
        ({"mode": "branch", "fromSeq": 100_000}, 422),
    ],
)
def test_a_fork_that_cannot_be_is_refused(
    host: Host, checks: Checks, run_id: str, body: dict[str, Any], status: int
) -> None:
    answer = host.main.post(f"/v1/runs/{run_id}:fork", json=body)
    checks.equal(answer.status_code, status)
    checks.equal(answer.json()["error"], "validation_error" if status == 400 else "invalid_from_seq")


@pytest.mark.requirement("WOP-5-fork-unknown")
def test_an_unknown_run_cannot_be_forked(host: Host, checks: Checks) -> None:
    answer = host.main.post("/v1/runs/run-that-never-was:fork", json={"mode": "replay"})
    checks.equal((answer.status_code, answer.json()["error"]), (404, "not_found"))


def test_a_replay_without_its_memory_is_refused(host: Host, checks: Checks) -> None:
    version = host.claims("multiAgent", "executionModel", "version") or 0
    lost = "memoranda-conformance-lost-memory"
    expired = os.environ.get("OPENWOP_TEST_EXPIRED_REPLAY_RUN_ID")
    if expired is None and lost in (host.claims("fixtures") or ()):
        expired = host.run(checks, lost)["runId"]
    host.needs(checks, version >= 2 and expired, "multiAgent.executionModel")
    answer = host.main.post(f"/v1/runs/{expired}:fork", json={"mode": "replay", "fromSeq": 0})
    body = answer.json()
    checks.equal((answer.status_code, body["error"]), (422, "replay_memory_snapshot_unavailable"))
    checks.equal((body["details"]["fromSeq"], body["details"]["sourceRunId"]), (0, expired))
    checks(body["details"]["reason"] in ("retention_expired", "event_log_unavailable"))
