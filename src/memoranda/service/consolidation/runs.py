"""Passes of consolidation on record: what each wrote and took back, so that it can be undone.

The passes of one strategy over one namespace are a stack: the last is undone first. Undoing touches only what is still
as the pass left it, and never brings again what rests on something that was forgotten since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from memoranda.encoding import json_text
from memoranda.errors import Conflict, ForbiddenScope, GrainError, NotFound
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import DERIVED_FROM, Bounds, Relation, Version
from memoranda.service.consolidation.results import cited_keys, mark_of, user_of
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry, retry_on_conflict
from memoranda.service.core.indexing import NewVersion, with_bounds
from memoranda.service.core.lineage import EVERYTHING
from memoranda.service.core.protection import check_supersession
from memoranda.service.oams import memories
from memoranda.service.oams.views import Place
from memoranda.service.ump.revise import tombstone
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
# Of one strategy over one namespace: whoever runs a pass every day can go back three weeks.
RUNS_LIMIT: Final = 20
_NUMBER_DIGITS: Final = 12
# Passes by number, the oldest first.
_Kept = dict[int, dict[str, Any]]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass did under one key, as versions of the store."""

    key: str
    written: int | None
    # What was there before, and can be brought again.
    before: int | None


def keep(
    unit: Unit, run_id: str, namespace: str, strategy: str, changes: Sequence[Change], now: Instant
) -> None:
    """Put a pass on record; the oldest of the same kind can be undone no more."""
    kept = _kept(unit)
    number = 1 + max(kept, default=0)
    document = {"run_id": run_id, "namespace": namespace, "strategy": strategy, "at": now}
    done = [[change.key, change.written, change.before] for change in changes]
    unit.put_item(_RUNS, _name(number), json_text.dump(document))
    unit.put_item(_CHANGES, _name(number), json_text.dump(done))
    same = [each for each, run in kept.items() if _is_same_kind(run, document)]
    for each in same[: max(0, len(same) + 1 - RUNS_LIMIT)]:
        _drop(unit, each)


def _drop(unit: Unit, number: int) -> None:
    for kind in (_RUNS, _CHANGES):
        unit.delete_item(kind, _name(number))


def _kept(snapshot: Snapshot) -> _Kept:
    """What is on record, without what each pass did."""
    return {
        int(name): json_text.parse(value)
        for name, value in sorted(snapshot.load_items(_RUNS).items())
    }


def _changes(snapshot: Snapshot, number: int) -> list[list[Any]]:
    """What a pass did: key, version written, version there before."""
    changes: list[list[Any]] = json_text.parse(snapshot.load_item(_CHANGES, _name(number)) or b"[]")
    return changes


def _name(number: int) -> str:
    return f"{number:0{_NUMBER_DIGITS}d}"


def _is_same_kind(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["namespace"] == other["namespace"] and one["strategy"] == other["strategy"])


def runs(context: Context, access: Access) -> list[dict[str, Any]]:
    """The passes that changed something and were not undone, the last first."""
    with context.engine.read(access.default_tenant) as snapshot:
        kept = [
            {**run, "changes": _changes(snapshot, number)}
            for number, run in _kept(snapshot).items()
        ]
    found = []
    seen: set[tuple[str, str]] = set()
    for run in reversed(kept):
        kind = (run["namespace"], run["strategy"])
        if _is_open(access, run["namespace"]):
            found.append(_described(run, is_last=kind not in seen))
        seen.add(kind)
    return found


def _is_open(access: Access, namespace: str) -> bool:
    try:
        memories.place_of(access, parse_namespace(namespace))
    except ForbiddenScope:
        return False
    return True


def _described(run: dict[str, Any], *, is_last: bool) -> dict[str, Any]:
    changes = [
        Change(key=key, written=written, before=before) for key, written, before in run["changes"]
    ]
    return {
        "run_id": run["run_id"],
        "namespace": run["namespace"],
        "strategy": run["strategy"],
        "at": format_instant(run["at"]),
        "created": [
            each.key for each in changes if each.written is not None and each.before is None
        ],
        "updated": [
            each.key for each in changes if each.written is not None and each.before is not None
        ],
        "taken_back": [each.key for each in changes if each.written is None],
        # Only the last pass of a strategy over a namespace can be undone.
        "can_be_undone": is_last,
    }


