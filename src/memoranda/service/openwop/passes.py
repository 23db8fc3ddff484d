"""What the passes over a memoryRef share: what they read, what they may replace, how they are recorded and undone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from memoranda.consolidation.text.note import MemoryNote
from memoranda.encoding import json_text
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound
from memoranda.model.bounds import FLAG_PREFIXES
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import Version
from memoranda.model.selection import Selection
from memoranda.service.core import compliance
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lineage import bring_back, is_by_a_pass, note_returned
from memoranda.service.core.views import holds, project, unless_damaged
from memoranda.service.openwop import memory
from memoranda.service.openwop.runs import PASSES
from memoranda.service.retrieve import walk
from memoranda.service.ump.revise import tombstone
from memoranda.standards.openwop import mapping, refs
from memoranda.standards.openwop.entry import MAX_TAG_CHARS, Entry, is_archive
from memoranda.storage.engine.contract import Snapshot, Unit

_MAX_PROVENANCE_TAGS: Final = 100
# The latest of what other standards wrote: the largest budget has room for less.
_OTHERS_LIMIT: Final = 10_000


def space_in(access: Access, ref: str) -> str:
    """The space of a ref that the caller sees all of. Raises InvalidInput, ForbiddenScope."""
    tenant = access.default_tenant
    space = refs.resolve_ref(ref, tenant)
    if space is None:
        raise InvalidInput("memoryRef: not one of this host")
    access.require_scope(
        {**access.limits, "owner": tenant, **({"project": space} if space else {})}
    )
    if not access.sees_whole(tenant):
        # What it comes to would tell them of the rest, and take the place of what they cannot see.
        raise ForbiddenScope(
            "a pass reads the whole of a memoryRef, and this credential sees only a part of it"
        )
    return space


def entries(snapshot: Snapshot, space: str, now: Instant) -> list[tuple[Version, Entry]]:
    """The entries that were written as such and are current, oldest first."""
    return [
        (version, memory.load_entry(version))
        for version in _current(snapshot, space, now)
        if mapping.owns(version.document)
    ]


def entries_and_others(
    context: Context, snapshot: Snapshot, space: str, now: Instant
) -> list[tuple[Version, Entry]]:
    """The same, and behind them what was written through another standard, where an archive may repeat it.

    An archive has no words for what binds these: a person whose they are, marks of personal data or of a domain, what
    others may not see. So they stay out of it, and so does what a pass made of others.
    """
    found: list[tuple[Version, Entry]] = []
    others: deque[Version] = deque(maxlen=_OTHERS_LIMIT)
    for version in _current(snapshot, space, now):
        if mapping.owns(version.document):
            found.append((version, memory.load_entry(version)))
        elif memory.is_stated(version, None, now) and not is_by_a_pass(version):
            others.append(version)
    for version in others:
        made = unless_damaged(version, lambda v=version: _unbound(context, snapshot, v))  # type: ignore[misc]
        if made is not None and not is_archive(made["tags"]):
            found.append((version, made))
    return found


def _current(snapshot: Snapshot, space: str, now: Instant) -> Iterator[Version]:
    found = walk(snapshot, Selection(space=space, exportable=True), now=now)
    return (version for version, _ in found if holds(version))


def _unbound(context: Context, snapshot: Snapshot, version: Version) -> Entry | None:
    read, fields = project(context, version), compliance.fields_of_version(version)
    is_marked = compliance.is_personal(fields) or fields.get("con:ccpa_opted_out") is True
    is_marked |= any(tag.startswith(FLAG_PREFIXES) for tag in read.tags)
    is_bound = read.redacted or read.scope.user or read.basis or is_marked
    return None if is_bound else memory.show(context, snapshot, version)


def notes_of(found: Sequence[tuple[Version, Entry]]) -> list[MemoryNote]:
    return [
        MemoryNote(
            name=entry["id"],
            text=entry["content"],
            at=parse_instant(entry["createdAt"]),
            tags=tuple(entry["tags"]),
            weight=1.0 + version.state.followed,
        )
        for version, entry in found
    ]


def replaceable(found: Sequence[tuple[Version, Entry]]) -> list[tuple[Version, Entry]]:
    """What a pass may replace: no archive, and nothing on legal hold (OMS §23.2)."""
    return [
        (version, entry)
        for version, entry in found
        if not is_archive(entry["tags"]) and not version.state.has_legal_hold
    ]


def provenance_tags(run_id: str, ids: Sequence[str]) -> list[str]:
    """The tags of what a pass makes: its run (RFC 0012 §C), and what it was made from."""
    tags = [f"{mapping.DERIVED_PREFIX}{name}" for name in ids[:_MAX_PROVENANCE_TAGS]]
    return [
        f"{mapping.COMPACTED_PREFIX}{run_id}",
        *(tag for tag in tags if len(tag) <= MAX_TAG_CHARS),
    ]


def require_free(unit: Unit, version_ids: Sequence[int]) -> None:
    """Raise Conflict unless all that a pass rests on is still there, and nothing of it was put on hold."""
    if unit.count_deletable(version_ids) < len(version_ids):
        raise Conflict("the entries changed while they were read; try again")


def undo(context: Context, access: Access, run_id: str) -> int:
    """Bring back what a consolidation or a compaction took out; how many entries. What a compaction made goes."""
    now, tenant = context.clock(), access.default_tenant
    with context.engine.read(tenant) as snapshot:
        kept = snapshot.load_item(PASSES, run_id)
        done = {"taken": []} if kept is None else json_text.parse(kept)
        named = {each[name] for each in done["taken"] for name in ("id", "by")}
        found = snapshot.find_version_ids(mapping.STANDARD, sorted(named))
        made = snapshot.find_by_name(mapping.STANDARD, done["made"]) if "made" in done else None
    taken = [
        (found[each["id"]], found[each["by"]])
        for each in done["taken"]
        if {each["id"], each["by"]} <= found.keys()
    ]

    def work(unit: Unit) -> int:
        if kept is None or unit.load_item(PASSES, run_id) != kept:
            raise NotFound("no consolidation of this run that could be undone")
        if made is not None:
            require_free(unit, [made.version_id])
            tombstone(unit, made, now)
            unit.announce("tombstoned", made, now=now)
        count = (
            unit.reopen_superseded(taken, now=now)
            if made is None
            else bring_back(unit, made, (), now)
        )
        for each in done["taken"]:
            note_returned(unit, each["by"], {number for number, _ in taken})
        unit.delete_item(PASSES, run_id)
        record_pass(unit, access, "undo", done["space"], now, f"{count} brought back")
        return count

    return context.engine.write(tenant, work)


def record_pass(unit: Unit, access: Access, op: str, space: str, now: Instant, result: str) -> None:
    scope = {"owner": access.default_tenant, **({"project": space} if space else {})}
    unit.record_audit(audit_entry(access, f"openwop.{op}", now=now, scope=scope, result=result))
