"""Queries for grains by structure, by keywords or both, with the scored and paged answers of OMS §28.

A cursor is a version number, encrypted under the store's secret and the owner's name, with its own checksum (a
synthetic IV, as in RFC 5297): version numbers count the writes of all owners together, which no client may learn.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.model.selection import IsOneOf, KeywordQuery, Selection
from memoranda.retrieval.analysis import query_terms
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, describe_count
from memoranda.service.oms import grains
from memoranda.service.oms import views as grain_views
from memoranda.service.oms.views import StoredGrain
from memoranda.service.retrieve import (
    PAGE_BYTES,
    SearchHit,
    SearchResults,
    prepare_queries,
    read_page,
    restrict_selection,
    search_visible,
    sees_everything,
)
from memoranda.standards.oms.registry import BY_BYTE
from memoranda.standards.oms.requests import FindRequest

_SCORE_DIGITS: Final = 6
# Bytes of a cursor's tag, and of its encrypted number.
_HALF_BYTES: Final = 8


class ScoredGrain(msgspec.Struct, frozen=True, kw_only=True):
    """A grain of an answer, its relevance, and the fields that match the query."""

    stored: StoredGrain
    score: float
    matched_fields: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        document = self.stored.document()
        return {
            "content_address": document.pop("address"),
            "score": self.score,
            "matched_fields": list(self.matched_fields),
            **document,
        }


class GrainPage(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of every answer (OMS §28). `total` is None where counting is too expensive."""

    results: tuple[ScoredGrain, ...]
    total: int | None
    next_cursor: str | None

    def document(self) -> dict[str, Any]:
        """Return the envelope as JSON."""
        return {
            "results": [result.document() for result in self.results],
            "total": self.total,
            "next_cursor": self.next_cursor,
        }


def find(
    context: Context, access: Access, request: FindRequest, *, owner: str | None = None
) -> GrainPage:
    """Return the matching grains, best first for a query with words, else in the order written."""
    matched_names = tuple(request.exact_fields())
    if request.text is not None:
        matches = _search(
            context,
            access,
            request.text,
            request.selection,
            owner,
            request.type_byte,
            request.limit,
        )
        terms = query_terms(request.text)
        results = tuple(
            ScoredGrain(
                stored=hit.view,
                score=round(hit.lexical, _SCORE_DIGITS),
                matched_fields=(
                    *matched_names,
                    *grain_views.matching_fields(hit.view.grain.fields, terms, matched_names),
                ),
            )
            for hit in matches.hits
        )
        return GrainPage(results=results, total=matches.total, next_cursor=None)
    tenant = access.tenant_for(owner)
    after = 0 if request.cursor is None else _open_cursor(context, tenant, request.cursor)
    grains, next_position = list_grains(
        context,
        access,
        request.selection,
        owner=owner,
        type_byte=request.type_byte,
        after=after,
        limit=request.limit,
    )
    is_whole = request.cursor is None and next_position is None
    return GrainPage(
        results=tuple(
            ScoredGrain(stored=stored_grain, score=1.0, matched_fields=matched_names)
            for stored_grain in grains
        ),
        total=len(grains) if is_whole else None,
        next_cursor=None if next_position is None else _seal_cursor(context, tenant, next_position),
    )


def list_grains(
    context: Context,
    access: Access,
    selection: Selection,
    *,
    owner: str | None = None,
    type_byte: int | None = None,
    after: int = 0,
    limit: int = 50,
) -> tuple[list[StoredGrain], int | None]:
    """Return a page of grains in the order written, and the position of the next page; None on the last."""
    limit = _clamp_limit(limit)
    tenant, visible, now = _restrict(context, access, selection, owner, type_byte)
    page_grains: list[StoredGrain] = []
    position = last = after
    size, is_more = 0, True
    while is_more:
        with context.engine.open_snapshot(tenant) as snapshot:
            page = read_page(snapshot, visible, after=position, limit=limit + 1, now=now)
            listable = {
                version.version_id
                for version in page
                if grain_views.is_visible(context, access, snapshot, version, type_byte)
            }
        # A page that was cut by its size in bytes is well above this share.
        page_bytes = sum(len(version.document.native) for version in page)
        is_more = len(page) > limit or page_bytes > PAGE_BYTES // 4
        for version in page:
            position = version.version_id
            if position not in listable:
                continue
            if len(page_grains) == limit or size > PAGE_BYTES:
                _audit_read(context, access, "list", tenant, selection, limit, now)
                return page_grains, last
            page_grains.append(grain_views.to_stored_grain(context, version))
            size += len(version.document.native)
            last = position
    _audit_read(context, access, "list", tenant, selection, len(page_grains), now)
    return page_grains, None


