"""Ranking: five named signals and one score (UMP §3.2). The algorithm is ours, the names are the standard's.

similarity        how much of the question's weight the text covers, rare words weighing more, or how near it is to
                  what the question means
scope_match       in how much of the scope that the question or the memory names both agree
recency           halves every 90 days since it was last observed
salience          stated importance, moved a little by feedback
provenance_depth  how many pieces of evidence stand behind it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from memoranda.errors import InvalidInput
from memoranda.model.instant import DAY_MS, Instant
from memoranda.model.memory import Document, OpenedDocument, State
from memoranda.model.selection import Reason
from memoranda.retrieval.analysis import words
from memoranda.standards.port import port_of
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.shapes import Signal

T = TypeVar("T")

# How well it answers decides; the rest only tells near-equal answers apart, and must never bury one.
RELEVANCE = 0.99
WEIGHTS: Mapping[str, float] = {"scope_match": 0.004, "recency": 0.002, "salience": 0.004}
# A good answer scores this share of the best one or more, and a signal that the client prefers adds up to this among
# good answers. Chosen on the notes of bench/retrieval: the answers of all questions but a few stay where they are.
GOOD_RATIO, PREFERENCE_WEIGHT = 0.9, 0.1
# Where nothing is asked, the rest is all there is.
BROWSING: Mapping[str, float] = {"scope_match": 0.4, "recency": 0.3, "salience": 0.3}
HALF_LIFE_MS = 90 * DAY_MS
DEFAULT_SALIENCE = 0.5
# One follow or override moves salience by a twentieth, and all together by at most three tenths.
_FEEDBACK_STEP, _FEEDBACK_LIMIT = 0.05, 0.3
_K1, _B = 1.2, 0.75
_SCOPE = ("owner", "project", "user", "agent", "session")
# Enough to tell memories apart that are ten milliseconds apart.
_DIGITS = 9


class RankingQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What ranking needs to know about a query: its words with their weights, and its scope."""

    weights: Mapping[tuple[str, ...], float]
    mean_terms: float
    scope: Mapping[str, str]
    now: Instant


class RankedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its signals and its score."""

    record: Record
    signals: Mapping[str, float | int]
    score: float
    # What its relevance is made of, if that was asked for.
    reasons: Mapping[str, Reason] | None = None

    def document(self) -> dict[str, object]:
        document: dict[str, object] = {
            "record": self.record,
            "signals": dict(self.signals),
            "score": self.score,
        }
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
    opened: OpenedDocument | None = None,
) -> RankedRecord:
    """The signals and the score of one record; `relevance` is what retrieval found, a share of the best.

    Without it, the text itself is compared. `nearness` is how near it is to what the question means; with its document
    `opened`, the words of the text are kept.
    """
    covered = (
        _similarity(_tokenize(record["body"]["text"], opened), query)
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
    return RankedRecord(record=record, signals=signals, score=round(score, _DIGITS))


def sort_by_score(rated: Sequence[tuple[RankedRecord, T]]) -> list[tuple[RankedRecord, T]]:
    """Return the best first; of equal ones the newest."""

    def key(pair: tuple[RankedRecord, T]) -> tuple[Any, ...]:
        record = pair[0].record
        return pair[0].score, record["time"]["created"], record["id"]

    return sorted(rated, key=key, reverse=True)


def apply_preferences(
    ordered: Sequence[tuple[RankedRecord, T]], prefer: Sequence[Signal], query: RankingQuery
) -> list[tuple[RankedRecord, T]]:
    """Return ranked records with the signals that the client prefers weighing more among good answers (UMP §3.2).

    Good answers score nearly as much as the best one; of a question without words everything is good. Whatever is not
    good stays behind them, in its order. A signal counts by where its value lies between the least and the most among
    good answers, and half as much as the one that is preferred before it.
    """
    if not prefer or not ordered:
        return list(ordered)
    line = GOOD_RATIO * ordered[0][0].score if query.weights else 0.0
    good = [ranked for ranked, _ in ordered if ranked.score >= line]
    weights = {
        name: PREFERENCE_WEIGHT / 2**position for position, name in enumerate(dict.fromkeys(prefer))
    }
    spans = {
        name: (min(values), max(values))
        for name in weights
        if (values := [record.signals[name] for record in good])
    }
    most = 1.0 + sum(weights.values())

    def weigh(ranked: RankedRecord) -> RankedRecord:
        score = ranked.score
        if score >= line:
            for name, weight in weights.items():
                least, largest = spans[name]
                score += weight * (ranked.signals[name] - least) / ((largest - least) or 1.0)
        return msgspec.structs.replace(ranked, score=round(score / most, _DIGITS))

    return sort_by_score([(weigh(ranked), item) for ranked, item in ordered])


def place_below_sources(ordered: Sequence[T], document: Callable[[T], Document]) -> list[T]:
    """The same in an order in which whatever was made from others stands behind those of them that are there.

    A summary says nothing that its sources do not say; it must not stand between a question and them.
    """
    made_from = [_source_keys(document(item)) for item in ordered]
    if not any(made_from):
        return list(ordered)
    own_keys = [_own_key(document(item)) for item in ordered]
    waiting = {
        place: pending
        for place, item in enumerate(made_from)
        if (pending := item.intersection(own_keys) - {own_keys[place]})
    }
    placed: list[int] = []

    def put(place: int) -> None:
        placed.append(place)
        free = []
        for other, awaited in waiting.items():
            awaited.discard(own_keys[place])
            if not awaited and other < place:
                free.append(other)
        for other in free:
            del waiting[other]
            put(other)

    for place in range(len(ordered)):
        if not waiting.get(place):
            waiting.pop(place, None)
            put(place)
    # What was made from one another goes last, as it came.
    return [ordered[place] for place in (*placed, *waiting)]


def _source_keys(document: Document) -> set[str]:
    """What a document says it was made from, by keys and names."""
    targets = _read_or_none(lambda: port_of(document.standard).source_names(document.native)) or []
    # A namespace has no slash.
    return {target.partition("/")[2] or target for target in targets}


def _own_key(document: Document) -> str:
    """By what others name a document when they say what they were made from."""
    port = port_of(document.standard)
    if not port.has_local_names:
        from memoranda.standards.oams import mapping as oams

        return oams.key_of(document)
    reference = _read_or_none(lambda: port.reference(document))
    return document.name if reference is None else reference[1]


def _read_or_none(load: Callable[[], T]) -> T | None:
    """What is read from a document; None from a damaged one, which is shown to nobody."""
    try:
        return load()
    except InvalidInput:
        return None


def _tokenize(text: str, opened: OpenedDocument | None) -> list[str]:
    cached = None if opened is None else opened.words
    if cached is not None and cached[0] == text:
        return cached[1]
    tokens = words(text)
    if opened is not None:
        opened.words = text, tokens
    return tokens


def _similarity(stems: list[str], query: RankingQuery) -> float:
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
    stated = record.get("lifecycle", {}).get("salience", DEFAULT_SALIENCE)
    moved = _FEEDBACK_STEP * (state.followed - state.overridden - 2 * state.contradicted)
    return float(min(1.0, max(0.0, stated + max(-_FEEDBACK_LIMIT, min(_FEEDBACK_LIMIT, moved)))))


def _scope_match(scope: Mapping[str, object], queried: Mapping[str, str]) -> float:
    fields_named, matching = 0, 0.0
    for field in _SCOPE:
        value, wanted = scope.get(field), queried.get(field)
        if value or wanted:
            fields_named += 1
            # What a memory leaves open, it is not against.
            matching += (value == wanted) if value else 0.5
    return matching / fields_named
