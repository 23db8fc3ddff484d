"""Who may take a grain out of the present."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.published import ADDRESS, BY_ID, belief, of_type, refused

from memoranda.standards.oms import policy
from memoranda.standards.oms.policy import Decision, check, check_all, check_erasure, is_held

ALICE, BOB, CAROL, AGENT = "did:key:zAlice", "did:key:zBob", "did:key:zCarol", "did:key:zAgent"
NOW_MS = 1_800_000_000_000
NEW = belief(object="coffee")
JUSTIFIED = {**NEW, "supersession_justification": "the user said so"}


def guarded(mode: Any, **more: Any) -> dict[str, Any]:
    return belief(invalidation_policy={"mode": mode, **more})


def ask(old: dict[str, Any], new: dict[str, Any] = NEW, **who: Any) -> Decision:
    return check(old, new, **{"signer": None, "now_ms": NOW_MS, **who})


@pytest.mark.requirement("OMS-23.2-open")
def test_without_a_policy_or_with_an_open_one_anything_goes() -> None:
    for old in (belief(), guarded("open")):
        assert ask(old) == Decision(allowed=True, reason="open")


@pytest.mark.requirement("OMS-23.2-soft-locked")
def test_a_soft_lock_wants_a_justification_and_a_review() -> None:
    assert ask(guarded("soft_locked")).oms_code == "ERR_INVALIDATION_DENIED"
    assert not ask(guarded("soft_locked"), {**NEW, "supersession_justification": " "}).allowed
    decision = ask(guarded("soft_locked"), JUSTIFIED)
    assert decision.allowed
    assert decision.needs_review


@pytest.mark.requirement("OMS-23.2-locked")
def test_a_lock_opens_for_nobody_not_even_the_authorized() -> None:
    old = guarded("locked", authorized=[ALICE])
    for signer in (None, ALICE, AGENT):
        decision = ask(old, JUSTIFIED, signer=signer, valid_signers=[ALICE])
        assert not decision.allowed
        assert decision.oms_code == "ERR_INVALIDATION_DENIED"
    assert not ask(BY_ID["V6"]["input"], signer=BY_ID["V6"]["input"]["invalidation_policy"]["authorized"][0]).allowed


@pytest.mark.requirement("OMS-23.2-delegated")
def test_a_delegated_grain_wants_the_signature_of_an_authorized_did() -> None:
    old = guarded("delegated", authorized=[ALICE, BOB])
    assert ask(old, signer=ALICE).allowed
    assert not ask(old, signer=AGENT).allowed
    assert not ask(old).allowed
    assert not ask(guarded("delegated"), signer=ALICE).allowed


@pytest.mark.requirement("OMS-23.2-quorum")
def test_a_quorum_counts_distinct_authorized_signers() -> None:
    old = guarded("quorum", authorized=[ALICE, BOB], threshold=2)
    assert ask(old, valid_signers=[ALICE, BOB]).allowed
    assert not ask(old, valid_signers=[ALICE, ALICE]).allowed
    assert not ask(old, valid_signers=[ALICE, CAROL]).allowed
    assert not ask(old).allowed


@pytest.mark.requirement("OMS-23.2-quorum")
@pytest.mark.parametrize("threshold", [None, 0, -1, True, "2", 1.0])
def test_a_quorum_without_a_sound_threshold_is_never_met(threshold: Any) -> None:
    assert not ask(guarded("quorum", authorized=[ALICE], threshold=threshold), valid_signers=[ALICE]).allowed


@pytest.mark.requirement("OMS-23.8-key-separation")
def test_the_author_of_a_grain_under_quorum_cannot_release_it() -> None:
    old = {**guarded("quorum", authorized=[ALICE], threshold=1), "author_did": AGENT}
    decision = ask(old, signer=AGENT, valid_signers=[ALICE])
    assert (decision.allowed, decision.reason) == (False, "same_key")
    assert ask(old, signer=BOB, valid_signers=[ALICE]).allowed


@pytest.mark.requirement("OMS-23.2-timed")
def test_a_timed_lock_opens_into_its_fallback() -> None:
    until = NOW_MS // 1000
    old = guarded("timed", locked_until=until, fallback_mode="open")
    assert not ask(old, now_ms=NOW_MS - 1).allowed
    assert ask(old, now_ms=NOW_MS).allowed
    soft = guarded("timed", locked_until=until, fallback_mode="soft_locked")
    assert not ask(soft).allowed
    assert ask(soft, JUSTIFIED).needs_review


@pytest.mark.requirement("OMS-23.2-timed", "OMS-23.3-fail-closed")
@pytest.mark.parametrize(
    "more",
    [
        {"locked_until": 0},
        {"locked_until": 0, "fallback_mode": "timed"},
        {"locked_until": 0, "fallback_mode": "whatever"},
        {"fallback_mode": "open"},
        {"locked_until": "0", "fallback_mode": "open"},
        {"locked_until": True, "fallback_mode": "open"},
        {"locked_until": -1, "fallback_mode": "open"},
    ],
)
def test_a_timed_lock_that_does_not_say_how_it_opens_stays_locked(more: dict[str, Any]) -> None:
    assert not ask(guarded("timed", **more), JUSTIFIED, signer=ALICE).allowed


@pytest.mark.requirement("OMS-23.2-hold")
def test_a_hold_forbids_change_and_erasure() -> None:
    old = guarded("hold", authorized=[ALICE])
    assert not ask(old, JUSTIFIED, signer=ALICE, valid_signers=[ALICE]).allowed
    assert is_held(old)
    with refused("ERR_INVALIDATION_DENIED", "hold"):
        check_erasure(old).require()
    for mode in policy.MODES - {"hold"}:
        assert not is_held(guarded(mode))
        assert check_erasure(guarded(mode)).allowed
    assert not is_held(belief())


@pytest.mark.requirement("OMS-23.2-hold")
def test_a_hold_can_begin_in_time() -> None:
    old = guarded("timed", locked_until=NOW_MS // 1000, fallback_mode="hold")
    assert not is_held(old, now_ms=NOW_MS - 1)
    assert is_held(old, now_ms=NOW_MS)
    assert not ask(old, JUSTIFIED).allowed


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_what_rests_on_a_consent_can_be_superseded() -> None:
    assert ask({**guarded("consent_cascade"), "processing_basis": ADDRESS}).allowed


@pytest.mark.requirement("OMS-23.3-fail-closed")
@pytest.mark.parametrize("mode", ["wide_open", "", "OPEN", None, 5, [], {}])
def test_an_unknown_mode_is_a_lock(mode: Any) -> None:
    decision = ask(guarded(mode, authorized=[ALICE]), JUSTIFIED, signer=ALICE, valid_signers=[ALICE])
    assert (decision.allowed, decision.reason) == (False, "unknown_mode")
    with refused("ERR_INVALIDATION_DENIED"):
        decision.require()


@pytest.mark.requirement("OMS-23.3-fail-closed")
@pytest.mark.parametrize("broken", ["open", [], 5, {}])
def test_a_policy_that_is_none_is_a_lock(broken: Any) -> None:
    assert not ask(belief(invalidation_policy=broken), JUSTIFIED, signer=ALICE).allowed


@pytest.mark.requirement("OMS-8.10-soft-locked")
def test_consent_is_soft_locked_unless_it_says_otherwise() -> None:
    consent = of_type("consent")
    assert not ask(consent).allowed
    assert ask(consent, JUSTIFIED).needs_review
    assert ask({**consent, "invalidation_policy": {"mode": "open"}}).allowed


GOAL = of_type(
    "goal",
    invalidation_policy={"mode": "locked", "authorized": [ALICE]},
    allowed_transitions=["satisfied", "failed"],
)


def goal(state: str, **more: Any) -> dict[str, Any]:
    return of_type("goal", goal_state=state, **more)


@pytest.mark.requirement("OMS-23.4-transitions", "OMS-23.5-laundering")
def test_a_listed_transition_needs_no_leave_and_inherits_the_policy() -> None:
    decision = ask(GOAL, goal("satisfied", satisfaction_evidence=[ADDRESS]))
    assert decision == Decision(allowed=True, reason="allowed_transition", inherits_policy=True)


@pytest.mark.requirement("OMS-23.4-transitions")
@pytest.mark.parametrize("state", ["suspended", "active"])
def test_other_transitions_are_under_the_policy(state: str) -> None:
    assert not ask(GOAL, goal(state)).allowed
    assert not ask({**GOAL, "allowed_transitions": None}, goal("satisfied")).allowed
    listed = {**GOAL, "allowed_transitions": ["active", "suspended"]}
    assert ask(listed, goal(state)).allowed is (state == "suspended")


@pytest.mark.requirement("OMS-23.4-transitions")
def test_only_a_goal_continues_a_goal() -> None:
    assert not ask(GOAL, {**NEW, "goal_state": "satisfied"}).allowed


@pytest.mark.requirement("OMS-23.4-evidence")
def test_an_ending_wants_the_evidence_that_the_goal_requires() -> None:
    strict = {**GOAL, "evidence_required": 2}
    for evidence in (None, [], [ADDRESS], [ADDRESS, ADDRESS], ["", " "]):
        decision = ask(strict, goal("satisfied", satisfaction_evidence=evidence))
        assert decision.oms_code == "ERR_EVIDENCE_REQUIRED"
        with refused("ERR_EVIDENCE_REQUIRED"):
            decision.require()
    assert ask(strict, goal("satisfied", satisfaction_evidence=[ADDRESS, "0" * 64])).allowed
    assert ask(GOAL, goal("failed")).needs_review


@pytest.mark.requirement("OMS-23.5-laundering")
def test_what_supersedes_a_protected_goal_inherits_unless_it_was_authorized() -> None:
    soft = of_type("goal", invalidation_policy={"mode": "soft_locked"})
    assert ask(soft, {**goal("active"), "supersession_justification": "x"}).inherits_policy
    delegated = of_type("goal", invalidation_policy={"mode": "delegated", "authorized": [ALICE]})
    assert not ask(delegated, goal("active"), signer=ALICE).inherits_policy


@pytest.mark.requirement("OMS-23.2-hold")
def test_a_goal_on_hold_has_no_transitions() -> None:
    held = {**GOAL, "invalidation_policy": {"mode": "hold"}}
    assert not ask(held, goal("satisfied", satisfaction_evidence=[ADDRESS])).allowed


@pytest.mark.requirement("OMS-23.6-subtree", "OMS-23.7-bypass-3")
@pytest.mark.parametrize(("hops", "protects"), [(0, False), (1, True), (16, True), (17, False)])
def test_a_protected_ancestor_protects_for_sixteen_hops(hops: int, protects: bool) -> None:
    for scope in ("grain", "subtree"):
        ancestor = guarded("locked", scope=scope)
        decision = check_all(belief(), NEW, ancestors=[(hops, ancestor)], signer=AGENT, now_ms=NOW_MS)
        assert decision.allowed is not protects
    assert check_all(belief(), NEW, ancestors=[(hops, belief())], signer=AGENT, now_ms=NOW_MS).allowed


@pytest.mark.requirement("OMS-23.6-lineage")
def test_a_lineage_policy_covers_the_whole_chain() -> None:
    for scope, allowed in (("lineage", False), ("grain", True)):
        first = guarded("locked", scope=scope)
        assert check_all(belief(), NEW, lineage=[first], signer=AGENT, now_ms=NOW_MS).allowed is allowed


@pytest.mark.requirement("OMS-23.6-subtree")
def test_what_ancestors_ask_for_adds_up() -> None:
    ancestor = guarded("soft_locked")
    decision = check_all(belief(), JUSTIFIED, ancestors=[(1, ancestor)], signer=None, now_ms=NOW_MS)
    assert decision.allowed
    assert decision.needs_review
    denied = check_all(guarded("locked"), JUSTIFIED, ancestors=[(1, ancestor)], signer=None, now_ms=NOW_MS)
    assert not denied.allowed


DIDS = st.sampled_from([ALICE, BOB, CAROL, AGENT])
JUNK = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(DIDS, max_size=3)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(sorted(policy.MODES)) | JUNK,
        "authorized": st.lists(DIDS, max_size=3) | JUNK,
        "threshold": st.integers(-1, 3) | JUNK,
        "locked_until": st.integers(0, 2 * NOW_MS // 1000) | JUNK,
        "fallback_mode": st.sampled_from(sorted(policy.MODES)) | JUNK,
        "scope": st.sampled_from(("grain", "subtree", "lineage")) | JUNK,
    },
)
OLD = st.builds(
    lambda kind, rules, more: {**of_type(kind), "invalidation_policy": rules, **more},
    st.sampled_from(["belief", "goal", "consent"]),
    POLICIES | JUNK,
    st.fixed_dictionaries({}, optional={"allowed_transitions": JUNK, "evidence_required": JUNK, "author_did": DIDS}),
)
NEWS = st.builds(
    lambda kind, more: {**of_type(kind), **more},
    st.sampled_from(["belief", "goal"]),
    st.fixed_dictionaries(
        {},
        optional={
            "goal_state": st.sampled_from(["active", "satisfied", "failed", "suspended"]),
            "supersession_justification": JUNK,
            "satisfaction_evidence": JUNK,
        },
    ),
)


@pytest.mark.requirement("OMS-23.3-fail-closed", "OMS-23.2-locked", "OMS-23.2-hold")
@given(OLD, NEWS, st.none() | DIDS, st.lists(DIDS, max_size=4), st.integers(0, 2 * NOW_MS))
def test_no_policy_however_broken_lets_through_what_it_should_not(
    old: dict[str, Any], new: dict[str, Any], signer: str | None, signers: list[str], now_ms: int
) -> None:
    decision = check(old, new, signer=signer, valid_signers=signers, now_ms=now_ms)
    mode, _ = policy.effective_mode(old, now_ms=now_ms)
    assert mode in policy.MODES - {"timed"}
    assert (decision.oms_code is None) is decision.allowed
    if mode == "hold":
        assert not decision.allowed
        assert is_held(old, now_ms=now_ms)
    if mode == "locked" and decision.allowed:
        assert decision.reason == "allowed_transition"
        assert old["type"] == new["type"] == "goal"
        assert decision.inherits_policy
    if mode == "quorum" and decision.allowed and decision.reason == "quorum":
        rules = old["invalidation_policy"]
        assert len({*signers} & {*rules["authorized"]}) >= rules["threshold"] >= 1
    if mode == "delegated" and decision.reason == "delegated":
        assert signer in old["invalidation_policy"]["authorized"]
    if mode == "soft_locked" and decision.allowed and decision.reason == "soft_locked":
        assert decision.needs_review
