"""Standing commitments found in memory (openwop): inferred, armed, fired at most once, cancelled, put off.

What is kept of a commitment holds no text: which memory says it and which of its commitments it is, when it is due and
what became of it. The memory is read again whenever the words are needed, so that what is forgotten takes its
commitments with it. What is over is deleted after a while; a claim stays, so that nothing is armed twice.

Firing. What is due, and what later memories have met, is read and judged on a snapshot. Then, some at a time, a unit of
work fires those that are still as they were: the claim on this instant, the event in the log, the run that is enqueued
and the new state commit together or not at all, so that neither a crash nor a second process fires one twice.

Predicates follow the change feed: one that was armed or put off is looked at against all that was said since; then only
what changes in its space is looked at, from a place in the feed that is kept for the tenant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict, replace

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, NotFound
from memoranda.model.instant import DAY_MS, Instant, format_instant, parse_instant
from memoranda.model.memory import Version
from memoranda.model.selection import UPDATED, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.views import is_intact, project, run_unless_damaged
from memoranda.service.openwop import memory, runs
from memoranda.service.openwop.ref_entries import require_space
from memoranda.service.retrieve import iterate_selected
from memoranda.standards.openwop import events, mapping
from memoranda.standards.openwop.events import Event
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot, Unit

if TYPE_CHECKING:
    from memoranda.consolidation.commitments.commitments import StatedCommitment as Stated

# Where the change feed was when predicates were last looked at.
PLACE: Final = "openwop commitments place"
OPEN, FIRED, CANCELLED, LAPSED = "open", "fired", "cancelled", "lapsed"
# A guess is not a promise.
LEAST_CONFIDENCE: Final = 0.6
_PAGE_LIMIT: Final = 500
# Commitments that one unit of work arms or fires: it holds up every other writer.
_UNIT_LIMIT: Final = 50
# How long what is over can still be looked up.
OVER_MS: Final = 30 * DAY_MS
_PRUNED_AT_ONCE: Final = 500
# So many compactions on top of one another are followed.
_PASSES_LIMIT: Final = 100


class Commitment(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a commitment: no word of it."""

    commitment_id: str
    ref: str
    space: str
    memory_id: str
    # Which of the memory's commitments: a digest of what it says.
    key: str
    condition: str
    due: int | None
    repeats: bool
    state: str = OPEN
    fired: int = 0
    # Of a predicate: memories up to here were looked at.
    seen_ms: int = 0
    # When it fired for the last time, lapsed or was cancelled.
    over_ms: int | None = None

    def document(self) -> dict[str, Any]:
        """As others see it."""
        return {
            "commitmentId": self.commitment_id,
            "memoryRef": self.ref,
            "memoryId": self.memory_id,
            "condition": self.condition,
            "dueAt": None if self.due is None else format_instant(self.due),
            "repeats": self.repeats,
            "state": self.state,
            "fired": self.fired,
        }

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Commitment:
        """What such a document says; by what the store finds it, and how far it looked, stays there."""
        return cls(
            commitment_id=said["commitmentId"],
            ref=said["memoryRef"],
            space="",
            memory_id=said["memoryId"],
            key="",
            condition=said["condition"],
            due=None if said["dueAt"] is None else parse_instant(said["dueAt"]),
            repeats=said["repeats"],
            state=said["state"],
            fired=said["fired"],
        )


def infer(context: Context, access: Access, ref: str) -> list[Commitment]:
    """Find the commitments in the memories of a ref and arm those that are new; all that are known of it."""
    tenant, now = access.default_tenant, context.clock()
    space = require_space(access, ref)
    with context.engine.read(tenant) as snapshot:
        made = _armable(context, snapshot, ref, space, _versions(snapshot, access, space, now))
    arm(context, tenant, made, now)
    found = listing(context, access, ref)
    told = f"{len(found)} commitments"
    context.engine.write(tenant, lambda unit: _record(unit, access, "infer", space, now, told))
    return found


