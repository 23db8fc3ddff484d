"""Candidates as proposals of openwop, of the kind `memory`: one mechanism, seen through another interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memoranda import Memoranda
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound
from memoranda.hosts.learning import Learner, list_candidates
from memoranda.hosts.source_turns import SourceTurn
from memoranda.standards.openwop.proposals import Revision, check_proposal, digest_artifact


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memoranda]:
    with Memoranda.open(tmp_path / "store") as opened:
        texts = ["Never deploy on Fridays.", "My time zone is Europe/Lisbon."]
        turns = [
            SourceTurn(text=text, agent="codex", session="s1", id=str(number), project="shop")
            for number, text in enumerate(texts)
        ]
        Learner(opened).learn(turns)
        yield opened


def test_candidates_are_listed_as_proposals_to_who_asks_for_them(store: Memoranda) -> None:
    first, second = store.openwop.proposals(kind="memory")
    assert first["artifact"] == {
        "text": "Never deploy on Fridays.",
        "kind": "procedural",
        "project": "shop",
        "agent": "codex",
        "session": "s1",
    }
    assert (first["state"], first["rationale"]) == ("draft", "stated in codex:s1#0")
    assert store.openwop.proposal(second["id"]) == second
    # It has the form of the standard, but for its kind.
    check_proposal({**first, "kind": "automation"})
    assert store.openwop.proposals() == []
    assert store.openwop.proposals(kind="memory", state="applied") == []


def test_a_proposal_that_is_applied_is_accepted(store: Memoranda) -> None:
    proposal = store.openwop.proposals(kind="memory")[0]
    with pytest.raises(Conflict):
        store.openwop.apply_proposal(proposal["id"], artifact_digest="sha256:0")
    digest = digest_artifact(proposal["artifact"])
    applied = store.openwop.apply_proposal(proposal["id"], artifact_digest=digest)
    memory = store.get(applied["activation"]["installedArtifactRef"])
    assert (memory.text, memory.record["lifecycle"]["status"]) == ("Never deploy on Fridays.", "active")
    assert memory.record["provenance"]["source"]["ref"] == "codex:s1#0"
    assert store.openwop.proposal(proposal["id"])["state"] == "applied"
    with pytest.raises(Conflict, match="applied"):
        store.openwop.reject_proposal(proposal["id"])


def test_a_proposal_that_is_revised_stays_one(store: Memoranda) -> None:
    proposal = store.openwop.proposals(kind="memory")[0]
    with pytest.raises(InvalidInput, match="text"):
        store.openwop.revise_proposal(proposal["id"], Revision.parse({"title": "x"}))
    changes = Revision.parse({"artifact": {"text": "Deploy from Monday to Thursday."}})
    revised = store.openwop.revise_proposal(proposal["id"], changes)
    assert (revised["state"], revised["artifact"]["text"]) == ("revised", "Deploy from Monday to Thursday.")
    assert store.openwop.apply_proposal(revised["id"])["state"] == "applied"


@pytest.mark.parametrize("state", ["rejected", "archived"])
def test_a_proposal_that_is_rejected_is_forgotten(store: Memoranda, state: str) -> None:
    proposal = store.openwop.proposals(kind="memory")[0]
    decide = store.openwop.reject_proposal if state == "rejected" else store.openwop.archive_proposal
    assert decide(proposal["id"])["state"] == state
    assert [memory.text for memory in list_candidates(store)] == ["My time zone is Europe/Lisbon."]
    assert store.openwop.proposal(proposal["id"])["state"] == "rejected"


def test_only_who_may_activate_applies_one(store: Memoranda) -> None:
    from msgspec.structs import replace

    proposal = store.openwop.proposals(kind="memory")[0]
    agent = replace(store.access, verbs=store.access.verbs - {"activate"})
    for approval in (None, "appr_x"):
        with pytest.raises(ForbiddenScope):
            store.service.openwop.apply_proposal(agent, proposal["id"], approval_id=approval)
    other = store.remember("a fact of its own").id.removeprefix("urn:ump:")
    for name in (f"memory_{other}", "memory_", "memory_x"):
        with pytest.raises(NotFound):
            store.openwop.proposal(name)
