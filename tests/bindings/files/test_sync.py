"""A folder and the store, brought together from either side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from memoranda.app import Memoranda
from memoranda.bindings.files.sync import FolderSync, SyncReport
from memoranda.bindings.files.sync_pass import MARKER_FILE, SyncStep
from memoranda.errors import InvalidInput
from memoranda.standards.ump import markdown, signature

Sync = Callable[..., list[SyncStep]]


# More than a record holds.
LONG = "The garden needs water. " * 12_000


@pytest.fixture
def states(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sync"


@pytest.fixture
def sync(memoranda: Memoranda, folder: Path, states: Path) -> Sync:
    def run(**options: Any) -> list[SyncStep]:
        project = options.pop("project", None)
        both = FolderSync(memoranda.service, memoranda.access, folder, states=states, project=project, form="records")
        return both.run(**options).steps

    return run


def did(steps: list[SyncStep]) -> list[tuple[str, str]]:
    return [(step.name, step.did) for step in steps]


def record_in(path: Path) -> dict[str, Any]:
    return markdown.parse(path.read_text())


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != MARKER_FILE)


def test_memories_become_files_and_a_second_run_does_nothing(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    memoranda.remember("Use pnpm, never npm!", project="p")
    memoranda.remember("kept here", exportable=False)
    assert did(sync()) == [("use-pnpm-never-npm.ump.md", "written")]
    assert signature.verify(record_in(folder / "use-pnpm-never-npm.ump.md"))
    assert sync() == []


def test_an_edited_text_becomes_a_new_version(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    first = memoranda.remember("use npm", structured={"a": 1}).id
    sync()
    edit(folder / "use-npm.ump.md", "use npm", "use pnpm")
    assert did(sync()) == [("use-npm.ump.md", "revised")]
    record = record_in(folder / "use-npm.ump.md")
    assert record["supersedes"] == [first]
    assert record == memoranda.get(record["id"]).record
    assert record["body"] == {"text": "use pnpm", "structured": {"a": 1}}
    assert sync() == []


def test_edited_lifecycle_relations_and_time_become_a_new_version(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    memoranda.remember("a fact", relations=[{"type": "about", "target": "x"}])
    sync()
    path = folder / "a-fact.ump.md"
    edit(path, '"target": "x"', '"target": "y"')
    edit(path, '"confidence": 0.6', '"confidence": 0.6, "salience": 1')
    edit(path, '"valid_to": null', '"valid_to": "2999-01-01T00:00:00Z"')
    assert did(sync()) == [("a-fact.ump.md", "revised")]
    edit(path, "a fact", "a better fact")
    assert did(sync()) == [("a-fact.ump.md", "revised")]
    record = record_in(path)
    assert record["relations"] == [{"type": "about", "target": "y"}]
    assert record["lifecycle"]["salience"] == 1
    assert record["time"]["valid_to"] == "2999-01-01T00:00:00Z"


def test_a_front_matter_deleted_by_hand_leaves_an_edit_of_the_text(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    memoranda.remember("a fact", kind="procedural", project="p")
    sync()
    (folder / "a-fact.ump.md").write_text("a better fact\n")
    assert did(sync()) == [("a-fact.ump.md", "revised")]
    record = record_in(folder / "a-fact.ump.md")
    assert (record["kind"], record["scope"]["project"]) == ("procedural", "p")


def test_what_no_revision_can_change_is_refused_and_the_file_left(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    memoranda.remember("a fact")
    sync()
    edit(folder / "a-fact.ump.md", '"visibility": "private"', '"visibility": "public"')
    written = (folder / "a-fact.ump.md").read_text()
    (step,) = sync()
    assert (step.did, step.detail) == (
        "refused",
        "scope cannot be changed by editing; delete this file and write a new one",
    )
    assert (folder / "a-fact.ump.md").read_text() == written


def test_a_file_that_shows_only_the_beginning_of_a_memory_is_not_made_the_whole_of_it(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    memoranda.oams.store("garden", LONG)
    ((name, _),) = did(sync())
    edit(folder / name, "The garden needs water.", "The garden has water.")
    (step,) = sync()
    assert (step.did, "body.text: a record holds at most 262144 bytes" in step.detail) == ("refused", True)
    assert memoranda.oams.get("garden").memory["value"] == LONG


def test_what_ends_still_ends_when_its_file_is_edited(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    memoranda.remember("the sale goes on", valid_to="2999-01-01T00:00:00Z")
    memoranda.remember("the sale went on", valid_from="2019-01-01T00:00:00Z", valid_to="2020-01-01T00:00:00Z")
    sync()
    for name in files_in(folder):
        edit(folder / name, "sale", "fair")
    assert {step.did for step in sync()} <= {"revised"}
    ends = {record["time"].get("valid_to") for record in memoranda.ump.export(history=False)}
    assert ends == {"2999-01-01T00:00:00Z", "2020-01-01T00:00:00Z"}


def test_a_file_saved_again_without_a_change_is_no_news(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    memoranda.remember("a fact\nof two lines")
    sync()
    path = folder / "a-fact.ump.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert sync() == []
    assert b"\r\n" in path.read_bytes()
    assert sync() == []


def test_a_plain_note_is_remembered_and_gets_its_front_matter(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    (folder / "idea.ump.md").write_text("\n# An idea\n\nWith two paragraphs.\n\n")
    assert did(sync()) == [("idea.ump.md", "remembered")]
    record = record_in(folder / "idea.ump.md")
    assert record["body"]["text"] == "# An idea\n\nWith two paragraphs."
    assert (record["kind"], record["provenance"]["method"]) == ("semantic", "file")
    assert memoranda.get(record["id"]).record == record
    assert sync() == []


def test_a_partial_front_matter_says_kind_and_project(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    (folder / "how.ump.md").write_text("---\nkind: procedural\nproject: p\n---\nDo it so.\n")
    assert did(sync()) == [("how.ump.md", "remembered")]
    (found,) = memoranda.recall("do", project="p", kind="procedural")
    assert found.record["body"]["text"] == "Do it so."


def test_a_deleted_file_forgets_the_memory(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    name = memoranda.remember("a fact").id
    sync()
    (folder / "a-fact.ump.md").unlink()
    assert did(sync()) == [("a-fact.ump.md", "forgotten")]
    assert memoranda.get(name).record["lifecycle"]["status"] == "tombstoned"
    assert sync() == []


def test_a_change_in_the_store_rewrites_or_removes_the_file(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    one, two = memoranda.remember("one").id, memoranda.remember("two").id
    sync()
    memoranda.revise(one, "one and a half")
    memoranda.forget(two)
    assert did(sync()) == [("one.ump.md", "written"), ("two.ump.md", "removed")]
    assert record_in(folder / "one.ump.md")["body"]["text"] == "one and a half"
    assert files_in(folder) == ["one.ump.md"]
    assert sync() == []


def test_a_memory_that_was_revised_twice_keeps_its_file(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    first = memoranda.remember("one").id
    sync()
    (folder / "one.ump.md").rename(folder / "mine.ump.md")
    sync()
    memoranda.revise(memoranda.revise(first, "two").id, "three")
    assert did(sync()) == [("mine.ump.md", "written")]
    assert files_in(folder) == ["mine.ump.md"]
    assert sync() == []


def test_when_both_changed_the_store_stays_and_the_text_is_kept_beside(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    name = memoranda.remember("one").id
    sync()
    for count, beside in enumerate(["one.conflict.ump.md", "one.conflict-2.ump.md"], start=1):
        edit(folder / "one.ump.md", "\n\none", f"\n\none by hand {count}")
        mine = (folder / "one.ump.md").read_bytes()
        name = memoranda.revise(name, f"one by an agent {count}").id
        (step,) = sync()
        assert (step.did, step.name) == ("conflict", "one.ump.md")
        assert beside in step.detail
        assert (folder / beside).read_bytes() == mine
        assert record_in(folder / "one.ump.md") == memoranda.get(name).record
        assert sync() == []
        edit(folder / "one.ump.md", f"one by an agent {count}", "one")
        sync()
        name = record_in(folder / "one.ump.md")["id"]


def test_the_same_edit_on_both_sides_is_no_conflict(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    name = memoranda.remember("one").id
    sync()
    edit(folder / "one.ump.md", "\n\none", "\n\ntwo")
    memoranda.revise(name, "two")
    assert did(sync()) == [("one.ump.md", "written")]
    assert files_in(folder) == ["one.ump.md"]
    assert sync() == []


def test_a_file_edited_after_its_memory_was_forgotten_keeps_its_text_beside(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    name = memoranda.remember("one").id
    sync()
    edit(folder / "one.ump.md", "\n\none", "\n\nprecious words")
    memoranda.forget(name)
    assert [step.did for step in sync()] == ["conflict"]
    assert files_in(folder) == ["one.conflict.ump.md"]
    assert "precious words" in (folder / "one.conflict.ump.md").read_text()
    assert sync() == []


def test_a_file_deleted_while_its_memory_changed_comes_back(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    name = memoranda.remember("one").id
    sync()
    (folder / "one.ump.md").unlink()
    memoranda.revise(name, "two")
    assert did(sync()) == [("one.ump.md", "written")]
    assert record_in(folder / "one.ump.md")["body"]["text"] == "two"


@pytest.mark.parametrize(
    "content",
    [b"---\nno end", b"---\n[]\n---\ntext", b"\xff\xfe", b"", b"---\n{\n---\ntext", b"---\nkind: odd\n---\ntext\n"],
)
def test_a_malformed_file_is_reported_and_the_rest_goes_on(
    memoranda: Memoranda, folder: Path, sync: Sync, content: bytes
) -> None:
    memoranda.remember("one")
    (folder / "bad.ump.md").write_bytes(content)
    assert dict(did(sync())) == {"bad.ump.md": "refused", "one.ump.md": "written"}
    assert (folder / "bad.ump.md").read_bytes() == content


def test_a_file_that_becomes_malformed_is_not_a_deleted_one(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    name = memoranda.remember("one").id
    sync()
    (folder / "one.ump.md").write_text("---\nhalf a front matter")
    assert did(sync()) == [("one.ump.md", "refused")]
    assert memoranda.get(name).record["lifecycle"]["status"] == "active"


def test_links_are_neither_read_nor_written_through(
    memoranda: Memoranda, folder: Path, sync: Sync, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret outside")
    (folder / "link.ump.md").symlink_to(secret)
    memoranda.remember("link")
    steps = sync()
    assert ("link.ump.md", "refused") in did(steps)
    assert secret.read_text() == "a secret outside"
    assert memoranda.recall("secret outside") == []
    assert [each.record["body"]["text"] for each in memoranda.recall("link")] == ["link"]
    written = next(step.name for step in steps if step.did == "written")
    (folder / written).unlink()
    (folder / written).symlink_to(secret)
    assert ("refused") in [step.did for step in sync() if step.name == written]
    assert secret.read_text() == "a secret outside"


def test_a_renamed_file_is_followed(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    memoranda.remember("one")
    sync()
    (folder / "one.ump.md").rename(folder / "better name.ump.md")
    assert sync() == []
    edit(folder / "better name.ump.md", "\n\none", "\n\ntwo")
    assert did(sync()) == [("better name.ump.md", "revised")]


def test_an_edited_copy_is_a_new_memory_and_a_plain_copy_a_twin(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    memoranda.remember("one")
    sync()
    text = (folder / "one.ump.md").read_text()
    (folder / "twin.ump.md").write_text(text)
    (folder / "two.ump.md").write_text(text.replace("\n\none", "\n\ntwo"))
    assert did(sync()) == [("twin.ump.md", "twin"), ("two.ump.md", "remembered")]
    assert record_in(folder / "two.ump.md")["id"] != record_in(folder / "one.ump.md")["id"]
    assert sync() == []
    (folder / "twin.ump.md").unlink()
    assert sync() == []
    assert len(list(memoranda.export())) == 2


@pytest.mark.parametrize("lost", ["marker", "state"])
def test_a_lost_state_or_marker_costs_nothing(
    memoranda: Memoranda, folder: Path, sync: Sync, states: Path, lost: str
) -> None:
    memoranda.remember("one")
    memoranda.remember("two")
    sync()
    for path in [folder / MARKER_FILE] if lost == "marker" else states.iterdir():
        path.unlink()
    edit(folder / "two.ump.md", "\n\ntwo", "\n\nthree")
    assert did(sync()) == [("two.ump.md", "revised")]
    assert sync() == []
    assert files_in(folder) == ["one.ump.md", "two.ump.md"]


def test_a_file_of_someone_else_is_written_by_us_before_its_absence_forgets(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    made = memoranda.remember("one").id
    theirs = "\n" + markdown.render(memoranda.get(made).record) + "\n\n"
    (folder / "theirs.ump.md").write_text(theirs.lstrip("\n"))
    assert did(sync()) == [("theirs.ump.md", "written")]
    (folder / "theirs.ump.md").unlink()
    assert did(sync()) == [("theirs.ump.md", "forgotten")]


def test_a_store_that_does_not_know_the_files_takes_them_in(
    memoranda: Memoranda, folder: Path, sync: Sync, tmp_path: Path
) -> None:
    memoranda.remember("one")
    sync()
    with Memoranda.open(tmp_path / "fresh", owner=memoranda.owner) as fresh:
        steps = (
            FolderSync(fresh.service, fresh.access, folder, states=tmp_path / "fresh" / "sync", form="records")
            .run()
            .steps
        )
        assert did(steps) == [("one.ump.md", "remembered")]
        assert list(fresh.export()) == list(memoranda.export())


def test_a_folder_of_one_project_takes_only_that_project(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    memoranda.remember("mine", project="p")
    memoranda.remember("other", project="q")
    (folder / "new.ump.md").write_text("new")
    (folder / "wrong.ump.md").write_text("---\nproject: q\n---\nwrong\n")
    assert dict(did(sync(project="p"))) == {
        "mine.ump.md": "written",
        "new.ump.md": "remembered",
        "wrong.ump.md": "refused",
    }
    assert record_in(folder / "new.ump.md")["scope"]["project"] == "p"
    with pytest.raises(InvalidInput, match="synchronised with owner"):
        sync()


def test_what_is_redacted_stays_out_of_the_folder_and_in_the_store(
    memoranda: Memoranda, folder: Path, sync: Sync
) -> None:
    memoranda.remember("one", structured={"token": "s3cret"}, redact=["body.structured.token"])
    sync()
    assert "s3cret" not in (folder / "one.ump.md").read_text()
    edit(folder / "one.ump.md", "\n\none", "\n\ntwo")
    assert [step.did for step in sync()] == ["revised"]
    record = memoranda.get(record_in(folder / "one.ump.md")["id"]).record
    assert record["body"] == {"text": "two", "structured": {"token": "s3cret"}}
    assert "s3cret" not in (folder / "one.ump.md").read_text()


def test_a_dry_run_says_it_all_and_does_nothing(memoranda: Memoranda, folder: Path, sync: Sync) -> None:
    memoranda.remember("one")
    (folder / "new.ump.md").write_text("new")
    planned = did(sync(dry_run=True))
    assert planned == [("new.ump.md", "remembered"), ("one.ump.md", "written")]
    assert files_in(folder) == ["new.ump.md"]
    assert len(list(memoranda.export())) == 1
    assert did(sync()) == planned


def test_an_unreadable_state_file_stops_before_anything_is_lost(memoranda: Memoranda, sync: Sync, states: Path) -> None:
    memoranda.remember("one")
    sync()
    (state,) = states.iterdir()
    state.write_text("{}")
    with pytest.raises(InvalidInput, match="delete it to start over"):
        sync()


def test_watching_sees_changes_of_files_and_of_the_store(memoranda: Memoranda, folder: Path, states: Path) -> None:
    stop = threading.Event()
    reports: list[SyncReport] = []

    def run() -> None:
        both = memoranda.service, memoranda.access
        FolderSync(*both, folder, states=states, project=None, form="records").watch(
            stop=stop, on_report=reports.append
        )

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: len(reports) > 0)
        memoranda.remember("from the store")
        until(lambda: (folder / "from-the-store.ump.md").exists())
        (folder / "note.ump.md").write_text("from a file")
        until(lambda: any(step.did == "remembered" for report in reports for step in report.steps))
    finally:
        stop.set()
        thread.join()
    assert {record["body"]["text"] for record in memoranda.export()} == {"from the store", "from a file"}
