"""The protection of grains against supersession, contradiction and erasure (section 23): decisions without a store.

A policy is part of the immutable grain. It protects against supersession and contradiction alike; a hold also protects
against erasure. The caller verifies signatures and passes the signers, and walks derivations and supersession chains
and passes the grains on them. Anything unknown or malformed protects: an unknown mode, a missing threshold, a time
without fallback.

Decisions are closed: everything that is not clearly allowed is denied, with the reason for the person. The store-side
part, which collects grains and signers, is `service/core/protection.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import GrainError
from memoranda.model.oms_names import DENIED
from memoranda.standards.oms.registry import BY_NAME

Fields = Mapping[str, object]

EVIDENCE_REQUIRED: Final = "ERR_EVIDENCE_REQUIRED"
MODES: Final = frozenset(
    "open soft_locked locked quorum delegated timed hold consent_cascade".split()
)
# Sections 23.6 and 23.7: derivation steps (hops) over which a policy protects.
MAX_HOPS: Final = 16

_GOAL_BYTE: Final = 0x07
_CONSENT_BYTE: Final = 0x0A
# Section 23.5: states that end a goal, and that an agent could claim falsely.
_END_STATES: Final = ("satisfied", "failed")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on a change: allowed or not, the reason, and the consequences."""

    allowed: bool
    # A keyword for logs and tests: the mode, or the missing condition.
    reason: str
    # The error code of section 19.3 if the change is not allowed.
    oms_code: str | None = None
    # A person should review the change (mode soft_locked, or a goal that ended without evidence).
    needs_review: bool = False
    # The new grain inherits the policy of the old one (section 23.5).
    inherits_policy: bool = False

    def require(self) -> None:
        """Raise GrainError if the change is not allowed."""
        if not self.allowed:
            raise GrainError(_MESSAGES[self.reason], oms_code=self.oms_code or DENIED)


_MESSAGES: Final = {
    "locked": "the grain is locked and cannot be superseded or contradicted",
    "unknown_mode": "the grain has a policy that this store does not know, so it is locked",
    "hold": "the grain is on hold and cannot be superseded, contradicted or erased",
    "not_yet": "the grain is locked until a time in the future",
    "no_justification": "the grain is soft-locked: the new one must carry supersession_justification",
    "not_authorized": "the grain can only be superseded under the signature of an authorized DID",
    "no_quorum": "the grain can only be superseded with enough valid signatures of authorized DIDs",
    "same_key": "the grain's own author cannot release it: agent and owner must have different keys",
    "no_evidence": "the goal can only end with the number of evidence entries that it requires",
}


def check(
    old_fields: Fields,
    new_fields: Fields,
    *,
    signer: str | None,
    valid_signers: Collection[str] = (),
    now_ms: int,
) -> Decision:
    """Decide whether `new` may supersede or contradict `old`.

    `signer` is the DID whose COSE signature on `new` was verified. `valid_signers` are the DIDs whose signatures in its
    `supersession_auth` were verified.

    `now_ms` is needed only for timed policies; without it they count as in force.
    """
    mode, reason = effective_mode(old_fields, now_ms=now_ms)
    if mode not in ("open", "hold") and _is_allowed_transition(old_fields, new_fields):
        return _decide_transition(old_fields, new_fields)
    if mode == "open":
        return Decision(allowed=True, reason="open")
    if mode in ("locked", "hold"):
        # The field `authorized` (section 12.5) has no effect in mode `locked`; the mode `delegated` is for that.
        return _deny(reason)
    policy = _policy_of(old_fields)
    if mode == "delegated":
        return (
            _allow("delegated") if signer in _authorized_dids(policy) else _deny("not_authorized")
        )
    if mode == "quorum":
        return _decide_quorum(old_fields, policy, signer, valid_signers)
    # Section 23.5: the successor of a protected goal inherits its policy unless explicitly authorized under it.
    inherits = _is_goal(old_fields)
    if mode == "consent_cascade":
        return Decision(allowed=True, reason=mode, inherits_policy=inherits)
    if not _is_filled(new_fields.get("supersession_justification")):
        return _deny("no_justification")
    return Decision(allowed=True, reason="soft_locked", needs_review=True, inherits_policy=inherits)


def check_all(
    old_fields: Fields,
    new_fields: Fields,
    *,
    lineage: Iterable[Fields] = (),
    ancestors: Iterable[tuple[int, Fields]] = (),
    signer: str | None,
    valid_signers: Collection[str] = (),
    now_ms: int,
) -> Decision:
    """Decide with all policies that may protect: those of the grain, its supersession chain, and ancestors of `new`.

    `lineage` are the other grains in the chain of `old`. `ancestors` are pairs (hops, fields) along `derived_from` of
    `new`.
    """

    def decide(protected: Fields) -> Decision:
        """Decide by the policy of one grain."""
        return check(
            protected, new_fields, signer=signer, valid_signers=valid_signers, now_ms=now_ms
        )

    decision = decide(old_fields)
    protecting = [grain for grain in lineage if protects_lineage(grain)]
    protecting += [grain for hops, grain in ancestors if protects_descendants(grain, hops=hops)]
    for grain in protecting:
        if not decision.allowed:
            break
        next_decision = decide(grain)
        decision = next_decision if not next_decision.allowed else _merge(decision, next_decision)
    return decision


