"""The prompts: `ump.rehydrate`, recalled memories as one framed block (UMP section 5.3), and the card of CAL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import mcp_types as types

from memoranda.bindings.mcp.offer import ToolOffer
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.ump.requests import MAX_BUDGET_CHARS, RehydrateRequest

NAME: Final = "ump.rehydrate"
# The name without a dot, which every host accepts.
PLAIN_NAME: Final = "ump_rehydrate"
_NO_MEMORIES: Final = "No memories were found for this query."

PROMPT: Final = types.Prompt(
    name=NAME,
    title="Recall into this conversation",
    description="Puts the memories that matter for a query into the conversation, framed as untrusted reference data.",
    arguments=[
        types.PromptArgument(
            name="query", description="What the conversation is about.", required=True
        ),
        types.PromptArgument(
            name="project",
            description="Memories of this project, and those without a project.",
            required=False,
        ),
        types.PromptArgument(
            name="budget",
            description=f"Characters that the block may have, up to {MAX_BUDGET_CHARS}.",
            required=False,
        ),
    ],
)
CARD_NAME: Final = "cal-card"
CARD: Final = types.Prompt(
    name=CARD_NAME,
    title="How to query the memory",
    description="The query language CAL on one card, for an agent that is to use the cal tool.",
)


def list_prompts(offer: ToolOffer) -> list[types.Prompt]:
    """Return the prompts under the names that a client is offered."""
    name = NAME if offer.names == "reserved" else PLAIN_NAME
    return [PROMPT.model_copy(update={"name": name}), CARD]


def rehydrate(
    service: Service, access: Access, arguments: Mapping[str, str] | None
) -> types.GetPromptResult:
    """Return one user message with the block of recalled memories. Raises MemorandaError."""
    values = dict(arguments or {})
    allowed = [argument.name for argument in PROMPT.arguments or ()]
    if unknown := [name for name in values if name not in allowed]:
        raise InvalidInput(f"unknown argument {unknown[0][:40]!a}; there are {', '.join(allowed)}")
    request: dict[str, object] = {"query": values.get("query"), "max_visibility": "public"}
    if values.get("project"):
        request["scope"] = {"project": values["project"]}
    if values.get("budget"):
        request["budget_chars"] = _parse_budget(values["budget"])
    block = service.for_prompt(access, RehydrateRequest.parse(request))
    content = types.TextContent(type="text", text=block.text or _NO_MEMORIES)
    return types.GetPromptResult(
        description=f"Memories: {len(block.injected)}",
        messages=[types.PromptMessage(role="user", content=content)],
    )


def _parse_budget(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidInput("budget must be a whole number of characters")
    return int(text)


def cal_card(arguments: Mapping[str, str] | None) -> types.GetPromptResult:
    """Return the card of CAL as one user message. Raises InvalidInput if there are arguments."""
    # Loaded here, because the grammar takes long to load and few sessions ask for the card.
    from memoranda.standards.cal.grammar import prompt_card

    if arguments:
        raise InvalidInput(f"{CARD_NAME} has no arguments")
    content = types.TextContent(type="text", text=prompt_card())
    return types.GetPromptResult(
        description="CAL on one card", messages=[types.PromptMessage(role="user", content=content)]
    )
