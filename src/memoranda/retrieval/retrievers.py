"""The legs of a ranking: what each says of the versions of a segment, as far as that can count.

Of a leg only the best hundred count, so most versions need never be weighed: once a hundred are known, whatever holds
no other words than such as together weigh less than the last of them is left out. That changes no order.

All numbers come from what the scope lets through: how many there are, how many hold a word, how long they are.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.segment import Facts, Flags, Floats, Postings, Seen
from memoranda.retrieval.weights import (
    K1,
    LEG_LIMIT,
    LINE_OF_FEW,
    LINE_OF_MANY,
    LINE_OF_TALKS,
    TYPICAL,
    WINDOW_B,
    B,
)

# Places as arrays are looked up by: twice as fast as by shorter numbers.
Indexes: TypeAlias = NDArray[np.int64]

# So many are all weighed.
FEW: Final = 16_384
# And so many without finding out first which of their words matter.
VERY_FEW: Final = 4_096
# So many places are sorted sooner than marked.
SOON_SORTED: Final = 2_048
# Of so many words it is kept how many windows hold them.
_KEPT_WORDS: Final = 16_384
# What rounding may add to a sum of single-precision numbers.
_ROUNDING: Final = 1.0 + 1e-4


class Near(NamedTuple):
    """How near some versions of a segment are to a question: by themselves, and with what was said before them.

    And to a typical question. What is further than `floor` is no answer, and where all are further than `line` there is
    none; 0: not everything was compared, or nothing tells.
    """

    # Those that were compared, in order; the columns are of these.
    places: Indexes
    own: Floats
    context: Floats
    typical_own: Floats
    typical_context: Floats
    floor: float
    line: float = 0.0


class Searched(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A segment as a question sees it: its facts, what the caller may see of it, and where each word stands.

    Every statistic is of what may be seen, whatever else the question asks for; only `allowed` comes back.
    """

    facts: Facts
    mask: Flags
    allowed: Flags
    # In the order of the question's words; None where it has none of one.
    postings: Sequence[Postings | None]
    # What the first of the words are, by which it is kept how many windows hold them.
    names: Sequence[Hashable] = ()
    # Where meaning is asked for.
    near: Near | None = None

    @cached_property
    def seen(self) -> Seen:
        """What all that may be seen comes to."""
        return self.facts.seen(self.mask)


class _Held(NamedTuple):
    """Where a word stands among what may be seen, and how often."""

    places: Indexes
    counts: NDArray[Any]


class Leg(NamedTuple):
    """What is more than nothing in a leg of one segment: places in order, and how much each is, from 0 to 1."""

    places: Indexes
    values: Floats


def _masked(postings: Postings, mask: Flags | None) -> _Held | None:
    places, counts = postings[0].astype(np.int64), postings[1]
    if mask is not None:
        kept = mask.take(places).nonzero()[0]
        places, counts = places.take(kept), counts.take(kept)
    return _Held(places, counts) if len(places) else None


class Words:
    """Where the words of a question stand in a segment, among what may be seen, and in how many versions."""

    def __init__(self, segment: Searched) -> None:
        self.segment, self.size = segment, len(segment.facts)
        mask = None if segment.seen.docs == self.size else segment.mask
        self.held = [None if each is None else _masked(each, mask) for each in segment.postings]
        self._counts: dict[int, NDArray[Any]] = {}

    def counts(self, word: int) -> NDArray[Any]:
        """How often each version holds a word; behind all one that is nowhere."""
        found = self._counts.get(word)
        if found is None:
            held = self.held[word]
            assert held is not None
            found = self._counts[word] = np.zeros(self.size + 1, held.counts.dtype)
            found[held.places] = held.counts
        return found

    @property
    def is_allowed(self) -> bool:
        """Whether all that may be seen may come back."""
        return self.segment.allowed is self.segment.mask

    def places_of(self, words: Iterable[int]) -> Indexes:
        """Where some words stand, in no order, a place as often as it has one of them."""
        found = [each.places for word in words if (each := self.held[word]) is not None]
        return found[0] if len(found) == 1 else np.concatenate(found or [_NOWHERE])

    @cached_property
    def holders(self) -> Flags:
        """What holds a word and may come back."""
        found = np.zeros(self.size, np.bool_)
        found[self.places_of(range(len(self.held)))] = True
        if not self.is_allowed:
            found &= self.segment.allowed
        return found

    @cached_property
    def holding(self) -> Indexes:
        """The same, by their places."""
        return self.holders.nonzero()[0]


