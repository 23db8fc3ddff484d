"""The prompt of `memoranda cal`: on a real terminal, and what it knows of the language."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from tests.standards.cal.published import examples_on_the_card

from memoranda.cli.cal.prompt import HISTORY_FILE
from memoranda.cli.cal.reader import HISTORY_LIMIT, HistoryFile
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import QueryError
from memoranda.standards.cal.language import lexer
from memoranda.standards.cal.language.completion import find_completions, is_unfinished
from memoranda.standards.cal.language.parser import parse as parse_query

TEA = 'ADD belief SET subject = "alice" SET relation = "prefers" SET object = "tea" REASON "she said so"'


@pytest.fixture
def filled(run: Command) -> Command:
    assert run("cal", "--yes", TEA).code == 0
    assert run("cal", "--yes", TEA.replace("tea", "mate")).code == 0
    return run


@contextmanager
def prompt(home: Path, *tokens: str) -> Iterator[Terminal]:
    environment = {**os.environ, "MEMORANDA_HOME": str(home)}
    with Terminal([sys.executable, "-m", "memoranda", "cal", *tokens], environment) as opened:
        opened.ready()
        yield opened


def kept(home: Path) -> list[str]:
    return [parse(line) for line in (home / HISTORY_FILE).read_bytes().splitlines()]


# --- on a terminal -------------------------------------------------------------------------------------------


def test_queries_are_asked_over_several_lines_and_kept_for_the_next_time(filled: Command, home: Path) -> None:
    with prompt(home) as opened:
        opened.enter("RECALL beliefs | COUNT", "2\r")
        # It ends too early, so that Enter begins a new line.
        opened.press("RECALL beliefs WHERE\r")
        opened.until("...>")
        opened.enter('object = "tea" AS text;', "[belief] alice prefers tea (0.8)")
        opened.enter("RECALL fact", "CAL-E003 line 1, column 8")
        opened.press("\\q\r")
        assert opened.wait() == 0
    assert kept(home)[:2] == ["RECALL beliefs | COUNT", 'RECALL beliefs WHERE\nobject = "tea" AS text;']
    assert stat.S_IMODE((home / HISTORY_FILE).stat().st_mode) == 0o600
    with prompt(home) as opened:
        # The last but one is the wrong query, the one before has two lines.
        opened.press("\x10\x10\x10")
        opened.until('"tea"')
        opened.enter("", "[belief] alice prefers tea (0.8)")
        opened.press("\x04")
        assert opened.wait() == 0


def test_parameters_format_pages_and_help_have_commands(filled: Command, home: Path) -> None:
    with prompt(home, "--no-history", "--param", "what=mate") as opened:
        opened.enter("RECALL beliefs WHERE object = $what | COUNT", "1\r")
        opened.enter("\\p who=alice")
        opened.enter("\\p", '$who = "alice"')
        opened.enter("\\f sml", "written as sml")
        opened.enter("RECALL beliefs ABOUT $who | LIMIT 1 -- one", '<belief subject="alice"')
        opened.enter("\\n", '<belief subject="alice"')
        opened.enter("\\n", "there is no next page")
        opened.enter("\\f off", "written as lines")
        opened.enter("\\p who=")
        opened.enter("RECALL beliefs ABOUT $who", "CAL-E008")
        opened.enter("\\h", "# CAL/1")
        opened.enter("\\x", "unknown command")
        opened.enter("\\f pdf", "there is no format")
        opened.press("\\q\r")
        assert opened.wait() == 0
    assert not (home / HISTORY_FILE).exists()


def test_tab_completes_and_control_c_drops_what_is_typed(filled: Command, home: Path) -> None:
    with prompt(home) as opened:
        opened.press("RECALL bel\t")
        # Only what is new on the line may be drawn.
        opened.until("iefs")
        opened.enter(" | COUNT", "2\r")
        opened.press("GARBAGE\x03")
        opened.ready()
        opened.enter("RECALL goals | COUNT", "0\r")
        opened.press("\x04")
        assert opened.wait() == 0
    assert kept(home) == ["RECALL beliefs | COUNT", "RECALL goals | COUNT"]


@pytest.mark.requirement("CAL-18-cli")
def test_a_change_is_shown_and_asked_about_at_the_prompt_too(filled: Command, home: Path) -> None:
    with prompt(home) as opened:
        opened.press(f"{TEA}\r")
        opened.until("[y/N]")
        opened.press("n\r")
        opened.until("nothing was changed")
        opened.ready()
        opened.press(f"{TEA}\r")
        opened.until("[y/N]")
        opened.press("y\r")
        opened.until(" added")
        opened.ready()
        opened.enter("RECALL beliefs | COUNT", "3\r")
        opened.press("\x04")
        assert opened.wait() == 0


def test_without_a_terminal_for_the_answer_there_is_no_prompt(run: Command, home: Path) -> None:
    environment = {**os.environ, "MEMORANDA_HOME": str(home)}
    with Terminal([sys.executable, "-m", "memoranda", "cal", "--json"], environment) as opened:
        assert opened.wait() == 1
    assert "no query given" in opened.seen


# --- history -------------------------------------------------------------------------------------------------


def test_the_history_is_limited_private_and_survives_damage(tmp_path: Path) -> None:
    path = tmp_path / HISTORY_FILE
    path.write_bytes(b"".join(dump(f"RECALL {n}") + b"\n" for n in range(HISTORY_LIMIT + 5)) + b"{damaged\n[1]\n")
    path.chmod(0o644)
    history = HistoryFile(path)
    found = list(history.load_history_strings())
    assert (found[0], len(found)) == (f"RECALL {HISTORY_LIMIT + 4}", HISTORY_LIMIT - 2)
    assert len(path.read_bytes().splitlines()) == HISTORY_LIMIT
    history.store_string('two\nlines "ü"')
    for ignored in ("  ", "x" * 10_000, "half a pair \ud800"):
        history.store_string(ignored)
    assert next(iter(history.load_history_strings())) == 'two\nlines "ü"'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_kept_does_not_end_the_prompt(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "missing" / HISTORY_FILE)
    history.store_string("RECALL")
    assert list(history.load_history_strings()) == []


# --- the language --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RECALL beliefs WHERE", True),
        ("RECALL beliefs WHERE\n", False),
        ("RECALL beliefs WHERE\nsubject =", True),
        ('RECALL beliefs ABOUT "a', True),
        ("LET $x = RECALL beliefs;", True),
        ("BATCH { a: RECALL beliefs,", True),
        ("ASSEMBLE x FROM a: (RECALL beliefs -- and", True),
        ("RECALL events WHERE subject IN (RECALL beliefs", True),
        ("RECALL events WHERE subject IN (RECALL beliefs | SUBJECTS)", False),
        ("ADD belief", True),
        ("DEFINE TEMPLATE x ELEMENT { a", True),
        ("RECALL", False),
        ("RECALL beliefs", False),
        ("RECALL foo WHERE", False),
        ("FOO", False),
        ("", False),
    ],
)
def test_a_query_goes_on_when_only_its_end_is_missing(text: str, expected: bool) -> None:
    assert is_unfinished(text) is expected


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("RECALL be", ["beliefs", "BETWEEN"]),
        ("recall goals where goal_s", ["goal_state"]),
        ("RECALL beliefs WHERE goal_s", []),
        ('RECALL goals WHERE goal_state = "a', ['"active"', '"abandoned"']),
        ('RECALL goals WHERE subject = "a', []),
        ("RECALL beliefs | GROUP BY con", []),
        ("RECALL beliefs | ORDER BY con", ["confidence"]),
        ("RECALL beliefs WITH pro", ["provenance", "progressive_disclosure"]),
        ("RECALL beliefs AS m", ["markdown"]),
        ("ASSEMBLE x FROM a: (RECALL goals), b: (RECALL events) PRIORITY ", ["a", "b"]),
        ("RECALL beliefs ABOUT $", ["$who"]),
        ("LET $x = RECALL beliefs | SUBJECTS; RECALL WHERE subject IN ($", ["$x", "$who"]),
        ("ADD belief SET obj", ["object"]),
        ("SUPERSEDE $who SET sub", []),
        ('RECALL beliefs ABOUT "dark m', []),
        ("RECALL beliefs -- a comment AS ma", []),
        ("RECALL foo WHERE su", []),
        ("ASSEMBLE b", []),
    ],
)
def test_what_is_offered_depends_on_what_was_said(text: str, offered: list[str]) -> None:
    assert find_completions(text, ["who"])[1] == offered


def refused_at(text: str) -> int | None:
    try:
        parse_query(text)
    except QueryError as error:
        return error.start
    return None


@pytest.mark.parametrize("example", examples_on_the_card())
def test_every_word_of_the_examples_is_offered_where_it_stands_and_no_wrong_one(example: str) -> None:
    # Names and labels are free.
    made_up = ("briefing", "known", "plans", "facts")
    for token in lexer.tokenize(example):
        if token.kind is not lexer.TokenKind.WORD or token.text in made_up:
            continue
        before = example[: token.span.start]
        _, offered = find_completions(before)
        assert token.text in offered, before
        # A subquery is refused as a whole until it yields values.
        assert [each for each in offered if refused_at(before + each) == len(before)] in ([], ["RECALL"])
