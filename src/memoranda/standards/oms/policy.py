"""Who may take a grain out of the present (section 23): decisions, without a store.

A policy is part of the immutable grain. It guards supersession and contradiction alike; a hold guards erasure too.
The caller verifies signatures and says who signed; the caller walks derivations and supersession chains and brings the
grains it met. Whatever is unknown or malformed protects: an unknown mode, a missing threshold, a time without fallback.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import GrainError
from memoranda.standards.oms.registry import BY_NAME

Fields = Mapping[str, Any]

DENIED: Final = "ERR_INVALIDATION_DENIED"
EVIDENCE_REQUIRED: Final = "ERR_EVIDENCE_REQUIRED"
MODES: Final = frozenset("open soft_locked locked quorum delegated timed hold consent_cascade".split())
# Sections 23.6 and 23.7: how far up a derivation is walked.
MAX_HOPS: Final = 16

_GOAL_BYTE: Final = 0x07
_CONSENT_BYTE: Final = 0x0A
# Section 23.5: natural ends of a goal, and so what an agent would claim falsely.
_ENDINGS: Final = ("satisfied", "failed")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a change is allowed, why, and what follows from it."""

    allowed: bool
    # A word for logs and tests: the mode, or what was missing.
    reason: str
    # The code of section 19.3 when it is not allowed.
    oms_code: str | None = None
    # A human is to look at the change (mode soft_locked; a goal that ended without evidence).
    needs_review: bool = False
    # The new grain stands under the old one's policy (section 23.5).
    inherits_policy: bool = False

    def require(self) -> None:
        """Raise GrainError if the change is not allowed."""
        if not self.allowed:
            raise GrainError(_MESSAGES[self.reason], oms_code=self.oms_code or DENIED)


_MESSAGES: Final = {
    "locked": "the grain is locked and cannot be superseded or contradicted",
    "unknown_mode": "the grain has a policy that this store does not know, so it is locked",
    "hold": "the grain is on hold and cannot be superseded, contradicted or erased",
    "not_yet": "the grain is locked until a time that has not come",
    "no_justification": "the grain is soft-locked: the new one must carry supersession_justification",
    "not_authorized": "the grain can only be superseded under the signature of an authorized DID",
    "no_quorum": "the grain can only be superseded with enough valid signatures of authorized DIDs",
    "same_key": "the grain's own author cannot release it: agent and owner must have different keys",
    "no_evidence": "the goal can only end with the evidence that it requires",
}


def check(
    old: Fields,
    new: Fields,
    *,
    signer: str | None,
    valid_signers: Collection[str] = (),
    now_ms: int,
) -> Decision:
    """Decide whether `new` may supersede or contradict `old`.

    `signer` is the DID whose COSE signature on `new` verified; `valid_signers` those whose signatures in its
    `supersession_auth` verified.
    """
    mode, reason = effective_mode(old, now_ms=now_ms)
    if mode not in ("open", "hold") and _is_allowed_transition(old, new):
        return _transition(old, new)
    if mode == "open":
        return Decision(allowed=True, reason="open")
    if mode in ("locked", "hold"):
        # An `authorized` list beside `locked` (section 12.5) opens nothing: `delegated` is the mode for that.
        return _denied(reason)
    policy = _policy(old)
    if mode == "delegated":
        return _granted("delegated") if signer in _authorized(policy) else _denied("not_authorized")
    if mode == "quorum":
        return _quorum(old, policy, signer, valid_signers)
    # Section 23.5: what supersedes a protected goal inherits its policy unless explicitly authorized under it.
    inherits = _is_goal(old)
    if mode == "consent_cascade":
        return Decision(allowed=True, reason=mode, inherits_policy=inherits)
    if not _is_filled(new.get("supersession_justification")):
        return _denied("no_justification")
    return Decision(allowed=True, reason="soft_locked", needs_review=True, inherits_policy=inherits)


def check_all(
    old: Fields,
    new: Fields,
    *,
    lineage: Iterable[Fields] = (),
    ancestors: Iterable[tuple[int, Fields]] = (),
    signer: str | None,
    valid_signers: Collection[str] = (),
    now_ms: int,
) -> Decision:
    """Decide with everything that may protect: the grain, its supersession chain, and what `new` derives from.

    `lineage` are the other grains of the chain of `old`; `ancestors` are (hops, fields) along `derived_from` of `new`.
    """

    def ask(protected: Fields) -> Decision:
        return check(protected, new, signer=signer, valid_signers=valid_signers, now_ms=now_ms)

    decision = ask(old)
    protecting = [grain for grain in lineage if protects_lineage(grain)]
    protecting += [grain for hops, grain in ancestors if protects_descendants(grain, hops=hops)]
    for grain in protecting:
        if not decision.allowed:
            break
        found = ask(grain)
        decision = found if not found.allowed else _merged(decision, found)
    return decision


