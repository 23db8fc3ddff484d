"""Checks of a grain against the store: ownership of agents, ended delegations, and goals that wait for others.

`check` runs in the unit of work that writes a grain, because each rule depends on other grains of the store: a record
of an agent's ownership must not contradict a protected one, an author must not write after all delegations to it have
ended, and a goal must not become active before the goals that it depends on are satisfied (`check_activation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from memoranda.errors import GrainError
from memoranda.model.instant import Instant
from memoranda.model.memory import Version, is_over
from memoranda.model.oms_names import ADDRESS_PREFIX, DENIED
from memoranda.model.selection import Selection
from memoranda.service.core.protection import read_policy_fields
from memoranda.standards.oms import mapping as oms
from memoranda.storage.engine.contract import Snapshot

Fields = Mapping[str, Any]
OWNED_BY: Final = "mg:owned_by"
DELEGATES_TO: Final = "mg:delegates_to"
# The ends of the delegations to each agent.
DelegationEnds = dict[str, list[object]]
# The type of a belief has two names (OMS 1.3 and 1.4).
BELIEFS: Final = ("belief", "fact")
# Records of one agent that are checked; an agent has a handful.
_LIMIT: Final = 100


class ImportedGrain(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a grain of a file that its authority depends on."""

    # The delegation must have been valid at this instant, not now.
    written_at: Instant
    # True if a later grain of the file supersedes it: then rivals do not matter.
    is_superseded: bool
    # A cache of delegations, shared by the grains of a batch.
    known_ends: DelegationEnds


def check(
    snapshot: Snapshot,
    fields: Fields,
    signer: str | None,
    *,
    now: Instant,
    prior: Version | None = None,
    imported: ImportedGrain | None = None,
) -> None:
    """Raise GrainError for a grain that its author may not write. `prior` is the version that it replaces."""
    is_superseded = imported is not None and imported.is_superseded
    ends_by_author = {} if imported is None else imported.known_ends
    acted_at = now if imported is None else min(imported.written_at, now)
    authors = {name for name in (fields.get("author_did"), signer) if isinstance(name, str)}
    if fields.get("relation") == OWNED_BY and fields.get("type") in BELIEFS:
        _check_ownership(fields, authors)
        if not is_superseded:
            _check_rivals(snapshot, fields, prior, now)
    for author in authors - {snapshot.tenant}:
        if author not in ends_by_author:
            ends_by_author[author] = _delegation_ends(snapshot, author, now)
        if _have_all_ended(ends_by_author[author], acted_at):
            raise GrainError(
                f"the delegation to {author} has ended (delegation_expiry)", oms_code=DENIED
            )


def _check_ownership(fields: Fields, authors: set[str]) -> None:
    """Raise GrainError unless a record of ownership is protected by its owner, and not written by the agent."""
    # OMS §12.5: an agent cannot state its own owner, and only the owner may change that.
    if fields.get("subject") in authors:
        raise GrainError(
            f"{OWNED_BY}: an agent cannot be the author of its own ownership", oms_code="ERR_SCHEMA"
        )
    owner = fields.get("owner")
    authorized = _mode_and_authorized(fields)[1]
    did = owner.get("did") if isinstance(owner, Mapping) else None
    if not authorized or (did is not None and list(authorized) != [did]):
        raise GrainError(
            f"{OWNED_BY}: its invalidation_policy must name the owner alone", oms_code="ERR_SCHEMA"
        )


def _check_rivals(snapshot: Snapshot, fields: Fields, prior: Version | None, now: Instant) -> None:
    """Raise GrainError if a protected record names another owner of the agent."""
    # OMS §12.5: the protected record counts; a claim against it is at most an observation.
    selection = Selection(subject=str(fields.get("subject")), relation=OWNED_BY)
    hits = snapshot.load_page(selection, limit=_LIMIT, now=now)
    for version in snapshot.load_versions([hit.version_id for hit in hits]) if hits else ():
        policy_fields = read_policy_fields(version)
        if (prior is not None and version.memory_id == prior.memory_id) or policy_fields.get(
            "type"
        ) not in BELIEFS:
            continue
        if _mode_and_authorized(policy_fields)[0] != "open" and _owner(policy_fields) != _owner(
            fields
        ):
            raise GrainError(
                f"{OWNED_BY}: {version.document.name} states the agent's owner, who alone may supersede it. "
                "Write an observation instead",
                oms_code=DENIED,
            )


def _mode_and_authorized(fields: Fields) -> tuple[str, Sequence[str]]:
    """Return the mode of an invalidation policy, and the DIDs that it authorizes."""
    policy = fields.get("invalidation_policy")
    if not isinstance(policy, Mapping) or policy.get("mode") == "open":
        return "open", ()
    return str(policy.get("mode")), policy.get("authorized") or ()


def _owner(fields: Fields) -> tuple[object, ...]:
    """Return the owner that a record states, with the DIDs that may change it."""
    return fields.get("object"), *_mode_and_authorized(fields)[1]


def _delegation_ends(snapshot: Snapshot, agent: str, now: Instant) -> list[object]:
    """Return the ends of the delegations to an agent."""
    selection = Selection(relation=DELEGATES_TO, object=agent)
    hits = snapshot.load_page(selection, limit=_LIMIT, now=now)
    versions = snapshot.load_versions([hit.version_id for hit in hits]) if hits else []
    return [read_policy_fields(version).get("delegation_expiry") for version in versions]


def _have_all_ended(ends: list[object], at: Instant) -> bool:
    """Return True if there were delegations, and all had ended at an instant (OMS §6.11)."""
    return bool(ends) and all(isinstance(end, int) and end <= at for end in ends)


def find_unmet_goals(snapshot: Snapshot, fields: Fields, now: Instant) -> Iterator[str]:
    """Yield the unsatisfied goals that an active goal depends on: it MUST NOT become active before (OMS §8.7)."""
    if fields.get("goal_state") != "active":
        return
    for goal in fields.get("depends_on") or ():
        version = snapshot.find_by_name(oms.STANDARD, str(goal).removeprefix(ADDRESS_PREFIX))
        head = None if version is None else snapshot.load_newest(version.memory_id)
        if (
            head is None
            or is_over(head.state, now)
            or read_policy_fields(head).get("goal_state") != "satisfied"
        ):
            yield str(goal)


def check_activation(
    snapshot: Snapshot, old_fields: Fields, new_fields: Fields, now: Instant
) -> None:
    """Raise GrainError if a goal becomes active while it depends on unsatisfied ones."""
    if old_fields.get("goal_state") != "active" and (
        waiting := next(find_unmet_goals(snapshot, new_fields, now), None)
    ):
        raise GrainError(
            f"goal_state: the goal depends on {waiting}, which is not satisfied", oms_code=DENIED
        )
