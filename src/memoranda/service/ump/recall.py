"""Recall: filter, find candidates, rank, verify, redact. In that order (UMP §5.3; DESIGN decision 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.memory import Version, Visibility
from memoranda.model.selection import (
    UPDATED,
    IsOneOf,
    Matches,
    RetrieverQuery,
    Selection,
    VectorQuery,
)
from memoranda.retrieval.analysis import Exact, exact_in, said
from memoranda.service.core.access import Access
from memoranda.service.core.consent import may_read_personal
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lookup import shorten_ids
from memoranda.service.core.ranking import (
    RankedRecord,
    RankingQuery,
    apply_preferences,
    place_below_sources,
    rate_record,
    sort_by_score,
)
from memoranda.service.core.views import (
    is_intact,
    project,
    redact_for_caller,
    run_unless_damaged,
    view_record,
)
from memoranda.service.retrieve import (
    iterate_selected,
    prepare_queries,
    restrict_selection,
    search_candidates,
    with_phrase_reader,
)
from memoranda.standards.ump import mapping, rules, signature
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.requests import RecallRequest, RehydrateRequest
from memoranda.storage.engine.contract import Snapshot

if TYPE_CHECKING:
    from memoranda.standards.ump.rehydrate import RehydratedBlock

# Ranking sees a little more than is asked for, because recency and salience may reorder near-equal answers.
_CANDIDATES_FACTOR, _CANDIDATES_LEAST = 2, 16
_NEVER_RECALLED = "tombstoned"
# Of what the caller sees in part, as much is read, the last updated first.
_PARTS_BYTES = 32 * 1_048_576
# As many are read once more where that is asked for.
_RERANKED = 20


def recall(context: Context, access: Access, request: RecallRequest) -> list[RankedRecord]:
    """The best memories for a query, each with its signals."""
    now = context.clock()
    asked_scope = access.narrow_scope(request.scope)
    tenant = access.tenant_for(asked_scope.get("owner"))
    scope = {**asked_scope, "owner": tenant}
    access.require_scope(scope)
    asked = _selection(request, asked_scope, now)
    wanted = max(_CANDIDATES_LEAST, _CANDIDATES_FACTOR * request.limit)
    legs = _legs(context, request)
    with context.engine.read(tenant) as snapshot:
        where = restrict_selection(context, access, snapshot, asked)
        versions, matches = search_candidates(snapshot, where, legs, limit=wanted, now=now)
        known = snapshot.read_audit_head()[0] > 0
        question = RankingQuery(
            weights=matches.weights, mean_terms=matches.mean_terms, scope=scope, now=now
        )
        if request.hints.rerank:
            matches = _reranked(context, request.query, matches, versions)
        rated = list(_rated(context, versions, question, matches))
        if where.redacted is not None:
            parts = _rated_parts(
                _redacted(context, snapshot, asked, where, now), question, exact_in(request.query)
            )
            while some := list(islice(parts, wanted)):
                # However many there are, few are held.
                rated = sort_by_score([*rated, *some])[: 2 * wanted]
        ranked = apply_preferences(sort_by_score(rated), request.prefer, question)
        fit = (
            found
            for found, version in place_below_sources(ranked, lambda pair: pair[1].document)
            # UMP §5.3: drop what does not verify. Only what will be shown is verified: it costs more than ranking.
            if is_intact(version) and may_read_personal(context, access, snapshot, version)
        )
        best = list(islice(fit, request.limit))
    for chain in _chains(access, tenant, known, best):
        _audit(context, access, chain, request, scope, best, now)
    return [_shown(context, access, found) for found in best]


def recall_bare(context: Context, access: Access, request: RecallRequest) -> list[RankedRecord]:
    """The same without the documents of other standards that records carry, for who has no use for their bytes."""
    return [
        replace(found, record=_bare(context, found.record))
        for found in recall(context, access, request)
    ]


def _bare(context: Context, record: Record) -> Record:
    plain = rules.drop_original(record)
    return record if plain is record else signature.sign(plain, context.operator)


def for_prompt(context: Context, access: Access, request: RehydrateRequest) -> RehydratedBlock:
    """Recalled memories as one framed, neutralised block for a model's context (UMP §5.3)."""
    from memoranda.standards.ump.rehydrate import rehydrate

    # What the owner has shared is the owner's own all the same; what others share is asked for by name.
    is_own = access.sees_unredacted(access.tenant_for(request.scope.get("owner")))
    found = recall(context, access, request)
    return rehydrate(
        [each.document() for each in found],
        limit=request.limit,
        max_chars=request.max_chars,
        budget_chars=request.budget_chars,
        max_visibility=request.max_visibility or ("public" if is_own else "private"),
        require_signature=True,
        names=_short(context, access, [each.record for each in found]) if request.ids else None,
    )


