"""A store is moved to PostgreSQL and back as it is, and goes on where it was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from memoranda.backup import move_store
from memoranda.errors import StoreUnavailable
from memoranda.opening import open_service
from memoranda.service.service import Service
from memoranda.settings import Settings, load_settings
from memoranda.standards.ump.requests import RecallRequest
from memoranda.storage.engine.database import Row
from memoranda.storage.engine.moving import TABLES
from memoranda.storage.postgres.moving import PostgresTables
from tests.commands import command
from tests.postgres import server


def settings(home: Path, store: str) -> Settings:
    return load_settings({"MEMORANDA_EMBEDDER": "off"}, home=home, store=store)


def fill(service: Service) -> None:
    me = service.gate.local()
    for number in range(40):
        scope = {"owner": me.default_tenant, "project": f"p{number % 3}", **({"user": "ada"} if number % 2 else {})}
        provenance = {"actor": me.default_tenant, "actor_kind": "user", "method": "test"}
        draft = {"kind": "semantic", "body": {"text": f"the crane lifts {number} tons"}, "scope": scope}
        service.remember(me, {**draft, "provenance": provenance})
    service.gate.add_key("k", tenant=me.default_tenant, scopes=("read",))


def answers(service: Service) -> list[str]:
    found = service.recall(service.gate.local(), RecallRequest.parse({"query": "crane 7 tons", "limit": 9}))
    return [each.record["id"] for each in found]


def test_a_store_moves_to_postgresql_and_back_row_by_row(tmp_path: Path) -> None:
    first, last = f"sqlite:///{tmp_path}/memoranda.db", f"sqlite:///{tmp_path}/back/memoranda.db"
    (tmp_path / "back").mkdir()
    service = open_service(settings(tmp_path, first))
    fill(service)
    before = answers(service)
    service.close()
    with server().database() as address:
        assert command("--data", str(tmp_path), "--json", "migrate-store", first, address).code == 0
        service = open_service(settings(tmp_path, address))
        assert answers(service) == before
        assert service.verify_store().ok
        fill(service)
        after = answers(service)
        service.close()
        # There is one now.
        with pytest.raises(StoreUnavailable, match="already"):
            move_store(first, address)
        move_store(address, last)
    service = open_service(settings(tmp_path, last))
    assert answers(service) == after
    assert service.verify_store().ok
    service.close()


class Interrupted(PostgresTables):
    """Fails after some rows of one table."""

    def add(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if table == "facet":
            super().add(table, columns, rows[:7])
            raise KeyboardInterrupt
        super().add(table, columns, rows)


def test_who_is_interrupted_goes_on_and_nobody_opens_what_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = f"sqlite:///{tmp_path}/memoranda.db"
    service = open_service(settings(tmp_path, first))
    fill(service)
    before = answers(service)
    service.close()
    with server().database() as address:
        with monkeypatch.context() as patched:
            patched.setattr("memoranda.storage.postgres.moving.PostgresTables", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                move_store(first, address)
        with pytest.raises(StoreUnavailable, match="store is incomplete"):
            open_service(settings(tmp_path, address))
        move_store(first, address)
        service = open_service(settings(tmp_path, address))
        assert answers(service) == before
        service.close()


def test_every_table_is_moved(tmp_path: Path) -> None:
    open_service(settings(tmp_path, "")).close()
    raw = apsw.Connection(str(tmp_path / "memoranda.db"))
    there = {name for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    raw.close()
    assert there | {"data_key"} == TABLES.keys()
