"""The retrievers: BM25 of the text, BM25 of its window, and the similarity of embeddings.

A retriever returns normalised scores from 0 to 1 for the rows of each segment. Only its `CANDIDATE_LIMIT` best rows get
more than 0. So the keyword retrievers prune: as soon as they know enough good rows, they skip rows whose query words
together cannot reach the score of the last of them. This changes neither scores nor order.

A window is a text with the previous and the next one of its session, as far as the caller may see them.

Statistics (number of texts, document frequencies, lengths) are those of the visible rows. Only allowed rows, which also
pass the filters of the query, are returned.

Pruning in short: the rarest words find some good rows first; their scores show which words are too light to lift a row
among the best alone; rows that have only such words are never looked at. It is exact, and `tests/retrieval` compares it
with scoring everything.

Arrays hold one segment each, and a row is an index into them. The flags `visible` decide about statistics, the flags
`allowed` about results; mixing them up would leak hidden texts into scores.
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
    HARDLY_ANY_WORD,
    K1,
    MANY_VERSIONS,
    READING_TRUST,
    TYPICAL_SHARE,
    WINDOW_B,
    B,
)

# Rows of a segment. NumPy looks up 64-bit indexes twice as fast as shorter ones.
RowIndexes: TypeAlias = NDArray[np.int64]

# Versions: with fewer matches every one is scored, because pruning would cost more than it saves.
SCORE_ALL_LIMIT: Final = 16_384
# Postings: below this, finding the essential words costs more than scoring all matches.
SKIP_PRUNING_LIMIT: Final = 4_096
# Rows: up to this many are sorted, because that is faster than marking them in an array of flags.
SORT_LIMIT: Final = 2_048
# Words whose window frequencies are cached per view; about 1 MB.
_CACHED_WORDS: Final = 16_384
# Upper bound for the rounding error of a sum of single-precision numbers.
_ROUNDING: Final = 1.0 + 1e-4


class Similarities(NamedTuple):
    """The cosine similarities of some rows of a segment to the query, and to a typical query."""

    # The compared rows in ascending order. The columns below belong to these rows.
    rows: RowIndexes
    own: Floats
    # Similarity of the embedding that includes the end of the previous text.
    context: Floats
    typical_own: Floats
    typical_context: Floats
    # The relevance threshold: rows below it are no results.
    threshold: float
    # If all rows are below this, the query has no answer. 0 if unknown, or if not all rows were compared.
    answer_threshold: float = 0.0
    # The trust in the model for the language of each row, from 0 to 1; None: 1 for all.
    trust: Floats | None = None

    @property
    def is_readable(self) -> Flags:
        """A flag for each row: True if the model can read its language."""
        if self.trust is None:
            return np.ones(len(self.rows), np.bool_)
        return self.trust > 0


class SearchedSegment(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A segment with what one query needs of it: visible rows, allowed rows, postings and similarities.

    It belongs to one query. `statistics` is cached by the set of visible rows, so callers with the same rights share
    it.
    """

    columns: VersionColumns
    visible: Flags
    # Identical to `visible`, as an object, if the query has no further filter.
    allowed: Flags
    # In the order of the query words; None if the segment does not have the word.
    postings: Sequence[Postings | None]
    # Keys of the first words, under which their window frequencies are cached.
    word_keys: Sequence[Hashable] = ()
    # None if the query has no embedding.
    similarities: Similarities | None = None

    @cached_property
    def statistics(self) -> VisibleStatistics:
        """Statistics of the visible rows."""
        return self.columns.statistics(self.visible)


class _PostingList(NamedTuple):
    """The visible rows with a word, in ascending order, and its term frequencies there."""

    rows: RowIndexes
    frequencies: NDArray[Any]


class RetrieverScores(NamedTuple):
    """The rows of a segment that a retriever scores above 0, in ascending order, with scores up to 1."""

    rows: RowIndexes
    scores: Floats


