"""Numbered migrations: the steps that bring the tables of a store from one layout to the next.

A migration is a file `sql/<database>/migrations/NNNN_name.sql`. SQLite and PostgreSQL share the numbers; a migration
that one of them does not need has no file there. The number of a store is that of its last completed migration. A file
is never changed once it was released, because stores were made with it (`tests/storage/test_migrations.py`).

The first line of a file may name its kind (`-- kind: fill`):

    expand     adds tables, columns or indexes that the version before ignores; runs when a store is opened
    fill       one statement that changes some rows, and is repeated until it changes none
    index      on PostgreSQL, statements outside a transaction (CREATE INDEX CONCURRENTLY)
    contract   removes what only the version before needs

On PostgreSQL, migrations behind the last `expand` run in the background of a server, and a `contract` waits until no
node of an older version is connected: so the old and the new version serve side by side. On SQLite, where one version
opens a file at a time, all run when a store is opened. Docs: adr/0023-migrations.md, howto/add-a-migration.md.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final, Literal, cast, get_args

import msgspec

from memoranda.build import version_and_build

Kind = Literal["expand", "fill", "index", "contract"]

FOLDER: Path = Path(__file__).parent.with_name("sql")
_COMMENT: Final = re.compile(r"--[^\n]*")
_KIND: Final = re.compile(r"-- kind: (\w+)\n")


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """A numbered step between two layouts."""

    number: int
    name: str
    kind: Kind
    sql: str


class Predecessor(msgspec.Struct, frozen=True, kw_only=True):
    """A layout before the first numbered one, and the statements that lead from it to the next."""

    layout: bytes
    sql: str


@cache
def load_migrations(database: str) -> tuple[Migration, ...]:
    """Return the migrations of a database in the order of their numbers.

    The result is cached for the process: migration files are part of the package and do not change while it runs.
    """
    paths = sorted((FOLDER / database / "migrations").glob("*.sql"))
    return tuple(_parse_file(path) for path in paths)


def _parse_file(path: Path) -> Migration:
    sql = path.read_text(encoding="utf-8")
    heading = _KIND.match(sql)
    kind = heading[1] if heading else "expand"
    if kind not in get_args(Kind):
        raise ValueError(f"{path.name}: {kind!r} is not a kind of migration")
    number, _, name = path.stem.partition("_")
    return Migration(number=int(number), name=name, kind=cast("Kind", kind), sql=sql)


@cache
def load_predecessors(database: str) -> tuple[Predecessor, ...]:
    """Return the layouts before migration 1, oldest first.

    The file names hold the digest of each layout: of its schema on SQLite, of its migrations on PostgreSQL.
    """
    paths = sorted((FOLDER / database / "migrations" / "before").glob("*.sql"))
    return tuple(
        Predecessor(
            layout=bytes.fromhex(path.stem.partition("_")[2]), sql=path.read_text(encoding="utf-8")
        )
        for path in paths
    )


@cache
def newest_number(database: str) -> int:
    """Return the number of a store of this version when all migrations are completed."""
    return load_migrations(database)[-1].number


@cache
def required_number(database: str) -> int:
    """Return the number that a store must have before this version can use it: that of the last `expand`."""
    numbers = [
        migration.number for migration in load_migrations(database) if migration.kind == "expand"
    ]
    return numbers[-1]


def pending_migrations(database: str, number: int) -> list[Migration]:
    """Return the migrations that a store with a number has not completed."""
    return [migration for migration in load_migrations(database) if migration.number > number]


def write_version() -> bytes:
    """Return the version and build as a store names the one that made or upgraded it."""
    return version_and_build().encode()


def refusal_of_newer(number: int, newest: int, version: bytes | None) -> str:
    """Return the message for a store with a number that this version does not know."""
    name = "" if version is None else f" {version.decode(errors='replace')[:80]}"
    return (
        f"this store was written by a newer Memoranda{name} (layout {number}, ours is {newest}): "
        "install that version, or restore a backup from before the upgrade"
    )


@cache
def layout(database: str, newest: int | None = None) -> bytes:
    """Return a digest of the migrations up to `newest`, or of all, without comments.

    It differs if the tables of two builds do.

    Two builds with the same digest have the same tables, so either can open the other's store. Comments do not count,
    so rewording one is safe.
    """
    statements = "\n".join(
        migration.sql
        for migration in load_migrations(database)
        if newest is None or migration.number <= newest
    )
    return hashlib.sha256(" ".join(_COMMENT.sub("", statements).split()).encode()).digest()[:16]
