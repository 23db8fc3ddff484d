"""`memoranda health`: what watches a server asks it with this."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.bindings.http.running import running
from tests.cli.conftest import Command


def test_a_server_that_answers_is_ready(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path / "served") as server:
        found = run("--json", "health", "--url", server.url)
        assert (found.code, found.json["ready"]) == (0, True)
        # Without an address it is asked where it listens by its settings, on every address here.
        monkeypatch.setenv("MEMORANDA_PORT", server.url.rpartition(":")[2])
        monkeypatch.setenv("MEMORANDA_HOST", "0.0.0.0")
        # No proxy is asked for the way to one's own machine.
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        assert (run("health").code, run("health").out) == (0, f"{server.url} is ready\n")
        server.service.close()
        broken = run("health")
        assert broken.code == 1
        assert "is not ready: HTTP 503" in broken.err


def test_where_nobody_answers_nothing_is_ready(run: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found = run("health", "--url", f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert found.code == 1
    assert "is not ready" in found.err


def test_other_addresses_than_of_the_web_are_refused(run: Command) -> None:
    found = run("health", "--url", "file:///etc/passwd")
    assert found.code != 0
    assert "url: must begin with http:// or https://" in found.err
