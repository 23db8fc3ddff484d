"""Changes of a memory after it was written: revise, restore, forget, feedback, and the undo of the last change.

Nothing is overwritten. A revision is a new version that supersedes the prior one, a forgotten memory keeps its
documents as tombstones, and an undo writes the earlier content as a new version, so that it can itself be undone.
Only `forget` with `hard` destroys documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, cast

import msgspec

from memoranda.errors import Conflict, InvalidInput, NotFound, SignatureInvalid
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import Change, Version, has_ended
from memoranda.service.core import authorship
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.indexing import NewVersion
from memoranda.service.core.lifecycle import (
    append_next,
    erase_version,
    inherit_bounds,
    tombstone_version,
)
from memoranda.service.core.lineage import ErasurePlan, plan_erasure, remove_derived_of
from memoranda.service.core.lookup import find_own, resolve_name, shorten_ids
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.views import is_intact, outline_record, scope_of, view_record
from memoranda.service.ump.remember import new_record, screened
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping, rules, signature
from memoranda.standards.ump.record import Actor
from memoranda.standards.ump.requests import (
    ActRequest,
    FeedbackRequest,
    ForgetRequest,
    ReviseRequest,
)
from memoranda.standards.ump.shapes import Patch, Record
from memoranda.storage.engine.contract import Snapshot, Unit


class Revised(msgspec.Struct, frozen=True, kw_only=True):
    """The successor's id, and what it supersedes."""

    id: str
    supersedes: tuple[str, ...]


class UndoneChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the last change was, of which memory, the id of what is there now, and all that in a sentence."""

    change: str
    id: str
    now: str
    said: str


Forgotten = Literal["tombstoned", "erased"]
Act = TypeVar("Act", bound=ActRequest)
# Makes an unsigned successor of a record, now, by an actor.
Make = Callable[[Record, Instant, Actor | None], Record]


def revise(context: Context, access: Access, request: ReviseRequest) -> Revised:
    """Write a successor; the prior stays true for the time before (UMP §3.5)."""
    patch = screened(context, cast("Patch", request.patch))

    def succeed(prior: Record, now: Instant, actor: Actor | None) -> Record:
        rules.require_complete(prior, rules.inherited_parts(prior, patch))
        return rules.make_successor(rules.drop_original(prior), patch, now=now, actor=actor)

    return _supersede(context, access, request, succeed)


def change(
    context: Context,
    access: Access,
    name: str,
    text: str | None = None,
    structured: Mapping[str, Any] | None = None,
    patch: Mapping[str, Any] | None = None,
) -> Revised:
    """Write a successor with another text or other data; the rest of its body stays.

    UMP §3.5 replaces a body as a whole, so that a new wording alone would lose the data.
    """
    now, name, changes = context.clock(), resolve_name(context, access, name), dict(patch or {})
    if text is not None or structured is not None:
        body = dict(
            rules.drop_original(view_record(context, find_own(context, access, name, now), now))[
                "body"
            ]
        )
        said = {"text": text, "structured": None if structured is None else dict(structured)}
        changes["body"] = {
            **body,
            **{part: value for part, value in said.items() if value is not None},
        }
    return revise(context, access, ReviseRequest.parse({"id": name, "patch": changes}))


def restore(context: Context, access: Access, name: str, earlier: Version) -> Revised:
    """Write a successor with the content of an earlier version of the same memory."""
    # As it was written: the state of a version says that it was superseded since.
    record = outline_record(context, earlier)
    rules.require_complete(record, ("body", "relations"))
    content = screened(context, cast("Patch", rules.drop_original(record)))

    def succeed(prior: Record, now: Instant, actor: Actor | None) -> Record:
        rules.require_complete(prior, ("scope",))
        return rules.restore(prior, cast("Record", content), now=now, actor=actor)

    return _supersede(context, access, ActRequest.parse({"id": name}), succeed)


def _supersede(context: Context, access: Access, request: ActRequest, make: Make) -> Revised:
    """Write the successor that `make` makes of the current record, signed, in place of that."""
    now, request = context.clock(), _named(context, access, request)
    found = find_own(context, access, request.id, now)
    actor, claimed = authorship.resolve_corrector(access, request.actor)

    def succeed(record: Record) -> tuple[Record, NewVersion]:
        # What supported the owner's word does not support another's.
        plain = without_evidence(record) if access.is_peer else record
        successor = authorship.with_claim(make(plain, now, actor), claimed)
        _check_times(successor)
        sealed = signature.seal(successor, context.operator)
        return sealed, new_record(context, sealed)

    # Made before the writer's turn: what cannot be revised is told there, and what changed until then is made anew.
    foreseen = None
    if found.state.is_head and found.state.tombstoned is None:
        sealed, new = succeed(view_record(context, found, now))
        foreseen = sealed, inherit_bounds(context, found, new)

    def work(unit: Unit) -> Revised:
        prior, record = _current(context, access, unit, request.id, now)
        _check_revisable(unit, prior, record, now)
        sealed, new = foreseen if foreseen is not None and prior == found else succeed(record)
        version = append_next(context, unit, prior, new, now=now)
        unit.close_version(
            prior,
            successor=version,
            valid_to=handover(prior, parse_instant(sealed["time"]["valid_from"])),
            now=now,
        )
        unit.announce("revised", version, now=now)
        entry = audit_entry(
            access,
            "revise",
            now=now,
            targets=(sealed["id"], request.id),
            scope=scope_of(sealed),
            result="revised",
            meta={"supersedes": [request.id]},
            claimed=request.actor,
        )
        unit.record_audit(entry)
        return Revised(id=sealed["id"], supersedes=tuple(sealed["supersedes"]))

    return context.engine.write(found.tenant, work)


def _check_revisable(unit: Unit, prior: Version, record: Record, now: Instant) -> None:
    if prior.state.superseded_by:
        known = prior.state.successor_names.get(mapping.STANDARD, prior.state.superseded_by)
        raise Conflict(f"id: already superseded by {known}; revise that one")
    if record.get("lifecycle", {}).get("status") == "tombstoned":
        raise InvalidInput("id: a forgotten memory cannot be revised; remember it anew")
    if not is_intact(prior):
        raise SignatureInvalid(
            "the stored record does not match its signature; run 'memoranda verify'"
        )
    # What another standard protects, this one may not change (OMS §23).
    check_supersession(unit, prior, {}, now=now)


def forget(context: Context, access: Access, request: ForgetRequest) -> Forgotten:
    """Tombstone, or erase for good (UMP §3.6)."""
    now, request = context.clock(), _named(context, access, request)
    found = find_own(context, access, request.id, now)
    tenant, gone = found.tenant, None
    if request.hard:
        access.require_erase(tenant)
        gone = plan_erasure(context, found, request.reason or "", now)

    def work(unit: Unit) -> Forgotten:
        version, record = _current(context, access, unit, request.id, now)
        result: Forgotten = "erased" if request.hard or version.state.erased else "tombstoned"
        if gone is not None:
            _erase(unit, version, gone, now)
        elif version.state.tombstoned is None:
            check_supersession(unit, version, {}, now=now)
            remove_derived_of(unit, version.memory_id, now=now)
            tombstone(unit, version, now)
            unit.announce("tombstoned", version, now=now)
        unit.record_audit(
            audit_entry(
                access,
                "forget",
                now=now,
                targets=(request.id,),
                scope=scope_of(record),
                result=result,
                meta={"reason": request.reason or "", "hard": request.hard},
                claimed=request.actor,
            )
        )
        return result

    result = context.engine.write(tenant, work)
    if request.hard:
        context.engine.scrub()
    return result


def feedback(context: Context, access: Access, request: FeedbackRequest) -> None:
    """Record what became of a memory that was used (UMP §3.8)."""
    now, request = context.clock(), _named(context, access, request)
    tenant = find_own(context, access, request.id, now).tenant

    def work(unit: Unit) -> None:
        version, record = _current(context, access, unit, request.id, now)
        unit.add_feedback(version, request.outcome, request.session or "", now=now)
        unit.record_audit(
            audit_entry(
                access,
                "feedback",
                now=now,
                targets=(request.id,),
                scope=scope_of(record),
                result=request.outcome,
                meta={"outcome": request.outcome},
                claimed=request.actor,
            )
        )

    context.engine.write(tenant, work)


def _named(context: Context, access: Access, request: Act) -> Act:
    """The request with the whole id."""
    name = resolve_name(context, access, request.id)
    return request if name == request.id else request.replace_fields(id=name)


def _current(
    context: Context, access: Access, unit: Unit, name: str, now: Instant
) -> tuple[Version, Record]:
    """Look again inside the transaction: what was found before may have changed."""
    version = unit.find_by_name(mapping.STANDARD, name)
    if version is None:
        raise NotFound(f"no memory {name}")
    record = view_record(context, version, now)
    access.require_scope(scope_of(record))
    return version, record


def tombstone(unit: Unit, version: Version, now: Instant, *, whole: bool = False) -> None:
    """Tombstone every document of this id: those before a merge must not come back when asked what was known then.

    `whole`: everything that its memory ever said.
    """
    for each in unit.iterate_history(version.memory_id):
        is_meant = (
            each.document.name == version.document.name and each.version_id <= version.version_id
        )
        is_ended = each.state.expires is not None and each.state.expires <= now
        if (whole or is_meant) and each.state.tombstoned is None and not is_ended:
            tombstone_version(unit, each, valid_to=_ended(each, now), now=now)


def _erase(unit: Unit, version: Version, gone: ErasurePlan, now: Instant) -> None:
    """Erase this version and every earlier one of its memory: an old wording gives away the new one."""
    remove_derived_of(unit, version.memory_id, tombstones=gone.derived, now=now)
    for earlier in unit.iterate_history(version.memory_id):
        if earlier.version_id > version.version_id or earlier.state.erased:
            continue
        erase_version(unit, earlier, gone.own)
    unit.announce("tombstoned", version, now=now)


def without_evidence(record: Record) -> Record:
    """A record without what supports it."""
    provenance = record.get("provenance")
    if provenance is None or "evidence" not in provenance:
        return record
    bare = provenance.copy()
    del bare["evidence"]
    return {**record, "provenance": bare}


def handover(prior: Version, starts: Instant) -> Instant:
    """The prior is true until its successor is, and never longer than it said itself."""
    ends = max(prior.state.valid_from, starts)
    return ends if prior.state.valid_to is None else min(prior.state.valid_to, ends)


def _ended(version: Version, now: Instant) -> Instant:
    return now if version.state.valid_to is None else min(version.state.valid_to, now)


def _check_times(record: Record) -> None:
    time = record["time"]
    if time["valid_to"] is not None and parse_instant(time["valid_to"]) < parse_instant(
        time["valid_from"]
    ):
        raise InvalidInput("patch.time: valid_to is before valid_from")


# --- undo ----------------------------------------------------------------------------------------------------


def undo_last(context: Context, access: Access) -> UndoneChange:
    """Take back the last change: forget what was remembered, bring back what was revised or forgotten."""
    with context.engine.read(access.default_tenant) as snapshot:
        change = _last(snapshot)
        name = _name_of(snapshot, change.version)
    short = shorten_ids(context, access, [name])[name]
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
        chain = snapshot.iterate_history(version.memory_id, newest_first=True)
        earlier = next(
            (each for each in chain if each.version_id <= start and not has_ended(each.state, now)),
            None,
        )
    if version.memory_id > start:
        forget(context, access, ForgetRequest.parse({"id": name, "reason": "undone"}))
        return name, 0
    if earlier is None:
        raise Conflict("what it said before was erased; there is nothing to go back to")
    return restore(context, access, name, earlier).id, earlier.version_id


def _name_of(snapshot: Snapshot, version: Version) -> str:
    return snapshot.load_names(version.version_id).get(mapping.STANDARD, version.document.name)


def _last(snapshot: Snapshot) -> Change:
    changes = snapshot.list_changes(snapshot.find_last_change() - 1, 1)
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
    # The exchange knows every standard; few commands need it.
    from memoranda.service.exchange.importing import import_items, number_items

    document = version.document
    value = port.file_value(document)
    report = import_items(context, access, number_items(document.standard, [value]), restore=True)  # type: ignore[arg-type]
    if report.refused:
        raise Conflict(f"it cannot be brought back: {report.refusals[0].message}")
