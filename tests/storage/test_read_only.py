"""A store on a disk that cannot be written, or with files that are not ours to change, is read as ever."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from memoranda.app import Memoranda
from memoranda.cli import main
from memoranda.errors import StoreUnavailable
from memoranda.storage.sqlite.database import SqliteDatabase
from tests.forking import Forked

NOBODY = 65_534


@contextmanager
def somebody_else() -> Iterator[None]:
    """Root may write anything: then act as somebody who may not."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def home() -> Iterator[Path]:
    """A store whose files and folder may only be read."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        with Memoranda.open(home) as memoranda:
            memoranda.remember("the kettle is blue")
            memoranda.remember("alice likes tea", user="alice")
            # Somebody else may not be allowed to load what Python loads when it is first needed.
            memoranda.recall("kettle")
            memoranda.service.verify_store()
        for command in (["recall", "kettle"], ["remember", "something that is there before"]):
            assert main(["--data", str(home), *command]) == 0
        if not os.geteuid():
            os.chown(folder, NOBODY, NOBODY)
            for path in (home, *home.iterdir()):
                os.chown(path, NOBODY, NOBODY)
        for path in home.iterdir():
            path.chmod(0o400)
        home.chmod(0o500)
        yield home
        home.chmod(0o700)


def test_what_cannot_be_written_is_read(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with somebody_else(), Memoranda.open(home) as memoranda:
        found = memoranda.recall("kettle")
        assert found[0].record["body"]["text"] == "the kettle is blue"
        assert memoranda.recall("alice tea")[0].record["body"]["text"] == "alice likes tea"
        with pytest.raises(StoreUnavailable, match="read-only"):
            memoranda.remember("something new")
        memoranda.service.check_ready()
        assert memoranda.service.verify_store().ok
    # Not in silence.
    assert "reads are not put on record" in caplog.text


def test_commands_that_read_work_and_others_say_why_not(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with somebody_else():
        assert main(["--data", str(home), "recall", "kettle"]) == 0
        assert "blue" in capsys.readouterr().out
        assert main(["--data", str(home), "remember", "x"]) == 1
        said = capsys.readouterr().err
    assert "is read-only" in said
    assert "Error" not in said


def test_reads_that_cannot_be_recorded_are_refused_where_that_was_chosen(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORANDA_AUDIT_UNWRITABLE", "refuse")
    with (
        somebody_else(),
        Memoranda.open(home) as memoranda,
        pytest.raises(StoreUnavailable, match="cannot be recorded"),
    ):
        memoranda.recall("kettle")


_OWNER = """
import sys
from pathlib import Path
from memoranda.storage.sqlite.database import SqliteDatabase
database = SqliteDatabase(Path(sys.argv[1]))
database.scrub(1.0)
print("empty", flush=True)
sys.stdin.readline()
database.write(lambda connection: connection.execute("meta_put", {"name": "n", "value": b"new"}))
print("written", flush=True)
sys.stdin.readline()
"""


def test_who_may_only_read_sees_what_the_owner_writes_though_the_log_was_empty(home: Path) -> None:
    path = home / "memoranda.db"
    home.chmod(0o700)
    path.chmod(0o600)
    pipe = subprocess.PIPE
    with Forked([sys.executable, "-c", _OWNER, path], stdin=pipe, stdout=pipe) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"empty\n"
        for each in home.iterdir():
            each.chmod(0o400)
            if not os.geteuid():
                os.chown(each, NOBODY, NOBODY)
        home.chmod(0o500)
        with somebody_else(), closing(SqliteDatabase(path)) as database:
            assert database.is_read_only
            assert value_of(database, "n") is None
            owner.stdin.write(b"\n")
            owner.stdin.flush()
            assert owner.stdout.readline() == b"written\n"
            assert value_of(database, "n") == (b"new",)


def value_of(database: SqliteDatabase, name: str) -> object:
    with database.open_snapshot() as connection:
        return connection.query_one("meta_get", {"name": name})
