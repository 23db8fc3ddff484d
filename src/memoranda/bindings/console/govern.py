"""Who comes in and what was done: keys, sessions, the audit log, and whether the store is sound."""

from __future__ import annotations

from typing import Final

import msgspec
from jinja2.filters import do_filesizeformat as filesize

from memoranda.bindings.console.visit import ROOT, Answer, Page, Redirect, Visit
from memoranda.errors import ForbiddenScope, InvalidInput, NotFound
from memoranda.model.owner import check_did
from memoranda.service.core.access import ALL_VERBS, SCOPES, TOKEN_VERBS, Access
from memoranda.service.core.limits import PRESETS, OwnRules, Quotas, tighten_quotas
from memoranda.standards.oams.namespace import parse_namespace, space_of
from memoranda.standards.ump.requests import AuditRequest

_EVENTS = 100
_DAY_MS = 86_400_000
# The word to type before a key is revoked whose owner may be locked out by that.
REVOKE_WORD: Final = "revoke"
# Whoever needs it for longer has a key, which is listed.
_TOKEN_DAYS = 90


def _is_owner(access: Access) -> bool:
    return access.verbs >= ALL_VERBS and not access.is_narrowed


def _require_owner(visit: Visit) -> None:
    """Keys can be made only by who may do everything that a key could."""
    if not _is_owner(visit.access):
        raise ForbiddenScope(visit.text("wrong.no_keys"))


def keys(visit: Visit) -> Answer:
    """The keys of this owner, and the browsers that are signed in."""
    return _keys(visit)


def _keys(visit: Visit, made: str = "", token: str = "") -> Answer:
    """Return the page of keys, with what was just made. A key that may not make others sees itself alone."""
    gate = visit.service.gate
    keys = gate.keys_of(visit.access.default_tenant)
    names = {key.key_id: key.name for key in keys}
    sessions = visit.service.sessions.open_sessions(visit.access, visit.session)
    own_key = visit.service.sessions.key_id(visit.session)
    if not _is_owner(visit.access):
        keys = [key for key in keys if key.key_id == own_key]
    return Page(
        template="keys.html",
        told={
            "keys": keys,
            "names": names,
            "lock_outs": {
                key.key_id: gate.lock_out_reason(key, caller_key_id=own_key)
                for key in keys
                if key.revoked is None
            },
            "revoke_word": REVOKE_WORD,
            "sessions": sessions,
            "scopes": SCOPES,
            "made": made,
            "token_made": token,
            "token_verbs": sorted(TOKEN_VERBS),
            "is_owner": _is_owner(visit.access),
        },
    )


def add_key(visit: Visit) -> Answer:
    """Make a key; it is shown once, on the page that answers."""
    _require_owner(visit)
    scopes = tuple(scope for scope in visit.chosen("scope") if scope in SCOPES)
    name = visit.required("name", "wrong.missing_name")
    return _keys(
        visit, visit.service.gate.add_key(name, tenant=visit.access.default_tenant, scopes=scopes)
    )


def revoke_key(visit: Visit) -> Answer:
    """Revoke a key; one that locks its owner out only if the word for that was typed."""
    _require_owner(visit)
    gate, name = visit.service.gate, visit.names["id"]
    key = next(
        (key for key in gate.keys_of(visit.access.default_tenant) if key.key_id == name), None
    )
    if key is None:
        raise NotFound(visit.text("wrong.no_key"))
    in_use, is_confirmed = visit.service.sessions.key_id(visit.session), visit.is_typed(REVOKE_WORD)
    if not is_confirmed and gate.lock_out_reason(key, caller_key_id=in_use) is not None:
        raise InvalidInput(visit.text("wrong.not_revoked", name=key.name, word=REVOKE_WORD))
    gate.revoke_key(key.key_id, caller_key_id=in_use, is_confirmed=is_confirmed)
    return Redirect(f"{ROOT}/keys", visit.text("said.revoked", name=key.name))