def _visible_postings(postings: Postings, visible: Flags | None) -> _PostingList | None:
    """Return the postings of visible rows; None if there are none. `visible` None: all rows."""
    rows, frequencies = postings[0].astype(np.int64), postings[1]
    if visible is not None:
        indexes = visible.take(rows).nonzero()[0]
        rows, frequencies = rows.take(indexes), frequencies.take(indexes)
    return _PostingList(rows, frequencies) if len(rows) else None


class QueryPostings:
    """The visible postings of the query words in a segment.

    `frequencies` builds one array per word on first use; most words of most queries never need it.
    """

    def __init__(self, segment: SearchedSegment) -> None:
        self.segment, self.size = segment, len(segment.columns)
        visible = None if segment.statistics.count == self.size else segment.visible
        # One list per query word; None if no visible row has the word.
        self.lists = [
            None if postings is None else _visible_postings(postings, visible)
            for postings in segment.postings
        ]
        self._frequencies: dict[int, NDArray[Any]] = {}

    def frequencies(self, word: int) -> NDArray[Any]:
        """Return the term frequency of a word in every row, and a trailing 0, which the index -1 ("no row") finds."""
        frequencies = self._frequencies.get(word)
        if frequencies is None:
            postings = self.lists[word]
            assert postings is not None
            frequencies = np.zeros(self.size + 1, postings.frequencies.dtype)
            frequencies[postings.rows] = postings.frequencies
            self._frequencies[word] = frequencies
        return frequencies

    @property
    def is_unfiltered(self) -> bool:
        """True if all visible rows are allowed."""
        return self.segment.allowed is self.segment.visible

    def rows_with(self, words: Iterable[int]) -> RowIndexes:
        """Return the rows of some words, unordered; a row appears once for each word in it."""
        rows = [postings.rows for word in words if (postings := self.lists[word]) is not None]
        return rows[0] if len(rows) == 1 else np.concatenate(rows or [_NO_ROWS])

    @cached_property
    def is_match(self) -> Flags:
        """A flag for each row: True if it is allowed and has a word of the query."""
        flags = np.zeros(self.size, np.bool_)
        flags[self.rows_with(range(len(self.lists)))] = True
        if not self.is_unfiltered:
            flags &= self.segment.allowed
        return flags

    @cached_property
    def matches(self) -> RowIndexes:
        """The allowed rows with a word of the query, in ascending order."""
        return self.is_match.nonzero()[0]


