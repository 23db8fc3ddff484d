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
from memoranda.bindings.files.exporters import EXPORTERS, OutgoingMemory, list_losses
from memoranda.bindings.files.importers.importer import ImportDraft, build_memory
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec
from memoranda.cli.options import TargetName
from memoranda.model.instant import Instant
from memoranda.model.memory import KINDS
from memoranda.service.exchange.report import Report
from memoranda.standards.oams.mapping import USER_KEY
from memoranda.standards.oams.memory import EXPIRES_KEY, VALID_FROM_KEY, VALID_TO_KEY
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
    # A user is the owner of a namespace, and so lies in another order.
    assert [line.rstrip(b",") for line in sorted(second.splitlines())] == [
        line.rstrip(b",") for line in sorted(first.splitlines())
    ]


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
    scope = {"user": "ada", "agent": "helper", "session": "s1", "project": "shop", "visibility": "shared"}
    store.remember("Ada drinks tea", tags=["tea", "drinks"], scope=scope, retention="P30D")
    store.remember("Bo drinks water", visibility="shared")

    def warnings(system: str) -> set[str]:
        report = Report()
        exchange.export_system(store.service, store.access, str(tmp_path / "out"), system, report)
        return {each.removeprefix(f"{system}: cannot hold ") for each in report.warnings}

    always = {"visibility (2 memories)", "original document and its signature (2 memories)"}
    assert warnings("mem0") == warnings("langgraph") == warnings("csv") == always
    # Its entities have a name, a type and texts.
    named = {
        "agent (1 memory)",
        "session (1 memory)",
        "project (1 memory)",
        "tags (1 memory)",
        "end of retention (1 memory)",
    }
    assert warnings("server-memory") == always | named | {"confidence (2 memories)", "times (2 memories)"}


@pytest.mark.parametrize("system", AGAIN)
def test_whom_a_memory_is_about_comes_back_from_every_system(store: Memoranda, tmp_path: Path, system: str) -> None:
    when = {"created": "2020-01-01T00:00:00Z", "observed": "2020-01-01T00:00:00Z", "valid_from": "2020-01-01T00:00:00Z"}
    when["valid_to"] = "2090-01-01T12:00:00Z"
    scope = {"user": "ada", "agent": "helper", "session": "s1", "project": "shop"}
    ends = {"retention": "P100YT5M"}
    store.remember("Deploys need two people", kind="procedural", tags=["ci"], scope=scope, time=when, consent=ends)
    store.remember("Plain fact")
    # What an earlier version binds it to is its own, too.
    revised = store.remember("Tea is cheap", scope={"user": "bo", "session": "s2"}).id
    (entry,) = [each for each in store.oams.list().memories if each["key"] == revised]
    store.oams.store(entry["key"], "Tea is dear")
    name = "out.csv" if system == "csv" else "out"
    report = Report()
    assert exchange.export_system(store.service, store.access, str(tmp_path / name), system, report) == 3
    assert report.refusals == []
    with Memoranda.open(tmp_path / "elsewhere") as other:
        taken = exchange.import_files(other.ump.import_items, other.owner, [str(tmp_path / name)])
        assert (taken.created, taken.refused) == (3, 0)
        found = {each.text: each.record for each in other.list()}
    assert set(found) == {"Deploys need two people", "Plain fact", "Tea is dear"}
    assert [found[text]["scope"].get("user") for text in sorted(found)] == ["ada", None, "bo"]
    if system != "server-memory":
        first = found["Deploys need two people"]
        assert (first["scope"]["agent"], first["scope"]["session"], first["kind"]) == ("helper", "s1", "procedural")
        assert first["scope"]["project"] == "ada:shop"
        assert first["time"]["valid_to"] == "2090-01-01T12:00:00.000Z"
        assert first["time"]["created"] == "2020-01-01T00:00:00.000Z"
        assert first["relations"] == [{"type": "about", "target": "tag:ci"}]
        assert "retention" in first["consent"]
        assert found["Tea is dear"]["scope"]["session"] == "s2"


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
                "scope": st.sampled_from(["shop", "a.b"]),
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
    memories = [
        build_memory(ImportDraft(where="", original={}, created=Instant(0), **each), "here", "me") for each in said
    ]
    files = []
    for _ in range(3):
        path.write_bytes(b"".join(EXPORTERS[system](memories, "me")))
        files.append(path.read_bytes())
        items = list(ImportCodec(importer, "me").items(str(path)))
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
        build_memory(
            ImportDraft(where="", id=name, text=text, user=user, original={}, created=Instant(0)), "elsewhere", "me"
        )
        for name, text, user in drafts
    ]
    path = tmp_path_factory.mktemp("out") / "file.json"
    path.write_bytes(b"".join(EXPORTERS[system](memories, "me")))
    found: list[Any] = list(ImportCodec(IMPORTERS[system], "me").items(str(path)))
    assert [each.error for each in found] == [None] * len(drafts)
    assert [each.value["value"] for each in found] == [text for _, text, _ in drafts]


