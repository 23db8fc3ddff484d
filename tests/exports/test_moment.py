"""An export shows one moment: with or without history, in every form, while others write."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda.app import Memoranda
from memoranda.service.exchange.export_run import Export
from tests.exports.moment import EXPORTS, NumberedStore, compare, read_export, small_pages

COUNT = 24


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NumberedStore]:
    with Memoranda.open(tmp_path_factory.mktemp("moment") / "one") as m:
        yield NumberedStore(m, COUNT)


@pytest.mark.requirement("OURS-export-of-one-moment")
@pytest.mark.parametrize("form", EXPORTS)
def test_what_is_revised_while_it_is_exported_leaves_once(
    store: NumberedStore, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice, read, pages, heads, revised = random.Random(form), Export.load_page, 0, 0, False

    def load_page(export: Export, *args: Any) -> Any:
        nonlocal pages, heads, revised
        page = read(export, *args)
        pages += 1
        heads += sum(version.state.is_head for version in page[0])
        if heads >= COUNT // 3 and not revised:
            revised = True
            store.revise_all(choice)
        return page

    monkeypatch.setattr(Export, "load_page", load_page)
    with small_pages(7):
        numbers = read_export(store, form, tmp_path / "export")
    assert revised
    assert pages > 2
    assert compare(form, numbers, COUNT) is None
