"""Imports on record: which versions each wrote, so that it can be taken back as a whole.

Versions are numbered in the order written and a batch is one unit of work, so what an import wrote is a few ranges of
numbers. Nothing of what was taken in stands there.
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
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.ump.revise import revert
from memoranda.storage.engine.contract import Unit

_IMPORTS: Final = "import"
# Of more the oldest can be taken back no longer.
IMPORTS_LIMIT: Final = 32
_LABEL_CHARS: Final = 200
_CHUNK: Final = 500


class Imported:
    """One import on its way, to be put on record."""

    def __init__(self, label: str, name: str = "") -> None:
        self.label = label[:_LABEL_CHARS]
        self.id = name

    def note(self, unit: Unit, first: int, now: Instant) -> None:
        """Put on record that the versions after one were written by this import, in the unit that writes them."""
        last = unit.find_last_version()
        if last == first:
            return
        if not self.id:
            # By time, and by chance where two begin at once.
            self.id = f"{now:015d}-{secrets.token_hex(3)}"
        held = unit.load_item(_IMPORTS, self.id)
        ranges: list[list[int]] = [] if held is None else json_text.parse(held)["ranges"]
        if ranges and ranges[-1][1] == first:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
        document = {"what": self.label, "at": now, "ranges": ranges}
        unit.put_item(_IMPORTS, self.id, json_text.dump(document))
        if held is None:
            for name in sorted(unit.load_items(_IMPORTS))[:-IMPORTS_LIMIT]:
                unit.delete_item(_IMPORTS, name)


def resumed(context: Context, access: Access, name: str) -> Imported:
    """An import that goes on. Raises NotFound if it was taken back meanwhile, or is on record no more."""
    with context.engine.read(access.default_tenant) as snapshot:
        held = snapshot.load_item(_IMPORTS, name)
    if held is None:
        raise NotFound(f"there is no import {name}")
    return Imported(json_text.parse(held)["what"], name)


class UndoneImport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of what an import wrote: forgotten, as it was before, or left because it was changed since."""

    id: str
    what: str
    forgotten: int = 0
    restored: int = 0
    left: int = 0

    def document(self) -> dict[str, Any]:
        counts = {"forgotten": self.forgotten, "restored": self.restored, "left": self.left}
        return {"import": self.id, "what": self.what, **counts}


def imports(context: Context, access: Access) -> list[dict[str, Any]]:
    """The imports that can be taken back, the last first."""
    with context.engine.read(access.default_tenant) as snapshot:
        kept = snapshot.load_items(_IMPORTS)
    found = []
    for name in sorted(kept, reverse=True):
        told = json_text.parse(kept[name])
        written = sum(last - first for first, last in told["ranges"])
        found.append(
            {
                "import": name,
                "what": told["what"],
                "at": format_instant(told["at"]),
                "written": written,
            }
        )
    return found


def undo_import(
    context: Context,
    access: Access,
    name: str | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> UndoneImport:
    """Take back an import, the last unless it is named: what it brought is forgotten, what it changed is as before.

    What was changed since stays. An interrupt loses nothing: the rest is taken back by the next call.
    """
    tenant = access.default_tenant
    with context.engine.read(tenant) as snapshot:
        kept = {name: json_text.parse(held) for name, held in snapshot.load_items(_IMPORTS).items()}
    chosen = name or max(kept, default=None)
    if chosen is None or chosen not in kept:
        raise NotFound(
            "there is no import to take back" if name is None else f"there is no import {name}"
        )
    undoing = _Undoing(context, access, kept[chosen]["ranges"])
    undoing.run(progress)
    context.engine.write(tenant, lambda unit: _end(unit, chosen, undoing.restored))
    return UndoneImport(id=chosen, what=kept[chosen]["what"], **undoing.counts)


class _Undoing:
    """One import on its way out."""

    def __init__(self, context: Context, access: Access, ranges: list[list[int]]) -> None:
        self._context, self._access, self._ranges = context, access, ranges
        self.counts = {"forgotten": 0, "restored": 0, "left": 0}
        # The name of what says again what an earlier version said, and that.
        self.restored: list[tuple[str, int]] = []

    def run(self, progress: Callable[[int], None] | None) -> None:
        for first, last in reversed(self._ranges):
            for start in range(last, first, -_CHUNK):
                self._some(range(max(first, start - _CHUNK) + 1, start + 1))
                if progress is not None:
                    progress(sum(self.counts.values()))

    def _some(self, numbers: range) -> None:
        with self._context.engine.read(self._access.default_tenant) as snapshot:
            found = [
                each
                for each in snapshot.load_versions(list(numbers))
                if not each.state.is_forgotten
            ]
            changed = [each for each in found if not each.state.is_head]
            # What the import changed itself is among what it wrote, too.
            self.counts["left"] += sum(
                not self._is_own(snapshot.list_history_ids(each.memory_id)[-1]) for each in changed
            )
        for version in found:
            if version.state.erased or not version.state.is_head:
                continue
            try:
                name, before = revert(self._context, self._access, version, self._ranges[0][0])
            except MemorandaError:
                # Held, or under a policy that does not let it go.
                self.counts["left"] += 1
                continue
            self.counts["restored" if before else "forgotten"] += 1
            if before:
                self.restored.append((name, before))

    def _is_own(self, version_id: int) -> bool:
        return any(first < version_id <= last for first, last in self._ranges)


def _end(unit: Unit, name: str, restored: list[tuple[str, int]]) -> None:
    """Take an import off the record; what now says what an earlier one wrote belongs to that one."""
    unit.delete_item(_IMPORTS, name)
    written = [
        (version.version_id, before)
        for each, before in restored
        if (version := unit.find_by_name(UMP, each))
    ]
    for other, held in unit.load_items(_IMPORTS).items() if written else ():
        told = json_text.parse(held)
        ranges = told["ranges"]
        ours = [
            new for new, before in written if any(first < before <= last for first, last in ranges)
        ]
        if ours:
            ranges += [[new - 1, new] for new in sorted(ours)]
            unit.put_item(_IMPORTS, other, json_text.dump(told))
