"""mcp: the MCP server that an agent program starts on standard input and output.

Standard output belongs to the protocol, so nothing may be printed there; messages go to standard error. A person who
types this command at a terminal gets an explanation instead of silence.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

from memoranda.bindings.mcp.handshake import EarlyHandshake
from memoranda.cli.options import split_names
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import note
from memoranda.encoding.json_text import dump


def _explain(home: Path) -> None:
    """Tell a person who typed the command that agents start it, and how to configure them."""
    command = shutil.which("memoranda") or sys.argv[0]
    server = {"memoranda": {"command": command, "args": ["mcp"]}}
    note(
        f"this is the MCP server of {home}, waiting for an agent on standard input; stop it with Ctrl-C.\n"
        "Agents start it themselves, with this in their MCP configuration (.mcp.json, claude_desktop_config.json …):\n"
        f"  {dump({'mcpServers': server}).decode()}\n"
        "To add it automatically: memoranda connect\n"
        "Over HTTP: memoranda serve, then http://127.0.0.1:8420/mcp"
    )


def mcp(
    *,
    agent: Annotated[
        str | None,
        Parameter(
            help="The agent's name, stored with its memories (default: the name that its program states)."
        ),
    ] = None,
    project: Annotated[
        str | None, Parameter(help="The project of its memories, unless it names another.")
    ] = None,
    names: Annotated[
        Literal["plain", "reserved"] | None,
        Parameter(
            help="Tool names that every agent accepts (ump_recall), or those of UMP (ump.recall)."
        ),
    ] = None,
    tools: Annotated[
        str | None,
        Parameter(
            help="Additional tools, separated by commas: feedback, oms, oams, cal, ump, or all."
        ),
    ] = None,
    schemas: Annotated[
        Literal["brief", "full"] | None,
        Parameter(help="Describe tools briefly, or with all fields and answer schemas."),
    ] = None,
    run: GivenRun,
) -> None:
    """Serve memories to one agent over MCP on standard input and output."""
    extra_tools = None if tools is None else split_names(tools)
    settings = run.settings(mcp_names=names, mcp_tools=extra_tools, mcp_schemas=schemas)
    early = None
    if sys.stdin.isatty():
        _explain(settings.home)
    elif sys.platform != "win32":
        early = EarlyHandshake()
    # Loaded only now: the thread answers the client meanwhile.
    from msgspec.structs import replace

    from memoranda.bindings.mcp.offer import ToolOffer
    from memoranda.bindings.mcp.server import run_stdio
    from memoranda.cli.logs import set_up
    from memoranda.opening import open_service
    from memoranda.telemetry import start

    offer = ToolOffer().with_query(settings.mcp_offer)
    set_up(settings.log_level, form=settings.log_format)
    service = open_service(settings, checks_queries=True)
    stop_tracing = start(is_one_line=settings.log_format == "json")
    try:
        access = service.gate.local(settings.owner or None, actor_kind="agent")
        service.start_background()
        run_stdio(
            service,
            replace(access, default_agent=agent or "", default_project=project),
            offer,
            early,
        )
    finally:
        service.close()
        stop_tracing()
