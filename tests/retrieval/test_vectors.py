"""Vectors in memory: found as a plain comparison finds them, and gone when they are to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.entry import StoredVector
from memoranda.retrieval.segment import Flags, Floats
from memoranda.retrieval.vectors import EXACT_LIMIT, NEAREST_BY_SIGNS, VectorMatrix, VectorRows, encode
from memoranda.retrieval.weights import SECOND_MODEL_BASELINE, SECOND_MODEL_WEIGHT

SIZE = 384


def vectors(count: int, seed: int) -> Floats:
    """As those of texts: they differ in few ways, and all of them lean to one side."""
    random = np.random.default_rng(seed)
    ways = np.random.default_rng(0).normal(size=(20, SIZE))
    made = random.normal(size=(count, 20)) @ ways + random.normal(scale=0.3, size=(count, SIZE)) + 2.0
    found: Floats = (made / np.linalg.norm(made, axis=1)[:, None]).astype(np.float32)
    return found


def filled(made: Floats) -> VectorMatrix:
    matrix = VectorMatrix(SIZE)
    matrix.append([StoredVector(n + 1, n + 1, 0, encode(each), None) for n, each in enumerate(made)])
    return matrix


def all_of(matrix: VectorMatrix, versions: list[int]) -> VectorRows:
    return matrix.lookup(np.array(versions, np.int64), np.ones(len(versions), np.bool_))


@given(versions=st.lists(st.integers(1, 50), min_size=1, max_size=30), seed=st.integers(0, 99), cut=st.integers(0, 30))
def test_of_each_version_the_last_vector_counts(versions: list[int], seed: int, cut: int) -> None:
    made = vectors(len(versions), seed)
    stored = [
        StoredVector(place, version, 0, encode(made[place - 1]), None) for place, version in enumerate(versions, 1)
    ]
    matrix = VectorMatrix(SIZE)
    matrix.append(stored[:cut])
    matrix.append(stored[cut:])
    last = {version: made[place] for place, version in enumerate(versions)}
    places, rows, is_run = all_of(matrix, [*last, 99])
    assert places.tolist() == [*range(len(last))]
    assert is_run == (rows.tolist() == [*range(rows[0], rows[0] + len(rows))])
    question = vectors(1, 1000 + seed)[0]
    (own,), (beside,) = matrix.cosines(question[None], rows, np.zeros(len(last), np.bool_))
    assert own == pytest.approx([float(each @ question) for each in last.values()], abs=0.02)
    assert np.array_equal(own, beside)


def test_what_was_said_before_counts_where_it_may() -> None:
    made = vectors(4, 3)
    matrix = VectorMatrix(SIZE)
    matrix.append(
        [StoredVector(1, 10, 0, encode(made[0]), None), StoredVector(2, 11, 10, encode(made[1]), encode(made[2]))],
    )
    rows = all_of(matrix, [10, 11]).vector_rows
    assert matrix.context_versions(rows).tolist() == [0, 10]
    for seen, expected in ((True, made[2]), (False, made[1])):
        _, (beside,) = matrix.cosines(made[3:4], rows, np.array([False, seen]))
        assert float(beside[1]) == pytest.approx(float(expected @ made[3]), abs=0.02)
    matrix.remove_context([2])
    assert matrix.context_versions(rows).tolist() == [0, 0]


def test_what_is_erased_is_blank() -> None:
    made = vectors(5, 4)
    matrix = filled(made)
    matrix.remove([2, 77])
    assert all_of(matrix, [1, 2, 3, 4, 5]).vector_rows.tolist() == [0, 2, 3, 4]
    (own,), _ = matrix.cosines(made[1:2], np.array([1], np.int32), np.zeros(1, np.bool_))
    assert float(own[0]) == 0.0


def test_a_vector_of_another_size_is_left_out() -> None:
    matrix = VectorMatrix(SIZE)
    matrix.append([StoredVector(1, 1, 0, b"\x00" * 7, None), StoredVector(2, 2, 0, b"", None)])
    assert len(matrix) == 0
    assert matrix.last_position == 2


@pytest.mark.parametrize("growing", [False, True])
def test_the_nearest_of_many_are_among_those_that_are_compared(*, growing: bool) -> None:
    count = 4 * EXACT_LIMIT
    made = vectors(count, 5)
    matrix = filled(made[: count // 2] if growing else made)
    if growing:
        matrix.nearest(made[0], [all_of(matrix, [*range(1, count // 2)])])
        matrix.append([StoredVector(n + 1, n + 1, 0, encode(made[n]), None) for n in range(count // 2, count)])
    held = []
    standing = all_of(matrix, [*range(1, count + 1)])
    assert standing.is_contiguous
    for question in vectors(20, 6):
        best = np.argsort(-(made @ question))[:100]
        (found,) = matrix.nearest(question, [standing])
        assert NEAREST_BY_SIGNS <= len(found.vector_rows) <= 2 * NEAREST_BY_SIGNS
        held.append(np.isin(best, found.vector_rows).mean())
        # The same in two parts, one of which has gaps.
        is_first = np.arange(count) % 3 > 0
        parts = [matrix.lookup(np.arange(1, count + 1), mask) for mask in (is_first, ~is_first)]
        split = np.concatenate([each.vector_rows for each in matrix.nearest(question, parts)])
        assert sorted(split.tolist()) == found.vector_rows.tolist()
    assert np.mean(held) > 0.9


def test_where_vectors_stand_is_looked_up_anew_when_there_are_more_or_fewer() -> None:
    made = vectors(6, 8)
    matrix, versions = filled(made[:4]), np.arange(1, 7)
    mask: Flags = np.ones(6, np.bool_)
    mask.flags.writeable = False
    assert matrix.lookup(versions, mask).vector_rows.tolist() == [0, 1, 2, 3]
    assert matrix.lookup(versions, mask) is matrix.lookup(versions, mask)
    matrix.append([StoredVector(5, 5, 0, encode(made[4]), None)])
    assert matrix.lookup(versions, mask).vector_rows.tolist() == [0, 1, 2, 3, 4]
    matrix.remove([2])
    assert matrix.lookup(versions, mask).vector_rows.tolist() == [0, 2, 3, 4]


def test_what_another_model_says_counts_as_far_as_most_stand_alone() -> None:
    made, opinions = vectors(10, 9), vectors(10, 10)
    question, other = vectors(1, 11), vectors(1, 12)
    matrix = VectorMatrix(SIZE)
    # The first stands alone, the others behind what was said before; of these another model says nothing.
    matrix.append([StoredVector(n + 1, n + 1, n, encode(made[n]), encode(opinions[n])) for n in range(10)])
    standing = all_of(matrix, [*range(1, 11)])
    assert matrix.standalone_share([standing]) == pytest.approx(0.1)
    nothing = np.zeros(10, np.bool_)
    (plain,), _ = matrix.cosines(question, standing.vector_rows, nothing)
    for share in (1.0, 0.1):
        (found,), _ = matrix.cosines(question, standing.vector_rows, nothing, other, share)
        moved = SECOND_MODEL_WEIGHT * share * (float(opinions[0] @ other[0]) - SECOND_MODEL_BASELINE)
        assert float(found[0] - plain[0]) == pytest.approx(moved, abs=0.01)
        assert np.array_equal(found[1:], plain[1:])
