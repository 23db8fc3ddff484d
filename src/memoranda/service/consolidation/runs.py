"""Passes of consolidation on record: what each wrote and took back, so that it can be undone.

The passes of one strategy over one namespace are a stack: the last is undone first. Undoing touches only what is still
as the pass left it, and never brings again what rests on something that was forgotten since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import Conflict, ForbiddenScope, GrainError, NotFound
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import Version
from memoranda.service.consolidation.results import cited_keys, strategy_of, user_of
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.views import load, project_memory
from memoranda.service.oams import memories
from memoranda.service.oams.memories import Given, Memory, Place
from memoranda.service.ump.revise import tombstone
from memoranda.standards.oams import mapping
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oms import mapping as oms
from memoranda.standards.ump import mapping as ump
from memoranda.storage.engine import Snapshot, Unit

_RUNS: Final = "oams dream"
# Of one strategy over one namespace: whoever runs a pass every day can go back three weeks.
RUNS_LIMIT: Final = 20
_NUMBER_DIGITS: Final = 12
# Passes by number, the oldest first.
_Kept = dict[int, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a pass did under one key, as versions of the store."""

    key: str
    written: int | None
    # What was there before, and can be brought again.
    before: int | None


def keep(unit: Unit, run_id: str, namespace: str, strategy: str, changes: Sequence[Change], now: Instant) -> None:
    """Put a pass on record; the oldest of the same kind can be undone no more."""
    kept = _kept(unit)
    number = 1 + max(kept, default=0)
    document = {
        "run_id": run_id,
        "namespace": namespace,
        "strategy": strategy,
        "at": now,
        "changes": [[change.key, change.written, change.before] for change in changes],
    }
    unit.put_item(_RUNS, _name(number), json_text.dump(document))
    same = [each for each, run in kept.items() if _is_same_kind(run, document)]
    for each in same[: max(0, len(same) + 1 - RUNS_LIMIT)]:
        unit.delete_item(_RUNS, _name(each))


def _kept(snapshot: Snapshot) -> _Kept:
    """What is on record."""
    return {int(name): json_text.parse(value) for name, value in sorted(snapshot.items(_RUNS).items())}


def _name(number: int) -> str:
    return f"{number:0{_NUMBER_DIGITS}d}"


def _is_same_kind(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["namespace"] == other["namespace"] and one["strategy"] == other["strategy"])


def runs(context: Context, access: Access) -> list[dict[str, Any]]:
    """The passes that changed something and were not undone, the last first."""
    with context.engine.read(access.default_tenant) as snapshot:
        kept = list(_kept(snapshot).values())
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
    changes = [Change(key=key, written=written, before=before) for key, written, before in run["changes"]]
    return {
        "run_id": run["run_id"],
        "namespace": run["namespace"],
        "strategy": run["strategy"],
        "at": format_instant(run["at"]),
        "created": [each.key for each in changes if each.written is not None and each.before is None],
        "updated": [each.key for each in changes if each.written is not None and each.before is not None],
        "taken_back": [each.key for each in changes if each.written is None],
        # Only the last pass of a strategy over a namespace can be undone.
        "can_be_undone": is_last,
    }


# --- undo ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
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

    def work(unit: Unit) -> Undone:
        kept = _kept(unit)
        number = _last(access, kept, run_id)
        run = kept.pop(number)
        place = memories.place_of(access, parse_namespace(run["namespace"]))
        require_whole(access, place)
        undone, restored = _undone(context, unit, place, run, now)
        unit.delete_item(_RUNS, _name(number))
        earlier = {each: other for each, other in kept.items() if _is_same_kind(other, run)}
        _correct(unit, earlier, restored, undone.left)
        result = f"{len(undone.taken_back)} taken back, {len(undone.brought_again)} brought again"
        meta = {"run_id": run_id, "strategy": run["strategy"]}
        entry = audit_entry(access, "oams.undo", now=now, scope=place_scope(place), result=result, meta=meta)
        unit.record(entry)
        return undone

    return context.engine.write(tenant, work)


