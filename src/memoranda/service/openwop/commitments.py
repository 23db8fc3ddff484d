"""Standing commitments found in memory (openwop): inferred, armed, fired at most once, cancelled, put off.

What is kept of a commitment holds no text: which memory says it and which of its commitments it is, when it is due and
what became of it. The memory is read again whenever the words are needed, so that what is forgotten takes its
commitments with it. Firing is one unit of work: the claim on this instant, the event in the log, the run that is
enqueued and the new state commit together or not at all, so that neither a crash nor a second process fires it twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from memoranda.consolidation.commitments.commitments import Commitment as Stated
from memoranda.consolidation.commitments.commitments import find_commitments, is_met
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, NotFound
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import Version
from memoranda.model.selection import UPDATED, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.views import holds, load, project, unless_damaged
from memoranda.service.openwop import distill, memory, runs
from memoranda.service.retrieve import walk
from memoranda.standards.openwop import events, mapping, refs
from memoranda.standards.openwop.events import Event
from memoranda.storage.engine import Snapshot, Unit

KIND: Final = "openwop commitment"
OPEN, FIRED, CANCELLED, LAPSED = "open", "fired", "cancelled", "lapsed"
# A guess is not a promise.
LEAST_CONFIDENCE: Final = 0.6
# So many compactions on top of one another are followed.
_PASSES_LIMIT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
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


def infer(context: Context, access: Access, ref: str) -> list[Commitment]:
    """Find the commitments in the memories of a ref and arm those that are new; all that are known of it."""
    tenant, now = access.default_tenant, context.clock()
    space = _space(access, ref)

    def work(unit: Unit) -> list[Commitment]:
        known = {each.commitment_id: each for each in _kept(unit)}
        for version in _versions(unit, access, space, now):
            for stated in _stated(context, version):
                made = _armed(ref, space, unit, version, stated)
                if made is not None and made.commitment_id not in known:
                    known[made.commitment_id] = made
                    _keep(unit, made)
        found = [each for each in known.values() if each.space == space]
        _record(unit, access, "infer", space, now, f"{len(found)} commitments")
        return sorted(found, key=_order)

    return context.engine.write(tenant, work)


def listing(context: Context, access: Access, ref: str | None = None) -> list[Commitment]:
    """The commitments that are known, of a ref or of all."""
    space = None if ref is None else _space(access, ref)
    with context.engine.read(access.default_tenant) as snapshot:
        found = [each for each in _kept(snapshot) if space in (None, each.space)]
    return sorted(found, key=_order)


def cancel(context: Context, access: Access, commitment_id: str) -> Commitment:
    """It is not to fire any more."""
    return _changed(context, access, commitment_id, "cancel", state=CANCELLED)


def snooze(context: Context, access: Access, commitment_id: str, until: Instant) -> Commitment:
    """It is to fire later."""
    if until <= context.clock():
        raise InvalidInput("until: must be in the future")
    return _changed(context, access, commitment_id, "snooze", state=OPEN, due=until)


def fire_due(context: Context, tenant: str, *, workflow_id: str | None = None) -> list[Event]:
    """Fire what is due, and what later memories have met. `workflow_id` enqueues a run for each."""
    now = context.clock()
    with context.engine.read(tenant) as snapshot:
        waiting = [each for each in _kept(snapshot) if each.state == OPEN and _may_fire(each, now)]
        ready = [each for each in waiting if each.condition == "time" or _is_met(context, snapshot, each, now)]
    fired = []
    for each in ready:
        event = context.engine.write(tenant, lambda unit, each=each: _fire(context, unit, each, now, workflow_id))  # type: ignore[misc]
        if event is not None:
            fired.append(event)
    return fired


def fire_now(
    context: Context, access: Access, commitment_id: str, *, condition: str | None = None
) -> tuple[Event | None, Commitment]:
    """Fire one as if its condition held now; None if it was fired for this already."""
    tenant, now = access.default_tenant, context.clock()

    def work(unit: Unit) -> tuple[Event | None, Commitment]:
        each = _load(unit, commitment_id)
        if condition is not None and condition != each.condition:
            raise InvalidInput(f"condition: this commitment waits for a {each.condition}")
        event = _fire(context, unit, each, now, None) if each.state == OPEN else None
        return event, _load(unit, commitment_id)

    return context.engine.write(tenant, work)


def next_due(context: Context, tenant: str) -> Instant | None:
    """When the next commitment with a time falls due."""
    with context.engine.read(tenant) as snapshot:
        due = [each.due for each in _kept(snapshot) if each.state == OPEN and each.due is not None]
    return Instant(min(due)) if due else None


# --- firing --------------------------------------------------------------------------------------------------


def _may_fire(each: Commitment, now: Instant) -> bool:
    # A predicate has no time of its own; one that was put off has.
    return each.condition == "predicate" if each.due is None else each.due <= now


def _fire(context: Context, unit: Unit, each: Commitment, now: Instant, workflow_id: str | None) -> Event | None:
    """Fire in a unit of work, unless somebody else did, it was cancelled meanwhile, or its memory is gone."""
    current = _load(unit, each.commitment_id)
    if current.state != OPEN or (current.due, current.fired) != (each.due, each.fired):
        return None
    stated = _said(context, unit, current, now)
    if stated is None or (stated.unless is not None and _any_meets(context, unit, current, stated.unless, now)):
        # What it stood on is gone, or what would let it lapse has happened.
        _keep(unit, replace(current, state=LAPSED))
        return None
    instant = current.due if current.condition == "time" else current.fired
    if not unit.once(f"commitment {current.commitment_id} {current.condition} {instant}", now=now):
        return None
    payload: dict[str, Any] = {
        "commitmentId": current.commitment_id,
        "memoryRef": current.ref,
        "condition": current.condition,
        "memoryId": current.memory_id,
    }
    if workflow_id is not None:
        metadata = {"commitmentId": current.commitment_id}
        payload["enqueuedRunId"] = runs.begin(unit, workflow_id=workflow_id, now=now, metadata=metadata).run_id
    _, logged = runs.host_run(unit, "commitment", now, (events.COMMITMENT_FIRED, payload))
    _keep(unit, _after(current, stated, now))
    return logged[0]


def _after(each: Commitment, stated: Stated, now: Instant) -> Commitment:
    """What a commitment is once it has fired."""
    fired = each.fired + 1
    if stated.recurrence is not None:
        due = stated.recurrence.next_after(now)
        return replace(each, fired=fired, due=due, state=OPEN if due is not None else FIRED)
    if each.condition == "predicate" and each.repeats:
        # Only what is said from now on can meet it again.
        return replace(each, fired=fired, seen_ms=now)
    return replace(each, fired=fired, state=FIRED)


def _is_met(context: Context, snapshot: Snapshot, each: Commitment, now: Instant) -> bool:
    stated = _said(context, snapshot, each, now)
    return (
        stated is not None
        and stated.predicate is not None
        and _any_meets(context, snapshot, each, stated.predicate, now)
    )


def _any_meets(context: Context, snapshot: Snapshot, each: Commitment, predicate: Any, now: Instant) -> bool:
    """Whether a memory of the same ref, written since, says what is waited for."""
    since = Instant(max(each.seen_ms, predicate.since))
    for version in _recent(snapshot, each.space, since, now):
        projection = unless_damaged(version, lambda v=version: project(context, v))  # type: ignore[misc]
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
    found = (version for version, _ in walk(snapshot, selection, UPDATED, now=now))
    return (version for version in found if holds(version) and not _is_quoting(version))


def _recent(snapshot: Snapshot, space: str, since: Instant, now: Instant) -> Iterator[Version]:
    found = (version for version, _ in walk(snapshot, Selection(space=space, since=since), UPDATED, now=now))
    return (version for version in found if holds(version) and not _is_quoting(version))


def _is_quoting(version: Version) -> bool:
    """Whether it is an archive or the outcome of a compaction: it repeats what others said, at another time."""
    if version.document.standard != mapping.STANDARD:
        return False
    tags = load(version.document.native)["tags"]
    return any(tag.startswith((distill.ARCHIVE_TAG, mapping.DERIVED_PREFIX)) for tag in tags)


def _stated(context: Context, version: Version) -> list[Stated]:
    projection = unless_damaged(version, lambda: project(context, version))
    if projection is None:
        return []
    found = find_commitments(projection.text, at=projection.observed)
    return [each for each in found if each.confidence >= LEAST_CONFIDENCE]


def _armed(ref: str, space: str, snapshot: Snapshot, version: Version, stated: Stated) -> Commitment | None:
    if stated.condition == "time" and stated.due is None:
        return None
    memory_id = memory.id_of(snapshot, version)
    digest = hashlib.sha256(f"{snapshot.tenant}\x00{space}\x00{memory_id}\x00{stated.key}".encode()).hexdigest()
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


def _said(context: Context, snapshot: Snapshot, each: Commitment, now: Instant) -> Stated | None:
    """What the memory says of it, if it still does."""
    version = memory.find(context, snapshot, each.space, each.memory_id)
    if version is None or not _stands(snapshot, version, now):
        return None
    return next((stated for stated in _stated(context, version) if stated.key == each.key), None)


def _stands(snapshot: Snapshot, version: Version, now: Instant) -> bool:
    """Whether a memory is there, by itself or in what a pass has put in its place."""
    for _ in range(_PASSES_LIMIT):
        if memory.is_open(version, None, now):
            return True
        state = version.state
        is_over = state.erased or state.tombstoned is not None or (state.expires is not None and state.expires <= now)
        successor = None if is_over else snapshot.named(mapping.STANDARD, state.superseded_by)
        if successor is None:
            return False
        version = successor
    return False


# --- keeping -------------------------------------------------------------------------------------------------


def _kept(snapshot: Snapshot) -> list[Commitment]:
    return [Commitment(**json_text.parse(value)) for value in snapshot.items(KIND).values()]


def _load(snapshot: Snapshot, commitment_id: str) -> Commitment:
    kept = snapshot.items(KIND).get(commitment_id)
    if kept is None:
        raise NotFound("no such commitment")
    return Commitment(**json_text.parse(kept))


def _keep(unit: Unit, each: Commitment) -> None:
    unit.put_item(KIND, each.commitment_id, json_text.dump(asdict(each)))


def _changed(context: Context, access: Access, commitment_id: str, op: str, **changes: Any) -> Commitment:
    now = context.clock()

    def work(unit: Unit) -> Commitment:
        each = _load(unit, commitment_id)
        if each.state not in (OPEN, FIRED):
            raise InvalidInput(f"the commitment is {each.state}")
        changed = replace(each, **changes)
        _keep(unit, changed)
        _record(unit, access, op, each.space, now, changed.state)
        return changed

    return context.engine.write(access.default_tenant, work)


def _space(access: Access, ref: str) -> str:
    space = refs.resolve(ref, access.default_tenant)
    if space is None:
        raise InvalidInput("memoryRef: not one of this host")
    tenant = access.default_tenant
    access.require_scope({**access.limits, "owner": tenant, **({"project": space} if space else {})})
    return space


def _order(each: Commitment) -> tuple[int, str]:
    return (1 << 62 if each.due is None else each.due, each.commitment_id)


def _record(unit: Unit, access: Access, op: str, space: str, now: Instant, result: str) -> None:
    scope = {"owner": access.default_tenant, **({"project": space} if space else {})}
    unit.record(audit_entry(access, f"openwop.commitments.{op}", now=now, scope=scope, result=result))
