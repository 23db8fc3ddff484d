"""A memory for AutoGen's agents over Memoranda: `AssistantAgent(…, memory=[MemorandaMemory(m)])`.

Before each answer, memories about the last message are added to the context, as one framed block of untrusted data.
`await memory.add(…)` stores an ordinary memory, which every agent can find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from memoranda.adapters import limit_question, require_extra
from memoranda.app import Memoranda
from memoranda.encoding.json_text import dump
from memoranda.encoding.untrusted import neutralize_json
from memoranda.errors import InvalidInput
from memoranda.library.results import Hit, Hits
from memoranda.standards.ump.rehydrate import rehydrate

with require_extra("autogen"):
    from autogen_core import CancellationToken
    from autogen_core.memory import (
        Memory,
        MemoryContent,
        MemoryMimeType,
        MemoryQueryResult,
        UpdateContextResult,
    )
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import SystemMessage

# The tag of memories added by this adapter; `clear` forgets only these.
_TAG: Final = "autogen"
_CONTENT: Final = "autogen"
_PAGE: Final = 100


class MemorandaMemory(Memory):  # type: ignore[misc]  # the type checker does not read AutoGen
    """A memory for AutoGen over an open `Memoranda`, which the caller opens and closes."""

    def __init__(
        self,
        memoranda: Memoranda,
        *,
        project: str | None = None,
        user: str | None = None,
        limit: int = 8,
    ) -> None:
        self._memoranda = memoranda
        self._scope: dict[str, Any] = {"project": project, "user": user}
        self._limit = limit

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add memories about the last message to the context of the agent."""
        messages = await model_context.get_messages()
        hits = await asyncio.to_thread(self._recall, _last_text(messages))
        block = rehydrate(
            [{"record": hit.record, "score": hit.score} for hit in hits],
            limit=self._limit,
            max_visibility="public",
            require_signature=True,
        )
        if block.text:
            await model_context.add_message(SystemMessage(content=block.text))
        results = [_hit_content(hit) for hit in hits if hit.id in block.injected]
        return UpdateContextResult(memories=MemoryQueryResult(results=results))

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,  # noqa: ARG002  # nothing here takes long
        **kwargs: object,
    ) -> MemoryQueryResult:
        """Return the memories that answer a query, best first; `kwargs` as in `Memoranda.recall`."""
        text = query if isinstance(query, str) else _content_text(query)
        hits = await asyncio.to_thread(self._recall, text, **kwargs)
        return MemoryQueryResult(results=[_hit_content(hit) for hit in hits])

    async def add(
        self,
        content: MemoryContent,
        cancellation_token: CancellationToken | None = None,  # noqa: ARG002
    ) -> None:
        """Remember a text or JSON, with its metadata."""
        extras: dict[str, object] = {"mime_type": _mime_type(content)}
        if isinstance(content.content, dict):
            extras["content"] = content.content
        if content.metadata:
            extras["metadata"] = content.metadata
        text = _content_text(content)
        await asyncio.to_thread(
            self._memoranda.remember,
            text,
            **self._scope,
            tags=[_TAG],
            structured={_CONTENT: extras},
        )

    async def clear(self) -> None:
        """Forget the memories added by this adapter; all others stay."""
        await asyncio.to_thread(self._clear)

    async def close(self) -> None:
        """Do nothing: the caller closes the memory."""

    def _recall(self, text: str, **where: object) -> Hits:
        query = limit_question(text)
        return (
            self._memoranda.recall(query, **{"limit": self._limit, **self._scope, **where})
            if query
            else []
        )

    def _clear(self) -> None:
        added: list[str] = []
        after = 0
        while page := self._memoranda.list(**self._scope, tags=[_TAG], limit=_PAGE, after=after):
            # Without a project or user, only memories without them are ours.
            added += [
                memory.id
                for memory in page
                if {"project": memory.project, "user": memory.user} == self._scope
            ]
            after += len(page)
        for name in added:
            self._memoranda.forget(name, reason="cleared")


def _last_text(messages: Sequence[Any]) -> str:
    """Return the text of the last message that is not a system message."""
    texts = (
        message.content
        for message in reversed(messages)
        if getattr(message, "type", "") != "SystemMessage"
    )
    return next((text for text in texts if isinstance(text, str)), "")


def _content_text(content: MemoryContent) -> str:
    if isinstance(content.content, str):
        return content.content
    if isinstance(content.content, dict):
        return dump(content.content).decode()
    raise InvalidInput("a memory is a text or JSON; bytes and pictures are not kept")


def _mime_type(content: MemoryContent) -> str:
    return (
        content.mime_type.value
        if isinstance(content.mime_type, MemoryMimeType)
        else str(content.mime_type)
    )


def _hit_content(hit: Hit) -> MemoryContent:
    """Return a hit as AutoGen's content. Agents may show it to a model, so no text of it can pose as a frame."""
    extras = hit.structured.get(_CONTENT)
    extras = extras if isinstance(extras, dict) else {}
    content = extras.get("content", hit.text)
    metadata = {**extras.get("metadata", {}), "id": hit.id, "score": hit.score}
    return MemoryContent(
        content=neutralize_json(content),
        mime_type=extras.get("mime_type", MemoryMimeType.TEXT),
        metadata=neutralize_json(metadata),
    )
