"""Claude with its memory tool, in Anthropic's own runner."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import anthropic
import httpx2

from memoranda import Memoranda
from memoranda.adapters.anthropic import memory_tool
from memoranda.adapters.langgraph import MemorandaStore


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
