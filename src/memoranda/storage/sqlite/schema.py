"""The schema of SQLite files, compared with the one that our migrations make.

A file from elsewhere may hold more than tables: a trigger or a view runs its own statements inside ours, and a default
or an expression of an index may, too. So every object is compared by its text, without comments and white space.

Attack that this prevents: a person restores a backup or opens a folder from somebody else, with a trigger that copies
what is written later, or a view in place of a table. Only the exact schema of our migrations is accepted. Indexes and
tables that SQLite makes for itself are left out of the comparison.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from typing import Final, TypeAlias

import apsw

from memoranda.storage.engine.migrations import load_migrations

# The text of each object by type and name, such as ("table", "version").
Schema: TypeAlias = Mapping[tuple[str, str], str]

_OBJECTS: Final = "SELECT type, name, sql FROM sqlite_schema"
# Indexes that SQLite makes for keys have no text. Statistics are tables of SQLite's own.
_OWN: Final = re.compile(r"sqlite_(autoindex_.*|stat[134])")
_PROGRAMS: Final = "SELECT type, name FROM sqlite_schema WHERE type NOT IN ('table', 'index')"
_COMMENT: Final = re.compile(r"--[^\n]*")
_SPACE: Final = re.compile(r"\s+")
_AROUND: Final = re.compile(r" ?([(),]) ?")
# ALTER TABLE … RENAME quotes the name.
_QUOTED: Final = re.compile(r'^(CREATE TABLE )"(\w+)"')


def read_schema(raw: apsw.Connection) -> Schema:
    """Return the schema of a file.

    Names and texts are compared after normalising white space, because ALTER TABLE and earlier releases format them
    differently.
    """
    return {
        (str(kind), str(name)): _normalize(str(sql or ""))
        for kind, name, sql in raw.execute(_OBJECTS)
        if not _OWN.fullmatch(str(name))
    }


def _normalize(sql: str) -> str:
    text = _SPACE.sub(" ", _COMMENT.sub("", sql)).strip()
    return _QUOTED.sub(r"\1\2", _AROUND.sub(r"\1", text))


@cache
def expected_schema(database: str = "sqlite", number: int | None = None) -> Schema:
    """Return the schema that our migrations make, up to a number or all."""
    with closing(apsw.Connection(":memory:")) as raw:
        for migration in load_migrations(database):
            if number is None or migration.number <= number:
                raw.execute(migration.sql)
        return read_schema(raw)


def schema_digest(raw: apsw.Connection) -> bytes:
    """Return a digest of the schema of a file."""
    lines = sorted(f"{kind} {name} {sql}" for (kind, name), sql in read_schema(raw).items())
    return hashlib.sha256("\n".join(lines).encode()).digest()[:16]


def find_differences(
    raw: apsw.Connection, database: str = "sqlite", number: int | None = None
) -> list[str]:
    """Return a sentence for each object of a file that differs from ours; none if the schema is ours."""
    expected, present = expected_schema(database, number), read_schema(raw)
    added = [
        f"{kind} {name!a} is not Memoranda's" for kind, name in present.keys() - expected.keys()
    ]
    missing = [f"{kind} {name!a} is missing" for kind, name in expected.keys() - present.keys()]
    different = [
        f"{kind} {name!a} differs from Memoranda's"
        for kind, name in expected.keys() & present.keys()
        if expected[kind, name] != present[kind, name]
    ]
    return sorted(added) + sorted(missing) + sorted(different)


def find_programs(raw: apsw.Connection) -> list[str]:
    """Return the triggers and views of a file: a store has none."""
    return [f"{kind} {name!a}" for kind, name in raw.execute(_PROGRAMS)]
