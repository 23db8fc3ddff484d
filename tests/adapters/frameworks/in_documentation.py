"""The examples of docs/howto/frameworks.md, with the real frameworks, and that frameworks share what they remember."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from autogen_core.memory import MemoryContent, MemoryMimeType
from llama_index.core.base.llms.types import ChatMessage

from memoranda import Memoranda
from memoranda.adapters.anthropic import MemoryFiles
from memoranda.adapters.autogen import MemorandaMemory
from memoranda.adapters.google_adk import MemorandaMemoryService
from memoranda.adapters.langgraph import MemorandaStore
from memoranda.adapters.llamaindex import MemorandaBlock

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "frameworks.md"
BLOCKS = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.findall(r"adapters\.(\w+)", block)[0])
def test_the_example_prints_what_it_says(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = re.findall(r"print\(.*\)  # (.*)", block)
    assert wanted
    exec(compile(block, PAGE.name, "exec"), {})
    assert capsys.readouterr().out.splitlines() == wanted


def test_what_one_framework_remembers_all_others_know(m: Memoranda) -> None:
    async def scenario() -> None:
        memory = MemorandaMemory(m, project="shop", user="ada")
        await memory.add(MemoryContent(content="Ada takes her tea green.", mime_type=MemoryMimeType.TEXT))
        found = await MemorandaMemoryService(m).search_memory(app_name="shop", user_id="ada", query="tea")
        assert [each.content.parts[0].text for each in found.memories] == ["Ada takes her tea green."]
        block = MemorandaBlock(memoranda=m, project="shop", user="ada")
        assert "Ada takes her tea green." in await block.aget([ChatMessage(role="user", content="tea?")])

    asyncio.run(scenario())
    (item,) = MemorandaStore(m).search(("shop",), query="tea", limit=1)
    assert item.value["text"] == "Ada takes her tea green."
    files = MemoryFiles(m, project="shop")
    assert files.call({"command": "view", "path": "/memories"}).count("\n") == 2
