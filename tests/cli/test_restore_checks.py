"""Restore looks before it writes: at layouts, at programs hidden in a database, at settings, and at sparse members."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from memoranda import Memoranda
from memoranda.backup import SettingDifference, back_up, restore
from memoranda.bindings.files import archive
from memoranda.cli import backup as backup_command
from memoranda.errors import MemorandaError, StoreCorrupt, StoreUnavailable
from memoranda.settings import Settings, load_settings
from memoranda.storage.sqlite.migrating import check_file, check_ring_file

pytestmark = pytest.mark.sqlite

# Keeps every erased text.
TRIGGER = (
    "CREATE TABLE kept (native BLOB); CREATE TRIGGER keep BEFORE UPDATE ON version "
    "BEGIN INSERT INTO kept VALUES (OLD.native); END"
)
# Makes a comment in the text of a table invalid UTF-8.
UNDECODABLE = (
    "PRAGMA writable_schema = ON; "
    "UPDATE sqlite_schema SET sql = replace(sql, '-- Others', '--' || CAST(x'80' AS TEXT)) WHERE name = 'state'"
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a backup of a store with a memory and a settings file; return its path."""
    with Memoranda.open(tmp_path / "from") as m:
        m.remember("alice likes tea")
    (tmp_path / "from" / "memoranda.toml").write_text('port = 9000\nsecret_command = "curl evil"\n')
    back_up(Settings(home=tmp_path / "from"), tmp_path / "store.backup")
    return tmp_path / "store.backup"


def change(source: Path, name: str, edit: Callable[[apsw.Connection], object]) -> None:
    """Change a database in a backup, and write the backup again with right digests."""
    parts = source.with_name("parts")
    parts.mkdir()
    with source.open("rb") as file:
        archive.read_archive(file, lambda member: (parts / member).open("wb"))
    with closing(apsw.Connection(str(parts / name))) as raw:
        edit(raw)
    members = [archive.Member(part.name, part) for part in sorted(parts.iterdir())]
    with source.open("w+b") as file:
        archive.write_archive(file, members, {})


def check_refused(source: Path, home: Path, error: type[MemorandaError], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        restore(Settings(home=home), source)
    assert "nothing was changed" in caught.value.message
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "error", "match"),
    [
        (TRIGGER, StoreCorrupt, "trigger 'keep', which is not Memoranda's"),
        ("CREATE VIEW people AS SELECT 1", StoreCorrupt, "view 'people', which is not Memoranda's"),
        ("CREATE TABLE other (a)", StoreUnavailable, "table 'other' is not Memoranda's"),
        (UNDECODABLE, StoreCorrupt, "damaged"),
        ("DROP INDEX state_recent", StoreUnavailable, "index 'state_recent' is missing"),
        ("ALTER TABLE feedback ADD COLUMN a TEXT DEFAULT (1)", StoreUnavailable, "table 'feedback' differs"),
        ("PRAGMA user_version = 0", StoreCorrupt, "does not say which layout"),
        ("PRAGMA user_version = -1", StoreCorrupt, "does not say which layout"),
        ("PRAGMA user_version = 999", StoreUnavailable, "newer Memoranda"),
        ("PRAGMA application_id = 1", StoreCorrupt, "not one of Memoranda's"),
    ],
)
def test_a_database_that_no_version_made_is_refused_before_anything_is_written(
    source: Path, tmp_path: Path, statement: str, error: type[MemorandaError], match: str
) -> None:
    change(source, "memoranda.db", lambda raw: raw.execute(statement).fetchall())
    check_refused(source, tmp_path / "to", error, match)


@pytest.mark.parametrize(("name", "check"), [("memoranda.db", check_file), ("memoranda.keys", check_ring_file)])
def test_a_database_with_a_damaged_header_is_refused_and_does_not_open(
    tmp_path: Path, name: str, check: Callable[[Path], None]
) -> None:
    with Memoranda.open(tmp_path) as m:
        m.remember("bob likes tea", scope={"user": "did:example:bob"})
    data = bytearray((tmp_path / name).read_bytes())
    # The number of the file's format, which no SQLite knows.
    data[44:48] = b"\xff" * 4
    (tmp_path / name).write_bytes(data)
    with pytest.raises(StoreCorrupt, match="damaged"):
        check(tmp_path / name)
    with pytest.raises(StoreCorrupt, match="damaged"):
        Memoranda.open(tmp_path)


def test_a_key_ring_that_no_version_made_is_refused(source: Path, tmp_path: Path) -> None:
    keep = TRIGGER.replace("version", "data_key").replace("native", "wrapped")
    change(source, "memoranda.keys", lambda raw: raw.execute(keep).fetchall())
    check_refused(source, tmp_path / "to", StoreCorrupt, "the key ring is not Memoranda's")


