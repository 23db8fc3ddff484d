"""Behind a proxy: who calls is what a trusted proxy says, and nobody else."""

from __future__ import annotations

from pathlib import Path

from tests.bindings.http.process import serving
from tests.bindings.http.running import Running, running

from memoranda.bindings.http.guard import FAILURES_BURST

PROXY = "127.0.0.1"
# UMP answers 429 (rate_limited) to whoever guesses too much, and 401 to whoever guesses.
LIMITED, WRONG = 429, 401


def guesses(server: Running, addresses: list[str]) -> list[int]:
    """Return the answers to wrong credentials, each with the address that a proxy adds."""
    with server.client("mk_aaaa_bbbb") as client:
        return [
            client.post("/ump/recall", json={"query": "x"}, headers={"X-Forwarded-For": address}).status_code
            for address in addresses
        ]


def test_a_trusted_proxy_says_who_calls(tmp_path: Path) -> None:
    # Time stands still: no guess is forgiven, however long the requests take.
    with running(tmp_path / "home", trusted_proxies=[PROXY], clock=lambda: 0.0) as server:
        many = int(FAILURES_BURST)
        assert guesses(server, ["203.0.113.1"] * (many + 1)) == [WRONG] * many + [LIMITED]
        assert guesses(server, ["203.0.113.2"]) == [WRONG]


def test_nobody_else_is_believed(tmp_path: Path) -> None:
    with running(tmp_path / "home", clock=lambda: 0.0) as server:
        many = int(FAILURES_BURST)
        answers = guesses(server, [f"203.0.113.{number}" for number in range(many + 1)])
        assert answers == [WRONG] * many + [LIMITED]


def test_a_trusted_proxy_says_how_a_client_calls(tmp_path: Path) -> None:
    options = ("--trusted-proxy", PROXY, "--allow-host", "memory.example")
    with serving(tmp_path / "home", *options) as server, server.client() as client:
        ours = {"Host": "memory.example", "Origin": "https://memory.example", "X-Forwarded-Proto": "https"}
        assert client.get("/healthz", headers=ours).status_code == 200
        assert client.get("/healthz", headers={**ours, "X-Forwarded-Proto": "http"}).status_code == 403