# --- undo ----------------------------------------------------------------------------------------------------


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What undoing a pass did, by keys."""

    run_id: str
    taken_back: tuple[str, ...]
    brought_again: tuple[str, ...]
    # Somebody changed these since, they are on hold, or what they rest on was forgotten.
    left: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "taken_back": list(self.taken_back),
            "brought_again": list(self.brought_again),
            "left": list(self.left),
        }


def undo(context: Context, access: Access, run_id: str) -> Undone:
    """Take back what a pass made, and bring again what it took back or changed."""
    now, tenant = context.clock(), access.default_tenant

    return retry_on_conflict(lambda: _undo(context, access, run_id, tenant, now))


def _undo(context: Context, access: Access, run_id: str, tenant: str, now: Instant) -> Undone:
    with context.engine.read(tenant) as snapshot:
        kept, seq = _kept(snapshot), snapshot.find_last_change()
        number = _last(access, kept, run_id)
        run = kept.pop(number)
        place = memories.place_of(access, parse_namespace(run["namespace"]))
        require_whole(access, place)
        plan = _planned(context, snapshot, place, _changes(snapshot, number), now)
        earlier = {
            each: _changes(snapshot, each)
            for each, other in kept.items()
            if _is_same_kind(other, run)
        }
    undone = Undone(
        run_id=run_id,
        taken_back=tuple(step.key for step in plan if step.withdrawn is not None),
        brought_again=tuple(step.key for step in plan if step.brought is not None),
        left=tuple(step.key for step in plan if step.is_left),
    )

    def work(unit: Unit) -> Undone:
        moved, heads = (
            unit.list_changed_memories(seq),
            [step.withdrawn for step in plan if step.withdrawn is not None],
        )
        is_held = unit.count_deletable([head.version_id for head in heads]) < len(heads)
        is_gone = unit.load_item(_RUNS, _name(number)) is None
        if is_held or is_gone or any(not moved.isdisjoint(step.rests_on) for step in plan):
            raise Conflict("what the run made was changed meanwhile; try again")
        restored = {step.before: _apply(context, unit, step, now) for step in plan}
        _drop(unit, number)
        _correct(unit, earlier, restored, undone.left)
        result = f"{len(undone.taken_back)} taken back, {len(undone.brought_again)} brought again"
        meta = {"run_id": run_id, "strategy": run["strategy"]}
        entry = audit_entry(
            access, "oams.undo", now=now, scope=place_scope(place), result=result, meta=meta
        )
        unit.record_audit(entry)
        return undone

    return context.engine.write(tenant, work)


def _last(access: Access, kept: _Kept, run_id: str) -> int:
    """The number of the last pass of this id, if it is the last of its kind."""
    number = max((number for number, run in kept.items() if run["run_id"] == run_id), default=None)
    if number is None or not _is_open(access, kept[number]["namespace"]):
        raise NotFound(f"no run {run_id} that could be undone")
    later = [
        run for other, run in kept.items() if other > number and _is_same_kind(run, kept[number])
    ]
    if later:
        raise Conflict(
            f"a later run of {later[-1]['strategy']} builds on it; undo {later[-1]['run_id']} first"
        )
    return number


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    """What undoing does under one key: what is withdrawn, what is stored again, and what stays as it is."""

    key: str
    before: int | None
    withdrawn: Version | None = None
    brought: NewVersion | None = None
    is_left: bool = False
    # The memories that this was decided by.
    rests_on: frozenset[int] = frozenset()


def _planned(
    context: Context,
    snapshot: Snapshot,
    place: Place,
    changes: Sequence[Sequence[Any]],
    now: Instant,
) -> list[_Step]:
    found = []
    for key, written, before in changes:
        head = None
        if written is not None:
            head = memories.find(context, snapshot, place, key)
            if head is None or head.version_id != written or not may_change(snapshot, head, now):
                found.append(_Step(key=key, before=before, is_left=True))
                continue
        brought, rests_on = None, set() if head is None else {head.memory_id}
        if before is not None:
            brought = _brought_again(
                context, snapshot, place, before, rests_on, now, withdrawn=head
            )
        is_left = before is not None and brought is None
        found.append(
            _Step(
                key=key,
                before=before,
                withdrawn=head,
                brought=brought,
                is_left=is_left,
                rests_on=frozenset(rests_on),
            )
        )
    return found


def _apply(context: Context, unit: Unit, step: _Step, now: Instant) -> int | None:
    """Do it; the version that stands for the one before, if that was brought again."""
    if step.withdrawn is not None:
        withdraw(unit, step.withdrawn, now)
    if step.brought is None:
        return None
    return memories.append(context, unit, step.brought, None, now).version_id


def _correct(
    unit: Unit,
    earlier: Mapping[int, Sequence[Sequence[Any]]],
    restored: Mapping[int | None, int | None],
    left: Collection[str],
) -> None:
    """Let the passes before this one know which version stands for which now, and what they can no longer undo."""
    again = {
        before: version_id for before, version_id in restored.items() if version_id is not None
    }
    for number, kept in earlier.items():
        changes = [
            [key, again.get(written, written), again.get(before, before)]
            for key, written, before in kept
            if key not in left
        ]
        if changes != kept:
            unit.put_item(_CHANGES, _name(number), json_text.dump(changes))


def _brought_again(
    context: Context,
    snapshot: Snapshot,
    place: Place,
    version_id: int,
    rests_on: set[int],
    now: Instant,
    *,
    withdrawn: Version | None,
) -> NewVersion | None:
    """What a result said, to be stored again as it said it, unless something that it rests on is gone."""
    found = snapshot.load_versions([version_id])
    if not found or found[0].state.erased:
        return None
    content, expires = load_memory(found[0].document.native), found[0].state.expires
    if strategy_of(content) is None or (expires is not None and expires <= now):
        return None
    last = snapshot.find_by_name(mapping.STANDARD, memories.name_of(context, place, content["key"]))
    is_withdrawn = (
        last is not None and withdrawn is not None and last.version_id == withdrawn.version_id
    )
    is_there = last is not None and last.state.tombstoned is None and not is_withdrawn
    if last is None or last.state.erased or is_there or not _is_result(last):
        # Somebody wrote something else under this key, even if they forgot it again.
        return None
    cited = [memories.find(context, snapshot, place, key) for key in cited_keys(content)]
    if any(each is None for each in cited):
        return None
    rests_on.update(each.memory_id for each in (*cited, last) if each is not None)
    return owned(context, structs.replace(place, user=user_of(content) or place.user), content)


def _is_result(version: Version) -> bool:
    document = version.document
    return mapping.owns(document) and strategy_of(load_memory(document.native)) is not None


# --- shared with the passes ----------------------------------------------------------------------------------


def require_whole(access: Access, place: Place) -> None:
    """Results are about a whole namespace: whoever sees only a part must not put theirs in place of the owner's."""
    if not access.sees_whole_space(place.tenant):
        raise ForbiddenScope(
            "consolidating is for who sees the whole namespace; this credential can only run it dry"
        )


