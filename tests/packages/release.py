"""A release of a copy of this repository: what stands in its way, and what it leaves. Run by `make test-packages`."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import HANG_SECONDS

from memoranda.encoding.json_text import parse

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv" / "release" / "bin"
VERSION = "7.8.9"


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
    ran = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=HANG_SECONDS
    )
    return ran.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This tree as it is now, in a repository of its own, with a version that is ready to go."""
    folder = tmp_path_factory.mktemp("copy") / "memoranda"
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard")
    for name in filter(lambda name: (ROOT / name).is_file(), listed.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    source = folder / "src" / "memoranda" / "__init__.py"
    source.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{VERSION}"', source.read_text()))
    changes = folder / "CHANGELOG.md"
    section = f"## {VERSION} - 2031-02-03\n\n- Everything is better.\n\n## Unreleased"
    changes.write_text(changes.read_text().replace("## Unreleased", section, 1))
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", "Nobody")
    git(folder, "config", "user.email", "nobody@example.org")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Ready")
    return folder


def release(folder: Path, *words: str, version: str = VERSION) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "release.py"), version, "--tools", str(TOOLS), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


def test_a_dry_run_builds_the_same_files_each_time_and_sets_no_tag(copy: Path) -> None:
    assert release(copy, "--dry-run").returncode == 0
    found = files_of(copy)
    names = [f"memoranda-{VERSION}-py3-none-any.whl", f"memoranda-{VERSION}.cdx.json", f"memoranda-{VERSION}.tar.gz"]
    assert list(found) == ["SHA256SUMS", *names]
    sums = sorted(line.split("  ")[::-1] for line in found["SHA256SUMS"].decode().splitlines())
    assert sums == [[name, hashlib.sha256(found[name]).hexdigest()] for name in names]
    assert git(copy, "tag", "--list") == ""
    assert release(copy, "--dry-run").returncode == 0
    assert files_of(copy) == found


def test_the_bill_of_materials_lists_what_is_locked(copy: Path) -> None:
    assert release(copy, "--dry-run").returncode == 0
    bill = parse((copy / "dist" / f"memoranda-{VERSION}.cdx.json").read_bytes())
    about = bill["metadata"]["component"]
    assert (bill["bomFormat"], about["name"], about["version"]) == ("CycloneDX", "memoranda", VERSION)
    locked = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements-server.lock").read_text(), flags=re.MULTILINE)
    assert {(each["name"], each["version"]) for each in bill["components"]} == set(locked)


def test_a_release_has_its_tag_and_is_made_once(copy: Path) -> None:
    assert release(copy, "--tests", "true").returncode == 0
    assert git(copy, "tag", "--list") == f"v{VERSION}\n"
    again = release(copy, "--tests", "true")
    assert again.returncode == 1
    assert f"the tag v{VERSION} exists already" in again.stderr
    git(copy, "tag", "--delete", f"v{VERSION}")


def test_what_stands_in_the_way_is_said(copy: Path) -> None:
    assert "make failed" in release(copy, "--tests", "make no-such-rule").stderr
    assert "is not a version" in release(copy, "--dry-run", version="7.8").stderr
    assert "__init__.py has another __version__ than 7.8.10" in release(copy, "--dry-run", version="7.8.10").stderr
    (copy / "left").touch()
    assert "the tree is not clean (?? left …): commit first" in release(copy, "--dry-run").stderr
    (copy / "left").unlink()
    changes = (copy / "CHANGELOG.md").read_text()
    (copy / "CHANGELOG.md").write_text(changes.replace(f"## {VERSION} - 2031-02-03", "## Soon"))
    git(copy, "commit", "--quiet", "--all", "--message", "Not ready")
    assert "CHANGELOG.md has no section" in release(copy, "--dry-run").stderr
    git(copy, "reset", "--quiet", "--hard", "HEAD~1")
    assert git(copy, "tag", "--list") == ""
