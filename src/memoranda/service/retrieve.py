"""One retrieval for every standard: filter, find, score, take away what the caller may not see, score again.

`reach` puts into the selection whatever an index can tell of the caller's limits: visibility, the project, the agent a
token is limited to, persons who did not consent, and what would be shown only in part. So nothing of what the caller
may not see is counted, weighed or cut off. What only a document tells (that it is damaged, say) is taken away
afterwards, and the rest is scored anew. Every standard renders what it gets from here.
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
from memoranda.service.core.consent import readable_users, readable_visibilities
from memoranda.service.core.context import Context
from memoranda.service.core.ranking import place_below_sources
from memoranda.service.core.views import project, run_unless_damaged
from memoranda.storage.engine.contract import Snapshot

T = TypeVar("T")

# What a token can be limited to, in the store's words.
_LIMIT_COLUMNS: Final = {"project": "space", "agent": "agent", "user": "user", "session": "session"}
# When too few of the best may be seen, so many more are looked at.
_WIDEN_FACTOR: Final = 8
PAGE_LIMIT: Final = 500
# What an answer may hold, in bytes of documents: one that is full is shorter than was asked, and where there are pages
# the next goes on from it. As many answers as there are threads are made at once, each several times as large.
PAGE_BYTES: Final = 2 * 1_048_576


class SearchHit(msgspec.Struct, Generic[T], frozen=True):
    """What a version is shown as, and how well its words match: a share of the best that the caller sees."""

    version: Version
    view: T
    lexical: float


class SearchResults(msgspec.Struct, Generic[T], frozen=True):
    """The best, best first, and how many there are in all; None: not counted, but more than these."""

    hits: list[SearchHit[T]]
    total: int | None
    # How much of the question the best one covers: whoever asks in several places compares by this.
    coverage: float = 0.0


def sees_everything(access: Access, tenant: str) -> bool:
    """Whether nothing of a tenant is kept from the caller."""
    return access.sees_unredacted(tenant) and not access.is_narrowed


def restrict_selection(
    context: Context, access: Access, snapshot: Snapshot, selection: Selection
) -> Selection:
    """The selection, narrowed to what the caller may see whole, as far as an index can tell."""
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
    limit = access.limits.get("visibility")
    seen = readable_visibilities(context, access, snapshot)
    return tuple(
        visibility
        for visibility in seen
        if limit in (None, visibility) and visibility in (requested or VISIBILITIES)
    )


def with_phrase_reader(context: Context, words: KeywordQuery) -> KeywordQuery:
    """The words of a question, with what phrases are looked for in."""

    def reads(version: Version) -> str:
        projection = (
            None
            if version.state.erased
            else run_unless_damaged(version, lambda: project(context, version))
        )
        return "" if projection is None else projection.text

    return msgspec.structs.replace(words, reads=reads)


def prepare_queries(context: Context, query: KeywordQuery) -> Sequence[RetrieverQuery]:
    """How a question is asked of the store. Before anything is read: it waits a little for what was written before."""
    legs = context.semantic_search.create_retriever_queries(with_phrase_reader(context, query))
    if query.text.strip():
        context.semantic_search.settle()
    return legs


def query_text(legs: Sequence[RetrieverQuery]) -> str:
    """The question in words."""
    return next(leg.text for leg in legs if isinstance(leg, KeywordQuery))


def search_visible(
    snapshot: Snapshot,
    selection: Selection,
    legs: Sequence[RetrieverQuery],
    show: Callable[[Version], T | None],
    *,
    limit: int,
    now: Instant,
) -> SearchResults[T]:
    """What answers best and is shown; what is shown as None is not for this caller.

    A text without anything in it asks for what was updated last.
    """
    text = query_text(legs)
    hits_by_id: dict[int, SearchHit[T] | None] = {}
    count, bytes_left = limit, PAGE_BYTES
    while True:
        covered = 0.0
        if text.strip():
            matches = snapshot.match(selection, legs, limit=count, now=now, count_if_cheap=False)
            selected, covered = matches.hits, matches.covered
        else:
            selected = tuple(snapshot.load_page(selection, UPDATED, limit=count, now=now))
        lexical = {
            match.version_id: match.lexical
            for match in selected
            if match.version_id not in hits_by_id
        }
        fitting = snapshot.fit_into_bytes(list(lexical), bytes_left)
        for version in snapshot.load_versions(fitting):
            view = show(version)
            hit = None if view is None else SearchHit(version, view, lexical[version.version_id])
            hits_by_id[version.version_id] = hit
            bytes_left -= 0 if hit is None else len(version.document.native)
        hits = [hit for match in selected if (hit := hits_by_id.get(match.version_id)) is not None]
        is_full = len(fitting) < len(lexical) or bytes_left <= 0
        is_all = len(selected) < count and not is_full
        if is_all or is_full or len(hits) >= limit:
            # Only now: what the caller does not get to see must not show in the scores of the rest.
            most = max((hit.lexical for hit in hits), default=0.0)
            shares = [replace(hit, lexical=hit.lexical / most) for hit in hits] if most else hits
            shares = (
                place_below_sources(shares, lambda hit: hit.version.document)
                if text.strip()
                else shares
            )
            return SearchResults(shares, len(hits) if is_all else None, covered)
        count *= _WIDEN_FACTOR


def search_candidates(
    snapshot: Snapshot,
    selection: Selection,
    legs: Sequence[RetrieverQuery],
    *,
    limit: int,
    now: Instant,
) -> tuple[list[Version], Matches]:
    """Return the best matches with the weights of the words; of a question without words what was updated last."""
    matches = snapshot.match(selection, legs, limit=limit, now=now, count_if_cheap=False)
    ids = [match.version_id for match in matches.hits]
    if not (ids or keywords(query_text(legs))):
        # The index of what was updated last is read space by space.
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
    """A page of versions in the order written, none only at the end; `after` is the last version_id seen, or 0."""
    selected = snapshot.load_page(
        selection, WRITTEN, limit=limit, now=now, after=(after, after) if after else None
    )
    return (
        snapshot.load_versions(
            snapshot.fit_into_bytes([item.version_id for item in selected], PAGE_BYTES)
        )
        if selected
        else []
    )


def iterate_selected(
    snapshot: Snapshot,
    selection: Selection,
    order: Order = WRITTEN,
    *,
    now: Instant,
    after: PageCursor | None = None,
    size: int = PAGE_LIMIT,
) -> Iterator[tuple[Version, PageCursor]]:
    """Everything that is selected, page by page, each with its place."""
    while True:
        page = snapshot.load_page(selection, order, limit=size, now=now, after=after)
        places = {item.version_id: item.cursor for item in page}
        for version in snapshot.iterate_versions(list(places)):
            after = places[version.version_id]
            yield version, after
        if len(page) < size:
            return