class _ScoredTexts:
    """The texts of a segment that a keyword retriever scores: texts, or windows if there are links.

    For windows, `links` are the previous and the next row of each row; a word of a neighbour counts as a word of the
    window.
    """

    def __init__(
        self, postings: QueryPostings, lengths: Floats, links: Sequence[RowIndexes] = ()
    ) -> None:
        self.postings, self._lengths, self._links = postings, lengths, links
        self._flags_by_word: dict[int, Flags] = {}
        # Per query word the number of texts with the word.
        self.document_frequencies = [
            0 if posting_list is None else self._document_frequency(word, len(posting_list.rows))
            for word, posting_list in enumerate(postings.lists)
        ]

    def _document_frequency(self, word: int, row_count: int) -> int:
        """Count the texts with a word; counts of windows are cached for callers who see the same rows."""
        if not self._links:
            return row_count
        segment = self.postings.segment
        cache, keys = segment.statistics.window_frequencies, segment.word_keys
        key = keys[word] if word < len(keys) else None
        count = cache.get(key)
        if count is None:
            count = int(np.count_nonzero(self._rows_flagged(word)[:-1]))
            if key is not None:
                if len(cache) >= _CACHED_WORDS:
                    cache.clear()
                cache[key] = count
        return count

    def max_frequency(self, word: int) -> int:
        """Return an upper bound for the term frequency of a word in a text."""
        postings = self.postings.lists[word]
        if postings is None:
            return 0
        return int(postings.frequencies.max()) * (1 + len(self._links))

    def _rows_flagged(self, word: int) -> Flags:
        """Return a flag for each text with the word, and one more, which stands for "no row" (-1)."""
        flags = self._flags_by_word.get(word)
        if flags is None:
            postings = self.postings.lists[word]
            assert postings is not None
            flags = self._flags_by_word[word] = np.zeros(self.postings.size + 1, np.bool_)
            flags[postings.rows] = True
            for links in self._links:
                flags[links.take(postings.rows)] = True
        return flags

    @property
    def is_plain(self) -> bool:
        """True if the texts are no windows and every visible row is allowed."""
        return not self._links and self.postings.is_unfiltered

    def rows_with_any(
        self, words: Sequence[int], more_rows: RowIndexes | None = None
    ) -> RowIndexes:
        """Return the texts with at least one of the words, and `more_rows`, in ascending order."""
        if self.is_plain and len(words) == len(self.postings.lists):
            return self.postings.matches
        own_rows = self.postings.rows_with(words)
        linked = [links.take(own_rows) for links in self._links]
        rows = np.concatenate(
            [own_rows, *linked] if more_rows is None else [own_rows, *linked, more_rows]
        )
        if len(rows) <= SORT_LIMIT:
            rows = sorted_unique(rows)
            # A leading -1 stands for "no row".
            return rows[1:] if len(rows) and rows[0] < 0 else rows
        flags = np.zeros(self.postings.size + 1, np.bool_)
        flags[rows] = True
        return flags[:-1].nonzero()[0]

    def scores(self, bm25: _Bm25, rows: RowIndexes) -> Floats:
        """Return the BM25 scores of some rows."""
        norms = bm25.norms(self._lengths.take(rows))
        neighbours = [links.take(rows) for links in self._links]
        scores = np.zeros(len(rows), np.float32)
        for word, postings in enumerate(self.postings.lists):
            if postings is not None and len(rows):
                by_row = self.postings.frequencies(word)
                frequencies = by_row.take(rows).astype(np.float32)
                for linked_rows in neighbours:
                    frequencies += by_row.take(linked_rows)
                scores += bm25.scores(word, frequencies, norms)
        return scores


class _Bm25:
    """BM25 over one kind of text in all segments."""

    def __init__(
        self, b: float, texts: Sequence[_ScoredTexts], words: int, *, docs: int, length: float
    ) -> None:
        """Compute the weights of a number of query words from the number and the total length of the visible texts."""
        self.mean_length = max(1.0, length / max(1, docs))
        self.document_frequencies = np.zeros(words)
        for of_segment in texts:
            self.document_frequencies += of_segment.document_frequencies
        # The inverse document frequency of each word.
        with_word = self.document_frequencies
        without_word = np.maximum(docs, with_word) - with_word
        self.weights = np.log(1.0 + (without_word + 0.5) / (with_word + 0.5))
        self._least_norm = np.float32(K1 * (1.0 - b))
        self._norm_per_word = np.float32(K1 * b / self.mean_length)

    def norms(self, lengths: Floats) -> Floats:
        """Return the length normalisation of texts: the summand of the denominator."""
        norms: Floats = self._least_norm + self._norm_per_word * lengths
        return norms

    def scores(self, word: int, frequencies: Floats, norms: Floats) -> Floats:
        """Return the scores of one word in texts with these term frequencies."""
        factor = np.float32(self.weights[word] * (K1 + 1.0))
        scores: Floats = factor * frequencies / (frequencies + norms)
        return scores

    def score_bounds(self, texts: Sequence[_ScoredTexts]) -> NDArray[np.float64]:
        """Return an upper bound for the score of each word: an empty text with its highest term frequency."""
        frequencies = np.array(
            [
                max(of_segment.max_frequency(word) for of_segment in texts)
                for word in range(len(self.weights))
            ],
            np.float64,
        )
        least_norm = float(self._least_norm)
        return (K1 + 1.0) * self.weights * frequencies / (frequencies + least_norm)


