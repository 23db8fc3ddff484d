"""Finding grains, by structure or by words or both, as OMS §28 answers: scored, explained, in pages.

A cursor tells nothing. Version numbers count the writes of all owners together, so what leaves is the number
encrypted under the store's secret and the owner's name, with its own checksum (a synthetic IV, as in RFC 5297).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.oms import grains
from memoranda.service.oms.grains import StoredGrain
from memoranda.standards.oms.mapping import triple_of
from memoranda.standards.oms.requests import MAX_LIMIT, FindRequest
from memoranda.storage.words import words

_HALF_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGrain:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GrainPage:
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


def find(context: Context, access: Access, request: FindRequest, *, owner: str | None = None) -> GrainPage:
    """Grains that match, best first when words were given, else in the order written."""
    if request.text is not None:
        return _search(context, access, request, request.text, owner)
    tenant = access.tenant_for(owner)
    after = 0 if request.cursor is None else _opened(context, tenant, request.cursor)
    stored, following = grains.listing(
        context,
        access,
        request.structure,
        owner=owner,
        type_byte=request.type_byte,
        after=after,
        limit=request.limit,
    )
    matched = tuple(request.asked())
    is_whole = request.cursor is None and following is None
    return GrainPage(
        results=tuple(FoundGrain(stored=each, score=1.0, matched_fields=matched) for each in stored),
        total=len(stored) if is_whole else None,
        next_cursor=None if following is None else _sealed(context, tenant, following),
    )


def _search(context: Context, access: Access, request: FindRequest, text: str, owner: str | None) -> GrainPage:
    is_narrowed = any(name in ("subject", "relation", "object", "type") for name in request.asked())
    asked_limit = MAX_LIMIT if is_narrowed else request.limit
    found = grains.search(context, access, text, owner=owner, where=request.structure, limit=asked_limit)
    sought, matched = frozenset(words(text)), request.asked()
    fitting = [(stored, score) for stored, score in found if _fits(request, stored)]
    return GrainPage(
        results=tuple(
            FoundGrain(stored=stored, score=score, matched_fields=(*matched, *_telling(stored, sought, matched)))
            for stored, score in fitting[: request.limit]
        ),
        total=len(fitting) if len(found) < asked_limit else None,
        next_cursor=None,
    )


def _fits(request: FindRequest, stored: StoredGrain) -> bool:
    subject, relation, object_ = triple_of(stored.grain)
    return (
        request.subject in (None, subject)
        and request.relation in (None, relation)
        and request.object in (None, object_)
        and request.type_byte in (None, stored.grain.type_byte)
    )


def _telling(stored: StoredGrain, sought: frozenset[str], but: list[str]) -> list[str]:
    """The fields in which a word that was looked for stands."""
    return [
        name
        for name, value in stored.grain.fields.items()
        if name not in but and not sought.isdisjoint(words(_said(value)))
    ]


def _said(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return " ".join(_said(item) for item in value.values())
    return " ".join(_said(item) for item in value) if isinstance(value, list) else ""


def _sealed(context: Context, tenant: str, number: int) -> str:
    tag = _print(context, tenant, f"tag {number}")
    return base64url_encode(tag + _masked(context, tenant, tag, number.to_bytes(_HALF_BYTES, "big")))


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
    return bytes.fromhex(context.engine.fingerprint(tenant, f"cursor of grains: {text}"))[:_HALF_BYTES]
