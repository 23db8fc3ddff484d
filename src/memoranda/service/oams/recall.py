"""RECALL and LIST of OAMS: what there is in a namespace, by words or last updated first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.errors import (
    CrossNamespace,
    InvalidInput,
)
from memoranda.model.instant import DAY_MS, Instant
from memoranda.model.memory import Version
from memoranda.model.selection import UPDATED, KeywordQuery, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.ranking import place_below_sources
from memoranda.service.oams.memories import audited, namespace_named, place_of, require_namespace
from memoranda.service.oams.views import Place, Shown, seen
from memoranda.service.retrieve import PAGE_BYTES, ask, best, reach, walk
from memoranda.standards.oams import memory
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import Namespace, owner_hash
from memoranda.standards.oams.requests import ListRequest, RecallRequest

# How well the words match, the version, and the memory.
_Hit = tuple[float, Version, Memory]
# Ranking sees more than is asked for, because recency may reorder.
_CANDIDATES_FACTOR, _CANDIDATES_LEAST = 3, 32
_LEXICAL_WEIGHT, _RECENCY_WEIGHT = 0.998, 0.002
_HALF_LIFE_MS: Final = 90 * DAY_MS
_SCORE_DIGITS: Final = 6
_CURSOR_BYTES: Final = 16


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list, and where the next begins."""

    memories: list[Memory]
    next_cursor: str | None


def list_memories(context: Context, access: Access, request: ListRequest) -> Page:
    """What there is in a namespace, last updated first, a page at a time (LIST)."""
    now, place = context.clock(), place_of(access, request.namespace)
    found: list[Memory] = []
    before = None if request.cursor is None else _opened(context, place, request.cursor)
    size, is_more = 0, False
    asked = Selection(space=place.space, tags=request.tags, since=request.since)
    with context.engine.read(place.tenant) as snapshot:
        selection = reach(context, access, snapshot, asked)
        require_namespace(snapshot, place)
        for version, at in walk(
            snapshot, selection, UPDATED, now=now, after=before, size=request.limit + 1
        ):
            if (shown := seen(context, access, snapshot, version, place)) is None:
                continue
            if is_more := len(found) == request.limit or size > PAGE_BYTES:
                break
            found.append(shown.memory)
            size += len(version.document.native)
            before = Instant(at[0]), at[1]
    entry = audited(access, "list", now, place, (), f"{len(found)} memories")
    context.audit_read(place.tenant, entry)
    return Page(
        memories=found, next_cursor=_sealed(context, place, before) if is_more and before else None
    )


def recall(
    context: Context, access: Access, request: RecallRequest, *, consents: Sequence[Access] = ()
) -> list[Memory]:
    """The best memories for a query, each with its score, from one namespace or several (RECALL, section 4)."""
    now = context.clock()
    reached = _reached(
        context, access, request.namespaces or (namespace_named(context, access),), consents
    )
    hits: list[_Hit] = []
    for allowed, place in reached:
        found = _recall_one(context, allowed, place, request, now)
        hits += found
        for chain in dict.fromkeys((place.tenant, access.default_tenant)):
            # A query that spans owners goes on record with everyone concerned.
            if chain == place.tenant or len(reached) > 1:
                meta = {
                    "namespaces": len(reached),
                    "query": context.engine.fingerprint(chain, request.query),
                }
                if allowed is not access:
                    meta["consent"] = allowed.credential
                entry = audited(access, "recall", now, place, (), f"{len(found)} hits", meta)
                context.audit_read(chain, entry)
    most = max((lexical for lexical, _, _ in hits), default=0.0) or 1.0
    ranked = [
        (score_of(lexical / most, held.state.updated, now), shown, held)
        for lexical, held, shown in hits
    ]
    ranked.sort(key=lambda each: (-each[0], each[1]["key"], each[1]["namespace"]))
    ordered = place_below_sources(ranked, lambda each: each[2].document)
    return [memory.to_response(shown, score=score) for score, shown, _ in ordered[: request.k]]


