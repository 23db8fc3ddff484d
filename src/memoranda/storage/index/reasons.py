"""Details of the results of a search: similarities, passages of long texts, parts of the scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from memoranda.model.selection import Matches, Reason, VectorQuery
from memoranda.retrieval.ranking import Ranking
from memoranda.retrieval.retrievers import SearchedSegment
from memoranda.retrieval.vectors import ComparableVectors


def add_passages(
    matches: Matches,
    load_vectors: Callable[[VectorQuery], ComparableVectors | None],
    query: VectorQuery | None,
) -> Matches:
    """Add the similarity of the query to the passages of long texts among the results."""
    vectors = None if query is None or not matches.hits else load_vectors(query)
    if query is None or vectors is None:
        return matches
    ids = np.array([hit.version_id for hit in matches.hits], np.int64)
    return replace(matches, passages=vectors.passage_cosines(query.vector, ids))


def add_reasons(
    matches: Matches, ranking: Ranking, segments: list[SearchedSegment], *, is_explained: bool
) -> Matches:
    """Add the similarity of each hit, and the parts of its score if requested."""
    hit_ids = [hit.version_id for hit in matches.hits]
    nearness: dict[int, float] = {}
    for segment in segments:
        similarities = segment.similarities
        if similarities is None:
            continue
        versions = segment.columns.versions[similarities.rows]
        indexes = np.flatnonzero(np.isin(versions, hit_ids))
        cosines = similarities.own[indexes].tolist()
        by_version = zip(versions[indexes].tolist(), cosines, strict=True)
        nearness |= {
            version_id: cosine
            for version_id, cosine in by_version
            if cosine >= similarities.threshold
        }
    if not is_explained:
        return replace(matches, nearness=nearness)
    reasons: dict[int, dict[str, Reason]] = {version_id: {} for version_id in hit_ids}
    for name, part in ranking.signals.items():
        for version_id in hit_ids:
            if value := part.value_of(ranking.candidate_of(version_id)):
                reason = Reason(part=value, rank=part.rank(value, len(ranking)))
                reasons[version_id][name] = reason
    return replace(matches, nearness=nearness, reasons=reasons)
