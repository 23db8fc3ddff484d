"""Parts of both versions of openwop: the choice of the version, and the inventory of agents.

A request names its version in the header `OpenWOP-Version` (versioning.md §1.3). Without the header, or with version 1,
a path of version 2 is served as its twin under `/v1`. Each answer names the version that produced it.

The inventory has all agents, or one by its id (RFC 0072).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.types import Scope

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import HttpCall, Serve
from memoranda.errors import NotFound
from memoranda.service.service import Service
from memoranda.standards.openwop import version_two

DISCOVERY: Final = "/.well-known/openwop"
# Paths of version 1 that version 2 has, too, under a path without the version.
_FIRST_PATHS: Final = ("/v1/runs", "/v1/webhooks", "/v1/agents", "/v1/openapi.json")
_HEADER: Final = b"openwop-version"


def negotiate_first(scope: Scope) -> None:
    """Select the representation of discovery; refuse version 2 on paths of version 1. Raises WorkflowError."""
    version = wire.read_header(scope, _HEADER)
    if scope["path"] == DISCOVERY:
        _name_version(scope, 1)
        _name_version(scope, version_two.select_major(version))
        return
    if scope["path"].startswith(_FIRST_PATHS):
        _name_version(scope, 1)
    version_two.require_first_major(version)


def negotiate_second(scope: Scope) -> None:
    """Serve a request that does not state version 2 as its twin under /v1. Raises WorkflowError (406)."""
    _name_version(scope, 1)
    major = version_two.select_major(wire.read_header(scope, _HEADER))
    _name_version(scope, major)
    if major == 1:
        scope["path"] = f"/v1{scope['path']}"
        scope["raw_path"] = b"/v1" + scope["raw_path"]


def is_second(scope: Scope) -> bool:
    """Return True if version 2 was selected for a request."""
    return bool(scope["state"].get("openwop_major") == 2)


def _name_version(scope: Scope, major: int) -> None:
    """Store the version of the answer, and let its headers name it."""
    state = scope.setdefault("state", {})
    state["openwop_major"] = major
    version = version_two.PROTOCOL_VERSIONS[major - 1]
    state["answer_headers"] = (
        (_HEADER, version.encode("ascii")),
        (b"vary", b"OpenWOP-Version"),
    )


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
