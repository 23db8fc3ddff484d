"""A misspelt field is refused by name, whichever way it comes: nothing is silently ignored, nothing is stored."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests import forking
from tests.bindings.http.running import OWNER, Running, draft, running

from memoranda import Memoranda
from memoranda.bindings.mcp.tools import OPERATIONS, run_tool
from memoranda.errors import InvalidInput
from memoranda.standards.ump import requests as ump

MISSPELT_CONSENT = {**draft("never to be exported"), "Consent": {"exportable": False}}

# Method, path, body or query, and what is misspelt in it.
ASKED: list[tuple[str, str, dict[str, Any], str]] = [
    ("POST", "/ump/recall", {"query": "x", "limt": 3}, "limt"),
    ("POST", "/ump/recall", {"query": "x", "scope": {"projekt": "p"}}, "projekt"),
    ("POST", "/ump/recall", {"query": "x", "actor": {"did": "a", "knid": "user"}}, "knid"),
    ("POST", "/ump/rehydrate", {"query": "x", "max_char": 3}, "max_char"),
    ("POST", "/ump/remember", MISSPELT_CONSENT, "Consent"),
    ("POST", "/ump/remember", {"record": MISSPELT_CONSENT}, "Consent"),
    ("POST", "/ump/remember", {**draft("x"), "consent": {"exportible": False}}, "exportible"),
    ("POST", "/ump/remember", {**draft("x"), "time": {"valid_until": "2026-06-05T00:00:00Z"}}, "valid_until"),
    ("POST", "/ump/revise", {"id": "urn:ump:aaaa", "patch": {"body": {"txt": "x", "text": "y"}}}, "txt"),
    ("POST", "/ump/revise", {"id": "urn:ump:aaaa", "patch": {"body": {"text": "y"}}, "reson": "x"}, "reson"),
    ("POST", "/ump/forget", {"id": "urn:ump:aaaa", "hrad": True}, "hrad"),
    ("POST", "/ump/feedback", {"id": "urn:ump:aaaa", "outcome": "followed", "sesion": "s"}, "sesion"),
    ("POST", "/ump/audit", {"opp": "recall"}, "opp"),
    ("GET", "/ump/audit/verify", {"onwer": "x"}, "onwer"),
    ("GET", "/ump/memory/urn:ump:aaaa", {"versoin": "1"}, "versoin"),
    ("GET", "/ump/subscribe", {"projekt": "p"}, "projekt"),
    ("POST", "/oms/grains/search", {"subjct": "ada"}, "subjct"),
    ("GET", "/oms/grains", {"subjct": "ada"}, "subjct"),
    ("POST", "/oms/grains", {"grain": {"type": "belief"}, "onwer": "x"}, "onwer"),
    ("POST", f"/oms/grains/{'a' * 64}/supersede", {"grain": {"type": "belief"}, "justfication": "x"}, "justfication"),
    ("POST", f"/oms/grains/{'a' * 64}/verification", {"status": "verified", "reson": "x"}, "reson"),
    ("PUT", f"/oms/grains/{'a' * 64}/hold", {"reson": "x"}, "reson"),
    ("DELETE", f"/oms/grains/{'a' * 64}", {"reson": "x"}, "reson"),
    ("POST", "/oms/users/erase", {"user_id": "u", "reson": "x"}, "reson"),
    ("GET", "/oms/consents", {"subject_did": "a", "grantee_did": "b", "scop": "x"}, "scop"),
    ("POST", "/cal", {"query": "RECALL beliefs", "namspace": "x"}, "namspace"),
    ("POST", "/cal/prepare", {"query": "RECALL beliefs", "parms": {}}, "parms"),
    ("POST", "/cal/execute", {"token": "x", "tokn": "y"}, "tokn"),
    ("GET", "/cal/card", {"lang": "en"}, "lang"),
    ("POST", "/v1/oams/recall", {"query": "x", "namspace": "a:b"}, "namspace"),
    ("GET", "/v1/oams/memories/a:b", {"limt": "3"}, "limt"),
    ("POST", "/v1/oams/memories/batch", {"memories": [{"key": "k"}], "atomc": True}, "atomc"),
    ("GET", "/v1/memory/r", {"limt": "3"}, "limt"),
    ("POST", "/v1/memory/r", {"content": "x", "expires": "2999-01-01T00:00:00Z"}, "expires"),
    ("POST", "/v1/host/memory/forget", {"memoryRef": "r", "subject": "s", "hrad": True}, "hrad"),
    ("POST", "/v1/host/runs", {"workflowId": "w", "tgas": []}, "tgas"),
    ("GET", "/v1/host/runs", {"limt": "3"}, "limt"),
    ("GET", "/v1/runs/none/events", {"lastSequnce": "3"}, "lastSequnce"),
    ("PUT", "/v1/host/schedules", {"memoryRef": "r", "cron": "0 3 * * *", "timezon": "UTC"}, "timezon"),
    ("PUT", "/v1/host/workspace/files/a.md", {"content": "x", "contenttype": "text/plain"}, "contenttype"),
    ("POST", "/v1/host/sample/proposals", {"kind": "automation", "artifact": {}, "titel": "x"}, "titel"),
    ("POST", "/v1/host/sample/proposals/synthesise", {"all": True}, "all"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("store") / "home") as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[httpx.Client]:
    with server.client(server.key(OWNER)) as each:
        yield each


@pytest.mark.parametrize(("method", "path", "asked", "name"), ASKED, ids=lambda value: str(value)[:30])
def test_over_http(client: httpx.Client, method: str, path: str, asked: dict[str, Any], name: str) -> None:
    has_body = method in ("POST", "PUT", "PATCH")
    answer = client.request(method, path, json=asked if has_body else None, params=None if has_body else asked)
    assert 400 <= answer.status_code < 500, answer.text
    assert name in answer.text


TOOLS: list[tuple[str, dict[str, Any], str]] = [
    ("ump.recall", {"query": "x", "limt": 3}, "limt"),
    ("ump.recall", {"query": "x", "filter": {"knd": "semantic"}}, "knd"),
    ("ump.remember", {"kind": "semantic", "body": {"text": "x"}, "Consent": {"exportable": False}}, "Consent"),
    ("ump.remember", {"kind": "semantic", "body": {"text": "x"}, "consent": {"exportible": False}}, "exportible"),
    ("ump.forget", {"id": "urn:ump:aaaa", "hrad": True}, "hrad"),
    ("ump.get", {"id": "urn:ump:aaaa", "versoin": 1}, "versoin"),
    ("oms.find", {"subjct": "ada"}, "subjct"),
    ("oms.put", {"grain": {"type": "belief"}, "onwer": "x"}, "onwer"),
    ("cal", {"query": "RECALL beliefs", "namspace": "x"}, "namspace"),
    ("cal.execute", {"token": "x", "tokn": "y"}, "tokn"),
]


@pytest.mark.parametrize(("tool", "arguments", "name"), TOOLS)
def test_over_mcp(server: Running, tool: str, arguments: dict[str, Any], name: str) -> None:
    access = server.service.gate.local(OWNER)
    with pytest.raises(InvalidInput, match=name):
        run_tool(OPERATIONS[tool], server.service, access, arguments)


def test_in_the_library(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home", owner=OWNER) as m:
        with pytest.raises(InvalidInput, match="Consent"):
            m.service.remember(m.access, MISSPELT_CONSENT)
        with pytest.raises(InvalidInput, match="limt"):
            m.service.recall(m.access, ump.RecallRequest.parse({"query": "x", "limt": 3}))
        assert m.recall("exported") == []


def test_on_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memoranda", "--data", str(tmp_path / "home"), "--owner", OWNER, "--json"]
    file = tmp_path / "all.ndjson"
    file.write_text(json.dumps(MISSPELT_CONSENT) + "\n", encoding="utf-8")
    imported = forking.run([*command, "import", str(file)])
    assert b"Consent" in imported.stdout + imported.stderr
    found = forking.run([*command, "recall", "exported"])
    assert found.returncode == 0
    assert json.loads(found.stdout)["results"] == []
    asked = forking.run([*command, "recall", "x", "--limt", "3"])
    assert asked.returncode == 2
