"""Which versions answer a question, best first: by their words, their neighbours, persons, dates and sessions.

All numbers of a ranking come from what the scope lets through: how many there are, how many hold a word, how long they
are. What a caller may not see is in none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.entry import REDACTED_BIT
from memoranda.retrieval.segment import Facts, Flags, Floats, Places, Postings, Seen
from memoranda.retrieval.time_words import Span
from memoranda.retrieval.weights import K1, LEG_LIMIT, WINDOW_B, WORDS_ONLY, B, Weights

_BEST_OF_SESSION: Final = 3
_FAR_DOWN: Final = 1e-4
# A word that so few of so many hold is looked at by itself.
_RARE: Final = 64
# Scores are below eight; a place takes the bits that a score leaves of 64.
_SCORE_UNITS: Final = float(1 << 35)
_PLACE_BITS: Final = np.uint64(26)
_SIGNALS: Final = ("score", "text", "window", "neighbours", "person", "date")


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
    # What each score is made of, by the names of the weights.
    signals: Mapping[str, NDArray[np.float64]]
    # Those by which the scores of all were made: the best of each leg.
    decisive: NDArray[np.int64]
    # How much of the question the best one covers, from 0 to 1.
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


def rank(question: Question, segments: Sequence[Searched], *, weights: Weights = WORDS_ONLY) -> Ranking:
    """Everything that holds a word of the question, best first; equal ones the last written first."""
    text, window = _Leg(len(question.words), B), _Leg(len(question.words), WINDOW_B)
    for segment in segments:
        lengths, seen, own = segment.facts.lengths32, segment.seen, segment.held
        text.add(lengths, own, count=seen.docs, length=seen.length)
        if segment.facts.has_talks:
            spread = [_spread(each, segment) for each in own]
            window.add(_window_lengths(segment, lengths), spread, count=seen.docs, length=seen.window_length)
        else:
            window.add(lengths, own, count=seen.docs, length=seen.length)
    raw = text.scores()
    held = [np.flatnonzero((each > 0) & segment.allowed) for each, segment in zip(raw, segments, strict=True)]
    if question.spans and not any(map(len, held)):
        # "What happened yesterday?": whatever is of then.
        held = [np.flatnonzero((_by_date(question, each.facts.times) > 0) & each.allowed) for each in segments]
    legs = _normalised(raw, held), _normalised(window.scores(), held)
    fused = _fused(question, segments, held, legs, weights)
    versions = np.concatenate([each.facts.versions[places] for each, places in zip(segments, held, strict=True)])
    plain = np.concatenate([each[places] for each, places in zip(raw, held, strict=True)])
    # Far down, where no leg tells two apart, the words themselves do.
    fused["score"] += _FAR_DOWN * plain / max(1e-9, plain.max(initial=0.0))
    order = _best_first(fused["score"])
    most = (K1 + 1.0) * float(text.weights.sum())
    decisive = versions[(fused["text"] > 0) | (fused["window"] > 0)]
    return Ranking(
        versions=versions[order],
        scores=fused.pop("score")[order],
        signals={name: column[order] for name, column in fused.items()},
        decisive=decisive,
        covered=min(1.0, float(plain.max()) / most) if len(plain) and most else 0.0,
        weights=text.weights,
        mean_length=text.mean_length,
    )


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


def _normalised(scores: list[Floats], held: list[NDArray[np.int64]]) -> list[Floats]:
    """The best of a leg, from 0 to 1."""
    everything = np.concatenate([each[places] for each, places in zip(scores, held, strict=True)])
    if not len(everything):
        return scores
    most = everything.max()
    least = np.partition(everything, -LEG_LIMIT)[-LEG_LIMIT] if len(everything) > LEG_LIMIT else np.float32(0)
    if most <= least:
        return [(each > 0).astype(np.float32) for each in scores]
    return [np.clip((each - least) / (most - least), 0, 1) for each in scores]


def _fused(
    question: Question,
    segments: Sequence[Searched],
    held: Sequence[NDArray[np.int64]],
    legs: tuple[list[Floats], list[Floats]],
    weights: Weights,
) -> dict[str, NDArray[np.float64]]:
    """The score of everything that is held, with the parts it is made of."""
    person = _named_person(question, segments)
    rows: list[tuple[NDArray[Any], ...]] = []
    sessions = []
    for segment, places, text, window in zip(segments, held, *legs, strict=True):
        facts = segment.facts
        before, after = segment.links
        score = np.append(weights.text * text + weights.window * window, np.float32(0))
        beside = weights.before * score[before[places]] + weights.after * score[after[places]]
        by_person = np.zeros(len(places))
        if person is not None:
            by_person[(facts.speakers[places] == person) | (facts.subjects[places] == person)] = 1.0
        by_date = _by_date(question, facts.times[places])
        total = score[places] + beside + weights.person * by_person + weights.date * by_date
        rows.append((total.astype(np.float64), text[places], window[places], beside, by_person, by_date))
        own = facts.sessions[places]
        sessions.append(np.where(own == 0, facts.versions[places].astype(np.uint64), own))
    columns = dict(zip(_SIGNALS, (np.concatenate(each) for each in zip(*rows, strict=True)), strict=True))
    columns["session"] = _of_session(columns["score"], np.concatenate(sessions))
    columns["score"] = columns["score"] + weights.session * columns["session"]
    return columns


def _named_person(question: Question, segments: Sequence[Searched]) -> np.uint64 | None:
    """The one of those who speak or are spoken of that a question names, if it is one."""
    named: set[int] = set()
    asked = np.array(question.names, np.uint64)
    for segment in segments if question.names else ():
        facts = segment.facts
        places = np.minimum(np.searchsorted(facts.persons, asked), len(facts.persons) - 1)
        for name in asked[facts.persons[places] == asked]:
            if np.any(segment.mask & ((facts.speakers == name) | (facts.subjects == name))):
                named.add(int(name))
    return np.uint64(named.pop()) if len(named) == 1 else None


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
    keys = (np.clip(scores, 0.0, 7.0) * _SCORE_UNITS).astype(np.uint64) << _PLACE_BITS
    keys |= np.arange(len(scores), dtype=np.uint64)
    keys.sort()
    return (keys[::-1] & np.uint64((1 << int(_PLACE_BITS)) - 1)).astype(np.int64)


def _of_session(total: NDArray[np.float64], session: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Of each the mean of the three best of its session; what has no session is one by itself."""
    means = np.zeros(len(total))
    scored = np.flatnonzero(total > 0)
    if not len(scored):
        return means
    # Most have no score, and are in no session that has one.
    distinct, where = np.unique(session[scored], return_inverse=True)
    order = np.lexsort((-total[scored], where))
    ordered = where[order]
    is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    best = np.arange(len(order)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1] < _BEST_OF_SESSION
    sums = np.bincount(ordered[best], total[scored][order][best], len(distinct))
    places = np.minimum(np.searchsorted(distinct, session), len(distinct) - 1)
    is_of = distinct[places] == session
    held = np.bincount(places[is_of], minlength=len(distinct))
    means[is_of] = (sums / np.minimum(held, _BEST_OF_SESSION))[places[is_of]]
    return means
