"""RECALL over a JSONL file that is a store (OAMS, section 1): the weights of the store, without one.

The file is read once more; what is kept of it are the counts of the memories that have a word of the query at all.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from memoranda.errors import CrossNamespace, InvalidInput, NamespaceNotFound
from memoranda.model.instant import Instant, parse_instant
from memoranda.retrieval.analysis import asked as asked_words
from memoranda.retrieval.analysis import exact_in, words
from memoranda.retrieval.weights import K1, LEG_COUNT, WINDOW_B, WORDS_ONLY, B
from memoranda.service.oams.recall import score_of
from memoranda.standards.oams.jsonl_store import JsonlStore
from memoranda.standards.oams.memory import Memory, to_response
from memoranda.standards.oams.namespace import Namespace, parse_namespace
from memoranda.standards.oams.requests import RecallRequest

# (namespace, key, updated, words in all, how often each word of the query): small, as every line may be one.
_Match = tuple[str, str, Instant, int, tuple[int, ...]]

_LISTED = 10


def only_namespace(store: JsonlStore) -> Namespace:
    """The namespace that is meant when none is named. Raises InvalidInput unless there is exactly one.

    Section 4: by default RECALL is scoped to a single namespace; more of them are opt-in.
    """
    names = store.namespaces
    if not names:
        raise NamespaceNotFound("the file has no memories")
    if len(names) > 1:
        more = ", …" if len(names) > _LISTED else ""
        raise InvalidInput(
            f"the file has {len(names)} namespaces; name one of {', '.join(names[:_LISTED])}{more}"
        )
    return parse_namespace(names[0])


def recall(store: JsonlStore, request: RecallRequest, now: Instant) -> list[Memory]:
    """The best memories of a file for a query, each with its score."""
    asked = request.namespaces or (only_namespace(store),)
    if len({each.owner for each in asked}) > 1:
        # Section 4: MUST refuse what spans owners unless the caller presents consent; a file cannot tell of any.
        raise CrossNamespace(
            "a query that spans owners needs the consent of each; ask for one owner at a time"
        )
    if missing := [each for each in map(str, asked) if each not in store.namespaces]:
        raise NamespaceNotFound(f"the file has no namespace {missing[0]!a}")
    wanted = tuple(word.terms for word in asked_words(request.query) if not word.is_optional)
    is_newest = not request.query.strip()
    named = request.replace_fields(namespace=None, namespace_list=list(asked))
    matches, weights, mean = _matches(store, named, wanted, everything=is_newest)
    relevance = _relevance(matches, weights, mean)
    best = max(relevance, default=0.0) or 1.0
    scored = (
        (score_of(found / best, match[2], now), match)
        for found, match in zip(relevance, matches, strict=True)
    )
    top = heapq.nsmallest(request.k, scored, key=lambda each: (-each[0], each[1][1], each[1][0]))
    return [
        to_response(store.get(parse_namespace(namespace), key), score=score)
        for score, (namespace, key, *_) in top
    ]


def _matches(
    store: JsonlStore,
    request: RecallRequest,
    wanted: tuple[tuple[str, ...], ...],
    *,
    everything: bool,
) -> tuple[list[_Match], list[float], float]:
    """What may be in the answer; what each word of the query weighs; how many words a memory has on average."""
    matches: list[_Match] = []
    names = {str(each): str(each) for each in request.namespaces}
    holders, exact = [0] * len(wanted), exact_in(request.query)
    total = length = 0
    for memory in store.find_candidates(request):
        text = memory["value"] or memory["key"]
        stems = words(text)
        total += 1
        length += len(stems)
        counts = tuple(sum(map(stems.count, spellings)) for spellings in wanted)
        if exact.refuses(text):
            continue
        if any(counts):
            holders = [held + bool(count) for held, count in zip(holders, counts, strict=True)]
        elif not (everything or exact.is_all):
            continue
        updated = parse_instant(memory["updated_at"])
        matches.append((names[memory["namespace"]], memory["key"], updated, len(stems), counts))
    weights = [math.log(1.0 + (total - held + 0.5) / (held + 0.5)) for held in holders]
    return matches, weights, max(1.0, length / max(1, total))


def _relevance(matches: Sequence[_Match], weights: Sequence[float], mean: float) -> list[float]:
    """As the store ranks what is in no session: nothing stands beside anything, and each is a talk by itself."""
    text, window = (_shares(matches, weights, mean, b) for b in (B, WINDOW_B))
    found = []
    for match, one, two in zip(matches, text, window, strict=True):
        topic = WORDS_ONLY.session * (one + two) / LEG_COUNT
        length = WORDS_ONLY.length * math.log1p(match[3]) if any(match[4]) else 0.0
        every = WORDS_ONLY.every if len(match[4]) > 1 and all(match[4]) else 0.0
        found.append(WORDS_ONLY.text * one + WORDS_ONLY.window * two + every + topic + length)
    return found


def _shares(
    matches: Sequence[_Match], weights: Sequence[float], mean: float, b: float
) -> list[float]:
    """BM25 of each, as a share of the best."""
    found = []
    for *_, length, counts in matches:
        spread = K1 * (1.0 - b + b * length / mean)
        parts = (
            weight * count * (K1 + 1.0) / (count + spread)
            for weight, count in zip(weights, counts, strict=True)
        )
        found.append(sum(parts))
    best = max(found, default=0.0) or 1.0
    return [each / best for each in found]
