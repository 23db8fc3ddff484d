"""Changes of a memory after it was written: revise, restore, forget and feedback.

Nothing is overwritten. A revision is a new version that supersedes the prior one, and so is the earlier content that
`restore` writes again. A forgotten memory keeps its documents as tombstones. Only `forget` with `hard` destroys them.

All changes go through `_supersede` or one `Action`, so that each is undone as one. The pattern: read on a snapshot,
compute and sign the successor, then check in the unit that the version is still the same, and write. Restrictions of
the prior version are inherited in `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, TypeVar, cast

import msgspec

from memoranda.errors import (
    Conflict,
    InvalidInput,
    MemorandaError,
    NotFound,
    SignatureInvalid,
)
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import Version, is_over
from memoranda.service.core import authorship
from memoranda.service.core.access import Access
from memoranda.service.core.actions import Action
from memoranda.service.core.context import Context, audit_entry, describe_claim
from memoranda.service.core.indexing import NewVersion
from memoranda.service.core.lifecycle import (
    append_next,
    inherit_bounds,
)
from memoranda.service.core.lineage import plan_erasure, remove_derived_of
from memoranda.service.core.lookup import find_own, resolve_name
from memoranda.service.core.memory_line import erase_line, forget_line
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.secret_screening import detect_kinds
from memoranda.service.core.views import (
    is_intact,
    outline_record,
    project,
    scope_of,
    view_record,
)
from memoranda.service.ump.remember import new_record, screen_parts
from memoranda.standards.ump import mapping, rules, signature
from memoranda.standards.ump.port import load_record
from memoranda.standards.ump.record import Actor
from memoranda.standards.ump.requests import (
    ActRequest,
    FeedbackRequest,
    ForgetRequest,
    RecallFilter,
    ReviseRequest,
    ScopeFilter,
)
from memoranda.standards.ump.shapes import Patch, Record
from memoranda.storage.engine.contract import Snapshot, Unit


class Revised(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a successor, and the ids of the records that it supersedes."""

    id: str
    supersedes: tuple[str, ...]


