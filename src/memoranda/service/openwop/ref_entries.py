"""The entries of a memoryRef, as compaction, distillation and consolidation read, replace and restore them.

Each of the three is a consolidation run over one ref. It reads the current entries in one snapshot, prepares its result
without holding the writer, and writes it in a unit of work that first checks that what it read is unchanged. An item
under UNDO_RECORDS, keyed by the id of the run, lists what the run replaced; `undo` reads it and deletes it:

    {"space": …, "taken": [{"id": replaced entry, "by": the entry in its place, "why": …}, …]}    a consolidation
    {"space": …, "taken": [], "made": the new entry}                                              a compaction
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
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
from memoranda.service.core.lineage import is_written_by_run, note_restored, restore_replaced
from memoranda.service.core.memory_line import forget_line
from memoranda.service.core.views import is_intact, project, run_unless_damaged
from memoranda.service.openwop import memory
from memoranda.service.openwop.runs import UNDO_RECORDS
from memoranda.service.retrieve import iterate_selected
from memoranda.standards.openwop import mapping, refs
from memoranda.standards.openwop.entry import MAX_TAG_CHARS, Entry, is_archive
from memoranda.storage.engine.contract import Snapshot, Unit

# An entry of openwop, with the version that it was read from.
EntryVersion = tuple[Version, Entry]
# Tags that name the sources of one entry.
_MAX_PROVENANCE_TAGS: Final = 100
# Memories of other standards that a distillation reads, the latest: the largest budget has room for fewer.
_FOREIGN_LIMIT: Final = 10_000


def require_space(access: Access, ref: str) -> str:
    """Return the space of a ref. Raises InvalidInput, or ForbiddenScope if the caller sees only a part of the space."""
    tenant = access.default_tenant
    space = refs.resolve_ref(ref, tenant)
    if space is None:
        raise InvalidInput("memoryRef: not one of this host")
    scope = {**access.limits, "owner": tenant}
    if space:
        scope["project"] = space
    access.require_scope(scope)
    if not access.sees_whole_space(tenant):
        # The result would disclose the entries that the caller cannot see, and replace them.
        raise ForbiddenScope(
            "this operation reads the whole of a memoryRef, and this credential sees only a part of it"
        )
    return space


# --- reading -------------------------------------------------------------------------------------------------


def load_entries(snapshot: Snapshot, space: str, now: Instant) -> list[EntryVersion]:
    """Return the current entries of a space that were written through openwop, oldest first."""
    return [
        (version, memory.load_entry(version))
        for version in _current_versions(snapshot, space, now)
        if mapping.owns(version.document)
    ]


def load_all_entries(
    context: Context, snapshot: Snapshot, space: str, now: Instant
) -> list[EntryVersion]:
    """Return the entries of `load_entries`, followed by the memories of other standards that an archive may repeat.

    An archive cannot express the restrictions of such a memory: the person it belongs to, flags of personal data, or a
    redaction for other readers. A memory with any of them is left out, and so are results of consolidation runs.
    """
    entries: list[EntryVersion] = []
    foreign: deque[Version] = deque(maxlen=_FOREIGN_LIMIT)
    for version in _current_versions(snapshot, space, now):
        if mapping.owns(version.document):
            entries.append((version, memory.load_entry(version)))
        elif memory.is_shown(version, None, now) and not is_written_by_run(version):
            foreign.append(version)
    for version in foreign:
        entry = run_unless_damaged(version, partial(_show_unrestricted, context, snapshot, version))
        if entry is not None and not is_archive(entry["tags"]):
            entries.append((version, entry))
    return entries


def _current_versions(snapshot: Snapshot, space: str, now: Instant) -> Iterator[Version]:
    hits = iterate_selected(snapshot, Selection(space=space, exportable=True), now=now)
    return (version for version, _ in hits if is_intact(version))


def _show_unrestricted(context: Context, snapshot: Snapshot, version: Version) -> Entry | None:
    """Return a memory as an entry; None if a restriction binds it that an archive cannot express."""
    projection, fields = project(context, version), compliance.fields_of_version(version)
    is_flagged = (
        compliance.is_personal(fields)
        or fields.get("con:ccpa_opted_out") is True
        or any(tag.startswith(FLAG_PREFIXES) for tag in projection.tags)
    )
    if is_flagged or projection.redacted or projection.scope.user or projection.basis:
        return None
    return memory.show(context, snapshot, version)


def build_notes(entries: Sequence[EntryVersion]) -> list[MemoryNote]:
    """Return entries as the input of consolidation, weighted by how often each was followed."""
    return [
        MemoryNote(
            name=entry["id"],
            text=entry["content"],
            at=parse_instant(entry["createdAt"]),
            tags=tuple(entry["tags"]),
            weight=1.0 + version.state.followed,
        )
        for version, entry in entries
    ]


def select_replaceable(entries: Sequence[EntryVersion]) -> list[EntryVersion]:
    """Return the entries that a run may replace: no archives, and nothing on legal hold (OMS §23.2)."""
    return [
        (version, entry)
        for version, entry in entries
        if not is_archive(entry["tags"]) and not version.state.has_legal_hold
    ]


# --- writing -------------------------------------------------------------------------------------------------


def build_provenance_tags(run_id: str, ids: Sequence[str]) -> list[str]:
    """Return the tags of a run's result: one for the run (RFC 0012 §C), and one for each source up to a limit."""
    tags = [f"{mapping.DERIVED_PREFIX}{name}" for name in ids[:_MAX_PROVENANCE_TAGS]]
    return [
        f"{mapping.COMPACTED_PREFIX}{run_id}",
        *(tag for tag in tags if len(tag) <= MAX_TAG_CHARS),
    ]


