"""The ranking of versions for a query: candidates from four retrievers, fused with other evidence into one score.

1. Retrievers (`retrievers`) score the rows of each segment: keywords in the text (`text`) and in its window, the text
   with the previous and the next one of its session (`window`); the similarity of the embedding (`meaning`) and of the
   embedding that includes the end of the previous text (`context`).
2. Their rows, and the rows beside them in a session, are the candidates. They are numbered through all segments, in the
   order in which they were written.
3. A score is the weighted sum of parts (`Weights`): the four retrievers, the neighbours, the person and the time that
   the query names, the best score in the session, and the length of the text.
4. Duplicates of a better candidate are moved behind the best `DEDUPLICATION_LIMIT`.

All statistics (number of texts, term frequencies, lengths) are those of the rows that the caller may see, so invisible
versions influence no score.

The parts are computed in one pass over NumPy arrays, each for the candidates that it concerns (`ScorePart`); nothing
here loops over versions in Python. Candidates are numbers; only `Candidates` knows which segment and row a number
means.

Two ways of the same function: with few matches every match is a candidate; with many, only rows that a retriever scored
(`_scored_rows`), and the rest is counted and bounded (`_uncounted_bound`). If a page needs more than that, `complete`
ranks again with every match. Both must give the same order for the results that they share; `tests/retrieval` compares
them.

To add a part: compute it in `_ScoreParts.named_parts`, give it a weight of the same name in `Weights`, and fit the
weight with `make bench-retrieval` on the `tune` half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from memoranda.model.instant import DAY_MS
from memoranda.retrieval.entry import REDACTED_BIT
from memoranda.retrieval.retrievers import (
    KeywordRetrievers,
    RetrieverScores,
    RowIndexes,
    SearchedSegment,
    is_in_sorted,
    similarity_scores,
    sorted_unique,
    trusted_share,
)
from memoranda.retrieval.segment import Flags, Floats, VersionColumns, union
from memoranda.retrieval.weights import (
    COVERAGE_BONUS,
    COVERAGE_GATE,
    DEDUPLICATION_LIMIT,
    LENGTH_LIMIT,
    ONLY_TIME,
    SESSION_DATE_WEIGHT,
    SESSION_PERSON_WEIGHT,
    SHORT_SPAN_DAYS,
    TIME_ORDER_SHARE,
    WITH_MEANING,
    WORDS_ONLY,
    TimeSpan,
    Weights,
    interpolate,
)

# The scores of one retriever, one item per segment.
ScoresBySegment: TypeAlias = list[RetrieverScores]
Scores: TypeAlias = NDArray[np.float64]

# Factor of the plain BM25 score: it only decides between candidates whose parts are all equal.
_TIE_BREAK: Final = 1e-4
# Digits after the point: beyond these, scores differ only by the order of summation.
_SCORE_DIGITS: Final = 12
_NO_ROWS: Final = np.zeros(0, np.int64)
# The value of the part `length`, by the number of words.
_LENGTH_VALUES: Final = np.log1p(np.arange(LENGTH_LIMIT + 1, dtype=np.float32))
# A sort key of 64 bits: 38 bits for the score, 26 for the number of the candidate.
_SCORE_UNITS: Final = float((1 << 38) - 1)
_CANDIDATE_BITS: Final = np.uint64(26)
_CANDIDATE_MASK: Final = np.uint64((1 << 26) - 1)
RETRIEVERS: Final = ("text", "window", "meaning", "context")
# The name of the part by which the score of a duplicate is reduced.
REPEATED: Final = "repeated"
_NO_CHANGES: Final[Mapping[str, float]] = MappingProxyType({})


class SegmentScope(msgspec.Struct, frozen=True, kw_only=True):
    """A filter by the columns of a segment; None matches any value. Scopes are given by their hashes."""

    space: int | None = None
    user: int | None = None
    agent: int | None = None
    session: int | None = None
    # The bits of the accepted visibilities.
    visibility_bits: int | None = None
    redacted: bool | None = None
    # Matches rows of these users, and rows without a user.
    users: tuple[int, ...] | None = None

    def matches(self, columns: VersionColumns) -> Flags:
        """Return a flag for each row: True if it passes the filter."""
        flags = np.ones(len(columns), np.bool_)
        for column, accepted in (
            (columns.spaces, self.space),
            (columns.users, self.user),
            (columns.agents, self.agent),
            (columns.sessions, self.session),
        ):
            if accepted is not None:
                flags &= column == np.uint64(accepted)
        if self.visibility_bits is not None:
            flags &= (columns.flags & self.visibility_bits) != 0
        if self.redacted is not None:
            flags &= ((columns.flags & REDACTED_BIT) != 0) == self.redacted
        if self.users is not None:
            flags &= np.isin(columns.users, np.array((0, *self.users), np.uint64))
        return flags


class RetrievalQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query: the hashes of its words and of the names among them, and the time spans that it means."""

    words: tuple[int, ...]
    names: tuple[int, ...] = ()
    spans: tuple[TimeSpan, ...] = ()
    # The numbers of the words that are exact strings or phrases: matches with all of them come first.
    exact_words: tuple[int, ...] = ()
    # True if the query asks for everything of a time, so that nothing else is compared.
    is_only_time: bool = False
    # The trust in the embedding model for the language of the query, from 0 to 1.
    trust: float = 1.0


