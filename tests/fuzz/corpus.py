"""The corpus: inputs that once led somewhere new, kept in the repository, one base64 line each.

`python -m tests.fuzz --grow` adds the shortest input for each outcome that the run has seen. Every run of the tests
feeds all of them again, and every campaign begins with them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).with_name("corpus")
# Bytes of an input: longer ones are found again quickly, and would only make the repository larger.
LIMIT: Final = 1_500


def load(name: str) -> tuple[bytes, ...]:
    """Return the inputs of a target."""
    path = _FOLDER / f"{name}.txt"
    return tuple(base64.b64decode(line) for line in path.read_text().splitlines()) if path.exists() else ()


def save(name: str, inputs: Iterable[bytes]) -> None:
    """Replace the inputs of a target."""
    _FOLDER.mkdir(exist_ok=True)
    lines = sorted(base64.b64encode(data).decode() for data in set(inputs) if len(data) <= LIMIT)
    (_FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
