"""Make a release: python tools/release.py VERSION. It checks everything first, and uploads nothing.

It writes to `dist/`: wheel and sdist, the wheels of the client and of the models, the npm tarball, the container file,
the bill of materials (CycloneDX), the section of the changelog, and the checksums of all of them. It tags the commit
and prints the commands that publish them. A dry run without a version takes the one of the source, finished or not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
CHANGES = Path("CHANGELOG.md")
CLIENT_CHANGES = Path("clients/typescript/CHANGELOG.md")
# Stores that every released version made; later versions are tested with them.
FIXTURES = Path("tests/samples/stores")
# The packages of the container image, which include those of the library.
LOCK = "requirements-server.lock"


class Refused(Exception):
    """The reason that prevents a release."""


def main(arguments: list[str]) -> int:
    """Make a release, or print the reason that prevents it."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("version", nargs="?", default="")
    parser.add_argument("--dry-run", action="store_true", help="build and check, but do not test and set no tag")
    parser.add_argument("--tests", default="make test test-packages", help="the command that must succeed first")
    parser.add_argument(
        "--tools",
        type=Path,
        default=Path(".venv/release/bin"),
        help="the folder of twine, check-wheel-contents and cyclonedx-py",
    )
    parser.add_argument(
        "--node", type=Path, default=Path(".venv/typescript"), help="the folder whose node_modules has TypeScript"
    )
    parser.add_argument(
        "--key", type=Path, help="the SSH key of a maintainer, which signs the checksums (tools/sign.py)"
    )
    options = parser.parse_args(arguments)
    is_draft = options.dry_run and not options.version
    try:
        version = source_version() if is_draft else options.version
        changes = check_draft(version) if is_draft else check(version)
        if not options.dry_run:
            _run(*shlex.split(options.tests))
            check_clean("the tests left files")
        if options.key is not None and not options.key.exists():
            raise Refused(f"there is no key {options.key}")
        files = build(version, changes, options.tools, options.node)
        if options.key is not None:
            _run(sys.executable, "tools/sign.py", str(options.key))
        if not options.dry_run:
            _run("git", "tag", "--annotate", f"v{options.version}", "--message", f"Memoranda {options.version}")
    except Refused as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    for path in files:
        print(path)
    if not options.dry_run:
        if options.key is None:
            print("The checksums are not signed. Before you publish: python tools/sign.py KEY")
        print(
            f"To publish: git push origin v{version}; twine upload dist/*.whl dist/memoranda-*.tar.gz; "
            'npm publish dist/*.tgz; podman build --format docker --build-arg COMMIT="$(git rev-parse HEAD)" '
            f"-t memoranda:{version} ."
        )
    return 0


def source_version() -> str:
    """Return the version in the source."""
    found = re.search(r'^__version__ = "(.*)"$', Path("src/memoranda/__init__.py").read_text(), flags=re.MULTILINE)
    if found is None:
        raise Refused("src/memoranda/__init__.py has no __version__")
    return found[1]


def check(version: str) -> str:
    """Return the section of the changelog. Raises Refused unless the commit can be released under the version."""
    if VERSION.fullmatch(version) is None:
        raise Refused(f"{version!r} is not a version; versions have the form 1.2.3 or 1.2.3rc1")
    check_clean("commit first")
    if source_version() != version:
        raise Refused(f"src/memoranda/__init__.py has another __version__ than {version}")
    check_npm_version(version)
    heading = rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d"
    for path in (CHANGES, CLIENT_CHANGES):
        if not changes_under(heading, path):
            raise Refused(f"{path} has no section '## {version} - YEAR-MONTH-DAY' with changes")
    for database in ("sqlite", "postgres"):
        if not (FIXTURES / f"{version}-{database}.tar.gz").exists():
            raise Refused(f"{FIXTURES} has no store of {version}; run: python -m tests.upgrades.make_fixture")
    if _output("git", "tag", "--list", f"v{version}"):
        raise Refused(f"the tag v{version} exists already")
    return changes_under(heading)


def check_draft(version: str) -> str:
    """Return the changes since the last release. Raises Refused if versions differ."""
    check_npm_version(version)
    return changes_under("Unreleased") or changes_under(rf"{re.escape(version)} .*") or "No changes yet.\n"


def check_npm_version(version: str) -> None:
    """Raise Refused if the TypeScript client has another version."""
    path = Path("clients/typescript/package.json")
    if json.loads(path.read_text(encoding="utf-8"))["version"] != version:
        raise Refused(f"{path} has another version than {version}")


def changes_under(heading: str, path: Path = CHANGES) -> str:
    """Return the changes below a heading of a changelog, a regular expression; empty without them."""
    text = path.read_text(encoding="utf-8")
    changes = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return changes[1].strip() + "\n" if changes is not None and changes[1].strip() else ""


