"""SQLite keeps the contract, and what only a file can get wrong."""

from __future__ import annotations

import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.keys import MasterKeyFile
from memoranda.measures import WRITER_WAIT, totals
from memoranda.model.selection import UPDATED, WRITTEN, Order, PageCursor, Selection
from memoranda.storage.crypto.cipher import RingCipher
from memoranda.storage.engine import contract as engine_module
from memoranda.storage.engine.contract import Engine
from memoranda.storage.engine.database import SQLITE, Connection, load_queries
from memoranda.storage.engine.deletion import DELETED_TABLES
from memoranda.storage.engine.rows import (
    NewChangeRow,
    NewFacetRow,
    NewMeasureRow,
    NewNameRow,
    NewStateRow,
    NewVersionRow,
)
from memoranda.storage.engine.selection import SelectionSql, TextKeys
from memoranda.storage.engine.sql_engine import SqlEngine
from memoranda.storage.engine.write_queue import LATER_SECONDS
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.heads import ChainEnds
from memoranda.storage.sqlite.keys import SqliteKeyRing
from tests.storage.contract import NOW, EngineContract, document, matches, projection, seal
from tests.storage.contract_background import BackgroundContract
from tests.storage.contract_facts import FactsContract
from tests.storage.contract_groups import GroupContract
from tests.storage.contract_lists import ListsContract
from tests.waiting import HANG_SECONDS, until


