"""Compaction, distillation, consolidation and commitments: what they leave, on record and without secrets."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conformance.openwop.host import Checks, Host, memory
from tests.conformance.openwop.shapes import ENTRY, FILE, PAYLOADS, has_shape, is_content_free, is_valid_event

from memoranda.standards.cal.printing.counter import make_counter

SEED, COMPACT = "/v1/test/memory/seed", "/v1/test/memory/compact"
DISTILL = "/v1/host/sample/memory/distill"
CONSOLIDATE = "/v1/host/sample/memory/consolidate"
FIRE = "/v1/host/sample/commitment/fire"
INDEX = "/v1/host/workspace/files/MEMORY-INDEX.json"
MARKER = re.compile(r"\[REDACTED:[^\]]+\]")
CANARY = "sk-canary-rfc0062-do-not-leak-qrs456"


def fresh(name: str) -> str:
    return f"mem_tenant:default_agent:{name}-{uuid.uuid4().hex}_longTerm"


def logged(host: Host, checks: Checks, body: dict[str, Any], type_: str) -> dict[str, Any]:
    """The event in the log of the run that the seam names: it was recorded, not only answered."""
    host.needs(checks, "runId" in body, "runId in answers of seams")
    found = [event for event in host.events(body["runId"]) if event["type"] == type_]
    checks.equal(len(found), 1)
    checks(is_valid_event(found[0]), found[0])
    payload: dict[str, Any] = found[0]["payload"]
    return payload


# --- compaction --------------------------------------------------------------------------------------------


def compacted(host: Host, checks: Checks, ref: str, *contents: str) -> dict[str, Any]:
    host.needs(checks, host.claims("memory", "compaction", "supported"), "memory.compaction")
    host.needs_seam(checks, COMPACT)
    entries = [{"id": f"s{number}", "content": text, "tags": []} for number, text in enumerate(contents)]
    checks.equal(host.main.post(SEED, json={"memoryRef": ref, "entries": entries}).status_code, 201)
    answer = host.main.post(COMPACT, json={"memoryRef": ref})
    checks.equal(answer.status_code, 200)
    body: dict[str, Any] = answer.json()
    checks.equal(body["type"], "memory.compacted")
    return body


def test_a_compaction_is_told_and_recorded(host: Host, checks: Checks) -> None:
    ref = fresh("event")
    body = compacted(host, checks, ref, "One thing was said.", "Another was said later.", "And a third one.")
    payload = body["payload"]
    checks(has_shape(payload, PAYLOADS["memory.compacted"]), payload)
    checks.equal((payload["memoryRef"], payload["sourceCount"]), (ref, 3))
    checks.equal(payload["trigger"], "host-managed")
    checks.equal(len(payload.get("sourceIds", range(3))), 3)
    checks(is_content_free(payload))
    checks.equal(payload["byteSize"], len(body["outputContent"].encode()))
    checks.equal(logged(host, checks, body, "memory.compacted"), payload)


def test_markers_of_other_hosts_come_through_a_compaction_as_ours(host: Host, checks: Checks) -> None:
    body = compacted(
        host, checks, fresh("sr1"), "Uses [BYOK:hk_live_canary_42] to sign.", "Reads <REDACTED:db-prod-creds> at noon."
    )
    text = body["outputContent"]
    checks("[BYOK:" not in text)
    checks("<REDACTED:" not in text)
    checks.equal(len(MARKER.findall(text)), 2)


def test_the_compacted_entry_is_there_and_names_its_sources(host: Host, checks: Checks) -> None:
    ref = fresh("tag")
    body = compacted(host, checks, ref, "The office is in Ghent.", "Lunch is at noon.")
    output = body["payload"]["outputId"]
    found = next(entry for entry in host.entries(ref, limit=50) if entry["id"] == output)
    tags = [tag for tag in found["tags"] if tag.startswith("compacted-from:")]
    # RFC 0012 §C: the run of the compaction, which has a log that says so.
    checks.equal(len(tags), 1)
    checks(re.fullmatch(r"compacted-from:[^\s:][^\s]*", tags[0]))
    log = host.main.get(f"/v1/runs/{tags[0].removeprefix('compacted-from:')}/events/poll").json()["events"]
    checks(any(event["payload"].get("outputId") == output for event in log))
    one = host.main.get(memory(ref, output))
    checks.equal((one.status_code, one.json()), (200, found))
    checks.equal(found["content"], body["outputContent"])
    # Its sources are replaced, not doubled.
    sources = body["payload"]["sourceIds"]
    checks(not set(sources) & {entry["id"] for entry in host.entries(ref)})


def test_a_seam_without_a_ref_is_a_bad_request(host: Host, checks: Checks) -> None:
    host.needs_seam(checks, COMPACT)
    for path in (SEED, COMPACT, DISTILL, CONSOLIDATE, FIRE):
        answer = host.main.post(path, json={})
        checks.equal((answer.status_code, answer.json()["error"]), (400, "validation_error"))


# --- distillation ------------------------------------------------------------------------------------------


def distill(host: Host, checks: Checks, ref: str, **fields: Any) -> dict[str, Any]:
    host.needs(checks, host.claims("memory", "distillation", "supported"), "memory.distillation")
    host.needs_seam(checks, DISTILL)
    answer = host.main.post(DISTILL, json={"memoryRef": ref, **fields})
    checks.equal(answer.status_code, 200)
    body: dict[str, Any] = answer.json()
    checks(has_shape(body["event"], PAYLOADS["memory.compacted"]), body)
    return body


def test_a_distillation_stays_within_its_budget(host: Host, checks: Checks) -> None:
    told = distill(host, checks, "conformance-distill", tokenBudget=8000)["event"]["distillation"]
    checks.equal(told["tokenBudget"], 8000)
    checks(0 <= told["tokensUsed"] <= 8000)


def test_a_budget_that_cannot_be_met_writes_nothing(host: Host, checks: Checks) -> None:
    ref = fresh("atomic")
    distill(host, checks, ref, tokenBudget=8000, sources=["Something to keep."])
    before, index = host.entries(ref), host.main.get(INDEX).text
    answer = host.main.post(DISTILL, json={"memoryRef": ref, "tokenBudget": 1, "sources": ["Far too long for one."]})
    body = answer.json()
    checks.equal((answer.status_code, body["error"]), (422, "token_budget_exceeded"))
    checks("archiveChecksum" not in body)
    checks(body["details"]["minimumRequired"] > body["details"]["budget"] == 1)
    checks.equal((host.entries(ref), host.main.get(INDEX).text), (before, index))


@pytest.mark.parametrize("asked", [None, 10_000_000])
def test_without_a_budget_or_above_all_the_greatest_counts(host: Host, checks: Checks, asked: int | None) -> None:
    fields = {} if asked is None else {"tokenBudget": asked}
    told = distill(host, checks, fresh("clamp"), sources=["A short note."], **fields)["event"]["distillation"]
    checks.equal(told["tokenBudget"], host.claims("memory", "distillation", "maxTokenBudget"))


def test_the_tokens_are_those_of_input_and_output(host: Host, checks: Checks) -> None:
    sources = [
        f"In week {number} the team shipped release {number} and closed {number * 3} issues." for number in range(60)
    ]
    body = distill(host, checks, (ref := fresh("count")), tokenBudget=6000, sources=sources)
    named = host.claims("memory", "distillation", "tokenizerName")
    host.needs(checks, named in ("bytes/4", "estimate"), "tokenizerName bytes/4 or estimate")
    archive = host.main.get(memory(ref, body["event"]["outputId"])).json()["content"]
    counted = sum(map(make_counter(named).count, (*sources, archive)))
    used = body["event"]["distillation"]["tokensUsed"]
    checks(abs(used - counted) <= counted * 0.1, (used, counted))


def test_the_same_sources_and_budget_give_the_same_archive(host: Host, checks: Checks) -> None:
    ref, fields = "conformance-distill", {"tokenBudget": 8000, "sources": ["s1", "s2", "s3"]}
    first, second = (distill(host, checks, ref, **fields) for _ in range(2))
    checks(first["archiveChecksum"])
    checks.equal(first["archiveChecksum"], second["archiveChecksum"])
    other = distill(host, checks, ref, tokenBudget=8000, sources=["s1", "s2", "s4"])
    checks(other["archiveChecksum"] != first["archiveChecksum"])


def test_an_archive_can_be_read_and_is_kept_as_long_as_is_said(host: Host, checks: Checks) -> None:
    ref = fresh("archive")
    body = distill(host, checks, ref, tokenBudget=8000, sources=["The cat sleeps.", "The dog barks at noon."])
    answer = host.main.get(memory(ref, body["event"]["outputId"]))
    checks.equal(answer.status_code, 200)
    entry = answer.json()
    checks(has_shape(entry, ENTRY), entry)
    checks(any(body["archiveChecksum"] in tag for tag in entry["tags"]))
    days = int(re.fullmatch(r"P(\d+)D", host.claims("memory", "distillation", "archiveRetention"))[1])  # type: ignore[index]
    left = datetime.fromisoformat(entry["expiresAt"]) - datetime.now(UTC)
    checks(timedelta(days=days - 1) < left <= timedelta(days=days))


def test_the_index_is_a_workspace_file_that_names_the_archive(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("memory", "distillation", "indexEmitted"), "memory.distillation.indexEmitted")
    ref = fresh("index")
    body = distill(host, checks, ref, tokenBudget=8000, sources=["A note."], indexEmitted=True)
    checks(body["indexUpdated"] is True)
    checks(body["indexFile"] is not None)
    checks(body["event"]["distillation"]["indexUpdated"] is True)
    file = host.main.get(INDEX).json()
    checks(has_shape(file, FILE), file)
    checks(body["event"]["outputId"] in file["content"])
    updated = logged(host, checks, body, "workspace.updated")
    checks.equal(updated, {"path": "MEMORY-INDEX.json", "version": file["version"]})
    checks.equal(logged(host, checks, body, "memory.compacted"), body["event"])


def test_no_index_unless_it_is_asked_for(host: Host, checks: Checks) -> None:
    before = host.main.get(INDEX).text
    body = distill(host, checks, fresh("none"), tokenBudget=8000, sources=["A note."], indexEmitted=False)
    checks(body["indexUpdated"] is False)
    checks.equal(host.main.get(INDEX).text, before)


def test_no_secret_comes_through_a_distillation(host: Host, checks: Checks) -> None:
    ref = fresh("secret")
    sources = [{"content": f"notes with embedded secret {CANARY}"}]
    body = distill(host, checks, ref, tokenBudget=8000, sources=sources, includeSecretCanary=True)
    checks(CANARY not in json.dumps(body))
    # The answer holds no text of the archive: only the archive itself can tell.
    archive = host.main.get(memory(ref, body["event"]["outputId"])).json()
    checks(MARKER.search(archive["content"]), archive)
    checks(CANARY not in json.dumps([archive, host.main.get(INDEX).json(), host.events(body["runId"])]))


# --- consolidation -----------------------------------------------------------------------------------------


def test_a_second_consolidation_changes_nothing(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("agents", "memoryConsolidation", "supported"), "agents.memoryConsolidation")
    host.needs_seam(checks, CONSOLIDATE)
    ref = "mem://conformance/consolidation"
    first = host.main.post(CONSOLIDATE, json={"memoryRef": ref, "includeSecretCanary": True})
    second = host.main.post(CONSOLIDATE, json={"memoryRef": ref})
    checks.equal((first.status_code, second.status_code), (200, 200))
    for answer in (first, second):
        event = answer.json()["event"]
        checks(has_shape(event, PAYLOADS["agent.memory.consolidated"]), event)
        checks.equal(event["memoryRef"], ref)
        checks.equal(logged(host, checks, answer.json(), "agent.memory.consolidated"), event)
    told, again = first.json()["event"], second.json()["event"]
    checks(told["outputCount"] <= told["inputCount"])
    checks.equal((again["inputCount"], again["outputCount"]), (told["outputCount"], told["outputCount"]))
    checks(first.json()["secretLeaked"] is False)
    checks.equal(len(host.entries(ref)), told["outputCount"])


# --- commitments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["time", "predicate"])
def test_a_commitment_fires_once_and_says_nothing_of_itself(host: Host, checks: Checks, condition: str) -> None:
    host.needs(checks, host.claims("agents", "commitments", "supported"), "agents.commitments")
    host.needs(checks, condition in host.claims("agents", "commitments").get("fireConditions", ["time"]), condition)
    host.needs_seam(checks, FIRE)
    ref = "mem://conformance/commitments"
    fields = {"memoryRef": ref, "condition": condition, "includeIntentionCanary": True}
    answer = host.main.post(FIRE, json=fields)
    checks.equal(answer.status_code, 200)
    body = answer.json()
    checks(has_shape(body["event"], PAYLOADS["commitment.fired"]), body)
    checks.equal((body["event"]["memoryRef"], body["event"]["condition"]), (ref, condition))
    checks(body["intentionCanary"] not in json.dumps(body["event"]))
    checks.equal(body["fireCount"], 1)
    checks.equal(logged(host, checks, body, "commitment.fired"), body["event"])
    checks(body["intentionCanary"] not in json.dumps(host.events(body["runId"])))
    again = host.main.post(FIRE, json=fields).json()
    checks(again["event"]["commitmentId"] != body["event"]["commitmentId"])
