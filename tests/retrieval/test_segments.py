"""Segments: the same whoever puts them together, and as good merged as made at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memoranda.retrieval.entry import FREQUENCY_LIMIT, IndexedText, IndexEntry, encode_segment
from memoranda.retrieval.ranking import Ranking, RetrievalQuery, SegmentScope, rank
from memoranda.retrieval.retrievers import SearchedSegment
from memoranda.retrieval.segment import (
    Segment,
    VersionColumns,
    build_segment,
    concat_columns,
    decode_segments,
    merge_segments,
)
from memoranda.retrieval.weights import K1, B, TimeSpan, Weights
from memoranda.time_words.spans import read_times

DAY_MS = 86_400_000
JUNE_1970 = 151 * DAY_MS
NOTHING = Weights(
    text=0.0,
    window=0.0,
    every=0.0,
    before=0.0,
    after=0.0,
    person=0.0,
    first_named=0.0,
    date=0.0,
    session=0.0,
    length=0.0,
)
TEXT_ALONE = replace(NOTHING, text=1.0)
LARGE = st.integers(0, (1 << 64) - 1)
WORD = st.sampled_from([3, 5, 7, 11, 13, (1 << 64) - 1])


def said(words: Sequence[int], speaker: int = 0) -> IndexedText:
    return IndexedText(Counter(words), len(words), speaker)


@st.composite
def some_entries(draw: st.DrawFn, *, least: int = 1) -> list[IndexEntry]:
    count = draw(st.integers(least, 12))
    return [
        IndexEntry(
            version_id=10 * number + 1,
            space=draw(st.sampled_from([1, 2])),
            user=draw(st.sampled_from([0, 21, 22])),
            agent=draw(st.sampled_from([0, 31])),
            session=draw(st.sampled_from([0, 41, 42])),
            observed=draw(st.integers(0, 5)) * DAY_MS,
            flags=draw(st.sampled_from([1, 2, 4, 9])),
            text=said(draw(st.lists(WORD, max_size=8)), draw(st.sampled_from([0, 51, 52]))),
        )
        for number in range(count)
    ]


def bytes_of(segment: Segment) -> bytes:
    return segment.columns.encode() + b"".join(part.encode() for part in segment.blocks)


def searched(segment: Segment, question: RetrievalQuery, scope: SegmentScope | None = None) -> SearchedSegment:
    def find(word: int) -> tuple[np.ndarray, np.ndarray] | None:
        return next((found for part in segment.blocks if (found := part.find(word)) is not None), None)

    mask = (scope or SegmentScope()).matches(segment.columns)
    return SearchedSegment(
        columns=segment.columns, visible=mask, allowed=mask, postings=[find(word) for word in question.words]
    )


def asked(
    entries: list[IndexEntry],
    question: RetrievalQuery,
    scope: SegmentScope | None = None,
    weights: Weights | None = None,
) -> Ranking:
    return rank(question, [searched(build_segment(entries), question, scope)], weights=weights)


@given(some_entries())
def test_a_few_versions_are_written_as_arrays_would_be(entries: list[IndexEntry]) -> None:
    if any(entry.text.term_frequencies for entry in entries):
        assert encode_segment(entries) == bytes_of(build_segment(entries))


@given(some_entries(least=2), st.data())
def test_merged_segments_are_the_same_as_one_made_at_once(entries: list[IndexEntry], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(entries) - 1))
    pieces = [entries[:cut], entries[cut:]]
    whole = bytes_of(build_segment(entries))
    assert bytes_of(merge_segments([build_segment(piece) for piece in pieces])) == whole
    assert bytes_of(decode_segments([(len(piece), encode_segment(piece)) for piece in pieces])) == whole


def answers(facts: VersionColumns, asked: list[IndexEntry], following: VersionColumns) -> list[object]:
    """Return what every method of facts answers; NumPy arrays as lists."""
    sessions = np.unique(np.array([each.session for each in asked], np.uint64))
    versions = np.array([each.version_id for each in asked], np.int64)
    everything, nothing = np.ones(len(facts), np.bool_), np.zeros(len(facts), np.bool_)
    facts.warm()
    found: list[object] = [len(facts), facts.has_sessions, facts.longest, facts.languages_present, facts.encode()]
    found += [facts.settled_size(following), following.settled_size(facts), len(concat_columns([facts, following]))]
    for mask in (everything, nothing, facts.all_except(versions[::2])):
        seen = facts.statistics(mask)
        found += [facts.languages_of(mask), seen.count, seen.length, seen.window_length, seen.window_lengths.tolist()]
        found += [links.tolist() for links in facts.visible_links(mask)]
    found += [
        each.tolist() for each in (*facts.session_links, *facts.rows_of_sessions(sessions), facts.rows_of(versions))
    ]
    found += [
        each.tolist()
        for each in (facts.persons, facts.lengths32, facts.cached_view("all", None, SegmentScope().matches))
    ]
    return found


@given(some_entries(), some_entries(), st.data())
def test_every_part_answers_as_a_segment_of_its_own_the_empty_one_too(
    entries: list[IndexEntry], others: list[IndexEntry], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(entries)))
    end = data.draw(st.integers(start, len(entries)))
    whole, following = build_segment(entries).columns, build_segment(others).columns
    # Of nothing no segment is built, but the columns of one can be empty.
    alone = build_segment(entries[start:end]).columns if end > start else VersionColumns.decode(b"")
    assert answers(whole.slice(start, end), entries, following) == answers(alone, entries, following)


@given(some_entries())
def test_a_question_to_a_segment_of_nothing_is_answered_by_nothing(entries: list[IndexEntry]) -> None:
    nothing = VersionColumns.decode(b"")
    empty = np.zeros(0, np.bool_)
    question = RetrievalQuery(words=(3, 5), names=(51,), spans=spans("in May 1970"))
    searched = SearchedSegment(columns=nothing, visible=empty, allowed=empty, postings=[None, None])
    whole = build_segment(entries)
    every = np.ones(len(entries), np.bool_)
    full = SearchedSegment(columns=whole.columns, visible=every, allowed=every, postings=[whole.find(3), whole.find(5)])
    assert len(rank(question, [searched])) == 0
    together, alone = rank(question, [searched, full]), rank(question, [full])
    assert together.versions.tolist() == alone.versions.tolist()
    assert together.scores.tolist() == alone.scores.tolist()


@given(some_entries(least=2), st.data())
def test_nothing_is_left_of_a_version_that_is_taken_out(entries: list[IndexEntry], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from([entry.version_id for entry in entries]), max_size=len(entries) - 1))
    left = [entry for entry in entries if entry.version_id not in gone]
    made = merge_segments([build_segment(entries)], sorted(gone))
    assert bytes_of(made) == bytes_of(build_segment(left))


@given(some_entries(), st.lists(WORD, min_size=1, max_size=4, unique=True))
def test_words_weigh_as_bm25_says(entries: list[IndexEntry], words: list[int]) -> None:
    found = asked(entries, RetrievalQuery(words=tuple(words)), weights=TEXT_ALONE)
    mean = max(1.0, sum(entry.text.length for entry in entries) / len(entries))
    expected = {}
    for entry in entries:
        score = 0.0
        for word in words:
            holding = sum(word in other.text.term_frequencies for other in entries)
            weight = math.log(1 + (len(entries) - holding + 0.5) / (holding + 0.5))
            times = min(FREQUENCY_LIMIT, entry.text.term_frequencies.get(word, 0))
            score += weight * times * (K1 + 1) / (times + K1 * (1 - B + B * entry.text.length / mean))
        if score:
            expected[entry.version_id] = score
    assert sorted(found.versions.tolist()) == sorted(expected)
    scores = [expected[version_id] for version_id in found.versions.tolist()]
    assert scores == pytest.approx(sorted(scores, reverse=True), rel=1e-4)


@given(some_entries(least=2), st.lists(WORD, min_size=1, max_size=4, unique=True))
def test_what_may_not_be_seen_is_in_no_number(entries: list[IndexEntry], words: list[int]) -> None:
    scope = SegmentScope(space=1, visibility_bits=1 | 2, redacted=False, users=(21,))
    question = RetrievalQuery(words=tuple(words), names=(51,))
    seen = [e for e in entries if e.space == 1 and e.flags in (1, 2) and e.user in (0, 21)]
    found = asked(entries, question, scope)
    if not seen:
        assert not len(found.versions)
        return
    alone = asked(seen, question)
    assert found.versions.tolist() == alone.versions.tolist()
    assert found.scores.tolist() == pytest.approx(alone.scores.tolist())


@given(some_entries(least=2), st.lists(WORD, min_size=1, max_size=4, unique=True), st.data())
def test_it_does_not_matter_how_versions_are_cut_into_segments(
    entries: list[IndexEntry], words: list[int], data: st.DataObject
) -> None:
    entries = [entry._replace(session=0) for entry in entries]
    cut = data.draw(st.integers(1, len(entries) - 1))
    question = RetrievalQuery(words=tuple(words), names=(51,))
    pieces = [searched(build_segment(piece), question) for piece in (entries[:cut], entries[cut:])]
    parted, whole = rank(question, pieces), asked(entries, question)
    assert parted.versions.tolist() == whole.versions.tolist()
    assert parted.scores.tolist() == pytest.approx(whole.scores.tolist(), rel=1e-4)


def talk(*turns: tuple[int, list[int]], session: int = 9) -> list[IndexEntry]:
    return [
        IndexEntry(version_id=number, space=1, session=session, observed=number * DAY_MS, text=said(words, speaker))
        for number, (speaker, words) in enumerate(turns, start=1)
    ]


def test_an_answer_is_found_by_the_question_before_it() -> None:
    alone = IndexEntry(version_id=9, space=1, text=said([5, 7, 7, 7]))
    entries = [*talk((51, [3, 5]), (52, [5, 7, 7, 7]), (51, [11])), alone]
    assert sorted(asked(entries, RetrievalQuery(words=(3, 5))).versions.tolist()[:2]) == [1, 2]


def test_the_one_person_who_is_named_comes_first() -> None:
    entries = talk((51, [3, 5]), (52, [3, 5]))
    assert asked(entries, RetrievalQuery(words=(3,), names=(51,))).versions.tolist() == [1, 2]
    assert asked(entries, RetrievalQuery(words=(3,), names=(52,))).versions.tolist() == [2, 1]
    both = asked(entries, RetrievalQuery(words=(3,), names=(51, 52)))
    assert "person" not in both.signals


def spans(text: str) -> tuple[TimeSpan, ...]:
    return read_times(text, JUNE_1970, UTC).spans


def test_what_was_said_on_a_day_or_soon_after_comes_first() -> None:
    entries = [IndexEntry(version_id=n, space=1, observed=n * 20 * DAY_MS, text=said([3])) for n in range(1, 8)]
    found = asked(entries, RetrievalQuery(words=(3,), spans=spans("on 8 February 1970")))
    # 10 February 1970 is the fortieth day of the year.
    assert found.versions.tolist()[0] == 2
    month = asked(entries, RetrievalQuery(words=(3,), spans=spans("in March")))
    assert set(month.versions.tolist()[:2]) == {3, 4}
    never = asked(entries, RetrievalQuery(words=(3,), spans=spans("on 30 February 2023")))
    assert "date" not in never.signals or not len(never.signals["date"].values)


def test_a_question_whose_words_nobody_used_finds_what_is_of_its_time() -> None:
    entries = [IndexEntry(version_id=n, space=1, observed=n * 20 * DAY_MS, text=said([3])) for n in range(1, 8)]
    assert asked(entries, RetrievalQuery(words=(99,), spans=spans("on 10 February 1970"))).versions.tolist() == [2]
    assert asked(entries, RetrievalQuery(words=(99,))).versions.tolist() == []


def test_what_every_question_needs_is_found_out_once() -> None:
    facts = build_segment(talk((1, [3]), (2, [5]))).columns
    facts.warm()
    prepared = facts.statistics(np.ones(len(facts), np.bool_))
    assert prepared is facts.statistics(SegmentScope().matches(facts))
    assert "_by_session" in vars(facts)
