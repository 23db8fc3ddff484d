"""Rows, tombstones and audit entries that remain of erased memories do not contain the names of their projects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from memoranda import Memoranda
from memoranda.standards.openwop.entry import Draft
from memoranda.storage.crypto.names import STARTED
from memoranda.storage.engine.moving import TABLES
from tests.postgres import server

NAME = "zebrafinchproject"
GRAIN: dict[str, Any] = {
    "type": "belief",
    "subject": "greenhouse",
    "relation": "has_part",
    "object": "valve",
    "confidence": 0.9,
    "source_type": "user_explicit",
    "namespace": NAME,
}


class Home:
    """A store on one of the databases, opened as people do, and read below all verbs."""

    def __init__(self, address: str | Path, run: Callable[[str], list[Any]]) -> None:
        self.address, self.run = str(address), run

    def open(self) -> Memoranda:
        return Memoranda.open(self.address)

    def values(self) -> Iterator[bytes]:
        """Every value in every row."""
        for table in TABLES:
            if table == "data_key" and "postgres" not in self.address:
                continue  # SQLite has it in the key ring.
            for row in self.run(f"SELECT * FROM {table}"):
                yield from (value.encode() if isinstance(value, str) else bytes(value) for value in _texts(row))

    def count(self, name: str = NAME) -> int:
        return sum(name.encode() in value for value in self.values())


def _texts(row: Any) -> list[Any]:
    return [value for value in row if isinstance(value, str | bytes | memoryview)]


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "off")
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    if request.param == "sqlite":

        def on_sqlite(query: str) -> list[Any]:
            with closing(apsw.Connection(str(tmp_path / "memoranda.db"))) as raw:
                return raw.execute(query).fetchall()

        return Home(tmp_path, on_sqlite)
    address = server().address(server().scratch())

    def on_postgres(query: str) -> list[Any]:
        with psycopg.connect(address, autocommit=True) as raw:
            raw.execute("SET memoranda.system = 'on'")
            cursor = raw.execute(query)
            return cursor.fetchall() if cursor.description else []

    return Home(address, on_postgres)


def fill(m: Memoranda) -> str:
    """Write to a project through three standards; return an id."""
    first = m.remember("Ada drinks tea.", project=NAME)
    revised = m.revise(first.id, "Ada drinks green tea.")
    m.recall("tea", project=NAME)
    m.grains.put(m.grains.with_defaults(GRAIN))
    m.service.openwop.put_entry(m.access, NAME, Draft(content="Bob prefers coffee."))
    return revised.id


def erase(m: Memoranda) -> None:
    for hit in m.list(project=NAME):
        m.forget(hit.id, hard=True, reason="asked to")
    m.service.context.engine.scrub()


@pytest.mark.sqlite
@pytest.mark.requirement("OURS-sealed-names")
def test_an_erased_project_leaves_its_name_nowhere_and_can_still_be_looked_up(home: Home) -> None:
    with home.open() as m:
        other = m.remember("The gate is green.", project="garden")
        name = fill(m)
        assert home.count() > 0
        erase(m)
        assert home.count() == 0
    with home.open() as m:
        # The owner, who has the keys, reads everything as before.
        record = m.get(name)
        assert (record.record["lifecycle"]["status"], record.record["scope"]["project"]) == ("tombstoned", NAME)
        service: Any = m.service
        changes = service.changes(m.access, {"project": NAME}, 0).events
        assert {event.type for event in changes} >= {"tombstoned"}
        assert len(m.ump.audit({"project": NAME, "op": "recall"})) == 1
        assert m.ump.audit_verify().ok
        assert [hit.id for hit in m.list(project="garden")] == [other.id]
        assert service.verify_store().ok
    # A project in use is named by its own rows, as ADR 0007 says, and by no other.
    remains = [row for table in ("audit", "tombstone") for row in home.run(f"SELECT * FROM {table}")]
    assert not any(b"garden" in _joined(row) for row in remains)


def _joined(row: Any) -> bytes:
    return b" ".join(value.encode() if isinstance(value, str) else bytes(value) for value in _texts(row))


@pytest.mark.sqlite
@pytest.mark.requirement("OURS-sealed-names")
def test_names_from_before_an_upgrade_are_encrypted_in_the_background(home: Home) -> None:
    with home.open():
        pass
    # A store that an earlier version may use: until the migration is completed, rows stay readable for it.
    home.run(f"DELETE FROM meta WHERE name = '{STARTED}'")
    with home.open() as m:
        name = fill(m)
        erase(m)
        assert home.count() > 0
        assert not m.service.context.engine.seal_names()
        empty = "''" if "postgres" in home.address else "x''"
        home.run(f"INSERT INTO meta (name, value) VALUES ('{STARTED}', {empty})")
        while m.service.context.engine.seal_names():
            pass
        assert home.count() == 0
        assert m.ump.audit_verify().ok
        assert m.get(name).record["scope"]["project"] == NAME
        assert not m.service.context.engine.seal_names()
