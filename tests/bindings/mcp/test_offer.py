"""What hosts accept, what it costs, and what a model reads: with the official client, locally and over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp_types import CallToolResult, TextContent
from tests.bindings.mcp.peers import HttpPeer, agent_peer, http_client, run
from tests.bindings.mcp.test_http import INITIALIZE, raw

from memoranda.bindings.mcp.offer import ToolOffer, list_tools
from memoranda.bindings.mcp.resources import list_prompts
from memoranda.bindings.mcp.tools import OPERATIONS
from memoranda.errors import InvalidInput
from memoranda.standards.cal.printing.counter import make_counter
from memoranda.standards.ump.signature import verify

# What Claude, Codex, Copilot and Cursor take for a name.
ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
DEFAULT = ["ump_recall", "ump_remember", "ump_revise", "ump_forget", "ump_list", "cal"]
TOKENS = make_counter("o200k_base")
FRAME = '<ump:memory trust="untrusted-data">'
NOTES = (
    "use pnpm, never npm, in the shop",
    "the shop deploys to Frankfurt on Fridays",
    "Ada prefers tabs in the shop's Go code",
    "the shop's staging database is rebuilt nightly",
    "pull requests of the shop need two reviews",
    "the shop's invoices are numbered by year",
    "the shop's logs are kept for thirty days",
    "feature flags of the shop live in flags.toml",
)


def text_of(result: CallToolResult) -> str:
    assert not result.is_error, result.content
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@asynccontextmanager
async def connected(transport: str, home: Path, peer: HttpPeer, owner: str, *offer: str) -> AsyncIterator[Client]:
    if transport == "local":
        async with agent_peer(home, "auto", *offer) as client:
            yield client
    else:
        async with http_client(f"{peer.url}?{'&'.join(offer)}" if offer else peer.url, peer.key(owner)) as client:
            yield client


EACH = pytest.mark.parametrize("transport", ["local", "http"])


@EACH
def test_an_agent_is_shown_few_tools_with_names_that_hosts_accept(
    transport: str, tmp_path: Path, peer: HttpPeer, owner: str
) -> None:
    async def scenario() -> None:
        async with connected(transport, tmp_path / "home", peer, owner) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == DEFAULT
            # Everything that a host may put into the context of a conversation, and more: the whole answer but `_meta`,
            # which is for programs.
            listing = listed.model_copy(update={"meta": None}).model_dump_json(by_alias=True, exclude_none=True)
            assert "ump/capabilities" not in listing
            assert TOKENS.count(listing) <= 1_800
            assert all(tool.output_schema is None for tool in listed.tools)
            prompts = (await client.list_prompts()).prompts
            assert all(ACCEPTED.fullmatch(each.name) for each in (*listed.tools, *prompts))

    run(scenario)


@EACH
def test_what_a_model_reads_is_the_block_with_short_ids(
    transport: str, tmp_path: Path, peer: HttpPeer, owner: str
) -> None:
    async def scenario() -> None:
        async with connected(transport, tmp_path / "home", peer, owner) as client:
            assert text_of(await client.call_tool("ump_list", {})) == "There are no memories."
            for note in NOTES:
                said = text_of(await client.call_tool("ump_remember", {"text": note, "project": "shop", "user": "ada"}))
                assert re.fullmatch(r"created [a-z2-7]{8}", said)
            result = await client.call_tool("ump_recall", {"query": "the shop", "project": "shop"})
            block = text_of(result)
            assert result.structured_content is None
            assert block.startswith(FRAME)
            assert sorted(line.partition("] ")[2] for line in block.splitlines()[4:-1]) == sorted(NOTES)
            # A third of what the same cost as records, which held every hash and signature.
            assert TOKENS.count(block) <= 320
            short = next(line.split()[1] for line in block.splitlines() if line.endswith(NOTES[0]))
            assert text_of(await client.call_tool("ump_revise", {"id": short, "text": "changed"})).startswith("revised")
            await nothing_is_one_line(client)
            await listed_by_project_and_person(client)

    run(scenario)


async def nothing_is_one_line(client: Client) -> None:
    said = text_of(await client.call_tool("ump_recall", {"query": "zebra crossings in Lisbon"}))
    assert said.startswith("Nothing in memory answers this.")
    assert "\n" not in said
    assert TOKENS.count(said) <= 30
    said = text_of(await client.call_tool("ump_recall", {"query": "invoices", "project": "other"}))
    assert said == "Nothing in memory answers this in that project; 1 in shop."


async def listed_by_project_and_person(client: Client) -> None:
    first = text_of(await client.call_tool("ump_list", {"project": "shop", "limit": 3}))
    assert first.splitlines()[4].endswith("] changed")
    assert first.endswith("More with cursor 3.")
    rest = text_of(await client.call_tool("ump_list", {"user": "ada", "limit": 50, "cursor": "3"}))
    assert len(first.splitlines()[4:-2]) + len(rest.splitlines()[4:-1]) == len(NOTES)
    for nobody in ({"project": "other"}, {"user": "bob"}, {"kind": "identity"}, {"since": "2999-01-01T00:00:00Z"}):
        assert text_of(await client.call_tool("ump_list", nobody)) == "There are no memories."


@EACH
def test_both_spellings_are_one_tool_and_one_prompt(transport: str, tmp_path: Path, peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with connected(transport, tmp_path / "home", peer, owner) as client:
            # Plain words, and UMP's own, under the plain name.
            text_of(await client.call_tool("ump_remember", {"text": "use pnpm", "tags": ["js"]}))
            draft = {"kind": "semantic", "body": {"text": "use pnpm too"}}
            text_of(await client.call_tool("ump_remember", {"record": draft}))
            found = (await client.call_tool("ump.recall", {"query": "pnpm"})).structured_content
            assert isinstance(found, dict)
            records = {hit["record"]["body"]["text"]: hit["record"] for hit in found["results"]}
            assert sorted(records) == ["use pnpm", "use pnpm too"]
            assert records["use pnpm"]["relations"] == [{"type": "about", "target": "tag:js"}]
            full = await client.call_tool("ump_recall", {"query": "pnpm", "detail": "full"})
            assert full.structured_content == json.loads(text_of(full))
            assert sorted(hit["record"]["id"] for hit in full.structured_content["results"]) == sorted(
                record["id"] for record in records.values()
            )
            asked = {"query": "pnpm", "filter": {"kind": "semantic"}, "limit": 1}
            assert len(text_of(await client.call_tool("ump_recall", asked)).splitlines()) == 6
            for name in ("ump_rehydrate", "ump.rehydrate"):
                (message,) = (await client.get_prompt(name, {"query": "pnpm"})).messages
                assert "use pnpm" in message.model_dump_json()

    run(scenario)


@EACH
@pytest.mark.requirement("UMP-4.1-tools")
def test_the_reserved_names_and_whole_schemas_are_listed_for_who_asks(
    transport: str, tmp_path: Path, peer: HttpPeer, owner: str
) -> None:
    async def scenario() -> None:
        async with connected(transport, tmp_path / "home", peer, owner, "names=reserved", "tools=all") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == list(OPERATIONS)
            assert [each.name for each in (await client.list_prompts()).prompts] == ["ump.rehydrate", "cal-card"]
        async with connected(transport, tmp_path / "home", peer, owner, "schemas=full") as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == DEFAULT
            assert all(tool.output_schema for tool in tools)
            # The client checks the answer against the schema.
            draft = {"kind": "semantic", "body": {"text": "use pnpm"}}
            remembered = (await client.call_tool("ump_remember", draft)).structured_content
            assert isinstance(remembered, dict)
            assert remembered["result"] == "created"

    run(scenario)


def test_misspelt_arguments_of_plain_tools_are_refused_by_name(peer: HttpPeer, owner: str) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("ump_recall", {"query": "x", "projekt": "p"}, "projekt"),
        ("ump_recall", {"query": "x", "detail": "all"}, "detail"),
        ("ump_recall", {"query": "x", "scope": {}, "detail": "all"}, "detail"),
        ("ump_recall", {"query": "x", "scope": {}, "project": "p"}, "project"),
        ("ump_recall", {}, "query"),
        ("ump_remember", {}, "text"),
        ("ump_remember", {"text": "x", "tag": ["y"]}, "tag"),
        ("ump_remember", {"text": "x", "body": {"text": "y"}}, "text"),
        ("ump_remember", {"text": "x", "valid_to": "tomorrow"}, "valid_to"),
        ("ump_revise", {"id": "aaaa"}, "text"),
        ("ump_forget", {"id": "aaaa", "hrad": True}, "hrad"),
        ("ump_list", {"projekt": "p"}, "projekt"),
        ("ump_list", {"cursor": "-1"}, "cursor"),
    ]

    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            for name, arguments, expected in wrong:
                result = await client.call_tool(name, arguments)
                assert result.is_error, name
                assert isinstance(result.structured_content, dict)
                error = result.structured_content["error"]
                assert (error["code"], expected in error["message"]) == ("invalid_record", True), error
            assert text_of(await client.call_tool("ump_list", {})) == "There are no memories."

    run(scenario)


def test_a_recall_never_brings_the_document_of_another_standard(peer: HttpPeer, owner: str) -> None:
    grain = {"type": "belief", "subject": "ada", "relation": "likes", "object": "green tea", "confidence": 0.9}

    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner)) as client:
            await client.call_tool("oms_put", {"grain": grain})
            for name, arguments in (("ump_recall", {"detail": "full"}), ("ump.recall", {})):
                found = (await client.call_tool(name, {"query": "green tea", **arguments})).structured_content
                assert isinstance(found, dict)
                (hit,) = found["results"]
                assert "memoranda:native" not in json.dumps(hit)
                assert verify(hit["record"])
            assert "green tea" in text_of(await client.call_tool("ump_recall", {"query": "green tea"}))

    run(scenario)


@pytest.mark.parametrize("query", ["names=dotted", "tools=everything", "schemas=some", "tool=all", "tools=oms,cla"])
def test_what_cannot_be_offered_is_refused_before_a_session_begins(peer: HttpPeer, owner: str, query: str) -> None:
    with raw(peer.key(owner)) as http:
        answer = http.post(f"{peer.url}?{query}", json=INITIALIZE)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_record")
        assert re.search("fields are|there are|must be one of", answer.json()["error"]["message"])


def names(**offer: Any) -> list[str]:
    return [tool.name for tool in list_tools(ToolOffer(**offer))]


def test_tools_are_added_by_their_names_and_by_their_standards() -> None:
    assert set(names(tools=("feedback",))) == {*DEFAULT, "ump_feedback"}
    assert set(names(tools=("oms", "cal_prepare"))) >= {*DEFAULT, "oms_put", "oms_find", "cal_prepare"}
    assert "cal_check" not in names(tools=("oms", "cal_prepare"))
    assert set(names(tools=("ump.get", "cal"))) == {*DEFAULT, "ump_get", "cal_check", "cal_prepare", "cal_execute"}
    assert len(names(tools=("all",))) == len(OPERATIONS)
    with pytest.raises(InvalidInput, match=r"there is no 'omss'; there are all, ump, .*oms_put"):
        ToolOffer(tools=("omss",))


def test_descriptions_name_tools_as_they_are_listed() -> None:
    for offer in (ToolOffer(tools=("all",)), ToolOffer(tools=("all",), schemas="full")):
        told = "".join(tool.description or "" for tool in list_tools(offer))
        assert not [name for name in OPERATIONS if "." in name and name in told]
        assert "ump_recall" in told
        assert all(ACCEPTED.fullmatch(each.name) for each in (*list_tools(offer), *list_prompts(offer)))
    assert "ump.recall" in "".join(tool.description or "" for tool in list_tools(ToolOffer(names="reserved")))


@EACH
def test_a_client_that_asks_for_progress_hears_of_it_and_gets_its_answer(
    transport: str, tmp_path: Path, peer: HttpPeer, owner: str
) -> None:
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        heard.append((progress, message))

    async def scenario() -> None:
        async with connected(transport, tmp_path / "home", peer, owner) as client:
            said = await client.call_tool("ump_remember", {"text": "use pnpm"}, progress_callback=hear)
            assert text_of(said).startswith("created")
            refused = await client.call_tool("ump_revise", {"id": "zzzz", "text": "x"}, progress_callback=hear)
            assert "not_found" in str(refused.structured_content)

    run(scenario)
    assert (0, "Remember: 0 s") in heard


@EACH
@pytest.mark.requirement("UMP-4.1-derivable")
def test_capabilities_can_be_derived_from_the_default_list(transport: str, tmp_path: Path, peer: HttpPeer) -> None:
    async def look() -> None:
        async with connected(transport, tmp_path, peer, "did:example:derive") as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == DEFAULT
            meta = dict(listed.meta or {})
            called = await client.call_tool("ump.capabilities", {})
            assert meta["ump/capabilities"] == called.structured_content
            assert set(meta["ump/operations"]) >= {
                f"ump.{name}" for name in ("capabilities", "recall", "remember", "get", "revise", "forget", "feedback")
            }
            # A tool that is named there, but not listed, can be called.
            assert (await client.call_tool("ump.get", {"id": "urn:ump:aaaa"})).is_error

    run(look)
