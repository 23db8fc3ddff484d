"""Docstrings, comments, names and pages are plain English; the number of those that are not may only fall.

`python -m tests.prose PATH` lists them. The rules are those of CONTRIBUTING.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import prose

EXAMPLE = '''\
"""What a module holds."""

TIMEOUT_SECONDS: Final = 3
# Seconds; a client that waits longer has given up.
WAIT_SECONDS: Final = 3

class Rows:
    """A page of rows."""

    @property
    def size(self) -> int:
        """Number of rows."""

def kept(found):
    """The rows that are kept."""
    # Whoever reads makes it anew.
    each = found

def load_rows(path):
    """Return the rows of a file."""
'''

PAGE = """\
# What it speaks

How does recall work? Whoever asks is told.

- Of these, two are kept.

| option | meaning |
|---|---|
| `--code` | The server makes the index anew. |

```sh
echo "What is in a block of code is not read, and neither is `code`."
```

{long}

{paragraph}
"""


def test_no_package_gets_harder_to_read() -> None:
    limits = json.loads(prose.COUNTS.read_text("utf-8"))
    counts = prose.count_findings()
    grown = {
        f"{package} {kind}": f"{number}, at most {limits.get(package, {}).get(kind, 0)}"
        for package, kinds in counts.items()
        for kind, number in kinds.items()
        if number > limits.get(package, {}).get(kind, 0)
    }
    assert grown == {}, "python -m tests.prose PATH lists them"


@pytest.mark.parametrize(
    ("kind", "lines"),
    [("opening", [1, 16]), ("mood", [14]), ("name", [14, 14, 17]), ("private", [16]), ("limit", [3])],
)
def test_the_rules_find_what_they_are_for(tmp_path: Path, kind: str, lines: list[int]) -> None:
    path = tmp_path / "example.py"
    path.write_text(EXAMPLE, "utf-8")
    findings = [finding for finding in prose.read_file(path) if finding.kind == kind]
    assert [finding.line for finding in findings] == lines


@pytest.mark.parametrize(
    ("kind", "lines"),
    [("opening", [1, 3, 5]), ("private", [3, 3, 9]), ("long", [15]), ("paragraph", [17])],
)
def test_the_rules_of_pages_find_what_they_are_for(tmp_path: Path, kind: str, lines: list[int]) -> None:
    path = tmp_path / "example.md"
    long, short = "The store " + "very " * 34 + "works.", "It works. "
    path.write_text(PAGE.format(long=long, paragraph=short * 7), "utf-8")
    assert [finding.line for finding in prose.read_page(path) if finding.kind == kind] == lines


def test_a_plain_page_has_no_findings(tmp_path: Path) -> None:
    path = tmp_path / "example.md"
    path.write_text("# Backup\n\nCopy the folder. Does it work? `memoranda verify` shows it.\n", "utf-8")
    assert prose.read_page(path) == []