def effective_mode(fields: Fields, *, now_ms: int) -> tuple[str, str]:
    """The mode in force now, never `timed` and never unknown, and the reason to give if it denies."""
    policy = _policy(fields)
    if policy is None:
        # Section 8.10 over 23.3: consent is soft-locked by default, all else open.
        return ("soft_locked", "soft_locked") if _is_type(fields, _CONSENT_BYTE) else ("open", "open")
    mode = policy.get("mode")
    if mode == "timed":
        until = _count(policy.get("locked_until"))
        # Section 23.2: locked_until counts seconds.
        if until is None or now_ms < until * 1000:
            return "locked", "not_yet"
        mode = policy.get("fallback_mode", "locked")
        if mode == "timed":
            return "locked", "locked"
    # Section 23.3: unknown modes MUST be treated as locked.
    return (mode, mode) if isinstance(mode, str) and mode in MODES else ("locked", "unknown_mode")


def is_held(fields: Fields, *, now_ms: int | None = None) -> bool:
    """Whether the grain must not be erased either. One that falls back to hold in time needs `now_ms`."""
    policy = _policy(fields)
    if policy is None:
        return False
    if policy.get("mode") == "timed" and now_ms is not None:
        return effective_mode(fields, now_ms=now_ms)[0] == "hold"
    return policy.get("mode") == "hold"


def check_erasure(fields: Fields, *, now_ms: int | None = None) -> Decision:
    """Decide whether the grain may be erased: only a hold forbids it (section 23.2)."""
    return _denied("hold") if is_held(fields, now_ms=now_ms) else Decision(allowed=True, reason="not_held")


def protects_lineage(fields: Fields) -> bool:
    """Whether the policy covers every grain of the supersession chain (section 23.6)."""
    policy = _policy(fields)
    return policy is not None and policy.get("scope") == "lineage"


def protects_descendants(fields: Fields, *, hops: int) -> bool:
    """Whether the policy is to be asked for a grain that derives from this one over so many hops.

    Section 23.6 limits that to scope `subtree`; section 23.7 (bypass 3) says that ANY protected ancestor within 16 hops
    rejects. The stricter sentence is a MUST, so scope `grain` is asked as well.
    """
    return 1 <= hops <= MAX_HOPS and _policy(fields) is not None


def _is_allowed_transition(old: Fields, new: Fields) -> bool:
    # Section 23.4: listed transitions are the goal's own life, not an attack on it.
    if not (_is_goal(old) and _is_goal(new)):
        return False
    state, allowed = new.get("goal_state"), old.get("allowed_transitions")
    return isinstance(allowed, list) and state in allowed and state != old.get("goal_state")


def _transition(old: Fields, new: Fields) -> Decision:
    given = new.get("satisfaction_evidence")
    evidence = {item for item in given if _is_filled(item)} if isinstance(given, list) else set()
    required = _count(old.get("evidence_required", 0))
    is_ending = new.get("goal_state") in _ENDINGS
    if is_ending and (required is None or len(evidence) < required):
        return Decision(allowed=False, reason="no_evidence", oms_code=EVIDENCE_REQUIRED)
    # Section 23.5: an ending SHOULD have evidence even where no number is required.
    return Decision(
        allowed=True, reason="allowed_transition", needs_review=is_ending and not evidence, inherits_policy=True
    )


def _quorum(old: Fields, policy: Fields | None, signer: str | None, valid_signers: Collection[str]) -> Decision:
    if signer is not None and signer == old.get("author_did"):
        # Section 23.8: no supersession proof from the DID that wrote the grain.
        return _denied("same_key")
    threshold = _count(policy.get("threshold")) if policy is not None else None
    agreeing = _authorized(policy).intersection(valid_signers)
    if not threshold or len(agreeing) < threshold:
        return _denied("no_quorum")
    return _granted("quorum")


def _granted(reason: str) -> Decision:
    return Decision(allowed=True, reason=reason)


def _denied(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason, oms_code=DENIED)


def _merged(first: Decision, second: Decision) -> Decision:
    return replace(
        first,
        needs_review=first.needs_review or second.needs_review,
        inherits_policy=first.inherits_policy or second.inherits_policy,
    )


def _policy(fields: Fields) -> Fields | None:
    policy = fields.get("invalidation_policy")
    # Something that is no policy is one of unknown mode.
    return policy if policy is None or isinstance(policy, Mapping) else {}


def _authorized(policy: Fields | None) -> frozenset[str]:
    listed = policy.get("authorized") if policy is not None else None
    return frozenset(did for did in listed if _is_filled(did)) if isinstance(listed, list) else frozenset()


def _is_type(fields: Fields, byte: int) -> bool:
    name = fields.get("type")
    return isinstance(name, str) and name in BY_NAME and BY_NAME[name].byte == byte


def _is_goal(fields: Fields) -> bool:
    return _is_type(fields, _GOAL_BYTE)


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