class Candidates:
    """The candidates of all segments, numbered from 0 in the order in which they were written.

    Numbers ascend with the version ids, which makes ties stable: of equal scores the later version comes first.
    """

    def __init__(self, rows: Sequence[RowIndexes]) -> None:
        """Number the candidates, given by their rows in each segment in ascending order."""
        self._rows = rows
        self._starts = [0, *accumulate(map(len, rows))]

    def __len__(self) -> int:
        return self._starts[-1]

    def find(self, segment: int, rows: RowIndexes) -> tuple[RowIndexes, RowIndexes]:
        """Return the candidates among some rows of a segment, and the indexes of these rows in `rows`."""
        own_rows = self._rows[segment]
        if not len(own_rows):
            return rows[:0], rows[:0]
        positions = own_rows.searchsorted(rows)
        indexes = (own_rows.take(positions, mode="clip") == rows).nonzero()[0]
        return positions.take(indexes) + self._starts[segment], indexes

    def split_by_segment(self, candidates: RowIndexes) -> list[RowIndexes]:
        """Return the rows of some candidates, in ascending order, for each segment."""
        cuts = candidates.searchsorted(self._starts).tolist()
        parts = zip(self._rows, self._starts, cuts, cuts[1:], strict=False)
        return [rows.take(candidates[first:last] - start) for rows, start, first, last in parts]

    def values(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the values of all candidates in a column, given once per segment."""
        parts = [column.take(rows) for column, rows in zip(columns, self._rows, strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def take(self, columns: Sequence[NDArray[Any]], candidates: RowIndexes) -> NDArray[Any]:
        """Return the values of some candidates in a column, given once per segment."""
        if len(columns) == 1:
            return columns[0].take(self._rows[0].take(candidates))
        values: NDArray[Any] | None = None
        for column, rows, start in zip(columns, self._rows, self._starts, strict=False):
            if len(rows):
                # Candidates of other segments get an arbitrary value, which a later or earlier segment replaces.
                segment_values = column.take(rows.take(candidates - start, mode="clip"))
                values = (
                    segment_values
                    if values is None
                    else np.where(candidates < start, values, segment_values)
                )
        return np.zeros(0, columns[0].dtype) if values is None else values


class ScorePart(NamedTuple):
    """A part of the scores: values for some candidates, 0 for the others. `candidates` None: values for all.

    `candidates` ascend and occur once. Values are already weighted in `Ranking.signals`.
    """

    candidates: RowIndexes | None
    values: NDArray[Any]

    def value_of(self, candidate: int) -> float:
        """Return the value of one candidate."""
        if self.candidates is None:
            return float(self.values[candidate])
        return float(self.values[self.candidates == candidate].sum())

    def rank(self, value: float, size: int) -> int:
        """Return the rank of a value by this part alone, among `size` candidates; 1 is the best."""
        zeros = size - len(self.values) if value < 0 else 0
        return 1 + zeros + int(np.count_nonzero(self.values > value))

    def weighted(self, weight: float) -> ScorePart:
        """Return this part times a weight."""
        return ScorePart(self.candidates, weight * self.values)

    def add_to(self, scores: NDArray[Any]) -> None:
        """Add the values to an array of all candidates' scores."""
        if self.candidates is None:
            scores += self.values
        else:
            scores[self.candidates] += self.values


class Ranking(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """The matching versions, ordered by score as far as requested.

    A match that neither a retriever scored nor a neighbour helps differs from others only by its length. Such matches
    are counted, but scored only if a requested result could be one of them (`complete`).
    """

    # The number of matches.
    size: int
    # The share of the query words that the best match covers, or its similarity if that is higher; from 0 to 1.
    coverage: float
    # False if no match is relevant enough to be an answer.
    has_answer: bool
    # True if the query names a time.
    has_spans: bool
    # The parts of the scores, by the names of their weights. Their sum is the score.
    signals: dict[str, ScorePart]
    # The candidates that a retriever scored. Their scores set the scale of all others.
    _decisive: RowIndexes
    _candidates: Candidates
    _scores: Scores
    _segments: Sequence[SearchedSegment]
    _keywords: KeywordRetrievers
    # No match that is not a candidate scores higher; None if every match is a candidate.
    _uncounted_bound: float | None
    # Builds the ranking with every match as a candidate.
    _rank_completely: Callable[[], Ranking]

    @cached_property
    def _best(self) -> RowIndexes:
        """The best candidates in order, up to the first position that a match without a score might take.

        Of duplicates the best one keeps its position. The others are left out, or follow the best candidates if every
        match is a candidate.
        """
        candidates = _best_candidates(self._scores, DEDUPLICATION_LIMIT + 1)
        best = candidates[:DEDUPLICATION_LIMIT]
        if self._uncounted_bound is not None:
            is_certain = self._scores.take(best) > self._uncounted_bound
            best = best[: int(np.count_nonzero(is_certain))]
        hashes = self._candidates.take(
            [segment.columns.text_hashes for segment in self._segments], best
        )
        known_hashes = [text_hash for text_hash in hashes.tolist() if text_hash]
        if len(set(known_hashes)) == len(known_hashes):
            return candidates if self._uncounted_bound is None else best
        is_duplicate = hashes != 0
        is_duplicate[np.unique(hashes, return_index=True)[1]] = False
        if self._uncounted_bound is not None:
            originals: RowIndexes = best[~is_duplicate]
            return originals
        return self._move_duplicates_back(candidates, is_duplicate)

    def _move_duplicates_back(self, candidates: RowIndexes, is_duplicate: Flags) -> RowIndexes:
        """Return the candidates with duplicates last among the best, and record by how much their scores fall."""
        best, scores = candidates[:DEDUPLICATION_LIMIT], self._scores
        duplicates, originals = best[is_duplicate], best[~is_duplicate]
        # Spread evenly between the last of the best and the next candidate.
        upper = scores[best[-1]]
        has_next = len(candidates) > DEDUPLICATION_LIMIT
        lower = scores[candidates[DEDUPLICATION_LIMIT]] if has_next else 0.0
        numbers = np.arange(1, len(duplicates) + 1)
        reduced = upper - (upper - lower) * numbers / (len(duplicates) + 1)
        self.signals[REPEATED] = ScorePart(duplicates, reduced - scores[duplicates])
        return np.concatenate((originals, duplicates, candidates[DEDUPLICATION_LIMIT:]))

    def __len__(self) -> int:
        return self.size

    @property
    def weights(self) -> Scores:
        """The BM25 weight of each word of the query."""
        return self._keywords.text.weights

    @property
    def mean_length(self) -> float:
        """The mean length of a text, in words."""
        return self._keywords.text.mean_length

    @property
    def decisive_rows(self) -> list[tuple[VersionColumns, RowIndexes]]:
        """The rows that a retriever scored, for each segment."""
        parts = zip(self._segments, self._candidates.split_by_segment(self._decisive), strict=True)
        return [(segment.columns, rows) for segment, rows in parts]

    @cached_property
    def complete(self) -> Ranking:
        """The ranking in which every match is a candidate."""
        return self if self._uncounted_bound is None else self._rank_completely()

    @cached_property
    def _order(self) -> RowIndexes:
        best = self._best
        return np.concatenate((best, _best_candidates(self._scores, len(self))[len(best) :]))

    @cached_property
    def version_ids(self) -> NDArray[np.int64]:
        """The ids of all matches, in the order in which they were written."""
        complete = self.complete
        return complete._candidates.values(
            [segment.columns.versions for segment in complete._segments]
        )

    @property
    def versions(self) -> NDArray[np.int64]:
        """The ids of all matches, best first."""
        return self.version_ids[self.complete._order]

    @property
    def scores(self) -> Scores:
        """The scores of all matches, best first."""
        complete = self.complete
        return complete._final_scores(complete._order)

    def best(self, start: int, end: int) -> tuple[list[int], list[float]]:
        """Return the version ids and the scores from one rank, counted from 0, to another.

        Scores are comparable within one query only. Asking for a page far behind the best may compute the complete
        ranking.
        """
        best, end = self._best, min(end, len(self))
        if end > len(best) and self._uncounted_bound is not None:
            return self.complete.best(start, end)
        candidates = (best if end <= len(best) else self._order)[start:end]
        versions = self._candidates.take(
            [segment.columns.versions for segment in self._segments], candidates
        )
        return versions.tolist(), self._final_scores(candidates).tolist()

    def _final_scores(self, candidates: RowIndexes) -> Scores:
        """Return rounded scores, reduced for duplicates."""
        scores = self._scores
        if REPEATED in self.signals:
            scores = scores.copy()
            self.signals[REPEATED].add_to(scores)
        return scores.take(candidates).round(_SCORE_DIGITS)

    def candidate_of(self, version_id: int) -> int:
        """Return the number of the candidate with a version id."""
        return int(self.version_ids.searchsorted(version_id))

    def keyword_scores(self) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Yield the version ids that contain a query word with their BM25 scores: of the text, then of the window."""
        matches = [postings.matches for postings in self._keywords.postings]
        version_ids = Candidates(matches).values(
            [segment.columns.versions for segment in self._segments]
        )
        for retriever in (self._keywords.text, self._keywords.window):
            yield version_ids, np.concatenate(retriever.scores_of(matches))


def rank(
    query: RetrievalQuery,
    segments: Sequence[SearchedSegment],
    *,
    weights: Weights | None = None,
    weight_changes: Mapping[str, float] = _NO_CHANGES,
    is_complete: bool = False,
) -> Ranking:
    """Rank everything that contains a word of the query or is similar to it; of equal scores the later version first.

    `weight_changes` replaces single weights by name. `is_complete` makes every match a candidate.

    `segments` come from `Search`, with visible and allowed rows and postings of every word. The result refers to their
    arrays, so these must not change.
    """
    persons, statistics = (
        _named_persons(query, segments),
        [segment.statistics for segment in segments],
    )
    is_everything = is_complete or bool(persons or query.spans or query.exact_words)
    searched = segments if query.spans else _segments_with_matches(segments)
    keywords = KeywordRetrievers(len(query.words), searched, statistics, is_complete=is_everything)
    evidence = _collect_evidence(query, searched, keywords)
    if keywords.is_complete:
        rows, size = _matching_rows(query, evidence), None
    else:
        rows, size = _scored_rows(evidence), _count_matches(evidence)
    parts = _ScoreParts(query, evidence, rows)
    keyword_scores = np.concatenate(keywords.text.scores_of(rows)).astype(np.float64)
    scores = (_TIE_BREAK / (keywords.text.best_score or 1.0)) * keyword_scores
    final_weights = replace(weights or _default_weights(query, evidence), **weight_changes)
    signals = {}
    for name, part in parts.named_parts(persons):
        signals[name] = part.weighted(getattr(final_weights, name))
        signals[name].add_to(scores)
    return Ranking(
        size=len(parts.candidates) if size is None else size,
        coverage=1.0
        if query.is_only_time
        else max([keywords.coverage, *map(_best_similarity, searched)]),
        has_spans=bool(query.spans),
        has_answer=bool(query.spans) or _has_answer(keywords.coverage, searched),
        signals=signals,
        _decisive=parts.scored_by_retriever(),
        _candidates=parts.candidates,
        _scores=scores,
        _segments=searched,
        _keywords=keywords,
        _uncounted_bound=None if size is None else _uncounted_bound(searched, final_weights),
        _rank_completely=lambda: rank(
            query, segments, weights=weights, weight_changes=weight_changes, is_complete=True
        ),
    )


def _default_weights(query: RetrievalQuery, evidence: _Evidence) -> Weights:
    """Return the weights for a query and the retrievers that answered it."""
    if query.is_only_time:
        return ONLY_TIME
    if evidence.has_similarities:
        return interpolate(WORDS_ONLY, WITH_MEANING, evidence.trust)
    return WORDS_ONLY


def _segments_with_matches(segments: Sequence[SearchedSegment]) -> Sequence[SearchedSegment]:
    """Return the segments that can hold a match, or all if there is none."""
    matching = [
        segment for segment in segments if segment.similarities is not None or any(segment.postings)
    ]
    return matching or segments


class _Evidence(NamedTuple):
    """The scores of all retrievers, before they are weighted."""

    segments: Sequence[SearchedSegment]
    keywords: KeywordRetrievers
    # In the order of `RETRIEVERS`; only the first two without embeddings.
    retrievers: list[ScoresBySegment]
    # The window score of the previous text, and the similarity (or window score) of the next one.
    before: ScoresBySegment
    after: ScoresBySegment
    # 1 for rows with every word of the query.
    every: ScoresBySegment
    # The share of the exact words of the query.
    exact: ScoresBySegment
    # The rows that are similar enough to be results without a common word.
    similar_rows: list[RowIndexes]
    # The share of the weights for semantic search.
    trust: float

    @property
    def has_similarities(self) -> bool:
        """True if any segment was compared by embeddings."""
        return len(self.retrievers) > 2


def _collect_evidence(
    query: RetrievalQuery, segments: Sequence[SearchedSegment], keywords: KeywordRetrievers
) -> _Evidence:
    """Run all retrievers.

    The gate reduces the influence of keywords if the best text covers little of the query; trust says how well the
    model reads the language.
    """
    trust = query.trust
    text, window = keywords.text.normalised_scores(), keywords.window.normalised_scores()
    if any(segment.similarities is not None for segment in segments):
        # The less the best text covers of the query words, the less keywords count: stray words must not decide.
        gate = min(1.0, (keywords.coverage / COVERAGE_GATE) ** 2)
        trust = trusted_share(trust, gate)
        gate = 1.0 - trust * (1.0 - gate)
        own_scores, context = similarity_scores(segments, text, gate)
        similar_rows = [
            _similar_rows(*triple) for triple in zip(segments, own_scores, context, strict=True)
        ]
        by_similarity = [own_scores, context]
    else:
        gate, similar_rows, by_similarity = 1.0, [_NO_ROWS] * len(segments), []
    text, window = _scale_scores(text, gate), _scale_scores(window, gate)
    before, after = _neighbour_scores(
        segments, window, by_similarity[0] if by_similarity else window
    )
    return _Evidence(
        segments=segments,
        keywords=keywords,
        retrievers=[text, window, *by_similarity],
        before=before,
        after=after,
        every=keywords.rows_with_every_word(),
        exact=keywords.rows_with_exact_words(query.exact_words),
        similar_rows=similar_rows,
        trust=trust,
    )


def _scale_scores(scores: Sequence[RetrieverScores], factor: float) -> ScoresBySegment:
    """Return scores times a factor."""
    return [RetrieverScores(part.rows, np.float32(factor) * part.scores) for part in scores]


def _count_matches(evidence: _Evidence) -> int:
    """Count the rows with a word of the query, and those that are only similar to it."""
    pairs = zip(evidence.keywords.postings, evidence.similar_rows, strict=True)
    only_similar = sum(
        int(np.count_nonzero(~postings.is_match.take(rows))) for postings, rows in pairs
    )
    return evidence.keywords.match_count + only_similar


def _uncounted_bound(segments: Sequence[SearchedSegment], weights: Weights) -> float:
    """Return an upper bound for the scores of matches that no retriever scored: only their length counts."""
    longest = min(LENGTH_LIMIT, max(segment.columns.longest for segment in segments))
    return 2 * _TIE_BREAK + max(0.0, weights.length) * float(_LENGTH_VALUES[longest])


def _neighbour_scores(
    segments: Sequence[SearchedSegment], previous: ScoresBySegment, next_scores: ScoresBySegment
) -> tuple[ScoresBySegment, ScoresBySegment]:
    """Return the scores of the text before and of the text after each row: an answer follows its question."""
    before = [
        _move_to_neighbours(scores, segment.statistics.links[1])
        for scores, segment in zip(previous, segments, strict=True)
    ]
    after = [
        _move_to_neighbours(scores, segment.statistics.links[0])
        for scores, segment in zip(next_scores, segments, strict=True)
    ]
    return before, after


def _move_to_neighbours(scores: RetrieverScores, links: RowIndexes) -> RetrieverScores:
    """Give each score to the linked row; drop it where there is none (-1)."""
    neighbours = links.take(scores.rows)
    is_linked = (neighbours >= 0).nonzero()[0]
    return RetrieverScores(neighbours.take(is_linked), scores.scores.take(is_linked))


def _matching_rows(query: RetrievalQuery, evidence: _Evidence) -> list[RowIndexes]:
    """Return all matches: rows with a word of the query, similar rows, and rows of the days that the query names.

    A query that only names a time matches the rows of that time. If no row matches, rows soon after it do.

    Rows of a short time that the query names are matches even without a common word, since "what did I do on Monday"
    has none.
    """
    postings = evidence.keywords.postings
    matches = [
        union(segment_postings.matches, similar) if len(similar) else segment_postings.matches
        for segment_postings, similar in zip(postings, evidence.similar_rows, strict=True)
    ]
    if not query.spans:
        return matches
    segments = [segment_postings.segment for segment_postings in postings]
    inside = [
        (_is_inside(query, segment.columns.times) & segment.allowed).nonzero()[0]
        for segment in segments
    ]
    if query.is_only_time and any(map(len, inside)):
        return inside
    if not any(map(len, matches)):
        return [
            ((_date_scores(query, segment.columns.times) > 0) & segment.allowed).nonzero()[0]
            for segment in segments
        ]
    days = replace(query, spans=tuple(span for span in query.spans if _is_short(span)))
    of_days = [
        (_is_inside(days, segment.columns.times) & segment.allowed).nonzero()[0]
        for segment in segments
    ]
    return [union(rows, of_day) for rows, of_day in zip(matches, of_days, strict=True)]


def _is_short(span: TimeSpan) -> bool:
    """Return True for days and weeks. Longer times have too many memories to say much."""
    return span.end - span.start <= SHORT_SPAN_DAYS * DAY_MS


def _scored_rows(evidence: _Evidence) -> list[RowIndexes]:
    """Return the matches that a retriever scored, or a neighbour, or another row of their session."""
    every_part = [*evidence.retrievers, evidence.before, evidence.after, evidence.every]
    scored = [
        np.concatenate([scores.rows for scores in of_segment])
        for of_segment in zip(*every_part, strict=True)
    ]
    segments = evidence.segments
    session_columns = [
        segment.columns.sessions.take(rows) for segment, rows in zip(segments, scored, strict=True)
    ]
    sessions = sorted_unique(np.concatenate(session_columns))
    sessions = sessions[sessions != 0]
    candidates = []
    for segment, rows, postings, similar in zip(
        segments, scored, evidence.keywords.postings, evidence.similar_rows, strict=True
    ):
        with_sessions = np.concatenate((rows, segment.columns.rows_of_sessions(sessions)[0]))
        matches = with_sessions[postings.is_match.take(with_sessions)]
        candidates.append(sorted_unique(np.concatenate((matches, similar))))
    return candidates


def _similar_rows(
    segment: SearchedSegment, own_scores: RetrieverScores, context: RetrieverScores
) -> RowIndexes:
    """Return the rows above the relevance threshold: results even without a common word."""
    similarities = segment.similarities
    if similarities is None:
        return _NO_ROWS
    rows = similarities.rows
    best = np.maximum(similarities.own, similarities.context)
    is_relevant = segment.allowed.take(rows) & (best >= similarities.threshold)
    is_relevant &= similarities.is_readable
    is_scored = is_in_sorted(rows, own_scores.rows) | is_in_sorted(rows, context.rows)
    relevant: RowIndexes = rows[is_relevant & is_scored]
    return relevant


def _has_answer(coverage: float, segments: Sequence[SearchedSegment]) -> bool:
    """Return True if the best match covers enough query words, or is similar enough with a bonus for its words.

    False makes the search return nothing instead of something unrelated. Callers can switch the threshold off
    (`--no-floor`).
    """
    threshold = max(
        (
            segment.similarities.answer_threshold
            for segment in segments
            if segment.similarities is not None
        ),
        default=0.0,
    )
    similarity = max(map(_best_similarity, segments), default=0.0)
    return coverage >= COVERAGE_GATE or COVERAGE_BONUS * coverage + similarity >= threshold


def _best_similarity(segment: SearchedSegment) -> float:
    """Return the highest similarity above the relevance threshold; 0 if there is none."""
    similarities = segment.similarities
    if similarities is None:
        return 0.0
    is_allowed = segment.allowed.take(similarities.rows) & similarities.is_readable
    best = float(similarities.own.max(initial=0.0, where=is_allowed))
    return best if best >= similarities.threshold else 0.0


class _ScoreParts:
    """The parts of the candidates' scores before weighting. A query without names or times has no such part."""

    def __init__(
        self, query: RetrievalQuery, evidence: _Evidence, rows: Sequence[RowIndexes]
    ) -> None:
        self.candidates = Candidates(rows)
        self._query, self._segments, self._rows = query, evidence.segments, rows
        self._retrievers = {
            name: self._join(scores)
            for name, scores in zip(RETRIEVERS, evidence.retrievers, strict=False)
        }
        self._before, self._after = self._join(evidence.before), self._join(evidence.after)
        self._every, self._exact = self._join(evidence.every), self._join(evidence.exact)

    def scored_by_retriever(self) -> RowIndexes:
        """Return the candidates with a score above 0 by any retriever."""
        scored = [
            part.candidates[part.values > 0]
            for part in self._retrievers.values()
            if part.candidates is not None
        ]
        return sorted_unique(np.concatenate(scored))

    def named_parts(self, persons: Sequence[np.uint64]) -> Iterator[tuple[str, ScorePart]]:
        """Yield every part with the name of its weight. `persons`: those that the query names."""
        yield from self._retrievers.items()
        yield "every", self._every
        if self._query.exact_words:
            yield "exact", self._exact
        yield "before", self._before
        yield "after", self._after
        # The relevance of single candidates, of which a session gets the maximum.
        relevance = np.zeros(len(self.candidates))
        for part in self._retrievers.values():
            share = part.values / np.float32(len(RETRIEVERS))
            ScorePart(part.candidates, share).add_to(relevance)
        if persons:
            by_person = self._compute(
                lambda columns, rows: _person_matches(persons[0], columns, rows)
            )
            yield ("person" if len(persons) == 1 else "first_named"), by_person
            if len(persons) == 1:
                by_person.weighted(SESSION_PERSON_WEIGHT).add_to(relevance)
        if self._query.spans:
            by_date = self._compute(
                lambda columns, rows: _date_scores(self._query, columns.times.take(rows))
            )
            yield "date", self._newest_first(by_date) if self._query.is_only_time else by_date
            by_date.weighted(SESSION_DATE_WEIGHT).add_to(relevance)
        yield "session", self._session_maxima(relevance)
        lengths = self.candidates.values([segment.columns.lengths for segment in self._segments])
        # Longer texts than LENGTH_LIMIT get the last value.
        yield "length", ScorePart(None, _LENGTH_VALUES.take(lengths, mode="clip"))

    def _join(self, scores: Iterable[RetrieverScores]) -> ScorePart:
        """Join the scores of all segments to one part; scores of rows that are no candidates are dropped."""
        candidates, values = [], []
        for number, of_segment in enumerate(scores):
            own_candidates, indexes = self.candidates.find(number, of_segment.rows)
            candidates.append(own_candidates)
            values.append(of_segment.scores.take(indexes))
        return ScorePart(np.concatenate(candidates), np.concatenate(values))

    def _compute(self, compute: Callable[[VersionColumns, RowIndexes], Scores]) -> ScorePart:
        """Compute a part from the columns of each segment."""
        values = np.concatenate(
            [
                compute(segment.columns, rows)
                for segment, rows in zip(self._segments, self._rows, strict=True)
            ]
        )
        candidates = np.flatnonzero(values != 0)
        return ScorePart(candidates, values[candidates])

    def _newest_first(self, by_date: ScorePart) -> ScorePart:
        """Return the part with values that also rise a little with the time, in the order of the times."""
        assert by_date.candidates is not None
        times = self.candidates.values([segment.columns.times for segment in self._segments])
        positions = np.unique(times.take(by_date.candidates), return_inverse=True)[1]
        share = (positions + 1) / max(1, len(positions))
        values = by_date.values * (1 - TIME_ORDER_SHARE * (1 - share))
        return ScorePart(by_date.candidates, values)

    def _session_maxima(self, relevance: NDArray[Any]) -> ScorePart:
        """Return the highest relevance in each candidate's session; its own if it has no session."""
        relevant = np.flatnonzero(relevance > 0)
        sessions = self.candidates.take(
            [segment.columns.sessions for segment in self._segments], relevant
        )
        is_single = sessions == 0
        singles, members = relevant[is_single], relevant[~is_single]
        candidates, values = [singles], [relevance.take(singles).astype(np.float64)]
        sessions = sessions[~is_single]
        if not len(sessions):
            return ScorePart(candidates[0], values[0])
        order = sessions.argsort(kind="stable")
        sessions = sessions.take(order)
        starts = np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1]))
        maxima = np.maximum.reduceat(relevance.take(members.take(order)), starts)
        for number, segment in enumerate(self._segments):
            rows, session_indexes = segment.columns.rows_of_sessions(sessions.take(starts))
            own_candidates, indexes = self.candidates.find(number, rows)
            candidates.append(own_candidates)
            values.append(maxima.take(session_indexes.take(indexes)))
        return ScorePart(np.concatenate(candidates), np.concatenate(values))


