"""Forgotten is forgotten, whatever an old file says; who asks for it gets it back. The same rule for every form."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.bindings.files.test_forms import FORMS, NEW, Writer, everything, read, two, versions, write

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange
from memoranda.service.exchange.importing import ImportOptions, number_items
from memoranda.standards.oms.grains import Grain


def filled(m: Memoranda) -> int:
    """Write one memory of each kind; how many."""
    writer = Writer(m)
    for kind in NEW:
        writer.step(kind, 0)
    return len(versions(m))


def forget_all(m: Memoranda, *, hard: bool) -> None:
    for record in list(m.export()):
        m.forget(record["id"], hard=hard, reason="asked")


@pytest.mark.requirement("OAMS-OURS-restore")
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_file_from_before_brings_nothing_back_unless_asked_to(
    tmp_path_factory: pytest.TempPathFactory, form: str, hard: bool
) -> None:
    with two(tmp_path_factory) as (one, _, folder):
        count = filled(one)
        before = everything(one)
        write(one, folder / form, form)
        forget_all(one, hard=hard)
        report = read(one, folder / form)
        assert (report.forgotten, report.imported_count, report.warned) == (count, 0, count)
        assert "deleted here" in report.warnings[0]
        assert versions(one) == []
        assert everything(one)["memories"] == {}
        back = exchange.import_files(
            one.ump.import_items, one.owner, [str(folder / form)], options=ImportOptions(restore=True)
        )
        assert (back.created, back.forgotten, back.refusals) == (count, 0, [])
        assert everything(one) == before
        # It is as it was: the next file changes nothing.
        again = read(one, folder / form)
        assert (again.created, again.updated, again.forgotten) == (0, 0, 0)
        assert one.verify().ok


@pytest.mark.requirement("OAMS-OURS-restore")
@pytest.mark.parametrize("hard", [False, True])
def test_what_is_said_again_is_there_again(tmp_path: Path, hard: bool) -> None:
    with Memoranda.open(tmp_path) as m:
        grain = {
            "type": "belief",
            "subject": "ada",
            "relation": "likes",
            "object": "tea",
            "confidence": 0.5,
            "created_at": 1_780_000_000_000,
        }
        address = m.grains.put(grain).address
        m.oams.store("k", "green tea")
        remembered = m.remember("tea at five")
        signed = m.get(remembered.id).record
        forget_all(m, hard=hard)
        assert m.recall("tea") == []
        stored = m.grains.put(grain)
        assert (stored.address, stored.result) == (address, "created")
        assert isinstance(m.grains.get(address).grain, Grain)
        assert m.oams.store("k", "green tea").result == "created"
        assert m.ump.remember(signed).result == "created"
        assert {found.record["body"]["text"] for found in m.recall("tea")} == {
            "ada likes tea",
            "green tea",
            "tea at five",
        }
        assert m.grains.put(grain).result == "exists"
        assert len(m.oams.list().memories) == 3
        assert m.verify().ok


@pytest.mark.requirement("OAMS-OURS-restore")
def test_what_was_written_after_it_was_forgotten_is_news(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as m:
        stored = m.oams.store("k", "green tea").memory
        m.oams.forget("k")
        later = {
            **stored,
            "value": "black tea",
            "created_at": "2099-01-01T00:00:00Z",
            "updated_at": "2099-01-01T00:00:00Z",
        }
        assert m.ump.import_items(number_items("oams", [stored])).forgotten == 1
        assert m.ump.import_items(number_items("oams", [later])).created == 1
        assert [each["value"] for each in m.oams.list().memories] == ["black tea"]


def test_a_dry_run_says_what_would_stay_forgotten(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home") as m:
        m.remember("tea")
        write(m, tmp_path / "all.ndjson", "all.ndjson")
        forget_all(m, hard=False)
        report = exchange.import_files(
            m.ump.import_items, m.owner, [str(tmp_path / "all.ndjson")], options=ImportOptions(is_dry=True)
        )
        assert (report.forgotten, report.imported_count) == (1, 0)
