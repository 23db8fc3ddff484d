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

from memoranda.retrieval.segment import Flags, Floats, Postings, VersionColumns, VisibleStatistics
from memoranda.retrieval.weights import (
    CANDIDATE_LIMIT,
    CONVERSATION_BONUS,
    FEW_VERSIONS,
    K1,
    MANY_VERSIONS,
    TYPICAL_SHARE,
    WINDOW_B,
    B,
)

# Places as arrays are looked up by: twice as fast as by shorter numbers.
RowIndexes: TypeAlias = NDArray[np.int64]

# Versions: with fewer matches every one is scored, because pruning would cost more than it saves.
SCORE_ALL_LIMIT: Final = 16_384
# Postings: below this, finding the essential words costs more than scoring all matches.
SKIP_PRUNING_LIMIT: Final = 4_096
# Rows: up to this many are sorted, because that is faster than marking them in an array of flags.
SORT_LIMIT: Final = 2_048
# Words whose window frequencies are cached per view; about 1 MB.
_KEPT_WORDS: Final = 16_384
# What rounding may add to a sum of single-precision numbers.
_ROUNDING: Final = 1.0 + 1e-4


class Similarities(NamedTuple):
    """How near some versions of a segment are to a question: by themselves, and with what was said before them.

    And to a typical question. What is further than `floor` is no answer, and where all are further than `line` there is
    none; 0: not everything was compared, or nothing tells.
    """

    # Those that were compared, in order; the columns are of these.
    rows: RowIndexes
    own: Floats
    context: Floats
    typical_own: Floats
    typical_context: Floats
    threshold: float
    answer_threshold: float = 0.0


