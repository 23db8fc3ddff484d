"""Hard is the owner's alone (UMP §3.6): an agent here asks the person, a credential elsewhere says so itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp_types import TextContent
from tests.bindings.mcp.peers import HttpPeer, Person, agent_peer, http_client, run

TEXT = "the spare key is under the mat"
MODES = {"2025-11-25": "legacy", "2026-07-28": "auto"}


async def erased(client: Client, name: str) -> str:
    """What became of an attempt to erase a memory."""
    result = await client.call_tool("ump_forget", {"id": name, "hard": True})
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def remembered(client: Client) -> str:
    result = await client.call_tool("ump.remember", {"kind": "semantic", "body": {"text": TEXT}})
    assert isinstance(result.structured_content, dict)
    return str(result.structured_content["id"])


@pytest.mark.parametrize("version", MODES)
@pytest.mark.requirement("UMP-3.6-hard")
def test_the_person_sees_what_is_to_be_erased_and_decides(version: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        home = tmp_path / "home"
        for person in (Person("decline"), Person("cancel"), Person(erases=False)):
            async with agent_peer(home, MODES[version], person=person) as client:
                name = await remembered(client)
                assert "did not agree" in await erased(client, name)
                assert len(person.asked) == 1
                assert TEXT in person.asked[0]
                # It is as it was, and an agent may forget it softly.
                assert (await client.call_tool("ump.get", {"id": name})).structured_content["record"]["body"][
                    "text"
                ] == TEXT
        async with agent_peer(home, MODES[version], person=Person()) as client:
            name = await remembered(client)
            assert (await erased(client, name)).startswith("erased")
            assert TEXT not in str((await client.call_tool("ump.get", {"id": name})).structured_content)

    run(scenario)


@pytest.mark.parametrize("version", MODES)
@pytest.mark.requirement("UMP-3.6-hard")
def test_who_cannot_be_asked_keeps_the_memory(version: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with agent_peer(tmp_path / "home", MODES[version]) as client:
            name = await remembered(client)
            said = await erased(client, name)
            assert "forbidden_scope" in said
            assert "cannot ask" in said
            soft = await client.call_tool("ump_forget", {"id": name})
            assert not soft.is_error

    run(scenario)


@pytest.mark.requirement("UMP-3.6-hard")
def test_over_http_the_credential_decides(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        async with http_client(peer.url, peer.key(owner, "read", "write", "derive")) as agent:
            name = await remembered(agent)
            assert "does not grant 'erase'" in await erased(agent, name)
        async with http_client(peer.url, peer.key(owner)) as person:
            assert (await erased(person, name)).startswith("erased")

    run(scenario)
