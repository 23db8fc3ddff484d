"""`GET /v1/agents`: the agents that are known here, and which of them get less memory than they ask for (RFC 0080 §C).

An entry is stamped exactly when the agent's `memoryShape` asks for a dimension that this host does not satisfy:
`memoryDegraded: true` with the dimensions that are missing, and otherwise neither field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from memoranda.errors import InvalidInput
from memoranda.standards.openwop.capabilities import DIMENSIONS, Dimension
from memoranda.standards.openwop.fields import (
    check_boolean,
    check_text,
    check_texts,
    check_word,
    closed_object,
    require,
)

Agent = dict[str, Any]

# RFC 0080 §C: which dimensions a memory shape stands on.
NEEDS: Final[Mapping[str, frozenset[Dimension]]] = {
    "scratchpad": frozenset({"read", "write"}),
    "conversation": frozenset({"read", "write"}),
    "longTerm": frozenset({"long-term-durability"}),
}
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


def agent_entry(
    manifest: Mapping[str, Any], *, pack_name: str, pack_version: str, available: Collection[Dimension]
) -> Agent:
    """The inventory's entry of an installed manifest. What the inventory does not show (prompts, schemas) stays out."""
    shape = manifest.get("memoryShape")
    made: Agent = {
        "agentId": manifest.get("agentId"),
        "persona": manifest.get("persona"),
        # Falls back to the persona when the manifest has no label.
        "label": manifest.get("label") or manifest.get("persona"),
        "modelClass": manifest.get("modelClass"),
        "packName": pack_name,
        "packVersion": pack_version,
        "toolAllowlist": list(manifest.get("toolAllowlist") or ()),
        "hasHandoffSchemas": bool(manifest.get("handoff")),
    }
    if manifest.get("description"):
        made["description"] = manifest["description"]
    if shape is not None:
        made["memoryShape"] = dict(shape)
        missing = missing_dimensions(made["memoryShape"], available)
        if missing:
            made.update(memoryDegraded=True, degradedMemoryDimensions=missing)
    return check_agent_entry(made, available=available)


def inventory(agents: Iterable[Agent]) -> dict[str, Any]:
    """The whole answer: checked entries in the order of their ids."""
    ordered = sorted(agents, key=lambda agent: str(agent["agentId"]))
    return {"agents": ordered, "total": len(ordered)}


def missing_dimensions(shape: Mapping[str, Any], available: Collection[Dimension]) -> list[Dimension]:
    """What a memory shape asks for and does not get, in the order of the dimensions."""
    needed = {dimension for name, asked in shape.items() if asked is True for dimension in NEEDS.get(name, ())}
    return [dimension for dimension in DIMENSIONS if dimension in needed and dimension not in available]


def check_agent_entry(value: object, *, available: Collection[Dimension] | None = None) -> Agent:
    """One entry from untrusted JSON, and the rule that it is stamped if and only if memory is missing."""
    found = closed_object(value, _REQUIRED + _OPTIONAL, "agent")
    require(found, _REQUIRED, "agent")
    for name in ("agentId", "persona", "label", "modelClass", "packName", "packVersion"):
        check_text(found[name], f"agent.{name}", MAX_NAME_CHARS)
    check_boolean(found["hasHandoffSchemas"], "agent.hasHandoffSchemas")
    if "description" in found:
        check_text(found["description"], "agent.description", MAX_TEXT_CHARS)
    for name in ("toolAllowlist", "degraded"):
        if name in found:
            check_texts(found[name], f"agent.{name}", max_items=MAX_TOOLS, max_chars=MAX_NAME_CHARS)
    shape = check_shape(found.get("memoryShape", {}), "agent.memoryShape")
    stamped = _stamped(found)
    if available is not None and stamped != missing_dimensions(shape, available):
        raise InvalidInput("agent.degradedMemoryDimensions must be what its memoryShape asks for and does not get")
    return found


def check_shape(value: object, where: str) -> dict[str, bool]:
    """A memory shape: which kinds of memory an agent reads and writes."""
    shape = closed_object(value, tuple(NEEDS), where)
    for name, asked in shape.items():
        check_boolean(asked, f"{where}.{name}")
    return shape


def _stamped(agent: Agent) -> list[str]:
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
