"""langmem's tools in an agent of LangGraph, and what LangGraph stored, read by others."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langmem import create_manage_memory_tool, create_search_memory_tool
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from memoranda import Memoranda
from memoranda.adapters.langgraph import MemorandaStore

NAMESPACE = ("memories", "{langgraph_user_id}")


class Scripted(BaseChatModel):  # type: ignore[misc]  # the type checker does not read LangChain
    """A model that makes one call, and repeats what it was told."""

    call: dict[str, Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = messages[-1]
        answer = (
            AIMessage(content=str(last.content))
            if isinstance(last, ToolMessage)
            else AIMessage(content="", tool_calls=[{"id": "1", **self.call}])
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


def run(m: Memoranda, user: str, name: str, **given: Any) -> str:
    """What a new agent with langmem's tools comes to."""
    tools = [create_manage_memory_tool(NAMESPACE), create_search_memory_tool(NAMESPACE)]
    agent = create_agent(Scripted(call={"name": name, "args": given}), tools=tools, store=MemorandaStore(m))
    said = {"messages": [{"role": "user", "content": "go on"}]}
    done = agent.invoke(said, config={"configurable": {"langgraph_user_id": user}})
    return str(done["messages"][-1].content)


def test_langmem_remembers_in_one_run_and_knows_it_in_the_next(m: Memoranda) -> None:
    assert run(m, "ada", "manage_memory", content="Ada takes her tea green.", action="create").startswith(
        "created memory"
    )
    found = run(m, "ada", "search_memory", query="tea")
    assert "Ada takes her tea green." in found
    assert "green" not in run(m, "bob", "search_memory", query="tea")
    # The same memory, by any other way.
    assert m.recall("tea", project="memories.ada")[0].text == "Ada takes her tea green."
    (key,) = [each.key for each in MemorandaStore(m).search(("memories", "ada"))]
    assert run(m, "ada", "manage_memory", content="Ada takes it black.", action="update", id=key).startswith("updated")
    assert run(m, "ada", "manage_memory", action="delete", id=key).startswith("Deleted")
    assert "black" not in run(m, "ada", "search_memory", query="tea")


def test_what_langgraph_stored_an_mcp_host_recalls(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as m:
        run(m, "ada", "manage_memory", content="Ada takes her tea green.", action="create")

    async def ask() -> str:
        command = [str(Path(sys.executable).parents[2] / "bin" / "memoranda"), "mcp", "--data", str(tmp_path)]
        server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
        async with Client(stdio_client(server)) as client:
            answer = await client.call_tool("ump_recall", {"query": "how does Ada take her tea?"})
            return "\n".join(each.text for each in answer.content if each.type == "text")

    assert "Ada takes her tea green." in asyncio.run(ask())
