"""A client that does not want an answer any more: what reads is let go, what writes is finished."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client, ConnectMode
from msgspec.structs import replace
from tests.bindings.mcp.peers import run
from tests.embedders import by_letters
from tests.waiting import HANG_SECONDS

from memoranda.bindings.mcp.server import create_server
from memoranda.embedding.embedder import of_callable
from memoranda.model.instant import Instant
from memoranda.opening import open_service
from memoranda.service.service import Service
from memoranda.settings import load_settings


class Gate:
    """An embedder of one's own that can be made to wait."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.open.set()

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.entered.set()
        assert self.open.wait(HANG_SECONDS)
        return by_letters(texts)


@contextmanager
def waiting_store(home: Path) -> Iterator[tuple[Service, Gate]]:
    gate = Gate()
    service = open_service(load_settings(home=home), embedder=of_callable("gate", gate))
    try:
        yield service, gate
    finally:
        gate.open.set()
        service.close()


async def cancelled(client: Client, tool: str, arguments: dict[str, Any], began: threading.Event) -> None:
    """Call a tool, and cancel the call as soon as the server is at it."""
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, tool, arguments)
        await anyio.to_thread.run_sync(began.wait, HANG_SECONDS)
        group.cancel_scope.cancel()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_read_that_is_cancelled_holds_nobody_up(tmp_path: Path, mode: ConnectMode) -> None:
    with waiting_store(tmp_path / "home") as (service, gate):
        server = create_server(service, lambda _ctx: service.gate.local())

        async def scenario() -> None:
            async with Client(server, mode=mode, read_timeout_seconds=HANG_SECONDS) as client:
                await client.call_tool("ump_remember", {"text": "use pnpm"})
                gate.entered.clear()
                gate.open.clear()
                await cancelled(client, "ump_recall", {"query": "pnpm or npm?"}, gate.entered)
                listed = await client.call_tool("ump_list", {})
                assert "use pnpm" in str(listed.content)
            # The server has ended, though the question is still being asked.
            assert not gate.open.is_set()

        run(scenario)


def test_a_write_that_is_cancelled_is_whole(tmp_path: Path) -> None:
    with waiting_store(tmp_path / "home") as (opened, _):
        entered, go_on = threading.Event(), threading.Event()

        def clock() -> Instant:
            entered.set()
            assert go_on.wait(HANG_SECONDS)
            return opened.context.clock()

        service = Service(replace(opened.context, clock=clock))
        server = create_server(service, lambda _ctx: service.gate.local())

        async def scenario() -> None:
            async with Client(server, mode="legacy", read_timeout_seconds=HANG_SECONDS) as client:
                entered.clear()
                await cancelled(client, "ump_remember", {"text": "use pnpm"}, entered)
                go_on.set()
            # The server did not end before it was done.
            assert [record["body"]["text"] for record in opened.export(opened.gate.local())] == ["use pnpm"]

        run(scenario)
