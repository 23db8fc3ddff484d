"""The record of consolidation runs, and their undo.

Each run that changed something has two items in the store, under the same number: a description, and its changes as
triples of a key, the version written, and the version before it. The runs of one strategy over one namespace form a
stack: the last is undone first.

An undo changes only results that are still as the run left them. It never restores a result whose inputs are not all
there any more. A restored result is a new version, so the triples of earlier runs are rewritten to refer to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypedDict

import msgspec
from msgspec import structs

from memoranda.encoding import json_text
from memoranda.errors import Conflict, ForbiddenScope, GrainError, NotFound
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import DERIVED_FROM, Bounds, Relation, Version
from memoranda.service.consolidation.results import cited_keys, details_of, user_of
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry, retry_on_conflict
from memoranda.service.core.indexing import NewVersion, with_bounds
from memoranda.service.core.lineage import EVERYTHING
from memoranda.service.core.memory_line import forget_line
from memoranda.service.core.protection import check_supersession
from memoranda.service.oams import memories
from memoranda.service.oams.views import Location
from memoranda.standards.oams import mapping
from memoranda.standards.oams.consolidated import strategy_of
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oams.port import load_memory
from memoranda.standards.oms import mapping as oms
from memoranda.standards.ump import mapping as ump
from memoranda.storage.engine.contract import Snapshot, Unit

_RUNS: Final = "oams dream"
_CHANGES: Final = "oams dream changes"
# Runs of one strategy over one namespace that can be undone: three weeks of daily runs.
RUNS_LIMIT: Final = 20
_NUMBER_DIGITS: Final = 12


class RecordedRun(TypedDict):
    """The description of a run, as the store keeps it."""

    run_id: str
    namespace: str
    strategy: str
    at: Instant


class RecordedChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a run under one key, by the ids of versions."""

    key: str
    # The new version; None if the run withdrew the result.
    new_id: int | None
    # The version before, which an undo restores; None if there was none.
    prior_id: int | None


def record_run(
    unit: Unit,
    run_id: str,
    namespace: str,
    strategy: str,
    changes: Sequence[RecordedChange],
    now: Instant,
) -> None:
    """Record a run for an undo, and drop the oldest runs of the same strategy and namespace over RUNS_LIMIT."""
    recorded = _load_runs(unit)
    number = 1 + max(recorded, default=0)
    description: RecordedRun = {
        "run_id": run_id,
        "namespace": namespace,
        "strategy": strategy,
        "at": now,
    }
    unit.put_item(_RUNS, _item_name(number), json_text.dump(description))
    _put_changes(unit, number, changes)
    same_kind = [other for other, run in recorded.items() if _is_same_kind(run, description)]
    for oldest in same_kind[: max(0, len(same_kind) + 1 - RUNS_LIMIT)]:
        _drop_run(unit, oldest)


def _drop_run(unit: Unit, number: int) -> None:
    for kind in (_RUNS, _CHANGES):
        unit.delete_item(kind, _item_name(number))


def _load_runs(snapshot: Snapshot) -> dict[int, RecordedRun]:
    """Return the descriptions of all recorded runs by number, the oldest first."""
    return {
        int(name): json_text.parse(value)
        for name, value in sorted(snapshot.load_items(_RUNS).items())
    }


def _put_changes(unit: Unit, number: int, changes: Sequence[RecordedChange]) -> None:
    """Store the changes of a run as triples of a key, the version written, and the version before."""
    triples = [[change.key, change.new_id, change.prior_id] for change in changes]
    unit.put_item(_CHANGES, _item_name(number), json_text.dump(triples))


def _load_changes(snapshot: Snapshot, number: int) -> list[RecordedChange]:
    """Return the changes of a run."""
    triples = json_text.parse(snapshot.load_item(_CHANGES, _item_name(number)) or b"[]")
    return [
        RecordedChange(key=key, new_id=new_id, prior_id=prior_id)
        for key, new_id, prior_id in triples
    ]


def _item_name(number: int) -> str:
    # Padded, so that names sort as numbers do.
    return f"{number:0{_NUMBER_DIGITS}d}"


