"""Stores of earlier builds: they open with everything in them, or are left as they are."""

from __future__ import annotations

import gzip
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from memoranda import Memoranda
from memoranda.cli import main
from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.migrations import Migration, layout, load_migrations, newest_number
from memoranda.storage.sqlite import migrating
from memoranda.storage.sqlite.database import SqliteDatabase
from tests.postgres import server

pytestmark = pytest.mark.sqlite

# A backup by the last build with the tables of schema 1: memories of two standards with a revision and a deletion, a
# commitment, a schedule, a template and workspace files.
BACKUP = Path(__file__).parents[1] / "samples" / "stores" / "schema-1.backup.gz"
LARGE = "0123456789" * 5_000
# The table as it was in schema 1, and its layout for the day on which migration 1 was changed in place.
OLD_ITEMS = """
CREATE TABLE old_item (
  tenant_id INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (tenant_id, kind, name)
) WITHOUT ROWID;
INSERT INTO old_item SELECT tenant_id, kind, name, value FROM item;
DROP TABLE item;
ALTER TABLE old_item RENAME TO item;
CREATE INDEX item_kind ON item (kind, tenant_id);
ALTER TABLE api_key DROP COLUMN expires_ms;
ALTER TABLE api_key DROP COLUMN used_ms;
ALTER TABLE api_key DROP COLUMN replaces;
ALTER TABLE api_key DROP COLUMN limits;
PRAGMA user_version = 1;
"""


def restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the backup, into the store that the environment names."""
    monkeypatch.delenv("MEMORANDA_OWNER", raising=False)
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path / "home"))
    (tmp_path / "store.backup").write_bytes(gzip.decompress(BACKUP.read_bytes()))
    assert main(["restore", str(tmp_path / "store.backup")]) == 0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory of a store of schema 1, as `restore` writes it."""
    monkeypatch.delenv("MEMORANDA_STORE", raising=False)
    restore(tmp_path, monkeypatch)
    assert schema(tmp_path / "home") == (1, True)
    return tmp_path / "home"


def schema(home: Path) -> tuple[int, bool]:
    """Return the number of the schema, and whether items are in a table without row ids."""
    with closing(apsw.Connection(str(home / "memoranda.db"), flags=apsw.SQLITE_OPEN_READONLY)) as raw:
        (number,) = raw.execute("PRAGMA user_version").fetchall()[0]
        (sql,) = raw.execute("SELECT sql FROM sqlite_schema WHERE name = 'item'").fetchall()[0]
        assert isinstance(number, int)
        return number, "WITHOUT ROWID" in str(sql)


def check_contents(store: Path | str) -> None:
    with Memoranda.open(store) as m:
        assert sorted(record.text for record in m.list()) == [
            "Ada drinks green tea.",
            "Remind me every Monday at 9:00 to water the greenhouse.",
            "The greenhouse is watered on Mondays.",
            "We ship on 8 July.",
        ]
        (tea,) = [record for record in m.list() if "tea" in record.text]
        assert [record.text for record in m.history(tea.id)] == ["Ada drinks coffee.", "Ada drinks green tea."]
        assert m.oams.recall("ship")[0]["value"] == "We ship on 8 July."
        workspace = m.service.openwop
        assert [each["path"] for each in workspace.files(m.access)] == ["notes/large.md", "notes/small.md"]
        assert workspace.file(m.access, "notes/small.md")["content"] == "abcd"
        assert workspace.file(m.access, "notes/large.md")["content"] == LARGE
        assert [each.due is not None for each in m.openwop.commitments("garden")] == [True]
        assert len(m.openwop.schedules()) == 1
        assert "plain" in str(m.cal.run("DESCRIBE templates"))
        # It is used on, too.
        workspace.write_file(m.access, "notes/small.md", "efgh")
        assert workspace.file(m.access, "notes/small.md")["content"] == "efgh"
        report = m.verify()
        assert (report.database, report.losses, report.unverified, report.audit.ok) == ((), (), (), True)


def test_a_store_of_the_build_before_opens_with_everything_in_it(home: Path) -> None:
    check_contents(home)
    assert schema(home) == (newest_number("sqlite"), False)


def test_a_backup_of_the_build_before_is_restored_into_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server().database() as address:
        monkeypatch.setenv("MEMORANDA_STORE", address)
        restore(tmp_path, monkeypatch)
        check_contents(address)


def test_a_store_of_the_day_with_a_changed_migration_opens(home: Path) -> None:
    with closing(apsw.Connection(str(home / "memoranda.db"))) as raw:
        # What that build made: the tables of schema 2 with the number 1.
        raw.execute(load_migrations("sqlite")[1].sql)
        raw.execute("UPDATE meta SET value = x'621f874b582563163ed91ad013d2230a' WHERE name = 'layout'")
    assert schema(home) == (1, False)
    check_contents(home)
    assert schema(home) == (newest_number("sqlite"), False)


def test_tables_of_schema_1_that_nobody_knows_are_refused_and_left_alone(home: Path) -> None:
    with closing(apsw.Connection(str(home / "memoranda.db"))) as raw:
        raw.execute("ALTER TABLE feedback ADD COLUMN colour TEXT")
    with pytest.raises(StoreUnavailable, match=r"another build of Memoranda.*table 'feedback' differs"):
        Memoranda.open(home)
    assert schema(home) == (1, True)


def test_an_upgrade_that_fails_changes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Migration(number=3, name="broken", kind="expand", sql="CREATE TABLE item (tenant_id)")
    with monkeypatch.context() as patch:
        patch.setattr(migrating, "pending_migrations", lambda *_: [*load_migrations("sqlite")[1:], broken])
        with pytest.raises(apsw.SQLError, match="already exists"):
            SqliteDatabase(home / "memoranda.db")
    assert schema(home) == (1, True)
    check_contents(home)


def test_a_store_that_cannot_be_written_is_not_upgraded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoranda.storage.sqlite.database.is_read_only", lambda _: True)
    with pytest.raises(StoreUnavailable, match="written by an earlier Memoranda, and its tables have to be upgraded"):
        SqliteDatabase(home / "memoranda.db")
    assert schema(home) == (1, True)


def test_several_processes_upgrade_a_store_once(home: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from memoranda.storage.sqlite.database import SqliteDatabase;"
        "SqliteDatabase(Path(sys.argv[1])).close()"
    )
    command = [sys.executable, "-c", script, str(home / "memoranda.db")]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    check_contents(home)


def test_an_upgrade_leaves_no_copy_of_an_item_behind(tmp_path: Path) -> None:
    path = tmp_path / "memoranda.db"
    SqliteDatabase(path).close()
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute(OLD_ITEMS)
        raw.execute("UPDATE meta SET value = ? WHERE name = 'layout'", (layout("sqlite", 1),))
        for number in range(50):
            raw.execute("INSERT INTO item VALUES (1, 'file', ?, ?)", (str(number), b"kumquat " * 4_000))
    store = SqliteDatabase(path)
    store._writer.raw.execute("DELETE FROM item")
    assert store.scrub(1.0)
    store.close()
    assert b"kumquat" not in path.read_bytes()
