"""Which database the stores of tests are in: SQLite, or PostgreSQL (MEMORANDA_TEST_STORE=postgres), which compares
vectors itself with MEMORANDA_TEST_STORE=pgvector.

On PostgreSQL every file, and every store in memory, is a database of its own; keys and whatever else lies in a data
directory stay there. Processes that a test starts are not reached by this.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from memoranda import stores
from memoranda.storage.engine.database import Database
from memoranda.storage.sqlite.database import SqliteDatabase

WITH_PGVECTOR: Final = os.environ.get("MEMORANDA_TEST_STORE") == "pgvector"
ON_POSTGRES: Final = WITH_PGVECTOR or os.environ.get("MEMORANDA_TEST_STORE") == "postgres"


def open_store(path: Path | None, **options: Any) -> Database:
    """The store of a file, or one in memory."""
    if not ON_POSTGRES:
        return SqliteDatabase(path, **options)
    from tests.postgres import server

    # Databases of tests have the layout of this version, so none is upgraded.
    options.pop("before_upgrade", None)
    return server().store(path, **options, has_clear_vectors=WITH_PGVECTOR)


def install() -> None:
    """Let everything that is opened by settings be there, too."""
    if ON_POSTGRES:
        stores.__dict__["SqliteDatabase"] = open_store


def release(folder: Path) -> None:
    """What was below a folder is needed no more."""
    if ON_POSTGRES:
        from tests.postgres import server

        server().release(folder)
