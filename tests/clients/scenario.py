"""fastmcp: python scenario.py stdio COMMAND ARGS… | python scenario.py http URL CREDENTIAL."""

from __future__ import annotations

import asyncio
import re
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError


async def main(by: str, target: str, *rest: str) -> None:
    """Use the memory as an agent does."""
    if by == "stdio":
        import os

        client = Client(StdioTransport(command=target, args=list(rest), env=dict(os.environ)))
    else:
        client = Client(StreamableHttpTransport(target, headers={"Authorization": f"Bearer {rest[0]}"}))
    said = f"use pnpm, never npm ({by}, fastmcp)"
    async with client:
        tools = await client.list_tools()
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name) for tool in tools)
        await client.call_tool("ump_remember", {"text": said, "kind": "procedural"})
        for name, arguments in (("ump.recall", {"query": "pnpm or npm?"}), ("ump_list", {})):
            answer = await client.call_tool(name, arguments)
            assert said in "\n".join(each.text for each in answer.content), answer
        try:
            await client.call_tool("ump_forget", {"id": "urn:ump:nothing"})
        except ToolError:
            pass
        else:
            raise AssertionError("what is not there was forgotten")
        await client.list_resources()
        assert await client.list_prompts()
    print(f"fastmcp over {by}: {len(tools)} tools")


asyncio.run(main(*sys.argv[1:]))
