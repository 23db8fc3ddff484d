"""Grains as tools: one conversation with the official client over both transports, and every refusal named."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp_types import TextContent
from tests.bindings.mcp.peers import HttpPeer, agent_peer, http_client, run

from memoranda.bindings.mcp import tools
from memoranda.errors import Conflict, InvalidInput, NotFound
from memoranda.standards.oms import grains

BELIEF: dict[str, Any] = {
    "type": "belief",
    "subject": "ada",
    "relation": "prefers",
    "object": "green tea",
    "confidence": 0.9,
    "created_at": 1768471200000,
    "namespace": "kitchen",
}
NOBODY = "0" * 64


async def call(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool's answer, good or bad; the client has validated it, and the text must repeat it."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    structured = result.structured_content
    assert isinstance(structured, dict)
    assert json.loads(content.text) == structured
    assert result.is_error == ("error" in structured)
    return structured


@asynccontextmanager
async def connected(transport: str, home: Path, peer: HttpPeer, owner: str) -> AsyncIterator[Client]:
    if transport == "local":
        async with agent_peer(home) as client:
            yield client
    else:
        async with http_client(peer.url, peer.key(owner)) as client:
            yield client


@pytest.mark.parametrize("transport", ["local", "http"])
def test_an_agent_puts_finds_gets_and_supersedes(transport: str, tmp_path: Path, peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with connected(transport, tmp_path / "home", peer, owner) as client:
            first = await call(client, "oms.put", grain=BELIEF)
            assert first["address"] == grains.encode(BELIEF).address
            assert (await call(client, "oms.put", grain=BELIEF))["result"] == "exists"
            shown = await call(client, "oms.get", address=first["address"])
            assert shown["grain"] == BELIEF
            assert shown["native"] is True
            await found(client, first["address"])
            await superseded(client, first["address"])

    run(scenario)


async def found(client: Client, address: str) -> None:
    for question in ({"subject": "ada"}, {"text": "which tea"}, {"text": "tea", "type": "belief"}):
        page = await call(client, "oms.find", **question)
        (result,) = page["results"]
        assert result["content_address"] == address
        assert result["matched_fields"]
        assert (page["total"], page["next_cursor"]) == (1, None)
    assert (await call(client, "oms.find", relation="owns"))["results"] == []


async def superseded(client: Client, address: str) -> None:
    later = {**BELIEF, "object": "black coffee", "created_at": 1768557600000}
    done = await call(client, "oms.supersede", address=address, grain=later, justification="she said so")
    assert done["result"] == "superseded"
    index = (await call(client, "oms.get", address=address))["index"]
    assert index["superseded_by"] == done["address"]
    (result,) = (await call(client, "oms.find", subject="ada"))["results"]
    assert result["grain"]["object"] == "black coffee"
    both = (await call(client, "oms.find", subject="ada", current=False, limit=1))["next_cursor"]
    (second,) = (await call(client, "oms.find", subject="ada", current=False, cursor=both))["results"]
    assert second["content_address"] == done["address"]


def test_when_and_where_are_filled_in(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            done = await call(client, "oms.put", grain={"type": "event", "content": "the lamp broke"})
            grain = (await call(client, "oms.get", address=done["address"]))["grain"]
            assert grain["namespace"] == "shared"
            assert grain["created_at"] > 1768471200000

    run(scenario)


def test_a_memory_of_ump_is_found_as_a_grain(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            await client.call_tool("ump.remember", {"kind": "semantic", "body": {"text": "the sky is blue"}})
            (result,) = (await call(client, "oms.find", text="sky"))["results"]
            assert result["native"] is False
            assert result["grain"]["object"] == "the sky is blue"
            recalled = await call(client, "oms.supersede", address=result["content_address"], grain=BELIEF)
            assert recalled["result"] == "superseded"
            hits = (await client.call_tool("ump.recall", {"query": "tea"})).structured_content
            assert hits is not None
            assert "green tea" in hits["results"][0]["record"]["body"]["text"]

    run(scenario)


WRONG: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("oms.put", {}, "grain is required", None),
    ("oms.put", {"grain": "tea"}, "grain must be", None),
    ("oms.put", BELIEF, "unknown field", None),
    ("oms.put", {"grain": {}}, "type", "ERR_NO_TYPE"),
    ("oms.put", {"grain": {**BELIEF, "type": "dream"}}, "type", "ERR_UNKNOWN_TYPE"),
    ("oms.put", {"grain": {**BELIEF, "confidence": 2}}, "confidence", "ERR_RANGE"),
    ("oms.put", {"grain": {**BELIEF, "superseded_by": NOBODY}}, "superseded_by", "ERR_SCHEMA"),
    ("oms.get", {}, "address", None),
    ("oms.get", {"address": 7}, "address", None),
    ("oms.get", {"address": "abc"}, "64", "ERR_HASH_LENGTH"),
    ("oms.get", {"address": "A" * 64}, "lower-case", "ERR_HASH_FORMAT"),
    ("oms.find", {"text": " "}, "text", None),
    ("oms.find", {"limit": 0}, "limit", None),
    ("oms.find", {"current": "no"}, "current", None),
    ("oms.find", {"cursor": "AAAA"}, "cursor", None),
    ("oms.find", {"owner": "did:example:other"}, "unknown field 'owner'", None),
    ("oms.supersede", {"address": NOBODY}, "grain", None),
    ("oms.supersede", {"address": NOBODY, "grain": BELIEF, "justification": 7}, "justification", None),
]


def test_wrong_arguments_are_refused_by_name_and_in_the_words_of_oms(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            for name, arguments, expected, oms_code in WRONG:
                error = (await call(client, name, **arguments))["error"]
                assert (error["code"], error.get("oms_code")) == ("invalid_record", oms_code), (arguments, error)
                assert expected in error["message"], error

    run(scenario)


def test_other_refusals_keep_their_codes(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            gone = (await call(client, "oms.get", address=NOBODY))["error"]
            assert (gone["code"], "oms_code" in gone) == ("not_found", False)
            rock = {**BELIEF, "invalidation_policy": {"mode": "locked"}}
            address = (await call(client, "oms.put", grain=rock))["address"]
            denied = (await call(client, "oms.supersede", address=address, grain=BELIEF))["error"]
            assert denied["oms_code"] == "ERR_INVALIDATION_DENIED"
        async with http_client(peer.url, peer.key(owner, "read")) as reader:
            assert (await call(reader, "oms.put", grain=BELIEF))["error"]["code"] == "forbidden_scope"
        async with http_client(peer.url, peer.key(owner, "write")) as writer:
            assert (await call(writer, "oms.find", subject="ada"))["error"]["code"] == "forbidden_scope"

    run(scenario)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
NEARLY = st.dictionaries(st.sampled_from(("type", "object", "context", "related_to", "valid_to")), VALUES, max_size=3)
ARGUMENTS = st.dictionaries(
    st.sampled_from(("grain", "address", "text", "subject", "limit", "cursor", "type", "justification")),
    VALUES | NEARLY.map(lambda fields: {**BELIEF, **fields}),
    max_size=4,
)


@pytest.mark.parametrize("name", ["oms.put", "oms.get", "oms.find", "oms.supersede"])
@settings(max_examples=60)
@given(arguments=ARGUMENTS)
def test_no_arguments_make_a_tool_fail_unexpectedly(peer: HttpPeer, name: str, arguments: dict[str, Any]) -> None:
    access = peer.service.gate.local("did:example:fuzz")
    with contextlib.suppress(InvalidInput, NotFound, Conflict):
        tools.run_tool(tools.OPERATIONS[name], peer.service, access, arguments)
