"""A host under test: who may call it, and what is asked of it; and a count of what was asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests import forking
from tests.embedders import WORDS_ALONE
from tests.waiting import HANG_SECONDS, until

TERMINAL = ("completed", "failed", "cancelled")
# Capabilities that this server does not claim, because it ranks without embeddings.
EXPECTED = ("memory.search semantic",)


@dataclass(slots=True)
class Checks:
    """Counts what a scenario asserted: nothing is no success."""

    count: int = 0
    is_skipped: bool = False

    def __call__(self, holds: object, said: object = "") -> None:
        self.count += 1
        assert holds, said

    def equal(self, found: object, expected: object) -> None:
        self.count += 1
        assert found == expected

    def close(self) -> None:
        """At the end of a scenario."""
        assert self.count or self.is_skipped, "the scenario asserted nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host, and one client for each of the three credentials."""

    url: str
    key: str
    activation_key: str
    tenant_b_key: str
    is_ours: bool
    clients: dict[str, httpx.Client] = field(default_factory=dict)

    def client(self, key: str) -> httpx.Client:
        if key not in self.clients:
            headers = {"accept": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
            self.clients[key] = httpx.Client(base_url=self.url, headers=headers, timeout=HANG_SECONDS)
        return self.clients[key]

    @property
    def main(self) -> httpx.Client:
        """Everything but activation."""
        return self.client(self.key)

    @property
    def activator(self) -> httpx.Client:
        return self.client(self.activation_key)

    @property
    def other(self) -> httpx.Client:
        """Of another tenant."""
        return self.client(self.tenant_b_key)

    @property
    def stranger(self) -> httpx.Client:
        return self.client("")

    def claims(self, *path: str) -> Any:
        """What discovery says at a path of the document; None if nothing."""
        found: Any = self.stranger.get("/.well-known/openwop").json()
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def needs(self, checks: Checks, claim: object, name: str) -> None:
        """Skip a scenario about something that is not claimed; of our own server, only what we say is not."""
        if not claim:
            if self.is_ours and name not in EXPECTED:
                pytest.fail(f"our own server does not claim {name}")
            checks.is_skipped = True
            pytest.skip(f"inapplicable: {name} is not claimed")

    def needs_fixture(self, checks: Checks, name: str) -> None:
        self.needs(checks, "long-term" in (self.claims("agents", "memoryBackends") or ()), "agents.memoryBackends")
        self.needs(checks, name in (self.claims("fixtures") or ()), name)

    def needs_seam(self, checks: Checks, path: str) -> None:
        self.needs(checks, self.main.post(path, json={}).status_code not in (404, 405, 501), path)

    # --- runs --------------------------------------------------------------------------------------------

    def run(self, checks: Checks, workflow_id: str) -> dict[str, Any]:
        """Start a workflow and wait for its end; the snapshot."""
        started = self.main.post("/v1/runs", json={"workflowId": workflow_id})
        checks.equal(started.status_code, 201)
        checks({"runId", "status", "eventsUrl"} <= set(started.json()), started.text)
        snapshot: dict[str, Any] = {}

        def has_ended() -> bool:
            snapshot.update(self.main.get(f"/v1/runs/{started.json()['runId']}").json())
            return snapshot["status"] in TERMINAL

        until(has_ended, f"{workflow_id} did not end")
        return snapshot

    def events(self, run_id: str) -> list[dict[str, Any]]:
        answer = self.main.get(f"/v1/runs/{run_id}/events", headers={"accept": "application/json"})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["events"]
        return found

    def entries(self, ref: str, **options: Any) -> list[dict[str, Any]]:
        answer = self.main.get(memory(ref), params=options)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["entries"]
        return found


def memory(ref: str, entry_id: str | None = None) -> str:
    """The path of a ref or of an entry."""
    path = f"/v1/memory/{encoded(ref)}"
    return path if entry_id is None else f"{path}/{encoded(entry_id)}"


def encoded(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")


@contextmanager
def given_or_started(folder: Path) -> Iterator[Host]:
    """The host that the environment names, else our own server."""
    named = [
        os.environ.get(name, "")
        for name in ("OPENWOP_BASE_URL", "OPENWOP_API_KEY", "OPENWOP_ACTIVATION_KEY", "OPENWOP_TENANT_B_KEY")
    ]
    with _started(folder) if not named[0] else _nothing() as url:
        home = {"MEMORANDA_HOME": str(folder)}
        keys = named[1:] if named[0] else [_key(home, *each) for each in KEYS]
        host = Host(
            url=url or named[0].rstrip("/"),
            key=keys[0],
            activation_key=keys[1],
            tenant_b_key=keys[2],
            is_ours=not named[0],
        )
        try:
            yield host
        finally:
            for client in host.clients.values():
                client.close()


KEYS = (
    ("suite", "tenant-a", "read,write,derive,export"),
    ("activation", "tenant-a", "read,write,derive,export,activate"),
    ("other", "tenant-b", "read,write,derive,export"),
)


@contextmanager
def _nothing() -> Iterator[str]:
    yield ""


def _environment(more: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")} | WORDS_ALONE | more


def _key(more: dict[str, str], name: str, tenant: str, scopes: str) -> str:
    tokens = ["key", "add", name, "--tenant", tenant, "--scopes", scopes, "--json"]
    made = forking.run([sys.executable, "-m", "memoranda", *tokens], env=_environment(more))
    key: str = json.loads(made.stdout)["key"]
    return key


@contextmanager
def _started(folder: Path) -> Iterator[str]:
    tokens = ["serve", "--seams", "--port", "0", "--json", "--log-level", "error"]
    with forking.Forked(
        [sys.executable, "-m", "memoranda", *tokens],
        env=_environment({"MEMORANDA_HOME": str(folder)}),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            text = ""
            while not text.rstrip().endswith("}"):
                line = process.stdout.readline().decode()
                assert line, "the server did not start"
                text += line
            yield json.loads(text)["url"]
        finally:
            process.terminate()
            process.wait(HANG_SECONDS)
