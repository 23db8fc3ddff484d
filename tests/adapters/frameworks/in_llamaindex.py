"""An agent of LlamaIndex with a memory block."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.memory import Memory

from memoranda import Memoranda
from memoranda.adapters.llamaindex import MemorandaBlock


class Scripted(FunctionCallingLLM):  # type: ignore[misc]  # the type checker does not read LlamaIndex
    """A model that repeats all it was told."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    def answer(self, messages: list[ChatMessage]) -> ChatResponse:
        heard = " | ".join(each.content or "" for each in messages)
        return ChatResponse(message=ChatMessage(role="assistant", content=f"heard: {heard}"))

    async def astream_chat_with_tools(self, tools: Any, *_: Any, chat_history: Any = None, **__: Any) -> Any:
        async def stream() -> Any:
            answered = self.answer(chat_history)
            answered.delta = answered.message.content
            yield answered

        return stream()

    def get_tool_calls_from_response(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def _prepare_chat_with_tools(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}

    chat = complete = stream_chat = stream_complete = answer

    async def achat(self, *_: Any, **__: Any) -> Any: ...

    acomplete = astream_chat = astream_complete = achat


async def say(m: Memoranda, text: str, session: str, user: str) -> str:
    """A conversation with an agent whose short-term memory holds next to nothing."""
    block = MemorandaBlock(memoranda=m, project="shop", user=user)
    memory = Memory.from_defaults(
        session_id=session, memory_blocks=[block], token_limit=60, token_flush_size=50, chat_history_token_ratio=0.5
    )
    agent = FunctionAgent(llm=Scripted(), tools=[])
    answer = ""
    for each in (text, "That was all. " * 5):
        answer = answer or str(await agent.run(each, memory=memory))
    await memory.aput_messages([ChatMessage(role="user", content="bye " * 60)])
    return answer


def test_an_agent_knows_in_the_next_run_what_was_said_in_one(m: Memoranda) -> None:
    asyncio.run(say(m, "I take my tea green.", "1", "ada"))
    assert ("user: I take my tea green.", "1") in {(each.text, each.record["scope"].get("session")) for each in m}
    told = asyncio.run(say(m, "How do I take my tea?", "2", "ada"))
    assert "I take my tea green." in told
    assert told.count("<ump:memory ") == 1
    assert "green" not in asyncio.run(say(m, "How do I take my tea?", "3", "bob"))


def test_without_a_question_nothing_is_put_before_the_model(m: Memoranda) -> None:
    m.remember("tea is sold here")
    block = MemorandaBlock(memoranda=m)
    assert asyncio.run(block.aget([])) == ""
    assert asyncio.run(block.aget([ChatMessage(role="assistant", content="tea")])) == ""
    # What a tool or the system said is not remembered.
    asyncio.run(block.aput([ChatMessage(role="system", content="be kind"), ChatMessage(role="tool", content="42")]))
    assert len(list(m)) == 1
