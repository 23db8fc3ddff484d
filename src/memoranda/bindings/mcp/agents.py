"""The name of the agent behind a client of MCP, which memories of this machine's agents are stored with.

A client states its name in the handshake. It is a claim of a program that the person started, so it is believed on
standard input only; over HTTP the credential tells who writes.

The name becomes the author of what the agent writes, and appears in the console, so it must be short and printable.
Names of known clients are translated to those that people know.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from memoranda.bindings.mcp.requests import RequestContext
from memoranda.encoding.json_text import is_unicode
from memoranda.service.core.access import Access

# Characters of a name that is kept.
_NAME_CHARS: Final = 100
# The names that hosts state in the handshake, and those by which `memoranda connect` knows them.
_HOSTS: Final = {
    "codex-mcp-client": "codex",
    "gemini-cli-mcp-client": "gemini",
    "@cline/core": "cline",
    "continue-cli-client": "continue",
    "claude-ai": "claude-desktop",
    "cursor-vscode": "cursor",
    "Visual Studio Code": "vscode",
    "windsurf-client": "windsurf",
    "Zed": "zed",
}


def name_agent(access: Access, ctx: RequestContext) -> Access:
    """Return an access with the agent of its client as the author, unless it has an agent already."""
    agent = access.default_agent or _client_name(ctx)
    return replace(access, actor=agent, default_agent=agent) if agent else access


def _client_name(ctx: RequestContext) -> str:
    """Return the name of the host that sent a request; empty if it states none that can be shown."""
    params = ctx.session.client_params
    client_name = "" if params is None else params.client_info.name.strip()
    is_shown = (
        client_name.isprintable() and is_unicode(client_name) and len(client_name) <= _NAME_CHARS
    )
    return _HOSTS.get(client_name, client_name) if is_shown else ""
