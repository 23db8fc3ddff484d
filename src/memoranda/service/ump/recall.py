"""Recall: filter, find candidates, rank, verify, redact. In that order (UMP §5.3; DESIGN decision 4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.model.query import Filter
from memoranda.service.core.access import Access
from memoranda.service.core.consent import may_read_personal, visibilities
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.ranking import Question, Ranked, order, rate
from memoranda.service.core.views import holds, show, unless_damaged, view
from memoranda.standards.ump.rehydrate import Rehydrated, rehydrate
from memoranda.standards.ump.requests import RecallRequest, RehydrateRequest
from memoranda.storage.engine import Snapshot

# Ranking sees twice as much as is asked for, because recency and salience may reorder.
_CANDIDATES_FACTOR, _CANDIDATES_LEAST = 2, 16
_NEVER_RECALLED = "tombstoned"


def recall(context: Context, access: Access, request: RecallRequest) -> list[Ranked]:
    """The best memories for a query, each with its signals."""
    now = context.clock()
    tenant = access.tenant_for(request.scope.get("owner"))
    scope = {**request.scope, "owner": tenant}
    access.require_scope(scope)
    where = _filter(context, access, tenant, request, now)
    with context.engine.read(tenant) as snapshot:
        versions, question = _candidates(snapshot, request, where, scope, now)
        known = snapshot.audit_head()[0] > 0
    rated = list(_rated(context, versions, question, now))
    # UMP §5.3: drop what does not verify. Only what will be shown is verified: it costs more than ranking.
    ordered = order(rated, request.prefer)
    fit = (found for found, version in ordered if holds(version) and may_read_personal(context, access, version))
    best = list(islice(fit, request.limit))
    for chain in _chains(access, tenant, known, best):
        _audit(context, access, chain, request, scope, best, now)
    return [_shown(context, access, found) for found in best]


def for_prompt(context: Context, access: Access, request: RehydrateRequest) -> Rehydrated:
    """Recalled memories as one framed, neutralised block for a model's context (UMP §5.3)."""
    results = [found.document() for found in recall(context, access, request)]
    return rehydrate(
        results,
        limit=request.limit,
        max_chars=request.max_chars,
        budget_chars=request.budget_chars,
        max_visibility=request.max_visibility,
        require_signature=True,
    )


def _filter(context: Context, access: Access, tenant: str, request: RecallRequest, now: Instant) -> Filter:
    visible = visibilities(context, access, tenant)
    asked = request.scope.get("visibility")
    statuses = request.statuses or ("active", "candidate")
    return Filter(
        at=Instant(now if request.valid_at is None else request.valid_at),
        known_at=None if request.known_at is None else Instant(request.known_at),
        space=request.scope.get("project"),
        user=request.scope.get("user"),
        agent=request.scope.get("agent"),
        session=request.scope.get("session"),
        visibilities=tuple(v for v in visible if asked in (None, v)),
        kinds=request.kinds,
        statuses=tuple(s for s in statuses if s != _NEVER_RECALLED),
    )


def _candidates(
    snapshot: Snapshot, request: RecallRequest, where: Filter, scope: dict[str, str], now: Instant
) -> tuple[list[Version], Question]:
    """Lexical matches, and when they are few, the most recent of the scope."""
    wanted = max(_CANDIDATES_LEAST, _CANDIDATES_FACTOR * request.limit)
    matches = snapshot.search(request.query, where, wanted, now)
    ids = [hit.version_id for hit in matches.hits]
    if len(ids) < request.limit or request.prefer:
        ids += [i for i in snapshot.recent(where, wanted, now) if i not in ids]
    question = Question(weights=matches.weights, mean_terms=matches.mean_terms, scope=scope, now=now)
    return snapshot.versions(ids), question


def _rated(
    context: Context, versions: list[Version], question: Question, now: Instant
) -> Iterator[tuple[Ranked, Version]]:
    for version in versions:

        def work(version: Version = version) -> Ranked:
            return rate(view(context, version, now), version.state, question)

        # A key that was destroyed erases also what the index does not know of yet.
        rated = None if version.state.erased else unless_damaged(version, work)
        if rated is not None:
            yield rated, version


def _shown(context: Context, access: Access, found: Ranked) -> Ranked:
    record = show(context, access, found.record)
    return found if record is found.record else Ranked(record=record, signals=found.signals, score=found.score)


def _chains(access: Access, tenant: str, known: bool, best: list[Ranked]) -> tuple[str, ...]:
    """Whose audit chains this recall goes into."""
    if access.reaches(tenant):
        return (tenant if known else access.default_tenant,)
    # Always the caller's own, or its absence there would tell that such an owner exists; the owner's only when
    # something of theirs was read.
    return (access.default_tenant, tenant) if best else (access.default_tenant,)


def _audit(
    context: Context,
    access: Access,
    tenant: str,
    request: RecallRequest,
    scope: dict[str, str],
    best: list[Ranked],
    now: Instant,
) -> None:
    entry = audit_entry(
        access,
        "recall",
        now=now,
        targets=tuple(found.record["id"] for found in best),
        scope=scope,
        result=f"{len(best)} hits",
        # The question may quote what is later erased, so only its fingerprint is kept.
        meta={"query": context.engine.fingerprint(tenant, request.query), "count": len(best)},
    )
    context.audit_read(tenant, entry)
