"""The build of this program: the commit that it was made from.

A package holds it in `build.txt`, which `make dist` writes (tools/build_hook.py). In a checkout it is read from git's
files, without starting git: `memoranda --version` must take no time.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

from memoranda import __version__

UNKNOWN: Final = "unknown"
# Digits of a commit.
_DIGITS: Final = 10


@cache
def build_id() -> str:
    """Return the commit that this program was built from, shortened; UNKNOWN if nobody recorded it."""
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        commit = _read_file(folder, "build.txt")
    except (OSError, ValueError):
        commit = read_commit(os.path.dirname(os.path.dirname(folder)))
    return commit[:_DIGITS] or UNKNOWN


def version_and_build() -> str:
    """Return version and build as people read them, such as "1.0.0 (build 0123456789)"."""
    return f"{__version__} (build {build_id()})"


def read_commit(root: str | os.PathLike[str]) -> str:
    """Return the commit that is checked out in a folder; empty if it is no checkout."""
    try:
        folder = os.path.join(root, ".git")
        if os.path.isfile(folder):
            # In a linked worktree, the file names a folder, and this the common one.
            git_folder = _read_file(root, ".git").removeprefix("gitdir:").strip()
            folder = os.path.realpath(os.path.join(root, git_folder))
        head = _read_file(folder, "HEAD")
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        common = _read_if_present(folder, "commondir")
        common_folder = os.path.join(folder, common) if common else folder
        return (
            _read_if_present(folder, name)
            or _read_if_present(common_folder, name)
            or _read_packed(common_folder, name)
        )
    except (OSError, ValueError):
        return ""


def _read_file(folder: str | os.PathLike[str], name: str) -> str:
    """Return the text of a small file, stripped."""
    # `pathlib` takes two milliseconds to import.
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read().strip()


def _read_if_present(folder: str, name: str) -> str:
    return _read_file(folder, name) if os.path.exists(os.path.join(folder, name)) else ""


def _read_packed(folder: str, name: str) -> str:
    lines = _read_if_present(folder, "packed-refs").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
