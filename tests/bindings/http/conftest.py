from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tests.bindings.http.running import OWNER, Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for the tests of a file, with its own store."""
    with running(tmp_path_factory.mktemp("store") / "home", heartbeat_seconds=0.2) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[httpx.Client]:
    """A client with an API key of the test owner."""
    with server.client(server.key(OWNER)) as each:
        yield each