class _Texts:
    """The texts of a segment that a leg weighs: versions, or versions with those they are linked to."""

    def __init__(self, words: Words, lengths: Floats, links: Sequence[Indexes] = ()) -> None:
        self.words, self._lengths, self._links = words, lengths, links
        self._marks: dict[int, Flags] = {}
        held = enumerate(words.held)
        self.holding = [
            0 if each is None else self._count(word, len(each.places)) for word, each in held
        ]

    def _count(self, word: int, places: int) -> int:
        """How many texts hold a word; kept for those who see the same."""
        if not self._links:
            return places
        segment = self.words.segment
        kept, names = segment.seen.windows_holding, segment.names
        name = names[word] if word < len(names) else None
        found = kept.get(name)
        if found is None:
            found = int(np.count_nonzero(self._marked(word)[:-1]))
            if name is not None:
                if len(kept) >= _KEPT_WORDS:
                    kept.clear()
                kept[name] = found
        return found

    def most(self, word: int) -> int:
        """No text holds a word more often."""
        held = self.words.held[word]
        return 0 if held is None else int(held.counts.max()) * (1 + len(self._links))

    def _marked(self, word: int) -> Flags:
        found = self._marks.get(word)
        if found is None:
            held = self.words.held[word]
            assert held is not None
            # What is linked to nothing marks a place behind all.
            found = self._marks[word] = np.zeros(self.words.size + 1, np.bool_)
            found[held.places] = True
            for links in self._links:
                found[links.take(held.places)] = True
        return found

    @property
    def is_own(self) -> bool:
        """Whether a text is a version, and all that hold a word may come back."""
        return not self._links and self.words.is_allowed

    def holding_any(self, words: Sequence[int], others: Indexes | None = None) -> Indexes:
        """The texts that hold one of some words, and some others."""
        if self.is_own and len(words) == len(self.words.held):
            return self.words.holding
        own = self.words.places_of(words)
        # What is linked to nothing is linked to -1.
        linked = [links.take(own) for links in self._links]
        places = np.concatenate([own, *linked] if others is None else [own, *linked, others])
        if len(places) <= SOON_SORTED:
            found = distinct(places)
            return found[1:] if len(found) and found[0] < 0 else found
        marks = np.zeros(self.words.size + 1, np.bool_)
        marks[places] = True
        return marks[:-1].nonzero()[0]

    def scores(self, bm25: _Bm25, places: Indexes) -> Floats:
        norms = bm25.norms(self._lengths.take(places))
        beside = [links.take(places) for links in self._links]
        found = np.zeros(len(places), np.float32)
        for word, held in enumerate(self.words.held):
            if held is not None and len(places):
                counts = self.words.counts(word)
                times = counts.take(places).astype(np.float32)
                for each in beside:
                    times += counts.take(each)
                found += bm25.scores(word, times, norms)
        return found


class _Bm25:
    """How much words weigh in one kind of text."""

    def __init__(
        self, b: float, texts: Sequence[_Texts], words: int, *, docs: int, length: float
    ) -> None:
        self.mean_length = max(1.0, length / max(1, docs))
        self.holding = np.zeros(words)
        for each in texts:
            self.holding += each.holding
        # The rarer, the more.
        self.weights = np.log(
            1.0 + (np.maximum(docs, self.holding) - self.holding + 0.5) / (self.holding + 0.5)
        )
        self._least, self._slope = np.float32(K1 * (1.0 - b)), np.float32(K1 * b / self.mean_length)

    def norms(self, lengths: Floats) -> Floats:
        found: Floats = self._least + self._slope * lengths
        return found

    def scores(self, word: int, counts: Floats, norms: Floats) -> Floats:
        found: Floats = np.float32(self.weights[word] * (K1 + 1.0)) * counts / (counts + norms)
        return found

    def most(self, texts: Sequence[_Texts]) -> NDArray[np.float64]:
        """What no text gets for each word: not the shortest one that holds it as often as any."""
        counts = np.array(
            [max(each.most(word) for each in texts) for word in range(len(self.weights))],
            np.float64,
        )
        return (K1 + 1.0) * self.weights * counts / (counts + float(self._least))


