"""The inventory of agents: an entry is stamped if and only if its memory falls short."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.openwop.strategies import json_values

from memoranda.errors import InvalidInput
from memoranda.standards.openwop.capabilities import DIMENSIONS, Dimension
from memoranda.standards.openwop.inventory import (
    build_agent_entry,
    build_inventory,
    check_agent_entry,
    find_missing_dimensions,
)

MANIFEST: dict[str, Any] = {
    "agentId": "vendor.acme.support.tier1",
    "persona": "Support",
    "modelClass": "reasoning",
    "systemPrompt": "You are kind.",
    "toolAllowlist": ["mcp:search"],
    "memoryShape": {"scratchpad": True, "longTerm": True},
    "handoff": {"taskSchemaRef": "schemas/task.json"},
}
shapes = st.dictionaries(st.sampled_from(["scratchpad", "conversation", "longTerm"]), st.booleans())
some_dimensions = st.sets(st.sampled_from(DIMENSIONS))


def listed(manifest: dict[str, Any] | None = None, available: Any = DIMENSIONS) -> dict[str, Any]:
    return build_agent_entry(
        manifest or MANIFEST, pack_name="vendor.acme.support", pack_version="1.0.0", available=available
    )


@pytest.mark.requirement("WOP-1.7-entry")
def test_an_entry_shows_the_manifest_without_its_prompt() -> None:
    assert listed() == {
        "agentId": "vendor.acme.support.tier1",
        "persona": "Support",
        "label": "Support",
        "modelClass": "reasoning",
        "packName": "vendor.acme.support",
        "packVersion": "1.0.0",
        "toolAllowlist": ["mcp:search"],
        "hasHandoffSchemas": True,
        "memoryShape": {"scratchpad": True, "longTerm": True},
    }


@pytest.mark.requirement("WOP-3-degraded")
@given(shapes, some_dimensions)
def test_an_entry_is_stamped_if_and_only_if_something_is_missing(
    shape: dict[str, bool], available: set[Dimension]
) -> None:
    made = listed({**MANIFEST, "memoryShape": shape}, available)
    needed = {"long-term-durability"} if shape.get("longTerm") else set()
    if shape.get("scratchpad") or shape.get("conversation"):
        needed |= {"read", "write"}
    missing = needed - available
    assert made.get("memoryDegraded", False) == bool(missing)
    assert set(made.get("degradedMemoryDimensions", ())) == missing
    assert ("memoryDegraded" in made) == ("degradedMemoryDimensions" in made) == bool(missing)
    assert build_inventory([made])["agents"] == [check_agent_entry(made, available=available)]


@pytest.mark.requirement("WOP-3-degraded")
@pytest.mark.parametrize(
    "changes",
    [
        {"memoryDegraded": True},
        {"memoryDegraded": True, "degradedMemoryDimensions": []},
        {"degradedMemoryDimensions": ["read"]},
        {"memoryDegraded": False, "degradedMemoryDimensions": ["read"]},
        {"memoryDegraded": True, "degradedMemoryDimensions": ["long-term"]},
        {"memoryDegraded": True, "degradedMemoryDimensions": ["read", "read"]},
        {"memoryDegraded": "yes", "degradedMemoryDimensions": ["read"]},
        {"memoryShape": {"vector": True}},
        {"memoryShape": {"longTerm": "yes"}},
        {"systemPrompt": "You are kind."},
        {"toolAllowlist": [1]},
        {"hasHandoffSchemas": None},
    ],
)
def test_a_stamp_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="agent"):
        check_agent_entry({**listed(), **changes})


@pytest.mark.requirement("WOP-3-degraded")
def test_an_entry_that_looks_satisfied_and_is_not_is_refused() -> None:
    with pytest.raises(InvalidInput, match="degradedMemoryDimensions"):
        check_agent_entry(listed(), available=frozenset({"read"}))
    assert find_missing_dimensions({"longTerm": True, "scratchpad": False}, frozenset()) == ["long-term-durability"]


@pytest.mark.requirement("WOP-1.7-order")
def test_the_inventory_is_in_the_order_of_ids_and_counts_itself() -> None:
    agents = [listed({**MANIFEST, "agentId": f"vendor.acme.support.{name}"}) for name in "cab"]
    answer = build_inventory(agents)
    assert [agent["agentId"][-1] for agent in answer["agents"]] == ["a", "b", "c"]
    assert answer["total"] == 3
    assert build_inventory([]) == {"agents": [], "total": 0}


@given(json_values)
def test_no_json_makes_a_check_fall_over(value: object) -> None:
    for name in listed():
        with contextlib.suppress(InvalidInput):
            check_agent_entry({**listed(), name: value, "degradedMemoryDimensions": value})