class TestSqliteFile(EngineContract, ListsContract, FactsContract, BackgroundContract, GroupContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = SqlEngine(SqliteDatabase(tmp_path / "store.db"), seal)
        yield engine
        engine.close()


class TestSqliteInMemory(EngineContract, ListsContract, FactsContract, BackgroundContract, GroupContract):
    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        engine = SqlEngine(SqliteDatabase(None), seal)
        yield engine
        engine.close()


class TestSqliteEncrypted(EngineContract, ListsContract, FactsContract, BackgroundContract, GroupContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        cipher = RingCipher(SqliteKeyRing(tmp_path / "ring.db"), MasterKeyFile(tmp_path / "master.key"), "all")
        engine = SqlEngine(SqliteDatabase(tmp_path / "store.db"), seal, cipher, document_key=b"documents")
        yield engine
        engine.close()


def test_a_store_survives_being_closed_and_opened(tmp_path: Path) -> None:
    for expected in (0, 1, 2):
        engine = SqlEngine(SqliteDatabase(tmp_path / "store.db"), seal)
        with engine.open_snapshot("ada") as snapshot:
            assert len(matches(snapshot, "apple", Selection(at=NOW)).hits) == expected
        engine.write("ada", lambda unit: unit.append(document("n"), projection("apple"), now=NOW))
        engine.close()


@pytest.mark.parametrize("is_patient", [True, False])
def test_whoever_still_reads_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_patient: bool
) -> None:
    path = tmp_path / "x.db"
    database = SqliteDatabase(path)
    if not is_patient:
        monkeypatch.setattr("memoranda.storage.sqlite.database.CLOSE_SECONDS", 0.0)
    reads, closes = threading.Event(), threading.Event()

    def read() -> None:
        with database.open_snapshot():
            reads.set()
            closes.wait()

    reader = threading.Thread(target=read)
    reader.start()
    reads.wait()
    closer = threading.Thread(target=database.close)
    closer.start()
    if not is_patient:
        closer.join()
    closes.set()
    closer.join()
    reader.join()
    assert not path.with_name("x.db-wal").exists()


def test_the_file_is_durable_by_its_settings(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "store.db")
    with database.open_snapshot() as connection:
        settings = {
            name: connection.raw.execute(f"PRAGMA {name}").fetchone()
            for name in ("journal_mode", "synchronous", "secure_delete")
        }
    database.close()
    full = (2,)
    assert settings == {"journal_mode": ("wal",), "synchronous": full, "secure_delete": (1,)}


def test_every_key_begins_with_the_tenant(tmp_path: Path) -> None:
    # What is looked up before a tenant is known, and the exceptions explained in the schema.
    allowed = {
        "meta",
        "tenant",
        "api_key",
        "program_grant",
        "revoked_token",
        "version",
        "state_expiry",
        "item_kind",
        "commitment_next",
        "alias_public",
        "embedding_model",
    }
    database = SqliteDatabase(tmp_path / "store.db")
    with database.open_snapshot() as connection:
        raw = connection.raw
        tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        firsts = {}
        for table in tables:
            if table.startswith("sqlite_") or table in allowed:
                continue
            for _, index, *_ in raw.execute(f"PRAGMA index_list({table})").fetchall():
                ((_, _, first),) = raw.execute(f"PRAGMA index_info({index})").fetchall()[:1]
                if index not in allowed:
                    firsts[index] = first
    database.close()
    assert len(firsts) > 8
    assert set(firsts.values()) == {"tenant_id"}


def test_every_statement_on_memories_names_the_tenant() -> None:
    free: tuple[str, ...] = (
        "meta_",
        "tenant",
        "api_key",
        "grant",
        "token_",
        "expired",
        "next_expiry",
        "next_due",
        "unindexed_next",
        "store_bytes",
    )
    # How far a model has come is of all tenants together; each vector is put down and read with its own.
    free += (
        "embedding_",
        "version_last",
        "versions_to_embed",
        # By the name of the tenant, and of all tenants.
        "versions_latest",
        "versions_waiting",
        "vectors_blank",
        "vectors_drop",
        "version_key",
    )
    missing = [
        name for name, sql in load_queries("sqlite").items() if not name.startswith(free) and ":tenant_id" not in sql
    ]
    assert missing == []


# What each query that is given a row is given.
NEW_ROWS: dict[str, type[tuple[Any, ...]]] = {
    "version_add": NewVersionRow,
    "state_add": NewStateRow,
    "facet_add": NewFacetRow,
    "measure_add": NewMeasureRow,
    "alias_put": NewNameRow,
    "view_name_put": NewNameRow,
    "change_add": NewChangeRow,
}


@pytest.mark.parametrize("name", NEW_ROWS)
def test_a_row_that_is_added_has_its_columns_in_the_order_of_its_query(name: str) -> None:
    # A row is bound by place: two columns that changed places would be written into each other's.
    row: Any = NEW_ROWS[name]
    assert _parameters(load_queries("sqlite")[name]) == list(row._fields)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("version_named", "alias USING PRIMARY KEY"),
        ("version_same", "state_sameness"),
        ("is_same_or_named", "state_sameness"),
        ("versions_of_memory", "state_memory"),
        ("changes_after", "PRIMARY KEY (tenant_id=? AND seq>?)"),
        ("audit_after", "PRIMARY KEY (tenant_id=? AND seq>?)"),
        ("expired", "state_expiry"),
        ("next_expiry", "state_expiry"),
        ("next_due", "commitment_next"),
        ("commitments_due", "commitment_due"),
        ("commitments_waiting", "commitment_waiting"),
        ("versions_linked", "PRIMARY KEY (tenant_id=? AND name=? AND value_key=? AND version_id>?)"),
        ("has_space", "state_listed (tenant_id=? AND space=?)"),
        ("memory_updated", "state_memory"),
        ("state_counted", "PRIMARY KEY (tenant_id=? AND version_id=?)"),
    ],
)
def test_queries_are_answered_by_their_index(tmp_path: Path, name: str, index: str) -> None:
    database = SqliteDatabase(tmp_path / "store.db")
    sql = load_queries("sqlite")[name]
    try:
        with database.open_snapshot() as connection:
            binder = dict.fromkeys(_parameters(sql), None)
            plan = "\n".join(str(row[3]) for row in connection.raw.execute("EXPLAIN QUERY PLAN " + sql, binder))
    finally:
        database.close()
    assert index.replace("alias USING", "a USING") in plan
    assert "SCAN s" not in plan.replace("SCAN s USING", "")
    assert "SCAN v" not in plan


FACET = "d USING PRIMARY KEY (tenant_id=? AND name=? AND value_key=?"
LAST, BEST, MOST = (Order(by=by, descending=True) for by in ("at", "confidence", "importance"))


