"""The life of a version: it inherits the restrictions of the version before it, and it ends as a tombstone or erased.

`append_next` is the only way to add a version to a memory, for every standard. The restrictions of the prior version
bind the new one: its user, visibility, consent, expiry, and tags of personal data. Restrictions that the new document
does not state itself are stored beside it (`Bounds`, model/bounds.py), applied to every view, and known to every index.
They are only ever tightened; the owner alone may widen the visibility of a memory.

`tombstone_version` hides a version; `erase_version` destroys its content and leaves a signed record that there was one
(`Tombstones`). A version may have been superseded in the store it came from by one that is not here:
`note_remote_successor` keeps that name, for when the version is exported again.

Modules of OMS and openwop are imported inside functions: a command that only reads does not need them.

Why restrictions are inherited: otherwise a revision could publish what was private, or keep what must be erased. The
rule is the same for all standards, therefore no standard may call `Unit.append` with `follows` itself. A document that
is signed by somebody else cannot be changed, so added restrictions are stored beside it and not in it.

When a new restriction is invented, it needs a field in `Bounds`, a line in `_stated_bounds`, its combination in
`model/bounds.py`, and its effect in every view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import ConsentViolation, GrainError, StoreCorrupt
from memoranda.model.bounds import FLAG_PREFIXES, UNBOUND, combine, remaining_bounds
from memoranda.model.instant import Instant
from memoranda.model.memory import OMS, Bounds, Document, Projection, Version
from memoranda.model.oms_names import DENIED
from memoranda.service.core import compliance
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import NewVersion, with_bounds
from memoranda.service.core.protection import (
    check_erasure,
    read_policy_fields,
    refuse_on_hold,
    refuse_rewriting_archive,
)
from memoranda.service.core.views import create_record, project, tombstone_record, view_record
from memoranda.standards.port import port_of
from memoranda.standards.ump import rules
from memoranda.standards.ump.signature import sign
from memoranda.storage.engine.contract import Snapshot, Unit

# Items of this kind hold the names of successors, by the number of a version.
_REMOTE_SUCCESSOR: Final = "successor elsewhere"
_INHERITED_FIELDS: Final = ("processing_basis", "con:ccpa_opted_out", "legal:privilege")


def append_next(
    context: Context,
    unit: Unit,
    prior: Version,
    new_version: NewVersion,
    *,
    now: Instant,
    by_owner: bool = True,
    is_refiled: bool = False,
) -> Version:
    """Write the next version of a memory, with the restrictions of the prior one. Raises GrainError, QuotaExceeded.

    `by_owner` is False for peers, whose revision keeps the visibility of the prior version. For a write of several
    versions, prepare each with `follow` before the unit begins and append them inside.
    """
    successor = follow(context, prior, new_version, by_owner=by_owner, is_refiled=is_refiled)
    return successor.append(unit, now=now)


def follow(
    context: Context,
    prior: Version,
    successor: NewVersion,
    *,
    by_owner: bool = True,
    is_refiled: bool = False,
) -> NewVersion:
    """Return the next version of a memory, with the restrictions of the prior one. Raises GrainError.

    The result is valid only while `prior` is unchanged; the caller checks that in the unit that appends it.
    """
    refuse_rewriting_archive(prior)
    if successor.follows == prior:
        return successor
    return inherit_bounds(context, prior, successor, by_owner=by_owner, is_refiled=is_refiled)


def inherit_bounds(
    context: Context,
    prior: Version,
    new_version: NewVersion,
    *,
    by_owner: bool = True,
    is_refiled: bool = False,
) -> NewVersion:
    """Return a new version with the restrictions of the one before it; valid while that one is unchanged.

    `is_refiled`: the owner states for which person the memory is, so that of the prior version does not bind it.
    """
    if prior.state.erased:
        return replace(new_version, follows=prior)
    earlier_bounds = bounds_of_version(context, prior)
    if by_owner:
        # An owner decides who may see his own memory.
        earlier_bounds = replace(earlier_bounds, visibility=UNBOUND.visibility)
    if is_refiled:
        earlier_bounds = replace(earlier_bounds, user=UNBOUND.user)
    return replace(_apply_bounds(context, prior, new_version, earlier_bounds), follows=prior)


def _apply_bounds(
    context: Context, prior: Version, new_version: NewVersion, earlier_bounds: Bounds
) -> NewVersion:
    """Return a new version with those of the earlier restrictions that it does not state itself."""
    inherited = remaining_bounds(
        earlier_bounds,
        _stated_bounds(context, new_version.document, new_version.projection, prior.tenant),
    )
    if inherited == UNBOUND:
        return new_version
    stated_bounds = new_version.projection.bounds
    followed = with_bounds(
        context,
        new_version,
        inherited if stated_bounds is None else combine(stated_bounds, inherited),
    )
    if followed.projection.scope.visibility == "public" and not followed.projection.exportable:
        raise ConsentViolation("consent: what may not leave cannot be made public")
    return followed


def bounds_of_version(context: Context, version: Version) -> Bounds:
    """Return all restrictions of a version: those its document states, and those it inherited.

    The expiry is taken from the state, because the owner may have changed it after the document was written.
    """
    projection = project(context, version)
    own_bounds = _stated_bounds(context, version.document, projection, version.tenant)
    inherited = version.bounds or UNBOUND
    return replace(
        own_bounds,
        expires=version.state.expires,
        redact=tuple(dict.fromkeys((*own_bounds.redact, *inherited.redact))),
        tags=tuple(dict.fromkeys((*own_bounds.tags, *inherited.tags))),
        policy_fields={**inherited.policy_fields, **own_bounds.policy_fields},
    )


def _stated_bounds(
    context: Context, document: Document, projection: Projection, tenant: str
) -> Bounds:
    """Return the restrictions that a document states itself."""
    fields = compliance.fields_of(document, tenant)
    tags = (
        tag
        for tag in fields.get("structural_tags", ())
        if isinstance(tag, str) and tag.startswith(FLAG_PREFIXES)
    )
    restrictions = {
        name: value
        for name in _INHERITED_FIELDS
        if isinstance(value := fields.get(name), str | bool) and value
    }
    scope = projection.scope
    return Bounds(
        user=scope.user,
        agent=scope.agent,
        session=scope.session,
        visibility=scope.visibility,
        exportable=projection.exportable,
        redact=_redacted_paths(context, document, projection, tenant),
        expires=projection.expires,
        tags=tuple(dict.fromkeys(tags)),
        policy_fields=restrictions,
    )


def _redacted_paths(
    context: Context, document: Document, projection: Projection, tenant: str
) -> tuple[str, ...]:
    """Return the paths that are hidden from others, of a record or of the record inside a document."""
    paths = port_of(document.standard).redact_paths(document)
    if paths is not None or not projection.redacted:
        return paths or ()
    record = create_record(context, document, tenant, projection.scope.space)
    return tuple(record.get("consent", {}).get("redact", ()))


# --- a successor that is not here --------------------------------------------------------------------------------


def note_remote_successor(unit: Unit, version: Version, names: Mapping[str, str]) -> None:
    """Note the names of the version's successor in the store it came from, for when it is exported."""
    unit.put_item(_REMOTE_SUCCESSOR, str(version.version_id), dump(dict(names)))