def infer_changed(context: Context, access: Access, ref: str, after: int) -> None:
    """The same in what changed after a place in the feed."""
    tenant, now = access.default_tenant, context.clock()
    space = require_space(access, ref)
    with context.engine.read(tenant) as snapshot:
        changed = [
            each for each in _changed(snapshot, space, after) if memory.is_current(each, None, now)
        ]
        made = _armable(context, snapshot, ref, space, changed)
    if made:
        arm(context, tenant, made, now)
        told = f"{len(made)} new commitments"
        context.engine.write(tenant, lambda unit: _record(unit, access, "infer", space, now, told))


def arm(context: Context, tenant: str, made: Sequence[Commitment], now: Instant) -> None:
    """Keep those that are new, some at a time; whoever is stopped in between goes on from there the next time."""

    def work(unit: Unit, some: Sequence[Commitment]) -> None:
        for each in some:
            # Once and for all: what is over is deleted, and must not begin anew.
            if unit.claim_once(f"commitment {each.commitment_id}", now=now):
                _keep(unit, each, is_fresh=True)

    for first in range(0, len(made), _UNIT_LIMIT):
        context.engine.write(tenant, partial(work, some=made[first : first + _UNIT_LIMIT]))


def _armable(
    context: Context, snapshot: Snapshot, ref: str, space: str, versions: Iterable[Version]
) -> list[Commitment]:
    """What the versions state and is not armed yet."""
    stated = ((version, each) for version in versions for each in _stated(context, version))
    made = (_armed(ref, space, snapshot, version, each) for version, each in stated)
    unknown = {
        each.commitment_id: each
        for each in made
        if each is not None and snapshot.load_commitment(each.commitment_id) is None
    }
    return list(unknown.values())


def listing(context: Context, access: Access, ref: str | None = None) -> list[Commitment]:
    """The commitments that are known, of a ref or of all."""
    space = None if ref is None else require_space(access, ref)
    with context.engine.read(access.default_tenant) as snapshot:
        return sorted(map(_parsed, snapshot.list_commitments(space)), key=_order)


def cancel(context: Context, access: Access, commitment_id: str) -> Commitment:
    """It is not to fire any more."""
    return _change(context, access, commitment_id, "cancel", state=CANCELLED)


def snooze(context: Context, access: Access, commitment_id: str, until: Instant) -> Commitment:
    """It is to fire later."""
    if until <= context.clock():
        raise InvalidInput("until: must be in the future")
    return _change(context, access, commitment_id, "snooze", state=OPEN, due=until)


def fire_due(context: Context, tenant: str, *, workflow_id: str | None = None) -> list[Event]:
    """Fire what is due, and what later memories have met. `workflow_id` enqueues a run for each."""
    fired = _fire_all(context, tenant, _met(context, tenant), workflow_id)
    seen: list[bytes] = []
    while True:
        with context.engine.read(tenant) as snapshot:
            now, seq = context.clock(), snapshot.find_last_change()
            due = snapshot.list_due_commitments(now, _UNIT_LIMIT)
            if not due or due == seen:
                # Those that moved meanwhile are judged anew the next time.
                return fired
            judged = [_judged(context, snapshot, _parsed(each), now, seq) for each in due]
        fired += _fire_all(context, tenant, judged, workflow_id)
        seen = due


def fire_now(
    context: Context, access: Access, commitment_id: str, *, condition: str | None = None
) -> tuple[Event | None, Commitment]:
    """Fire one as if its condition held now; None if it was fired for this already."""
    tenant, now = access.default_tenant, context.clock()
    with context.engine.read(tenant) as snapshot:
        each = _load(snapshot, commitment_id)
        if condition is not None and condition != each.condition:
            raise InvalidInput(f"condition: this commitment waits for a {each.condition}")
        judged = _judged(context, snapshot, each, now, snapshot.find_last_change())
    fired = _fire_all(context, tenant, [judged] if each.state == OPEN else [], None)
    with context.engine.read(tenant) as snapshot:
        return (fired[0] if fired else None), _load(snapshot, commitment_id)


