"""What a server says about itself."""

from __future__ import annotations

import pytest

from memoranda.standards.ump.capability import build_manifest, describe_server

KINDS = ["semantic", "episodic", "procedural", "working", "identity"]
SIGNALS = ["similarity", "scope_match", "recency", "salience", "provenance_depth"]


@pytest.mark.requirement("UMP-3.1-capabilities")
def test_the_handshake_has_every_field() -> None:
    assert describe_server(server_name="memoranda", server_version="0.1.0", version="0.1") == {
        "server": {"name": "memoranda", "version": "0.1.0"},
        "ump": "0.1",
        "conformance": "L3",
        "kinds": KINDS,
        "bindings": ["mcp", "http", "file"],
        "retrieval_signals": SIGNALS,
        "max_recall": 50,
        "writable": True,
        "audit": True,
        "hard_forget": ["key:erase", "token:owner"],
    }


@pytest.mark.requirement("UMP-4.3-well-known")
def test_the_manifest_leaves_out_what_is_not_set() -> None:
    bare = build_manifest(version="1.0", conformance="L3")
    assert bare == {
        "ump": "1.0",
        "conformance": "L3",
        "bindings": ["mcp", "http", "file"],
        "kinds": KINDS,
        "retrieval_signals": SIGNALS,
    }
    export = {"url": "https://example.org/me.ump.json", "format": "ump.json"}
    full = build_manifest(
        version="1.0", conformance="L3", endpoint="https://example.org", exports=[export], owner="did:key:z"
    )
    assert full == {**bare, "endpoint": "https://example.org", "exports": [export], "owner": "did:key:z"}
