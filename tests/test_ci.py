"""CI brings what tests need, once more if that fails, and runs every test once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.waiting import HANG_SECONDS

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("docs", "test-packages", "test-postgres", "test-adapters", "test-typescript", "test-browser")
BRINGING: Final = tuple(f"bring-{part.removeprefix('test-')}" for part in PARTS)
# Stands for `make`: writes its targets down, and fails as often as a file of the target's name says.
MAKE: Final = """\
#!/usr/bin/env bash
echo "$1" >>made
failures=$(cat "fail-$1" 2>/dev/null || echo 0)
echo $((failures - 1)) >"fail-$1"
[ "$failures" -le 0 ]
"""


class Ran(NamedTuple):
    """How CI ended."""

    code: int
    targets: list[str]
    last_line: str


def run_ci(folder: Path, **failures: int) -> Ran:
    """Run `.ci/run` where targets fail so many times; their names are written with underscores."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    program = folder / "bin" / "make"
    program.parent.mkdir()
    program.write_text(MAKE)
    program.chmod(0o755)
    for target, count in failures.items():
        (folder / f"fail-{target.replace('_', '-')}").write_text(str(count))
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        [folder / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=HANG_SECONDS
    )
    return Ran(ran.returncode, (folder / "made").read_text().split(), ran.stdout.splitlines()[-1])


def test_everything_is_run_once_and_after_what_it_needs(tmp_path: Path) -> None:
    pairs = [target for pair in zip(BRINGING, PARTS, strict=True) for target in pair]
    assert run_ci(tmp_path) == (0, ["develop", "test", *pairs], "Repeated: nothing")


@pytest.mark.parametrize("target", ["test", *PARTS])
def test_a_red_test_is_never_repeated(tmp_path: Path, target: str) -> None:
    ran = run_ci(tmp_path, **{target.replace("-", "_"): 1})
    assert (ran.code, ran.last_line) == (1, "Repeated: nothing")
    assert ran.targets.count(target) == 1
    assert ran.targets[-1] == target


@pytest.mark.parametrize("target", ["develop", *BRINGING])
def test_what_cannot_be_brought_is_brought_once_more_and_named(tmp_path: Path, target: str) -> None:
    ran = run_ci(tmp_path, **{target.replace("-", "_"): 1})
    assert (ran.code, ran.last_line) == (0, f"Repeated: {target}")
    assert ran.targets.count(target) == 2
    assert ran.targets[-1] == PARTS[-1]


def test_what_still_cannot_be_brought_is_an_error(tmp_path: Path) -> None:
    ran = run_ci(tmp_path, bring_postgres=2)
    assert (ran.code, ran.targets[-2:], ran.last_line) == (1, ["bring-postgres"] * 2, "Repeated: bring-postgres")


def test_every_target_that_ci_runs_is_in_the_makefile() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"develop", "test", *PARTS, *BRINGING} <= {*targets}


def test_no_output_of_a_command_is_in_the_repository() -> None:
    """A program that takes an option for the name of its output writes a folder such as `--help`."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=HANG_SECONDS)
    names = listed.stdout.decode().split("\0")
    assert len(names) > 1_000
    assert [name for name in names if name.startswith(("-", "build/", "dist/"))] == []
