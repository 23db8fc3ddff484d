"""A workspace file is read, listed and written without reading the others."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memoranda import Memoranda

LARGE_BYTES = 500_000


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
        assert all(beside[name] - alone[name] < 30 for name in acts), (alone, beside)
        assert len(workspace.file(m.access, "a/3.md")["content"]) == LARGE_BYTES
        assert pages_read(lambda: workspace.file(m.access, "a/3.md")) > 100
