"""An agent of the OpenAI Agents SDK with a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.memory import Session
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memoranda import Memoranda
from memoranda.adapters.openai_agents import MemorandaSession


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
