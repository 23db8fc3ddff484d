"""Files read in a process of its own: the same comes of them, and it takes no more than it may."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.importers.test_hostile import DAMAGE, SOURCES, files_of, placed
from tests.waiting import until

from memoranda import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.importers.importer import Survey
from memoranda.bindings.files.reader_process import (
    MEBIBYTE,
    Limits,
    Request,
    _end_reason,
    _start_reader,
    read_in_process,
)
from memoranda.errors import InvalidInput, TooLarge
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report

SMALL = Limits(memory_bytes=64 * MEBIBYTE, processor_seconds=1)
FORMS = ("out.ndjson", "out.ump.json", "out.mg", "out.oams.jsonl")


def plain(item: Item) -> Any:
    """Return an item as it is compared: an error by what it says."""
    error = None if item.error is None else (item.error.code, item.error.message)
    return (item.form, item.value, item.where, item.number, item.raw, item.index, error, item.warnings, item.is_checked)


def read(names: list[str], limits: Limits | None, **how: Any) -> tuple[list[Any], list[Any], Report]:
    """Return the items of some files, what was told before them, and the report: read here, or in another process."""
    report, told = Report(), list[Any]()

    def found(*held: object) -> None:
        told.append(held)

    if limits is None:
        items = exchange.read_sources(names, how.get("known"), "o-me", report, on_survey=found, on_count=told.append)
        return [plain(item) for item in items], told, report
    request = Request(names=names, own="o-me", is_surveyed=True, is_counted=True, limits=limits, **how)
    with read_in_process(request, report, found, told.append) as items:
        return [plain(item) for item in items], told, report


def same(names: list[str], **how: Any) -> tuple[list[Any], list[Any], Report]:
    """Return what comes of some files, after the same came of them here and in another process."""
    apart, here = read(names, Limits.of(0), **how), read(names, None, **how)
    assert apart[0] == here[0]
    assert apart[1:] == here[1:]
    return apart


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """Sources of every system, each in a folder of its own."""
    names = []
    for number, name in enumerate(SOURCES):
        folder = tmp_path / str(number)
        folder.mkdir()
        names.append(str(placed(name, folder)))
    return names


def test_memories_of_every_system_are_the_same(sources: list[str]) -> None:
    items, told, report = same(sources)
    assert len(items) > 50
    assert told[-1] >= len(items) > 0
    assert isinstance(told[0][2], Survey)
    assert report.refused == 0


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_told_in_the_same_words(sources: list[str], damage: str) -> None:
    for source in sources:
        for each in files_of(Path(source)):
            each.write_bytes(DAMAGE[damage](each.read_bytes()))
    same(sources)


def test_memories_of_every_form_are_the_same(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home") as m:
        m.remember("use pnpm", user="ada", tags=["js"])
        m.oams.store("tea", "green tea", metadata={"mine": [1, None, 2**53, 0.5]})
        grain = {"type": "belief", "subject": "ada", "relation": "likes", "object": "tea", "confidence": 1.0}
        m.grains.put(m.service.grains.with_defaults(m.access, grain))
        names = [str(tmp_path / name) for name in FORMS]
        exchange.export_file(m.ump.export(), names[0], "ndjson")
        exchange.export_file(m.ump.export(), names[1], "json")
        exchange.export_grains(m.service.grains.export(m.access), names[2], Report(), compress=True)
        exchange.export_memories(
            exchange.select_memories(m.service, m.access, Report()), names[3], shape="jsonl", exported_at=0
        )
    items, _, _ = same(names)
    assert {item[0] for item in items} == {"ump", "oams", "oms"}
    _, _, report = same([*names, str(tmp_path / "missing")])
    assert report.refused == 1


def test_a_request_that_is_refused_is_refused_by_the_same_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.ndjson"
    path.write_text("{}\n")
    request = Request(names=[str(path)], is_moved=True, limits=SMALL)
    with (
        pytest.raises(InvalidInput, match="--namespace is for"),
        read_in_process(request, Report(), None, None) as items,
    ):
        list(items)


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_file_that_takes_too_much_memory_ends_its_reader_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    # A few bytes each, and an object for each.
    path.write_bytes(b'[{"text":"tea"}' + b",{}" * 2_000_000 + b"]")
    (item,), _, _ = read([str(path)], SMALL)
    assert item[2] == str(path)
    assert "takes more than 64 MiB of memory" in item[6][1]


def test_a_file_that_takes_too_long_ends_its_reader_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_bytes(b"text\n" + b"tea\n" * 5_000_000)
    (item,), _, _ = read([str(path)], Limits(memory_bytes=512 * MEBIBYTE, processor_seconds=1))
    assert "takes more than 1 s of processor time" in item[6][1]


def test_the_limits_grow_with_the_file_up_to_a_most() -> None:
    nothing, much, very_much = Limits.of(0), Limits.of(100 * MEBIBYTE), Limits.of(1024 * MEBIBYTE)
    assert nothing.memory_bytes < much.memory_bytes < very_much.memory_bytes == Limits.of(2**40).memory_bytes
    assert nothing.processor_seconds < much.processor_seconds < very_much.processor_seconds


def test_a_reader_that_crashed_says_that_the_file_is_damaged_and_one_that_did_not_start_does_not() -> None:
    assert "is damaged" in _end_reason(-signal.SIGSEGV, SMALL).message
    assert isinstance(_end_reason(-signal.SIGKILL, SMALL), TooLarge)
    with pytest.raises(RuntimeError, match="ended with 1"):
        _end_reason(1, SMALL)


# --- the process -----------------------------------------------------------------------------------------------------


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_reader_ends_with_whoever_stops_reading(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_bytes(b"text\n" + b"tea\n" * 500_000)
    with _start_reader(Request(names=[str(path)], limits=Limits.of(0))) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        assert is_there(process.pid)
    assert process.returncode == -signal.SIGKILL
    assert not is_there(process.pid)


def test_a_reader_ends_when_the_server_that_started_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_bytes(b"text\n" + b"tea\n" * 500_000)
    with _start_reader(Request(names=[str(path)], limits=Limits.of(0))) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read(1)
        # As when its server ends, however that ends.
        process.stdin.close()
        until(lambda: process.poll() is not None)
        assert process.returncode == 0


def test_a_reader_knows_no_setting_and_leaves_no_picture_of_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORANDA_STORE", "postgresql://ada:s3cret@example/memories")
    monkeypatch.setenv("SOME_TOKEN", "s3cret")
    path = tmp_path / "notes.csv"
    path.write_bytes(b"text\n" + b"tea\n" * 500_000)
    with _start_reader(Request(names=[str(path)], limits=SMALL)) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        of_process = Path(f"/proc/{process.pid}")
        assert b"s3cret" not in of_process.joinpath("environ").read_bytes()
        limits = of_process.joinpath("limits").read_text()
    rows = {line[:26].strip(): line[26:].split() for line in limits.splitlines()}
    assert rows["Max core file size"][0] == "0"
    assert rows["Max cpu time"][0] != "unlimited"
    assert int(rows["Max address space"][0]) < 256 * MEBIBYTE
