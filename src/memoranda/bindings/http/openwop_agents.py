"""The inventory of agents over HTTP, in both versions of openwop: all of them, or one by its id (RFC 0072)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memoranda.bindings.http.call import HttpCall, Serve
from memoranda.errors import NotFound
from memoranda.service.service import Service

# Returns the inventory that a caller sees.
Inventory = Callable[[Service, HttpCall], dict[str, Any]]


def list_agents(service: Service, call: HttpCall, _request: None) -> object:
    """List the installed agents, and the memory that each lacks."""
    return _installed(service, call)


def make_get(inventory: Inventory) -> Serve:
    """Return the function that serves one agent of an inventory."""

    def get(service: Service, call: HttpCall, _request: None) -> object:
        name = call.path_name("agent_id")
        for agent in inventory(service, call)["agents"]:
            if agent["agentId"] == name:
                return agent
        raise NotFound("no such agent")

    return get


def _installed(service: Service, call: HttpCall) -> dict[str, Any]:
    return service.openwop.agents(call.access)


get_agent = make_get(_installed)