def framed(
    context: Context, access: Access, records: Sequence[Record], *, max_chars: int = 500
) -> RehydratedBlock:
    """Records that were listed, in their order, as such a block with short ids."""
    from memoranda.standards.ump.rehydrate import frame_records as in_order

    return in_order(records, _short(context, access, records), max_chars=max_chars)


def _short(context: Context, access: Access, records: Sequence[Record]) -> dict[str, str]:
    return shorten_ids(context, access, [record["id"] for record in records])


def _selection(request: RecallRequest, scope: Mapping[str, str], now: Instant) -> Selection:
    visibility = cast("Visibility | None", scope.get("visibility"))
    statuses = request.statuses or ("active", "candidate")
    asked = Selection(
        at=Instant(now if request.valid_at is None else request.valid_at),
        known_at=None if request.known_at is None else Instant(request.known_at),
        space=scope.get("project"),
        visibilities=None if visibility is None else (visibility,),
        kinds=request.kinds,
        tags=request.tags,
        standard=request.standard,
        statuses=tuple(s for s in statuses if s != _NEVER_RECALLED),
    )
    user = scope.get("user")
    if request.is_strict:
        return replace(asked, user=user, agent=scope.get("agent"), session=scope.get("session"))
    # UMP §2.2: scope is a matter of relevance. What belongs to no project or is about nobody in particular answers
    # too, as does what another agent or another session learned; another project's and another person's do not.
    tests = () if user is None else (IsOneOf(name="user", texts=(user,), or_missing=True),)
    return replace(asked, or_no_space=bool(asked.space), tests=tests)


def _legs(context: Context, request: RecallRequest) -> Sequence[RetrieverQuery]:
    hints = request.hints
    if hints.words_only:
        return (with_phrase_reader(context, request.words),)
    legs = prepare_queries(context, request.words)
    return (
        legs
        if hints.floor
        else [
            replace(leg, floor=-1.0, line=0.0) if isinstance(leg, VectorQuery) else leg
            for leg in legs
        ]
    )


def _reranked(context: Context, query: str, matches: Matches, versions: list[Version]) -> Matches:
    """The same after the best were read once more, each together with the question; of copies the first alone."""
    best = {each.version_id for each in matches.hits[:_RERANKED]}
    read: dict[int, str] = {}
    for version in versions:
        if version.version_id in best and not version.state.erased:
            found = run_unless_damaged(version, partial(project, context, version))
            if found is not None:
                read[version.version_id] = found.text
    texts: dict[str, tuple[int, str]] = {}
    for each in matches.hits[:_RERANKED]:
        if each.version_id in read:
            text = read[each.version_id]
            texts.setdefault(said(text), (each.version_id, text))
    more = context.semantic_search.rerank(query, dict(texts.values()))
    rated = (
        each._replace(lexical=each.lexical + more.get(each.version_id, 0.0))
        for each in matches.hits
    )
    return replace(matches, hits=tuple(sorted(rated, key=lambda each: -each.lexical)))


