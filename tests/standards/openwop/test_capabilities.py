"""The discovery document: what is on stands at its root, what is off is not there, and dimensions follow from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.standards.openwop.strategies import json_values

from memoranda.errors import InvalidInput
from memoranda.standards.openwop.capabilities import (
    DIMENSIONS,
    CapabilityOffer,
    DistillationCapability,
    Proposals,
    Workspace,
    build_discovery,
    find_dimensions,
    token_counter_name,
)

EVERYTHING = CapabilityOffer(
    memory=True,
    max_entry_size_bytes=1_048_576,
    ttl=True,
    forget=True,
    search_modes=("filter",),
    compaction=True,
    max_input_entries=10_000,
    distillation=DistillationCapability(
        max_token_budget=100_000, tokenizer="chars/4", archive_retention="P365D", scheduled=True, index_emitted=True
    ),
    attribution=True,
    injection_counter="chars/4",
    long_term=True,
    consolidation="on-demand",
    commitments=("time", "predicate"),
    proposals=Proposals(kinds=("automation",), activation="direct-rbac", detects_duplicates=True),
    manifest_runtime=True,
    execution_model_version=2,
    workspace=Workspace(max_file_bytes=1_048_576, max_files=1000, max_versions=100),
    replay_modes=("replay", "branch"),
    fixtures=("conformance-noop", "conformance-noop"),
    max_request_bytes=1_048_576,
    extra={"implementation": {"name": "memoranda"}},
)


@pytest.mark.requirement("WOP-4-root")
def test_every_flag_stands_at_the_root() -> None:
    document = build_discovery(EVERYTHING)
    assert "capabilities" not in document
    assert document == {
        "protocolVersion": "1.1",
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": 1_048_576,
        },
        "fixtures": ["conformance-noop"],
        "memory": {
            "supported": True,
            "ttlSupported": True,
            "maxEntrySizeBytes": 1_048_576,
            "search": {"supported": True, "modes": ["filter"]},
            "retention": {"ttl": True, "forget": True},
            "compaction": {"supported": True, "trigger": "host-managed", "maxInputEntries": 10_000},
            "distillation": {
                "supported": True,
                "maxTokenBudget": 100_000,
                "scheduled": True,
                "indexEmitted": True,
                "tokenizerName": "chars/4",
                "archiveRetention": "P365D",
            },
            "attribution": {"supported": True, "emitsWriteEvents": True},
            "injectionBudget": {"supported": True, "tokenCounter": "host-defined"},
        },
        "agents": {
            "memoryBackends": ["long-term"],
            "memoryConsolidation": {"supported": True, "schedule": "on-demand"},
            "commitments": {"supported": True, "fireConditions": ["time", "predicate"]},
            "proposals": {"artifactKinds": ["automation"], "activation": "direct-rbac", "duplicationDetection": True},
            "manifestRuntime": {"supported": True},
        },
        "multiAgent": {"executionModel": {"supported": True, "version": 2}},
        "workspace": {
            "supported": True,
            "versioned": True,
            "maxFileBytes": 1_048_576,
            "maxFiles": 1000,
            "maxVersions": 100,
        },
        "replay": {"supported": True, "modes": ["replay", "branch"]},
        "implementation": {"name": "memoranda"},
    }


@pytest.mark.requirement("WOP-4-claim")
def test_what_is_off_is_not_claimed() -> None:
    document = build_discovery(CapabilityOffer())
    assert set(document) == {"protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"}
    assert find_dimensions(document) == frozenset()
    # A switch takes its own claim away and no other.
    for off, path in (
        ({"attribution": False}, ("memory", "attribution")),
        ({"compaction": False}, ("memory", "compaction")),
        ({"distillation": None}, ("memory", "distillation")),
        ({"search_modes": ()}, ("memory", "search")),
        ({"injection_counter": None}, ("memory", "injectionBudget")),
        ({"consolidation": None}, ("agents", "memoryConsolidation")),
        ({"commitments": ()}, ("agents", "commitments")),
        ({"proposals": None}, ("agents", "proposals")),
        ({"manifest_runtime": False}, ("agents", "manifestRuntime")),
    ):
        changed = build_discovery(replace(EVERYTHING, **off))
        expected = build_discovery(EVERYTHING)
        del expected[path[0]][path[1]]
        assert changed == expected


@pytest.mark.requirement("WOP-4-dimensions")
def test_the_eight_dimensions_follow_from_the_document() -> None:
    everything = build_discovery(EVERYTHING)
    assert len(DIMENSIONS) == 8
    assert find_dimensions(everything) == set(DIMENSIONS)
    for off, lost in (
        ({"writable": False}, {"write"}),
        ({"search_modes": ()}, {"search"}),
        ({"compaction": False}, set()),
        ({"compaction": False, "distillation": None}, {"compaction"}),
        ({"attribution": False}, {"attribution"}),
        ({"execution_model_version": 1}, {"replay-snapshot"}),
        ({"execution_model_version": None}, {"replay-snapshot"}),
        ({"ttl": False}, set()),
        ({"ttl": False, "forget": False}, {"retention"}),
        ({"long_term": False, "consolidation": None}, {"long-term-durability", "replay-snapshot"}),
    ):
        changed = build_discovery(replace(EVERYTHING, **off))
        assert set(DIMENSIONS) - find_dimensions(changed) == lost


@pytest.mark.requirement("WOP-4-dimensions")
def test_backends_are_not_looked_for_under_memory() -> None:
    document = {"memory": {"supported": True, "memoryBackends": ["long-term"]}}
    assert find_dimensions(document) == {"read", "write"}
    assert find_dimensions({"capabilities": build_discovery(EVERYTHING)}) == frozenset()


def test_whoever_offers_everything_has_what_the_memory_profile_needs() -> None:
    document = build_discovery(EVERYTHING)
    assert {"protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"} <= document.keys()
    assert {"write", "long-term-durability"} <= find_dimensions(document)


@pytest.mark.requirement("WOP-4-claim")
@pytest.mark.parametrize(
    "changes",
    [
        {"long_term": False},
        {"memory": False},
        {"workspace": None},
        {"extra": {"memory": {}}},
        {"distillation": DistillationCapability(max_token_budget=0, tokenizer="x", archive_retention="P1D")},
        {"distillation": DistillationCapability(max_token_budget=1, tokenizer="x", archive_retention="a year")},
        {"distillation": DistillationCapability(max_token_budget=1, tokenizer="x", archive_retention="P")},
    ],
)
def test_an_offer_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        build_discovery(replace(EVERYTHING, **changes))


@given(st.dictionaries(st.sampled_from(["memory", "agents", "multiAgent", "workspace"]), json_values))
def test_any_document_of_anybody_can_be_asked_for_its_dimensions(document: dict[str, Any]) -> None:
    assert find_dimensions(document) <= set(DIMENSIONS)


@pytest.mark.requirement("WOP-4-token-counter")
def test_the_unit_of_budgets_is_one_that_the_standard_names() -> None:
    for name in ("o200k_base", "cl100k_base", "chars", "host-defined"):
        assert token_counter_name(name) == name
    # What we estimate by ourselves is nobody's tokenizer.
    for name in ("estimate", "bytes/4", "", "O200K_BASE"):
        assert token_counter_name(name) == "host-defined"
