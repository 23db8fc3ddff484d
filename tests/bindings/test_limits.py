"""Whoever asks for more than the most gets the most, over every binding: a limit is clamped, never an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.bindings.http.running import OWNER, Running, running
from tests.waiting import HANG_SECONDS

from memoranda.bindings.mcp.http import McpEndpoint
from memoranda.service.exchange.importing import number_items
from memoranda.service.openwop.openwop import MAX_RUNS
from memoranda.service.service import Service
from memoranda.standards.oams.namespace import namespace_of
from memoranda.standards.oams.requests import MAX_LIMIT as MAX_MEMORIES
from memoranda.standards.oms.requests import MAX_LIMIT as MAX_GRAINS
from memoranda.standards.openwop.entry import MAX_LIMIT as MAX_ENTRIES
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.requests import MAX_EVENTS, RecallRequest

MUCH = 2**40
NAMESPACE = namespace_of("", OWNER)

HTTP: Mapping[str, tuple[Callable[[httpx.Client], httpx.Response], Callable[[Any], int], int]] = {
    "recall": (
        lambda client: client.post("/ump/recall", json={"query": "apple", "limit": MUCH}),
        lambda answer: len(answer["results"]),
        MAX_RECALL,
    ),
    "rehydrate": (
        lambda client: client.post("/ump/rehydrate", json={"query": "apple", "limit": MUCH}),
        lambda answer: len(answer["injected"]),
        MAX_RECALL,
    ),
    "audit": (
        lambda client: client.post("/ump/audit", json={"limit": MUCH}),
        lambda answer: len(answer["events"]),
        MAX_EVENTS,
    ),
    "grains": (
        lambda client: client.post("/oms/grains/search", json={"limit": MUCH}),
        lambda answer: len(answer["results"]),
        MAX_GRAINS,
    ),
    "memories": (
        lambda client: client.get(f"/v1/oams/memories/{NAMESPACE}", params={"limit": MUCH}),
        lambda answer: len(answer["memories"]),
        MAX_MEMORIES,
    ),
    "entries": (
        lambda client: client.get("/v1/memory/default", params={"limit": MUCH}),
        lambda answer: len(answer["entries"]),
        MAX_ENTRIES,
    ),
    "runs": (
        lambda client: client.get("/v1/host/runs", params={"limit": MUCH}),
        lambda answer: len(answer["runs"]),
        MAX_RUNS,
    ),
}
MCP: Mapping[str, tuple[dict[str, Any], int]] = {
    "ump.recall": ({"query": "apple", "limit": MUCH}, MAX_RECALL),
    "oms.find": ({"limit": MUCH}, MAX_GRAINS),
}


def _with_mcp(service: Service) -> dict[str, Any]:
    endpoint = McpEndpoint(service)
    return {
        "extra_routes": endpoint.routes,
        "lifespans": [endpoint.running],
        "on_stop": [endpoint.stop_streams],
    }


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """A server with more than the most of everything."""
    with running(Path(tmp_path_factory.mktemp("limits")) / "home", extra=_with_mcp) as server:
        access, service = server.service.gate.local(OWNER), server.service
        said = {"actor": OWNER, "actor_kind": "user", "method": "said"}
        drafts = [
            {"kind": "semantic", "body": {"text": f"apple {number}"}, "scope": {"owner": OWNER}, "provenance": said}
            for number in range(MAX_ENTRIES + 1)
        ]
        assert service.import_items(access, number_items("ump", drafts)).created == len(drafts)
        for _ in range(MAX_RUNS + 1):
            service.openwop.begin_run(access, "tests.limits")
        asked = RecallRequest.parse({"query": "nothing", "limit": 1})
        for _ in range(MAX_EVENTS + 1):
            service.recall(access, asked)
        service.context.engine.flush()
        yield server, server.key()


@pytest.mark.parametrize("route", HTTP)
def test_over_http_the_most_is_given_to_who_asks_for_more(full: tuple[Running, str], route: str) -> None:
    server, key = full
    asks, count, most = HTTP[route]
    with server.client(key) as client:
        answer = asks(client)
        assert answer.status_code == 200, answer.text
        assert count(answer.json()) == most


@pytest.mark.parametrize("tool", MCP)
def test_over_mcp_the_most_is_given_to_who_asks_for_more(full: tuple[Running, str], tool: str) -> None:
    server, key = full
    arguments, most = MCP[tool]

    async def asked() -> int:
        async with create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as http:
            transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
            async with Client(transport, read_timeout_seconds=HANG_SECONDS) as client:
                found = (await client.call_tool(tool, arguments)).structured_content
                assert isinstance(found, dict)
                return len(found["results"])

    assert asyncio.run(asked()) == most
