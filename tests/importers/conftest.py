"""A store of one's own for each test, and the files that other systems made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoranda import Memoranda
from memoranda.bindings.files import exchange
from memoranda.service.exchange import Report

SAMPLES = Path(__file__).parent.parent / "samples"
Import = Callable[..., Report]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memoranda]:
    with Memoranda.open(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def take(store: Memoranda) -> Import:
    """Import files, as the command does."""

    def import_files(*sources: Path, **options: object) -> Report:
        return exchange.import_files(store.service, store.access, map(str, sources), **options)  # type: ignore[arg-type]

    return import_files
