"""Standing commitments that memories state (openwop): inferred, armed, fired at most once, cancelled, snoozed.

Theory of operation. A commitment is stored without text: the memory that states it, a digest that identifies it there,
when it is due, and its state. The memory is read again whenever the words are needed, so that a forgotten memory takes
its commitments with it. A commitment that is over is deleted after OVER_MS; the claim that it was armed stays
(`unit.claim_once`), so that nothing is armed twice.

Firing has two steps. Commitments that are due, or whose predicate a later memory meets, are judged on a snapshot. Then
units of work fire at most _UNIT_LIMIT of them each, if they are unchanged since. The claim on the instant, the event in
the log, the enqueued run and the new state commit together, so that neither a crash nor a second process fires one
twice.

Predicates follow the change feed. A commitment that is fresh (armed or changed since it was judged) is compared with
all memories written since then. Any other is compared with the changes of its space after FEED_POSITION, an item that
holds the position of the feed up to which a tenant's predicates were judged.

Where to start: `infer` finds and arms commitments, `fire_due` (called by the schedule, `schedule.py`) judges and fires
them, `_next_state` decides what follows. Texts are understood by `consolidation/commitments`; this module only stores
positions and times. Keep the two steps apart: judging may take long and reads much, firing must be short and exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    from memoranda.consolidation.commitments.commitments import EventPredicate, StatedCommitment

# The modules of `consolidation` are imported where they are used: their patterns are slow to compile, and few commands
# need them.

# The item that holds the position of the change feed up to which predicates were judged.
FEED_POSITION: Final = "openwop commitments place"
OPEN, FIRED, CANCELLED, LAPSED = "open", "fired", "cancelled", "lapsed"
# The least confidence, from 0 to 1, of a statement that is armed: a guess is no promise.
LEAST_CONFIDENCE: Final = 0.6
# Versions that are loaded at once.
_PAGE_LIMIT: Final = 500
# Commitments that one unit of work arms or fires, while all other writers wait.
_UNIT_LIMIT: Final = 50
# Milliseconds for which a commitment that is over can still be looked up.
OVER_MS: Final = 30 * DAY_MS
# Commitments that one unit of work deletes.
_PRUNE_LIMIT: Final = 500
# Steps from a replaced memory to the one that stands for it now: compactions of compactions.
_SUCCESSORS_LIMIT: Final = 100


class Commitment(msgspec.Struct, frozen=True, kw_only=True):
    """A stored commitment; it has no text."""

    commitment_id: str
    ref: str
    space: str
    memory_id: str
    # The digest that identifies the commitment among those of its memory.
    key: str
    condition: str
    due: int | None
    repeats: bool
    state: str = OPEN
    # The number of times that it fired.
    fired: int = 0
    # For a predicate: only memories written after this instant can meet it.
    seen_ms: int = 0
    # The instant at which it fired for the last time, lapsed or was cancelled.
    over_ms: int | None = None
    # True if its memory names a time zone that does not exist, so that `due` is in UTC.
    is_zone_unknown: bool = False

    def document(self) -> dict[str, Any]:
        """Return the commitment as JSON for its owner."""
        return {
            "commitmentId": self.commitment_id,
            "memoryRef": self.ref,
            "memoryId": self.memory_id,
            "condition": self.condition,
            "dueAt": None if self.due is None else format_instant(self.due),
            "repeats": self.repeats,
            "state": self.state,
            "fired": self.fired,
            **({"zoneUnknown": True} if self.is_zone_unknown else {}),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Commitment:
        """Return the commitment of a document; the fields that only the store has are empty."""
        return cls(
            commitment_id=document["commitmentId"],
            ref=document["memoryRef"],
            space="",
            memory_id=document["memoryId"],
            key="",
            condition=document["condition"],
            due=None if document["dueAt"] is None else parse_instant(document["dueAt"]),
            repeats=document["repeats"],
            state=document["state"],
            fired=document["fired"],
            is_zone_unknown=document.get("zoneUnknown", False),
        )


# --- inferring -----------------------------------------------------------------------------------------------


def infer(context: Context, access: Access, ref: str) -> list[Commitment]:
    """Find the commitments that the memories of a ref state, arm the new ones, and return all of the ref.

    Safe to call again: what was armed once is never armed again, even after it was cancelled.
    """
    tenant, now = access.default_tenant, context.clock()
    space = require_space(access, ref)
    with context.engine.open_snapshot(tenant) as snapshot:
        versions = _visible_versions(snapshot, access, space, now)
        new_commitments = _find_new(context, snapshot, ref, space, versions)
    arm(context, tenant, new_commitments, now)
    commitments = list_commitments(context, access, ref)
    result = f"{len(commitments)} commitments"
    context.engine.write(tenant, lambda unit: _audit(unit, access, "infer", space, now, result))
    return commitments


def infer_changed(context: Context, access: Access, ref: str, after: int) -> None:
    """Find and arm the commitments in the memories of a ref that changed after a position of the change feed."""
    tenant, now = access.default_tenant, context.clock()
    space = require_space(access, ref)
    with context.engine.open_snapshot(tenant) as snapshot:
        current = [
            version
            for version in _changed_versions(snapshot, space, after)
            if memory.is_current(version, None, now)
        ]
        new_commitments = _find_new(context, snapshot, ref, space, current)
    if new_commitments:
        arm(context, tenant, new_commitments, now)
        result = f"{len(new_commitments)} new commitments"
        context.engine.write(tenant, lambda unit: _audit(unit, access, "infer", space, now, result))


def arm(context: Context, tenant: str, commitments: Sequence[Commitment], now: Instant) -> None:
    """Store commitments that were never armed before, in several units of work; a crash leaves the rest for later."""

    def work(unit: Unit, part: Sequence[Commitment]) -> None:
        for commitment in part:
            # The claim outlives the commitment, which is deleted when it is over and must not start again.
            if unit.claim_once(f"commitment {commitment.commitment_id}", now=now):
                _store(unit, commitment, is_fresh=True)

    for first in range(0, len(commitments), _UNIT_LIMIT):
        part = commitments[first : first + _UNIT_LIMIT]
        context.engine.write(tenant, partial(work, part=part))


def _find_new(
    context: Context, snapshot: Snapshot, ref: str, space: str, versions: Iterable[Version]
) -> list[Commitment]:
    """Return the commitments that versions state and that are not stored yet."""
    new_commitments: dict[str, Commitment] = {}
    for version in versions:
        for statement in _find_statements(context, version):
            commitment = _build_commitment(ref, space, snapshot, version, statement)
            if commitment is None:
                continue
            if snapshot.load_commitment(commitment.commitment_id) is None:
                new_commitments[commitment.commitment_id] = commitment
    return list(new_commitments.values())


def _build_commitment(
    ref: str, space: str, snapshot: Snapshot, version: Version, statement: StatedCommitment
) -> Commitment | None:
    """Return a statement as a commitment; None if it has a time that does not come again."""
    if statement.condition == "time" and statement.due is None:
        return None
    memory_id = memory.id_of(snapshot, version)
    digest = hashlib.sha256(
        f"{snapshot.tenant}\x00{space}\x00{memory_id}\x00{statement.key}".encode()
    ).hexdigest()
    return Commitment(
        commitment_id=f"com_{digest[:32]}",
        ref=ref,
        space=space,
        memory_id=memory_id,
        key=statement.key,
        condition=statement.condition,
        due=statement.due,
        repeats=statement.repeats,
        is_zone_unknown=statement.is_zone_unknown,
    )


# --- verbs ---------------------------------------------------------------------------------------------------


def list_commitments(context: Context, access: Access, ref: str | None = None) -> list[Commitment]:
    """Return the stored commitments of a ref, or of all refs, those that are due first in front."""
    space = None if ref is None else require_space(access, ref)
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return sorted(map(_decode, snapshot.list_commitments(space)), key=_due_order)


def cancel(context: Context, access: Access, commitment_id: str) -> Commitment:
    """Cancel a commitment, so that it does not fire any more."""
    return _change(context, access, commitment_id, "cancel", state=CANCELLED)


def snooze(context: Context, access: Access, commitment_id: str, until: Instant) -> Commitment:
    """Put a commitment off until a later instant; one that has fired is open again.

    `until` is an instant in the future, in milliseconds. Raises NotFound, and InvalidInput for a commitment that is
    over.
    """
    if until <= context.clock():
        raise InvalidInput("until: must be in the future")
    return _change(
        context, access, commitment_id, "snooze", state=OPEN, due=until, is_zone_unknown=False
    )


def fire_now(
    context: Context, access: Access, commitment_id: str, *, condition: str | None = None
) -> tuple[Event | None, Commitment]:
    """Fire a commitment as if its condition held now. Return the event, or None if it has fired for this instant.

    Raises InvalidInput if `condition` is another than the commitment has.
    """
    tenant, now = access.default_tenant, context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        commitment = _load(snapshot, commitment_id)
        if condition is not None and condition != commitment.condition:
            raise InvalidInput(f"condition: this commitment waits for a {commitment.condition}")
        judged = _judge(context, snapshot, commitment, now, snapshot.find_last_change())
    fired = _fire_all(context, tenant, [judged] if commitment.state == OPEN else [], None)
    with context.engine.open_snapshot(tenant) as snapshot:
        return (fired[0] if fired else None), _load(snapshot, commitment_id)


# --- firing --------------------------------------------------------------------------------------------------


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A commitment that is to fire or to lapse, and the state of the store that this was decided by."""

    commitment: Commitment
    # None: the memory is gone, or the event that lets the commitment lapse has happened.
    statement: StatedCommitment | None
    now: Instant
    # The id of the memory in the store, if it is there.
    memory_id: int | None
    change_seq: int


