"""A release of a copy of this repository: what stands in its way, and what it leaves. Run by `make test-packages`."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.waiting import HANG_SECONDS

from memoranda.encoding.json_text import parse

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv" / "release" / "bin"
VERSION = "7.8.9"
FIXTURES = "tests/samples/stores"
CLIENT_CHANGES = "clients/typescript/CHANGELOG.md"
# Only a hang takes as long, also beside other work: several programs build and check all packages.
RELEASE_SECONDS = 5 * HANG_SECONDS


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
    client = folder / "clients" / "typescript" / "package.json"
    client.write_text(re.sub(r'"version": ".*"', f'"version": "{VERSION}"', client.read_text()))
    section = f"## {VERSION} - 2031-02-03\n\n- Everything is better.\n\n## "
    for changes in (folder / "CHANGELOG.md", folder / CLIENT_CHANGES):
        changes.write_text(changes.read_text().replace("## ", section, 1))
    for database in ("sqlite", "postgres"):
        (folder / FIXTURES / f"{VERSION}-{database}.tar.gz").touch()
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", "Nobody")
    git(folder, "config", "user.email", "nobody@example.org")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Ready")
    return folder


def release(folder: Path, *words: str, version: str = VERSION) -> subprocess.CompletedProcess[str]:
    given = ["--tools", str(TOOLS), "--node", str(ROOT / ".venv" / "typescript"), *words]
    command = [sys.executable, "tools/release.py", *([version] if version else []), *given]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=RELEASE_SECONDS)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


@pytest.fixture(scope="module")
def files(copy: Path) -> dict[str, bytes]:
    """What a dry run leaves."""
    ran = release(copy, "--dry-run")
    assert ran.returncode == 0, ran.stderr
    return files_of(copy)


def test_a_dry_run_builds_all_that_is_published_and_sets_no_tag(copy: Path, files: dict[str, bytes]) -> None:
    names = [
        f"memoranda-{VERSION}-py3-none-any.whl",
        f"memoranda-{VERSION}.Containerfile",
        f"memoranda-{VERSION}.cdx.json",
        f"memoranda-{VERSION}.changes.md",
        f"memoranda-{VERSION}.tar.gz",
        f"memoranda-client-{VERSION}.tgz",
        f"memoranda_client-{VERSION}-py3-none-any.whl",
        "memoranda_models-1.0.0-py3-none-any.whl",
    ]
    assert list(files) == ["SHA256SUMS", *names]
    sums = sorted(line.split("  ")[::-1] for line in files["SHA256SUMS"].decode().splitlines())
    assert sums == [[name, hashlib.sha256(files[name]).hexdigest()] for name in names]
    assert files[f"memoranda-{VERSION}.changes.md"] == b"- Everything is better.\n"
    assert git(copy, "tag", "--list") == ""


def test_links_of_the_packages_work_away_from_the_repository(files: dict[str, bytes]) -> None:
    with tarfile.open(fileobj=io.BytesIO(files[f"memoranda-client-{VERSION}.tgz"])) as archive:
        readme = archive.extractfile("package/README.md")
        assert readme is not None
        texts = [readme.read().decode()]
    with zipfile.ZipFile(io.BytesIO(files[f"memoranda-{VERSION}-py3-none-any.whl"])) as archive_of_wheel:
        (name,) = [name for name in archive_of_wheel.namelist() if name.endswith("/METADATA")]
        texts.append(archive_of_wheel.read(name).decode())
    for text in texts:
        targets = re.findall(r"\]\(([^)\s]+)\)", text)
        assert targets
        assert [target for target in targets if not target.startswith(("https://", "#"))] == []


def test_the_bill_of_materials_lists_what_is_locked(files: dict[str, bytes]) -> None:
    bill = parse(files[f"memoranda-{VERSION}.cdx.json"])
    about = bill["metadata"]["component"]
    assert (bill["bomFormat"], about["name"], about["version"]) == ("CycloneDX", "memoranda", VERSION)
    locked = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements-server.lock").read_text(), flags=re.MULTILINE)
    assert {(each["name"], each["version"]) for each in bill["components"]} == set(locked)


def test_a_release_has_the_files_of_its_dry_run_and_its_tag_and_is_made_once(
    copy: Path, files: dict[str, bytes]
) -> None:
    missing = release(copy, "--tests", "true", "--key", "no-key")
    assert (missing.returncode, "there is no key" in missing.stderr) == (1, True)
    key = copy.with_name("key")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True)
    made = release(copy, "--tests", "true", "--key", str(key))
    assert made.returncode == 0, made.stderr
    assert "not signed" not in made.stdout
    signed = files_of(copy)
    assert signed.pop("SHA256SUMS.sig").startswith(b"-----BEGIN SSH SIGNATURE-----")
    assert signed == files
    assert git(copy, "tag", "--list") == f"v{VERSION}\n"
    again = release(copy, "--tests", "true")
    assert again.returncode == 1
    assert f"the tag v{VERSION} exists already" in again.stderr
    git(copy, "tag", "--delete", f"v{VERSION}")


def test_what_stands_in_the_way_is_said(copy: Path) -> None:
    assert "make failed" in release(copy, "--tests", "make no-such-rule").stderr
    assert "is not a version" in release(copy, "--dry-run", version="7.8").stderr
    assert "__init__.py has another __version__ than 7.8.10" in release(copy, "--dry-run", version="7.8.10").stderr
    package = copy / "clients" / "typescript" / "package.json"
    whole = package.read_text()
    package.write_text(whole.replace(VERSION, "0.0.1"))
    assert "package.json has another version" in release(copy, "--dry-run", version="").stderr
    package.write_text(whole)
    (copy / "left").touch()
    assert "the tree is not clean (?? left …): commit first" in release(copy, "--dry-run").stderr
    (copy / "left").unlink()
    fixture = copy / FIXTURES / f"{VERSION}-postgres.tar.gz"
    git(copy, "rm", "--quiet", str(fixture))
    git(copy, "commit", "--quiet", "--message", "Not ready")
    assert "run: python -m tests.upgrades.make_fixture" in release(copy, "--dry-run").stderr
    git(copy, "reset", "--quiet", "--hard", "HEAD~1")
    for name in ("CHANGELOG.md", CLIENT_CHANGES):
        changes = (copy / name).read_text()
        (copy / name).write_text(changes.replace(f"## {VERSION} - 2031-02-03", "## Soon"))
        git(copy, "commit", "--quiet", "--all", "--message", "Not ready")
        assert f"no release: {name} has no section" in release(copy, "--dry-run").stderr
        git(copy, "reset", "--quiet", "--hard", "HEAD~1")
    assert git(copy, "tag", "--list") == ""
