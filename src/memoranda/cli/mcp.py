"""mcp: the MCP server that an agent starts for itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from memoranda.cli.logs import set_up
from memoranda.cli.run import GivenRun


def mcp(
    *,
    agent: Annotated[str | None, Parameter(help="The agent's name, kept with what it remembers.")] = None,
    project: Annotated[str | None, Parameter(help="The project of what it remembers, unless it names another.")] = None,
    run: GivenRun,
) -> None:
    """Serve the memories to one agent over MCP on standard input and output."""
    from memoranda.app import open_service
    from memoranda.bindings.mcp.stdio import run_stdio

    settings = run.settings()
    set_up(settings.log_level)
    service = open_service(settings)
    try:
        access = service.gate.local(settings.owner or None, actor_kind="agent")
        service.start_background()
        run_stdio(service, replace(access, actor=agent or access.actor, default_project=project))
    finally:
        service.close()
