"""Ranking: five signals and one score for each result (UMP §3.2 names the signals; the algorithm is ours).

similarity        share of the query's weight that the text covers, rare words weighing more, or the vector similarity
scope_match       share of the scope fields stated by the query or the memory in which both agree
recency           halves every 90 days since the memory was last observed
salience          stated importance, moved a little by feedback
provenance_depth  number of pieces of evidence

`rate_record` computes the signals of one result, `sort_by_score` sorts, `apply_preferences` applies the signals that a
client prefers, and `place_below_sources` moves summaries below their sources.

Changing a weight here changes every answer. Measure with `make bench-retrieval` on the `tune` half of the notes only,
and keep the floor of `tests/retrieval`. RELEVANCE is so high because people notice at once if a less relevant memory is
first, and hardly ever if a newer one is second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from memoranda.errors import InvalidInput
from memoranda.model.instant import DAY_MS, Instant
from memoranda.model.memory import Document, OpenedDocument, State
from memoranda.model.passages import Passage
from memoranda.model.selection import Reason
from memoranda.retrieval.analysis import keywords
from memoranda.retrieval.weights import is_weak, relevance_of_share
from memoranda.standards.port import port_of
from memoranda.standards.ump.mapping import searched_text
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.shapes import Signal

T = TypeVar("T")

# Relevance decides. The other signals only order nearly equal answers, and must never bury a relevant one.
RELEVANCE = 0.99
WEIGHTS: Mapping[str, float] = {"scope_match": 0.004, "recency": 0.002, "salience": 0.004}
# A good answer scores at least this share of the best one. A signal that the client prefers adds at most
# PREFERENCE_WEIGHT among good answers. Chosen on the notes of bench/retrieval: for all but a few questions the best
# answers stay in place.
GOOD_RATIO, PREFERENCE_WEIGHT = 0.9, 0.1
# Weights for a query without words.
BROWSING: Mapping[str, float] = {"scope_match": 0.4, "recency": 0.3, "salience": 0.3}
HALF_LIFE_MS = 90 * DAY_MS
DEFAULT_SALIENCE = 0.5
# One follow or override moves salience by 0.05, all feedback together by at most 0.3.
_FEEDBACK_STEP, _FEEDBACK_LIMIT = 0.05, 0.3
_K1, _B = 1.2, 0.75
_SCOPE = ("owner", "project", "user", "agent", "session")
# Decimal digits of a score: enough to order memories that were observed ten milliseconds apart.
_DIGITS = 9
_RELEVANCE_DIGITS = 3


class RankingQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a query that ranking needs: the weights of its words, and its scope.

    `weights` are the query's words with their weights from the index; `mean_terms` is the mean length of a memory in
    terms.
    """

    weights: Mapping[tuple[str, ...], float]
    mean_terms: float
    scope: Mapping[str, str]
    now: Instant


class RankedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its signals and its score."""

    record: Record
    signals: Mapping[str, float | int]
    score: float
    # The estimated probability that it answers the query; None for a query without words.
    relevance: float | None = None
    # The parts of its score, if they were requested.
    reasons: Mapping[str, Reason] | None = None
    # The passage of a long text that answers the query best.
    passage: Passage | None = None

    @property
    def is_weak(self) -> bool:
        """True if it probably does not answer the query."""
        return is_weak(self.relevance)

    def document(self) -> dict[str, object]:
        """Return the result as it appears in an answer."""
        document: dict[str, object] = {
            "record": self.record,
            "signals": dict(self.signals),
            "score": self.score,
        }
        if self.passage is not None:
            start, end, _, focus = self.passage
            document["passage"] = [start, end, focus]
        if self.relevance is not None:
            document["relevance"] = self.relevance
        if self.is_weak:
            document["weak"] = True
        if self.reasons is not None:
            document["explanation"] = {
                name: {"part": round(reason.part, _DIGITS), "rank": reason.rank}
                for name, reason in self.reasons.items()
            }
        return document


def rate_record(
    record: Record,
    state: State,
    query: RankingQuery,
    retrieval_score: float | None = None,
    nearness: float = 0.0,
    relevance: float | None = None,
    document_cache: OpenedDocument | None = None,
) -> RankedRecord:
    """Return a record with its signals and its score.

    `retrieval_score` is the relevance found by retrieval, as a share of the best; without it, the text is compared.
    `nearness` is the vector similarity. `relevance` is by default that of the covered words. `document_cache` holds the
    words of the text.
    """
    covered = (
        _similarity(_tokenize(searched_text(record), document_cache), query)
        if any(query.weights.values())
        else 0.0
    )
    similarity = max(nearness, covered)
    signals: dict[str, float | int] = {
        "similarity": round(similarity, _DIGITS),
        "recency": round(_recency(state, query.now), _DIGITS),
        "salience": round(_salience(record, state), _DIGITS),
        "scope_match": round(_scope_match(record["scope"], query.scope), _DIGITS),
        "provenance_depth": len(record.get("provenance", {}).get("evidence", ())),
    }
    score = (
        RELEVANCE * (signals["similarity"] if retrieval_score is None else retrieval_score)
        if query.weights
        else 0.0
    )
    for name, weight in (WEIGHTS if query.weights else BROWSING).items():
        score += weight * signals[name]
    if query.weights and relevance is None:
        relevance = relevance_of_share(covered)
    return RankedRecord(
        record=record,
        signals=signals,
        score=round(score, _DIGITS),
        relevance=None if relevance is None else round(relevance, _RELEVANCE_DIGITS),
    )


def sort_by_score(rated: Sequence[tuple[RankedRecord, T]]) -> list[tuple[RankedRecord, T]]:
    """Return the results, best first; among equal ones, newest first."""

    def key(pair: tuple[RankedRecord, T]) -> tuple[Any, ...]:
        record = pair[0].record
        return pair[0].score, record["time"]["created"], record["id"]

    return sorted(rated, key=key, reverse=True)


def apply_preferences(
    results: Sequence[tuple[RankedRecord, T]], prefer: Sequence[Signal], query: RankingQuery
) -> list[tuple[RankedRecord, T]]:
    """Return results in which the preferred signals weigh more among good answers (UMP §3.2).

    Good answers score nearly as much as the best one; for a query without words, every answer is good. Other answers
    stay behind them, in their order. A signal counts by its position between the least and the largest value among good
    answers, and half as much as the signal preferred before it.
    """
    if not prefer or not results:
        return list(results)
    line = GOOD_RATIO * results[0][0].score if query.weights else 0.0
    good = [ranked for ranked, _ in results if ranked.score >= line]
    weights = {
        name: PREFERENCE_WEIGHT / 2**position for position, name in enumerate(dict.fromkeys(prefer))
    }
    spans = {
        name: (min(values), max(values))
        for name in weights
        if (values := [record.signals[name] for record in good])
    }
    highest_sum = 1.0 + sum(weights.values())

    def weigh(ranked: RankedRecord) -> RankedRecord:
        score = ranked.score
        if score >= line:
            for name, weight in weights.items():
                least, largest = spans[name]
                score += weight * (ranked.signals[name] - least) / ((largest - least) or 1.0)
        return msgspec.structs.replace(ranked, score=round(score / highest_sum, _DIGITS))

    return sort_by_score([(weigh(ranked), item) for ranked, item in results])


def place_below_sources(items: Sequence[T], document: Callable[[T], Document]) -> list[T]:
    """Return the items in an order in which each derived document follows those of its sources that are present.

    A summary states nothing that its sources do not state, so it must not stand above them.

    Keeps the order otherwise, so scores may not fall strictly afterwards.
    """
    source_keys = [_source_keys(document(item)) for item in items]
    if not any(source_keys):
        return list(items)
    own_keys = [_own_key(document(item)) for item in items]
    # For each item, the keys of its sources that are present and not placed yet.
    waiting: dict[int, set[str]] = {}
    for index, (keys, own_key) in enumerate(zip(source_keys, own_keys, strict=True)):
        pending = keys.intersection(own_keys) - {own_key}
        if pending:
            waiting[index] = pending
    placed: list[int] = []

    def put(index: int) -> None:
        placed.append(index)
        free = []
        for other, awaited in waiting.items():
            awaited.discard(own_keys[index])
            if not awaited and other < index:
                free.append(other)
        for other in free:
            del waiting[other]
            put(other)

    for index in range(len(items)):
        if not waiting.get(index):
            waiting.pop(index, None)
            put(index)
    # Items that were derived from one another go last, in their order.
    return [items[index] for index in (*placed, *waiting)]


def _source_keys(document: Document) -> set[str]:
    """Return the keys and names of the sources that a document states."""
    targets = _read_or_none(lambda: port_of(document.standard).source_names(document.native)) or []
    # A namespace contains no slash, so the rest is the key.
    return {target.partition("/")[2] or target for target in targets}


def _own_key(document: Document) -> str:
    """Return the key or name by which derived documents refer to a document."""
    port = port_of(document.standard)
    if not port.has_local_names:
        from memoranda.standards.oams import mapping as oams

        return oams.key_of(document)
    reference = _read_or_none(lambda: port.reference(document))
    return document.name if reference is None else reference[1]


def _read_or_none(load: Callable[[], T]) -> T | None:
    """Return what `load` reads from a document; None from a malformed one, which nobody is shown."""
    try:
        return load()
    except InvalidInput:
        return None


def _tokenize(text: str, document_cache: OpenedDocument | None) -> list[str]:
    """Return the stems of a text, cached with the opened document."""
    cached = None if document_cache is None else document_cache.words
    if cached is not None and cached[0] == text:
        return cached[1]
    tokens = keywords(text)
    if document_cache is not None:
        document_cache.words = text, tokens
    return tokens


def _similarity(stems: list[str], query: RankingQuery) -> float:
    """Return the share of the query's weight that the words of a text cover (BM25 term weights), at most 1."""
    total = sum(query.weights.values())
    length = _K1 * (1.0 - _B + _B * len(stems) / query.mean_terms)
    covered = 0.0
    for spellings, weight in query.weights.items():
        if count := sum(map(stems.count, spellings)):
            covered += weight * min(1.0, (_K1 + 1.0) * count / (count + length))
    return min(1.0, covered / total)


def _recency(state: State, now: Instant) -> float:
    return float(0.5 ** (max(0, now - state.observed) / HALF_LIFE_MS))


def _salience(record: Record, state: State) -> float:
    stated_salience = record.get("lifecycle", {}).get("salience", DEFAULT_SALIENCE)
    feedback_shift = _FEEDBACK_STEP * (state.followed - state.overridden - 2 * state.contradicted)
    return float(
        min(
            1.0,
            max(0.0, stated_salience + max(-_FEEDBACK_LIMIT, min(_FEEDBACK_LIMIT, feedback_shift))),
        )
    )


def _scope_match(scope: Mapping[str, object], queried: Mapping[str, str]) -> float:
    fields_named, matching = 0, 0.0
    for field in _SCOPE:
        value, queried_value = scope.get(field), queried.get(field)
        if value or queried_value:
            fields_named += 1
            # A field that the memory leaves open matches half.
            matching += (value == queried_value) if value else 0.5
    return matching / fields_named
