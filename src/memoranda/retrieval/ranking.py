"""Which versions answer a question, best first: by their words, their neighbours, persons, dates and sessions.

All numbers of a ranking come from what the scope lets through: how many there are, how many hold a word, how long they
are. What a caller may not see is in none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.entry import REDACTED_BIT
from memoranda.retrieval.segment import Facts, Flags, Floats, Places, Postings, Prints, Seen
from memoranda.retrieval.time_words import Span
from memoranda.retrieval.weights import (
    FOLD_LIMIT,
    GATE,
    K1,
    LEG_LIMIT,
    LENGTH_LIMIT,
    TOPIC_DATE,
    TOPIC_PERSON,
    TYPICAL,
    WINDOW_B,
    WITH_MEANING,
    WORDS_ONLY,
    B,
    Weights,
)

_FAR_DOWN: Final = 1e-4
# A word that so few of so many hold is looked at by itself.
_RARE: Final = 64
# A score takes as many bits as a place leaves of 64.
_SCORE_UNITS: Final = float((1 << 38) - 1)
_PLACE_BITS: Final = np.uint64(26)
LEGS: Final = ("text", "window", "meaning", "context")
# What a score loses because a better one says the same.
REPEATED: Final = "repeated"
_UNCHANGED: Final[Mapping[str, float]] = MappingProxyType({})
# The cosine of what has no vector.
NO_VECTOR: Final = -2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What may come back, as far as a segment can tell; None: anything."""

    space: int | None = None
    user: int | None = None
    agent: int | None = None
    session: int | None = None
    # The bits of the visibilities that may be seen.
    marks: int | None = None
    redacted: bool | None = None
    # What is by or of one of these, or of nobody.
    users: tuple[int, ...] | None = None

    def mask(self, facts: Facts) -> Flags:
        found = np.ones(len(facts), np.bool_)
        for column, wanted in (
            (facts.spaces, self.space),
            (facts.users, self.user),
            (facts.agents, self.agent),
            (facts.sessions, self.session),
        ):
            if wanted is not None:
                found &= column == np.uint64(wanted)
        if self.marks is not None:
            found &= (facts.marks & self.marks) != 0
        if self.redacted is not None:
            found &= ((facts.marks & REDACTED_BIT) != 0) == self.redacted
        if self.users is not None:
            found &= np.isin(facts.users, np.array((0, *self.users), np.uint64))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: the fingerprints of its words, of the names among them, and the times it means."""

    words: tuple[int, ...]
    names: tuple[int, ...] = ()
    spans: tuple[Span, ...] = ()


class Near(NamedTuple):
    """How near each version of a segment is to a question: by itself, and with what was said before it.

    And to a typical question; what has no vector is NO_VECTOR. What is further than `floor` is no answer.
    """

    own: Floats
    context: Floats
    typical_own: Floats
    typical_context: Floats
    floor: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Searched:
    """A segment as a question sees it: its facts, what the caller may see of it, and where each word stands.

    Every statistic is of what may be seen, whatever else the question asks for; only `allowed` comes back.
    """

    facts: Facts
    mask: Flags
    allowed: Flags
    # In the order of the question's words; None where it has none of one.
    postings: Sequence[Postings | None]
    # Where meaning is asked for.
    near: Near | None = None

    @cached_property
    def seen(self) -> Seen:
        """What all that may be seen comes to."""
        return self.facts.seen(self.mask)

    @cached_property
    def links(self) -> tuple[Places, Places]:
        """Of each version the one before and the one after in its session, among what may come back."""
        return self.seen.links

    @cached_property
    def held(self) -> list[Postings | None]:
        """The postings of what may be seen."""
        is_all = self.seen.docs == len(self.mask)
        return [_masked(each, None if is_all else self.mask) for each in self.postings]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ranking:
    """Everything that holds a word of the question, best first, one array a column."""

    versions: NDArray[np.int64]
    scores: NDArray[np.float64]
    # Where each of them stands in the columns that follow.
    rows: NDArray[np.int64]
    # What each score is made of, by the names of the weights: they add up to it.
    signals: Mapping[str, NDArray[np.float64]]
    # How well the words match: of the version, and of it with its neighbours.
    text: Floats
    window: Floats
    # Those by which the scores of all were made: the best of each leg.
    decisive: NDArray[np.int64]
    # How much of the question the best one covers, or how near it is, from 0 to 1.
    covered: float
    # What each word of the question weighs, and how long a text is in the mean.
    weights: NDArray[np.float64]
    mean_length: float


class _Leg:
    """BM25 of one kind of text over all segments: of a version, or of it with its neighbours."""

    def __init__(self, words: int, b: float) -> None:
        self._b = b
        self._count, self._length = 0, 0.0
        self._holding = np.zeros(words)
        self._found: list[tuple[Floats, list[Postings | None]]] = []

    def add(self, lengths: Floats, found: list[Postings | None], *, count: int, length: float) -> None:
        self._count += count
        self._length += length
        self._found.append((lengths, found))
        for number, each in enumerate(found):
            if each is not None:
                self._holding[number] += len(each[0])

    @property
    def mean_length(self) -> float:
        return max(1.0, self._length / max(1, self._count))

    @property
    def weights(self) -> NDArray[np.float64]:
        """What each word weighs: the rarer, the more."""
        holding = self._holding
        return np.log(1.0 + (np.maximum(self._count, holding) - holding + 0.5) / (holding + 0.5))

    def scores(self) -> list[Floats]:
        weights, mean = self.weights, self.mean_length
        made = []
        for lengths, found in self._found:
            scores = np.zeros(len(lengths), np.float32)
            for weight, each in zip(weights, found, strict=True):
                if each is not None:
                    places, counts = each
                    norms = np.float32(K1 * (1.0 - self._b)) + np.float32(K1 * self._b / mean) * lengths[places]
                    scores[places] += np.float32(weight * (K1 + 1.0)) * counts / (counts + norms)
            made.append(scores)
        return made


def rank(
    question: Question,
    segments: Sequence[Searched],
    *,
    weights: Weights | None = None,
    changed: Mapping[str, float] = _UNCHANGED,
) -> Ranking:
    """Everything that holds a word of the question or is among the nearest by meaning, best first.

    Of equal ones the last written comes first. `changed`: single weights by their names.
    """
    text, window = _word_legs(question, segments)
    raw, around = text.scores(), window.scores()
    holders = [np.flatnonzero((each > 0) & segment.allowed) for each, segment in zip(raw, segments, strict=True)]
    legs = [_normalised(raw, holders), _normalised(around, holders)]
    best = max((float(each[places].max()) for each, places in zip(raw, holders, strict=True) if len(places)), default=0)
    most = (K1 + 1.0) * float(text.weights.sum())
    covered = min(1.0, best / most) if most else 0.0
    has_meaning = any(each.near is not None for each in segments)
    # A question whose words nobody used is not ranked by its stray ones.
    gate = min(1.0, (covered / GATE) ** 2) if has_meaning else 1.0
    held = holders
    if has_meaning:
        legs += _nearest(segments, legs[0], gate)
        near = [(one > 0) | (two > 0) for one, two in zip(*legs[2:], strict=True)]
        near = [each & _is_above_floor(segment) for each, segment in zip(near, segments, strict=True)]
        held = [np.union1d(places, np.flatnonzero(each)) for places, each in zip(holders, near, strict=True)]
    if question.spans and not any(map(len, held)):
        # "What happened yesterday?": whatever is of then.
        held = [np.flatnonzero((_by_date(question, each.facts.times) > 0) & each.allowed) for each in segments]
    chosen = replace(weights or (WITH_MEANING if has_meaning else WORDS_ONLY), **changed)
    parts = _parts(question, segments, held, legs, gate)
    signals = {name: getattr(chosen, name) * column for name, column in parts.items()}
    versions, plain = _of_held([each.facts.versions for each in segments], held), _of_held(raw, held)
    # Far down, where no leg tells two apart, the words themselves do.
    scores = (_FAR_DOWN * (plain / best if best else plain)).astype(np.float64)
    for column in signals.values():
        scores += column
    order = _fold_repeats(_best_first(scores), scores, _of_held([each.facts.said for each in segments], held), signals)
    is_decisive = np.zeros(len(versions), np.bool_)
    for name in LEGS[: len(legs)]:
        is_decisive |= parts[name] > 0
    return Ranking(
        versions=versions[order],
        scores=scores[order],
        rows=order,
        signals=signals,
        text=plain,
        window=_of_held(around, held),
        decisive=versions[is_decisive],
        covered=max([covered, *(_nearness(each) for each in segments)]),
        weights=text.weights,
        mean_length=text.mean_length,
    )


def _of_held(columns: Sequence[NDArray[Any]], held: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    """A column of all segments, of what is held in them."""
    return np.concatenate([column[places] for column, places in zip(columns, held, strict=True)])


def _word_legs(question: Question, segments: Sequence[Searched]) -> tuple[_Leg, _Leg]:
    """The words of versions, and of versions with their neighbours."""
    text, window = _Leg(len(question.words), B), _Leg(len(question.words), WINDOW_B)
    for segment in segments:
        lengths, seen, own = segment.facts.lengths32, segment.seen, segment.held
        text.add(lengths, own, count=seen.docs, length=seen.length)
        if segment.facts.has_talks:
            spread = [_spread(each, segment) for each in own]
            window.add(_window_lengths(segment, lengths), spread, count=seen.docs, length=seen.window_length)
        else:
            window.add(lengths, own, count=seen.docs, length=seen.length)
    return text, window


def _nearest(segments: Sequence[Searched], text: list[Floats], gate: float) -> list[list[Floats]]:
    """The legs of meaning, from 0 to 1; what has no vector yet counts as far as its words do."""
    made = []
    typical = np.float32(TYPICAL * (1.0 - gate) ** 2)
    for own, usual in (("own", "typical_own"), ("context", "typical_context")):
        leg, known = [], []
        for segment in segments:
            near = segment.near
            cosines = np.full(len(segment.facts), NO_VECTOR, np.float32) if near is None else getattr(near, own)
            known.append(cosines > NO_VECTOR)
            leg.append(cosines if near is None else cosines - typical * getattr(near, usual))
        places = [np.flatnonzero(each & segment.allowed) for each, segment in zip(known, segments, strict=True)]
        scores = _normalised(leg, places, least_of_all=True)
        made.append([np.where(each, score, own) for each, score, own in zip(known, scores, text, strict=True)])
    return made


def _nearness(segment: Searched) -> float:
    """How near the nearest is that may come back; 0 where nothing tells."""
    near = segment.near
    found = 0.0 if near is None else float(near.own.max(initial=0.0, where=segment.allowed))
    return found if near is not None and found >= near.floor else 0.0


def _is_above_floor(segment: Searched) -> Flags:
    """What may come back, and is near enough to be an answer though it shares no word with the question."""
    near = segment.near
    return segment.allowed & (np.maximum(near.own, near.context) >= near.floor) if near is not None else segment.allowed


def _masked(postings: Postings | None, mask: Flags | None) -> Postings | None:
    if postings is None:
        return None
    if mask is None:
        return postings[0], postings[1].astype(np.float32)
    kept = mask[postings[0]]
    places = postings[0][kept]
    return (places, postings[1][kept].astype(np.float32)) if len(places) else None


def _window_lengths(segment: Searched, lengths: Floats) -> Floats:
    if segment.links is segment.facts.neighbours:
        return segment.facts.window_lengths
    before, after = segment.links
    seen = np.append(np.where(segment.mask, lengths, np.float32(0)), np.float32(0))
    found: Floats = lengths + seen[before] + seen[after]
    return found


def _spread(found: Postings | None, segment: Searched) -> Postings | None:
    """Where a word stands in a version or in one beside it."""
    if found is None:
        return None
    places, counts = found
    before, after = segment.links
    if len(places) * _RARE < len(segment.mask):
        spread = np.concatenate((places, before[places], after[places]))
        windows, where = np.unique(spread, return_inverse=True)
        totals = np.bincount(where, np.tile(counts, 3), len(windows)).astype(np.float32)
        missing = int(windows[0] < 0)
        return windows[missing:], totals[missing:]
    # No two have the same one before or after; what has none adds to a place behind all.
    dense = np.zeros(len(segment.mask) + 1, np.float32)
    dense[places] = counts
    dense[before[places]] += counts
    dense[after[places]] += counts
    held = np.flatnonzero(dense[:-1] > 0).astype(np.int32)
    return held, dense[held]


def _normalised(scores: list[Floats], held: list[NDArray[np.int64]], *, least_of_all: bool = False) -> list[Floats]:
    """The best of a leg, from 0 to 1: counted from the last of them, or from nothing where there are few words."""
    everything = np.concatenate([each[places] for each, places in zip(scores, held, strict=True)])
    if not len(everything):
        return [np.zeros_like(each) for each in scores]
    most = everything.max()
    if len(everything) > LEG_LIMIT:
        least = np.partition(everything, -LEG_LIMIT)[-LEG_LIMIT]
    else:
        least = everything.min() if least_of_all else np.float32(0)
    if most <= least:
        return [(each >= most).astype(np.float32) for each in scores]
    return [np.clip((each - least) / (most - least), 0, 1) for each in scores]


def _parts(
    question: Question,
    segments: Sequence[Searched],
    held: Sequence[NDArray[np.int64]],
    legs: Sequence[list[Floats]],
    gate: float,
) -> dict[str, NDArray[np.float64]]:
    """What the score of everything that is held is made of, part by part, before anything is weighed.

    What a question does not ask for is no part: it names nobody, or no time.
    """
    persons = _named_persons(question, segments)
    columns: list[dict[str, NDArray[Any]]] = []
    sessions = []
    for number, (segment, places) in enumerate(zip(segments, held, strict=True)):
        facts = segment.facts
        before, after = segment.links
        # One more, for what has no neighbour.
        own = [np.append(leg[number] * segment.mask, np.float32(0)) for leg in legs]
        own[:2] = [np.float32(gate) * each for each in own[:2]]
        found: dict[str, NDArray[Any]] = {name: leg[places] for name, leg in zip(LEGS, own, strict=False)}
        topic: NDArray[Any] = np.zeros(len(places), np.float32)
        for each in found.values():
            topic += each / np.float32(len(LEGS))
        found["before"] = own[1][before[places]]
        found["after"] = (own[2] if len(own) > 2 else own[1])[after[places]]
        if persons:
            is_of = _is_of(persons[0], facts, places)
            found["person" if len(persons) == 1 else "first_named"] = is_of
            topic = topic + TOPIC_PERSON * is_of if len(persons) == 1 else topic
        if question.spans:
            found["date"] = _by_date(question, facts.times[places])
            topic = topic + TOPIC_DATE * found["date"]
        found["session"] = topic
        # Long enough is long enough.
        found["length"] = np.log1p(np.minimum(facts.lengths[places], LENGTH_LIMIT).astype(np.float32))
        columns.append(found)
        of = facts.sessions[places]
        sessions.append(np.where(of == 0, facts.versions[places].astype(np.uint64), of))
    whole = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
    whole["session"] = _best_of_session(whole["session"], np.concatenate(sessions))
    return whole


def _is_of(person: np.uint64, facts: Facts, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Which are by or about somebody."""
    found: Flags = (facts.speakers[places] == person) | (facts.subjects[places] == person)
    return found.astype(np.float64)


