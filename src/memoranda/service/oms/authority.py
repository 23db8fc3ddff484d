"""What a grain may not claim, by what is in the store: a goal that waits for others, ownership, an ended delegation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from memoranda.errors import GrainError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version, is_over
from memoranda.model.selection import Selection
from memoranda.service.core.protection import read_policy_fields
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.policy import DENIED
from memoranda.storage.engine.contract import Snapshot

Fields = Mapping[str, Any]
OWNED_BY: Final = "mg:owned_by"
DELEGATES_TO: Final = "mg:delegates_to"
# By agent: when what was delegated to it ends.
Ends = dict[str, list[object]]
# The type of a belief has two names (OMS 1.3 and 1.4).
BELIEFS: Final = ("belief", "fact")
# Records of one agent that are looked at.
_LIMIT: Final = 100


def check(
    snapshot: Snapshot,
    fields: Fields,
    signer: str | None,
    *,
    now: Instant,
    prior: Version | None = None,
    made: Instant | None = None,
    is_superseded: bool = False,
    ends: Ends | None = None,
) -> None:
    """Raise GrainError for a grain that its author may not write.

    `made`: it comes from a file, and its author must have been allowed to write it then.
    `prior` is what it replaces, under the policy of that; `is_superseded`: it is a thing of the past already.
    `ends` are those of the delegations that were looked up for others of a batch.
    """
    authors = {name for name in (fields.get("author_did"), signer) if isinstance(name, str)}
    if fields.get("relation") == OWNED_BY and fields.get("type") in BELIEFS:
        _check_ownership(fields, authors)
        if not is_superseded:
            _check_rivals(snapshot, fields, prior, now)
    for author in authors - {snapshot.tenant}:
        found = {} if ends is None else ends
        if author not in found:
            found[author] = _delegation_ends(snapshot, author, now)
        if _are_over(found[author], now if made is None else min(made, now)):
            raise GrainError(
                f"the delegation to {author} has ended (delegation_expiry)", oms_code=DENIED
            )


def _check_ownership(fields: Fields, authors: set[str]) -> None:
    # OMS §12.5: an agent cannot say itself whose it is, and only its owner may say otherwise later.
    if fields.get("subject") in authors:
        raise GrainError(
            f"{OWNED_BY}: an agent cannot be the author of its own ownership", oms_code="ERR_SCHEMA"
        )
    owner = fields.get("owner")
    allowed = _mode_and_authorized(fields)[1]
    did = owner.get("did") if isinstance(owner, Mapping) else None
    if not allowed or (did is not None and list(allowed) != [did]):
        raise GrainError(
            f"{OWNED_BY}: its invalidation_policy must name the owner alone", oms_code="ERR_SCHEMA"
        )


def _check_rivals(snapshot: Snapshot, fields: Fields, prior: Version | None, now: Instant) -> None:
    # OMS §12.5: of several records the protected one counts, and a claim against it is at most an observation.
    asked = Selection(subject=str(fields.get("subject")), relation=OWNED_BY)
    found = snapshot.load_page(asked, limit=_LIMIT, now=now)
    for version in snapshot.load_versions([each.version_id for each in found]) if found else ():
        known = read_policy_fields(version)
        if (prior is not None and version.memory_id == prior.memory_id) or known.get(
            "type"
        ) not in BELIEFS:
            continue
        if _mode_and_authorized(known)[0] != "open" and _owner(known) != _owner(fields):
            raise GrainError(
                f"{OWNED_BY}: {version.document.name} says whose agent it is; its owner may supersede that, "
                "and what others say is an observation",
                oms_code=DENIED,
            )


def _mode_and_authorized(fields: Fields) -> tuple[str, Sequence[str]]:
    policy = fields.get("invalidation_policy")
    if not isinstance(policy, Mapping) or policy.get("mode") == "open":
        return "open", ()
    return str(policy.get("mode")), policy.get("authorized") or ()


def _owner(fields: Fields) -> tuple[object, ...]:
    return fields.get("object"), *_mode_and_authorized(fields)[1]


def _delegation_ends(snapshot: Snapshot, agent: str, now: Instant) -> list[object]:
    """When each delegation to an agent ends."""
    asked = Selection(relation=DELEGATES_TO, object=agent)
    found = snapshot.load_page(asked, limit=_LIMIT, now=now)
    versions = snapshot.load_versions([each.version_id for each in found]) if found else []
    return [read_policy_fields(version).get("delegation_expiry") for version in versions]


def _are_over(ends: list[object], at: Instant) -> bool:
    """Whether something was delegated, and at this instant no delegation held any more (OMS §6.11)."""
    return bool(ends) and all(isinstance(end, int) and end <= at for end in ends)


def unmet(snapshot: Snapshot, fields: Fields, now: Instant) -> Iterator[str]:
    """The goals that an active goal still waits for: it MUST NOT become active before (OMS §8.7)."""
    if fields.get("goal_state") != "active":
        return
    for goal in fields.get("depends_on") or ():
        named = snapshot.find_by_name(oms.STANDARD, str(goal).removeprefix(oms.ADDRESS_PREFIX))
        head = None if named is None else snapshot.load_newest(named.memory_id)
        if (
            head is None
            or is_over(head.state, now)
            or read_policy_fields(head).get("goal_state") != "satisfied"
        ):
            yield str(goal)


def check_activation(snapshot: Snapshot, old: Fields, new: Fields, now: Instant) -> None:
    """Raise GrainError if a goal becomes active that waits for others."""
    if old.get("goal_state") != "active" and (waiting := next(unmet(snapshot, new, now), None)):
        raise GrainError(
            f"goal_state: the goal depends on {waiting}, which is not satisfied", oms_code=DENIED
        )
