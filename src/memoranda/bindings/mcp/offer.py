"""What a client is offered: which tools, under which names, described how fully.

By default few tools, under names that every host accepts, without schemas of their answers: whatever is listed stands
in the context of every conversation. `memoranda mcp --tools all --names reserved --schemas full` asks for the rest, as
do the settings of these names and the query of `/mcp`. Every tool can be called by either of its names, listed or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, get_args

import mcp_types as types

from memoranda.bindings.mcp import cal_tools, prompt
from memoranda.bindings.mcp.operation import Operation
from memoranda.bindings.mcp.tools import OPERATIONS
from memoranda.encoding.shapes import check_field_names
from memoranda.errors import InvalidInput

Names = Literal["plain", "reserved"]
Schemas = Literal["brief", "full"]

DEFAULT_TOOLS: Final = frozenset(
    ("ump.recall", "ump.remember", "ump.revise", "ump.forget", "ump.list", "cal")
)
ALL: Final = "all"
# Names of tools as a description has them.
_RESERVED: Final = re.compile("|".join(re.escape(name) for name in OPERATIONS if "." in name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one client sees. Raises InvalidInput for tools that there are not."""

    names: Names = "plain"
    schemas: Schemas = "brief"
    # Beside the default ones: names of tools, of standards for all of theirs, or `all`.
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for word in self.tools:
            if word != ALL and not any(_means(word, each) for each in OPERATIONS.values()):
                known = ", ".join(
                    (
                        ALL,
                        "ump",
                        "oms",
                        "oams",
                        "cal",
                        *(each.plain_name for each in OPERATIONS.values()),
                    )
                )
                raise InvalidInput(f"tools: there is no {word[:40]!a}; there are {known}")

    def with_query(self, query: Mapping[str, str]) -> Offer:
        """The same, changed by what a query asks for. Raises InvalidInput."""
        if not query:
            return self
        check_field_names(dict(query), ("names", "tools", "schemas"), "the query")
        names, schemas = query.get("names", self.names), query.get("schemas", self.schemas)
        for name, value, known in (
            ("names", names, get_args(Names)),
            ("schemas", schemas, get_args(Schemas)),
        ):
            if value not in known:
                raise InvalidInput(f"{name} must be one of {', '.join(known)}")
        words = tuple(word.strip() for word in query.get("tools", "").split(",") if word.strip())
        return replace(
            self,
            names="reserved" if names == "reserved" else "plain",
            schemas="full" if schemas == "full" else "brief",
            tools=words or self.tools,
        )

    def is_plain(self, called: Operation, name: str) -> bool:
        """Whether a call by this name means the face that is made for a model."""
        return (
            self.schemas == "brief"
            and name == called.plain_name
            and (name != called.tool.name or self.names == "plain")
        )

    def spelt(self, text: str) -> str:
        """A text with the names of tools as they are listed."""
        return (
            text
            if self.names == "reserved"
            else _RESERVED.sub(lambda found: found[0].replace(".", "_"), text)
        )


def _means(word: str, each: Operation) -> bool:
    name = each.tool.name
    standard, _, verb = name.partition(".")
    return word in (name, each.plain_name, standard) or (standard == "ump" and word == verb)


@lru_cache(maxsize=64)
def listed_tools(offer: Offer) -> tuple[types.Tool, ...]:
    """The tools as this client is shown them."""
    wanted = (
        each
        for name, each in OPERATIONS.items()
        if name in DEFAULT_TOOLS
        or ALL in offer.tools
        or any(_means(word, each) for word in offer.tools)
    )
    return tuple(_listed(offer, each) for each in wanted)


def _listed(offer: Offer, each: Operation) -> types.Tool:
    tool = each.tool
    name = each.plain_name if offer.names == "plain" else tool.name
    description = tool.description or ""
    shown: dict[str, object] = {"name": name}
    if offer.schemas == "brief":
        shown["output_schema"] = None
        if offer.names == "plain" and each.plain is not None:
            description = each.plain.description
            shown |= {"input_schema": each.plain.input_schema, "title": None}
    return tool.model_copy(update={**shown, "description": offer.spelt(description)})


def listed_prompts(offer: Offer) -> list[types.Prompt]:
    """The prompts as this client is shown them."""
    name = prompt.NAME if offer.names == "reserved" else prompt.PLAIN_NAME
    return [prompt.PROMPT.model_copy(update={"name": name}), cal_tools.CARD]
