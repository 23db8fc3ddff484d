"""Stores of earlier builds and versions are verified, upgraded and used on both databases, and nothing is lost."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from memoranda import Memoranda
from memoranda.backup import back_up, restore
from memoranda.bindings.files import archive
from memoranda.errors import StoreUnavailable
from memoranda.service.verify import reindex
from memoranda.settings import Settings
from memoranda.storage.engine.migrations import newest_number
from memoranda.storage.engine.moving import TABLES
from memoranda.storage.postgres.database import PostgresDatabase
from memoranda.storage.sqlite import migrating
from memoranda.storage.sqlite.database import SqliteDatabase
from tests.postgres import server
from tests.storage.newer import version_with, write_newer
from tests.upgrades.contents import LARGE
from tests.upgrades.make_fixture import PASSPHRASE, SAMPLES, read_fixture

pytestmark = pytest.mark.sqlite

ON_SQLITE = sorted(path.name for path in SAMPLES.glob("*sqlite*.tar.gz"))
ON_POSTGRES = sorted(path.name for path in SAMPLES.glob("*postgres*.tar.gz"))
# `make test-postgres` runs everything on each version of the server; `make test` runs a part.
IS_COMPLETE = not {"MEMORANDA_TEST_POSTGRES_VERSION", "MEMORANDA_TEST_POSTGRES"}.isdisjoint(os.environ)
# Rows that describe the database itself; those of the version that wrote it are replaced.
OWN = "WHERE name NOT IN ('schema', 'layout', 'compatible', 'moving', 'version', 'sealed_names')"
# Is built again after the upgrade if its encoding was another one.
SEARCH_INDEX = ("segment", "segment_part")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMORANDA_STORE", "MEMORANDA_OWNER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "off")
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path / "home"))


def unpack(name: str, folder: Path) -> dict[str, bytes]:
    """Write the files of a fixture to a folder, which becomes a data directory; return them."""
    files = read_fixture(SAMPLES / name)
    folder.mkdir(mode=0o700)
    for file, data in files.items():
        if file.endswith(".key"):
            (folder / file).write_bytes(data)
            (folder / file).chmod(0o600)
    return files


def write_backup(files: dict[str, bytes], folder: Path, *, is_encrypted: bool) -> tuple[Path, str | None]:
    """Write the backup of a fixture, plain or encrypted; return its path and its passphrase."""
    name = "encrypted.backup" if is_encrypted and "encrypted.backup" in files else "store.backup"
    path = folder / name
    path.write_bytes(files[name])
    if not is_encrypted:
        return path, None
    if name == "encrypted.backup":
        return path, PASSPHRASE
    parts = folder / "parts"
    parts.mkdir()
    with path.open("rb") as file:
        about = archive.read_archive(file, lambda name: (parts / name).open("wb"))
    members = [archive.Member(part.name, part) for part in sorted(parts.iterdir())]
    target = folder / "encrypted.backup"
    with target.open("w+b") as file:
        archive.write_archive(
            file, members, {"made": about["made"], "operator": about["operator"]}, passphrase=PASSPHRASE
        )
    return target, PASSPHRASE


def sqlite_tables(path: Path) -> dict[str, tuple[list[str], list[Any]]]:
    """Return columns and rows of every table of a store, and of its key ring."""
    tables = {}
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as raw:
        raw.execute("ATTACH ? AS ring", (str(path.with_name("memoranda.keys")),))
        for table, order in TABLES.items():
            columns = [str(row[1]) for row in raw.execute(f"PRAGMA table_info({table})")]
            where = OWN if table == "meta" else ""
            rows = raw.execute(f"SELECT {', '.join(columns)} FROM {table} {where} ORDER BY {order}").fetchall()
            tables[table] = (columns, rows)
    return tables


def postgres_tables(address: str) -> dict[str, tuple[list[str], list[Any]]]:
    """Return columns and rows of every table of a store."""
    tables = {}
    with psycopg.connect(address) as raw:
        raw.execute("SET memoranda.system = 'on'")
        for table, order in TABLES.items():
            cursor = raw.execute(f"SELECT * FROM {table} {OWN if table == 'meta' else ''} ORDER BY {order}".encode())
            columns = [column.name for column in cursor.description or ()]
            tables[table] = (columns, cursor.fetchall())
    return tables


def check_unchanged(
    before: dict[str, tuple[list[str], list[Any]]], after: dict[str, tuple[list[str], list[Any]]]
) -> None:
    """Check that every row has all values that it had: ids, keys, audit chain, documents with their signatures."""
    assert sum(len(rows) for _, rows in before.values()) > 100
    for table, (columns, rows) in before.items():
        new_columns, new_rows = after[table]
        if table in SEARCH_INDEX and not new_rows:
            continue
        positions = [new_columns.index(column) for column in columns]
        assert [tuple(row[position] for position in positions) for row in new_rows] == rows, table


def check_contents(store: Path | str, facts: dict[str, Any]) -> None:
    """Check that a store has everything that contents.py wrote, and can be used."""
    with Memoranda.open(store) as m:
        # The upkeep of a server does the same.
        reindex(m.service.context, outdated=True)
        assert (m.owner, m.service.operator_did) == (facts["owner"], facts["operator"])
        ids = facts["ids"]
        assert {memory.text for memory in m.list()} >= {
            "Ada drinks green tea.",
            "Bob opens the door with 4711.",
            "Remind me every Monday at 9:00 to water the greenhouse.",
            "The gate of the garden is green.",
            "We ship on 8 July.",
            "We write Python.",
        }
        history = m.history(ids["tea"])
        assert [version.text for version in history] == ["Ada drinks coffee.", "Ada drinks green tea."]
        assert [version.id for version in history] == [ids["tea"], ids["revised"]]
        assert m.get(ids["code"]).text == "Bob opens the door with 4711."
        assert "forgotten" not in str(m.list())
        assert m.grains.exists(facts["grain"])
        assert m.oams.recall("ship")[0]["value"] == "We ship on 8 July."
        assert m.service.gate.authenticate(facts["key"]).tenant == facts["owner"]
        workspace = m.service.openwop
        assert workspace.file(m.access, "notes/large.md")["content"] == LARGE
        report = m.verify()
        assert (report.database, report.losses, report.unverified, report.audit.ok) == ((), (), (), True)
        assert report.records > 5
        m.remember("The upgraded store is used.")
        assert "Ada drinks green tea." in [hit.text for hit in m.recall("green tea")]
        assert m.recall("upgraded store")


@pytest.mark.parametrize("is_encrypted", [False, True] if IS_COMPLETE else [True])
@pytest.mark.parametrize("name", ON_SQLITE)
def test_a_backup_is_restored_and_upgraded_on_sqlite(tmp_path: Path, name: str, is_encrypted: bool) -> None:
    home = tmp_path / "home"
    files = unpack(name, tmp_path / "fixture")
    source, passphrase = write_backup(files, tmp_path, is_encrypted=is_encrypted)
    restore(Settings(home=home), source, passphrase=passphrase)
    before = sqlite_tables(home / "memoranda.db")
    SqliteDatabase(home / "memoranda.db").close()
    check_unchanged(before, sqlite_tables(home / "memoranda.db"))
    check_contents(home, json.loads(files["facts.json"]))


@pytest.mark.parametrize("name", ON_SQLITE)
def test_the_way_back_is_the_backup_that_an_upgrade_writes_first(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    files = unpack(name, tmp_path / "fixture")
    source, _ = write_backup(files, tmp_path, is_encrypted=False)
    restore(Settings(home=home), source)
    before, number = sqlite_tables(home / "memoranda.db"), layout_number(home)
    backup = home / f"memoranda.db-before-{number}.backup"
    with newer_than(number, tmp_path):
        with Memoranda.open(home) as m:
            assert "Ada drinks green tea." in [hit.text for hit in m.recall("green tea")]
        assert layout_number(home) == newest_number("sqlite")
        assert backup.stat().st_mode & 0o777 == 0o600
    restore(Settings(home=tmp_path / "back"), backup)
    assert layout_number(tmp_path / "back") == number
    assert sqlite_tables(tmp_path / "back" / "memoranda.db") == before
    check_contents(tmp_path / "back", json.loads(files["facts.json"]))
    # It holds what is erased now, so it goes with it.
    with newer_than(number, tmp_path), Memoranda.open(home) as m:
        m.forget(m.remember("This is erased.").id, hard=True, reason="requested")
    assert not backup.exists()


def newer_than(number: int, folder: Path) -> AbstractContextManager[None]:
    """Use a newer version than the one of a layout: this one, or a simulated one if the layout is ours."""
    if number != newest_number("sqlite"):
        return nullcontext()
    newer = folder / "newer"
    return version_with(newer if newer.exists() else write_newer(newer))


def layout_number(home: Path) -> int:
    """Return the number of the last migration of a store."""
    with closing(apsw.Connection(str(home / "memoranda.db"), flags=apsw.SQLITE_OPEN_READONLY)) as raw:
        return migrating.read_number(raw)


@pytest.mark.parametrize("name", ON_SQLITE if IS_COMPLETE else ON_SQLITE[:1])
def test_a_backup_is_restored_into_postgresql(tmp_path: Path, name: str) -> None:
    files = unpack(name, tmp_path / "fixture")
    source, _ = write_backup(files, tmp_path, is_encrypted=False)
    with server().database() as address:
        restore(Settings(home=tmp_path / "home", store=address), source)
        check_contents(address, json.loads(files["facts.json"]))


def load_dump(files: dict[str, bytes], home: Path) -> str:
    """Fill a new database from the dump of a fixture; return its address."""
    address = server().address(server().scratch())
    with psycopg.connect(address, autocommit=True) as raw:
        raw.execute(files["dump.sql"])
    return address


@pytest.mark.parametrize("name", ON_POSTGRES if IS_COMPLETE else ON_POSTGRES[:2])
def test_a_database_on_postgresql_is_upgraded(tmp_path: Path, name: str) -> None:
    files = unpack(name, tmp_path / "home")
    address = load_dump(files, tmp_path / "home")
    before = postgres_tables(address)
    database = PostgresDatabase(address)
    while database.continue_upgrade():
        pass
    database.close()
    check_unchanged(before, postgres_tables(address))
    check_contents(address, json.loads(files["facts.json"]))
    # Back to SQLite, as a backup does.
    target = tmp_path / "later.backup"
    back_up(Settings(home=tmp_path / "home", store=address), target)
    restore(Settings(home=tmp_path / "other"), target)
    assert layout_number(tmp_path / "other") == newest_number("sqlite")


def test_the_way_back_on_postgresql_is_a_backup_from_before_the_upgrade(tmp_path: Path) -> None:
    name = ON_POSTGRES[0]
    files = unpack(name, tmp_path / "home")
    address = load_dump(files, tmp_path / "home")
    settings, backup = Settings(home=tmp_path / "home", store=address), tmp_path / "store.backup"
    with Memoranda.open(address):
        back_up(settings, backup)
    before = postgres_tables(address)
    with version_with(write_newer(tmp_path / "newer")):
        database = PostgresDatabase(address)
        while database.continue_upgrade():
            pass
        database.close()
    with pytest.raises(StoreUnavailable, match="newer Memoranda"):
        Memoranda.open(address)
    with server().database() as other:
        restore(Settings(home=tmp_path / "back", store=other), backup)
        check_unchanged(before, postgres_tables(other))
        check_contents(other, json.loads(files["facts.json"]))
