"""A folder that others may write to, too: whatever they leave there, nothing outside it is written or forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Command

from memoranda.encoding.json_text import dump, parse

MARKER = ".memoranda-sync.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    return made


def forge(folder: Path, name: str, record_id: str, content_hash: str = "sha256:other") -> None:
    """What a peer of the folder writes: a state in which a file of this name holds that memory."""
    forged = {"id": record_id, "file": "0" * 64, "record": content_hash}
    known = {**parse((folder / MARKER).read_bytes()), "files": {name: forged}}
    del known["folder"]
    (folder / MARKER).write_bytes(dump(known))


@pytest.mark.parametrize("name", ["../outside.md", "{tmp}/outside.md", "../.ssh/authorized_keys2", "."])
def test_names_in_the_folder_never_lead_out_of_it(run: Command, folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / ".ssh").mkdir()
    assert run("remember", "one").code == 0
    assert run("sync", folder).code == 0
    record_id = _only_id(run)
    before = _outside(tmp_path)
    forge(folder, name.format(tmp=tmp_path), record_id)
    (folder / "one.md").unlink()
    run("sync", folder)
    run("sync", folder)
    assert _outside(tmp_path) == before
    assert run("get", record_id).code == 0


def test_a_peer_cannot_have_forgotten_what_never_was_in_the_folder(run: Command, folder: Path) -> None:
    assert run("remember", "one").code == 0
    assert run("sync", folder).code == 0
    made = run("remember", "two", "--json").json["id"]
    forge(folder, "two.md", made, _hash_of(run, made))
    assert run("sync", folder).code == 0
    assert run("get", made, "--json").json["record"]["lifecycle"]["status"] == "active"
    assert (folder / "two.md").is_file()


def test_an_emptied_or_new_folder_under_the_same_name_forgets_nothing(run: Command, folder: Path) -> None:
    """A drive that is not mounted today, or a folder cloned anew."""
    made = run("remember", "one", "--json").json["id"]
    assert run("sync", folder).code == 0
    for path in folder.iterdir():
        path.unlink()
    assert run("sync", folder).code == 0
    assert run("get", made, "--json").json["record"]["lifecycle"]["status"] == "active"
    assert (folder / "one.md").is_file()


def test_a_link_planted_under_a_name_of_ours_is_not_written_through(run: Command, folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    assert run("remember", "one").code == 0
    for planted in (MARKER, "one.md", "one.conflict.md"):
        (folder / planted).symlink_to(victim)
    run("sync", folder)
    assert victim.read_text() == "mine"


def test_what_both_sides_agreed_on_is_kept_at_home_for_its_owner_alone(run: Command, folder: Path, home: Path) -> None:
    assert run("remember", "one").code == 0
    assert run("sync", folder).code == 0
    (kept,) = (home / "sync").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert set(parse(kept.read_bytes())["files"]) == {"one.md"}
    assert "files" not in parse((folder / MARKER).read_bytes())
    (folder / "one.md").unlink()
    assert "forgotten" in run("sync", folder).out


def _only_id(run: Command) -> str:
    found: str = run("recall", "one", "--json").json["results"][0]["record"]["id"]
    return found


def _hash_of(run: Command, record_id: str) -> str:
    found: str = run("get", record_id, "--json").json["record"]["integrity"]["content_hash"]
    return found


def _outside(tmp_path: Path) -> set[Path]:
    return {path for path in tmp_path.rglob("*") if "home" not in path.parts and "notes" not in path.parts}
