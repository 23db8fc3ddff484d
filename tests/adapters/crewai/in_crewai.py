"""A crew of CrewAI with Memoranda as its MCP server.

CrewAI wants an older MCP library than Memoranda does, so that the two are not installed side by side: the crew starts
`memoranda mcp`, of an environment of its own, and this file imports nothing of ours.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent, BaseLLM, Crew, Task
from crewai.mcp import MCPServerStdio

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}


class Scripted(BaseLLM):  # type: ignore[misc]  # the type checker does not read CrewAI
    """A model that uses one tool, and repeats what it was told."""

    tool: str
    given: dict[str, Any]

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        said = "\n".join(str(each["content"]) for each in messages)
        told = [str(each["content"]) for each in messages if each["role"] == "assistant"]
        if told:
            return "Thought: I know\nFinal Answer: " + told[-1].partition("\nObservation: ")[2]
        # CrewAI names a tool after its server, too.
        assert f"Tool Name: memoranda_mcp_{self.tool}\n" in said
        return f"Thought: I use my memory\nAction: memoranda_mcp_{self.tool}\nAction Input: {json.dumps(self.given)}"


def run(home: Path, tool: str, **given: Any) -> str:
    """What a crew of one comes to."""
    server = MCPServerStdio(command="memoranda", args=["mcp"], env={**os.environ, "MEMORANDA_HOME": str(home)})
    llm = Scripted(model="scripted", tool=tool, given=given)
    agent = Agent(role="scripted", goal="answer", backstory="has a memory", llm=llm, mcps=[server])
    task = Task(description="Say what you know.", expected_output="what you know", agent=agent)
    return str(Crew(agents=[agent], tasks=[task]).kickoff())


def test_a_crew_remembers_in_one_run_and_knows_it_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))
    run(tmp_path / "home", "ump_remember", text="Ada takes her tea green.")
    assert "Ada takes her tea green." in run(tmp_path / "home", "ump_recall", query="how does Ada take her tea?")