def prune(context: Context, tenant: str) -> None:
    """Delete what has been over for long."""
    before = Instant(context.clock() - OVER_MS)
    with context.engine.read(tenant) as snapshot:
        is_any = snapshot.has_closed_commitments(before)
    if is_any:
        context.engine.write(tenant, lambda unit: unit.prune_commitments(before, _PRUNED_AT_ONCE))


# --- firing --------------------------------------------------------------------------------------------------


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A commitment that is to be fired, or to lapse, and what that was decided by."""

    commitment: Commitment
    # What the memory says; None: it is gone, or what lets the commitment lapse has happened.
    stated: Stated | None
    now: Instant
    memory: int | None
    change_seq: int


def _judged(
    context: Context, snapshot: Snapshot, each: Commitment, now: Instant, seq: int
) -> Judged:
    version = memory.find(context, snapshot, each.space, each.memory_id)
    stated = None if version is None else _statement(context, snapshot, each, version, now)
    if stated is not None and stated.unless is not None:
        since = Instant(max(each.seen_ms, stated.unless.since))
        if _any_meets(context, _recent(snapshot, each.space, since, now), stated.unless, since):
            stated = None
    memory_id = None if version is None else version.memory_id
    return Judged(commitment=each, stated=stated, now=now, memory=memory_id, change_seq=seq)


def _fire_all(
    context: Context, tenant: str, judged: Sequence[Judged], workflow_id: str | None
) -> list[Event]:
    fired: list[Event] = []
    for first in range(0, len(judged), _UNIT_LIMIT):
        some = judged[first : first + _UNIT_LIMIT]
        fired += context.engine.write(tenant, lambda unit, some=some: fire(unit, some, workflow_id))  # type: ignore[misc]
    return fired


def fire(unit: Unit, judged: Sequence[Judged], workflow_id: str | None) -> list[Event]:
    """Fire those that nobody else fired, cancelled or put off, and whose memory is as it was when they were judged."""
    changed = (
        unit.list_changed_memories(min(each.change_seq for each in judged))
        if judged
        else frozenset()
    )
    fired = []
    for each in judged:
        current = unit.load_commitment(each.commitment.commitment_id)
        if current != _encoded(each.commitment) or each.memory in changed:
            continue
        stated, space = each.stated, each.commitment.space
        if (
            stated is not None
            and stated.unless
            and changed
            and unit.list_changed_in_space(space, each.change_seq)
        ):
            continue
        if stated is None:
            _keep(unit, replace(each.commitment, state=LAPSED, over_ms=each.now))
        elif (event := _fire(unit, each.commitment, stated, each.now, workflow_id)) is not None:
            fired.append(event)
    return fired


def _fire(
    unit: Unit, each: Commitment, stated: Stated, now: Instant, workflow_id: str | None
) -> Event | None:
    instant = each.due if each.condition == "time" else each.fired
    if not unit.claim_once(f"commitment {each.commitment_id} {each.condition} {instant}", now=now):
        return None
    payload: dict[str, Any] = {
        "commitmentId": each.commitment_id,
        "memoryRef": each.ref,
        "condition": each.condition,
        "memoryId": each.memory_id,
    }
    if workflow_id is not None:
        metadata = {"commitmentId": each.commitment_id}
        payload["enqueuedRunId"] = runs.begin(
            unit, workflow_id=workflow_id, now=now, metadata=metadata
        ).run_id
    _, logged = runs.host_run(unit, "commitment", now, (events.COMMITMENT_FIRED, payload))
    _keep(unit, _after(each, stated, now))
    return logged[0]


def _after(each: Commitment, stated: Stated, now: Instant) -> Commitment:
    """What a commitment is once it has fired."""
    fired = each.fired + 1
    if stated.recurrence is not None and (due := stated.recurrence.next_after(now)) is not None:
        return replace(each, fired=fired, due=due)
    if each.condition == "predicate" and each.repeats:
        # Only what is said from now on can meet it again.
        return replace(each, fired=fired, seen_ms=now)
    return replace(each, fired=fired, state=FIRED, over_ms=now)


def _met(context: Context, tenant: str) -> list[Judged]:
    """The predicates that something said since they were last looked at has met, and those whose memory is gone."""
    now = context.clock()
    with context.engine.read(tenant) as snapshot:
        seq, place = snapshot.find_last_change(), int(snapshot.load_item(PLACE, "") or b"0")
        waiting = snapshot.list_waiting_commitments(now, fresh_only=place == seq)
        said: dict[str, list[Version]] = {}
        met: list[Judged] = []
        unmet: list[Judged] = []
        for each in waiting:
            if not each.is_fresh and each.space not in said:
                said[each.space] = list(_changed(snapshot, each.space, place))
            if each.is_fresh or said[each.space]:
                judged = _judged(context, snapshot, _parsed(each.document), now, seq)
                heard = None if each.is_fresh else said[each.space]
                (met if _is_met(context, snapshot, judged, heard) else unmet).append(judged)
    seen = [(each.commitment.commitment_id, _encoded(each.commitment)) for each in unmet]

    def look(unit: Unit) -> None:
        # After a crash the same is looked at again; nothing fires twice.
        unit.mark_commitments_checked(seen)
        unit.put_item(PLACE, "", b"%d" % max(seq, int(unit.load_item(PLACE, "") or b"0")))

    if waiting and not met:
        context.engine.write(tenant, look)
    return met


def _is_met(
    context: Context, snapshot: Snapshot, judged: Judged, heard: Iterable[Version] | None
) -> bool:
    """Whether it is to be fired or to lapse, by what was said since it was last looked at; `None`: by all."""
    stated = judged.stated
    if stated is None or stated.predicate is None:
        return True
    each = judged.commitment
    since = Instant(max(each.seen_ms, stated.predicate.since))
    if heard is None:
        heard = _recent(snapshot, each.space, since, judged.now)
    return _any_meets(context, heard, stated.predicate, since)


def _any_meets(
    context: Context, versions: Iterable[Version], predicate: Any, since: Instant
) -> bool:
    """Whether one of the memories, written since, says what is waited for."""
    from memoranda.consolidation.commitments.commitments import is_met

    for version in versions:
        projection = run_unless_damaged(version, partial(project, context, version))
        if (
            projection is not None
            and projection.observed > since
            and is_met(predicate, projection.text, projection.observed)
        ):
            return True
    return False


# --- reading -------------------------------------------------------------------------------------------------


def _versions(snapshot: Snapshot, access: Access, space: str, now: Instant) -> Iterator[Version]:
    selection = Selection(space=space, visibilities=access.visibilities(snapshot.tenant))
    found = (version for version, _ in iterate_selected(snapshot, selection, UPDATED, now=now))
    return (version for version in found if is_intact(version) and not _is_quoting(version))


def _recent(snapshot: Snapshot, space: str, since: Instant, now: Instant) -> Iterator[Version]:
    found = (
        version
        for version, _ in iterate_selected(
            snapshot, Selection(space=space, since=since), UPDATED, now=now
        )
    )
    return (version for version in found if is_intact(version) and not _is_quoting(version))


def _changed(snapshot: Snapshot, space: str, after: int) -> Iterator[Version]:
    """What the change feed names in a space after a place, and still is there."""
    ids = snapshot.list_changed_in_space(space, after)
    for first in range(0, len(ids), _PAGE_LIMIT):
        found = snapshot.load_versions(ids[first : first + _PAGE_LIMIT])
        yield from (
            each
            for each in found
            if each.state.tombstoned is None and is_intact(each) and not _is_quoting(each)
        )


def _is_quoting(version: Version) -> bool:
    """Whether it is an archive or the outcome of a compaction: it repeats what others said, at another time."""
    return port_of(version.document.standard).is_quotation(version.document)


def _stated(context: Context, version: Version) -> list[Stated]:
    projection = run_unless_damaged(version, lambda: project(context, version))
    if projection is None:
        return []
    # So many patterns take a while to be made; few commands need them.
    from memoranda.consolidation.commitments.commitments import find_commitments

    found = find_commitments(projection.text, at=projection.observed)
    return [each for each in found if each.confidence >= LEAST_CONFIDENCE]


def _armed(
    ref: str, space: str, snapshot: Snapshot, version: Version, stated: Stated
) -> Commitment | None:
    if stated.condition == "time" and stated.due is None:
        return None
    memory_id = memory.id_of(snapshot, version)
    digest = hashlib.sha256(
        f"{snapshot.tenant}\x00{space}\x00{memory_id}\x00{stated.key}".encode()
    ).hexdigest()
    return Commitment(
        commitment_id=f"com_{digest[:32]}",
        ref=ref,
        space=space,
        memory_id=memory_id,
        key=stated.key,
        condition=stated.condition,
        due=stated.due,
        repeats=stated.repeats,
    )


def _statement(
    context: Context, snapshot: Snapshot, each: Commitment, version: Version, now: Instant
) -> Stated | None:
    """What the memory says of it, if it still does."""
    if not _stands(snapshot, version, now):
        return None
    return next((stated for stated in _stated(context, version) if stated.key == each.key), None)


def _stands(snapshot: Snapshot, version: Version, now: Instant) -> bool:
    """Whether a memory is there, by itself or in what a pass has put in its place."""
    for _ in range(_PASSES_LIMIT):
        if memory.is_current(version, None, now):
            return True
        state = version.state
        is_over = (
            state.erased
            or state.tombstoned is not None
            or (state.expires is not None and state.expires <= now)
        )
        successor = (
            None if is_over else snapshot.find_by_name(mapping.STANDARD, state.superseded_by)
        )
        if successor is None:
            return False
        version = successor
    return False


# --- keeping -------------------------------------------------------------------------------------------------


def _parsed(kept: bytes) -> Commitment:
    return Commitment(**json_text.parse(kept))


def _encoded(each: Commitment) -> bytes:
    return json_text.dump(asdict(each))


def _load(snapshot: Snapshot, commitment_id: str) -> Commitment:
    kept = snapshot.load_commitment(commitment_id)
    if kept is None:
        raise NotFound("no such commitment")
    return _parsed(kept)


def _keep(unit: Unit, each: Commitment, *, is_fresh: bool = False) -> None:
    unit.put_commitment(
        each.commitment_id,
        _encoded(each),
        space=each.space,
        due=None if each.due is None else Instant(each.due),
        is_waiting=each.condition == "predicate",
        is_fresh=is_fresh,
        over=None if each.over_ms is None else Instant(each.over_ms),
    )


def _change(
    context: Context, access: Access, commitment_id: str, op: str, **changes: Any
) -> Commitment:
    now = context.clock()

    def work(unit: Unit) -> Commitment:
        each = _load(unit, commitment_id)
        if each.state not in (OPEN, FIRED):
            raise InvalidInput(f"the commitment is {each.state}")
        changed = replace(each, **changes, over_ms=None if changes["state"] == OPEN else now)
        _keep(unit, changed, is_fresh=True)
        _record(unit, access, op, each.space, now, changed.state)
        return changed

    return context.engine.write(access.default_tenant, work)


def _order(each: Commitment) -> tuple[int, str]:
    return (1 << 62 if each.due is None else each.due, each.commitment_id)


def _record(unit: Unit, access: Access, op: str, space: str, now: Instant, result: str) -> None:
    scope = {"owner": access.default_tenant, **({"project": space} if space else {})}
    unit.record_audit(
        audit_entry(access, f"openwop.commitments.{op}", now=now, scope=scope, result=result)
    )
