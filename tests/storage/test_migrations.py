"""Numbered migrations: what each kind does on both databases, killed in between, and refused."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from memoranda import Memoranda
from memoranda.errors import StoreUnavailable
from memoranda.storage.engine import migrations
from memoranda.storage.engine.migrations import load_migrations, load_predecessors, newest_number
from memoranda.storage.postgres import migrating as postgres_migrating
from memoranda.storage.postgres.database import PostgresDatabase
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.keys import SqliteKeyRing
from tests.postgres import server
from tests.storage.newer import version_with, write_newer

pytestmark = pytest.mark.sqlite

TEXTS = [f"The gate number {number} is green." for number in range(50)]
NEWER = r"newer Memoranda \d\S+ \(build \w+\) \(layout 9004, ours is \d+\): install that version"
NUMBERED = ("sqlite", "postgres", "keyring")
# Digests of the migrations that stores in use were made with.
RELEASED = {
    ("sqlite", 1): "5fe699cdb802b8dd",
    ("sqlite", 2): "c1f27481445ffcb6",
    ("sqlite", 3): "a766216af21b3a0e",
    ("sqlite", 4): "c58e116bb2a16b92",
    ("postgres", 1): "f05376ad7816af21",
    ("postgres", 3): "5dc2925f3ba84112",
    ("postgres", 4): "5d842d34618ae2d3",
    ("keyring", 1): "f5196b1a736b6bb1",
    ("pgvector", 1): "f86b043f3a4685b4",
}
# Opens a store, and is killed when a statement of an upgrade begins for the Nth time.
KILLED = """
import os, signal, sys
from pathlib import Path
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite import migrating
from tests.storage.newer import use
use(Path(sys.argv[2]))
steps = iter(range(int(sys.argv[3])))
run, complete = migrating._run_one, migrating._complete
def die():
    if next(steps, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
def run_one(raw, migration):
    die()
    run(raw, migration)
def complete_all(raw, newest):
    die()
    complete(raw, newest)
    die()
migrating._run_one, migrating._complete = run_one, complete_all
SqliteDatabase(Path(sys.argv[1])).close()
"""


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """Write the migrations of a newer version."""
    return write_newer(tmp_path / "newer")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Create a store of this version; return its data directory."""
    with Memoranda.open(tmp_path / "home") as m:
        for text in TEXTS:
            m.remember(text)
    return tmp_path / "home"


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a store of this version on PostgreSQL, in a database that no other test gets; return its address."""
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path / "home"))
    url = server().address(server().scratch())
    with Memoranda.open(url) as m:
        for text in TEXTS:
            m.remember(text)
    return url


def sqlite_rows(home: Path, sql: str) -> list[Any]:
    with closing(apsw.Connection(str(home / "memoranda.db"), flags=apsw.SQLITE_OPEN_READONLY)) as raw:
        return raw.execute(sql).fetchall()


def postgres_rows(address: str, sql: str) -> list[Any]:
    with closing(psycopg.connect(address, autocommit=True)) as raw:
        raw.execute("SET memoranda.system = 'on'")
        return raw.execute(sql.encode()).fetchall()


def progress(address: str) -> dict[str, bytes]:
    return dict(postgres_rows(address, "SELECT name, value FROM meta WHERE name IN ('schema', 'compatible')"))


# --- the files ---------------------------------------------------------------------------------------------------


def test_numbers_ascend_and_mean_the_same_on_both_databases() -> None:
    for name in NUMBERED:
        numbers = [migration.number for migration in load_migrations(name)]
        assert numbers == sorted(set(numbers))
        assert numbers[0] == 1
    names = {migration.number: migration.name for migration in load_migrations("sqlite")}
    for migration in load_migrations("postgres"):
        assert names.setdefault(migration.number, migration.name) == migration.name


def test_released_migrations_never_change() -> None:
    for (name, number), digest in RELEASED.items():
        (migration,) = [one for one in load_migrations(name) if one.number == number]
        assert digest_of(migration) == digest, f"{name} {number}: add a migration instead"


def digest_of(migration: migrations.Migration) -> str:
    statements = migrations._COMMENT.sub("", migration.sql)
    return hashlib.sha256(" ".join(statements.split()).encode()).hexdigest()[:16]


def test_a_fill_is_one_statement_and_an_index_says_so_on_postgresql() -> None:
    for name in NUMBERED:
        for migration in load_migrations(name):
            if migration.kind == "fill":
                assert migration.sql.count(";") == 1, migration.name
            if migration.kind == "index" and name == "postgres":
                # The process may be killed when the index is built and the number is not stored.
                assert "CONCURRENTLY IF NOT EXISTS" in migration.sql


def test_the_oldest_layouts_are_named_by_digests() -> None:
    for name in ("sqlite", "postgres"):
        layouts = [predecessor.layout for predecessor in load_predecessors(name)]
        assert len(layouts) == len(set(layouts)) == 3
        assert all(len(layout) == 16 for layout in layouts)


def test_an_unknown_kind_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "0001_odd.sql"
    path.write_text("-- kind: shrink\n")
    with pytest.raises(ValueError, match="shrink"):
        migrations._parse_file(path)


# --- SQLite ------------------------------------------------------------------------------------------------------


def check_upgraded(home: Path) -> None:
    assert sqlite_rows(home, "PRAGMA user_version") == [(9004,)]
    assert sqlite_rows(home, "SELECT count(*) FROM state WHERE label = kind") == [(len(TEXTS),)]
    names = {name for (name,) in sqlite_rows(home, "SELECT name FROM sqlite_schema")}
    assert "state_label" in names
    assert "state_redacted" not in names


def test_every_kind_of_migration_runs_when_a_file_is_opened(home: Path, newer: Path) -> None:
    before: list[int] = []
    with version_with(newer):
        SqliteDatabase(home / "memoranda.db", before_upgrade=before.append).close()
        check_upgraded(home)
        SqliteDatabase(home / "memoranda.db", before_upgrade=before.append).close()
    assert before == [newest_number("sqlite")]


def test_a_newer_file_is_refused_with_the_way_out(home: Path, newer: Path) -> None:
    with version_with(newer):
        SqliteDatabase(home / "memoranda.db").close()
    with pytest.raises(
        StoreUnavailable,
        match=NEWER,
    ):
        Memoranda.open(home)
    check_upgraded(home)


@pytest.mark.parametrize("steps", range(6))
def test_a_process_killed_in_an_upgrade_leaves_the_store_as_it_was(home: Path, newer: Path, steps: int) -> None:
    command = [sys.executable, "-c", KILLED, str(home / "memoranda.db"), str(newer), str(steps)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    number = newest_number("sqlite")
    # The last kill is behind the commit.
    assert sqlite_rows(home, "PRAGMA user_version") == [(9004 if steps == 5 else number,)]
    with version_with(newer), Memoranda.open(home) as m:
        check_upgraded(home)
        assert {memory.text for memory in m.list(limit=100)} == set(TEXTS)
        report = m.verify()
        assert (report.database, report.losses, report.audit.ok) == ((), (), True)


def test_an_upgrade_waits_for_no_other_writer_forever(home: Path, newer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoranda.storage.sqlite.file.BUSY_SECONDS", 0.05)
    with closing(apsw.Connection(str(home / "memoranda.db"))) as other, version_with(newer):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="another process is using or upgrading it"):
            SqliteDatabase(home / "memoranda.db")
        other.execute("ROLLBACK")
        SqliteDatabase(home / "memoranda.db").close()
        check_upgraded(home)


def test_a_key_ring_without_a_number_gets_one_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memoranda.keys"
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute(load_migrations("keyring")[0].sql)
        raw.execute("INSERT INTO data_key VALUES ('k1', x'01', 1, x'02', x'03')")
    ring = SqliteKeyRing(path)
    assert ring.find(b"\x01") == "k1"
    ring.close()
    with closing(apsw.Connection(str(path))) as raw:
        assert raw.execute("PRAGMA user_version").fetchall() == [(1,)]
        raw.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreUnavailable, match="newer Memoranda"):
        SqliteKeyRing(path)


# --- PostgreSQL --------------------------------------------------------------------------------------------------


def test_what_a_node_needs_is_done_when_it_opens_the_store_and_the_rest_in_the_background(
    address: str, newer: Path
) -> None:
    labels = "SELECT count(*) FROM state WHERE label = kind"
    with version_with(newer):
        database = PostgresDatabase(address)
        assert progress(address)["schema"] == b"9001"
        assert postgres_rows(address, labels) == [(0,)]
        steps = 0
        while database.continue_upgrade():
            steps += 1
        # Three parts of 20 rows and one that changes nothing, the index, and the contract.
        assert steps == 6
        assert progress(address) == {"schema": b"9004", "compatible": b"9004"}
        assert not database.continue_upgrade()
        database.close()
        assert postgres_rows(address, labels) == [(len(TEXTS),)]
    with pytest.raises(StoreUnavailable, match=NEWER):
        PostgresDatabase(address)


def test_an_older_node_serves_until_the_contract_and_the_contract_waits_for_it(address: str, newer: Path) -> None:
    with Memoranda.open(address) as older:
        with version_with(newer):
            database = PostgresDatabase(address)
            while database.continue_upgrade():
                pass
            assert progress(address) == {"schema": b"9003", "compatible": b"4"}
        # The older version writes on, and opens the store again.
        older.remember("The old gate is blue.")
        Memoranda.open(address).close()
        with version_with(newer):
            assert not database.continue_upgrade()
    with version_with(newer):
        while database.continue_upgrade():
            pass
        database.close()
        assert progress(address) == {"schema": b"9004", "compatible": b"9004"}
    assert postgres_rows(address, "SELECT count(*) FROM state WHERE label = kind") == [(len(TEXTS) + 1,)]


def test_a_node_without_a_step_that_others_need_does_all_steps_before_it(address: str, tmp_path: Path) -> None:
    newer = write_newer(tmp_path / "newest")
    (newer / "postgres" / "migrations" / "9005_add_more.sql").write_text("ALTER TABLE state ADD COLUMN more TEXT;\n")
    with version_with(newer):
        PostgresDatabase(address).close()
        assert progress(address) == {"schema": b"9005", "compatible": b"9004"}


def test_a_step_that_is_interrupted_is_done_again(address: str, newer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = postgres_migrating._complete

    def interrupt(raw: psycopg.Connection[Any], migration: migrations.Migration) -> None:
        complete(raw, migration)
        # When a process is killed, the server ends its session and rolls back.
        raw.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    def upgrade(until: int) -> None:
        with closing(PostgresDatabase(address)) as database:
            while int(progress(address)["schema"]) < until:
                assert database.continue_upgrade()

    with version_with(newer):
        for number in (9001, 9002, 9003, 9004):
            before = progress(address)
            with monkeypatch.context() as patch:
                patch.setattr(postgres_migrating, "_complete", interrupt)
                with pytest.raises(StoreUnavailable):
                    upgrade(number)
            assert progress(address) == before
            upgrade(number)
            assert progress(address)["schema"] == str(number).encode()
    assert postgres_rows(address, "SELECT count(*) FROM pg_index WHERE NOT indisvalid") == [(0,)]


def test_a_table_in_use_delays_a_step_and_does_not_block_requests_for_long(
    address: str, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_migrating, "_PATIENCE_SECONDS", 0.1)
    with closing(psycopg.connect(address)) as reader, version_with(newer):
        reader.execute("SELECT count(*) FROM state")
        with pytest.raises(StoreUnavailable, match="its tables were in use"):
            PostgresDatabase(address)
        reader.rollback()
        PostgresDatabase(address).close()
        assert progress(address)["schema"] == b"9001"


def test_names_of_connections_have_the_number_of_the_version(address: str) -> None:
    assert postgres_migrating._layout_of(postgres_migrating.application_name("x" * 80)) == newest_number("postgres")
    assert postgres_migrating._layout_of("memoranda") == 0
    assert len(postgres_migrating.application_name("ä" * 80).encode()) <= 63