class WordLeg:
    """How well the words of texts match: of those that may be among the best.

    Of more than a hundred the best hundred count. So as soon as a hundred are known, a text that holds no other words
    than such as together weigh less than the last of them need not be weighed: it counts for nothing.
    """

    def __init__(
        self, texts: Sequence[_Texts], bm25: _Bm25, firsts: Sequence[Indexes] | None, *, size: int
    ) -> None:
        """`firsts`: some that are probably good; None: everything is weighed. `size`: how many may come back."""
        self._texts, self._bm25 = texts, bm25
        everything = range(len(bm25.weights))
        if firsts is None or size <= LEG_LIMIT or bm25.holding.sum() <= VERY_FEW:
            self.places = [each.holding_any(everything) for each in texts]
        else:
            words = self._needed(firsts)
            self.places = [
                each.holding_any(words, some) for each, some in zip(texts, firsts, strict=True)
            ]
        self._scores = self.of(self.places)
        held = [_held_of(*each) for each in zip(texts, self.places, self._scores, strict=True)]
        self._holders, self._held = [places for places, _ in held], [scores for _, scores in held]
        self._scale = _Scale.of(self._held, is_part=size > LEG_LIMIT)
        self.best = float(self._scale.most) if size else 0.0
        self.weights, self.mean_length = bm25.weights, bm25.mean_length

    def _needed(self, firsts: Sequence[Indexes]) -> list[int]:
        """The words without one of which nothing is among the best."""
        scores = np.concatenate(self.of(firsts))
        held = [
            each.words.holders.take(places)
            for each, places in zip(self._texts, firsts, strict=True)
        ]
        scores = scores[np.concatenate(held)]
        most = self._bm25.most(self._texts)
        lightest_first = most.argsort()
        least = (
            float(np.partition(scores, -LEG_LIMIT)[-LEG_LIMIT]) if len(scores) >= LEG_LIMIT else 0.0
        )
        is_needed = most[lightest_first].cumsum() * _ROUNDING >= least
        return [int(word) for word in lightest_first[is_needed]]

    def of(self, places: Sequence[Indexes]) -> list[Floats]:
        """How well some match."""
        return [
            each.scores(self._bm25, some) for each, some in zip(self._texts, places, strict=True)
        ]

    def legs(self) -> list[Leg]:
        return [
            self._scale.leg(places, scores)
            for places, scores in zip(self.places, self._scores, strict=True)
        ]

    def firsts(self) -> list[Indexes]:
        """As many of the best as count, or all that there are, in each segment."""
        scores = np.concatenate(self._held)
        if len(scores) <= LEG_LIMIT:
            return self._holders
        best = scores.argpartition(-LEG_LIMIT)[-LEG_LIMIT:]
        best.sort()
        starts = np.cumsum([0, *map(len, self._holders)])
        cuts = best.searchsorted(starts)
        parts = zip(self._holders, starts[:-1], cuts[:-1], cuts[1:], strict=True)
        return [places.take(best[first:last] - start) for places, start, first, last in parts]


def _held_of(texts: _Texts, places: Indexes, scores: Floats) -> tuple[Indexes, Floats]:
    """Of some texts those that come back, with their scores."""
    if texts.is_own:
        return places, scores
    some = texts.words.holders.take(places).nonzero()[0]
    return places.take(some), scores.take(some)


class WordLegs:
    """Both legs of words: of versions, and of versions with the one before and the one after."""

    def __init__(
        self, words: int, segments: Sequence[Searched], seen: Sequence[Seen], *, is_whole: bool
    ) -> None:
        """`is_whole`: weigh the own words of everything that holds one."""
        self.words = [Words(segment) for segment in segments]
        self.size = sum(int(np.count_nonzero(each.holders)) for each in self.words)
        self.is_whole = is_whole = is_whole or self.size <= FEW
        docs, length = sum(each.docs for each in seen), sum(each.length for each in seen)
        texts = [_Texts(each, each.segment.facts.lengths32) for each in self.words]
        bm25 = _Bm25(B, texts, words, docs=docs, length=length)
        firsts = None if is_whole else _holding_rare(texts, bm25.holding)
        self.text = WordLeg(texts, bm25, firsts, size=self.size)
        windows = [_windows(each) for each in self.words]
        around = _Bm25(
            WINDOW_B, windows, words, docs=docs, length=sum(each.window_length for each in seen)
        )
        self.window = WordLeg(windows, around, self.text.firsts(), size=self.size)

    def every(self) -> list[Leg]:
        """What holds every word of a question of several, and may come back."""
        return [_holding_every(each) for each in self.words]

    @property
    def covered(self) -> float:
        """How much of the question the best one covers, from 0 to 1."""
        most = (K1 + 1.0) * float(self.text.weights.sum())
        return min(1.0, self.text.best / most) if most else 0.0


def _holding_every(words: Words) -> Leg:
    held = {word: each.places for word, each in enumerate(words.held) if each is not None}
    if len(held) < max(2, len(words.held)):
        return Leg(_NOWHERE, _NOTHING)
    rarest_first = sorted(held, key=lambda word: len(held[word]))
    places = held[rarest_first[0]]
    for word in rarest_first[1:]:
        places = places[words.counts(word).take(places) > 0]
    places = places if words.is_allowed else places[words.holders.take(places)]
    return Leg(places, np.ones(len(places), np.float32))