class ManyForgotten(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the memories that were forgotten together, and the errors for those that stay."""

    forgotten: tuple[str, ...]
    errors: tuple[str, ...] = ()


Forgotten = Literal["tombstoned", "erased"]
Act = TypeVar("Act", bound=ActRequest)
# A function that returns the unsigned successor of a version, shown as a record, at an instant, by an actor.
BuildSuccessor = Callable[[Version, Record, Instant, Actor | None], Record]


def revise(context: Context, access: Access, request: ReviseRequest) -> Revised:
    """Write a successor of a memory with a patch; the prior stays valid for the time before (UMP §3.5).

    To accept a candidate needs the scope `activate`, as everything that an agent proposes to learn.

    Raises Conflict if somebody has revised the memory meanwhile; the message names the new version. `valid_from` of the
    successor ends the validity of the prior one.
    """
    patch = screen_parts(context, cast("Patch", request.patch))

    def build(version: Version, prior: Record, now: Instant, actor: Actor | None) -> Record:
        if rules.is_acceptance(prior, patch):
            access.require("activate")
        rules.require_complete(prior, rules.inherited_parts(prior, patch))
        own_record = rules.drop_original(prior)
        successor = rules.make_successor(own_record, patch, now=now, actor=actor)
        return mapping.with_names(successor, _names_beyond(context, version, own_record))

    return _supersede(context, access, request, build)


def change(
    context: Context,
    access: Access,
    name: str,
    text: str | None = None,
    structured: Mapping[str, Any] | None = None,
    patch: Mapping[str, Any] | None = None,
) -> Revised:
    """Write a successor with a new text or new structured data, and keep the other parts of its body.

    A patch of UMP §3.5 replaces the body as a whole: with a new text alone, it would delete the data.

    For the command line, the console and tools of models, which think in texts.
    """
    now, name, changes = context.clock(), resolve_name(context, access, name), dict(patch or {})
    if text is not None or structured is not None:
        body = dict(
            rules.drop_original(view_record(context, find_own(context, access, name, now), now))[
                "body"
            ]
        )
        if text is not None:
            body["text"] = text
        if structured is not None:
            body["structured"] = dict(structured)
        changes["body"] = body
    return revise(context, access, ReviseRequest.parse({"id": name, "patch": changes}))


def refile(
    context: Context, access: Access, name: str, filing: rules.Filing, patch: Mapping[str, Any]
) -> Revised:
    """Write a successor of another kind, project, person or visibility, with the changes of a patch, if any.

    A revision of UMP §3.5 keeps all four, so this is a verb of its own, for the owner of the memory alone.
    """
    access.require("write")
    access.require_whole_owner()
    _check_filing(filing)
    name = resolve_name(context, access, name)
    changes = cast("Patch", {})
    if patch:
        changes = cast("Patch", ReviseRequest.parse({"id": name, "patch": dict(patch)}).patch)
        changes = screen_parts(context, changes)

    def build(version: Version, prior: Record, now: Instant, actor: Actor | None) -> Record:
        rules.require_complete(prior, rules.inherited_parts(prior, changes))
        own_record = rules.drop_original(prior)
        successor = rules.make_successor(own_record, changes, now=now, actor=actor)
        refiled = rules.refile(successor, filing)
        return mapping.with_names(refiled, _names_beyond(context, version, own_record))

    return _supersede(context, access, ActRequest.parse({"id": name}), build, is_refiled=True)


def _check_filing(filing: rules.Filing) -> None:
    """Raise InvalidInput if a value is not allowed in a record."""
    values = msgspec.structs.asdict(filing)
    scope = {name: values[name] for name in ("project", "user", "visibility") if values[name]}
    ScopeFilter.parse(scope)
    if filing.kind is not None:
        RecallFilter.parse({"kind": filing.kind})


def restore(
    context: Context,
    access: Access,
    name: str,
    version: Version,
    *,
    action: Action | None = None,
) -> Revised:
    """Write a successor with the content and the visibility of an earlier version of the same memory.

    The content comes from `version`, the scope from the current one; if the memory was refiled since, also the kind,
    project and person come from `version`. Earlier versions stay as they are.
    """
    # Without the state of the version, which says that it was superseded.
    record = outline_record(context, version)
    rules.require_complete(record, ("body", "relations"))
    own_record = rules.drop_original(record)
    named_record = mapping.with_names(own_record, _names_beyond(context, version, own_record))
    content = screen_parts(context, cast("Patch", named_record))
    is_refiled = _was_refiled_since(context, version)

    def build(_: Version, prior: Record, now: Instant, actor: Actor | None) -> Record:
        rules.require_complete(prior, ("scope",))
        restored = rules.restore(prior, cast("Record", content), now=now, actor=actor)
        return rules.refile(restored, rules.filing_of(record)) if is_refiled else restored

    request = ActRequest.parse({"id": name})
    return _supersede(context, access, request, build, action, is_refiled=is_refiled)


def _was_refiled_since(context: Context, version: Version) -> bool:
    """Return True if a version, or one of the same memory after it, was written by `refile`."""
    with context.engine.open_snapshot(version.tenant) as snapshot:
        history = snapshot.iterate_history(version.memory_id, newest_first=True)
        since = takewhile(lambda other: other.version_id >= version.version_id, history)
        return any(
            mapping.owns(other.document)
            and not other.state.erased
            and rules.is_refiled(load_record(other.document.native))
            for other in since
        )


def _names_beyond(context: Context, version: Version, own_record: Record) -> list[str]:
    """Return the titles that only the document of another standard states, such as its key.

    `own_record` shows the version without that document, which its successor does not have. Titles that look like
    secrets are left out.
    """
    known_titles = mapping.titles_of(own_record)
    return [
        title
        for title in project(context, version).titles
        if title not in known_titles and not detect_kinds({"title": title})
    ]


def _supersede(
    context: Context,
    access: Access,
    request: ActRequest,
    build: BuildSuccessor,
    action: Action | None = None,
    *,
    is_refiled: bool = False,
) -> Revised:
    """Write the successor that `build` returns for the current record, signed, and close the current version.

    `is_refiled`: the person of the current version does not bind the successor.
    Raises Conflict if the record is superseded, and InvalidInput if it is forgotten.
    """
    now, request = context.clock(), _with_full_id(context, access, request)
    current = find_own(context, access, request.id, now)
    actor, claimed = authorship.resolve_corrector(access, request.actor)

    def seal_successor(version: Version, record: Record) -> tuple[Record, NewVersion]:
        # The evidence supports the statement of the owner, and not that of a peer who revises it.
        source = without_evidence(record) if access.is_peer else record
        successor = authorship.with_claim(build(version, source, now, actor), claimed)
        _check_times(successor)
        _refuse_earlier_end(access, current.tenant, record, successor)
        sealed_record = signature.seal(successor, context.operator)
        return sealed_record, new_record(context, sealed_record)

    # Prepared outside of the writer's turn, and built again there if the record has changed in between.
    prepared_successor = None
    if current.state.is_head and current.state.tombstoned is None:
        sealed_record, new_version = seal_successor(current, view_record(context, current, now))
        bound_version = inherit_bounds(context, current, new_version, is_refiled=is_refiled)
        prepared_successor = sealed_record, bound_version

    def work(unit: Unit) -> Revised:
        prior, record = _load_current(context, access, unit, request.id, now)
        _check_revisable(unit, prior, record, now)
        is_prepared = prepared_successor is not None and prior == current
        sealed_record, new_version = (
            prepared_successor
            if prepared_successor is not None and is_prepared
            else seal_successor(prior, record)
        )
        version = append_next(context, unit, prior, new_version, now=now, is_refiled=is_refiled)
        unit.close_version(
            prior,
            successor=version,
            valid_to=handover(prior, parse_instant(sealed_record["time"]["valid_from"])),
            now=now,
        )
        unit.announce("revised", version, now=now)
        entry = audit_entry(
            access,
            "revise",
            now=now,
            targets=(sealed_record["id"], request.id),
            scope=scope_of(sealed_record),
            result="revised",
            meta={"supersedes": [request.id], **describe_claim(access, request.actor)},
        )
        unit.record_audit(entry)
        return Revised(id=sealed_record["id"], supersedes=tuple(sealed_record["supersedes"]))

    return (action or Action()).write(context, current.tenant, work)


def _check_revisable(unit: Unit, prior: Version, record: Record, now: Instant) -> None:
    """Raise an error if a version is superseded, forgotten, damaged, or protected from revision."""
    if prior.state.superseded_by:
        successor = prior.state.successor_names.get(mapping.STANDARD, prior.state.superseded_by)
        raise Conflict(f"id: already superseded by {successor}; revise that one")
    if record.get("lifecycle", {}).get("status") == "tombstoned":
        raise InvalidInput("id: a forgotten memory cannot be revised; remember it again")
    if not is_intact(prior):
        raise SignatureInvalid(
            "the stored record does not match its signature; run 'memoranda verify'"
        )
    # UMP must not change a memory that another standard protects (OMS §23).
    check_supersession(unit, prior, {}, now=now)


def forget(
    context: Context, access: Access, request: ForgetRequest, *, action: Action | None = None
) -> Forgotten:
    """Tombstone a memory, or erase it permanently with `hard` (UMP §3.6). `action`: it is undone with this one.

    Soft: the memory is hidden and can be restored. Hard: its text is destroyed and only a signed record remains; this
    needs the right to erase. Memories derived from it go, too.
    """
    now, request = context.clock(), _with_full_id(context, access, request)
    target = find_own(context, access, request.id, now)
    tenant, plan = target.tenant, None
    if request.hard:
        access.require_erase(tenant)
        plan = plan_erasure(context, target, request.reason or "", now)

    def work(unit: Unit) -> Forgotten:
        version, record = _load_current(context, access, unit, request.id, now)
        result: Forgotten = "erased" if request.hard or version.state.erased else "tombstoned"
        if plan is not None:
            remove_derived_of(unit, version.memory_id, tombstones=plan.derived, now=now)
            erase_line(unit, version, plan.own)
            unit.announce("tombstoned", version, now=now)
        elif version.state.tombstoned is None:
            check_supersession(unit, version, {}, now=now)
            remove_derived_of(unit, version.memory_id, now=now)
            forget_line(unit, version, now)
            unit.announce("tombstoned", version, now=now)
        unit.record_audit(
            audit_entry(
                access,
                "forget",
                now=now,
                targets=(request.id,),
                scope=scope_of(record),
                result=result,
                meta={
                    "reason": request.reason or "",
                    "hard": request.hard,
                    **describe_claim(access, request.actor),
                },
            )
        )
        return result

    result = (action or Action()).write(context, tenant, work)
    if request.hard:
        context.engine.scrub()
    return result


def forget_many(
    context: Context, access: Access, names: Sequence[str], *, reason: str = "", hard: bool = False
) -> ManyForgotten:
    """Forget or erase memories as one action, which one undo reverts.

    Those that may not be forgotten stay. Raises the first error if this is so for all of them.

    Each memory is a unit of its own; one that fails does not keep the others.
    """
    action, forgotten_names, errors = Action(), list[str](), list[MemorandaError]()
    for name in names:
        request = ForgetRequest.parse({"id": name, "reason": reason, "hard": hard})
        try:
            forget(context, access, request, action=action)
        except MemorandaError as error:
            errors.append(error)
        else:
            forgotten_names.append(name)
    if errors and not forgotten_names:
        raise errors[0]
    return ManyForgotten(
        forgotten=tuple(forgotten_names), errors=tuple(error.message for error in errors)
    )


def feedback(context: Context, access: Access, request: FeedbackRequest) -> None:
    """Record the outcome of using a memory (UMP §3.8).

    Raises NotFound for a memory that the credential may not change. Outcomes move salience in later rankings.
    """
    now, request = context.clock(), _with_full_id(context, access, request)
    tenant = find_own(context, access, request.id, now).tenant

    def work(unit: Unit) -> None:
        version, record = _load_current(context, access, unit, request.id, now)
        unit.add_feedback(version, request.outcome, request.session or "", now=now)
        unit.record_audit(
            audit_entry(
                access,
                "feedback",
                now=now,
                targets=(request.id,),
                scope=scope_of(record),
                result=request.outcome,
                meta={"outcome": request.outcome, **describe_claim(access, request.actor)},
            )
        )

    context.engine.write(tenant, work)


def _with_full_id(context: Context, access: Access, request: Act) -> Act:
    """Return a request with the full id of its memory."""
    name = resolve_name(context, access, request.id)
    return request if name == request.id else request.replace_fields(id=name)


def _load_current(
    context: Context, access: Access, unit: Unit, name: str, now: Instant
) -> tuple[Version, Record]:
    """Load a memory inside of the transaction, as it may have changed, and check its scope. Raises NotFound."""
    version = unit.find_by_name(mapping.STANDARD, name)
    if version is None:
        raise NotFound(f"no memory {name}")
    record = view_record(context, version, now)
    access.require_scope(scope_of(record))
    return version, record


def without_evidence(record: Record) -> Record:
    """Return a record without its evidence."""
    provenance = record.get("provenance")
    if provenance is None or "evidence" not in provenance:
        return record
    remaining = provenance.copy()
    del remaining["evidence"]
    return {**record, "provenance": remaining}


def handover(prior: Version, starts: Instant) -> Instant:
    """Return the end of validity of a version whose successor is valid from an instant; an earlier end stays."""
    ends = max(prior.state.valid_from, starts)
    return ends if prior.state.valid_to is None else min(prior.state.valid_to, ends)


def _refuse_earlier_end(access: Access, tenant: str, prior: Record, successor: Record) -> None:
    """Raise ForbiddenScope if the memory would end earlier, and so be erased, without the right to (UMP §3.6)."""
    before, after = rules.retention_end(prior), rules.retention_end(successor)
    if after is not None and (before is None or after < before):
        access.require_erase(tenant)


def _check_times(record: Record) -> None:
    """Raise InvalidInput if a record ends before it starts."""
    time = record["time"]
    if time["valid_to"] is not None and parse_instant(time["valid_to"]) < parse_instant(
        time["valid_from"]
    ):
        raise InvalidInput("patch.time: valid_to is before valid_from")


# --- content of earlier versions -------------------------------------------------------------------------------


def revert(
    context: Context,
    access: Access,
    version: Version,
    start: int,
    *,
    action: Action | None = None,
) -> tuple[str, int]:
    """Restore a memory to its content at the time when `start` was the last version of the store.

    A memory that did not exist then is forgotten. Return the id of the memory now, and the restored version, or 0.

    For undo: the head gets the content that it had when version `start` was the last of the store.
    """
    now = context.clock()
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        name = find_record_id(snapshot, snapshot.load_newest(version.memory_id))
        candidates = (
            candidate
            for candidate in snapshot.iterate_history(version.memory_id, newest_first=True)
            if candidate.version_id <= start and not is_over(candidate.state, now)
        )
        earlier_version = next(candidates, None)
    if version.memory_id > start:
        request = ForgetRequest.parse({"id": name, "reason": "undone"})
        forget(context, access, request, action=action)
        return name, 0
    if earlier_version is None:
        raise Conflict("the earlier versions were erased; there is nothing to restore")
    restored = restore(context, access, name, earlier_version, action=action)
    return restored.id, earlier_version.version_id


def find_record_id(snapshot: Snapshot, version: Version) -> str:
    """Return the id of a version as a UMP record."""
    return snapshot.load_names(version.version_id).get(mapping.STANDARD, version.document.name)