def fire_due(context: Context, tenant: str, *, workflow_id: str | None = None) -> list[Event]:
    """Fire the commitments that are due or whose predicate is met. `workflow_id` enqueues a run for each.

    Returns the events that were written. Several processes may call it at the same time.
    """
    fired = _fire_all(context, tenant, _judge_predicates(context, tenant), workflow_id)
    previous: list[bytes] = []
    while True:
        with context.engine.open_snapshot(tenant) as snapshot:
            now, seq = context.clock(), snapshot.find_last_change()
            due_commitments = snapshot.list_due_commitments(now, _UNIT_LIMIT)
            if not due_commitments or due_commitments == previous:
                # Nothing left, or only commitments that changed while they were judged; these wait for the next call.
                return fired
            judged = [
                _judge(context, snapshot, _decode(data), now, seq) for data in due_commitments
            ]
        fired += _fire_all(context, tenant, judged, workflow_id)
        previous = due_commitments


def prune(context: Context, tenant: str) -> None:
    """Delete commitments that have been over for longer than OVER_MS, at most _PRUNE_LIMIT of them."""
    before = Instant(context.clock() - OVER_MS)
    with context.engine.open_snapshot(tenant) as snapshot:
        is_any = snapshot.has_closed_commitments(before)
    if is_any:
        context.engine.write(tenant, lambda unit: unit.prune_commitments(before, _PRUNE_LIMIT))


