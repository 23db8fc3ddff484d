"""Reviewable learning: a proposal does nothing until somebody who may applies it, and then exactly what it says."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.conformance.openwop.host import Checks, Host
from tests.conformance.openwop.shapes import PROPOSAL, has_shape, is_valid_event

PROPOSALS = "/v1/host/sample/proposals"
JOB = {"workflowId": "acme.report", "schedule": {"cron": "0 9 * * 1"}, "name": "Monday's report"}
PACK = {
    "name": "vendor.acme.helpers",
    "version": "1.0.0",
    "agents": [
        {
            "agentId": "vendor.acme.helpers.reader",
            "persona": "Reader",
            "modelClass": "small",
            "systemPrompt": "Read what is given.",
            "memoryShape": {"longTerm": True, "scratchpad": True},
        }
    ],
}


def propose(host: Host, checks: Checks, artifact: dict[str, Any], kind: str = "automation") -> dict[str, Any]:
    host.needs(checks, host.claims("agents", "proposals"), "agents.proposals")
    answer = host.main.post(PROPOSALS, json={"kind": kind, "artifact": artifact, "title": "Learned"})
    host.needs(checks, answer.status_code == 201, f"POST {PROPOSALS}")
    made: dict[str, Any] = answer.json()
    checks(has_shape(made, PROPOSAL), made)
    checks.equal(made["state"], "draft")
    return made


def events_of(host: Host, type_: str) -> list[dict[str, Any]]:
    runs = host.main.get("/v1/host/runs").json()["runs"]
    return [event for run in runs for event in host.events(run["runId"]) if event["type"] == type_]


def refused(checks: Checks, answer: httpx.Response, status: int, code: str) -> None:
    checks.equal((answer.status_code, answer.json()["error"]), (status, code))


def test_drafts_are_listed_and_the_suite_may_not_apply_them(host: Host, checks: Checks) -> None:
    made = propose(host, checks, {**JOB, "name": "listed"})
    listed = host.main.get(PROPOSALS, params={"state": "draft"}).json()["proposals"]
    checks(made["id"] in [each["id"] for each in listed])
    for each in listed:
        checks(has_shape(each, PROPOSAL), each)
    before = events_of(host, "proposal.activated")
    answer = host.main.post(f"{PROPOSALS}/{made['id']}/apply", json={})
    refused(checks, answer, 403, "forbidden")
    checks.equal(answer.json()["details"]["scopeRequired"], "activate")
    checks.equal(host.main.get(f"{PROPOSALS}/{made['id']}").json(), made)
    checks.equal(events_of(host, "proposal.activated"), before)


def test_the_birth_of_a_proposal_is_on_record_without_its_words(host: Host, checks: Checks) -> None:
    made = propose(host, checks, {**JOB, "name": "born"})
    found = [event for event in events_of(host, "proposal.created") if event["payload"]["proposalId"] == made["id"]]
    checks.equal(len(found), 1)
    checks(is_valid_event(found[0]), found[0])


@pytest.mark.requirement("WOP-5-agents")
def test_a_proposal_is_inert_until_it_is_applied(host: Host, checks: Checks) -> None:
    made = propose(host, checks, PACK, "agent-pack")
    agents = [each["agentId"] for each in host.main.get("/v1/agents").json()["agents"]]
    checks("vendor.acme.helpers.reader" not in agents)
    done = host.activator.post(f"{PROPOSALS}/{made['id']}/apply", json={})
    checks.equal(done.status_code, 200)
    agents = host.main.get("/v1/agents").json()["agents"]
    found = next(each for each in agents if each["agentId"] == "vendor.acme.helpers.reader")
    checks.equal((found["memoryShape"], "memoryDegraded" in found), ({"longTerm": True, "scratchpad": True}, False))
    # No prompt leaves with the inventory.
    checks("systemPrompt" not in found)


def test_what_is_installed_is_what_was_kept_last(host: Host, checks: Checks) -> None:
    made = propose(host, checks, {**JOB, "name": "first words"})
    path = f"{PROPOSALS}/{made['id']}"
    artifact = {**JOB, "inputs": {"b": 1, "a": [1.5, "é"]}, "name": "last words"}
    revised = host.main.patch(path, json={"artifact": artifact, "title": "Revised"})
    checks.equal((revised.status_code, revised.json()["state"]), (200, "revised"))
    checks.equal(host.main.get("/v1/host/artifacts").json()["artifacts"].get("x"), None)
    ref = host.activator.post(f"{path}/apply", json={}).json()["installedArtifactRef"]
    applied = host.main.get(path).json()
    checks(has_shape(applied, PROPOSAL), applied)
    checks.equal((applied["state"], applied["artifact"]), ("applied", artifact))
    checks.equal(applied["activation"]["installedArtifactRef"], ref)
    installed = host.main.get("/v1/host/artifacts").json()["artifacts"][ref]
    checks.equal(list(installed.items()), list(artifact.items()))
    found = [event for event in events_of(host, "proposal.activated") if event["payload"]["proposalId"] == made["id"]]
    checks.equal([event["payload"]["installedArtifactRef"] for event in found], [ref])
    checks(is_valid_event(found[0]), found[0])
    refused(checks, host.activator.post(f"{path}/apply", json={}), 409, "conflict")


def test_an_artifact_that_is_malformed_for_its_kind_is_not_applied(host: Host, checks: Checks) -> None:
    made = propose(host, checks, {**JOB, "name": "to be spoilt"})
    path = f"{PROPOSALS}/{made['id']}"
    checks.equal(host.main.patch(path, json={"artifact": {"workflowId": 7}}).status_code, 200)
    refused(checks, host.activator.post(f"{path}/apply", json={}), 422, "malformed_artifact")
    checks.equal(host.main.get(path).json()["state"], "revised")


def test_an_approval_lets_others_apply_what_was_approved(host: Host, checks: Checks) -> None:
    made = propose(host, checks, {**JOB, "name": "approved"})
    path = f"{PROPOSALS}/{made['id']}"
    refused(checks, host.main.post(f"{path}/approve", json={}), 403, "forbidden")
    stale = host.activator.post(f"{path}/approve", json={}).json()["approvalId"]
    host.main.patch(path, json={"artifact": {**JOB, "name": "changed since"}})
    refused(checks, host.main.post(f"{path}/apply", json={"approvalId": stale}), 403, "forbidden")
    approval = host.activator.post(f"{path}/approve", json={}).json()["approvalId"]
    checks.equal(host.main.post(f"{path}/apply", json={"approvalId": approval}).status_code, 200)
    checks.equal(host.main.get(path).json()["activation"]["approvalId"], approval)


def test_a_proposal_can_be_refused_and_put_away(host: Host, checks: Checks) -> None:
    made = propose(host, checks, {**JOB, "name": "refused"})
    path = f"{PROPOSALS}/{made['id']}"
    checks.equal(host.main.post(f"{path}/reject", json={"reason": "no"}).json()["state"], "rejected")
    refused(checks, host.activator.post(f"{path}/apply", json={}), 409, "conflict")
    archived = host.main.delete(path)
    checks.equal((archived.status_code, archived.json()["state"]), (200, "archived"))
    refused(checks, host.main.patch(path, json={"title": "again"}), 409, "conflict")


def test_the_same_proposal_again_is_marked_as_a_duplicate(host: Host, checks: Checks) -> None:
    first, second = (propose(host, checks, {**JOB, "name": "twice"}) for _ in range(2))
    checks.equal((first["duplicateOf"], second["duplicateOf"]), (None, first["id"]))


def test_a_proposal_holds_no_secret(host: Host, checks: Checks) -> None:
    propose(host, checks, {**JOB, "name": "clean"})
    key = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 2
    artifact = {**JOB, "inputs": {"token": key}}
    answer = host.main.post(PROPOSALS, json={"kind": "automation", "artifact": artifact})
    refused(checks, answer, 400, "validation_error")
    checks(key not in answer.text)


@pytest.mark.parametrize("field", ["state", "id", "activation", "kind"])
def test_a_revision_never_moves_a_proposal(host: Host, checks: Checks, field: str) -> None:
    made = propose(host, checks, {**JOB, "name": f"fixed {field}"})
    answer = host.main.patch(f"{PROPOSALS}/{made['id']}", json={field: "applied", "title": "x"})
    refused(checks, answer, 400, "validation_error")
    checks.equal(host.main.get(f"{PROPOSALS}/{made['id']}").json(), made)


def test_a_rule_is_nothing_that_can_be_proposed(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("agents", "proposals"), "agents.proposals")
    answer = host.main.post(PROPOSALS, json={"kind": "rule", "artifact": {}})
    refused(checks, answer, 400, "validation_error")
