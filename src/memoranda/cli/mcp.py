"""mcp: the MCP server that an agent starts for itself."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

from msgspec.structs import replace

from memoranda.cli.commands import Parameter
from memoranda.cli.logs import set_up
from memoranda.cli.run import GivenRun
from memoranda.cli.show import note
from memoranda.cli.words import names as word_list
from memoranda.encoding.json_text import dump


def _explain(home: Path) -> None:
    """Say to a person, who typed what an agent is to start, what this is and how to connect it."""
    command = shutil.which("memoranda") or sys.argv[0]
    server = {"memoranda": {"command": command, "args": ["mcp"]}}
    note(
        f"this is the MCP server of {home}, waiting for an agent on standard input; Ctrl-C ends it.\n"
        "An agent starts it by itself: put this into its MCP configuration (.mcp.json, claude_desktop_config.json …):\n"
        f"  {dump({'mcpServers': server}).decode()}\n"
        "Or let it be put there: memoranda connect\n"
        "Over HTTP: memoranda serve, then http://127.0.0.1:8420/mcp"
    )


def mcp(
    *,
    agent: Annotated[str | None, Parameter(help="The agent's name, kept with what it remembers.")] = None,
    project: Annotated[str | None, Parameter(help="The project of what it remembers, unless it names another.")] = None,
    names: Annotated[
        Literal["plain", "reserved"] | None,
        Parameter(help="Tools as every host accepts them (ump_recall), or as UMP reserves them (ump.recall)."),
    ] = None,
    tools: Annotated[
        str | None,
        Parameter(help="Tools beside the usual ones, by commas: feedback, oms, oams, cal, ump, or all."),
    ] = None,
    schemas: Annotated[
        Literal["brief", "full"] | None,
        Parameter(help="Describe tools briefly, or with all fields and the schemas of their answers."),
    ] = None,
    run: GivenRun,
) -> None:
    """Serve the memories to one agent over MCP on standard input and output."""
    from memoranda.bindings.mcp.offer import Offer
    from memoranda.bindings.mcp.stdio import run_stdio
    from memoranda.opening import open_service
    from memoranda.telemetry import start

    asked = None if tools is None else word_list(tools)
    settings = run.settings(mcp_names=names, mcp_tools=asked, mcp_schemas=schemas)
    offer = Offer().with_query(settings.mcp_offer)
    if sys.stdin.isatty():
        _explain(settings.home)
    set_up(settings.log_level, form=settings.log_format)
    service = open_service(settings, checks_queries=True)
    stop_tracing = start(is_one_line=settings.log_format == "json")
    try:
        access = service.gate.local(settings.owner or None, actor_kind="agent")
        service.start_background()
        run_stdio(service, replace(access, actor=agent or access.actor, default_project=project), offer)
    finally:
        service.close()
        stop_tracing()