def _rated(
    context: Context, versions: list[Version], question: RankingQuery, matches: Matches
) -> Iterator[tuple[RankedRecord, Version]]:
    most = max((each.lexical for each in matches.hits), default=1.0) or 1.0
    relevance = {each.version_id: each.lexical / most for each in matches.hits}
    for version in versions:

        def work(version: Version = version) -> RankedRecord:
            version_id = version.version_id
            found, nearness = relevance.get(version_id, 0.0), matches.nearness.get(version_id, 0.0)
            record = view_record(context, version, question.now)
            rated = rate_record(record, version.state, question, found, nearness, version.opened)
            return replace(rated, reasons=matches.reasons.get(version_id))

        # A key that was destroyed erases also what the index does not know of yet.
        rated = None if version.state.erased else run_unless_damaged(version, work)
        if rated is not None:
            yield rated, version


class _Part(msgspec.Struct, frozen=True):
    """A record of which the caller sees a part."""

    whole: Record
    shown: Record
    version: Version


def _rated_parts(
    parts: Iterable[_Part], question: RankingQuery, exact: Exact
) -> Iterator[tuple[RankedRecord, Version]]:
    for part in parts:
        if exact.refuses(part.shown["body"]["text"]):
            continue
        state = part.version.state._replace(observed=mapping.project(part.shown).observed)
        rated = rate_record(part.shown, state, question)
        # As of everything else: what shares no word with a question that has some does not answer it.
        if rated.signals["similarity"] or not question.weights:
            yield replace(rated, record=part.whole), part.version


def _redacted(
    context: Context, snapshot: Snapshot, asked: Selection, where: Selection, now: Instant
) -> Iterator[_Part]:
    """What the caller may see in part, and is asked for by what is shown of it.

    Whatever was taken out is in the index. So none of this is asked of the index: it is read, and the part that is
    shown is compared, or a right guess could be told from a wrong one.
    """
    tests = tuple(each for each in where.tests if each not in asked.tests)
    everything = Selection(
        status_filter="unforgotten", redacted=True, visibilities=where.visibilities, tests=tests
    )
    left = _PARTS_BYTES
    for version, _ in iterate_selected(snapshot, everything, UPDATED, now=now):
        left -= len(version.document.native)
        if left < 0:
            return

        def work(version: Version = version) -> _Part:
            whole = view_record(context, version, now)
            return _Part(whole, rules.redact(whole)[0], version)

        part = None if version.state.erased else run_unless_damaged(version, work)
        if part is not None and _answers(part, asked, where):
            yield part


def _answers(part: _Part, asked: Selection, where: Selection) -> bool:
    shown, state = mapping.project(part.shown), part.version.state
    assert asked.at is not None
    ends = [
        end
        for end in (shown.valid_to, state.valid_to if state.superseded_by else None)
        if end is not None
    ]
    scope, open_to = (
        shown.scope,
        {"", *(text for each in asked.tests if isinstance(each, IsOneOf) for text in each.texts)},
    )
    named = ((where.user, scope.user), (where.agent, scope.agent), (where.session, scope.session))
    return (
        all(wanted in (None, has) for wanted, has in named)
        and (where.space in (None, scope.space) or (where.or_no_space and not scope.space))
        and (not asked.tests or scope.user in open_to)
        and (asked.kinds is None or shown.kind in asked.kinds)
        and {tag.lower() for tag in shown.tags}.issuperset(asked.tags)
        and asked.standard in (None, part.version.document.standard)
        and (asked.statuses is None or shown.status in asked.statuses)
        and (asked.known_at is None or state.recorded <= asked.known_at)
        and shown.valid_from <= asked.at
        and all(asked.at < end for end in ends)
    )


def _shown(context: Context, access: Access, found: RankedRecord) -> RankedRecord:
    record = redact_for_caller(context, access, found.record)
    return found if record is found.record else replace(found, record=record)


def _chains(access: Access, tenant: str, known: bool, best: list[RankedRecord]) -> tuple[str, ...]:
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
    best: list[RankedRecord],
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
        claimed=request.actor,
    )
    context.audit_read(tenant, entry)