def _judge(
    context: Context, snapshot: Snapshot, commitment: Commitment, now: Instant, seq: int
) -> Judged:
    """Return a commitment with its statement, unless that is gone or its exception has happened."""
    version = memory.find(context, snapshot, commitment.space, commitment.memory_id)
    statement = None
    if version is not None:
        statement = _find_statement(context, snapshot, commitment, version, now)
    if statement is not None and statement.unless is not None:
        since = Instant(max(commitment.seen_ms, statement.unless.since))
        later_versions = _versions_since(snapshot, commitment.space, since, now)
        if _any_meets(context, later_versions, statement.unless, since):
            statement = None
    return Judged(
        commitment=commitment,
        statement=statement,
        now=now,
        memory_id=None if version is None else version.memory_id,
        change_seq=seq,
    )


def _fire_all(
    context: Context, tenant: str, judged: Sequence[Judged], workflow_id: str | None
) -> list[Event]:
    """Fire commitments in as many units of work as needed."""
    fired: list[Event] = []
    for first in range(0, len(judged), _UNIT_LIMIT):
        part = judged[first : first + _UNIT_LIMIT]
        fired += context.engine.write(tenant, partial(fire, judged=part, workflow_id=workflow_id))
    return fired


def fire(unit: Unit, judged: Sequence[Judged], workflow_id: str | None) -> list[Event]:
    """Fire those commitments, or let them lapse, that are unchanged since they were judged, and return the events.

    A commitment is skipped if its state or its memory has changed, or if its space has and it can lapse.
    """
    changed_versions: Collection[int] = frozenset()
    if judged:
        changed_versions = unit.list_changed_memories(min(item.change_seq for item in judged))
    fired = []
    for item in judged:
        commitment, statement = item.commitment, item.statement
        current = unit.load_commitment(commitment.commitment_id)
        if current != _encode(commitment) or item.memory_id in changed_versions:
            continue
        can_lapse = statement is not None and statement.unless is not None
        if (
            can_lapse
            and changed_versions
            and unit.list_changed_in_space(commitment.space, item.change_seq)
        ):
            continue
        if statement is None:
            _store(unit, replace(commitment, state=LAPSED, over_ms=item.now))
            continue
        event = _fire_one(unit, commitment, statement, item.now, workflow_id)
        if event is not None:
            fired.append(event)
    return fired