class KeywordRetriever:
    """A keyword retriever over one kind of text: it scores the rows that can be among the best, in each segment.

    After construction the scores are final; `normalised_scores` scales them to 0…1 over the best CANDIDATE_LIMIT rows.
    """

    def __init__(
        self,
        texts: Sequence[_ScoredTexts],
        bm25: _Bm25,
        firsts: Sequence[RowIndexes] | None,
        *,
        size: int,
    ) -> None:
        """Score the matches, of which there are `size`. `firsts`: rows that are probably good; None to score all."""
        self._texts, self._bm25 = texts, bm25
        if (
            firsts is None
            or size <= CANDIDATE_LIMIT
            or bm25.document_frequencies.sum() <= SKIP_PRUNING_LIMIT
        ):
            every_word = range(len(bm25.weights))
            self.rows = [of_segment.rows_with_any(every_word) for of_segment in texts]
        else:
            words = self._essential_words(firsts)
            self.rows = [
                of_segment.rows_with_any(words, rows)
                for of_segment, rows in zip(texts, firsts, strict=True)
            ]
        self._scores = self.scores_of(self.rows)
        matches = [
            _keep_matches(*triple) for triple in zip(texts, self.rows, self._scores, strict=True)
        ]
        self._match_rows = [rows for rows, _ in matches]
        self._match_scores = [scores for _, scores in matches]
        self._range = _ScoreRange.of(self._match_scores, is_part=size > CANDIDATE_LIMIT)
        self.best_score = float(self._range.highest) if size else 0.0
        self.weights, self.mean_length = bm25.weights, bm25.mean_length

    def _essential_words(self, firsts: Sequence[RowIndexes]) -> list[int]:
        """Return the words of which every text among the best has at least one.

        The other words are the lightest ones, whose upper bounds add up to less than the last of the best scores.
        """
        scores = np.concatenate(self.scores_of(firsts))
        is_match = [
            of_segment.postings.is_match.take(rows)
            for of_segment, rows in zip(self._texts, firsts, strict=True)
        ]
        scores = scores[np.concatenate(is_match)]
        bounds = self._bm25.score_bounds(self._texts)
        lightest_first = bounds.argsort()
        last_best = (
            float(np.partition(scores, -CANDIDATE_LIMIT)[-CANDIDATE_LIMIT])
            if len(scores) >= CANDIDATE_LIMIT
            else 0.0
        )
        is_essential = bounds[lightest_first].cumsum() * _ROUNDING >= last_best
        return [int(word) for word in lightest_first[is_essential]]

    def scores_of(self, rows: Sequence[RowIndexes]) -> list[Floats]:
        """Return the BM25 scores of some rows of each segment."""
        return [
            texts.scores(self._bm25, of_segment)
            for texts, of_segment in zip(self._texts, rows, strict=True)
        ]

    def normalised_scores(self) -> list[RetrieverScores]:
        """Return the normalised scores of each segment."""
        return [
            self._range.normalise(rows, scores)
            for rows, scores in zip(self.rows, self._scores, strict=True)
        ]

    def best_rows(self) -> list[RowIndexes]:
        """Return the `CANDIDATE_LIMIT` best matches, or all if there are fewer, for each segment."""
        scores = np.concatenate(self._match_scores)
        if len(scores) <= CANDIDATE_LIMIT:
            return self._match_rows
        best = scores.argpartition(-CANDIDATE_LIMIT)[-CANDIDATE_LIMIT:]
        best.sort()
        starts = np.cumsum([0, *map(len, self._match_rows)])
        cuts = best.searchsorted(starts)
        parts = zip(self._match_rows, starts[:-1], cuts[:-1], cuts[1:], strict=True)
        return [rows.take(best[first:last] - start) for rows, start, first, last in parts]


def _keep_matches(
    texts: _ScoredTexts, rows: RowIndexes, scores: Floats
) -> tuple[RowIndexes, Floats]:
    """Return the rows that are matches, with their scores."""
    if texts.is_plain:
        return rows, scores
    indexes = texts.postings.is_match.take(rows).nonzero()[0]
    return rows.take(indexes), scores.take(indexes)


