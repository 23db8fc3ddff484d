"""Records of imports: the versions that each import wrote, so that it can be undone as a whole.

Versions are numbered in the order written, and a batch is one unit of work, so an import is stored as a few ranges of
version numbers. Its content is not stored again. `undo_import` walks the ranges backwards: a new memory is forgotten, a
changed one gets its former content as a new version, and one that was changed since is left alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from memoranda.encoding import json_text
from memoranda.errors import MemorandaError, NotFound
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import UMP
from memoranda.service.core import actions
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.ump.revise import revert
from memoranda.storage.engine.contract import Snapshot, Unit

_IMPORTS: Final = "import"
# Imports on record; of more, the oldest can no longer be undone.
IMPORTS_LIMIT: Final = 32
_LABEL_CHARS: Final = 200
_CHUNK: Final = 500


class ImportRecord:
    """An import in progress that is being recorded."""

    def __init__(self, label: str, name: str = "") -> None:
        self.label = label[:_LABEL_CHARS]
        self.id = name

    def add_batch(self, unit: Unit, first: int, now: Instant) -> None:
        """Record that this import wrote the versions after `first`, in the unit of work that writes them."""
        last = unit.find_last_version()
        if last == first:
            return
        if not self.id:
            # By time; the random part separates two imports that begin at once.
            self.id = f"{now:015d}-{secrets.token_hex(3)}"
        item = unit.load_item(_IMPORTS, self.id)
        ranges: list[list[int]] = [] if item is None else json_text.parse(item)["ranges"]
        if ranges and ranges[-1][1] == first:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
        document: dict[str, Any] = {"what": self.label, "at": now, "ranges": ranges}
        # All batches are one action, which is found by its last change.
        document["change"] = unit.find_last_change()
        if item is not None and (previous := json_text.parse(item).get("change")):
            unit.continue_action(previous)
        unit.put_item(_IMPORTS, self.id, json_text.dump(document))
        if item is None:
            for name in sorted(unit.load_items(_IMPORTS))[:-IMPORTS_LIMIT]:
                unit.delete_item(_IMPORTS, name)


def resume_import(context: Context, access: Access, name: str) -> ImportRecord:
    """Return an import that continues. Raises NotFound if it was undone meanwhile, or is no longer recorded."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        item = snapshot.load_item(_IMPORTS, name)
    if item is None:
        raise NotFound(f"there is no import {name}")
    return ImportRecord(json_text.parse(item)["what"], name)


class UndoneImport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of undoing an import: versions forgotten, restored, and left alone because they were changed since."""

    id: str
    what: str
    forgotten: int = 0
    restored: int = 0
    left: int = 0

    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        counts = {"forgotten": self.forgotten, "restored": self.restored, "left": self.left}
        return {"import": self.id, "what": self.what, **counts}


def find_import(snapshot: Snapshot, last_change: int) -> str | None:
    """Return the id of the import whose last change is at a position of the change feed."""
    for name, content in snapshot.load_items(_IMPORTS).items():
        if json_text.parse(content).get("change") == last_change:
            return name
    return None


def list_imports(context: Context, access: Access) -> list[dict[str, Any]]:
    """Return the imports that can be undone, latest first."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        items = snapshot.load_items(_IMPORTS)
    imports = []
    for name in sorted(items, reverse=True):
        record = json_text.parse(items[name])
        count = sum(last - first for first, last in record["ranges"])
        imports.append(
            {
                "import": name,
                "what": record["what"],
                "at": format_instant(record["at"]),
                "written": count,
            }
        )
    return imports


def undo_import(
    context: Context,
    access: Access,
    name: str | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> UndoneImport:
    """Undo an import, the latest unless it is named. Raises NotFound.

    Memories that were changed since stay. After an interrupt, the next call continues.
    """
    tenant = access.default_tenant
    with context.engine.open_snapshot(tenant) as snapshot:
        records = {
            name: json_text.parse(item) for name, item in snapshot.load_items(_IMPORTS).items()
        }
    chosen_name = name or max(records, default=None)
    if chosen_name is None or chosen_name not in records:
        raise NotFound(
            "there is no import to undo" if name is None else f"there is no import {name}"
        )
    with context.engine.open_snapshot(tenant) as snapshot:
        parts = actions.load_action(snapshot, records[chosen_name].get("change", 0))
    # The undo of the last action passes over an import that is undone.
    action = actions.begin_undo(parts) if parts else actions.Action()
    undoing = _ImportUndo(context, access, records[chosen_name]["ranges"], action)
    undoing.run(progress)
    context.engine.write(tenant, lambda unit: _delete_record(unit, chosen_name, undoing.restored))
    return UndoneImport(id=chosen_name, what=records[chosen_name]["what"], **undoing.counts)


class _ImportUndo:
    """The undoing of one import."""

    def __init__(
        self,
        context: Context,
        access: Access,
        ranges: list[list[int]],
        action: actions.Action,
    ) -> None:
        self._context, self._access, self._ranges = context, access, ranges
        self._action = action
        self.counts = {"forgotten": 0, "restored": 0, "left": 0}
        # The names of versions that restore an earlier content, each with the number of that earlier version.
        self.restored: list[tuple[str, int]] = []

    def run(self, progress: Callable[[int], None] | None) -> None:
        """Undo all versions, newest first; `progress` gets the number of versions so far."""
        for first, last in reversed(self._ranges):
            for start in range(last, first, -_CHUNK):
                self._undo_chunk(range(max(first, start - _CHUNK) + 1, start + 1))
                if progress is not None:
                    progress(sum(self.counts.values()))

    def _undo_chunk(self, numbers: range) -> None:
        """Undo the versions with these numbers."""
        with self._context.engine.open_snapshot(self._access.default_tenant) as snapshot:
            versions = [
                version
                for version in snapshot.load_versions(list(numbers))
                if not version.state.is_forgotten
            ]
            changed_versions = [version for version in versions if not version.state.is_head]
            # A version that only this import changed again does not count as edited.
            self.counts["left"] += sum(
                not self._is_own(snapshot.list_history_ids(version.memory_id)[-1])
                for version in changed_versions
            )
        for version in versions:
            if version.state.erased or not version.state.is_head:
                continue
            try:
                name, before = revert(
                    self._context, self._access, version, self._ranges[0][0], action=self._action
                )
            except MemorandaError:
                # It is on legal hold, or its policy forbids it.
                self.counts["left"] += 1
                continue
            self.counts["restored" if before else "forgotten"] += 1
            if before:
                self.restored.append((name, before))

    def _is_own(self, version_id: int) -> bool:
        """Return True if this import wrote a version."""
        return any(first < version_id <= last for first, last in self._ranges)


def _delete_record(unit: Unit, name: str, restored: list[tuple[str, int]]) -> None:
    """Remove the record of an import.

    A version that restored the content of an earlier import belongs to that import from now on.
    """
    unit.delete_item(_IMPORTS, name)
    restored_versions = [
        (version.version_id, before)
        for restored_name, before in restored
        if (version := unit.find_by_name(UMP, restored_name))
    ]
    for other, item in unit.load_items(_IMPORTS).items() if restored_versions else ():
        record = json_text.parse(item)
        ranges = record["ranges"]
        moved_changes = [
            new_id
            for new_id, before in restored_versions
            if any(first < before <= last for first, last in ranges)
        ]
        if moved_changes:
            ranges += [[new_id - 1, new_id] for new_id in sorted(moved_changes)]
            unit.put_item(_IMPORTS, other, json_text.dump(record))
