"""The 13 probes of UMP's conformance runner, as the digest lists them, run twice on one store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.bindings.http.running import Running, path_of, running

from memoranda.standards.ump.signature import verify

OWNER = "did:key:zConformanceProbe"
SCOPE = {"owner": OWNER, "project": "ump/conformance", "visibility": "private"}
PROVENANCE = {"actor": OWNER, "actor_kind": "user", "method": "user_correction"}


class Probes:
    """The probes of one run share what the first of them wrote."""

    def __init__(self, client: httpx.Client, stranger: httpx.Client) -> None:
        self.client = client
        self.stranger = stranger
        self.id = ""
        self.record: dict[str, Any] = {}

    def l1_capabilities(self) -> None:
        answer = self.client.get("/ump/capabilities")
        assert answer.status_code == 200
        assert answer.json()["ump"] == "0.1"
        assert len(answer.json()["kinds"]) == 5

    def l1_remember(self) -> None:
        body = {"text": "conformance: run the gate before handoff"}
        draft = {"kind": "procedural", "body": body, "scope": SCOPE, "provenance": PROVENANCE}
        answer = self.client.post("/ump/remember", json=draft)
        assert answer.status_code == 200
        assert answer.json()["result"] == "created"
        self.id = answer.json()["id"]

    def l1_get(self) -> None:
        answer = self.client.get(path_of(self.id))
        assert answer.status_code == 200
        self.record = answer.json()["record"]
        assert self.record["body"]["text"]

    def l1_recall(self) -> None:
        scope = {"owner": OWNER, "project": "ump/conformance"}
        answer = self.client.post("/ump/recall", json={"query": "gate handoff", "scope": scope})
        assert answer.status_code == 200
        results = answer.json()["results"]
        assert self.id in [result["record"]["id"] for result in results]
        assert isinstance(results[0]["signals"], dict)

    def l2_revise(self) -> None:
        patch = {"body": {"text": "conformance: use the new gate"}}
        answer = self.client.post("/ump/revise", json={"id": self.id, "patch": patch})
        assert answer.status_code == 200
        assert self.id in answer.json()["supersedes"]

    def l2_bitemporal(self) -> None:
        prior = self.client.get(path_of(self.id)).json()["record"]
        assert prior["time"]["valid_to"] is not None
        assert prior["superseded_by"]

    def l2_forget(self) -> None:
        body = {"text": "conformance throwaway note"}
        draft = {"kind": "working", "body": body, "scope": SCOPE, "provenance": PROVENANCE}
        name = self.client.post("/ump/remember", json=draft).json()["id"]
        answer = self.client.post("/ump/forget", json={"id": name, "reason": "conformance"})
        assert answer.status_code == 200
        assert answer.json()["result"] in ("tombstoned", "erased")

    def l2_validation(self) -> None:
        answer = self.client.post("/ump/remember", json={"kind": "semantic", "scope": SCOPE})
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "invalid_record"

    def l3_discovery(self) -> None:
        answer = self.client.get("/.well-known/ump.json")
        assert answer.status_code == 200
        assert answer.json()["ump"]
        assert answer.json()["conformance"]

    def l3_signed(self) -> None:
        assert self.record["integrity"]
        assert verify(self.record)

    def l3_feedback(self) -> None:
        asked = {"id": self.id, "outcome": "followed", "session": "ump-conformance"}
        answer = self.client.post("/ump/feedback", json=asked)
        assert answer.status_code == 200
        assert answer.json()["ok"] is True

    def l3_capability_tokens(self) -> None:
        asked = {"query": "gate", "scope": {"owner": OWNER}}
        assert self.stranger.post("/ump/recall", json=asked).status_code == 401
        assert self.client.post("/ump/recall", json=asked).status_code == 200

    def l3_subscribe(self) -> None:
        with self.client.stream("GET", "/ump/subscribe") as answer:
            assert answer.status_code == 200
            assert "text/event-stream" in answer.headers["content-type"]


PROBES: tuple[Callable[[Probes], None], ...] = (
    Probes.l1_capabilities,
    Probes.l1_remember,
    Probes.l1_get,
    Probes.l1_recall,
    Probes.l2_revise,
    Probes.l2_bitemporal,
    Probes.l2_forget,
    Probes.l2_validation,
    Probes.l3_discovery,
    Probes.l3_signed,
    Probes.l3_feedback,
    Probes.l3_capability_tokens,
    Probes.l3_subscribe,
)


@pytest.fixture(scope="module")
def conforming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("conformance") / "home") as started:
        yield started


@pytest.fixture(scope="module", params=["first run", "second run"])
def probes(request: pytest.FixtureRequest, conforming: Running) -> Iterator[Probes]:
    with conforming.client() as client, conforming.client("") as stranger:
        yield Probes(client, stranger)


# One test of all steps, because they build on each other.
@pytest.mark.requirement("UMP-4.2-routes")
@pytest.mark.requirement("UMP-7-L3")
def test_the_probes_pass(probes: Probes) -> None:
    for step in PROBES:
        step(probes)
