"""The line of a memory: its versions, oldest first. A verb acts on the whole line unless it names an earlier version.

The last version is the head. The name of the head, a key of OAMS and the id of an openwop entry stand for the memory;
the name of a superseded version stands for that version and the ones before it.

`forget_line` hides a line and `erase_line` destroys it, for every standard. `bind_to_line` applies the restrictions of
the head to an earlier version: a memory that was made private is private in all of its versions. The store itself
reports the earlier versions of a forgotten or expired head as forgotten or expired (storage/engine/snapshot.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from memoranda.errors import StoreCorrupt
from memoranda.model.bounds import UNBOUND, combine, remaining_bounds
from memoranda.model.instant import Instant
from memoranda.model.memory import Bounds, Version, is_over
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.lifecycle import (
    Tombstones,
    bounds_of_version,
    erase_version,
    tombstone_version,
)
from memoranda.service.core.protection import refuse_on_hold
from memoranda.storage.engine.contract import Snapshot, Unit

# The restrictions for versions whose head is damaged, so that its restrictions cannot be read.
_UNKNOWN_RESTRICTIONS = Bounds(visibility="private", exportable=False)


def iterate_line(snapshot: Snapshot, version: Version) -> Iterator[Version]:
    """Yield the versions that a verb on this version acts on: all of them, or those up to a superseded one."""
    for candidate in snapshot.iterate_history(version.memory_id):
        if version.state.is_head or candidate.version_id <= version.version_id:
            yield candidate


def forget_line(unit: Unit, version: Version, now: Instant) -> None:
    """Tombstone a memory with all of its versions. Raises GrainError if one of them is on legal hold."""
    for guard in unit.iterate_protecting(version.memory_id):
        refuse_on_hold(guard)
    for candidate in iterate_line(unit, version):
        # An expired version is erased soon, and a tombstone of its own would name another time.
        if not is_over(candidate.state, now):
            tombstone_version(unit, candidate, valid_to=_end_of_validity(candidate, now), now=now)


def erase_line(unit: Unit, version: Version, tombstones: Tombstones) -> None:
    """Erase a memory with all of its versions; each leaves its tombstone. Raises GrainError if one is on hold.

    A hold of the head protects the earlier versions, too.
    """
    for guard in unit.iterate_protecting(version.memory_id):
        refuse_on_hold(guard)
    for candidate in iterate_line(unit, version):
        if not candidate.state.erased:
            erase_version(unit, candidate, tombstones)


def bind_to_line(context: Context, snapshot: Snapshot, version: Version) -> Version:
    """Return an earlier version with those restrictions of its memory's head that it does not state itself."""
    if version.head_id is None or version.state.erased:
        return version
    (head,) = snapshot.load_versions([version.head_id])
    try:
        restrictions = _restrictions_of(context, head)
        added = remaining_bounds(restrictions, bounds_of_version(context, version))
    except (StoreCorrupt, LookupError, TypeError, ValueError, AttributeError):
        added = _UNKNOWN_RESTRICTIONS
    if added == UNBOUND:
        return version
    bounds = added if version.bounds is None else combine(version.bounds, added)
    return replace(version, bounds=bounds, opened=None)


def _restrictions_of(context: Context, head: Version) -> Bounds:
    """Return the restrictions of a head for the versions before it."""
    if head.state.erased:
        return UNBOUND
    # A token for an agent or a session reads what names that agent: naming one restricts nobody else.
    return replace(bounds_of_version(context, head), agent="", session="")


def get_time_forgotten(version: Version) -> Instant | None:
    """Return the time at which a version was forgotten; None if it is not known.

    It is never before the version was observed, also if a clock was set back in between.
    """
    tombstoned = version.state.tombstoned
    return None if tombstoned is None else max(tombstoned, version.state.observed)


def may_see_forgotten(access: Access, version: Version, now: Instant) -> bool:
    """Return True unless a version was forgotten or has expired, and the caller is not on the owner's side."""
    return access.sees_unredacted(version.tenant) or not is_over(version.state, now)


def _end_of_validity(version: Version, now: Instant) -> Instant:
    """Return the instant until which a forgotten version was valid: now, or its own earlier end."""
    return now if version.state.valid_to is None else min(version.state.valid_to, now)
