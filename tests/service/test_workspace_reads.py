"""A workspace file is read, listed and written without reading the others."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

from memoranda import Memoranda
from tests.postgres import server
from tests.waiting import until

LARGE_BYTES = 500_000
# Blocks of values that PostgreSQL stores outside of their rows, from its cache or from the disk.
VALUE_BLOCKS = "SELECT toast_blks_hit + toast_blks_read FROM pg_statio_user_tables WHERE relname = 'item'"
# A connection counts its reads when it ends.
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def pages_read(act: Callable[[], object]) -> int:
    """Return how many pages of the database SQLite looks at, from its cache or from the file."""
    counters = (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS)

    def total() -> int:
        connections = apsw.connections()
        return sum(connection.status(counter)[0] for connection in connections for counter in counters)

    act()
    before = total()
    act()
    return total() - before


@pytest.mark.sqlite
def test_a_small_file_is_read_listed_and_written_without_the_large_ones(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home", owner="did:example:ada") as m:
        workspace = m.service.openwop
        acts: dict[str, Callable[[], object]] = {
            "read": lambda: workspace.file(m.access, "m/small.md"),
            "list": lambda: workspace.files(m.access),
            "write": lambda: workspace.write_file(m.access, "m/small.md", "abcd"),
            "memory": lambda: m.recall("anything"),
        }
        workspace.write_file(m.access, "m/small.md", "abcd")
        alone = {name: pages_read(act) for name, act in acts.items()}
        for number in range(10):
            for side in ("a", "z"):
                workspace.write_file(m.access, f"{side}/{number}.md", secrets.token_hex(LARGE_BYTES // 2))
        beside = {name: pages_read(act) for name, act in acts.items()}
        # One large file has over a hundred pages; the names of all have a few.
        assert all(beside[name] - alone[name] < 60 for name in acts), (alone, beside)
        assert len(workspace.file(m.access, "a/3.md")["content"]) == LARGE_BYTES
        assert pages_read(lambda: workspace.file(m.access, "a/3.md")) > 100


def test_on_postgresql_values_of_other_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path / "home"))
    acts: dict[str, Callable[[Memoranda], object]] = {
        "read": lambda m: m.service.openwop.file(m.access, "m/small.md"),
        "list": lambda m: m.service.openwop.files(m.access),
        "write": lambda m: m.service.openwop.write_file(m.access, "m/small.md", "abcd"),
        "memory": lambda m: m.recall("anything"),
        "large": lambda m: m.service.openwop.file(m.access, "a/3.md"),
    }
    with server().database() as address, closing(psycopg.connect(address, autocommit=True)) as raw:

        def value_blocks() -> int:
            until(lambda: raw.execute(OTHERS).fetchone() == (0,))
            (blocks,) = raw.execute(VALUE_BLOCKS).fetchone() or (0,)
            return int(blocks)

        with Memoranda.open(address, owner="did:example:ada") as m:
            m.service.openwop.write_file(m.access, "m/small.md", "abcd")
            for number in range(10):
                for side in ("a", "z"):
                    text = secrets.token_hex(LARGE_BYTES // 2)
                    m.service.openwop.write_file(m.access, f"{side}/{number}.md", text)
        read = {}
        for name, act in acts.items():
            before = value_blocks()
            with Memoranda.open(address, owner="did:example:ada") as m:
                act(m)
            read[name] = value_blocks() - before
    assert read.pop("large") > 50
    assert all(blocks < 10 for blocks in read.values()), read
