"""What is left out of a ranking would have changed nothing: the order is that of everything, ties and all."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memoranda.retrieval import ranking, retrievers
from memoranda.retrieval.entry import IndexedText, IndexEntry
from memoranda.retrieval.ranking import Ranking, RetrievalQuery, SegmentScope, rank
from memoranda.retrieval.retrievers import SearchedSegment, Similarities
from memoranda.retrieval.segment import build_segment
from memoranda.retrieval.weights import TimeSpan
from tests.retrieval.plain_ranking import plain_order

DAY_MS = 86_400_000
WORDS = (3, 5, 7, 11)
CANDIDATE_LIMIT, DEDUPLICATION_LIMIT = 5, 10
SCOPES = (
    SegmentScope(),
    SegmentScope(space=1),
    SegmentScope(users=(21,)),
    SegmentScope(visibility_bits=1, redacted=False),
)


@pytest.fixture(autouse=True, scope="module")
def few_are_many() -> object:
    """As among many: more than five are left out, and more than ten are not folded."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retrievers, "CANDIDATE_LIMIT", CANDIDATE_LIMIT)
        patched.setattr(retrievers, "SCORE_ALL_LIMIT", 0)
        patched.setattr(retrievers, "SKIP_PRUNING_LIMIT", 0)
        patched.setattr(retrievers, "SORT_LIMIT", 8)
        patched.setattr(ranking, "DEDUPLICATION_LIMIT", DEDUPLICATION_LIMIT)
        yield


def entries(rng: np.random.Generator, size: int, first: int) -> list[IndexEntry]:
    """Some words are rare, most are common; some say the same; most talk, and in few sessions."""
    made = []
    for number in range(size):
        times = Counter({word: int(n) for word, n in zip(WORDS, rng.poisson((0.05, 0.3, 0.9, 0.6)), strict=True) if n})
        made.append(
            IndexEntry(
                version_id=first + 2 * number,
                space=int(rng.integers(1, 3)),
                user=int(rng.choice((0, 21, 22))),
                agent=0,
                session=int(rng.choice((0, 0, 41, 42, 43, 44, 45))),
                observed=int(rng.integers(0, 9)) * DAY_MS,
                flags=int(rng.choice((1, 2, 9))),
                text=IndexedText(
                    times,
                    int(sum(times.values()) + rng.integers(0, 5)),
                    int(rng.choice((0, 51, 52))),
                    0,
                    0,
                    int(rng.choice((0, 61, *range(100, 200)))),
                ),
            )
        )
    return made


def near(rng: np.random.Generator, searched: SearchedSegment) -> SearchedSegment:
    places = np.flatnonzero(searched.visible & (rng.random(len(searched.visible)) < 0.6))
    own, context, typical, typical_context = (rng.random(len(places)).astype(np.float32) for _ in range(4))
    return replace(searched, similarities=Similarities(places, own, context, typical, typical_context, 0.7))


def stores(seed: int, *, has_meaning: bool, asks_more: bool) -> tuple[RetrievalQuery, list[SearchedSegment]]:
    rng = np.random.default_rng(seed)
    words = tuple(int(word) for word in rng.permutation(WORDS)[: rng.integers(1, 5)])
    scope = SCOPES[rng.integers(len(SCOPES))]
    segments = []
    for number, size in enumerate(rng.integers(1, 90, rng.integers(1, 3)).tolist()):
        segment = build_segment(entries(rng, size, 1 + number * 1_000))
        mask = scope.matches(segment.columns)
        allowed = mask & (rng.random(size) < 0.7) if rng.random() < 0.5 else mask
        postings = [segment.find(word) for word in words]
        searched = SearchedSegment(
            columns=segment.columns, visible=mask, allowed=allowed, postings=postings, word_keys=words
        )
        segments.append(near(rng, searched) if has_meaning else searched)
    span = TimeSpan(start=2 * DAY_MS, end=3 * DAY_MS, inside=1.0, after=0.7, later=0.3, tail=4 * DAY_MS)
    if not asks_more:
        return RetrievalQuery(words=words), segments
    names, spans = (51,) if rng.random() < 0.6 else (51, 52), (span,) if rng.random() < 0.6 else ()
    return RetrievalQuery(words=words, names=names, spans=spans), segments


def decisive(found: Ranking) -> list[list[int]]:
    return [facts.versions[places].tolist() for facts, places in found.decisive_rows]


@settings(max_examples=60, deadline=None)
@example(487133085, False, True)
@given(st.integers(0, 1 << 32), st.booleans(), st.sampled_from((False, False, True)))
def test_what_is_left_out_changes_no_order(seed: int, has_meaning: bool, asks_more: bool) -> None:
    question, segments = stores(seed, has_meaning=has_meaning, asks_more=asks_more)
    expected = plain_order(question, segments, CANDIDATE_LIMIT, DEDUPLICATION_LIMIT)
    found = rank(question, segments)
    assert len(found) == len(expected)
    for end in (1, 3, 8, len(expected)):
        versions, scores = rank(question, segments).best(0, end)
        assert versions == [version_id for version_id, _ in expected[:end]]
        assert scores == pytest.approx([score for _, score in expected[:end]], abs=1e-12)
    assert found.versions.tolist() == [version_id for version_id, _ in expected]
    whole = rank(question, segments, is_complete=True)
    assert whole.versions.tolist() == found.versions.tolist()
    assert decisive(whole) == decisive(found)


def test_what_is_left_out_is_not_weighed() -> None:
    """Among many that hold a common word, those that hold a rare one decide."""
    rng = np.random.default_rng(1)
    made = [each._replace(session=0) for each in entries(rng, 400, 1)]
    rare = [each._replace(text=each.text._replace(term_frequencies=Counter({3: 2, 7: 2}))) for each in made[:12]]
    segment = build_segment([*rare, *(each._replace(text=IndexedText(Counter({7: 1}), 3)) for each in made[12:])])
    mask = SegmentScope().matches(segment.columns)
    asked = SearchedSegment(
        columns=segment.columns, visible=mask, allowed=mask, postings=[segment.find(3), segment.find(7)]
    )
    words = retrievers.KeywordRetrievers(2, [asked], [asked.statistics], is_complete=False)
    assert (words.match_count, len(words.text.rows[0]), len(words.window.rows[0])) == (400, 12, 12)