def search(
    context: Context,
    access: Access,
    text: str,
    *,
    owner: str | None = None,
    where: Selection,
    limit: int = 20,
) -> list[tuple[StoredGrain, float]]:
    """Return grains of any type by keyword search, best first, with their scores (OMS §28.4, Level 3)."""
    results = _search(context, access, text, where, owner, None, limit)
    return [(hit.view, round(hit.lexical, _SCORE_DIGITS)) for hit in results.hits]


def _search(
    context: Context,
    access: Access,
    text: str,
    selection: Selection,
    owner: str | None,
    type_byte: int | None,
    limit: int,
) -> SearchResults[StoredGrain]:
    """Return the hits of a keyword search that the caller may see."""
    limit = _clamp_limit(limit)
    tenant, visible, now = _restrict(context, access, selection, owner, type_byte)
    # Keyword search returns currently valid memories only, as in every standard.
    visible = replace(visible, at=now)
    retrievers = prepare_queries(context, tenant, KeywordQuery(text=text))

    with context.engine.open_snapshot(tenant) as snapshot:

        def shows(version: Version) -> Version | None:
            return (
                version
                if grain_views.is_visible(context, access, snapshot, version, type_byte)
                else None
            )

        results = search_visible(snapshot, visible, retrievers, shows, limit=limit, now=now)
    _audit_read(context, access, "search", tenant, selection, min(limit, len(results.hits)), now)
    # After the snapshot is closed, because a view that is requested for the first time gets its address with a write.
    hits = [
        SearchHit(hit.version, grain_views.to_stored_grain(context, hit.version), hit.lexical)
        for hit in results.hits[:limit]
    ]
    return SearchResults(hits, results.total if len(results.hits) <= limit else None)


def _clamp_limit(limit: int) -> int:
    """Return a limit of at most one page. Raises InvalidInput below 1."""
    if limit < 1:
        raise InvalidInput("limit must be at least 1")
    return min(limit, grains.LIST_LIMIT)


def _restrict(
    context: Context, access: Access, selection: Selection, owner: str | None, type_byte: int | None
) -> tuple[str, Selection, Instant]:
    """Return the tenant, the selection restricted to the caller's reach, and the current time."""
    now, tenant = context.clock(), grains.resolve_tenant(access, owner)
    project = {"project": selection.space} if selection.space else {}
    access.require_scope({**access.limits, "owner": tenant, **project})
    if type_byte is not None:
        kind = BY_BYTE.get(type_byte)
        # Grains of application types have an empty form in the index; their type is checked when they are read.
        form = IsOneOf(name="form", texts=("" if kind is None else kind.name,))
        selection = replace(selection, tests=(*selection.tests, form))
    if sees_everything(access, tenant):
        return tenant, selection, now
    with context.engine.open_snapshot(tenant) as snapshot:
        return tenant, restrict_selection(context, access, snapshot, selection), now


def _audit_read(
    context: Context,
    access: Access,
    op: str,
    tenant: str,
    selection: Selection,
    count: int,
    now: Instant,
) -> None:
    """Record a query in the audit log."""
    entry = grains.build_audit_entry(
        access,
        op,
        now,
        grains.audit_scope(tenant, selection.space or ""),
        (),
        describe_count(count, "grain"),
    )
    context.audit_read(tenant, entry)


def _seal_cursor(context: Context, tenant: str, number: int) -> str:
    """Return a version number as an opaque cursor."""
    tag = _keyed_fingerprint(context, tenant, f"tag {number}")
    return base64url_encode(
        tag + _apply_mask(context, tenant, tag, number.to_bytes(_HALF_BYTES, "big"))
    )


def _open_cursor(context: Context, tenant: str, cursor: str) -> int:
    """Return the version number inside a cursor. Raises InvalidInput unless this store issued it for the tenant."""
    try:
        sealed_cursor = base64url_decode(cursor)
    except ValueError:
        sealed_cursor = b""
    tag, masked = sealed_cursor[:_HALF_BYTES], sealed_cursor[_HALF_BYTES:]
    if len(masked) == _HALF_BYTES:
        number = int.from_bytes(_apply_mask(context, tenant, tag, masked), "big")
        if tag == _keyed_fingerprint(context, tenant, f"tag {number}"):
            return number
    raise InvalidInput(
        "cursor was not issued by this store for these memories; list again from the start"
    )


def _apply_mask(context: Context, tenant: str, tag: bytes, data: bytes) -> bytes:
    """Return the data xored with a key stream of the tag; applying it twice restores the data."""
    mask = _keyed_fingerprint(context, tenant, f"mask {tag.hex()}")
    return bytes(one ^ other for one, other in zip(data, mask, strict=True))


def _keyed_fingerprint(context: Context, tenant: str, text: str) -> bytes:
    """Return a keyed hash that only this store can compute."""
    return bytes.fromhex(context.engine.fingerprint(tenant, f"cursor of grains: {text}"))[
        :_HALF_BYTES
    ]
