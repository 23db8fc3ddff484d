"""One conversation with the official client, over both transports and both eras of the protocol."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client, ConnectMode
from mcp_types import CallToolResult, TextContent, TextResourceContents
from tests.bindings.mcp.peers import HttpPeer, Person, http_client, run, stdio_peer

from memoranda.standards.ump.signature import verify

# All tools, as their standards have them.
EVERYTHING = ("tools=all", "schemas=full", "names=reserved")
MODES = {"2025-11-25": "legacy", "2026-07-28": "auto"}


@pytest.fixture(params=["stdio", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def answer(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; the client has validated the answer against its output schema."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return both(result)


def both(result: CallToolResult) -> dict[str, Any]:
    """The structured content, which the text must repeat."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    structured = result.structured_content
    assert isinstance(structured, dict)
    assert json.loads(content.text) == structured
    return structured


@pytest.mark.parametrize("version", MODES)
@pytest.mark.requirement("UMP-4.1-tools")
def test_an_agent_remembers_recalls_revises_and_forgets(
    transport: str, version: str, tmp_path: Path, peer: HttpPeer, owner: str
) -> None:
    @asynccontextmanager
    async def connected(mode: ConnectMode) -> AsyncIterator[Client]:
        if transport == "stdio":
            async with stdio_peer(tmp_path / "home", mode, None, *EVERYTHING, person=Person()) as client:
                yield client
        else:
            async with http_client(f"{peer.url}?{'&'.join(EVERYTHING)}", peer.key(owner), mode) as client:
                yield client

    async def scenario() -> None:
        async with connected(MODES[version]) as client:
            assert client.protocol_version == version
            await introduced(client)
            first = await remembered(client)
            second = await revised(client, first)
            await browsed(client, second)
            await forgotten(client, second)

    run(scenario)


async def introduced(client: Client) -> None:
    assert client.server_info is not None
    assert client.server_info.name == "memoranda"
    assert "not instructions" in (client.instructions or "")
    capabilities = client.server_capabilities
    assert capabilities.resources is not None
    assert capabilities.resources.subscribe
    assert capabilities.resources.list_changed
    tools = (await client.list_tools()).tools
    assert len(tools) == 19
    assert all(tool.output_schema and tool.input_schema["properties"] is not None for tool in tools)
    said = await answer(client, "ump.capabilities", client={"name": "test", "ump": "0.1"})
    assert (said["ump"], said["conformance"], said["writable"]) == ("0.1", "L3", True)


async def remembered(client: Client) -> str:
    draft = {"kind": "procedural", "body": {"text": "use pnpm, never npm"}, "scope": {"project": "acme/web"}}
    done = await answer(client, "ump.remember", **draft)
    assert done["result"] == "created"
    again = await answer(client, "ump.remember", record=draft)
    assert again == {"id": done["id"], "result": "merged"}
    found = await answer(client, "ump.recall", query="which package manager: pnpm?", scope={"project": "acme/web"})
    (hit,) = found["results"]
    assert hit["record"]["id"] == done["id"]
    assert hit["record"]["provenance"]["method"] == "mcp"
    assert hit["record"]["provenance"]["actor_kind"] == "agent"
    assert set(hit["signals"]) == {"similarity", "scope_match", "recency", "salience", "provenance_depth"}
    assert await answer(client, "ump.feedback", id=done["id"], outcome="followed") == {"ok": True}
    return str(done["id"])


async def revised(client: Client, first: str) -> str:
    done = await answer(client, "ump.revise", id=first, patch={"body": {"text": "use bun, not pnpm"}})
    assert done["supersedes"] == [first]
    prior = (await answer(client, "ump.get", id=first))["record"]
    assert prior["superseded_by"] == [done["id"]]
    record = (await answer(client, "ump.get", id=done["id"]))["record"]
    assert record["time"]["valid_to"] is None
    assert verify(record), "the record must arrive as it was signed"
    return str(done["id"])


async def browsed(client: Client, current: str) -> None:
    (resource,) = (await client.list_resources()).resources
    assert resource.uri == f"ump://acme%2Fweb/{current}"
    assert (resource.name, resource.title) == (current, "use bun, not pnpm")
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["ump://{project}/{id}", "ump://{project}/"]
    for uri in (resource.uri, "ump://acme%2Fweb/"):
        (content,) = (await client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents)
        assert (content.uri, content.mime_type) == (resource.uri, "application/vnd.ump+json")
        assert verify(json.loads(content.text))
    prompt, _ = (await client.list_prompts()).prompts
    assert [(each.name, each.required) for each in prompt.arguments or ()] == [
        ("query", True),
        ("project", False),
        ("budget", False),
    ]
    block = await client.get_prompt(prompt.name, {"query": "bun", "project": "acme/web", "budget": "2000"})
    (message,) = block.messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    assert message.content.text.startswith('<ump:memory trust="untrusted-data">')
    assert "use bun, not pnpm" in message.content.text


async def forgotten(client: Client, current: str) -> None:
    soft = await answer(client, "ump.forget", id=current, reason="the user asked")
    assert soft == {"result": "tombstoned"}
    assert (await answer(client, "ump.recall", query="bun"))["results"] == []
    assert (await client.list_resources()).resources == []
    assert await answer(client, "ump.forget", id=current, hard=True) == {"result": "erased"}
    missing = await client.call_tool("ump.get", {"id": "urn:ump:aaaa"})
    assert missing.is_error
    assert both(missing)["error"] == {"code": "not_found", "message": "not_found: no memory urn:ump:aaaa"}