def _is_same_kind(one: RecordedRun, other: RecordedRun) -> bool:
    return one["namespace"] == other["namespace"] and one["strategy"] == other["strategy"]


def runs(context: Context, access: Access) -> list[dict[str, Any]]:
    """Return the runs that can be undone, or wait for a later one, in the namespaces of the caller; latest first."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        recorded = [
            (run, _load_changes(snapshot, number)) for number, run in _load_runs(snapshot).items()
        ]
    descriptions = []
    seen_runs: set[tuple[str, str]] = set()
    for run, changes in reversed(recorded):
        kind = (run["namespace"], run["strategy"])
        if _may_enter(access, run["namespace"]):
            descriptions.append(_describe_run(run, changes, is_last=kind not in seen_runs))
        seen_runs.add(kind)
    return descriptions


def _may_enter(access: Access, namespace: str) -> bool:
    """Return True if a namespace is within the limits of the caller."""
    try:
        memories.locate_namespace(access, parse_namespace(namespace))
    except ForbiddenScope:
        return False
    return True


def _describe_run(
    run: RecordedRun, changes: Sequence[RecordedChange], *, is_last: bool
) -> dict[str, Any]:
    """Return a recorded run as JSON. `is_last`: no later run of its kind is recorded."""
    return {
        "run_id": run["run_id"],
        "namespace": run["namespace"],
        "strategy": run["strategy"],
        "at": format_instant(run["at"]),
        "created": [
            change.key
            for change in changes
            if change.new_id is not None and change.prior_id is None
        ],
        "updated": [
            change.key
            for change in changes
            if change.new_id is not None and change.prior_id is not None
        ],
        "taken_back": [change.key for change in changes if change.new_id is None],
        "can_be_undone": is_last,
    }


# --- undo ----------------------------------------------------------------------------------------------------


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an undo, as keys of results."""

    run_id: str
    # Results of the run that were withdrawn.
    taken_back: tuple[str, ...]
    # Earlier results that were restored.
    brought_again: tuple[str, ...]
    # Results that stay as they are: edited since, on legal hold, or with an input that was forgotten.
    left: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "run_id": self.run_id,
            "taken_back": list(self.taken_back),
            "brought_again": list(self.brought_again),
            "left": list(self.left),
        }


def undo(context: Context, access: Access, run_id: str) -> Undone:
    """Withdraw the results of a run, and restore the results that it changed or withdrew.

    Raises NotFound if there is no such run, and Conflict if a later run of the same kind must be undone first.
    """
    now, tenant = context.clock(), access.default_tenant
    return retry_on_conflict(lambda: _undo(context, access, run_id, tenant, now))


def _undo(context: Context, access: Access, run_id: str, tenant: str, now: Instant) -> Undone:
    """Plan the undo in a snapshot and carry it out. Raises Conflict if a result changes in between."""
    with context.engine.open_snapshot(tenant) as snapshot:
        recorded, seq = _load_runs(snapshot), snapshot.find_last_change()
        number = _find_last(access, recorded, run_id)
        run = recorded.pop(number)
        location = memories.locate_namespace(access, parse_namespace(run["namespace"]))
        require_whole(access, location)
        plan = _plan_undo(context, snapshot, location, _load_changes(snapshot, number), now)
        earlier_changes = {
            other_number: _load_changes(snapshot, other_number)
            for other_number, other in recorded.items()
            if _is_same_kind(other, run)
        }
    undone = Undone(
        run_id=run_id,
        taken_back=tuple(step.key for step in plan if step.withdrawn is not None),
        brought_again=tuple(step.key for step in plan if step.restored is not None),
        left=tuple(step.key for step in plan if step.is_left),
    )

    def work(unit: Unit) -> Undone:
        changed_ids = unit.list_changed_memories(seq)
        heads = [step.withdrawn for step in plan if step.withdrawn is not None]
        is_locked = unit.count_deletable([head.version_id for head in heads]) < len(heads)
        is_undone = unit.load_item(_RUNS, _item_name(number)) is None
        is_changed = any(not changed_ids.isdisjoint(step.rests_on) for step in plan)
        if is_locked or is_undone or is_changed:
            raise Conflict("the results of the run were changed meanwhile; try again")
        replacements = {step.prior_id: _apply_step(context, unit, step, now) for step in plan}
        _drop_run(unit, number)
        _rewrite_earlier(unit, earlier_changes, replacements, undone.left)
        entry = audit_entry(
            access,
            "oams.undo",
            now=now,
            scope=location_scope(location),
            result=f"{len(undone.taken_back)} withdrawn, {len(undone.brought_again)} restored",
            meta={"run_id": run_id, "strategy": run["strategy"]},
        )
        unit.record_audit(entry)
        return undone

    return context.engine.write(tenant, work)


