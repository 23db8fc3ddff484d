"""Reviewable learning: proposed from recorded runs, inert until somebody who may applies it, installed as reviewed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memoranda.encoding import json_text
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, MemorandaError, NotFound, WorkflowError
from memoranda.model.instant import DAY_MS
from memoranda.service.core.access import ALL_VERBS, Access
from memoranda.service.openwop.proposals import ACTIVATION, INSTALLED
from memoranda.standards.openwop.proposals import Proposal, Revision, check_proposal
from tests.service.wop import REF, Wop
from tests.standards.openwop.samples import ARTIFACTS

ANN = "did:example:ann"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def wop() -> Iterator[Wop]:
    wop = Wop()
    yield wop
    wop.close()


@pytest.fixture
def reviewer(wop: Wop) -> Access:
    """Who may do everything but activate."""
    return wop.key(ANN, *(ALL_VERBS - {ACTIVATION}))


@pytest.fixture
def activator(wop: Wop) -> Access:
    return wop.key(ANN, *ALL_VERBS)


def work_as_usual(wop: Wop, access: Access, times: int = 4, **about: Any) -> list[str]:
    """Runs of one habit: the same tools in the same order, on the same day of the week."""
    ids = []
    for number in range(times):
        wop.advance(7 * DAY_MS)
        run = wop.wop.begin_run(access, "acme.weekly-report", **about)
        for tool in ("search", "summarise", "send-mail"):
            payload = {"toolName": tool, "argumentNames": ["text"], "input": f"kumquats {number} {SECRET}"}
            wop.wop.emit(access, run.run_id, "agent.toolCalled", payload)
        wop.wop.finish_run(access, run.run_id)
        ids.append(run.run_id)
    return ids


def propose(wop: Wop, access: Access, kind: str = "automation", **words: Any) -> Proposal:
    return wop.wop.propose(access, kind, ARTIFACTS[kind], **words)


def kept(wop: Wop) -> dict[str, bytes]:
    with wop.engine.open_snapshot(ANN) as snapshot:
        return snapshot.load_items(INSTALLED)


# --- synthesis -----------------------------------------------------------------------------------------------


def test_habits_of_recorded_runs_are_proposed_once_with_the_runs_that_show_them(wop: Wop, reviewer: Access) -> None:
    ids = work_as_usual(wop, reviewer, metadata={"corrections": ["Please write shorter answers."]})
    made = wop.wop.synthesise_proposals(reviewer)
    assert {each["kind"] for each in made} >= {"workflow-chain-pack", "automation"}
    for each in made:
        assert check_proposal(each)["state"] == "draft"
        assert set(each["provenance"]["sourceRunIds"]) <= set(ids)
        assert each["owner"] == {"tenant": ANN}
    assert wop.wop.synthesise_proposals(reviewer) == []
    work_as_usual(wop, reviewer, 2, metadata={"corrections": ["Please write shorter answers."]})
    assert wop.wop.synthesise_proposals(reviewer) == []
    created = wop.facts("proposal.created", access=reviewer)
    assert {fact["proposalId"] for fact in created} == {each["id"] for each in made}


def test_what_was_refused_revised_or_put_away_is_not_proposed_again(wop: Wop, reviewer: Access) -> None:
    work_as_usual(wop, reviewer)
    made = wop.wop.synthesise_proposals(reviewer)
    assert len(made) >= 2
    wop.wop.reject_proposal(reviewer, made[0]["id"])
    for each in made[1:]:
        wop.wop.revise_proposal(reviewer, each["id"], Revision(artifact=ARTIFACTS[each["kind"]]))
    work_as_usual(wop, reviewer, 1)
    assert wop.wop.synthesise_proposals(reviewer) == []


def test_a_replay_makes_no_habit(wop: Wop, reviewer: Access) -> None:
    (run_id,) = work_as_usual(wop, reviewer, 1)
    for _ in range(5):
        wop.wop.fork(reviewer, run_id, mode="replay", from_seq=0)
    assert wop.wop.synthesise_proposals(reviewer) == []


def test_nothing_of_what_runs_said_is_in_a_proposal_an_event_or_the_audit_log(wop: Wop, reviewer: Access) -> None:
    work_as_usual(wop, reviewer, metadata={"corrections": [f"Use the token {SECRET} always."]})
    made = wop.wop.synthesise_proposals(reviewer)
    assert made
    told = str([made, wop.facts("proposal.created", access=reviewer), wop.service.audit(reviewer, {})])
    assert SECRET not in told
    assert "kumquat" not in told


def test_a_proposal_that_holds_a_secret_is_refused_without_telling_it(wop: Wop, reviewer: Access) -> None:
    template = {**ARTIFACTS["prompt-template"], "text": f"Use {SECRET}."}
    made = propose(wop, reviewer)
    attempts: list[Callable[[], object]] = [
        lambda: wop.wop.propose(reviewer, "prompt-template", template),
        lambda: propose(wop, reviewer, "prompt-template", title=f"Use {SECRET}"),
        lambda: wop.wop.revise_proposal(reviewer, made["id"], Revision(rationale=f"Because of {SECRET}")),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match="secret") as refused:
            attempt()
        assert SECRET not in refused.value.message
    wop.wop.reject_proposal(reviewer, made["id"], reason=f"it has {SECRET}")
    assert SECRET not in str(wop.service.audit(reviewer, {}))
    assert wop.wop.proposals(reviewer) == [wop.wop.proposal(reviewer, made["id"])]


def test_the_same_artifact_again_is_marked_as_a_duplicate(wop: Wop, reviewer: Access) -> None:
    first, again = propose(wop, reviewer), propose(wop, reviewer)
    assert (first["duplicateOf"], again["duplicateOf"]) == (None, first["id"])
    assert wop.facts("proposal.created", access=reviewer)[0]["duplicateOf"] in (None, first["id"])


# --- inert ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-proposal-inert")
@pytest.mark.requirement("WOP-3-proposal-inert-runs")
@pytest.mark.parametrize("kind", ARTIFACTS)
def test_whatever_is_proposed_changes_nothing_until_it_is_applied(
    wop: Wop, reviewer: Access, activator: Access, kind: str
) -> None:
    def seen() -> tuple[object, ...]:
        verbs = wop.wop
        return verbs.installed(reviewer), verbs.agents(reviewer), verbs.schedules(reviewer), verbs.commitments(reviewer)

    before = seen()
    made = propose(wop, reviewer, kind)
    assert seen() == before
    wop.wop.revise_proposal(reviewer, made["id"], Revision(title="other words"))
    assert seen() == before
    other = propose(wop, reviewer, kind)
    wop.wop.reject_proposal(reviewer, other["id"])
    wop.wop.archive_proposal(reviewer, other["id"])
    assert seen() == before
    assert wop.wop.tick() == 0
    done = wop.wop.apply_proposal(activator, made["id"])
    assert list(wop.wop.installed(reviewer)) == [done["activation"]["installedArtifactRef"]]
    agents = wop.wop.agents(reviewer)
    assert agents["total"] == (1 if kind == "agent-pack" else 0)


# --- moves ---------------------------------------------------------------------------------------------------


def test_what_is_decided_stays_decided(wop: Wop, reviewer: Access, activator: Access) -> None:
    applied, rejected, archived = (propose(wop, reviewer)["id"] for _ in range(3))
    wop.wop.apply_proposal(activator, applied)
    wop.wop.reject_proposal(reviewer, rejected)
    wop.wop.archive_proposal(reviewer, archived)
    for name in (applied, rejected, archived):
        before = wop.wop.proposal(reviewer, name)
        for attempt in (
            lambda name=name: wop.wop.apply_proposal(activator, name),
            lambda name=name: wop.wop.approve_proposal(activator, name),
            lambda name=name: wop.wop.revise_proposal(reviewer, name, Revision(title="x")),
            lambda name=name: wop.wop.reject_proposal(reviewer, name),
        ):
            with pytest.raises(Conflict):
                attempt()
        assert wop.wop.proposal(reviewer, name) == before
    states = [each["state"] for each in wop.wop.proposals(reviewer)]
    assert sorted(states) == ["applied", "archived", "rejected"]
    assert [each["id"] for each in wop.wop.proposals(reviewer, state="rejected")] == [rejected]
    assert wop.wop.proposals(reviewer, kind="agent-pack") == []
    assert len(wop.facts("proposal.activated", access=reviewer)) == 1
    with pytest.raises(NotFound):
        wop.wop.proposal(reviewer, "prop_unknown")


# --- activation ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-proposal-gate")
def test_whoever_may_not_activate_is_refused_and_nothing_changes(wop: Wop, reviewer: Access) -> None:
    made = propose(wop, reviewer)
    events = wop.all_logs(access=reviewer)
    for attempt in (
        lambda: wop.wop.apply_proposal(reviewer, made["id"]),
        lambda: wop.wop.approve_proposal(reviewer, made["id"]),
        lambda: wop.wop.apply_proposal(reviewer, made["id"], approval_id="appr_made_up"),
    ):
        with pytest.raises(ForbiddenScope):
            attempt()
    assert wop.wop.proposal(reviewer, made["id"]) == made
    assert wop.all_logs(access=reviewer) == events
    assert wop.wop.installed(reviewer) == {}


@pytest.mark.requirement("WOP-3-proposal-gate")
def test_an_approval_lets_exactly_what_was_approved_be_applied_once(
    wop: Wop, reviewer: Access, activator: Access
) -> None:
    made, other = propose(wop, reviewer), propose(wop, reviewer, "prompt-template")
    approval = wop.wop.approve_proposal(activator, made["id"])
    with pytest.raises(ForbiddenScope):
        wop.wop.apply_proposal(reviewer, other["id"], approval_id=approval)
    changed = {**ARTIFACTS["automation"], "inputs": {"to": "everyone"}}
    wop.wop.revise_proposal(reviewer, made["id"], Revision(artifact=changed))
    with pytest.raises(ForbiddenScope):
        wop.wop.apply_proposal(reviewer, made["id"], approval_id=approval)
    approval = wop.wop.approve_proposal(activator, made["id"])
    done = wop.wop.apply_proposal(reviewer, made["id"], approval_id=approval)
    assert done["activation"]["approvalId"] == approval
    assert [fact["approvalId"] for fact in wop.facts("proposal.activated", access=reviewer)] == [approval]
    with pytest.raises(MemorandaError):
        wop.wop.apply_proposal(reviewer, made["id"], approval_id=approval)
    assert wop.wop.installed(reviewer)[done["activation"]["installedArtifactRef"]] == changed


def test_what_is_installed_is_byte_for_byte_what_was_kept_last(wop: Wop, reviewer: Access, activator: Access) -> None:
    artifact = {"z": 1, **ARTIFACTS["automation"], "inputs": {"b": "é \U0001f95d", "a": [1, 2.5, None, True]}}
    artifact.pop("z")
    made = wop.wop.propose(reviewer, "automation", artifact)
    done = wop.wop.apply_proposal(activator, made["id"])
    shown = wop.wop.proposal(reviewer, made["id"])
    assert json_text.dump(shown["artifact"]) == json_text.dump(artifact)
    assert kept(wop) == {done["activation"]["installedArtifactRef"]: json_text.dump(artifact)}
    # More runs, another synthesis: what is installed is not made anew.
    work_as_usual(wop, reviewer)
    wop.wop.synthesise_proposals(reviewer)
    assert kept(wop) == {done["activation"]["installedArtifactRef"]: json_text.dump(artifact)}


def test_a_malformed_artifact_can_be_kept_and_not_applied(wop: Wop, reviewer: Access, activator: Access) -> None:
    made = propose(wop, reviewer)
    wop.wop.revise_proposal(reviewer, made["id"], Revision(artifact={"workflowId": ""}))
    for attempt in (wop.wop.apply_proposal, wop.wop.approve_proposal):
        with pytest.raises(WorkflowError) as refused:
            attempt(activator, made["id"])
        assert refused.value.openwop_code == "malformed_artifact"
    assert wop.wop.proposal(reviewer, made["id"])["state"] == "revised"
    assert wop.facts("proposal.activated", access=reviewer) == []


def test_every_step_is_in_the_audit_log(wop: Wop, reviewer: Access, activator: Access) -> None:
    made = propose(wop, reviewer)
    wop.wop.revise_proposal(reviewer, made["id"], Revision(title="other"))
    approval = wop.wop.approve_proposal(activator, made["id"])
    wop.wop.apply_proposal(reviewer, made["id"], approval_id=approval)
    wop.wop.reject_proposal(reviewer, propose(wop, reviewer, "prompt-template")["id"], reason="not like that")
    ops = [entry["op"].removeprefix("openwop.proposals.") for entry in wop.service.audit(reviewer, {})]
    assert [op for op in ops if op in ("propose", "revise", "approve", "apply", "reject")] == [
        "propose",
        "revise",
        "approve",
        "apply",
        "propose",
        "reject",
    ]
    assert "not like that" in str(wop.service.audit(reviewer, {}))
    assert wop.entries(ref=REF, access=reviewer) == []
