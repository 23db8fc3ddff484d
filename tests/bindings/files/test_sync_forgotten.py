"""No file of a synchronised folder has the text of a forgotten or erased memory, under any name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bindings.files.vaults import bytes_in

from memoranda.app import Memoranda
from memoranda.bindings.files.sync import FolderSync

TEXT = "the key is under the mat"
Sync = Callable[[], dict[str, str]]


@pytest.fixture
def sync(memoranda: Memoranda, folder: Path, tmp_path: Path) -> Sync:
    def run() -> dict[str, str]:
        both = FolderSync(memoranda.service, memoranda.access, folder, states=tmp_path / "home" / "sync")
        return {step.name: step.did for step in both.run().steps}

    return run


def forget(memoranda: Memoranda, *, hard: bool) -> None:
    (memory,) = memoranda
    memoranda.forget(memory.id, hard=hard)


def texts_in(folder: Path) -> dict[str, str]:
    return {name: data.decode() for name, data in bytes_in(folder).items()}


def rename(folder: Path) -> None:
    (folder / "A.md").rename(folder / "B.md")


def copy(folder: Path) -> None:
    (folder / "B.md").write_text((folder / "A.md").read_text())


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("change", [rename, copy])
def test_a_forgotten_note_does_not_return_under_another_name(
    memoranda: Memoranda, folder: Path, sync: Sync, change: Callable[[Path], None], *, before: bool, hard: bool
) -> None:
    (folder / "A.md").write_text(TEXT)
    sync()
    if before:
        change(folder)
        sync()
    forget(memoranda, hard=hard)
    if not before:
        change(folder)
    assert set(sync().values()) == {"removed"}
    assert sync() == {}
    assert list(memoranda) == []
    left = texts_in(folder)
    assert not left if hard else left.keys() <= {".trash/A.md", ".trash/B.md"}


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("hard", [False, True])
def test_a_copy_with_an_earlier_text_of_a_memory_is_no_memory_and_follows_its_note(
    memoranda: Memoranda, folder: Path, sync: Sync, *, hard: bool
) -> None:
    (folder / "A.md").write_text(TEXT)
    (folder / "B.md").write_text(TEXT)
    sync()
    (memory,) = memoranda
    memoranda.revise(memory.id, "the key is at the neighbour's")
    assert sync() == {"A.md": "written"}
    assert [memory.text for memory in memoranda] == ["the key is at the neighbour's"]
    forget(memoranda, hard=hard)
    assert set(sync().values()) == {"removed"}
    assert list(memoranda) == []
    assert texts_in(folder).keys() == (set() if hard else {".trash/A.md", ".trash/B.md"})


@pytest.mark.requirement("OURS-one-line")
def test_a_copy_of_a_note_in_the_trash_stays_forgotten_and_the_note_itself_returns(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    (folder / "A.md").write_text(TEXT)
    sync()
    forget(memoranda, hard=False)
    sync()
    (folder / "C.md").write_text(TEXT)
    assert sync() == {"C.md": "removed"}
    assert list(memoranda) == []
    (folder / ".trash" / "C.md").unlink()
    (folder / ".trash" / "A.md").rename(folder / "A.md")
    assert sync() == {"A.md": "remembered"}


@pytest.mark.requirement("OURS-one-line")
def test_the_trash_keeps_no_text_of_a_memory_that_is_erased_later(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    (folder / "A.md").write_text(TEXT)
    (folder / "B.md").write_text("nobody erases this")
    sync()
    by_text = {memory.text: memory.id for memory in memoranda}
    for name in by_text.values():
        memoranda.forget(name)
    sync()
    memoranda.forget(by_text[TEXT], hard=True)
    assert sync() == {".trash/A.md": "removed"}
    assert texts_in(folder) == {".trash/B.md": "nobody erases this"}
    assert sync() == {}


@pytest.mark.requirement("OURS-one-line")
def test_the_trash_of_an_editor_keeps_no_text_of_a_memory_that_is_erased_later(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    (folder / ".trash" / "sub").mkdir(parents=True)
    (folder / "A.md").write_text(TEXT)
    sync()
    (memory,) = memoranda
    (folder / "A.md").rename(folder / ".trash" / "sub" / "A 1.md")
    assert sync() == {"A.md": "forgotten"}
    memoranda.forget(memory.id, hard=True)
    assert sync() == {".trash/sub/A 1.md": "removed"}
    assert texts_in(folder) == {}


@pytest.mark.requirement("OURS-one-line")
def test_a_conflict_keeps_no_text_of_a_memory_that_is_erased_later(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    for name in ("A.md", "B.markdown"):
        (folder / name).write_text(f"{TEXT} of {name}")
    sync()
    for memory in list(memoranda):
        memoranda.revise(memory.id, f"{memory.text}, revised in the store")
    for name in ("A.md", "B.markdown"):
        (folder / name).write_text(f"{TEXT} of {name}, edited in the folder")
    assert set(sync().values()) == {"conflict"}
    (folder / "B.conflict.markdown").write_text("edited since")
    for memory in list(memoranda):
        memoranda.forget(memory.id, hard=True)
    # A file that was edited since is named, and left to the person.
    assert sync() == {
        "A.conflict.md": "removed", "B.conflict.markdown": "refused", "A.md": "removed", "B.markdown": "removed",
    }  # fmt: skip
    assert texts_in(folder) == {"B.conflict.markdown": "edited since"}
    (folder / "B.conflict.markdown").unlink()
    assert sync() == {}


def test_notes_may_end_in_markdown(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    (folder / "A.markdown").write_text("see [[B]]")
    (folder / "B.MARKDOWN").write_text("the other note")
    assert sync() == {"A.markdown": "remembered", "B.MARKDOWN": "remembered"}
    linking = next(memory for memory in memoranda if memory.text == "see [[B]]")
    (relation,) = linking.record["relations"]
    assert memoranda.get(relation["target"]).text == "the other note"
    memoranda.revise(linking.id, "see nothing")
    assert sync() == {"A.markdown": "written"}
    assert (folder / "A.markdown").read_text() == "see nothing"


@pytest.mark.requirement("OURS-one-line")
def test_a_note_shows_the_current_text_after_the_version_it_showed_was_forgotten(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    first = memoranda.remember(TEXT)
    sync()
    memoranda.revise(first.id, "the key is with the neighbour")
    memoranda.forget(first.id)
    sync()
    (text,) = texts_in(folder).values()
    assert "with the neighbour" in text
    assert TEXT not in text
    (memory,) = memoranda
    assert memory.text == "the key is with the neighbour"
    # The name of the file that was written for the first version is no name of the memory.
    assert "mat" not in repr(memory.record["body"])
