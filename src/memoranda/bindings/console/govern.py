"""Who comes in and what was done: keys, sessions, the audit log, and whether the store is sound."""

from __future__ import annotations

from memoranda.bindings.console.visit import ROOT, Answer, Page, Redirect, Visit
from memoranda.errors import ForbiddenScope, NotFound
from memoranda.service.core.access import ALL_VERBS, SCOPES, Access
from memoranda.standards.ump.requests import AuditRequest

_EVENTS = 100


def _is_owner(access: Access) -> bool:
    return access.verbs >= ALL_VERBS and not access.is_narrowed


def _require_owner(visit: Visit) -> None:
    """Keys can be made only by who may do everything that a key could."""
    if not _is_owner(visit.access):
        raise ForbiddenScope("the key you signed in with may not make or revoke others")


def keys(visit: Visit) -> Answer:
    """The keys of this owner, and the browsers that are signed in."""
    return _keys(visit)


def _keys(visit: Visit, made: str = "") -> Answer:
    """Who may not make keys does not learn which others there are."""
    found = visit.service.gate.keys_of(visit.access.default_tenant)
    names = {key.key_id: key.name for key in found}
    sessions = visit.service.sessions.open_sessions(visit.access, visit.session)
    if not _is_owner(visit.access):
        mine = {each.key_id for each in sessions}
        found = [key for key in found if key.key_id in mine]
    return Page(
        template="keys.html",
        told={"keys": found, "names": names, "sessions": sessions, "scopes": SCOPES, "made": made},
    )


def add_key(visit: Visit) -> Answer:
    """Make a key; it is shown once, on the page that answers."""
    _require_owner(visit)
    scopes = tuple(scope for scope in visit.form.get("scope", ()) if scope in SCOPES)
    name = visit.required("name", "A name for the key")
    return _keys(visit, visit.service.gate.add_key(name, tenant=visit.access.default_tenant, scopes=scopes))


def revoke_key(visit: Visit) -> Answer:
    _require_owner(visit)
    name = visit.names["id"]
    if name not in {key.key_id for key in visit.service.gate.keys_of(visit.access.default_tenant)}:
        raise NotFound("there is no such key")
    key = visit.service.gate.revoke_key(name)
    return Redirect(f"{ROOT}/keys", f"The key {key.name} is revoked.")


def end_session(visit: Visit) -> Answer:
    visit.service.sessions.end(visit.access, visit.session, visit.names["id"])
    return Redirect(f"{ROOT}/keys", "Signed out there.")


def audit(visit: Visit) -> Answer:
    """The last that was done, and whether the chain is whole if that is asked."""
    request = AuditRequest(op=visit.asked("op") or None, actor=visit.asked("actor") or None, asked_limit=_EVENTS)
    events = visit.service.audit(visit.access, request)[::-1]
    report = visit.service.audit_verify(visit.access) if visit.asked("verify") else None
    return Page(
        template="audit.html",
        told={"events": events, "report": report, "op": visit.asked("op"), "actor": visit.asked("actor")},
    )


def overview(visit: Visit) -> Answer:
    """How much there is, of what, and where; what may be kept; and, if that is asked, whether all of it is sound."""
    context = visit.service.context
    meaning = visit.service.embedding.progress() if context.meaning.is_on else None
    return Page(
        template="overview.html",
        told={
            "stats": visit.service.stats(visit.access),
            "quotas": context.quotas,
            "presets": sorted(context.presets),
            "meaning": meaning,
            "report": visit.service.verify(visit.access) if visit.asked("verify") else None,
        },
    )
