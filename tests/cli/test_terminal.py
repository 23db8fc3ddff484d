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
