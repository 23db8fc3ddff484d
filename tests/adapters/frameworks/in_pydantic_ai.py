"""An agent of Pydantic AI with the memory as a toolset."""

from __future__ import annotations

import re
from typing import Any

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memoranda import Memoranda
from memoranda.adapters.pydantic_ai import INSTRUCTIONS, memory_toolset


def run(m: Memoranda, said: str, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """An agent that makes these calls in turn, and ends; what it was told of each."""
    told: list[str] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert {tool.name for tool in info.function_tools} == {"remember", "recall", "revise", "forget"}
        assert INSTRUCTIONS in (info.instructions or "")
        if len(messages) > 1:
            told.append(str(messages[-1].parts[0].content))
        if len(told) == len(calls):
            return ModelResponse(parts=[TextPart("done")])
        name, given = calls[len(told)]
        if "id" in given and given["id"] is None:
            given["id"] = re.findall(r"^- (\S+)", told[-1], flags=re.MULTILINE)[0]
        return ModelResponse(parts=[ToolCallPart(name, given)])

    agent = Agent(FunctionModel(script), toolsets=[memory_toolset(m, project="shop", user="ada")])
    assert agent.run_sync(said).output == "done"
    return told


def test_an_agent_remembers_in_one_run_and_knows_it_in_the_next(m: Memoranda) -> None:
    (done,) = run(m, "I take my tea green.", ("remember", {"text": "Ada takes her tea green.", "kind": "identity"}))
    assert done.startswith("created: ")
    known, revised, again = run(
        *(m, "How do I take my tea? Black now!", ("recall", {"query": "tea"})),
        ("revise", {"id": None, "text": "Ada takes her tea black."}),
        ("recall", {"query": "tea"}),
    )
    assert known.startswith('<ump:memory trust="untrusted-data">')
    assert "Ada takes her tea green." in known
    assert revised.startswith("revised: ")
    assert ("black" in again, "green" in again) == (True, False)
    _, gone, nothing = run(
        m,
        "Forget it.",
        ("recall", {"query": "tea"}),
        ("forget", {"id": None, "reason": "asked"}),
        ("recall", {"query": "tea"}),
    )
    assert (gone, nothing) == ("forgotten", "Nothing is remembered about this.")


def test_what_the_model_can_mend_it_is_told(m: Memoranda) -> None:
    told = run(m, "Forget it.", ("forget", {"id": "urn:ump:nothing", "reason": "asked"}), ("recall", {"query": "tea"}))
    assert "urn:ump:nothing" in told[0]
    assert told[1] == "Nothing is remembered about this."
