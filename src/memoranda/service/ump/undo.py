"""Undo and redo: the last action of an owner is reverted as one, whatever verb and standard made it.

Each change of the action is inverted, the newest first: a new memory is forgotten, a revised one gets its earlier
content as a new version, a forgotten one loses its tombstones, and memories that a consolidation replaced are opened
again. A redo inverts what the undo wrote (service/core/actions.py). An erasure cannot be undone.

Undo never edits history: it writes new changes that invert the old ones, and so can be undone itself. Changes that
somebody made since are respected: a memory that was edited again is reverted only as far as the action went. What
cannot be inverted (an erasure, an expired memory) is counted and named in the summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

import msgspec

from memoranda.errors import Conflict, MemorandaError, NotFound
from memoranda.model.instant import Instant
from memoranda.model.memory import AuditEntry, Change, Version, has_ended
from memoranda.service.core import actions, lineage
from memoranda.service.core.access import Access
from memoranda.service.core.actions import Action, Part
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lookup import shorten_ids
from memoranda.service.core.views import EXPIRY_REASON, project, run_unless_damaged, view_record
from memoranda.service.exchange import import_records
from memoranda.service.ump.revise import find_record_id, revert
from memoranda.service.ump.revise import forget as forget_memory
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping
from memoranda.standards.ump.requests import ForgetRequest
from memoranda.storage.engine.contract import Snapshot, Unit

# Characters of the text that the sentence of a result quotes.
_QUOTED_CHARS: Final = 80
Outcome = Literal["removed", "restored", "reverted"]
_OUTCOME_WORDS: Final = {
    "removed": "removed",
    "restored": "restored",
    "reverted": "restored to its previous version",
}


class UndoneChange(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an undo or a redo."""

    # The type of the last change of the action.
    change: str
    # The id of its memory before, and its id now.
    id: str
    now: str
    # The text of the memory now; empty if it was removed.
    text: str
    # The number of memories that changed.
    memories: int
    # The result as a sentence.
    summary: str


