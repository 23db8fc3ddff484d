"""The official client of openwop, in both generations: each method that concerns memory, on a running server.

`make bring-adapters` installs the clients, each in a folder of its own: they are versions of one module.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.http.running import ALL, OWNER, Running, running

from memoranda.conformance.openwop import SEAMS

FOLDER = Path(__file__).parents[2] / ".venv" / "openwop"
CALLS = Path(__file__).parent / "openwop_calls.py"
LOG = ["run.started", "agent.memory.consolidated", "run.completed"]
ALIKE: dict[str, Any] = {
    "capabilities": "1.1",
    "openapi": "3.1.0",
    "create": True,
    "get": "completed",
    "events": LOG,
    "poll": LOG,
    "fork": "replay",
    "delay": True,
    "cancel": "cancelled",
    "register": ["https://example.com/hook", ["commitment.fired"]],
    "unregister": None,
    "agents": ["memoranda.conformance"],
    "agent": "Probe",
}
LOG_TWO = [name.replace("agent.memory.", "agent.memory-") for name in LOG]
TWO = {"runs": 2, "submit": "draft", "proposals": True, "revise": "revised", "apply": "applied"}
EXPECTED = {"1.8.0": ALIKE, "2.7.0": {**ALIKE, "events": LOG_TWO, "poll": LOG_TWO, **TWO}}


@pytest.mark.requirement("WOP2-clients")
@pytest.mark.parametrize("version", EXPECTED)
def test_every_method_of_the_official_client_that_concerns_memory_succeeds(version: str, tmp_path: Path) -> None:
    if not (FOLDER / version).is_dir():
        pytest.skip("make bring-adapters installs openwop-client")
    with running(tmp_path / "home", seams=SEAMS) as server:
        assert called(server, version) == EXPECTED[version]


def called(server: Running, version: str) -> dict[str, Any]:
    key = server.key(OWNER, *ALL, "activate")
    done = subprocess.run(
        [sys.executable, str(CALLS), server.url, key],
        env={"PYTHONPATH": str(FOLDER / version)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
