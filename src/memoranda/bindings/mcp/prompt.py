"""The prompt `ump.rehydrate`: recalled memories as one framed block (UMP section 5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types

from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.ump.requests import MAX_BUDGET_CHARS, RehydrateRequest

NAME: Final = "ump.rehydrate"
# As hosts accept it.
PLAIN_NAME: Final = "ump_rehydrate"
_NOTHING: Final = "No memories were found for this query."

PROMPT: Final = types.Prompt(
    name=NAME,
    title="Recall into this conversation",
    description="Puts the memories that matter for a query into the conversation, framed as untrusted reference data.",
    arguments=[
        types.PromptArgument(
            name="query", description="What the conversation is about.", required=True
        ),
        types.PromptArgument(
            name="project", description="Memories of this project, and of none.", required=False
        ),
        types.PromptArgument(
            name="budget",
            description=f"The most characters the block may have, up to {MAX_BUDGET_CHARS}.",
            required=False,
        ),
    ],
)


def rehydrate(
    service: Service, access: Access, arguments: Mapping[str, str] | None
) -> types.GetPromptResult:
    """One user message that holds the block. Raises MemorandaError."""
    given = dict(arguments or {})
    known = [argument.name for argument in PROMPT.arguments or ()]
    if unknown := [name for name in given if name not in known]:
        raise InvalidInput(f"unknown argument {unknown[0][:40]!a}; there are {', '.join(known)}")
    asked: dict[str, Any] = {"query": given.get("query"), "max_visibility": "public"}
    if given.get("project"):
        asked["scope"] = {"project": given["project"]}
    if given.get("budget"):
        asked["budget_chars"] = _budget(given["budget"])
    found = service.for_prompt(access, RehydrateRequest.parse(asked))
    content = types.TextContent(type="text", text=found.text or _NOTHING)
    return types.GetPromptResult(
        description=f"Memories: {len(found.injected)}",
        messages=[types.PromptMessage(role="user", content=content)],
    )


def _budget(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidInput("budget must be a whole number of characters")
    return int(text)
