"""The list of ignored files has the meaning that git gives to .gitignore."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.ignore import IGNORE_FILE, MAX_PATTERNS, IgnoreList
from memoranda.bindings.files.sync import FolderSync
from memoranda.errors import InvalidInput, TooLarge

PATHS = (
    "a.md", "b.md", "Templates/a.md", "sub/Templates/deep/a.md", "sub/a.md", "sub/b c.md", "sub/sub/a.md",
    "drafts/a.md", "x/drafts/y/a.md", "#a.md", "!a.md", "a1.md", "ab.md", "[a].md", "sub/aa.md", "Templates.md",
)  # fmt: skip
LISTS = (
    "Templates/",
    "/sub/*.md",
    "sub/**/a.md",
    "**/drafts/**",
    "drafts/**",
    "*.md\n!a.md",
    "Templates/\n!Templates/a.md",
    "Templates/*\n!Templates/a.md",
    "a?.md",
    "a[0-9].md\n",
    "a[!0-9].md",
    "\\#a.md\n\\!a.md",
    "# a comment\n\n   \nb.md   ",
    "sub/b\\ c.md",
    "/a.md",
    "sub",
    "**/a.md",
    "sub/*/a.md",
    "*a*.md",
    "a*a.md",
    "x/**/a.md",
    "\\[a].md",
)


def test_a_list_ignores_what_git_ignores(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for patterns in LISTS:
        (tmp_path / ".git" / "info" / "exclude").write_text(patterns)
        done = subprocess.run(
            ["git", "-C", tmp_path, "-c", "core.quotePath=off", "check-ignore", "--no-index", "--stdin"],
            input="\n".join(PATHS),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1)
        ignored = IgnoreList.parse(patterns)
        assert [path for path in PATHS if ignored.matches(path)] == done.stdout.splitlines(), patterns


def test_a_hostile_pattern_takes_no_longer_than_its_length() -> None:
    ignored = IgnoreList.parse("/".join(["**", "*a" * 100 + "b"] * 20))
    assert not ignored.matches("/".join(["a" * 250] * 30))
    with pytest.raises(TooLarge):
        IgnoreList.parse("a\n" * (MAX_PATTERNS + 1))


def test_ignored_notes_are_neither_read_nor_written_nor_forgotten(
    memoranda: Memoranda, folder: Path, tmp_path: Path
) -> None:
    def sync() -> dict[str, str]:
        both = FolderSync(memoranda.service, memoranda.access, folder, states=tmp_path / "home" / "sync")
        return {step.name: step.did for step in both.run().steps}

    (folder / "Templates").mkdir()
    for name, text in (("A.md", "one"), ("B.md", "two"), ("Templates/Day.md", "a template")):
        (folder / name).write_text(text)
    (folder / IGNORE_FILE).write_text("Templates/\n")
    assert sync() == {"A.md": "remembered", "B.md": "remembered"}
    # The list forgets no memory, because everyone with access to the folder can write it.
    (folder / IGNORE_FILE).write_text("*.md\n")
    (folder / "A.md").unlink()
    memoranda.remember("not in the folder")
    assert sync() == {}
    assert sorted(memory.text for memory in memoranda) == ["not in the folder", "one", "two"]
    (folder / IGNORE_FILE).unlink()
    assert sync() == {
        "A.md": "forgotten", "Templates/Day.md": "remembered", "not-in-the-folder.md": "written",
    }  # fmt: skip
    assert sync() == {}


def test_a_list_that_cannot_be_read_stops_the_synchronisation(
    memoranda: Memoranda, folder: Path, tmp_path: Path
) -> None:
    (folder / "A.md").write_text("private")
    (folder / IGNORE_FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        FolderSync(memoranda.service, memoranda.access, folder, states=tmp_path / "sync").run()
    assert list(memoranda) == []


def test_an_import_of_a_folder_leaves_out_what_is_ignored(memoranda: Memoranda, folder: Path) -> None:
    (folder / "Templates").mkdir()
    (folder / "Templates" / "Day.md").write_text("a template")
    (folder / "A.md").write_text("a note")
    (folder / IGNORE_FILE).write_text("Templates/\n")
    exchange.import_files(memoranda.ump.import_items, memoranda.owner, [str(folder)])
    assert [memory.text for memory in memoranda] == ["a note"]