def mint_token(visit: Visit) -> Answer:
    """Make a token that ends by itself, for a part of this memory; it is shown once, on the page that answers."""
    _require_owner(visit)
    days = visit.number(visit.given("days")) or 1
    if days > _TOKEN_DAYS:
        raise InvalidInput(visit.text("wrong.too_long", most=_TOKEN_DAYS))
    audience = visit.given("audience").strip() or None
    if audience is not None:
        check_did(audience, visit.text("keys.audience"))
    scope = {"owner": visit.access.default_tenant}
    scope |= {name: value for name in ("project", "agent") if (value := visit.given(name).strip())}
    verbs = tuple(verb for verb in visit.chosen("verb") if verb in TOKEN_VERBS)
    token = visit.service.gate.mint_token(
        verbs=verbs, scope=scope, ttl_ms=days * _DAY_MS, audience=audience
    )
    return _keys(visit, token=token)


def revoke_token(visit: Visit) -> Answer:
    """Revoke a token that was made for this memory."""
    _require_owner(visit)
    text = visit.required("token_text", "wrong.missing_token")
    claims = visit.service.gate.inspect_token(text)["claims"]
    assert isinstance(claims, dict)
    if claims["scope"].get("owner") != visit.access.default_tenant:
        raise NotFound(visit.text("wrong.no_token"))
    visit.service.gate.revoke_token(text)
    return Redirect(f"{ROOT}/keys", visit.text("said.token_revoked"))


def end_session(visit: Visit) -> Answer:
    visit.service.sessions.end_session(visit.access, visit.session, visit.names["id"])
    return Redirect(f"{ROOT}/keys", visit.text("said.signed_out_there"))


def audit(visit: Visit) -> Answer:
    """The last that was done, and whether the chain is whole if that is asked."""
    request = AuditRequest(
        op=visit.asked("op") or None, actor=visit.asked("actor") or None, requested_limit=_EVENTS
    )
    events = visit.service.audit(visit.access, request)[::-1]
    report = visit.service.audit_verify(visit.access) if visit.asked("verify") else None
    return Page(
        template="audit.html",
        told={
            "events": events,
            "report": report,
            "op": visit.asked("op"),
            "actor": visit.asked("actor"),
        },
    )


def overview(visit: Visit) -> Answer:
    """How much there is, of what, and where; and, if that is asked, whether all of it is sound."""
    meaning, vectors = visit.service.context.semantic_search, visit.service.context.engine.vectors
    return Page(
        template="overview.html",
        told={
            "stats": visit.service.stats(visit.access),
            "waiting": vectors.waiting(meaning.model) if meaning.is_enabled else None,
            "report": visit.service.verify(visit.access) if visit.asked("verify") else None,
        },
    )


def rules(visit: Visit) -> Answer:
    """How much there may be, what the law asks for, and the namespaces."""
    context, own = visit.service.context, visit.service.rules(visit.access)
    stats = visit.service.stats(visit.access)
    return Page(
        template="rules.html",
        told={
            "usage": _usage(
                tighten_quotas(context.quotas, msgspec.json.encode(own)),
                stats.memories,
                stats.bytes,
            ),
            "server": {**msgspec.structs.asdict(context.quotas), "presets": context.presets},
            "own": msgspec.structs.asdict(own),
            "presets": PRESETS,
            "namespaces": _namespaces(visit),
            "may_change": _is_owner(visit.access),
        },
    )


def set_rules(visit: Visit) -> Answer:
    """Ask for something else from now on."""
    if not _is_owner(visit.access):
        raise ForbiddenScope(visit.text("wrong.no_rules"))
    limits = {
        name: visit.number(visit.given(name)) for name in ("memories", "bytes", "writes_per_minute")
    }
    visit.service.set_rules(visit.access, OwnRules(presets=tuple(visit.chosen("preset")), **limits))
    return Redirect(f"{ROOT}/rules", visit.text("rules.saved"))


def _usage(
    quotas: Quotas, memories: int, used: int | None
) -> list[tuple[str, int, int, tuple[str, str]]]:
    """What is used, of how much: as numbers, and as they are read."""
    rows = [("count", memories, quotas.memories, (str(memories), str(quotas.memories)))]
    if used is not None:
        rows.append(("bytes", used, quotas.bytes, (filesize(used), filesize(quotas.bytes))))
    return rows


def _namespaces(visit: Visit) -> list[tuple[str, str]]:
    """Each as OAMS names it, and the project that it is."""
    names = visit.service.oams.namespaces(visit.access)
    tenant = visit.access.default_tenant
    return [(name, space_of(parse_namespace(name), tenant)) for name in names]
