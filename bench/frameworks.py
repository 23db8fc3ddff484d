"""What the adapters add inside the real frameworks: run in their own environment, `make bench-adapters`.

Each is compared with the same calls of the memory, made as any program with an event loop makes them: in a thread.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from bench.adapters import Pairs, compared, opened
from bench.figures import Figures
from memoranda import Memoranda

_NUMBERS = count()
_SAID = "Ada takes her tea green, and in the morning only"


def _awaited(loop: asyncio.AbstractEventLoop, call: Callable[[], Awaitable[object]]) -> Callable[[], object]:
    async def awaited() -> object:
        return await call()

    return lambda: loop.run_until_complete(awaited())


def _threaded(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> Callable[[], object]:
    return _awaited(loop, lambda: asyncio.to_thread(call))


def openai_agents(m: Memoranda, loop: asyncio.AbstractEventLoop) -> Pairs:
    from memoranda.adapters.openai_agents import MemorandaSession

    session = MemorandaSession("one", m)
    item = {"role": "user", "content": _SAID}
    loop.run_until_complete(session.add_items([item] * 20))
    place = str(m.oams.namespace("direct"))

    def add() -> object:
        key, more = (
            f"one/{next(_NUMBERS):020d}",
            {"tags": ["session:one"], "metadata": {"openai": item, "kind": "episodic"}},
        )
        return m.oams.batch_store([{"key": key, "namespace": place, "value": f"user: {_SAID}", **more}])

    def listed() -> object:
        return m.oams.list(namespace="sessions", tags=["session:one"], limit=100)

    fresh = MemorandaSession("two", m, project="adapted")
    return {
        "add_items": (_threaded(loop, add), _awaited(loop, lambda: fresh.add_items([item]))),
        "get_items": (_threaded(loop, listed), _awaited(loop, session.get_items)),
    }


def autogen(m: Memoranda, loop: asyncio.AbstractEventLoop) -> Pairs:
    from autogen_core.memory import MemoryContent, MemoryMimeType

    from memoranda.adapters.autogen import MemorandaMemory

    memory = MemorandaMemory(m, project="autogen", limit=5)

    def add() -> Awaitable[object]:
        said = MemoryContent(content=f"{_SAID} {next(_NUMBERS)}", mime_type=MemoryMimeType.TEXT)
        return memory.add(said)

    def direct() -> object:
        kept = {"autogen": {"mime_type": "text/plain"}}
        return m.remember(f"{_SAID} {next(_NUMBERS)}", project="autogen", tags=["autogen"], structured=kept)

    for _ in range(20):
        direct()
    return {
        "query": (
            _threaded(loop, lambda: m.recall("morning tea", project="autogen", limit=5)),
            _awaited(loop, lambda: memory.query("morning tea")),
        ),
        "add": (_threaded(loop, direct), _awaited(loop, add)),
    }


def google_adk(m: Memoranda, loop: asyncio.AbstractEventLoop) -> Pairs:
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types

    from memoranda.adapters.google_adk import MemorandaMemoryService

    service = MemorandaMemoryService(m, limit=5)
    place: dict[str, Any] = {"app_name": "adk", "user_id": "ada"}

    def add() -> Awaitable[object]:
        content = types.Content(parts=[types.Part(text=f"{_SAID} {next(_NUMBERS)}")])
        return service.add_memory(**place, memories=[MemoryEntry(content=content, author="user")])

    def direct() -> object:
        said = {"google_adk": {"author": "user"}}
        return m.remember(f"{_SAID} {next(_NUMBERS)}", project="adk", user="ada", structured=said)

    for _ in range(20):
        direct()
    return {
        "search": (
            _threaded(loop, lambda: m.recall("morning tea", project="adk", user="ada", limit=5)),
            _awaited(loop, lambda: service.search_memory(**place, query="morning tea")),
        ),
        "add": (_threaded(loop, direct), _awaited(loop, add)),
    }


def llamaindex(m: Memoranda, loop: asyncio.AbstractEventLoop) -> Pairs:
    from llama_index.core.base.llms.types import ChatMessage

    from memoranda.adapters.llamaindex import MemorandaBlock

    block = MemorandaBlock(memoranda=m, project="llama", limit=5)
    asked = [ChatMessage(role="user", content="morning tea")]

    def direct() -> object:
        return m.remember(f"user: {_SAID} {next(_NUMBERS)}", kind="episodic", project="llama")

    async def put() -> None:
        await block.aput([ChatMessage(role="user", content=f"{_SAID} {next(_NUMBERS)}")])

    for _ in range(20):
        direct()
    return {
        "get": (
            _threaded(loop, lambda: m.for_prompt("morning tea", project="llama", limit=5)),
            _awaited(loop, lambda: block.aget(asked)),
        ),
        "put": (_threaded(loop, direct), _awaited(loop, put)),
    }


def pydantic_ai(m: Memoranda, _: asyncio.AbstractEventLoop) -> Pairs:
    from memoranda.adapters.pydantic_ai import memory_toolset

    # What the framework calls: the tools that the adapter gives it.
    tools = memory_toolset(m, project="pydantic", limit=5).tools

    def direct() -> object:
        return m.remember(f"{_SAID} {next(_NUMBERS)}", project="pydantic")

    for _number in range(20):
        direct()
    return {
        "recall": (
            lambda: m.for_prompt("morning tea", project="pydantic", limit=5, ids=True),
            lambda: tools["recall"].function("morning tea"),
        ),
        "remember": (direct, lambda: tools["remember"].function(f"{_SAID} {next(_NUMBERS)}")),
    }


def main(*, quick: bool) -> Figures:
    figures: Figures = {}
    loop = asyncio.new_event_loop()
    for made in (openai_agents, autogen, google_adk, llamaindex, pydantic_ai):
        with opened() as m:
            figures |= compared(made.__name__, made(m, loop), quick=quick)
    loop.close()
    return figures


if __name__ == "__main__":
    print(json.dumps(main(quick="--quick" in sys.argv)))