@pytest.mark.parametrize(
    ("selection", "order", "index"),
    [
        (Selection(status_filter="all"), WRITTEN, "s USING PRIMARY KEY (tenant_id=? AND version_id>?)"),
        (Selection(status_filter="all", space="p"), WRITTEN, "s USING PRIMARY KEY (tenant_id=? AND version_id>?)"),
        (Selection(space="p"), WRITTEN, f"{FACET} AND version_id>?)"),
        (Selection(space="p", or_no_space=True), WRITTEN, "s USING PRIMARY KEY (tenant_id=? AND version_id>?)"),
        (Selection(user="u"), WRITTEN, f"{FACET} AND version_id>?)"),
        (Selection(session="s"), UPDATED, f"{FACET})"),
        (Selection(at=NOW), UPDATED, "state_recent (tenant_id=?"),
        (Selection(at=NOW, space="p"), UPDATED, "state_listed (tenant_id=? AND space=?"),
        (Selection(space="p"), UPDATED, "state_listed (tenant_id=? AND space=?"),
        (Selection(space="p", tags=("t",)), UPDATED, f"{FACET})"),
        (Selection(redacted=True), UPDATED, "state_redacted (tenant_id=?"),
        (Selection(space="p", form="f", has_fields=True), Order(by="address"), "COVERING INDEX field_address"),
        (Selection(space="p", has_fields=True), LAST, "COVERING INDEX field_recent"),
        (Selection(space="p", has_fields=True, subject="x"), Order(by="address"), "COVERING INDEX triple_sro"),
        (Selection(space="p", has_fields=True, subject="x"), LAST, "COVERING INDEX triple_sro"),
        (Selection(space="p", has_fields=True), BEST, "COVERING INDEX field_confidence"),
        (Selection(space="p", form="f", has_fields=True), BEST, "COVERING INDEX field_confidence"),
        (Selection(space="p", has_fields=True), MOST, "COVERING INDEX field_importance"),
    ],
)
def test_selections_are_answered_by_their_index(tmp_path: Path, selection: Selection, order: Order, index: str) -> None:
    plan = _plan(tmp_path, selection, order, after=(1, 1) if order in (WRITTEN, UPDATED) else None)
    assert any(index in step for step in plan), plan
    assert not [step for step in plan if step.startswith("SCAN") and "json_each" not in step], plan
    if order == WRITTEN or "state_" in index or "field_" in index:
        # A page is walked to, not sorted out of everything.
        assert not [step for step in plan if "B-TREE" in step], plan


@pytest.mark.parametrize("form", [None, "f"])
@pytest.mark.parametrize("by", ["written", "updated", "address", "at", "confidence", "importance"])
@pytest.mark.parametrize("descending", [False, True])
def test_what_is_common_is_read_from_the_index_of_every_order(
    tmp_path: Path, form: str | None, by: Any, descending: bool
) -> None:
    text_keys = TextKeys(str.encode, str, lambda space: (space,))
    selection = Selection(space="p", has_fields=True, form=form, relation="x")
    sql = SelectionSql(selection, text_keys, SQLITE, tenant_id=1, now=NOW)
    query = sql.build_walk(Order(by=by, descending=descending), None, 100)
    database = SqliteDatabase(tmp_path / "store.db")
    try:
        with database.open_snapshot() as connection:
            assert connection.select(query, {**sql.params, "limit": 9, "offset": 0}) == []
    finally:
        database.close()


@pytest.mark.requirement("OMS-17.3-hexastore")
@pytest.mark.parametrize(
    ("path", "index", "prefix"),
    [
        ("s", "triple_sro", "subject_key=?"),
        ("sr", "triple_sro", "subject_key=? AND relation_key=?"),
        ("sro", "triple_sro", "subject_key=? AND relation_key=? AND object_key=? AND version_id>?"),
        ("r", "triple_ros", "relation_key=?"),
        ("ro", "triple_ros", "relation_key=? AND object_key=?"),
        ("o", "triple_osr", "object_key=?"),
        ("so", "triple_osr", "object_key=? AND subject_key=?"),
    ],
)
def test_every_structural_path_has_its_index(tmp_path: Path, path: str, index: str, prefix: str) -> None:
    # Three orders with a common prefix answer what six orders would: SPO SOP PSO POS OPS OSP.
    parts = {"s": "subject", "r": "relation", "o": "object"}
    asked: dict[str, Any] = {parts[letter]: "x" for letter in path}
    selection = Selection(status_filter="current", **asked)
    drivers = range(len(path))
    plans = [_plan(tmp_path, selection, WRITTEN, after=(1, 1), chosen=chosen) for chosen in drivers]
    assert any(f"{index} (tenant_id=? AND {prefix}" in step for plan in plans for step in plan), plans
    assert not [step for plan in plans for step in plan if step.startswith("SCAN")], plans
    # However much there is about a subject, only the rows of the page are read, in the order written.
    assert not [step for plan in plans for step in plan if "TEMP B-TREE" in step], plans


def _plan(
    tmp_path: Path, selection: Selection, order: Order, *, after: PageCursor | None, chosen: int | None = None
) -> list[str]:
    """How SQLite goes about a page, by the one driver if there is one."""
    text_keys = TextKeys(str.encode, str, lambda space: (space,))
    sql = SelectionSql(selection, text_keys, SQLITE, tenant_id=1, now=NOW)
    if chosen is None and sql.build_driver_counts() is not None:
        chosen = 0
    query = sql.build_page(order, chosen, after)
    database = SqliteDatabase(tmp_path / "store.db")
    try:
        with database.open_snapshot() as connection:
            params = {**sql.params, "limit": 9, "offset": 0}
            return [str(row[3]) for row in connection.raw.execute("EXPLAIN QUERY PLAN " + query, params)]
    finally:
        database.close()


