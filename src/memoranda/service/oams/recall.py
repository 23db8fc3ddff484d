"""RECALL and LIST of OAMS: the memories of a namespace by a query, or the last updated first.

The cursor of a list is sealed: it holds an update time and a version number, and version numbers count the writes of
all owners together, which no client may learn.

Several namespaces are searched one after the other and their candidates are merged by score, so scores must be
comparable: each is relative to the best hit and the share of the query that it covers. Redaction, consent and integrity
are checked as for every other standard (`service/retrieve.py`).
"""

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
from memoranda.service.core.context import Context, describe_count
from memoranda.service.core.ranking import place_below_sources
from memoranda.service.oams.memories import (
    locate_namespace,
    resolve_namespace,
)
from memoranda.service.oams.views import (
    Location,
    TaggedMemory,
    build_audit_entry,
    render_visible,
    require_namespace,
)
from memoranda.service.retrieve import (
    PAGE_BYTES,
    iterate_selected,
    prepare_queries,
    restrict_selection,
    search_visible,
)
from memoranda.standards.oams import memory
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import Namespace, adapt_namespace, owner_hash
from memoranda.standards.oams.requests import ListRequest, RecallRequest

# The keyword score, the version, and the memory.
_Hit = tuple[float, Version, Memory]
# Candidates per requested result, and at least: recency may reorder them.
_CANDIDATES_FACTOR, _CANDIDATES_LEAST = 3, 32
_LEXICAL_WEIGHT, _RECENCY_WEIGHT = 0.998, 0.002
# Milliseconds after which the recency of a memory counts half.
_HALF_LIFE_MS: Final = 90 * DAY_MS
_SCORE_DIGITS: Final = 6
# Bytes of a cursor's tag, and of its content.
_CURSOR_BYTES: Final = 16


class MemoryListPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list, and the cursor of the next one."""

    memories: list[Memory]
    next_cursor: str | None


def list_memories(context: Context, access: Access, request: ListRequest) -> MemoryListPage:
    """Return a page of the memories of a namespace, last updated first (LIST)."""
    now, location = context.clock(), locate_namespace(access, request.namespace)
    memories: list[Memory] = []
    last_position = (
        None if request.cursor is None else _open_cursor(context, location, request.cursor)
    )
    size, is_more = 0, False
    requested = Selection(space=location.space, tags=request.tags, since=request.since)
    with context.engine.open_snapshot(location.tenant) as snapshot:
        selection = restrict_selection(context, access, snapshot, requested)
        require_namespace(snapshot, location)
        for version, position in iterate_selected(
            snapshot, selection, UPDATED, now=now, after=last_position, size=request.limit + 1
        ):
            if (answer := render_visible(context, access, snapshot, version, location)) is None:
                continue
            if is_more := len(memories) == request.limit or size > PAGE_BYTES:
                break
            memories.append(answer.memory)
            size += len(version.document.native)
            last_position = Instant(position[0]), position[1]
    entry = build_audit_entry(
        access, "list", now, location, (), describe_count(len(memories), "memory", "memories")
    )
    context.audit_read(location.tenant, entry)
    return MemoryListPage(
        memories=memories,
        next_cursor=_seal_cursor(context, location, last_position)
        if is_more and last_position
        else None,
    )


def recall(
    context: Context, access: Access, request: RecallRequest, *, consents: Sequence[Access] = ()
) -> list[Memory]:
    """Return the best memories for a query with their scores, from one namespace or several (RECALL, section 4).

    `consents` are capability tokens of the owners of other namespaces. Raises CrossNamespace if one is missing.
    """
    now = context.clock()
    reachable = _reachable_namespaces(
        context, access, request.namespaces or (resolve_namespace(context, access),), consents
    )
    hits: list[_Hit] = []
    for reader, location in reachable:
        candidates = _recall_namespace(context, reader, location, request, now)
        hits += candidates
        for chain in dict.fromkeys((location.tenant, access.default_tenant)):
            # A query that spans owners is audited with each of them.
            if chain == location.tenant or len(reachable) > 1:
                meta = {
                    "namespaces": len(reachable),
                    "query": context.engine.fingerprint(chain, request.query),
                }
                if reader is not access:
                    meta["consent"] = reader.credential
                entry = build_audit_entry(
                    access,
                    "recall",
                    now,
                    location,
                    (),
                    describe_count(len(candidates), "hit"),
                    meta,
                )
                context.audit_read(chain, entry)
    best_lexical = max((lexical for lexical, _, _ in hits), default=0.0) or 1.0
    ranked = [
        (score_of(lexical / best_lexical, version.state.updated, now), content, version)
        for lexical, version, content in hits
    ]
    ranked.sort(key=lambda hit: (-hit[0], hit[1]["key"], hit[1]["namespace"]))
    ordered_hits = place_below_sources(ranked, lambda hit: hit[2].document)
    return [
        memory.to_response(content, score=score) for score, content, _ in ordered_hits[: request.k]
    ]


def _reachable_namespaces(
    context: Context, access: Access, namespaces: Sequence[Namespace], consents: Sequence[Access]
) -> list[tuple[Access, Location]]:
    """Return the access and the location for each namespace.

    A query across owners needs the consent of each of them (section 4). Raises CrossNamespace.
    """
    namespaces = [adapt_namespace(name, access.default_tenant) for name in namespaces]
    if len({namespace.owner for namespace in namespaces}) == 1:
        return [(access, locate_namespace(access, namespace)) for namespace in namespaces]
    reachable = []
    for namespace in namespaces:
        # A namespace of the owner goes before a claimed one of the same name.
        entry = min(
            _find_consents(context, namespace, consents),
            key=lambda pair: pair[1].user != "",
            default=None,
        )
        if entry is None:
            raise CrossNamespace(
                f"a query that spans owners needs the consent of each; none was shown for {namespace}"
            )
        reachable.append(entry)
    return reachable


def _find_consents(
    context: Context, namespace: Namespace, consents: Sequence[Access]
) -> Iterator[tuple[Access, Location]]:
    """Yield the consents to read that the owner of a namespace gave, with its location."""
    for consent in consents:
        tenant = consent.limits.get("owner")
        if tenant is None or "read" not in consent.verbs:
            continue
        try:
            location = locate_namespace(consent, namespace, tenant=tenant)
        except CrossNamespace:
            continue
        if namespace.owner == owner_hash(tenant) or _has_space(context, location):
            yield consent, location


def _has_space(context: Context, location: Location) -> bool:
    """Return True if anything was ever stored at a location."""
    with context.engine.open_snapshot(location.tenant) as snapshot:
        return snapshot.has_space(location.space)


def _recall_namespace(
    context: Context, access: Access, location: Location, request: RecallRequest, now: Instant
) -> list[_Hit]:
    """Return the candidates of one namespace for a query."""
    candidate_limit = max(_CANDIDATES_LEAST, _CANDIDATES_FACTOR * request.k)
    requested = Selection(
        space=location.space,
        tags=request.tags,
        since=request.since,
        until=request.until,
        in_force=True,
    )
    retrievers = prepare_queries(context, location.tenant, KeywordQuery(text=request.query))
    with context.engine.open_snapshot(location.tenant) as snapshot:
        selection = restrict_selection(context, access, snapshot, requested)
        require_namespace(snapshot, location)

        def shows(version: Version) -> TaggedMemory | None:
            return render_visible(context, access, snapshot, version, location)

        results = search_visible(
            snapshot, selection, retrievers, shows, limit=candidate_limit, now=now
        )
    return [(hit.lexical * results.coverage, hit.version, hit.view.memory) for hit in results.hits]


def score_of(lexical: float, updated: Instant, now: Instant) -> float:
    """Return a score from 0 to 1: the keyword score as a share of the best one, and a little recency."""
    recency = 0.5 ** (max(0, now - updated) / _HALF_LIFE_MS)
    return float(round(_LEXICAL_WEIGHT * lexical + _RECENCY_WEIGHT * recency, _SCORE_DIGITS))


def _seal_cursor(context: Context, location: Location, at: tuple[Instant, int]) -> str:
    """Return the position of a list as an opaque cursor, encrypted and authenticated for this namespace."""
    plaintext = at[0].to_bytes(8, "big", signed=True) + at[1].to_bytes(8, "big")
    tag = _keyed_fingerprint(context, location, f"tag {plaintext.hex()}")
    return base64url_encode(tag + _apply_mask(context, location, tag, plaintext))


def _open_cursor(context: Context, location: Location, cursor: str) -> tuple[Instant, int]:
    """Return the position inside a cursor. Raises InvalidInput unless this namespace issued it."""
    try:
        sealed_cursor = base64url_decode(cursor)
    except ValueError:
        sealed_cursor = b""
    tag, masked = sealed_cursor[:_CURSOR_BYTES], sealed_cursor[_CURSOR_BYTES:]
    if len(masked) == _CURSOR_BYTES:
        plaintext = _apply_mask(context, location, tag, masked)
        if tag == _keyed_fingerprint(context, location, f"tag {plaintext.hex()}"):
            return Instant(int.from_bytes(plaintext[:8], "big", signed=True)), int.from_bytes(
                plaintext[8:], "big"
            )
    raise InvalidInput("cursor: this namespace did not issue it; list again from the start")


def _apply_mask(context: Context, location: Location, tag: bytes, data: bytes) -> bytes:
    """Return the data xored with a key stream of the tag; applying it twice restores the data."""
    mask = _keyed_fingerprint(context, location, f"mask {tag.hex()}")
    return bytes(one ^ other for one, other in zip(data, mask, strict=True))


def _keyed_fingerprint(context: Context, location: Location, text: str) -> bytes:
    """Return a keyed hash that only this store can compute."""
    return bytes.fromhex(
        context.engine.fingerprint(location.tenant, f"cursor of oams {location.space}: {text}")
    )
