"""Which versions answer a question, best first: by their words, their neighbours, persons, dates and sessions.

All numbers of a ranking come from what the scope lets through: how many there are, how many hold a word, how long they
are. What a caller may not see is in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from memoranda.retrieval.entry import REDACTED_BIT
from memoranda.retrieval.retrievers import (
    Indexes,
    Leg,
    Searched,
    WordLegs,
    among,
    distinct,
    meaning_legs,
)
from memoranda.retrieval.segment import Facts, Flags, Floats, union
from memoranda.retrieval.weights import (
    COVERED,
    FOLD_LIMIT,
    GATE,
    LENGTH_LIMIT,
    TOPIC_DATE,
    TOPIC_PERSON,
    WITH_MEANING,
    WORDS_ONLY,
    TimeSpan,
    Weights,
)

_FAR_DOWN: Final = 1e-4
_SCORE_DIGITS: Final = 12
_NONE: Final = np.zeros(0, np.int64)
# By how many words a text has.
_LENGTHS: Final = np.log1p(np.arange(LENGTH_LIMIT + 1, dtype=np.float32))
# A score takes as many bits as a place leaves of 64.
_SCORE_UNITS: Final = float((1 << 38) - 1)
_PLACE_BITS: Final = np.uint64(26)
LEGS: Final = ("text", "window", "meaning", "context")
# What a score loses because a better one says the same.
REPEATED: Final = "repeated"
_UNCHANGED: Final[Mapping[str, float]] = MappingProxyType({})


class Scope(msgspec.Struct, frozen=True, kw_only=True):
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


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: the fingerprints of its words, of the names among them, and the times it means."""

    words: tuple[int, ...]
    names: tuple[int, ...] = ()
    spans: tuple[TimeSpan, ...] = ()


