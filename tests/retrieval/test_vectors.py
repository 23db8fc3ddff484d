"""Vectors in memory: found as a plain comparison finds them, and gone when they are to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.segment import Floats
from memoranda.retrieval.vectors import EXACT_LIMIT, NEAREST_BY_SIGNS, Matrix, Stored, encode

SIZE = 384


def vectors(count: int, seed: int) -> Floats:
    """As those of texts: they differ in few ways, and all of them lean to one side."""
    random = np.random.default_rng(seed)
    ways = np.random.default_rng(0).normal(size=(20, SIZE))
    made = random.normal(size=(count, 20)) @ ways + random.normal(scale=0.3, size=(count, SIZE)) + 2.0
    found: Floats = (made / np.linalg.norm(made, axis=1)[:, None]).astype(np.float32)
    return found


def filled(made: Floats) -> Matrix:
    matrix = Matrix(SIZE)
    matrix.append([Stored(n + 1, n + 1, 0, encode(each), None) for n, each in enumerate(made)])
    return matrix


@given(versions=st.lists(st.integers(1, 50), min_size=1, max_size=30), seed=st.integers(0, 99), cut=st.integers(0, 30))
def test_of_each_version_the_last_vector_counts(versions: list[int], seed: int, cut: int) -> None:
    made = vectors(len(versions), seed)
    stored = [Stored(place, version, 0, encode(made[place - 1]), None) for place, version in enumerate(versions, 1)]
    matrix = Matrix(SIZE)
    matrix.append(stored[:cut])
    matrix.append(stored[cut:])
    last = {version: made[place] for place, version in enumerate(versions)}
    asked = np.array([*last, 99], np.int64)
    rows = matrix.rows_of(asked)
    assert rows[-1] == -1
    question = vectors(1, 1000 + seed)[0]
    (own,), (beside,) = matrix.cosines(question[None], rows[:-1], np.zeros(len(last), np.bool_))
    assert own == pytest.approx([float(each @ question) for each in last.values()], abs=0.02)
    assert np.array_equal(own, beside)


def test_what_was_said_before_counts_where_it_may() -> None:
    made = vectors(4, 3)
    matrix = Matrix(SIZE)
    matrix.append(
        [Stored(1, 10, 0, encode(made[0]), None), Stored(2, 11, 10, encode(made[1]), encode(made[2]))],
    )
    rows = matrix.rows_of(np.array([10, 11], np.int64))
    assert matrix.contexts(rows).tolist() == [0, 10]
    for seen, expected in ((True, made[2]), (False, made[1])):
        _, (beside,) = matrix.cosines(made[3:4], rows, np.array([False, seen]))
        assert float(beside[1]) == pytest.approx(float(expected @ made[3]), abs=0.02)
    matrix.forget_context(np.array([2], np.int64))
    assert matrix.contexts(rows).tolist() == [0, 0]


def test_what_is_erased_is_blank() -> None:
    made = vectors(5, 4)
    matrix = filled(made)
    matrix.forget(np.array([2, 77], np.int64))
    assert matrix.rows_of(np.arange(1, 6)).tolist() == [0, -1, 2, 3, 4]
    (own,), _ = matrix.cosines(made[1:2], np.array([1], np.int32), np.zeros(1, np.bool_))
    assert float(own[0]) == 0.0


def test_a_vector_of_another_size_is_left_out() -> None:
    matrix = Matrix(SIZE)
    matrix.append([Stored(1, 1, 0, b"\x00" * 7, None), Stored(2, 2, 0, b"", None)])
    assert len(matrix) == 0
    assert matrix.last_place == 2


@pytest.mark.parametrize("growing", [False, True])
def test_the_nearest_of_many_are_among_those_that_are_compared(*, growing: bool) -> None:
    count = 4 * EXACT_LIMIT
    made = vectors(count, 5)
    matrix = filled(made[: count // 2] if growing else made)
    rows = np.arange(count, dtype=np.int32)
    if growing:
        matrix.nearest(made[0], rows[: count // 2])
        matrix.append([Stored(n + 1, n + 1, 0, encode(made[n]), None) for n in range(count // 2, count)])
    held = []
    for question in vectors(20, 6):
        best = np.argsort(-(made @ question))[:100]
        found = matrix.nearest(question, rows)
        assert NEAREST_BY_SIGNS <= len(found) <= 2 * NEAREST_BY_SIGNS
        held.append(np.isin(best, found).mean())
    assert np.mean(held) > 0.9
    # The same of a part, in another order.
    part = np.random.default_rng(7).permutation(rows)[: 2 * EXACT_LIMIT].astype(np.int32)
    places = matrix.nearest(made[9], part)
    assert 9 in part[places] or 9 not in part
    assert len(set(places.tolist())) == len(places)
