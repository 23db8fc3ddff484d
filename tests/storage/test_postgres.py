"""PostgreSQL keeps the contract, and what only a server can get wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memoranda.storage.engine import Engine
from memoranda.storage.postgres import PostgresDatabase
from memoranda.storage.sql_engine import SqlEngine
from tests.postgres import server
from tests.storage.contract import EngineContract, seal
from tests.storage.contract_background import BackgroundContract
from tests.storage.contract_facts import FactsContract
from tests.storage.contract_lists import ListsContract


@pytest.fixture
def address() -> Iterator[str]:
    with server().database() as found:
        yield found


class TestPostgres(EngineContract, ListsContract, FactsContract, BackgroundContract):
    @pytest.fixture
    def engine(self, address: str) -> Iterator[Engine]:
        engine = SqlEngine(PostgresDatabase(address), seal)
        yield engine
        engine.close()
