"""Finding grains, by structure or by words or both, as OMS §28 answers: scored, explained, in pages.

A cursor tells nothing. Version numbers count the writes of all owners together, so what leaves is the number
encrypted under the store's secret and the owner's name, with its own checksum (a synthetic IV, as in RFC 5297).
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
from memoranda.retrieval.analysis import sought
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
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
_HALF_BYTES: Final = 8


class FoundGrain(msgspec.Struct, frozen=True, kw_only=True):
    """A grain, how well it answers (not how true it is), and the fields that made it an answer."""

    stored: StoredGrain
    score: float
    matched_fields: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        shown = self.stored.document()
        return {
            "content_address": shown.pop("address"),
            "score": self.score,
            "matched_fields": list(self.matched_fields),
            **shown,
        }


class GrainPage(msgspec.Struct, frozen=True, kw_only=True):
    """OMS §28: the envelope of every answer. `total` is None where counting would cost more than it tells."""

    results: tuple[FoundGrain, ...]
    total: int | None
    next_cursor: str | None

    def document(self) -> dict[str, Any]:
        return {
            "results": [found.document() for found in self.results],
            "total": self.total,
            "next_cursor": self.next_cursor,
        }


def find(
    context: Context, access: Access, request: FindRequest, *, owner: str | None = None
) -> GrainPage:
    """Grains that match, best first when words were given, else in the order written."""
    matched = tuple(request.exact_fields())
    if request.text is not None:
        found = _best(
            context,
            access,
            request.text,
            request.selection,
            owner,
            request.type_byte,
            request.limit,
        )
        asked = sought(request.text)
        results = tuple(
            FoundGrain(
                stored=hit.view,
                score=round(hit.lexical, _SCORE_DIGITS),
                matched_fields=(
                    *matched,
                    *grain_views.telling(hit.view.grain.fields, asked, matched),
                ),
            )
            for hit in found.hits
        )
        return GrainPage(results=results, total=found.total, next_cursor=None)
    tenant = access.tenant_for(owner)
    after = 0 if request.cursor is None else _opened(context, tenant, request.cursor)
    stored, following = listing(
        context,
        access,
        request.selection,
        owner=owner,
        type_byte=request.type_byte,
        after=after,
        limit=request.limit,
    )
    is_whole = request.cursor is None and following is None
    return GrainPage(
        results=tuple(
            FoundGrain(stored=each, score=1.0, matched_fields=matched) for each in stored
        ),
        total=len(stored) if is_whole else None,
        next_cursor=None if following is None else _sealed(context, tenant, following),
    )


def listing(
    context: Context,
    access: Access,
    selection: Selection,
    *,
    owner: str | None = None,
    type_byte: int | None = None,
    after: int = 0,
    limit: int = 50,
) -> tuple[list[StoredGrain], int | None]:
    """Grains in the order written, and where to go on."""
    limit = _bounded(limit)
    tenant, wanted, now = _asked(context, access, selection, owner, type_byte)
    found: list[StoredGrain] = []
    seen = last = after
    size, is_more = 0, True
    while is_more:
        with context.engine.read(tenant) as snapshot:
            page = read_page(snapshot, wanted, after=seen, limit=limit + 1, now=now)
            listed = {
                each.version_id
                for each in page
                if grain_views.is_listed(context, access, snapshot, each, type_byte)
            }
        # A page that is cut short by its size is far from empty.
        is_more = (
            len(page) > limit or sum(len(each.document.native) for each in page) > PAGE_BYTES // 4
        )
        for version in page:
            seen = version.version_id
            if seen not in listed:
                continue
            if len(found) == limit or size > PAGE_BYTES:
                _audit(context, access, "list", tenant, selection, limit, now)
                return found, last
            found.append(grain_views.shown(context, version))
            size += len(version.document.native)
            last = seen
    _audit(context, access, "list", tenant, selection, len(found), now)
    return found, None


def search(
    context: Context,
    access: Access,
    text: str,
    *,
    owner: str | None = None,
    where: Selection,
    limit: int = 20,
) -> list[tuple[StoredGrain, float]]:
    """Grains of any of the ten types by their words, best first (OMS §28.4, Level 3)."""
    found = _best(context, access, text, where, owner, None, limit)
    return [(hit.view, round(hit.lexical, _SCORE_DIGITS)) for hit in found.hits]


def _best(
    context: Context,
    access: Access,
    text: str,
    selection: Selection,
    owner: str | None,
    type_byte: int | None,
    limit: int,
) -> SearchResults[StoredGrain]:
    limit = _bounded(limit)
    tenant, wanted, now = _asked(context, access, selection, owner, type_byte)
    # What holds now, as every search by words answers.
    wanted = replace(wanted, at=now)
    legs = prepare_queries(context, KeywordQuery(text=text))

    with context.engine.read(tenant) as snapshot:

        def shows(version: Version) -> Version | None:
            return (
                version
                if grain_views.is_listed(context, access, snapshot, version, type_byte)
                else None
            )

        found = search_visible(snapshot, wanted, legs, shows, limit=limit, now=now)
    _audit(context, access, "search", tenant, selection, min(limit, len(found.hits)), now)
    # Shown after the snapshot is closed: a grain that was never asked for gets its address now.
    hits = [
        SearchHit(hit.version, grain_views.shown(context, hit.version), hit.lexical)
        for hit in found.hits[:limit]
    ]
    return SearchResults(hits, found.total if len(found.hits) <= limit else None)


def _bounded(limit: int) -> int:
    """How many are answered: more than a page has is a page."""
    if limit < 1:
        raise InvalidInput("limit must be at least 1")
    return min(limit, grains.LIST_LIMIT)


def _asked(
    context: Context, access: Access, selection: Selection, owner: str | None, type_byte: int | None
) -> tuple[str, Selection, Instant]:
    """The tenant, what is to be found there within the caller's reach, and now."""
    now, tenant = context.clock(), grains.tenant_of(access, owner)
    project = {"project": selection.space} if selection.space else {}
    access.require_scope({**access.limits, "owner": tenant, **project})
    if type_byte is not None:
        kind = BY_BYTE.get(type_byte)
        # Grains of a domain have no form; which of them are of this type is seen when they are read.
        form = IsOneOf(name="form", texts=("" if kind is None else kind.name,))
        selection = replace(selection, tests=(*selection.tests, form))
    if sees_everything(access, tenant):
        return tenant, selection, now
    with context.engine.read(tenant) as snapshot:
        return tenant, restrict_selection(context, access, snapshot, selection), now