def owned(context: Context, place: Place, fresh: Memory) -> NewVersion:
    """What rests on memories of a user is the user's: encrypted under the same key, and erased with them."""
    new, user = memories.new_version(context, place, fresh), place.user
    if user and user != new.projection.scope.user:
        new = with_bounds(context, new, Bounds(user=user))
    return structs.replace(
        new, projection=structs.replace(new.projection, relations=_sources(fresh))
    )


def _sources(result: Memory) -> tuple[Relation, ...]:
    """All that a result cites, and, where it cites not all that was read, everything that was there."""
    namespace, cited = result["namespace"], cited_keys(result)
    if "inputs" in mark_of(result):
        cited = [*cited, EVERYTHING]
    named = (mapping.format_reference(namespace, key) for key in cited)
    return tuple(Relation(type=DERIVED_FROM, target=name) for name in dict.fromkeys(named))


def may_change(snapshot: Snapshot, prior: Version, now: Instant) -> bool:
    """Whether nothing protects a version from being replaced or forgotten."""
    try:
        check_supersession(snapshot, prior, {}, now=now)
    except GrainError:
        return False
    return True


def withdraw(unit: Unit, version: Version, now: Instant) -> None:
    """Take a result out of every answer; it stays on record."""
    tombstone(unit, version, now)
    unit.announce("tombstoned", version, now=now)


def is_erased(context: Context, snapshot: Snapshot, place: Place, key: str) -> bool:
    """Whether the memory under a key was erased."""
    names: Iterable[tuple[str, str]] = (
        (mapping.STANDARD, memories.name_of(context, place, key)),
        (ump.STANDARD, key),
        (oms.STANDARD, key),
    )
    found = next(
        (each for name in names if (each := snapshot.find_by_name(*name)) is not None), None
    )
    return found is not None and found.state.erased


def place_scope(place: Place) -> dict[str, str]:
    """A place, as audit entries name it."""
    return {"owner": place.tenant, **({"project": place.space} if place.space else {})}