def _named_persons(question: Question, segments: Sequence[Searched]) -> list[np.uint64]:
    """Those who speak or are spoken of and that a question names, in its order."""
    named: set[int] = set()
    asked = np.array(question.names, np.uint64)
    for segment in segments if question.names else ():
        facts = segment.facts
        places = np.minimum(np.searchsorted(facts.persons, asked), len(facts.persons) - 1)
        for name in asked[facts.persons[places] == asked]:
            if np.any(segment.mask & ((facts.speakers == name) | (facts.subjects == name))):
                named.add(int(name))
    return [np.uint64(name) for name in question.names if name in named]


def _by_date(question: Question, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """How near each is to a time that the question means: people tell of something then or soon after."""
    found = np.zeros(len(times))
    if not len(times) or not question.spans:
        return found
    first, last = int(times.min()), int(times.max())
    for span in question.spans:
        if span.start <= last and first < span.end + span.tail:
            late = (times - span.end) / span.tail
            tail = np.where((late >= 0) & (late < 1), span.after + (span.later - span.after) * late, 0.0)
            found = np.maximum(found, np.where((times >= span.start) & (late < 0), span.inside, tail))
    return found


def _best_first(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The places of scores, the highest first; of equal ones the last.

    Score and place as one number, because numbers alone are sorted five times as fast.
    """
    most = max(1e-9, scores.max(initial=0.0))
    keys = (np.clip(scores / most, 0.0, 1.0) * _SCORE_UNITS).astype(np.uint64) << _PLACE_BITS
    keys |= np.arange(len(scores), dtype=np.uint64)
    keys.sort()
    places: NDArray[np.int64] = (keys[::-1] & np.uint64((1 << int(_PLACE_BITS)) - 1)).astype(np.int64)
    return places


def _fold_repeats(
    order: NDArray[np.int64], scores: NDArray[np.float64], said: Prints, signals: dict[str, NDArray[np.float64]]
) -> NDArray[np.int64]:
    """The order in which of those among the best that say the same only the first keeps its place.

    The others come behind whatever else is among the best; their scores are made less, and a part of them says so.
    """
    best = order[:FOLD_LIMIT]
    firsts = np.unique(said[best], return_index=True)[1]
    if len(firsts) == len(best):
        return order
    is_repeat = np.ones(len(best), np.bool_)
    is_repeat[firsts] = False
    is_repeat &= said[best] != 0
    repeats, others = best[is_repeat], best[~is_repeat]
    # Evenly between the last of the best and the first of the rest.
    least, rest = scores[best[-1]], scores[order[FOLD_LIMIT]] if len(order) > FOLD_LIMIT else 0.0
    lowered = least - (least - rest) * np.arange(1, len(repeats) + 1) / (len(repeats) + 1)
    parts = signals[REPEATED] = np.zeros(len(scores))
    parts[repeats] = lowered - scores[repeats]
    scores[repeats] = lowered
    return np.concatenate((others, repeats, order[FOLD_LIMIT:]))


def _best_of_session(topic: NDArray[np.float64], session: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Of each the best of its session; what has no session is one by itself."""
    found = np.zeros(len(topic))
    told = np.flatnonzero(topic > 0)
    if not len(told):
        return found
    # Most tell nothing, and are in no session of which one does.
    distinct, where = np.unique(session[told], return_inverse=True)
    best = np.zeros(len(distinct))
    np.maximum.at(best, where, topic[told])
    places = np.minimum(np.searchsorted(distinct, session), len(distinct) - 1)
    is_of = distinct[places] == session
    found[is_of] = best[places[is_of]]
    return found
