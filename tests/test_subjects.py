"""Subjects of commits fit a line and begin with a verb (CONTRIBUTING); `make subjects` checks those of a branch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "subjects.py"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def commit(folder: Path, subject: str) -> None:
    message = f"{subject}\n\nThe body may be as long as it needs to be."
    git(folder, "commit", "--allow-empty", "--no-verify", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path, "What was here before the rule, and is longer than seventy-two characters, stays as it is")
    git(tmp_path, "branch", "base")
    return tmp_path


def check(repository: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL), "base"], cwd=repository, capture_output=True, text=True, check=False
    )


def test_plain_subjects_after_the_base_pass(repository: Path) -> None:
    commit(repository, "Name the cursors of the change feed")
    assert (check(repository).returncode, check(repository).stdout) == (0, "")


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("Name the cursors of the change feed, because nobody knew any more what they were for", "84 characters"),
        ("What the parser says", "does not begin with a verb"),
        ("Name the cursors.", "ends with a full stop"),
    ],
)
def test_a_fault_of_a_subject_is_found_and_named(repository: Path, subject: str, fault: str) -> None:
    commit(repository, subject)
    commit(repository, "Add a test")
    checked = check(repository)
    assert checked.returncode == 1
    assert subject in checked.stdout
    assert fault in checked.stdout
    assert "Add a test" not in checked.stdout