def _parameters(sql: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r":(\w+)", sql)))


def test_a_file_of_someone_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(StoreCorrupt, match="not one of Memoranda"):
        SqliteDatabase(path)
    other = apsw.Connection(str(path))
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
    other.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_bytes(b"this is certainly not a database, only some text\n" * 40)
    with pytest.raises(StoreCorrupt):
        SqliteDatabase(path)


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteDatabase(path).close()
    raw = apsw.Connection(str(path))
    raw.execute("PRAGMA user_version = 999")
    raw.close()
    with pytest.raises(StoreUnavailable, match="newer Memoranda"):
        SqliteDatabase(path)


@pytest.mark.parametrize("change", ["DELETE FROM meta WHERE name = 'layout'", "DROP TABLE meta"])
def test_a_store_with_the_tables_of_another_build_is_refused_in_words(tmp_path: Path, change: str) -> None:
    path = tmp_path / "store.db"
    SqliteDatabase(path).close()
    raw = apsw.Connection(str(path))
    raw.execute(change)
    raw.close()
    with pytest.raises(StoreUnavailable, match="another build of Memoranda"):
        SqliteDatabase(path)


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        SqliteDatabase(tmp_path / "missing" / "store.db")


def test_migrations_apply_once_when_several_processes_open_at_the_same_time(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from memoranda.storage.sqlite.database import SqliteDatabase;"
        "SqliteDatabase(Path(sys.argv[1])).close()"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "store.db")]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4


_TAKE_TURNS = """
import os, sys
from pathlib import Path
from memoranda.storage.sqlite.heads import ChainEnds
heads = ChainEnds(Path(sys.argv[1]))
for _ in range(200):
    with heads.write_turn():
        os.close(os.open(sys.argv[2], os.O_CREAT | os.O_EXCL))
        os.unlink(sys.argv[2])
"""


def test_no_two_processes_have_their_turn_to_write_at_once_and_each_has_all_of_its_turns(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TAKE_TURNS, str(tmp_path / "memoranda.db"), str(tmp_path / "turn")]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]


