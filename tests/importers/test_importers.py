"""Memories of other systems: known for what they are, taken in with all that is known of them, once, and back out."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zipfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import IO, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.folder import open_regular
from memoranda.bindings.files.importers.importer import ImportDraft, build_memory, parse_moment
from memoranda.bindings.files.importers.reference import reference
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec, recognise_importer
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.cli.options import SystemName
from memoranda.errors import NotFound
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.service.exchange.importing import ImportOptions, number_items
from memoranda.standards.oams.memory import check
from memoranda.standards.ump.rules import retention_end
from tests.importers.conftest import SAMPLES, Import

# What each sample is, how many memories and users it has, a question, and what answers it.
SAMPLED = [
    ("mem0/mem0_all.json", "mem0", 5, 2, "Does she prefer pnpm?", "Prefers pnpm over npm"),
    ("mem0/mem0_list.json", "mem0", 5, 2, "Where does Tom live, in Hamburg?", "Lives in Hamburg"),
    ("mem0/hist.db", "mem0", 5, 0, "allergic to peanuts", "Is allergic to peanuts"),
    ("langgraph/langgraph.db", "langgraph", 3, 2, "pnpm or npm", "Prefers pnpm over npm"),
    ("langgraph/langgraph.jsonl", "langgraph", 3, 2, "Tom's city Hamburg", "name: Tom\ncity: Hamburg"),
    ("server-memory/memory.jsonl", "server-memory", 6, 0, "Who manages Harbor?", "Alice manages Harbor"),
]


def test_the_command_names_every_importer() -> None:
    assert set(get_args(SystemName)) == set(IMPORTERS)


def test_the_page_of_mappings_is_as_the_importers_are() -> None:
    page = Path(__file__).parents[2] / "docs" / "standards" / "mapping.md"
    assert page.read_text(encoding="utf-8") == reference(), "python -m memoranda.bindings.files.importers.reference"


@pytest.mark.parametrize(("name", "system", "count", "users", "question", "answer"), SAMPLED)
def test_what_real_tools_exported_is_recognised_and_answers(
    store: Memoranda, take: Import, name: str, system: str, count: int, users: int, question: str, answer: str
) -> None:
    path = SAMPLES / name
    found = recognise_importer(path)
    assert found is not None
    assert found.name == system
    survey = ImportCodec(found).survey(str(path))
    assert (survey.memories, survey.users, survey.unreadable) == (count, users, 0)
    report = take(path)
    assert (report.created, report.refused) == (count, 0)
    assert answer in [hit.text for hit in store.recall(question, limit=3)]


@pytest.mark.parametrize("name", [name for name, *_ in SAMPLED])
def test_a_second_import_changes_nothing(take: Import, name: str) -> None:
    count = take(SAMPLES / name).created
    again = take(SAMPLES / name)
    assert (again.created, again.updated, again.unchanged, again.refused) == (0, 0, count, 0)


@pytest.mark.requirement("OAMS-7-mem0", "OAMS-7-converters")
def test_a_memory_of_mem0_says_whose_it_is_where_it_came_from_and_in_which_role(store: Memoranda, take: Import) -> None:
    take(SAMPLES / "mem0" / "mem0_all.json")
    memory = store.oams.get("131544b2-5286-456a-93e5-5517dc0bb0cd", namespace="alice:mem0").memory
    assert memory["metadata"]["mem0_role"] == "user"
    assert memory["created_at"] == "2026-11-15T16:53:42.120Z"
    original = json.loads((SAMPLES / "mem0" / "mem0_all.json").read_text(encoding="utf-8"))["results"][0]
    origin = memory["metadata"]["imported_from"]
    assert (origin["system"], origin["id"], origin["document"]) == ("mem0", original["id"], original)
    assert store.recall("peanuts", user="alice")[0].text == "Is allergic to peanuts"


def test_a_folder_with_files_of_several_systems_is_read_file_by_file(take: Import, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("mem0/mem0_all.json", "mem0/hist.db", "langgraph/langgraph.db"):
        shutil.copy(SAMPLES / name, tmp_path / "folder")
    assert take(tmp_path / "folder").created == 5 + 5 + 3


@pytest.mark.requirement("OAMS-7-mem0")
def test_messages_and_relations_of_mem0_are_taken_in_too(store: Memoranda, take: Import, tmp_path: Path) -> None:
    export = {
        "memories": [{"id": "m1", "memory": "Likes tea", "user_id": "ada", "created_at": "2026-01-02T03:04:05Z"}],
        "messages": [{"id": "x1", "role": "assistant", "content": "Noted: tea", "user_id": "ada", "run_id": "r9"}],
        "relations": [{"source": "ada", "relationship": "works_at", "target": "Harbor", "user_id": "ada"}],
    }
    path = tmp_path / "export.json"
    path.write_text(json.dumps(export), encoding="utf-8")
    assert take(path).created == 3
    said = store.oams.get("x1", namespace="ada:mem0").memory
    assert (said["value"], said["metadata"]["mem0_role"]) == ("Noted: tea", "assistant")
    assert said["metadata"]["memoranda:kind"] == "episodic"
    assert "ada works at Harbor" in [hit.text for hit in store.recall("Where does Ada work, at Harbor?")]


@pytest.mark.requirement("OAMS-7-mem0")
def test_a_memory_of_mem0_ends_on_its_expiration_date(store: Memoranda, take: Import, tmp_path: Path) -> None:
    told = {"user_id": "ada", "created_at": "2026-01-02T03:04:05Z"}
    memories = [
        {**told, "id": "m1", "memory": "The parking permit is on the desk", "expiration_date": "2026-02-01"},
        {**told, "id": "m2", "memory": "The parking garage is in Bay Street", "expiration_date": "2090-01-01"},
        {**told, "id": "m3", "memory": "The parking fee is paid"},
    ]
    (tmp_path / "export.json").write_text(json.dumps(memories), encoding="utf-8")
    assert take(tmp_path / "export.json").created == 3
    found = {hit.text: hit.record for hit in store.recall("Where is the parking permit, garage or fee?")}
    assert set(found) == {"The parking garage is in Bay Street", "The parking fee is paid"}
    ends = retention_end(found["The parking garage is in Bay Street"])
    assert ends == parse_instant("2090-01-01T00:00:00Z")
    assert retention_end(found["The parking fee is paid"]) is None


@pytest.mark.requirement("OAMS-7-mem0")
@pytest.mark.parametrize(("event", "is_deleted"), [("DELETE", 0), ("UPDATE", 1), ("DELETE", 1)])
def test_what_the_history_of_mem0_says_was_deleted_is_not_taken_in(
    store: Memoranda, take: Import, tmp_path: Path, event: str, is_deleted: int
) -> None:
    path = tmp_path / "history.db"
    shutil.copy(SAMPLES / "mem0" / "hist.db", path)
    row = ("x", "131544b2-5286-456a-93e5-5517dc0bb0cd", "Is allergic to peanuts", "Is allergic to nuts", event)
    with closing(sqlite3.connect(path)) as database, database:
        times = ("2026-11-16T00:00:00+00:00", "2026-11-16T00:00:00+00:00")
        database.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)", (*row, *times, is_deleted))
    report = take(path)
    assert (report.created, report.refused) == (4, 0)
    assert not any("allergic" in each.text for each in store.list())


def test_a_later_export_brings_only_what_is_new_or_changed(store: Memoranda, take: Import, tmp_path: Path) -> None:
    path = tmp_path / "mem0.json"
    documents = json.loads((SAMPLES / "mem0" / "mem0_list.json").read_text(encoding="utf-8"))
    path.write_text(json.dumps(documents), encoding="utf-8")
    take(path)
    documents[0] |= {"memory": "Is allergic to peanuts and nuts", "updated_at": "2026-11-15T18:00:00+00:00"}
    documents.append({"id": "new", "memory": "Plays chess", "user_id": "alice", "created_at": "2026-11-15T18:00:00Z"})
    path.write_text(json.dumps(documents), encoding="utf-8")
    foreseen, report = take(path, options=ImportOptions(is_dry=True)), take(path)
    for each in (foreseen, report):
        assert (each.created, each.updated, each.unchanged, each.refused) == (1, 1, 4, 0)
    assert (
        store.oams.get(documents[0]["id"], namespace="alice:mem0").memory["value"] == "Is allergic to peanuts and nuts"
    )


def test_an_import_is_taken_back_as_a_whole(store: Memoranda, take: Import, tmp_path: Path) -> None:
    own = store.remember("Mine, before")
    path = tmp_path / "mem0.json"
    documents = json.loads((SAMPLES / "mem0" / "mem0_list.json").read_text(encoding="utf-8"))
    path.write_text(json.dumps(documents), encoding="utf-8")
    take(path)
    documents[0] |= {"memory": "Changed there", "updated_at": "2026-11-15T18:00:00+00:00"}
    documents.append({"id": "new", "memory": "New there", "user_id": "alice", "created_at": "2026-11-15T18:00:00Z"})
    path.write_text(json.dumps(documents), encoding="utf-8")
    take(path)
    undone = store.ump.undo_import()
    assert (undone.forgotten, undone.restored, undone.left) == (1, 1, 0)
    assert store.oams.get(documents[0]["id"], namespace="alice:mem0").memory["value"] == "Is allergic to peanuts"
    assert store.ump.undo_import().forgotten == 5
    assert [each.id for each in store.list()] == [own.id]
    with pytest.raises(NotFound):
        store.ump.undo_import()


def test_imports_are_listed_and_one_is_taken_back_by_its_name(store: Memoranda, take: Import) -> None:
    totals: list[int] = []
    take(SAMPLES / "mem0" / "mem0_all.json", observers=exchange.ImportObservers(on_count=totals.append))
    take(SAMPLES / "server-memory" / "memory.jsonl", observers=exchange.ImportObservers(on_count=totals.append))
    # The progress bar knows how many there are before the first is written.
    assert totals == [5, 6]
    last, first = store.ump.imports()
    assert [each["written"] for each in (first, last)] == totals
    assert first["what"].endswith("mem0_all.json")
    undone = store.undo_import(first["import"])
    assert (undone.id, undone.forgotten, undone.left) == (first["import"], 5, 0)
    assert store.ump.imports() == [last]
    assert {each.text.partition(":")[0] for each in store.list()} >= {"Alice"}
    with pytest.raises(NotFound, match="there is no import"):
        store.undo_import(first["import"])


def test_what_was_changed_since_is_not_taken_back(store: Memoranda, take: Import) -> None:
    take(SAMPLES / "server-memory" / "memory.jsonl")
    (hit,) = store.recall("pnpm", limit=1)
    store.revise(hit.id, text="Alice: prefers bun now")
    undone = store.ump.undo_import()
    assert (undone.forgotten, undone.left) == (5, 1)
    assert [each.text for each in store.list()] == ["Alice: prefers bun now"]


def test_when_it_was_true_and_where_it_was_said_hold_through_other_standards(store: Memoranda) -> None:
    draft = ImportDraft(
        where="here",
        id="a",
        text="Lives in Hamburg",
        original={},
        session="s1",
        created=parse_instant("2026-01-05T00:00:00Z"),
        valid_from=parse_instant("2020-01-01T00:00:00Z"),
        valid_to=parse_instant("2024-01-01T00:00:00Z"),
    )
    store.service.import_items(store.access, number_items("oams", [build_memory(draft, "zep", "ada")]))
    assert not store.recall("Hamburg")
    (hit,) = store.recall("Hamburg", valid_at="2022-06-01T00:00:00Z")
    assert hit.record["scope"]["session"] == "s1"
    assert hit.record["time"]["valid_to"] == "2024-01-01T00:00:00.000Z"


# --- what is broken or hostile ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.json", b'{"results": [{"id": "1", "memory": "a", "hash": "h"}, {"id": "2", "mem'),
        ("nothing.json", b""),
        ("binary.db", b"SQLite format 3\x00" + bytes(200)),
        ("cut.db", (SAMPLES / "mem0" / "hist.db").read_bytes()[:5_000]),
        ("cut.zip", b"PK\x03\x04" + b"\xff" * 100),
        ("deep.json", b'{"results": ' + b"[" * 100_000),
        ("latin.jsonl", '{"type":"entity","name":"é","observations":["ü"]}'.encode("latin-1")),
    ],
)
def test_what_cannot_be_read_is_refused_by_name_and_nothing_is_taken_in(
    store: Memoranda, take: Import, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    report = take(path)
    assert report.created == 0
    assert all(name in each.where for each in report.refusals)
    assert report.refused or not content
    assert not list(store.list())


def test_a_bad_one_among_good_ones_is_refused_with_its_place(take: Import, tmp_path: Path) -> None:
    documents: list[Any] = [{"id": "1", "memory": "good", "hash": "h"}, {"id": "2"}, 7, {"memory": "no id"}]
    path = tmp_path / "some.json"
    path.write_text(json.dumps(documents), encoding="utf-8")
    report = take(path)
    assert (report.created, report.refused) == (1, 3)
    assert [each.where.rpartition(":")[2] for each in report.refusals] == ["2", "3", "4"]


def test_a_database_with_views_triggers_and_odd_types_is_only_read(take: Import, tmp_path: Path) -> None:
    path = tmp_path / "evil.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            """
            CREATE TABLE store (prefix text, key text, value text, created_at text);
            INSERT INTO store VALUES ('users.ada', 'k1', '{"text": "good"}', '2026-01-01 00:00:00');
            INSERT INTO store VALUES ('users.ada', 'k2', x'ff00', '2026-01-01 00:00:00');
            INSERT INTO store VALUES (NULL, NULL, NULL, NULL);
            CREATE TRIGGER t AFTER INSERT ON store BEGIN SELECT load_extension('x'); END;
            CREATE VIEW history AS SELECT randomblob(1000000000) AS memory_id, 1 AS old_memory, 1 AS new_memory;
            """
        )
    database.close()
    before = path.read_bytes()
    report = take(path)
    assert (report.created, report.refused) == (1, 2)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir() if each.name != "home"] == ["evil.db"]


def test_members_of_an_archive_are_read_in_place_and_a_bomb_is_not(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("good.json", "[1]")
        archive.writestr("../outside.json", "[2]")
        archive.writestr("bomb.json", b" " * 50_000_000)
    source = ImportSource(path)
    assert set(source.members) == {"good.json", "bomb.json"}
    assert source.read_bytes("good.json") == b"[1]"
    with pytest.raises(Exception, match="not unpacked"):
        source.read_bytes("bomb.json")
    assert [each.name for each in tmp_path.iterdir()] == ["export.zip"]


def test_an_archive_is_opened_as_often_for_many_notes_as_for_a_few(
    store: Memoranda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory names every member: to read it for each of them takes time with the square of their number."""
    opened: Counter[Path] = Counter()

    def counted(path: Path) -> IO[bytes]:
        opened[path] += 1
        return open_regular(path)

    monkeypatch.setattr("memoranda.bindings.files.importers.source.open_regular", counted)
    for count in (3, 60):
        path = tmp_path / f"{count}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(count):
                archive.writestr(f"{count}/{number}.md", f"The harbour has berth {number} of {count}.")
        report = exchange.import_files(
            store.ump.import_items,
            store.owner,
            [str(path)],
            observers=exchange.ImportObservers(on_survey=lambda *_: None),
        )
        assert (report.created, report.refused) == (count, 0)
    few, many = opened[tmp_path / "3.zip"], opened[tmp_path / "60.zip"]
    assert many == few


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_refused_by_name(store: Memoranda, take: Import, tmp_path: Path, packing: int) -> None:
    path = tmp_path / "export.zip"
    said = json.dumps([{"uuid": "c", "chat_messages": [{"uuid": "m", "sender": "human", "text": "x" * 40}]}])
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("conversations.json", said)
    whole = path.read_bytes()
    start = 30 + len("conversations.json")
    for place in range(start, min(start + 60, whole.index(b"PK\x01\x02"))):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        report = take(path, form="claude", options=ImportOptions(is_dry=True))
        # A bit that means nothing may be another; whatever it damages is told, and once.
        assert report.refused == 1 or report.created == 1
        assert all("export.zip" in each.where for each in report.refusals)
    # Encrypted, and packed in a way that nobody knows: bits and numbers in both heads.
    for place, number in ((6, 1), (8, 99)):
        path.write_bytes(_with_head(whole, place, number))
        report = take(path, form="claude")
        assert (report.created, report.refused) == (0, 1)
    assert not list(store.list())


