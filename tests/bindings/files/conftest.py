"""A real store for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memoranda.app import Memoranda


@pytest.fixture
def memoranda(tmp_path: Path) -> Iterator[Memoranda]:
    with Memoranda.open(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    return made
