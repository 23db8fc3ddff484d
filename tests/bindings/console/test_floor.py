"""Whoever asks the console for what nothing answers is told so."""

from __future__ import annotations

from pathlib import Path

from tests.bindings.console.browsing import ALL, signed_in, with_console
from tests.bindings.http.running import OWNER, running
from tests.embedders import AT_HOME, FOREIGN, fill_garden, lined

from memoranda.bindings.console.visit import ROOT


def test_a_question_that_nothing_answers_finds_nothing_in_the_console(tmp_path: Path) -> None:
    with running(tmp_path / "home", extra=with_console, meaning=lined()) as server:
        key = server.key(OWNER, *ALL)
        fill_garden(server.service, server.service.gate.authenticate(key))
        with signed_in(server, key) as browser:
            foreign = browser.get(f"{ROOT}/memories", params={"q": FOREIGN}).text
            assert "No memory answers this question" in foreign
            assert "gardening note" not in foreign
            assert "gardening note 77" in browser.get(f"{ROOT}/memories", params={"q": AT_HOME}).text