NAME = st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=20).filter(
    lambda text: text == text.strip() != ""
)
MOMENT = st.integers(0, 4_000_000_000_000).map(Instant)


@pytest.mark.parametrize("system", AGAIN)
@given(
    said=st.lists(
        st.fixed_dictionaries(
            {"id": NAME, "text": NAME, "created": MOMENT},
            optional={
                "user": NAME,
                "agent": NAME,
                "scope": NAME,
                "session": NAME,
                "kind": st.sampled_from(KINDS),
                "tags": st.lists(st.sampled_from(["a", "b c", "d,e"]), max_size=2, unique=True),
                "confidence": st.sampled_from([0.0, 0.25, 1.0]),
                "valid_from": MOMENT,
                "valid_to": MOMENT,
                "expires": MOMENT,
            },
        ),
        max_size=3,
        unique_by=(lambda each: each["id"], lambda each: each["text"]),
    ),
    about=st.sampled_from(["", "kim"]),
)
def test_everything_comes_back_from_a_system_or_was_named(
    tmp_path_factory: pytest.TempPathFactory, system: str, said: list[dict[str, Any]], about: str
) -> None:
    path = tmp_path_factory.mktemp("back") / "file.csv"
    memories = [build_memory(ImportDraft(where="", original={}, **each), "here", "me") for each in said]
    if about:
        # As a memory of another standard leaves: its namespace does not say whom it is about.
        memories = [{**each, "metadata": {**each["metadata"], USER_KEY: about}} for each in memories]
    path.write_bytes(b"".join(EXPORTERS[system](memories, "me")))
    items = list(ImportCodec(IMPORTERS["table" if system == "csv" else system], "me").items(str(path)))
    assert [item.error for item in items] == [None] * len(memories)
    back = {each.text: each for each in (OutgoingMemory.of(item.value, "me") for item in items)}
    for memory in memories:
        was = OutgoingMemory.of(memory, "me")
        now = back[was.text]
        lost = list_losses(memory, system, "me")
        for part in ("user", "agent", "session", "project", "kind", "tags", "confidence"):
            assert part in lost or getattr(now, part) == getattr(was, part), part
        for part, names in TIMES.items():
            assert part in lost or [now.metadata.get(each) for each in names] == [
                was.metadata.get(each) for each in names
            ], part
        assert "times" in lost or now.memory["created_at"] == memory["created_at"]


TIMES = {"end of retention": (EXPIRES_KEY,), "time in which it is true": (VALID_FROM_KEY, VALID_TO_KEY)}


def test_what_came_from_a_system_and_changed_keeps_the_fields_that_only_it_knows(
    store: Memoranda, take: Import, tmp_path: Path
) -> None:
    source = {"namespace": ["users", "ada"], "key": "m1", "value": {"content": "likes tea", "score": 3}}
    (tmp_path / "items.jsonl").write_text(json.dumps({**source, "created_at": "2026-01-01T00:00:00Z"}) + "\n")
    take(tmp_path / "items.jsonl")
    (hit,) = store.list()
    store.revise(hit.id, relations=[{"type": "about", "target": "tag:drinks"}])
    (item,) = map(json.loads, exported(store, tmp_path / "out", "langgraph").splitlines())
    assert item["value"]["tags"] == ["drinks"]
    assert (item["value"]["content"], item["value"]["score"], item["key"]) == ("likes tea", 3, "m1")
    take(SAMPLES / "mem0" / "mem0_all.json")
    (hit,) = store.recall("pnpm", user="alice", limit=1)
    store.revise(hit.id, text="Prefers bun")
    found = json.loads(exported(store, tmp_path / "out", "mem0"))["results"]
    (changed,) = [each for each in found if each["memory"] == "Prefers bun"]
    assert (changed["metadata"]["category"], changed["role"]) == ("tools", "user")