class KeywordRetrievers:
    """Both keyword retrievers: of texts and of windows."""

    def __init__(
        self,
        words: int,
        segments: Sequence[SearchedSegment],
        statistics: Sequence[VisibleStatistics],
        *,
        is_complete: bool,
    ) -> None:
        """Search segments for a number of query words. `statistics` also cover segments not searched.

        `is_complete`: score the text of every match.
        """
        self.postings = [QueryPostings(segment) for segment in segments]
        self.match_count = sum(
            int(np.count_nonzero(segment_item.is_match)) for segment_item in self.postings
        )
        self.is_complete = is_complete or self.match_count <= SCORE_ALL_LIMIT
        docs = sum(segment_item.count for segment_item in statistics)
        length = sum(segment_item.length for segment_item in statistics)
        window_length = sum(segment_item.window_length for segment_item in statistics)
        texts = [
            _ScoredTexts(segment_item, segment_item.segment.columns.lengths32)
            for segment_item in self.postings
        ]
        bm25 = _Bm25(B, texts, words, docs=docs, length=length)
        firsts = None
        if not self.is_complete:
            firsts = _rows_with_rare_words(texts, bm25.document_frequencies)
        self.text = KeywordRetriever(texts, bm25, firsts, size=self.match_count)
        windows = [_create_windows(segment_item) for segment_item in self.postings]
        window_bm25 = _Bm25(WINDOW_B, windows, words, docs=docs, length=window_length)
        self.window = KeywordRetriever(
            windows, window_bm25, self.text.best_rows(), size=self.match_count
        )

    def rows_with_every_word(self) -> list[RetrieverScores]:
        """Return score 1 for the matches with every word of a query of several, for each segment."""
        return [_rows_with_every_word(segment_postings) for segment_postings in self.postings]

    def rows_with_exact_words(self, words: Sequence[int]) -> list[RetrieverScores]:
        """Return the share of some words that each match has, for each segment."""
        return [_rows_with_share(postings, words) for postings in self.postings]

    @property
    def coverage(self) -> float:
        """The share of the query that the best text covers, from 0 to 1, by the weights of the words."""
        highest_possible = (K1 + 1.0) * float(self.text.weights.sum())
        return min(1.0, self.text.best_score / highest_possible) if highest_possible else 0.0


def _rows_with_every_word(postings: QueryPostings) -> RetrieverScores:
    """Return score 1 for the matches with every word; nothing for a query of one word."""
    rows_by_word = {
        word: posting_list.rows
        for word, posting_list in enumerate(postings.lists)
        if posting_list is not None
    }
    if len(rows_by_word) < max(2, len(postings.lists)):
        return RetrieverScores(_NO_ROWS, _NO_SCORES)
    rarest_first = sorted(rows_by_word, key=lambda word: len(rows_by_word[word]))
    rows = rows_by_word[rarest_first[0]]
    for word in rarest_first[1:]:
        rows = rows[postings.frequencies(word).take(rows) > 0]
    if not postings.is_unfiltered:
        rows = rows[postings.is_match.take(rows)]
    return RetrieverScores(rows, np.ones(len(rows), np.float32))


def _rows_with_share(postings: QueryPostings, words: Sequence[int]) -> RetrieverScores:
    """Return the matches with any of some words, and the share of these words that each has."""
    rows = sorted_unique(postings.rows_with(words))
    if not postings.is_unfiltered:
        rows = rows[postings.is_match.take(rows)]
    counts = np.zeros(len(rows), np.float32)
    for word in words:
        if postings.lists[word] is not None:
            counts += postings.frequencies(word).take(rows) > 0
    return RetrieverScores(rows, counts / np.float32(max(1, len(words))))


def _create_windows(postings: QueryPostings) -> _ScoredTexts:
    """Return the windows of a segment; its texts if it has no sessions.

    Without sessions a text has no neighbours, so its window is the text itself, scored with the parameters of windows.
    """
    columns, statistics = postings.segment.columns, postings.segment.statistics
    if not columns.has_sessions:
        return _ScoredTexts(postings, columns.lengths32)
    return _ScoredTexts(postings, statistics.window_lengths, statistics.links)


