"""An agent that asks for what nothing answers is told nothing, and gets it on request."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp_types import TextContent
from tests.bindings.mcp.peers import http_client, http_peer, run
from tests.embedders import AT_HOME, FOREIGN, fill_garden, lined


def test_a_question_that_nothing_answers_finds_nothing_over_mcp(tmp_path: Path) -> None:
    with http_peer(tmp_path / "home", lined()) as peer:
        key = peer.key("did:example:gardener")
        fill_garden(peer.service, peer.service.gate.authenticate(key))

        async def scenario() -> None:
            async with http_client(peer.url, key) as client:

                async def found(query: str, **more: object) -> int:
                    answer = await client.call_tool("ump.recall", {"query": query, **more})
                    assert answer.structured_content is not None
                    return len(answer.structured_content["results"])

                assert await found(FOREIGN) == 0
                assert await found(AT_HOME) > 0
                assert await found(FOREIGN, ranking_hints={"floor": False}) > 0

        run(scenario)


def test_an_agent_is_shown_the_nearest_three_if_nothing_is_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoranda.retrieval.weights.WEAK_RELEVANCE", 1.0)
    with http_peer(tmp_path / "home", lined()) as peer:
        key = peer.key("did:example:gardener")
        fill_garden(peer.service, peer.service.gate.authenticate(key))

        async def scenario() -> None:
            async with http_client(peer.url, key) as client:
                answer = await client.call_tool("ump_recall", {"query": AT_HOME})
                (content,) = answer.content
                assert isinstance(content, TextContent)
                assert content.text.startswith("Nothing close; nearest:\n")
                assert content.text.count("prune the roses") == 3

        run(scenario)
