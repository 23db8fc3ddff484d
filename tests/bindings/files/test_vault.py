"""A vault of notes and the store: what a person wrote stays as they wrote it, and both sides meet."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.files.vaults import bytes_in, make_vault
from tests.waiting import until

from memoranda.app import Memoranda
from memoranda.bindings.files.note import Note, stem
from memoranda.bindings.files.sync import FolderSync, SyncReport
from memoranda.bindings.files.sync_pass import SyncStep
from memoranda.errors import InvalidInput
from memoranda.standards.ump.requests import ReviseRequest
from memoranda.standards.ump.shapes import Record

Sync = Callable[..., list[SyncStep]]


@pytest.fixture
def sync(memoranda: Memoranda, folder: Path, tmp_path: Path) -> Sync:
    def run(*, dry_run: bool = False) -> list[SyncStep]:
        both = FolderSync(memoranda.service, memoranda.access, folder, states=tmp_path / "home" / "sync")
        return both.run(dry_run=dry_run).steps

    return run


def did(steps: list[SyncStep]) -> dict[str, str]:
    return {step.name: step.did for step in steps}


def heads(memoranda: Memoranda) -> dict[str, Record]:
    """What is remembered now, by title."""
    found = memoranda.service.export(memoranda.access, history=False)
    return {str((record["body"].get("structured") or {}).get("title")): record for record in found}


def tags_of(record: Record) -> set[str]:
    return {each["target"].removeprefix("tag:") for each in record.get("relations", ()) if each["type"] == "about"}


def test_a_vault_in_a_dozen_habits_is_a_memory_and_stays_as_it_is(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    notes = make_vault(folder, count=500)
    before = bytes_in(folder)
    said = {stem(name): Note.parse(data) for name, data in notes.items()}
    assert set(did(sync()).values()) == {"remembered"}
    first = heads(memoranda)
    assert sorted(record["body"]["text"] for record in first.values()) == sorted(
        note.text for note in said.values() if note.text
    )
    for title, note in said.items():
        if note.text:
            record = first[note.title or title]
            assert tags_of(record) == set(note.tags or ())
            assert record["kind"] == (note.kind or "semantic")
    assert sync() == []
    assert bytes_in(folder) == before
    assert heads(memoranda) == first
    assert sum(each["type"] == "links_to" for one in first.values() for each in one.get("relations", ())) > 200

    # Changes on both sides, half of them in the same note: one changes the text, the other the tags.
    names = [name for name, data in notes.items() if Note.parse(data).text and not Note.parse(data).problem][:60]
    for count, name in enumerate(names):
        note = Note.parse(notes[name])
        record = first[note.title or stem(name)]
        if count % 3 != 1:
            (folder / name).write_bytes(notes[name] + f"{note.newline}added by hand".encode())
        if count % 3 != 0:
            relations = [*record.get("relations", []), {"type": "about", "target": "tag:by-agent"}]
            memoranda.service.revise(memoranda.access, _revision(record["id"], {"relations": relations}))
    assert set(did(sync()).values()) == {"revised", "written"}
    after = heads(memoranda)
    for count, name in enumerate(names):
        old, new = Note.parse(notes[name]), Note.parse((folder / name).read_bytes())
        record = after[old.title or stem(name)]
        by_hand = "" if count % 3 == 1 else "added by hand"
        assert new.text.startswith(old.text)
        assert new.text.endswith(by_hand)
        assert record["body"]["text"] == new.text
        assert ("by-agent" in tags_of(record)) == ("by-agent" in (new.tags or ())) == (count % 3 != 0)
        bom = b"\xef\xbb\xbf"
        lines = (folder / name).read_bytes().removeprefix(bom).splitlines()
        kept = [each for each in notes[name].removeprefix(bom).splitlines() if not each.startswith((b"tag", b"{"))]
        assert [line for line in kept if line not in lines] == []
    untouched = {name: data for name, data in before.items() if name not in names}
    assert untouched.items() <= bytes_in(folder).items()
    assert sync() == []


def _revision(record_id: str, patch: dict[str, object]) -> ReviseRequest:
    return ReviseRequest.parse({"id": record_id, "patch": patch})


def test_a_memory_becomes_a_note_with_a_few_lines_at_its_top(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    made = memoranda.remember("# Use pnpm, never npm!\n\nIt is faster.", kind="procedural", tags=["build", "a b"]).id
    assert did(sync()) == {"use-pnpm-never-npm.md": "written"}
    path = folder / "use-pnpm-never-npm.md"
    assert path.read_text() == (
        f'---\ntitle: "Use pnpm, never npm!"\nkind: procedural\ntags: [build, a b]\nid: {made}\n---\n\n'
        "# Use pnpm, never npm!\n\nIt is faster.\n"
    )
    path.write_text(path.read_text().replace("faster", "much faster").replace("[build, a b]", "[build] # mine"))
    edited = path.read_bytes()
    assert did(sync()) == {"use-pnpm-never-npm.md": "revised"}
    assert path.read_bytes() == edited
    (record,) = memoranda.service.export(memoranda.access, history=False)
    assert record["supersedes"] == [made]
    assert record["body"]["text"].endswith("much faster.")
    assert tags_of(record) == {"build"}
    assert sync() == []


def test_when_both_change_the_text_both_are_kept(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    path = folder / "deep" / "Note.md"
    path.parent.mkdir()
    path.write_bytes(b"---\nown: 1 # mine\n---\r\nabout tea\n")
    sync()
    memoranda.revise(heads(memoranda)["Note"]["id"], "about coffee")
    mine = path.read_bytes().replace(b"tea", b"green tea")
    path.write_bytes(mine)
    (step,) = sync()
    assert (step.did, step.name) == ("conflict", "deep/Note.md")
    assert (folder / "deep/Note.conflict.md").read_bytes() == mine
    assert path.read_bytes() == b"---\nown: 1 # mine\n---\r\nabout coffee\n"
    assert sync() == []


def test_a_note_that_shows_only_the_beginning_of_a_memory_is_not_made_the_whole_of_it(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    long = "The garden needs water. " * 12_000
    memoranda.oams.store("garden", long, tags=["old"])
    (step,) = sync()
    note = folder / step.name
    before = note.read_text()
    for edited in (f"{before[:-5]}soil\n", re.sub("(?m)^title: .*$", "title: Garden", before)):
        note.write_text(edited)
        (step,) = sync()
        assert (step.did, "body.text: a record holds at most 262144 bytes" in step.detail) == ("refused", True)
        assert memoranda.oams.get("garden").memory["value"] == long


def test_renaming_moving_editing_and_deleting_are_followed(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    texts = {"Plain.md": "one thing", "Moved.md": "another thing", "Both.md": "a third thing that is long enough"}
    for name, text in {**texts, "Gone.md": "the last thing"}.items():
        (folder / name).write_text(text)
    sync()
    first = heads(memoranda)
    (folder / "sub").mkdir()
    (folder / "Plain.md").rename(folder / "Renamed.md")
    (folder / "Moved.md").rename(folder / "sub" / "Moved.md")
    (folder / "Both.md").unlink()
    (folder / "sub" / "Other.md").write_text("a third thing that is quite long enough")
    (folder / "Gone.md").unlink()
    assert did(sync()) == {"Gone.md": "forgotten", "Renamed.md": "revised", "sub/Other.md": "revised"}
    after = heads(memoranda)
    assert set(after) == {"Renamed", "Moved", "Other"}
    assert after["Renamed"]["supersedes"] == [first["Plain"]["id"]]
    assert after["Other"]["supersedes"] == [first["Both"]["id"]]
    assert after["Moved"] == first["Moved"]
    assert sync() == []


def test_what_is_forgotten_goes_to_the_trash_and_what_is_erased_is_gone(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    for name in ("Soft", "Hard", "Edited"):
        (folder / f"{name}.md").write_text(f"the {name} one")
    sync()
    found = heads(memoranda)
    memoranda.forget(found["Soft"]["id"])
    memoranda.forget(found["Hard"]["id"], hard=True)
    memoranda.forget(found["Edited"]["id"])
    (folder / "Edited.md").write_text("precious words")
    assert did(sync()) == {"Soft.md": "removed", "Hard.md": "removed", "Edited.md": "conflict"}
    assert bytes_in(folder) == {".trash/Soft.md": b"the Soft one", "Edited.conflict.md": b"precious words"}
    assert sync() == []


def test_a_memory_that_was_revised_twice_keeps_its_file(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    (folder / "Note.md").write_text("---\nown: 1\n---\none")
    sync()
    second = memoranda.revise(heads(memoranda)["Note"]["id"], "two").id
    memoranda.revise(second, "three")
    assert did(sync()) == {"Note.md": "written"}
    assert bytes_in(folder) == {"Note.md": b"---\nown: 1\n---\nthree"}
    assert sync() == []


def test_a_link_is_found_when_its_note_comes_later(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    (folder / "A.md").write_text("see [[B]] and [[A]]")
    sync()
    (folder / "B.md").write_text("back to [[A]]")
    assert did(sync()) == {"B.md": "remembered", "A.md": "revised"}
    found = heads(memoranda)
    (linked,) = found["A"]["relations"]
    assert linked == {"type": "links_to", "target": found["B"]["id"]}
    assert memoranda.get(found["B"]["relations"][0]["target"]).text == "see [[B]] and [[A]]"
    (folder / "B.md").write_text("back to [[A]], changed")
    assert did(sync()) == {"B.md": "revised"}
    until_then = {"valid_to": "2999-01-01T00:00:00Z"}
    memoranda.service.revise(memoranda.access, _revision(heads(memoranda)["A"]["id"], {"time": until_then}))
    (folder / "A.md").write_text("see nothing")
    assert did(sync()) == {"A.md": "revised"}
    assert heads(memoranda)["A"].get("relations", []) == []
    assert heads(memoranda)["A"]["time"]["valid_to"] == "2999-01-01T00:00:00Z"
    assert sync() == []


def test_a_second_note_that_says_the_same_is_left_until_it_says_something_else(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    (folder / "A.md").write_text("the same")
    (folder / "B.md").write_text("The same\n")
    assert did(sync()) == {"A.md": "remembered", "B.md": "twin"}
    assert sync() == []
    (folder / "A.md").unlink()
    assert did(sync()) == {"A.md": "forgotten", "B.md": "remembered"}
    assert set(heads(memoranda)) == {"B"}
    assert sync() == []


def test_a_lost_state_costs_nothing(memoranda: Memoranda, folder: Path, sync: Sync, tmp_path: Path) -> None:
    (folder / "A.md").write_text("see [[B]] #x")
    (folder / "B.md").write_text("plain")
    memoranda.remember("from an agent")
    sync()
    memoranda.revise(heads(memoranda)["None"]["id"], "from an agent again")
    sync()
    # A copy that was edited is a memory of its own, though it names the other.
    (folder / "Copy.md").write_text((folder / "from-an-agent.md").read_text().replace("again", "and from me"))
    sync()
    before, files = heads(memoranda), bytes_in(folder)
    for path in (tmp_path / "home" / "sync").iterdir():
        path.unlink()
    (folder / "from-an-agent.md").write_text((folder / "from-an-agent.md").read_text() + "edited\n")
    assert did(sync()) == {"from-an-agent.md": "conflict"}
    assert heads(memoranda) == before
    assert files.items() <= bytes_in(folder).items()
    assert sync() == []


def test_hostile_files_are_named_and_left_alone(memoranda: Memoranda, folder: Path, sync: Sync, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("a secret outside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "far.md").write_text("far outside")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "binary.md").write_bytes(b"\x00\x01\xff" * 100)
    (folder / "zero.md").write_bytes(b"text\0text")
    with (folder / "huge.md").open("wb") as file:
        file.truncate(50 * 1_048_576)
    (folder / "long.md").write_text("word " * 60_000)
    (folder / "line\nbreak.md").write_text("a name of two lines")
    (folder / os.fsdecode(b"\xff.md")).write_text("a name that is not UTF-8")
    os.mkfifo(folder / "pipe.md")
    (folder / "good.md").write_text("good")
    before = {path: path.lstat().st_size for path in folder.iterdir()}
    steps = sync()
    assert did(steps) == {
        **dict.fromkeys(("link.md", "binary.md", "zero.md", "huge.md", "long.md", "pipe.md"), "refused"),
        ascii("line\nbreak.md"): "refused",
        ascii("\udcff.md"): "refused",
        "good.md": "remembered",
    }
    assert all(step.detail for step in steps if step.did == "refused")
    assert set(heads(memoranda)) == {"good"}
    assert before.items() <= {path: path.lstat().st_size for path in folder.iterdir()}.items()
    assert did(sync()) == {name: "refused" for name, what in did(steps).items() if what == "refused"}


def test_a_folder_that_becomes_a_link_is_not_written_through(
    memoranda: Memoranda, folder: Path, sync: Sync, tmp_path: Path
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "N.md").write_text("inside")
    sync()
    (folder / "sub").rename(tmp_path / "away")
    (folder / "sub").symlink_to(tmp_path / "away")
    memoranda.revise(heads(memoranda)["N"]["id"], "changed")
    assert did(sync()) == {"sub/N.md": "refused"}
    assert (tmp_path / "away" / "N.md").read_text() == "inside"


def test_a_note_whose_properties_are_no_yaml_is_remembered_and_says_so(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    (folder / "N.md").write_text("---\ntitle: Re: you\ntags: [a]\n---\ntext #b\n")
    (step,) = sync()
    assert (step.did, step.detail) == ("remembered", "properties: not YAML at line 2; they are left as they are")
    memoranda.revise(heads(memoranda)["N"]["id"], "new text")
    sync()
    assert (folder / "N.md").read_text() == "---\ntitle: Re: you\ntags: [a]\n---\nnew text\n"


def test_permissions_of_a_file_stay_as_they_were(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    (folder / "N.md").write_text("one")
    (folder / "N.md").chmod(0o664)
    sync()
    memoranda.revise(heads(memoranda)["N"]["id"], "two")
    sync()
    assert (folder / "N.md").stat().st_mode & 0o777 == 0o664


def test_a_kind_cannot_be_changed_and_an_emptied_note_forgets_nothing(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    for name in ("A", "B"):
        (folder / f"{name}.md").write_text(f"text {name}")
    sync()
    (folder / "A.md").write_text("---\nkind: episodic\n---\ntext A")
    (folder / "B.md").write_text("")
    assert set(did(sync()).values()) == {"refused"}
    assert set(heads(memoranda)) == {"A", "B"}


def test_a_folder_of_notes_is_not_one_of_records(
    memoranda: Memoranda, folder: Path, sync: Sync, tmp_path: Path
) -> None:
    (folder / "N.md").write_text("one")
    sync()
    both = FolderSync(memoranda.service, memoranda.access, folder, states=tmp_path / "home" / "sync", form="records")
    with pytest.raises(InvalidInput, match="holds notes; say --form notes"):
        both.run()


def test_a_dry_run_says_it_all_and_does_nothing(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    make_vault(folder, count=26)
    memoranda.remember("from the store")
    before = bytes_in(folder)
    planned = sync(dry_run=True)
    assert bytes_in(folder) == before
    assert len(list(memoranda.export())) == 1
    assert sync() == planned


@pytest.mark.parametrize("times", [1, 2])
def test_a_memory_that_is_revised_while_the_store_is_looked_at_keeps_its_file(
    memoranda: Memoranda, folder: Path, sync: Sync, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    (folder / "Day.md").write_text("from a file")
    assert did(sync()) == {"Day.md": "remembered"}
    held, revisions = [heads(memoranda)["Day"]["id"]], [f"from an agent, {count}" for count in range(times)]
    export = memoranda.service.export

    def interrupted(*args: Any, **given: Any) -> Iterator[Record]:
        for record in export(*args, **given):
            yield record
            # The next page of the same look has its new version.
            while revisions:
                held.append(memoranda.revise(held[-1], revisions.pop(0)).id)

    (folder / "Night.md").write_text("another one")
    monkeypatch.setattr(memoranda.service, "export", interrupted)
    sync()
    monkeypatch.undo()
    sync()
    assert (folder / "Day.md").read_text() == f"from an agent, {times - 1}"
    assert sync() == []
    assert sorted(bytes_in(folder)) == ["Day.md", "Night.md"]
    assert len(heads(memoranda)) == 2


def test_watching_sees_folders_below_and_the_store(memoranda: Memoranda, folder: Path, tmp_path: Path) -> None:
    make_vault(folder, count=26)
    before = bytes_in(folder)
    stop = threading.Event()
    reports: list[SyncReport] = []

    def run() -> None:
        both = memoranda.service, memoranda.access
        FolderSync(*both, folder, states=tmp_path / "sync", project=None).watch(stop=stop, on_report=reports.append)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: len(reports) > 0)
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "Day.md").write_text("from a file")
        (tmp_path / "new").rename(folder / "v1.2")
        until(lambda: "Day" in heads(memoranda))
        memoranda.revise(heads(memoranda)["Day"]["id"], "from an agent")
        until(lambda: (folder / "v1.2" / "Day.md").read_text() == "from an agent")
    finally:
        stop.set()
        thread.join()
    assert before.items() <= bytes_in(folder).items()
