"""A memory block for LlamaIndex: `Memory.from_defaults(memory_blocks=[MemorandaBlock(memoranda=m)])`.

Messages that leave the short-term memory are remembered; what is known about what was said last is put before the
model, as one framed block of untrusted data.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from memoranda.adapters import needs
from memoranda.adapters.questions import question
from memoranda.app import Memoranda

with needs("llamaindex"):
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemoryBlock

_ROLES: Final = (MessageRole.USER, MessageRole.ASSISTANT)


class MemorandaBlock(BaseMemoryBlock[str]):  # type: ignore[misc]  # the type checker does not read LlamaIndex
    """A memory block over an open memory; what it takes to open and close it is the caller's."""

    name: str = Field(default="Memoranda", description="What the block is called before the model.")
    memoranda: Memoranda = Field(description="The open memory.", exclude=True)
    project: str | None = Field(default=None, description="Where it is kept.")
    user: str | None = Field(default=None, description="Whom it is about.")
    limit: int = Field(default=8, description="As many memories are put before the model.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        said = (each.content for each in reversed(messages or []) if each.role == MessageRole.USER)
        asked = question(next((text for text in said if text), ""))
        if not asked:
            return ""
        shown = await asyncio.to_thread(
            self.memoranda.for_prompt, asked, limit=self.limit, project=self.project, user=self.user
        )
        return shown.text

    async def _aput(self, messages: list[ChatMessage]) -> None:
        for message in messages:
            session = message.additional_kwargs.get("session_id")
            if message.content and message.role in _ROLES:
                await asyncio.to_thread(
                    self.memoranda.remember,
                    f"{message.role.value}: {message.content}",
                    kind="episodic",
                    project=self.project,
                    user=self.user,
                    session=session,
                )
