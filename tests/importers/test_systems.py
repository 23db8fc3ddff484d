"""The systems that OAMS 7 names beside Mem0: Zep and Graphiti, MemPalace, and REM.

The samples were made by the real tools: `zep.json` by the models of zep-python 2.0, `graphiti.json` by those of
graphiti-core 0.31, the palace by MemPalace 3.11. REM has no public export: its file is written from the fields of its
API and the words of OAMS 7, and so is the graph of MemPalace with `nodes` and `edges`.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from memoranda import Memoranda
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec, recognise_importer
from tests.importers.conftest import SAMPLES, take_known, written

REM_EXPORT = {
    "memories": [
        {
            "key": "m1",
            "value": "Ada drinks tea in the morning",
            "namespace": "prefs",
            "created_at": "2026-02-01T08:00:00Z",
        },
        {"key": "m2", "value": "Ada drinks tea at night", "namespace": "prefs", "created_at": "2026-02-02T22:00:00Z"},
    ],
    "dreams": [
        {
            "id": "d1",
            "strategy": "pattern_extract",
            "insight": "Ada drinks tea at any hour",
            "inputs": ["m1", {"key": "m2"}],
            "namespace": "prefs",
            "run_id": "9b2c7f7e-1f53-4c5e-9d0c-3f1c2a4b5d6e",
            "created_at": "2026-02-03T03:00:00Z",
        },
        {"id": "d2", "strategy": "contradict", "insight": "Tea, not coffee", "inputs": ["m1"], "namespace": "prefs"},
        {"id": "d3", "insight": "says no strategy"},
    ],
}
PALACE_GRAPH = {
    "nodes": [
        {
            "id": "kitchen",
            "content": "The kitchen of the old house",
            "wing": "home",
            "created_at": "2026-01-01T00:00:00Z",
        },
        {"id": "oven", "content": "The oven is broken", "wing": "home", "created_at": "2026-01-02T00:00:00Z"},
        {"id": "fuse", "content": "The fuse blew", "wing": "home", "created_at": "2026-01-03T00:00:00Z"},
        {"content": "has no id"},
    ],
    "edges": [
        {"source": "kitchen", "target": "oven", "type": "contains"},
        {"source": "fuse", "target": "oven", "type": "explains"},
        {"source": "oven", "target": "fuse", "type": "needs"},
        "not an edge",
    ],
}


@pytest.mark.requirement("OAMS-7-zep", "OAMS-7-converters")
def test_a_session_of_zep_is_a_scope_and_its_messages_have_roles(shared: Memoranda) -> None:
    report = take_known(shared, SAMPLES / "zep" / "zep.json", "zep")
    assert (report.created, report.refused) == (4, 0)
    namespace = "ada:trip-planning"
    said = shared.oams.get("a0000000-0000-4000-8000-000000000001", namespace=namespace).memory
    assert said["value"] == "Ada: I am vegetarian and fly on Friday."
    assert said["metadata"]["zep_role"] == "user"
    assert said["metadata"]["memoranda:session"] == "trip-planning"
    assert said["created_at"] == "2026-03-01T09:00:00.000Z"
    summary = shared.oams.get("b0000000-0000-4000-8000-000000000001", namespace=namespace).memory
    assert summary["metadata"]["dream_strategy"] == "compress"
    assert summary["parent_id"] == "a0000000-0000-4000-8000-000000000001"
    assert "Ada is vegetarian" in [hit.text for hit in shared.recall("Is Ada vegetarian?", user="ada")]


@pytest.mark.requirement("OAMS-7-zep")
def test_a_fact_of_graphiti_keeps_its_four_times(shared: Memoranda) -> None:
    report = take_known(shared, SAMPLES / "zep" / "graphiti.json", "zep")
    assert (report.created, report.refused, report.warned) == (6, 0, 0)
    namespace = shared.oams.namespace("ada")
    left = shared.oams.get("f0000000-0000-4000-8000-000000000001", namespace=str(namespace)).memory
    assert left["metadata"]["memoranda:valid_from"] == "2020-01-01T00:00:00.000Z"
    assert left["metadata"]["memoranda:valid_to"] == "2026-02-01T00:00:00.000Z"
    assert (left["created_at"], left["updated_at"]) == ("2025-06-01T08:00:00.000Z", "2026-03-01T09:00:07.000Z")
    assert left["parent_id"] == "e1a0c1d2-0000-4000-8000-000000000001"
    node = shared.oams.get("n0000000-0000-4000-8000-00000000000a", namespace=str(namespace)).memory
    assert (node["value"], node["tags"]) == ("Ada: Ada is an engineer who moved to Lisbon.", ["person"])
    now = [hit.text for hit in shared.recall("Where does Ada live?")]
    assert "Ada lives in Lisbon" in now
    assert "Ada lives in Hamburg" not in now
    then = [hit.text for hit in shared.recall("Where does Ada live?", valid_at="2021-01-01T00:00:00Z")]
    assert "Ada lives in Hamburg" in then


@pytest.mark.requirement("OAMS-7-zep")
def test_a_fact_of_zep_that_expired_is_true_no_more(shared: Memoranda, tmp_path: Path) -> None:
    told = {"created_at": "2026-05-01T00:00:00Z", "valid_at": "2026-05-01T00:00:00Z", "invalid_at": None}
    edges = [
        {**told, "uuid": "edge-old", "fact": "Mia rents a canoe", "expired_at": "2026-06-01T00:00:00Z"},
        {**told, "uuid": "edge-new", "fact": "Mia owns a canoe", "expired_at": None},
    ]
    assert take_known(shared, written(tmp_path, edges), "zep").created == 2
    assert [hit.text for hit in shared.recall("Mia canoe")] == ["Mia owns a canoe"]
    then = {hit.text for hit in shared.recall("Mia canoe", valid_at="2026-05-15T00:00:00Z")}
    assert then == {"Mia rents a canoe", "Mia owns a canoe"}


@pytest.mark.requirement("OAMS-7-zep")
def test_answers_of_zep_are_read_in_every_shape(shared: Memoranda, tmp_path: Path) -> None:
    messages = [{"uuid": "q1", "thread_id": "t1", "role": "user", "role_type": "user", "content": "The gate is B 22"}]
    facts = ["The flight leaves from gate B 22"]
    document = {
        "threads": [{"thread_id": "t1", "user_id": "bo", "facts": facts}],
        "messages": [*messages, 7, {"uuid": 1}],
    }
    report = take_known(shared, written(tmp_path, document), "zep")
    assert (report.created, report.refused) == (2, 2)
    assert shared.oams.get("q1", namespace="bo:t1").memory["metadata"]["zep_role"] == "user"
    assert [each.where.rpartition("/")[2] for each in report.refusals] == [
        "export.json: messages 2",
        "export.json: messages 3",
    ]
    edges = [{"uuid": "edge-9", "fact": "Bo flies to Oslo", "created_at": "2026-05-01T00:00:00Z", "valid_at": None}]
    assert take_known(shared, written(tmp_path, edges), "zep").created == 1


@pytest.mark.requirement("OAMS-7-mempalace", "OAMS-7-converters")
def test_a_palace_has_a_memory_for_each_drawer_entity_and_statement(shared: Memoranda) -> None:
    report = take_known(shared, SAMPLES / "mempalace", "mempalace")
    assert (report.created, report.refused) == (9, 0)
    # The palace's databases are in WAL mode, and reading them leaves nothing beside them.
    assert sorted(each.name for each in (SAMPLES / "mempalace").iterdir()) == [
        "chroma.sqlite3",
        "knowledge_graph.sqlite3",
    ]
    drawer = shared.oams.get("drawer_harbor_decisions_1", namespace=str(shared.oams.namespace("harbor"))).memory
    assert (drawer["tags"], drawer["source_id"]) == (["decisions"], "notes/db.md")
    assert drawer["created_at"] == "2026-03-01T10:00:00.000Z"
    scope = str(shared.oams.namespace("mempalace"))
    statement = shared.oams.get("t_max_loves_chess_426b377f8e88", namespace=scope).memory
    assert (statement["value"], statement["parent_id"]) == ("Max loves chess", "max")
    assert statement["metadata"]["mempalace_edge_type"] == "loves"
    assert statement["metadata"]["confidence"] == 0.9
    assert shared.oams.get("max", namespace=scope).memory["value"] == "Max is a person\nage: 11"
    assert "Max has issue sports_injury" not in [hit.text for hit in shared.recall("What sports injury has Max?")]
    then = shared.recall("What sports injury has Max?", valid_at="2026-01-20T00:00:00Z")
    assert "Max has issue sports_injury" in [hit.text for hit in then]


def test_what_mempalace_exports_as_markdown_are_the_same_drawers(shared: Memoranda, tmp_path: Path) -> None:
    report = take_known(shared, SAMPLES / "mempalace-export", "mempalace")
    assert (report.created, report.refused) == (2, 0)
    said = shared.oams.get("drawer_2", namespace=str(shared.oams.namespace("attic"))).memory
    assert said["value"] == "The key hangs\n\n## behind the clock"
    assert (said["tags"], said["created_at"]) == (["keys / spare"], "2026-03-02T10:00:00.000Z")
    broken = tmp_path / "export"
    shutil.copytree(SAMPLES / "mempalace-export", broken)
    (broken / "attic" / "odd.md").write_text("# attic / odd\n\n## drawer_9\n\nno quotation\n", encoding="utf-8")
    (item,) = (each for each in ImportCodec(IMPORTERS["mempalace"]).items(str(broken)) if each.error)
    assert item.where.endswith("attic/odd.md: section 1")


def test_a_database_that_only_looks_like_a_palace_is_none(tmp_path: Path) -> None:
    path = tmp_path / "chroma.sqlite3"
    with sqlite3.connect(path) as database:
        database.executescript(
            """
            CREATE TABLE collections (name text);
            INSERT INTO collections VALUES ('mempalace_drawers');
            CREATE TABLE segments (x); CREATE TABLE embeddings (x); CREATE TABLE embedding_metadata (x);
            """
        )
    database.close()
    assert recognise_importer(path) is None
    assert list(ImportCodec(IMPORTERS["mempalace"]).items(str(path))) == []


@pytest.mark.requirement("OAMS-7-mempalace")
def test_nodes_of_a_palace_are_memories_and_edges_are_parents(shared: Memoranda, tmp_path: Path) -> None:
    report = take_known(shared, written(tmp_path, PALACE_GRAPH), "mempalace")
    assert (report.created, report.refused) == (3, 1)
    oven, fuse = (
        shared.oams.get(each, namespace=str(shared.oams.namespace("home"))).memory for each in ("oven", "fuse")
    )
    assert (oven["parent_id"], oven["metadata"]["mempalace_edge_type"]) == ("kitchen", "contains")
    assert [each["type"] for each in oven["metadata"]["mempalace_edges"]] == ["contains", "explains"]
    # A circle of edges is no harm.
    assert (fuse["parent_id"], fuse["metadata"]["mempalace_edge_type"]) == ("oven", "needs")


@pytest.mark.requirement("OAMS-7-rem", "OAMS-7-converters")
def test_a_dream_of_rem_keeps_its_strategy_and_what_it_was_made_from(shared: Memoranda, tmp_path: Path) -> None:
    report = take_known(shared, written(tmp_path, REM_EXPORT), "rem")
    assert (report.created, report.refused) == (4, 1)
    namespace = str(shared.oams.namespace("prefs"))
    dream = shared.oams.get("d1", namespace=namespace).memory
    assert dream["metadata"]["dream_strategy"] == "pattern_extract"
    assert dream["metadata"]["dream_inputs"] == [[namespace, "m1"], [namespace, "m2"]]
    assert dream["metadata"]["dream_run_id"] == "9b2c7f7e-1f53-4c5e-9d0c-3f1c2a4b5d6e"
    assert dream["parent_id"] == "m1"
    assert shared.oams.get("d2", namespace=namespace).memory["metadata"]["dream_strategy"] == "vendor:contradict"
    assert "Ada drinks tea at any hour" in [hit.text for hit in shared.recall("When does Ada drink tea?")]