class SearchedSegment(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A segment as a question sees it: its facts, what the caller may see of it, and where each word stands.

    Every statistic is of what may be seen, whatever else the question asks for; only `allowed` comes back.
    """

    columns: VersionColumns
    visible: Flags
    allowed: Flags
    # In the order of the question's words; None where it has none of one.
    postings: Sequence[Postings | None]
    # What the first of the words are, by which it is kept how many windows hold them.
    word_keys: Sequence[Hashable] = ()
    # Where meaning is asked for.
    similarities: Similarities | None = None

    @cached_property
    def statistics(self) -> VisibleStatistics:
        """What all that may be seen comes to."""
        return self.columns.statistics(self.visible)


class _PostingList(NamedTuple):
    """Where a word stands among what may be seen, and how often."""

    rows: RowIndexes
    frequencies: NDArray[Any]


class RetrieverScores(NamedTuple):
    """What is more than nothing in a leg of one segment: places in order, and how much each is, from 0 to 1."""

    rows: RowIndexes
    scores: Floats


def _visible_postings(postings: Postings, mask: Flags | None) -> _PostingList | None:
    places, counts = postings[0].astype(np.int64), postings[1]
    if mask is not None:
        kept = mask.take(places).nonzero()[0]
        places, counts = places.take(kept), counts.take(kept)
    return _PostingList(places, counts) if len(places) else None


class QueryPostings:
    """Where the words of a question stand in a segment, among what may be seen, and in how many versions."""

    def __init__(self, segment: SearchedSegment) -> None:
        self.segment, self.size = segment, len(segment.columns)
        mask = None if segment.statistics.count == self.size else segment.visible
        self.lists = [
            None if each is None else _visible_postings(each, mask) for each in segment.postings
        ]
        self._counts: dict[int, NDArray[Any]] = {}

    def frequencies(self, word: int) -> NDArray[Any]:
        """How often each version holds a word; behind all one that is nowhere."""
        found = self._counts.get(word)
        if found is None:
            held = self.lists[word]
            assert held is not None
            found = self._counts[word] = np.zeros(self.size + 1, held.frequencies.dtype)
            found[held.rows] = held.frequencies
        return found

    @property
    def is_unfiltered(self) -> bool:
        """Whether all that may be seen may come back."""
        return self.segment.allowed is self.segment.visible

    def rows_with(self, words: Iterable[int]) -> RowIndexes:
        """Where some words stand, in no order, a place as often as it has one of them."""
        found = [each.rows for word in words if (each := self.lists[word]) is not None]
        return found[0] if len(found) == 1 else np.concatenate(found or [_NOWHERE])

    @cached_property
    def is_match(self) -> Flags:
        """What holds a word and may come back."""
        found = np.zeros(self.size, np.bool_)
        found[self.rows_with(range(len(self.lists)))] = True
        if not self.is_unfiltered:
            found &= self.segment.allowed
        return found

    @cached_property
    def matches(self) -> RowIndexes:
        """The same, by their places."""
        return self.is_match.nonzero()[0]


class _ScoredTexts:
    """The texts of a segment that a leg weighs: versions, or versions with those they are linked to."""

    def __init__(
        self, words: QueryPostings, lengths: Floats, links: Sequence[RowIndexes] = ()
    ) -> None:
        self.postings, self._lengths, self._links = words, lengths, links
        self._marks: dict[int, Flags] = {}
        held = enumerate(words.lists)
        self.document_frequencies = [
            0 if each is None else self._document_frequency(word, len(each.rows))
            for word, each in held
        ]

    def _document_frequency(self, word: int, places: int) -> int:
        """How many texts hold a word; kept for those who see the same."""
        if not self._links:
            return places
        segment = self.postings.segment
        kept, names = segment.statistics.window_frequencies, segment.word_keys
        name = names[word] if word < len(names) else None
        found = kept.get(name)
        if found is None:
            found = int(np.count_nonzero(self._rows_flagged(word)[:-1]))
            if name is not None:
                if len(kept) >= _KEPT_WORDS:
                    kept.clear()
                kept[name] = found
        return found

    def max_frequency(self, word: int) -> int:
        """No text holds a word more often."""
        held = self.postings.lists[word]
        return 0 if held is None else int(held.frequencies.max()) * (1 + len(self._links))

    def _rows_flagged(self, word: int) -> Flags:
        found = self._marks.get(word)
        if found is None:
            held = self.postings.lists[word]
            assert held is not None
            # What is linked to nothing marks a place behind all.
            found = self._marks[word] = np.zeros(self.postings.size + 1, np.bool_)
            found[held.rows] = True
            for links in self._links:
                found[links.take(held.rows)] = True
        return found

    @property
    def is_plain(self) -> bool:
        """Whether a text is a version, and all that hold a word may come back."""
        return not self._links and self.postings.is_unfiltered

    def rows_with_any(self, words: Sequence[int], others: RowIndexes | None = None) -> RowIndexes:
        """The texts that hold one of some words, and some others."""
        if self.is_plain and len(words) == len(self.postings.lists):
            return self.postings.matches
        own = self.postings.rows_with(words)
        # What is linked to nothing is linked to -1.
        linked = [links.take(own) for links in self._links]
        places = np.concatenate([own, *linked] if others is None else [own, *linked, others])
        if len(places) <= SORT_LIMIT:
            found = sorted_unique(places)
            return found[1:] if len(found) and found[0] < 0 else found
        marks = np.zeros(self.postings.size + 1, np.bool_)
        marks[places] = True
        return marks[:-1].nonzero()[0]

    def scores(self, bm25: _Bm25, places: RowIndexes) -> Floats:
        norms = bm25.norms(self._lengths.take(places))
        beside = [links.take(places) for links in self._links]
        found = np.zeros(len(places), np.float32)
        for word, held in enumerate(self.postings.lists):
            if held is not None and len(places):
                counts = self.postings.frequencies(word)
                times = counts.take(places).astype(np.float32)
                for each in beside:
                    times += counts.take(each)
                found += bm25.scores(word, times, norms)
        return found


class _Bm25:
    """How much words weigh in one kind of text."""

    def __init__(
        self, b: float, texts: Sequence[_ScoredTexts], words: int, *, docs: int, length: float
    ) -> None:
        self.mean_length = max(1.0, length / max(1, docs))
        self.document_frequencies = np.zeros(words)
        for each in texts:
            self.document_frequencies += each.document_frequencies
        # The rarer, the more.
        self.weights = np.log(
            1.0
            + (np.maximum(docs, self.document_frequencies) - self.document_frequencies + 0.5)
            / (self.document_frequencies + 0.5)
        )
        self._least, self._slope = np.float32(K1 * (1.0 - b)), np.float32(K1 * b / self.mean_length)

    def norms(self, lengths: Floats) -> Floats:
        found: Floats = self._least + self._slope * lengths
        return found

    def scores(self, word: int, counts: Floats, norms: Floats) -> Floats:
        found: Floats = np.float32(self.weights[word] * (K1 + 1.0)) * counts / (counts + norms)
        return found

    def score_bounds(self, texts: Sequence[_ScoredTexts]) -> NDArray[np.float64]:
        """What no text gets for each word: not the shortest one that holds it as often as any."""
        counts = np.array(
            [max(each.max_frequency(word) for each in texts) for word in range(len(self.weights))],
            np.float64,
        )
        return (K1 + 1.0) * self.weights * counts / (counts + float(self._least))


class KeywordRetriever:
    """How well the words of texts match: of those that may be among the best.

    Of more than a hundred the best hundred count. So as soon as a hundred are known, a text that holds no other words
    than such as together weigh less than the last of them need not be weighed: it counts for nothing.
    """

    def __init__(
        self,
        texts: Sequence[_ScoredTexts],
        bm25: _Bm25,
        firsts: Sequence[RowIndexes] | None,
        *,
        size: int,
    ) -> None:
        """`firsts`: some that are probably good; None: everything is weighed. `size`: how many may come back."""
        self._texts, self._bm25 = texts, bm25
        everything = range(len(bm25.weights))
        if (
            firsts is None
            or size <= CANDIDATE_LIMIT
            or bm25.document_frequencies.sum() <= SKIP_PRUNING_LIMIT
        ):
            self.rows = [each.rows_with_any(everything) for each in texts]
        else:
            words = self._essential_words(firsts)
            self.rows = [
                each.rows_with_any(words, some) for each, some in zip(texts, firsts, strict=True)
            ]
        self._scores = self.scores_of(self.rows)
        held = [_keep_matches(*each) for each in zip(texts, self.rows, self._scores, strict=True)]
        self._holders, self._held = [places for places, _ in held], [scores for _, scores in held]
        self._scale = _ScoreRange.of(self._held, is_part=size > CANDIDATE_LIMIT)
        self.best_score = float(self._scale.highest) if size else 0.0
        self.weights, self.mean_length = bm25.weights, bm25.mean_length

    def _essential_words(self, firsts: Sequence[RowIndexes]) -> list[int]:
        """The words without one of which nothing is among the best."""
        scores = np.concatenate(self.scores_of(firsts))
        held = [
            each.postings.is_match.take(places)
            for each, places in zip(self._texts, firsts, strict=True)
        ]
        scores = scores[np.concatenate(held)]
        most = self._bm25.score_bounds(self._texts)
        lightest_first = most.argsort()
        least = (
            float(np.partition(scores, -CANDIDATE_LIMIT)[-CANDIDATE_LIMIT])
            if len(scores) >= CANDIDATE_LIMIT
            else 0.0
        )
        is_needed = most[lightest_first].cumsum() * _ROUNDING >= least
        return [int(word) for word in lightest_first[is_needed]]

    def scores_of(self, places: Sequence[RowIndexes]) -> list[Floats]:
        """How well some match."""
        return [
            each.scores(self._bm25, some) for each, some in zip(self._texts, places, strict=True)
        ]

    def normalised_scores(self) -> list[RetrieverScores]:
        return [
            self._scale.normalise(places, scores)
            for places, scores in zip(self.rows, self._scores, strict=True)
        ]

    def best_rows(self) -> list[RowIndexes]:
        """As many of the best as count, or all that there are, in each segment."""
        scores = np.concatenate(self._held)
        if len(scores) <= CANDIDATE_LIMIT:
            return self._holders
        best = scores.argpartition(-CANDIDATE_LIMIT)[-CANDIDATE_LIMIT:]
        best.sort()
        starts = np.cumsum([0, *map(len, self._holders)])
        cuts = best.searchsorted(starts)
        parts = zip(self._holders, starts[:-1], cuts[:-1], cuts[1:], strict=True)
        return [places.take(best[first:last] - start) for places, start, first, last in parts]


def _keep_matches(
    texts: _ScoredTexts, places: RowIndexes, scores: Floats
) -> tuple[RowIndexes, Floats]:
    """Of some texts those that come back, with their scores."""
    if texts.is_plain:
        return places, scores
    some = texts.postings.is_match.take(places).nonzero()[0]
    return places.take(some), scores.take(some)


class KeywordRetrievers:
    """Both legs of words: of versions, and of versions with the one before and the one after."""

    def __init__(
        self,
        words: int,
        segments: Sequence[SearchedSegment],
        seen: Sequence[VisibleStatistics],
        *,
        is_whole: bool,
    ) -> None:
        """`is_whole`: weigh the own words of everything that holds one."""
        self.postings = [QueryPostings(segment) for segment in segments]
        self.match_count = sum(int(np.count_nonzero(each.is_match)) for each in self.postings)
        self.is_complete = is_whole = is_whole or self.match_count <= SCORE_ALL_LIMIT
        docs, length = sum(each.count for each in seen), sum(each.length for each in seen)
        texts = [_ScoredTexts(each, each.segment.columns.lengths32) for each in self.postings]
        bm25 = _Bm25(B, texts, words, docs=docs, length=length)
        firsts = None if is_whole else _rows_with_rare_words(texts, bm25.document_frequencies)
        self.text = KeywordRetriever(texts, bm25, firsts, size=self.match_count)
        windows = [_windowed_texts(each) for each in self.postings]
        around = _Bm25(
            WINDOW_B, windows, words, docs=docs, length=sum(each.window_length for each in seen)
        )
        self.window = KeywordRetriever(
            windows, around, self.text.best_rows(), size=self.match_count
        )

    def rows_with_every_word(self) -> list[RetrieverScores]:
        """What holds every word of a question of several, and may come back."""
        return [_rows_with_every_word(each) for each in self.postings]

    @property
    def coverage(self) -> float:
        """How much of the question the best one covers, from 0 to 1."""
        most = (K1 + 1.0) * float(self.text.weights.sum())
        return min(1.0, self.text.best_score / most) if most else 0.0


def _rows_with_every_word(words: QueryPostings) -> RetrieverScores:
    held = {word: each.rows for word, each in enumerate(words.lists) if each is not None}
    if len(held) < max(2, len(words.lists)):
        return RetrieverScores(_NOWHERE, _NOTHING)
    rarest_first = sorted(held, key=lambda word: len(held[word]))
    places = held[rarest_first[0]]
    for word in rarest_first[1:]:
        places = places[words.frequencies(word).take(places) > 0]
    places = places if words.is_unfiltered else places[words.is_match.take(places)]
    return RetrieverScores(places, np.ones(len(places), np.float32))


def _windowed_texts(words: QueryPostings) -> _ScoredTexts:
    facts, seen = words.segment.columns, words.segment.statistics
    return (
        _ScoredTexts(words, seen.window_lengths, seen.links)
        if facts.has_sessions
        else _ScoredTexts(words, facts.lengths32)
    )


def _rows_with_rare_words(
    texts: Sequence[_ScoredTexts], holding: NDArray[np.float64]
) -> list[RowIndexes]:
    """What holds the rarest words, of as many as are held by enough."""
    rarest_first = holding.argsort()
    enough = int(holding[rarest_first].cumsum().searchsorted(2 * CANDIDATE_LIMIT)) + 1
    return [each.rows_with_any(rarest_first[:enough].tolist()) for each in texts]


class _ScoreRange(NamedTuple):
    """From what score on something counts, and the best one."""

    lowest: np.float32
    highest: np.float32

    @classmethod
    def of(
        cls, scores: Sequence[Floats], *, is_part: bool = False, least_of_all: bool = False
    ) -> _ScoreRange:
        """Counted from the last of the best, or from nothing where there are few (or from the last of those).

        `is_part`: the best of more than those that count.
        """
        together = scores[0] if len(scores) == 1 else np.concatenate(scores)
        if not len(together):
            return cls(np.float32(np.inf), np.float32(np.inf))
        most = together.max()
        if is_part or len(together) > CANDIDATE_LIMIT:
            return cls(np.partition(together, -CANDIDATE_LIMIT)[-CANDIDATE_LIMIT], most)
        return cls(together.min() if least_of_all else np.float32(0), most)

    def normalise(self, places: RowIndexes, scores: Floats) -> RetrieverScores:
        if self.highest <= self.lowest:
            counting = (scores >= self.highest).nonzero()[0]
            return RetrieverScores(places.take(counting), np.ones(len(counting), np.float32))
        counting = (scores > self.lowest).nonzero()[0]
        values = (scores.take(counting) - self.lowest) / (self.highest - self.lowest)
        return RetrieverScores(places.take(counting), np.minimum(values, np.float32(1)))


def similarity_scores(
    segments: Sequence[SearchedSegment], text: Sequence[RetrieverScores], gate: float
) -> tuple[list[RetrieverScores], list[RetrieverScores]]:
    """How near each is by itself, and with what was said before; what has no vector yet counts as its words do."""
    typical = np.float32(TYPICAL_SHARE * (1.0 - gate) ** 2)
    near = [each.similarities or _NOT_NEAR for each in segments]
    own = [each.own - typical * each.typical_own for each in near]
    context = [each.context - typical * each.typical_context for each in near]
    allowed = [
        segment.allowed.take(each.rows) for segment, each in zip(segments, near, strict=True)
    ]
    made = []
    for column in (own, context):
        scale = _ScoreRange.of(
            [each[some] for each, some in zip(column, allowed, strict=True)], least_of_all=True
        )
        legs = [
            scale.normalise(each.rows, scores) for each, scores in zip(near, column, strict=True)
        ]
        parts = zip(legs, text, near, strict=True)
        made.append([_fill_missing(leg, words, each.rows) for leg, words, each in parts])
    return made[0], made[1]


def answer_threshold(docs: int, floor: float, line: float, share: float) -> float:
    """How near the nearest of so many must be for there to be an answer; `share`: how many of them stand alone."""
    few, here, many = (
        math.sqrt(math.log(max(2, each))) for each in (FEW_VERSIONS, docs, MANY_VERSIONS)
    )
    part = min(1.0, max(0.0, (here - few) / (many - few)))
    return floor + part * (line + CONVERSATION_BONUS * (1.0 - share) - floor)


_NOTHING: Final = np.zeros(0, np.float32)
_NOWHERE: Final = np.zeros(0, np.int64)
_NOT_NEAR: Final = Similarities(_NOWHERE, _NOTHING, _NOTHING, _NOTHING, _NOTHING, 0.0)


def _fill_missing(
    leg: RetrieverScores, other: RetrieverScores, known: RowIndexes
) -> RetrieverScores:
    """A leg, and another for what this one knows nothing of."""
    unknown = ~is_in_sorted(other.rows, known)
    places = np.concatenate((leg.rows, other.rows[unknown]))
    values = np.concatenate((leg.scores, other.scores[unknown]))
    order = np.argsort(places)
    return RetrieverScores(places[order], values[order])


def sorted_unique(some: NDArray[Any]) -> NDArray[Any]:
    """The same in order, each once; of a few thousand numbers sooner than `numpy.unique`, which hashes them."""
    found = np.sort(some)
    is_new = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=is_new[1:])
    return found[is_new]


def is_in_sorted(some: NDArray[np.integer], sought: NDArray[np.integer]) -> Flags:
    """Return a flag for each number that is among others, which are in order."""
    if not len(sought):
        return np.zeros(len(some), np.bool_)
    found: Flags = sought.take(sought.searchsorted(some), mode="clip") == some
    return found