def _last(access: Access, kept: _Kept, run_id: str) -> int:
    """The number of the last pass of this id, if it is the last of its kind."""
    number = max((number for number, run in kept.items() if run["run_id"] == run_id), default=None)
    if number is None or not _is_open(access, kept[number]["namespace"]):
        raise NotFound(f"no run {run_id} that could be undone")
    later = [run for other, run in kept.items() if other > number and _is_same_kind(run, kept[number])]
    if later:
        raise Conflict(f"a later run of {later[-1]['strategy']} builds on it; undo {later[-1]['run_id']} first")
    return number


def _undone(
    context: Context, unit: Unit, place: Place, run: dict[str, Any], now: Instant
) -> tuple[Undone, dict[int, int]]:
    """What was done, and which version stands for which earlier one now."""
    taken_back: list[str] = []
    left: list[str] = []
    restored: dict[str, tuple[int, int]] = {}
    for key, written, before in run["changes"]:
        if written is not None:
            head = memories.find(context, unit, place, key)
            if head is None or head.version_id != written or not may_change(unit, head, now):
                left.append(key)
                continue
            withdraw(unit, head, now)
            taken_back.append(key)
        if before is not None:
            again = _bring_again(context, unit, place, before, now)
            if again is None:
                left.append(key)
            else:
                restored[key] = (before, again.version_id)
    undone = Undone(run_id=run["run_id"], taken_back=tuple(taken_back), brought_again=tuple(restored), left=tuple(left))
    return undone, dict(restored.values())


def _correct(unit: Unit, kept: _Kept, restored: Mapping[int, int], left: Collection[str]) -> None:
    """Earlier passes can still be undone: what they wrote was written again, and what was left is not theirs."""
    for number, run in kept.items():
        changes = [
            [key, restored.get(written, written), restored.get(before, before)]
            for key, written, before in run["changes"]
            if key not in left
        ]
        if changes != run["changes"]:
            unit.put_item(_RUNS, _name(number), json_text.dump({**run, "changes": changes}))


def _bring_again(context: Context, unit: Unit, place: Place, version_id: int, now: Instant) -> Version | None:
    """Store again what a result said, as it said it, unless something that it rests on is gone."""
    found = unit.versions([version_id])
    if not found or found[0].state.erased:
        return None
    content, expires = load(found[0].document.native), found[0].state.expires
    if strategy_of(content) is None or (expires is not None and expires <= now):
        return None
    last = unit.named(mapping.STANDARD, memories.name_of(context, place, content["key"]))
    if last is None or last.state.erased or last.state.tombstoned is None or not _is_result(last):
        # Somebody wrote something else under this key, even if they forgot it again.
        return None
    if any(memories.find(context, unit, place, key) is None for key in cited_keys(content)):
        return None
    given = Given(place=replace(place, user=user_of(content) or place.user), memory=content, warnings=())
    return memories.append(context, unit, owned(context, given, content), content, None, now)


def _is_result(version: Version) -> bool:
    return version.document.standard == mapping.STANDARD and strategy_of(load(version.document.native)) is not None


# --- shared with the passes ----------------------------------------------------------------------------------


def require_whole(access: Access, place: Place) -> None:
    """Results are about a whole namespace: whoever sees only a part must not put theirs in place of the owner's."""
    if not access.sees_unredacted(place.tenant) or set(access.limits) - {"owner", "project"}:
        raise ForbiddenScope("consolidating is for who sees the whole namespace; this credential can only run it dry")


def owned(context: Context, given: Given, fresh: Memory) -> Given:
    """What rests on memories of a user is the user's: encrypted under the same key, and erased with them."""
    read = project_memory(context, fresh, given.place.tenant)
    scope = replace(read.scope, user=given.place.user)
    return replace(given, memory=fresh, projection=replace(read, scope=scope), raw=None, stems=None)


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
    found = next((each for name in names if (each := snapshot.named(*name)) is not None), None)
    return found is not None and found.state.erased


def place_scope(place: Place) -> dict[str, str]:
    """A place, as audit entries name it."""
    return {"owner": place.tenant, **({"project": place.space} if place.space else {})}