def _find_last(access: Access, recorded: Mapping[int, RecordedRun], run_id: str) -> int:
    """Return the number of the last run with an id. Raises NotFound, or Conflict unless it is the last of its kind."""
    numbers = (number for number, run in recorded.items() if run["run_id"] == run_id)
    number = max(numbers, default=None)
    if number is None or not _may_enter(access, recorded[number]["namespace"]):
        raise NotFound(f"no run {run_id} that could be undone")
    later_runs = [
        run
        for other, run in recorded.items()
        if other > number and _is_same_kind(run, recorded[number])
    ]
    if later_runs:
        raise Conflict(
            f"a later run of {later_runs[-1]['strategy']} builds on it; undo {later_runs[-1]['run_id']} first"
        )
    return number


class _UndoStep(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an undo under one key: a version to withdraw, a version to restore, or neither."""

    key: str
    prior_id: int | None
    withdrawn: Version | None = None
    restored: NewVersion | None = None
    is_left: bool = False
    # Ids of the memories that the step was decided by: it is wrong if one of them changes.
    rests_on: frozenset[int] = frozenset()


def _plan_undo(
    context: Context,
    snapshot: Snapshot,
    location: Location,
    changes: Sequence[RecordedChange],
    now: Instant,
) -> list[_UndoStep]:
    """Return a step for each change of a run."""
    plan = []
    for change in changes:
        key, prior_id, head = change.key, change.prior_id, None
        if change.new_id is not None:
            head = memories.find_head(context, snapshot, location, key)
            is_as_left = head is not None and head.version_id == change.new_id
            if head is None or not is_as_left or not may_change(snapshot, head, now):
                plan.append(_UndoStep(key=key, prior_id=prior_id, is_left=True))
                continue
        restored, source_ids = None, set[int]()
        if prior_id is not None:
            restored, source_ids = _restore(
                context, snapshot, location, prior_id, now, withdrawn=head
            )
        if head is not None:
            source_ids.add(head.memory_id)
        step = _UndoStep(
            key=key,
            prior_id=prior_id,
            withdrawn=head,
            restored=restored,
            is_left=prior_id is not None and restored is None,
            rests_on=frozenset(source_ids),
        )
        plan.append(step)
    return plan


def _apply_step(context: Context, unit: Unit, step: _UndoStep, now: Instant) -> int | None:
    """Withdraw and restore as planned. Return the id of the restored version, or None."""
    if step.withdrawn is not None:
        withdraw(unit, step.withdrawn, now)
    if step.restored is None:
        return None
    return memories.append_memory(context, unit, step.restored, None, now).version_id


def _rewrite_earlier(
    unit: Unit,
    earlier_changes: Mapping[int, Sequence[RecordedChange]],
    replacements: Mapping[int | None, int | None],
    left_keys: Collection[str],
) -> None:
    """Replace restored versions in the changes of earlier runs, and drop the changes of results that were left."""
    restored_ids: dict[int | None, int | None] = {
        prior_id: new_id for prior_id, new_id in replacements.items() if new_id is not None
    }
    for number, changes in earlier_changes.items():
        rewritten = [
            RecordedChange(
                key=change.key,
                new_id=restored_ids.get(change.new_id, change.new_id),
                prior_id=restored_ids.get(change.prior_id, change.prior_id),
            )
            for change in changes
            if change.key not in left_keys
        ]
        if rewritten != changes:
            _put_changes(unit, number, rewritten)


def _restore(
    context: Context,
    snapshot: Snapshot,
    location: Location,
    version_id: int,
    now: Instant,
    *,
    withdrawn: Version | None,
) -> tuple[NewVersion | None, set[int]]:
    """Return an earlier result as a new version, and the ids of the memories that it rests on.

    Return None and no ids if the version was erased or has expired, if one of its inputs is gone, or if its key is in
    use by another memory. `withdrawn` is the version that the same step withdraws.
    """
    versions = snapshot.load_versions([version_id])
    if not versions or versions[0].state.erased:
        return None, set()
    content, expires = load_memory(versions[0].document.native), versions[0].state.expires
    if strategy_of(content) is None or (expires is not None and expires <= now):
        return None, set()
    last = snapshot.find_by_name(
        mapping.STANDARD, memories.stored_name(context, location, content["key"])
    )
    if last is None or last.state.erased:
        return None, set()
    is_withdrawn = withdrawn is not None and last.version_id == withdrawn.version_id
    is_current = last.state.tombstoned is None and not is_withdrawn
    if is_current or not _is_result(last):
        # Somebody wrote another memory under this key, even if they forgot it again.
        return None, set()
    source_ids = {last.memory_id}
    for key in cited_keys(content):
        source = memories.find_head(context, snapshot, location, key)
        if source is None:
            return None, set()
        source_ids.add(source.memory_id)
    owner = structs.replace(location, user=user_of(content) or location.user)
    return build_owned_version(context, owner, content), source_ids


def _is_result(version: Version) -> bool:
    document = version.document
    return mapping.owns(document) and strategy_of(load_memory(document.native)) is not None


# --- shared with the runs themselves -------------------------------------------------------------------------


def require_whole(access: Access, location: Location) -> None:
    """Raise ForbiddenScope unless the caller sees the whole namespace.

    Results are about a whole namespace: those of a caller who sees a part must not replace the owner's.
    """
    if not access.sees_whole_space(location.tenant):
        raise ForbiddenScope(
            "only a credential that sees the whole namespace can consolidate it; this one can do a dry run"
        )


def build_owned_version(context: Context, location: Location, result: Memory) -> NewVersion:
    """Return the version of a result, bound to the user of the location and related to its inputs.

    A result of a user's memories is encrypted under the key of that user, and erased together with the memories.
    """
    new_version, user = memories.build_version(context, location, result), location.user
    if user and user != new_version.projection.scope.user:
        new_version = with_bounds(context, new_version, Bounds(user=user))
    projection = structs.replace(new_version.projection, relations=_source_relations(result))
    return structs.replace(new_version, projection=projection)


def _source_relations(result: Memory) -> tuple[Relation, ...]:
    """Return relations to the cited inputs; one to EVERYTHING in addition if not all inputs are cited."""
    namespace, keys = result["namespace"], cited_keys(result)
    if "inputs" in details_of(result):
        keys = [*keys, EVERYTHING]
    references = (mapping.format_reference(namespace, key) for key in keys)
    return tuple(
        Relation(type=DERIVED_FROM, target=reference) for reference in dict.fromkeys(references)
    )


def may_change(snapshot: Snapshot, prior: Version, now: Instant) -> bool:
    """Return True if no protection forbids to replace or forget a version."""
    try:
        check_supersession(snapshot, prior, {}, now=now)
    except GrainError:
        return False
    return True


def withdraw(unit: Unit, version: Version, now: Instant) -> None:
    """Forget a result softly: it is a tombstone, and an undo can restore it."""
    forget_line(unit, version, now)
    unit.announce("tombstoned", version, now=now)


def is_erased(context: Context, snapshot: Snapshot, location: Location, key: str) -> bool:
    """Return True if the memory under a key was erased; the key may be the name of a memory of UMP or OMS."""
    names = (
        (mapping.STANDARD, memories.stored_name(context, location, key)),
        (ump.STANDARD, key),
        (oms.STANDARD, key),
    )
    for standard, name in names:
        version = snapshot.find_by_name(standard, name)
        if version is not None:
            return version.state.erased
    return False


def location_scope(location: Location) -> dict[str, str]:
    """Return the scope of a location for audit entries."""
    return {"owner": location.tenant, **({"project": location.space} if location.space else {})}