def _rows_with_rare_words(
    texts: Sequence[_ScoredTexts], document_frequencies: NDArray[np.float64]
) -> list[RowIndexes]:
    """Return the texts with the rarest words: as many words as find twice the number of candidates."""
    rarest_first = document_frequencies.argsort()
    row_counts = document_frequencies[rarest_first].cumsum()
    word_count = int(row_counts.searchsorted(2 * CANDIDATE_LIMIT)) + 1
    return [of_segment.rows_with_any(rarest_first[:word_count].tolist()) for of_segment in texts]


class _ScoreRange(NamedTuple):
    """The raw scores that are normalised to 0 and to 1."""

    lowest: np.float32
    highest: np.float32

    @classmethod
    def of(
        cls,
        scores: Sequence[Floats],
        *,
        is_part: bool = False,
        from_minimum: bool = False,
    ) -> _ScoreRange:
        """Return the range from the last candidate to the best one.

        With fewer than `CANDIDATE_LIMIT` scores it starts at 0, or at the lowest score if `from_minimum`. `is_part`:
        these are only the best of more scores than that.

        `from_minimum` is for similarities, whose values do not begin at 0.
        """
        all_scores = scores[0] if len(scores) == 1 else np.concatenate(scores)
        if not len(all_scores):
            return cls(np.float32(np.inf), np.float32(np.inf))
        highest = all_scores.max()
        if is_part or len(all_scores) > CANDIDATE_LIMIT:
            return cls(np.partition(all_scores, -CANDIDATE_LIMIT)[-CANDIDATE_LIMIT], highest)
        return cls(all_scores.min() if from_minimum else np.float32(0), highest)

    def normalise(self, rows: RowIndexes, scores: Floats) -> RetrieverScores:
        """Map scores to 0 … 1 and drop the rows with 0."""
        if self.highest <= self.lowest:
            indexes = (scores >= self.highest).nonzero()[0]
            return RetrieverScores(rows.take(indexes), np.ones(len(indexes), np.float32))
        indexes = (scores > self.lowest).nonzero()[0]
        values = (scores.take(indexes) - self.lowest) / (self.highest - self.lowest)
        return RetrieverScores(rows.take(indexes), np.minimum(values, np.float32(1)))


def similarity_scores(
    segments: Sequence[SearchedSegment], text: Sequence[RetrieverScores], gate: float
) -> tuple[list[RetrieverScores], list[RetrieverScores]]:
    """Return the normalised similarities, and those with context; rows without a vector get their `text` score.

    A part of the similarity to a typical query is subtracted; the less keywords count (`gate`), the larger it is.

    A "typical query" stands for what any query is similar to; subtracting it leaves what is special about this one.
    """
    typical_share = np.float32(TYPICAL_SHARE * (1.0 - gate) ** 2)
    similarities = [segment.similarities or _NOT_COMPARED for segment in segments]
    own_scores = [
        similarity.own - typical_share * similarity.typical_own for similarity in similarities
    ]
    context = [
        similarity.context - typical_share * similarity.typical_context
        for similarity in similarities
    ]
    is_allowed = [
        segment.allowed.take(own_scores.rows) & own_scores.is_readable
        for segment, own_scores in zip(segments, similarities, strict=True)
    ]
    by_column = []
    for column in (own_scores, context):
        allowed_scores = [scores[flags] for scores, flags in zip(column, is_allowed, strict=True)]
        score_range = _ScoreRange.of(allowed_scores, from_minimum=True)
        by_column.append(
            [
                _fill_missing(
                    score_range.normalise(similarity.rows, scores), text_scores, similarity, gate
                )
                for scores, text_scores, similarity in zip(column, text, similarities, strict=True)
            ]
        )
    return by_column[0], by_column[1]