def test_a_store_with_a_trigger_does_not_open_and_one_with_another_index_is_not_verified(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as m:
        m.remember("alice likes tea")
    with closing(apsw.Connection(str(tmp_path / "memoranda.db"))) as raw:
        raw.execute("CREATE INDEX extra ON state (kind)")
    with Memoranda.open(tmp_path) as m:
        assert m.verify().database == ("index 'extra' is not Memoranda's",)
    with closing(apsw.Connection(str(tmp_path / "memoranda.db"))) as raw:
        raw.execute(TRIGGER)
    with pytest.raises(StoreCorrupt, match="trigger 'keep'"):
        Memoranda.open(tmp_path)


def test_a_sparse_member_is_refused(source: Path, tmp_path: Path) -> None:
    # As GNU tar writes a file with a hole: an extended header says that it has a tebibyte.
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "memoranda.db"}
    data = b"0\n".ljust(512, b"\0")
    with tarfile.open(source, mode="w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("GNUSparseFile.0/memoranda.db")
        entry.size, entry.pax_headers = len(data), {**headers, "GNU.sparse.realsize": str(2**40)}
        tar.addfile(entry, io.BytesIO(data))
    with tarfile.open(source) as tar:
        (member,) = tar.getmembers()
        assert member.issparse()
    check_refused(source, tmp_path / "to", StoreCorrupt, "not a backup of Memoranda")


@pytest.mark.parametrize("depth", [1, 3_000])
@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.size": "x"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
        {"size": "9" * 30},
        {"comment": "a"},
    ],
)
def test_headers_that_nobody_can_read_are_damage(
    source: Path, tmp_path: Path, headers: dict[str, str], depth: int
) -> None:
    with tarfile.open(source, mode="w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("memoranda.db")
        entry.size, entry.pax_headers = 3, headers
        tar.addfile(entry, io.BytesIO(b"abc"))
    data = source.read_bytes()
    # The extended header is the first two blocks: a reader calls itself for each of them.
    source.write_bytes(data[:1024] * depth + data[1024:])
    check_refused(source, tmp_path / "to", StoreCorrupt, "not a backup of Memoranda")


# --- settings ----------------------------------------------------------------------------------------------------


def test_settings_that_differ_are_applied_only_if_somebody_agrees(source: Path, tmp_path: Path) -> None:
    shown: list[SettingDifference] = []

    def agree(differences: object) -> bool:
        shown.extend(differences)  # type: ignore[arg-type]
        return True

    result = restore(Settings(home=tmp_path / "refused"), source)
    assert result.settings == str(tmp_path / "refused" / "memoranda.toml.restored")
    assert not (tmp_path / "refused" / "memoranda.toml").exists()
    result = restore(Settings(home=tmp_path / "agreed"), source, takes_settings=agree)
    assert result.settings is None
    assert load_settings({}, home=tmp_path / "agreed").port == 9000
    assert [(each.name, each.backup) for each in shown] == [("port", 9000), ("secret_command", "curl evil")]


def test_settings_in_force_stay_when_a_store_is_replaced(source: Path, tmp_path: Path) -> None:
    home = tmp_path / "to"
    Memoranda.open(home).close()
    (home / "memoranda.toml").write_text("port = 7000\n")
    restore(load_settings({}, home=home), source, force=True)
    assert load_settings({}, home=home).port == 7000
    # The same settings are nothing to ask about.
    (home / "memoranda.toml").write_bytes((tmp_path / "from" / "memoranda.toml").read_bytes())
    result = restore(load_settings({}, home=home), source, force=True)
    assert (result.settings, result.differences) == (None, ())


def test_settings_that_nobody_can_read_are_not_applied(tmp_path: Path) -> None:
    Memoranda.open(tmp_path / "from").close()
    (tmp_path / "from" / "memoranda.toml").write_text("flux = 1\n")
    back_up(Settings(home=tmp_path / "from"), tmp_path / "store.backup")
    result = restore(Settings(home=tmp_path / "to"), tmp_path / "store.backup", takes_settings=lambda _: True)
    assert result.settings is not None


def test_the_command_shows_settings_and_asks_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    differences = [SettingDifference("port", 9000, 8420), SettingDifference("embedder_key", "hush", "")]
    assert not backup_command._ask_for_settings(differences)
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert backup_command._ask_for_settings(differences)
    asked = capsys.readouterr().err
    assert "port = 9000, here 8420" in asked
    assert "hush" not in asked


class Terminal(io.StringIO):
    """An input that is a terminal."""

    def isatty(self) -> bool:
        return True