def with_remote_successor(snapshot: Snapshot, version: Version) -> Version:
    """Return a version with the names of a successor that is not in this store."""
    state = version.state
    stored_version = (
        snapshot.load_item(_REMOTE_SUCCESSOR, str(version.version_id))
        if has_remote_successor(version)
        else None
    )
    if stored_version is None:
        return version
    names = parse(stored_version)
    return replace(
        version,
        state=state._replace(superseded_by=next(iter(names.values())), successor_names=names),
    )


def has_remote_successor(version: Version) -> bool:
    """Return True if a version was closed by a successor that is not in this store."""
    return version.state.closed is not None and not version.state.superseded_by


def drop_remote_successor(unit: Unit, version: Version) -> None:
    """Remove the note of a successor, as the version is being erased."""
    if has_remote_successor(version):
        unit.delete_item(_REMOTE_SUCCESSOR, str(version.version_id))


class Tombstones:
    """The signed records that remain of versions erased together, made before the writer's turn where possible.

    Signing takes longer than a unit of work may last, so tombstones are made before it for the versions that the caller
    has read. Inside the unit `get` returns the prepared one if nothing changed.
    """

    def __init__(
        self, context: Context, reason: str, now: Instant, versions: Iterable[Version] = ()
    ) -> None:
        self._context, self._reason, self.now = context, reason, now
        # Each tombstone with the state from which it was made: a document never changes.
        self._prepared_tombstones = {
            version.version_id: (version.state, self._create(version))
            for version in versions
            if not version.state.erased
        }

    def get(self, version: Version) -> bytes:
        """Return the tombstone of a version; if the version is new or changed since, it is made now."""
        version_state, tombstone = self._prepared_tombstones.get(version.version_id, (None, b""))
        return tombstone if version_state == version.state else self._create(version)

    def _create(self, version: Version) -> bytes:
        try:
            record = view_record(self._context, version, self.now)
        except StoreCorrupt:
            record = tombstone_record(self._context, version)
        return dump(sign(rules.erase(record, reason=self._reason), self._context.operator))