def _fire_one(
    unit: Unit,
    commitment: Commitment,
    statement: StatedCommitment,
    now: Instant,
    workflow_id: str | None,
) -> Event | None:
    """Fire a commitment and store its next state. Return None if it has fired for this instant before."""
    instant = commitment.due if commitment.condition == "time" else commitment.fired
    claim = f"commitment {commitment.commitment_id} {commitment.condition} {instant}"
    if not unit.claim_once(claim, now=now):
        return None
    payload: dict[str, object] = {
        "commitmentId": commitment.commitment_id,
        "memoryRef": commitment.ref,
        "condition": commitment.condition,
        "memoryId": commitment.memory_id,
    }
    if workflow_id is not None:
        metadata = {"commitmentId": commitment.commitment_id}
        payload["enqueuedRunId"] = runs.begin(
            unit, workflow_id=workflow_id, now=now, metadata=metadata
        ).run_id
    _, logged = runs.host_run(unit, "commitment", now, (events.COMMITMENT_FIRED, payload))
    _store(unit, _next_state(commitment, statement, now))
    return logged[0]


def _next_state(commitment: Commitment, statement: StatedCommitment, now: Instant) -> Commitment:
    """Return a commitment as it is after firing: due again, waiting again, or over."""
    fired = commitment.fired + 1
    if statement.recurrence is not None:
        due_at = statement.recurrence.next_after(now)
        if due_at is not None:
            return replace(commitment, fired=fired, due=due_at)
    if commitment.condition == "predicate" and commitment.repeats:
        # Only memories that are written from now on can meet it again.
        return replace(commitment, fired=fired, seen_ms=now)
    return replace(commitment, fired=fired, state=FIRED, over_ms=now)


# --- predicates ----------------------------------------------------------------------------------------------


def _judge_predicates(context: Context, tenant: str) -> list[Judged]:
    """Return the waiting commitments that are to fire or to lapse, by what changed since they were last judged.

    If there are none, store that all were judged up to now. Otherwise the position stays, and the next call judges the
    others again: after a crash nothing is lost, and claims keep a commitment from firing twice.
    """
    now = context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        seq, position = (
            snapshot.find_last_change(),
            int(snapshot.load_item(FEED_POSITION, "") or b"0"),
        )
        waiting = snapshot.list_waiting_commitments(now, fresh_only=position == seq)
        changes_by_space: dict[str, list[Version]] = {}
        met: list[Judged] = []
        unmet: list[Judged] = []
        for item in waiting:
            changes = None
            if not item.is_fresh:
                if item.space not in changes_by_space:
                    changed_versions = _changed_versions(snapshot, item.space, position)
                    changes_by_space[item.space] = list(changed_versions)
                changes = changes_by_space[item.space]
                if not changes:
                    continue
            judged = _judge(context, snapshot, _decode(item.document), now, seq)
            results = met if _is_met(context, snapshot, judged, changes) else unmet
            results.append(judged)
    judged_documents = [
        (judged.commitment.commitment_id, _encode(judged.commitment)) for judged in unmet
    ]

    def note_judged(unit: Unit) -> None:
        unit.mark_commitments_checked(judged_documents)
        latest = max(seq, int(unit.load_item(FEED_POSITION, "") or b"0"))
        unit.put_item(FEED_POSITION, "", b"%d" % latest)

    if waiting and not met:
        context.engine.write(tenant, note_judged)
    return met


def _is_met(
    context: Context, snapshot: Snapshot, judged: Judged, changes: Iterable[Version] | None
) -> bool:
    """Return True if a commitment is to fire or to lapse, by the changes given; None: by all since it was armed."""
    statement, commitment = judged.statement, judged.commitment
    if statement is None or statement.predicate is None:
        return True
    since = Instant(max(commitment.seen_ms, statement.predicate.since))
    if changes is None:
        changes = _versions_since(snapshot, commitment.space, since, judged.now)
    return _any_meets(context, changes, statement.predicate, since)


def _any_meets(
    context: Context, versions: Iterable[Version], predicate: EventPredicate, since: Instant
) -> bool:
    """Return True if one of the memories, observed after an instant, states the event that a predicate waits for."""
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


# --- reading memories ----------------------------------------------------------------------------------------


def _visible_versions(
    snapshot: Snapshot, access: Access, space: str, now: Instant
) -> Iterator[Version]:
    """Yield the current memories of a space that the caller may see."""
    selection = Selection(space=space, visibilities=access.visibilities(snapshot.tenant))
    versions = (version for version, _ in iterate_selected(snapshot, selection, UPDATED, now=now))
    return filter(_is_original, versions)


def _versions_since(
    snapshot: Snapshot, space: str, since: Instant, now: Instant
) -> Iterator[Version]:
    """Yield the current memories of a space that were written after an instant."""
    hits = iterate_selected(snapshot, Selection(space=space, since=since), UPDATED, now=now)
    return filter(_is_original, (version for version, _ in hits))


