"""The search words of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.words import words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The deploys of snake_case ran, twice: v2.", ["deploy", "snake", "case", "ran", "twice", "v2"]),
        # What folds to letters without marks, capitals among them, is split like what was written so.
        ("Café ℂ ㎏", ["cafe", "C", "kg"]),
        ("", []),
    ],
)
def test_a_text_is_folded_split_and_stemmed(text: str, found: list[str]) -> None:
    assert words(text) == found


@given(st.text(st.characters(max_codepoint=127)))
def test_the_short_way_for_plain_letters_finds_what_the_other_finds(text: str) -> None:
    # A word of another script turns the whole text to the other way; it adds itself and nothing else.
    assert [*words(text), "яблоко"] == words(f"{text} яблоко")
