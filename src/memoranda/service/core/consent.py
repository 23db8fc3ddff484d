"""Consent grains as permissions to read (OMS §8.10): a grant admits its grantee, a withdrawal excludes it at once.

A consent grain has a subject (who consents), a relation (`mg:permits` or `mg:revokes`) and an object (the grantee). A
consent counts while it is current, intact, in its period, and not named by any withdrawal. It matters in two places: an
owner may let another owner see its shared memories (`readable_visibilities`), and under a preset that protects persons,
memories about a person are shown only with that person's consent (`may_read_personal`, `readable_users`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memoranda.errors import StoreCorrupt
from memoranda.model.instant import Instant
from memoranda.model.memory import Document, Version, Visibility
from memoranda.model.selection import PageCursor, Selection
from memoranda.service.core import compliance
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.views import is_intact, project
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot

if TYPE_CHECKING:
    from memoranda.standards.oms.grains import Grain

PAGE_LIMIT = 500
READING = "retrieve"


def find_consent(
    context: Context, access: Access, *, subject: str, grantee: str, scope: str = READING
) -> str | None:
    """Return the address of the consent under which `grantee` may act on the memories of `subject` now; None without
    one.
    """
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return find_authorizing_consent(context, snapshot, subject, grantee, scope)


def find_authorizing_consent(
    context: Context, snapshot: Snapshot, subject: str, grantee: str, scope: str
) -> str | None:
    """Return the address of the consent that permits `scope` to a grantee now, read in a snapshot; None without one."""
    now = context.clock()
    revoked = _find_withdrawn_consents(snapshot, subject, grantee, now)
    if revoked is None:
        return None
    granted = Selection(
        status_filter="current", subject=subject, relation="mg:permits", object=grantee
    )
    for version in reversed(list(_iterate_consents(snapshot, granted, now))):
        if (
            version.document.name in revoked
            or version.state.tombstoned is not None
            or not is_intact(version)
        ):
            continue
        fields = _load_consent_grain(version.document).fields
        begins, ends = fields.get("valid_from", 0), fields.get("valid_to", now)
        if scope in fields.get("scope", ()) and begins <= now <= ends:
            return version.document.name
    return None


def _load_consent_grain(document: Document) -> Grain:
    """Return a consent as a grain."""
    grain = port_of(document.standard).grain(document)
    assert grain is not None, "only a grain can be a consent"
    return grain


def _find_withdrawn_consents(
    snapshot: Snapshot, subject: str, grantee: str, now: Instant
) -> set[str] | None:
    """Return the names of the withdrawn consents between two parties; None if a withdrawal is damaged, as nothing
    counts then.
    """
    # A consent stays withdrawn even if the withdrawal itself was superseded or forgotten.
    withdrawals = Selection(
        status_filter="recorded", subject=subject, relation="mg:revokes", object=grantee
    )
    try:
        return {
            str(_load_consent_grain(version.document).fields.get("prior_consent", ""))
            for version in _iterate_consents(snapshot, withdrawals, now)
        }
    except StoreCorrupt:
        return None


def _iterate_consents(snapshot: Snapshot, selection: Selection, now: Instant) -> Iterator[Version]:
    """Yield the consent grains that a selection finds, oldest first."""
    after: PageCursor | None = None
    while page := snapshot.load_page(selection, limit=PAGE_LIMIT, now=now, after=after):
        after = page[-1].cursor
        versions = snapshot.load_versions([hit.version_id for hit in page])
        # Only a grain can be a consent (OMS §8.10).
        yield from (
            version for version in versions if port_of(version.document.standard).has_own_fields
        )


def readable_users(context: Context, access: Access, snapshot: Snapshot) -> tuple[str, ...] | None:
    """Return the users whose personal memories the caller may read by their consent; None if no preset restricts it."""
    if not compliance.needs_consent_to_read(context.presets_in(snapshot)) or access.sees_unredacted(
        snapshot.tenant
    ):
        return None
    grantee, now = _grantee_of(access), context.clock()
    granted = Selection(status_filter="current", relation="mg:permits", object=grantee)
    grants = [
        version for version in _iterate_consents(snapshot, granted, now) if is_intact(version)
    ]
    from memoranda.standards.oms import mapping as oms

    users = dict.fromkeys(
        oms.triple_of(_load_consent_grain(version.document))[0] for version in grants
    )
    return tuple(
        user
        for user in users
        if find_authorizing_consent(context, snapshot, user, grantee, READING) is not None
    )


def _grantee_of(access: Access) -> str:
    """Return the name under which consents are given to a caller."""
    return access.actor if access.is_peer else access.default_tenant


def may_read_personal(
    context: Context, access: Access, snapshot: Snapshot, version: Version
) -> bool:
    """Return True unless a preset forbids the caller to read a memory about a person who did not consent."""
    if not compliance.needs_consent_to_read(context.presets_in(snapshot)) or access.sees_unredacted(
        version.tenant
    ):
        return True
    if version.state.erased:
        return True
    user = project(context, version).scope.user
    return (
        not user
        or find_authorizing_consent(context, snapshot, user, _grantee_of(access), READING)
        is not None
    )


def readable_visibilities(
    context: Context, access: Access, snapshot: Snapshot
) -> tuple[Visibility, ...]:
    """Return the visibilities that the caller may see, by its credential or because the owner consented."""
    tenant = snapshot.tenant
    # A consent given to the signer of a token is not one for its bearer.
    if access.reaches(tenant) or access.limits or access.is_peer:
        return access.visibilities(tenant)
    if find_authorizing_consent(context, snapshot, tenant, access.default_tenant, READING) is None:
        return access.visibilities(tenant)
    return ("shared", "public")
