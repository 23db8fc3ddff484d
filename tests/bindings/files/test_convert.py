"""Files in another form, without a store: nothing is lost, the way back ends where it began, what cannot go is said."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.bindings.files.test_forms import CHANGES, EACH, NEW, STEPS, Writer, everything, opened, read, two, write
from tests.importers.conftest import SAMPLES
from tests.service.world import PEER

from memoranda.app import Memoranda
from memoranda.bindings.files.convert import ConversionObserver, ConversionResult, WriteOptions, convert_file
from memoranda.bindings.files.exporters import EXPORTERS
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec
from memoranda.encoding.json_text import dump, parse
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import fill_defaults

# One of everything, and everything that may happen to it.
ALL_STEPS = [*((op, 0) for op in NEW for _ in range(3)), *((op, which) for which, op in enumerate(CHANGES))]
NOW = 1_780_000_000_000


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memoranda, Path]]:
    """A store with memories of every standard and their histories, and its exports."""
    folder = tmp_path_factory.mktemp("mixed")
    with opened(folder / "home", None, "users") as m:
        writer = Writer(m)
        for op, which in ALL_STEPS:
            writer.step(op, which)
        for form in ("all.ndjson", "all.mg", "bundle"):
            write(m, folder / form, form)
        yield m, folder


def record(**said: Any) -> dict[str, Any]:
    draft: Any = {
        "kind": "semantic",
        "body": {"text": "Ada takes her tea green"},
        "scope": {"owner": PEER.did},
        "provenance": {"actor": PEER.did, "actor_kind": "user", "method": "asserted"},
        **said,
    }
    return {**fill_defaults(draft, now=NOW, version="0.1"), "id": "urn:ump:abcdefgh"}


def lines(path: Path, *records: Any) -> Path:
    path.write_bytes(b"".join(dump(each) + b"\n" for each in records))
    return path


def converted(source: Path, target: Path, shape: str, **options: Any) -> ConversionResult:
    found = convert_file(str(source), str(target), shape, **options)
    assert found.report.refusals == []
    return found


TEXT = st.text(min_size=1, max_size=20)
NAMES = st.text("abcé-", min_size=1, max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
RECORDS = st.builds(
    record,
    kind=st.sampled_from(["semantic", "episodic", "procedural", "working", "identity"]),
    body=st.builds(
        lambda text, more: {"text": text, "structured": more}, TEXT, st.dictionaries(NAMES, JSON, max_size=2)
    ),
    scope=st.builds(
        lambda more, visibility: {"owner": PEER.did, **more, "visibility": visibility},
        st.dictionaries(st.sampled_from(["user", "project", "agent", "session"]), NAMES),
        st.sampled_from(["private", "shared", "public"]),
    ),
    time=st.sampled_from([{}, {"valid_to": "2027-01-01T00:00:00Z"}, {"created": "2020-02-29T23:59:60+01:00"}]),
    lifecycle=st.sampled_from([{}, {"confidence": 1, "salience": 0.25}, {"status": "tombstoned"}]),
    relations=st.lists(
        st.builds(lambda target: {"type": "about", "target": target}, NAMES | st.just("tag:tea")), max_size=2
    ),
    superseded_by=st.sampled_from([[], ["urn:ump:bbbb"]]),
    consent=st.sampled_from([{}, {"retention": "P30D"}]),
)


@EACH
@given(records=st.lists(st.tuples(RECORDS, st.booleans()), max_size=4, unique_by=lambda each: dump(each[0])))
def test_records_become_grains_or_memories_and_the_same_bytes_again(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[Any, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("records")
    source = lines(folder / "in.ndjson", *(signature.sign(each, PEER) if signed else each for each, signed in records))
    converted(source, folder / "a.mg", "mg")
    converted(folder / "a.mg", folder / "back.ndjson", "ndjson")
    assert (folder / "back.ndjson").read_bytes() == source.read_bytes()


@EACH
@given(steps=STEPS)
# What earlier versions bind it to is said beside the record.
@example(steps=[("store", 0), ("supersede", 0)])
@example(steps=[("entry", 0), ("supersede", 0)])
@example(steps=ALL_STEPS)
def test_records_of_any_history_come_back_byte_for_byte_and_are_the_same_memories_as_grains(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    with two(tmp_path_factory) as (one, other, folder):
        writer = Writer(one)
        for op, which in steps:
            writer.step(op, which)
        write(one, folder / "all.ndjson", "all.ndjson")
        converted(folder / "all.ndjson", folder / "all.mg", "mg", owner=one.owner)
        converted(folder / "all.mg", folder / "back.ndjson", "ndjson", owner=one.owner)
        assert (folder / "back.ndjson").read_bytes() == (folder / "all.ndjson").read_bytes()
        before = everything(one)
        back = read(one, folder / "all.mg")
        assert (back.created, back.updated) == (0, 0)
        there = read(other, folder / "all.mg")
        if not there.warnings:
            assert everything(other)["native"] == before["native"]


def test_grains_become_records_and_the_same_file_again(mixed: tuple[Memoranda, Path], tmp_path: Path) -> None:
    m, folder = mixed
    converted(folder / "all.mg", tmp_path / "all.ndjson", "ndjson", owner=m.owner)
    converted(tmp_path / "all.ndjson", tmp_path / "all.mg", "mg", owner=m.owner)
    assert (tmp_path / "all.mg").read_bytes() == (folder / "all.mg").read_bytes()
    # A record that was superseded names its successor, as UMP does.
    records = {each["id"]: each for each in map(parse, (tmp_path / "all.ndjson").read_bytes().splitlines())}
    successors = {name for each in records.values() for name in each["superseded_by"]}
    assert successors
    assert successors <= records.keys()


def test_what_is_known_of_earlier_versions_goes_from_form_to_form(
    mixed: tuple[Memoranda, Path], tmp_path: Path
) -> None:
    m, _ = mixed
    for form, other in (("all.mg", "all.ndjson"), ("all.ndjson", "all.mg")):
        heads, there, back = (tmp_path / f"{place}-{form}" for place in ("heads", "there", "back"))
        write(m, heads, form, history=False)
        converted(heads, there, other.removeprefix("all."), owner=m.owner)
        converted(there, back, form.removeprefix("all."), owner=m.owner)
        assert back.read_bytes() == heads.read_bytes()
        assert b"supersedes" in heads.read_bytes()


@pytest.mark.parametrize("shape", ["ndjson", "mg"])
def test_memories_of_oams_become_others_and_the_same_memories_again(
    mixed: tuple[Memoranda, Path], tmp_path: Path, shape: str
) -> None:
    m, folder = mixed
    converted(folder / "bundle", tmp_path / f"all.{shape}", shape, owner=m.owner)
    converted(tmp_path / f"all.{shape}", tmp_path / "bundle", "oams", owner=m.owner)

    def said(bundle: Path) -> list[Any]:
        found = [parse(line) for line in (bundle / "memories.jsonl").read_bytes().splitlines()]
        return [{name: value for name, value in each.items() if name != "updated_at"} for each in found]

    assert said(tmp_path / "bundle") == said(folder / "bundle")


@pytest.mark.parametrize("form", ["all.ump.json", "folder/", "all.oams.jsonl", "all.oams.md"])
def test_every_form_holds_all_of_it(tmp_path: Path, form: str) -> None:
    source = lines(tmp_path / "in.ndjson", record(), {**record(body={"text": "Two\nlines"}), "id": "urn:ump:bbbbbbbb"})
    shape = "oams" if "oams" in form else "json" if form.endswith("json") else "markdown"
    target = tmp_path / form
    first = convert_file(str(source), f"{target}/" if form.endswith("/") else str(target), shape)
    assert (first.written, first.carried + first.unchanged) == (2, 2)
    converted(target, tmp_path / "back.ndjson", "ndjson")
    assert sorted((tmp_path / "back.ndjson").read_bytes().splitlines()) == sorted(source.read_bytes().splitlines())


@pytest.mark.parametrize("system", list(EXPORTERS))
def test_another_system_gets_what_it_has_words_for_and_the_rest_is_counted(tmp_path: Path, system: str) -> None:
    said = record(time={"valid_to": "2099-01-01T00:00:00Z"}, scope={"owner": PEER.did, "visibility": "public"})
    source = lines(tmp_path / "in.ndjson", said)
    found = converted(source, tmp_path / "out.csv", system)
    assert found.unsaid["visibility"] == 1
    assert found.unsaid["time in which it is true"] == (system == "server-memory")
    name = "table" if system == "csv" else system
    (item,) = ImportCodec(IMPORTERS[name], "o-me").items(str(tmp_path / "out.csv"))
    assert "Ada takes her tea green" in item.value["value"]
    # It is nobody's but its owner's.
    assert item.value["namespace"].startswith("o-me:")


def test_what_came_from_a_system_goes_through_any_form_and_leaves_as_it_came(tmp_path: Path) -> None:
    came = json.loads((SAMPLES / "mem0" / "mem0_all.json").read_text(encoding="utf-8"))["results"]
    converted(SAMPLES / "mem0" / "mem0_all.json", tmp_path / "all.mg", "mg")
    converted(tmp_path / "all.mg", tmp_path / "all.ndjson", "ndjson")
    found = converted(tmp_path / "all.ndjson", tmp_path / "out.json", "mem0")
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["results"] == came
    assert not found.unsaid


def test_what_a_form_cannot_say_is_refused_by_name(tmp_path: Path) -> None:
    kept = {**record(consent={"exportable": False}), "id": "urn:ump:aaaa"}
    cut = {**record(consent={"redact": ["body.text"]}), "id": "urn:ump:bbbb"}
    over = {**record(superseded_by=["urn:ump:cccc"]), "id": "urn:ump:dddd"}
    source = lines(tmp_path / "in.ndjson", record(), kept, cut, over, {"ump": "0.1"}, "no record")
    found = convert_file(str(source), str(tmp_path / "out.oams.jsonl"), "oams")
    assert found.written == 1
    assert [(each.where.rpartition(":")[2], each.id) for each in found.report.refusals] == [
        ("2", "urn:ump:aaaa"),
        ("3", "urn:ump:bbbb"),
        ("4", "urn:ump:dddd"),
        ("5", ""),
        ("6", ""),
    ]
    # Records stay records, whatever they say.
    again = convert_file(str(source), str(tmp_path / "out.ump.json"), "json")
    assert (again.written, again.report.refused) == (4, 2)


def test_nothing_is_written_where_nothing_can_be_read_or_the_run_is_dry(tmp_path: Path) -> None:
    source = lines(tmp_path / "in.ndjson", {"ump": "0.1"})
    for target, shape in (("out.mg", "mg"), ("out.ndjson", "ndjson"), ("out.oams", "oams"), ("out.csv", "csv")):
        found = convert_file(str(source), str(tmp_path / target), shape)
        assert (found.written, found.report.refused) == (0, 1)
    good = lines(tmp_path / "good.ndjson", record())
    found = convert_file(str(good), str(tmp_path / "out.mg"), "mg", options=WriteOptions(is_dry=True))
    assert (found.written, found.carried) == (1, 1)
    assert {each.name for each in tmp_path.iterdir()} == {"in.ndjson", "good.ndjson"}


def test_a_grain_that_carries_something_else_than_it_shows_is_that_grain(tmp_path: Path) -> None:
    source = lines(tmp_path / "in.ndjson", record())
    converted(source, tmp_path / "a.mg", "mg")
    data = (tmp_path / "a.mg").read_bytes()
    forged = data[:-32].replace(b"tea green", b"tea black", 1)
    (tmp_path / "b.mg").write_bytes(forged + hashlib.sha256(forged).digest())
    found = converted(tmp_path / "b.mg", tmp_path / "back.ndjson", "ndjson")
    assert (found.unchanged, found.carried) == (0, 1)
    back = parse((tmp_path / "back.ndjson").read_bytes())
    assert back["body"]["text"].endswith("tea black")
    assert back["id"] != record()["id"]


@pytest.mark.parametrize("form", ["all.ndjson", "all.mg", "bundle"])
def test_how_many_there_are_is_known_before_they_are_read(
    mixed: tuple[Memoranda, Path], tmp_path: Path, form: str
) -> None:
    m, folder = mixed
    totals: list[int] = []
    found = converted(
        folder / form,
        tmp_path / "out.ump.json",
        "json",
        owner=m.owner,
        observer=ConversionObserver(on_count=totals.append),
    )
    assert found.written
    assert totals == [found.written]


def test_standard_input_is_converted(
    mixed: tuple[Memoranda, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, folder = mixed
    converted(folder / "all.ndjson", tmp_path / "named.mg", "mg", owner=m.owner)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((folder / "all.ndjson").read_bytes())))
    convert_file("-", str(tmp_path / "piped.mg"), "mg", owner=m.owner)
    assert (tmp_path / "piped.mg").read_bytes() == (tmp_path / "named.mg").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "named.mg").read_bytes())))
    convert_file("-", str(tmp_path / "back.ndjson"), "ndjson", form="mg", owner=m.owner)
    assert (tmp_path / "back.ndjson").read_bytes() == (folder / "all.ndjson").read_bytes()


@pytest.mark.requirement("UMP-6.3-partial")
def test_convert_completes_the_printed_markdown_as_import_does(tmp_path: Path) -> None:
    printed = """---
ump: "0.1"
kind: procedural
scope: { owner: did:key:z6Mk, project: github.com/example/recall, visibility: private }
time: { observed: 2026-06-04T09:58:00Z, valid_from: 2026-06-04T00:00:00Z }
provenance: { actor_kind: user, method: user_correction }
---
Always run `pnpm gate` before handoff.
"""
    note, target = tmp_path / "note.ump.md", tmp_path / "note.ndjson"
    note.write_text(printed)
    result = convert_file(str(note), str(target), "ndjson", options=WriteOptions(exported_at=NOW))
    assert (result.written, result.report.refused) == (1, 0)
    converted = parse(target.read_text())
    assert isinstance(converted, dict)
    with opened(tmp_path / "home", None, "users") as m:
        m.import_files(note, adopt=True)
        imported: dict[str, Any] = dict(next(iter(m.export())))
    # Owner, times of creation and the importer differ, and so do id and signature.
    differing = {name for name in imported if imported[name] != converted.get(name)}
    assert differing == {"id", "scope", "time", "provenance", "integrity"}
    assert converted["time"]["valid_from"] == imported["time"]["valid_from"] == "2026-06-04T00:00:00Z"
    assert converted["provenance"]["source"] == imported["provenance"]["source"] == {"provider": "file"}
