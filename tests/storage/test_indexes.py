"""Every index is paid for by every write: none is there that nothing reads."""

from __future__ import annotations

import inspect
import re

import apsw

from memoranda.storage.engine import selection
from memoranda.storage.engine.database import load_queries
from memoranda.storage.engine.migrations import load_migrations


def test_every_index_is_read_by_a_query_or_named_by_a_selection() -> None:
    database = apsw.Connection(":memory:")
    for migration in load_migrations("sqlite"):
        database.execute(migration.sql)
    plans = [
        step
        for query in load_queries("sqlite").values()
        for _, _, _, step in database.execute(
            f"EXPLAIN QUERY PLAN {query}", dict.fromkeys(re.findall(r":([a-z_]+)", query))
        )
    ]
    read = {index for step in plans for index in re.findall(r"INDEX (\w+)", step)}
    read |= set(re.findall(r'"((?:state|triple|field)_\w+)"', inspect.getsource(selection)))
    indexes = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert {name for name in indexes if not name.startswith("sqlite_autoindex")} - read == set()