def erase_version(unit: Unit, version: Version, tombstones: Tombstones) -> None:
    """Erase the content, search words and subject of a version, and leave its tombstone.

    Raises GrainError if the version is on hold, or withdraws a consent that is still here. Call `Engine.scrub` after
    the unit of work.

    The order matters: policy first, then the notes that name the version, then the version itself. Must run inside a
    unit; announces nothing, because callers announce a memory once.
    """
    now = tombstones.now
    try:
        check_erasure(version, now)
        _refuse_erasing_withdrawal(unit, version)
    except StoreCorrupt:
        # A damaged document protects no other; a hold in the index still counts.
        refuse_on_hold(version)
    drop_remote_successor(unit, version)
    _unlist_archive(unit, version, now, is_hard=True)
    unit.erase(version, tombstone=tombstones.get(version), now=now)


def may_erase_version(unit: Unit, version: Version, now: Instant) -> bool:
    """Return False if a hold, a policy or a consent that is still here forbids to erase a version.

    Used where an erasure is due but not demanded by a person: a memory that must stay is skipped instead of failing the
    rest.
    """
    try:
        check_erasure(version, now)
        _refuse_erasing_withdrawal(unit, version)
    except GrainError:
        return False
    except StoreCorrupt:
        return not version.state.has_legal_hold
    return True


def tombstone_version(unit: Unit, version: Version, *, valid_to: Instant, now: Instant) -> None:
    """Hide a version: it stays on record and appears in no answer."""
    _unlist_archive(unit, version, now, is_hard=False)
    unit.tombstone(version, valid_to=valid_to, now=now)


def _unlist_archive(unit: Unit, version: Version, now: Instant, *, is_hard: bool) -> None:
    """Remove a version from the index of openwop archives if it is one."""
    if port_of(version.document.standard).may_be_archive(version.document):
        from memoranda.service.openwop.workspace import unlist_archive

        unlist_archive(unit, version, now, is_hard=is_hard)


def _refuse_erasing_withdrawal(unit: Unit, version: Version) -> None:
    """Raise GrainError if a version withdraws a consent that is still stored."""
    # OMS §8.10: without its withdrawal, the consent would count again.
    fields = read_policy_fields(version)
    prior = (
        unit.find_by_name(OMS, str(fields.get("prior_consent")))
        if fields.get("is_withdrawal")
        else None
    )
    if prior is not None and not prior.state.erased:
        raise GrainError(
            "the consent that this withdraws is still stored; erase the consent first",
            oms_code=DENIED,
        )
