"""Undoing the last change of a memory. Nothing is overwritten: what was is written again, and can be undone, too."""

from __future__ import annotations

import msgspec

from memoranda.errors import Conflict, NotFound
from memoranda.model.change import Change
from memoranda.model.memory import Version, has_ended
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.lookup import short_ids
from memoranda.service.ump import files, revise
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping
from memoranda.standards.ump.requests import ForgetRequest
from memoranda.storage.engine.contract import Snapshot


class UndoneChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the last change was, of which memory, the id of what is there now, and all that in a sentence."""

    change: str
    id: str
    now: str
    said: str


def undo_last(context: Context, access: Access) -> UndoneChange:
    """Take back the last change: forget what was remembered, bring back what was revised or forgotten."""
    with context.engine.read(access.default_tenant) as snapshot:
        change = _last(snapshot)
        name = _name_of(snapshot, change.version)
    short = short_ids(context, access, [name])[name]
    if change.type in ("created", "revised"):
        now, _ = take_back(context, access, change.version, change.version.version_id - 1)
        said = "removed" if change.type == "created" else "restored to its previous version"
        return UndoneChange(change=change.type, id=name, now=now, said=f"{short} {said}")
    if change.type == "tombstoned":
        _bring_back(context, access, change.version)
        return UndoneChange(change="tombstoned", id=name, now=name, said=f"{short} restored")
    raise Conflict(
        f"the last change merged something into {short}, which says the same; there is nothing to undo"
    )


def take_back(context: Context, access: Access, version: Version, start: int) -> tuple[str, int]:
    """Let a memory say what it said when the version `start` was the last of all, or forget it if it was not there.

    The id of what is there now, and the version that it says again, or 0.
    """
    now = context.clock()
    with context.engine.read(access.default_tenant) as snapshot:
        name = _name_of(snapshot, version)
        chain = snapshot.history(version.memory_id, newest_first=True)
        earlier = next(
            (each for each in chain if each.version_id <= start and not has_ended(each.state, now)),
            None,
        )
    if version.memory_id > start:
        revise.forget(context, access, ForgetRequest.parse({"id": name, "reason": "undone"}))
        return name, 0
    if earlier is None:
        raise Conflict("what it said before was erased; there is nothing to go back to")
    return revise.restore(context, access, name, earlier).id, earlier.version_id


def _name_of(snapshot: Snapshot, version: Version) -> str:
    return snapshot.names_of(version.version_id).get(mapping.STANDARD, version.document.name)


def _last(snapshot: Snapshot) -> Change:
    changes = snapshot.changes(snapshot.change_seq() - 1, 1)
    if not changes:
        raise NotFound("nothing was changed yet")
    return changes[0]


def _bring_back(context: Context, access: Access, version: Version) -> None:
    if version.state.erased:
        raise Conflict("the last change erased a memory for good; nothing can bring it back")
    port = port_of(version.document.standard)
    if not port.has_file_form:
        raise Conflict(
            "the last change forgot an entry of openwop, which cannot be brought back; write it anew"
        )
    from memoranda.service.exchange.importing import numbered

    document = version.document
    value = port.file_value(document)
    report = files.import_items(context, access, numbered(document.standard, [value]), restore=True)  # type: ignore[arg-type]
    if report.refused:
        raise Conflict(f"it cannot be brought back: {report.refusals[0].message}")
