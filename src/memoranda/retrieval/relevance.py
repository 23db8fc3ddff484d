"""The relevance of a result: the estimated probability, from 0 to 1, that it answers the query.

A score compares the results of one query; relevance also compares queries. It depends only on the result itself: its
similarity to the query, and the share of the query words that it contains (`weights`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.ranking import Ranking, RetrievalQuery
from memoranda.retrieval.retrievers import SearchedSegment, is_in_sorted
from memoranda.retrieval.weights import CERTAIN_RELEVANCE, READING_TRUST, estimate_probability


def estimate_relevance(
    version_ids: Sequence[int],
    query: RetrievalQuery,
    ranking: Ranking,
    segments: Sequence[SearchedSegment],
    *,
    is_calibrated: bool,
) -> dict[int, float]:
    """Return the relevance of some results of a query, by their ids.

    `is_calibrated`: the similarities are those of a model that the coefficients were fitted to.
    """
    if query.is_only_time:
        return dict.fromkeys(version_ids, CERTAIN_RELEVANCE)
    ids = np.sort(np.array(version_ids, np.int64))
    relevance: dict[int, float] = {}
    for segment in segments:
        columns = segment.columns
        rows = columns.rows_of(ids)
        contains = np.zeros((len(segment.postings), len(rows)), np.bool_)
        for word, postings in enumerate(segment.postings):
            if postings is not None and len(rows):
                contains[word] = is_in_sorted(rows, postings[0])
        shares = _weighted_share(contains, ranking.weights)
        exact = list(query.exact_words)
        exact_shares = contains[exact].mean(axis=0) if exact else np.zeros(len(rows))
        similarities, trust = _similarities(segment if is_calibrated else None, rows)
        for version_id, similarity, trusted, share, exact_share, session in zip(
            columns.versions.take(rows).tolist(),
            similarities.tolist(),
            trust.tolist(),
            shares.tolist(),
            exact_shares.tolist(),
            columns.sessions.take(rows).tolist(),
            strict=True,
        ):
            estimate = estimate_probability(similarity, trusted, share, is_turn=session != 0)
            relevance[version_id] = max(estimate, CERTAIN_RELEVANCE * exact_share)
    return relevance


def _weighted_share(
    contains: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the share of the query's weight of each row, given the words that it contains."""
    total = float(weights.sum())
    shares: NDArray[np.float64] = weights @ contains / (total or 1.0)
    return shares


def _similarities(
    segment: SearchedSegment | None, rows: NDArray[np.int64]
) -> tuple[
    NDArray[np.float64],
    NDArray[np.float64],
]:
    """Return the similarity of each row and the trust in it; trust 0 for rows that were not compared."""
    values, trust = np.zeros(len(rows)), np.zeros(len(rows))
    similarities = None if segment is None else segment.similarities
    if similarities is None or not len(similarities.rows):
        return values, trust
    positions = similarities.rows.searchsorted(rows)
    is_known = similarities.rows.take(positions, mode="clip") == rows
    positions = np.minimum(positions, len(similarities.rows) - 1)
    best = np.maximum(similarities.own, similarities.context).take(positions)
    values[is_known] = best[is_known]
    trust[is_known] = 1.0
    if similarities.trust is not None:
        trust[is_known] = similarities.trust.take(positions)[is_known]
    # A model that hardly reads a language is no evidence.
    trust[trust < READING_TRUST] = 0.0
    return values, trust
