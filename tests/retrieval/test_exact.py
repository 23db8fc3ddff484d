"""Phrases in quotes, and the beginnings of words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis import ExactTerms, exact_terms, searchable_text


@pytest.mark.parametrize(
    ("question", "exact"),
    [
        ('"database is locked"', ExactTerms(("database is locked",), (), True)),
        ('Where does it say "database is locked"?', ExactTerms(("database is locked",), (), False)),
        ("pnp*", ExactTerms((), ("pnp",), True)),
        ("which pnp* version", ExactTerms((), ("pnp",), False)),
        ("„Über den Wolken“", ExactTerms(("uber den wolken",), (), True)),
        ("« La Clé »", ExactTerms(("la cle",), (), True)),
        ("「兼六園」", ExactTerms(("兼 六 園",), (), True)),
        # What is around it and says nothing does not make it a longer question.
        ('what is "dark mode"?', ExactTerms(("dark mode",), (), True)),
        # Too short, not at the end of a word, or multiplied.
        ("pn* a*b 3 * 4", ExactTerms()),
        ('a single " quote', ExactTerms()),
        ('""', ExactTerms()),
        ("", ExactTerms()),
    ],
)
def test_what_a_question_asks_for_letter_by_letter(question: str, exact: ExactTerms) -> None:
    assert exact_terms(question) == exact


@pytest.mark.parametrize(
    ("question", "text", "held"),
    [
        ('"database is locked"', "It dies with: DATABASE IS  LOCKED!", True),
        ('"database is locked"', "the database was locked", False),
        ('"database is locked"', "is the database locked", False),
        ('"lock"', "the database is locked", False),
        ('"parse_instant"', "parse_instant raises", True),
        ('"六園"', "連休に兼六園を歩いた", True),
        ('"園六"', "連休に兼六園を歩いた", False),
        ("pnp*", "use pnpm", True),
        ("npm*", "use pnpm", False),
        ("uber*", "Überweisungen", True),
        ('"use" pnp*', "use pnpm", True),
        ('"never" pnp*', "use pnpm", False),
    ],
)
def test_what_holds_it(question: str, text: str, held: bool) -> None:
    assert exact_terms(question).matches(text) is held
    assert exact_terms(question).rejects(text) is not held


@given(st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=8), st.data())
def test_any_words_of_a_text_side_by_side_are_a_phrase_of_it(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    assert exact_terms(f'"{" ".join(words[start:end])}"').matches(" - ".join(words).upper())


@given(st.text(max_size=60))
def test_a_plain_text_is_plain(text: str) -> None:
    assert searchable_text(searchable_text(text)) == searchable_text(text)
