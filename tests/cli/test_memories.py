"""remember, recall, get, revise, forget, history, feedback."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Command

from memoranda.app import Memoranda


def remember(run: Command, *tokens: str) -> str:
    ran = run("remember", *tokens, "--json")
    assert ran.code == 0, ran.err
    return str(ran.json["id"])


def test_what_is_remembered_is_recalled_as_text_and_as_json(run: Command) -> None:
    said = run("remember", "use pnpm, never npm", "--kind", "procedural", "--project", "p")
    assert (said.code, said.err) == (0, "")
    name, result = said.out.split()
    assert result == "created"
    shown = run("recall", "pnpm", "--project", "p")
    assert "procedural  p  private" in shown.out
    assert "use pnpm, never npm" in shown.out
    assert name in shown.out
    (found,) = run("--json", "recall", "pnpm").json["results"]
    assert found["record"]["id"] == name
    assert set(found) == {"record", "signals", "score", "relevance"}


def test_every_option_of_remember_reaches_the_record(run: Command) -> None:
    name = remember(
        run,
        "a fact",
        *("--kind", "semantic", "--project", "p", "--user", "u", "--agent", "a", "--session", "s"),
        *("--visibility", "shared", "--salience", "0.9", "--confidence", "0.8", "--retention", "365d"),
        *("--about", "x", "--about", "y", "--structured", '{"a": {"b": 1}}', "--redact", "body.structured.a.b"),
        *("--no-export", "--valid-from", "2020-01-01", "--valid-to", "2999-01-01T00:00:00Z", "--source", "here"),
    )
    record = run("get", name, "--json").json["record"]
    assert record["body"] == {"text": "a fact", "structured": {"a": {"b": 1}}}
    scope = {"project": "p", "user": "u", "agent": "a", "session": "s", "visibility": "shared"}
    assert record["scope"] == {"owner": record["scope"]["owner"], **scope}
    assert record["lifecycle"] == {"status": "active", "confidence": 0.8, "salience": 0.9}
    assert record["relations"] == [{"type": "about", "target": "x"}, {"type": "about", "target": "y"}]
    assert record["consent"] == {"retention": "PT31536000S", "exportable": False, "redact": ["body.structured.a.b"]}
    assert record["time"]["valid_from"] == "2020-01-01T00:00:00Z"
    assert record["provenance"]["source"] == {"ref": "here"}


@pytest.mark.parametrize("tokens", [("remember", "-"), ("remember",)])
def test_a_text_can_be_piped_in(run: Command, tokens: tuple[str, ...]) -> None:
    name = run(*tokens, "--json", piped="zwei Zeilen\nmit ü\n".encode()).json["id"]
    assert run("get", name, "--json").json["record"]["body"]["text"] == "zwei Zeilen\nmit ü"


def test_piped_bytes_that_are_not_utf_8_are_refused(run: Command) -> None:
    ran = run("remember", "-", piped=b"\xff")
    assert (ran.code, ran.err) == (1, "memoranda: standard input: not UTF-8 at byte 0\n")


def test_a_text_may_start_with_a_hyphen_but_a_mistyped_option_is_no_text(run: Command) -> None:
    assert run("remember", "- an item").code == 0
    ran = run("remember", "--projct")
    assert ran.code == 2
    assert "Unknown option: --projct" in ran.err


def test_the_block_for_a_prompt_is_framed_and_within_its_budget(run: Command) -> None:
    remember(run, "use pnpm", "--visibility", "public")
    shown = run("recall", "pnpm", "--for-prompt", "--budget", "1000")
    assert shown.out.startswith('<ump:memory trust="untrusted-data">')
    assert len(run("recall", "pnpm", "--for-prompt", "--json").json["injected"]) == 1
    assert run("recall", "pnpm", "--budget", "10").code == 1


def test_what_was_true_and_what_was_known_can_be_asked(run: Command) -> None:
    remember(run, "the office is in Rome", "--valid-from", "2020-01-01", "--valid-to", "2021-01-01")
    assert run("recall", "office", "--json").json["results"] == []
    assert len(run("recall", "office", "--valid-at", "2020-06-01", "--json").json["results"]) == 1
    known = run("recall", "office", "--valid-at", "2020-06-01", "--known-at", "2020-06-01", "--json")
    assert known.json["results"] == []
    assert "RFC 3339" in run("recall", "office", "--valid-at", "yesterday").err


def test_what_was_true_or_known_on_a_day_includes_that_day(run: Command) -> None:
    name = remember(run, "the office is in Rome")
    day = run("get", name, "--json").json["record"]["time"]["created"][:10]
    for option in ("--valid-at", "--known-at"):
        assert len(run("recall", "office", option, day, "--json").json["results"]) == 1


def test_preferring_a_signal_neither_loses_nor_adds_an_answer(run: Command) -> None:
    answer = "the office opens at nine in the morning"
    remember(run, answer)
    for text in ("a chair was mended", "office plants were watered", "the roof was cleaned"):
        remember(run, text, "--salience", "1")
    asked = ("recall", "when does the office open in the morning", "--json")
    usual = [each["record"]["body"]["text"] for each in run(*asked).json["results"]]
    for signal in ("recency", "salience"):
        found = [each["record"]["body"]["text"] for each in run(*asked, "--prefer", signal).json["results"]]
        assert (found[0], sorted(found)) == (answer, sorted(usual))


def test_a_revision_keeps_the_data_beside_the_text(run: Command) -> None:
    first = remember(run, "one", "--structured", '{"a": 1}')
    revised = run("revise", first, "two", "--salience", "0.9", "--json").json
    assert revised["supersedes"] == [first]
    record = run("get", revised["id"], "--json").json["record"]
    assert record["body"] == {"text": "two", "structured": {"a": 1}}
    assert record["lifecycle"]["salience"] == 0.9
    versions = run("history", first, "--json").json["versions"]
    assert [version["record"]["body"]["text"] for version in versions] == ["one", "two"]
    assert run("history", first).out.count("urn:ump:") == 2
    again = run("revise", first, "three")
    assert (again.code, again.out) == (1, "")
    assert "already superseded" in again.err


def test_only_the_weight_can_be_revised(run: Command) -> None:
    first = remember(run, "one")
    name = run("revise", first, "--confidence", "1", "--json").json["id"]
    record = run("get", name, "--json").json["record"]
    assert (record["body"]["text"], record["lifecycle"]["confidence"]) == ("one", 1)


def test_forgetting_softly_and_for_good(run: Command, home: Path) -> None:
    first, second = remember(run, "forget me"), remember(run, "erase this sentence")
    assert run("forget", first, "--reason", "asked").out == f"{first} tombstoned\n"
    assert run("get", first, "--json").json["record"]["body"]["text"] == "forget me"
    assert run("forget", second, "--hard", "--json").json == {"result": "erased"}
    assert "erase this sentence" not in run("get", second, "--json").out
    assert b"erase this sentence" not in (home / "memoranda.db").read_bytes()
    assert run("recall", "forget", "--json").json["results"] == []


def test_feedback_is_taken_and_its_outcome_checked(run: Command) -> None:
    name = remember(run, "one")
    assert run("feedback", name, "followed", "--session", "s", "--json").json == {"ok": True}
    wrong = run("feedback", name, "liked")
    assert wrong.code == 2
    assert "followed" in wrong.err


def test_retention_is_kept_before_anything_is_shown(run: Command) -> None:
    name = remember(run, "short-lived", "--retention", "0s")
    assert run("get", name, "--json").json["record"]["lifecycle"]["status"] == "tombstoned"
    assert run("export", "-").out == ""


def test_stored_text_cannot_drive_the_terminal(run: Command) -> None:
    name = remember(run, "red \x1b[31m alert \x9b2J \u202egnp.exe")
    shown = run("get", name).out
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[31m" in shown


def test_a_mistyped_owner_is_not_an_empty_memory(run: Command) -> None:
    # The first owner of a new store needs no more than a name.
    assert run("--owner", "did:example:ada", "remember", "mine").code == 0
    for tokens in (("recall", "mine"), ("list",), ("remember", "x"), ("cal", "RECALL"), ("undo",), ("export", "-")):
        refused = run("--owner", "did:example:aad", *tokens)
        assert (refused.code, refused.out) == (1, "")
        message = "this store has no owner did:example:aad, but there is did:example:ada; to create it, add --new-owner"
        assert refused.err == f"memoranda: {message}\n"
    error = run("--owner", "did:example:aad", "list", "--json").json["error"]
    assert (error["code"], "did:example:ada" in error["message"]) == ("not_found", True)
    # Nothing was made, also not in the audit log.
    assert run("verify").out.startswith("1 record of 1 owner, 1 audit entry")
    assert run("--owner", "did:example:bob", "--new-owner", "remember", "his").code == 0
    assert [r["body"]["text"] for r in run("--owner", "did:example:bob", "list", "--json").json["records"]] == ["his"]
    # The operator is always there, and so is an owner that has a key.
    assert run("key", "add", "phone", "--tenant", "did:example:cyd").code == 0
    assert run("--owner", "did:example:cyd", "list").code == 0
    operator = run("key", "show", "--operator").out.strip()
    assert run("--owner", operator, "list").code == 0


def test_owner_and_data_directory_separate_memories(run: Command, tmp_path: Path) -> None:
    remember(run, "mine")
    assert run("recall", "mine", "--owner", "did:key:zOther", "--new-owner", "--json").json["results"] == []
    assert run("--data", tmp_path / "elsewhere", "recall", "mine", "--json").json["results"] == []
    store = f"sqlite:///{tmp_path}/third.db"
    assert run("remember", "elsewhere", "--store", store).code == 0
    with Memoranda.open(tmp_path / "home") as memoranda:
        assert [record["body"]["text"] for record in memoranda.export()] == ["mine"]
