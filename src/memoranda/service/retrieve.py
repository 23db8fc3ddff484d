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
_LIMITS: Final = {"project": "space", "agent": "agent", "user": "user", "session": "session"}
# When too few of the best may be seen, so many more are looked at.
_MORE: Final = 8
PAGE_LIMIT: Final = 500
# What an answer may hold, in bytes of documents: one that is full is shorter than was asked, and where there are pages
# the next goes on from it. As many answers as there are threads are made at once, each several times as large.
PAGE_BYTES: Final = 2 * 1_048_576


class Hit(msgspec.Struct, Generic[T], frozen=True):
    """What a version is shown as, and how well its words match: a share of the best that the caller sees."""

    version: Version
    shown: T
    lexical: float


class Found(msgspec.Struct, Generic[T], frozen=True):
    """The best, best first, and how many there are in all; None: not counted, but more than these."""

    hits: list[Hit[T]]
    total: int | None
    # How much of the question the best one covers: whoever asks in several places compares by this.
    covered: float = 0.0


def sees_everything(access: Access, tenant: str) -> bool:
    """Whether nothing of a tenant is kept from the caller."""
    return access.sees_unredacted(tenant) and not access.is_narrowed


def reach(context: Context, access: Access, snapshot: Snapshot, selection: Selection) -> Selection:
    """The selection, narrowed to what the caller may see whole, as far as an index can tell."""
    tenant = snapshot.tenant
    if sees_everything(access, tenant):
        return selection
    tests: list[Test] = list(selection.tests)
    narrowed: dict[str, str | bool] = {}
    for name, value in access.limits.items():
        column = _LIMITS.get(name)
        if column is None:
            continue
        asked = getattr(selection, column)
        if asked not in (None, value):
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
        visibilities=_visible(context, access, snapshot, selection.visibilities),
        redacted=None if access.sees_unredacted(tenant) else False,
        tests=tuple(tests),
        sees_all=False,
    )


def _visible(
    context: Context, access: Access, snapshot: Snapshot, asked: tuple[Visibility, ...] | None
) -> tuple[Visibility, ...]:
    limit = access.limits.get("visibility")
    seen = readable_visibilities(context, access, snapshot)
    return tuple(each for each in seen if limit in (None, each) and each in (asked or VISIBILITIES))


def asked_for(context: Context, words: KeywordQuery) -> KeywordQuery:
    """The words of a question, with what phrases are looked for in."""

    def reads(version: Version) -> str:
        found = (
            None
            if version.state.erased
            else run_unless_damaged(version, lambda: project(context, version))
        )
        return "" if found is None else found.text

    return msgspec.structs.replace(words, reads=reads)


def ask(context: Context, asked: KeywordQuery) -> Sequence[RetrieverQuery]:
    """How a question is asked of the store. Before anything is read: it waits a little for what was written before."""
    legs = context.semantic_search.create_retriever_queries(asked_for(context, asked))
    if asked.text.strip():
        context.semantic_search.settle()
    return legs


def text_of(legs: Sequence[RetrieverQuery]) -> str:
    """The question in words."""
    return next(leg.text for leg in legs if isinstance(leg, KeywordQuery))


def best(
    snapshot: Snapshot,
    selection: Selection,
    legs: Sequence[RetrieverQuery],
    shows: Callable[[Version], T | None],
    *,
    limit: int,
    now: Instant,
) -> Found[T]:
    """What answers best and is shown; what is shown as None is not for this caller.

    A text without anything in it asks for what was updated last.
    """
    text = text_of(legs)
    known: dict[int, Hit[T] | None] = {}
    asked, left = limit, PAGE_BYTES
    while True:
        covered = 0.0
        if text.strip():
            matches = snapshot.match(selection, legs, limit=asked, now=now, count_if_cheap=False)
            found, covered = matches.hits, matches.covered
        else:
            found = tuple(snapshot.load_page(selection, UPDATED, limit=asked, now=now))
        lexical = {each.version_id: each.lexical for each in found if each.version_id not in known}
        fitting = snapshot.fit_into_bytes(list(lexical), left)
        for version in snapshot.load_versions(fitting):
            made = shows(version)
            hit = None if made is None else Hit(version, made, lexical[version.version_id])
            known[version.version_id] = hit
            left -= 0 if hit is None else len(version.document.native)
        hits = [hit for each in found if (hit := known.get(each.version_id)) is not None]
        is_full = len(fitting) < len(lexical) or left <= 0
        is_all = len(found) < asked and not is_full
        if is_all or is_full or len(hits) >= limit:
            # Only now: what the caller does not get to see must not show in the scores of the rest.
            most = max((hit.lexical for hit in hits), default=0.0)
            shares = [replace(hit, lexical=hit.lexical / most) for hit in hits] if most else hits
            shares = (
                place_below_sources(shares, lambda hit: hit.version.document)
                if text.strip()
                else shares
            )
            return Found(shares, len(hits) if is_all else None, covered)
        asked *= _MORE


def candidates(
    snapshot: Snapshot,
    selection: Selection,
    legs: Sequence[RetrieverQuery],
    *,
    limit: int,
    now: Instant,
) -> tuple[list[Version], Matches]:
    """Return the best matches with the weights of the words; of a question without words what was updated last."""
    matches = snapshot.match(selection, legs, limit=limit, now=now, count_if_cheap=False)
    ids = [each.version_id for each in matches.hits]
    if not (ids or keywords(text_of(legs))):
        # The index of what was updated last is read space by space.
        spaces = (selection.space, "") if selection.or_no_space else (selection.space,)
        within = (replace(selection, space=space, or_no_space=False) for space in spaces)
        latest = [
            each
            for part in within
            for each in snapshot.load_page(part, UPDATED, limit=limit, now=now)
        ]
        latest.sort(key=lambda each: each.cursor, reverse=True)
        ids = list(dict.fromkeys(each.version_id for each in latest[:limit]))
    return snapshot.load_versions(snapshot.fit_into_bytes(ids, PAGE_BYTES)), matches


def read_page(
    snapshot: Snapshot, selection: Selection, *, after: int, limit: int, now: Instant
) -> list[Version]:
    """A page of versions in the order written, none only at the end; `after` is the last version_id seen, or 0."""
    found = snapshot.load_page(
        selection, WRITTEN, limit=limit, now=now, after=(after, after) if after else None
    )
    return (
        snapshot.load_versions(
            snapshot.fit_into_bytes([each.version_id for each in found], PAGE_BYTES)
        )
        if found
        else []
    )


def walk(
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
        places = {each.version_id: each.cursor for each in page}
        for version in snapshot.iterate_versions(list(places)):
            after = places[version.version_id]
            yield version, after
        if len(page) < size:
            return
