"""Recall: filter, find candidates, rank, verify, redact, in that order (UMP §5.3).

The index answers for the memories that the caller sees completely. A memory that the caller sees redacted is not
searched in the index, which contains the removed parts: such memories are read, and the part that is shown is rated.
Both lists are ranked together. Signatures are verified last, only for records that will be returned.

The path of one recall: scope and token → `Selection` → queries of the retrievers → `restrict_selection` → candidates
from the index → ranking by five signals → preferences of the client → integrity, consent and redaction → audit. Steps
that need a document come last, because they cost most.

For callers who see memories only in part there is a second list (`_find_redacted`), which is read and compared without
the index, limited by _REDACTED_BYTES_LIMIT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.memory import Version, Visibility
from memoranda.model.passages import LONG_TEXT_CHARS
from memoranda.model.selection import (
    UPDATED,
    IsOneOf,
    Matches,
    RetrieverQuery,
    Selection,
    VectorQuery,
)
from memoranda.retrieval.analysis import ExactTerms, exact_terms, normalised_text
from memoranda.retrieval.passages import choose_passage
from memoranda.retrieval.weights import NEAREST_SHOWN
from memoranda.service.core.access import Access
from memoranda.service.core.compliance import may_read_personal
from memoranda.service.core.context import Context, audit_entry, describe_claim, describe_count
from memoranda.service.core.lookup import shorten_ids
from memoranda.service.core.memory_line import bind_to_line
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

# The framing of texts for a model is imported where it is used: other recalls do without it.

# Candidates per result, and the least number: ranking may reorder results of nearly equal relevance.
_CANDIDATES_FACTOR, _CANDIDATES_LEAST = 2, 16
_NEVER_RECALLED = "tombstoned"
# Bytes of documents read for a caller who sees them only in part. The memories that were updated last are read first.
_REDACTED_BYTES_LIMIT = 32 * 1_048_576
# Hits that a reranking model reads.
_RERANKED = 20


def recall(context: Context, access: Access, request: RecallRequest) -> list[RankedRecord]:
    """Return the best memories for a query, each with the signals of its ranking; long ones with their best passage.

    `request.limit` results at most. An unknown owner gives an empty list, the same as an owner whose memories may not
    be seen.
    """
    return _recall(context, access, request, LONG_TEXT_CHARS)


def _recall(
    context: Context, access: Access, request: RecallRequest, long_chars: int
) -> list[RankedRecord]:
    """Return the best memories for a query; those of at least `long_chars` characters with their best passage."""
    now = context.clock()
    narrowed = access.narrow_scope(request.scope)
    tenant = access.tenant_for(narrowed.get("owner"))
    scope = {**narrowed, "owner": tenant}
    access.require_scope(scope)
    requested = _build_selection(request, narrowed, now)
    count = max(_CANDIDATES_LEAST, _CANDIDATES_FACTOR * request.limit)
    retrievers = _build_retrievers(context, tenant, request)
    with context.engine.open_snapshot(tenant) as snapshot:
        visible = restrict_selection(context, access, snapshot, requested)
        versions, matches = search_candidates(snapshot, visible, retrievers, limit=count, now=now)
        is_tenant_known = snapshot.read_audit_head()[0] > 0
        query = RankingQuery(
            weights=matches.weights, mean_terms=matches.mean_terms, scope=scope, now=now
        )
        if request.hints.rerank:
            matches = _rerank(context, request.query, matches, versions)
        rated = list(_rate(context, versions, query, matches))
        if visible.redacted is not None:
            redacted = _rate_redacted(
                _find_redacted(context, snapshot, requested, visible, now),
                query,
                exact_terms(request.query),
            )
            # In parts, so that few records are in memory at a time.
            while part := list(islice(redacted, count)):
                rated = sort_by_score([*rated, *part])[: 2 * count]
        ranked = apply_preferences(sort_by_score(rated), request.prefer, query)
        permitted = (
            _with_passage(result, matches, version, long_chars)
            for result, version in place_below_sources(ranked, lambda pair: pair[1].document)
            # UMP §5.3: drop what does not verify. Verifying costs more than ranking, so it comes last.
            if is_intact(version) and may_read_personal(context, access, snapshot, version)
        )
        best = list(islice(permitted, request.limit))
    for chain_tenant in _audit_tenants(access, tenant, is_tenant_known, best):
        _audit(context, access, chain_tenant, request, scope, best, now)
    return [_redact_result(context, access, result) for result in best]


def recall_bare(context: Context, access: Access, request: RecallRequest) -> list[RankedRecord]:
    """Return the results of `recall` without the documents of other standards that records carry."""
    return [
        replace(result, record=_without_original(context, result.record))
        for result in recall(context, access, request)
    ]


def _without_original(context: Context, record: Record) -> Record:
    """Return a record without the document that it carries, signed again if it had one."""
    plain_record = rules.drop_original(record)
    return record if plain_record is record else signature.sign(plain_record, context.operator)


def for_prompt(context: Context, access: Access, request: RehydrateRequest) -> RehydratedBlock:
    """Return recalled memories as one framed, neutralised block for a model's context (UMP §5.3).

    If all results are weak, only the nearest few are shown, and the block is marked weak, so that a model does not take
    them for answers.
    """
    from memoranda.standards.ump.rehydrate import rehydrate

    # Owners see all of their own memories, even public ones; from other owners a caller gets only private memories,
    # unless the request names a visibility.
    is_own = access.sees_unredacted(access.tenant_for(request.scope.get("owner")))
    # A budget may cut any text.
    long_chars = request.max_chars if request.budget_chars is None else 0
    results = _recall(context, access, request, min(long_chars, LONG_TEXT_CHARS))
    is_weak = bool(results) and all(result.is_weak for result in results)
    if is_weak:
        results = results[:NEAREST_SHOWN]
    records = [result.record for result in results]
    if not request.ids:
        # Only a reader of a part needs the id, to request the rest.
        records = [record for record in records if len(record["body"]["text"]) > request.max_chars]
    block = rehydrate(
        [result.document() for result in results],
        limit=request.limit,
        max_chars=request.max_chars,
        budget_chars=request.budget_chars,
        max_visibility=request.max_visibility or ("public" if is_own else "private"),
        require_signature=True,
        names=_shorten_ids(context, access, records),
        has_ids=request.ids,
    )
    return replace(block, weak=True) if is_weak and block.injected else block


def framed(
    context: Context, access: Access, records: Sequence[Record], *, max_chars: int = 500
) -> RehydratedBlock:
    """Return records in their order as a framed block with short ids."""
    from memoranda.standards.ump.rehydrate import frame_records

    return frame_records(records, _shorten_ids(context, access, records), max_chars=max_chars)


def _shorten_ids(context: Context, access: Access, records: Sequence[Record]) -> dict[str, str]:
    return shorten_ids(context, access, [record["id"] for record in records])


# --- the query -----------------------------------------------------------------------------------------------


def _build_selection(request: RecallRequest, scope: Mapping[str, str], now: Instant) -> Selection:
    """Return the filter of a request, before it is narrowed to what the caller may see.

    Strict requests filter by user, agent and session exactly; others treat agent and session as preferences.
    """
    visibility = cast("Visibility | None", scope.get("visibility"))
    statuses = request.statuses or ("active", "candidate")
    selection = Selection(
        at=Instant(now if request.valid_at is None else request.valid_at),
        known_at=None if request.known_at is None else Instant(request.known_at),
        space=scope.get("project"),
        visibilities=None if visibility is None else (visibility,),
        kinds=request.kinds,
        tags=request.tags,
        standard=request.standard,
        statuses=tuple(status for status in statuses if status != _NEVER_RECALLED),
    )
    user = scope.get("user")
    if request.is_strict:
        return replace(selection, user=user, agent=scope.get("agent"), session=scope.get("session"))
    # UMP §2.2: scope is a matter of relevance. Memories without a project or a user match too, and so do those of
    # another agent or session. Memories of another project or user do not match.
    tests = () if user is None else (IsOneOf(name="user", texts=(user,), or_missing=True),)
    return replace(selection, or_no_space=bool(selection.space), tests=tests)


def _build_retrievers(
    context: Context, tenant: str, request: RecallRequest
) -> Sequence[RetrieverQuery]:
    """Return the queries of the retrievers: keyword search, and semantic search unless it is off."""
    if request.hints.words_only:
        return (with_phrase_reader(context, request.words),)
    retrievers = prepare_queries(context, tenant, request.words)
    if request.hints.floor:
        return retrievers
    return [
        # Without a relevance threshold.
        replace(retriever, floor=-1.0, line=0.0)
        if isinstance(retriever, VectorQuery)
        else retriever
        for retriever in retrievers
    ]


# --- rating --------------------------------------------------------------------------------------------------


def _rerank(context: Context, query: str, matches: Matches, versions: list[Version]) -> Matches:
    """Return the matches after a model read the best of them together with the query; of equal texts only the first."""
    best_hits = matches.hits[:_RERANKED]
    best_ids = {hit.version_id for hit in best_hits}
    texts: dict[int, str] = {}
    for version in versions:
        if version.version_id in best_ids and not version.state.erased:
            projection = run_unless_damaged(version, partial(project, context, version))
            if projection is not None:
                texts[version.version_id] = projection.text
    distinct_texts: dict[str, tuple[int, str]] = {}
    for hit in best_hits:
        if hit.version_id in texts:
            text = texts[hit.version_id]
            distinct_texts.setdefault(normalised_text(text), (hit.version_id, text))
    scores = context.semantic_search.rerank(query, dict(distinct_texts.values()))
    reranked = [
        hit._replace(lexical=hit.lexical + scores.get(hit.version_id, 0.0)) for hit in matches.hits
    ]
    reranked.sort(key=lambda hit: -hit.lexical)
    return replace(matches, hits=tuple(reranked))


def _rate(
    context: Context, versions: list[Version], query: RankingQuery, matches: Matches
) -> Iterator[tuple[RankedRecord, Version]]:
    """Yield the records of the candidates with their scores; relevance is relative to the best hit."""
    highest = max((hit.lexical for hit in matches.hits), default=1.0) or 1.0
    relevance = {hit.version_id: hit.lexical / highest for hit in matches.hits}
    for version in versions:

        def rate(version: Version = version) -> RankedRecord:
            version_id = version.version_id
            record = view_record(context, version, query.now)
            result = rate_record(
                record,
                version.state,
                query,
                relevance.get(version_id, 0.0),
                matches.nearness.get(version_id, 0.0),
                matches.relevance.get(version_id),
                version.opened,
            )
            return replace(result, reasons=matches.reasons.get(version_id))

        # Destroying a key erases versions at once, even those that are still in the index.
        result = None if version.state.erased else run_unless_damaged(version, rate)
        if result is not None:
            yield result, version


# --- records that the caller sees redacted -------------------------------------------------------------------


class _RedactedRecord(msgspec.Struct, frozen=True):
    """A record of which the caller sees a part only."""

    original: Record
    redacted: Record
    version: Version


def _rate_redacted(
    items: Iterable[_RedactedRecord], query: RankingQuery, exact: ExactTerms
) -> Iterator[tuple[RankedRecord, Version]]:
    """Yield redacted records with the scores of their visible part; drop those that share no word with the query."""
    for item in items:
        if exact.rejects(mapping.searched_text(item.redacted)):
            continue
        state = item.version.state._replace(observed=mapping.project(item.redacted).observed)
        result = rate_record(item.redacted, state, query)
        if result.signals["similarity"] or not query.weights:
            yield replace(result, record=item.original), item.version


def _find_redacted(
    context: Context, snapshot: Snapshot, requested: Selection, visible: Selection, now: Instant
) -> Iterator[_RedactedRecord]:
    """Yield the records that the caller sees redacted and whose visible part matches the request.

    The index contains the removed parts. Were it asked, the caller could guess them: a right guess would have a result.
    So the records are read, and the filter is applied to the visible part.
    """
    tests = tuple(test for test in visible.tests if test not in requested.tests)
    redacted = Selection(
        status_filter="unforgotten", redacted=True, visibilities=visible.visibilities, tests=tests
    )
    remaining_bytes = _REDACTED_BYTES_LIMIT
    for version, _ in iterate_selected(snapshot, redacted, UPDATED, now=now):
        remaining_bytes -= len(version.document.native)
        if remaining_bytes < 0:
            return

        def redact(version: Version = version) -> _RedactedRecord:
            original = view_record(context, bind_to_line(context, snapshot, version), now)
            return _RedactedRecord(original, rules.redact(original)[0], version)

        item = None if version.state.erased else run_unless_damaged(version, redact)
        if item is not None and _matches_request(item, requested, visible):
            yield item


def _matches_request(item: _RedactedRecord, requested: Selection, visible: Selection) -> bool:
    """Return True if the visible part of a record passes the filter of the request and the limits of the caller."""
    projection, state = mapping.project(item.redacted), item.version.state
    scope = projection.scope
    assert requested.at is not None
    ends = [projection.valid_to]
    if state.superseded_by:
        ends.append(state.valid_to)
    # The users of a request that is not strict; a memory without a user matches as well.
    users = {""}
    for test in requested.tests:
        if isinstance(test, IsOneOf):
            users.update(test.texts)
    is_in_space = visible.space in (None, scope.space) or (visible.or_no_space and not scope.space)
    return (
        visible.user in (None, scope.user)
        and visible.agent in (None, scope.agent)
        and visible.session in (None, scope.session)
        and is_in_space
        and (not requested.tests or scope.user in users)
        and (requested.kinds is None or projection.kind in requested.kinds)
        and {tag.lower() for tag in projection.tags}.issuperset(requested.tags)
        and requested.standard in (None, item.version.document.standard)
        and (requested.statuses is None or projection.status in requested.statuses)
        and (requested.known_at is None or state.recorded <= requested.known_at)
        and projection.valid_from <= requested.at
        and all(end is None or requested.at < end for end in ends)
    )


# --- results -------------------------------------------------------------------------------------------------


def _with_passage(
    result: RankedRecord, matches: Matches, version: Version, long_chars: int
) -> RankedRecord:
    """Return a result with the passage of its text that answers best, if its text is long."""
    text = result.record["body"]["text"]
    if len(text) < long_chars:
        return result
    cosines = matches.passages.get(version.version_id, ())
    passage = choose_passage(text, matches.weights, cosines)
    return replace(result, passage=passage)


def _redact_result(context: Context, access: Access, result: RankedRecord) -> RankedRecord:
    record = redact_for_caller(context, access, result.record)
    if record is result.record:
        return result
    is_same_text = record["body"]["text"] == result.record["body"]["text"]
    return replace(result, record=record, passage=result.passage if is_same_text else None)


def _audit_tenants(
    access: Access, tenant: str, is_tenant_known: bool, best: list[RankedRecord]
) -> tuple[str, ...]:
    """Return the tenants in whose audit logs a recall is recorded."""
    if access.reaches(tenant):
        return (tenant if is_tenant_known else access.default_tenant,)
    # Always in the caller's own: a missing entry there would disclose that the owner exists. In the owner's only if one
    # of their memories was read.
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
        targets=tuple(result.record["id"] for result in best),
        scope=scope,
        result=describe_count(len(best), "hit"),
        # The query may quote a text that is erased later, so only its fingerprint is stored.
        meta={
            "query": context.engine.fingerprint(tenant, request.query),
            "count": len(best),
            **describe_claim(access, request.actor),
        },
    )
    context.audit_read(tenant, entry)
