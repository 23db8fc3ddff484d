"""`GET /v1/agents`: the known agents, and those with less memory than they require (RFC 0080 §C).

An entry is stamped if and only if the agent's `memoryShape` requires a dimension that this host lacks: it then has
`memoryDegraded: true` and the list of missing dimensions, and otherwise neither field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from memoranda.errors import InvalidInput
from memoranda.standards.openwop.capabilities import DIMENSIONS, Dimension
from memoranda.standards.openwop.fields import (
    check_boolean,
    check_closed_object,
    check_text,
    check_texts,
    check_word,
    require_fields,
)

Agent = dict[str, Any]

# RFC 0080 §C: the dimensions that each memory shape requires.
REQUIRED_DIMENSIONS: Final[Mapping[str, frozenset[Dimension]]] = {
    "scratchpad": frozenset({"read", "write"}),
    "conversation": frozenset({"read", "write"}),
    "longTerm": frozenset({"long-term-durability"}),
}
# Characters of a description and of a name, and entries of a tool list.
MAX_TEXT_CHARS: Final = 500
MAX_NAME_CHARS: Final = 256
MAX_TOOLS: Final = 1000

_REQUIRED: Final = (
    "agentId",
    "persona",
    "label",
    "modelClass",
    "packName",
    "packVersion",
    "toolAllowlist",
    "hasHandoffSchemas",
)
_OPTIONAL: Final = (
    "description",
    "memoryShape",
    "confidenceThreshold",
    "degraded",
    "memoryDegraded",
    "degradedMemoryDimensions",
)


def build_agent_entry(
    manifest: Mapping[str, Any],
    *,
    pack_name: str,
    pack_version: str,
    available: Collection[Dimension],
) -> Agent:
    """Build the inventory entry of an installed manifest, without its prompts and schemas."""
    shape = manifest.get("memoryShape")
    agent: Agent = {
        "agentId": manifest.get("agentId"),
        "persona": manifest.get("persona"),
        # The persona is the default label.
        "label": manifest.get("label") or manifest.get("persona"),
        "modelClass": manifest.get("modelClass"),
        "packName": pack_name,
        "packVersion": pack_version,
        "toolAllowlist": list(manifest.get("toolAllowlist") or ()),
        "hasHandoffSchemas": bool(manifest.get("handoff")),
    }
    if manifest.get("description"):
        agent["description"] = manifest["description"]
    if shape is not None:
        agent["memoryShape"] = dict(shape)
        missing = find_missing_dimensions(agent["memoryShape"], available)
        if missing:
            agent.update(memoryDegraded=True, degradedMemoryDimensions=missing)
    return check_agent_entry(agent, available=available)


def build_inventory(agents: Iterable[Agent]) -> dict[str, Any]:
    """Build the response: checked entries sorted by id."""
    ordered_agents = sorted(agents, key=lambda agent: str(agent["agentId"]))
    return {"agents": ordered_agents, "total": len(ordered_agents)}


def find_missing_dimensions(
    shape: Mapping[str, object], available: Collection[Dimension]
) -> list[Dimension]:
    """Return the dimensions that a memory shape requires and the host lacks, in the order of DIMENSIONS."""
    required = {
        dimension
        for name, is_required in shape.items()
        if is_required is True
        for dimension in REQUIRED_DIMENSIONS.get(name, ())
    }
    return [
        dimension
        for dimension in DIMENSIONS
        if dimension in required and dimension not in available
    ]


def check_agent_entry(value: object, *, available: Collection[Dimension] | None = None) -> Agent:
    """Check an entry from untrusted JSON, and that its stamp matches the available dimensions. Raises InvalidInput."""
    agent = check_closed_object(value, _REQUIRED + _OPTIONAL, "agent")
    require_fields(agent, _REQUIRED, "agent")
    for name in ("agentId", "persona", "label", "modelClass", "packName", "packVersion"):
        check_text(agent[name], f"agent.{name}", MAX_NAME_CHARS)
    check_boolean(agent["hasHandoffSchemas"], "agent.hasHandoffSchemas")
    if "description" in agent:
        check_text(agent["description"], "agent.description", MAX_TEXT_CHARS)
    for name in ("toolAllowlist", "degraded"):
        if name in agent:
            check_texts(agent[name], f"agent.{name}", max_items=MAX_TOOLS, max_chars=MAX_NAME_CHARS)
    shape = check_shape(agent.get("memoryShape", {}), "agent.memoryShape")
    stamped = _read_stamp(agent)
    if available is not None and stamped != find_missing_dimensions(shape, available):
        raise InvalidInput(
            "agent.degradedMemoryDimensions must be the dimensions that its memoryShape requires and the host lacks"
        )
    return agent


def check_shape(value: object, location: str) -> dict[str, bool]:
    """Check a memory shape: the kinds of memory that an agent reads and writes. Raises InvalidInput."""
    shape = check_closed_object(value, tuple(REQUIRED_DIMENSIONS), location)
    for name, is_required in shape.items():
        check_boolean(is_required, f"{location}.{name}")
    return shape


def _read_stamp(agent: Agent) -> list[str]:
    """Return the missing dimensions that an entry states. Raises InvalidInput if its fields contradict each other."""
    dimensions = agent.get("degradedMemoryDimensions", [])
    if not isinstance(dimensions, list):
        raise InvalidInput("agent.degradedMemoryDimensions must be an array")
    for index, dimension in enumerate(dimensions):
        check_word(dimension, DIMENSIONS, f"agent.degradedMemoryDimensions[{index}]")
    if len(set(dimensions)) != len(dimensions):
        raise InvalidInput("agent.degradedMemoryDimensions must name each dimension once")
    is_degraded = check_boolean(agent.get("memoryDegraded", False), "agent.memoryDegraded")
    if is_degraded != bool(dimensions):
        # agent-inventory-response.schema.json: present (non-empty) iff memoryDegraded is true.
        raise InvalidInput("agent.memoryDegraded must be true if and only if dimensions are named")
    return dimensions