class Rows:
    """What comes back of all segments, one behind the other in the order written: each is known by its row."""

    def __init__(self, held: Sequence[Indexes]) -> None:
        self._held = held
        self._starts = [0, *accumulate(map(len, held))]

    def __len__(self) -> int:
        return self._starts[-1]

    def find(self, segment: int, places: Indexes) -> tuple[Indexes, Indexes]:
        """The rows of some places of a segment, and which of those places have one."""
        held = self._held[segment]
        if not len(held):
            return places[:0], places[:0]
        at = held.searchsorted(places)
        found = (held.take(at, mode="clip") == places).nonzero()[0]
        return at.take(found) + self._starts[segment], found

    def places(self, rows: Indexes) -> list[Indexes]:
        """In each segment the places of some rows, which are in order."""
        cuts = rows.searchsorted(self._starts).tolist()
        parts = zip(self._held, self._starts, cuts, cuts[1:], strict=False)
        return [places.take(rows[first:last] - start) for places, start, first, last in parts]

    def all(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """A column of the segments, of every row."""
        found = [column.take(places) for column, places in zip(columns, self._held, strict=True)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def take(self, columns: Sequence[NDArray[Any]], rows: Indexes) -> NDArray[Any]:
        """A column of the segments, of some rows."""
        if len(columns) == 1:
            return columns[0].take(self._held[0].take(rows))
        found: NDArray[Any] | None = None
        for column, places, start in zip(columns, self._held, self._starts, strict=False):
            if len(places):
                # Of rows of other segments anything.
                own = column.take(places.take(rows - start, mode="clip"))
                found = own if found is None else np.where(rows < start, found, own)
        return np.zeros(0, columns[0].dtype) if found is None else found


class Column(NamedTuple):
    """A part of scores: of those of which it is not nothing, by their rows; None: of every row."""

    rows: Indexes | None
    values: NDArray[Any]

    def at(self, row: int) -> float:
        return float(self.values[row] if self.rows is None else self.values[self.rows == row].sum())

    def rank(self, part: float, size: int) -> int:
        """The place of so much among all, of which there are so many."""
        nothing = size - len(self.values) if part < 0 else 0
        return 1 + nothing + int(np.count_nonzero(self.values > part))

    def weighed(self, weight: float) -> Column:
        return Column(self.rows, weight * self.values)

    def add_to(self, scores: NDArray[Any]) -> None:
        if self.rows is None:
            scores += self.values
        else:
            scores[self.rows] += self.values


class Ranking(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """Everything that holds a word of the question or is near to it; best first, as far as that is asked for.

    What no leg says anything of, not even of what stands beside it, differs only in its length: as long as what is
    asked for is better than any of those can be, they are only counted.
    """

    size: int
    # How much of the question the best one covers, or how near it is, from 0 to 1.
    covered: float
    # Whether anything is near enough, or has enough of the words, to be an answer.
    is_answered: bool
    # What each score is made of, by the names of the weights: they add up to it.
    signals: dict[str, Column]
    # The rows by which the scores of all were made: the best of each leg.
    _decisive: Indexes
    _rows: Rows
    _scores: NDArray[np.float64]
    _segments: Sequence[Searched]
    _words: WordLegs
    # What is not among the rows has no better score; None: everything is.
    _rest: float | None
    # The same of everything.
    _make_whole: Callable[[], Ranking]

    @cached_property
    def _first(self) -> Indexes:
        """The rows of the best, so far as nothing else comes between them; of those that say the same the first keeps
        its place, and the others come behind whatever else is among the best, or not at all.
        """
        first = _best_first(self._scores, FOLD_LIMIT + 1)
        best = first[:FOLD_LIMIT]
        if self._rest is not None:
            best = best[: int(np.count_nonzero(self._scores.take(best) > self._rest))]
        said = self._rows.take([each.facts.said for each in self._segments], best)
        named = [each for each in said.tolist() if each]
        if len(set(named)) == len(named):
            return first if self._rest is None else best
        is_repeat = said != 0
        is_repeat[np.unique(said, return_index=True)[1]] = False
        if self._rest is not None:
            others: Indexes = best[~is_repeat]
            return others
        return self._folded(first, is_repeat)

    def _folded(self, first: Indexes, is_repeat: Flags) -> Indexes:
        """The same of everything: the scores of repeats are made less, and a part of them says so."""
        best, scores = first[:FOLD_LIMIT], self._scores
        repeats, others = best[is_repeat], best[~is_repeat]
        # Evenly between the last of the best and the first of the rest.
        least, rest = (
            scores[best[-1]],
            scores[first[FOLD_LIMIT]] if len(first) > FOLD_LIMIT else 0.0,
        )
        lowered = least - (least - rest) * np.arange(1, len(repeats) + 1) / (len(repeats) + 1)
        self.signals[REPEATED] = Column(repeats, lowered - scores[repeats])
        return np.concatenate((others, repeats, first[FOLD_LIMIT:]))

    def __len__(self) -> int:
        return self.size

    @property
    def weights(self) -> NDArray[np.float64]:
        """What each word of the question weighs."""
        return self._words.text.weights

    @property
    def mean_length(self) -> float:
        """How long a text is in the mean."""
        return self._words.text.mean_length

    @property
    def decisive(self) -> list[tuple[Facts, Indexes]]:
        """Those by which the scores of all were made, the best of each leg: in each segment their places."""
        parts = zip(self._segments, self._rows.places(self._decisive), strict=True)
        return [(each.facts, places) for each, places in parts]

    @cached_property
    def whole(self) -> Ranking:
        """The same of everything."""
        return self if self._rest is None else self._make_whole()

    @cached_property
    def _order(self) -> Indexes:
        first = self._first
        return np.concatenate((first, _best_first(self._scores, len(self))[len(first) :]))

    @cached_property
    def everything(self) -> NDArray[np.int64]:
        """All of it, in the order written."""
        whole = self.whole
        return whole._rows.all([each.facts.versions for each in whole._segments])

    @property
    def versions(self) -> NDArray[np.int64]:
        """All of it, best first."""
        return self.everything[self.whole._order]

    @property
    def scores(self) -> NDArray[np.float64]:
        whole = self.whole
        return whole._final(whole._order)

    def best(self, start: int, end: int) -> tuple[list[int], list[float]]:
        """The versions from one place to another, the best being at 0, and their scores."""
        first, end = self._first, min(end, len(self))
        if end > len(first) and self._rest is not None:
            return self.whole.best(start, end)
        rows = (first if end <= len(first) else self._order)[start:end]
        return self._versions(rows).tolist(), self._final(rows).tolist()

    def _final(self, rows: Indexes) -> NDArray[np.float64]:
        """Scores, less those of repeats; what differs by the order of the sums alone is equal."""
        scores = self._scores
        if REPEATED in self.signals:
            scores = scores.copy()
            self.signals[REPEATED].add_to(scores)
        return scores.take(rows).round(_SCORE_DIGITS)

    def row_of(self, version_id: int) -> int:
        return int(self.everything.searchsorted(version_id))

    def by_words(self) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """What holds a word, with how well it matches: by itself, and with its neighbours."""
        held = [each.holding for each in self._words.words]
        versions = Rows(held).all([each.facts.versions for each in self._segments])
        for leg in (self._words.text, self._words.window):
            yield versions, np.concatenate(leg.of(held))

    def _versions(self, rows: Indexes) -> NDArray[np.int64]:
        return self._rows.take([each.facts.versions for each in self._segments], rows)


def rank(
    question: Question,
    segments: Sequence[Searched],
    *,
    weights: Weights | None = None,
    changed: Mapping[str, float] = _UNCHANGED,
    is_whole: bool = False,
) -> Ranking:
    """Everything that holds a word of the question or is among the nearest by meaning, best first.

    Of equal ones the last written comes first. `changed`: single weights by their names. `is_whole`: weigh all of it.
    """
    persons, seen = _named_persons(question, segments), [each.seen for each in segments]
    some = segments
    if not question.spans:
        # What holds no word and is near to nothing is only counted.
        some = [
            each for each in segments if each.near is not None or any(each.postings)
        ] or segments
    is_simple = not persons and not question.spans
    words = WordLegs(len(question.words), some, seen, is_whole=is_whole or not is_simple)
    has_meaning = any(each.near is not None for each in some)
    # A question whose words nobody used is not ranked by its stray ones.
    gate = min(1.0, (words.covered / GATE) ** 2) if has_meaning else 1.0
    legs = [words.text.legs(), words.window.legs()]
    if has_meaning:
        legs += meaning_legs(some, legs[0], gate)
    near = [_NONE] * len(some)
    if has_meaning:
        near = [_near_enough(*pair) for pair in zip(some, *legs[2:], strict=True)]
    legs[:2] = [_gated(leg, gate) for leg in legs[:2]]
    beside = _beside(some, legs)
    every = words.every()
    held = (
        _held(question, words, near)
        if words.is_whole
        else _told(some, words, near, [*legs, *beside, every])
    )
    parts = _Parts(question, some, held, legs, beside, every)
    # Far down, where no leg tells two apart, the words themselves do.
    word_scores = np.concatenate(words.text.of(held)).astype(np.float64)
    scores = (_FAR_DOWN / (words.text.best or 1.0)) * word_scores
    chosen = replace(weights or (WITH_MEANING if has_meaning else WORDS_ONLY), **changed)
    signals = {}
    for name, column in parts.columns(persons):
        signals[name] = column.weighed(getattr(chosen, name))
        signals[name].add_to(scores)
    return Ranking(
        size=len(parts.rows) if words.is_whole else words.size + _count_near_alone(words, near),
        covered=max([words.covered, *(_nearness(each) for each in some)]),
        is_answered=bool(question.spans) or _is_answered(words.covered, some),
        signals=signals,
        _decisive=parts.in_any_leg(),
        _rows=parts.rows,
        _scores=scores,
        _segments=some,
        _words=words,
        _rest=None if words.is_whole else _most_by_length(some, chosen),
        _make_whole=lambda: rank(
            question, segments, weights=weights, changed=changed, is_whole=True
        ),
    )


def _gated(leg: Sequence[Leg], gate: float) -> list[Leg]:
    """Return a leg whose values count for the part `gate`."""
    return [Leg(part.places, np.float32(gate) * part.values) for part in leg]


def _count_near_alone(words: WordLegs, near: Sequence[Indexes]) -> int:
    """Return how many rows are near in meaning and hold no word of the question."""
    pairs = zip(words.words, near, strict=True)
    return sum(int(np.count_nonzero(~column.holders.take(places))) for column, places in pairs)


def _most_by_length(segments: Sequence[Searched], weights: Weights) -> float:
    """What nothing gets of which no leg says anything."""
    longest = min(LENGTH_LIMIT, max(each.facts.longest for each in segments))
    return 2 * _FAR_DOWN + max(0.0, weights.length) * float(_LENGTHS[longest])


def _beside(segments: Sequence[Searched], legs: Sequence[list[Leg]]) -> tuple[list[Leg], list[Leg]]:
    """What legs say of the one before each, and of the one after: an answer stands behind its question."""
    what_follows = legs[2] if len(legs) > 2 else legs[1]
    before = [_moved(leg, each.seen.links[1]) for leg, each in zip(legs[1], segments, strict=True)]
    return before, [
        _moved(leg, each.seen.links[0]) for leg, each in zip(what_follows, segments, strict=True)
    ]


def _moved(leg: Leg, links: Indexes) -> Leg:
    """The same of what stands beside each."""
    beside = links.take(leg.places)
    has_one = (beside >= 0).nonzero()[0]
    return Leg(beside.take(has_one), leg.values.take(has_one))


def _held(question: Question, words: WordLegs, near: Sequence[Indexes]) -> list[Indexes]:
    """What comes back: what holds a word or is near; of a question that says only when, what is of then."""
    held = [each.holding for each in words.words]
    held = [
        union(places, some) if len(some) else places
        for places, some in zip(held, near, strict=True)
    ]
    if question.spans and not any(map(len, held)):
        # "What happened yesterday?"
        segments = [each.segment for each in words.words]
        held = [
            ((_by_date(question, each.facts.times) > 0) & each.allowed).nonzero()[0]
            for each in segments
        ]
    return held


def _told(
    segments: Sequence[Searched],
    words: WordLegs,
    near: Sequence[Indexes],
    legs: Sequence[list[Leg]],
) -> list[Indexes]:
    """What comes back and of which a leg says something, or of what stands beside it, or is of the same session."""
    places = [np.concatenate([leg.places for leg in each]) for each in zip(*legs, strict=True)]
    sessions = [each.facts.sessions.take(some) for each, some in zip(segments, places, strict=True)]
    named = distinct(np.concatenate(sessions))
    named = named[named != 0]
    found = []
    for each, some, beside, is_near in zip(segments, places, words.words, near, strict=True):
        everything = np.concatenate((some, each.facts.in_sessions(named)[0]))
        found.append(
            distinct(np.concatenate((everything[beside.holders.take(everything)], is_near)))
        )
    return found


def _near_enough(segment: Searched, own: Leg, context: Leg) -> Indexes:
    """What may come back, and is near enough to be an answer though it shares no word with the question."""
    near = segment.near
    if near is None:
        return _NONE
    is_near = segment.allowed.take(near.places) & (np.maximum(near.own, near.context) >= near.floor)
    found: Indexes = near.places[
        is_near & (among(near.places, own.places) | among(near.places, context.places))
    ]
    return found


def _is_answered(covered: float, segments: Sequence[Searched]) -> bool:
    """Whether the best one covers enough of a question's words, or something is near enough with what words add."""
    line = max((each.near.line for each in segments if each.near is not None), default=0.0)
    return covered >= GATE or COVERED * covered + max(map(_nearness, segments), default=0.0) >= line


def _nearness(segment: Searched) -> float:
    """How near the nearest is that may come back; 0 where nothing tells."""
    near = segment.near
    if near is None:
        return 0.0
    found = float(near.own.max(initial=0.0, where=segment.allowed.take(near.places)))
    return found if found >= near.floor else 0.0


class _Parts:
    """What the score of everything that comes back is made of, part by part, before anything is weighed.

    What a question does not ask for is no part: it names nobody, or no time.
    """

    def __init__(
        self,
        question: Question,
        segments: Sequence[Searched],
        held: Sequence[Indexes],
        legs: Sequence[list[Leg]],
        beside: tuple[list[Leg], list[Leg]],
        every: list[Leg],
    ) -> None:
        self._question, self._segments, self._held, self.rows = question, segments, held, Rows(held)
        self._legs = {name: self._column(leg) for name, leg in zip(LEGS, legs, strict=False)}
        self._before, self._after = (self._column(leg) for leg in beside)
        self._every = self._column(every)

    def in_any_leg(self) -> Indexes:
        """The rows of which some leg says more than nothing."""
        told = [
            column.rows[column.values > 0]
            for column in self._legs.values()
            if column.rows is not None
        ]
        return distinct(np.concatenate(told))

    def columns(self, persons: Sequence[np.uint64]) -> Iterator[tuple[str, Column]]:
        yield from self._legs.items()
        yield "every", self._every
        yield "before", self._before
        yield "after", self._after
        topic = np.zeros(len(self.rows))
        for column in self._legs.values():
            Column(column.rows, column.values / np.float32(len(LEGS))).add_to(topic)
        if persons:
            is_of = self._told(lambda facts, places: _is_of(persons[0], facts, places))
            yield ("person" if len(persons) == 1 else "first_named"), is_of
            if len(persons) == 1:
                is_of.weighed(TOPIC_PERSON).add_to(topic)
        if self._question.spans:
            date = self._told(
                lambda facts, places: _by_date(self._question, facts.times.take(places))
            )
            yield "date", date
            date.weighed(TOPIC_DATE).add_to(topic)
        yield "session", self._best_of_sessions(topic)
        # Long enough is long enough.
        yield (
            "length",
            Column(
                None,
                _LENGTHS.take(
                    self.rows.all([s.facts.lengths for s in self._segments]), mode="clip"
                ),
            ),
        )

    def _column(self, legs: Iterable[Leg]) -> Column:
        """What legs say of what comes back."""
        rows, values = [], []
        for number, leg in enumerate(legs):
            at, held = self.rows.find(number, leg.places)
            rows.append(at)
            values.append(leg.values.take(held))
        return Column(np.concatenate(rows), np.concatenate(values))

    def _told(self, told: Callable[[Facts, Indexes], NDArray[np.float64]]) -> Column:
        found = np.concatenate(
            [told(s.facts, places) for s, places in zip(self._segments, self._held, strict=True)]
        )
        rows = np.flatnonzero(found != 0)
        return Column(rows, found[rows])

    def _best_of_sessions(self, topic: NDArray[Any]) -> Column:
        """Of each the best of its session; what has no session is one by itself."""
        told = np.flatnonzero(topic > 0)
        sessions = self.rows.take([each.facts.sessions for each in self._segments], told)
        is_alone = sessions == 0
        alone, others = told[is_alone], told[~is_alone]
        rows, values = [alone], [topic.take(alone).astype(np.float64)]
        sessions = sessions[~is_alone]
        order = sessions.argsort(kind="stable")
        sessions = sessions.take(order)
        begins = (
            np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1]))
            if len(sessions)
            else _NONE
        )
        best = (
            np.maximum.reduceat(topic.take(others.take(order)), begins)
            if len(sessions)
            else topic[:0]
        )
        for number, segment in enumerate(self._segments if len(sessions) else ()):
            places, of = segment.facts.in_sessions(sessions.take(begins))
            at, held = self.rows.find(number, places)
            rows.append(at)
            values.append(best.take(of.take(held)))
        return Column(np.concatenate(rows), np.concatenate(values))


