"""Exact strings, typing errors and events in questions, as they are read from the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.exact_strings import find_exact_strings
from memoranda.retrieval.spelling import can_have_error, doubled_or_swapped, near_words
from memoranda.storage.index.questions import literal_strings
from memoranda.time_words.spans import find_event

EXACT = [
    ("What happened with order ORD-123456?", "ORD-123456"),
    ("Status of 555-0134", "555-0134"),
    ("where is src/app.py used", "src/app.py"),
    ("who wrote _parse_instant", "_parse_instant"),
    ("mail to ada@example.org please", "ada@example.org"),
    ("host 192.168.0.17 is down", "192.168.0.17"),
    ("ticket #4711003.", "4711003"),
    ("What does parseInstant do?", "parseInstant"),
    ("the keys in ~/.ssh/config", "~/.ssh/config"),
    ("std::vector, mostly", "std::vector"),
    ("the rule no-floating-promises", "no-floating-promises"),
    ("docs/readme.md's author", "docs/readme.md"),
    ("Was ist mit LX318?", "LX318"),
]
ORDINARY = [
    *("the e-bike battery", "and/or", "20mg of it", "3.5 litres", "at 8:30 am", "the 1st of May", "in 2024", "he/she"),
    *("e.g. this", "state-of-the-art tools", "my mother-in-law's cake", "1,150 euros", "10-15 minutes", "50%"),
    *("an iPhone and PostgreSQL", "a well-known man", "U.S. law", "a 5-10km run", "24/7 support", "_" * 90),
]


@pytest.mark.parametrize(("question", "string"), EXACT)
def test_codes_and_paths_and_addresses_are_exact_strings(question: str, string: str) -> None:
    assert find_exact_strings(question) == (string,)


@pytest.mark.parametrize("question", ORDINARY)
def test_ordinary_words_and_quantities_are_not(question: str) -> None:
    assert find_exact_strings(question) == ()


PIECES = st.sampled_from(
    (*(question for question, _ in EXACT), *ORDINARY, "Ada's", "macBook's,", "don’t", "(B)", "IBM")
)


@given(st.lists(PIECES | st.text(max_size=12), max_size=4).map(" ".join))
def test_questions_of_ordinary_words_need_no_patterns(question: str) -> None:
    assert literal_strings(question) == find_exact_strings(question)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cruveball", "curveball"),
        ("currrency", "currency"),
        ("intrnet", "internet"),
        ("cabinetx", "cabinet"),
        ("kitchan", "kitchen"),
    ],
)
def test_a_word_is_near_one_that_differs_by_an_error(wrong: str, right: str) -> None:
    assert right in near_words(wrong)
    assert len(set(near_words(wrong))) == len(list(near_words(wrong)))


def test_sure_errors_are_not_letters_too_many_or_wrong_ones() -> None:
    assert "plant" in near_words("plants")
    assert {"plant", "planks"}.isdisjoint(near_words("plants", is_sure=True))
    assert set(doubled_or_swapped("oopen")) == {"opoen", "ooepn", "oopne", "open"}


@pytest.mark.parametrize("word", ["tree", "abc123", "a" * 25, "学校学校学校"])
def test_short_words_and_other_scripts_are_not_corrected(word: str) -> None:
    assert not can_have_error(word)


@pytest.mark.parametrize(
    ("question", "relation", "phrase", "remaining"),
    [
        ("What did I sell before the move?", "before", "the move", "What did I sell ?"),
        ("Since I joined the club, what was new?", "after", "I joined the club", "what was new?"),
        ("Before the wedding who called?", "before", "the wedding", "who called?"),
        ("Was habe ich vor dem Umzug verkauft?", "before", "Umzug", "Was habe ich verkauft?"),
        ("Qu'ai-je vendu avant le déménagement ?", "before", "déménagement", "Qu'ai-je vendu ?"),
    ],
)
def test_a_time_may_be_named_by_an_event(question: str, relation: str, phrase: str, remaining: str) -> None:
    event = find_event(question)
    assert event is not None
    assert (event.relation, event.phrase, event.remaining_text) == (relation, phrase, remaining)


@pytest.mark.parametrize("question", ["Who looks after the cat?", "What comes first?", "Was steht vor dem?"])
def test_other_uses_of_these_words_are_no_times(question: str) -> None:
    assert find_event(question) is None
