"""The four workflows of long-term memory, and the budget of what is put into a prompt."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from tests.conformance.openwop.host import Checks, Host
from tests.conformance.openwop.shapes import ENTRY, RUN, has_shape

MARKER = re.compile(r"\[REDACTED:[^\]]+\]")


@pytest.mark.requirement("WOP-5-runs-201")
def test_what_a_run_writes_it_reads_back(host: Host, checks: Checks) -> None:
    host.needs_fixture(checks, "conformance-agent-memory-roundtrip")
    snapshot = host.run(checks, "conformance-agent-memory-roundtrip")
    checks.equal(snapshot["status"], "completed")
    checks(has_shape(snapshot, RUN), snapshot)
    checks(has_shape(snapshot["variables"]["memoryReadback"], ENTRY))


def test_no_run_reads_what_belongs_to_another_tenant(host: Host, checks: Checks) -> None:
    host.needs_fixture(checks, "conformance-agent-memory-cross-tenant")
    snapshot = host.run(checks, "conformance-agent-memory-cross-tenant")
    checks.equal(snapshot["status"], "completed")
    variables = snapshot["variables"]
    own = [entry["id"] for entry in variables["ownerProbe"]]
    checks(variables["ownerEntryId"] in own)
    checks(variables["crossTenantProbe"] in ([], None), "something of another tenant was read")


def test_a_resolved_secret_is_a_marker_in_content_and_tags(host: Host, checks: Checks) -> None:
    host.needs_fixture(checks, "conformance-agent-memory-redaction")
    snapshot = host.run(checks, "conformance-agent-memory-redaction")
    checks.equal(snapshot["status"], "completed")
    entry = snapshot["variables"]["memoryReadback"]
    checks(MARKER.search(entry["content"]), entry)
    if host.is_ours:
        # The probe's words are known: nothing is left of the value, nor of its beginning or end.
        marker = "[REDACTED:conformance-test-secret]"
        checks.equal(entry["content"], f"The deployment uses {marker} for its calls.")
        checks.equal(entry["tags"], ["source:probe", f"key:{marker}"])
    written = [event for event in host.events(snapshot["runId"]) if event["type"] == "memory.written"]
    checks(written)


def test_what_has_expired_does_not_surface(host: Host, checks: Checks) -> None:
    host.needs_fixture(checks, "conformance-agent-memory-ttl")
    snapshot = host.run(checks, "conformance-agent-memory-ttl")
    variables, now = snapshot["variables"], datetime.now(UTC)
    shown = {entry["id"] for entry in variables["memoryList"]}
    checks(variables["freshId"] in shown)
    checks(variables["expiredId"] not in shown)
    ends = [entry["expiresAt"] for entry in variables["memoryList"] if "expiresAt" in entry]
    checks(ends)
    checks(all(datetime.fromisoformat(end) > now for end in ends))


def test_a_list_for_a_prompt_stays_within_its_budget(host: Host, checks: Checks) -> None:
    host.needs(checks, host.claims("memory", "injectionBudget", "supported"), "memory.injectionBudget")
    host.needs_fixture(checks, "conformance-agent-memory-injection-budget")
    found = host.run(checks, "conformance-agent-memory-injection-budget")["variables"]
    checks(0 < found["budgetedTokenTotal"] <= found["tokenBudget"])
    checks(found["overBudgetEntryOmitted"] is True)
    given = [entry["id"] for entry in found["budgetedEntries"]]
    checks(given)
    checks(found["overBudgetEntryId"] not in given)
    checks(MARKER.search(found["redactedContentSample"]))
    checks(not found["crossTenantBudgetedProbe"])


def test_relevance_is_another_order_than_recency(host: Host, checks: Checks) -> None:
    host.needs(checks, "semantic" in (host.claims("memory", "search", "modes") or ()), "memory.search semantic")
    found = host.run(checks, "conformance-agent-memory-injection-budget")["variables"]
    checks(found["recencyOrder"] != found["relevanceOrder"])