def check_clean(advice: str) -> None:
    """Raise Refused if the working tree has changes."""
    if changed := _output("git", "status", "--porcelain"):
        raise Refused(f"the tree is not clean ({changed.splitlines()[0].strip()} …): {advice}")


def build(version: str, changes: str, tools: Path, node: Path) -> list[Path]:
    """Build and check all files of the release, reproducibly."""
    moment = {"SOURCE_DATE_EPOCH": _output("git", "log", "-1", "--format=%ct")}
    folder = Path("dist")
    for old in folder.glob("*"):
        old.unlink()
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), more=moment)
    packages = sorted(folder.glob("memoranda-*"))
    if [path.name for path in packages] != [f"memoranda-{version}-py3-none-any.whl", f"memoranda-{version}.tar.gz"]:
        raise Refused(f"the build wrote unexpected files: {', '.join(path.name for path in packages)}")
    check_container_file(packages[0], moment)
    _run(sys.executable, "tools/more_packages.py", str(folder), more=moment)
    wheels = sorted(folder.glob("*.whl"))
    _run(str(tools / "check-wheel-contents"), *map(str, wheels))
    _run(str(tools / "twine"), "check", "--strict", *map(str, wheels), str(packages[1]))
    more = [pack_npm(folder, node), write_bill(version, folder, tools, moment)]
    notes = folder / f"memoranda-{version}.changes.md"
    notes.write_text(changes, encoding="utf-8")
    container = folder / f"memoranda-{version}.Containerfile"
    shutil.copyfile("Containerfile", container)
    files = [*wheels, packages[1], *more, notes, container]
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))
    return [*files, sums]


def check_container_file(wheel: Path, moment: dict[str, str]) -> None:
    """Build the wheel from what the container file copies. Raises Refused if that fails or gives another wheel."""
    copies = re.findall(r"^COPY (?!--from)(.*) (\S+)$", Path("Containerfile").read_text(), flags=re.MULTILINE)
    ignored = Path(".containerignore").read_text().splitlines()
    allowed = {line.removeprefix("!").rstrip("/") for line in ignored if line.startswith("!")}
    with tempfile.TemporaryDirectory() as scratch:
        for names, target in copies:
            for name in names.split():
                if name not in allowed:
                    raise Refused(f"Containerfile copies {name}, which .containerignore leaves out")
                # To a folder that ends in a slash, or under the name of the source.
                place = Path(scratch) / (Path(target) / Path(name).name if target.endswith("/") else target)
                place.parent.mkdir(parents=True, exist_ok=True)
                if Path(name).is_dir():
                    shutil.copytree(name, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(name, place)
        # The container file takes the commit as an argument.
        more = {**moment, "MEMORANDA_COMMIT": _output("git", "rev-parse", "HEAD")}
        _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "wheel", more=more, folder=scratch)
        if (Path(scratch) / "wheel" / wheel.name).read_bytes() != wheel.read_bytes():
            raise Refused("the container file builds another wheel")


def pack_npm(folder: Path, node: Path) -> Path:
    """Build the npm tarball, check it with its linters, and return its path in `folder`."""
    if not (node / "node_modules").is_dir():
        raise Refused(f"{node} has no node_modules; run: make bring-typescript")
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "node_modules").symlink_to((node / "node_modules").absolute())
        _run(sys.executable, "tools/npm_package.py", scratch)
        (tarball,) = Path(scratch).glob("*.tgz")
        return Path(shutil.move(tarball, folder))


def write_bill(version: str, folder: Path, tools: Path, moment: dict[str, str]) -> Path:
    """Write the bill of materials, and return its path."""
    bill = folder / f"memoranda-{version}.cdx.json"
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "pyproject.toml"
        text = Path("pyproject.toml").read_text(encoding="utf-8")
        project.write_text(text.replace('dynamic = ["version", "readme"]', f'version = "{version}"'), encoding="utf-8")
        about = ["--pyproject", str(project), "--mc-type", "application", "--output-reproducible"]
        _run(str(tools / "cyclonedx-py"), "requirements", LOCK, *about, "-o", str(bill), more=moment)
    return bill


def _run(*command: str, more: dict[str, str] | None = None, folder: str | None = None) -> None:
    print(f"+ {shlex.join(command)}", file=sys.stderr)
    try:
        subprocess.run(command, check=True, cwd=folder, env={**os.environ, **(more or {})})  # noqa: S603 -- our own commands
    except (OSError, subprocess.CalledProcessError) as error:
        raise Refused(f"{command[0]} failed: {error}") from None


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
