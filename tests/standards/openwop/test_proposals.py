"""Proposals: shape, moves, what may be applied, and that they tell no secret."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.openwop.samples import ARTIFACTS

from memoranda.encoding import json_text
from memoranda.errors import Conflict, InvalidInput, TooLarge, WorkflowError
from memoranda.model.instant import Instant
from memoranda.standards.openwop import events
from memoranda.standards.openwop.proposals import (
    MAX_ARTIFACT_BYTES,
    STATES,
    TRANSITIONS,
    Proposal,
    ProposedArtifact,
    Revision,
    build_activated_payload,
    build_created_payload,
    build_proposal,
    check_applicable,
    check_proposal,
    check_safe,
    encode_artifact,
    find_unsafe_fields,
    mark_applied,
    mark_archived,
    mark_rejected,
    redact_text,
    revise,
)
from memoranda.standards.openwop.redaction import Secrets

AT = Instant(2000)
WORDS = Revision(title="Better")
KEY = "ghp_" + "a1B2" * 9


def draft(**changes: Any) -> Proposal:
    fields: dict[str, Any] = {
        "kind": "automation",
        "artifact": ARTIFACTS["automation"],
        "source_run_ids": ("run_1", "run_2"),
        "title": "Weekly report",
        "rationale": "You ask for it every Monday.",
    }
    duplicate_of = changes.pop("duplicate_of", None)
    proposed = ProposedArtifact(**{**fields, **changes})
    return build_proposal(proposed, id="prop_1", tenant="alice", created=Instant(1000), duplicate_of=duplicate_of)


ACTIONS: dict[str, Callable[[Proposal], Proposal]] = {
    "revised": lambda current: revise(current, WORDS, AT),
    "applied": lambda current: mark_applied(current, AT, installed_ref="job_1"),
    "rejected": lambda current: mark_rejected(current, AT),
    "archived": lambda current: mark_archived(current, AT),
}


@pytest.mark.requirement("WOP-1.6-proposal")
@pytest.mark.parametrize("kind", ARTIFACTS)
def test_a_draft_of_each_kind_has_the_shape_of_the_schema(kind: str) -> None:
    made = draft(kind=kind, artifact=ARTIFACTS[kind])
    assert made["state"] == "draft"
    assert made["owner"] == {"tenant": "alice"}
    assert made["provenance"] == {"sourceRunIds": ["run_1", "run_2"]}
    assert made["duplicateOf"] is None
    assert check_proposal(made) is made
    signed = {**made, "owner": {"tenant": "alice", "principal": "agent-1"}}
    signed["provenance"] = {"sourceRunIds": ["run_1"], "synthesizerModel": "rules"}
    assert check_proposal(signed) is signed


@pytest.mark.requirement("WOP-1.6-proposal")
@pytest.mark.parametrize("name", ["id", "kind", "state", "artifact", "provenance", "owner", "createdAt"])
def test_seven_fields_are_required(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        check_proposal({key: value for key, value in draft().items() if key != name})


@pytest.mark.requirement("WOP-1.6-proposal")
@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "rule"},
        {"state": "pending"},
        {"artifact": []},
        {"provenance": {}},
        {"provenance": {"sourceRunIds": [""]}},
        {"provenance": {"sourceRunIds": [], "trace": "x"}},
        {"owner": {}},
        {"owner": {"tenant": ""}},
        {"owner": {"tenant": "a", "email": "x"}},
        {"createdAt": "today"},
        {"updatedAt": 1},
        {"title": ""},
        {"rationale": None},
        {"duplicateOf": ""},
        {"activation": {}},
        {"activation": {"installedArtifactRef": "x"}},
        {"state": "applied", "activation": {"installedArtifactRef": ""}},
        {"state": "applied", "activation": {"by": "me"}},
        {"reason": "x"},
    ],
)
def test_a_proposal_that_breaks_the_schema_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        check_proposal({**draft(), **changes})


def test_an_artifact_has_a_limit() -> None:
    with pytest.raises(TooLarge):
        check_proposal({**draft(), "artifact": {"x": "x" * MAX_ARTIFACT_BYTES}})
    with pytest.raises(TooLarge):
        Revision.parse({"artifact": {"x": "x" * MAX_ARTIFACT_BYTES}})


# --- moves -------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-proposal-states")
@pytest.mark.parametrize(("before", "after"), list(itertools.product(STATES, ACTIONS)))
def test_a_proposal_moves_only_as_the_state_machine_lets_it(before: Any, after: Any) -> None:
    current = draft() if before == "draft" else ACTIONS[before](draft())
    assert current["state"] == before
    if after in TRANSITIONS[before]:
        assert ACTIONS[after](current)["state"] == after
    else:
        with pytest.raises(Conflict, match=before):
            ACTIONS[after](current)


@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=6))
def test_a_proposal_has_an_activation_only_if_it_was_applied(actions: list[str]) -> None:
    current = draft()
    for action in actions:
        try:
            current = ACTIONS[action](current)
        except Conflict:
            continue
    assert (current.get("activation") is not None) == (current["state"] == "applied")
    assert check_proposal(current)


@pytest.mark.requirement("WOP-3-proposal-no-resynthesis")
def test_what_is_installed_is_byte_for_byte_what_was_last_kept() -> None:
    artifact = {"schedule": {"cron": "0 9 * * 1"}, "workflowId": "core.report", "inputs": {"b": 1, "a": [2.50, "é"]}}
    kept = revise(draft(), Revision.parse({"artifact": artifact}), AT)
    done = mark_applied(kept, AT, installed_ref="job_1", approval_id="ap_1")
    assert encode_artifact(done) == encode_artifact(kept) == json_text.dump(artifact)
    assert done["activation"] == {"approvalId": "ap_1", "installedArtifactRef": "job_1"}


@pytest.mark.requirement("WOP-5-proposal-revise")
def test_a_revision_changes_words_or_artifact_and_never_activates() -> None:
    current = draft()
    after = revise(current, Revision.parse({"title": "Monday report"}), AT)
    assert (after["title"], after["rationale"], after["state"]) == ("Monday report", current["rationale"], "revised")
    assert after["updatedAt"] == "1970-01-01T00:00:02.000Z"
    assert current["state"] == "draft"
    refused: list[object] = [{}, {"state": "applied"}, {"title": ""}, {"artifact": []}, {"activation": {}}, None]
    for wrong in refused:
        with pytest.raises(InvalidInput):
            Revision.parse(wrong)


@pytest.mark.requirement("WOP-3-proposal-malformed")
def test_a_malformed_artifact_may_be_kept_but_not_applied() -> None:
    current = revise(draft(), Revision.parse({"artifact": {"cron": "soon"}}), AT)
    with pytest.raises(WorkflowError) as refused:
        check_applicable(current)
    assert refused.value.openwop_code == "malformed_artifact"
    assert refused.value.details == {"proposalId": "prop_1", "kind": "automation"}
    with pytest.raises(WorkflowError):
        mark_applied(current, AT, installed_ref="x")
    with pytest.raises(InvalidInput):
        draft(artifact={})


# --- events ------------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-proposal-events")
def test_its_events_say_neither_artifact_nor_words() -> None:
    done = mark_applied(draft(duplicate_of="prop_0"), AT, installed_ref="job_1")
    for kind, payload in (
        (events.PROPOSAL_CREATED, build_created_payload(done)),
        (events.PROPOSAL_ACTIVATED, build_activated_payload(done)),
    ):
        text = events.encode(events.build_event(kind, payload, "run_9", 0, AT)).decode()
        assert "Weekly" not in text
        assert "cron" not in text


# --- redaction ---------------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-3-proposal-redaction")
@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"title": f"use {KEY}"}, "title"),
        ({"rationale": f"use {KEY}"}, "rationale"),
        ({"source_run_ids": (f"run-of.{KEY}",)}, "provenance.sourceRunIds[0]"),
        ({"artifact": {**ARTIFACTS["automation"], "inputs": {"a": [{"b": KEY}]}}}, "artifact.inputs.a[0].b"),
        ({"artifact": {**ARTIFACTS["automation"], "inputs": {KEY: 1}}}, "artifact.inputs's names"),
    ],
)
def test_a_secret_is_noticed_wherever_it_stands_and_never_quoted(changes: dict[str, Any], where: str) -> None:
    made = draft(**changes)
    assert find_unsafe_fields(made) == [where]
    with pytest.raises(InvalidInput) as refused:
        check_safe(made)
    assert where in refused.value.message
    assert KEY not in refused.value.message


@pytest.mark.requirement("WOP-3-proposal-redaction")
def test_the_runs_own_secrets_are_noticed_whatever_they_look_like() -> None:
    secrets = Secrets()
    secrets.register("pw", "every Monday")
    assert find_unsafe_fields(draft(), secrets) == ["rationale"]
    assert redact_text("You ask for it every Monday.", secrets) == "You ask for it [REDACTED:pw]."
    assert redact_text(f"key {KEY}") == "key [REDACTED:detected-github-token]"
    check_safe(draft())
