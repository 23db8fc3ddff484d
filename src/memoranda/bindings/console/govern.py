"""The pages of keys, sessions, the audit log, the overview, and the rules of an owner.

Forms on these pages can lock people out or let others in, so they have stricter rules than the rest of the console:
creating a key or token needs every right that it would have (`_require_owner`), a new secret is shown once on the page
that follows and is stored nowhere, and revoking a key that its owner needs asks for a typed word. Checks that read the
whole store run only on request.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
from jinja2.filters import do_filesizeformat as filesize

from memoranda.bindings.console.visit import ROOT, Answer, Redirect, TemplatePage, Visit
from memoranda.errors import ForbiddenScope, InvalidInput, NotFound
from memoranda.model.instant import Instant
from memoranda.model.owner import check_did
from memoranda.service.core.access import ALL_VERBS, SCOPES, TOKEN_VERBS, Access
from memoranda.service.core.limits import (
    PRESETS,
    OwnRules,
    Quotas,
    server_quotas,
    tighten_quotas,
)
from memoranda.standards.oams.namespace import parse_namespace, space_of
from memoranda.standards.ump.requests import AuditRequest
from memoranda.storage.engine.contract import KeyLimits

# Entries of the audit log on its page.
_EVENTS = 100
_DAY_MS = 86_400_000
# The word that confirms revoking a key whose owner may be locked out without it.
REVOKE_WORD: Final = "revoke"
# Days that a key may be valid if it expires, and days that it stays valid after it was replaced here.
KEY_DAYS_LIMIT: Final = 3_650
OVERLAP_DAYS: Final = 7
# Days that a token may be valid. For longer access there are keys, which are listed.
_TOKEN_DAYS = 90


def is_owner(access: Access) -> bool:
    """Return True if the access has all rights, to all memories."""
    return access.verbs >= ALL_VERBS and not access.is_narrowed


def _require_owner(visit: Visit) -> None:
    """Raise ForbiddenScope unless the caller has every right that a new key could have."""
    if not is_owner(visit.access):
        raise ForbiddenScope(visit.text("wrong.no_keys"))


def show_keys(visit: Visit) -> Answer:
    """Show the keys of this owner, and the signed-in browsers."""
    return _keys_page(visit)


def _keys_page(visit: Visit, new_key: str = "", new_token: str = "") -> Answer:
    """Return the page of keys, with a new key or token. A key that must not create others sees only itself."""
    service, access = visit.service, visit.access
    gate = service.gate
    keys = gate.keys_of(access.default_tenant)
    names = {key.key_id: key.name for key in keys}
    sessions = service.sessions.open_sessions(access, visit.session)
    own_key = service.sessions.key_id(visit.session)
    if not is_owner(access):
        keys = [key for key in keys if key.key_id == own_key]
    return TemplatePage(
        template="keys.html",
        context={
            "keys": keys,
            "names": names,
            "lock_outs": {
                key.key_id: gate.lock_out_reason(key, caller_key_id=own_key)
                for key in keys
                if key.is_open(service.context.clock())
            },
            "last_uses": {key.key_id: gate.key_uses.last_use(key) for key in keys},
            "ending": {
                expiring.key.key_id for expiring in gate.expiring_keys(access.default_tenant)
            },
            "overlap_days": OVERLAP_DAYS,
            "revoke_word": REVOKE_WORD,
            "sessions": sessions,
            "scopes": SCOPES,
            "made": new_key,
            "token_made": new_token,
            "token_verbs": sorted(TOKEN_VERBS),
            "is_owner": is_owner(access),
        },
    )


def add_key(visit: Visit) -> Answer:
    """Create a key. It is shown once, on the page that follows."""
    _require_owner(visit)
    scopes = tuple(scope for scope in visit.form_values("scope") if scope in SCOPES)
    name = visit.require_value("name", "wrong.missing_name")
    days, gate = visit.parse_number(visit.form_value("days")), visit.service.gate
    if days > KEY_DAYS_LIMIT:
        raise InvalidInput(visit.text("wrong.key_too_long", most=KEY_DAYS_LIMIT))
    limits = {
        limit: visit.parse_number(visit.form_value(limit))
        for limit in ("requests_per_minute", "writes_per_day")
    }
    key = gate.add_key(
        name,
        tenant=visit.access.default_tenant,
        scopes=scopes,
        expires=Instant(visit.service.context.clock() + days * _DAY_MS) if days else None,
        limits=KeyLimits(**limits),
    )
    return _keys_page(visit, key)


def rotate_key(visit: Visit) -> Answer:
    """Replace a key by a new one, which is shown once. The earlier key stays valid for some days."""
    _require_owner(visit)
    gate, name = visit.service.gate, visit.names["id"]
    if name not in (key.key_id for key in gate.keys_of(visit.access.default_tenant)):
        raise NotFound(visit.text("wrong.no_key"))
    return _keys_page(visit, gate.rotate_key(name, overlap_ms=OVERLAP_DAYS * _DAY_MS)[1])


def revoke_key(visit: Visit) -> Answer:
    """Revoke a key. If that may lock its owner out, the person must have typed the word."""
    service = visit.service
    _require_owner(visit)
    gate, name = service.gate, visit.names["id"]
    key = next(
        (key for key in gate.keys_of(visit.access.default_tenant) if key.key_id == name), None
    )
    if key is None:
        raise NotFound(visit.text("wrong.no_key"))
    in_use, is_confirmed = service.sessions.key_id(visit.session), visit.is_typed(REVOKE_WORD)
    if not is_confirmed and gate.lock_out_reason(key, caller_key_id=in_use) is not None:
        raise InvalidInput(visit.text("wrong.not_revoked", name=key.name, word=REVOKE_WORD))
    gate.revoke_key(key.key_id, caller_key_id=in_use, is_confirmed=is_confirmed)
    return Redirect(f"{ROOT}/keys", visit.text("said.revoked", name=key.name))


def mint_token(visit: Visit) -> Answer:
    """Create a token that expires, for a part of this memory. It is shown once, on the page that follows."""
    _require_owner(visit)
    days = visit.parse_number(visit.form_value("days")) or 1
    if days > _TOKEN_DAYS:
        raise InvalidInput(visit.text("wrong.too_long", most=_TOKEN_DAYS))
    audience = visit.form_value("audience").strip() or None
    if audience is not None:
        check_did(audience, visit.text("keys.audience"))
    scope = {"owner": visit.access.default_tenant}
    scope |= {
        name: value for name in ("project", "agent") if (value := visit.form_value(name).strip())
    }
    verbs = tuple(verb for verb in visit.form_values("verb") if verb in TOKEN_VERBS)
    token = visit.service.gate.mint_token(
        verbs=verbs, scope=scope, ttl_ms=days * _DAY_MS, audience=audience
    )
    return _keys_page(visit, new_token=token)


def revoke_token(visit: Visit) -> Answer:
    """Revoke a token for this memory."""
    service = visit.service
    _require_owner(visit)
    text = visit.require_value("token_text", "wrong.missing_token")
    claims = service.gate.inspect_token(text)["claims"]
    assert isinstance(claims, dict)
    if claims["scope"].get("owner") != visit.access.default_tenant:
        raise NotFound(visit.text("wrong.no_token"))
    service.gate.revoke_token(text)
    return Redirect(f"{ROOT}/keys", visit.text("said.token_revoked"))


def end_session(visit: Visit) -> Answer:
    """Sign out another browser."""
    visit.service.sessions.end_session(visit.access, visit.session, visit.names["id"])
    return Redirect(f"{ROOT}/keys", visit.text("said.signed_out_there"))


def show_audit(visit: Visit) -> Answer:
    """Show the latest entries of the audit log, and on request the result of verifying its chain."""
    service, access = visit.service, visit.access
    request = AuditRequest(
        op=visit.query_value("op") or None,
        actor=visit.query_value("actor") or None,
        requested_limit=_EVENTS,
    )
    events = service.audit(access, request)[::-1]
    report = service.audit_verify(access) if visit.query_value("verify") else None
    return TemplatePage(
        template="audit.html",
        context={
            "events": events,
            "report": report,
            "op": visit.query_value("op"),
            "actor": visit.query_value("actor"),
        },
    )


def show_overview(visit: Visit) -> Answer:
    """Show counts of memories, and on request the result of a full check."""
    service, access = visit.service, visit.access
    meaning, vectors = service.context.semantic_search, service.context.engine.vectors
    # The rest of the page is sent after its head, when an error could no longer be shown.
    access.require("read")
    return TemplatePage(
        template="overview.html",
        is_streamed=True,
        context={
            "load_stats": partial(service.stats, access),
            "waiting": vectors.waiting(meaning.model) if meaning.is_enabled else None,
            "report": service.verify(access) if visit.query_value("verify") else None,
        },
    )


def show_rules(visit: Visit) -> Answer:
    """Show the quotas, the compliance presets, and the namespaces."""
    service, access = visit.service, visit.access
    context, own_rules = service.context, service.rules(access)
    quotas = server_quotas(context, access.default_tenant)
    limits = tighten_quotas(quotas, msgspec.json.encode(own_rules))

    def load_usage() -> object:
        """Count the memories, after the head of the page was sent."""
        stats = service.stats(access)
        return _usage(limits, stats.memories, stats.bytes)

    return TemplatePage(
        template="rules.html",
        is_streamed=True,
        context={
            "load_usage": load_usage,
            "server": {**msgspec.structs.asdict(quotas), "presets": context.presets},
            "own": msgspec.structs.asdict(own_rules),
            "presets": PRESETS,
            "load_namespaces": partial(_namespaces, visit),
            "may_change": is_owner(access),
        },
    )


def set_rules(visit: Visit) -> Answer:
    """Change the owner's own rules."""
    access = visit.access
    if not is_owner(access):
        raise ForbiddenScope(visit.text("wrong.no_rules"))
    limits = {
        name: visit.parse_number(visit.form_value(name))
        for name in ("memories", "bytes", "writes_per_minute")
    }
    visit.service.set_rules(access, OwnRules(presets=tuple(visit.form_values("preset")), **limits))
    return Redirect(f"{ROOT}/rules", visit.text("rules.saved"))


def _usage(
    quotas: Quotas, memories: int, used_bytes: int | None
) -> list[tuple[str, int, int, tuple[str, str]]]:
    """Return the used and the allowed amount of each quota, as numbers and as texts."""
    rows = [("count", memories, quotas.memories, (str(memories), str(quotas.memories)))]
    if used_bytes is not None:
        rows.append(
            ("bytes", used_bytes, quotas.bytes, (filesize(used_bytes), filesize(quotas.bytes)))
        )
    return rows


def _namespaces(visit: Visit) -> list[tuple[str, str]]:
    """Return the OAMS name of each namespace, with its project."""
    access = visit.access
    names = visit.service.oams.namespaces(access)
    tenant = access.default_tenant
    return [(name, space_of(parse_namespace(name), tenant)) for name in names]