def _changed_versions(snapshot: Snapshot, space: str, after: int) -> Iterator[Version]:
    """Yield the versions of a space that the change feed names after a position, and that are not forgotten."""
    ids = snapshot.list_changed_in_space(space, after)
    for first in range(0, len(ids), _PAGE_LIMIT):
        for version in snapshot.load_versions(ids[first : first + _PAGE_LIMIT]):
            if version.state.tombstoned is None and _is_original(version):
                yield version


def _is_original(version: Version) -> bool:
    """Return True if a version is intact, and not an archive or a compaction: these repeat others at another time."""
    return is_intact(version) and not port_of(version.document.standard).is_quotation(
        version.document
    )


def _find_statements(context: Context, version: Version) -> list[StatedCommitment]:
    """Return the commitments that a memory states with enough confidence."""
    projection = run_unless_damaged(version, lambda: project(context, version))
    if projection is None:
        return []
    from memoranda.consolidation.commitments.commitments import find_commitments

    statements = find_commitments(projection.text, at=projection.observed)
    return [statement for statement in statements if statement.confidence >= LEAST_CONFIDENCE]


def _find_statement(
    context: Context, snapshot: Snapshot, commitment: Commitment, version: Version, now: Instant
) -> StatedCommitment | None:
    """Return the statement of a commitment in its memory; None if the memory has ended or does not state it."""
    if not _is_in_force(snapshot, version, now):
        return None
    statements = _find_statements(context, version)
    return next((statement for statement in statements if statement.key == commitment.key), None)


def _is_in_force(snapshot: Snapshot, version: Version, now: Instant) -> bool:
    """Return True if a memory is current, or a consolidation run replaced it by one that is in force."""
    for _ in range(_SUCCESSORS_LIMIT):
        if memory.is_current(version, None, now):
            return True
        state = version.state
        has_expired = state.expires is not None and state.expires <= now
        if state.erased or state.tombstoned is not None or has_expired:
            return False
        successor = snapshot.find_by_name(mapping.STANDARD, state.superseded_by)
        if successor is None:
            return False
        version = successor
    return False


# --- storing -------------------------------------------------------------------------------------------------


def _decode(data: bytes) -> Commitment:
    return Commitment(**json_text.parse(data))


def _encode(commitment: Commitment) -> bytes:
    fields = asdict(commitment)
    if not commitment.is_zone_unknown:
        # Commitments are compared by these bytes, and those of earlier builds lack the field.
        del fields["is_zone_unknown"]
    return json_text.dump(fields)


def _load(snapshot: Snapshot, commitment_id: str) -> Commitment:
    """Return a stored commitment. Raises NotFound."""
    data = snapshot.load_commitment(commitment_id)
    if data is None:
        raise NotFound("no such commitment")
    return _decode(data)


def _store(unit: Unit, commitment: Commitment, *, is_fresh: bool = False) -> None:
    """Store a commitment. `is_fresh`: its predicate is compared with all memories, not with the next changes only."""
    unit.put_commitment(
        commitment.commitment_id,
        _encode(commitment),
        space=commitment.space,
        due=None if commitment.due is None else Instant(commitment.due),
        is_waiting=commitment.condition == "predicate",
        is_fresh=is_fresh,
        over=None if commitment.over_ms is None else Instant(commitment.over_ms),
    )


def _change(
    context: Context, access: Access, commitment_id: str, op: str, **changes: object
) -> Commitment:
    """Change fields of a commitment, among them its state. Raises InvalidInput unless it is open or has fired."""
    now = context.clock()

    def work(unit: Unit) -> Commitment:
        commitment = _load(unit, commitment_id)
        if commitment.state not in (OPEN, FIRED):
            raise InvalidInput(f"the commitment is {commitment.state}")
        over_ms = None if changes["state"] == OPEN else now
        changed_commitment = replace(commitment, **changes, over_ms=over_ms)
        _store(unit, changed_commitment, is_fresh=True)
        _audit(unit, access, op, commitment.space, now, changed_commitment.state)
        return changed_commitment

    return context.engine.write(access.default_tenant, work)


def _due_order(commitment: Commitment) -> tuple[int, str]:
    """Return the sort key of a listing: by due instant, those without one last."""
    return (1 << 62 if commitment.due is None else commitment.due, commitment.commitment_id)


def _audit(unit: Unit, access: Access, op: str, space: str, now: Instant, result: str) -> None:
    scope = {"owner": access.default_tenant, **({"project": space} if space else {})}
    unit.record_audit(
        audit_entry(access, f"openwop.commitments.{op}", now=now, scope=scope, result=result)
    )
