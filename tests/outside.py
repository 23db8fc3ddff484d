"""Another program on the files of a store: it shares no SQLite with the process that has the store open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Final

# Where the command is missing: the same questions with the SQLite that Python brings, which is not ours either.
_SQLITE: Final = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
for row in connection.execute(sys.argv[2]):
    print(*row, sep="|")
connection.close()
"""
_EMPTY: Final = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(60_000)
while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
    pass
connection.close()
"""
# The lock of another process in a range of bytes: its kind and its process, as struct flock has them on Linux.
_LOCKS: Final = """
import fcntl, os, struct, sys
form, (path, first, count) = "hhqqi", (sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
descriptor = os.open(path, os.O_RDWR)
asked = struct.pack(form, fcntl.F_WRLCK, os.SEEK_SET, first, count, 0)
kind, _, _, _, process = struct.unpack(form, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
print(0 if kind == fcntl.F_UNLCK else process)
"""
# sqlite3.h has no names for these: where SQLite locks a database that is read, and the index of its log that is open.
_SHARED_BYTES: Final = (0x40000002, 510)
_INDEX_BYTES: Final = (128, 1)


def query(database: Path, sql: str) -> str:
    """Read with one query, as `sqlite3 FILE SQL` does, and return what it prints."""
    command = [which("sqlite3") or "", "-batch", str(database), sql]
    if not command[0]:
        command = [sys.executable, "-IS", "-c", _SQLITE, str(database), sql]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def empty_log(database: Path) -> None:
    """Copy the log into the database and cut it, as a server does after an erasure; with our SQLite, not the system's.

    Versions of SQLite before 3.51.3 can damage a log that two processes write to.
    """
    subprocess.run([sys.executable, "-c", _EMPTY, str(database)], check=True)


def lock_holders(database: Path) -> tuple[int, int]:
    """Return the processes that keep others from removing a database's log, and its index; 0 is none."""
    index = database.with_name(f"{database.name}-shm")
    return _holder(database, _SHARED_BYTES), _holder(index, _INDEX_BYTES)


def _holder(path: Path, where: tuple[int, int]) -> int:
    command = [sys.executable, "-IS", "-c", _LOCKS, str(path), *map(str, where)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
