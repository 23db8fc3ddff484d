"""Search: the ranking of one query among the versions of a selection.

1. The visible rows of each segment are computed from its columns (scope, visibility) and the closed versions. All
   statistics of the ranking come from these rows.
2. The query is read and its words are looked up (`questions`), similarities are computed, and the segments are ranked
   (`retrieval.ranking`).
3. The database checks what segments do not store: kinds, fields, statuses, ends of validity. Either all matches are
   checked first and the passing ones are ranked again, or, if there are many and nearly all will pass, only those that
   determine the scores and those that are returned.

This module imports NumPy, so it is imported when the first search runs (`SqlSnapshot.match`).

The functions at the end add the details of results: similarities, passages of long texts, parts of the scores.

Why in this order: segments are arrays in memory, so filtering and scoring hundreds of thousands of rows takes
milliseconds, while the database takes microseconds for each version. So the segments decide all that they store, and
the database sees few versions. `_check` chooses between its two ways by the size of the ranking.

Rules for changes. Statistics (document frequencies, lengths) must come from visible rows only: otherwise scores would
reveal texts that the caller may not see. The same query on the same snapshot must give the same order, so ties are
broken by version id or address. A filter that segments cannot decide must be named in `_has_database_filters`, or its
versions are treated as certain to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeGuard

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from memoranda.model.instant import Instant
from memoranda.model.memory import VISIBILITIES, Version
from memoranda.model.selection import (
    IsAmong,
    IsOneOf,
    KeywordQuery,
    Matches,
    Reason,
    RetrieverQuery,
    Selected,
    Selection,
    VectorQuery,
)
from memoranda.retrieval.analysis import QueryWord
from memoranda.retrieval.entry import EXPIRING_BIT, NO_BEGINNING, VISIBILITY_BITS
from memoranda.retrieval.newest import (
    COMPARED_RESULTS,
    asks_for_now,
    collect_facts,
    fact_text,
    falling_scores,
    lead_with_newest,
    readable_versions,
)
from memoranda.retrieval.ranking import Ranking, SegmentScope, rank
from memoranda.retrieval.relevance import estimate_relevance
from memoranda.retrieval.retrievers import SearchedSegment
from memoranda.retrieval.segment import Flags, VersionColumns
from memoranda.retrieval.vectors import ComparableVectors, add_similarities
from memoranda.retrieval.weights import CANDIDATE_LIMIT
from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.crypto.fingerprints import Fingerprints
from memoranda.storage.engine.caches import Age, SearchCache
from memoranda.storage.engine.database import Connection
from memoranda.storage.engine.selection import SelectionSql
from memoranda.storage.index.questions import Question, QuestionReader, VisibleSegment
from memoranda.storage.index.word_index import WordIndex

if TYPE_CHECKING:
    from memoranda.storage.engine.caches import ClosedVersions

# The weight of a query word if there is nothing to search.
_UNKNOWN_WEIGHT: Final = 1.0
# Versions per query to the database.
_PAGE_VERSIONS: Final = 2_000
# Matches: up to this many are all checked if a total is useful but not required; it takes less than a millisecond.
_COUNT_LIMIT: Final = 1_000
# Versions: a smaller selection is read from an index of the database, and nothing else is ranked.
_SMALL_SELECTION: Final = 4_096
# If more than one in this many candidates fails the check, more candidates are checked at once.
_FAILING_SHARE: Final = 4
# The statuses of versions that are neither forgotten nor erased.
_LIVE_STATUSES: Final = ("active", "candidate")


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """One search in a tenant, on a connection with a consistent snapshot."""

    connection: Connection
    tenant: str
    tenant_id: int
    fingerprints: Fingerprints
    cache: SearchCache
    cipher: Cipher
    # Counters of erasures and key changes, and of closed versions, as of the snapshot.
    age: Age
    closing_seq: int
    now: Instant
    selection: Selection
    # Builds the SQL of the selection; called once per statement.
    selection_sql: Callable[[], SelectionSql]
    # Reads versions by their ids.
    versions: Callable[[list[int]], list[Version]]
    # Returns all selected versions if there are at most so many, and an index for them, else None.
    select_few: Callable[[int], list[Selected] | None]

    def run(
        self,
        queries: Sequence[RetrieverQuery],
        *,
        limit: int,
        count_all: bool,
        count_if_cheap: bool,
    ) -> Matches:
        """Return the best matches. The total is counted if `count_all`, or if that is cheap and requested.

        The result has at most `limit` hits. `total` is None if it was not counted. Without any word, vector or time in
        the query there is nothing to rank, and the result is empty.
        """
        keyword_query, vector_query = _queries_by_kind(queries)
        if (question := self._read_question(keyword_query, vector_query)) is None:
            return Matches(hits=(), total=0)
        vector_query = question.vector_query
        segments = self._compare(question.segments, vector_query)
        # An explanation names ranks among all matches, so all must be scored.
        rank_segments = partial(
            rank,
            question.ranking_query,
            weight_changes=dict(keyword_query.weights),
            is_complete=keyword_query.is_explained,
        )
        ranking = rank_segments(segments) if segments else None
        if ranking is None or not len(ranking):
            unknown = {word.terms: _UNKNOWN_WEIGHT for word in question.words}
            return Matches(hits=(), total=0, weights=unknown)
        segments, ranking, matches = self._check(
            question, rank_segments, segments, ranking, limit, count_all, count_if_cheap
        )
        matches = self._lead_with_newest(
            matches, ranking, segments, (keyword_query, vector_query), limit
        )
        if not (ranking.has_answer or question.exact_count):
            # The weights are still returned: the caller compares other texts by them.
            return replace(matches, hits=(), total=0)
        matches = add_reasons(matches, ranking, segments, is_explained=keyword_query.is_explained)
        matches = add_passages(matches, self._vectors, vector_query)
        return self._with_relevance(matches, ranking, segments, question)

    def _check(
        self,
        question: Question,
        rank_segments: Callable[[list[SearchedSegment]], Ranking],
        segments: list[SearchedSegment],
        ranking: Ranking,
        limit: int,
        count_all: bool,
        count_if_cheap: bool,
    ) -> tuple[list[SearchedSegment], Ranking, Matches]:
        """Return the segments, the ranking and the best matches after the checks by the database.

        Three cases. A selection that an index of the database holds completely (`few`) is read first, and only its
        versions are ranked. A small ranking is checked as a whole. Of a large one only the candidates that determine
        the scores are checked, because nearly all matches of a usual query pass.
        """
        words, vector_query = question.words, question.vector_query
        size, is_filtered, few = len(ranking), self._has_database_filters, None
        # One more than requested, to know whether there are more.
        hit_count = max(limit + 1, COMPARED_RESULTS)
        if (is_filtered or count_all) and (size > _SMALL_SELECTION or vector_query is not None):
            selected_hits = self.select_few(_SMALL_SELECTION)
            if selected_hits is not None:
                few = {hit.version_id: hit.address for hit in selected_hits}
        is_small = (is_filtered and size <= _SMALL_SELECTION) or (
            count_if_cheap and size <= _COUNT_LIMIT
        )
        if count_all or few is not None or is_small:
            # All matches are checked before they are scored.
            passing = self._passing_pages(ranking.version_ids) if few is None else few
            if few is not None or len(passing) < size:
                if few is None:
                    passing.update(self._passing_nearest(segments, passing))
                segments = self._compare(_only_versions(segments, passing), vector_query)
                ranking = rank_segments(segments)
            matches = self._best_matches(ranking, words, passing, hit_count, len(ranking))
        else:
            segments, ranking, passing = self._check_candidates(
                rank_segments, segments, ranking, vector_query, hit_count
            )
            matches = self._best_matches(ranking, words, passing, hit_count, None)
            if len(matches.hits) <= limit:
                matches = replace(matches, total=len(matches.hits))
        return segments, ranking, matches

    @staticmethod
    def _with_relevance(
        matches: Matches,
        ranking: Ranking,
        segments: list[SearchedSegment],
        question: Question,
    ) -> Matches:
        """Return the matches with the estimated relevance of each."""
        vector_query = question.vector_query
        relevance = estimate_relevance(
            [hit.version_id for hit in matches.hits],
            question.ranking_query,
            ranking,
            segments,
            is_calibrated=vector_query is not None and vector_query.is_calibrated,
        )
        return replace(matches, relevance=relevance)

    def _read_question(
        self, query: KeywordQuery, vector_query: VectorQuery | None
    ) -> Question | None:
        """Return the question as the visible texts answer it; None if there is nothing to search."""
        return QuestionReader(
            query=query,
            vector_query=vector_query,
            visible=self._visible_segments(),
            tenant=self.tenant,
            fingerprints=self.fingerprints,
            now=self.now,
            versions=self.versions,
        ).read()

    def _check_candidates(
        self,
        rank_segments: Callable[[list[SearchedSegment]], Ranking],
        segments: list[SearchedSegment],
        ranking: Ranking,
        vector_query: VectorQuery | None,
        result_count: int,
    ) -> tuple[list[SearchedSegment], Ranking, dict[int, str]]:
        """Check the candidates that set the scale of the scores, and the first results; repeat without failing ones.

        Return segments and ranking of the passing versions, and the versions that are known to pass.

        The scale of the scores depends on the best candidates of each retriever. If one of them fails, it must not have
        an influence, so the ranking is repeated without it, until all that remain pass.
        """
        passing: dict[int, str] = {}
        while True:
            doubtful, certain_count = self._doubtful_candidates(ranking)
            unchecked = {version_id for version_id in doubtful if version_id not in passing}
            first_results = ranking.best(0, result_count)[0]
            results = {version_id for version_id in first_results if version_id not in passing}
            newly_passing = self._passing(sorted(unchecked | results))
            passing.update(newly_passing)
            failing = unchecked - newly_passing.keys()
            if not failing:
                return segments, ranking, passing
            is_selective = len(failing) * _FAILING_SHARE > len(unchecked) + certain_count
            if is_selective:
                failing |= self._failing_ahead(segments, ranking, passing, failing)
            removed = np.array(sorted(failing), np.int64)
            segments = [
                replace(segment, allowed=segment.allowed & segment.columns.all_except(removed))
                for segment in segments
            ]
            if is_selective:
                segments = self._compare(segments, vector_query)
            ranking = rank_segments(segments)

    def _failing_ahead(
        self,
        segments: list[SearchedSegment],
        ranking: Ranking,
        passing: dict[int, str],
        failing: set[int],
    ) -> set[int]:
        """Check the best versions of each retriever until enough pass; return failing ones and add to `passing`.

        If a filter is selective, removing the failing candidates one round at a time would take many rounds. Here whole
        pages of each retriever's best versions are checked until CANDIDATE_LIMIT of them pass.
        """
        by_retriever = list(ranking.keyword_scores())
        for segment in segments:
            similarities = segment.similarities
            if similarities is not None:
                is_allowed = segment.allowed[similarities.rows]
                versions = segment.columns.versions[similarities.rows[is_allowed]]
                by_retriever.append((versions, similarities.own[is_allowed]))
                by_retriever.append((versions, similarities.context[is_allowed]))
        newly_failing: set[int] = set()
        for versions, scores in by_retriever:
            best_first = versions[np.argsort(-scores, kind="stable")]
            passing_count, start = 0, 0
            while start < len(best_first) and passing_count < CANDIDATE_LIMIT:
                page = best_first[start : start + _PAGE_VERSIONS].tolist()
                start += _PAGE_VERSIONS
                unchecked = [
                    version_id
                    for version_id in page
                    if version_id not in passing
                    and version_id not in newly_failing
                    and version_id not in failing
                ]
                passing.update(self._passing(unchecked))
                newly_failing.update(
                    version_id for version_id in unchecked if version_id not in passing
                )
                passing_count += sum(version_id in passing for version_id in page)
        return newly_failing

    def _lead_with_newest(
        self,
        matches: Matches,
        ranking: Ranking,
        segments: list[SearchedSegment],
        queries: tuple[KeywordQuery, VectorQuery | None],
        limit: int,
    ) -> Matches:
        """Return `limit` matches with the newest statement of each fact first; the scores keep their positions.

        Only the first COMPARED_RESULTS hits are compared with each other. A newer statement takes the position, and the
        score, of the older one that it replaces; the older one follows directly behind.
        """
        hits = matches.hits[:COMPARED_RESULTS]
        keyword_query, vector_query = queries
        # A query that names a time asks for the state of that time.
        if len(hits) < 2 or keyword_query.load_text is None or ranking.has_spans:
            return replace(matches, hits=matches.hits[:limit])
        similarities = None
        ids = np.array([hit.version_id for hit in hits], np.int64)
        if vector_query is not None and vector_query.second is not None:
            vectors = self._vectors(vector_query)
            readable = readable_versions(ids, segments, vector_query.trust)
            similarities = None if vectors is None else vectors.similarities_among(readable)
        texts = {
            version.version_id: fact_text(keyword_query.load_text(version))
            for version in self.versions(sorted(ids.tolist()))
        }
        facts = collect_facts(ids, texts, segments, ranking.weights)
        order = lead_with_newest(facts, similarities, is_now=asks_for_now(keyword_query.text))
        scores = falling_scores([hit.lexical for hit in matches.hits], order)
        reordered = [hits[index] for index in order] + list(matches.hits[COMPARED_RESULTS:])
        scored = (hit._replace(lexical=score) for hit, score in zip(reordered, scores, strict=True))
        return replace(matches, hits=tuple(scored)[:limit])

    # --- similarity --------------------------------------------------------------------------------------

    def _compare(
        self, segments: list[SearchedSegment], query: VectorQuery | None
    ) -> list[SearchedSegment]:
        """Return segments with the similarities of their vectors; unchanged if there are no vectors."""
        if query is None or not segments:
            return segments
        vectors = self._vectors(query)
        return segments if vectors is None else add_similarities(segments, vectors, query)

    def _vectors(self, query: VectorQuery) -> ComparableVectors | None:
        """Return the vectors of the tenant by the model of a query; None if there are none."""
        return self.cache.vectors.matrix(
            self.connection,
            self.tenant,
            self.tenant_id,
            query.model,
            len(query.vector),
            self.age,
            self.cipher,
        )

    def _passing_nearest(
        self, segments: list[SearchedSegment], passing: dict[int, str]
    ) -> dict[int, str]:
        """Return the most similar versions that pass, as many as a retriever returns.

        Semantic search finds versions that share no word with the query, so they are not among the matches of the
        keyword ranking and must be checked in addition.
        """
        versions_by_segment, scores_by_segment = [], []
        for segment in segments:
            similarities = segment.similarities
            if similarities is not None:
                is_allowed = segment.allowed[similarities.rows]
                rows = similarities.rows[is_allowed]
                versions_by_segment.append(segment.columns.versions[rows])
                scores_by_segment.append(similarities.own[is_allowed])
        if not versions_by_segment:
            return {}
        versions = np.concatenate(versions_by_segment)
        order = np.argsort(-np.concatenate(scores_by_segment), kind="stable")
        nearest: dict[int, str] = {}
        for start in range(0, len(order), _PAGE_VERSIONS):
            page = versions[order[start : start + _PAGE_VERSIONS]].tolist()
            unchecked = [version_id for version_id in page if version_id not in passing]
            known_passing = {
                version_id: passing[version_id] for version_id in page if version_id in passing
            }
            nearest.update({**known_passing, **self._passing(unchecked)})
            if len(nearest) >= CANDIDATE_LIMIT:
                break
        return nearest

    # --- visible rows ------------------------------------------------------------------------------------

    def _visible_segments(self) -> list[VisibleSegment]:
        """Return the segments with at least one visible row.

        The flags are cached with the columns of a segment, keyed by scope, closed versions and instant. Most queries of
        one agent have the same scope, so they find them there.
        """
        selection = self.selection
        if any(
            isinstance(test, IsAmong) and not test.version_ids and not test.negated
            for test in selection.tests
        ):
            return []
        scope = self._scope()
        scopes: tuple[SegmentScope, ...] = (scope,)
        if selection.or_no_space:
            scopes = (scope, replace(scope, space=self._number("")))
        closed_versions = self._closed_versions()
        # Two instants see the same rows if the same versions have begun and ended by then; so the view can be cached.
        ended_count = None
        if closed_versions is not None and selection.at is not None:
            ended_count = int(np.count_nonzero(closed_versions[:, 1] <= selection.at))
        compute = partial(_visible_rows, scopes, closed_versions, selection.at)
        segments = []
        for segment in WordIndex(self.connection, self.tenant_id, self.cache.segments).segments():
            validity = None if selection.at is None else segment.columns.validity_key(selection.at)
            visible = segment.columns.cached_view(
                (scopes, ended_count, validity), closed_versions, compute
            )
            if np.any(visible):
                segments.append(VisibleSegment(segment, visible))
        return segments

    def _scope(self) -> SegmentScope:
        """Return the part of the selection that segments can decide."""
        selection, number = self.selection, self._optional_number
        visibilities = selection.visibilities
        bits = None
        if visibilities is not None and set(visibilities) != set(VISIBILITIES):
            bits = sum(VISIBILITY_BITS[visibility] for visibility in visibilities)
        return SegmentScope(
            space=number(selection.space),
            user=number(selection.user),
            agent=number(selection.agent),
            session=number(selection.session),
            visibility_bits=bits,
            redacted=selection.redacted,
            users=self._users(),
        )

    def _users(self) -> tuple[int, ...] | None:
        """Return the users that all tests of the user accept; None if there is no such test."""
        accepted = [set(test.texts) for test in self.selection.tests if _is_by_user(test)]
        return tuple(map(self._number, set.intersection(*accepted))) if accepted else None

    def _optional_number(self, text: str | None) -> int | None:
        return None if text is None else self._number(text)

    def _number(self, text: str) -> int:
        return self.fingerprints.number(self.tenant_id, text)

    def _closed_versions(self) -> ClosedVersions | None:
        """Return the versions that are not live; None if the selection includes them at any time.

        With `known_at`, versions that were closed later count as open, which only the database can tell.
        """
        selection = self.selection
        if selection.known_at is not None:
            return None
        if selection.at is None and selection.status_filter != "live":
            return None
        return self.cache.closed_versions(self.connection, self.tenant_id, self.closing_seq)

    # --- checks by the database --------------------------------------------------------------------------

    @property
    def _has_database_filters(self) -> bool:
        """True if the selection has a condition that segments cannot decide, other than the end of validity."""
        selection = self.selection
        tests = [test for test in selection.all_tests() if not _is_by_user(test)]
        filters = (selection.kinds, selection.form, selection.known_at)
        includes_live = selection.statuses is None or set(_LIVE_STATUSES) <= set(selection.statuses)
        return (
            bool(tests)
            or any(condition is not None for condition in filters)
            or selection.status_filter != "live"
            or not includes_live
            or selection.exportable
        )

    def _doubtful_candidates(self, ranking: Ranking) -> tuple[list[int], int]:
        """Return the scored candidates that only the database can check, and the number of the others.

        Without database filters, a live version that is valid and does not expire passes certainly.
        """
        selection, decisive = self.selection, ranking.decisive_rows
        if self._has_database_filters or selection.has_fields or selection.standard is not None:
            doubtful = [
                version_id
                for columns, rows in decisive
                for version_id in columns.versions.take(rows).tolist()
            ]
            return doubtful, 0
        closed_versions = self._closed_versions()
        moment = self.now if selection.at is None else selection.at
        doubtful, certain_count = [], 0
        for columns, rows in decisive:
            lasting = columns.cached_view(
                "lasting", closed_versions, partial(_lasting_rows, closed_versions)
            )
            is_certain = lasting.take(rows)
            is_certain &= columns.valid_from.take(rows) <= moment
            is_certain &= columns.valid_to.take(rows) > moment
            # Segments of an earlier analysis state only the time of observation.
            is_known = columns.valid_from.take(rows) > NO_BEGINNING
            is_certain &= is_known | (columns.times.take(rows) <= moment)
            doubtful_rows = rows[~is_certain]
            doubtful += columns.versions.take(doubtful_rows).tolist()
            certain_count += len(rows) - len(doubtful_rows)
        return doubtful, certain_count

    def _passing_pages(self, versions: NDArray[np.int64]) -> dict[int, str]:
        """Return the versions that pass, with their addresses, page by page."""
        passing: dict[int, str] = {}
        for start in range(0, len(versions), _PAGE_VERSIONS):
            passing.update(self._passing(versions[start : start + _PAGE_VERSIONS].tolist()))
        return passing

    def _passing(self, version_ids: list[int]) -> dict[int, str]:
        """Return the versions that pass, with their addresses."""
        if not version_ids:
            return {}
        sql = self.selection_sql()
        return dict(self.connection.select(sql.build_filter(version_ids), sql.params))

    def _best_matches(
        self,
        ranking: Ranking,
        words: list[QueryWord],
        passing: dict[int, str],
        limit: int,
        total: int | None,
    ) -> Matches:
        """Return the best passing versions; of equal scores the lower address first, if there are addresses.

        `total` None: `passing` is incomplete, so the database is asked about each page.

        Pages double in size: mostly the first page is enough, and a rare filter needs many versions.
        """
        hits: list[Selected] = []
        start, size = 0, min(limit, _PAGE_VERSIONS)
        while start < len(ranking):
            # Versions with the score of the last one are needed, too, to sort them by address.
            if (
                len(hits) >= limit
                and [hits[limit - 1].lexical] != ranking.best(start, start + 1)[1]
            ):
                break
            versions, scores = ranking.best(start, start + size)
            if total is None:
                unchecked = [version_id for version_id in versions if version_id not in passing]
                passing = {**passing, **self._passing(unchecked)}
            hits += [
                Selected(version_id, passing[version_id], score)
                for version_id, score in zip(versions, scores, strict=True)
                if version_id in passing
            ]
            start, size = start + size, min(2 * size, _PAGE_VERSIONS)
        if self.selection.has_fields:
            hits.sort(key=lambda hit: (-hit.lexical, hit.address))
        weights = zip(words, ranking.weights.tolist(), strict=False)
        return Matches(
            hits=tuple(hits[:limit]),
            total=total,
            # A query that only names a time has no words, but it is one.
            weights={word.terms: weight for word, weight in weights} or {(): 0.0},
            mean_terms=ranking.mean_length,
            coverage=ranking.coverage,
        )


def _queries_by_kind(
    queries: Sequence[RetrieverQuery],
) -> tuple[KeywordQuery, VectorQuery | None]:
    """Return the keyword query, and the vector query if there is one."""
    keyword_query = next(query for query in queries if isinstance(query, KeywordQuery))
    vector_query = next((query for query in queries if isinstance(query, VectorQuery)), None)
    return keyword_query, vector_query


def _visible_rows(
    scopes: Sequence[SegmentScope],
    closed_versions: ClosedVersions | None,
    at: Instant | None,
    columns: VersionColumns,
) -> Flags:
    """Return a flag for each row: True if it is in one of the scopes, and valid at `at`; without `at`, not closed."""
    visible = scopes[0].matches(columns)
    for scope in scopes[1:]:
        visible |= scope.matches(columns)
    if at is not None:
        visible &= columns.is_valid_at(at)
    if closed_versions is not None and len(closed_versions):
        ended_versions = (
            closed_versions[:, 0] if at is None else closed_versions[closed_versions[:, 1] <= at, 0]
        )
        visible &= columns.all_except(ended_versions)
    return visible


def _lasting_rows(closed_versions: ClosedVersions | None, columns: VersionColumns) -> Flags:
    """Return a flag for each row: True if it is live and does not expire."""
    lasting: Flags = (columns.flags & EXPIRING_BIT) == 0
    if closed_versions is None or not len(closed_versions):
        return lasting
    return lasting & columns.all_except(closed_versions[:, 0])


def _only_versions(
    segments: list[SearchedSegment], passing: dict[int, str]
) -> list[SearchedSegment]:
    """Allow only the rows of some versions."""
    versions = np.sort(np.fromiter(passing, np.int64, len(passing)))
    return [
        replace(segment, allowed=segment.visible & ~segment.columns.all_except(versions))
        for segment in segments
    ]


def _is_by_user(test: object) -> TypeGuard[IsOneOf]:
    """Return True if a test is one of the user that segments can decide."""
    return isinstance(test, IsOneOf) and test.name == "user" and test.or_missing


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
