"""Tables: CSV and lines of JSON, with columns that are known or named by a person."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.importers.importer import ImportDraft
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec, recognise_importer
from memoranda.bindings.files.importers.table import table_with
from memoranda.errors import InvalidInput
from tests.importers.conftest import take_known

CSV = """\ufeffid;Text;User ID;Tags;Created at;Valid until
7;"Prefers tea; never coffee";ada;"drinks, morning";2026-01-02 08:00;
8;"Lives
in Oslo";ada;;2020-01-01;2024-01-01
9;;ada;;;
"""


def test_csv_is_known_by_its_columns(shared: Memoranda, tmp_path: Path) -> None:
    path = tmp_path / "memories.csv"
    path.write_text(CSV, encoding="utf-8")
    report = take_known(shared, path, "table")
    assert (report.created, report.refused) == (2, 1)
    assert report.refusals[0].where == f"{path}:5"
    tea = shared.oams.get("7", namespace="ada:table").memory
    assert (tea["value"], tea["tags"]) == ("Prefers tea; never coffee", ["drinks", "morning"])
    assert tea["created_at"] == "2026-01-02T08:00:00.000Z"
    oslo = shared.oams.get("8", namespace="ada:table").memory
    assert (oslo["value"], oslo["metadata"]["memoranda:valid_to"]) == ("Lives\nin Oslo", "2024-01-01T00:00:00.000Z")


def test_a_person_says_which_column_is_what(shared: Memoranda, tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("who,what,when\nbo,Has a red bicycle,2026-03-04\n", encoding="utf-8")
    assert recognise_importer(path) is None
    known = table_with("text=what, user=who, created=when")
    report = exchange.import_files(shared.ump.import_items, shared.owner, [str(path)], form=known)
    assert (report.created, report.refused) == (1, 0)
    memory = shared.oams.get("bo Has a red bicycle", namespace="bo:table").memory
    assert memory["created_at"] == "2026-03-04T00:00:00.000Z"
    missing = exchange.import_files(shared.ump.import_items, shared.owner, [str(path)], form=table_with("text=said"))
    assert "no column 'said': there are who, what, when" in missing.refusals[0].message
    unnamed = exchange.import_files(shared.ump.import_items, shared.owner, [str(path)], form="table")
    assert "name it with --map" in unnamed.refusals[0].message


@pytest.mark.parametrize("said", ["", "text", "text=", "user=who", "colour=red,text=a", "text=a,,"])
def test_a_map_that_makes_no_sense_is_refused(said: str) -> None:
    with pytest.raises(InvalidInput):
        table_with(said)


def test_lines_and_arrays_of_texts(shared: Memoranda, tmp_path: Path) -> None:
    lines = tmp_path / "texts.jsonl"
    lines.write_text('{"text": "Plays the cello", "user": "cy"}\n{"text": 3.5}\n{"text": "Sings", "tags": ["music"]}\n')
    report = take_known(shared, lines, "table")
    assert (report.created, report.refused) == (2, 1)
    array = tmp_path / "texts.json"
    array.write_text('[{"text": "Collects stamps", "id": 12}]')
    assert take_known(shared, array, "table").created == 1
    assert "Collects stamps" in [hit.text for hit in shared.recall("Who collects stamps?")]


@pytest.mark.parametrize("data", [b"text\n\xff\xfe\n", b'text\n"' + b"x" * 5_000_000])
def test_what_is_no_csv_is_refused_with_its_place(shared: Memoranda, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(data)
    report = exchange.import_files(shared.ump.import_items, shared.owner, [str(path)])
    assert report.created == 0
    assert all("bad.csv" in each.where for each in report.refusals)
    assert report.refused == 1


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_give_memories_or_refusals(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(b"text,user\n" + data)
    for found in ImportCodec(IMPORTERS["table"]).read_drafts(str(path)):
        assert not isinstance(found, ImportDraft) or found.text
