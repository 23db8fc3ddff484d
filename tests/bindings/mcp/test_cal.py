"""CAL as tools: the official client over both transports; errors that a model can correct itself by."""

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
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent
from tests.bindings.mcp.peers import HttpPeer, agent_peer, http_client, run
from tests.standards.cal.published import examples_on_the_card

from memoranda.bindings.mcp import tools
from memoranda.errors import InvalidInput
from memoranda.standards.cal.grammar import prompt_card
from memoranda.standards.cal.printing.counter import make_counter

BELIEF: dict[str, Any] = {
    "type": "belief",
    "subject": "ada",
    "relation": "prefers",
    "object": "green tea",
    "confidence": 0.9,
    "created_at": 1768471200000,
    "namespace": "kitchen",
}
ADD = 'ADD belief SET subject = "ada" SET relation = "prefers" SET object = $what REASON "she said so"'


async def call(client: Client, name: str, /, **arguments: Any) -> tuple[list[str], dict[str, Any]]:
    """The text that was asked for, if any, and the answer, which the client has validated; there is only one text."""
    result = await client.call_tool(name, arguments)
    (text,) = [content.text for content in result.content if isinstance(content, TextContent)]
    structured = result.structured_content
    assert isinstance(structured, dict)
    if "formatted_context" in structured or structured.get("formatted"):
        return [text], structured
    assert json.loads(text) == structured
    return [], structured


async def ask(client: Client, query: str, tool: str = "cal", **beside: Any) -> dict[str, Any]:
    _, answer = await call(client, tool, query=query, namespace="kitchen", **beside)
    assert "error" not in answer, answer
    return answer