def answer_threshold(docs: int, floor: float, line: float, standalone_share: float) -> float:
    """Return the similarity that the best of `docs` versions must reach for the query to have an answer.

    It rises from `floor` for few versions to `line` for many, since the best of many is more similar by chance. Texts
    of conversations are more similar to any query than standalone texts, so it also rises with their share.

    `docs` is the number of visible versions, `floor` and `line` are thresholds of the model, `standalone_share` the
    share of texts outside of conversations.
    """
    few, current, many = (
        math.sqrt(math.log(max(2, count))) for count in (FEW_VERSIONS, docs, MANY_VERSIONS)
    )
    progress = min(1.0, max(0.0, (current - few) / (many - few)))
    return floor + progress * (line + CONVERSATION_BONUS * (1.0 - standalone_share) - floor)


_NO_SCORES: Final = np.zeros(0, np.float32)
_NO_ROWS: Final = np.zeros(0, np.int64)
_NOT_COMPARED: Final = Similarities(_NO_ROWS, _NO_SCORES, _NO_SCORES, _NO_SCORES, _NO_SCORES, 0.0)


def _fill_missing(
    scores: RetrieverScores, fallback: RetrieverScores, compared: Similarities, gate: float
) -> RetrieverScores:
    """Add the fallback scores of rows that were not compared, or whose language the model reads badly."""
    trust = None if compared.trust is None else _trusted_shares(compared.trust, gate)
    if trust is None:
        is_missing = ~is_in_sorted(fallback.rows, compared.rows)
        added = RetrieverScores(fallback.rows[is_missing], fallback.scores[is_missing])
    else:
        own_trust = _values_at(scores.rows, compared.rows, trust, missing=1.0)
        scores = RetrieverScores(scores.rows, scores.scores * own_trust)
        doubt = 1 - _values_at(fallback.rows, compared.rows, trust, missing=0.0)
        added = RetrieverScores(fallback.rows, fallback.scores * doubt)
    rows = np.concatenate((scores.rows, added.rows))
    values = np.concatenate((scores.scores, added.scores))
    order = np.argsort(rows, kind="stable")
    rows, values = rows[order], values[order]
    if trust is None or not len(rows):
        return RetrieverScores(rows, values)
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    sums: Floats = np.add.reduceat(values, starts)
    is_scored = sums > 0
    return RetrieverScores(rows[starts][is_scored], sums[is_scored])


def trusted_share(trust: float, gate: float) -> float:
    """Return the share of a similarity in a score: the trust in the model, and more of it if words count little.

    Where words are missing (`gate` near 0), a model that reads the language somewhat is the best evidence. One that
    hardly reads it is the only evidence if no text has a word of the query.
    """
    if trust >= READING_TRUST or (trust > 0 and gate < HARDLY_ANY_WORD):
        return trust + (1.0 - trust) * (1.0 - gate)
    return trust


def _trusted_shares(trust: Floats, gate: float) -> Floats:
    """Return the shares of some similarities."""
    values, indexes = np.unique(trust, return_inverse=True)
    shares = [trusted_share(value, gate) for value in values.tolist()]
    return np.array(shares, np.float32)[indexes]


def _values_at(
    rows: RowIndexes, known_rows: RowIndexes, values: Floats, *, missing: float
) -> Floats:
    """Return the values of some rows, given for other rows in ascending order; `missing` for unknown rows."""
    if not len(known_rows):
        return np.full(len(rows), missing, np.float32)
    positions = known_rows.searchsorted(rows)
    is_known = known_rows.take(positions, mode="clip") == rows
    result: Floats = np.where(is_known, values.take(positions, mode="clip"), np.float32(missing))
    return result


def sorted_unique(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct numbers in ascending order; for a few thousand faster than `numpy.unique`, which hashes."""
    ascending = np.sort(numbers)
    is_new = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    return ascending[is_new]


def is_in_sorted(numbers: NDArray[np.integer], ascending: NDArray[np.integer]) -> Flags:
    """Return a flag for each number: True if it is in `ascending`."""
    if not len(ascending):
        return np.zeros(len(numbers), np.bool_)
    positions = ascending.searchsorted(numbers)
    flags: Flags = ascending.take(positions, mode="clip") == numbers
    return flags
