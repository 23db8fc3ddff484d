"""Whether the memory answers: started as a host would start it, and asked for its tools by the official client."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from memoranda.errors import StoreUnavailable
from memoranda.hosts.table import Server

# A cold start on a slow disk; hosts wait as long.
_PATIENCE_SECONDS: Final = 60.0


def tools_of(server: Server) -> tuple[str, ...]:
    """The names of the tools that it offers. Raises StoreUnavailable if it does not answer."""
    return asyncio.run(_tools_of(server))


async def _tools_of(server: Server) -> tuple[str, ...]:
    from mcp import MCPError
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    said = f"the server does not answer, so nothing was changed: {server.command} {' '.join(server.args)}"
    # Hosts give it little of their own environment, as this client does; what it says to people is for the agent's log.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        transport = stdio_client(
            StdioServerParameters(command=server.command, args=[*server.args]), errlog=nowhere
        )
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), Client(transport) as client:
                return tuple(tool.name for tool in (await client.list_tools()).tools)
        except (TimeoutError, OSError, MCPError, ExceptionGroup):
            raise StoreUnavailable(said) from None
