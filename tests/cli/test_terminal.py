"""What a person sees on a terminal is text: no stored character moves the cursor or turns a line around."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cli.terminal import Terminal

from memoranda.app import Memoranda
from memoranda.encoding.json_text import parse

HOSTILE = "tea \x9b31m\x85 \u202egreen\u2066 \u061c\U000e0041 \x1b]0;owned\x07"
COMMANDS = {
    "recall": ("recall", "tea", "--json"),
    "export": ("export", "-"),
    "markdown": ("export", "-", "--format", "markdown"),
    "oams": ("export", "-", "--format", "oams"),
    "cal": ("cal", "RECALL events", "--json"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_stored_drives_the_terminal(name: str, tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home") as memoranda:
        memoranda.remember(HOSTILE, kind="episodic")
    environment = {"MEMORANDA_HOME": str(tmp_path / "home")}
    with Terminal([sys.executable, "-m", "memoranda", *COMMANDS[name]], environment) as terminal:
        assert terminal.wait() == 0
        shown = terminal.raw
    assert "green" in shown
    # The progress bar's own sequences are not among these.
    assert not set("\x9b\x85\u202e\u2066\u061c\U000e0041\x07") & set(shown)
    assert "\x1b]" not in shown
    if name == "recall":
        assert parse(shown)["results"][0]["record"]["body"]["text"] == HOSTILE


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), ("y", 0)])
def test_a_person_is_asked_before_an_owner_is_created(answer: str, code: int, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Memoranda.open(home, owner="did:example:ada") as memoranda:
        memoranda.remember("tea")
    command = [sys.executable, "-m", "memoranda", "--owner", "did:example:adda", "remember", "coffee"]
    with Terminal(command, {"MEMORANDA_HOME": str(home)}) as terminal:
        terminal.until("but there is did:example:ada. Create did:example:adda? [y/N] ")
        terminal.press(f"{answer}\r")
        assert terminal.wait() == code
    with Memoranda.open(home, owner="did:example:ada") as memoranda:
        assert len(memoranda.service.context.engine.system.list_tenants()) == (2 if code == 0 else 1)


def test_the_audit_log_fits_the_terminal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Memoranda.open(home) as memoranda:
        memoranda.oams.store("a-key", "tea")
        memoranda.recall("tea")
    for columns in (80, 100):
        with Terminal([sys.executable, "-m", "memoranda", "audit"], {"MEMORANDA_HOME": str(home)}, columns) as opened:
            assert opened.wait() == 0
        lines = opened.seen.splitlines()
        assert [line.split()[3] for line in lines[1:]] == ["oams.store", "recall"]
        assert max(map(len, lines)) <= columns


def test_a_bar_appears_only_after_a_second_and_has_a_total(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Memoranda.open(home) as memoranda:
        for text in ("tea", "coffee", "water"):
            memoranda.remember(text)
    script = "from memoranda.cli import main, show; show.PATIENCE = {}; raise SystemExit(main({!r}))"
    for patience in (3600, 0):
        for command in (["verify"], ["reindex"], ["export", str(tmp_path / "all.ndjson")], ["redact"]):
            program = [sys.executable, "-c", script.format(patience, command)]
            with Terminal(program, {"MEMORANDA_HOME": str(home)}) as opened:
                assert opened.wait() == 0
            assert ("━" in opened.seen and "3/3" in opened.seen) == (patience == 0), opened.seen
