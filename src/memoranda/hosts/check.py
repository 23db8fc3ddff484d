"""A check that the server answers: starts it as a host would, and lists its tools with the official MCP client."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from memoranda.errors import StoreUnavailable
from memoranda.hosts.table import ServerCommand

# Seconds for a cold start on a slow disk; hosts wait as long.
_PATIENCE_SECONDS: Final = 60.0


def list_tools(server: ServerCommand) -> tuple[str, ...]:
    """Return the names of the tools that a server offers. Raises StoreUnavailable if it does not answer."""
    return asyncio.run(_list_tools(server))


async def _list_tools(server: ServerCommand) -> tuple[str, ...]:
    from mcp import MCPError
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    message = f"the server does not answer, so nothing was changed: {server.command} {' '.join(server.args)}"
    # Like a host, this client passes few environment variables. The log output of the server is dropped.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        transport = stdio_client(
            StdioServerParameters(command=server.command, args=[*server.args]), errlog=nowhere
        )
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), Client(transport) as client:
                return tuple(tool.name for tool in (await client.list_tools()).tools)
        except (TimeoutError, OSError, MCPError, ExceptionGroup):
            raise StoreUnavailable(message) from None
