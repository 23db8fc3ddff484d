"""Consolidation never makes the memory worse: the figures of bench.quality, held to their bars.

The bars are asserted on both sets. If an output changes, its reading has to be written anew in `outputs.txt`: read it,
and say whether it is worth keeping.
"""

from __future__ import annotations

import pytest
from bench.quality import SETS, Asked, LabelledSet


@pytest.fixture(scope="module", params=SETS)
def labelled(request: pytest.FixtureRequest) -> LabelledSet:
    return LabelledSet(request.param)


def test_the_sets_are_as_large_as_they_have_to_be() -> None:
    sets = [LabelledSet(name) for name in SETS]
    assert sum(len(each.notes) for each in sets) >= 300
    assert sum(len(each.pairs("!")) for each in sets) >= 40
    assert sum(len(each.alike) for each in sets) >= 60
    assert sum(len(each.questions) for each in sets) >= 40


def test_nothing_is_merged_that_says_something_else(labelled: LabelledSet) -> None:
    score, wrong = labelled.merges()
    assert wrong == set()
    assert labelled.wrong_merges() == []
    assert score.recall >= 0.6, "of what does say the same"


def test_contradictions_are_found_and_hardly_any_is_wrong(labelled: LabelledSet) -> None:
    score, wrong, missed = labelled.contradictions()
    assert score.precision >= 0.95, wrong
    assert score.recall >= 0.7, missed


def test_what_consolidation_says_is_worth_keeping(labelled: LabelledSet) -> None:
    read = labelled.readings()
    outputs = [(strategy, dream.text) for strategy, dream in labelled.outputs()]
    assert [output for output in outputs if output not in read] == [], "not read by anybody yet"
    assert sum(read[output] for output in outputs) >= 0.8 * len(outputs)


def test_the_right_note_still_answers_first_after_consolidation(labelled: LabelledSet) -> None:
    asked = Asked(labelled)
    before = asked.recall_at_1()
    assert asked.consolidate() > 0
    after = asked.recall_at_1()
    asked.close()
    assert all(after[standard] >= before[standard] for standard in before), (before, after)
