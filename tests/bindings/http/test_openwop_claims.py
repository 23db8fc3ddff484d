"""What a running host shows of itself and of its runs is what openwop's schemas ask for."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.bindings.http.running import Running, openwop_error_of, running
from tests.bindings.http.test_openwop import begin, finish, put

from memoranda.standards.openwop.runs import STATUSES, check_snapshot

REF = "agents/research"


def has_memory_profile(document: dict[str, Any]) -> bool:
    """As the suite derives `openwop-memory` from a document."""
    root = ("protocolVersion", "supportedEnvelopes", "schemaVersions", "limits")
    memory, agents = document.get("memory", {}), document.get("agents", {})
    is_writable = memory.get("supported") is True and memory.get("writable") is not False
    return all(name in document for name in root) and is_writable and "long-term" in agents.get("memoryBackends", ())


@pytest.mark.requirement("WOP-4-profile")
def test_a_running_host_has_the_memory_profile_and_what_it_claims_outlives_it(tmp_path: Path) -> None:
    with running(tmp_path / "home") as server, server.client(server.key()) as client:
        key = client.headers["authorization"].removeprefix("Bearer ")
        document = client.get("/.well-known/openwop").json()
        assert has_memory_profile(document)
        for path in (("protocolVersion",), ("limits",), ("memory", "supported"), ("agents", "memoryBackends")):
            without = copy.deepcopy(document)
            inner = without if len(path) == 1 else without[path[0]]
            del inner[path[-1]]
            assert not has_memory_profile(without)
        made = put(client, REF, "Ann likes tea.")
    with running(tmp_path / "home") as server, server.client(key) as client:
        assert client.get(f"/v1/memory/agents%2Fresearch/{made['id']}").json() == made


@pytest.mark.requirement("WOP-1.10-snapshot")
def test_every_snapshot_that_a_host_gives_is_one(server: Running) -> None:
    with server.client(server.key("did:example:snapshots")) as client:
        put(client, REF, "Ann likes tea.")
        ids = {"running": begin(client, tags=["a"], agent={"agentId": "acme.helper", "memoryRef": REF})}
        for status in ("completed", "failed", "cancelled"):
            ids[status] = begin(client)
            error = {"error": {"code": "gone", "message": "it went away"}} if status == "failed" else {}
            answer = client.post(
                f"/v1/host/runs/{ids[status]}/finish",
                json={"status": status, "variables": {"entry": {"$memory": {"memoryRef": REF}}}, **error},
            )
            assert answer.status_code == 200, answer.text
        passed = {"workflowId": "memoranda.compaction", "inputs": {"memoryRef": REF}}
        ids["passed"] = client.post("/v1/runs", json=passed).json()["runId"]
        for mode in ("replay", "branch"):
            forked = client.post(f"/v1/runs/{ids['completed']}:fork", json={"mode": mode, "fromSeq": 0})
            ids[mode] = forked.json()["runId"]
        seen = {name: check_snapshot(client.get(f"/v1/runs/{run_id}").json()) for name, run_id in ids.items()}
        assert {name: seen[name]["runId"] for name in ids} == ids
        assert {snapshot["status"] for snapshot in seen.values()} == {"running", "completed", "failed", "cancelled"}
        assert all(snapshot["status"] in STATUSES for snapshot in seen.values())
        assert (seen["failed"]["error"]["code"], seen["running"]["agent"]["memoryRef"]) == ("gone", REF)
        assert seen["passed"]["workflowId"] == "memoranda.compaction"


@pytest.mark.requirement("WOP-1.10-snapshot")
@pytest.mark.parametrize(
    "ended",
    [
        {"status": "done"},
        {"status": "running"},
        {"variables": []},
        {"error": {"code": "x", "message": "y"}},
        {"status": "failed", "error": {"code": "x"}},
        {"status": "failed", "error": {"code": "x", "message": "y", "stack": "z"}},
    ],
)
def test_no_run_is_ended_so_that_its_snapshot_would_be_none(client: httpx.Client, ended: dict[str, Any]) -> None:
    run_id = begin(client)
    assert openwop_error_of(client.post(f"/v1/host/runs/{run_id}/finish", json=ended)) == (400, "validation_error")
    assert check_snapshot(client.get(f"/v1/runs/{run_id}").json())["status"] == "running"
    finish(client, run_id)
