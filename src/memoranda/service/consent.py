"""Consent grains as permission (OMS §8.10): a grant lets its grantee in, a withdrawal shuts the door at once."""

from __future__ import annotations

from memoranda.model.instant import Instant
from memoranda.model.memory import Visibility
from memoranda.model.query import Structure
from memoranda.service.access import Access
from memoranda.service.context import Context
from memoranda.service.protection import policy_fields
from memoranda.storage.engine import Snapshot

# More grants between two parties than anyone gives; the newest count.
GRANTS_LIMIT = 500
READING = "retrieve"


def authorising(context: Context, tenant: str, subject: str, grantee: str, scope: str) -> str | None:
    """The address of the consent grain under which `grantee` may do `scope` with what is `subject`'s, now."""
    now = context.clock()
    asked = Structure(subject=subject, relation="mg:permits", object=grantee)
    with context.engine.read(tenant) as snapshot:
        grants = snapshot.find(asked, after=0, limit=GRANTS_LIMIT, now=now)
        revoked = _withdrawn(snapshot, subject, grantee, now)
    for version in reversed(grants):
        fields = policy_fields(version)
        begins, ends = fields.get("valid_from", 0), fields.get("valid_to", now)
        if version.document.name not in revoked and scope in fields.get("scope", ()) and begins <= now <= ends:
            return version.document.name
    return None


def _withdrawn(snapshot: Snapshot, subject: str, grantee: str, now: Instant) -> set[str]:
    asked = Structure(subject=subject, relation="mg:revokes", object=grantee)
    withdrawals = snapshot.find(asked, after=0, limit=GRANTS_LIMIT, now=now)
    return {str(policy_fields(version).get("prior_consent", "")) for version in withdrawals}


def visibilities(context: Context, access: Access, tenant: str) -> tuple[Visibility, ...]:
    """What the caller may see there: by its credential, or because the owner consented to it reading."""
    if access.reaches(tenant) or access.limits:
        return access.visibilities(tenant)
    if authorising(context, tenant, tenant, access.default_tenant, READING) is None:
        return access.visibilities(tenant)
    return ("shared", "public")
