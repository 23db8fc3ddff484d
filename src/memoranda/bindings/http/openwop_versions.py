"""The version of openwop that a request asks for, by the header `OpenWOP-Version` (versioning.md §1.3).

Without the header, or with version 1, a path of version 2 is served as its twin under `/v1`. Each answer names the
version that produced it.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

from memoranda.bindings.http import wire
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
