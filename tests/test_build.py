"""The build that programs, stores, backups and exports name."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from memoranda import Memoranda, __version__, build
from memoranda.backup import back_up
from memoranda.bindings.files import archive
from memoranda.bindings.files.oams_bundle import FolderBundleWriter
from memoranda.settings import Settings
from memoranda.storage.engine.migrations import newest_number


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_of_a_checkout_is_read_without_git(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert build.read_commit(first) == ""
    first.mkdir()
    git(first, "init", "-q")
    git(first, "commit", "-q", "--allow-empty", "-m", "Begin")
    commit = git(first, "rev-parse", "HEAD")
    assert build.read_commit(first) == commit
    git(first, "worktree", "add", "-q", str(second))
    assert build.read_commit(second) == commit
    git(first, "pack-refs", "--all")
    assert build.read_commit(first) == build.read_commit(second) == commit
    git(first, "checkout", "-q", "--detach")
    assert build.read_commit(first) == commit


def test_a_package_names_the_commit_that_it_was_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "build.txt").write_text("0123456789abcdef\n")
    monkeypatch.setattr(build, "__file__", str(tmp_path / "build.py"))
    build.build_id.cache_clear()
    assert build.version_and_build() == f"{__version__} (build 0123456789)"
    (tmp_path / "build.txt").unlink()
    build.build_id.cache_clear()
    assert build.build_id() == build.UNKNOWN
    build.build_id.cache_clear()


@pytest.mark.sqlite
def test_stores_backups_and_exports_name_version_and_build(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Memoranda.open(home).close()
    with FolderBundleWriter(tmp_path / "bundle", exported_at=0):
        pass
    bundle = json.loads((tmp_path / "bundle" / "manifest.json").read_bytes())
    assert bundle["memoranda"] == build.version_and_build()
    with closing(apsw.Connection(str(home / "memoranda.db"))) as raw:
        rows = raw.execute("SELECT value FROM meta WHERE name = 'version'").fetchall()
    assert rows == [(build.version_and_build().encode(),)]
    back_up(Settings(home=home), tmp_path / "store.backup")
    with (tmp_path / "store.backup").open("rb") as file:
        manifest = archive.read_archive(file, lambda _: None)
    assert (manifest["memoranda"], manifest["build"]) == (__version__, build.build_id())
    assert manifest["layout"] == newest_number("sqlite")