def require_unchanged(unit: Unit, version_ids: Sequence[int]) -> None:
    """Raise Conflict unless all versions that a run rests on are still current and free of legal holds."""
    if unit.count_deletable(version_ids) < len(version_ids):
        raise Conflict("the entries changed while they were read; try again")


def undo(context: Context, access: Access, run_id: str) -> int:
    """Restore the entries that a consolidation or a compaction replaced, and remove the entry that a compaction wrote.

    Return the number of restored entries. Raises NotFound if there is nothing to undo under that run.
    """
    now, tenant = context.clock(), access.default_tenant
    with context.engine.open_snapshot(tenant) as snapshot:
        item = snapshot.load_item(UNDO_RECORDS, run_id)
        record = {"taken": []} if item is None else json_text.parse(item)
        names = {step[key] for step in record["taken"] for key in ("id", "by")}
        version_ids = snapshot.find_version_ids(mapping.STANDARD, sorted(names))
        compacted = (
            snapshot.find_by_name(mapping.STANDARD, record["made"]) if "made" in record else None
        )
    # Pairs of a replaced version and the one in its place; those of erased entries are left out.
    replaced = [
        (version_ids[step["id"]], version_ids[step["by"]])
        for step in record["taken"]
        if step["id"] in version_ids and step["by"] in version_ids
    ]

    def work(unit: Unit) -> int:
        if item is None or unit.load_item(UNDO_RECORDS, run_id) != item:
            raise NotFound("no consolidation of this run that could be undone")
        if compacted is None:
            count = unit.reopen_superseded(replaced, now=now)
        else:
            require_unchanged(unit, [compacted.version_id])
            forget_line(unit, compacted, now)
            unit.announce("tombstoned", compacted, now=now)
            count = restore_replaced(unit, compacted, (), now)
        for step in record["taken"]:
            note_restored(unit, step["by"], {version_id for version_id, _ in replaced})
        unit.delete_item(UNDO_RECORDS, run_id)
        audit_run(unit, access, "undo", record["space"], now, f"{count} restored")
        return count

    return context.engine.write(tenant, work)


def audit_run(unit: Unit, access: Access, op: str, space: str, now: Instant, result: str) -> None:
    """Write the audit entry of a run over a space."""
    scope = {"owner": access.default_tenant, **({"project": space} if space else {})}
    unit.record_audit(audit_entry(access, f"openwop.{op}", now=now, scope=scope, result=result))
