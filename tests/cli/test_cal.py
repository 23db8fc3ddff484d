"""Queries on the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command, Ran
from tests.cli.terminal import Terminal
from tests.forking import put_memoranda

from memoranda.app import Memoranda
from memoranda.encoding.json_text import parse

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "cal.md"
REASON = 'REASON "she said so"'


def belief(subject: str, relation: str, said: str) -> str:
    return f'ADD belief SET subject = "{subject}" SET relation = "{relation}" SET object = "{said}" {REASON}'


GOAL = f'ADD goal SET subject = "alice" SET relation = "mg:intends" SET object = "ship it" {REASON}'
TEA = belief("alice", "prefers", "tea")


@pytest.fixture
def filled(run: Command) -> Command:
    for query in (TEA, belief("bob", "prefers", "coffee"), GOAL):
        assert run("cal", "--yes", query).code == 0
    return run


def hash_of(run: Command, relation: str = "prefers", subject: str = "alice") -> str:
    query = f'RECALL beliefs WHERE subject = "{subject}" AND relation = "{relation}" | HASHES'
    return run("cal", query).out.strip()


@contextmanager
def terminal(home: Path, *tokens: str) -> Iterator[Terminal]:
    environment = {**os.environ, "MEMORANDA_HOME": str(home)}
    with Terminal([sys.executable, "-m", "memoranda", "cal", *tokens], environment) as opened:
        yield opened


# --- answers -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-26-cli")
def test_a_query_comes_from_the_command_line_a_file_or_standard_input(filled: Command, tmp_path: Path) -> None:
    query = 'RECALL beliefs ABOUT "alice" AS text'
    path = tmp_path / "query.cal"
    path.write_bytes(b"\xef\xbb\xbf" + query.encode())
    answers = [
        filled("cal", query),
        filled("cal", "--file", path),
        filled("cal", "-f", "-", piped=query.encode()),
        filled("cal", "-", piped=query.encode()),
        filled("cal", piped=query.encode()),
    ]
    assert answers == [Ran(0, "[belief] alice prefers tea (0.8)\n", "")] * 5


@pytest.mark.requirement("CAL-26-cli")
def test_formatted_text_is_printed_as_it_is_and_only_that(filled: Command) -> None:
    query = (
        'ASSEMBLE FOR "tea" FROM a: (RECALL beliefs ABOUT "alice" WITH cache(ttl = 5)), b: (RECALL goals) FORMAT sml'
    )
    ran = filled("cal", query)
    assert ran.out == filled("cal", query, "--json").json["formatted_context"]["text"].rstrip("\n") + "\n"
    assert ran.out.startswith('<context intent="tea">\n')
    assert filled("cal", "RECALL goals WITH cache(ttl = 5)").err.startswith("memoranda: CAL-W004: ")


def test_the_whole_answer_is_there_as_json(filled: Command) -> None:
    answer = filled("cal", "--json", "RECALL beliefs | LIMIT 1").json
    assert answer["_cal"]["statement_type"] == "recall"
    assert (len(answer["results"]), answer["total"]) == (1, 2)
    following = filled("cal", "--json", "RECALL beliefs | LIMIT 1", "--cursor", answer["next_cursor"]).json
    assert following["results"] != answer["results"]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("RECALL goals", r"\[goal\] alice: ship it \(active\)  sha256:[0-9a-f]{64}\n"),
        ("RECALL beliefs | COUNT", "2\n"),
        ("RECALL beliefs | SUBJECTS", "(alice\nbob|bob\nalice)\n"),
        ("RECALL | GROUP BY type", "belief\t2\ngoal\t1\n"),
        ("RECALL goals | SELECT subject, object", "alice\tship it\tsha256:[0-9a-f]{64}\n"),
        ("RECALL goals WITH explanation", r"\[goal\].*\n    explanation: .*\n"),
        ("EXISTS sha256:00000000", "no\n"),
        ("EXPLAIN RECALL goals", "statement: recall\ntier: 0\n(.*\n)*steps:\n  - op: query\n(.*\n)*"),
        ("DESCRIBE grain_types", "belief\tbeliefs\t0x01\tyes\tyes\n(.*\n){9}"),
        ("DESCRIBE server", "name: memoranda\n(.*\n)+"),
        ("DESCRIBE grammar", r"/\* CAL(.*\n)+"),
        ("(RECALL goals) UNION (RECALL goals)", r"\[goal\].*\n"),
        ("COALESCE(RECALL events, RECALL goals)", r"\[goal\].*\n"),
        ("BATCH { a: RECALL goals | COUNT, b: EXISTS sha256:00000000 }", "a:\n1\nb:\nno\n"),
        ("DEFINE TEMPLATE mine ELEMENT { {{grain.object}} }", "template mine defined\n"),
    ],
)
def test_every_kind_of_answer_can_be_read(filled: Command, query: str, shown: str) -> None:
    ran = filled("cal", query)
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(shown, ran.out), ran.out


def test_nothing_found_is_said_beside_the_answer(filled: Command) -> None:
    for query in ("RECALL events", "RECALL events | HASHES", 'HISTORY WHERE subject = "x" AND relation = "y"'):
        assert filled("cal", query) == Ran(0, "", "memoranda: no matches\n")


def test_a_history_and_what_changed_in_it_can_be_read(filled: Command) -> None:
    old = hash_of(filled)
    changed = filled("cal", "--yes", f'SUPERSEDE {old} SET object = "mate" REASON "asked again"')
    new = changed.out.split()[0]
    assert changed.out == f"{new} supersedes {old}\n"
    newest, reason, oldest, _ = filled("cal", f"HISTORY {old}").out.splitlines()
    assert re.match(r"2  \d{4}-\S+Z  \[belief\] alice prefers mate .* current$", newest)
    assert reason == "    reason: asked again"
    assert "prefers tea" in oldest
    assert filled("cal", f"HISTORY {old} DIFF {new}").out == "object\ttea\tmate\n"
    assert filled("cal", "--yes", f'REVERT {new} REASON "no"').out.endswith(f" reverts {new}\n")


def test_a_failed_entry_of_a_batch_is_said_and_fails_the_command(filled: Command) -> None:
    ran = filled("cal", "BATCH { a: RECALL goals | COUNT, b: HISTORY sha256:00000000 DIFF sha256:00000001 }")
    assert (ran.code, ran.out) == (1, "a:\n1\nb:\n")
    assert ran.err.startswith("memoranda: b: CAL-E046: ")


def test_stored_text_cannot_drive_the_terminal(run: Command, home: Path) -> None:
    assert run("cal", "--yes", belief("eve", "says", "\x1b[31mred")).code == 0
    assert "\x1b" not in run("cal", "RECALL beliefs").out
    with terminal(home, "RECALL beliefs AS text") as opened:
        opened.wait()
    assert "eve says" in opened.seen
    assert "red" in opened.seen
    assert "\x1b[31m" not in opened.seen


# --- what is said beside the query ---------------------------------------------------------------------------


def test_parameters_are_json_or_else_text(filled: Command) -> None:
    query = "RECALL beliefs WHERE subject IN ($who) AND confidence >= $least | LIMIT $n AS text"
    given = ("--param", 'who=["alice", "eve"]', "--param", "least=0.5", "--param", "$n=1")
    assert filled("cal", *given, query).out == "[belief] alice prefers tea (0.8)\n"
    assert filled("cal", "--param", "who=alice", "RECALL beliefs ABOUT $who | COUNT").out == "1\n"
    twice = filled("cal", "--param", "a=1", "--param", "a=2", "RECALL")
    assert (twice.code, twice.err.split(":")[1]) == (1, " CAL-E009")
    assert filled("cal", "--param", "a", "RECALL").err == "memoranda: --param: write NAME=VALUE, where NAME is a word\n"
    assert "CAL-E008 line 1, column 22" in filled("cal", "RECALL beliefs ABOUT $who").err


def test_namespace_and_user_are_those_of_the_caller(run: Command) -> None:
    assert run("cal", "--yes", "--namespace", "shop", "--user", "carol", TEA).code == 0
    assert run("cal", "RECALL | COUNT").out == "0\n"
    assert run("cal", "--namespace", "shop", "RECALL | COUNT").out == "1\n"
    assert run("cal", "--namespace", "shop", "--user", "carol", "RECALL MY beliefs | COUNT").out == "1\n"
    assert run("cal", "--namespace", "shop", "--user", "dave", "RECALL MY beliefs | COUNT").out == "0\n"


def test_strict_holds_to_the_letter(run: Command) -> None:
    query = 'ADD reasoning SET subject = "a" SET relation = "b" SET object = "c" REASON "d"'
    assert run("cal", "--check", query).code == 0
    assert "CAL-E051" in run("cal", "--check", "--strict", query).err


def test_the_card_for_models_is_printed_without_a_store(run: Command, home: Path) -> None:
    assert run("cal", "--card").out.startswith("# CAL/1")
    assert run("cal", "--card", "--json").json["card"] == run("cal", "--card").out
    assert not home.exists()


# --- checks and errors ---------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-26-cli-check")
def test_a_check_runs_nothing_and_says_what_is_wrong(run: Command, home: Path) -> None:
    assert run("cal", "--check", TEA) == Ran(0, "valid\n", "")
    assert run("cal", "--check", TEA, "--json").json == {"valid": True, "error": None}
    ran = run("cal", "--check", "RECALL fact", "--json")
    error = {"code": "CAL-E003", "line": 1, "column": 8, "message": 'Unknown grain type "fact".'}
    assert (ran.code, ran.json["valid"], ran.err) == (1, False, "")
    assert ran.json["error"] == {**error, "suggestion": ran.json["error"]["suggestion"]}
    assert run("cal", "--check", "--param", "n=0", "RECALL | LIMIT $n").code == 1
    assert not home.exists()


@pytest.mark.requirement("CAL-22-cli")
def test_an_error_points_at_its_place_and_says_what_to_write(run: Command) -> None:
    ran = run("cal", 'RECALL\tbeliefs\nABOUT "日本語" WHERE foo = 1')
    assert (ran.code, ran.out) == (1, "")
    said, shown, caret, suggestion = ran.err.splitlines()
    assert said == 'memoranda: CAL-E004 line 2, column 19: Unknown field "foo".'
    assert shown == '  ABOUT "日本語" WHERE foo = 1'
    # Three characters are two columns wide each.
    assert caret == " " * (2 + 18 + 3) + "^"
    assert suggestion.startswith("The fields here are")


@pytest.mark.requirement("CAL-22-cli")
def test_an_error_as_json_is_the_envelope_of_the_specification(run: Command) -> None:
    ran = run("cal", "RECALL fact", "--json")
    assert ran.code == 1
    assert ran.json["error"]["code"] == "CAL-E003"
    assert ran.json["error"]["position"] == {"start": 7, "end": 11, "line": 1, "col": 8}
    assert ran.err.startswith("memoranda: CAL-E003")


@pytest.mark.parametrize("command", [("cal",), ("cal", "--check")])
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "CAL-E014"),
        (b"\xff", "CAL-E070"),
        (b"RECALL " + b"x" * 9000, "CAL-E001"),
        ("RECALL \u202e".encode(), "CAL-E071"),
        (b'RECALL beliefs ABOUT "' + b"\x1b[2J" * 20 + b'" | FOO', "CAL-E002"),
        (b"RECALL\x00", "CAL-E002"),
    ],
)
def test_what_is_no_query_is_refused_in_words(run: Command, command: tuple[str, ...], data: bytes, code: str) -> None:
    ran = run(*command, piped=data)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"memoranda: {code}")
    assert not set(ran.err) & set("\x00\x1b\u202e")


def test_of_a_long_line_only_the_neighbourhood_is_shown(run: Command) -> None:
    ran = run("cal", 'RECALL beliefs ABOUT "' + "x" * 500 + '" FOO ABOUT "' + "y" * 500 + '"')
    _, shown, caret, _ = ran.err.splitlines()
    assert len(shown) < 140
    assert shown[caret.index("^") :].startswith("FOO ABOUT")


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (("RECALL", "--file", "x"), "not both"),
        (("--file", "missing.cal"), "there is no such file"),
        (("RECALL", "--stream", "--check"), "--stream excludes"),
        (("RECALL", "--cursor", "cursor:x"), "CAL-E002"),
    ],
)
def test_what_does_not_go_together_is_said(run: Command, tokens: tuple[str, ...], message: str) -> None:
    ran = run("cal", *tokens)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err


def test_a_file_that_cannot_be_a_query_is_not_read_to_its_end(run: Command) -> None:
    assert "too long" in run("cal", "--file", "/dev/zero").err


# --- streams -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-11-cli")
def test_a_stream_is_the_same_text_and_its_events(filled: Command) -> None:
    query = 'ASSEMBLE FOR "x" FROM a: (RECALL beliefs), b: (RECALL goals) FORMAT sml'
    assert filled("cal", "--stream", query) == filled("cal", query)
    events = [parse(line) for line in filled("cal", "--stream", "--json", query).out.splitlines()]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert (events[0]["type"], events[-1]["type"]) == ("assembly_started", "assembly_completed")
    refused = filled("cal", "--stream", "RECALL beliefs")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("memoranda: CAL-E079: ")
    assert filled("cal", "--stream", "--json", "RECALL beliefs").json["code"] == "CAL-E079"


# --- changes -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-18-cli")
def test_a_change_that_nobody_can_be_asked_about_needs_yes(run: Command) -> None:
    ran = run("cal", TEA)
    assert (ran.code, ran.out) == (1, "")
    assert "--yes" in ran.err
    assert run("cal", TEA, "--json").json["error"]["reason"] == "not_prepared"
    assert run("cal", "RECALL | COUNT").out == "0\n"
    assert re.fullmatch(r"sha256:[0-9a-f]{64} added\n", run("cal", "--yes", TEA).out)


@pytest.mark.requirement("CAL-18-cli")
@pytest.mark.parametrize(("answer", "code", "count"), [("y", 0, "1\n"), ("n", 1, "0\n"), ("", 1, "0\n")])
def test_a_person_sees_what_would_be_written_and_is_asked(
    run: Command, home: Path, answer: str, code: int, count: str
) -> None:
    with terminal(home, TEA) as opened:
        opened.until("[y/N]")
        for said in ("ADD", "subject: alice", "object: tea", "Reason: she said so"):
            assert said in opened.seen
        opened.press(f"{answer}\r")
        assert opened.wait() == code
    assert run("cal", "RECALL beliefs | COUNT").out == count


def test_the_switches_reach_the_language(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_CAL_EVOLVE", "off")
    assert run("cal", "--yes", TEA).err.startswith("memoranda: CAL-E044: ADD is not enabled here.")
    assert run("cal", "RECALL | COUNT").out == "0\n"
    monkeypatch.setenv("MEMORANDA_CAL", "off")
    assert run("cal", "RECALL").err.startswith("memoranda: CAL-E000: ")
    monkeypatch.setenv("MEMORANDA_CAL", "perhaps")
    assert run("cal", "RECALL").err == "memoranda: MEMORANDA_CAL: must be one of on, off\n"


@pytest.mark.parametrize(("setting", "may"), [("local", False), ("on", True), ("off", False)])
def test_who_may_change_memories_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, may: bool
) -> None:
    monkeypatch.setenv("MEMORANDA_CAL_EVOLVE", setting)
    with Memoranda.open(tmp_path) as memoranda:
        key = memoranda.service.gate.add_key("agent", tenant=memoranda.owner, scopes=("read", "write"))
        remote = Memoranda(memoranda.service, memoranda.service.gate.authenticate(key))
        described: dict[str, Any] = remote.cal("DESCRIBE capabilities")["description"]
        assert described["tier1_enabled"] is may
        local: dict[str, Any] = memoranda.cal("DESCRIBE capabilities")["description"]
        assert local["tier1_enabled"] is (setting != "off")


def test_a_query_loads_neither_the_prompt_nor_a_server(home: Path) -> None:
    script = (
        "import sys; from memoranda.cli import main; main(['cal', 'RECALL | COUNT']); "
        "heavy = {'mcp', 'starlette', 'uvicorn', 'prompt_toolkit'}; "
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "0\n", "")


# --- the page ------------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_run_and_print_what_it_shows(tmp_path: Path, home: Path) -> None:
    blocks = re.findall(r"```(sh|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "bin").mkdir()
    put_memoranda(tmp_path / "bin")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "MEMORANDA_HOME": str(home)}
    printed = ""
    for kind, text in blocks:
        if kind == "text":
            assert printed == text
            continue
        ran = subprocess.run(
            ["sh", "-eu", "-c", text], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, ""), text
        printed = ran.stdout
    assert printed.endswith("[belief] alice avoids phone calls before ten (0.8)\n")
