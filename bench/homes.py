"""Where a measurement keeps its store.

In a folder that is gone afterwards; or in the one that MEMORANDA_BENCH_HOMES names, where it is filled only once: a
million memories are written in a quarter of an hour and asked in a few minutes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of a store, and whether what is to be measured was written to it before."""

    path: Path

    @property
    def is_filled(self) -> bool:
        return self._mark.exists()

    def set_filled(self) -> None:
        self._mark.touch()

    @property
    def _mark(self) -> Path:
        return self.path / "filled"


@contextmanager
def home_for(name: str) -> Iterator[Home]:
    kept = os.environ.get("MEMORANDA_BENCH_HOMES")
    if kept:
        yield Home(Path(kept) / name)
        return
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        yield Home(Path(folder))
