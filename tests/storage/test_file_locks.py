"""A process keeps SQLite's locks on its files, whatever else it does with them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from memoranda.app import Memoranda
from memoranda.backup import back_up
from memoranda.bindings.files.exchange import export_file
from memoranda.errors import InvalidInput
from memoranda.settings import load_settings
from memoranda.storage.sqlite.copying import copy_database, writers_kept_out
from memoranda.storage.sqlite.database import SqliteDatabase
from memoranda.storage.sqlite.keys import SqliteKeyRing
from tests.forking import Forked
from tests.outside import lock_holders


@pytest.fixture
def mine() -> tuple[int, int]:
    return os.getpid(), os.getpid()


def test_more_connections_to_a_store_leave_its_locks_alone(tmp_path: Path, mine: tuple[int, int]) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteDatabase(path)) as database:
        assert lock_holders(path) == mine
        with ExitStack() as reads:
            for _ in range(3):
                reads.enter_context(database.open_snapshot())
            assert lock_holders(path) == mine
        with closing(SqliteDatabase(path)):
            assert lock_holders(path) == mine
        assert lock_holders(path) == mine


def test_a_second_key_ring_leaves_the_locks_of_the_first_alone(tmp_path: Path, mine: tuple[int, int]) -> None:
    path = tmp_path / "ring.db"
    with closing(SqliteKeyRing(path)):
        assert lock_holders(path) == mine
        SqliteKeyRing(path).close()
        assert lock_holders(path) == mine


def test_a_copy_of_a_store_leaves_its_locks_alone(tmp_path: Path, mine: tuple[int, int]) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteDatabase(path)):
        with writers_kept_out(path):
            copy_database(path, tmp_path / "copy.db")
        assert lock_holders(path) == mine


def test_a_file_that_a_link_names_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    path, target = tmp_path / "link.db", tmp_path / "target.db"
    path.symlink_to(target)
    SqliteKeyRing(path).close()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["memoranda.db", "memoranda.db-shm", "memoranda.keys"])
def test_the_database_of_a_store_in_use_is_neither_imported_nor_written_over(
    tmp_path: Path, mine: tuple[int, int], name: str
) -> None:
    path = tmp_path / name
    with Memoranda.open(tmp_path) as memoranda:
        memoranda.remember("the kettle is blue")
        before = path.stat().st_ino
        with pytest.raises(InvalidInput, match="the database of the store in use"):
            memoranda.import_files(path)
        with pytest.raises(InvalidInput, match="the database of the store in use"):
            export_file(memoranda.export(), str(path), "ndjson")
        assert path.stat().st_ino == before
        for database in (tmp_path / "memoranda.db", tmp_path / "memoranda.keys"):
            assert lock_holders(database) == mine
        assert memoranda.recall("kettle")


def test_a_backup_is_not_written_over_the_store(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as memoranda:
        memoranda.remember("the kettle is blue")
    for path in (each for each in tmp_path.iterdir() if each.is_file() and not each.name.endswith("-heads")):
        with pytest.raises(InvalidInput, match="is a part of the store"):
            back_up(load_settings({}, home=tmp_path), path)


def test_no_command_opens_a_database_but_through_sqlite(tmp_path: Path) -> None:
    run = [sys.executable, "-c", _WATCHED, str(tmp_path / "home"), str(tmp_path)]
    with Forked(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        out, _ = process.communicate()
    # The last line: commands print before it.
    assert json.loads(out.splitlines()[-1]) == {"codes": [0] * 13 + [1], "opened": []}


_WATCHED = """
import json, os, sys
from memoranda.cli import main
home, folder = sys.argv[1:]
names = {f"{name}{ending}" for name in ("memoranda.db", "memoranda.keys") for ending in ("", "-shm")}
opened = []

def watch(event, arguments):
    # To create a file exclusively never opens one that is there.
    if event == "open" and isinstance(arguments[0], (str, bytes)) and not arguments[2] & os.O_EXCL:
        path = os.path.realpath(os.fsdecode(arguments[0]))
        # A backup has copies of the same names, in a folder of its own.
        if os.path.basename(path) in names and os.path.dirname(path) == home and os.path.exists(path):
            opened.append(path)

sys.addaudithook(watch)
commands = [
    ["remember", "the kettle is blue", "--user", "alice"],
    ["remember", "the pan is red"],
    ["recall", "kettle"],
    ["list"],
    ["stats"],
    ["key", "add", "other"],
    ["console"],
    ["doctor"],
    ["verify"],
    ["reindex"],
    ["export", f"{folder}/all.mg"],
    ["backup", f"{folder}/backup"],
    ["migrate-store", f"sqlite:///{home}/memoranda.db", f"sqlite:///{folder}/moved.db"],
    ["import", f"{home}/memoranda.db"],
]
codes = [main(["--data", home, *tokens]) for tokens in commands]
print(json.dumps({"codes": codes, "opened": opened}))
"""


def test_a_forked_process_is_refused_the_store_of_its_parent_and_takes_nothing_from_it(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with Forked([sys.executable, "-c", _PARENT, tmp_path], stdin=pipe, stdout=pipe) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        refusals = [parent.stdout.readline() for _ in range(4)]
        assert all(b"open it again in this process" in each for each in refusals), refusals
        assert parent.stdout.readline() == b"child ended with 0\n"
        for name in ("memoranda.db", "memoranda.keys"):
            assert lock_holders(tmp_path / name) == (parent.pid, parent.pid)
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == b"2 found\n"


_PARENT = """
import os, sys, warnings
from memoranda.app import Memoranda
from memoranda.errors import StoreUnavailable

memoranda = Memoranda.open(sys.argv[1])
memoranda.remember("the kettle is blue", user="alice")
engine = memoranda.service.context.engine
# Threads are what it is about.
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
if child == 0:
    calls = lambda: memoranda.remember("a pan"), lambda: memoranda.recall("kettle")
    for act in (*calls, engine.flush, engine.read_change_token):
        try:
            act()
        except StoreUnavailable as error:
            print(error, flush=True)
    # As at the end of any program, and by hand.
    memoranda.close()
    sys.exit(0)
_, status = os.waitpid(child, 0)
print("child ended with", os.waitstatus_to_exitcode(status), flush=True)
sys.stdin.readline()
memoranda.remember("the kettle is old", user="alice")
print(len(memoranda.recall("kettle")), "found", flush=True)
"""