def _person_matches(person: np.uint64, columns: VersionColumns, rows: RowIndexes) -> Scores:
    """Return 1 for rows that a person wrote or that are about the person, else 0."""
    matches: Flags = (columns.speakers[rows] == person) | (columns.subjects[rows] == person)
    return matches.astype(np.float64)


def _named_persons(query: RetrievalQuery, segments: Sequence[SearchedSegment]) -> list[np.uint64]:
    """Return the speakers and subjects that the query names, in its order."""
    persons: set[int] = set()
    names = np.array(query.names, np.uint64)
    for segment in segments if query.names else ():
        columns = segment.columns
        for name in names[is_in_sorted(names, columns.persons)]:
            if np.any(segment.visible & ((columns.speakers == name) | (columns.subjects == name))):
                persons.add(int(name))
    return [np.uint64(name) for name in query.names if name in persons]


def _date_scores(query: RetrievalQuery, times: NDArray[np.int64]) -> Scores:
    """Score times (Unix milliseconds) by the spans of the query: highest inside, falling in the tail after the end.

    People tell of an event on its day or soon after it.
    """
    scores = np.zeros(len(times))
    if not len(times) or not query.spans:
        return scores
    first, last = int(times.min()), int(times.max())
    for span in query.spans:
        if span.start <= last and first < span.end + span.tail:
            # Below 0: before the end of the span; from 0 to 1: in the tail.
            delay = (times - span.end) / span.tail
            in_tail = (delay >= 0) & (delay < 1)
            falling = span.after + (span.later - span.after) * delay
            outside = np.where(in_tail, falling, 0.0)
            is_inside = (times >= span.start) & (delay < 0)
            scores = np.maximum(scores, np.where(is_inside, span.inside, outside))
    return scores


