"""The one way to write what follows a version of a memory, for every standard.

What binds the prior version binds this one, too: its user, who may see it, its consent, its end, its marks of personal
data. What the new document does not say of it itself is kept beside it (`model/bounds.py`), laid over every view, and
found by every index. It is only ever tightened; the owner alone may say that more people are to see a memory.

Erasing a version for good, whichever standard it was written in.
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

# Kept beside the memories, by the number of a version.
_REMOTE_SUCCESSOR: Final = "successor elsewhere"
_INHERITED_FIELDS: Final = ("processing_basis", "con:ccpa_opted_out", "legal:privilege")


def append_next(
    context: Context,
    unit: Unit,
    prior: Version,
    new: NewVersion,
    *,
    now: Instant,
    by_owner: bool = True,
    cause: bytes | None = None,
    follow_head: bool = False,
) -> Version:
    """Write the next version of a memory, bound by what bound the prior one."""
    refuse_rewriting_archive(prior)
    followed = (
        new if new.follows == prior else inherit_bounds(context, prior, new, by_owner=by_owner)
    )
    return followed.append(unit, now=now, cause=cause, follow_head=follow_head)


def inherit_bounds(
    context: Context, prior: Version, new: NewVersion, *, by_owner: bool = True
) -> NewVersion:
    """A version bound by what binds the one before it; it holds for as long as that one is the same."""
    return replace(_apply_inherited_bounds(context, prior, new, by_owner=by_owner), follows=prior)


def _apply_inherited_bounds(
    context: Context, prior: Version, new: NewVersion, *, by_owner: bool
) -> NewVersion:
    if prior.state.erased:
        return new
    earlier = bounds_of_version(context, prior)
    if by_owner:
        # Whoever writes a memory of his own says himself who may see it.
        earlier = replace(earlier, visibility=UNBOUND.visibility)
    inherited = remaining_bounds(
        earlier, _stated_bounds(context, new.document, new.projection, prior.tenant)
    )
    if inherited == UNBOUND:
        return new
    stated = new.projection.bounds
    followed = with_bounds(
        context, new, inherited if stated is None else combine(stated, inherited)
    )
    if followed.projection.scope.visibility == "public" and not followed.projection.exportable:
        raise ConsentViolation("consent: what may not leave cannot be made public")
    return followed


def bounds_of_version(context: Context, version: Version) -> Bounds:
    """All that binds a version: what its document says, and what those before it do."""
    projection = project(context, version)
    own = _stated_bounds(context, version.document, projection, version.tenant)
    inherited = version.bounds or UNBOUND
    return replace(
        own,
        expires=version.state.expires,
        redact=tuple(dict.fromkeys((*own.redact, *inherited.redact))),
        tags=tuple(dict.fromkeys((*own.tags, *inherited.tags))),
        policy_fields={**inherited.policy_fields, **own.policy_fields},
    )


def _stated_bounds(
    context: Context, document: Document, projection: Projection, tenant: str
) -> Bounds:
    """What a document says by itself."""
    fields = compliance.fields_of(document, tenant)
    tags = (
        tag
        for tag in fields.get("structural_tags", ())
        if isinstance(tag, str) and tag.startswith(FLAG_PREFIXES)
    )
    stated = {
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
        policy_fields=stated,
    )


def _redacted_paths(
    context: Context, document: Document, projection: Projection, tenant: str
) -> tuple[str, ...]:
    """What others are not shown of a record, or of the record inside."""
    paths = port_of(document.standard).redact_paths(document)
    if paths is not None or not projection.redacted:
        return paths or ()
    record = create_record(context, document, tenant, projection.scope.space)
    return tuple(record.get("consent", {}).get("redact", ()))


# --- a successor that is not here --------------------------------------------------------------------------------


def note_remote_successor(unit: Unit, version: Version, names: Mapping[str, str]) -> None:
    """Note what superseded a version in the store it came from, so that it is told when it leaves again."""
    unit.put_item(_REMOTE_SUCCESSOR, str(version.version_id), dump(dict(names)))


def with_remote_successor(snapshot: Snapshot, version: Version) -> Version:
    """A version with the name of its successor also where that is not here."""
    state = version.state
    stored = (
        snapshot.load_item(_REMOTE_SUCCESSOR, str(version.version_id))
        if has_remote_successor(version)
        else None
    )
    if stored is None:
        return version
    names = parse(stored)
    return replace(
        version,
        state=state._replace(superseded_by=next(iter(names.values())), successor_names=names),
    )


def has_remote_successor(version: Version) -> bool:
    return version.state.closed is not None and not version.state.superseded_by


def drop_remote_successor(unit: Unit, version: Version) -> None:
    """Note it no longer: the version is erased."""
    if has_remote_successor(version):
        unit.delete_item(_REMOTE_SUCCESSOR, str(version.version_id))


class Tombstones:
    """What is left of versions that are erased together: of those that are named, made before the writer's turn."""

    def __init__(
        self, context: Context, reason: str, now: Instant, versions: Iterable[Version] = ()
    ) -> None:
        self._context, self._reason, self.now = context, reason, now
        # With the state that it is made of: a document never changes.
        self._prepared = {
            version.version_id: (version.state, self._create(version))
            for version in versions
            if not version.state.erased
        }

    def get(self, version: Version) -> bytes:
        """The tombstone of a version; of one that was written or changed since, made now."""
        seen, tombstone = self._prepared.get(version.version_id, (None, b""))
        return tombstone if seen == version.state else self._create(version)

    def _create(self, version: Version) -> bytes:
        try:
            record = view_record(self._context, version, self.now)
        except StoreCorrupt:
            record = tombstone_record(self._context, version)
        return dump(sign(rules.erase(record, reason=self._reason), self._context.operator))


def erase_version(unit: Unit, version: Version, tombstones: Tombstones) -> None:
    """Content, words and subject go; what is left is a record that says only that there was something.

    Raises GrainError if the version is held, or is the withdrawal of a consent that is still here. Call `Engine.scrub`
    after the unit.
    """
    now = tombstones.now
    try:
        check_erasure(version, now)
        _refuse_erasing_withdrawal(unit, version)
    except StoreCorrupt:
        # What cannot be read any more protects nothing but itself; a hold in the index still stands.
        refuse_on_hold(version)
    drop_remote_successor(unit, version)
    _unlist_archive(unit, version, now, is_hard=True)
    unit.erase(version, tombstone=tombstones.get(version), now=now)


def tombstone_version(unit: Unit, version: Version, *, valid_to: Instant, now: Instant) -> None:
    """Forget a version softly: it is on record, and in no answer."""
    _unlist_archive(unit, version, now, is_hard=False)
    unit.tombstone(version, valid_to=valid_to, now=now)


def _unlist_archive(unit: Unit, version: Version, now: Instant, *, is_hard: bool) -> None:
    if port_of(version.document.standard).may_be_archive(version.document):
        from memoranda.service.openwop.workspace import unlist_archive

        unlist_archive(unit, version, now, is_hard=is_hard)


def _refuse_erasing_withdrawal(unit: Unit, version: Version) -> None:
    # OMS §8.10: without its withdrawal a consent would count again.
    fields = read_policy_fields(version)
    prior = (
        unit.find_by_name(OMS, str(fields.get("prior_consent")))
        if fields.get("is_withdrawal")
        else None
    )
    if prior is not None and not prior.state.erased:
        from memoranda.standards.oms.policy import DENIED

        raise GrainError(
            "the consent that this withdraws is still here; erase that first", oms_code=DENIED
        )
