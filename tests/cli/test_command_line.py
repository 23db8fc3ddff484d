"""The parser and the rim: help, usage errors, the reference."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from memoranda import __version__
from memoranda.build import build_id, version_and_build
from memoranda.cli.catalogue import SECTIONS
from memoranda.cli.command_line import report_failure
from memoranda.cli.reference import reference

COMMANDS = [entry.name for section in SECTIONS for entry in section.entries]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_reference_is_what_the_commands_say() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference(), (
        "run: python -m memoranda.cli.reference > docs/reference/cli.md"
    )


def test_the_overview_names_every_command_and_option(run: Command) -> None:
    for tokens in ((), ("--help",), ("-h",)):
        ran = run(*tokens)
        assert ran.code == 0
        assert all(f"  {name} " in ran.out for name in COMMANDS)
    assert run("--version").out == f"{version_and_build()}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_the_shared_options(run: Command, name: str) -> None:
    ran = run(name, "--help")
    assert ran.code == 0
    assert f"memoranda {name}" in ran.out
    assert "--json" in ran.out


@pytest.mark.parametrize(
    "tokens",
    [
        ("frob",),
        ("recall",),
        ("get",),
        ("recall", "x", "--limit", "many"),
        ("remember", "x", "--kind", "odd"),
        ("key", "x"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(run: Command, tokens: tuple[str, ...]) -> None:
    ran = run(*tokens)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memoranda: ")
    assert ran.err.count("\n") == 1
    assert run(*tokens, "--json").json["error"]["code"] == "usage"


def test_a_refusal_is_one_sentence_and_with_json_an_object_too(run: Command) -> None:
    ran = run("get", "urn:ump:aa")
    assert (ran.code, ran.out, ran.err) == (1, "", "memoranda: no memory urn:ump:aa\n")
    answer = run("--json", "get", "urn:ump:aa")
    assert answer.json == {"error": {"code": "not_found", "message": "no memory urn:ump:aa"}}


def test_what_follows_two_hyphens_is_text(run: Command) -> None:
    name = run("remember", "--json", "--", "- --json").json["id"]
    assert run("get", name, "--json").json["record"]["body"]["text"] == "- --json"


def test_a_folder_that_cannot_be_made_is_a_refusal(run: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = run("recall", "x", "--data", tmp_path / "file" / "home")
    assert ran.code == 1
    assert "this folder cannot be created" in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_there_is_completion_for_each_shell(run: Command, shell: str) -> None:
    ran = run("completion", shell)
    assert ran.code == 0
    assert all(word in ran.out for word in ("remember", "oams", "validate", "recall", "dry-run", "if-absent"))


def test_help_for_what_is_no_command_says_so(run: Command) -> None:
    for words in (("distil", "--help"), ("--json", "distil", "-h"), ("distil",)):
        done = run(*words)
        assert (done.code, 'Did you mean "distill"?' in done.err) == (2, True)


def test_the_commands_are_listed_wherever_none_is_named(run: Command) -> None:
    listed = run("--help").out
    for words in ((), ("-h",), ("--json",), ("--owner", "ada", "--help"), ("--json", "-h")):
        assert run(*words).out == listed


def test_whoever_uses_a_command_wrongly_is_told_of_its_own_help(run: Command) -> None:
    assert "Try: memoranda recall --help" in run("recall").err
    assert "Try: memoranda recall --help" in run("recall", "tea", "--limt", "3").err


def test_help_and_version_are_commands(run: Command) -> None:
    assert run("help").out == run("--help").out
    assert run("help", "key", "add").out == run("key", "add", "--help").out
    assert run("help", "search").out.startswith("Usage: memoranda search")
    assert run("help", "help").out.startswith("Usage: memoranda help")
    assert (run("help", "distil").code, run("help", "distil").out) == (2, "")
    assert run("version").out == run("--version").out
    assert (
        run("version", "--json").json
        == run("--version", "--json").json
        == {
            "version": __version__,
            "build": build_id(),
        }
    )


@pytest.mark.parametrize(
    ("limit", "error", "expected"),
    [
        (150 * 1_048_576, RuntimeError("can't start new thread"), "only 150 MB (ulimit -v)"),
        (resource.RLIM_INFINITY, MemoryError(), "too little"),
        (resource.RLIM_INFINITY, RuntimeError("x"), "unexpected error in Memoranda"),
    ],
)
def test_a_lack_of_memory_is_reported_with_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit: int, error: Exception, expected: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert report_failure(["recall", "--json"], error) == 1
    shown = capsys.readouterr()
    assert expected in shown.err
    assert expected in json.loads(shown.out)["error"]["message"]
