"""RECALL over a JSONL file that serves as a store (OAMS, section 1), ranked with the weights of the real store.

The file is read once per query. Only the word counts of memories that hold a word of the query are kept in memory.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from memoranda.errors import CrossNamespace, InvalidInput, NamespaceNotFound
from memoranda.model.instant import Instant, parse_instant
from memoranda.retrieval.analysis import exact_terms, keywords, query_words
from memoranda.retrieval.weights import K1, RETRIEVER_COUNT, WINDOW_B, WORDS_ONLY, B
from memoranda.service.oams.recall import score_of
from memoranda.standards.oams.jsonl_store import JsonlStore
from memoranda.standards.oams.memory import Memory, to_response
from memoranda.standards.oams.namespace import Namespace, read_namespace
from memoranda.standards.oams.requests import RecallRequest

# (namespace, key, update time, number of words, count of each query word). Small, as every line may match.
_Match = tuple[str, str, Instant, int, tuple[int, ...]]

# Namespaces that a message lists.
_LISTED_NAMESPACES = 10


def only_namespace(store: JsonlStore) -> Namespace:
    """Return the only namespace of a file. Raises NamespaceNotFound and InvalidInput unless there is exactly one.

    Section 4: by default RECALL is scoped to a single namespace; more of them are opt-in.
    """
    names = store.namespaces
    if not names:
        raise NamespaceNotFound("the file has no memories")
    if len(names) > 1:
        ellipsis = ", …" if len(names) > _LISTED_NAMESPACES else ""
        raise InvalidInput(
            f"the file has {len(names)} namespaces; name one of {', '.join(names[:_LISTED_NAMESPACES])}{ellipsis}"
        )
    return read_namespace(names[0])


def recall(store: JsonlStore, request: RecallRequest, now: Instant) -> list[Memory]:
    """Return the best memories of a file for a query, with their scores.

    Raises CrossNamespace for namespaces of several owners, and NamespaceNotFound for one that the file does not have.
    """
    namespaces = request.namespaces or (only_namespace(store),)
    if len({namespace.owner for namespace in namespaces}) > 1:
        # Section 4: MUST refuse a query across owners without consent, and a file holds no consents.
        raise CrossNamespace(
            "a query that spans owners needs the consent of each; ask for one owner at a time"
        )
    if missing := [name for name in map(str, namespaces) if name not in store.namespaces]:
        raise NamespaceNotFound(f"the file has no namespace {missing[0]!a}")
    terms = tuple(word.terms for word in query_words(request.query) if not word.is_optional)
    is_newest = not request.query.strip()
    narrowed = request.replace_fields(namespace=None, namespace_list=list(namespaces))
    matches, weights, mean = _matches(store, narrowed, terms, takes_all=is_newest)
    relevance = _relevance(matches, weights, mean)
    best = max(relevance, default=0.0) or 1.0
    scored = (
        (score_of(relevance_of / best, match[2], now), match)
        for relevance_of, match in zip(relevance, matches, strict=True)
    )
    top = heapq.nsmallest(request.k, scored, key=lambda hit: (-hit[0], hit[1][1], hit[1][0]))
    return [
        to_response(store.get(read_namespace(namespace), key), score=score)
        for score, (namespace, key, *_) in top
    ]


def _matches(
    store: JsonlStore,
    request: RecallRequest,
    terms: tuple[tuple[str, ...], ...],
    *,
    takes_all: bool,
) -> tuple[list[_Match], list[float], float]:
    """Return the matching memories, the weight of each query word, and the mean number of words per memory."""
    matches: list[_Match] = []
    names = {str(namespace): str(namespace) for namespace in request.namespaces}
    holders, exact = [0] * len(terms), exact_terms(request.query)
    total = length = 0
    for memory in store.find_candidates(request):
        text = memory["value"] or memory["key"]
        stems = keywords(text)
        total += 1
        length += len(stems)
        counts = tuple(sum(map(stems.count, spellings)) for spellings in terms)
        if exact.rejects(text):
            continue
        if any(counts):
            holders = [
                holder_count + bool(count)
                for holder_count, count in zip(holders, counts, strict=True)
            ]
        elif not (takes_all or exact.is_exclusive):
            continue
        updated = parse_instant(memory["updated_at"])
        matches.append((names[memory["namespace"]], memory["key"], updated, len(stems), counts))
    weights = [
        math.log(1.0 + (total - holder_count + 0.5) / (holder_count + 0.5))
        for holder_count in holders
    ]
    return matches, weights, max(1.0, length / max(1, total))


def _relevance(matches: Sequence[_Match], weights: Sequence[float], mean: float) -> list[float]:
    """Return the score of each match, as the store ranks memories that belong to no session."""
    text, window = (_shares(matches, weights, mean, b) for b in (B, WINDOW_B))
    scores = []
    for match, text_share, window_share in zip(matches, text, window, strict=True):
        topic = WORDS_ONLY.session * (text_share + window_share) / RETRIEVER_COUNT
        length = WORDS_ONLY.length * math.log1p(match[3]) if any(match[4]) else 0.0
        all_words = WORDS_ONLY.every if len(match[4]) > 1 and all(match[4]) else 0.0
        scores.append(
            WORDS_ONLY.text * text_share
            + WORDS_ONLY.window * window_share
            + all_words
            + topic
            + length
        )
    return scores


def _shares(
    matches: Sequence[_Match], weights: Sequence[float], mean: float, b: float
) -> list[float]:
    """Return the BM25 score of each match, as a share of the best one."""
    scores = []
    for *_, length, counts in matches:
        spread = K1 * (1.0 - b + b * length / mean)
        parts = (
            weight * count * (K1 + 1.0) / (count + spread)
            for weight, count in zip(weights, counts, strict=True)
        )
        scores.append(sum(parts))
    best = max(scores, default=0.0) or 1.0
    return [score / best for score in scores]