def _is_of(person: np.uint64, facts: Facts, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Which are by or about somebody."""
    found: Flags = (facts.speakers[places] == person) | (facts.subjects[places] == person)
    return found.astype(np.float64)


def _named_persons(question: Question, segments: Sequence[Searched]) -> list[np.uint64]:
    """Return the speakers and subjects that a question names, in its order."""
    named: set[int] = set()
    names = np.array(question.names, np.uint64)
    for segment in segments if question.names else ():
        facts = segment.facts
        for name in names[among(names, facts.persons)]:
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
            tail = np.where(
                (late >= 0) & (late < 1), span.after + (span.later - span.after) * late, 0.0
            )
            found = np.maximum(
                found, np.where((times >= span.start) & (late < 0), span.inside, tail)
            )
    return found


def _best_first(scores: NDArray[np.float64], count: int) -> Indexes:
    """The rows of so many scores, the highest first; of equal ones the last.

    Score and row as one number, because numbers alone are sorted five times as fast.
    """
    most = max(1e-9, scores.max(initial=0.0))
    rows = np.arange(len(scores))
    if count < len(scores):
        # Those that are less than the last by so little that they count as equal to it are looked at, too.
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        rows = np.flatnonzero(scores >= min(least, most) - 2.0 * most / _SCORE_UNITS)
    keys = (np.clip(scores.take(rows) / most, 0.0, 1.0) * _SCORE_UNITS).astype(
        np.uint64
    ) << _PLACE_BITS
    keys |= rows.astype(np.uint64)
    keys.sort()
    found: Indexes = (keys[::-1][:count] & np.uint64((1 << int(_PLACE_BITS)) - 1)).astype(np.int64)
    return found