async def error_of(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert result.is_error, result.structured_content
    assert result.structured_content is not None
    return dict(result.structured_content["error"])


@asynccontextmanager
async def connected(transport: str, home: Path, peer: HttpPeer, owner: str) -> AsyncIterator[Client]:
    if transport == "local":
        async with agent_peer(home) as client:
            yield client
    else:
        async with http_client(peer.url, peer.key(owner)) as client:
            yield client


@pytest.mark.parametrize("transport", ["local", "http"])
@pytest.mark.requirement("CAL-26-mcp")
def test_an_agent_asks_and_gets_the_text_alone(transport: str, tmp_path: Path, peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with connected(transport, tmp_path / "home", peer, owner) as client:
            await client.call_tool("oms.put", {"grain": BELIEF})
            texts, answer = await call(client, "cal", query="RECALL beliefs ABOUT $who", params={"who": "ada"},
                                       namespace="kitchen")  # fmt: skip
            assert (texts, answer["total"], answer["_cal"]["statement_type"]) == ([], 1, "recall")
            texts, answer = await call(client, "cal", query="RECALL beliefs AS markdown", namespace="kitchen")
            assert texts == [answer["formatted"]]
            assert "ada prefers green tea" in texts[0]
            assemble = "ASSEMBLE FROM known: (RECALL beliefs) BUDGET 500 tokens FORMAT text"
            texts, answer = await call(client, "cal", query=assemble, namespace="kitchen")
            assert texts == [answer["formatted_context"]["text"]]
            texts, answer = await call(client, "cal", query="RECALL goals AS markdown", namespace="kitchen")
            assert answer["results"] == []

    run(scenario)


@pytest.mark.requirement("CAL-8.2-budget-mcp")
def test_a_budget_holds_in_the_tokens_of_a_model_for_all_that_it_reads(peer: HttpPeer, owner: str) -> None:
    model = make_counter("o200k_base")

    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            for number in range(60):
                said = f"Alice's order {number} went to Lisbon on 2026-03-{number % 28 + 1:02}, ref. AB-{number * 7919}"
                draft = {"kind": "semantic", "body": {"text": said}}
                assert not (await client.call_tool("ump.remember", draft)).is_error
            for form in ("sml", "markdown", "text", "toon", "json", "yaml", "triples"):
                query = f'ASSEMBLE FROM known: (RECALL LIKE "order" LIMIT 60) BUDGET 1000 tokens FORMAT {form}'
                result = await client.call_tool("cal", {"query": query})
                (content,) = result.content
                assert isinstance(content, TextContent)
                assert result.structured_content is not None
                assert 700 <= model.count(content.text) <= 1000, form
                # Whoever hands the other form to a model pays for little more.
                assert model.count(json.dumps(result.structured_content)) <= 1600, form
                assert "memoranda:native" not in json.dumps(result.structured_content), form
                assert "did:key:" not in content.text, form
            found = await client.call_tool("cal", {"query": 'RECALL LIKE "order" LIMIT 5'})
            assert "memoranda:native" not in json.dumps(found.structured_content)

    run(scenario)


def test_pages_follow_one_another(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            for number in range(3):
                await client.call_tool("oms.put", {"grain": {**BELIEF, "object": f"tea {number}"}})
            first = await ask(client, "RECALL beliefs | LIMIT 2")
            second = await ask(client, "RECALL beliefs | LIMIT 2", cursor=first["next_cursor"])
            assert len({each["content_address"] for each in (*first["results"], *second["results"])}) == 3
            assert second["next_cursor"] is None

    run(scenario)


@pytest.mark.requirement("CAL-26-mcp-errors")
def test_an_error_says_where_and_what_to_write_instead(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            error = await error_of(client, "cal", query="RECALL fact")
            assert (error["code"], error["position"]) == ("CAL-E003", {"start": 7, "end": 11, "line": 1, "col": 8})
            assert 'Did you mean "belief"' in error["suggestion"]
            assert await ask(client, error["example"])
            error = await error_of(client, "cal", query="DELETE beliefs")
            assert (error["code"], bool(error["expected"])) == ("CAL-E002", True)
            for query, code in (("", "CAL-E014"), ("x" * 9000, "CAL-E001"), ("RECALL beliefs ABOUT $x", "CAL-E008")):
                assert (await error_of(client, "cal", query=query))["code"] == code
            for name in ("cal", "cal.prepare"):
                assert (await error_of(client, name, query="RECALL facts"))["code"] == "CAL-E003"
            assert (await error_of(client, "cal.execute", token="calprep.x"))["reason"] == "bad_signature"

    run(scenario)


def test_checking_runs_nothing_and_is_no_failure_of_the_tool(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            assert await call(client, "cal.check", query="RECALL beliefs ABOUT $x") == (
                [],
                {"valid": True, "error": None},
            )
            result = await client.call_tool("cal.check", {"query": "RECALL beliefs ABOUT $x", "params": {}})
            assert not result.is_error
            assert result.structured_content is not None
            assert (result.structured_content["valid"], result.structured_content["error"]["code"]) == (
                False,
                "CAL-E008",
            )

    run(scenario)


@pytest.mark.requirement("CAL-26-mcp-two-phases")
def test_a_local_agent_prepares_a_change_and_executes_it_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with agent_peer(tmp_path / "home") as client:
            direct = await error_of(client, "cal", query=ADD, params={"what": "milk"})
            assert (direct["code"], direct["reason"]) == ("CAL-E044", "not_prepared")
            prepared = await ask(client, ADD, "cal.prepare", params={"what": "milk"})
            assert (prepared["tier"], len(prepared["side_effects"])) == (1, 1)
            assert (await ask(client, "RECALL beliefs"))["total"] == 0
            _, done = await call(client, "cal.execute", token=prepared["token"])
            assert done["operation"] == "add"
            assert (await ask(client, "RECALL beliefs"))["results"][0]["grain"]["object"] == "milk"
            assert (await error_of(client, "cal.execute", token=prepared["token"]))["reason"] == "replayed"

    run(scenario)


@pytest.mark.requirement("CAL-26-mcp-two-phases")
def test_an_agent_elsewhere_cannot_change_through_the_language(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            for name in ("cal", "cal.prepare"):
                error = await error_of(client, name, query=ADD, params={"what": "milk"})
                assert (error["code"], error["reason"]) == ("CAL-E044", "tier1_disabled")
        async with http_client(peer.url, peer.key(owner, "write")) as writer:
            assert (await error_of(writer, "cal", query="RECALL beliefs"))["code"] == "forbidden_scope"

    run(scenario)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("cal", {}, "query"),
    ("cal", {"query": 7}, "query"),
    ("cal", {"query": {"statement": "recall"}}, "query"),
    ("cal", {"query": "RECALL beliefs", "params": []}, "params"),
    ("cal", {"query": "RECALL beliefs", "cursor": 7}, "cursor"),
    ("cal", {"query": "RECALL beliefs", "namespace": ""}, "namespace"),
    ("cal", {"query": "RECALL beliefs", "owner": "did:example:other"}, "unknown field 'owner'"),
    ("cal", {"query": "RECALL beliefs", "approve": True}, "unknown field 'approve'"),
    ("cal.execute", {}, "token"),
    ("cal.execute", {"token": ["x"]}, "token"),
]


def test_wrong_arguments_are_refused_by_name(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            for name, arguments, expected in WRONG:
                error = await error_of(client, name, **arguments)
                assert (error["code"], expected in error["message"]) == ("invalid_record", True), (arguments, error)

    run(scenario)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.requirement("CAL-26-mcp")
def test_the_card_is_a_prompt(peer: HttpPeer, owner: str, mode: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner), mode) as client:
            listed = await client.list_prompts()
            assert [each.name for each in listed.prompts] == ["ump_rehydrate", "cal-card"]
            (message,) = (await client.get_prompt("cal-card")).messages
            assert isinstance(message.content, TextContent)
            assert message.content.text == prompt_card()
            with pytest.raises(MCPError, match="no arguments"):
                await client.get_prompt("cal-card", {"query": "x"})

    run(scenario)


WHOLE = st.sampled_from(examples_on_the_card())
CUT = WHOLE.flatmap(lambda text: st.integers(0, len(text)).map(lambda end: text[:end]))
NAMES = st.sampled_from(("user", "hash", "old", "new"))


@settings(max_examples=60)
@given(
    name=st.sampled_from(("cal", "cal.check", "cal.prepare")),
    query=st.text(max_size=60) | CUT,
    params=st.dictionaries(NAMES, st.text(max_size=5) | st.integers()),
)
def test_no_query_is_our_fault(peer: HttpPeer, name: str, query: str, params: dict[str, Any]) -> None:
    access = peer.service.gate.local("did:example:fuzz")
    with contextlib.suppress(InvalidInput):
        tools.run_tool(tools.OPERATIONS[name], peer.service, access, {"query": query, "params": params})
