"""Discovery: every flag stands at the root, has its form, and is honoured."""

from __future__ import annotations

import pytest
from tests.conformance.openwop.host import Checks, Host
from tests.conformance.openwop.shapes import AGENT, ROOT, has_shape


def test_the_document_is_the_same_with_and_without_a_credential(host: Host, checks: Checks) -> None:
    answers = [client.get("/.well-known/openwop") for client in (host.stranger, host.main, host.other)]
    checks.equal([answer.status_code for answer in answers], [200, 200, 200])
    checks(answers[0].json() == answers[1].json() == answers[2].json())


def test_every_block_stands_at_the_root_in_its_own_form(host: Host, checks: Checks) -> None:
    document = host.claims()
    checks(has_shape(document, ROOT), document)
    # Flags that stand only under a wrapper are claims that nobody sees.
    wrapped = document.get("capabilities", {})
    checks(all(name in document for name in ("memory", "agents") if name in wrapped))


def test_the_memory_profile_follows_from_the_document(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("memory", "supported"), "memory.supported")
    checks(host.claims("memory", "writable") is not False)
    checks("long-term" in host.claims("agents", "memoryBackends"))


@pytest.mark.requirement("WOP-4-honour")
def test_every_fixture_that_is_named_can_be_run(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("fixtures"), "fixtures")
    for name in host.claims("fixtures"):
        if name.startswith("conformance-"):
            ended = host.run(checks, name)
            checks.equal(ended["status"], "failed" if name == "conformance-failure" else "completed")


@pytest.mark.requirement("WOP-5-runs-201")
def test_a_workflow_that_is_not_there_is_refused(host: Host, checks: Checks) -> None:
    answer = host.main.post("/v1/runs", json={"workflowId": "conformance-that-nobody-has"})
    checks.equal((answer.status_code, answer.json()["error"]), (400, "validation_error"))


@pytest.mark.requirement("WOP-5-agents")
def test_an_agent_is_stamped_exactly_when_it_lacks_memory(host: Host, checks: Checks) -> None:
    answer = host.main.get("/v1/agents")
    host.needs(checks, answer.status_code not in (404, 405, 501), "GET /v1/agents")
    body = answer.json()
    checks.equal((set(body), body["total"]), ({"agents", "total"}, len(body["agents"])))
    checks.equal([each["agentId"] for each in body["agents"]], sorted(each["agentId"] for each in body["agents"]))
    for each in body["agents"]:
        checks(has_shape(each, AGENT), each)
        checks.equal(each.get("memoryDegraded", False), bool(each.get("degradedMemoryDimensions")))


def test_a_host_that_dispatches_agents_has_some(host: Host, checks: Checks) -> None:
    claim = host.claims("agents", "manifestRuntime", "supported") and host.claims("memory", "supported")
    host.needs(checks, claim, "agents.manifestRuntime")
    checks(host.main.get("/v1/agents").json()["agents"])


def test_a_concurrency_of_children_is_one_of_two(host: Host, checks: Checks) -> None:
    claim = host.claims("multiAgent", "executionModel", "crossChildMemoryConcurrency")
    host.needs(checks, claim, "multiAgent.executionModel")
    checks(claim in ("strict", "advisory"))


def test_a_scenario_that_asserts_nothing_is_a_failure(checks: Checks) -> None:
    checks(True)
    with pytest.raises(AssertionError, match="asserted nothing"):
        Checks().close()
