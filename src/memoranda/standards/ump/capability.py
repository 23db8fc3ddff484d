"""The server's description of itself: the handshake (section 3.1) and /.well-known/ump.json (section 4.3).

Clients decide by these documents what they may call, so they state only what this server does: the caller passes the
bindings and extensions that are switched on. A member that does not apply is absent and not null. Both documents are
public and must not reveal anything about owners or memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from memoranda.standards.ump.record import KINDS
from memoranda.standards.ump.shapes import Signal

RETRIEVAL_SIGNALS: Final = get_args(Signal)
BINDINGS: Final = ("mcp", "http", "file")
# Section 3.6: hard is for the owner only. The credentials that count as the owner: an API key with the scope `erase`,
# and a token with the verb `write` that the owner signed for himself, or for nobody in particular and without limits.
HARD_FORGET: Final = ("key:erase", "token:owner")
# Results of one recall.
MAX_RECALL: Final = 50


def describe_server(
    *,
    server_name: str,
    server_version: str,
    version: str,
    conformance: str = "L3",
    bindings: Sequence[str] = BINDINGS,
    max_recall: int = MAX_RECALL,
    audit: bool = True,
) -> dict[str, object]:
    """Return the response to `capabilities`."""
    return {
        "server": {"name": server_name, "version": server_version},
        "ump": version,
        "conformance": conformance,
        "kinds": list(KINDS),
        "bindings": list(bindings),
        "retrieval_signals": list(RETRIEVAL_SIGNALS),
        "max_recall": max_recall,
        "writable": True,
        "audit": audit,
        "hard_forget": list(HARD_FORGET),
    }


def exports_of(endpoint: str) -> list[dict[str, str]]:
    """Return the exports of a server (section 4.3): JSON pages, with pointers to the records and to the next cursor."""
    return [
        {
            "url": f"{endpoint}/ump/export",
            "format": "json",
            "records": "/records",
            "next_cursor": "/next_cursor",
        }
    ]


def build_manifest(
    *,
    version: str,
    conformance: str,
    endpoint: str | None = None,
    exports: Sequence[Mapping[str, str]] = (),
    owner: str | None = None,
    bindings: Sequence[str] = BINDINGS,
) -> dict[str, object]:
    """Return the discovery document; unset members are absent. An export is {url, format}."""
    document: dict[str, object] = {
        "ump": version,
        "conformance": conformance,
        "bindings": list(bindings),
        "kinds": list(KINDS),
        "retrieval_signals": list(RETRIEVAL_SIGNALS),
    }
    if endpoint is not None:
        document["endpoint"] = endpoint
    if exports:
        document["exports"] = [dict(export) for export in exports]
    if owner is not None:
        document["owner"] = owner
    return document
