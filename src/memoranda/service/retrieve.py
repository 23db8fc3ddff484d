"""Retrieval for every standard: restrict, search, build views, drop what the caller may not see, and score again.

`restrict_selection` adds to a selection every limit of the caller that an index can check: visibility, the project or
agent of a token, persons who did not consent, and memories that would be shown redacted. So memories that the caller
may not see are neither counted nor weighed, nor do they take a place on a page. Limits that only a document can answer
(it is damaged, say) are checked afterwards (`search_visible`), and the remaining hits are scored again: a hidden memory
must not influence the scores of visible ones. Every standard renders the result in its own form.

How a standard uses it: build a `Selection` and a `KeywordQuery`; call `prepare_queries` before opening a snapshot,
because it may wait for vectors; open the snapshot; call `restrict_selection`; then `search_visible` with a function
that returns the view or None. Ranking by more than relevance is up to the standard (`service/core/ranking.py` for UMP).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.memory import VISIBILITIES, Version, Visibility
from memoranda.model.selection import (
    UPDATED,
    WRITTEN,
    IsAmong,
    IsOneOf,
    KeywordQuery,
    Matches,
    Order,
    PageCursor,
    RetrieverQuery,
    Selection,
    Test,
)
from memoranda.retrieval.analysis import keywords
from memoranda.service.core.access import Access
from memoranda.service.core.compliance import readable_users, readable_visibilities
from memoranda.service.core.context import Context
from memoranda.service.core.ranking import place_below_sources
from memoranda.service.core.views import project, run_unless_damaged
from memoranda.storage.engine.contract import Snapshot

T = TypeVar("T")

# The restrictions of a token, and the columns of the store that check them.
_LIMIT_COLUMNS: Final = {"project": "space", "agent": "agent", "user": "user", "session": "session"}
# Factor by which a search is widened if too few of its hits may be seen.
_WIDEN_FACTOR: Final = 8
PAGE_LIMIT: Final = 500
# Bytes of documents in an answer. A full answer is shorter than requested, and the next page continues after it. Each
# thread builds one answer at a time, which takes several times these bytes in memory.
PAGE_BYTES: Final = 2 * 1_048_576


class SearchHit(msgspec.Struct, Generic[T], frozen=True):
    """A version with the view that is shown of it, and its keyword score, relative to the best visible hit."""

    version: Version
    view: T
    lexical: float


class SearchResults(msgspec.Struct, Generic[T], frozen=True):
    """The best hits, best first. `total` is None if there are more than these, and they were not counted."""

    hits: list[SearchHit[T]]
    total: int | None
    # The share of the query's weight that the best hit covers, for comparing the results of several searches.
    coverage: float = 0.0


def sees_everything(access: Access, tenant: str) -> bool:
    """Return True if nothing of a tenant is hidden from the caller."""
    return access.sees_unredacted(tenant) and not access.is_narrowed


def restrict_selection(
    context: Context, access: Access, snapshot: Snapshot, selection: Selection
) -> Selection:
    """Return a selection restricted to what the caller may see unredacted, as far as an index can tell.

    The result is safe to count and to group by: it contains nothing that the caller may not see, apart from damaged
    documents.
    """
    tenant = snapshot.tenant
    if sees_everything(access, tenant):
        return selection
    tests: list[Test] = list(selection.tests)
    narrowed: dict[str, str | bool] = {}
    for name, value in access.limits.items():
        column = _LIMIT_COLUMNS.get(name)
        if column is None:
            continue
        requested = getattr(selection, column)
        if requested not in (None, value):
            tests.append(IsAmong(version_ids=()))
        narrowed[column] = value
    if "space" in narrowed:
        narrowed["or_no_space"] = False
    users = readable_users(context, access, snapshot)
    if users is not None:
        tests.append(IsOneOf(name="user", texts=users, or_missing=True))
    return replace(
        selection,
        **narrowed,
        visibilities=_restrict_visibilities(context, access, snapshot, selection.visibilities),
        redacted=None if access.sees_unredacted(tenant) else False,
        tests=tuple(tests),
        sees_all=False,
    )


def _restrict_visibilities(
    context: Context, access: Access, snapshot: Snapshot, requested: tuple[Visibility, ...] | None
) -> tuple[Visibility, ...]:
    """Return the visibilities that are requested and that the caller may see."""
    limit = access.limits.get("visibility")
    readable = readable_visibilities(context, access, snapshot)
    return tuple(
        visibility
        for visibility in readable
        if limit in (None, visibility) and visibility in (requested or VISIBILITIES)
    )


def with_phrase_reader(context: Context, words: KeywordQuery) -> KeywordQuery:
    """Return a keyword query that can read the texts of versions, which phrases are compared with."""

    def load_text(version: Version) -> str:
        if version.state.erased:
            return ""
        document_cache = version.opened
        cached = None if document_cache is None else document_cache.searched_text
        if cached is not None and cached[0] == context.ump_version:
            return cached[1]
        projection = run_unless_damaged(version, lambda: project(context, version))
        text = "" if projection is None else "\n".join((projection.text, *projection.titles))
        if document_cache is not None and projection is not None:
            document_cache.searched_text = context.ump_version, text
        return text

    return replace(words, load_text=load_text)


def prepare_queries(context: Context, tenant: str, query: KeywordQuery) -> Sequence[RetrieverQuery]:
    """Return the queries of the retrievers for the memories of a tenant.

    May wait a little for the vectors of recent memories, so it must be called before a snapshot is opened.
    """
    retrievers = context.semantic_search.create_retriever_queries(
        with_phrase_reader(context, query)
    )
    if query.text.strip():
        context.semantic_search.settle(tenant)
    return retrievers


def query_text(retrievers: Sequence[RetrieverQuery]) -> str:
    """Return the text of the keyword query among the queries of the retrievers."""
    return next(retriever.text for retriever in retrievers if isinstance(retriever, KeywordQuery))


def search_visible(
    snapshot: Snapshot,
    selection: Selection,
    retrievers: Sequence[RetrieverQuery],
    show: Callable[[Version], T | None],
    *,
    limit: int,
    now: Instant,
) -> SearchResults[T]:
    """Return the best hits for which `show` returns a view; None hides a version from the caller.

    The search is widened until `limit` hits are visible, there are no more, or the answer is full. An empty text
    selects the memories that were updated last.

    `show` is called once per version, also if the search is widened several times. Every round searches again with a
    larger limit. Hidden hits are rare, so there is seldom a second round.
    """
    text = query_text(retrievers)
    hits_by_id: dict[int, SearchHit[T] | None] = {}
    count, bytes_left = limit, PAGE_BYTES
    while True:
        coverage = 0.0
        if text.strip():
            matches = snapshot.match(
                selection, retrievers, limit=count, now=now, count_if_cheap=False
            )
            selected_hits, coverage = matches.hits, matches.coverage
        else:
            selected_hits = tuple(snapshot.load_page(selection, UPDATED, limit=count, now=now))
        lexical = {
            match.version_id: match.lexical
            for match in selected_hits
            if match.version_id not in hits_by_id
        }
        fitting = snapshot.fit_into_bytes(list(lexical), bytes_left)
        for version in snapshot.load_versions(fitting):
            view = show(version)
            hit = None if view is None else SearchHit(version, view, lexical[version.version_id])
            hits_by_id[version.version_id] = hit
            bytes_left -= 0 if hit is None else len(version.document.native)
        hits = [
            hit for match in selected_hits if (hit := hits_by_id.get(match.version_id)) is not None
        ]
        is_answer_full = len(fitting) < len(lexical) or bytes_left <= 0
        is_exhausted = len(selected_hits) < count and not is_answer_full
        if is_exhausted or is_answer_full or len(hits) >= limit:
            # Scores are made relative only now, so that hidden memories do not influence them.
            highest = max((hit.lexical for hit in hits), default=0.0)
            if highest:
                hits = [replace(hit, lexical=hit.lexical / highest) for hit in hits]
            if text.strip():
                hits = place_below_sources(hits, lambda hit: hit.version.document)
            return SearchResults(hits, len(hits) if is_exhausted else None, coverage)
        count *= _WIDEN_FACTOR


def search_candidates(
    snapshot: Snapshot,
    selection: Selection,
    retrievers: Sequence[RetrieverQuery],
    *,
    limit: int,
    now: Instant,
) -> tuple[list[Version], Matches]:
    """Return the best matches with the weights of their words; for a query without words, the versions updated last.

    Unlike `search_visible`, it returns versions unseen by any check of a document: the caller must check and redact
    each.
    """
    matches = snapshot.match(selection, retrievers, limit=limit, now=now, count_if_cheap=False)
    ids = [match.version_id for match in matches.hits]
    if not (ids or keywords(query_text(retrievers))):
        # The index by update time is read space by space.
        spaces = (selection.space, "") if selection.or_no_space else (selection.space,)
        within = (replace(selection, space=space, or_no_space=False) for space in spaces)
        latest = [
            match
            for part in within
            for match in snapshot.load_page(part, UPDATED, limit=limit, now=now)
        ]
        latest.sort(key=lambda match: match.cursor, reverse=True)
        ids = list(dict.fromkeys(match.version_id for match in latest[:limit]))
    return snapshot.load_versions(snapshot.fit_into_bytes(ids, PAGE_BYTES)), matches


def read_page(
    snapshot: Snapshot, selection: Selection, *, after: int, limit: int, now: Instant
) -> list[Version]:
    """Return versions in the order written, empty only at the end; `after` is the last version number seen, or 0."""
    selected_page = snapshot.load_page(
        selection, WRITTEN, limit=limit, now=now, after=(after, after) if after else None
    )
    if not selected_page:
        return []
    version_ids = [item.version_id for item in selected_page]
    return snapshot.load_versions(snapshot.fit_into_bytes(version_ids, PAGE_BYTES))


def iterate_selected(
    snapshot: Snapshot,
    selection: Selection,
    order: Order = WRITTEN,
    *,
    now: Instant,
    after: PageCursor | None = None,
    size: int = PAGE_LIMIT,
) -> Iterator[tuple[Version, PageCursor]]:
    """Yield every selected version with its position, page by page.

    Reads page by page in the snapshot's state, so a long iteration holds the snapshot open.
    """
    while True:
        page = snapshot.load_page(selection, order, limit=size, now=now, after=after)
        places = {item.version_id: item.cursor for item in page}
        for version in snapshot.iterate_versions(list(places)):
            after = places[version.version_id]
            yield version, after
        if len(page) < size:
            return
