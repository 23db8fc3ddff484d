"""What a grain may not claim, by what is in the store: a goal that waits for others, ownership, an ended delegation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memoranda.errors import GrainError
from memoranda.model.instant import Instant
from memoranda.model.memory import is_over
from memoranda.model.selection import Selection
from memoranda.service.core.protection import policy_fields
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.policy import DENIED
from memoranda.storage.engine import Snapshot

Fields = Mapping[str, Any]
_DELEGATIONS_LIMIT = 100


def check(snapshot: Snapshot, fields: Fields, signer: str | None, *, now: Instant) -> None:
    """Raise GrainError for a grain that its author may not write."""
    authors = {name for name in (fields.get("author_did"), signer) if isinstance(name, str)}
    if fields.get("relation") == "mg:owned_by":
        _check_ownership(fields, authors)
    for author in authors - {snapshot.tenant}:
        if _is_delegation_over(snapshot, author, now):
            raise GrainError(f"the delegation to {author} has ended (delegation_expiry)", oms_code=DENIED)


def _check_ownership(fields: Fields, authors: set[str]) -> None:
    # OMS §12.5: an agent cannot say itself whose it is, and only its owner may say otherwise later.
    if fields.get("subject") in authors:
        raise GrainError("mg:owned_by: an agent cannot be the author of its own ownership", oms_code="ERR_SCHEMA")
    policy, owner = fields.get("invalidation_policy"), fields.get("owner")
    allowed = policy.get("authorized") if isinstance(policy, Mapping) and policy.get("mode") != "open" else None
    did = owner.get("did") if isinstance(owner, Mapping) else None
    if not allowed or (did is not None and list(allowed) != [did]):
        raise GrainError("mg:owned_by: its invalidation_policy must name the owner alone", oms_code="ERR_SCHEMA")


def _is_delegation_over(snapshot: Snapshot, agent: str, now: Instant) -> bool:
    """Whether an agent was delegated to, and no delegation holds any more (OMS §6.11)."""
    asked = Selection(relation="mg:delegates_to", object=agent)
    found = snapshot.page(asked, limit=_DELEGATIONS_LIMIT, now=now)
    versions = snapshot.versions([each.version_id for each in found]) if found else []
    ends = [policy_fields(version).get("delegation_expiry") for version in versions]
    return bool(ends) and all(isinstance(end, int) and end <= now for end in ends)


def unmet(snapshot: Snapshot, fields: Fields, now: Instant) -> Iterator[str]:
    """The goals that an active goal still waits for: it MUST NOT become active before (OMS §8.7)."""
    if fields.get("goal_state") != "active":
        return
    for goal in fields.get("depends_on") or ():
        named = snapshot.named(oms.STANDARD, str(goal).removeprefix(oms.ADDRESS_PREFIX))
        head = None if named is None else snapshot.history(named.memory_id)[-1]
        if head is None or is_over(head.state, now) or policy_fields(head).get("goal_state") != "satisfied":
            yield str(goal)


def check_activation(snapshot: Snapshot, old: Fields, new: Fields, now: Instant) -> None:
    """Raise GrainError if a goal becomes active that waits for others."""
    if old.get("goal_state") != "active" and (waiting := next(unmet(snapshot, new, now), None)):
        raise GrainError(f"goal_state: the goal depends on {waiting}, which is not satisfied", oms_code=DENIED)
