"""Make a release: python tools/release.py VERSION. It checks everything first, and uploads nothing.

It writes wheel, sdist, the bill of materials (CycloneDX) and their checksums to `dist/`, and tags the commit. Then it
prints the commands that publish them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
# The packages of the container image, which include those of the library.
LOCK = "requirements-server.lock"


class Refused(Exception):
    """The reason that prevents a release."""


def main(arguments: list[str]) -> int:
    """Make a release, or print the reason that prevents it."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true", help="build and check, but do not test and set no tag")
    parser.add_argument("--tests", default="make test test-packages", help="the command that must succeed first")
    parser.add_argument(
        "--tools", type=Path, default=Path(".venv/release/bin"), help="the folder of twine and cyclonedx-py"
    )
    options = parser.parse_args(arguments)
    try:
        check(options.version)
        if not options.dry_run:
            _run(*shlex.split(options.tests))
            check_clean("the tests left files")
        files = build(options.version, options.tools)
        if not options.dry_run:
            _run("git", "tag", "--annotate", f"v{options.version}", "--message", f"Memoranda {options.version}")
    except Refused as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    for path in files:
        print(path)
    if not options.dry_run:
        print(f"To publish: git push origin v{options.version}; twine upload dist/*.whl dist/*.tar.gz")
    return 0


def check(version: str) -> None:
    """Raise Refused unless the commit can be released under the version."""
    if VERSION.fullmatch(version) is None:
        raise Refused(f"{version!r} is not a version; versions have the form 1.2.3 or 1.2.3rc1")
    check_clean("commit first")
    source = Path("src/memoranda/__init__.py").read_text(encoding="utf-8")
    if f'__version__ = "{version}"' not in source:
        raise Refused(f"src/memoranda/__init__.py has another __version__ than {version}")
    changes = re.search(
        rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)",
        Path("CHANGELOG.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    if changes is None or not changes[1].strip():
        raise Refused(f"CHANGELOG.md has no section '## {version} - YEAR-MONTH-DAY' with changes")
    if _output("git", "tag", "--list", f"v{version}"):
        raise Refused(f"the tag v{version} exists already")


def check_clean(advice: str) -> None:
    """Raise Refused if the working tree has changes."""
    if changed := _output("git", "status", "--porcelain"):
        raise Refused(f"the tree is not clean ({changed.splitlines()[0].strip()} …): {advice}")


def build(version: str, tools: Path) -> list[Path]:
    """Build wheel, sdist, bill of materials and checksums, reproducibly."""
    moment = {"SOURCE_DATE_EPOCH": _output("git", "log", "-1", "--format=%ct")}
    folder = Path("dist")
    for old in folder.glob("*"):
        old.unlink()
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), more=moment)
    packages = sorted(folder.glob("memoranda-*"))
    if [path.name for path in packages] != [f"memoranda-{version}-py3-none-any.whl", f"memoranda-{version}.tar.gz"]:
        raise Refused(f"the build wrote unexpected files: {', '.join(path.name for path in packages)}")
    _run(str(tools / "twine"), "check", "--strict", *map(str, packages))
    bill = folder / f"memoranda-{version}.cdx.json"
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "pyproject.toml"
        text = Path("pyproject.toml").read_text(encoding="utf-8")
        project.write_text(text.replace('dynamic = ["version"]', f'version = "{version}"'), encoding="utf-8")
        about = ["--pyproject", str(project), "--mc-type", "application", "--output-reproducible"]
        _run(str(tools / "cyclonedx-py"), "requirements", LOCK, *about, "-o", str(bill), more=moment)
    files = [*packages, bill]
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))
    return [*files, sums]


def _run(*command: str, more: dict[str, str] | None = None) -> None:
    print(f"+ {shlex.join(command)}", file=sys.stderr)
    try:
        subprocess.run(command, check=True, env={**os.environ, **(more or {})})  # noqa: S603 -- our own commands
    except (OSError, subprocess.CalledProcessError) as error:
        raise Refused(f"{command[0]} failed: {error}") from None


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
