"""A memory block for LlamaIndex: `Memory.from_defaults(memory_blocks=[MemorandaBlock(memoranda=m)])`.

Messages that leave the short-term memory are remembered. Memories about the last message of the user are added to the
prompt, as one framed block of untrusted data.
"""

from __future__ import annotations

import asyncio
from typing import Final

from memoranda.adapters import limit_question, require_extra
from memoranda.app import Memoranda

with require_extra("llamaindex"):
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemoryBlock

_ROLES: Final = (MessageRole.USER, MessageRole.ASSISTANT)


class MemorandaBlock(BaseMemoryBlock[str]):  # type: ignore[misc]  # the type checker does not read LlamaIndex
    """A memory block over an open `Memoranda`, which the caller opens and closes."""

    name: str = Field(default="Memoranda", description="Name of the block in the prompt.")
    memoranda: Memoranda = Field(description="The open memory.", exclude=True)
    project: str | None = Field(default=None, description="Project of the memories.")
    user: str | None = Field(default=None, description="User that the memories are about.")
    limit: int = Field(default=8, description="Most memories added to the prompt.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: object) -> str:
        user_texts = (
            message.content
            for message in reversed(messages or [])
            if message.role == MessageRole.USER
        )
        query = limit_question(next((text for text in user_texts if text), ""))
        if not query:
            return ""
        block = await asyncio.to_thread(
            self.memoranda.for_prompt, query, limit=self.limit, project=self.project, user=self.user
        )
        return block.text

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
