"""Adapters inside the real frameworks, with a model that is a script.

Run by `make test-adapters`, in an environment of its own: these frameworks are larger than Memoranda.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from typing import Any

import anthropic
import httpx2
import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.memory import Session
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memoranda import Memoranda
from memoranda.adapters.anthropic import memory_tool
from memoranda.adapters.langgraph import MemorandaStore
from memoranda.adapters.openai_agents import MemorandaSession


@pytest.fixture
def m() -> Iterator[Memoranda]:
    with Memoranda.open(":memory:") as opened:
        yield opened


def claude(m: Memoranda, script: Callable[[int, list[Any]], dict[str, Any]], said: str) -> str:
    """What Claude's tool runner comes to; the model is a script that goes by its turn and by what it was told last."""
    turns = count(1)

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked = json.loads(request.content)
        assert asked.get("tools", [{"type": "memory_20250818", "name": "memory"}])[0]["type"] == "memory_20250818"
        block = script(next(turns), asked["messages"])
        reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [block]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return httpx2.Response(200, json={**message, "stop_reason": reason, "stop_sequence": None, "usage": usage})

    client = anthropic.Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer)))
    runner = client.beta.messages.tool_runner(
        model="scripted", max_tokens=100, messages=[{"role": "user", "content": said}], tools=[memory_tool(m)]
    )
    return str(runner.until_done().content[0].text)


def use(**command: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": command}


def told(messages: list[Any]) -> tuple[str, bool]:
    block = messages[-1]["content"][0]
    content = block["content"]
    return (content if isinstance(content, str) else content[0]["text"]), bool(block.get("is_error"))


def test_claude_remembers_in_one_run_and_knows_it_in_the_next(m: Memoranda) -> None:
    def first(turn: int, messages: list[Any]) -> dict[str, Any]:
        if turn == 1:
            return use(command="create", path="/memories/tools.md", file_text="The package manager is pnpm.\n")
        assert told(messages) == ("File created successfully at: /memories/tools.md", False)
        return {"type": "text", "text": "noted"}

    def second(turn: int, messages: list[Any]) -> dict[str, Any]:
        if turn == 1:
            return use(command="view", path="/memories/none.md")
        if turn == 2:
            text, is_error = told(messages)
            assert text.endswith("The path /memories/none.md does not exist. Please provide a valid path.")
            assert is_error
            return use(command="view", path="/memories/tools.md")
        return {"type": "text", "text": told(messages)[0].splitlines()[1]}

    assert claude(m, first, "We use pnpm.") == "noted"
    assert claude(m, second, "Which package manager?") == "     1\tThe package manager is pnpm."
    # Another framework reads the same memory.
    (item,) = MemorandaStore(m).search(("memories",), query="package manager", limit=1)
    assert item.value == {"text": "The package manager is pnpm.\n"}


class Scripted(Model):  # type: ignore[misc]  # the type checker does not read the SDK
    """A model that says what was said before."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        heard = [each["content"] for each in input if each.get("role") == "user"]
        text = ResponseOutputText(annotations=[], text=f"you said: {' | '.join(heard)}", type="output_text")
        message = ResponseOutputMessage(id="1", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """The SDK wants one; nothing here asks for it."""
        events: tuple[Any, ...] = ()
        for each in events:
            yield each


def test_an_agent_of_openai_goes_on_with_a_conversation(m: Memoranda) -> None:
    agent, quiet = Agent(name="scripted", model=Scripted()), RunConfig(tracing_disabled=True)

    async def say(text: str, session_id: str) -> str:
        session = MemorandaSession(session_id, m)
        assert isinstance(session, Session)
        return str((await Runner.run(agent, text, session=session, run_config=quiet)).final_output)

    assert asyncio.run(say("I take my tea green.", "1")) == "you said: I take my tea green."
    assert asyncio.run(say("And you?", "1")) == "you said: I take my tea green. | And you?"
    assert asyncio.run(say("Hello", "2")) == "you said: Hello"
    assert m.recall("how do I take my tea?")[0].record["scope"]["session"] == "1"