def _reached(
    context: Context, access: Access, asked: Sequence[Namespace], consents: Sequence[Access]
) -> list[tuple[Access, Place]]:
    """Who lets the caller into each namespace. Spanning owners needs the consent of each of them (section 4)."""
    if len({each.owner for each in asked}) == 1:
        return [(access, place_of(access, each)) for each in asked]
    reached = []
    for namespace in asked:
        # The owner itself before anyone who only claims the name.
        found = min(
            _consenting(context, namespace, consents),
            key=lambda each: each[1].user != "",
            default=None,
        )
        if found is None:
            raise CrossNamespace(
                f"a query that spans owners needs the consent of each; none was shown for {namespace}"
            )
        reached.append(found)
    return reached


def _consenting(
    context: Context, namespace: Namespace, consents: Sequence[Access]
) -> Iterator[tuple[Access, Place]]:
    """The consents that open a namespace: to read, given by its owner, and not for something else."""
    for consent in consents:
        tenant = consent.limits.get("owner")
        if tenant is None or "read" not in consent.verbs:
            continue
        try:
            place = place_of(consent, namespace, tenant=tenant)
        except CrossNamespace:
            continue
        if namespace.owner == owner_hash(tenant) or _is_known(context, place):
            yield consent, place


def _is_known(context: Context, place: Place) -> bool:
    with context.engine.read(place.tenant) as snapshot:
        return snapshot.has_space(place.space)


def _recall_one(
    context: Context, access: Access, place: Place, request: RecallRequest, now: Instant
) -> list[_Hit]:
    wanted = max(_CANDIDATES_LEAST, _CANDIDATES_FACTOR * request.k)
    asked = Selection(
        space=place.space,
        tags=request.tags,
        since=request.since,
        until=request.until,
        in_force=True,
    )
    legs = ask(context, KeywordQuery(text=request.query))
    with context.engine.read(place.tenant) as snapshot:
        selection = reach(context, access, snapshot, asked)
        require_namespace(snapshot, place)

        def shows(version: Version) -> Shown | None:
            return seen(context, access, snapshot, version, place)

        found = best(snapshot, selection, legs, shows, limit=wanted, now=now)
    return [(hit.lexical * found.covered, hit.version, hit.shown.memory) for hit in found.hits]


def score_of(lexical: float, updated: Instant, now: Instant) -> float:
    """From 0 to 1: mostly how well the words match, as a share of the best match, and a little how recent it is."""
    recency = 0.5 ** (max(0, now - updated) / _HALF_LIFE_MS)
    return float(round(_LEXICAL_WEIGHT * lexical + _RECENCY_WEIGHT * recency, _SCORE_DIGITS))


def _sealed(context: Context, place: Place, at: tuple[Instant, int]) -> str:
    """A cursor tells nothing: version numbers count the writes of all owners together."""
    plain = at[0].to_bytes(8, "big", signed=True) + at[1].to_bytes(8, "big")
    tag = _print(context, place, f"tag {plain.hex()}")
    return base64url_encode(tag + _masked(context, place, tag, plain))


def _opened(context: Context, place: Place, cursor: str) -> tuple[Instant, int]:
    try:
        sealed = base64url_decode(cursor)
    except ValueError:
        sealed = b""
    tag, rest = sealed[:_CURSOR_BYTES], sealed[_CURSOR_BYTES:]
    if len(rest) == _CURSOR_BYTES:
        plain = _masked(context, place, tag, rest)
        if tag == _print(context, place, f"tag {plain.hex()}"):
            return Instant(int.from_bytes(plain[:8], "big", signed=True)), int.from_bytes(
                plain[8:], "big"
            )
    raise InvalidInput("cursor: not one that this namespace gave")


def _masked(context: Context, place: Place, tag: bytes, data: bytes) -> bytes:
    mask = _print(context, place, f"mask {tag.hex()}")
    return bytes(one ^ other for one, other in zip(data, mask, strict=True))


def _print(context: Context, place: Place, text: str) -> bytes:
    return bytes.fromhex(
        context.engine.fingerprint(place.tenant, f"cursor of oams {place.space}: {text}")
    )
