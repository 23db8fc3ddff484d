"""A memory for AutoGen's agents, kept in Memoranda: `AssistantAgent(…, memory=[MemorandaMemory(m)])`.

Before each answer the agent is given what is known about what was said last, as one framed block of untrusted data.
What it is told to keep (`await memory.add(…)`) is a memory like any other, found by every agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from memoranda.adapters import needs
from memoranda.adapters.questions import question
from memoranda.app import Memoranda
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput
from memoranda.library.results import Hit, Hits
from memoranda.standards.ump.rehydrate import rehydrate

with needs("autogen"):
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

# What was added here, and so may be cleared here.
_TAG: Final = "autogen"
_CONTENT: Final = "autogen"
_PAGE: Final = 100


class MemorandaMemory(Memory):  # type: ignore[misc]  # the type checker does not read AutoGen
    """A memory for AutoGen, over an open one; what it takes to open and close that is the caller's."""

    def __init__(
        self,
        memoranda: Memoranda,
        *,
        project: str | None = None,
        user: str | None = None,
        limit: int = 8,
    ) -> None:
        self._memoranda = memoranda
        self._place: dict[str, Any] = {"project": project, "user": user}
        self._limit = limit

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Give the agent what is known about what was said last."""
        messages = await model_context.get_messages()
        hits = await asyncio.to_thread(self._recall, _said(messages))
        shown = rehydrate(
            [{"record": hit.record, "score": hit.score} for hit in hits],
            limit=self._limit,
            max_visibility="public",
            require_signature=True,
        )
        if shown.text:
            await model_context.add_message(SystemMessage(content=shown.text))
        results = [_content(hit) for hit in hits if hit.id in shown.injected]
        return UpdateContextResult(memories=MemoryQueryResult(results=results))

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,  # noqa: ARG002  # nothing here takes long
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """What answers a question, best first; `kwargs` as `Memoranda.recall` has them."""
        text = query if isinstance(query, str) else _text(query)
        hits = await asyncio.to_thread(self._recall, text, **kwargs)
        return MemoryQueryResult(results=[_content(hit) for hit in hits])

    async def add(
        self,
        content: MemoryContent,
        cancellation_token: CancellationToken | None = None,  # noqa: ARG002
    ) -> None:
        """Remember a text, or data with what goes along."""
        kept: dict[str, Any] = {"mime_type": _mime(content)}
        if isinstance(content.content, dict):
            kept["content"] = content.content
        if content.metadata:
            kept["metadata"] = content.metadata
        text = _text(content)
        await asyncio.to_thread(
            self._memoranda.remember, text, **self._place, tags=[_TAG], structured={_CONTENT: kept}
        )

    async def clear(self) -> None:
        """Forget what was added here; what came to the memory by other ways stays."""
        await asyncio.to_thread(self._clear)

    async def close(self) -> None:
        """Do nothing: whoever opened the memory closes it."""

    def _recall(self, text: str, **where: Any) -> Hits:
        asked = question(text)
        return (
            self._memoranda.recall(asked, **{"limit": self._limit, **self._place, **where})
            if asked
            else []
        )

    def _clear(self) -> None:
        added: list[str] = []
        after = 0
        while found := self._memoranda.list(**self._place, tags=[_TAG], limit=_PAGE, after=after):
            # In no project, about nobody: that is a place, too.
            added += [
                each.id
                for each in found
                if {"project": each.project, "user": each.user} == self._place
            ]
            after += len(found)
        for name in added:
            self._memoranda.forget(name, reason="cleared")


def _said(messages: Sequence[Any]) -> str:
    """What was said last, by whom or whatever said something."""
    texts = (
        each.content for each in reversed(messages) if getattr(each, "type", "") != "SystemMessage"
    )
    return next((text for text in texts if isinstance(text, str)), "")


def _text(content: MemoryContent) -> str:
    if isinstance(content.content, str):
        return content.content
    if isinstance(content.content, dict):
        return dump(content.content).decode()
    raise InvalidInput("a memory is a text or JSON; bytes and pictures are not kept")


def _mime(content: MemoryContent) -> str:
    return (
        content.mime_type.value
        if isinstance(content.mime_type, MemoryMimeType)
        else str(content.mime_type)
    )


def _content(hit: Hit) -> MemoryContent:
    kept = hit.structured.get(_CONTENT)
    kept = kept if isinstance(kept, dict) else {}
    said = kept.get("content", hit.text)
    metadata = {**kept.get("metadata", {}), "id": hit.id, "score": hit.score}
    return MemoryContent(
        content=said, mime_type=kept.get("mime_type", MemoryMimeType.TEXT), metadata=metadata
    )
