"""Notes of a vault are found by their titles, aliases, tags, file names and headings, and shown with their titles."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Command

TEXT = "Soundings, currents, dredging costs."
VAULT = {
    "Harbour study.md": f"---\naliases: [Project Lighthouse]\n---\n{TEXT}\n",
    "sub/Winter gear.md": "---\ntitle: Guide\ntags: [packing-list]\n---\nGaiters, two pairs of gloves, a thermos.\n",
    "kiln.md": "# Firing\n\nRamp to 600, then hold.\n\n## Glaze recipes\n\nCeladon, tenmoku.\n\nAsk Ida.\n",
    "other.md": "Feed at eight, mix at noon, fold four times. Glaze the ham with honey and its recipes.\n",
}
QUESTIONS = {
    "Harbour study": TEXT,
    "project lighthouse": TEXT,
    "winter gear": "Gaiters",
    "guide": "Gaiters",
    "packing list": "Gaiters",
    "kiln": "# Firing",
    "glaze recipes": "# Firing",
}


@pytest.mark.parametrize("command", ["sync", "import"])
def test_the_notes_of_a_vault_are_found_by_their_names(run: Command, tmp_path: Path, command: str) -> None:
    vault = tmp_path / "vault"
    for name, text in VAULT.items():
        path = vault / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert run(command, vault).code == 0
    for question, beginning in QUESTIONS.items():
        results = run("recall", question, "--words", "--json").json["results"]
        assert results[0]["record"]["body"]["text"].startswith(beginning), question
    assert "Guide: Gaiters" in run("list").out
    assert "Guide: Gaiters" in run("recall", "guide", "--words", "--for-prompt").out
    assert "  Guide\n  Gaiters" in run("recall", "guide", "--words").out


def test_a_synchronised_vault_is_not_written_again_for_its_aliases(run: Command, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    note = vault / "Harbour study.md"
    note.write_text(VAULT[note.name])
    assert run("sync", vault).code == 0
    assert "nothing to do" in run("sync", vault).out
    note.write_text(note.read_text().replace("Project Lighthouse", "Pier Nine"))
    assert "revised" in run("sync", vault).out
    assert run("recall", "pier nine", "--words", "--json").json["results"]
    assert not run("recall", "lighthouse", "--words", "--json").json["results"]