def _with_head(archive: bytes, place: int, number: int) -> bytes:
    """An archive of one member with another number in its head, and in the list of members, where it lies two later."""
    listed = archive.index(b"PK\x01\x02") + place + 2
    made = bytearray(archive)
    made[place : place + 2] = made[listed : listed + 2] = number.to_bytes(2, "little")
    return bytes(made)


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.md").symlink_to(tmp_path / "secret")
    (folder / "note.md").write_text("y", encoding="utf-8")
    assert set(ImportSource(folder).members) == {"note.md"}


TEXT = st.text(max_size=20)


@given(id=st.text(min_size=1), text=st.text(), user=TEXT, scope=TEXT, session=TEXT, tags=st.lists(TEXT, max_size=3))
def test_whatever_another_system_calls_things_the_memory_is_one_of_oams(**fields: Any) -> None:
    draft = ImportDraft(where="", original={"a": 1}, created=Instant(0), updated=Instant(-5), **fields)
    try:
        text = draft.text.encode("utf-8").decode("utf-8")
    except UnicodeEncodeError:
        return
    memory, warnings = check(build_memory(draft, "system", "ada"), complete=True)
    assert memory["value"] == text
    assert warnings == ()


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_times_are_read_as_systems_write_them(at: int) -> None:
    written = format_instant(at)
    for form in (written, written.replace("T", " "), written[:-1], written[:-1] + "+00:00", written[:-1] + "+0000"):
        assert parse_moment(form) == at
    assert parse_moment(written[:10]) == at // 86_400_000 * 86_400_000
    if abs(at) >= 100_000_000_000:
        assert parse_moment(at) == at
