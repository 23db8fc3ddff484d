"""A session of the OpenAI Agents SDK over Memoranda: items come back as they were given, in their order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.adapters.conftest import Fresh

from memoranda import Memoranda
from memoranda.adapters.openai_agents import MemorandaSession

ITEMS: list[Any] = [
    {"role": "user", "content": "What city is the Golden Gate Bridge in?"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"what": "bridge"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "San Francisco"},
    {
        "role": "assistant",
        "type": "message",
        "content": [{"type": "output_text", "text": "It is in San Francisco.", "annotations": []}],
    },
]


def test_a_conversation_is_kept_in_order_taken_back_and_forgotten(m: Memoranda) -> None:
    async def scenario() -> None:
        session = MemorandaSession("user/42", m)
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([])
        await session.add_items(ITEMS[:2])
        await session.add_items(ITEMS[2:])
        # Another object, or another process, goes on with it.
        again = MemorandaSession("user/42", m)
        assert await again.get_items() == ITEMS
        assert await again.get_items(2) == ITEMS[-2:]
        assert await again.get_items(0) == []
        assert await again.get_items(99) == ITEMS
        again.session_settings = SimpleNamespace(limit=1)
        assert await again.get_items() == ITEMS[-1:]
        assert await session.pop_item() == ITEMS[-1]
        assert await session.get_items() == ITEMS[:-1]
        await session.add_items(ITEMS[-1:])
        # Names that differ in case alone are two sessions.
        other = MemorandaSession("USER/42", m)
        await other.add_items(ITEMS[:1])
        await session.clear_session()
        assert await session.get_items() == []
        assert await other.get_items() == ITEMS[:1]

    asyncio.run(scenario())


def test_what_was_said_is_found_from_any_other_conversation(fresh: Fresh) -> None:
    m = fresh()
    asyncio.run(MemorandaSession("1", m).add_items(ITEMS))
    hit = m.recall("where is the Golden Gate Bridge?")[0]
    assert hit.text == "user: What city is the Golden Gate Bridge in?"
    assert (hit.kind, hit.record["scope"]["session"]) == ("episodic", "1")


def test_a_long_conversation_is_whole(fresh: Fresh) -> None:
    m = fresh()
    session = MemorandaSession("long", m)
    items: list[Any] = [{"role": "user", "content": f"turn {number}"} for number in range(700)]
    asyncio.run(session.add_items(items))
    assert asyncio.run(session.get_items()) == items
    assert asyncio.run(session.get_items(3)) == items[-3:]


def test_a_revised_and_a_redacted_item_have_the_new_text_and_no_copy_of_the_old_one(fresh: Fresh) -> None:
    m = fresh()
    session = MemorandaSession("1", m)
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J1k2L3m4N5o6P7q8R9"
    items: list[Any] = [
        {"role": "user", "content": "call 0151"},
        {"role": "user", "content": f"my token is {secret}"},
        {"role": "assistant", "type": "message", "content": [{"type": "output_text", "text": "I will call 0151."}]},
    ]
    asyncio.run(session.add_items(items))
    by_text = {memory.text: memory.id for memory in m}
    m.revise(by_text["user: call 0151"], "user: call 0170")
    m.revise(by_text["assistant: I will call 0151."], "assistant: I will call 0170.")
    m.redact(by_text[f"user: my token is {secret}"])
    shown: list[Any] = asyncio.run(session.get_items())
    # A redaction erases the key with the first version, and so the memory leaves the session.
    assert [item["content"] for item in shown] == ["call 0170", "I will call 0170."]
    assert m.recall("token")[0].text.startswith("user: my token is [")
    # A content of several parts stays in the metadata, until the memory is written through OAMS.
    memories = m.oams.list(namespace="sessions").memories
    assert [memory["key"][:2] for memory in memories if "0151" in str(memory)] == ["1/"]
    assert secret not in str(memories)