class _Inverted(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that an undo changed."""

    change: Change
    name: str
    now: str
    outcome: Outcome


def undo_last(context: Context, access: Access) -> UndoneChange:
    """Undo the last action that is not undone. Raises NotFound and Conflict.

    Actions with nothing left to undo are skipped, and the one before is tried. An import is undone as a whole.
    """
    tenant = access.default_tenant
    while True:
        with context.engine.open_snapshot(tenant) as snapshot:
            parts = actions.find_undoable(snapshot, actions.load_history(snapshot))
            imported = _find_import(snapshot, parts[0].last)
        if imported is not None:
            return _undo_import(context, access, imported)
        undone = _invert(context, access, parts, actions.begin_undo(parts))
        if undone is not None:
            return undone
        # Nothing of it is left to undo: it ended by itself, or another verb took it back.
        context.engine.write(tenant, partial(actions.skip_action, parts=parts))


def _find_import(snapshot: Snapshot, last_change: int) -> str | None:
    """Return the id of the recorded import that ends with a change."""
    return import_records.find_import(snapshot, last_change)


def _undo_import(context: Context, access: Access, name: str) -> UndoneChange:
    """Undo an import as one action. Raises Conflict if nothing of it could be undone."""
    undone = import_records.undo_import(context, access, name)
    count = undone.forgotten + undone.restored
    if undone.left and not count:
        raise Conflict(f"{undone.what}: nothing of this import can be undone, it was changed since")
    return UndoneChange(
        change="imported",
        id=name,
        now=name,
        text="",
        memories=count,
        summary=(
            f"the import {undone.what}: {undone.forgotten} removed, {undone.restored} restored, "
            f"{undone.left} kept (edited since)"
        ),
    )


def redo_last(context: Context, access: Access) -> UndoneChange:
    """Do the action again that was undone last. Raises NotFound if something was written since.

    Only possible directly after an undo.
    """
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        undone_action = actions.find_redoable(snapshot)
    redone = _invert(context, access, undone_action.by, actions.begin_redo(undone_action))
    if redone is None:
        raise NotFound("there is nothing to redo: the memories are gone")
    return redone


def _invert(
    context: Context, access: Access, parts: tuple[Part, ...], action: Action
) -> UndoneChange | None:
    """Reverse all changes of an action, the newest first; return None if there is nothing left to invert."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        changes = actions.load_changes(snapshot, parts)
    inverted: list[_Inverted] = []
    errors: list[MemorandaError] = []
    for change, part in changes:
        try:
            result = _invert_change(context, access, change, part, action)
        except MemorandaError as error:
            errors.append(error)
            continue
        if result is not None:
            inverted.append(result)
    if not inverted:
        if errors:
            raise errors[0]
        return None
    return _describe(context, access, inverted, len(errors))


def _invert_change(
    context: Context, access: Access, change: Change, part: Part, action: Action
) -> _Inverted | None:
    """Reverse one change; return None if that has no effect. Raises Conflict."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        (version,) = snapshot.load_versions([change.version.version_id])
        head = snapshot.load_newest(version.memory_id)
        name = find_record_id(snapshot, head)
    if has_ended(head.state, context.clock()) and not head.state.erased:
        # Its retention is over, although it is not erased yet, or kept by a hold.
        return None
    if version.state.erased:
        if _ended_by_itself(version):
            return None
        raise Conflict("the last change erased a memory permanently; it cannot be undone")
    is_new = 0 < part.new_from <= version.version_id
    outcome: Outcome = "reverted"
    now = name
    if change.type == "tombstoned":
        if not _restore_forgotten(context, access, version, action):
            return None
        outcome = "restored"
    elif change.type == "created":
        if version.state.is_forgotten:
            return None
        request = ForgetRequest.parse({"id": name, "reason": "undone"})
        forget_memory(context, access, request, action=action)
        outcome = "removed"
    elif is_new:
        if version.state.is_forgotten:
            return None
        now, _ = revert(context, access, version, version.version_id - 1, action=action)
    elif not _invert_state(context, access, version, action):
        return None
    return _Inverted(change=change, name=name, now=now, outcome=outcome)


def _ended_by_itself(version: Version) -> bool:
    """Return True if a version was erased at the end of its retention, or with its source, and not by a person."""
    reasons = (EXPIRY_REASON, lineage.DERIVED_REASON)
    return any(f"[erased: {reason}]".encode() in version.document.native for reason in reasons)


def _restore_forgotten(context: Context, access: Access, version: Version, action: Action) -> bool:
    """Remove the tombstones that a memory got together with a version; return False if there are none."""
    now = context.clock()

    def work(unit: Unit) -> bool:
        (current,) = unit.load_versions([version.version_id])
        at = current.state.tombstoned
        if at is None:
            return False
        for candidate in unit.iterate_history(current.memory_id):
            if candidate.state.tombstoned == at and not candidate.state.erased:
                port = port_of(candidate.document.standard)
                projection = run_unless_damaged(candidate, partial(project, context, candidate))
                status = "active" if projection is None else projection.status
                unit.restore(candidate, status=status, follow_head=port.has_local_names)
        unit.announce("created", current, now=now)
        lineage.replace_again(unit, current.memory_id, now)
        unit.record_audit(_audit_undo(access, unit, current, now, "restored"))
        return True

    return action.write(context, access.default_tenant, work)


def _invert_state(context: Context, access: Access, version: Version, action: Action) -> bool:
    """Open a version again that another memory replaced, or remove its verdict; return False if it has neither."""
    now = context.clock()

    def work(unit: Unit) -> bool:
        (current,) = unit.load_versions([version.version_id])
        result = "reopened"
        if current.state.superseded_by:
            if not lineage.reopen(unit, current, now):
                return False
        elif current.state.verification != "unverified":
            # The verdict before it is not stored.
            unit.set_verification(current, "unverified", now=now)
            result = "verdict removed"
        else:
            return False
        unit.record_audit(_audit_undo(access, unit, current, now, result))
        return True

    return action.write(context, access.default_tenant, work)


def _audit_undo(
    access: Access, unit: Unit, version: Version, now: Instant, result: str
) -> AuditEntry:
    """Return the audit entry of a change that an undo reverts."""
    name = find_record_id(unit, version)
    return audit_entry(access, "undo", now=now, targets=(name,), result=result)


def _describe(
    context: Context, access: Access, inverted: Sequence[_Inverted], failed: int
) -> UndoneChange:
    """Return the result of an undo, with the text of its first memory now."""
    first = inverted[0]
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        text = "" if first.outcome == "removed" else _text_of(context, snapshot, first.now)
    if len(inverted) == 1:
        short = shorten_ids(context, access, [first.name])[first.name]
        sentence = f"{short} {_OUTCOME_WORDS[first.outcome]}"
        if text:
            sentence += f": {_quote(text)}"
    else:
        counts = {
            outcome: sum(item.outcome == outcome for item in inverted) for outcome in _OUTCOME_WORDS
        }
        phrases = [
            f"{count} {'memory' if count == 1 else 'memories'} {_OUTCOME_WORDS[outcome]}"
            for outcome, count in counts.items()
            if count
        ]
        sentence = ", ".join(phrases)
    if failed:
        sentence += f"; {failed} could not be changed"
    return UndoneChange(
        change=first.change.type,
        id=first.name,
        now=first.now,
        text=text,
        memories=len(inverted),
        summary=sentence,
    )


def _text_of(context: Context, snapshot: Snapshot, name: str) -> str:
    """Return the text of a record now; empty if it cannot be read."""
    version = snapshot.find_by_name(mapping.STANDARD, name)
    if version is None:
        return ""
    record = run_unless_damaged(version, lambda: view_record(context, version, context.clock()))
    return "" if record is None else record["body"]["text"]


def _quote(text: str) -> str:
    """Return the beginning of a text in one line, in quotation marks."""
    line = " ".join(text.split())
    return f'"{line[:_QUOTED_CHARS]}{"…" if len(line) > _QUOTED_CHARS else ""}"'