def _windows(words: Words) -> _Texts:
    facts, seen = words.segment.facts, words.segment.seen
    return (
        _Texts(words, seen.window_lengths, seen.links)
        if facts.has_talks
        else _Texts(words, facts.lengths32)
    )


def _holding_rare(texts: Sequence[_Texts], holding: NDArray[np.float64]) -> list[Indexes]:
    """What holds the rarest words, of as many as are held by enough."""
    rarest_first = holding.argsort()
    enough = int(holding[rarest_first].cumsum().searchsorted(2 * LEG_LIMIT)) + 1
    return [each.holding_any(rarest_first[:enough].tolist()) for each in texts]


class _Scale(NamedTuple):
    """From what score on something counts, and the best one."""

    least: np.float32
    most: np.float32

    @classmethod
    def of(
        cls, scores: Sequence[Floats], *, is_part: bool = False, least_of_all: bool = False
    ) -> _Scale:
        """Counted from the last of the best, or from nothing where there are few (or from the last of those).

        `is_part`: the best of more than those that count.
        """
        together = scores[0] if len(scores) == 1 else np.concatenate(scores)
        if not len(together):
            return cls(np.float32(np.inf), np.float32(np.inf))
        most = together.max()
        if is_part or len(together) > LEG_LIMIT:
            return cls(np.partition(together, -LEG_LIMIT)[-LEG_LIMIT], most)
        return cls(together.min() if least_of_all else np.float32(0), most)

    def leg(self, places: Indexes, scores: Floats) -> Leg:
        if self.most <= self.least:
            counting = (scores >= self.most).nonzero()[0]
            return Leg(places.take(counting), np.ones(len(counting), np.float32))
        counting = (scores > self.least).nonzero()[0]
        values = (scores.take(counting) - self.least) / (self.most - self.least)
        return Leg(places.take(counting), np.minimum(values, np.float32(1)))


def meaning_legs(
    segments: Sequence[Searched], text: Sequence[Leg], gate: float
) -> tuple[list[Leg], list[Leg]]:
    """How near each is by itself, and with what was said before; what has no vector yet counts as its words do."""
    typical = np.float32(TYPICAL * (1.0 - gate) ** 2)
    near = [each.near or _NOT_NEAR for each in segments]
    own = [each.own - typical * each.typical_own for each in near]
    context = [each.context - typical * each.typical_context for each in near]
    allowed = [
        segment.allowed.take(each.places) for segment, each in zip(segments, near, strict=True)
    ]
    made = []
    for column in (own, context):
        scale = _Scale.of(
            [each[some] for each, some in zip(column, allowed, strict=True)], least_of_all=True
        )
        legs = [scale.leg(each.places, scores) for each, scores in zip(near, column, strict=True)]
        parts = zip(legs, text, near, strict=True)
        made.append([_or_else(leg, words, each.places) for leg, words, each in parts])
    return made[0], made[1]


def line_of(docs: int, floor: float, line: float, share: float) -> float:
    """How near the nearest of so many must be for there to be an answer; `share`: how many of them stand alone."""
    few, here, many = (
        math.sqrt(math.log(max(2, each))) for each in (LINE_OF_FEW, docs, LINE_OF_MANY)
    )
    part = min(1.0, max(0.0, (here - few) / (many - few)))
    return floor + part * (line + LINE_OF_TALKS * (1.0 - share) - floor)


_NOTHING: Final = np.zeros(0, np.float32)
_NOWHERE: Final = np.zeros(0, np.int64)
_NOT_NEAR: Final = Near(_NOWHERE, _NOTHING, _NOTHING, _NOTHING, _NOTHING, 0.0)


def _or_else(leg: Leg, other: Leg, known: Indexes) -> Leg:
    """A leg, and another for what this one knows nothing of."""
    unknown = ~among(other.places, known)
    places = np.concatenate((leg.places, other.places[unknown]))
    values = np.concatenate((leg.values, other.values[unknown]))
    order = np.argsort(places)
    return Leg(places[order], values[order])


def distinct(some: NDArray[Any]) -> NDArray[Any]:
    """The same in order, each once; of a few thousand numbers sooner than `numpy.unique`, which hashes them."""
    found = np.sort(some)
    is_new = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=is_new[1:])
    return found[is_new]


def among(some: NDArray[np.integer], sought: NDArray[np.integer]) -> Flags:
    """Return a flag for each number that is among others, which are in order."""
    if not len(sought):
        return np.zeros(len(some), np.bool_)
    found: Flags = sought.take(sought.searchsorted(some), mode="clip") == some
    return found
