"""Check the subjects of new commits: imperative, at most 72 characters, no full stop.

python tools/subjects.py BASE checks the commits that HEAD has and BASE has not. `make subjects BASE=main` runs it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.prose import VERBS  # noqa: E402 - the path of the repository is set above

# Characters; longer subjects are cut in lists of commits.
SUBJECT_CHARS: Final = 72
# Verbs that only commits use.
COMMIT_VERBS: Final = VERBS | frozenset("document draw lint mend reword restructure say type".split())


def fault_of(subject: str) -> str | None:
    """Return the fault of a subject, or None."""
    if len(subject) > SUBJECT_CHARS:
        return f"has {len(subject)} characters, at most {SUBJECT_CHARS}"
    if subject.endswith("."):
        return "ends with a full stop"
    if subject.partition(" ")[0].lower() not in COMMIT_VERBS:
        return "does not begin with a verb"
    return None


def find_faults(base: str, folder: Path) -> list[str]:
    """List the faults of the commits after a base. Merges have subjects of their own."""
    command = ["git", "-C", str(folder), "log", "--no-merges", "--format=%h %s", f"{base}..HEAD"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()  # noqa: S603
    faults = ((line, fault_of(line.partition(" ")[2])) for line in lines)
    return [f"{line}: {fault}" for line, fault in faults if fault]


if __name__ == "__main__":
    found = find_faults(sys.argv[1], Path.cwd())
    for line in found:
        print(line)
    sys.exit(1 if found else 0)
