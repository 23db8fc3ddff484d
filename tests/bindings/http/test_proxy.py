"""Behind a proxy: who calls is what a trusted proxy says, and nobody else."""

from __future__ import annotations

from pathlib import Path

from tests.bindings.http.process import Server, serving

# UMP answers 429 (rate_limited) to whoever guesses too much, and 401 to whoever guesses.
LIMITED, WRONG = 429, 401


def guesses(server: Server, address: str, count: int) -> set[int]:
    """What wrong credentials get that are said to come from an address."""
    headers = {"Authorization": "Bearer mk_aaaa_bbbb", "X-Forwarded-For": address}
    with server.client() as client:
        return {client.post("/ump/recall", json={"query": "x"}, headers=headers).status_code for _ in range(count)}


def test_a_trusted_proxy_says_who_calls_and_how(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "--trusted-proxy", "127.0.0.1", "--allow-host", "memory.example") as server:
        assert LIMITED in guesses(server, "203.0.113.1", 400)
        assert guesses(server, "203.0.113.2", 1) == {WRONG}
        with server.client() as client:
            ours = {"Host": "memory.example", "Origin": "https://memory.example", "X-Forwarded-Proto": "https"}
            assert client.get("/healthz", headers=ours).status_code == 200
            assert client.get("/healthz", headers={**ours, "X-Forwarded-Proto": "http"}).status_code == 403


def test_nobody_else_is_believed(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        seen = [guesses(server, f"203.0.113.{number}", 40) for number in range(10)]
        assert LIMITED in set().union(*seen)
