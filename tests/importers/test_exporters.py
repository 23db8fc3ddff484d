"""Out to other systems and in again: nothing that they can carry is lost, and a second export is the same file."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoranda import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.exporters import EXPORTERS
from memoranda.bindings.files.importers.importer import Draft, memory_of
from memoranda.bindings.files.importers.registry import IMPORTERS, Foreign
from memoranda.cli.formats import TargetName
from memoranda.model.instant import Instant
from memoranda.service.report import Report
from tests.importers.conftest import SAMPLES, Import

AGAIN = list(EXPORTERS)


def exported(store: Memoranda, target: Path, system: str) -> bytes:
    exchange.export_system(store.service, store.access, str(target), system, Report())
    return target.read_bytes()


def test_the_command_names_every_exporter() -> None:
    assert set(get_args(TargetName)) == set(EXPORTERS)


@pytest.mark.parametrize("system", AGAIN)
def test_what_left_comes_in_elsewhere_and_leaves_the_same(
    store: Memoranda, take: Import, tmp_path: Path, system: str
) -> None:
    for sample in ("mem0/mem0_all.json", "langgraph/langgraph.db", "server-memory/memory.jsonl"):
        take(SAMPLES / sample)
    store.remember("Deploys on Fridays need two people", user="ada", session="s1", tags=["deploy"])
    store.remember("-12 degrees in the cellar", kind="episodic", confidence=0.5)
    # A table is known by its name.
    name = "out.csv" if system == "csv" else "out"
    first = exported(store, tmp_path / name, system)
    with Memoranda.open(tmp_path / "elsewhere", owner=store.owner) as other:
        report = exchange.import_files(other.ump.import_items, other.owner, [str(tmp_path / name)])
        assert report.refused == 0
        there = {each.text for each in other.list(limit=100)}
        assert any("Deploys on Fridays need two people" in text for text in there)
        second = exported(other, tmp_path / "second", system)
    # To LangGraph a place is a path, by which they lie in another order.
    assert (second == first) if system != "langgraph" else sorted(second.splitlines()) == sorted(first.splitlines())


def test_what_came_from_mem0_leaves_as_it_came_unless_it_was_changed(
    store: Memoranda, take: Import, tmp_path: Path
) -> None:
    take(SAMPLES / "mem0" / "mem0_all.json")
    (hit,) = store.recall("peanuts", user="alice", limit=1)
    store.revise(hit.id, text="Is allergic to nuts")
    found = {each["id"]: each for each in json.loads(exported(store, tmp_path / "out", "mem0"))["results"]}
    came = json.loads((SAMPLES / "mem0" / "mem0_all.json").read_text(encoding="utf-8"))["results"]
    changed, *rest = came
    assert [found[each["id"]] for each in rest] == rest
    assert found[changed["id"]]["memory"] == "Is allergic to nuts"
    assert found[changed["id"]]["user_id"] == "alice"


def test_what_a_system_has_no_place_for_is_counted(store: Memoranda, tmp_path: Path) -> None:
    store.remember("Ada drinks tea", tags=["tea", "drinks"], visibility="shared")
    store.remember("Bo drinks water", visibility="shared")
    report = Report()
    exchange.export_system(store.service, store.access, str(tmp_path / "out"), "mem0", report)
    assert "mem0: no place there for visibility (of 2)" in report.warnings
    assert "mem0: no place there for tags (of 1)" in report.warnings


def test_what_consent_keeps_here_does_not_leave(store: Memoranda, tmp_path: Path) -> None:
    store.remember("secret plan", consent={"exportable": False})
    store.remember("open plan")
    report = Report()
    count = exchange.export_system(store.service, store.access, str(tmp_path / "out"), "csv", report)
    assert (count, report.kept) == (1, 1)
    assert b"secret plan" not in (tmp_path / "out").read_bytes()


def test_a_table_has_every_memory_once_and_no_formula(store: Memoranda, tmp_path: Path) -> None:
    store.remember('=HYPERLINK("http://x")\nand more', tags=["a", "b"], kind="procedural")
    exported(store, tmp_path / "out.csv", "csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["text"] == '\'=HYPERLINK("http://x")\nand more'
    assert (row["kind"], row["tags"]) == ("procedural", "a;b")


TEXT = st.text(min_size=1, max_size=30).filter(lambda text: bool(text.strip()))


@pytest.mark.parametrize("system", AGAIN)
@example(said=[{"id": "0", "text": "0", "user": "", "tags": [";"]}])
@example(said=[{"id": "0", "text": "0", "user": "", "tags": ["a\r;", "b,c"]}])
@given(
    said=st.lists(
        st.fixed_dictionaries(
            {"id": TEXT, "text": TEXT, "user": st.sampled_from(["", "ada", "a b"])},
            optional={
                "place": st.sampled_from(["shop", "a.b"]),
                "session": TEXT,
                "kind": st.sampled_from(["episodic", "procedural"]),
                "tags": st.lists(TEXT, max_size=2),
                "confidence": st.sampled_from([0.25, 1.0]),
                "updated": st.just(Instant(86_400_000)),
            },
        ),
        max_size=4,
        unique_by=lambda each: each["id"],
    )
)
def test_what_left_leaves_again_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, system: str, said: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("again") / "file.csv"
    importer = IMPORTERS["table" if system == "csv" else system]
    memories = [memory_of(Draft(where="", original={}, created=Instant(0), **each), "here", "me") for each in said]
    files = []
    for _ in range(3):
        path.write_bytes(b"".join(EXPORTERS[system](memories, "me")))
        files.append(path.read_bytes())
        items = list(Foreign(importer, "me").items(str(path)))
        assert [item.error for item in items] == [None] * len(items), files
        memories = [item.value for item in items]
    assert files[1] == files[0]
    assert files[2] == files[1]


@pytest.mark.parametrize("system", ["mem0", "langgraph"])
@given(
    drafts=st.lists(st.tuples(TEXT, TEXT, st.sampled_from(["", "ada", "a b"])), max_size=4, unique_by=lambda d: d[0])
)
def test_any_text_comes_back_from_a_file_of_another_system(
    tmp_path_factory: pytest.TempPathFactory, system: str, drafts: list[tuple[str, str, str]]
) -> None:
    memories = [
        memory_of(Draft(where="", id=name, text=text, user=user, original={}, created=Instant(0)), "elsewhere", "me")
        for name, text, user in drafts
    ]
    path = tmp_path_factory.mktemp("out") / "file.json"
    path.write_bytes(b"".join(EXPORTERS[system](memories, "me")))
    found: list[Any] = list(Foreign(IMPORTERS[system], "me").items(str(path)))
    assert [each.error for each in found] == [None] * len(drafts)
    assert [each.value["value"] for each in found] == [text for _, text, _ in drafts]
