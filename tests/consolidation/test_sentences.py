"""Text to sentences, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.consolidation.text.note import clean, quote
from memoranda.consolidation.text.sentences import (
    SENTENCE_CHARS_LIMIT,
    SENTENCES_LIMIT,
    join_statements,
    split_sentences,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        (
            "Dr. Who met J. Smith in the U.K. and e.g. Paris. Good.",
            ["Dr. Who met J. Smith in the U.K. and e.g. Paris.", "Good."],
        ),
        ("Use Python 3.11. Not 3.9.", ["Use Python 3.11.", "Not 3.9."]),
        ("これはペンです。それは本です！本当？はい", ["これはペンです。", "それは本です！", "本当？", "はい"]),
        ("यह किताब है। वह कलम है।", ["यह किताब है।", "वह कलम है।"]),
        ("هل هذا صحيح؟ نعم.", ["هل هذا صحيح؟", "نعم."]),
        ("# Title\n\n- first\n- [x] second\n  1. third\n> quoted", ["Title", "first", "second", "third", "quoted"]),
        (
            "A long line that was\nwrapped by an editor.\nA new one.",
            ["A long line that was wrapped by an editor.", "A new one."],
        ),
        ("Port: 8080\nHost: alpha", ["Port: 8080", "Host: alpha"]),
        ("```sh\nmake test\n```\n---\n***", ["make test"]),
        ("", []),
        ("  \n\t\n", []),
    ],
)
def test_a_text_is_read_sentence_by_sentence(text: str, found: list[str]) -> None:
    assert split_sentences(text) == found


def test_hidden_and_reordering_characters_become_spaces() -> None:
    assert split_sentences("a\x00b \u202eevil\u2066 x\ud800") == ["a b evil x\ufffd"]
    assert clean("a\r\nb\u2028c\x85d") == "a\nb\nc\nd"


def test_endless_text_is_cut_between_words_and_only_so_much_is_read() -> None:
    assert max(map(len, split_sentences("word " * 1_000))) <= SENTENCE_CHARS_LIMIT
    assert len(split_sentences("x" * 5_000)) == -(-5_000 // SENTENCE_CHARS_LIMIT)
    assert len(split_sentences("One. " * 10_000)) == SENTENCES_LIMIT


def test_a_quotation_cannot_be_closed_from_inside() -> None:
    assert quote("say “yes” and ”no“.\n# Head") == '“say "yes" and "no". # Head”'
    assert quote("word " * 100, 20) == "“word word word…”"


@given(
    st.lists(st.sampled_from(["We deploy", "no stop here", "Port: 8080", "Done.", "はい。"]), min_size=1, max_size=6)
)
def test_statements_written_as_a_text_are_read_back_as_the_same_statements(statements: list[str]) -> None:
    assert split_sentences(join_statements(statements)) == statements


@given(st.text(max_size=400))
def test_sentences_are_made_of_the_characters_of_the_text(text: str) -> None:
    whole = "".join(clean(text).split())
    for sentence in split_sentences(text):
        assert "".join(sentence.split()) in whole
        assert "\n" not in sentence