def _is_inside(query: RetrievalQuery, times: NDArray[np.int64]) -> Flags:
    """Return a flag for each time: True if it is inside of a span of the query."""
    flags = np.zeros(len(times), np.bool_)
    for span in query.spans:
        flags |= (times >= span.start) & (times < span.end)
    return flags


def _best_candidates(scores: Scores, count: int) -> RowIndexes:
    """Return the candidates with the highest scores, best first; of equal scores the last candidate first.

    Score and candidate are packed into one integer each, because NumPy sorts integers five times as fast as pairs.
    """
    highest = max(1e-9, scores.max(initial=0.0))
    candidates = np.arange(len(scores))
    if count < len(scores):
        # Scores below the last one by less than two units of the key count as equal to it, so they are sorted, too.
        lowest = np.partition(scores, len(scores) - count)[len(scores) - count]
        margin = 2.0 * highest / _SCORE_UNITS
        candidates = np.flatnonzero(scores >= min(lowest, highest) - margin)
    fractions = np.clip(scores.take(candidates) / highest, 0.0, 1.0)
    keys = (fractions * _SCORE_UNITS).astype(np.uint64) << _CANDIDATE_BITS
    keys |= candidates.astype(np.uint64)
    keys.sort()
    best: RowIndexes = (keys[::-1][:count] & _CANDIDATE_MASK).astype(np.int64)
    return best
