"""What a text is found by is what its analysis says, whatever was kept of texts before it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.model.memory import Projection
from memoranda.retrieval.analysis import WORDS_LIMIT, analyse
from memoranda.retrieval.languages import LANGUAGE_NUMBERS
from memoranda.storage.crypto import fingerprints
from memoranda.storage.crypto.fingerprints import Fingerprints
from tests.storage.contract import projection

KEPT = Fingerprints(b"k" * 32)
SAID = "Fahrräder the parse_instant HTTPServer tea teas 杭州西湖 книги src/app.py don't 42".split()


def found(prints: Fingerprints, tenant: str, text: str) -> tuple[dict[int, int], int, int]:
    read: Projection = projection(text)
    indexed = prints.index_text(tenant, read)
    return dict(indexed.term_frequencies), indexed.length, indexed.language


def analysed(prints: Fingerprints, tenant: str, text: str) -> tuple[dict[int, int], int, int]:
    words, language, beginnings = analyse(text)
    numbers = {prints.term(tenant, word): times for word, times in Counter(words).items()}
    return {**numbers, **{prints.term(tenant, each): 1 for each in beginnings}}, len(words), LANGUAGE_NUMBERS[language]


@given(st.lists(st.sampled_from(SAID) | st.text(max_size=8), max_size=8).map(" ".join), st.sampled_from(("ada", "bob")))
@settings(max_examples=60)
def test_a_text_is_found_by_what_its_analysis_says(text: str, tenant: str) -> None:
    assert found(KEPT, tenant, text) == analysed(KEPT, tenant, text)


def test_a_text_of_too_many_words_is_found_by_the_first() -> None:
    text = " ".join(f"word{number}" for number in range(WORDS_LIMIT)) + " parse_instant"
    assert found(KEPT, "ada", text) == analysed(KEPT, "ada", text)


def test_of_too_many_words_none_is_kept_and_all_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "_CACHED_WORDS", 3)
    prints = Fingerprints(b"k" * 32)
    for text in ("green tea and cakes", "cakes of green tea today", "five more words than fit"):
        assert found(prints, "ada", text) == analysed(KEPT, "ada", text)
