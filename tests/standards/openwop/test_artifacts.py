"""What a proposal would install: well-formed for its kind, or refused with the field that is wrong."""

from __future__ import annotations

import contextlib
import copy
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.openwop.samples import ARTIFACTS
from tests.standards.openwop.strategies import json_values

from memoranda.errors import InvalidInput
from memoranda.standards.openwop.artifacts import check_artifact
from memoranda.standards.openwop.events import PROPOSAL_KINDS


@pytest.mark.requirement("WOP-3-proposal-malformed")
def test_an_artifact_of_each_kind_passes_for_its_kind_and_for_no_other() -> None:
    assert tuple(ARTIFACTS) == PROPOSAL_KINDS
    for kind, artifact in itertools.product(ARTIFACTS, ARTIFACTS.values()):
        if ARTIFACTS[kind] is artifact:
            assert check_artifact(kind, artifact) is artifact
        else:
            with pytest.raises(InvalidInput, match="artifact"):
                check_artifact(kind, artifact)


@pytest.mark.parametrize("kind", ["rule", "", "agent"])
def test_another_kind_is_none(kind: str) -> None:
    with pytest.raises(InvalidInput, match="kind"):
        check_artifact(kind, {})


def changed(kind: str, path: str, value: object) -> dict[str, Any]:
    """A copy with something else at a path such as `agents.0.persona`; `...` takes it out."""
    artifact = copy.deepcopy(ARTIFACTS[kind])
    *parents, last = path.split(".")
    holder: Any = artifact
    for name in parents:
        holder = holder[int(name)] if isinstance(holder, list) else holder[name]
    if value is ...:
        del holder[last]
    else:
        holder[int(last) if isinstance(holder, list) else last] = value
    return artifact


@pytest.mark.requirement("WOP-3-proposal-malformed")
@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("agent-pack", "name", "learned"),
        ("agent-pack", "version", "1"),
        ("agent-pack", "agents", []),
        ("agent-pack", "agents", ...),
        ("agent-pack", "agents.0.agentId", "vendor.acme.other.reporter"),
        ("agent-pack", "agents.0.agentId", "host:x"),
        ("agent-pack", "agents.0.persona", ""),
        ("agent-pack", "agents.0.systemPrompt", ...),
        ("agent-pack", "agents.0.systemPromptRef", "prompts/a.md"),
        ("agent-pack", "agents.0.memoryShape", {"vector": True}),
        ("agent-pack", "agents.0.handoff", {"taskSchemaRef": "../../etc/passwd"}),
        ("agent-pack", "agents.0.handoff", {"taskSchemaRef": "/etc/passwd"}),
        ("agent-pack", "agents.0.toolAllowlist", "mcp:search"),
        ("agent-pack", "agents.0.secret", "x"),
        ("workflow-chain-pack", "kind", "node"),
        ("workflow-chain-pack", "engines", {}),
        ("workflow-chain-pack", "chains", []),
        ("workflow-chain-pack", "chains.0.chainId", "Chain"),
        ("workflow-chain-pack", "chains.0.dag.nodes", []),
        ("workflow-chain-pack", "chains.0.dag.edges", ...),
        ("workflow-chain-pack", "chains.0.dag.edges.0.to", "nowhere"),
        ("workflow-chain-pack", "chains.0.dag.nodes.1.id", "search"),
        ("workflow-chain-pack", "chains.0.dag.nodes.0.config", {"workflowId": "wf_1"}),
        ("workflow-chain-pack", "chains.0.dag.name", "x"),
        ("workflow-chain-pack", "chains.0.parameters", None),
        ("prompt-template", "templateId", "Weekly Report"),
        ("prompt-template", "kind", "assistant"),
        ("prompt-template", "text", "x" * 65_537),
        ("prompt-template", "text", ...),
        ("prompt-template", "variables.0.name", "a-b"),
        ("prompt-template", "variables.0.type", "date"),
        ("prompt-template", "variables.0.required", "yes"),
        ("prompt-template", "extra", 1),
        ("automation", "workflowId", ""),
        ("automation", "schedule", {}),
        ("automation", "schedule", {"cron": "0 9 * * 1", "delayMs": 1}),
        ("automation", "schedule", {"cron": "every monday"}),
        ("automation", "schedule", {"cron": "61 9 * * 1"}),
        ("automation", "schedule", {"delayMs": -1}),
        ("automation", "schedule.timezone", "somewhere over/the/rainbow/now"),
        ("automation", "inputs", []),
        ("automation", "command", "rm -rf /"),
    ],
)
def test_an_artifact_that_is_malformed_for_its_kind_is_refused(kind: str, path: str, value: object) -> None:
    with pytest.raises(InvalidInput):
        check_artifact(kind, changed(kind, path, value))


def test_an_automation_may_also_run_once_after_a_while() -> None:
    assert check_artifact("automation", {"workflowId": "core.report", "schedule": {"delayMs": 60_000}})


@given(st.sampled_from(PROPOSAL_KINDS), json_values, json_values)
def test_no_json_makes_a_check_fall_over(kind: str, value: object, inner: object) -> None:
    with contextlib.suppress(InvalidInput):
        check_artifact(kind, value)
    for name in ARTIFACTS[kind]:
        for bad in (inner, [inner]):
            with contextlib.suppress(InvalidInput):
                check_artifact(kind, {**ARTIFACTS[kind], name: bad})
