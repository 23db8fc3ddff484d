"""What is drawn on a terminal: columns, wide characters, wrapped texts, and a line that shows progress."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.cli.drawing import ProgressLine, apply_style, cell_width, draw_table, wrap


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    assert [cell_width(text) for text in ("tea", "日本", "e\u0301", "a\u200bb", "")] == [3, 4, 1, 2, 0]


def test_columns_are_aligned_and_the_last_one_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    lines = draw_table(("id", "text"), [["1", "green tea without sugar"], ["日本", "a"]], 20)
    assert lines == ["id    text", "1     green tea", "      without sugar", "日本  a"]


def test_styles_are_for_terminals_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert apply_style("tea", "bold") == "\x1b[1mtea\x1b[0m"
    assert apply_style("tea", "") == "tea"
    monkeypatch.setenv("TERM", "dumb")
    assert apply_style("tea", "dim") == "tea"


@given(text=st.text(alphabet="ab é日\u0301-", max_size=60), width=st.integers(2, 20))
def test_wrapped_lines_fit_and_lose_only_blanks(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cell_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_the_last_state_of_each_step_is_shown_and_the_line_erased() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    for done in (1, 2, 3):
        line.draw("reading", done, 3)
    line.draw("writing", 7, None)
    line.erase()
    shown = stream.getvalue().split("\r\x1b[K")
    assert shown[0] == ""
    assert [text.rpartition(" ")[0] for text in shown[1:-1]] == [
        f"reading {'━' * 13:─<40} 1/3",
        f"reading {'━' * 40} 3/3",
        "writing 7",
    ]
    assert shown[-1] == ""