def _audit(
    context: Context,
    access: Access,
    op: str,
    tenant: str,
    selection: Selection,
    count: int,
    now: Instant,
) -> None:
    entry = grains.audited(access, op, now, (), tenant, selection.space or "", f"{count} grains")
    context.audit_read(tenant, entry)


def _sealed(context: Context, tenant: str, number: int) -> str:
    tag = _print(context, tenant, f"tag {number}")
    return base64url_encode(
        tag + _masked(context, tenant, tag, number.to_bytes(_HALF_BYTES, "big"))
    )


def _opened(context: Context, tenant: str, cursor: str) -> int:
    try:
        sealed = base64url_decode(cursor)
    except ValueError:
        sealed = b""
    tag, rest = sealed[:_HALF_BYTES], sealed[_HALF_BYTES:]
    if len(rest) == _HALF_BYTES:
        number = int.from_bytes(_masked(context, tenant, tag, rest), "big")
        if tag == _print(context, tenant, f"tag {number}"):
            return number
    raise InvalidInput("cursor is not one that this store gave for these memories")


def _masked(context: Context, tenant: str, tag: bytes, data: bytes) -> bytes:
    mask = _print(context, tenant, f"mask {tag.hex()}")
    return bytes(one ^ other for one, other in zip(data, mask, strict=True))


def _print(context: Context, tenant: str, text: str) -> bytes:
    return bytes.fromhex(context.engine.fingerprint(tenant, f"cursor of grains: {text}"))[
        :_HALF_BYTES
    ]
