"""A store of one's own for each test or file of tests, and the files that other systems made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoranda import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.importers.registry import ImportCodec, recognise_importer
from memoranda.service.exchange.report import Report

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
        return exchange.import_files(store.ump.import_items, store.owner, map(str, sources), **options)  # type: ignore[arg-type]

    return import_files


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memoranda]:
    """One store, into which every file of a module is taken."""
    with Memoranda.open(tmp_path_factory.mktemp("shared") / "home") as opened:
        yield opened


def take_known(store: Memoranda, path: Path, system: str) -> Report:
    """Import what must be recognised as of a system; a second time it changes nothing."""
    found = recognise_importer(path)
    assert found is not None
    assert found.name == system
    report = exchange.import_files(store.ump.import_items, store.owner, [str(path)])
    assert report.created == ImportCodec(found).survey(str(path)).memories
    again = exchange.import_files(store.ump.import_items, store.owner, [str(path)])
    assert (again.created, again.updated, again.unchanged + again.merged) == (0, 0, report.created)
    return report


def written(folder: Path, document: object, name: str = "export.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