def test_who_is_killed_in_its_turn_lets_the_next_have_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STAY, str(tmp_path / "memoranda.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"mine\n"
        process.kill()
        with ChainEnds(tmp_path / "memoranda.db").write_turn():
            assert process.wait() == -signal.SIGKILL


_STAY = """
import sys
from pathlib import Path
from memoranda.storage.sqlite.heads import ChainEnds
with ChainEnds(Path(sys.argv[1])).write_turn():
    print("mine", flush=True)
    sys.stdin.read()
"""


def _begun() -> float:
    """How many pieces of work that somebody waits for a writer has begun with."""
    return sum(totals().get((WRITER_WAIT.name,), [0.0])[:-1])


def test_who_comes_while_it_is_the_turn_of_another_process_goes_into_the_same_commit(tmp_path: Path) -> None:
    path = tmp_path / "memoranda.db"

    def work(connection: Connection) -> int:
        # What a transaction keeps in mind it forgets when the next begins.
        connection.memo[str(len(connection.memo))] = ()
        return len(connection.memo)

    command = [sys.executable, "-c", _STAY, str(path)]
    with closing(SqliteDatabase(path)) as database, ThreadPoolExecutor() as threads:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"mine\n"
            before = _begun()
            waiting = [threads.submit(database.write, work)]
            until(lambda: _begun() > before, "the writer did not take the first")
            waiting += [threads.submit(database.write, work) for _ in range(2)]
            until(lambda: len(database.queue._now) == 2, "the others were not handed in")
            process.kill()
        assert sorted(each.result() for each in waiting) == [1, 2, 3]


def test_in_memory_a_read_inside_a_read_is_answered_while_a_writer_waits() -> None:
    database = SqliteDatabase(None)
    began = threading.Event()

    def work(connection: Connection) -> None:
        began.set()
        connection.execute("meta_put", {"name": "n", "value": b"new"})

    with database.open_snapshot() as outer:
        assert outer.query_one("meta_get", {"name": "n"}) is None
        database.write_later(work, "ada")
        # A writer that begins now can neither end before this read does, nor let another one begin.
        began.wait(4 * LATER_SECONDS)
        with database.open_snapshot() as inner:
            assert inner.query_one("meta_get", {"name": "n"}) is None
    database.flush()
    with database.open_snapshot() as after:
        assert after.query_one("meta_get", {"name": "n"}) == (b"new",)
    database.close()


def test_a_writer_whose_turn_does_not_come_is_told_so_and_nothing_is_written(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "store.db", writer_seconds=0.05)
    is_held, may_end = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        is_held.set()
        assert may_end.wait(HANG_SECONDS)

    def put(name: str) -> Callable[[Connection], None]:
        return lambda connection: connection.execute("meta_put", {"name": name, "value": b"x"})

    # Nobody waits for this one, and so gives it up, before it has its turn.
    held = database.start_write(hold)
    assert is_held.wait(HANG_SECONDS)
    with pytest.raises(StoreUnavailable, match=r"the writer was busy for 0\.05 s; nothing was written"):
        database.write(put("given up"))
    # What was begun cannot be given up: whoever waits for it learns that it may be there.
    with pytest.raises(StoreUnavailable, match="may or may not be stored"):
        held.result()
    may_end.set()
    patient = SqliteDatabase(tmp_path / "store.db")
    patient.write(put("later"))
    database.close()
    with patient.open_snapshot() as connection:
        found = [connection.query_one("meta_get", {"name": name}) for name in ("given up", "later")]
    assert found == [None, (b"x",)]
    patient.close()


def test_a_closed_store_refuses_work(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "store.db")
    database.close()
    database.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        database.write(lambda _: None)
    with pytest.raises(StoreUnavailable, match="closed"), database.open_snapshot():
        pass


def test_the_files_can_be_made_private(tmp_path: Path) -> None:
    # SQLite gives the log and the index the mode of the file itself.
    path = tmp_path / "store.db"
    database = SqliteDatabase(path)
    engine = SqlEngine(database, seal)
    engine.write("ada", lambda unit: unit.append(document("n"), projection("apple"), now=NOW))
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    engine.close()
    assert modes == {0o600}


def test_every_query_that_is_asked_for_by_name_is_there_and_none_is_left_over() -> None:
    folder = Path(engine_module.__file__).parents[1]
    source = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    asked = set(re.findall(r'(?:_rows|_run|_run_many|_versions|\.rows?|\.run|\.run_many)\(\s*"(\w+)"', source))
    assert asked - set(load_queries("sqlite")) == set()
    deletions = {f"tenant_drop_{table}" for table in DELETED_TABLES}
    unused = [name for name in load_queries("sqlite") if f'"{name}"' not in source and name not in deletions]
    assert unused == []


def test_who_watches_a_store_that_is_closed_is_told_so_in_our_words() -> None:
    database = SqliteDatabase(None)
    assert database.read_change_token() == database.read_change_token()
    database.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        database.read_change_token()


def test_a_version_that_has_lost_a_half_is_noticed(tmp_path: Path) -> None:
    engine = SqlEngine(SqliteDatabase(tmp_path / "store.db"), seal)
    shown = {name: projection(name) for name in ("one", "two", "three")}
    for name, each in shown.items():
        engine.write("ada", lambda unit, name=name, each=each: unit.append(document(name), each, now=NOW))  # type: ignore[misc]
    engine.close()
    with closing(apsw.Connection(str(tmp_path / "store.db"))) as raw:
        raw.execute("DELETE FROM version WHERE name = 'one'; DELETE FROM state WHERE version_id = 3")
    engine = SqlEngine(SqliteDatabase(tmp_path / "store.db"), seal)
    assert engine.find_damage(["bob"]) == []
    assert engine.find_damage(["ada"]) == [
        "1 versions have a document but no state",
        "1 versions have a state but no document",
    ]
    assert engine.find_index_problems("ada", lambda version: shown[version.document.name], lambda _: None) != []
    engine.close()


def test_a_process_with_too_many_open_files_is_told_so(tmp_path: Path) -> None:
    code = (
        "import os, resource, sys\n"
        "from memoranda.errors import StoreUnavailable\n"
        "import apsw\n"
        "from memoranda.storage.sqlite.file import sqlite_errors\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/proc/self/fd')) - 1,) * 2)\n"
        "try:\n"
        "    with sqlite_errors(): apsw.Connection(sys.argv[1])\n"
        "except StoreUnavailable as error: print(error)\n"
    )
    path = str(tmp_path / "store.db")
    answer = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert answer.stdout == "this process has too many open files (see ulimit -n)\n"
