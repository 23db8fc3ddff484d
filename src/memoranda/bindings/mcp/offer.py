"""The offer to a client: which tools it sees, under which names, and how fully they are described.

By default a client sees few tools, under names that every host accepts, without schemas of their answers, because every
listed word stands in the context of every conversation. `memoranda mcp --tools all --names reserved --schemas full`
shows the rest, as do the settings of these names and the query of `/mcp`. Every tool can be called under either of its
names, even if it is not listed.

Choices about what a client sees are made once per session. They never restrict what it may do; that is decided by the
verbs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, get_args

import mcp_types as types

from memoranda.bindings.mcp.definition import MemoryTool
from memoranda.bindings.mcp.tools import OPERATIONS
from memoranda.encoding.shapes import check_field_names
from memoranda.errors import InvalidInput

Names = Literal["plain", "reserved"]
Schemas = Literal["brief", "full"]

DEFAULT_TOOLS: Final = frozenset(
    ("ump.recall", "ump.remember", "ump.revise", "ump.forget", "ump.list", "cal")
)
ALL: Final = "all"
# The setting `tools` may name the tools of UMP without this prefix: `recall` is `ump.recall`.
_OPTIONAL_PREFIX: Final = "ump."
# Matches the reserved names of tools inside a description.
_RESERVED: Final = re.compile("|".join(re.escape(name) for name in OPERATIONS if "." in name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """The view of one client. Raises InvalidInput for unknown tools."""

    names: Names = "plain"
    schemas: Schemas = "brief"
    # Additional tools: a tool's name, a standard's name for all of its tools, or `all`.
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for word in self.tools:
            if word == ALL or any(_selects(word, tool) for tool in OPERATIONS.values()):
                continue
            plain_names = [tool.plain_name for tool in OPERATIONS.values()]
            choices = ", ".join((ALL, "ump", "oms", "oams", "cal", *plain_names))
            raise InvalidInput(f"tools: there is no {word[:40]!a}; there are {choices}")

    def with_query(self, query: Mapping[str, str]) -> ToolOffer:
        """Return this offer with the changes that a query makes to it. Raises InvalidInput."""
        if not query:
            return self
        check_field_names(dict(query), ("names", "tools", "schemas"), "the query")
        names, schemas = query.get("names", self.names), query.get("schemas", self.schemas)
        for name, value, allowed in (
            ("names", names, get_args(Names)),
            ("schemas", schemas, get_args(Schemas)),
        ):
            if value not in allowed:
                raise InvalidInput(f"{name} must be one of {', '.join(allowed)}")
        words = tuple(word.strip() for word in query.get("tools", "").split(",") if word.strip())
        return replace(
            self,
            names="reserved" if names == "reserved" else "plain",
            schemas="full" if schemas == "full" else "brief",
            tools=words or self.tools,
        )

    def is_plain(self, tool: MemoryTool, name: str) -> bool:
        """Return True if a call by this name uses the plain arguments and answers of the tool, not those of UMP."""
        if self.schemas != "brief" or name != tool.plain_name:
            return False
        # A name without a dot is both names of its tool; the listed names decide.
        return name != tool.tool.name or self.names == "plain"

    def rename_tools(self, text: str) -> str:
        """Return a text with the names of tools as they are listed."""
        if self.names == "reserved":
            return text
        return _RESERVED.sub(lambda match: match[0].replace(".", "_"), text)


def _selects(word: str, tool: MemoryTool) -> bool:
    """Return True if a word of the setting `tools` selects a tool."""
    name = tool.tool.name
    standard = name.partition(".")[0]
    return word in (name, tool.plain_name, standard, name.removeprefix(_OPTIONAL_PREFIX))


@lru_cache(maxsize=64)
def list_tools(offer: ToolOffer) -> tuple[types.Tool, ...]:
    """Return the tools as this client sees them."""
    tools = []
    for name, tool in OPERATIONS.items():
        is_selected = ALL in offer.tools or any(_selects(word, tool) for word in offer.tools)
        if name in DEFAULT_TOOLS or is_selected:
            tools.append(_list_tool(offer, tool))
    return tuple(tools)


def _list_tool(offer: ToolOffer, memory_tool: MemoryTool) -> types.Tool:
    """Return one tool as this client sees it."""
    tool, plain_face = memory_tool.tool, memory_tool.plain
    name = memory_tool.plain_name if offer.names == "plain" else tool.name
    description = tool.description or ""
    changes: dict[str, object] = {"name": name}
    if offer.schemas == "brief":
        changes["output_schema"] = None
        if offer.names == "plain" and plain_face is not None:
            description = plain_face.description
            changes |= {"input_schema": plain_face.input_schema, "title": None}
    changes["description"] = offer.rename_tools(description)
    return tool.model_copy(update=changes)
