"""MCP over standard input and output, as an agent starts it: `memoranda mcp`."""

from __future__ import annotations

import os
import signal
import sys

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server
from msgspec.structs import replace

from memoranda.bindings.mcp.offer import Offer
from memoranda.bindings.mcp.server import MemoryServer, create_server
from memoranda.service.core.access import Access
from memoranda.service.service import Service


def run_stdio(service: Service, access: Access, offer: Offer | None = None) -> None:
    """Serve until the client closes our input or we are told to end; the store is closed then."""
    try:
        # While serving, the SDK points descriptor 1 at standard error, so that only the protocol reaches the client.
        anyio.run(_serve, service, access, offer or Offer())
    finally:
        service.close()


def agent_server(service: Service, access: Access, offer: Offer) -> MemoryServer:
    """What serves an agent on this machine.

    It may do whatever the person who started it may, but for what cannot be undone: that is asked for.
    """
    agent = replace(access, verbs=access.verbs - {"erase"})
    return create_server(service, lambda _ctx: agent, offer_of=lambda _ctx: offer, person=access)


async def _serve(service: Service, access: Access, offer: Offer) -> None:
    server = agent_server(service, access, offer)
    async with anyio.create_task_group() as group:
        group.start_soon(_end_on_signal, service)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _end_on_signal(service: Service) -> None:
    if sys.platform == "win32":  # no such signals there; closing the input is the way to end
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            await to_thread.run_sync(service.close)
            sys.stderr.flush()
            # A thread stands in a read of standard input that nothing but its end can wake.
            os._exit(0)