def effective_mode(fields: Fields, *, now_ms: int) -> tuple[str, str]:
    """Return the mode in force now and the reason for a denial. The mode is never `timed` and never unknown."""
    policy = _policy_of(fields)
    if policy is None:
        # Section 8.10 over 23.3: consent is soft-locked by default, all else open.
        return (
            ("soft_locked", "soft_locked") if _is_type(fields, _CONSENT_BYTE) else ("open", "open")
        )
    mode = policy.get("mode")
    if mode == "timed":
        until = _as_count(policy.get("locked_until"))
        # Section 23.2: locked_until counts seconds.
        if until is None or now_ms < until * 1000:
            return "locked", "not_yet"
        mode = policy.get("fallback_mode", "locked")
        if mode == "timed":
            return "locked", "locked"
    # Section 23.3: unknown modes MUST be treated as locked.
    return (mode, mode) if isinstance(mode, str) and mode in MODES else ("locked", "unknown_mode")


def is_held(fields: Fields, *, now_ms: int | None = None) -> bool:
    """Return True if the grain must not even be erased. `now_ms` is needed if a timed policy falls back to hold."""
    policy = _policy_of(fields)
    if policy is None:
        return False
    if policy.get("mode") == "timed" and now_ms is not None:
        return effective_mode(fields, now_ms=now_ms)[0] == "hold"
    return policy.get("mode") == "hold"


def check_erasure(fields: Fields, *, now_ms: int | None = None) -> Decision:
    """Decide whether the grain may be erased: only a hold forbids it (section 23.2)."""
    return (
        _deny("hold")
        if is_held(fields, now_ms=now_ms)
        else Decision(allowed=True, reason="not_held")
    )


def protects_lineage(fields: Fields) -> bool:
    """Return True if the policy covers every grain of the supersession chain (section 23.6)."""
    policy = _policy_of(fields)
    return policy is not None and policy.get("scope") == "lineage"


def protects_descendants(fields: Fields, *, hops: int) -> bool:
    """Return True if the policy applies to a grain derived from this one over this many hops.

    Section 23.6 limits that to scope `subtree`; section 23.7 (bypass 3) says that ANY protected ancestor within 16 hops
    rejects. The stricter sentence is a MUST, so scope `grain` applies as well.
    """
    return 1 <= hops <= MAX_HOPS and _policy_of(fields) is not None


def _is_allowed_transition(old_fields: Fields, new_fields: Fields) -> bool:
    """Return True if the goal moves to one of its allowed transitions."""
    # Section 23.4: listed transitions are regular changes of state, not attacks on the goal.
    if not (_is_goal(old_fields) and _is_goal(new_fields)):
        return False
    state, allowed = new_fields.get("goal_state"), old_fields.get("allowed_transitions")
    return isinstance(allowed, list) and state in allowed and state != old_fields.get("goal_state")


def _decide_transition(old_fields: Fields, new_fields: Fields) -> Decision:
    """Decide on an allowed transition of a goal: an end needs the required evidence."""
    entries = new_fields.get("satisfaction_evidence")
    evidence = (
        {entry for entry in entries if _is_filled(entry)} if isinstance(entries, list) else set()
    )
    required = _as_count(old_fields.get("evidence_required", 0))
    is_ending = new_fields.get("goal_state") in _END_STATES
    if is_ending and (required is None or len(evidence) < required):
        return Decision(allowed=False, reason="no_evidence", oms_code=EVIDENCE_REQUIRED)
    # Section 23.5: an end SHOULD have evidence even if no number is required.
    return Decision(
        allowed=True,
        reason="allowed_transition",
        needs_review=is_ending and not evidence,
        inherits_policy=True,
    )


def _decide_quorum(
    old_fields: Fields, policy: Fields | None, signer: str | None, valid_signers: Collection[str]
) -> Decision:
    """Decide in mode quorum: enough authorized DIDs must have signed, and the author must not."""
    if signer is not None and signer == old_fields.get("author_did"):
        # Section 23.8: a supersession proof must not come from the DID that wrote the grain.
        return _deny("same_key")
    threshold = _as_count(policy.get("threshold")) if policy is not None else None
    endorsers = _authorized_dids(policy).intersection(valid_signers)
    if not threshold or len(endorsers) < threshold:
        return _deny("no_quorum")
    return _allow("quorum")


def _allow(reason: str) -> Decision:
    """Return a decision that allows the change."""
    return Decision(allowed=True, reason=reason)


def _deny(reason: str) -> Decision:
    """Return a decision that denies the change."""
    return Decision(allowed=False, reason=reason, oms_code=DENIED)


def _merge(first: Decision, second: Decision) -> Decision:
    """Combine two decisions that both allow the change."""
    return replace(
        first,
        needs_review=first.needs_review or second.needs_review,
        inherits_policy=first.inherits_policy or second.inherits_policy,
    )


def _policy_of(fields: Fields) -> Fields | None:
    """Return the grain's policy, or None without one."""
    policy = fields.get("invalidation_policy")
    # A malformed policy counts as one with an unknown mode.
    return policy if policy is None or isinstance(policy, Mapping) else {}


def _authorized_dids(policy: Fields | None) -> frozenset[str]:
    """Return the DIDs that the policy authorizes."""
    dids = policy.get("authorized") if policy is not None else None
    return (
        frozenset(did for did in dids if _is_filled(did)) if isinstance(dids, list) else frozenset()
    )


def _is_type(fields: Fields, byte: int) -> bool:
    """Return True if the grain has this standard type."""
    name = fields.get("type")
    return isinstance(name, str) and name in BY_NAME and BY_NAME[name].byte == byte


def _is_goal(fields: Fields) -> bool:
    return _is_type(fields, _GOAL_BYTE)


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _as_count(value: object) -> int | None:
    """Return the value if it is a non-negative integer, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
