"""SQLite's locks on files, and how this process keeps them.

POSIX drops all locks that a process has on a file as soon as the process closes any descriptor of that file. Without
them another program takes a database for one that nobody uses, and deletes its log under us. So only SQLite may open a
database that is open in this process; whoever opens a file that a person named asks here first.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

# Which files SQLite locks: a database, and the index of its log.
_LOCKED_ENDINGS: Final = ("", "-shm")


def is_open_here(path: str | os.PathLike[str], *, within: int | None = None) -> bool:
    """Return True if SQLite has this file open in this process; `within` is the open folder that the path starts in."""
    # To load SQLite takes longer than most commands, and a process that has not loaded it has no database open.
    apsw: Any = sys.modules.get("apsw")
    if apsw is None:
        return False
    try:
        status = os.stat(path, dir_fd=within)
    except OSError:
        return False
    # Each connection of ours is a `FileConnection`. SQLite itself tells its file only to the thread that uses it.
    databases = {getattr(connection, "path", None) for connection in apsw.connections()} - {None}
    return any(
        _is_file(f"{database}{ending}", status)
        for database in databases
        for ending in _LOCKED_ENDINGS
    )


def _is_file(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)  # noqa: PTH116 - a path as SQLite knows it
    except OSError:
        return False
