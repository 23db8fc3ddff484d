"""The build of this program: the commit that it was made from.

A package holds it in `build.txt`, which `make dist` writes (tools/build_hook.py). In a checkout it is read from git's
files, without starting git: `memoranda --version` must take no time.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from memoranda import __version__

UNKNOWN: Final = "unknown"
# Digits of a commit.
_DIGITS: Final = 10


@cache
def build_id() -> str:
    """Return the commit that this program was built from, shortened; UNKNOWN if nobody recorded it."""
    try:
        commit = Path(__file__).with_name("build.txt").read_text("ascii").strip()
    except (OSError, ValueError):
        commit = read_commit(Path(__file__).parents[2])
    return commit[:_DIGITS] or UNKNOWN


def version_and_build() -> str:
    """Return version and build as people read them, such as "1.0.0 (build 0123456789)"."""
    return f"{__version__} (build {build_id()})"


def read_commit(root: Path) -> str:
    """Return the commit that is checked out in a folder; empty if it is no checkout."""
    try:
        folder = root / ".git"
        if folder.is_file():
            # In a linked worktree, the file names a folder, and this the common one.
            folder = (root / folder.read_text("utf-8").removeprefix("gitdir:").strip()).resolve()
        head = (folder / "HEAD").read_text("utf-8").strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        common = folder / "commondir"
        shared = (folder / common.read_text("utf-8").strip()) if common.exists() else folder
        return (
            _read_reference(folder, name)
            or _read_reference(shared, name)
            or _read_packed(shared, name)
        )
    except (OSError, ValueError):
        return ""


def _read_reference(folder: Path, name: str) -> str:
    path = folder / name
    return path.read_text("utf-8").strip() if path.exists() else ""


def _read_packed(folder: Path, name: str) -> str:
    path = folder / "packed-refs"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
